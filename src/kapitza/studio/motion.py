"""A simulated motion over the data, before any fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate import record_in_model_units
from kapitza.flow import simulate
from kapitza.model import Model

MOST_STEPS = 20_000
"""Samples of the longest simulated stretch."""

NEAR = 0.05
"""Share of a cycle whose samples give the initial rate."""

FEWEST = 5
"""Samples that give the initial rate, at least; a parabola through a quarter of a cycle or more gives no value."""


@dataclass(frozen=True)
class Motion:
    """Hold simulated channels by column.

    times (N,), values (N,) each; missed: root-mean-square distance to the data over their standard deviation.
    """

    time: Array
    values: Mapping[str, Array]
    missed: Mapping[str, float]

    def __str__(self) -> str:
        said = [f"{name} misses the data by {100 * share:.3g} %" for name, share in self.missed.items()]
        return ", ".join(said) + " of their spread" if said else ""

    def at(self, times: Array, columns: tuple[str, ...]) -> Array:
        """Return the motion at times of a picture.

        The shape is (columns, times); NaN outside and where none is simulated.
        """
        rows = np.full((len(columns), times.size), np.nan)
        if self.time.size < 2:
            return rows
        inside = (times >= self.time[0]) & (times <= self.time[-1])
        for row, name in zip(rows, columns, strict=True):
            if name in self.values:
                row[inside] = np.interp(times[inside], self.time, self.values[name])
        return rows


def simulated(model: Model, record: Record, columns: Mapping[str, str], begin: float, end: float) -> Motion:
    """Simulate a model from the data at `begin`.

    columns maps a state to a column of the file.
    The initial state is read off the data: values from the first samples, rates by a parabola through them. States
    that are not measured begin at the model's own start, or at rest.
    """
    units = record.units
    # The first samples only: a copy of 10^7 would take as much memory as the recording.
    inside = np.flatnonzero((record.time >= begin) & (record.time <= end))[:MOST_STEPS]
    if not inside.size:
        raise DataError("The span seen holds no samples of the study: show more.")
    cut = record_in_model_units(model, record.samples(inside))
    cut = cut.samples(cut.segments()[0]).unwrapped()
    if cut.size < 5:
        raise DataError(f"The span seen holds {cut.size} samples in a row: show more.")
    if model.is_map:
        raise DataError("A map has no motion between its samples: press Fit instead.")
    time = cut.time - record.excitation_start
    found = simulate(model, x0=initial_state(model, cut), t=time).unwrapped()
    # Drawn in the units of the recording.
    drawn = found.in_units({c: units[c] for c in found.channels if units.get(c) and found.units[c]})
    values, missed = {}, {}
    for state, column in columns.items():
        if state not in found.channels:
            continue
        shift = 0.0
        if state in cut.channels:
            if cut.angles[cut.channels.index(state)]:
                # Unwrapping starts at the first sample: turns before it are those of the data.
                shift = 2 * np.pi * np.round((cut[state][0] - found[state][0]) / (2 * np.pi))
            # At the samples that were simulated: a thinned recording says nothing between them.
            distance = float(np.sqrt(np.mean((cut[state] - found[state] - shift) ** 2)))
            missed[column] = distance / (float(np.std(cut[state])) or 1.0)
        values[column] = drawn[state] + shift
    return Motion(cut.time, values, missed)


def initial_state(model: Model, record: Record) -> dict[str, float]:
    """Return the state at the first sample.

    The record has no interruptions.
    """
    start = {state: float(model.start.get(state, 0.0)) for state in model.states}
    for name in record.channels:
        if name.rstrip("'") + "'" * name.count("'") != name or name not in start:
            continue
        values = record[name]
        cycle = samples_per_cycle(values)
        count = int(np.clip(NEAR * cycle, FEWEST, values.size))
        time = record.time[:count] - record.time[0]
        fit = np.polynomial.Polynomial.fit(time, values[:count], 2)
        start[name] = float(fit(0.0)) if cycle >= 4 * FEWEST else float(values[0])
        rate = f"{name}'"
        if rate in start and rate not in record.channels:
            start[rate] = float(fit.deriv()(0.0))
    return start


def samples_per_cycle(values: Array) -> float:
    """Return the mean number of samples per cycle.

    It is twice that between crossings of the mean.
    """
    crossings = int(np.count_nonzero(np.diff(np.signbit(values - values.mean()))))
    return 2 * values.size / max(crossings, 1)
