"""Hold data and fitted motion for figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kapitza.base import angles as circle
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.units import Conversion, conversion, is_unit
from kapitza.data import RECORDED, Record
from kapitza.estimate import Estimate, Validation
from kapitza.study import fitted_settings

OUTLYING = 5.0
"""Residuals beyond so many standard deviations are marked: of 100,000 Gaussian ones 0.06 are."""

TO_DEVIATION = 1.4826
"""Standard deviation of a Gaussian over its median absolute deviation."""


@dataclass(frozen=True)
class Motion:
    """One recording and a motion along it.

    time (N,) [s]; piece (N,): numbers the uninterrupted motions; measured, predicted (N,) by channel, NaN where there
    is nothing to show; lost (N,) by channel: samples that were not fitted, such as spikes and dropouts. noise: standard
    deviation by channel; angles: channels on a circle.
    """

    time: Array
    piece: Indices
    measured: Mapping[str, Array]
    predicted: Mapping[str, Array]
    lost: Mapping[str, Flags] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    angles: tuple[str, ...] = ()
    name: str = ""

    def error(self, channel: str) -> Array:
        """Return predicted minus measured (N,).

        The error of angles is on the circle; lost samples have NaN.
        """
        gap = self.predicted[channel] - self.measured[channel]
        gap = circle.wrap(gap) if channel in self.angles else gap
        return np.where(self.lost[channel], np.nan, gap) if channel in self.lost else gap

    def near(self, channel: str) -> Array:
        """Return predicted values (N,).

        Angles are on the same turn as the measured ones.
        """
        if channel not in self.angles:
            return self.predicted[channel]
        return self.measured[channel] + circle.wrap(self.predicted[channel] - self.measured[channel])

    def outlying(self, channel: str) -> Flags:
        """Return which fitted samples (N,) are outlying.

        Their residual is far beyond the noise and the other residuals.
        """
        error = np.abs(self.error(channel))
        known = error[np.isfinite(error)]
        scatter = TO_DEVIATION * float(np.median(known)) if known.size else 0.0
        limit = OUTLYING * max(scatter, self.noise.get(channel, 0.0))
        return np.asarray(error > limit) if limit > 0 else np.zeros(self.time.size, bool)

    def rate(self, channel: str) -> Array:
        """Return the rate of the predicted channel (N,).

        The predicted rate where there is one, else differences along each piece; NaN in short pieces.
        """
        own = self.predicted.get(f"{channel}'")
        if own is not None:
            return own
        speed = np.full(self.time.size, np.nan)
        for number in np.unique(self.piece):
            inside = self.piece == number
            if inside.sum() > 3:
                values = self.predicted[channel][inside]
                values = circle.unwrap(values) if channel in self.angles else values
                speed[inside] = np.gradient(values, self.time[inside])
        return speed


@dataclass(frozen=True)
class RecordedUnit:
    """Convert a channel back to its file's unit."""

    unit: str
    change: Conversion

    def spread(self, deviation: float) -> float:
        return float(self.change.spread(deviation))


def recorded_units(record: Record) -> dict[str, RecordedUnit]:
    """Return channels recorded in units other than SI.

    Angles stay in rad, in which they are wrapped.
    """
    found = {}
    for name, column in record.content.channels.items():
        unit, own = str(column.attrs.get(RECORDED, "")), str(column.attrs.get("unit", ""))
        if unit and own and not column.attrs.get("angle") and is_unit(unit):
            found[name] = RecordedUnit(unit, conversion(own, unit, f'Channel "{name}"'))
    return found


def as_recorded(motion: Motion, record: Record | None) -> Motion:
    """Return the motion in the recording's units."""
    known = {} if record is None else recorded_units(record)
    known = {c: one for c, one in known.items() if c in motion.measured and f"{c}'" not in motion.measured}
    if not known:
        return motion
    return replace(
        motion,
        measured={c: known[c].change(v) if c in known else v for c, v in motion.measured.items()},
        predicted={c: known[c].change(v) if c in known else v for c, v in motion.predicted.items()},
        noise={c: known[c].spread(v) if c in known else v for c, v in motion.noise.items()},
        units={**motion.units, **{c: one.unit for c, one in known.items()}},
    )


