"""The estimate that a fit hands over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.estimate import Estimate
from kapitza.estimate.parts import FittedMotion
from kapitza.estimate.result import make_estimate
from kapitza.estimate.series.judge import Judgement
from kapitza.estimate.series.noise import per_sensor
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.task import MotionTask

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MotionWorkings:
    """The fit itself, from which a profile goes on."""

    task: MotionTask
    found: Found


def estimate_of(task: MotionTask, found: Found, verdict: Judgement) -> Estimate:
    model, samples = task.model, task.problem.samples
    solution, sensors = found.solution, found.sensors
    weighted = solution.sweep.residual / samples.at_readings(sensors.deviations)
    by_channel, by_record = _noise(task, found)
    kicks = None if solution.kicks is None else dict(zip(model.states, solution.kicks.tolist(), strict=True))
    return make_estimate(
        task.request,
        "ShootingFit",
        solution.theta,
        verdict.covariance,
        status=solution.status,
        dof=verdict.dof,
        chi2=float((weighted**2).sum()),
        noise=by_channel,
        residuals={c: weighted[:, i] for i, c in enumerate(task.observation.channels)},
        warnings=verdict.warnings,
        identifiability=verdict.identifiability,
        history=solution.history,
        settings=task.settings,
        whiteness=verdict.whiteness,
        post_mortem=verdict.post_mortem,
        likelihood=verdict.likelihood,
        misfit=verdict.misfit,
        noise_alone=verdict.noise_alone,
        motion=FittedMotion(
            times=samples.time[solution.nodes.index],
            states=solution.states,
            sample_times=samples.time,
            measured=samples.values,
            predicted=solution.sweep.predicted,
            piece=np.cumsum(~np.concatenate([[True], samples.joined[:-1]])).astype(np.int64),
            noise_by_record=by_record,
            process_noise=kicks,
            prediction=verdict.prediction,
        ),
        workings=MotionWorkings(task, found),
    )


def _noise(task: MotionTask, found: Found) -> tuple[dict[str, float], tuple[dict[str, float], ...]]:
    """Standard deviation of each channel (root mean square over the records), and the same of each record."""
    samples, channels, deviations = task.problem.samples, task.observation.channels, found.sensors.deviations
    count = per_sensor(samples, np.ones(samples.values.shape), deviations.size)
    by_channel = {}
    for c, channel in enumerate(channels):
        own = found.sensors.channel == c
        by_channel[channel] = float(np.sqrt((count[own] * deviations[own] ** 2).sum() / max(count[own].sum(), 1)))
    # A record may begin with readings that were lost.
    used = [samples.sensor[samples.record == number].max(axis=0) for number in np.unique(samples.record)]
    by_record = tuple({c: float(deviations[s]) for c, s in zip(channels, row, strict=True) if s >= 0} for row in used)
    return by_channel, by_record
