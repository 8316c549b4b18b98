"""The estimate that a fit hands over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.estimate import Estimate
from kapitza.estimate.result import make_estimate
from kapitza.estimate.series.judge import Judgement
from kapitza.estimate.series.noise import per_sensor
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.task import Task

Array = NDArray[np.float64]


def estimate_of(task: Task, found: Found, verdict: Judgement) -> Estimate:
    model, samples = task.model, task.problem.samples
    solution, sensors = found.solution, found.sensors
    weighted = solution.sweep.residual / samples.at_readings(sensors.deviations)
    by_channel, by_record = _noise(task, found)
    return make_estimate(
        task.request,
        "ShootingFit",
        solution.theta,
        verdict.covariance,
        status=solution.status,
        dof=float("inf") if sensors.all_known else float(max(samples.readings - task.fitted, 1)),
        chi2=float((weighted**2).sum()),
        noise=by_channel,
        residuals={c: weighted[:, i] for i, c in enumerate(task.observation.channels)},
        warnings=verdict.warnings,
        identifiable=verdict.identifiability.determined,
        history=solution.history,
        details={
            "states": solution.states,
            "times": samples.time[solution.nodes.index],
            "predicted": solution.sweep.predicted,
            "information": solution.information,
            "prediction": verdict.prediction,
            "whiteness": verdict.whiteness,
            "post_mortem": verdict.post_mortem,
            "log_likelihood": verdict.log_likelihood,
            "samples": samples.readings,
            "noise_by_record": by_record,
            "sensors": sensors,
            "objective": found.objective,
            "nodes": solution.nodes,
            "fitted_samples": samples,
            "first_states": task.states,
            "process_noise": None
            if solution.kicks is None
            else dict(zip(model.states, solution.kicks.tolist(), strict=True)),
            "settings": task.settings,
        },
    )


def _noise(task: Task, found: Found) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Standard deviation of each channel (root mean square over the records), and the same of each record."""
    samples, channels, deviations = task.problem.samples, task.observation.channels, found.sensors.deviations
    count = per_sensor(samples, np.ones(samples.values.shape), deviations.size)
    by_channel = {}
    for c, channel in enumerate(channels):
        own = found.sensors.channel == c
        by_channel[channel] = float(np.sqrt((count[own] * deviations[own] ** 2).sum() / max(count[own].sum(), 1)))
    first = np.flatnonzero(np.diff(samples.record, prepend=-1))
    by_record = [
        {c: float(deviations[s]) for c, s in zip(channels, samples.sensor[row], strict=True) if s >= 0} for row in first
    ]
    return by_channel, by_record
