"""Sandwich covariances of estimating equations.

They allow for noise shared by neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.estimate.invariant_fit.conserved.moments import FeatureTable, score_chunks
from kapitza.estimate.invariant_fit.conserved.variance import VarianceProblem, VarianceSolution
from kapitza.solve import scaled_inverse

ROUNDING = 1e-15
"""Relative size below which a direction of a matrix is lost in rounding."""


def long_run(rows: Array, run: NDArray[np.intp], reach: int) -> Array:
    """Return the long-run second moment of rows (k, N).

    Σ_i u_i u_iᵀ plus the products of neighbours up to 2·reach apart in one run (Bartlett weights).
    """
    total = rows @ rows.T
    for lag in range(1, 2 * reach + 1 if reach else 1):
        together = run[lag:] == run[:-lag]
        product = (rows[:, lag:] * together) @ rows[:, :-lag].T
        # Bartlett's weights keep the matrix positive semidefinite.
        total += (1 - lag / (2 * reach + 1)) * (product + product.T)
    return total


def inverse_by_units(matrix: Array) -> Array:
    """Return the pseudo-inverse of a symmetric matrix (k, k).

    It does not depend on the units of the rows.
    """
    return scaled_inverse(matrix, ROUNDING)


def variance_covariance(problem: VarianceProblem, solution: VarianceSolution) -> Array:
    """Return the sandwich covariance of the corrected variance.

    It is A⁻¹ B A⁻¹, the noise factor τ being estimated too.
    A = Cᵀ S(τ) C; B from the scores u_i - g (h_i² - τ b_i)/b̄, where b_i is what unit τ subtracts and g its half slope.
    """
    points, table = problem.points, problem.table
    weights = problem.weights / problem.weights.sum()
    slopes = problem.form.local(solution.theta)[1]
    inverse = inverse_by_units(slopes.T @ problem.moment(solution.theta).at(solution.tau) @ slopes)
    table = table if table.order else FeatureTable(table.form, 1)
    slope, added, filling, kept = np.zeros(len(inverse)), 0.0, np.zeros((len(inverse) + 1,) * 2), []
    for part, found in score_chunks(table, points, solution.theta, weights, solution.tau):
        w = weights[part]
        # Diagonal of the hat matrix.
        leverage = w * np.einsum("kn,kn->n", inverse @ found.centred, found.centred)
        rows = np.vstack([found.slope, found.excess]) * (w / leverage_left(leverage, points.count))
        slope, added = slope + found.added_slope @ w, added + float(found.added @ w)
        if points.reach:
            kept.append(rows)
        else:  # neighbours share no noise: sums suffice, and memory stays small
            filling += rows @ rows.T
    if kept:
        filling = long_run(np.hstack(kept), points.run, points.reach)
    onto = np.column_stack([np.eye(len(inverse)), -slope / added if solution.tau > 0 and added > 0 else 0 * slope])
    return inverse @ onto @ filling @ onto.T @ inverse


def leverage_left(leverage: Array, count: int) -> Array:
    """Return 1 - leverage.

    Residuals are divided by it (HC3), because a point that pulls the fit hides its own error.
    """
    # 1/count is the leverage of the level, which is fitted too.
    return np.clip(1.0 - leverage - 1.0 / count, 0.1, 1.0)
