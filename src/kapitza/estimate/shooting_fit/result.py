"""Estimate of a shooting fit.

It carries intervals, warnings, prediction, and the reason of a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import to_come
from kapitza.errors import FlowError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.misfit import Misfit, with_fault
from kapitza.estimate.parts import FittedMotion, Likelihood, NoiseAlone, Prediction
from kapitza.estimate.redundancy import identifiable
from kapitza.estimate.result import make_estimate
from kapitza.estimate.shooting_fit.advice import explain, warnings_of
from kapitza.estimate.shooting_fit.closing import (
    ClosingSweep,
    closing_sweep,
    draws_within_bounds,
    fault_of,
    leverage_of,
    widening_of,
)
from kapitza.estimate.shooting_fit.misfit import misfit_of, misfit_of_kicked, own_noise
from kapitza.estimate.shooting_fit.noise import SensorNoise, per_sensor
from kapitza.estimate.shooting_fit.residuals import whiteness_by_channel
from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.secants import curved_parameters
from kapitza.estimate.shooting_fit.solver import MotionSolution
from kapitza.estimate.shooting_fit.task import MotionTask

LONGEST = 20_000
"""Most samples for which the shape of the likelihood is tested: with more it is a parabola."""


@dataclass(frozen=True)
class MotionWorkings:
    """Task and solution of the fit.

    Profiles start from it; curved: parameters whose likelihood is not a parabola.
    """

    task: MotionTask
    found: Found
    curved: tuple[str, ...] = ()


def estimate_of(task: MotionTask, found: Found) -> Estimate:
    """Return the estimate of a fit.

    Its covariance is infinite where nothing is determined, that of draws within the bounds where one of these holds,
    and widened by correlated residuals and by pieces of the record that disagree.
    """
    solution, samples, sensors = found.solution, task.problem.samples, found.sensors
    identifiability = identifiable(
        task.request, solution.theta, solution.information, _sizes(solution), task.observation.expressions
    )
    converged, kicked = solution.status is Status.CONVERGED, bool(task.settings.process_noise)
    deviations, read = samples.at_readings(sensors.deviations), samples.sensor >= 0
    every = solution.sweep.residual / deviations
    weighted = every[read]
    white, own = whiteness_by_channel(samples, solution, sensors), own_noise(task, found)
    closing = closing_sweep(task, found)
    misfit = _misfit(task, found, white, own, weighted, closing)
    left = max(samples.readings - task.fitted, 1)
    freedom = float("inf") if sensors.all_known else float(left)
    covariance, alone, widened = _stated_covariance(solution, identifiability), None, None
    if identifiability.complete and closing is not None:
        level = float((weighted**2).sum()) / left
        widened = widening_of(task, found, closing, misfit, level, freedom)
    if widened is not None:
        # Residuals of a wrong model are larger than the noise of the sensors, which alone is stated here.
        ratio = own.deviations / sensors.deviations
        alone = NoiseAlone(covariance * float(np.clip(np.sqrt(np.mean(ratio**2)), 0.0, 1.0)) ** 2, freedom)
        covariance, freedom = widened.of(covariance), widened.freedom
    draws = None
    if identifiability.complete and closing is not None and converged:
        cut = draws_within_bounds(task, found, closing, widened)
        draws, covariance = (None, covariance) if cut is None else cut
    curved: tuple[str, ...] = ()
    if identifiability.complete and closing is not None and draws is None and samples.size <= LONGEST:
        # Draws within bounds have replaced the Gaussian intervals already.
        bent = curved_parameters(task, found, closing)
        curved = tuple(name for name, here in zip(task.names, bent, strict=True) if here)
    stated = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    leverage = () if closing is None else leverage_of(task, found, closing, stated)
    prediction = predict(task, found, own)
    warnings = warnings_of(task, found, misfit, identifiability, covariance)
    # A large misfit is reported already and explains the disagreement.
    if widened is not None and (misfit is None or not misfit.misses):
        warnings += widened.warnings(explained=misfit is not None and any(misfit.warnings()))
    if task.settings.hold_back > 0 and prediction is None and converged:
        warnings.append("samples were held back, but no motion leads on into them: there is a gap in between.")
    by_channel, by_record = noise_of(task, found)
    states = task.model.states
    return make_estimate(
        task.request,
        "ShootingFit",
        solution.theta,
        covariance,
        status=solution.status,
        dof=freedom,
        chi2=float((every**2).sum()),
        noise=by_channel,
        residuals={c: every[:, i] for i, c in enumerate(task.observation.channels)},
        warnings=tuple(warnings),
        identifiability=identifiability,
        history=to_come(solution.history.table),
        settings=task.settings,
        # States that may jump follow the noise, so the residuals of a right model are not white.
        whiteness={} if kicked else dict(zip(task.observation.channels, white, strict=True)),
        post_mortem="" if converged else explain(task, solution, identifiability),
        likelihood=_likelihood(task, found, weighted, deviations[read]),
        misfit=misfit,
        noise_alone=alone,
        leverage=leverage,
        draws=draws,
        motion=FittedMotion(
            times=samples.time[solution.nodes.index],
            states=solution.states,
            sample_times=samples.time,
            measured=samples.values,
            predicted=solution.sweep.predicted,
            piece=np.cumsum(~np.concatenate([[True], samples.joined[:-1]])).astype(np.int64),
            noise_by_record=by_record,
            process_noise=solution.kicks if solution.kicks is None else dict(
                zip(states, solution.kicks.tolist(), strict=True)
            ),
            prediction=prediction,
            record=np.asarray(samples.record, np.int64),
            read=samples.sensor >= 0,
        ),
        workings=MotionWorkings(task, found, curved),
    )  # fmt: skip


def _misfit(
    task: MotionTask,
    found: Found,
    white: list[float],
    own: SensorNoise,
    weighted: Array,
    closing: ClosingSweep | None,
) -> Misfit | None:
    """Return the misfit of the motion, with a fault.

    The fault of the measurement is the one that the residuals indicate.
    white: p-values of the residuals of each channel; weighted (R,): those of samples, in standard deviations.
    """
    if task.settings.process_noise:
        return misfit_of_kicked(task, found)
    misfit, samples = misfit_of(task, found, white, own), task.problem.samples
    if misfit is None or closing is None:
        return misfit
    read = samples.sensor >= 0
    ratio = samples.at_readings(own.deviations)[read] / samples.at_readings(found.sensors.deviations)[read]
    excess = float((weighted**2 - ratio**2).sum())
    return with_fault(misfit, fault_of(task, found, closing), float((weighted**2).mean()), excess)


def _likelihood(task: MotionTask, found: Found, weighted: Array, deviations: Array) -> Likelihood:
    """Return log p of the samples (R,).

    deviations: (R,).
    """
    solution, samples = found.solution, task.problem.samples
    total = -0.5 * float((weighted**2).sum()) - float(np.log(deviations * np.sqrt(2 * np.pi)).sum())
    if solution.marginal is not None:
        count = samples.readings - solution.states.shape[1] * len(samples.pieces)
        total = -0.5 * (solution.marginal + count * np.log(2 * np.pi))
    # An estimated size of the kicks counts as one more fitted number.
    sought = int((~found.sensors.known).sum()) + int(task.settings.process_noise is True)
    if task.outliers is None:
        return Likelihood(float(total), samples.readings, task.fitted + sought)
    # Outliers count as uniform over the range of their channel, so that fits with different outliers can be compared.
    count = task.outliers.sum(axis=0)
    total -= float(count @ np.log(np.ptp(samples.values, axis=0) + np.finfo(float).tiny))
    return Likelihood(float(total), samples.readings + int(count.sum()), task.fitted + sought)


def _stated_covariance(solution: MotionSolution, identifiability: Identifiability) -> Array:
    """Return the covariance with undetermined parameters marked.

    Infinite variance for parameters that the data do not determine, none stated for those held by a bound.
    """
    covariance = solution.covariance.copy()
    loose = (identifiability.directions != 0).any(axis=1)
    covariance[loose] = covariance[:, loose] = np.nan
    covariance[loose, loose] = np.inf
    covariance[solution.at_bound] = covariance[:, solution.at_bound] = np.nan
    return covariance


def _sizes(solution: MotionSolution) -> Array:
    """Return the size of each parameter, with its sign.

    The size is its value, or what the data could resolve if the others were known.
    """
    power = np.diag(solution.information)
    # A parameter near zero is measured in units of its own standard error.
    resolved = np.where(power > 0, 1 / np.sqrt(np.where(power > 0, power, 1.0)), 0.0)
    size = np.maximum(np.abs(solution.theta), resolved)
    return np.where(size > 0, size, 1.0) * np.where(solution.theta < 0, -1.0, 1.0)


def predict(task: MotionTask, found: Found, own: SensorNoise) -> Prediction | None:
    """Predict the samples that were held back.

    The last state of each record is continued over them, up to the next gap.
    own: the noise of the sensors themselves: in units of its own residuals a worse model would predict longer.
    """
    everything, solution = task.everything, found.solution
    if not task.settings.hold_back:
        return None
    # Last fitted sample of every record.
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
        # Four standard deviations are exceeded by chance once in 16,000 samples.
        wrong = np.flatnonzero((np.abs(error) > 4).any(axis=1))
        times.append(instants[1:])
        errors.append(error)
        horizons.append(float((instants[1:][wrong[0]] if wrong.size else instants[-1]) - instants[0]))
    return Prediction(np.concatenate(times), np.concatenate(errors), min(horizons)) if times else None


def noise_of(task: MotionTask, found: Found) -> tuple[dict[str, float], tuple[dict[str, float], ...]]:
    """Return the noise of channels and records.

    Both are standard deviations; that of a channel is the root mean square over the records.
    """
    samples, channels, deviations = task.problem.samples, task.observation.channels, found.sensors.deviations
    count = per_sensor(samples, np.ones(samples.values.shape), deviations.size)
    by_channel = {}
    for c, channel in enumerate(channels):
        own = found.sensors.channel == c
        by_channel[channel] = float(np.sqrt((count[own] * deviations[own] ** 2).sum() / max(count[own].sum(), 1)))
    # The first samples of a record may be lost, so the largest sensor number over all of its samples is taken.
    used = [samples.sensor[samples.record == number].max(axis=0) for number in np.unique(samples.record)]
    by_record = tuple({c: float(deviations[s]) for c, s in zip(channels, row, strict=True) if s >= 0} for row in used)
    return by_channel, by_record
