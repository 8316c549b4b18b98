"""Noise of a record, estimated from the record itself.

The sources are scatter at high frequencies, repeated periods and rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.signal.filters import noise_level

FEWEST = 64
"""Fewest samples whose spectrum shows the noise."""

PERIODS_SEEN = 3
"""Periods that must repeat before their differences count as noise."""

NOT_SEEN, HIGH, REPEATED, ROUNDING = "unknown", "high-frequency scatter", "repeated periods", "rounding of the samples"


@dataclass(frozen=True)
class Scatter:
    """Standard deviation (c,) of the noise of each column.

    It is NaN where the record does not show it; the source is named.

    freedom: (c,) degrees of freedom that the estimate of the variance is worth.
    """

    level: Array
    source: tuple[str, ...]
    freedom: Array


def scatter(values: Array, period: float | None = None) -> Scatter:
    """Estimate the noise of smooth samples (N, c).

    The samples are evenly spaced. period: of the motion in samples, where it has one.

    Each source can only err upwards (motion that is taken for noise), so the smallest one counts, but no less than
    rounding to a grid makes by itself, q/√12.
    """
    values = np.asarray(values, float)
    levels, sources, freedom = [], [], []
    for column in values.T:
        found = [(np.inf, NOT_SEEN, 1.0), *_high(column), *_repeated(column, period)]
        level, source, free = min(found, key=lambda one: one[0])
        least = quantum(column) / np.sqrt(12.0)
        if np.isfinite(level) and level < least:
            level, source = least, ROUNDING
        levels.append(level if np.isfinite(level) else np.nan)
        sources.append(source)
        freedom.append(free)
    return Scatter(np.array(levels), tuple(sources), np.array(freedom))


def _high(column: Array) -> list[tuple[float, str, float]]:
    """Return the level near the Nyquist frequency.

    It is that of the noise, or of motion that is too fast for the samples.
    """
    if len(column) < FEWEST:
        return []
    # The median of χ² variables over correlated bins of Hann windows.
    count = len(column) / (1.0 if len(column) <= 1024 else 0.75)
    return [(float(noise_level(column[:, None])[0]), HIGH, max(count * 0.1 / 2.3, 2.0))]


def _repeated(column: Array, period: float | None) -> list[tuple[float, str, float]]:
    """Return the difference of samples one period apart.

    The period must be a whole number of samples.
    """
    if period is None or not np.isfinite(period):
        return []
    lag = round(period)
    if lag < 4 or abs(period - lag) > 1e-3 or len(column) < PERIODS_SEEN * lag:
        return []
    apart = column[lag:] - column[:-lag]
    return [(float(np.sqrt(np.mean(apart**2) / 2.0)), REPEATED, (len(column) - lag) / 1.5)]


def quantum(column: Array) -> float:
    """Return the step of the grid of rounding.

    It is 0 where the samples are on no grid.
    """
    steps = np.abs(np.diff(np.unique(column)))
    steps = steps[steps > 1e-9 * max(float(np.abs(column).max()), 1e-300)]
    if len(steps) < 8 or len(np.unique(column)) > 0.5 * len(column):
        return 0.0
    step = float(np.min(steps))
    count = steps / step
    return step if float(np.abs(count - np.round(count)).max()) < 0.05 else 0.0
