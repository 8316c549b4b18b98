"""Search for the best experiment.

Quasi-random points come first, then Nelder-Mead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from kapitza.base.arrays import Array
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError


@dataclass(frozen=True)
class Search:
    """How many experiments a plan tries.

    points: of a Sobol sequence over all that may be chosen; polish: of the local search around the best of them, random
    steps and then Nelder-Mead. draws: values of the parameters over which every experiment is averaged; shown: those
    for the experiments in the table, from which their bands are taken. seed: of both.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Search(points=64).draws
    8
    """

    # 120 Sobol points and 80 Nelder-Mead steps found the best of 4096 points; 200 Sobol points alone were 7 % off.
    points: int = 128
    polish: int = 160
    # More draws did not improve the choice; bands from 16 draws held 82 % of the reached widths, from 32 draws 88 %.
    draws: int = 8
    shown: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.points, self.draws) < 1 or self.polish < 0:
            raise DataError(f"{self}: at least one point and one draw are needed, and no negative number.")
        if self.shown < self.draws:
            raise DataError(f"{self}: the table is made with at least as many draws as the search, shown >= draws.")


Score = Callable[[Array, int], Array]
"""Score (B,) of points (B, a) at so many draws of the parameters; infinite for experiments that break a limit."""

SIFTED = 24
"""Best points of the sequence that are tried again with the draws of the table, before the best of them is polished."""


def best_points(score: Score, axes: int, continuous: list[int], search: Search) -> Array:
    """Search and return the best experiment.

    The result is a point (a,) of the unit cube. A Sobol sequence is scored with few draws, and the best of it again
    with all draws, since a limit that 8 draws keep may be broken by one of 32. Random steps and Nelder-Mead then
    improve the best of these.
    """
    from scipy.stats import qmc

    # A power of two keeps the balance of the sequence.
    power = max(1, int(np.ceil(np.log2(search.points))))
    points = qmc.Sobol(axes, rng=np.random.default_rng(search.seed)).random_base2(power)
    first = np.argsort(score(points, search.draws), kind="stable")[:SIFTED]
    again = score(points[first], search.shown)
    best = points[first[int(np.argmin(again))]]
    if not continuous or not np.isfinite(again).any() or search.polish < 1:
        return best
    size = 0.5 * points.shape[0] ** (-1 / axes)
    best = _around(score, points[first], again, continuous, search, size)

    def polished(shares: Array) -> float:
        checkpoint()
        point = best.copy()
        point[continuous] = np.clip(shares, 0.0, 1.0)
        value = float(score(point[None], search.shown)[0])
        return value if np.isfinite(value) else REFUSED

    # The simplex begins at the size of the last random steps.
    simplex = corners(best[continuous], size * 0.6**ROUNDS)
    options = {"initial_simplex": simplex, "maxfev": max(1, search.polish // 4), "xatol": 1e-4, "fatol": 1e-4}
    ends = minimize(
        polished, best[continuous], method="Nelder-Mead", bounds=[(0.0, 1.0)] * len(continuous), options=options
    )
    found = best.copy()
    found[continuous] = ends.x
    return found


ROUNDS, CENTRES = 6, 4
"""Rounds of the local search, and the points around which each round tries others."""


def _around(score: Score, points: Array, scores: Array, continuous: list[int], search: Search, size: float) -> Array:
    """Improve the best points by random steps.

    Returns the best point (a,) after rounds around the best ones, shrinking from round to round.
    Three quarters of the polishing go here. One start alone stopped at the edge of a limit, 10 % above the best run of
    a softening spring; several starts move on along it, and a round is simulated as one batch.
    """
    random = np.random.default_rng(search.seed)
    each = 3 * search.polish // 4 // ROUNDS // CENTRES
    for number in range(ROUNDS if each else 0):
        centres = points[np.argsort(scores, kind="stable")[:CENTRES]]
        tried = np.repeat(centres, each, axis=0)
        steps = random.normal(0.0, size * 0.6**number, (len(tried), len(continuous)))
        tried[:, continuous] = np.clip(tried[:, continuous] + steps, 0.0, 1.0)
        points, scores = np.concatenate([points, tried]), np.concatenate([scores, score(tried, search.shown)])
    return points[int(np.argmin(scores))]


REFUSED = 1e6
"""Score of an experiment beyond a limit, for a search that needs finite numbers."""


def corners(centre: Array, size: float) -> Array:
    """Return corners (a + 1, a) around a point.

    Each to the side where the cube has space.
    """
    around = np.tile(centre, (centre.size + 1, 1))
    for i in range(centre.size):
        around[i + 1, i] += size if centre[i] + size <= 1 else -size
    return around


def distinct(points: Array, scores: Array, information: Array, most: int) -> list[int]:
    """Return the best distinct experiments.

    It returns the numbers of at most `most` experiments, the best first.
    Two are the same where they are neighbours in the cube, or where their information (P, k, k) agrees within 10 %.
    """
    chosen: list[int] = []
    for i in np.argsort(scores, kind="stable").tolist():
        if len(chosen) == most or not np.isfinite(scores[i]):
            break
        if all(_differ(points[i], points[j], information[i], information[j]) for j in chosen):
            chosen.append(i)
    return chosen


NEIGHBOURS = 0.1
"""Distance in the unit cube, along the axis where it is largest, below which experiments are one."""

SAME = 0.1
"""Relative difference of information below which experiments count as the same."""


def _differ(a: Array, b: Array, told_a: Array, told_b: Array) -> bool:
    if np.abs(a - b).max() < NEIGHBOURS:
        return False
    size = np.abs(told_a).max()
    return bool(np.abs(told_a - told_b).max() > SAME * size)
