"""Channels of a record and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.arrays import Array, Flags, Numbers
from kapitza.base.cures import Give
from kapitza.base.units import Conversion, conversion
from kapitza.data.noise import is_number
from kapitza.data.sampling import cut_segments
from kapitza.data.time_table import Column, TimeTable
from kapitza.errors import DataError

RESERVED = ("time", "segment")
"""Names of the coordinates, which no channel may have."""


LARGEST_TIME = 1e30
SHORTEST_STEP = 1e-30
"""Times [s] beyond these are a wrong unit or a damaged file; rates and their squares over them overflow."""

PIECE = 1 << 16
"""Steps that are looked at together."""


def check_table(table: TimeTable) -> None:
    """Refuse a table that no method can use.

    It has no samples, NaN, or times that do not increase within a segment.
    """
    for name in RESERVED:
        if name in table.channels or name not in table.coords:
            raise DataError(f'"{name}" is a coordinate of the record, not a channel: give the channel another name.')
    time, period = table.time, table.attrs.get("period")
    if time.size == 0:
        raise DataError("The record holds no samples: check the file, the selection or the requested time span.")
    if not np.isfinite(time).all():
        at = int(np.flatnonzero(~np.isfinite(time))[0])
        raise DataError(f"Time is not finite at sample {at}: drop that sample before making the record.")
    for name, column in table.channels.items():
        bad = np.flatnonzero(~np.isfinite(column.values))
        if bad.size:
            raise DataError(
                f'Channel "{name}" is not finite at {bad.size} samples, first at sample {int(bad[0])}: '
                f"drop them (`read` with {Give(missing='drop')} cuts the record there) before using the record."
            )
        _check_facts(name, column.attrs)
    inside = table.segment[1:] == table.segment[:-1]
    rising = time[1:] > time[:-1]
    furthest, shortest = max(-time.min(), time.max()), _shortest_step(time, inside & rising)
    if furthest > LARGEST_TIME or shortest < SHORTEST_STEP:
        raise DataError(
            f"Times reach {furthest:.3g} s, the shortest step is {shortest:.3g} s: up to {LARGEST_TIME:g} s "
            f"and from {SHORTEST_STEP:g} s on can be used. Is the unit of time wrong, or the interval?"
        )
    wrong = np.flatnonzero(inside & ~rising)
    if wrong.size:
        at = int(wrong[0])
        kind = "repeats" if time[at + 1] == time[at] else "runs backwards"
        raise DataError(
            f"Time {kind} after sample {at} (t = {time[at]:.9g} s, next {time[at + 1]:.9g} s): "
            "sort the samples and remove duplicates, or mark the pieces as segments."
        )
    if period is not None and not (is_number(period) and period > 0):
        raise DataError(f"The excitation period is {period} s: give a positive number, or none.")
    phase = table.attrs.get("phase")
    if phase is not None and not is_number(phase):
        raise DataError(f"The phase of the first sample is {phase} s: give a finite number, or none.")


def _shortest_step(time: Array, chosen: Flags) -> float:
    """Return the shortest of the chosen steps (N - 1,); infinity where there is none."""
    # Piece by piece: the steps of 10^7 samples would take as much memory as a channel.
    pieces = ((time[at : at + PIECE + 1], chosen[at : at + PIECE]) for at in range(0, chosen.size, PIECE))
    return min((float(np.diff(some).min(initial=np.inf, where=those)) for some, those in pieces), default=np.inf)


def is_text(given: object) -> bool:
    """Return whether a value is text."""
    return isinstance(given, str)


def is_table(given: object) -> bool:
    """Return whether a value is a mapping."""
    return isinstance(given, Mapping)


def named_by_text(given: object) -> bool:
    """Return whether a mapping has only texts as keys."""
    return isinstance(given, Mapping) and all(isinstance(key, str) for key in cast("Mapping[object, object]", given))


def is_table_of_texts(given: object) -> bool:
    """Return whether a mapping has only texts as values."""
    values = cast("Mapping[object, object]", given).values() if isinstance(given, Mapping) else [None]
    return all(isinstance(value, str) for value in values)


def samples(what: str, values: Any) -> Array:
    """Return the numbers of a channel.

    Truth values of a digital channel count as 0 and 1. Plain arrays are taken without a copy.
    """
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    if isinstance(values, np.ndarray):
        array = cast(Numbers, values)
        if array.dtype.kind == "b":
            return array.astype(np.float64)
    return checks.array(what, values, error=DataError)


def segment_numbers(segment: Any, time: Array) -> NDArray[np.int32]:
    """Return a copy of the labels of segments (N,), one whole number per time."""
    plain = type(segment) is np.ndarray and segment.dtype.kind == "i"
    labels = segment if plain else samples("segment", segment)
    if labels.shape != time.shape:
        raise DataError(f"segment has the shape {labels.shape}, time has {time.shape}: give one label per time.")
    if not plain:
        if not np.isfinite(labels).all():
            raise DataError("segment holds labels that are not finite: give a whole number per time.")
        if np.any(labels != np.round(labels)):
            odd = labels[labels != np.round(labels)][0]
            raise DataError(f"segment holds the label {odd:g}: give a whole number per time.")
    small = not labels.size or (labels.min() > -(2**31) and labels.max() < 2**31)
    return labels.astype(np.int32) if small else cut_segments(labels, [])


def channel(name: str, values: Array, unit: str, angle: bool, noise: Any) -> Column:
    """Return a channel for the record.

    Angles are converted to rad.
    """
    if name in RESERVED:
        raise DataError(f'"{name}" is a coordinate of the record, not a channel: give the channel another name.')
    if noise is not None and not is_number(noise):
        raise DataError(f'The noise of channel "{name}" is {noise}: give a standard deviation, a finite number.')
    attrs: dict[str, Any] = {"unit": unit, "angle": angle} | ({} if noise is None else {"noise": float(noise)})
    if angle and unit not in ("", "rad"):
        change = conversion(unit, "rad", f'Channel "{name}", declared an angle,')
        return Column(change(values), converted(attrs, "rad", change))
    return Column(values, attrs)


def converted(attrs: Mapping[str, Any], unit: str, change: Conversion) -> dict[str, Any]:
    new = {**attrs, "unit": unit}
    return new | {"noise": change.spread(attrs["noise"])} if "noise" in attrs else new


def _check_facts(name: str, attrs: Mapping[str, Any]) -> None:
    """Refuse wrong noise and angles of a channel.

    Noise must be a standard deviation; angles must be in rad.
    """
    noise = attrs.get("noise")
    if noise is not None and not (is_number(noise) and noise >= 0):
        raise DataError(f'The noise of channel "{name}" is {noise}: a standard deviation is finite and not negative.')
    unit = attrs.get("unit", "")
    if attrs.get("angle") and unit not in ("", "rad") and not conversion(unit, "rad", f'Channel "{name}"').identity:
        raise DataError(f'Channel "{name}" is declared an angle, but its unit is "{unit}": angles are kept in rad.')
