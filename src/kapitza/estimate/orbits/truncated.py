"""Gaussians cut off at the bounds of the parameters: what is known when an estimate sits at a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.intervals import truncated_gaussian
from kapitza.estimate.orbits.judge import Outcome
from kapitza.estimate.orbits.solver import covariance_of
from kapitza.estimate.orbits.task import OrbitTask

Array = NDArray[np.float64]


def draws_within_bounds(task: OrbitTask, outcome: Outcome, covariance: Array) -> Array | None:
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
    full = covariance_of(solution.information)
    if not np.isfinite(full).all():
        return None
    return truncated_gaussian(solution.theta - full @ gradient, widening * full, task.low, task.high)
