"""Bias of weighted weak rows to second order in the noise, from copies of the data with fresh noise on top.

The estimate solves the score Aᵀ W r(θ) = 0 with r = A θ + b. Noise in the data moves the residuals r, the regressors A
and, through the path along which they are taken, the weights W, and what it does to them is correlated:

    E[Aᵀ W r] = E[δAᵀ W δr] + E[Aᵀ δW δr] = c,   so that   E[θ] - θ₀ = -(Aᵀ W A)⁻¹ c.

Terms of first order vanish in the mean, and those that bend the equations are taken off by the rows themselves. The
bias does not shrink with the length of the record, and the standard error does: long records would be wrong without a
word.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.weak.solvers import RowSolution
from kapitza.estimate.weak.weak import Rows, Whitener, assemble
from kapitza.monitor import checkpoint

if TYPE_CHECKING:
    from kapitza.estimate.weak.weak_fit import WeakProblem

Array = NDArray[Any]

ENOUGH = 200_000
"""Readings of all copies together: short records are copied more often, as the mean is over noise."""

MOST_COPIES = 4


def without_bias(
    problem: WeakProblem, rows: list[Rows], factors: list[Whitener], solution: RowSolution, regressors: bool
) -> RowSolution:
    """The solution with its bias taken off; regressors: the part of noisy regressors too."""
    score = score_bias(problem, rows, factors, solution.theta, regressors)
    step = np.linalg.solve(solution.information, score)
    residual = solution.residual + solution.matrix @ step
    return replace(solution, theta=solution.theta + step, residual=residual, chi2=float(solution.weights @ residual**2))


def score_bias(
    problem: WeakProblem, rows: list[Rows], factors: list[Whitener], theta: Array, regressors: bool
) -> Array:
    """c (k,) of the head of this module."""
    from kapitza.estimate.weak.weak_fit import calmed, smooth, weigh

    readings = sum(len(state.times) for state in problem.states) * len(problem.measured.channels)
    copies = int(np.clip(ENOUGH // max(readings, 1), 1, MOST_COPIES))
    generator = np.random.default_rng(problem.settings.seed)
    total = np.zeros(theta.size)
    for number in range(copies):
        checkpoint(text=f"bias of the weights, copy {number + 1} of {copies}")
        shaken = problem.measured.shaken(generator)
        states = smooth(shaken, problem.kernels)
        calm = calmed(states, problem.smoothing, shaken)
        moved = weigh(replace(problem, calm=calm), problem.full_values(theta))
        copied = assemble(problem.regressors, states, problem.windows, problem.values, problem.noise)
        for original, copy, factor, other in zip(rows, copied, factors, moved, strict=True):
            matrix = copy.matrix - original.matrix
            residual = copy.rest - original.rest + matrix @ theta
            total += _score(other, original.matrix, residual) - _score(factor, original.matrix, residual)
            if regressors:
                total += _score(factor, matrix, residual)
    return total / copies


def _score(factor: Whitener, matrix: Array, residual: Array) -> Array:
    white = factor(Rows(matrix, residual))
    size = matrix.shape[-1]
    return white.matrix.reshape(-1, size).T @ white.rest.ravel()
