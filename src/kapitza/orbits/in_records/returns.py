"""Close returns of a record after p steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.orbits.in_records.section import Section

CHUNK = 1 << 15
"""Points that are compared at once: they stay in the cache."""


@dataclass(frozen=True)
class Returns:
    """Rows of a section that return, closest first.

    Row r is within the tolerance of row r + `period`.
    """

    period: int
    rows: Indices
    distance: Array

    def __len__(self) -> int:
        return len(self.rows)


def close_returns(section: Section, period: int, tolerance: float) -> Returns:
    """Find rows that return within the tolerance.

    It returns all rows i with |z_{i+p} - z_i| ≤ tolerance (scaled, angles on the circle) inside one segment.
    The rows are taken in chunks: memory beyond the record does not grow with its length.
    """
    rows, distances = [], []
    for first in range(0, max(section.size - period, 0), CHUNK):
        last = min(first + CHUNK, section.size - period)
        gap = section.wrap(section.unit[first + period : last + period] - section.unit[first:last])
        square = np.einsum("ij,ij->i", gap, gap)
        hit = np.flatnonzero(square <= tolerance**2)
        hit = hit[section.run[first + hit] >= period]
        rows.append(hit + first)
        distances.append(np.sqrt(square[hit]))
    if not rows:
        return Returns(period, np.empty(0, np.intp), np.empty(0))
    row, distance = np.concatenate(rows), np.concatenate(distances)
    order = np.argsort(distance, kind="stable")
    return Returns(period, row[order], distance[order])


def representatives(section: Section, returns: Returns, cell: float, limit: int) -> Indices:
    """Return the closest return in every cell.

    Each possible cycle gets one start, and there are at most `limit` of them.
    """
    if not len(returns):
        return returns.rows
    cells = np.floor(section.unit[returns.rows] / cell).astype(np.int64)
    # Returns are sorted by distance, so the first of a cell is its closest.
    _, first = np.unique(cells, axis=0, return_index=True)
    return returns.rows[np.sort(first)][:limit]


def return_histogram(section: Section, longest: int, tolerance: float) -> tuple[Indices, Indices]:
    """Count returns after 1 … `longest` steps.

    Returns (steps, counts).
    """
    steps = np.arange(1, longest + 1)
    counts = np.array([len(close_returns(section, int(p), tolerance)) for p in steps])
    return steps, counts


def cycle_starts(section: Section, rows: Indices, period: int) -> Array:
    """Return the record points (C, p, n) along returns."""
    return section.unit[rows[:, None] + np.arange(period)]


def count_visits(section: Section, points: Array, tolerance: float) -> tuple[int, int]:
    """Count visits of the record to a cycle.

    How often the record follows a cycle (p, n) for a whole period, and the row where it does so best (-1: never).
    A visit starts near point 0 and stays within the tolerance of the next points up to and including the return.
    """
    period = len(points)
    rows = section.within(points[0], tolerance)
    rows = rows[section.run[rows] >= period]
    if not len(rows):
        return 0, -1
    path = section.unit[rows[:, None] + np.arange(period + 1)]
    gap = section.wrap(path - np.concatenate([points, points[:1]]))
    worst = np.sqrt(np.einsum("ckn,ckn->ck", gap, gap)).max(axis=1)
    visits = int(np.count_nonzero(worst <= tolerance))
    return visits, int(rows[np.argmin(worst)]) if visits else -1
