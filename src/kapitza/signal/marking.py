"""Records with bad samples marked and bridged.

The module also writes the sentences that name them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import unwrap
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import Message, Set
from kapitza.data import KEEP, KINDS, SATURATION, Record, marks_of, with_marks
from kapitza.signal.bad_samples import LONGEST, bad_samples
from kapitza.signal.jumps import possible_steps

UNEVEN = 0.5
"""Deviation of sampling steps, relative, from which neighbours do not predict a sample."""

NAMED = 4
"""Times of bad samples that a sentence gives."""

TURN = 2 * np.pi


def without_bad_samples(record: Record) -> Record:
    """Mark and bridge the bad samples of every channel.

    Interpolated values take their place.

    The marks stay with the record; fits leave marked samples out, everything else uses the values in their place. A
    record that is marked, or whose attribute "bad_samples" is "keep", is returned as it is.
    """
    made = record
    for channel, at, kinds, instead in found_bad(record):
        marks, filled = np.zeros(record.size, np.int8), record[channel].copy()
        marks[at], filled[at] = kinds, instead
        made = with_marks(made, channel, marks, filled)
    return made


def found_bad(record: Record) -> Iterator[tuple[str, Indices, NDArray[np.int8], Array]]:
    """Yield the channels that have bad samples.

    With each come positions (M,), marks, and the values in their place. Nothing is found in a record that is marked.
    """
    if record.content.attrs.get(KEEP) == "keep" or any(str(name).startswith("bad ") for name in record.content.coords):
        return
    sampling = record.sampling()
    if not sampling.deviation < UNEVEN:
        return
    pieces = (record.split_at_gaps() if sampling.gaps else record).segments()
    for channel, angle in zip(record.channels, record.angles, strict=True):
        # A few numbers by piece: arrays of 10^7 samples are made one after the other.
        found = [(piece.start, *_lost(record[channel][piece], angle)) for piece in pieces]
        at = np.concatenate([start + places for start, places, _, _ in found])
        if at.size:
            yield channel, at, np.concatenate([one[2] for one in found]), np.concatenate([one[3] for one in found])


def _lost(values: Array, angle: bool) -> tuple[Indices, NDArray[np.int8], Array]:
    """Return positions (M,) of bad samples, their marks, and the values in their place."""
    straight = unwrap(values) if angle else values
    found = bad_samples(straight)
    at = np.flatnonzero(found.lost)
    marks = np.zeros(at.size, np.int8)
    for number, flags in enumerate(found.kinds, start=1):
        marks[flags[at]] = number
    # Turns that unwrapping added are taken off again.
    turns = np.round((straight[at] - values[at]) / TURN) * TURN if angle else 0.0
    return at, marks, found.filled[at] - turns


def without_possible_steps(record: Record, channels: Collection[str]) -> Record:
    """Return the record without the possible steps of some channels.

    record: with bad samples bridged. The steps may be impacts, so this serves the start of a fit of a model that has
    none.
    """
    for channel, found in record_steps(record):
        if channel in channels and found:
            jumps = np.zeros(record.size)
            for piece, at, sizes in found:
                jumps[piece] = np.cumsum(np.bincount(at, sizes, jumps[piece].size))
            angle = record.angles[record.channels.index(channel)]
            record = record.with_channel(channel, record[channel] - jumps, record.units[channel], angle)
    return record


def record_steps(record: Record) -> Iterator[tuple[str, list[tuple[slice, Indices, Array]]]]:
    """Yield each channel with its pieces that may have steps: the samples of a piece after them, and their sizes.

    record: with bad samples bridged.
    """
    if record.content.attrs.get(KEEP) == "keep" or not (sampling := record.sampling()).deviation < UNEVEN:
        return
    pieces = (record.split_at_gaps() if sampling.gaps else record).segments()
    for channel, angle in zip(record.channels, record.angles, strict=True):
        straight = [unwrap(record[channel][piece]) if angle else record[channel][piece] for piece in pieces]
        found = [(piece, *possible_steps(values)) for piece, values in zip(pieces, straight, strict=True)]
        yield channel, [one for one in found if one[1].size]


def possible_step_notes(record: Record) -> Iterator[str]:
    """Yield a sentence on each channel's possible steps.

    record: with bad samples bridged. `ShootingFit` finds steps by its residuals, also smaller ones, and takes them off.
    """
    for channel, pieces in record_steps(record):
        found: list[str] = []
        for piece, at, sizes in pieces:
            found += [f"{size:.3g} at {t:.6g} s" for t, size in zip(record.time[piece][at], sizes, strict=True)]
        if 0 < len(found) <= NAMED:
            yield (
                f'"{channel}" may have a step: it jumps by {", ".join(found)} and goes on from there. Either the '
                "offset of the sensor changes, which ShootingFit tests and takes off, or the motion has an impact."
            )


def cut_at_bad_runs(record: Record) -> Record:
    """Cut the record at long runs of marked samples.

    The runs are too long for a value in their place and are left out.
    """
    lost = np.zeros(record.size, bool)
    for channel in record.channels:
        for start, stop in _runs(marks_of(record, channel) > 0):
            lost[start:stop] |= stop - start > LONGEST
    return record.samples(np.flatnonzero(~lost)).split_at_gaps() if lost.any() else record


def bad_sample_warnings(record: Record) -> Iterator[str]:
    """Yield a sentence on each channel's bad samples.

    The sentences include the times.
    """
    for channel in record.channels:
        marks = marks_of(record, channel)
        if marks.any():
            yield bad_sample_sentence(channel, record.time, {kind: marks == n for n, kind in enumerate(KINDS, start=1)})


def bad_sample_sentence(channel: str, time: Array, kinds: Mapping[str, Flags]) -> str:
    """Return one sentence on bad samples of a channel.

    time: (N,), kinds: (N,) flags by kind, of KINDS.
    """
    words = [_counted(flags, time, kind) for kind, flags in kinds.items() if flags.any()]
    return Message(
        f'"{channel}" has {" and ".join(words)}: these samples are left out of the noise, the fit and its tests. '
        f"If they are real, keep them by {Set('data', bad_samples='keep')}."
    )


def _counted(flags: Flags, time: Array, kind: str) -> str:
    runs = _runs(flags)
    times = ", ".join(f"{time[start]:.6g}" for start, _ in runs[:NAMED])
    rest = f", and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    if kind == SATURATION.mark:
        return f"{int(flags.sum())} {kind} samples (from {times} s{rest})"
    count = f"1 {kind}" if len(runs) == 1 else f"{len(runs)} {kind}s"
    longest = max(stop - start for start, stop in runs)
    long = f" of up to {longest} samples" if longest > LONGEST else ""
    return f"{count}{long} (at {times} s{rest})"


def _runs(flags: Flags) -> list[tuple[int, int]]:
    """Return start and end of each run of flags.

    The end is exclusive.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
