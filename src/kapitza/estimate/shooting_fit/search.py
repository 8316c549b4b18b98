"""Search for the best motion.

It restarts, fits a window first on long records, and estimates the noise on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, Status
from kapitza.estimate.judge import HUBER
from kapitza.estimate.shooting_fit.kicks import first_kicks, with_likeliest_kicks
from kapitza.estimate.shooting_fit.noise import SensorNoise, robust_deviations
from kapitza.estimate.shooting_fit.observer import observe_unseen
from kapitza.estimate.shooting_fit.pieces import Nodes, place_nodes
from kapitza.estimate.shooting_fit.residuals import follows, misfit, whiteness_by_channel
from kapitza.estimate.shooting_fit.single import single_motion
from kapitza.estimate.shooting_fit.solver import Fitter, MotionSolution, SolverSettings, densest_spacing
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.estimate.shooting_fit.windows import best_window, best_windows
from kapitza.model import symbol

RESTARTS = (4.0, 0.2, 20.0)
"""Factors on the softness of the links when the first run does not reach the data."""

STIFF = (0.1, 0.02)
"""The same where sensors are fitted too, tried first."""

TWICE = 2.0
"""Ratio of residuals to the scatter of neighbouring samples from which another start is tried."""

MOST_DOUBTS = 3
"""Starts after which a motion that follows the data is accepted, whatever its residuals."""

APART = 10.0
"""Standard errors between two solutions from which they are distinct."""

FIRST_TANGENTS = 10_000_000
"""Most numbers of the tangents at the samples of a first window. With many states the usual window would cost more than
all the rest, and it is not needed for a start."""

FIRST_READINGS = 50
"""Fewest samples per unknown in a first window."""

SPARSE = 10
"""Samples between the nodes of a motion that was found by single shooting."""

EXCHANGEABLE = 10.0
"""Largest ratio of two parameters that are tried in each other's place."""

MOST_EXCHANGES = 6
"""Most pairs of parameters that are exchanged, those of nearest values first."""

SAME_NOISE = 0.03
"""Change of the noise ratios between sensors at which the iteration ends; it costs a thousandth of the errors."""


@dataclass(frozen=True)
class Found:
    """Solution of a fit with its noise.

    objective: -2 log of what was maximised, up to a constant.
    rivals: parameters (k,) of other motions that the iteration reached from other starts.
    second: parameters (k,) of another minimum that is nearly as likely, and the excess of its -2 log L.
    """

    solution: MotionSolution
    sensors: SensorNoise
    objective: float
    rivals: tuple[Array, ...] = ()
    second: tuple[Array, float] | None = None


def search(task: MotionTask) -> Found:
    """Fit from several starts until one follows the data.

    The best is kept.
    """
    samples, best, distance = task.problem.samples, None, (True, np.inf)
    settled: list[Array] = []
    failure: FlowError | None = None
    for number, (start, factor) in enumerate(_beginnings(task)):
        try:
            found = _solve(start, factor * task.settings.softness)
        except FlowError as problem:
            # Motions from these states cannot be computed; an observer may give better ones.
            failure = problem
            continue
        reached = follows(samples, found.solution, found.sensors)
        settled += [found.solution.theta] if reached else []
        here = (not reached, misfit(samples, found.solution))
        if best is None or here < distance:
            best, distance = found, here
        # Unmeasured states admit several minima; with all states measured the first one that follows is taken.
        if not distance[0] and (number >= MOST_DOUBTS or not _may_be_false(task, best)):
            return replace(best, rivals=rivals_of(best, settled))
    if best is None:
        assert failure is not None
        raise failure
    if best.solution.status is Status.CONVERGED:
        return replace(best, solution=replace(best.solution, status=Status.FALSE_MINIMUM))
    return best


def single_fit(task: MotionTask, reached: Array) -> Found | None:
    """Fit from the single motion that follows best.

    None where none follows the data; reached: (k,) parameters at which the links ended.
    """
    starts = [start.states for start in _seen_and_observed(task)]
    for theta in (task.request.start, reached):
        found = [one for states in starts if (one := _from_single_motion(task, theta, states)) is not None]
        if found:
            return min(found, key=lambda one: misfit(task.problem.samples, one.solution))
    return None


def exchanged_fits(task: MotionTask, found: Found) -> Iterator[Found]:
    """Yield fits that start from exchanged parameters.

    Two tanks, compartments or modes in a row give nearly the same output in the other order, so a search may end in
    either minimum.
    """
    theta, solution = found.solution.theta, found.solution
    states = task.states.copy()
    states[solution.nodes.index] = solution.states
    low, high = task.request.bounds
    units = [task.model.parameter(name).unit for name in task.names]
    pairs = [
        (abs(np.log(theta[i] / theta[j])), i, j)
        for i, j in combinations(range(theta.size), 2)
        if theta[i] * theta[j] > 0 and units[i] == units[j]
    ]
    for apart, i, j in sorted(pairs)[:MOST_EXCHANGES]:
        other = theta.copy()
        other[[i, j]] = theta[[j, i]]
        if apart > np.log(EXCHANGEABLE) or (other < low).any() or (other > high).any():
            continue
        made = _from_single_motion(task, other, states)
        if made is not None:
            yield made


