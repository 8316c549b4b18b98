"""Warnings: what is suspicious about a fit that converged."""

from __future__ import annotations

import numpy as np
from scipy import special

from kapitza.arrays import Array
from kapitza.errors import Status
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.judge import doubtful_parameters, robust_scale
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.priors import surprising_priors
from kapitza.estimate.series.noise import power_of
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.solver import MotionSolution
from kapitza.estimate.series.task import MotionTask

WRONG_NOISE = 1.2
"""Residuals that differ from the noise given by more than this factor (and more than chance allows) are told."""


def warnings_of(
    task: MotionTask, found: Found, misfit: Misfit | None, identifiability: Identifiability, covariance: Array
) -> list[str]:
    solution = found.solution
    texts = list(doubtful_parameters(task.request, solution.theta, covariance, solution.at_bound))
    if not identifiability.complete:
        texts.append(identifiability.message())
    if misfit is not None and solution.status is Status.CONVERGED:
        texts += [text + task.doubtful_bridges for text in misfit.warnings()]
    texts += _disagreeing_starts(task, found)
    priors = list(surprising_priors(task.model, task.names, solution.theta, solution.covariance, solution.at_bound))
    return texts + _wrong_noise(task, found, misfit) + priors + _shared_noise(task, solution)


def _disagreeing_starts(task: MotionTask, found: Found) -> list[str]:
    """Another answer that the iteration settled on from another beginning."""
    if not found.rivals:
        return []
    place = ", ".join(f"{name} = {value:.4g}" for name, value in zip(task.names, found.rivals[0], strict=True))
    return [
        f"From another beginning the fit settled on {place}, where the residuals are larger: starting values matter "
        'here; try others, or method="auto".'
    ]


def _wrong_noise(task: MotionTask, found: Found, misfit: Misfit | None) -> list[str]:
    """Sensors whose residuals are smaller than the noise that was given for them, or larger where no misfit says so."""
    samples, sensors, robust = task.problem.samples, found.sensors, task.settings.robust
    power, count = power_of(samples, found.solution.sweep.residual, sensors.deviations, None)
    texts = []
    for s in np.flatnonzero(sensors.known & (count > 0)):
        free = max(count[s] * (1 - task.fitted / max(samples.readings, 1)), 1.0)
        chance = min(special.chdtrc(free, power[s]), special.chdtr(free, power[s]))
        ratio = np.sqrt(power[s] / free)
        c = int(sensors.channel[s])
        if robust:
            own = found.solution.sweep.residual[samples.sensor[:, c] == s, c]
            ratio = robust_scale(own) / sensors.deviations[s]
        # Kicks take up a part of the residuals: then only too large ones say something.
        low = 0.0 if task.settings.process_noise else 1 / WRONG_NOISE
        high = WRONG_NOISE if misfit is None or misfit.to_the_noise else np.inf
        if chance < 1e-6 and not low <= ratio <= high:
            where = "" if sensors.record.max() == 0 else f" in record {sensors.record[s]}"
            fault = (
                "it would make the intervals too narrow, they follow the residuals"
                if ratio > 1
                else ("the intervals are too wide")
            )
            texts.append(
                f'residuals of "{task.observation.channels[c]}"{where} are {ratio:.2g} times the noise given '
                f"({sensors.deviations[s]:.3g}): {fault}. Leave the noise out and it is estimated, or the model misses "
                "something."
            )
    return texts


def _shared_noise(task: MotionTask, solution: MotionSolution) -> list[str]:
    """Channels whose residuals agree: the same sensor counted twice."""
    residual, channels = solution.sweep.residual, task.observation.channels
    size = np.sqrt((residual**2).mean(axis=0))
    texts = []
    for i, first in enumerate(channels):
        for j in range(i + 1, len(channels)):
            power = size[i] * size[j]
            if power > 0 and abs(float((residual[:, i] * residual[:, j]).mean())) > 0.95 * power:
                texts.append(
                    f'residuals of "{first}" and "{channels[j]}" are the same: if one is a copy of the other, drop it, '
                    "the intervals are too narrow."
                )
    return texts
