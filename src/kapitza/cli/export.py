"""Implement `kapitza export`.

It writes a model or a fit as a file for another program.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.fits import Name, chosen_fit, estimate_of
from kapitza.cli.models import named_model
from kapitza.cli.simulate import assignments

if TYPE_CHECKING:
    from kapitza.estimate import Estimate
    from kapitza.model import Model
    from kapitza.study import StudyFit

EXAMPLES = examples(
    "kapitza export run.toml --out rig.fmu",
    "kapitza export run-results --fit duffing --out rig.c",
    "kapitza export colliding_cart --set k=25 --out cart.m",
    "kapitza export my_rig.toml --kind casadi --out rig.py",
)


def export_command(
    source: Annotated[
        str,
        typer.Argument(help="Study that was run, results folder, saved fit (.nc), model file or model of the library."),
    ],
    out: Annotated[Path, typer.Option(help="File to write: .m .c .mo .jl .py .fmu")],
    kind: Annotated[str | None, typer.Option(help='"casadi" for a .py file of CasADi functions.')] = None,
    fmi: Annotated[str, typer.Option(help="Version of FMI of a unit: 2.0 or 3.0.")] = "2.0",
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter value, NAME=VALUE; repeatable.")] = None,
    name: Name = None,
) -> None:
    """Write a fitted model for another program.

    The program is MATLAB, C, Modelica, Julia, SciPy, CasADi or FMI. The suffix decides the format.
    """
    from kapitza.estimate import Estimate
    from kapitza.exports import export, fitted_model

    found = exported_source(source, name)
    changes = assignments(set_, "--set")
    if changes:
        model = fitted_model(found) if isinstance(found, Estimate) else found
        found = model.with_values(**changes)
    written = export(found, out, kind=kind, fmi=fmi)
    others = ", ".join(p.name for p in written.beside)
    answers().print(Text(f"Written to {written.path}; beside it {others}."))


export_command.__doc__ = (export_command.__doc__ or "") + EXAMPLES


def exported_source(source: str, name: str | None) -> Model | Estimate:
    """Return the fit or model to export.

    It is the fit of a study, results folder or saved file, or a model by its file or name.
    """
    path = Path(source)
    if path.is_dir() or path.suffix.lower() == ".nc" or (path.suffix.lower() == ".toml" and is_study(path)):
        return _with_motion(chosen_fit(path, name))
    return named_model(source)


def _with_motion(fit: StudyFit | Estimate) -> Estimate:
    """Return the estimate with the motion along the data, whose start is exported, where one was followed."""
    from kapitza.estimate import Estimate

    estimate = estimate_of(fit)
    moving = None if isinstance(fit, Estimate) else fit.moving
    return estimate if moving is None or moving is estimate else estimate.with_(findings=moving.findings)


def is_study(path: Path) -> bool:
    """Return whether a TOML file is a study.

    A model file has no table of data.
    """
    import tomllib

    try:
        return "data" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
