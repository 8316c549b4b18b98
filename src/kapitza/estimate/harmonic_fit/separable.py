"""Parameters that do not enter linearly (variable projection).

An outer iteration varies them, with the linear parameters eliminated.
For given p the rows A(p) θ + b(p) are solved for θ; the residual r(p) = (1 - A A⁺) b is minimised over p alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.cures import Set
from kapitza.base.monitor import checkpoint
from kapitza.errors import ConvergenceError, ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.alternatives import alternatives_of
from kapitza.estimate.harmonic_fit.problem import WeakProblem, stack, weigh, whiten
from kapitza.estimate.harmonic_fit.result import estimate_of
from kapitza.estimate.harmonic_fit.second_order import RowsAt, Tested, corrected
from kapitza.estimate.harmonic_fit.solvers import System, solve
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener
from kapitza.estimate.priors import bounds_of

ROUNDS = 3
"""Most weightings; the iteration ends when the values no longer move."""

DIFFERENCE = 1e-5
"""Relative step of the differences by the nonlinear parameters."""


def with_nonlinear(problem: WeakProblem, p: Numbers) -> WeakProblem:
    """Return the problem at other nonlinear parameters."""
    return replace(problem, values=problem.regressors.placed(problem.values, problem.regressors.nonlinear, p))


def eliminate(
    problem: WeakProblem, p: Numbers, factors: list[Whitener] | None, scale: Numbers
) -> tuple[System, Numbers]:
    """Return whitened rows and the best linear parameters.

    The nonlinear parameters are p.
    """
    rows = with_nonlinear(problem, p).rows()
    white = (
        [Rows(r.matrix / scale[:, None], r.rest / scale) for r in rows] if factors is None else whiten(rows, factors)
    )
    system = stack(white, problem.windows.parts)
    if not problem.regressors.linear:
        return system, np.empty(0)
    return system, np.linalg.lstsq(system.matrix, -system.rest, rcond=None)[0]


def fit_separable(problem: WeakProblem) -> Estimate:
    """Fit nonlinear parameters by an outer iteration.

    The iteration starts from the values of the model.
    """
    from scipy.optimize import least_squares

    names = problem.regressors.nonlinear
    p = np.array([problem.model.values[n] for n in names])
    if not np.isfinite(p).all():
        missing = [n for n, value in zip(names, p, strict=True) if not np.isfinite(value)]
        raise ModelError(
            f"No value for {', '.join(missing)}, which do not enter linearly: give starting values by "
            f"{Set('values', **{missing[0]: ...})}."
        )
    size = np.where(p != 0, np.abs(p), 1.0)
    factors: list[Whitener] | None = None
    history: list[Numbers] = []
    outcome = None
    for _ in range(ROUNDS):
        rows = with_nonlinear(problem, p).rows()
        scale = np.sqrt(np.mean([np.mean(r.rest**2, axis=0) for r in rows], axis=0))
        # Before the first weighting rows are scaled by their size, so that no equation dominates.
        scale = np.where(scale > 0, scale, 1.0)

        def left(trial: Numbers, factors: list[Whitener] | None = factors, scale: Numbers = scale) -> Numbers:
            system, theta = eliminate(problem, trial, factors, scale)
            return system.rest + system.matrix @ theta

        outcome = least_squares(left, p, bounds=bounds_of(problem.model, names), x_scale=size, diff_step=DIFFERENCE)
        moved = np.abs(outcome.x - p).max()
        p = outcome.x
        _, theta = eliminate(problem, p, factors, scale)
        history.append(np.concatenate([theta, p]))
        reached = dict(zip((*problem.regressors.linear, *names), history[-1].tolist(), strict=True))
        checkpoint(reached, f"weighting {len(history)}")
        here = with_nonlinear(problem, p)
        if factors is not None and moved < 1e-8 * np.abs(p).max():
            break
        factors = weigh(here, here.full_values(theta))
    if outcome is None or not outcome.success:
        raise ConvergenceError(
            f"The outer iteration over {', '.join(names)} did not end: start from better values by {Set('values')}.",
            outcome,
        )
    _, theta = eliminate(problem, p, factors, np.ones(1))
    # One linearised solution in all parameters gives the joint covariance.
    rows = _rows_of(theta, p, size)(problem)
    system = stack(rows if factors is None else whiten(rows, factors), problem.windows.parts)
    final = System(system.matrix, system.rest - system.matrix @ np.concatenate([theta, p]), system.groups)
    solution = solve(final, (*problem.regressors.linear, *names), problem.settings.solver)
    here = with_nonlinear(problem, p)
    tested = Tested(alternatives_of(here, here.full_values(theta)))
    solution, tested = corrected(here, factors, solution, tested, _rows_of(theta, p, size))
    linear, final_p = solution.theta[: len(theta)], solution.theta[len(theta) :]
    rest = [r.residual(linear) for r in with_nonlinear(problem, final_p).rows()]
    return estimate_of(with_nonlinear(problem, final_p), solution, history, rest, tested)


def _rows_of(theta: Numbers, p: Numbers, size: Numbers) -> RowsAt:
    """Return a function for rows linearised near (θ, p).

    The columns of the nonlinear parameters are central differences.
    """

    def made(problem: WeakProblem) -> list[Rows]:
        here = with_nonlinear(problem, p).rows()
        columns = [[r.matrix] for r in here]
        for k in range(len(p)):
            step = DIFFERENCE * size[k] * (np.arange(len(p)) == k)
            sides = [with_nonlinear(problem, moved).rows() for moved in (p + step, p - step)]
            for own, ahead, behind in zip(columns, *sides, strict=True):
                own.append(((ahead.residual(theta) - behind.residual(theta)) / (2.0 * step[k]))[..., None])
        return [Rows(np.concatenate(own, axis=2), r.residual(theta)) for own, r in zip(columns, here, strict=True)]

    return made
