"""Largest Lyapunov exponent from how fast neighbours part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from kapitza.base.arrays import Array
from kapitza.errors import DataError

GROUPS = 16  # of starts, whose slopes give the interval by Student's t


@dataclass(frozen=True)
class Lyapunov:
    """Largest Lyapunov exponent per second with its interval.

    The interval is 90 %. The exponent is the slope of the mean log distance.

    times: (K,) seconds; growth: (K,) mean of log |distance|; fitted: first and last index of the straight part.
    """

    value: float
    low: float
    high: float
    times: Array
    growth: Array
    fitted: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.value:.4g} 1/s (90 % interval {self.low:.4g} … {self.high:.4g})"


def largest_lyapunov(
    states: Array,
    step: float,
    *,
    segments: Sequence[slice] | None = None,
    theiler: int = 0,
    horizon: int | None = None,
    references: int = 3000,
) -> Lyapunov:
    """Estimate the largest Lyapunov exponent.

    It is the slope of the mean log distance of nearest neighbours against time (Rosenstein, Collins, De Luca 1993).

    states: (N, n) successive states `step` seconds apart; angles must enter as points on a circle (cos, sin). theiler:
    rows around a reference that may not be its neighbours. horizon: rows that pairs are followed. The slope is read
    where the growth has left its first tenth and not yet reached 60 % of its rise; the interval is Student's over
    groups of references.
    """
    from scipy.spatial import KDTree

    states = np.asarray(states, float)
    states = states[:, None] if states.ndim == 1 else states
    segments = list(segments or [slice(0, len(states))])
    longest = max(piece.stop - piece.start for piece in segments)
    horizon = horizon or min(200, max(longest // 5, 4))
    usable = np.concatenate([np.arange(p.start, max(p.stop - horizon, p.start)) for p in segments])
    if len(usable) < 200:
        raise DataError(
            f"{len(usable)} states can be followed for {horizon} steps, 200 are needed: record longer or lower horizon."
        )
    chosen = usable[np.linspace(0, len(usable) - 1, min(references, len(usable))).astype(int)]
    count = min(len(usable), 2 * theiler + 6)
    distance, position = KDTree(states[usable], balanced_tree=False, compact_nodes=False).query(
        states[chosen], k=count, workers=-1
    )
    near = usable[np.asarray(position, np.intp)]
    apart = (np.abs(near - chosen[:, None]) > theiler) & (np.asarray(distance) > 0)
    found = apart.any(axis=1)
    first = np.argmax(apart, axis=1)[found]
    start, other = chosen[found], near[np.flatnonzero(found), first]
    if len(start) < 50:
        raise DataError(f"Only {len(start)} references have a neighbour apart in time: the record is too short.")
    ahead = np.arange(horizon)
    gaps = np.empty((len(start), horizon))
    for k in ahead:  # over the horizon, not over samples
        gaps[:, k] = np.linalg.norm(states[start + k] - states[other + k], axis=1)
    logs = np.log(np.maximum(gaps, 1e-300))
    growth = logs.mean(axis=0)
    begin, end = straight_part(growth)
    times: Array = np.asarray(ahead * float(step), float)
    slopes = []
    for group in np.array_split(np.arange(len(start)), GROUPS):
        slopes.append(np.polyfit(times[begin : end + 1], logs[group].mean(axis=0)[begin : end + 1], 1)[0])
    value = float(np.polyfit(times[begin : end + 1], growth[begin : end + 1], 1)[0])
    reach = float(stdtrit(GROUPS - 1, 0.95) * np.std(slopes, ddof=1) / np.sqrt(GROUPS))
    return Lyapunov(value, value - reach, value + reach, times, growth, (begin, end))


def straight_part(growth: Array) -> tuple[int, int]:
    """Return first and last index of the straight part.

    It is between a tenth and 60 % of the rise, at least three points.
    """
    top = float(np.max(growth))
    rise = top - float(growth[0])
    begin = int(np.argmax(growth >= growth[0] + 0.1 * rise))
    end = int(np.argmax(growth >= growth[0] + 0.6 * rise))
    return begin, min(max(end, begin + 2), len(growth) - 1)


def on_circles(values: Array, angles: Sequence[bool]) -> Array:
    """Replace each angle by its cosine and sine.

    Distances then close on themselves.
    """
    columns = []
    for column, angle in zip(np.asarray(values, float).T, angles, strict=True):
        columns += [np.cos(column), np.sin(column)] if angle else [column]
    return np.column_stack(columns)