def _from_single_motion(task: MotionTask, theta: Array, states: Array) -> Found | None:
    """Fit from a single motion near these parameters.

    theta: (k,); states: (N, n). None where none follows the data.
    """
    samples = task.problem.samples
    motion = single_motion(task, theta, states)
    if motion is None:
        return None
    nodes = place_nodes(samples, SPARSE)
    fitter = fitter_for(task, task.settings.softness)
    found = finish(task, fitter, fitter.go_on(motion.theta, motion.at(nodes), nodes, None))
    # Multiple shooting may leave the minimum again where the model is wrong: the single motion is kept then.
    if not follows(samples, found.solution, found.sensors):
        found = _at_minimum(task, motion.theta, motion.at(nodes), nodes)
    return found if follows(samples, found.solution, found.sensors) else None


def _at_minimum(task: MotionTask, theta: Array, states: Array, nodes: Nodes) -> Found:
    """Return the minimum of another method.

    The noise is that of its own residuals.
    """
    fitter = fitter_for(task, task.settings.softness)
    noise = fitter.noise_of(fitter.at_minimum(theta, states, nodes))
    fitter.sensors = replace(fitter.sensors, deviations=np.where(task.sensors.known, task.sensors.deviations, noise))
    solution = fitter.at_minimum(theta, states, nodes)
    return Found(solution, fitter.sensors, fitter.objective(solution))


def rivals_of(best: Found, settled: Sequence[Array]) -> tuple[Array, ...]:
    """Return the solutions that differ from the best one.

    They differ by more than its errors and more than rounding.
    """
    theta = best.solution.theta
    # Exact data have standard errors of zero, so a relative difference counts as well.
    apart = APART * np.sqrt(np.clip(np.diag(best.solution.covariance), 0.0, None)) + 1e-3 * np.abs(theta)
    return tuple(other for other in settled if (np.abs(other - theta) > apart).any())


def _may_be_false(task: MotionTask, found: Found) -> bool:
    """Return whether the minimum may be a false one.

    Unmeasured states may cause it: the residuals are then neither white nor as small as the scatter.
    """
    if task.known.all():
        return False
    large = found.sensors.deviations > TWICE * task.sensors.deviations
    if not large.any():
        return False
    return min(whiteness_by_channel(task.problem.samples, found.solution, found.sensors)) < 1e-6


def _beginnings(task: MotionTask) -> Iterator[tuple[MotionTask, float]]:
    """Yield starts: states, then softness of links.

    States as they are, then those of an observer where some are not measured; then softer and stiffer links.
    """
    if _fits_sensors(task):
        # With soft links the states would absorb an unknown gain, which also biases the other parameters.
        for factor in STIFF:
            yield task, factor
    for start in _seen_and_observed(task):
        task = start
        yield task, 1.0
    # With the parameters held and states from the data, other softness leads nowhere else: the motion does not follow.
    for factor in RESTARTS if task.names or not task.known.all() else ():
        yield task, factor


def _seen_and_observed(task: MotionTask) -> Iterator[MotionTask]:
    """Yield the task, then with observed states.

    An observer estimates the states where some are not measured.
    """
    yield task
    if not task.known.all():
        observed = observe_unseen(task.problem, task.request.start, task.states, task.known, task.scale)
        if observed is not None:
            yield replace(task, states=observed)


def _fits_sensors(task: MotionTask) -> bool:
    """Return whether outputs depend on free parameters.

    These are gains and offsets.
    """
    free = {symbol(name) for name in task.names}
    return any(expression.free_symbols & free for expression in task.observation.expressions)


def in_best_windows(task: MotionTask) -> MotionTask:
    """Return the task on the most informative windows.

    The settings state how many windows are used.
    """
    count, width, samples = task.settings.windows, task.settings.window, task.problem.samples
    # The windows would cover the whole record.
    if not count or samples.size <= count * width:
        return task
    fitter = fitter_for(task, task.settings.softness)
    theta = _first_window(task, fitter, task.request.start)[0]
    index = best_windows(fitter, theta, task.states, width, count)
    return replace(
        task,
        problem=replace(task.problem, samples=samples.choose(index)),
        states=task.states[index],
        positions=task.positions[index],
    )


