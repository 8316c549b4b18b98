"""Standard errors of orbit fits.

The noise of every channel from the residuals, and samples whose errors are correlated.

A fit that follows a channel closely leaves it smaller residuals than its noise. The reduction is the channel's leverage
h_c = tr(S_c F⁻¹ S_cᵀ), S_c the whitened slopes of its samples and F the information: Σ_c h_c is the number of
parameters, and E|r_c|² = σ_c² (m_c - h_c) for m_c samples.

The minimum with weights W is θ = θ₀ + F⁻¹ Σ_o G_o e_o with G_o = S_oᵀ W_o, S_o the whitened slopes of orbit o and e_o
the errors of its samples. Whatever their true covariance is, that of θ is F⁻¹ M F⁻¹ with
M = Σ_oo' G_o Cov(e_o, e_o') G_o'ᵀ.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.estimate.disagreement import FEWEST_BLOCKS, RUNS, Deleted, Widening, block_edges, widening
from kapitza.estimate.orbit_fit.judge import Outcome
from kapitza.estimate.orbit_fit.problem import OrbitProblem, Target
from kapitza.estimate.orbit_fit.solver import OrbitSolution, Reduced, covariance_of
from kapitza.estimate.orbit_fit.task import OrbitTask
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.in_records import Influence

BLOCKS = 40
"""Blocks of neighbouring samples whose scores are compared."""

MOST_CONDITION = 1e12
"""Condition number of the information without a block above which the block alone determines a parameter."""


def residual_deviations(task: OrbitTask, problem: OrbitProblem, solution: OrbitSolution) -> Array:
    """Return the noise σ_c (c,) of every channel.

    It follows from the residuals; with plain least squares one σ for all of them.
    """
    residual = np.concatenate(problem.readings(solution.blocks))
    least = 1e-12 * problem.channel_scale
    if task.estimator == "least squares":
        # Plain least squares states one noise for all channels.
        left = max(residual.size - len(task.names) - _loose(solution), 1)
        return np.maximum(np.full(len(least), np.sqrt(float((residual**2).sum()) / left)), least)
    left = np.maximum(_left_over(problem, solution), 1.0)
    squares = np.bincount(problem.channel, residual**2, minlength=len(least))
    return np.maximum(np.sqrt(squares / left), least)


def noise_freedom(task: OrbitTask, problem: OrbitProblem, solution: OrbitSolution, plain: float) -> float:
    """Return the degrees of freedom of the intervals.

    They are those of σ_c estimated per channel. The variance of parameter i is a sum over channels, v_i = Σ_c v_ic
    with v_ic = (F⁻¹ F_c F⁻¹)_ii, and every part is as uncertain as its σ_c²: ν_i = v_i² / Σ_c (v_ic² / ν_c), after
    Welch and Satterthwaite. The least ν_i is taken.
    """
    informations = _information_by_channel(problem, solution)
    if task.estimator == "least squares" or len(informations) == 1:
        return plain
    inverse = covariance_of(solution.information)
    if not np.isfinite(inverse).all():
        return plain
    parts = np.array([np.diag(inverse @ f @ inverse) for f in informations])
    left = np.maximum(_left_over(problem, solution), 1.0)
    total = np.diag(inverse)
    known = (total**2 / np.maximum((parts**2 / left[:, None]).sum(axis=0), 1e-300))[total > 0]
    return float(min(known.min(initial=np.inf), plain))


def _left_over(problem: OrbitProblem, solution: OrbitSolution) -> Array:
    """Return the degrees of freedom of every channel.

    m_c - h_c; phases and periods of free motions are charged in proportion to the samples.
    """
    channel = problem.channel
    count = np.bincount(channel, minlength=len(problem.channel_scale)).astype(float)
    inverse = covariance_of(solution.information)
    if not np.isfinite(inverse).all():
        return count * (1 - (solution.theta.size + _loose(solution)) / channel.size)
    leverage = [float(np.sum(inverse * f)) for f in _information_by_channel(problem, solution)]
    return count * (1 - _loose(solution) / channel.size) - np.array(leverage)


def _information_by_channel(problem: OrbitProblem, solution: OrbitSolution) -> list[Array]:
    """Return the information F_c (k, k) of every channel.

    Σ_c F_c and the priors make up the information.
    """
    pairs = zip(solution.reduced, problem.targets, strict=True)
    slopes = np.concatenate([r.slope[: t.times.size] for r, t in pairs])
    chosen = [slopes[problem.channel == c] for c in range(len(problem.channel_scale))]
    return [s.T @ s for s in chosen]


def _loose(solution: OrbitSolution) -> int:
    """Return the number of open phases of all orbits.

    The closure leaves the phase of a free motion open.
    """
    return sum(block.free for block in solution.blocks)


def robust_covariance(task: OrbitTask, outcome: Outcome) -> tuple[Array, float]:
    """Return the covariance (k, k) and degrees of freedom.

    These are infinite where the noise was known.
    Orbits found in one record share samples of it: the noise of every sample is followed into all orbits it touches.
    Whole profiles averaged over visits have errors that are correlated along the orbit: then each orbit counts as one
    observation, M = Σ_o g_o g_oᵀ with g_o = S_oᵀ r_o, and there are orbits less parameters degrees of freedom.
    """
    covariance = outcome.solution.covariance.copy()
    freedom = float("inf")
    if not task.noise_known:
        freedom = noise_freedom(task, outcome.problem, outcome.solution, float(outcome.dof))
    if any(t.clustered for t in outcome.problem.targets):
        groups, free = len(outcome.matched), len(task.names)
        if groups <= free:
            return covariance, freedom
        scores = np.array([r.slope.T @ r.residual for r in outcome.solution.reduced])
        # Small-sample correction of the cluster-robust covariance.
        middle = scores.T @ scores * groups / (groups - free)
        return covariance @ middle @ covariance, float(groups - free)
    if task.noise_known and outcome.extra is None:
        middle = shared_samples(outcome)
        if middle is not None:
            covariance = covariance @ middle @ covariance
    return covariance, freedom


def shared_samples(outcome: Outcome) -> Array | None:
    """Return M for orbits that share samples.

    It follows from the noise of the samples, the rest of each orbit's covariance being independent; None without
    influences.
    """
    parts = list(zip(outcome.problem.targets, outcome.solution.reduced, outcome.solution.weights, strict=True))
    # A single orbit has its own covariance already.
    if len(parts) < 2 or any(_influence(t) is None for t, _, _ in parts):
        return None
    total = np.diag(outcome.problem.priors.weight)
    rows, pulls = [], []
    for target, reduced, weight in parts:
        influence, covariance = _influence(target), target.covariance
        assert influence is not None
        assert covariance is not None
        assert target.rows is not None
        samples, root = influence.physical_root()
        root = root[target.rows]
        pull = _gain(reduced, weight, len(target.rows))
        flat = root.reshape(len(root), -1)
        total = total + pull @ (covariance - flat @ flat.T) @ pull.T
        rows.append(samples)
        pulls.append(np.einsum("km,msn->skn", pull, root))
    place = np.unique(np.concatenate(rows), return_inverse=True)[1]
    # Pulls of one sample on all orbits add up before they are squared: this is the correlation between orbits.
    summed = np.zeros((place.max() + 1, *pulls[0].shape[1:]))
    np.add.at(summed, place, np.concatenate(pulls))
    return np.asarray(total + np.einsum("skn,sln->kl", summed, summed))


def _influence(target: Target) -> Influence | None:
    source = target.source
    if not isinstance(source, PeriodicOrbit) or target.rows is None or target.covariance is None:
        return None
    found = source.influence
    return found if isinstance(found, Influence) else None


def _gain(reduced: Reduced, weight: Array, count: int) -> Array:
    """Return the gain G = Sᵀ W (k, m) of samples."""
    return reduced.slope[:count].T @ weight[:count, :count]


def widening_of(
    outcome: Outcome, covariance: Array, freedom: float, white: bool, level: float = 1.0
) -> Widening | None:
    """Return the widening of the intervals.

    It follows from blocks of neighbouring samples and single orbits; None where they are too few. white: whether
    the residuals pass for white noise; level: mean square of the residuals in units of a noise that is known.
    """
    inside = ~outcome.solution.at_bound
    # Scores of a parameter that is held by a bound do not sum to zero.
    if not inside.all() or not np.isfinite(covariance).all():
        return None
    pulls, steps, covariances = [], [], []
    for target, reduced in zip(outcome.problem.targets, outcome.solution.reduced, strict=True):
        slope, residual = reduced.slope[: target.times.size], reduced.residual[: target.times.size]
        order = np.argsort(target.times, kind="stable")
        pulls.append(slope[order] * residual[order, None])
        information = slope.T @ slope
        if np.linalg.cond(information) < 1e10:
            inverse = np.linalg.inv(information)
            steps.append(-inverse @ (slope.T @ residual))
            covariances.append(inverse)
    every = np.concatenate(pulls)
    blocks = min(BLOCKS, len(every) // 4)
    scores = None
    if blocks >= FEWEST_BLOCKS:
        edges = np.linspace(0, len(every), blocks + 1).astype(int)
        scores = np.add.reduceat(every, edges[:-1], axis=0)
    several = len(steps) >= 3
    return widening(
        covariance, scores, np.array(steps) if several else None, np.array(covariances) if several else None, white,
        freedom, level, None if white else _without_blocks(outcome),
    )  # fmt: skip


def _without_blocks(outcome: Outcome) -> Deleted | None:
    """Return the jackknife steps of the estimate.

    Without each orbit, or without blocks of neighbouring samples where orbits are few. None where a block alone
    determines a parameter.
    """
    pairs = list(zip(outcome.problem.targets, outcome.solution.reduced, strict=True))
    rows = [np.argsort(target.times, kind="stable") for target, _ in pairs]
    slopes = [reduced.slope[order] for (_, reduced), order in zip(pairs, rows, strict=True)]
    residuals = [reduced.residual[order] for (_, reduced), order in zip(pairs, rows, strict=True)]
    if len(pairs) < RUNS:
        slope, residual = np.concatenate(slopes), np.concatenate(residuals)
        cuts = block_edges(len(residual), len(residual))[1:-1]
        slopes, residuals = np.split(slope, cuts), np.split(residual, cuts)
    own = np.array([s.T @ s for s in slopes])
    pull = np.array([s.T @ r for s, r in zip(slopes, residuals, strict=True)])
    information = outcome.solution.information
    size = np.sqrt(np.diag(information))
    left = information - own
    if not (size > 0).all() or np.linalg.cond(left / np.outer(size, size)).max() > MOST_CONDITION:
        return None
    steps = np.asarray(np.linalg.solve(left, pull[..., None])[..., 0], np.float64)
    return Deleted(steps, noise_alone=len(pairs) == 1)
