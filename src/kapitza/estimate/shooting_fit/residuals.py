"""Tests of the residuals of a motion.

Whether the motion follows the data, and whether the residuals are white.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.angles import unwrap
from kapitza.base.arrays import Array
from kapitza.errors import Status
from kapitza.estimate.judge import NOT_WHITE, robust_scale, whiteness
from kapitza.estimate.shooting_fit.noise import SensorNoise, power_of
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.estimate.shooting_fit.solver import MotionSolution
from kapitza.estimate.shooting_fit.task import MotionTask

LARGEST_MISFIT = 0.5
"""Largest residuals, as a fraction of the data's spread; more is a false minimum, unless they are noise."""

LARGEST_NOISE = 0.9
"""Residuals as a fraction of the spread above which the motion explains nothing."""

ROUNDING = 1e-9
"""Residuals below this fraction of the spread are not noise."""


def misfit(samples: Samples, solution: MotionSolution) -> float:
    """Return the root mean square residual, in spreads.

    In units of the spread of the data (by medians where outliers are expected).
    """
    relative = (solution.sweep.residual / samples.spread)[samples.sensor >= 0]
    if samples.outliers:
        return robust_scale(relative)
    return float(np.sqrt((relative**2).mean()))


def follows(samples: Samples, solution: MotionSolution, sensors: SensorNoise) -> bool:
    """Return whether a converged motion follows the data.

    It is not a false minimum far from them. Large residuals belong to a fit if the noise is known to be that large, or
    if they are white while the motion explains a part of the data.
    """
    if solution.status is not Status.CONVERGED:
        return False
    size = misfit(samples, solution)
    if size < LARGEST_MISFIT:
        return True
    power, count = power_of(samples, solution.sweep.residual, sensors.deviations, None)
    # Residuals within twice the stated variance: the noise is that large.
    if sensors.all_known and (power < 2 * count).all():
        return True
    return size < LARGEST_NOISE and min(whiteness_by_channel(samples, solution, sensors), default=0.0) > NOT_WHITE


def whiteness_by_channel(samples: Samples, solution: MotionSolution, sensors: SensorNoise) -> list[float]:
    """Return the Ljung-Box p-value of each channel.

    Lags up to 10, within pieces (1 where there are too few).
    Residuals count in standard deviations of their sensors: otherwise the noisiest record would decide alone.
    """
    n = solution.states.shape[1]
    # Fitted numbers per channel, which correlate its residuals.
    fitted = (n * len(samples.pieces) + solution.theta.size) / samples.values.shape[1]
    result = []
    deviations = samples.at_readings(sensors.deviations)
    for c in range(samples.values.shape[1]):
        read = samples.sensor[:, c] >= 0
        count, plain = int(read.sum()), solution.sweep.residual[:, c]
        rounding = float((plain[read] ** 2).sum()) <= count * (ROUNDING * samples.spread[c]) ** 2
        residual = plain / deviations[:, c]
        residual = np.where(read, residual - residual.sum() / max(count, 1), 0.0)
        # Rounding is not white: without noise there is nothing to test.
        lags = 0 if rounding else min(10, count // 5)
        result.append(whiteness(residual, samples.joined, count, lags, fitted / max(count, 1))[0])
    return result


def predicted_rates(task: MotionTask, solution: MotionSolution) -> Array:
    """Return the rates (N, c) of the predicted samples.

    They are 0 in pieces of fewer than three samples.
    """
    samples, predicted = task.problem.samples, solution.sweep.predicted
    rates = np.zeros_like(predicted)
    for piece in samples.pieces:
        if piece.stop - piece.start > 2:
            for c, angle in enumerate(task.observation.angles):
                values = predicted[piece, c]
                rates[piece, c] = np.gradient(unwrap(values) if angle else values, samples.time[piece])
    return rates
