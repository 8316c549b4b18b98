"""Selection of independent coordinates of a section."""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array

REDUNDANT = 5e-3  # of the range; smoothed noise of a per cent leaves less, an independent state a hundred times more
PROBES = 300  # points at which a channel is predicted from the others: enough for a median


def independent_columns(points: Array, derived: list[int], least: int = 2) -> list[int]:
    """Return columns that are not functions of the others.

    The points have shape (M, n); the first column and at least `least` columns stay.
    Points of a section with more coordinates than the surface has dimensions leave the slopes across it undetermined,
    and with them the multipliers. A column is a function of the rest when a local linear fit to neighbours in the rest
    predicts it within `REDUNDANT` of its range. `derived` columns are tried first, then the best predicted one.
    """
    columns = list(range(points.shape[1]))
    span = np.ptp(points, axis=0)
    scaled = points / np.where(span > 0, span, 1.0)
    while len(columns) > least and len(points) >= 200:
        left = {j: _unpredicted(scaled, j, [c for c in columns if c != j]) for j in columns[1:]}
        redundant = [j for j in sorted(left, key=lambda j: left[j]) if left[j] <= REDUNDANT]
        if not redundant:
            break
        columns.remove(next((j for j in reversed(derived) if j in redundant), redundant[0]))
    return columns


def _unpredicted(scaled: Array, column: int, others: list[int]) -> float:
    """Return the median error of a predicted column.

    The column is predicted from neighbours in the other columns, leaving out the point itself.
    """
    from scipy.spatial import KDTree

    base = scaled[:, others]
    rows = np.linspace(0, len(base) - 1, min(PROBES, len(base))).astype(int)
    # Four neighbours per coefficient, and the point itself, which is left out.
    count = min(4 * (len(others) + 1) + 1, len(base))
    near = np.asarray(KDTree(base).query(base[rows], k=count)[1], np.intp)[:, 1:]
    offset = base[near] - base[rows][:, None, :]
    design = np.concatenate([np.ones((*near.shape, 1)), offset], axis=2)
    normal = np.einsum("rka,rkb->rab", design, design)
    # Neighbours on a line or plane make the normal matrix singular.
    ridge = 1e-9 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(normal.shape[1])
    right = np.einsum("rka,rk->ra", design, scaled[near, column])
    value = np.linalg.solve(normal + ridge, right[..., None])[:, 0, 0]
    return float(np.median(np.abs(value - scaled[rows, column])))
