"""Sections of autonomous records: the turning points of a channel, in coordinates smoothed over a window.

The section x' = 0 is crossed once per oscillation whatever the system, needs no knowledge of the state space, and its
coordinates (value, curvature, …) come from the same window as the crossing itself. The time between crossings is kept,
so that the period of a cycle, unknown for autonomous systems, comes out of the fitted maps as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits.coordinates import independent_columns
from kapitza.orbits.crossings import paths_between
from kapitza.orbits.noise_on_section import section_noise
from kapitza.orbits.section import Section, make_section
from kapitza.signal import mutual_information, smoothing_coordinates

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Crossings:
    """Turning points of one segment: samples before them, times, coordinates (M, n), and which are maxima."""

    sample: Index
    time: Array
    points: Array
    maximum: NDArray[np.bool_]


def turning_section(
    record: Record,
    channels: Sequence[str] | None = None,
    *,
    delay: int | None = None,
    dimension: int = 3,
    kind: str | None = None,
    noise: Array | None = None,
) -> Section:
    """Points where the first of the `channels` turns, each with the time to the next.

    dimension: coordinates of the first channel before the section takes one (3: value and curvature remain); other
    channels add their smoothed value; coordinates that are functions of the others are left out. delay: half width of
    the smoothing window in samples, by default the first minimum of the mutual information. kind: "maxima", "minima",
    or "outward" (maxima above the mean, minima below); by default "outward" when the signal circles two centres, else
    "maxima".
    """
    names = tuple(channels or record.channels)
    main = record[names[0]]
    segments = record.segments()
    if bool(record.dataset[names[0]].attrs.get("angle", False)) and np.ptp(main) > 1.8 * np.pi:
        raise DataError(f'"{names[0]}" turns over: choose a channel that oscillates as the first, or give a period.')
    half = delay or window_half_width(main, segments)
    pieces = [piece for piece in segments if piece.stop - piece.start > 4 * half + 2]
    if not pieces:
        raise DataError(f"No segment is longer than two smoothing windows of {2 * half + 1} samples: lower delay=...")
    crossings = [turning_points(record, names, piece, half, dimension) for piece in pieces]
    middle = float(np.mean(main))
    kind = kind or section_kind(crossings, middle, half)
    chosen = [(piece, choose(c, kind, middle, half)) for piece, c in zip(pieces, crossings, strict=True)]
    chosen = [(piece, c) for piece, c in chosen if len(c.time) > 1]
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
        sample=np.concatenate([c.sample for _, c in chosen]), duration=duration,
    )  # fmt: skip
    parts = [paths_between(record, piece, c.time) for piece, c in chosen]
    section = replace(
        section, channels=record.channels, paths=np.concatenate([path for path, _ in parts]),
        rates=np.concatenate([rates for _, rates in parts]),
    )  # fmt: skip
    if noise is None and len(section.starts) >= 200:
        return section.with_noise(section_noise(section))
    return section if noise is None else section.with_noise(np.asarray(noise, float) / section.scale)


def window_half_width(values: Array, segments: list[slice]) -> int:
    """Half width of the smoothing window: the delay of the channel, but at most a twelfth of its main oscillation."""
    longest = max(piece.stop - piece.start for piece in segments)
    reach = int(np.clip(longest // 10, 4, 400))
    delay = mutual_information(values, reach, segments=segments).delay
    centred = values - values.mean()
    turns = np.count_nonzero(np.diff(np.signbit(np.convolve(centred, np.ones(5) / 5, mode="same"))))
    per_turn = 2.0 * len(values) / max(turns, 1)
    return int(np.clip(min(delay, round(per_turn / 12)), 2, reach))


def turning_points(record: Record, names: tuple[str, ...], piece: slice, half: int, dimension: int) -> Crossings:
    """Zero crossings of the smoothed slope of the first channel, with all coordinates interpolated to them."""
    root = np.sqrt(2 * half + 1.0)
    coordinates = smoothing_coordinates(record[names[0]][piece], half, dimension) / root
    others = [smoothing_coordinates(record[name][piece], half, 1) / root for name in names[1:]]
    slope = coordinates[:, 1]
    sample = np.flatnonzero(np.signbit(slope[:-1]) != np.signbit(slope[1:]))
    share = slope[sample] / (slope[sample] - slope[sample + 1])
    table = np.column_stack([np.delete(coordinates, 1, axis=1), *others])
    points = table[sample] + share[:, None] * (table[sample + 1] - table[sample])
    time = record.time[piece][half : len(record.time[piece]) - half]
    at = time[sample] + share * (time[sample + 1] - time[sample])
    return Crossings(sample + half + piece.start, at, points, slope[sample] > 0)


def section_kind(crossings: list[Crossings], middle: float, half: int) -> str:
    """ "outward" when two outward turns on one side often follow each other (the signal circles two centres)."""
    same = total = 0
    for crossing in crossings:
        outward = choose(crossing, "outward", middle, half)
        same += int(np.count_nonzero(outward.maximum[1:] == outward.maximum[:-1]))
        total += max(len(outward.time) - 1, 0)
    return "outward" if total and 0.05 < same / total < 0.95 else "maxima"


def choose(crossing: Crossings, kind: str, middle: float, half: int) -> Crossings:
    """The turning points of one kind; of several within a smoothing window only the first, the rest is noise."""
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
    return Crossings(crossing.sample[rows], crossing.time[rows], crossing.points[rows], crossing.maximum[rows])
