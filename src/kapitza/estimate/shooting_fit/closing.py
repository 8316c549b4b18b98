"""Faults, leverage and widening from one final sweep.

The sweep at the solution shows faults of the measurement, and stretches of the record that disagree.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.data import BY_NAME, CLOCK
from kapitza.errors import FlowError, Status
from kapitza.estimate.disagreement import COLOURED, PIECES, RUNS, Deleted, Widening, block_edges, widening
from kapitza.estimate.faults import Candidate, Fault, Leverage, Scores, candidates, strongest
from kapitza.estimate.intervals import draws_at_bounds
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.sensors import fitted_by
from kapitza.estimate.shooting_fit.residuals import ROUNDING, misfit, predicted_rates
from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.solver import MotionSolution
from kapitza.estimate.shooting_fit.sweep import Sweep, anchor_of, chain_of, sizes_of, sweep
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.solve import ChainProgram, scaled_inverse

UNDETERMINED = 1e-12
"""Relative information of a free parameter below which it counts as undetermined and is not moved."""

MOST_BLOCKS = 240
"""Most blocks into which the intervals are gathered for their scores."""

READINGS_PER_UNKNOWN = 12
"""Fewest samples of a piece per unknown: first states and parameters."""


@dataclass(frozen=True)
class ClosingSweep:
    """Sweep at a solution, by intervals.

    Its linear system is kept; columns of the faults in `tried` come after the free parameters.
    """

    part: Sweep
    tried: tuple[Candidate, ...]
    program: ChainProgram

    @property
    def plain(self) -> Sweep:
        """Sweep of the free parameters alone."""
        k = self.part.parameter_gradient.size - len(self.tried)
        return replace(
            self.part,
            mixed=self.part.mixed[..., :k],
            influence=self.part.influence[..., :k],
            parameter_hessian=self.part.parameter_hessian[:k, :k],
            parameter_gradient=self.part.parameter_gradient[:k],
        )


def closing_sweep(task: MotionTask, found: Found) -> ClosingSweep | None:
    """Sweep once at the solution.

    It needs a motion that converged and is not kicked, and a regular system; None otherwise. Without residuals no
    fault is tried.
    """
    solution, samples = found.solution, task.problem.samples
    # Kicks absorb faults and differences between pieces, so nothing could be tested.
    if solution.status is not Status.CONVERGED or task.settings.process_noise:
        return None
    tried = faults_of(task) if misfit(samples, solution) > ROUNDING else ()
    columns = fault_columns(task, solution, tried) if tried else None
    try:
        part = sweep(
            task.problem, solution.nodes, solution.states, solution.theta, solution.weights, True, columns
        )  # fmt: skip
        program = chain_of(part, solution.nodes.linked, task.scale)
    except (FlowError, np.linalg.LinAlgError):
        return None
    return ClosingSweep(part, tried, program)


def faults_of(task: MotionTask) -> tuple[Candidate, ...]:
    """Return the faults of the measurement that are tried."""
    driven = not task.model.structure.is_autonomous
    return tuple(candidates(task.observation.channels, task.observation.angles.tolist(), driven))


def fault_columns(task: MotionTask, solution: MotionSolution, tried: tuple[Candidate, ...]) -> Array:
    """Return the effect of each fault on the samples.

    The effects are (N, c, m), per unit of the fault.
    """
    samples, channels = task.problem.samples, list(task.observation.channels)
    predicted, moving = solution.sweep.predicted, predicted_rates(task, solution)
    made = np.zeros((*predicted.shape, len(tried)))
    for number, fault in enumerate(tried):
        column = BY_NAME[fault.kind].column
        assert column is not None
        here = slice(None) if not fault.channel else [channels.index(fault.channel)]
        made[:, here, number] = column(predicted[:, here], moving[:, here], samples.time[:, None])
    return made


def fault_of(task: MotionTask, found: Found, closing: ClosingSweep) -> Fault | None:
    """Return the fault that explains most of the residuals.

    States and free parameters follow it; None without one.
    """
    solution, samples, part, tried = found.solution, task.problem.samples, closing.part, closing.tried
    if not tried:
        return None
    k = solution.theta.size
    free = np.flatnonzero(~solution.at_bound)
    new = k + np.arange(len(tried))
    information, pull = closing.program.information, closing.program.pull
    across = information[np.ix_(new, free)]
    inner = across @ scaled_inverse(information[np.ix_(free, free)], UNDETERMINED) if free.size else across
    # Schur complement: the part of each fault that the free parameters cannot reproduce.
    own = np.diag(information)[new] - (inner * across).sum(axis=1)
    # A robust loss gives outliers smaller weights, which reduces the variance of their pull.
    square = float((solution.weights**2 * part.residual**2).sum() / max(solution.weights.sum(), 1e-300))
    # Residuals are smaller than the noise by the fitted numbers.
    level = max(square * samples.readings / max(samples.readings - task.fitted, 1), 1e-300)
    whole = np.diag(part.parameter_hessian)[new]
    found_one = strongest(tried, Scores(pull[new] - inner @ pull[free], own, whole, level * own))
    if found_one is None or not free.size:
        return found_one
    number = next(i for i, one in enumerate(tried) if (one.kind, one.channel) == (found_one.kind, found_one.channel))
    deviations = np.sqrt(level * np.diag(scaled_inverse(information[np.ix_(free, free)], UNDETERMINED)))
    shifts = np.abs(inner[number] * found_one.size) / np.where(deviations > 0, deviations, np.inf)
    return replace(found_one, moves=float(shifts.max()))


def draws_within_bounds(
    task: MotionTask, found: Found, closing: ClosingSweep, widened: Widening | None
) -> tuple[Array, Array] | None:
    """Return draws (S, k) of parameters within bounds, and their covariance; see `draws_at_bounds`.

    The Gaussian is that around the unbounded minimum, cut off at the bounds; None where no bound is active. With I
    the information and u the pull at the bound, that minimum is θ + I⁻¹ u. A parameter at its bound then has a
    one-sided interval, and the others are as uncertain as the data leave them when it is not known to be there.
    """
    solution = found.solution
    k = solution.theta.size
    if not solution.at_bound.any():
        return None
    full = scaled_inverse(closing.program.information[:k, :k], UNDETERMINED)
    if not (np.isfinite(full).all() and (np.diag(full) > 0).all()):
        return None
    # Parameters at a bound have no factor of their own, so the mean of the others is used.
    factor = 1.0 if widened is None else float((widened.factor[~solution.at_bound] ** 2).mean())
    low, high = task.request.bounds
    centre = solution.theta + full @ closing.program.pull[:k]
    return draws_at_bounds(solution.theta, centre, factor * full, low, high, solution.at_bound)


REPORTED = 1.0
"""Standard errors by which such a fault must move a parameter to be reported."""


def leverage_of(task: MotionTask, found: Found, closing: ClosingSweep, deviations: Array) -> tuple[Leverage, ...]:
    """Return the effect of small faults on the parameters.

    The strongest effect is first; deviations: (k,) standard errors. A fault of size s adds s times its column b to
    the samples; the fit moves by I_θθ⁻¹ I_θb s, I the information with the states eliminated.
    """
    solution = found.solution
    k, free = solution.theta.size, np.flatnonzero(~solution.at_bound)
    if not closing.tried or not free.size or not np.isfinite(deviations[free]).all():
        return ()
    information = closing.program.information
    bias = np.zeros((k, len(closing.tried)))
    # Linear response of the estimate to the faults.
    bias[free] = scaled_inverse(information[np.ix_(free, free)], UNDETERMINED) @ information[free, k:]
    errors = np.where(np.isin(np.arange(k), free), deviations, 0.0)
    return leverages(task, closing.tried, solution.theta, bias, errors)


def leverages(
    task: MotionTask, tried: tuple[Candidate, ...], theta: Array, bias: Array, deviations: Array
) -> tuple[Leverage, ...]:
    """Return the leverage of faults from their effects.

    bias (k, m): shift of the parameters by a unit of each fault; deviations (k,): standard errors, 0 for parameters
    that do not count.
    """
    samples = task.problem.samples
    channels, step = list(task.observation.channels), np.diff(samples.time)[samples.joined[:-1]]
    # A drive that does not repeat comes with the time stamps of the record: their error shifts both alike.
    together = any(signal.period is None for signal in task.model.signals)
    made = []
    for number, fault in enumerate(tried):
        error = BY_NAME[fault.kind]
        if (error is CLOCK and together) or fitted_by(fault.kind, fault.channel, task.names):
            continue
        units = {"": 1.0, "1": 1.0, "s": float(np.median(step)) if step.size else 0.0}
        units["channel"] = float(samples.spread[channels.index(fault.channel)]) if fault.channel else 1.0
        top, _, bottom = error.unit.partition("/")
        size = error.small * units[top] / (units[bottom] or 1.0)
        shifts = bias[:, number] * size
        errors = np.abs(shifts) / np.where(deviations > 0, deviations, np.inf)
        worst = int(np.argmax(errors))
        if errors[worst] >= REPORTED:
            value, moved = abs(float(theta[worst])), abs(float(shifts[worst]))
            relative = moved / value if value > 0 else float("nan")
            name = task.names[worst]
            made.append(Leverage(fault.kind, fault.channel, size, name, moved, relative, float(errors[worst])))
    return tuple(sorted(made, key=lambda one: -one.errors))


def widening_of(
    task: MotionTask, found: Found, closing: ClosingSweep, judged: Misfit | None, level: float, freedom: float
) -> Widening | None:
    """Return the widening by blocks and pieces.

    The motion has no kicks; None where it cannot be computed.
    """
    solution, part = found.solution, closing.plain
    free, white = ~solution.at_bound, judged is None or judged.to_the_noise
    if not free.any():
        return None
    linked, scale = solution.nodes.linked, task.scale
    anchor = anchor_of(sizes_of(solution.theta))
    try:
        # Weights of a robust loss change the variance of the scores.
        scores = None if task.settings.robust else _scores(part, closing.program)[:, free]
        steps, covariances = _pieces(task, part, linked, scale, anchor, free)
        deleted = None if white else _without_blocks(task, found, part, anchor)
        if deleted is not None and judged is not None and judged.size > COLOURED:
            deleted = replace(deleted, noise_alone=False)
    except np.linalg.LinAlgError:
        return None
    covariance = solution.covariance[np.ix_(free, free)]
    made = widening(covariance, scores, steps, covariances, white, freedom, level, deleted)
    factor = np.ones(free.size)
    factor[free] = made.factor
    return replace(made, factor=factor)


def _without_blocks(task: MotionTask, found: Found, part: Sweep, anchor: Array) -> Deleted:
    """Return the jackknife steps without each block.

    The samples of a block lose their weight; the motion stays whole.
    """
    assert part.own_hessian is not None
    assert part.own_gradient is not None
    samples, nodes = task.problem.samples, found.solution.nodes
    runs = np.flatnonzero(np.diff(samples.record[nodes.index], prepend=-1))
    # With several recordings each is a block.
    edges = block_edges(nodes.size, samples.readings) if runs.size < RUNS else np.append(runs, nodes.size)
    free, steps = ~found.solution.at_bound, []
    for first, last in itertools.pairwise(edges.tolist()):
        kept = np.ones(nodes.size)
        kept[first:last] = 0.0
        less = replace(
            part, hessian=part.hessian * kept[:, None, None], gradient=part.gradient * kept[:, None],
            mixed=part.mixed * kept[:, None, None],
            parameter_hessian=part.parameter_hessian - part.own_hessian[first:last].sum(axis=0),
            parameter_gradient=part.parameter_gradient - part.own_gradient[first:last].sum(axis=0),
        )  # fmt: skip
        program = chain_of(less, nodes.linked, task.scale, anchor)
        steps.append(np.linalg.solve(program.information[np.ix_(free, free)], program.pull[free]))
    return Deleted(np.array(steps), runs.size == 1)


def _scores(part: Sweep, program: ChainProgram) -> Array:
    """Return the scores (B, k) of successive blocks.

    With X_j = ∂x_j/∂θ, the change of node j that is best for a change of the parameters, interval j pulls by
    g_jᵀ X_j + h_j (g: gradient by its node, h: directly); the sum of all pulls vanishes. Further parameters of
    the program stay as they are.
    """
    assert part.own_gradient is not None
    count, free = part.gradient.shape[0], part.own_gradient.shape[1]
    pulls = np.einsum("jn,jnk->jk", part.gradient, program.response[..., :free]) + part.own_gradient
    # Sums over blocks are enough for the long-run moment and bound its cost.
    edges = np.linspace(0, count, min(MOST_BLOCKS, count) + 1).astype(int)
    return np.add.reduceat(pulls, edges[:-1], axis=0)


def _pieces(
    task: MotionTask, part: Sweep, linked: Flags, scale: Array, anchor: Array, free: Flags
) -> tuple[Array | None, Array | None]:
    """Return the steps of pieces, with covariances.

    They are steps (P, f) from the estimate to those of the pieces, and covariances (P, f, f).
    """
    count, n = part.gradient.shape
    unknowns = n + int(free.sum())
    for pieces in PIECES:
        # Each piece must determine its own states and all parameters.
        if count < 4 * pieces or task.problem.samples.readings < pieces * READINGS_PER_UNKNOWN * unknowns:
            continue
        edges = np.linspace(0, count, pieces + 1).astype(int)
        kept, steps, covariances = linked.copy(), [], []
        # The link from the last node of a piece leads out of it: without it one factorisation serves all pieces.
        kept[edges[1:] - 1] = False
        reduced = chain_of(part, kept, scale).reduced(edges)
        own = part.own_hessian, part.own_gradient
        assert own[0] is not None
        assert own[1] is not None
        for (first, last), (less, pull) in zip(itertools.pairwise(edges.tolist()), reduced, strict=True):
            information = own[0][first:last].sum(axis=0) + anchor - less
            covariance = np.linalg.inv(information[np.ix_(free, free)])
            steps.append(covariance @ (pull - own[1][first:last].sum(axis=0))[free])
            covariances.append(covariance)
        return np.array(steps), np.array(covariances)
    return None, None
