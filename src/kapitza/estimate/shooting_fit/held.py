"""Fits with some parameters held.

States and other parameters are fitted again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import as_parts
from kapitza.errors import FlowError, KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.request import make_request
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit.result import MotionWorkings
from kapitza.estimate.shooting_fit.search import Found, finish, fitter_for, search
from kapitza.estimate.shooting_fit.task import MotionTask, prepare


class HeldMotion:
    """Fit behind an estimate with some parameters held.

    The samples are the same; noise and kicks stay as they were.
    """

    def __init__(self, estimate: Estimate, held: tuple[str, ...]):
        self.estimate, self.held = estimate, held
        self.others = tuple(n for n in estimate.names if n not in held)
        self.priors = [estimate.model.parameter(name).prior for name in held]
        workings = workings_of(estimate, MotionWorkings)
        kicks = None if estimate.motion is None else estimate.motion.process_noise
        # The fit is known to be close, so the links start stiff.
        method = replace(estimate.settings.last, softness=1e-3, throw=False, process_noise=kicks or False)
        sensors = workings.found.sensors
        task = prepare(method, make_request(estimate.model, as_parts(estimate.data), self.others, method))
        self.solution = workings.found.solution
        self.task = replace(
            task,
            problem=replace(task.problem, samples=workings.task.problem.samples),
            states=workings.task.states,
            # A noise that is estimated again at each value would flatten the profile.
            sensors=replace(sensors, known=np.ones_like(sensors.known)),
        )

    def at(self, values: Array) -> MotionTask:
        """Return the task with held parameters at these values."""
        samples = self.task.problem.samples
        vectors = samples.parameters.copy()
        vectors[:, [self.estimate.model.names.index(n) for n in self.held]] = values
        return replace(self.task, problem=replace(self.task.problem, samples=replace(samples, parameters=vectors)))

    def again(self, task: MotionTask, theta: Array, states: Array, residual: Array | None) -> Found:
        """Fit again from nearly right parameters and states.

        states: (J, n).
        """
        fitter = fitter_for(task, task.settings.softness)
        return finish(task, fitter, fitter.go_on(theta, states, self.solution.nodes, residual))

    def objective(self, found: Found, values: Array) -> float:
        """Return -2 log likelihood and priors of a fit.

        The held parameters are at `values`; a constant is left out.
        """
        known = zip(values, self.priors, strict=True)
        return found.objective + float(sum(((v - p.mean) / p.deviation) ** 2 for v, p in known if p is not None))


class MotionProfile:
    """Profile of a motion over one parameter.

    What was maximised as a function of it; the other parameters are fitted again.
    """

    def __init__(self, estimate: Estimate, name: str):
        self.motion, self.name = HeldMotion(estimate, (name,)), name
        solution, place = self.motion.solution, estimate.names.index(name)
        self.states, self.residual = solution.states, None
        self.others = self.motion.others
        self.theta = np.array([estimate.values[n] for n in self.others])
        # The likelihood does not contain the disagreement of pieces: their widening raises its threshold.
        plain, stated = float(solution.covariance[place, place]), estimate.deviations[name] ** 2
        self.widening = max(stated / plain, 1.0) if plain > 0 and np.isfinite(stated) else 1.0
        width = estimate.deviations[name]
        if np.isinf(width):
            raise KapitzaError(f"{name} is not determined by these data: its interval has no ends.")
        if not width > 0:
            # The parameter is held by a bound: the first step follows from its own curvature.
            width = float(solution.information[place, place]) ** -0.5
        self.width = width / np.sqrt(self.widening)
        self.best = self.objective(estimate.values[name])

    def rise(self, value: float) -> float:
        return self.objective(value) - self.best

    def objective(self, value: float) -> float:
        """Return -2 log likelihood, the others at their best.

        A constant is left out; started from the solution at the last value.
        """
        held = np.array([value])
        task = self.motion.at(held)
        try:
            found = self.motion.again(task, self.theta, self.states, self.residual)
        except FlowError:
            found = search(task)
        if found.solution.status is not Status.CONVERGED:
            found = search(task)
        if found.solution.status is not Status.CONVERGED:
            why = found.solution.status.value
            raise KapitzaError(f"The profile of {self.name} could not be followed to {value:.6g}: {why}.")
        # A search may have placed other nodes, whose states cannot start the next fit.
        if found.solution.nodes.size == len(self.states):
            self.theta, self.states = found.solution.theta, found.solution.states
            self.residual = found.solution.sweep.residual
        return self.motion.objective(found, held)


class MotionDensity:
    """Log density of all free parameters of a motion.

    A constant is left out; its states are fitted again.
    """

    def __init__(self, estimate: Estimate):
        self.motion = HeldMotion(estimate, estimate.names)

    def __call__(self, theta: Array) -> float:
        try:
            found = self.motion.again(self.motion.at(theta), np.empty(0), self.motion.solution.states, None)
        except FlowError:
            return float("-inf")
        good = found.solution.status is Status.CONVERGED
        return -0.5 * self.motion.objective(found, theta) if good else float("-inf")
