"""Gaussians cut off at the bounds of the parameters: what is known when an estimate sits at a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kapitza.estimate.orbits.judge import Outcome
from kapitza.estimate.orbits.solver import scaled_inverse
from kapitza.estimate.orbits.task import Task

Array = NDArray[np.float64]

CHAINS, SWEEPS, KEPT = 500, 400, 10
"""Independent chains, sweeps over the parameters, and states kept of each chain, evenly over its second half."""


def draws_within_bounds(task: Task, outcome: Outcome, covariance: Array) -> Array | None:
    """Draws (S, k) from the Gaussian around the unbounded minimum, cut off at the bounds; None where none is active.

    With F the information and g the gradient at the bound, the unbounded minimum of the quadratic is θ - F⁻¹ g. A
    parameter at its bound then has a one-sided interval, and the others are as uncertain as the data leave them when
    it is not known to sit there.
    """
    solution = outcome.solution
    if not solution.at_bound.any() or not np.isfinite(covariance).all():
        return None
    inside = ~solution.at_bound
    widening = 1.0
    plain = np.diag(solution.covariance)[inside]
    if inside.any() and (plain > 0).all():
        widening = float((np.diag(covariance)[inside] / plain).mean())
    prior = outcome.problem.prior_weight
    gradient = prior * (solution.theta - outcome.problem.prior_mean)
    for reduced in solution.reduced:
        gradient = gradient + reduced.slope.T @ reduced.residual
    full = scaled_inverse(solution.information)
    if not np.isfinite(full).all():
        return None
    return truncated_gaussian(solution.theta - full @ gradient, widening * full, task.low, task.high)


def truncated_gaussian(mean: Array, covariance: Array, low: Array, high: Array, seed: int = 0) -> Array:
    """Draws (CHAINS · KEPT, k) from N(mean, covariance) within low ≤ θ ≤ high, by Gibbs sampling of many chains."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(np.diag(covariance))
    below, above = (low - mean) / size, (high - mean) / size
    precision = np.linalg.inv(covariance / np.outer(size, size))
    deviation = 1 / np.sqrt(np.diag(precision))
    state = np.clip(rng.standard_normal((CHAINS, mean.size)), below, above)
    kept = []
    for sweep in range(SWEEPS):
        for i in range(mean.size):
            pull = state @ precision[i] - state[:, i] * precision[i, i]
            centre = -pull * deviation[i] ** 2
            state[:, i] = centre + deviation[i] * _between(
                (below[i] - centre) / deviation[i], (above[i] - centre) / deviation[i], rng.uniform(size=CHAINS)
            )
        if sweep >= SWEEPS // 2 and (sweep + 1) % (SWEEPS // 2 // KEPT) == 0:
            kept.append(state.copy())
    return mean + size * np.concatenate(kept)


def _between(low: Array, high: Array, share: Array) -> Array:
    """Quantiles of a unit Gaussian cut to [low, high], computed in the tail where the digits are."""
    flip = low > 0
    first, last = np.where(flip, -high, low), np.where(flip, -low, high)
    a, b = special.ndtr(first), special.ndtr(last)
    drawn = special.ndtri(np.clip(a + share * (b - a), 1e-300, 1 - 1e-16))
    drawn = np.clip(drawn, first, last)
    return np.where(flip, -drawn, drawn)
