"""Comparison of attractors on a section.

Two clouds of points are compared by their energy distance and its distribution by chance.
"""

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
"""Fewest points of a section that is compared."""

MOST = 1500
"""Most points of each cloud that are compared, because distances between all pairs are formed."""

SHORTEST = 20
"""Fewest samples of a piece whose maxima are taken."""

PROMINENT = 0.3
"""Height of a maximum above its surroundings, in standard deviations of the channel."""

SPREADS = 3.0
"""Noise floor in standard deviations above the mean distance between copies. Chaotic motions stay in one wing for long:
with two, a quarter of the right models of Lorenz's system would be rejected."""

COPIES = 12
"""Runs of the model from which the noise floor is estimated."""


def section_points(record: Record, channels: Sequence[str]) -> tuple[Array, tuple[str, ...], str]:
    """Return the section points (M, k), names and kind.

    The record is strobed once per excitation period, or else cut at maxima of the first channel. A single channel
    enters with its next value, so that the points depend on the dynamics.
    """
    angles = dict(zip(record.channels, record.angles, strict=True))
    if record.period is not None:
        strobed = record.strobed()
        columns, pieces, kind = strobed.values(channels), strobed.segments(), "once per excitation period"
    else:
        columns, pieces, kind = _maxima(record, channels)
    names = list(channels)
    # A delay coordinate: the distribution of one coordinate alone does not depend on its order in time.
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
    """Return the samples at the maxima of a channel.

    Piece by piece; only maxima that are too prominent to be made by noise.
    """
    from scipy.signal import find_peaks

    continuous, found = record.unwrapped()[channel], []
    for piece in record.split_at_gaps().segments():
        values = continuous[piece]
        found.append((piece, piece.start + find_peaks(values, prominence=PROMINENT * values.std())[0]))
    return found


def energy_distance(one: Array, other: Array) -> float:
    """Return the energy distance of two clouds of points.

    sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|): zero for equal distributions only (G. Székely, M. Rizzo 2013).
    """
    from scipy.spatial.distance import cdist

    square = 2 * cdist(one, other).mean() - cdist(one, one).mean() - cdist(other, other).mean()
    return float(np.sqrt(max(square, 0.0)))


def compare_sections(record: Record, copies: Sequence[Record], channels: Sequence[str]) -> SectionTest:
    """Compare the section of a record with the model's.

    copies: runs of the model, each as long as the record and with its noise.
    """
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
    # Units of the measured spread make channels comparable.
    scale = seen.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    rng = np.random.default_rng(0)
    unit = [_thinned(on_circles(cloud, flags) / scale, rng) for cloud in clouds]
    own = _thinned(seen / scale, rng)
    distance = float(np.median([energy_distance(own, cloud) for cloud in unit]))
    # For a right model the record is one more copy: its median distance is drawn like that of a copy from the others.
    among = [
        np.median([energy_distance(cloud, other) for j, other in enumerate(unit) if j != i])
        for i, cloud in enumerate(unit)
    ]
    floor = float(np.mean(among) + SPREADS * np.std(among, ddof=1))
    return SectionTest(names, kind, measured, clouds[0], distance, floor)


def _thinned(points: Array, rng: np.random.Generator) -> Array:
    return points if len(points) <= MOST else points[rng.choice(len(points), MOST, replace=False)]