def fitter_for(task: MotionTask, softness: float) -> Fitter:
    method = task.settings
    settings = SolverSettings(
        softness=softness, tolerance=method.tolerance, max_iterations=method.max_iterations, spacing=method.spacing,
        huber=HUBER if method.robust else None, process_noise=first_kicks(task),
        # A robust loss and kicks estimate the noise in their own way.
        learn_noise=not (task.sensors.all_known or method.robust or method.process_noise),
    )  # fmt: skip
    return Fitter(task.problem, settings, task.scale, task.sensors, *task.request.bounds)


def _solve(task: MotionTask, softness: float) -> Found:
    fitter = fitter_for(task, softness)
    theta, spacing = task.request.start, None
    if task.problem.samples.size > 2 * first_width(task):
        theta, softness, spacing = _first_window(task, fitter, theta)
    solution = fitter.solve(theta, task.states, softness=softness, spacing=spacing)
    # Sparse nodes failed: dense ones are slower and more robust.
    if spacing is not None and solution.status is not Status.CONVERGED:
        solution = fitter.solve(theta, task.states, softness=softness)
    return finish(task, fitter, solution)


def finish(task: MotionTask, fitter: Fitter, solution: MotionSolution) -> Found:
    """Estimate noise and kicks, and return the fit.

    Its covariance includes them.
    """
    if task.settings.process_noise and solution.status is Status.CONVERGED:
        solution = with_likeliest_kicks(task, fitter, solution)
    else:
        solution = with_noise(task, fitter, solution)
    if task.settings.robust and solution.status is Status.CONVERGED:
        samples, residual = task.problem.samples, solution.sweep.residual
        deviations = robust_deviations(samples, residual, fitter.sensors.deviations, task.fitted, HUBER)
        solution = fitter.with_plain_weights(solution, samples.at_readings(deviations) ** -2.0)
    return Found(solution, fitter.sensors, fitter.objective(solution))


def with_noise(task: MotionTask, fitter: Fitter, solution: MotionSolution) -> MotionSolution:
    """Estimate the noise of sensors and fit again.

    The noise follows from the residuals; the iteration ends when the ratios between sensors no longer change.
    """
    method, unknown, priors = task.settings, ~task.sensors.known, fitter.problem.priors.weight
    # Otherwise a common factor of the unknown noises would change their weight against something known.
    plain = not (method.robust or method.process_noise or task.sensors.known.any() or priors.any())
    for _ in range(8 if unknown.any() else 0):
        if solution.status is not Status.CONVERGED:
            break
        deviations = fitter.noise_of(solution)
        ratio = np.log(deviations / fitter.sensors.deviations)[unknown]
        fitter.sensors = replace(fitter.sensors, deviations=deviations)
        # A common factor does not change the solution; only the ratios between sensors do. If the noise is much
        # smaller than assumed, the iteration needs a stricter end.
        if plain and np.ptp(ratio) < SAME_NOISE and ratio.min() > -0.7:
            return solution.with_noise_scaled(float(np.exp(ratio.mean())))
        solution = fitter.resume(solution)
        if (np.ptp(ratio) if plain else np.abs(ratio).max()) < SAME_NOISE:
            break
    return solution


def first_width(task: MotionTask) -> int:
    """Return the samples of the first fit.

    The record is long: the window set, fewer where the states are many.
    """
    n, k, channels = task.states.shape[1], len(task.names), task.problem.samples.values.shape[1]
    # Limited by the size of the tangents, but with enough samples to determine the unknowns.
    enough = max(FIRST_TANGENTS // (n * (n + k)), FIRST_READINGS * (n + k) // channels)
    return min(task.settings.window, enough)


def _first_window(task: MotionTask, fitter: Fitter, theta: Array) -> tuple[Array, float, int | None]:
    """Fit the most informative window first.

    Returns parameters, and a softness and a node spacing to continue with.
    The noise found there becomes that of `fitter`. From good parameters and states that the data give, nodes need not
    be dense any more: that saves most of the work on a long record.
    """
    problem, width = task.problem, first_width(task)
    best = best_window(fitter, theta, task.states, width, bool(task.known.all()))
    inner = replace(problem, samples=problem.samples.take(best, best + width))
    small = replace(task, problem=inner, states=task.states[best : best + width])
    # As dense as in the whole record: with many states a node at every sample would cost as much as all the rest.
    dense = densest_spacing(task.states)
    for start, factor in _beginnings(small):
        first = replace(fitter, problem=inner, sensors=task.sensors, rows=[])
        found = first.solve(theta, start.states, factor * fitter.settings.softness, dense)
        if follows(inner.samples, found, first.sensors):
            found = with_noise(task, first, found)
            fitter.sensors = first.sensors
            # Nodes of the window may be thinned only to multiples of its first spacing; the whole record need not.
            spacing = max(int(found.nodes.length.max()), first.final_spacing(found)) if task.known.all() else None
            return found.theta, min(fitter.settings.softness, 0.01), spacing
    return theta, fitter.settings.softness, None
