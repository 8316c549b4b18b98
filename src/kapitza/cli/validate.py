"""`kapitza validate`: a fitted model on a recording that was not fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.fits import Name, chosen_fit, estimate_of
from kapitza.cli.simulate import assignments


def validate_command(
    model: Annotated[
        Path,
        typer.Argument(help="Study (.toml) that was run, its results folder, a saved fit (.nc) or a model (.toml)."),
    ],
    recording: Annotated[Path, typer.Argument(help="Recording that was not fitted.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="A value of its own, NAME=VALUE; repeatable.")] = None,
    time: Annotated[str, typer.Option(help="Column of the time.")] = "time",
    plot: Annotated[Path | None, typer.Option(help="Figure to write.")] = None,
    name: Name = None,
) -> None:
    """Hold the parameters, fit states alone, and tell how far the model predicts."""
    from kapitza.data import read
    from kapitza.estimate import validate
    from kapitza.model import read_model
    from kapitza.study import is_study

    alone = model.suffix.lower() == ".toml" and not is_study(model)
    tested = read_model(model) if alone else estimate_of(chosen_fit(model, name))
    record = read(recording, time=time)
    own = assignments(set_, "--set")
    check = validate(tested, (record, own) if own else record)
    answers().print(Text(str(check)))
    if plot is not None:
        check.plot(plot)
        answers().print(Text(f"Figure written to {plot}"))


validate_command.__doc__ = (validate_command.__doc__ or "") + examples(
    "kapitza validate run.toml run8.csv",
    "kapitza validate run-results run8.csv",
    "kapitza validate fit.nc run8.csv",
    "kapitza validate pendulum.toml run8.csv --set A=0.02 --plot check.png",
)
