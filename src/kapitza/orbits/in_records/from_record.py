"""Points of a record on a section.

Records may be strobed, or sampled densely at any phase; delay coordinates can be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import unwrap_states
from kapitza.base.arrays import Array
from kapitza.base.cures import Do, Give
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits.in_records.noise_on_section import section_noise
from kapitza.orbits.in_records.preparation import (
    channel_noise,
    chosen_channels,
    record_delay,
    require_count,
    require_even,
    without_gaps,
)
from kapitza.orbits.in_records.section import Section, make_section

LEAST_FOR_NOISE = 200
"""Points of a section below which local maps do not separate noise from shape."""

GAP = 1.5
"""Median steps beyond which a step has lost a sample and is left out of the rate."""


def samples_per_period(record: Record) -> float:
    """Return the samples per excitation period.

    It is the excitation period divided by the sampling interval. The interval is the mean of the steps without gaps,
    because time stamps may be rounded.
    """
    if record.period is None:
        raise DataError(
            f"The record has no excitation period: set it ({Give(period=...)} when reading or in "
            f"{Do('Record.from_arrays', '[data]')}), or treat the record as autonomous."
        )
    steps = np.diff(record.time)[np.diff(record.content.segment) == 0]
    if not steps.size:
        raise DataError("Every segment of the record has a single sample: no two samples follow each other.")
    # The median is at least the shortest step: without longer ones it is not needed.
    usual = steps if steps.max() <= GAP * steps.min() else steps[steps <= GAP * np.median(steps)]
    rate = float(record.period / np.mean(usual))
    if rate > record.size:
        raise DataError(f"No segment of the record is longer than one excitation period ({record.period:.6g} s).")
    return rate


def strobe_record(
    record: Record,
    channels: Sequence[str] | None = None,
    *,
    phase: float | None = None,
    delay: int | None = None,
    dimension: int = 1,
    noise: Any = None,
) -> Section:
    """Make a section once per excitation period.

    Gaps inside a segment cut it.
    channels: the coordinates, all by default. phase: where in the period (0 … 1) a dense record is cut, at
    its start by default; a strobed record has its own.
    delay, dimension: each channel gives x(t), x(t + delay), … (dimension coordinates); `delay` counts samples, by
    default from the mutual information (dense records) or one period (strobed ones).
    noise: standard deviation per channel in its own unit (number, one each, or by name); known noise of the record,
    else estimated from the section.
    """
    names = chosen_channels(record, channels)
    require_count("dimension", dimension, 1)
    deviation = channel_noise(record, names, noise)
    record, _ = without_gaps(record)
    rate = samples_per_period(record)
    cut = section_phase(record, phase, rate)
    if round(rate) == 1:
        require_even(record)
    if delay is None:
        delay = record_delay(record, names, rate) if dimension > 1 and round(rate) > 1 else 1
    require_count("delay", delay, 1)
    angles = [bool(record.content.channels[name].attrs.get("angle", False)) for name in names]
    if round(rate) > 1:
        points, follows, sample = _cut_pieces(record, names, angles, rate, cut, delay, dimension)
    else:
        points, follows, sample = _strobed_rows(record, names, delay, dimension)
    if not len(points):
        raise DataError(f"No segment of the record is longer than one excitation period ({record.period:.6g} s).")
    turns = _turns_between(points, follows, np.tile(angles, dimension), round(rate) > 1)
    suffix = [""] + [f"(t+{k * delay})" for k in range(1, dimension)]
    states = tuple(name + s for s in suffix for name in names)
    # A strobed record shows its section only, so the size of the whole signal is unknown.
    extent = np.tile([signal_range(record[name]) for name in names], dimension) if round(rate) > 1 else None
    section = make_section(
        points, follows, states, tuple(angles) * dimension, float(record.period or 0.0), sample=sample, turns=turns,
        extent=extent,
    )  # fmt: skip
    return with_noise(section, None if deviation is None else np.tile(deviation, dimension))


def signal_range(values: Array) -> float:
    """Return the span of the middle 98 %.

    Single outliers do not stretch it.
    """
    low, high = np.quantile(values, [0.01, 0.99])
    return float(high - low) or float(np.ptp(values))


def with_noise(section: Section, deviation: Array | None) -> Section:
    """Return the section with its noise.

    Known noise (n,) is in the units of the states; otherwise it is estimated from enough points.
    """
    if deviation is not None:
        return section.with_noise(deviation / section.scale, "known")
    if len(section.starts) < LEAST_FOR_NOISE:
        return section.with_noise(np.zeros(section.dimension), "not estimated")
    return section.with_noise(section_noise(section), "estimated")


def section_phase(record: Record, phase: float | None = None, rate: float | None = None) -> float:
    """Return the phase of the section in the period.

    The phase is a share of the period; a phase that a strobed record does not hold is refused.
    rate: the samples per period where they are known.
    """
    rate = samples_per_period(record) if rate is None else rate
    if phase is not None and not (isinstance(phase, (int, float)) and np.isfinite(phase)):
        raise DataError(f"phase = {phase!r}: give the share of the period, between 0 and 1.")
    if rate < 0.98:
        raise DataError(
            f"The record is sampled every {float(record.period or 0.0) / rate:.6g} s, less than once per excitation "
            f"period of {record.period:.6g} s: check the period."
        )
    if round(rate) > 1:
        return 0.0 if phase is None else float(phase) % 1.0
    if abs(rate - 1.0) > 0.02:
        raise DataError(
            f"The record has {rate:.3g} samples per excitation period of {record.period:.6g} s: strobe it once per "
            "period, or sample it at least 4 times per period; or correct the period."
        )
    own = record.phase / float(record.period or 1.0)
    if phase is not None and abs((phase - own + 0.5) % 1.0 - 0.5) > 0.02:
        raise DataError(
            f"The record is strobed once per period, at {own:.3g} of it: phase = {phase:.3g} is not in the data. "
            "Leave phase out, or record more samples per period."
        )
    return own


def _check_spline(rate: float, period: float) -> None:
    """Refuse too few samples per period for splines."""
    if rate < 4.0:
        raise DataError(
            f"With {rate:.3g} samples per excitation period of {period:.6g} s the motion between them is unknown: "
            "cut at a phase that was sampled, strobe once per period, or sample at least 4 times per period."
        )


def _strobed_rows(
    record: Record, names: tuple[str, ...], delay: int, dimension: int
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the points of a record with one sample per period.

    Points (M, n), whether the next one is the image of each, and the rows of the record they came from.
    """
    columns = record.values(names)
    reach = (dimension - 1) * delay
    piece = np.cumsum(np.diff(record.content.segment, prepend=record.content.segment[:1]) != 0)
    rows = np.flatnonzero(piece[reach:] == piece[: max(len(piece) - reach, 0)])
    follows = np.zeros(len(rows), bool)
    follows[:-1] = (np.diff(rows) == 1) & (np.diff(piece[rows]) == 0)
    points = columns if dimension == 1 else np.column_stack([columns[rows + k * delay] for k in range(dimension)])
    return points, follows, rows


