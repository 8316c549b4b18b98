"""Records on regular grids.

A record is resampled, or strobed with the excitation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Integers
from kapitza.data.sampling import GAP, between_samples, cut_segments, phase_times
from kapitza.data.time_table import Column, TimeTable
from kapitza.errors import DataError

if TYPE_CHECKING:
    from kapitza.data.record import Record

WIDE = 5.0
"""Intervals of a gap in a record whose sampling is irregular anyway."""

DENSEST = 1000
"""Points of a grid per sample; a finer one is a mistake in the step."""


def on_grid(record: Record, origins: Sequence[float], step: float) -> Record:
    """Return the record on a regular grid.

    Values at origin + k·step inside each segment (its own origin); gaps are left out and cut.

    Samples that lie on the grid are taken as they are, otherwise splines through the samples between gaps.
    """
    jittery = record.sampling().deviation > 0.1
    unbroken = record.split_at_gaps(WIDE if jittery else GAP)
    edges = np.array([piece.start for piece in record.segments()])
    pieces = unbroken.segments()
    owner = np.searchsorted(edges, [piece.start for piece in pieces], side="right") - 1
    count = sum((record.time[p][-1] - record.time[p][0]) / step + 1 for p in pieces)
    if not count <= max(DENSEST * record.size, 1000):
        raise DataError(
            f"A grid of {step:.3g} s would have {count:.3g} points for {record.size} samples: the step is too short."
        )
    grids = [
        phase_times(record.time[p][0], record.time[p][-1], origins[int(k)], step)
        for p, k in zip(pieces, owner, strict=True)
    ]
    time = np.concatenate(grids)
    if not time.size:
        raise DataError(f"No segment reaches a point of the grid: the record is shorter than {step:.6g} s.")
    belongs = np.repeat(owner, [grid.size for grid in grids])
    lost = np.flatnonzero(np.diff(time) > 1.5 * step)
    labels = cut_segments(belongs, lost)
    index = np.concatenate([p.start + nearest_index(record.time[p], g) for p, g in zip(pieces, grids, strict=True)])
    # Samples on the grid up to rounding of the times are taken as they are: no spline is needed.
    if np.abs(record.time[index] - time).max() <= 1e-9 * step:
        result = record.from_content(record.content.taken(index).with_coords({"segment": labels}))
    else:
        smooth = unbroken.unwrapped().values()
        blocks = [between_samples(record.time[p], smooth[p], g) for p, g in zip(pieces, grids, strict=True)]
        result = rebuilt(record, time, labels, np.concatenate(blocks))
    return with_phase_shifted(result, float(time[0]) - float(record.time[0]))


def rebuilt(record: Record, time: Array, segment: Integers, values: Array) -> Record:
    """Return the same channels with other samples.

    values: (N, channels). Attributes stay.
    """
    table = record.content
    columns = {name: Column(values[:, i], c.attrs) for i, (name, c) in enumerate(table.channels.items())}
    coords = {"time": Column(time, {}), "segment": Column(segment.astype(np.int32), {})}
    made = record.from_content(TimeTable(columns, coords, table.attrs))
    made.check()
    return made


def with_phase_shifted(record: Record, shift: float) -> Record:
    """Return the record with its phase shifted.

    shift: in seconds. A record without a stated phase stays as it is.
    """
    given = record.content.attrs.get("phase")
    return record if given is None or shift == 0.0 else record.with_attributes(phase=float(given) + shift)


def nearest_index(time: Array, wanted: Array) -> NDArray[np.intp]:
    """Return positions of the samples nearest to wanted times."""
    right = np.clip(np.searchsorted(time, wanted), 1, max(1, time.size - 1))
    left = right - 1
    right = np.minimum(right, time.size - 1)
    return np.where(wanted - time[left] <= time[right] - wanted, left, right)
