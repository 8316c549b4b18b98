"""Weak fits of whole records.

The steps are smoothing, weak rows, weights, solution and estimate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.monitor import checkpoint
from kapitza.errors import IdentifiabilityError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.alternatives import alternatives_of
from kapitza.estimate.harmonic_fit.combined import combine, fit_combined
from kapitza.estimate.harmonic_fit.problem import (
    SpreadPart,
    WeakProblem,
    noise_covariance,
    pose,
    smooth,
    spread_part,
    stack,
    weigh,
    whiten,
    with_raw_values,
)
from kapitza.estimate.harmonic_fit.result import estimate_of
from kapitza.estimate.harmonic_fit.second_order import UNCORRECTABLE, KnownWeights, RowsAt, Tested, corrected
from kapitza.estimate.harmonic_fit.separable import fit_separable
from kapitza.estimate.harmonic_fit.solvers import RowSolution, System, solve
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener
from kapitza.estimate.request import Request
from kapitza.signal import local_polynomial

if TYPE_CHECKING:
    from kapitza.estimate.harmonic_fit.settings import HarmonicFit

REWEIGHTINGS = 3
"""Most weightings; the iteration ends when no value moves by `CONVERGED` of its deviation."""

CONVERGED = 0.01
"""Share of a standard error below which a further weighting does not move a value."""

PART_WEIGHTINGS = 2
"""Weightings of a part of a long record before the whole: the first starts from unweighted values."""

ATTENUATED = 0.03
"""Share of noise in the information on a combination from which attenuation is corrected; see `UNCORRECTABLE`."""

CORRECTIONS = 2
"""Rounds of the errors-in-variables solution, each weighted at the values of the one before."""

SIMULATED = 4
"""Copies with fresh noise from which the errors-in-variables solver estimates the noise of the columns."""


def fit_weak(settings: HarmonicFit, request: Request) -> Estimate:
    """Fit by the weak form.

    The data are a Record, several Records, or the profiles of an OrbitSet.
    """
    problem = pose(settings, request)
    if problem.regressors.nonlinear:
        combined = combine(problem.regressors, request.names)
        return fit_separable(problem) if combined is None else fit_combined(replace(problem, regressors=combined))
    rows = problem.rows()
    theta = unweighted(rows, problem)
    history = [theta]
    linear = problem.regressors.linear
    checkpoint(dict(zip(linear, theta.tolist(), strict=True)), "unweighted")
    # The first values are unweighted: weights need values.
    factors, solution = None, None
    rounds = 0 if settings.solver == "least squares" else REWEIGHTINGS
    part = spread_part(problem, rows) if settings.solver == "weighted" else None
    started = None if part is None else weighted_part(part, theta, problem)
    if started is not None:
        theta = started.theta
        history.append(theta)
        checkpoint(dict(zip(linear, theta.tolist(), strict=True)), "weighting of a part")
    weighed = problem.full_values(theta)
    for number in range(rounds):
        weighed = problem.full_values(theta)
        factors = weigh(problem, weighed)
        solution = solve_rows(problem, rows, factors)
        if number == 0 and part and not (started and part.stands_for(solution.information, started.information)):
            part = None
        moved = np.abs(solution.theta - theta) <= CONVERGED * np.sqrt(np.diag(solution.covariance))
        theta = solution.theta
        history.append(theta)
        checkpoint(dict(zip(linear, theta.tolist(), strict=True)), f"weighting {number + 1}")
        # A relative change of the weights moves the values by at most this share of their errors.
        if moved.all() or (part and part.change_of_weights(weighed, problem.full_values(theta)) <= CONVERGED):
            break
    if solution is None:
        solution = solve_rows(problem, rows, factors)
    plain = solution
    tested = Tested(alternatives_of(problem, problem.full_values(plain.theta)))
    solution, tested = corrected(problem, factors, plain, tested, linear_rows(problem, rows, plain.theta))
    # Below, attenuation is negligible; above, the errors-in-variables solution is not reliable.
    if factors is not None and ATTENUATED < (share := tested.share) < UNCORRECTABLE:
        plain = without_attenuation(problem, rows, plain)
        history.append(plain.theta)
        tested = Tested(alternatives_of(problem, problem.full_values(plain.theta)))
        solution, tested = corrected(
            problem, factors, plain, tested, linear_rows(problem, rows, plain.theta), own=False
        )
        # The share of the uncorrected fit describes the data.
        tested = replace(tested, share=share)
    if tested.pulls is not None:
        history.append(solution.theta)
    if part is not None and factors is not None:
        tested = replace(tested, weights=KnownWeights(factors, weighed, part))
    left = [r.residual(solution.theta) for r in rows]
    return estimate_of(problem, solution, history, left, tested)


def weighted_part(part: SpreadPart, theta: Array, problem: WeakProblem) -> RowSolution | None:
    """Return the values of a part of the record; None where it does not determine them."""
    found = None
    for _ in range(PART_WEIGHTINGS):
        try:
            found = solve_rows(part.problem, part.rows, weigh(part.problem, problem.full_values(theta)))
        except IdentifiabilityError:
            return None
        theta = found.theta
    return found


def linear_rows(known: WeakProblem, rows: list[Rows], theta: Array) -> RowsAt:
    """Return a function for the rows at θ.

    Of a problem that is linear in its parameters; those of the problem `known` are reused.
    """

    def rows_at(problem: WeakProblem) -> list[Rows]:
        here = rows if problem is known else problem.rows()
        return [Rows(r.matrix, r.residual(theta)) for r in here]

    return rows_at


def without_attenuation(problem: WeakProblem, rows: list[Rows], solution: RowSolution) -> RowSolution:
    """Return the solution corrected for noisy regressors.

    The correction solves for errors in variables, weighted at the values of the solution.
    """
    for _ in range(CORRECTIONS):
        factors = weigh(problem, problem.full_values(solution.theta))
        system = stack(whiten(rows, factors), problem.windows.parts)
        system = replace(system, noise_matrix=simulated_noise(problem, rows, factors))
        try:
            found = solve(system, problem.regressors.linear, "total")
        except np.linalg.LinAlgError:
            return solution
        if not (np.diag(np.linalg.inv(found.information)) > 0).all() or not np.isfinite(found.theta).all():
            return solution
        solution = found
    return solution


def unweighted(rows: list[Rows], problem: WeakProblem) -> Array:
    """Return first values by plain least squares.

    Every kind of row is scaled to the size of its largest term.
    """
    rms = np.sqrt(
        np.mean([np.mean(r.rest**2, axis=0) + np.mean(r.matrix**2, axis=0).max(axis=-1) for r in rows], axis=0)
    )
    scaled = [Rows(r.matrix / rms[:, None], r.rest / rms) for r in rows]
    return solve(stack(scaled, problem.windows.parts), problem.regressors.linear).theta


def solve_rows(problem: WeakProblem, rows: list[Rows], factors: list[Whitener] | None) -> RowSolution:
    """Solve the whitened rows by the chosen solver."""
    kind = problem.settings.solver
    white = rows if factors is None else whiten(rows, factors)
    system = stack(white, problem.windows.parts)
    if factors is not None and kind == "total":
        system = replace(system, noise_matrix=simulated_noise(problem, rows, factors))
    if factors is not None and kind == "instruments":
        system = split_halves(problem, factors)
    return solve(system, problem.regressors.linear, kind)


def simulated_noise(problem: WeakProblem, rows: list[Rows], factors: list[Whitener], copies: int = SIMULATED) -> Array:
    """Return the noise part of [A b]ᵀ[A b].

    It is the mean over copies of the data with fresh noise of the known size added.
    """
    generator = np.random.default_rng(problem.settings.seed)
    size = len(problem.regressors.linear) + 1
    total = np.zeros((size, size))
    for number in range(copies):
        checkpoint(text=f"noise of the rows, copy {number + 1} of {copies}")
        shaken = problem.measured.shaken(generator)
        shaken_rows = replace(problem, states=smooth(shaken, problem.kernels)).rows()
        for factor, copy, original in zip(factors, shaken_rows, rows, strict=True):
            change = factor(Rows(copy.matrix - original.matrix, copy.rest - original.rest))
            columns = np.concatenate([change.matrix, change.rest[..., None]], axis=2).reshape(-1, size)
            total += columns.T @ columns
    return total / copies


def split_halves(problem: WeakProblem, factors: list[Whitener]) -> System:
    """Return rows of even samples with odd instruments.

    Rows of odd samples with even instruments follow: their noise is independent.
    """
    m = problem.kernels.half_width
    # Half of the samples must still determine a polynomial of this degree.
    wide = max(m, problem.settings.degree + 2)
    offsets = np.arange(-wide, wide + 1)
    same, other = (
        with_raw_values(local_polynomial(wide, problem.settings.degree, offsets[offsets % 2 == k])) for k in (0, 1)
    )
    halves = []
    for parity in (0, 1):
        states = []
        for a, b in zip(smooth(problem.measured, same), smooth(problem.measured, other), strict=True):
            own = (np.arange(len(a.times)) % 2 == parity)[None, :, None]
            states.append(replace(a, derivatives=np.where(own, a.derivatives, b.derivatives)))
        noise = noise_covariance(problem.regressors, problem.measured, same) if problem.noise is not None else None
        rows = replace(problem, states=states, noise=noise).rows()
        halves.append(stack(whiten(rows, factors), problem.windows.parts))
    even, odd = halves
    return System(
        np.concatenate([even.matrix, odd.matrix]),
        np.concatenate([even.rest, odd.rest]),
        np.concatenate([even.groups, odd.groups + even.groups[-1] + 1]),
        np.concatenate([odd.matrix, even.matrix]),
    )