def _cut_pieces(
    record: Record, names: tuple[str, ...], angles: list[bool], rate: float, phase: float, delay: int, dimension: int
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the points of a dense record at one phase.

    Points (M, n), whether the next one is the image of each, and the rows of the record they came from.
    """
    # Read once: a record may have thousands of segments.
    time, columns = record.time, record.values(names)
    clock = record.excitation_start, float(record.period or 1.0)
    points, rows = zip(
        *[
            _strobe_piece(time, columns, piece, clock, angles, rate, phase, delay, dimension)
            for piece in record.segments()
        ],
        strict=True,
    )
    follows = [np.arange(len(row)) < len(row) - 1 for row in rows]
    return np.concatenate(points), np.concatenate(follows), np.concatenate(rows)


def _strobe_piece(
    time: Array, readings: Array, piece: slice, clock: tuple[float, float], angles: list[bool], rate: float,
    phase: float, delay: int, dimension: int,
) -> tuple[Array, NDArray[np.intp]]:  # fmt: skip
    """Return the strobed points of one segment.

    Points (M, n) and the rows of the record they came from; angles are continuous.
    time (N,) and readings (N, n) of the whole record; clock: start and period of its excitation.
    """
    from scipy.interpolate import CubicSpline

    columns = unwrap_states(readings[piece], angles)
    step = round(rate)
    reach = (dimension - 1) * delay
    start, period = clock
    times = time[piece] - time[piece.start]
    first = float((phase - (time[piece.start] - start) / period) % 1.0)
    even = float(np.abs(times - np.arange(len(times)) * (period / rate)).max()) < 0.25 * period / rate
    # Where samples fall on the strobes over the whole segment, interpolation is not needed.
    if even and abs(rate - step) * len(columns) / step < 0.02 and abs(first * rate - round(first * rate)) < 0.02:
        rows = np.arange(round(first * rate) % step, len(columns) - reach, step)
        return np.column_stack([columns[rows + k * delay] for k in range(dimension)]), rows + piece.start
    _check_spline(rate, period)
    spacing = period / rate
    strobes = first * period + period * np.arange(int((times[-1] - reach * spacing - first * period) / period) + 1)
    if not len(strobes) or len(times) < 4:
        return np.empty((0, columns.shape[1] * dimension)), np.empty(0, np.intp)
    spline = CubicSpline(times, columns)
    points = np.column_stack([spline(strobes + k * delay * spacing) for k in range(dimension)])
    return points, np.searchsorted(times, strobes).clip(0, len(times) - 1) + piece.start


def _turns_between(
    points: Array, follows: NDArray[np.bool_], angles: NDArray[np.bool_], continuous: bool
) -> Array | None:
    """Return whole turns from each point to its image.

    Shape (N, n); None when every angle is known modulo 2π only.
    """
    circle = np.flatnonzero(angles)
    # Noise pushes wrapped angles a little beyond one turn; a continuous angle of a rotating body goes far beyond it.
    if not circle.size or (not continuous and all(np.ptp(points[:, k]) <= 2.4 * np.pi for k in circle)):
        return None
    turns = np.zeros_like(points)
    lap = np.floor((points[:, circle] + np.pi) / (2 * np.pi))
    turns[:-1, circle] = np.where(follows[:-1, None], np.diff(lap, axis=0), 0.0)
    return turns
