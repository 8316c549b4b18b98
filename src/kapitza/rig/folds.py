"""Folds of a measured branch: where the parameter turns round along the arclength."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.rig.branch import RigBifurcation, RigPoint

Array = NDArray[Any]

NEIGHBOURS = 5
"""Points of the parabola; with steps of 0.2 it finds a fold within 0.2 %."""


REACH = 0.3
"""Arclength on either side of a fold that the parabola takes in, where points lie closer."""


def folds_of(points: Sequence[RigPoint], parameter: str, scale: float) -> list[RigBifurcation]:
    """Extrema of the parameter along the branch, each from a parabola through the nearest points.

    An extremum counts when the parameter comes back from it by more than its scatter (a thousandth of `scale`, and
    three times the deviation of the parabola). The deviation is that of the extremum of the fitted parabola.
    """
    values = np.array([p.value for p in points])
    lengths = np.array([p.arclength for p in points])
    if len(points) < 4:
        return []
    found = [_fold(i, lengths, values, parameter) for i in _turns(values, 2e-3 * scale)]
    if len(found) > 1:
        # Noise makes the parameter turn round more than once where it hardly changes.
        scatter = max(2e-3 * scale, 4 * float(np.median([b.deviation for b in found])))
        found = [_fold(i, lengths, values, parameter) for i in _turns(values, scatter)]
    return found


def _fold(i: int, lengths: Array, values: Array, parameter: str) -> RigBifurcation:
    distance = np.abs(lengths - lengths[i])
    best: tuple[float, float, int] | None = None
    for reach in {float(np.sort(distance)[min(NEIGHBOURS, distance.size) - 1]), REACH}:
        near = np.flatnonzero(distance <= reach)
        if near.size < 4:
            continue
        value, deviation, _ = parabola_extremum(lengths[near] - lengths[i], values[near])
        if best is None or deviation < best[1]:
            best = value, deviation, near.size
    value, deviation, count = best if best is not None else (float(values[i]), float("nan"), 1)
    return RigBifurcation(
        kind="fold",
        parameter=parameter,
        value=value,
        deviation=deviation,
        method=f"parabola through {count} points",
        position=i,
    )


def _turns(values: Array, least: float) -> list[int]:
    """Places where a series turns round and comes back by more than `least`."""
    places, extreme, rising = [], 0, 0
    for i, value in enumerate(values):
        change = value - values[extreme]
        if rising == 0:
            if abs(change) > least:
                rising, extreme = (1 if change > 0 else -1), i
        elif rising * change > 0:
            extreme = i
        elif abs(change) > least:
            places.append(extreme)
            rising, extreme = -rising, i
    return places


def parabola_extremum(x: Array, y: Array) -> tuple[float, float, float]:
    """Extremum of the least-squares parabola through (x, y): value, its standard deviation, place."""
    columns = np.vander(x, 3, increasing=True)
    solution, *_ = np.linalg.lstsq(columns, y, rcond=None)
    c, b, a = solution
    place = -b / (2 * a)
    rest = y - columns @ solution
    free = max(x.size - 3, 1)
    covariance = float(rest @ rest) / free * np.linalg.inv(columns.T @ columns)
    row = np.array([1.0, place, place**2])
    return float(c - b**2 / (4 * a)), float(np.sqrt(row @ covariance @ row)), float(place)
