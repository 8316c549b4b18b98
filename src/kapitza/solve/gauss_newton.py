"""Nonlinear least squares by damped Gauss-Newton.

The steps stay in a trust region, with bounds and a history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, Status


@dataclass(frozen=True)
class LeastSquaresSettings:
    """Tolerances and first damping of the least squares.

    The tolerances are on the scaled step, the relative decrease of the cost, and the scaled gradient.
    """

    step_tolerance: float = 1e-10
    cost_tolerance: float = 1e-14
    gradient_tolerance: float = 1e-12
    max_iterations: int = 100
    damping: float = 1e-3


@dataclass(frozen=True)
class LeastSquaresRow:
    """One accepted iteration."""

    cost: float
    step: float
    damping: float


@dataclass(frozen=True)
class LeastSquaresResult:
    """Result of the least squares.

    x: (k,), residual: r (m,), jacobian: (m, k) there, status: how it ended, history: one row per iteration.
    active: which unknowns are at a bound.
    """

    x: Array
    residual: Array
    jacobian: Array
    status: Status
    history: tuple[LeastSquaresRow, ...]
    active: NDArray[np.bool_]
    message: str = ""

    @property
    def cost(self) -> float:
        return 0.5 * float(self.residual @ self.residual)


def gauss_newton(
    evaluate: Callable[[Array], tuple[Array, Array]],
    start: Array,
    lower: Array | float = float("-inf"),
    upper: Array | float = float("inf"),
    scale: Array | None = None,
    settings: LeastSquaresSettings | None = None,
) -> LeastSquaresResult:
    """Minimise ½|r(x)|² over lower ≤ x ≤ upper.

    evaluate(x) gives r (m,) and its Jacobian J (m, k); a FlowError there rejects the step. Each step solves
    min |r + J d|² + μ |D d|² by a QR factorisation of the stacked matrix, where D holds the largest column norms so far
    (so the units of x do not matter) and μ follows the ratio of achieved to predicted decrease. Unknowns at a
    bound that push outwards are held; others are cut at the bound.
    """
    settings = settings or LeastSquaresSettings()
    x = np.clip(np.array(start, float), lower, upper)
    low, high = np.broadcast_to(np.asarray(lower), x.shape), np.broadcast_to(np.asarray(upper), x.shape)
    residual, jacobian = evaluate(x)
    weights = _column_sizes(jacobian, scale)
    cost, damping, growth = 0.5 * float(residual @ residual), settings.damping, 2.0
    history: list[LeastSquaresRow] = []
    status, message = Status.ITERATION_LIMIT, f"{settings.max_iterations} iterations."
    for _ in range(settings.max_iterations):
        gradient = jacobian.T @ residual
        held = ((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0))
        slope = np.abs(np.where(held, 0.0, gradient) / weights).max(initial=0.0)
        if slope <= settings.gradient_tolerance * max(np.sqrt(2 * cost), 1e-300) or cost == 0.0:
            status, message = Status.CONVERGED, "the gradient vanishes"
            break
        step = _damped_step(residual, jacobian, damping, weights, held)
        trial = np.clip(x + step, low, high)
        moved = trial - x
        size = float(np.abs(weights * moved).max() / (np.abs(weights * x).max() + 1e-300))
        new = _attempt(evaluate, trial)
        linear = residual + jacobian @ moved
        predicted = cost - 0.5 * float(linear @ linear)
        decrease = -1.0 if new is None else cost - 0.5 * float(new[0] @ new[0])
        gain = decrease / predicted if predicted > 0 else -1.0
        if new is not None and gain > 1e-4:
            x, (residual, jacobian) = trial, new
            weights = np.maximum(weights, _column_sizes(jacobian, scale))
            history.append(LeastSquaresRow(cost, size, damping))
            # Nielsen's rule (1999): the damping changes smoothly with the gain, without jumps at thresholds.
            damping, growth = max(damping * max(1 / 3, 1 - (2 * gain - 1) ** 3), 1e-15), 2.0
            if size <= settings.step_tolerance or decrease <= settings.cost_tolerance * cost:
                status, message = Status.CONVERGED, "the steps no longer matter"
                break
            cost -= decrease
            continue
        if size <= settings.step_tolerance:
            status, message = Status.CONVERGED, "no shorter step lowers the cost"
            break
        damping, growth = damping * growth, growth * 2
        if damping > 1e30:
            status, message = Status.STALLED, "no step, however short, lowers the cost: check the derivatives"
            break
    active = (x <= low) | (x >= high)
    return LeastSquaresResult(x, residual, jacobian, status, tuple(history), active, message)


def _column_sizes(jacobian: Array, scale: Array | None) -> Array:
    if scale is not None:
        return 1.0 / np.asarray(scale, float)
    size = np.linalg.norm(jacobian, axis=0)
    return np.where(size > 0, size, 1.0)


def _damped_step(residual: Array, jacobian: Array, damping: float, weights: Array, held: NDArray[np.bool_]) -> Array:
    free = ~held
    stacked = np.vstack([jacobian[:, free], np.sqrt(damping) * np.diag(weights[free])])
    right = np.concatenate([-residual, np.zeros(int(free.sum()))])
    step = np.zeros(held.size)
    step[free] = np.linalg.lstsq(stacked, right, rcond=None)[0]
    return step


def _attempt(evaluate: Callable[[Array], tuple[Array, Array]], x: Array) -> tuple[Array, Array] | None:
    try:
        residual, jacobian = evaluate(x)
    except FlowError:
        return None
    return (residual, jacobian) if np.isfinite(residual).all() and np.isfinite(jacobian).all() else None
