"""Newton's method without derivatives.

The function is smooth, has a few variables, and is costly to evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import Status

REACH = 0.25
"""Differences are taken over this fraction of the distance at which the function has risen by one half."""

LONGEST_STEP = 20.0
"""Of a Newton step, in units of that distance: the quadratic model is not trusted further."""

SETTLED = 0.02
"""A Newton step below this many of these units is the last one."""


@dataclass(frozen=True)
class Minimum:
    """Result of the minimisation.

    x: (m,), value: f(x), hessian: (m, m) there, at_limit: which variables (m,) are at a limit.
    """

    x: Array
    value: float
    hessian: Array
    at_limit: NDArray[np.bool_]
    status: Status


def slopes_by_differences(function: Callable[[Array], Array], x: Array, steps: Array) -> Array:
    """Return slopes (m, k) by central differences.

    The function has values (m,) at x (k,); steps: (k,).
    """
    sides = [(function(x + step), function(x - step)) for step in np.diag(steps)]
    return np.column_stack([(ahead - behind) / (2 * h) for (ahead, behind), h in zip(sides, steps, strict=True)])


def minimise_by_differences(
    function: Callable[[Array], float],
    start: Array,
    reach: Array,
    low: Array,
    high: Array,
    max_iterations: int = 25,
) -> Minimum:
    """Minimise f within low ≤ x ≤ high.

    f is minus a logarithm of likelihood, so that ½ is a standard deviation.

    reach: (m,) about how far each variable moves f by one half; it is corrected by the curvature on the way. Gradient
    and Hessian are central differences, 1 + 2m + m(m - 1) values of f a step; the Hessian's eigenvalues count by their
    modulus, so that the step descends where f is not convex. f may be infinite where it does not exist.
    """
    x = np.clip(start, low, high)
    reach, value = np.array(reach, float), function(x)
    status, curvature, held = Status.ITERATION_LIMIT, np.eye(x.size), np.zeros(x.size, bool)
    for _ in range(max_iterations):
        slope, curvature = _derivatives(function, x, value, REACH * reach, low, high)
        if not (np.isfinite(slope).all() and np.isfinite(curvature).all()):
            reach = reach / 4
            continue
        held = ((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0))
        step = _newton_step(slope, curvature, reach, held)
        size = float(np.sqrt(abs(step @ curvature @ step)))
        convex = bool((np.linalg.eigvalsh(curvature[np.ix_(~held, ~held)]) > 0).all())
        reached = _descend(function, x, value, step, low, high)
        if reached is not None:
            x, value = reached
        own = np.diag(curvature)
        wanted = np.where(own > 0, 1 / np.sqrt(np.where(own > 0, own, 1.0)), 3 * reach)
        # One bad difference must not move the width of the next ones by orders of magnitude.
        reach = np.clip(wanted, reach / 10, 10 * reach)
        if reached is None or (convex and size < SETTLED):
            status = Status.CONVERGED if convex and size < 5 * SETTLED else Status.STALLED
            break
    return Minimum(x, value, curvature, held | (x <= low) | (x >= high), status)


def _derivatives(
    function: Callable[[Array], float], x: Array, value: float, width: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return gradient (m,) and Hessian (m, m).

    They are those of the parabola through the neighbours, all within the limits.
    """
    m = x.size
    # At a limit the parabola is shifted inside, and its gradient carried back to x.
    centre = np.maximum(np.minimum(x, high - width), low + width)
    here = value if (centre == x).all() else function(centre)
    shifts = width[:, None] * np.eye(m)
    up = np.array([function(centre + s) for s in shifts])
    down = np.array([function(centre - s) for s in shifts])
    slope = (up - down) / (2 * width)
    curvature = np.diag((up + down - 2 * here) / width**2)
    for i in range(m):
        for j in range(i):
            both = function(centre + shifts[i] + shifts[j]) + function(centre - shifts[i] - shifts[j])
            mixed = both - up[i] - down[i] - up[j] - down[j] + 2 * here
            curvature[i, j] = curvature[j, i] = mixed / (2 * width[i] * width[j])
    return slope + curvature @ (x - centre), curvature


def _newton_step(slope: Array, curvature: Array, reach: Array, held: NDArray[np.bool_]) -> Array:
    step, free = np.zeros_like(slope), ~held
    unit = reach[free]
    values, vectors = np.linalg.eigh(curvature[np.ix_(free, free)] * np.outer(unit, unit))  # any sign: V f(λ) Vᵀ
    # In units of `reach` curvatures are near one: much smaller ones are directions that the function hardly sees.
    values = np.maximum(np.abs(values), 1e-3)
    along = -(vectors.T @ (slope[free] * unit)) / values
    longest = float(np.linalg.norm(along * np.sqrt(values)))
    step[free] = unit * (vectors @ along) * min(1.0, LONGEST_STEP / max(longest, 1e-300))
    return step


def _descend(
    function: Callable[[Array], float], x: Array, value: float, step: Array, low: Array, high: Array
) -> tuple[Array, float] | None:
    """Return the first lower point along a step.

    The fractions 1, ½, ¼ … of the step are tried; None where none is lower.
    """
    for halving in range(8):
        trial = np.clip(x + step / 2**halving, low, high)
        reached = function(trial)
        if reached < value:
            return trial, reached
    return None
