"""Derivatives by differences, the yardstick for tangents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-13
"""Of flows that are compared with differences: that of fits and families, whose code compiles in two thirds of the time
of the default, 1e-15."""


def fourth_order(function: Callable[[float], Array], step: float) -> Array:
    """d function / d s at s = 0 by central differences of fourth order."""
    near = function(step) - function(-step)
    far = function(2 * step) - function(-2 * step)
    return (8 * near - far) / (12 * step)


def column_error(
    tangent: Array, function: Callable[[float], Array], scale: float, smallest: float = 1e-12, enough: float = 1e-6
) -> float:
    """Distance of a tangent column from differences, relative to its largest entry (or `smallest`).

    Steps from 1e-3 to 1e-6 of the scale are tried until one is near enough: large ones suffer from curvature, small
    ones from rounding. A wrong tangent agrees with none of them.
    """
    size, best = max(float(np.abs(tangent).max()), smallest), np.inf
    for h in (1e-4, 1e-3, 1e-5, 1e-6):
        best = min(best, float(np.abs(fourth_order(function, h * scale) - tangent).max()) / size)
        if best < enough:
            break
    return best
