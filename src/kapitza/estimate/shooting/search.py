"""From the starting values to the answer: restarts, a window first on long records, noise found on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import Status
from kapitza.estimate.shooting.kicks import first_kicks, with_likeliest_kicks
from kapitza.estimate.shooting.noise import HUBER, Sensors, robust_deviations
from kapitza.estimate.shooting.residuals import follows, misfit
from kapitza.estimate.shooting.solver import Fitter, Solution, SolverSettings
from kapitza.estimate.shooting.task import Task

Array = NDArray[np.float64]

RESTARTS = (4.0, 0.2, 20.0)
"""Factors on the softness of the links when the first run does not reach the data."""

SAME_NOISE = 0.03
"""Ratios between sensors are known to this fraction: it costs a thousandth of the standard errors."""


@dataclass(frozen=True)
class Found:
    """The answer with the noise that belongs to it; objective: -2 log of what was maximised, up to a constant."""

    solution: Solution
    sensors: Sensors
    objective: float


def search(task: Task) -> Found:
    """From softer and stiffer links in turn, until the motion follows the data; the best is kept."""
    samples, softness = task.problem.samples, task.settings.softness
    best = _solve(task, softness)
    for factor in RESTARTS:
        if follows(samples, best.solution, best.sensors):
            return best
        again = _solve(task, factor * softness)
        nearer = misfit(samples, again.solution) < misfit(samples, best.solution)
        if nearer or follows(samples, again.solution, again.sensors):
            best = again
    if best.solution.status is Status.CONVERGED and not follows(samples, best.solution, best.sensors):
        return replace(best, solution=replace(best.solution, status=Status.DIVERGED))
    return best


def fitter_for(task: Task, softness: float) -> Fitter:
    method = task.settings
    bounds = np.array([task.model.parameter(name).bounds for name in task.names]).reshape(-1, 2)
    settings = SolverSettings(
        softness=softness, tolerance=method.tolerance, max_iterations=method.max_iterations, spacing=method.spacing,
        huber=HUBER if method.robust else None, process_noise=first_kicks(task),
        learn_noise=not (task.sensors.all_known or method.robust or method.process_noise),
    )  # fmt: skip
    return Fitter(task.problem, settings, task.scale, task.sensors, bounds[:, 0], bounds[:, 1])


def _solve(task: Task, softness: float) -> Found:
    fitter = fitter_for(task, softness)
    theta = np.array([task.model.values[name] for name in task.names])
    spacing = 1
    if task.problem.samples.size > 2 * task.settings.window:
        theta, softness, spacing = _first_window(task, fitter, theta)
    solution = fitter.solve(theta, task.states, softness=softness, spacing=spacing)
    if spacing > 1 and solution.status is not Status.CONVERGED:
        solution = fitter.solve(theta, task.states, softness=softness)
    return finish(task, fitter, solution)


def finish(task: Task, fitter: Fitter, solution: Solution) -> Found:
    """Noise and kicks to the solution, and its covariance as they make it."""
    if task.settings.process_noise and solution.status is Status.CONVERGED:
        solution = with_likeliest_kicks(task, fitter, solution)
    else:
        solution = with_noise(task, fitter, solution)
    if task.settings.robust and solution.status is Status.CONVERGED:
        samples, residual = task.problem.samples, solution.sweep.residual
        deviations = robust_deviations(samples, residual, fitter.sensors.deviations, task.fitted, HUBER)
        solution = fitter.with_plain_weights(solution, samples.at_readings(deviations) ** -2.0)
    return Found(solution, fitter.sensors, fitter.objective(solution))


def with_noise(task: Task, fitter: Fitter, solution: Solution) -> Solution:
    """Noise of each sensor from the residuals, and the fit again with these weights until their ratios stand."""
    method, unknown = task.settings, ~task.sensors.known
    plain = not (method.robust or method.process_noise or task.sensors.known.any() or fitter.problem.prior_weight.any())
    for _ in range(8 if unknown.any() else 0):
        if solution.status is not Status.CONVERGED:
            break
        deviations = fitter.noise_of(solution)
        ratio = np.log(deviations / fitter.sensors.deviations)[unknown]
        fitter.sensors = fitter.sensors.with_deviations(deviations)
        # A common factor leaves the answer alone; only the ratios between sensors move it. Much less noise than was
        # assumed calls for a stricter end of the iteration, though.
        if plain and np.ptp(ratio) < SAME_NOISE and ratio.min() > -0.7:
            return solution.with_noise_scaled(float(np.exp(ratio.mean())))
        solution = fitter.resume(solution)
        if (np.ptp(ratio) if plain else np.abs(ratio).max()) < SAME_NOISE:
            break
    return solution


def _first_window(task: Task, fitter: Fitter, theta: Array) -> tuple[Array, float, int]:
    """Parameters from the stretch with the largest excursions, a softness and a node spacing to go on with.

    The noise found there becomes that of `fitter`. From good parameters and states that the data give, nodes need not
    be dense any more: that saves most of the work on a long record.
    """
    problem, width = task.problem, task.settings.window
    samples = problem.samples
    moves = problem.observation.residual(samples.values[1:].copy(), samples.values[:-1]) / samples.spread
    activity = np.cumsum(np.abs(moves).sum(axis=1) * samples.joined[:-1])
    starts = np.arange(0, samples.size - width, max(1, width // 2))
    best = int(starts[np.argmax(activity[starts + width - 1] - activity[starts])])
    inner = replace(problem, samples=samples.take(best, best + width))
    states = task.states[best : best + width]
    for factor in (1.0, *RESTARTS):
        first = Fitter(inner, fitter.settings, task.scale, task.sensors, fitter.low, fitter.high)
        found = first.solve(theta, states, softness=factor * fitter.settings.softness)
        if follows(inner.samples, found, first.sensors):
            found = with_noise(task, first, found)
            fitter.sensors = first.sensors
            spacing = int(found.nodes.length.max()) if task.known.all() else 1
            return found.theta, min(fitter.settings.softness, 0.01), spacing
    return theta, fitter.settings.softness, 1