def motions_of(estimate: Estimate) -> list[Motion]:
    """Return the fitted motion of each recording.

    The result is empty where the method fits no motion.
    """
    motion = estimate.motion
    if motion is None:
        return []
    channels = tuple(estimate.residuals)
    records = [record for record, _ in fitted_settings(estimate)]
    number = np.zeros(motion.sample_times.size, np.int64) if motion.record is None else motion.record
    read = np.ones(motion.measured.shape, bool) if motion.read is None else motion.read
    found = []
    for one in np.unique(number).tolist():
        at = number == one
        record = records[one] if one < len(records) else None
        seen = [(i, c) for i, c in enumerate(channels) if record is None or c in record.channels]
        angles = _angles(record, [c for _, c in seen])
        found.append(
            Motion(
                time=motion.sample_times[at] + (0.0 if record is None else record.excitation_start),
                piece=motion.piece[at],
                measured={c: motion.measured[at, i] for i, c in seen},
                predicted={c: motion.predicted[at, i] for i, c in seen},
                lost={c: ~read[at, i] for i, c in seen},
                noise=motion.noise_by_record[one] if one < len(motion.noise_by_record) else {},
                units=_units(record, angles),
                angles=angles,
                name="" if record is None else str(record.content.attrs.get("source", "")),
            )
        )
    return found


def motion_of_test(validation: Validation | None) -> Motion | None:
    """Return held-back data with their predictions.

    Predictions are given along their stretches, NaN where states were fitted to the data.
    """
    test = None if validation is None else validation.prediction
    if validation is None or test is None or not len(test.starts):
        return None
    record, count = validation.record, validation.record.size
    angles = _angles(record, test.channels)
    predicted = {c: np.full(count, np.nan) for c in test.channels}
    piece = np.full(count, -1, np.int64)
    for number, (begin, error) in enumerate(zip(test.starts, test.error, strict=True)):
        first = int(np.searchsorted(record.time, begin)) + 1
        span = slice(first, min(first + len(error), count))
        piece[span] = number
        for i, channel in enumerate(test.channels):
            predicted[channel][span] = record[channel][span] + error[: span.stop - span.start, i]
    measured = {c: record[c] for c in test.channels}
    noise = dict(zip(test.channels, test.noise.tolist(), strict=True))
    name = str(record.content.attrs.get("source", ""))
    return Motion(record.time, piece, measured, predicted, {}, noise, _units(record, angles), angles, name)


def _angles(record: Record | None, channels: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    pairs = () if record is None else zip(record.channels, record.angles, strict=True)
    return tuple(channel for channel, angle in pairs if angle and channel in channels)


def _units(record: Record | None, angles: tuple[str, ...]) -> dict[str, str]:
    """Return the units of the channels.

    Angles are in rad whether or not the file says so.
    """
    known = {} if record is None else record.units
    return {channel: unit or ("rad" if channel in angles else "") for channel, unit in known.items()}


def extremes(values: Array, count: int) -> Indices:
    """Return positions of at most `count` values.

    They show all values (N,): the least and largest of each bin.
    """
    if values.size <= count:
        return np.arange(values.size)
    edges = np.linspace(0, values.size, max(count // 2, 1) + 1).astype(np.int64)[:-1]
    bins = np.searchsorted(edges, np.arange(values.size), side="right") - 1
    # NaN comes last in each bin: it is shown where nothing else is.
    order = np.lexsort((values, bins))
    last = np.append(edges[1:], values.size)
    known = np.add.reduceat(np.isfinite(values).astype(np.int64), edges)
    highest = np.where(known > 0, edges + known, last) - 1
    return np.unique(np.concatenate([order[edges], order[highest]]))
