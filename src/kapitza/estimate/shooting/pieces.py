"""The data of a fit: pieces of records laid end to end, and the nodes placed on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate.shooting.observation import Observation
from kapitza.model import Model

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """Samples of all pieces, end to end.

    time: (N,); values: (N, c); joined: (N,) True where the flow links sample i to sample i + 1;
    parameters: (N, npar) run-time vector of each sample (records may differ in what is fixed), the free columns are
    overwritten during the fit.
    """

    time: Array
    values: Array
    joined: NDArray[np.bool_]
    parameters: Array

    @property
    def size(self) -> int:
        return self.time.size

    @property
    def spread(self) -> Array:
        """Standard deviation (c,) of each channel; a channel at rest counts with the largest of the others."""
        own = self.values.std(axis=0)
        return np.where(own > 0, own, own.max(initial=0.0) or 1.0)

    @property
    def pieces(self) -> list[slice]:
        ends = np.flatnonzero(~self.joined) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]

    def take(self, start: int, stop: int) -> Samples:
        joined = self.joined[start:stop].copy()
        joined[-1] = False
        return Samples(self.time[start:stop], self.values[start:stop], joined, self.parameters[start:stop])


Part = Record | tuple[Record, Mapping[str, float]]


def gather(model: Model, data: Part | Sequence[Part], observation: Observation, max_gap: float) -> Samples:
    """Lay records end to end; cut at segments and at gaps longer than `max_gap` median steps."""
    times, values, joined, parameters = [], [], [], []
    for record, own in parts_of(data):
        setting = model.with_values(**own) if own else model
        readings = record.values(observation.channels)
        step = np.diff(record.time)
        within = np.ones(record.size, bool)
        for piece in record.segments():
            within[piece.stop - 1] = False
        inside = step[within[:-1]]
        if inside.size:
            within[:-1] &= step <= max_gap * np.median(inside)
        lonely = ~within & ~np.concatenate([[False], within[:-1]])
        keep = ~lonely
        times.append(record.time[keep] - record.excitation_start)
        values.append(readings[keep])
        joined.append(within[keep])
        parameters.append(np.broadcast_to(setting.vector, (int(keep.sum()), setting.vector.size)))
    samples = Samples(
        np.concatenate(times), np.concatenate(values), np.concatenate(joined), np.concatenate(parameters).copy()
    )
    if samples.size < 2:
        raise DataError(
            "The record has no two samples without a gap between them: multiple shooting follows the motion from "
            "sample to sample. Check the segments, or raise max_gap."
        )
    return samples


def parts_of(data: Part | Sequence[Part]) -> list[tuple[Record, Mapping[str, float]]]:
    """Records with the parameter values that belong to each: a Record, (Record, {name: value}), or a list of these."""
    single = isinstance(data, Record) or (isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Mapping))
    parts = [cast(Part, data)] if single else list(cast(Sequence[Part], data))
    found = []
    for part in parts:
        record, own = part if isinstance(part, tuple) else (part, {})
        if not isinstance(record, Record):
            raise DataError(f"ShootingFit works on records, not on {type(record).__name__}: read or simulate one.")
        found.append((record, own))
    if not found:
        raise DataError("The list of records is empty.")
    return found


@dataclass(frozen=True)
class Nodes:
    """Where the trajectory is cut into shooting intervals.

    index: (J,) sample of each node; linked: (J,) whether node j starts an interval that ends at node j + 1;
    length: (J,) samples in that interval (0 where not linked).
    """

    index: NDArray[np.intp]
    linked: NDArray[np.bool_]
    length: NDArray[np.intp]

    @property
    def size(self) -> int:
        return self.index.size


def place_nodes(samples: Samples, spacing: int) -> Nodes:
    """A node every `spacing` samples, and at the first and last sample of each piece."""
    count = samples.size
    piece_start = np.zeros(count, np.intp)
    starts = np.concatenate([[0], np.flatnonzero(~samples.joined)[:-1] + 1])
    piece_start[starts] = starts
    piece_start = np.maximum.accumulate(piece_start)
    chosen = (np.arange(count) - piece_start) % spacing == 0
    chosen |= ~samples.joined
    index = np.flatnonzero(chosen)
    linked = samples.joined[index]
    length = np.where(linked, np.diff(np.append(index, count)), 0)
    return Nodes(index, linked, length)
