"""Implement `kapitza predict`.

What the fitted model does next, or would do under other settings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.base.csv_tables import write_table
from kapitza.cli.console import answers, examples
from kapitza.cli.fits import FitArgument, Name, chosen_fit, estimate_of, study_of
from kapitza.cli.simulate import assignments, initial_state, sample_times
from kapitza.errors import KapitzaError

if TYPE_CHECKING:
    from kapitza.data import Record


def predict_command(
    study: FitArgument,
    out: Annotated[Path, typer.Option(help="File to write: .csv")],
    duration: Annotated[float, typer.Option(help="Time to predict [s].")],
    interval: Annotated[float, typer.Option(help="Sampling interval [s].")] = 0.01,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another value, NAME=VALUE; repeatable.")] = None,
    start: Annotated[
        list[str] | None, typer.Option(help="Initial state, NAME=VALUE; otherwise the end of the recording.")
    ] = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(help="What drives the model: NAME=FILE with such a column, or NAME=FORMULA in t; repeatable."),
    ] = None,
    name: Name = None,
) -> None:
    """Predict beyond the end of the recording.

    Bands come from the errors of the parameters and of the last state, and from the noise of the sensors.
    """
    from kapitza.study import drive_of, predicted_table

    if out.suffix.lower() != ".csv":
        raise KapitzaError(f'A prediction is written as .csv, not as "{out.name}".')
    fit = chosen_fit(study, name)
    estimate = estimate_of(fit)
    given = assignments(start, "--start")
    x0 = initial_state(estimate.model, given) if given else None
    units = {s.name: s.unit for s in estimate.model.signals}
    drives = {n: drive_of(n, text, units.get(n, ""), _reading(study, n)) for n, text in texts(drive).items()}
    table = predicted_table(
        fit, sample_times(duration, interval), x0, assignments(set_, "--set"), drives=drives or None
    )
    write_table(table, out)
    answers().print(Text(f"{estimate.model.name} by {estimate.method}: {len(table)} samples written to {out}"))


def _reading(study: Path, drive: str) -> Callable[[Path], Record]:
    """Return how files with a drive are read: as the study reads its own, where there is one."""
    from kapitza.data import read
    from kapitza.study import read_alike

    source = study_of(study)
    return read if source is None else partial(read_alike, source, only=drive)


def texts(given: list[str] | None) -> dict[str, str]:
    """Return the pairs NAME=TEXT of an option."""
    found = {}
    for entry in given or []:
        name, sign, text = entry.partition("=")
        if not sign or not name.strip() or not text.strip():
            raise KapitzaError(f'--drive "{entry}": write NAME=FILE or NAME=FORMULA.')
        found[name.strip()] = text.strip()
    return found


predict_command.__doc__ = (predict_command.__doc__ or "") + examples(
    "kapitza predict run.toml --duration 20 --out next.csv",
    "kapitza predict run-results --duration 20 --set omega=3.1 --start x=0.1 --out other.csv",
    "kapitza predict run.toml --duration 5 --drive 'F=2*cos(3*t)' --start x=0 --out sine.csv",
    "kapitza predict run.toml --duration 5 --drive F=next.csv --out next_motion.csv",
)
