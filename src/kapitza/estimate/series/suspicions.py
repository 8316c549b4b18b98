"""Warnings: what is suspicious about a fit that converged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.judge import NOT_WHITE, doubtful_parameters, robust_scale
from kapitza.estimate.priors import surprising_priors
from kapitza.estimate.series.noise import power_of
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.solver import MotionSolution

if TYPE_CHECKING:
    from kapitza.estimate.series.task import MotionTask

Array = NDArray[np.float64]

WRONG_NOISE = 1.2
"""Residuals that differ from the noise given by more than this factor (and more than chance allows) are told."""

FAR_ABOVE_NOISE = 5.0
"""Residuals that are this many times the scatter of neighbouring readings are no noise."""


def warnings_of(
    task: MotionTask, found: Found, whiteness: Mapping[str, float], identifiability: Identifiability, covariance: Array
) -> list[str]:
    solution = found.solution
    texts = list(doubtful_parameters(task.request, solution.theta, covariance, solution.at_bound))
    if not identifiability.complete:
        texts.append(identifiability.message())
    for channel, chance in whiteness.items():
        if chance < NOT_WHITE:
            texts.append(
                f'residuals of "{channel}" are not white (p = {chance:.1e}): the model misses something, or the noise '
                "is correlated; the intervals are then too narrow."
                + _far_above_noise(task, found, channel)
                + task.doubtful_bridges
            )
    priors = list(surprising_priors(task.request, task.names, solution.theta, solution.covariance, solution.at_bound))
    return texts + _wrong_noise(task, found) + priors + _shared_noise(task, solution)


def _far_above_noise(task: MotionTask, found: Found, channel: str) -> str:
    """What neighbouring readings say of the noise, where the residuals are many times larger."""
    mine = (found.sensors.channel == task.observation.channels.index(channel)) & ~found.sensors.known
    if not mine.any():
        return ""
    ratio = found.sensors.deviations[mine] / task.sensors.deviations[mine]
    worst = int(np.argmax(ratio))
    if ratio[worst] < FAR_ABOVE_NOISE:
        return ""
    return (
        f" They are {ratio[worst]:.0f} times the scatter of neighbouring readings "
        f"({task.sensors.deviations[mine][worst]:.2g}): a false minimum if the model is right; try other starting "
        'values or method="auto".'
    )


def _wrong_noise(task: MotionTask, found: Found) -> list[str]:
    """Sensors whose residuals contradict the noise that was given for them."""
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
        if chance < 1e-6 and not low <= ratio <= WRONG_NOISE:
            where = "" if sensors.record.max() == 0 else f" in record {sensors.record[s]}"
            fault = "too narrow" if ratio > 1 else "too wide"
            texts.append(
                f'residuals of "{task.observation.channels[c]}"{where} are {ratio:.2g} times the noise given '
                f"({sensors.deviations[s]:.3g}): the intervals are {fault}. Leave the noise out and it is estimated, "
                "or the model misses something."
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
