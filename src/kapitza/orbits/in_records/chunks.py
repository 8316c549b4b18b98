"""Sections of records larger than memory.

Records are read in chunks, of which only the points that the search needs are kept.
There are two passes. The first measures the attractor. The second keeps, with its image, every point of a cell of the
section until the cell holds `per_cell` points (more neighbours do not improve a local map that curvature limits), and
every close return with the points between. Memory is bounded by the cells that the attractor fills, not by the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.orbits.in_records.noise_on_section import section_noise
from kapitza.orbits.in_records.preparation import require_count
from kapitza.orbits.in_records.section import Section, make_section

Chunks = Callable[[], Iterable[Array]]


def section_from_chunks(
    chunks: Chunks,
    states: Sequence[str],
    angles: Sequence[bool],
    step: float,
    *,
    max_period: int = 6,
    tolerance: float = 0.01,
    cell: float = 0.005,
    per_cell: int = 200,
    noise: Array | None = None,
) -> Section:
    """Make a `Section` from strobed points in pieces.

    The result is an argument of `SectionSearch(...).search(section, max_period)`.
    chunks: called twice, gives successive arrays (M, n) that follow each other without a break, for example
    `lambda: (file[i : i + 10**6] for i in range(0, len(file), 10**6))` of a memory map or an HDF5 dataset.
    noise: standard deviation per state, estimated from the kept points by default.
    """
    if not callable(chunks):
        raise DataError(
            "chunks is read twice: pass a function that starts it anew, such as lambda: (a for a in parts)."
        )
    if len(states) != len(angles):
        raise DataError(f"{len(states)} states and {len(angles)} angles: give one True or False for each state.")
    require_count("max_period", max_period, 1)
    require_count("per_cell", per_cell, 1)
    for name, share in (("tolerance", tolerance), ("cell", cell)):
        if not 0 < share < 0.5:
            raise DataError(f"{name} = {share} must lie between 0 and 0.5: it is a share of the attractor.")
    circle = np.asarray(angles, bool)
    scale, total = _attractor_size(chunks, circle)
    for name, size in zip(states, scale, strict=True):
        if size == 0:
            raise DataError(f'"{name}" does not change over {total} points: leave it out, or check the sensor.')
    filled: dict[int, int] = {}
    rows, points = [], []
    tail, first = np.empty((0, len(circle))), 0
    for chunk in chunks():
        if not len(chunk):
            continue
        block = np.concatenate([tail, np.asarray(chunk, float)])
        keep = _wanted(block / scale, circle, len(tail), filled, max_period, tolerance, cell, per_cell)
        rows.append(first - len(tail) + np.flatnonzero(keep))
        points.append(block[keep])
        first += len(chunk)
        # A return after max_period steps may span two chunks.
        tail = block[-(max_period + 1) :]
    if first != total:
        raise DataError(f"The chunks held {total} points at the first pass and {first} at the second: start them anew.")
    # Rows of the tail belong to two blocks and may be kept twice.
    row, at = np.unique(np.concatenate(rows), return_index=True)
    follows = np.append(np.diff(row) == 1, False)
    section = make_section(
        np.concatenate(points)[at],
        follows,
        tuple(states),
        tuple(bool(c) for c in circle),
        step,
        sample=row,
        scale=scale,
    )
    return section.with_noise(section_noise(section) if noise is None else np.asarray(noise, float) / scale)


def _attractor_size(chunks: Chunks, circle: NDArray[np.bool_]) -> tuple[Array, int]:
    """Return the size (n,) and number of points."""
    low, high, count = np.full(len(circle), np.inf), np.full(len(circle), -np.inf), 0
    for chunk in chunks():
        values = np.asarray(chunk, float)
        if not values.size:
            continue
        if values.ndim != 2 or values.shape[1] != len(circle):
            raise DataError(f"A chunk has shape {values.shape}: give arrays with {len(circle)} columns, one per state.")
        if not np.isfinite(values).all():
            raise DataError(f"The chunk after point {count} holds values that are not finite: drop them first.")
        low, high, count = (
            np.minimum(low, values.min(axis=0)),
            np.maximum(high, values.max(axis=0)),
            count + len(values),
        )
    if count < 10:
        raise DataError(f"The chunks hold {count} points together; at least ten are needed to see a return.")
    # An angle counts by a full turn, also where the motion covers less of it.
    return np.where(circle & (high > low), 2 * np.pi, high - low), count


def _wanted(
    unit: Array, circle: NDArray[np.bool_], old: int, filled: dict[int, int], max_period: int, tolerance: float,
    cell: float, per_cell: int,
) -> NDArray[np.bool_]:  # fmt: skip
    """Return which rows of a block to keep.

    Members of cells that are not full yet and their images, and close returns.
    """
    unit = np.where(circle, unit % 1.0, unit)
    keep = np.zeros(len(unit), bool)
    # The last old row has its image only now; rows before it were tested with the block before.
    start = max(old - 1, 0)
    if len(unit) - 1 > start:
        cells = np.floor(unit[start:-1] / cell).astype(np.int64)
        # The attractor spans 1/cell cells per coordinate: keys are distinct while that is below 4096.
        key = cells @ (4096 ** np.arange(unit.shape[1]))
        names, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
        order = np.argsort(inverse, kind="stable")
        rank = np.empty(len(key), np.int64)
        rank[order] = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        before = np.array([filled.get(int(name), 0) for name in names])
        chosen = np.flatnonzero(rank + before[inverse] < per_cell) + start
        keep[chosen] = keep[chosen + 1] = True
        filled.update(zip(names.tolist(), np.minimum(before + counts, per_cell).tolist(), strict=True))
    for p in range(1, max_period + 1):
        gap = unit[p:] - unit[:-p]
        gap = np.where(circle, gap - np.round(gap), gap)
        hits = np.flatnonzero(np.einsum("ij,ij->i", gap, gap) <= tolerance**2)
        keep[(hits[:, None] + np.arange(p + 1)).ravel()] = True
    return keep
