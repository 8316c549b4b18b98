"""Quadratic functions of a few variables between limits."""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.solve.factors import symmetric_function
from kapitza.solve.lapack import bounded_least_squares

FLATTEST = 1e-14
"""Relative curvature that every direction counts with at least."""


def nearest_within(hessian: Array, best: Array, low: Array, high: Array) -> Array:
    """Minimise a quadratic function within limits.

    The function is (x - best)ᵀ H (x - best) with H (k, k) in any units. Returns x (k,) with low ≤ x ≤ high.
    """
    if ((low <= best) & (best <= high)).all():
        return best
    size = np.sqrt(np.abs(np.diag(hessian)))
    size = np.where(size > 0, size, 1.0)
    root = symmetric_function(
        (hessian + hessian.T) / (2 * np.outer(size, size)), lambda v: np.sqrt(np.clip(v, v.max() * FLATTEST, None))
    )
    # lsq_linear wants room between the limits, a variable that sits on one has it on the other side.
    limits = low * size, np.maximum(high * size, low * size + 1e-300)
    found, on = bounded_least_squares(root, root @ (size * best), *limits)
    # Units and back would leave a variable at a limit a rounding away from it.
    return np.where(on < 0, low, np.where(on > 0, high, np.clip(found / size, low, high)))
