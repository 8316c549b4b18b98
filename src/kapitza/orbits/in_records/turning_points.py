"""Sections of autonomous records at turning points.

A section holds the turning points of a channel, in coordinates smoothed over a window.
The section x' = 0 is crossed once per oscillation whatever the system, needs no knowledge of the state space, and its
coordinates (value, curvature, …) come from the same window as the crossing itself. The time between crossings is kept,
so that the period of a cycle, unknown for autonomous systems, comes out of the fitted maps as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import TURN, turns
from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import RESAMPLE, Give
from kapitza.base.monitor import checkpoint
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits.in_records.coordinates import independent_columns
from kapitza.orbits.in_records.crossings import paths_between
from kapitza.orbits.in_records.from_record import with_noise
from kapitza.orbits.in_records.preparation import (
    channel_noise,
    chosen_channels,
    require_count,
    require_even,
    without_gaps,
)
from kapitza.orbits.in_records.section import Section, make_section
from kapitza.signal import mutual_information, smoothing_coordinates


@dataclass(frozen=True)
class Crossings:
    """Turning points of one segment.

    Samples before them, times, coordinates (M, n), and which are maxima.
    slip (M, n): change of each coordinate with the slope, along the motion: an error of the slope moves the crossing.
    low, high (n,): range of the coordinates over all samples, not at the turning points only.
    """

    sample: Indices
    time: Array
    points: Array
    maximum: NDArray[np.bool_]
    slip: Array
    low: Array
    high: Array


def turning_section(
    record: Record,
    channels: Sequence[str] | None = None,
    *,
    delay: int | None = None,
    dimension: int = 3,
    kind: str | None = None,
    noise: Any = None,
    paths: bool = True,
) -> Section:
    """Make a section where the first channel turns.

    Each point carries the time to the next.
    dimension: coordinates of the first channel before the section takes one (3: value and curvature remain); other
    channels add their smoothed value; coordinates that are functions of the others are left out. delay: half width of
    the smoothing window in samples, by default the first minimum of the mutual information. kind: "maxima", "minima",
    or "outward" (maxima above the mean, minima below); by default "outward" when the signal circles two centres, else
    "maxima". noise: standard deviation of the samples of each channel (number, one each, or by name); known noise of
    the record, else estimated from the section. paths: whether the channels between the crossings are kept.
    """
    names = chosen_channels(record, channels)
    require_count("dimension", dimension, 2, 5)
    deviation = channel_noise(record, names, noise)
    record, _ = without_gaps(record)
    require_even(record)
    record = _continuous(record, names)
    main = record[names[0]]
    segments = record.segments()
    if delay is not None:
        require_count("delay", delay, 1)
    half = delay or window_half_width(main, segments)
    checkpoint()
    pieces = [piece for piece in segments if piece.stop - piece.start > 4 * half + 2]
    if not pieces:
        raise DataError(
            f"No segment is longer than two smoothing windows of {2 * half + 1} samples: lower {Give(delay=...)}, or "
            f"bridge short gaps with {RESAMPLE}."
        )
    crossings = [turning_points(record, names, piece, half, dimension) for piece in pieces]
    middle = float(np.mean(main))
    kind = kind or section_kind(crossings, middle, half)
    chosen = [(piece, choose(c, kind, middle, half)) for piece, c in zip(pieces, crossings, strict=True)]
    chosen = [(piece, c) for piece, c in chosen if len(c.time) > 1]
    low, high = np.min([c.low for c in crossings], axis=0), np.max([c.high for c in crossings], axis=0)
    if not chosen:
        raise DataError(f'"{names[0]}" has no two turning points in a segment: the record does not oscillate.')
    points = np.concatenate([c.points for _, c in chosen])
    follows = np.concatenate([np.arange(len(c.time)) < len(c.time) - 1 for _, c in chosen])
    duration = np.concatenate([np.append(np.diff(c.time), np.nan) for _, c in chosen])
    marks = ["", "''", "'''", "''''"][: dimension - 1]
    states = tuple(names[0] + mark for mark in marks) + names[1:]
    # Derivatives go before recorded channels: these are what a model knows.
    columns = independent_columns(points, list(range(1, len(marks))))
    points, states = points[:, columns], tuple(states[k] for k in columns)
    section = make_section(
        points, follows, states, (False,) * points.shape[1], float(np.nanmedian(duration)),
        sample=np.concatenate([c.sample for _, c in chosen]), duration=duration, extent=(high - low)[columns],
    )  # fmt: skip
    section = replace(section, signal=main[max(pieces, key=lambda piece: piece.stop - piece.start)])
    if paths:
        checkpoint()
        parts = [paths_between(record, piece, c.time) for piece, c in chosen]
        section = replace(
            section, channels=record.channels, paths=np.concatenate([path for path, _ in parts]),
            rates=np.concatenate([rates for _, rates in parts]),
        )  # fmt: skip
    if deviation is not None:
        deviation = coordinate_noise(deviation, np.concatenate([c.slip for _, c in chosen]), half, dimension)[columns]
    return with_noise(section, deviation)


def _continuous(record: Record, names: tuple[str, ...]) -> Record:
    """Make angles continuous.

    An angle that oscillates across ±π is allowed, one that keeps turning is not a coordinate here.
    """
    smooth = record.unwrapped()
    for name in names:
        angle = bool(smooth.content.channels[name].attrs.get("angle", False))
        if angle and any(np.ptp(smooth[name][piece]) > 4 * np.pi for piece in smooth.segments()):
            raise DataError(
                f'"{name}" turns over: use its rate, or sine and cosine (record.with_channel), or give a period.'
            )
        if angle:
            values = smooth[name].copy()
            middle = values[smooth.segments()[0]].mean()
            for piece in smooth.segments():
                values[piece] -= TURN * turns(values[piece].mean() - middle)
            smooth = smooth.with_channel(name, values, smooth.units[name], True, smooth.noise.get(name))
    return smooth


def coordinate_noise(deviation: Array, slip: Array, half: int, dimension: int) -> Array:
    """Return the noise (n,) of the section's coordinates.

    It follows from the noise of the samples of each channel (c,).
    A window of 2 h + 1 samples divides it by the square root of their number. The slope of the first channel has that
    noise as well and moves the crossing along the motion: the other coordinates move with it, by `slip` (M, n).
    """
    smoothed = np.concatenate([np.full(dimension - 1, deviation[0]), deviation[1:]]) / np.sqrt(2 * half + 1.0)
    # The median: at flat turning points the slip has no bound.
    return np.sqrt(smoothed**2 + np.median(slip**2, axis=0) * smoothed[0] ** 2)


def window_half_width(values: Array, segments: list[slice]) -> int:
    """Return the half width of the smoothing window.

    It is the delay of the channel, but at most a twelfth of its main oscillation.
    """
    longest = max(piece.stop - piece.start for piece in segments)
    reach = int(np.clip(longest // 10, 4, 400))
    delay = mutual_information(values, reach, segments=segments).delay
    centred = values - values.mean()
    turns = np.count_nonzero(np.diff(np.signbit(np.convolve(centred, np.ones(5) / 5, mode="same"))))
    per_turn = 2.0 * len(values) / max(turns, 1)
    return int(np.clip(min(delay, round(per_turn / 12)), 2, reach))


def turning_points(record: Record, names: tuple[str, ...], piece: slice, half: int, dimension: int) -> Crossings:
    """Find zero crossings of the smoothed slope.

    The slope is that of the first channel; all coordinates are interpolated to the crossings.
    """
    root = np.sqrt(2 * half + 1.0)
    coordinates = smoothing_coordinates(record[names[0]][piece], half, dimension) / root
    others = [smoothing_coordinates(record[name][piece], half, 1) / root for name in names[1:]]
    slope = coordinates[:, 1]
    sample = np.flatnonzero(np.signbit(slope[:-1]) != np.signbit(slope[1:]))
    share = slope[sample] / (slope[sample] - slope[sample + 1])
    table = np.column_stack([np.delete(coordinates, 1, axis=1), *others])
    along = table[sample + 1] - table[sample]
    points = table[sample] + share[:, None] * along
    slip = along / (slope[sample + 1] - slope[sample])[:, None]
    time = record.time[piece][half : len(record.time[piece]) - half]
    at = time[sample] + share * (time[sample + 1] - time[sample])
    return Crossings(
        sample + half + piece.start, at, points, slope[sample] > 0, slip, *np.quantile(table, [0.01, 0.99], axis=0)
    )


def section_kind(crossings: list[Crossings], middle: float, half: int) -> str:
    """Choose the kind of turning section.

    "outward" when two outward turns on one side often follow each other (the signal circles two centres), else
    "maxima".
    """
    same = total = 0
    for crossing in crossings:
        outward = choose(crossing, "outward", middle, half)
        same += int(np.count_nonzero(outward.maximum[1:] == outward.maximum[:-1]))
        total += max(len(outward.time) - 1, 0)
    # Oscillation about one centre alternates sides: the share of repeated sides is then near 0.
    return "outward" if total and 0.05 < same / total < 0.95 else "maxima"


def choose(crossing: Crossings, kind: str, middle: float, half: int) -> Crossings:
    """Select the turning points of one kind.

    Only the first of several within a smoothing window is kept: the others are noise.
    """
    value = crossing.points[:, 0]
    wanted = {
        "maxima": crossing.maximum,
        "minima": ~crossing.maximum,
        "outward": np.where(crossing.maximum, value > middle, value < middle),
    }
    if kind not in wanted:
        raise DataError(f'Section "{kind}" is not known: use "maxima", "minima" or "outward".')
    rows = np.flatnonzero(wanted[kind])
    if len(rows):
        rows = rows[np.append(True, np.diff(crossing.sample[rows]) > half)]
    return replace(
        crossing,
        **{name: getattr(crossing, name)[rows] for name in ("sample", "time", "points", "maximum", "slip")},
    )
