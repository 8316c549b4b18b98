"""Implement `kapitza models`.

It lists the systems of the literature, or shows one of them in detail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples, table

if TYPE_CHECKING:
    from kapitza.model import Model

EXAMPLES = examples(
    "kapitza models",
    "kapitza models parametric_pendulum",
    "kapitza models my_rig.toml",
)


def named_model(name: str) -> Model:
    """Return a model by library name or file."""
    from kapitza.library import model_named
    from kapitza.model import read_model

    return read_model(name) if name.endswith(".toml") else model_named(name)


def models(
    name: Annotated[
        str | None, typer.Argument(help="Model or .toml file to show in detail; all are listed without it.")
    ] = None,
) -> None:
    """List the models of the library.

    With a name, show one: equation, parameters, units, source.
    """
    show_model(name) if name else list_models()


models.__doc__ = (models.__doc__ or "") + EXAMPLES


def list_models() -> None:
    from kapitza.library import SYSTEMS

    console = answers()
    listing = table("model", "states", "period", "what it is")
    for make in SYSTEMS:
        model = make()
        listing.add_row(
            Text(make.__name__, style="bold"),
            Text(", ".join(model.states)),
            Text(excitation_text(model)),
            Text(model.description),
        )
    console.print(listing)
    console.print(Text("\nShow one: kapitza models NAME. Run one: kapitza simulate NAME --out run.csv", style="dim"))


def excitation_text(model: Model) -> str:
    if model.is_map:
        return "map"
    return "none" if model.period is None else f"{model.period:.4g} s"


def equation_text(model: Model) -> str:
    """Return the equation of a model as text.

    The docstring of the library function shows it, else plain notation.
    """
    import inspect

    from kapitza.library import SYSTEMS

    make = {each.__name__: each for each in SYSTEMS}.get(model.name)
    if make is not None:
        return inspect.getdoc(make) or ""
    arrow = " -> " if model.is_map else ": 0 = "
    return "\n".join(f"{c.name}{arrow}{e}" for c, e in zip(model.coordinates, model.equations, strict=True))


def show_model(name: str) -> None:
    model = named_model(name)
    console = answers()
    console.print(Text(model.name, style="bold"))
    console.print(Text(equation_text(model)))
    listing = table("parameter", "value", "unit", "meaning", title="", right=("value",))
    for parameter in model.parameters:
        value = model.values[parameter.name]
        meaning = parameter.description
        if parameter.expression is not None:
            meaning = f"{meaning} (= {parameter.expression})".strip()
        listing.add_row(Text(parameter.name, style="bold"), f"{value:.8g}", Text(parameter.unit), Text(meaning))
    console.print()
    console.print(listing)
    start = ", ".join(f"{state} = {value:g}" for state, value in model.start.items())
    console.print(Text(f"\nStates: {', '.join(model.states)}. Excitation period: {excitation_text(model)}."))
    if start:
        console.print(Text(f"Simulations start at {start}."))
    if model.source:
        console.print(Text(f"Source: {model.source}."))
