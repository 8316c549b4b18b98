"""Implement `kapitza validate`.

A fitted model on a recording that was not fitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.cli.console import MISSES, answers, examples
from kapitza.cli.fits import Name, chosen_fit, estimate_of, study_of, warn_of_drive
from kapitza.cli.simulate import assignments

if TYPE_CHECKING:
    from kapitza.data import Record
    from kapitza.estimate import Estimate
    from kapitza.model import Model


def validate_command(
    model: Annotated[
        Path,
        typer.Argument(help="Study (.toml) that was run, its results folder, a saved fit (.nc) or a model (.toml)."),
    ],
    recording: Annotated[Path, typer.Argument(help="Recording that was not fitted.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="A value of its own, NAME=VALUE; repeatable.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time, where it is not found by its name.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure to write.")] = None,
    name: Name = None,
) -> None:
    """Test a fitted model on another recording.

    Parameters are held, states alone are fitted; the command prints how far the model predicts. Exit code 3: the model
    is rejected, or does not follow the recording.
    """
    from kapitza.data import read
    from kapitza.estimate import validate
    from kapitza.model import Model, read_model
    from kapitza.study import is_study, read_alike

    alone = model.suffix.lower() == ".toml" and not is_study(model)
    tested = read_model(model) if alone else estimate_of(chosen_fit(model, name))
    study = None if alone else study_of(model)
    record = read(recording, time=time) if study is None else read_alike(study, recording, time)
    if not isinstance(tested, Model):
        warn_of_drive(tested)
    _require_drives(tested, record, recording.name)
    own = assignments(set_, "--set")
    check = validate(tested, (record, own) if own else record)
    answers().print(Text(str(check)))
    if plot is not None:
        check.plot(plot)
        answers().print(Text(f"Figure written to {plot}"))
    if check.rejected or check.unexplained:
        raise typer.Exit(MISSES)


def _require_drives(tested: Model | Estimate, record: Record, name: str) -> None:
    """Refuse a recording without the channels that drive the model; `validate` takes the motion's drives from it."""
    from kapitza.errors import DataError
    from kapitza.model import Model

    model = tested if isinstance(tested, Model) else tested.model
    for signal in () if model is None else model.signals:
        if signal.name not in record.channels:
            columns = ", ".join(record.channels)
            raise DataError(f'"{signal.name}" drives the model and is not a column of {name}, which has {columns}.')


validate_command.__doc__ = (validate_command.__doc__ or "") + examples(
    "kapitza validate run.toml run8.csv",
    "kapitza validate run-results run8.csv",
    "kapitza validate fit.nc run8.csv",
    "kapitza validate pendulum.toml run8.csv --set A=0.02 --plot check.png",
)
