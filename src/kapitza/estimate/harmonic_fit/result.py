"""Estimate of the weak form, with intervals and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.cures import By, Give
from kapitza.base.lazy_fields import to_come
from kapitza.estimate.disagreement import (
    COLOURED,
    FEWEST_BLOCKS,
    PIECES,
    RUNS,
    Deleted,
    Widening,
    block_edges,
    widening,
)
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.judge import NUMERICAL, loss_of, misfit_of
from kapitza.estimate.harmonic_fit.problem import WeakProblem
from kapitza.estimate.harmonic_fit.regressors import Regressors
from kapitza.estimate.harmonic_fit.second_order import UNCORRECTABLE, Tested
from kapitza.estimate.harmonic_fit.solvers import RowSolution, by_group, without_each
from kapitza.estimate.identifiability import determined
from kapitza.estimate.iterations import Iterations
from kapitza.estimate.judge import doubtful_parameters
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.parts import NoiseAlone, WeakRows
from kapitza.estimate.priors import surprising_priors, with_priors_and_bounds
from kapitza.estimate.result import make_estimate
from kapitza.solve import symmetric_eigenvectors

ROWS_PER_PARAMETER = 12
"""Fewest rows per parameter of a piece."""

FAR = 3.0
"""Warn when the standard error exceeds this multiple of the Cramér-Rao bound."""

FEWEST_DELETED = 4
"""Fewest blocks for the delete-block jackknife."""

DEPENDENT = 1e4
"""Warn from this condition number of the regressors: few models are right to one part in ten thousand."""


def estimate_of(
    problem: WeakProblem,
    solution: RowSolution,
    history: list[Numbers],
    left: list[Numbers],
    tested: Tested,
    weighed: Regressors | None = None,
    notes: Sequence[str] = (),
) -> Estimate:
    """Return the estimate with its warnings.

    left: rows of every piece at the solution, not whitened; tested: what they are tested against; weighed: the
    regressors by which they were weighted, where these are not those of the problem; notes: further warnings.
    """
    free = problem.request.names
    names = (*problem.regressors.linear, *problem.regressors.nonlinear)
    order = [names.index(n) for n in free]
    regressors = problem.regressors if weighed is None else weighed
    values = problem.full_values(solution.theta[: len(problem.regressors.linear)])
    misfit = misfit_of(problem, solution, left, regressors, values, tested)
    weighted = problem.settings.solver not in ("least squares", "robust")
    alone = _noise_alone(solution, weighted)
    # Whitened rows are as certain as the noise; unweighted ones estimate it from their residuals.
    freedom = problem.measured.noise_freedom if weighted else float(max(len(solution.residual) - len(names), 1))
    widened = _widening(problem, solution, alone, misfit, freedom, tested)
    theta = solution.theta[order]
    covariance = widened.of(alone)[np.ix_(order, order)]
    theta, covariance = with_priors_and_bounds(problem.model, free, theta, covariance)
    _, noise_only = with_priors_and_bounds(problem.model, free, theta, alone[np.ix_(order, order)])
    loss = loss_of(problem, solution, regressors, values)
    return make_estimate(
        problem.request,
        f"HarmonicFit, weak form ({problem.settings.solver})",
        theta,
        covariance,
        dof=widened.freedom,
        chi2=solution.chi2,
        noise=dict(zip(problem.measured.channels, problem.measured.noise.tolist(), strict=True)),
        residuals={"weak rows": solution.residual},
        warnings=(*warnings_of(problem, solution, theta, covariance, misfit, loss, tested.share), *notes),
        history=to_come(Iterations(names[: len(history[0])], history).table) if history else None,
        settings=problem.settings,
        identifiability=determined(free, solution.condition),
        misfit=misfit,
        noise_alone=NoiseAlone(noise_only, freedom),
        rows=WeakRows(
            count=len(solution.residual),
            condition=solution.condition,
            chi2_per_row=solution.chi2 / max(len(solution.residual) - len(names), 1),
            window=problem.windows.width * problem.windows.step,
            half_width=problem.kernels.half_width,
            derivatives=problem.kernels.name,
            loss=loss,
        ),
        workings=problem,
    )


def _noise_alone(solution: RowSolution, weighted: bool) -> Numbers:
    """Return the covariance (k, k) by noise alone.

    Rows whitened by the noise have unit variance, others that of their residuals.
    """
    inverse = np.linalg.inv(solution.information)
    rows = max(len(solution.residual) - len(solution.theta), 1)
    return (inverse + inverse.T) / 2 * (1.0 if weighted else solution.chi2 / rows)


def _widening(
    problem: WeakProblem, solution: RowSolution, alone: Numbers, misfit: Misfit, freedom: float, tested: Tested
) -> Widening:
    """Return the widening of the intervals.

    It follows from groups of windows, blocks of them and pieces of the record.
    """
    informations, scores = by_group(solution.left, solution.matrix, solution.residual, solution.groups)
    if tested.pulls is not None:
        # A steady stretch has little information: bias by noise would make it seem to disagree.
        scores = scores - tested.pulls.by_group
    pulls = None
    if len(scores) >= FEWEST_BLOCKS:
        # As scores of the covariance by noise alone, which `widening` expects.
        pulls = without_each(solution.information, informations, scores) @ np.linalg.inv(alone)
    steps, covariances = _pieces(solution, informations, scores, alone)
    weighted = problem.settings.solver not in ("least squares", "robust")
    level = solution.chi2 / max(len(solution.residual) - len(solution.theta), 1) if weighted else 1.0
    # Exact data leave sampling errors: not a misfit, but larger than their noise.
    white = misfit.to_the_noise and not (misfit.share < NUMERICAL and misfit.size > 1)
    deleted = None if white else _without_blocks(problem, solution, informations, scores)
    if deleted is not None and misfit.size > COLOURED:
        deleted = replace(deleted, noise_alone=False)
    return widening(alone, pulls, steps, covariances, white, freedom, level, deleted)


def _without_blocks(
    problem: WeakProblem, solution: RowSolution, informations: Numbers, scores: Numbers
) -> Deleted | None:
    """Return the jackknife steps of the estimate.

    Without each block of neighbouring groups, or without each record where there are several. None where the groups are
    too few, or a block holds all information on a parameter.
    """
    first = _first_groups(problem, solution)
    runs = np.unique([run for run, _ in first]).size
    # `block_edges` takes at most half as many blocks as items; groups may be blocks by themselves.
    edges = block_edges(2 * len(scores), problem.measured.size) // 2
    if runs >= RUNS:
        edges = np.array([*(group for i, (run, group) in enumerate(first) if not i or run != first[i - 1][0]),
                          len(scores)], np.intp)  # fmt: skip
    if edges.size < FEWEST_DELETED + 1:
        return None
    own, pull = (np.add.reduceat(part, edges[:-1], axis=0) for part in (informations, scores))
    size = np.sqrt(np.abs(np.diag(solution.information)))
    if np.linalg.cond((solution.information - own) / np.outer(size, size)).max() > 1e12:
        return None
    return Deleted(without_each(solution.information, own, pull), noise_alone=runs == 1)


def _first_groups(problem: WeakProblem, solution: RowSolution) -> list[tuple[int, int]]:
    """Return run and first group of every piece.

    Only pieces that have rows are listed; one run where halves of the samples are joined.
    """
    count = problem.windows.count
    pieces = [(state.run, count(len(state.times))) for state in problem.states if count(len(state.times))]
    rows = sum(n for _, n in pieces)
    if len(solution.groups) % rows or problem.settings.solver == "instruments":
        return [(0, 0)]
    width = len(solution.groups) // rows
    begins = np.cumsum([0, *(n for _, n in pieces[:-1])]) * width
    labels = np.unique(solution.groups, return_inverse=True)[1]
    return [(run, int(labels[begin])) for (run, _), begin in zip(pieces, begins.tolist(), strict=True)]


def _pieces(
    solution: RowSolution, informations: Numbers, scores: Numbers, alone: Numbers
) -> tuple[Numbers | None, Numbers | None]:
    """Return the steps (P, k) of pieces, with covariances.

    Pieces are neighbouring groups; a step leads from the common estimate to that of the piece.
    """
    free = len(solution.theta)
    rows = len(solution.residual)
    # 1 for whitened rows; the residual variance for unweighted ones.
    scale = float(np.mean(np.diag(alone @ solution.information)))
    for count in PIECES:
        if len(scores) < 2 * count or rows < count * ROWS_PER_PARAMETER * free:
            continue
        owner = np.minimum(np.arange(len(scores)) * count // len(scores), count - 1)
        own = np.array([informations[owner == p].sum(axis=0) for p in range(count)])
        pull = np.array([scores[owner == p].sum(axis=0) for p in range(count)])
        # Scaled by the information of each parameter, so that the test does not depend on units (N/m or kN/m).
        size = np.sqrt(np.einsum("pii->pi", own))
        scaled = own / (size[:, :, None] * size[:, None, :]) if (size > 0).all() else None
        if scaled is not None and np.linalg.cond(scaled).max() < 1e12:
            return -np.linalg.solve(own, pull[..., None])[..., 0], np.linalg.inv(own) * scale
    return None, None


def warnings_of(
    problem: WeakProblem,
    solution: RowSolution,
    theta: Numbers,
    covariance: Numbers,
    misfit: Misfit,
    loss: float,
    share: float,
) -> tuple[str, ...]:
    request = problem.request
    found = list(doubtful_parameters(request, theta, covariance))
    found += surprising_priors(problem.model, request.names, theta, covariance)
    found += misfit.warnings()
    # With a misfit the model limits the errors, not the method.
    if loss > FAR and misfit.to_the_noise:
        found.append(
            f"The weak form is far from the best that these samples allow: {By('shooting')} can reach errors about "
            f"{loss:.2g} times smaller; {Give(method='auto')} continues with it."
        )
    if share >= UNCORRECTABLE:
        found.append(
            f"Noise makes up {100 * min(share, 1.0):.0f} % of the information of the regressors on the weakest "
            f"combination of {', '.join(request.names)} (in a steady motion, for example) and pulls the values beyond "
            f"their intervals. Free fewer parameters, add other motions, or use {By('shooting')} "
            f"({Give(method='auto')} continues with it)."
        )
    if solution.condition > DEPENDENT:
        names = (*problem.regressors.linear, *problem.regressors.nonlinear)
        found.append(
            f"The regressors of {', '.join(_alike(solution, names))} are nearly dependent (condition "
            f"{solution.condition:.1e}): a fault of the model of one part in so many moves these values by as much as "
            "they are, beyond their intervals. Fix one of them, or add motions in which their terms differ."
        )
    return tuple(found)


def _alike(solution: RowSolution, names: Sequence[str]) -> list[str]:
    """Return the parameters of the weakest combination."""
    size = np.sqrt(np.diag(solution.information))
    weakest = symmetric_eigenvectors(solution.information / np.outer(size, size))[1][:, 0]
    return [n for n, part in zip(names, np.abs(weakest), strict=True) if part > 0.2 * np.abs(weakest).max()]
