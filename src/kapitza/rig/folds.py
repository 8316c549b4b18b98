"""Folds of a measured branch.

At a fold the parameter turns round along the arclength.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import polynomial
from scipy import stats

from kapitza.base.arrays import Array
from kapitza.rig.branch import RigBifurcation, RigPoint

NEIGHBOURS, MORE = 5, 7
"""Points of the parabola, and of the quartic that estimates its error."""


def folds_of(points: Sequence[RigPoint], parameter: str, scale: float) -> list[RigBifurcation]:
    """Return the folds of measured points.

    Folds are extrema of the parameter along the branch, each from a parabola through the nearest points.
    An extremum counts when the parameter comes back from it by more than its scatter: a thousandth of `scale`, four
    deviations of a point, twice the deviation of a fold. The deviation of a fold holds the scatter about the parabola
    (Student's, for the few points), the change by a quartic through more points, and how far points may be from the
    free motion: the continuation leaves them on the side of the predictor, all alike. It is an upper bound;
    `measure_fold` measures the fold itself.
    """
    values = np.array([p.value for p in points])
    lengths = np.array([p.arclength for p in points])
    own = np.nan_to_num([p.deviation for p in points])
    if len(points) < 4:
        return []
    # A turn smaller than the scatter of points is not a fold.
    least = max(2e-3 * scale, 4 * float(np.median(own)))
    found = [_fold(i, lengths, values, own, parameter) for i in _turns(values, least)]
    if len(found) > 1:
        # Noise makes the parameter turn round more than once where it hardly changes.
        least = max(least, 2 * float(np.median([b.deviation for b in found])))
        found = [_fold(i, lengths, values, own, parameter) for i in _turns(values, least)]
    return found


def _fold(i: int, lengths: Array, values: Array, own: Array, parameter: str) -> RigBifurcation:
    """Return the fold next to point i.

    own: deviations of the points.
    """
    away = lengths - lengths[i]
    near = np.argsort(np.abs(away), kind="stable")[:NEIGHBOURS]
    if near.size < 4:
        value, deviation = float(values[i]), float("nan")
    else:
        value, scatter, place = parabola_extremum(away[near], values[near])
        more = np.argsort(np.abs(away), kind="stable")[:MORE]
        bent = _quartic_extremum(away[more], values[more], place) if more.size == MORE else value
        deviation = float(np.sqrt(scatter**2 + (bent - value) ** 2 + np.mean(own[near] ** 2)))
    return RigBifurcation(
        kind="fold",
        parameter=parameter,
        value=value,
        deviation=deviation,
        method=f"parabola through {near.size} points",
        position=i,
    )


def _quartic_extremum(x: Array, y: Array, place: float) -> float:
    """Return the extremum of a quartic.

    The quartic goes through (x, y); the extremum is the one nearest to `place`, or the value there.
    """
    shape = polynomial.polyfit(x, y, 4)
    roots = polynomial.polyroots(polynomial.polyder(shape))
    real = roots.real[np.abs(roots.imag) < 1e-9]
    at = real[np.abs(real - place).argmin()] if real.size else place
    return float(polynomial.polyval(np.clip(at, x.min(), x.max()), shape))


def _turns(values: Array, least: float) -> list[int]:
    """Return places where a series turns round.

    The series comes back by more than `least`.
    """
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
    """Return the extremum of a fitted parabola.

    The parabola fits (x, y) by least squares; value, its standard deviation and place are returned.
    """
    columns = np.vander(x, 3, increasing=True)
    solution, *_ = np.linalg.lstsq(columns, y, rcond=None)
    c, b, a = solution
    place = -b / (2 * a)
    rest = y - columns @ solution
    free = max(x.size - 3, 1)
    covariance = float(rest @ rest) / free * np.linalg.inv(columns.T @ columns)
    row = np.array([1.0, place, place**2])
    # Few points estimate their scatter poorly: the normal 90 % interval with this deviation is Student's.
    known = float(stats.t.ppf(0.95, free) / stats.norm.ppf(0.95))
    return float(c - b**2 / (4 * a)), known * float(np.sqrt(row @ covariance @ row)), float(place)
