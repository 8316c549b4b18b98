"""Possible steps of a sensor, found without a model.

Around the middle between two samples the record is fitted by a cubic and a step,

    x(t) ≈ Σ_k a_k t^k + ½ J sign(t),   |t| < m samples.

J is a linear filter of the record. A step has a large J, a cubic that follows the rest to the noise, and neighbours far
smaller than itself. An impact in a velocity looks the same, so a step is "possible", and a motion that jumps more than
a few times has impacts, not steps: none is named then.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.signal.filters import MEDIAN_TO_DEVIATION

HALVES = (4, 6, 9, 14)
"""Samples on either side of the middle; the number with the least scatter of J is taken."""

LARGE = 8.0
"""Least J, in robust deviations of J along the record."""

FOLLOWED = 3.0
"""Largest residual of the fit at a step, in robust deviations of the residuals."""

STANDS_OUT = 2.0
"""Times by which the smallest step must exceed the largest J elsewhere."""

MOST = 3
"""Most steps of a stretch; more belong to the motion."""

FEWEST = 200
"""Samples of the shortest stretch that is searched."""


@lru_cache(maxsize=8)
def _filters(half: int) -> tuple[Array, Array]:
    """Return the filters of J and of the residual.

    They are weights (2m,) of J, and the projection (2m, 2m) onto the residual.
    """
    t = np.arange(-half, half) + 0.5
    columns = np.column_stack([*(t / half) ** np.arange(4)[:, None], 0.5 * np.sign(t)])
    inverse = np.linalg.pinv(columns)
    return inverse[-1], np.eye(t.size) - columns @ inverse


def _windows(values: Array, half: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(values, 2 * half)


def possible_steps(values: Array) -> tuple[Indices, Array]:
    """Return the samples after steps, and their sizes.

    Both are (s,). values: (N,) of one evenly sampled stretch, angles continuous, bad samples bridged.
    """
    values = np.asarray(values, float)
    none = np.zeros(0, np.intp), np.zeros(0)
    if values.size < FEWEST or not np.ptp(values) > 0:
        return none
    scales = [MEDIAN_TO_DEVIATION * float(np.median(np.abs(_windows(values, half) @ _filters(half)[0])))
              for half in HALVES]  # fmt: skip
    scale, half = min(zip(scales, HALVES, strict=True))
    windows, (weights, projection) = _windows(values, half), _filters(half)
    jump = windows @ weights
    size = np.abs(jump)
    if not scale > 0 or not size.max() > LARGE * scale:
        return none
    left = np.sqrt(np.square(windows @ projection).mean(axis=1))
    usual, free, found = float(np.median(left)), np.ones(jump.size, bool), []
    while len(found) <= MOST:
        at = int(np.argmax(np.where(free, size, -1.0)))
        if found and size[at] * STANDS_OUT < size[found].min():
            break
        found.append(at)
        # Windows that contain the step see part of it.
        free[max(at - 2 * half, 0) : at + 2 * half + 1] = False
        if not free.any():
            return none
    followed = all(size[i] > LARGE * scale and left[i] < FOLLOWED * usual for i in found)
    if len(found) > MOST or not followed:
        return none
    order = np.sort(np.array(found, np.intp))
    return order + half, jump[order]
