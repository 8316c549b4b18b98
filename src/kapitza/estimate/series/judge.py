"""After a fit: what to warn of, how far it predicts, and in plain words why it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError, Status
from kapitza.estimate.identifiability import Identifiability, analyse
from kapitza.estimate.misfit import Misfit, with_fault
from kapitza.estimate.parts import Likelihood, NoiseAlone, Prediction
from kapitza.estimate.redundancy import named_by_structure
from kapitza.estimate.series.faults import fault_of
from kapitza.estimate.series.kicked_misfit import misfit_of_kicked
from kapitza.estimate.series.misfit import misfit_of, own_noise
from kapitza.estimate.series.noise import Sensors
from kapitza.estimate.series.post_mortem import explain
from kapitza.estimate.series.residuals import whiteness_by_channel
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.solver import MotionSolution
from kapitza.estimate.series.stretches import widening_of
from kapitza.estimate.series.suspicions import warnings_of

if TYPE_CHECKING:
    from kapitza.estimate.series.task import MotionTask

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """Warnings in plain words, whiteness (p-value per channel), identifiability, prediction, post-mortem.

    covariance: (k, k), infinite where nothing is determined, NaN where a bound holds; dof: its degrees of freedom;
    noise_alone: the same were the model right and the noise that of the sensors; misfit: how well it follows.
    """

    warnings: tuple[str, ...]
    whiteness: Mapping[str, float]
    identifiability: Identifiability
    covariance: Array
    prediction: Prediction | None
    post_mortem: str
    likelihood: Likelihood
    dof: float
    noise_alone: NoiseAlone | None
    misfit: Misfit | None


def judge(task: MotionTask, found: Found) -> Judgement:
    solution, samples = found.solution, task.problem.samples
    identifiability = named_by_structure(
        analyse(solution.information, task.names, _sizes(solution)),
        task.model.with_values(**dict(zip(task.names, solution.theta.tolist(), strict=True))),
        task.observation.expressions,
        [part.own for part in task.request.parts],
    )
    # States that may jump follow the noise: what they leave of it is not white, and need not be.
    kicked = bool(task.settings.process_noise)
    white = whiteness_by_channel(samples, solution, found.sensors)
    chances = {} if kicked else dict(zip(task.observation.channels, white, strict=True))
    deviations = samples.at_readings(found.sensors.deviations)
    read = samples.sensor >= 0
    weighted = (solution.sweep.residual / deviations)[read]
    likelihood = -0.5 * float((weighted**2).sum()) - float(np.log(deviations[read] * np.sqrt(2 * np.pi)).sum())
    if solution.marginal is not None:
        count = samples.readings - solution.states.shape[1] * len(samples.pieces)
        likelihood = -0.5 * (solution.marginal + count * np.log(2 * np.pi))
    post_mortem = "" if solution.status is Status.CONVERGED else explain(task, solution, identifiability)
    own = own_noise(task, found)
    misfit = misfit_of_kicked(task, found) if kicked else misfit_of(task, found, white, own)
    if misfit is not None and not kicked:
        excess = float((weighted**2 - (samples.at_readings(own.deviations)[read] / deviations[read]) ** 2).sum())
        misfit = with_fault(misfit, fault_of(task, found), float((weighted**2).mean()), excess)
    freedom = float("inf") if found.sensors.all_known else float(max(samples.readings - task.fitted, 1))
    covariance = _honest_covariance(solution, identifiability)
    level = float((weighted**2).sum()) / max(samples.readings - task.fitted, 1)
    widened = None
    if identifiability.complete:
        widened = widening_of(task, found, misfit is None or misfit.to_the_noise, level, freedom)
    alone = None
    if widened is not None:
        ratio = own.deviations / found.sensors.deviations
        alone = NoiseAlone(covariance * float(np.clip(np.sqrt(np.mean(ratio**2)), 0.0, 1.0)) ** 2, freedom)
        covariance, freedom = widened.of(covariance), widened.freedom
    prediction = predict(task, found, own)
    warnings = warnings_of(task, found, misfit, identifiability, covariance)
    if task.settings.hold_back > 0 and prediction is None and solution.status is Status.CONVERGED:
        warnings.append("samples were held back, but no motion leads on into them: there is a gap in between.")
    # Kicks of a size that was sought count as one more number.
    sought = int((~found.sensors.known).sum()) + int(task.settings.process_noise is True)
    known = Likelihood(float(likelihood), samples.readings, task.fitted + sought)
    return Judgement(
        tuple(warnings), chances, identifiability, covariance, prediction, post_mortem, known, freedom, alone, misfit
    )


def _honest_covariance(solution: MotionSolution, identifiability: Identifiability) -> Array:
    """Infinite variance for parameters that the data do not determine, none stated for those held by a bound."""
    covariance = solution.covariance.copy()
    loose = (identifiability.directions != 0).any(axis=1)
    covariance[loose] = covariance[:, loose] = np.nan
    covariance[loose, loose] = np.inf
    covariance[solution.at_bound] = covariance[:, solution.at_bound] = np.nan
    return covariance


def _sizes(solution: MotionSolution) -> Array:
    """Size of each parameter with its sign: its value, or what the data could resolve were the others known."""
    power = np.diag(solution.information)
    resolved = np.where(power > 0, 1 / np.sqrt(np.where(power > 0, power, 1.0)), 0.0)
    size = np.maximum(np.abs(solution.theta), resolved)
    return np.where(size > 0, size, 1.0) * np.where(solution.theta < 0, -1.0, 1.0)


def predict(task: MotionTask, found: Found, own: Sensors) -> Prediction | None:
    """Carry the last state of each record on over its samples that were held back, as far as no gap intervenes.

    own: the noise of the sensors themselves: counted in its own residuals a worse model would predict longer.
    """
    everything, solution = task.everything, found.solution
    if not task.settings.hold_back:
        return None
    last = task.positions[np.flatnonzero(np.diff(everything.record[task.positions], append=-1))]
    ends = np.flatnonzero(~everything.joined)
    times, errors, horizons = [], [], []
    for position in last[everything.joined[last]]:
        ahead = np.arange(position, int(ends[int(np.searchsorted(ends, position))]) + 1)
        instants, here = everything.time[ahead], int(np.searchsorted(task.positions, position))
        vector = task.problem.parameters(solution.theta, np.array([here]))[0]
        state = solution.states[int(np.searchsorted(solution.nodes.index, here))]
        try:
            states = task.problem.flow.trajectory(state, instants, vector)[1:]
        except FlowError:
            continue
        value = task.observation.value(states, instants[1:], np.broadcast_to(vector, (len(states), vector.size)))
        deviations = np.append(own.deviations, np.inf)[everything.sensor[ahead[1:]]]
        error = task.observation.residual(value, everything.values[ahead[1:]]) / deviations
        wrong = np.flatnonzero((np.abs(error) > 4).any(axis=1))
        times.append(instants[1:])
        errors.append(error)
        horizons.append(float((instants[1:][wrong[0]] if wrong.size else instants[-1]) - instants[0]))
    return Prediction(np.concatenate(times), np.concatenate(errors), min(horizons)) if times else None
