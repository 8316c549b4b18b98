"""Demands as the rig follows them.

The series set last is reached from the one before without a jump.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.rig.fourier import FourierSeries

STEEPEST = 1.875
"""Largest slope of the blend x³ (10 - 15 x + 6 x²) on [0, 1]."""

RESERVE = 0.02
"""Share of a rate limit that demands leave for the change from one to the next."""


@dataclass(frozen=True)
class Demand:
    """Demand on its way to a series.

    The series is reached from `before` over `ramp` samples from sample number `since` on.
    The earlier demand may itself still be changing; the next change begins when it has arrived.
    """

    series: FourierSeries
    before: Demand | None = None
    since: float = 0.0
    ramp: int = 0

    def taylor(self, times: Array, numbers: Array, step: float, degree: int) -> Array:
        """Return Taylor coefficients in time.

        They are (N, degree + 1) about `times`; numbers are those of the samples (fractions allowed).
        """
        target = self.series.taylor(times, degree)
        if self.before is None or not self.ramp or numbers[0] >= self.arrives:
            return target
        start = self.before.taylor(times, numbers, step, degree)
        weight = _blend((numbers - self.since) / self.ramp, 1.0 / (self.ramp * step), degree)
        difference = target - start
        mixed = start.copy()
        # Product of two Taylor series: the blend and the difference of the demands.
        for k in range(degree + 1):
            mixed[:, k:] += weight[:, k : k + 1] * difference[:, : degree + 1 - k]
        return mixed

    def values(self, times: Array, numbers: Array, step: float) -> Array:
        """Return value and rate (N, 2) at samples."""
        return self.taylor(times, numbers, step, 1)

    @property
    def arrives(self) -> float:
        """Sample from which on the change is over.

        From this number on the demand is the series alone.
        """
        return -math.inf if self.before is None else self.since + self.ramp

    def at(self, number: float) -> Demand:
        """Return the demand from this sample on.

        Changes that are over are dropped.
        """
        if self.before is None or number >= self.arrives:
            return Demand(self.series)
        return replace(self, before=self.before.at(number))

    def replaced(self, series: FourierSeries, number: int, rate_limit: float, least: int, step: float) -> Demand:
        """Return the change to another series.

        Begun at this sample or when the present one has arrived.
        """
        known = self.at(number)
        since = max(float(number), known.arrives)
        return Demand(series, known, since, ramp_length(self.series, series, rate_limit, least, step))

    def with_frequency(self, frequency: float) -> Demand:
        """Return the demand at another base frequency.

        The same coefficients: the phase goes on, so that the values do too.
        """
        before = None if self.before is None else self.before.with_frequency(frequency)
        return replace(self, series=FourierSeries(frequency, self.series.coefficients), before=before)

    def longest_period(self) -> float:
        return max(self.series.period, 0.0 if self.before is None else self.before.longest_period())


def _blend(x: Array, rate: float, degree: int) -> Array:
    """Return Taylor coefficients of the blend.

    They are coefficients in time at x, which grows by `rate` per second; the blend is flat outside [0, 1].
    """
    inside = np.clip(x, 0.0, 1.0)
    slopes = [
        inside**3 * (10 - 15 * inside + 6 * inside**2),
        30 * inside**2 * (1 - inside) ** 2,
        60 * inside * (1 - inside) * (1 - 2 * inside),
        60 - 360 * inside + 360 * inside**2,
        -360 + 720 * inside,
        np.full_like(inside, 720.0),
    ]
    moving = (x >= 0) & (x < 1)
    result = np.zeros((x.size, degree + 1))
    result[:, 0] = slopes[0]
    for k in range(1, min(degree, 5) + 1):
        result[:, k] = np.where(moving, slopes[k] * rate**k / math.factorial(k), 0.0)
    return result


def ramp_length(before: FourierSeries, after: FourierSeries, rate_limit: float, least: int, step: float) -> int:
    """Return the samples of a change.

    Over these the change keeps within the rate limit.
    While two demands blend, the rate is at most the larger of their rates plus the slope of the blend times their
    distance; for that both leave RESERVE of the limit.
    """
    if not math.isfinite(rate_limit):
        return least
    spare = max(rate_limit - max(before.peak(1), after.peak(1)), RESERVE * rate_limit)
    return max(least, math.ceil(STEEPEST * (before.peak() + after.peak()) / (spare * step)))
