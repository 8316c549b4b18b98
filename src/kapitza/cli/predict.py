"""Implement `kapitza predict`.

What the fitted model does next, or would do under other settings.
"""

from __future__ import annotations

import re
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
    import numpy as np

    from kapitza.data import Record
    from kapitza.estimate import Estimate

NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(.*)$")
"""A number, and what follows it."""

FAR = 2.0
"""Lengths of the recorded range by which a start may lie outside it without a warning."""


def predict_command(
    study: FitArgument,
    out: Annotated[Path, typer.Option(help="File to write: .csv")],
    duration: Annotated[float, typer.Option(help="Time to predict [s].")],
    interval: Annotated[float, typer.Option(help="Sampling interval [s].")] = 0.01,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another value, NAME=VALUE; repeatable.")] = None,
    start: Annotated[
        list[str] | None, typer.Option(help="Initial state, NAME=VALUE or x=4mm; otherwise the end of the recording.")
    ] = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(help="What drives the model: NAME=FILE with such a column, or NAME=FORMULA in t; repeatable."),
    ] = None,
    name: Name = None,
) -> None:
    """Predict beyond the end of the recording.

    Columns are what the sensors read, in the units of the recording, and the states they do not show. Bands come from
    the errors of the parameters and of the last state, and from the noise of the sensors.
    """
    from kapitza.study import drive_of, last_data, predicted_table

    if out.suffix.lower() != ".csv":
        raise KapitzaError(f'A prediction is written as .csv, not as "{out.name}".')
    fit = chosen_fit(study, name)
    estimate = estimate_of(fit)
    x0 = start_of(estimate, start)
    units = {s.name: s.unit for s in estimate.model.signals}
    given = {drive_name(estimate, study, n): text for n, text in texts(drive).items()}
    end = float(last_data(fit)[0].time[-1]) if given and x0 is None else None
    drives = {n: drive_of(n, text, units.get(n, ""), _reading(study, n), end) for n, text in given.items()}
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


def drive_name(estimate: Estimate, study: Path, given: str) -> str:
    """Return the name of a drive in the equations: it may be given as the column of the recording."""
    from kapitza.errors import nearest_name
    from kapitza.study import columns_of

    names = [signal.name for signal in estimate.model.signals]
    source = study_of(study)
    renamed = {} if source is None else columns_of(source)
    found = given if given in names else renamed.get(given, given)
    if found in names:
        return found
    if not names:
        raise KapitzaError(f"--drive {given}: {estimate.model.name} has no measured drive.")
    called = names[0] if len(names) == 1 else "one of " + ", ".join(names)
    raise KapitzaError(
        f'--drive "{given}": not a measured drive. The drive is called {called} in the equations: '
        f"--drive {names[0]}=FILE.{nearest_name(given, [*names, *renamed])}"
    )


def start_of(estimate: Estimate, given: list[str] | None) -> np.ndarray | None:
    """Return the initial state of --start options, in the units of the model; None without any.

    A start far outside the recording is warned of: its unit may be another one.
    """
    if not given:
        return None
    import numpy as np

    from kapitza.base.units import conversion, is_unit
    from kapitza.study import state_units

    units, values, plain = state_units(estimate), {}, []
    for pair in given:
        name, sign, text = pair.partition("=")
        name, parts = name.strip(), NUMBER.match(text)
        number, unit = (parts[1], parts[2].strip()) if parts else ("", "")
        if not (sign and name and number) or (unit and not is_unit(unit)):
            raise KapitzaError(
                f'--start takes NAME=VALUE with a number and perhaps a unit, such as --start x=4mm, not "{pair}".'
            )
        own, recorded = units.get(name, ("", ""))
        values[name] = float(number)
        if unit and not own:
            raise KapitzaError(f'--start {pair}: {name} has no unit here, so "{unit}" cannot be converted.')
        if unit:
            values[name] = float(conversion(unit, own, f"--start {name}")(np.asarray(values[name])))
        else:
            plain.append((name, own, recorded))
    x0 = initial_state(estimate.model, values)
    for name, own, recorded in plain:
        _warn_outside(estimate, name, values[name], own, recorded)
    return x0


def _warn_outside(estimate: Estimate, name: str, value: float, own: str, recorded: str) -> None:
    """Print a warning where a start lies far outside the motion that was recorded."""
    from kapitza.study import recorded_range

    span = recorded_range(estimate, name)
    if span is None:
        return
    low, high = span
    if low - FAR * (high - low) <= value <= high + FAR * (high - low):
        return
    hint = f" Is it in {recorded}? Then write --start {name}={value:g}{recorded}." if recorded not in ("", own) else ""
    words = f"--start {name}={value:g}: taken in {own or 'the unit of the model'}, far outside the recording "
    answers().print(Text(f"{words}({low:.3g} to {high:.3g} {own}).{hint}", style="yellow"))


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
    "kapitza predict run.toml --duration 5 --drive F=0 --start x=4mm --out decay.csv",
    "kapitza predict run.toml --duration 5 --drive F=next.csv --out next_motion.csv",
)
