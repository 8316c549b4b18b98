"""Samples and nodes of a fit.

Pieces of records are laid end to end, and the nodes are placed on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate.judge import spread_of
from kapitza.estimate.observation import Observation
from kapitza.estimate.sensors import lost_readings
from kapitza.model import Model

Records = Sequence[tuple[Record, Mapping[str, float]]]
"""Records, each with its own parameter values."""


@dataclass(frozen=True)
class Samples:
    """Samples of all pieces, end to end.

    time: (N,); values: (N, c), 0 where a record lacks the channel; joined: (N,) True where the flow links sample i to
    sample i + 1; parameters: (N, npar) run-time vector of each sample (fixed values may differ between records), the
    free columns are overwritten during the fit. sensor: (N, c) number of the sensor of each sample (one channel in one
    record), -1 where there is none. record: (N,) number of the record; begins: (N,) True at the very first sample of a
    record. outliers: whether sizes are to be taken by medians. free: (N,) where nodes may be, None for everywhere.
    """

    time: Array
    values: Array
    joined: Flags
    parameters: Array
    sensor: Indices
    record: Indices
    begins: Flags
    outliers: bool = False
    free: Flags | None = None

    @property
    def size(self) -> int:
        return self.time.size

    @cached_property
    def complete(self) -> bool:
        """Whether every channel has a value at every sample."""
        return bool((self.sensor >= 0).all())

    @cached_property
    def readings(self) -> int:
        return int((self.sensor >= 0).sum())

    @cached_property
    def spread(self) -> Array:
        """Standard deviation (c,) of each channel.

        A constant channel counts with the largest of the others.
        """
        columns = zip(self.values.T, (self.sensor >= 0).T, strict=True)
        own = np.array([spread_of(values[read], self.outliers) for values, read in columns])
        # A constant channel has no spread to divide by.
        return np.where(own > 0, own, own.max(initial=0.0) or 1.0)

    @cached_property
    def pieces(self) -> list[slice]:
        ends = np.flatnonzero(~self.joined) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]

    def at_readings(self, per_sensor: Array) -> Array:
        """Return a number per sensor at its samples.

        (N, c); infinite where there is no sample.
        """
        return np.append(per_sensor, np.inf)[self.sensor]

    def take(self, start: int, stop: int) -> Samples:
        return self.choose(np.arange(start, stop))

    def choose(self, index: Indices) -> Samples:
        """Return the samples at increasing positions.

        The motion is cut where samples between them are left out.
        """
        # Samples that are not neighbours any more are not linked.
        joined = self.joined[index] & (np.diff(index, append=index[-1] + 2) == 1)
        return Samples(
            self.time[index], self.values[index], joined, self.parameters[index], self.sensor[index],
            self.record[index], self.begins[index], self.outliers, None if self.free is None else self.free[index],
        )  # fmt: skip


def gather(
    model: Model,
    records: Records,
    observation: Observation,
    max_gap: float,
    outliers: bool = False,
    bridge: bool = True,
) -> Samples:
    """Lay records end to end.

    They are cut at segments and at gaps longer than `max_gap` median steps. bridge: whether segments separated by only
    a few lost samples are one motion.
    """
    pieces: list[Samples] = []
    for number, (record, own) in enumerate(records):
        setting = model.with_values(**own) if own else model
        within = _within(record, max_gap, bridge)
        # Samples without a neighbour on either side belong to no motion.
        keep = within | np.concatenate([[False], within[:-1]])
        count = int(keep.sum())
        read = np.array([channel in record.channels for channel in observation.channels])
        if not read.any():
            raise DataError(
                f"Record {number} has the channels {', '.join(record.channels)}, none of them in use "
                f"({', '.join(observation.channels)}): rename them, say what they measure by outputs, or leave it out."
            )
        columns = [record[c] if c in record.channels else np.zeros(record.size) for c in observation.channels]
        sensor = np.where(read, len(observation.channels) * number + np.arange(read.size), -1)
        lost = np.column_stack([
            lost_readings(record, c) if has else np.zeros(record.size, bool)
            for c, has in zip(observation.channels, read, strict=True)
        ])  # fmt: skip
        pieces.append(
            Samples(
                time=record.time[keep] - record.excitation_start,
                values=np.column_stack(columns)[keep],
                joined=within[keep],
                parameters=np.broadcast_to(setting.vector, (count, setting.vector.size)),
                sensor=np.where(lost, -1, sensor)[keep],
                record=np.full(count, number),
                begins=(np.arange(record.size) == 0)[keep],
            )
        )
    together = {f.name: np.concatenate([getattr(p, f.name) for p in pieces]) for f in fields(Samples)[:-2]}
    samples = Samples(**together, outliers=outliers)
    if samples.size < 2:
        raise DataError(
            "The record has no two samples without a gap between them: multiple shooting follows the motion from "
            "sample to sample. Check the segments, or raise max_gap."
        )
    return samples


def _within(record: Record, max_gap: float, bridge: bool) -> Flags:
    """Return where (N,) the motion continues.

    The flag is True where it continues from sample i to sample i + 1.
    """
    step = np.diff(record.time)
    within = np.ones(record.size, bool)
    for piece in record.segments():
        within[piece.stop - 1] = False
    inside = step[within[:-1]]
    if inside.size:
        usual = np.median(inside)
        # Lost samples leave a step of two or more; segments that follow each other at once were cut on purpose.
        lost = step > 1.5 * usual
        within[:-1] = (within[:-1] | (lost & bridge)) & (step <= max_gap * usual)
    return within


def bridged_segments(records: Records, max_gap: float, bridge: bool) -> int:
    """Count the ends of segments that are bridged.

    The motion continues across them.
    """
    return sum(
        int(_within(record, max_gap, bridge)[[piece.stop - 1 for piece in record.segments()]].sum())
        for record, _ in records
    )


@dataclass(frozen=True)
class Nodes:
    """Nodes that cut the trajectory into shooting intervals.

    index: (J,) sample of each node; linked: (J,) whether node j starts an interval that ends at node j + 1;
    length: (J,) samples in that interval (0 where not linked); spacing: from one to the next, in samples that may be
    nodes.
    """

    index: Indices
    linked: Flags
    length: Indices
    spacing: int

    @property
    def size(self) -> int:
        return self.index.size


def place_nodes(samples: Samples, spacing: int) -> Nodes:
    """Place a node every `spacing` samples.

    Nodes are placed where they may be, and at the first and last sample of each piece.
    """
    free = np.ones(samples.size, bool) if samples.free is None else samples.free
    starts = np.concatenate([[0], np.flatnonzero(~samples.joined)[:-1] + 1])
    before = np.cumsum(free) - free
    of_piece = np.repeat(before[starts], np.diff(starts, append=samples.size))
    chosen = free & ((before - of_piece) % spacing == 0)
    chosen[starts] = True
    index = np.flatnonzero(chosen | ~samples.joined)
    linked = samples.joined[index]
    length = np.where(linked, np.diff(np.append(index, samples.size)), 0)
    return Nodes(index, linked, length, spacing)


def kicks_between(samples: Samples, nodes: Nodes) -> Array:
    """Return the number of kicks (J,) between nodes.

    It is the number of usual sampling steps from each node to the next.
    """
    step = np.diff(samples.time)[samples.joined[:-1]]
    last = np.minimum(nodes.index + nodes.length, samples.size - 1)
    return np.where(nodes.linked, (samples.time[last] - samples.time[nodes.index]) / np.median(step), 1.0)
