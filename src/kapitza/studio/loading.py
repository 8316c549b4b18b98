"""Load recordings as the page shows them.

They have all columns, gaps and spikes marked, and extremes by blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import COLUMN, KINDS, RECORDED, Record, read
from kapitza.signal import found_bad
from kapitza.studio.pyramid import Pyramid

READ_KEYS = ("time", "interval", "names", "segment", "group", "separator", "decimal", "units")
"""Keys of [data] that change what is read; the others choose from it."""

SEARCHED = 1_000_000
"""Samples up to which spikes are looked for before a recording is shown: more take longer than a second."""

MOST_MARKS = 200


@dataclass(frozen=True)
class Mark:
    """Mark something to see in a recording.

    It has a kind ("gap", "segment", "spike", "dropout", "saturated"), a time and a text.
    """

    kind: str
    begin: float
    end: float
    text: str


@dataclass(frozen=True)
class Shown:
    """Hold one recording, ready to be drawn.

    time: (N,) increasing; laid_out: pieces were put one behind the other; searched: bad samples are marked.
    interval [s] and number of pieces are kept: 10^7 samples take half a second to look through.
    """

    path: Path
    record: Record
    time: Array
    pyramid: Pyramid
    marks: tuple[Mark, ...]
    laid_out: bool
    key: tuple[Any, ...]
    interval: float
    pieces: int
    searched: bool = True

    @property
    def channels(self) -> tuple[str, ...]:
        return self.record.channels

    @property
    def clock(self) -> tuple[str, str]:
        """Return the column of the time and the unit it was read in, "" where the times come from an interval."""
        facts = self.record.content.coords["time"].attrs
        return str(facts.get(COLUMN, "")), str(facts.get(RECORDED, ""))

    @property
    def reading(self) -> tuple[Any, ...]:
        """Return what a page built for the recording depends on: its columns and its times."""
        return self.channels, self.interval, float(self.time[0]), float(self.time[-1]), self.clock


def shown_record(data: Mapping[str, Any], folder: Path) -> Record:
    """Read all columns of a recording.

    The recording is the first file of a [data] table; rows with missing numbers become gaps.
    """
    names = data.get("files") or [data.get("file", "")]
    settings = {key: data[key] for key in READ_KEYS if key in data}
    return read(folder / str(names[0]), missing="drop", **settings)


def key_of(data: Mapping[str, Any], folder: Path) -> tuple[Any, ...]:
    """Return what a shown recording depends on.

    The file as it is now, and how it is read.
    """
    names = data.get("files") or [data.get("file", "")]
    path = folder / str(names[0])
    settings = tuple((key, repr(data.get(key))) for key in READ_KEYS)
    return (str(path), state_of(path), settings)


def state_of(path: Path) -> tuple[int, ...]:
    """Return numbers that change with a file.

    When it is written or replaced; none where there is no file.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def load(data: Mapping[str, Any], folder: Path) -> Shown:
    """Return a [data] table's recording as shown."""
    key = key_of(data, folder)
    record = shown_record(data, folder)
    names = data.get("files") or [data.get("file", "")]
    time, laid_out = _increasing(record)
    sampling, begins = record.sampling(), [piece.start for piece in record.segments()[1:]]
    cuts, marks = _interruptions(sampling.gaps, begins, time)
    searched = record.size <= SEARCHED
    if searched:
        marks += _bad(record, time)
    pyramid = Pyramid(time, [record[name] for name in record.channels], cuts)
    return Shown(folder / str(names[0]), record, time, pyramid, tuple(marks[:MOST_MARKS]), laid_out, key,
                 sampling.interval, len(begins) + 1, searched)  # fmt: skip


def with_spikes(shown: Shown) -> Shown:
    """Return a long recording with its bad samples marked."""
    marks = (*shown.marks, *_bad(shown.record, shown.time))
    return replace(shown, marks=marks[:MOST_MARKS], searched=True)


def _increasing(record: Record) -> tuple[Array, bool]:
    """Return times that increase.

    Pieces whose clocks overlap are put one behind the other.
    """
    time = record.time
    steps = np.diff(time)
    if not steps.size or (steps > 0).all():
        return time, False
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    return time[0] + np.concatenate([[0.0], np.cumsum(np.where(steps > 0, steps, 10 * usual))]), True


def _interruptions(gaps: Sequence[Any], begins: list[int], time: Array) -> tuple[Any, list[Mark]]:
    """Return where lines are interrupted.

    The marks of gaps and segments are returned too.
    """
    marks = [Mark("segment", float(time[at]), float(time[at]), f"segment {number} begins at {time[at]:.6g} s")
             for number, at in enumerate(begins, start=2)]  # fmt: skip
    for gap in gaps:
        begin, end = float(time[gap.after]), float(time[gap.after + 1])
        marks.append(Mark("gap", begin, end, f"gap of {gap.missing} samples, {begin:.6g} to {end:.6g} s"))
    cuts = np.unique(np.array([*begins, *(gap.after + 1 for gap in gaps)], np.intp))
    return cuts, marks


def _bad(record: Record, time: Array) -> list[Mark]:
    """Return marks of bad samples.

    Spikes, dropouts and saturated samples; a run of them has one mark.
    """
    found: list[Mark] = []
    for name, at, marks, _ in found_bad(record):
        cuts = [0, *(np.flatnonzero(np.diff(at) > 1) + 1).tolist(), at.size]
        for first, stop in pairwise(cuts):
            run = at[first:stop]
            kind, begin, end = KINDS[marks[first] - 1], float(time[run[0]]), float(time[run[-1]])
            count = f", {run.size} samples" if run.size > 1 else ""
            found.append(Mark(kind, begin, end, f"{kind} of {name} at {begin:.6g} s{count}"))
            if len(found) >= MOST_MARKS:
                return found
    return found
