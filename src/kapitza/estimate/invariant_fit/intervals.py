"""Covariance of level-set fits, and the block bootstrap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.base.monitor import Interrupted, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import ConvergenceError
from kapitza.estimate.invariant_fit.conserved import Points, inverse_by_units, leverage_left, long_run
from kapitza.estimate.invariant_fit.surface import SurfaceSolution, projected_rows


def surface_covariance(solution: SurfaceSolution, points: Points) -> Array:
    """Return the sandwich covariance of the distances.

    It is (JᵀJ)⁻¹ B (JᵀJ)⁻¹ with the levels eliminated.
    """
    residual, jacobian = projected_rows(solution.nearest, points, solution.weights)
    bread = inverse_by_units(jacobian @ jacobian.T)
    leverage = np.einsum("kn,kn->n", bread @ jacobian, jacobian)
    filling = long_run(residual * jacobian / leverage_left(leverage, points.count), points.run, points.reach)
    return bread @ filling @ bread


def resample(points: Points, rng: np.random.Generator) -> Indices:
    """Draw blocks of neighbours with replacement.

    Places (N,) inside every level set, as many as there were.
    """
    # Blocks are longer than the range over which neighbours share noise.
    length = max(1, 2 * points.reach)
    chosen = []
    for level in range(points.levels):
        members = np.flatnonzero(points.level == level)
        blocks = -(-members.size // length)
        first = rng.integers(0, max(1, members.size - length + 1), blocks)
        chosen.append(members[np.minimum(first[:, None] + np.arange(length), members.size - 1).ravel()[: members.size]])
    return np.concatenate(chosen)


def bootstrap(
    points: Points, refit: Callable[[Points], Array], count: int, seed: int, executor: Executor | None = None
) -> Array:
    """Return estimates (count, k) from resampled points.

    Samples that fail are left out; too many of them are an error.
    refit: gives θ (k,) of a sample; with an executor of processes a function that can be sent to them.
    """
    rng, shared = np.random.default_rng(seed), Shared((points, refit))
    parts = [(shared, resample(points, rng)) for _ in range(count)]
    found = []
    # A separate task: the iterates of a resampled fit must not be returned when the fit is stopped.
    with watch(None, "bootstrap", count) as task:
        for theta in in_order(executor, _refitted, parts):
            task.advance()
            if np.isfinite(theta).all():
                found.append(theta)
    if task.interrupted:
        raise Interrupted
    if len(found) < max(2, count // 2):
        raise ConvergenceError(f"Only {len(found)} of {count} bootstrap samples converged: use more points.", found)
    return np.array(found)


def _refitted(shared: Shared[tuple[Points, Callable[[Points], Array]]], places: Indices) -> Array:
    points, refit = shared.value
    return refit(points.take(places))
