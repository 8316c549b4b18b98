"""Predict beyond the data with a fitted model.

Bands come from the errors of its parameters and of the state that the recording ends with, and from the noise of the
sensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.suffixes import SUFFIXES
from kapitza.data import Record, read
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate import Estimate, LastState, Sensor, best_degree, last_state, sensor_readings
from kapitza.flow import Flow
from kapitza.model import Expression, Model, Signal, parse_expression, with_drives
from kapitza.study.draws import DRAWS, even_draws, parameter_draws
from kapitza.study.fits import StudyFit, fitted_settings
from kapitza.study.sensor_columns import Sensors

if TYPE_CHECKING:
    import pandas as pd


def last_data(fit: StudyFit | Estimate) -> tuple[Record, Mapping[str, float]]:
    """Return the end of the first recording.

    Held-back data included, and the values that are its own.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    if not found:
        raise KapitzaError("The fit holds no recording to go on from: give the initial state, --start NAME=VALUE.")
    record, own = found[0]
    check = None if isinstance(fit, Estimate) or fit.validation is None else fit.validation.record
    # A drive is a channel of the fitted part alone: the held-back part has it as a signal.
    drives = {signal.name for signal in estimate.model.signals}
    later = (
        check is not None
        and check.time[0] > record.time[-1]
        and set(check.channels) | drives == set(record.channels) | drives
    )
    return (check if check is not None and later else record), own


def predicted_table(
    fit: StudyFit | Estimate,
    times: Array,
    x0: Array | None,
    settings: Mapping[str, float],
    seed: int = 0,
    drives: Mapping[str, Signal | Expression] | None = None,
) -> pd.DataFrame:
    """Return predicted samples and states with 95 % bands.

    The rows are `times` (N,) counted from the start; units are in the names of the columns.
    drives: what drives the model then, for each measured drive of the fit; their time is counted from the start too.

    A column with the name of a channel is what its sensor reads, with its gain, offset and drift and in the unit of the
    recording; states that no channel shows stand under their names, and "x (state)" is a state whose sensor reads
    something else.

    Without x0 the motion goes on from the end of the first recording, and time is that of the recording. The bands hold
    95 % of the motions that the errors of the parameters and of this last state allow: for chaotic motion they widen
    until they say nothing. That of a channel includes the noise of its sensor: it holds 95 % of further samples.
    """
    import pandas as pd

    estimate = fit if isinstance(fit, Estimate) else fit.answer
    missing = [signal.name for signal in estimate.model.signals if signal.name not in (drives or {})]
    if missing:
        raise KapitzaError(
            f"{', '.join(missing)} was measured and ends with the recording: give what drives the model beyond it, "
            "--drive NAME=FILE or --drive NAME=FORMULA with a formula of t."
        )
    found = fitted_settings(estimate)
    own = found[0][1] if found else {}
    model = with_drives(estimate.model, drives or {}, float(times[-1])).with_values(**{**own, **settings})
    begin, end, since = 0.0, 0.0, 0.0
    draws = parameter_draws(estimate, [n for n in estimate.names if n not in settings], seed)
    starts = np.broadcast_to(0.0 if x0 is None else x0, (len(draws), len(model.states)))
    if x0 is None:
        record, own = last_data(fit)
        free = [n for n in estimate.names if n in estimate.model.names]
        last = last_state(estimate.model.with_values(**own), record, _measures(estimate), estimate.noise, free)
        x0, begin, end = last.state, last.time, float(record.time[-1])
        draws = draws or [{}] * DRAWS
        starts = _drawn_starts(last, estimate, free, draws, seed)
        # New drives count their time from the start of the prediction; sensors drift on from the recording.
        begin, since = (0.0, last.time) if drives else (begin, 0.0)
    instants = begin + times
    sensors = Sensors.of(estimate, found[0][0] if found else None, model, drives or {}, since)
    flow = Flow(model)

    def followed(start: Array, vector: Array) -> tuple[Array, Array]:
        states = flow.trajectory(start, instants, vector)
        return states, sensors.read(states, instants, vector)

    middle = followed(x0, model.vector)
    paths = []
    for start, values in zip(starts, draws, strict=True):
        try:
            paths.append(followed(start, _vector(model, values)))
        except FlowError:
            continue
    columns: dict[str, Array] = {"time [s]": end + times}
    for column in sensors.columns(model.states):
        part, i = (1, sensors.channels.index(column.name)) if column.read else (0, model.states.index(column.name))
        value = middle[part][:, i]
        columns[column.title()] = column.change(value)
        # A 95 % band of fewer draws would be their extremes.
        if len(paths) > 10:
            drawn = [path[part][:, i] for path in paths]
            low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="median_unbiased")
            # 97.5 % of a Gaussian is below 1.96 standard deviations.
            noise = 1.96 * (estimate.noise.get(column.name, 0.0) if column.read else 0.0)
            ends = value - np.hypot(value - low, noise), value + np.hypot(high - value, noise)
            columns[column.title(" low")], columns[column.title(" high")] = map(column.change, ends)
    return pd.DataFrame(columns)


