"""Autoregression of the noise, estimated from residuals.

Initial states, free parameters and the strongest term have absorbed part of the noise, most of it at low frequencies.
Without a correction the autoregression comes out too short (0.791 for 0.8 on 1500
samples of a pendulum), slow columns too certain, and alarms too many (7.3 instead of 5.5 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kapitza.base.arrays import Array, Flags, Numbers
from kapitza.estimate.missing.columns import Window

if TYPE_CHECKING:
    from kapitza.estimate.missing.score import JointScores

ORDER = 8
"""Longest autoregression that whitens the residuals."""

LARGEST_OF_FEW = 4.0
"""Mean of the largest of about five squared normal numbers: what the strongest term of a complete model absorbs."""

MEMORY = 4000
"""Length in samples of the impulse response from which autocovariances are computed."""


@dataclass(frozen=True)
class _Left:
    """Residuals (N, c) of one window.

    known: where there is a sample, the residual is 0 elsewhere. initial: orthonormal columns (N, c, n) of its initial
    states; shared: those of columns that all windows share.
    """

    known: Flags
    residual: Array
    initial: Array
    shared: Array


def whitening(windows: Sequence[Window], scores: JointScores) -> tuple[Array, float]:
    """Return the autoregression (c, ORDER) of every channel's noise.

    The second value is the degrees of freedom with which its slow part is known. Residuals are taken after the
    strongest term, when they are mostly noise. With every candidate removed instead, the filter would amplify the very
    frequencies of the candidates.
    """
    free, channels = windows[0].free.shape[2], windows[0].residual.shape[1]
    left = _residuals(windows, [*range(free), free + int(np.argmax(scores.gains))])
    filters, certainty = np.zeros((channels, ORDER)), np.inf
    for c in range(channels):
        # Neighbours without a lost sample among them: its residual of 0 would make the noise look whiter than it is.
        rows = [
            _neighbours(part.residual[:, c])[_neighbours(part.known[:, c]).all(axis=1)]
            for part in left
            if len(part.residual) > 3 * ORDER
        ]
        # Ten samples per coefficient; with fewer the noise is taken as white.
        if rows and sum(len(r) for r in rows) >= 10 * ORDER:
            filters[c] = autoregression(np.concatenate(rows))
    orders = [int(np.max(np.flatnonzero(f), initial=-1)) + 1 for f in filters]
    # The correction depends on the filters, so it is repeated once.
    for _ in range(2 if any(orders) else 0):
        filters = _corrected(left, filters, orders)
    for c, order in enumerate(orders):
        if order:
            certainty = min(certainty, _certainty(left, filters[c, :order], c))
    return filters, certainty


def filtered(columns: Array, filters: Array) -> Array:
    """Return columns after the filters.

    columns: (N, c, m); filters: (c, ORDER).
    Generalised least squares: columns and residual pass through the same filter. The first ORDER rows are left out.
    """
    made = columns[ORDER:].copy()
    for lag in range(1, ORDER + 1):
        made -= filters[None, :, lag - 1, None] * columns[ORDER - lag : len(columns) - lag]
    return made


def _neighbours(values: Numbers) -> Numbers:
    return np.lib.stride_tricks.sliding_window_view(values, ORDER + 1)


def _residuals(windows: Sequence[Window], taken: Sequence[int]) -> list[_Left]:
    parts, columns = [], []
    for window in windows:
        every, initial = window.stacked()
        flat = initial.reshape(-1, initial.shape[2])
        basis = linalg.orth(flat / np.maximum(np.linalg.norm(flat, axis=0), 1e-300))  # any sign: Q Qᵀ
        block = every.reshape(-1, every.shape[2])[:, [*taken, -1]]
        columns.append(block - basis @ (basis.T @ block))
        parts.append((~window.lost, basis))
    whole = np.concatenate(columns)
    scaled = whole[:, :-1] / np.maximum(np.linalg.norm(whole[:, :-1], axis=0), 1e-300)
    shared = linalg.orth(scaled) if scaled.size else scaled  # any sign: Q Qᵀ, also in the correction
    # `orth` mixes columns, so the weight of the strongest term is spread over all of them.
    rest = whole[:, -1] - shared @ (shared.T @ whole[:, -1])
    made, begin = [], 0
    for known, basis in parts:
        rows, shape = slice(begin, begin + known.size), known.shape
        begin = rows.stop
        made.append(
            _Left(known, rest[rows].reshape(shape), basis.reshape(*shape, -1), shared[rows].reshape(*shape, -1))
        )
    return made


def residuals_without(windows: Sequence[Window], taken: Sequence[int]) -> list[Array]:
    """Return the residuals (N, c) of each window, projected.

    The initial states and the columns `taken` are projected out.
    """
    return [part.residual for part in _residuals(windows, taken)]


def autoregression(rows: Array) -> Array:
    """Return autoregression coefficients (ORDER,) of least BIC.

    The nearest lag is first; rows (R, ORDER + 1) hold neighbours. White noise then stays unfiltered: a filter that
    it does not need would scale the slow columns by chance.
    """
    past, now = rows[:, -2::-1], rows[:, -1]
    best, chosen = len(now) * np.log(float(now @ now)), np.zeros(ORDER)
    for order in range(1, ORDER + 1):
        found = np.asarray(np.linalg.lstsq(past[:, :order], now, rcond=None)[0], np.float64)
        left = now - past[:, :order] @ found
        # Bayesian information criterion.
        criterion = len(now) * np.log(float(left @ left)) + order * np.log(len(now))
        if criterion < best and _is_stable(found):
            best, chosen = criterion, np.concatenate([found, np.zeros(ORDER - order)])
    return chosen


def _autocovariance(coefficients: Array, variance: float, count: int) -> Array:
    """Return the autocovariances γ_0 … γ_(count-1).

    The process is x_t = Σ a_k x_(t-k) + e_t.
    """
    from scipy import signal

    impulse = np.zeros(MEMORY)
    impulse[0] = 1.0
    response = np.asarray(signal.lfilter([1.0], np.r_[1.0, -coefficients], impulse))
    full = signal.correlate(response, response, "full", "fft")[MEMORY - 1 :]
    made = np.zeros(count)
    made[: min(count, MEMORY)] = variance * full[:count]
    return made


def _corrected(left: Sequence[_Left], filters: Array, orders: Sequence[int]) -> Array:
    """Return the filters corrected for absorbed noise.

    Yule-Walker is solved with lagged products of the noise itself: those of the residuals e = (1 - QQᵀ) n plus what Q
    absorbed.
    E[e eᵀ] = Σ - QQᵀΣ - ΣQQᵀ + QQᵀΣQQᵀ, Σ the covariance under the present filters; channels are independent.
    """
    channels = range(len(orders))
    variances = [_innovation(left, filters[c], c) for c in channels]
    pushed = [
        [
            tuple(
                part.known[:, c, None] * _pushed(filters[c], variances[c], q[:, c]) for q in (part.initial, part.shared)
            )
            for c in channels
        ]
        for part in left
    ]
    shared = _summed(
        [part.shared[:, c].T @ row[c][1] for part, row in zip(left, pushed, strict=True) for c in channels]
    )
    # Fitted columns absorb one squared normal number each; the strongest term, chosen from many, absorbs more.
    weight = (left[0].shared.shape[2] - 1 + LARGEST_OF_FEW) / left[0].shared.shape[2]
    new = filters.copy()
    for c, order in enumerate(orders):
        if not order:
            continue
        products, there, planned = np.zeros(order + 1), np.zeros(order + 1), np.zeros(order + 1)
        for part, row in zip(left, pushed, strict=True):
            own = _summed([part.initial[:, d].T @ row[d][0] for d in channels])
            e, known = part.residual[:, c], part.known[:, c]
            # Parts that are shorter than the lag have no pairs of samples so far apart.
            for lag in range(min(order + 1, len(e))):
                products[lag] += e[lag:] @ e[: len(e) - lag]
                products[lag] += _taken(part.initial[:, c], row[c][0], own, lag)
                products[lag] += weight * _taken(part.shared[:, c], row[c][1], shared, lag)
                there[lag] += np.count_nonzero(known[lag:] & known[: len(e) - lag])
                planned[lag] += len(e) - lag
        # Fewer pairs are left at one lag than at another where samples are lost.
        products *= planned / np.maximum(there, 1.0)
        corrected = np.asarray(linalg.solve_toeplitz(products[:order], products[1 : order + 1]), np.float64)
        # With few samples the corrected products need not be positive definite.
        if _is_stable(corrected):
            new[c, :order] = corrected
    return new


def _is_stable(coefficients: Array) -> bool:
    """Return whether an autoregression is stable.

    x_t = Σ a_k x_(t-k) + e_t stays bounded if all roots of its polynomial are inside the unit circle.
    """
    return bool(np.isfinite(coefficients).all()) and float(np.abs(np.roots(np.r_[1.0, -coefficients])).max()) < 1.0


def _pushed(coefficients: Array, variance: float, q: Array) -> Array:
    """Return Σ q (N, n).

    Σ is the covariance of the autoregression.
    """
    return np.asarray(linalg.matmul_toeplitz(_autocovariance(coefficients, variance, len(q)), q), np.float64)


def _summed(parts: Sequence[Array]) -> Array:
    return np.asarray(np.sum(parts, axis=0), np.float64)


def _taken(q: Array, pushed: Array, inner: Array, lag: int) -> float:
    """Return the lagged products absorbed by columns q.

    It is the sum Σ_t of those of QQᵀΣ + ΣQQᵀ - QQᵀΣQQᵀ; q is (N, n).
    """
    count = len(q) - lag
    return float(
        (q[lag:] * pushed[:count]).sum() + (q[:count] * pushed[lag:]).sum() - ((q[lag:] @ inner) * q[:count]).sum()
    )


def _innovation(left: Sequence[_Left], coefficients: Array, c: int) -> float:
    """Return the variance of the filtered residuals.

    Those whose filter reaches a lost sample do not count.
    """
    reach, made = int(np.max(np.flatnonzero(coefficients), initial=-1)) + 1, []
    for part in left:
        if len(part.residual) > ORDER:
            whole = _neighbours(part.known[:, c])[:, ORDER - reach :].all(axis=1)
            made.append((_neighbours(part.residual[:, c]) @ np.r_[-coefficients[::-1], 1.0])[whole])
    return float(np.mean(np.concatenate(made) ** 2)) if sum(len(m) for m in made) else 1.0


def _certainty(left: Sequence[_Left], coefficients: Array, c: int) -> float:
    """Return the degrees of freedom of slow noise.

    They are 2/var(log S(0)) for the level at low frequency, S(0) = s²/(1 - Σa)²; cov(a) = s² Γ⁻¹/N, Γ the
    autocovariance matrix.
    """
    order, count = len(coefficients), sum(int(part.known[:, c].sum()) for part in left)
    gamma = _autocovariance(coefficients, 1.0, order)
    spread = float(np.linalg.solve(linalg.toeplitz(gamma), np.ones(order)).sum()) / count
    return 2.0 / (4.0 * spread / max(1.0 - float(coefficients.sum()), 1e-3) ** 2 + 2.0 / count)
