"""Points of a record on a Poincaré section.

In units in which every coordinate has size one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import wrap_states
from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import Give
from kapitza.errors import DataError
from kapitza.orbits.in_records.search_index import SearchIndex


@dataclass(frozen=True)
class Section:
    """Scaled points, one per step of a map.

    The attractor spans one unit in each coordinate.
    unit: (N, n) points divided by `scale`; angles lie in [0, 1), one turn is one unit.
    follows: (N,) True where row i + 1 is the image of row i (False at the end of a segment).
    scale: (n,) size of the attractor, 2π for angles.
    noise: (n,) standard deviation of the measurement noise, in units of `scale`.
    sample: (N,) row of the record where each point came from.
    step: time between a point and its image, in seconds.
    turns: (N, n) or None: whole turns of each angle from a point to its image, when the record knows them.
    duration: (N,) or None: time from a point to its image in seconds, where it varies (autonomous records).
    paths: (N, M, c) or None: the record's own `channels` at M equal parts of the way to the image, in physical units;
    rates: (N, c) their slopes in time at the point itself.
    extent: (n,) or None: size of the whole signal in units of `scale`, where the record shows more than the section.
    noise_source: "known", "estimated", or "not estimated" (then `noise` is zero).
    signal: (S,) or None: the longest evenly sampled stretch of the channel that makes the section (autonomous
    records).
    """

    unit: Array
    follows: NDArray[np.bool_]
    states: tuple[str, ...]
    angles: tuple[bool, ...]
    scale: Array
    noise: Array
    sample: Indices
    step: float
    turns: Array | None = None
    duration: Array | None = None
    paths: Array | None = None
    rates: Array | None = None
    channels: tuple[str, ...] = ()
    extent: Array | None = None
    noise_source: str = "known"
    signal: Array | None = None
    search: SearchIndex | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        return len(self.unit)

    @property
    def dimension(self) -> int:
        return self.unit.shape[1]

    @cached_property
    def circle(self) -> NDArray[np.bool_]:
        return np.asarray(self.angles, bool)

    @cached_property
    def turning(self) -> tuple[int, ...]:
        """Columns that are angles."""
        return tuple(np.flatnonzero(self.circle).tolist())

    @cached_property
    def _search(self) -> SearchIndex:
        if self.search is not None and self.search.belongs_to(self.unit, self.follows):
            return self.search
        return SearchIndex(self.unit, self.follows, self.circle)

    @property
    def starts(self) -> Indices:
        """Rows that have an image."""
        return self._search.starts

    @property
    def run(self) -> Indices:
        """(N,) how many images follow each row without interruption."""
        return self._search.run

    def wrap(self, difference: Array) -> Array:
        """Wrap differences of scaled points.

        Angles are brought into [-1/2, 1/2]; works in place on its argument.
        """
        for column in self.turning:
            difference[..., column] -= np.round(difference[..., column])
        return difference

    def canonical(self, unit: Array) -> Array:
        """Bring angles of scaled points into [0, 1).

        The search tree expects angles in this range.
        """
        unit = np.array(unit, float)
        for column in self.turning:
            unit[..., column] %= 1.0
            unit[..., column][unit[..., column] >= 1.0] = 0.0
        return unit

    def physical(self, unit: Array) -> Array:
        """Convert to the units of the record.

        Angles are returned in [-π, π).
        """
        return wrap_states(np.asarray(unit, float) * self.scale, self.circle)

    def with_noise(self, noise: Array, source: str = "known") -> Section:
        """Return the same points with another noise (n,).

        The noise is in scaled units; the search tree is shared.
        """
        return replace(self, noise=np.asarray(noise, float), noise_source=source, search=self._search)

    def thinned(self, most: int, seed: int = 0) -> Section:
        """Return the section with at most `most` starts.

        The rows that count as having an image are drawn at random.
        """
        if len(self.starts) <= most:
            return self
        follows, search = self._search.thinned(most, seed)
        return replace(self, follows=follows, search=search)

    def nearest(self, centres: Array, count: int) -> tuple[Array, Indices]:
        """Return the nearest points that have an image.

        It returns distances (C, K) and rows (C, K).
        """
        return self._search.nearest(self.canonical(centres), min(count, len(self.starts)))

    def within(self, centre: Array, radius: float) -> Indices:
        """Return the rows with an image within a radius of a point (n,)."""
        return self._search.within(self.canonical(centre), radius)

    def count_within(self, centres: Array, radius: float) -> Indices:
        """Return how many points with an image are within a radius of points (C, n)."""
        return self._search.count_within(self.canonical(centres), radius)


def spans(points: Array) -> Array:
    """Return the span (n,) of each column.

    By columns: NumPy takes 40 times as long along the first axis of many short rows.
    """
    return np.array([np.ptp(column) for column in points.T])


def make_section(
    points: Array,
    follows: NDArray[np.bool_],
    states: tuple[str, ...],
    angles: tuple[bool, ...],
    step: float,
    *,
    noise: Array | None = None,
    sample: Indices | None = None,
    turns: Array | None = None,
    duration: Array | None = None,
    scale: Array | None = None,
    extent: Array | None = None,
) -> Section:
    """Scale physical points (N, n) into a `Section`.

    `noise` (a standard deviation) and `extent` are in physical units.
    A section on which a moving signal is always at one place (a response with the period of the drive) is scaled by
    a millionth of the signal's extent: smaller differences are rounding.
    """
    points = np.asarray(points, float)
    circle = np.asarray(angles, bool)
    size: Array = np.where(circle, 2 * np.pi, spans(points) if scale is None else scale)
    if extent is not None:
        # A response with the period of the drive has a section without size.
        size = np.maximum(size, 1e-6 * np.asarray(extent, float))
    flat = np.flatnonzero(size <= 0)
    if flat.size:
        raise DataError(
            f'"{states[flat[0]]}" does not change over {len(points)} points: leave it out with {Give(channels=...)}, '
            "or check the sensor."
        )
    unit = points / size
    for column in np.flatnonzero(circle):
        unit[:, column] %= 1.0
        unit[unit[:, column] >= 1.0, column] = 0.0
    follows = np.array(follows, bool)
    follows[-1] = False
    return Section(
        unit=unit,
        follows=follows,
        states=tuple(states),
        angles=tuple(bool(a) for a in angles),
        scale=size,
        noise=np.zeros(len(size)) if noise is None else np.asarray(noise, float) / size,
        sample=np.arange(len(points)) if sample is None else sample,
        step=float(step),
        turns=turns,
        duration=duration,
        extent=None if extent is None else np.where(circle, 1.0, np.asarray(extent, float) / size),
    )
