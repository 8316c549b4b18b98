"""What a measurement can give at best: the Cramér-Rao bound; and a fit as a function of one parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import DataError, FlowError, IdentifiabilityError, KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identifiability import analyse
from kapitza.estimate.redundancy import named_by_structure
from kapitza.estimate.request import make_request
from kapitza.estimate.result import workings_of
from kapitza.estimate.series.fit import ShootingFit
from kapitza.estimate.series.pieces import place_nodes
from kapitza.estimate.series.result import MotionWorkings
from kapitza.estimate.series.search import finish, fitter_for, search
from kapitza.estimate.series.solver import Fitter, Iterate, SolverSettings
from kapitza.estimate.series.sweep import sweep
from kapitza.estimate.series.task import MotionTask, prepare
from kapitza.model import Model

Array = NDArray[np.float64]


def cramer_rao(
    model: Model,
    states: Record | tuple[Record, Mapping[str, float]],
    noise: Mapping[str, float],
    free: Sequence[str],
    method: ShootingFit | None = None,
) -> pd.DataFrame:
    """Smallest covariance (k, k) that any unbiased estimator can have from a measurement.

    Parameters
    ----------
    model : Model
        At the true values of its parameters.
    states : Record, or (Record, {name: value})
        Every state of the model, without noise (from `simulate`).
    noise : mapping
        Standard deviation of each channel that the sensors would give; channels not named are not measured.
    free : list of str
        The parameters; the initial state of every piece counts as unknown too.
    method : ShootingFit, optional
        Settings: outputs, gaps, known initial states.

    Returns
    -------
    pandas.DataFrame
        The covariance, rows and columns by name.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.lorenz()
    >>> run = kz.simulate(model, x0=[1, 1, 20], t=np.arange(500) * 0.01)
    >>> one, three = (kz.cramer_rao(model, run, dict.fromkeys(c, 0.1), free=["rho"]) for c in ("x", "xyz"))
    >>> bool(three.loc["rho", "rho"] < one.loc["rho", "rho"])
    True
    """
    method = method or ShootingFit()
    if not isinstance(noise, Mapping):
        raise DataError(f"Name the channels that are measured, with their noise: {{{model.states[0]!r}: {noise}}}.")
    record = states[0] if isinstance(states, tuple) else states
    missing = [name for name in model.states if name not in record.channels]
    if missing:
        raise DataError(f"The bound needs every state; the record lacks {', '.join(missing)}: simulate it.")
    # The information does not depend on the readings, so sensors that the record lacks may read zero.
    readings = {name: record[name] if name in record.channels else np.zeros(record.size) for name in noise}
    segment = record.dataset["segment"].values
    phase = record.dataset.attrs.get("phase")
    seen = Record.from_arrays(record.time, readings, segment=segment, period=record.period, phase=phase)
    full = replace(method, noise=dict(noise), hold_back=0.0)
    data = (seen, states[1]) if isinstance(states, tuple) else seen
    task = prepare(full, make_request(model, data, free, full))
    nodes = place_nodes(task.problem.samples, 1)
    true = record.values(model.states)[_every_sample(task.everything.size, record.size)][task.positions[nodes.index]]
    theta = np.array([model.values[name] for name in task.names])
    weights = task.problem.samples.at_readings(task.sensors.deviations) ** -2.0
    fitter = Fitter(task.problem, SolverSettings(), task.scale, task.sensors, -np.inf + 0 * theta, np.inf + 0 * theta)
    at_truth = Iterate(theta, true, nodes, sweep(task.problem, nodes, true, theta, weights), weights)
    information = fitter.information(at_truth)
    found = analyse(information, task.names, np.where(theta != 0, theta, 1.0))
    if not found.complete:
        found = named_by_structure(found, model, task.observation.expressions)
        raise IdentifiabilityError("The bound is infinite. " + found.message())
    covariance = np.linalg.inv(information)
    return pd.DataFrame(covariance, index=list(task.names), columns=list(task.names))


def _every_sample(used: int, size: int) -> slice:
    if used != size:
        raise DataError(f"{size - used} samples of the record stand alone between gaps: remove them first.")
    return slice(None)


class MotionProfile:
    """What was maximised, as a function of one parameter: noise and kicks held, the other parameters fitted again."""

    def __init__(self, estimate: Estimate, name: str):
        self.estimate, self.name, method = estimate, name, estimate.settings
        assert isinstance(method, ShootingFit)
        workings = workings_of(estimate, MotionWorkings)
        task, found = workings.task, workings.found
        kicks = None if estimate.motion is None else estimate.motion.process_noise
        self.method = replace(method, softness=1e-3, throw=False, process_noise=kicks or False)
        self.others = tuple(n for n in estimate.names if n != name)
        self.prior = estimate.model.parameter(name).prior
        self.sensors = replace(found.sensors, known=np.ones_like(found.sensors.known))
        self.solution, self.samples, self.first_states = found.solution, task.problem.samples, task.states
        self.states, self.residual = found.solution.states, None
        self.theta = np.array([estimate.values[n] for n in self.others])
        self.task = self._task()
        # The likelihood knows nothing of pieces that disagree: what they widened is put on its threshold.
        place = estimate.names.index(name)
        plain, stated = float(found.solution.covariance[place, place]), estimate.deviations[name] ** 2
        self.widening = max(stated / plain, 1.0) if plain > 0 and np.isfinite(stated) else 1.0
        self.width = self._width() / np.sqrt(self.widening)
        self.best = self.objective(estimate.values[name])

    def rise(self, value: float) -> float:
        return self.objective(value) - self.best

    def _task(self) -> MotionTask:
        """The fit of the others on the very samples of the estimate: its windows, its nodes in free flight."""
        task = prepare(self.method, make_request(self.estimate.model, self.estimate.data, self.others, self.method))
        problem = replace(task.problem, samples=self.samples)
        return replace(task, problem=problem, states=self.first_states, sensors=self.sensors)

    def _task_at(self, value: float) -> MotionTask:
        samples = self.task.problem.samples
        vectors = samples.parameters.copy()
        vectors[:, self.estimate.model.names.index(self.name)] = value
        return replace(self.task, problem=replace(self.task.problem, samples=replace(samples, parameters=vectors)))

    def objective(self, value: float) -> float:
        """-2 log likelihood with the others at their best, up to a constant; begun where the last value ended."""
        task = self._task_at(value)
        fitter = fitter_for(task, self.method.softness)
        try:
            solution = fitter.go_on(self.theta, self.states, self.solution.nodes, self.residual)
            found = finish(task, fitter, solution)
        except FlowError:
            found = search(task)
        if found.solution.status is not Status.CONVERGED:
            found = search(task)
        if found.solution.status is not Status.CONVERGED:
            why = found.solution.status.value
            raise KapitzaError(f"The profile of {self.name} could not be followed to {value:.6g}: {why}.")
        if found.solution.nodes.size == len(self.states):
            self.theta, self.states = found.solution.theta, found.solution.states
            self.residual = found.solution.sweep.residual
        prior = 0.0 if self.prior is None else ((value - self.prior.mean) / self.prior.deviation) ** 2
        return found.objective + prior

    def _width(self) -> float:
        """A first step: the standard error, or where a bound holds the parameter what its own curvature gives."""
        deviation = self.estimate.deviations[self.name]
        if np.isinf(deviation):
            raise KapitzaError(f"{self.name} is not determined by these data: its interval has no ends.")
        if np.isfinite(deviation) and deviation > 0:
            return deviation
        own = self.estimate.names.index(self.name)
        return float(self.solution.information[own, own]) ** -0.5


class MotionDensity:
    """log p of all free parameters of a motion, up to a constant: its states fitted again, noise and kicks held."""

    def __init__(self, estimate: Estimate):
        self.estimate, method = estimate, estimate.settings
        assert isinstance(method, ShootingFit)
        workings = workings_of(estimate, MotionWorkings)
        kicks = None if estimate.motion is None else estimate.motion.process_noise
        self.method = replace(method, softness=1e-3, throw=False, process_noise=kicks or False)
        found = workings.found
        self.solution = found.solution
        task = prepare(self.method, make_request(estimate.model, estimate.data, (), self.method))
        self.task = replace(
            task,
            problem=replace(task.problem, samples=workings.task.problem.samples),
            states=workings.task.states,
            sensors=replace(found.sensors, known=np.ones_like(found.sensors.known)),
        )
        self.priors = [estimate.model.parameter(name).prior for name in estimate.names]

    def __call__(self, theta: Array) -> float:
        samples = self.task.problem.samples
        vectors = samples.parameters.copy()
        vectors[:, [self.estimate.model.names.index(n) for n in self.estimate.names]] = theta
        problem = replace(self.task.problem, samples=replace(samples, parameters=vectors))
        task = replace(self.task, problem=problem)
        fitter = fitter_for(task, self.method.softness)
        try:
            solution = fitter.go_on(np.empty(0), self.solution.states, self.solution.nodes, None)
            found = finish(task, fitter, solution)
        except FlowError:
            return float("-inf")
        if found.solution.status is not Status.CONVERGED:
            return float("-inf")
        prior = sum(
            ((value - p.mean) / p.deviation) ** 2 for value, p in zip(theta, self.priors, strict=True) if p is not None
        )
        return -0.5 * (found.objective + float(prior))
