"""Tests of residuals: scale, whiteness, doubtful parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Flags
from kapitza.estimate.request import Request
from kapitza.signal import MEDIAN_TO_DEVIATION

HUBER = 1.345
"""Standard deviations beyond which Huber's loss grows linearly; 1.345 is 95 % efficient on Gaussian noise."""

NOT_WHITE = 1e-3
"""Probability below which residuals are not taken for white noise."""

AT_BOUND = 1e-6
"""Distance from a bound, relative to the value, within which a parameter is at the bound."""


def robust_scale(residual: Array) -> float:
    """Return the robust standard deviation of residuals about zero.

    It follows from the median modulus, which outliers hardly change.
    """
    return MEDIAN_TO_DEVIATION * float(np.median(np.abs(residual))) if residual.size else 0.0


def spread_of(values: Array, outliers: bool) -> float:
    """Return the standard deviation of samples.

    With `outliers` it follows from the median deviation.
    """
    if not values.size:
        return 0.0
    if outliers and (middle := robust_scale(values - np.median(values))) > 0:
        return middle
    return float(values.std())


def huber_weights(residual: Array, scale: float | Array = 1.0) -> Array:
    """Return Huber's weights.

    They are 1 within HUBER standard deviations, HUBER · scale/|residual| beyond.
    """
    # Exact data have a scale of zero.
    limit = HUBER * np.maximum(scale, np.finfo(float).tiny)
    return np.minimum(1.0, limit / np.maximum(np.abs(residual), np.finfo(float).tiny))


def whiteness(residual: Array, joined: Flags, count: int, lags: int, explained: float = 0.0) -> tuple[float, float]:
    """Return the p-value of the Ljung-Box test.

    The statistic Q = n (n + 2) Σ_j ρ_j²/(n - j) over the lags is χ² distributed for white noise. The second value is
    the lag-one correlation. residual: (N,). joined: (N,) True where sample i + 1 follows sample i; count: residuals
    that are samples (the others are 0). explained: correlation that the fit itself makes; p fitted numbers correlate n
    residuals by up to p/n.
    """
    power = float((residual**2).sum())
    if power == 0 or lags < 1:
        return 1.0, 0.0
    total, first, apart = 0.0, 0.0, np.ones(residual.size, bool)
    for lag in range(1, lags + 1):
        apart = apart[: residual.size - lag] & joined[lag - 1 : residual.size - 1]
        correlation = float((residual[lag:] * residual[:-lag])[apart].sum()) / power
        first = correlation if lag == 1 else first
        # Only correlation beyond what the fit itself makes is evidence.
        total += max(abs(correlation) - explained, 0.0) ** 2 / max(count - lag, 1)
    return float(special.chdtrc(lags, count * (count + 2) * total)), first


def doubtful_parameters(
    request: Request,
    theta: Array,
    covariance: Array,
    at_bound: Flags | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[str]:
    """Yield warnings about suspicious values of parameters.

    theta (k,) with covariance (k, k): at a bound, outside the bounds, not moved, or smaller than the standard error.
    """
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    for i, name in enumerate(request.names if names is None else names):
        value, start = float(theta[i]), request.model.values[name]
        low, high = request.model.parameter(name).bounds
        reach = AT_BOUND * max(abs(value), abs(start) if np.isfinite(start) else 0.0)
        at = at_bound[i] if at_bound is not None else abs(value - low) <= reach or abs(value - high) <= reach
        prior = request.model.parameter(name).prior
        if at:
            yield (
                f"{name} sits at its bound {value:.6g}: its interval is one-sided; widen the bound if it is not a law."
            )
        elif not low <= value <= high:
            yield f"{name} = {value:.4g} is outside its bounds ({low:g}, {high:g}): model or data are in doubt."
        # A parameter that is determined may happen to start at its solution.
        elif value == start and not deviation[i] < abs(value):
            held = "its prior holds it" if prior is not None else "the data may not depend on it"
            yield f"{name} did not move from its start {value:.6g}: {held}."
        elif np.isfinite(deviation[i]) and deviation[i] > abs(value):
            yield f"{name} is smaller than its own standard error: the data hardly determine it."
