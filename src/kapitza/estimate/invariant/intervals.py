"""Covariance of the fit of level sets, and the block bootstrap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import ConvergenceError
from kapitza.estimate.invariant.surface import SurfaceSolution, projected_rows
from kapitza.invariants import Points, inverse_by_units, leverage_left, long_run
from kapitza.monitor import checkpoint

Array = NDArray[np.float64]


def surface_covariance(solution: SurfaceSolution, points: Points) -> Array:
    """Sandwich (JᵀJ)⁻¹ B (JᵀJ)⁻¹ of the distances with the levels eliminated."""
    residual, jacobian = projected_rows(solution.nearest, points, solution.weights)
    bread = inverse_by_units(jacobian @ jacobian.T)
    leverage = np.einsum("kn,kn->n", bread @ jacobian, jacobian)
    filling = long_run(residual * jacobian / leverage_left(leverage, points.count), points.run, points.reach)
    return bread @ filling @ bread


def resample(points: Points, rng: np.random.Generator) -> Points:
    """Blocks of neighbours drawn with replacement inside every level set, as many points as there were."""
    length = max(1, 2 * points.reach)
    chosen = []
    for level in range(points.levels):
        members = np.flatnonzero(points.level == level)
        blocks = -(-members.size // length)
        first = rng.integers(0, max(1, members.size - length + 1), blocks)
        chosen.append(members[np.minimum(first[:, None] + np.arange(length), members.size - 1).ravel()[: members.size]])
    return points.take(np.concatenate(chosen))


def bootstrap(points: Points, refit: Callable[[Points], Array], count: int, seed: int) -> Array:
    """Estimates (count, k) from resampled points; samples that fail are left out, and too many of them are an error."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        checkpoint(text=f"bootstrap {number + 1} of {count}")
        theta = refit(resample(points, rng))
        if np.isfinite(theta).all():
            found.append(theta)
    if len(found) < max(2, count // 2):
        raise ConvergenceError(f"Only {len(found)} of {count} bootstrap samples converged: use more points.", found)
    return np.array(found)