def _measures(estimate: Estimate) -> dict[str, Any]:
    """Return what the channels measure, with the fitted errors of their sensors as parameters of the model.

    A sensor with limits stays as it is: its range is marked in the samples.
    """
    readings = sensor_readings(estimate)
    limited = [c for c, s in estimate.sensors.items() if isinstance(s, Sensor) and s.limits is not None]
    return {**estimate.sensors, **{c: e for c, e in readings.items() if c not in limited}}


def _drawn_starts(
    last: LastState, estimate: Estimate, free: Sequence[str], draws: Sequence[Mapping[str, float]], seed: int
) -> Array:
    """Return one last state (D, n) for each draw of the parameters."""
    off = np.array([[values.get(n, estimate.values[n]) - estimate.values[n] for n in free] for values in draws])
    random = np.random.default_rng([seed, 1])
    # Two sequences of Sobol pair their points in a pattern: the order of one is drawn.
    noise = random.permutation(even_draws(last.covariance, random, len(draws)))
    return last.state + off.reshape(len(draws), len(free)) @ last.by_parameter.T + noise


def drive_of(
    name: str, given: str, unit: str = "", reading: Callable[[Path], Record] = read, end: float | None = None
) -> Signal | Expression:
    """Return a drive from a file or formula.

    The file has a column of this name (`next.csv`), followed between its samples as drives of studies are; the formula
    is one in t. reading: returns the record of a file. end: last time [s] of a recording from which the motion goes on.
    The first sample of the file belongs to the start, or is one interval after it if its time says so.
    """
    path = Path(given)
    if path.suffix.lower() in SUFFIXES:
        record = reading(path)
        names = list(record.channels)
        column = names[0] if len(names) == 1 else name
        if column not in names:
            raise KapitzaError(
                f'{path.name} has no column "{name}"; it has {", ".join(names)}: name the column of the drive so.'
            )
        values, time = record[column], record.time - record.time[0]
        if end is not None and record.size > 1 and 0.5 * time[1] < record.time[0] - end < 1.5 * time[1]:
            # The file has the samples after those of the recording: the drive at its end is extrapolated.
            time = np.append(0.0, record.time - end)
            values = np.append(values[0] - (values[1] - values[0]) * time[1] / (time[2] - time[1]), values)
        found = record.units.get(column, "")
        if unit and found and unit != found:
            raise KapitzaError(f'The drive "{name}" of {path.name} is in {found}, that of the fit in {unit}.')
        return Signal(name, time, values, degree=best_degree(time, values), unit=unit)
    return parse_expression(given, ["t"])


def _vector(model: Model, values: Mapping[str, float]) -> Array:
    return model.with_values(**{n: v for n, v in values.items() if n in model.names}).vector
