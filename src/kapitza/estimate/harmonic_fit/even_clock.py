"""Resampling of uneven samples onto an even grid.

Each sample is moved by its own small step. A grid point g takes the nearest sample (t, y) and moves it along the
motion, y + p(g) - p(t), p the local cubic through
the samples around it. The sample keeps its own noise with weight one, so the noise on the grid is as white as it was;
the cubic adds about 0.1 |g - t|/h of it, h the step. A spline through all samples would colour the noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import By
from kapitza.errors import DataError

AROUND, DEGREE = 11, 3
"""Samples and degree of the local polynomial."""

CHUNK = 20_000
"""Samples whose polynomials are computed at once."""

FARTHEST = 1.0
"""Distance in steps from the nearest sample beyond which a grid point is in a gap."""

TWICE, WIDER, WIDEST = 0.1, 1.2, 4.0
"""Largest share of grid points that use the same sample as a neighbour; factor by which the step grows until they do
not, and the largest total factor."""


def even_step(times: Sequence[Array]) -> float:
    """Return the step of a suitable even grid.

    Few grid points share a sample: it is the mean interval, or more where intervals vary much.
    """
    mean = float(np.median([(t[-1] - t[0]) / (t.size - 1) for t in times]))
    # A wider step skips samples; too narrow a step uses the same sample twice, which correlates the noise.
    step = mean
    while step <= WIDEST * mean:
        shared = [np.mean(np.diff(_nearest(t, _grid(t, step))) == 0) if t.size > 2 else 0.0 for t in times]
        if np.average(shared, weights=[t.size for t in times]) <= TWICE:
            return step
        step *= WIDER
    raise DataError(
        f"The samples are too unevenly spaced for a grid (mean interval {mean:.6g}): use {By('shooting')}, which "
        "takes every sample at its own time, or split the record into segments at the gaps."
    )


def on_even_grid(times: Array, values: Array, step: float) -> tuple[list[Array], list[Array]]:
    """Resample one piece onto an even grid.

    times is (N,), values is (N, m). Returns grid times (n,) and values (n, m) of the stretches between gaps.
    """
    if times.size < AROUND:
        return [], []
    grid = _grid(times, step)
    index = _nearest(times, grid)
    moved = values[index] + _change(times, values, index, grid)
    # Grid points inside a gap have no sample to move.
    near = np.abs(grid - times[index]) <= FARTHEST * step
    cuts = np.flatnonzero(np.diff(near.astype(np.int8))) + 1
    parts = [part for part in np.split(np.arange(grid.size), cuts) if near[part[0]]]
    return [grid[part] for part in parts], [moved[part] for part in parts]


def _grid(times: Array, step: float) -> Array:
    return times[0] + step * np.arange(int((times[-1] - times[0]) / step * (1 + 1e-12)) + 1)


def _nearest(times: Array, grid: Array) -> Indices:
    after = np.clip(np.searchsorted(times, grid), 1, times.size - 1)
    return np.where(grid - times[after - 1] <= times[after] - grid, after - 1, after)


def _change(times: Array, values: Array, index: Indices, grid: Array) -> Array:
    """Return the change p(g) - p(t) (n, m).

    p is the local polynomial around sample t = times[index].
    """
    first = np.clip(index - AROUND // 2, 0, times.size - AROUND)
    clocks, readings = sliding_window_view(times, AROUND), sliding_window_view(values, AROUND, axis=0)
    made = np.empty((grid.size, values.shape[1]))
    for begin in range(0, grid.size, CHUNK):
        here = slice(begin, begin + CHUNK)
        centre = times[index[here]]
        since = clocks[first[here]] - centre[:, None]
        size = np.abs(since).max(axis=1)
        # Times are scaled to ±1, which keeps the powers well conditioned.
        columns = (since / size[:, None])[..., None] ** np.arange(DEGREE + 1)
        coefficients = np.linalg.pinv(columns) @ np.swapaxes(readings[first[here]], 1, 2)
        shift = ((grid[here] - centre) / size)[:, None] ** np.arange(1, DEGREE + 1)
        made[here] = (shift[:, None, :] @ coefficients[:, 1:])[:, 0]
    return made
