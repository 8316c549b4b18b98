"""Implement `kapitza exponents`.

It prints Lyapunov exponents of a model, or draws a chart of them over parameters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.base.csv_tables import write_table
from kapitza.cli.console import answers, examples, show_error, show_json
from kapitza.cli.models import named_model
from kapitza.cli.simulate import STOPPED, assignments, initial_state
from kapitza.errors import KapitzaError, Status


def exponents_command(
    model: Annotated[str, typer.Argument(help="Name from `kapitza models`, or a .toml file of your own.")],
    vary: Annotated[
        list[str] | None, typer.Option(help="Parameter to vary, NAME=LOW:HIGH; give one for curves, two for a chart.")
    ] = None,
    grid: Annotated[int, typer.Option(help="Values of each varied parameter.")] = 50,
    length: Annotated[float | None, typer.Option(help="Time to average over (iterations of a map).")] = None,
    transient: Annotated[float | None, typer.Option(help="Time to leave out before.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter value, NAME=VALUE; repeatable.")] = None,
    start: Annotated[list[str] | None, typer.Option(help="Initial state, NAME=VALUE; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the exponents into this .csv file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them into this .png or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The exponents as JSON on standard output.")] = False,
) -> None:
    """Compute Lyapunov exponents of a model.

    They have standard errors; over one or two parameters they are curves or a chart.
    """
    from kapitza import exponents

    chosen = named_model(model).with_values(**assignments(set_, "--set"))
    x0 = initial_state(chosen, assignments(start, "--start"))
    found = exponents(
        chosen, plane=ranges(vary), grid=grid, start=x0, length=length, transient=transient
    )  # fmt: skip
    if as_json:
        rows = json.loads(found.table().reset_index().to_json(orient="records"))
        show_json({"exponents": rows, "per": found.per, "length": found.length, "status": found.status.name})
    else:
        answers().print(Text(repr(found)))
    if out is not None:
        write_table(found.table().reset_index(), out)
    if plot is not None:
        found.plot(plot)
    if found.status is Status.INTERRUPTED:
        show_error("Stopped; what was not followed has no value.")
        raise typer.Exit(STOPPED)


def ranges(given: Sequence[str] | None) -> dict[str, tuple[float, float]] | None:
    """'F=0.9:1.5' as {"F": (0.9, 1.5)}."""
    found = {}
    for text in given or ():
        name, _, limits = text.partition("=")
        try:
            low, high = (float(part) for part in limits.split(":"))
        except ValueError:
            raise KapitzaError(
                f'--vary takes NAME=LOW:HIGH with numbers, such as --vary F=0.9:1.5, not "{text}".'
            ) from None
        found[name.strip()] = (low, high)
    return found or None


exponents_command.__doc__ = (exponents_command.__doc__ or "") + examples(
    "kapitza exponents lorenz",
    "kapitza exponents duffing --set B=7.5 --length 5000",
    "kapitza exponents duffing --vary k=0.02:0.3 --vary B=0.1:12 --grid 100 --plot chart.png",
)
