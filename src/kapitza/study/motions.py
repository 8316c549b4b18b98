"""Find the model's motion along the data.

Methods that fit no motion themselves need it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import Estimate, ShootingFit, identify
from kapitza.model import Model
from kapitza.study.recordings import thinned

LARGEST = 20_000
"""Samples of a recording that a motion is followed over, after it was thinned; later ones are left out."""

LARGEST_STROBED = 400
"""The same for one sample per excitation period."""

ROUGH = 0.002
"""Share of a channel's spread that lines between fewer samples may miss it by: some 50 samples per cycle."""

FEWEST = 100
"""Samples of a segment that are kept in any case."""

SHORTEST = 12
"""Samples of the shortest pieces tried."""


def follow_record(model: Model, record: Record, measures: Mapping[str, str]) -> Estimate:
    """Return the motion closest to the record.

    The initial states are free, the parameters are not.
    A chaotic motion cannot be followed for ever by parameters that are a little off: where none follows a segment as
    a whole, it is cut into a quarter of its length, and so on. KapitzaError where even a few samples are not followed.
    """
    strobed = record.period is not None and float(np.median(np.diff(record.time))) > 0.9 * record.period
    record = record if strobed else thinned(record, oversampling(record))
    record = _head(record, LARGEST_STROBED if strobed else LARGEST)
    longest = max(piece.stop - piece.start for piece in record.segments())
    size, failure = longest, None
    while size >= min(SHORTEST, longest):
        cut = record if size == longest else in_pieces(record, size)
        try:
            # no free parameter: only the states move
            return identify(model, cut, [], ShootingFit(outputs=measures, bridge=False))
        except KapitzaError as error:
            failure, size = error, size // 4
    raise failure or KapitzaError("The recording is too short to follow a motion along it.")


def oversampling(record: Record) -> int:
    """Return how far the record can be thinned.

    It is the largest of 1, 2, 4, ... 64 that loses nothing that a picture shows.
    Every channel of the longest segment is drawn by straight lines through every n-th sample: they may miss the others
    by a tenth more than the noise (what lines through every second sample miss), and by ROUGH of the spread (of an
    angle that turns: of a radian). No segment is thinned below FEWEST samples.
    """
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    shortest = min(part.stop - part.start for part in record.segments())
    time, every = record.time[piece], 1
    continuous = record.unwrapped()
    while every < 64 and shortest >= 2 * every * FEWEST:
        for channel, angle in zip(record.channels, record.angles, strict=True):
            values = continuous[channel][piece]
            spread = min(float(np.std(values)), 1.0) if angle else float(np.std(values))
            noise = 1.1 * _missed(time, values, 2)
            # curvature misses four times as much at twice the distance, noise no more
            is_noise = _missed(time, values, 4) <= noise <= 0.1 * spread
            if _missed(time, values, 2 * every) > float(np.hypot(noise * is_noise, ROUGH * spread)):
                return every
        every *= 2
    return every


def _missed(time: Array, values: Array, every: int) -> float:
    """Return how far lines miss the samples.

    It is the root mean square, for lines through every n-th sample.
    """
    left_out = np.arange(time.size) % every != 0
    drawn = np.interp(time[left_out], time[::every], values[::every])
    return float(np.sqrt(np.mean((drawn - values[left_out]) ** 2)))


def _seen(channel: str, model: Model, measures: Mapping[str, str]) -> bool:
    return channel in measures or channel in model.states or channel in model.outputs


def _head(record: Record, count: int) -> Record:
    return record if record.size <= count else record.samples(slice(0, count))


def in_pieces(record: Record, size: int) -> Record:
    """Return the record cut into short segments.

    Each has at most `size` samples.
    """
    label = np.empty(record.size, np.int32)
    next_label = 0
    for piece in record.segments():
        own = np.arange(piece.stop - piece.start) // size
        label[piece] = next_label + own
        next_label += int(own[-1]) + 1
    return record.from_content(record.content.with_coords({"segment": label}))
