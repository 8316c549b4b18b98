"""Where motions pass a section: two clouds of points, their distance, and what chance makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate.validation.result import SectionTest
from kapitza.signal import on_circles

FEWEST = 30
"""Points of a section without which it says nothing."""

MOST = 1500
"""Points of each cloud that are compared: distances between all pairs are formed."""

SHORTEST = 20
"""Samples of a piece whose maxima are taken."""

PROMINENT = 0.3
"""Height of a maximum above its surroundings, in standard deviations of the channel."""

SPREADS = 3.0
"""Standard deviations above the mean of what copies have among themselves that make the floor. Chaotic motions dwell in
their wings for long: with two, a quarter of the right models of Lorenz's system would be doubted."""

COPIES = 12
"""Stretches of the model's own motion from which the noise floor is read."""


def section_points(record: Record, channels: Sequence[str]) -> tuple[Array, tuple[str, ...], str]:
    """Points (M, k) with names and kind: strobed once per excitation period, else at maxima of the first channel.

    A single channel enters with its next value, so that the points tell of the dynamics.
    """
    angles = dict(zip(record.channels, record.angles, strict=True))
    if record.period is not None:
        strobed = record.strobed()
        columns, pieces, kind = strobed.values(channels), strobed.segments(), "once per excitation period"
    else:
        columns, pieces, kind = _maxima(record, channels)
    names = list(channels)
    if len(channels) == 1:
        pairs = [(columns[p][:-1], columns[p][1:]) for p in pieces if p.stop - p.start > 1]
        if not pairs:
            raise DataError("the section has no two successive points")
        columns = np.column_stack([np.concatenate(side) for side in zip(*pairs, strict=True)])
        names, angles = [channels[0], f"{channels[0]}, next"], {**angles, f"{channels[0]}, next": angles[channels[0]]}
    if len(columns) < FEWEST:
        raise DataError(f"the section has only {len(columns)} points; {FEWEST} are needed")
    return columns, tuple(names), kind


def _maxima(record: Record, channels: Sequence[str]) -> tuple[Array, list[slice], str]:
    tops = [t for piece, t in maxima_of(record, channels[0]) if piece.stop - piece.start >= SHORTEST and len(t) > 1]
    if not tops:
        raise DataError("the first channel has no maxima to section at")
    edges = np.cumsum([0, *map(len, tops)]).tolist()
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    return record.values(channels)[np.concatenate(tops)], pieces, f"at maxima of {channels[0]}"


def maxima_of(record: Record, channel: str) -> list[tuple[slice, Indices]]:
    """Samples at the maxima of a channel, piece by piece; prominent enough that noise makes none of its own."""
    from scipy.signal import find_peaks

    continuous, found = record.unwrapped()[channel], []
    for piece in record.split_at_gaps().segments():
        values = continuous[piece]
        found.append((piece, piece.start + find_peaks(values, prominence=PROMINENT * values.std())[0]))
    return found


def energy_distance(one: Array, other: Array) -> float:
    """sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|): zero for equal clouds only (G. Székely, M. Rizzo 2013)."""
    from scipy.spatial.distance import cdist

    square = 2 * cdist(one, other).mean() - cdist(one, one).mean() - cdist(other, other).mean()
    return float(np.sqrt(max(square, 0.0)))


def compare_sections(record: Record, copies: Sequence[Record], channels: Sequence[str]) -> SectionTest:
    """The record's section against those of runs of the model, each as long as the record and as noisy."""
    measured, names, kind = section_points(record, channels)
    angles = dict(zip(record.channels, record.angles, strict=True))
    flags = [angles[name.removesuffix(", next")] for name in names]
    clouds = []
    for copy in copies:
        try:
            clouds.append(section_points(copy, channels)[0])
        except DataError:
            continue
    if len(clouds) < 4:
        raise DataError("the model's own motion has too few points on the section")
    seen = on_circles(measured, flags)
    scale = seen.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    rng = np.random.default_rng(0)
    unit = [_thinned(on_circles(cloud, flags) / scale, rng) for cloud in clouds]
    own = _thinned(seen / scale, rng)
    distance = float(np.median([energy_distance(own, cloud) for cloud in unit]))
    # The record against all copies is one draw of what a copy has against the others.
    among = [
        np.median([energy_distance(cloud, other) for j, other in enumerate(unit) if j != i])
        for i, cloud in enumerate(unit)
    ]
    floor = float(np.mean(among) + SPREADS * np.std(among, ddof=1))
    return SectionTest(names, kind, measured, clouds[0], distance, floor)


def _thinned(points: Array, rng: np.random.Generator) -> Array:
    return points if len(points) <= MOST else points[rng.choice(len(points), MOST, replace=False)]
