"""Intervals of parameters, and draws of a truncated Gaussian.

The module gives Student's intervals, central and shortest intervals of draws, draws of a Gaussian that bounds cut off,
and draws whose intervals are those of profiles within the bounds.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.errors import KapitzaError

CHAINS, SWEEPS, STATES = 500, 200, 10
"""Independent chains, sweeps over the parameters, and states kept per chain, spaced evenly over its second half."""


def half_width(level: Any, dof: float) -> float:
    """Return the half width of an interval.

    It is in standard errors, for a two-sided interval: Student's t, Gaussian where the noise is known.
    """
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise KapitzaError(f"The level of an interval is between 0 and 1, not {level}: 0.95 is usual.")
    middle = 0.5 + float(level) / 2
    return float(special.stdtrit(dof, middle) if np.isfinite(dof) else special.ndtri(middle))


def between_bounds(value: float, reach: float, low: float, high: float) -> tuple[float, float]:
    """Return value ± reach, cut off at the bounds.

    A value outside (low, high) is not cut off.
    """
    inside = low <= value <= high
    ends = value - reach, value + reach
    return (max(ends[0], low), min(ends[1], high)) if inside else ends


CROWDED = 0.1
"""Distance between the outermost draw and a bound, in standard deviations, below which the draws crowd at it."""


def interval_of(draws: Array, level: float, low: float, high: float) -> tuple[float, float]:
    """Return the central interval of draws (S,).

    It is the shortest interval instead where they crowd at a bound (low, high).
    """
    # A central interval would leave out the bound itself, where the density is largest.
    near = CROWDED * float(np.std(draws))
    if draws.min() - low < near or high - draws.max() < near:
        return shortest(draws, level)
    ends = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return float(ends[0]), float(ends[1])


def shortest(draws: Array, level: float) -> tuple[float, float]:
    """Return the shortest interval of draws (S,).

    It holds the share `level` of them, and is one-sided where they crowd at a bound.
    """
    ordered = np.sort(draws)
    inside = int(np.ceil(level * ordered.size))
    widths = ordered[inside - 1 :] - ordered[: ordered.size - inside + 1]
    first = int(np.argmin(widths))
    return float(ordered[first]), float(ordered[first + inside - 1])


def truncated_gaussian(mean: Array, covariance: Array, low: Array, high: Array, seed: int = 0) -> Array:
    """Draw samples of a Gaussian within bounds.

    Returns (CHAINS · STATES, k) draws of N(mean, covariance) within low ≤ θ ≤ high, by Gibbs sampling of many chains.
    Every sweep moves along the axes, which reach into corners, and along the principal axes of the Gaussian: along the
    parameters alone two that are exchanged for each other (correlation -0.9998) would not move in thousands of sweeps.
    """
    rng = np.random.default_rng(seed)
    # Unit variances keep the inverse well conditioned, whatever the units.
    size = np.sqrt(np.diag(covariance))
    below, above = (low - mean) / size, (high - mean) / size
    spread, axes = np.linalg.eigh(covariance / np.outer(size, size))  # any sign: a path of draws
    precision = (axes / spread) @ axes.T
    state = np.clip(rng.standard_normal((CHAINS, mean.size)), below, above)
    taken = []
    for sweep in range(SWEEPS):
        for along in (*axes.T, *np.eye(mean.size)):
            pull = along @ precision
            deviation = 1 / np.sqrt(pull @ along)
            centre = -(state @ pull) * deviation**2
            # The line leaves the bounds where its first parameter does.
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.sort([(below - state) / along, (above - state) / along], axis=0)
            ends[:, :, along == 0] = np.array([-np.inf, np.inf])[:, None, None]
            first, last = ends[0].max(axis=1), ends[1].min(axis=1)
            # Rounding may put a state at a bound outside of it.
            first, last = np.minimum(first, 0.0), np.maximum(last, 0.0)
            moved = _quantiles((first - centre) / deviation, (last - centre) / deviation, rng.uniform(size=CHAINS))
            state = np.clip(state + np.outer(centre + deviation * moved, along), below, above)
        # The first half of the sweeps is burn-in.
        if sweep >= SWEEPS // 2 and (sweep + 1) % (SWEEPS // 2 // STATES) == 0:
            taken.append(state.copy())
    return mean + size * np.concatenate(taken)


REACH, FINE, PASSES = 8.0, 400, 100
"""Standard errors that a profile extends to either side, its points there, and sweeps over bounded parameters."""


def draws_at_bounds(
    value: Array, mean: Array, covariance: Array, low: Array, high: Array, at_bound: Flags
) -> tuple[Array, Array]:
    """Return draws (S, k) of parameters of which some are at a bound, and the covariance of the truncated Gaussian.

    value (k,): the estimate, the minimum within the bounds of D(θ) = (θ - m)ᵀ V⁻¹ (θ - m). Draws of a parameter at its
    bound are those of the truncated Gaussian. Few of them are next to the bound: where the truth is the bound (a
    friction that is not there), 90 % intervals of a parameter that is exchanged for this one would hold it in 60 % of
    cases (correlation -0.98). So draws of the others follow the profile within the bounds,

        z(v) = sign(v - θ_i) √(min over the others of D at θ_i = v, less D at the estimate),

    a standard normal number to either side; their ranks are those of the truncated Gaussian.
    """
    drawn = truncated_gaussian(mean, covariance, low, high)
    moments = np.atleast_2d(np.cov(drawn.T))
    bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    shares = (np.arange(len(drawn)) + 0.5) / len(drawn)
    away = np.linspace(0.0, 1.0, FINE + 1) ** 2
    for i in np.flatnonzero(~at_bound).tolist():
        # The estimate may be several standard errors from the minimum without bounds.
        reach = REACH * np.sqrt(covariance[i, i]) + abs(value[i] - mean[i])
        grid = value[i] + reach * np.concatenate([-away[:0:-1], away])
        rise = _least(grid - mean[i], i, bounded[bounded != i], mean, covariance, low, high)
        root = np.sign(grid - value[i]) * np.sqrt(np.maximum(rise - rise[FINE], 0.0))
        quantiles = np.interp(special.ndtri(shares), np.maximum.accumulate(root), grid)
        drawn[np.argsort(drawn[:, i], kind="stable"), i] = np.clip(quantiles, low[i], high[i])
    return drawn, moments


def _least(away: Array, i: int, others: Indices, mean: Array, covariance: Array, low: Array, high: Array) -> Array:
    """Return the least D (G,) where parameter i is `away` (G,) from its mean and `others` are within their bounds."""
    chosen = np.append(others, i)
    size = np.sqrt(np.diag(covariance)[chosen])
    # Parameters without bounds are left out: their minimum is that of the marginal Gaussian.
    precision = np.linalg.inv(covariance[np.ix_(chosen, chosen)] / np.outer(size, size))
    below, above = ((b - mean)[others] / size[:-1] for b in (low, high))
    state = np.zeros((away.size, chosen.size))
    state[:, -1] = away / size[-1]
    for _ in range(PASSES if others.size > 1 else 1):
        for j in range(others.size):
            pull = state @ precision[j] - state[:, j] * precision[j, j]
            # Projected Gauss-Seidel: the minimum along one parameter of a convex quadratic, cut at its bounds.
            state[:, j] = np.clip(-pull / precision[j, j], below[j], above[j])
    return np.einsum("gi,ij,gj->g", state, precision, state)


def _quantiles(low: Array, high: Array, share: Array) -> Array:
    """Return quantiles of a truncated unit Gaussian.

    The Gaussian is cut to [low, high]; logarithms of the lower tail are used, which resolve what lies hundreds of
    standard deviations away.
    """
    # An interval above zero is mirrored: 1 - Φ loses its digits in the upper tail.
    flip = low > 0
    first, last = np.where(flip, -high, low), np.where(flip, -low, high)
    a, b = special.log_ndtr(first), special.log_ndtr(last)
    drawn = np.clip(special.ndtri_exp(b + np.log(share + (1 - share) * np.exp(a - b))), first, last)
    return np.where(flip, -drawn, drawn)
