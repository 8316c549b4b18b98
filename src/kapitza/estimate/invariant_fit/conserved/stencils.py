"""Rates from sampled positions by linear stencils.

The noise and the truncation error of the rates are estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.signal import difference_noise

ORDERS = {"second": 2, "fourth": 4, "sixth": 6, "eighth": 8}
WINDOWS = (3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32)
"""Half widths in samples that `smooth` chooses from."""
OVERSMOOTHED = 1.5
"""Mean square change of the positions by smoothing, over the noise variance, above which the window is too wide."""
DEGREE = 4
"""Degree of the local polynomial of `smooth`."""


def estimated_noise(values: Array) -> float:
    """Return the noise of a densely sampled series.

    It follows from the median modulus of its p-th differences, the least over p = 3 … 10.
    """
    best = np.inf
    for p in range(3, min(11, values.size // 4)):
        best = min(best, difference_noise(np.diff(values, p), p, robust=True))
    return best


@dataclass(frozen=True)
class Rates:
    """Positions and rates where a stencil fits.

    inside: slice of the segment's samples. position, rate: (M,). position_noise, rate_noise: variances per unit
    variance of a sample (M,). truncation: estimated squared error of the rate that is not noise (M,).
    reach: samples on each side that a value depends on.
    """

    inside: slice
    position: Array
    rate: Array
    position_noise: Array
    rate_noise: Array
    truncation: Array
    reach: int


def local_polynomial(times: Array, values: Array, half: int, degree: int, order: int) -> tuple[Array, Array]:
    """Return a derivative by local polynomials.

    The derivative of `order` is taken at the middle of windows of 2 half + 1 samples, by a polynomial of `degree`.
    Returns (values (N - 2 half,), weights (N - 2 half, 2 half + 1)); with degree = 2 half it is the central
    difference of that order of accuracy, on any grid.
    """
    width = 2 * half + 1
    steps = np.diff(times)
    step = float(np.mean(steps))
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    # On an even grid all windows share one set of weights.
    if np.ptp(steps) < 1e-6 * step:
        offsets = np.arange(-half, half + 1.0)[None]
    else:
        offsets = (
            np.lib.stride_tricks.sliding_window_view(times, width) - times[half : times.size - half, None]
        ) / step
    powers = (offsets / half)[..., None] ** np.arange(degree + 1)
    # The derivative of a polynomial at the middle is its coefficient times order!.
    weights = np.linalg.pinv(powers)[:, order] * factorial(order) / (half * step) ** order
    weights = np.broadcast_to(np.asarray(weights, float), windows.shape)
    return np.einsum("ns,ns->n", windows, weights), weights


def difference_rates(times: Array, values: Array, accuracy: int) -> Rates:
    """Return central differences of the given accuracy.

    The accuracy is 2, 4, 6 or 8. The next order estimates the truncation error, widened to its neighbours.
    """
    half = accuracy // 2
    _require(times, 2 * half + 3)
    rate, weights = local_polynomial(times, values, half, 2 * half, 1)
    finer, _ = local_polynomial(times, values, half + 1, 2 * half + 2, 1)
    # The next order of accuracy estimates the truncation error.
    truncation = _widened((rate[1:-1] - finer) ** 2)
    inside = slice(half, times.size - half)
    ones = np.ones(rate.size)
    return Rates(inside, values[inside], rate, ones, np.sum(weights**2, axis=1), truncation, half)


def smoothed_rates(times: Array, values: Array, variance: float) -> Rates:
    """Return rates by local polynomials of degree 4.

    The window balances noise against truncation. The truncation is estimated by a polynomial of degree 6 on the
    same window: the mean square of the difference over one window, less the noise that it has.
    """
    best: tuple[float, Rates] | None = None
    for half in WINDOWS:
        if 2 * half + 1 > times.size:
            break
        position, even = local_polynomial(times, values, half, DEGREE, 0)
        inside = slice(half, times.size - half)
        if best is not None and np.mean((values[inside] - position) ** 2) > OVERSMOOTHED * variance:
            break  # the polynomial no longer follows the motion; wider windows only less
        rate, odd = local_polynomial(times, values, half, DEGREE, 1)
        finer, reference = local_polynomial(times, values, half, min(DEGREE + 2, 2 * half), 1)
        noise = variance * np.sum((odd - reference) ** 2, axis=1)
        near = np.ones(min(2 * half + 1, rate.size))
        excess = np.convolve((rate - finer) ** 2 - noise, near, "same") / np.convolve(np.ones(rate.size), near, "same")
        truncation = np.clip(excess, 0.0, None)
        rate_noise = np.sum(odd**2, axis=1)
        cost = float(np.mean(truncation + variance * rate_noise))
        if best is None or cost < best[0]:
            found = Rates(inside, position, rate, np.sum(even**2, axis=1), rate_noise, truncation, half)
            best = (cost, found)
    if best is None:
        _require(times, 2 * WINDOWS[0] + 1)
        raise DataError("No window fits the segment.")
    return best[1]


def rates_of(times: Array, values: Array, variance: float, how: str) -> Rates:
    """Return rates by a named rule.

    The rule is "second", "fourth", "sixth", "eighth", "smooth", or "auto": the least expected squared error.
    """
    if how in ORDERS:
        return difference_rates(times, values, ORDERS[how])
    if how == "smooth":
        return smoothed_rates(times, values, variance)
    candidates = [difference_rates(times, values, a) for a in ORDERS.values() if times.size >= a + 3]
    if times.size >= 2 * WINDOWS[0] + 1:
        candidates.append(smoothed_rates(times, values, variance))
    if not candidates:
        _require(times, 5)
    return min(candidates, key=lambda r: float(np.mean(r.truncation + variance * r.rate_noise)))


def _widened(squares: Array) -> Array:
    """Return the largest of three neighbours, (N + 2,).

    squares: (N,) squared differences. A difference that vanishes by chance does not count as exact.
    """
    padded = np.pad(squares, 2, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 3).max(axis=1)


def _require(times: Array, needed: int) -> None:
    if times.size < needed:
        raise DataError(
            f"A segment of {times.size} samples is too short for this rate formula, which needs {needed}: "
            "use a lower order, or leave the segment out."
        )
