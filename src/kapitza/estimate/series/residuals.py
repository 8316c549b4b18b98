"""What the residuals of a fit say: whether the motion follows the data, and whether anything is left in them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kapitza.errors import Status
from kapitza.estimate.series.noise import Sensors, power_of
from kapitza.estimate.series.pieces import MEDIAN_TO_DEVIATION, Samples
from kapitza.estimate.series.solver import Solution

Array = NDArray[np.float64]

LARGEST_MISFIT = 0.5
"""Residuals beyond this fraction of the data's spread are a false minimum, unless they are noise."""

LARGEST_NOISE = 0.9
"""Residuals beyond this fraction of the spread leave nothing that the motion explains."""

ROUNDING = 1e-9
"""Residuals below this fraction of the spread are not noise."""


def misfit(samples: Samples, solution: Solution) -> float:
    """Root mean square residual in units of the spread of the data (by medians where outliers are expected)."""
    relative = (solution.sweep.residual / samples.spread)[samples.sensor >= 0]
    if samples.outliers:
        return float(MEDIAN_TO_DEVIATION * np.median(np.abs(relative)))
    return float(np.sqrt((relative**2).mean()))


def follows(samples: Samples, solution: Solution, sensors: Sensors) -> bool:
    """Converged, and on the data rather than on a false minimum far from them.

    Large residuals belong to a fit if the noise is known to be that large, or if they are white while the motion
    explains a part of the data.
    """
    if solution.status is not Status.CONVERGED:
        return False
    size = misfit(samples, solution)
    if size < LARGEST_MISFIT:
        return True
    power, count = power_of(samples, solution.sweep.residual, sensors.deviations, None)
    if sensors.all_known and (power < 2 * count).all():
        return True
    return size < LARGEST_NOISE and min(whiteness(samples, solution, sensors), default=0.0) > 1e-3


def whiteness(samples: Samples, solution: Solution, sensors: Sensors) -> list[float]:
    """Ljung-Box p-value of the residuals of each channel, lags up to 10, within pieces (1 where there are too few).

    Residuals count in standard deviations of their sensors: otherwise the noisiest record would decide alone. p fitted
    numbers correlate n residuals by up to p/n: that much is not counted.
    """
    n = solution.states.shape[1]
    fitted = (n * len(samples.pieces) + solution.theta.size) / samples.values.shape[1]
    result = []
    deviations = samples.at_readings(sensors.deviations)
    for c in range(samples.values.shape[1]):
        read = samples.sensor[:, c] >= 0
        count, plain = int(read.sum()), solution.sweep.residual[:, c]
        rounding = float((plain[read] ** 2).sum()) <= count * (ROUNDING * samples.spread[c]) ** 2
        residual = plain / deviations[:, c]
        residual = np.where(read, residual - residual.sum() / max(count, 1), 0.0)
        power, lags = float((residual**2).sum()), min(10, count // 5)
        # Rounding is not white: without noise there is nothing to test.
        if rounding or power == 0 or lags < 1:
            result.append(1.0)
            continue
        total, apart = 0.0, np.ones(residual.size, bool)
        for lag in range(1, lags + 1):
            apart = apart[: residual.size - lag] & samples.joined[lag - 1 : residual.size - 1]
            correlation = abs(float((residual[lag:] * residual[:-lag])[apart].sum())) / power
            total += max(correlation - fitted / count, 0.0) ** 2 / max(count - lag, 1)
        result.append(float(special.chdtrc(lags, count * (count + 2) * total)))
    return result
