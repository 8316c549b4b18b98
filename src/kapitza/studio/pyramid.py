"""Reduce long recordings to extremes by blocks.

The time to draw them depends on the width of the picture alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Indices

BLOCK = 64
"""Samples of a block: 10^7 samples give 160 000 blocks, which a view reduces in about a millisecond."""

RAW = 4
"""Samples per pixel up to which they are drawn themselves."""


@dataclass(frozen=True)
class View:
    """Hold what a picture draws.

    times (N,), values (channels, N), NaN at gaps; reduced: pairs of extremes, not samples.
    """

    time: Array
    values: Array
    reduced: bool

    def packed(self, overlay: Array | None = None) -> bytes:
        """Return the view as little-endian doubles.

        They are N, channels, reduced and overlay (0 or 1), times, and values by channel.
        overlay: (channels, N) a second line in each chart, NaN where there is none.
        """
        more = np.empty(0) if overlay is None else overlay.ravel()
        head = np.array([self.time.size, len(self.values), float(self.reduced), float(overlay is not None)])
        return np.concatenate([head, self.time, self.values.ravel(), more]).astype("<f8").tobytes()


class Pyramid:
    """Hold extremes of channels by blocks.

    Blocks end at the gaps of the recording.
    time (N,) increasing within each piece; values: (N,) of each channel, NaN where it has none, not copied; cuts:
    positions of the first sample behind each gap. Blocks begin anew at each cut, so no block holds samples of both
    sides.
    """

    def __init__(self, time: Array, values: Sequence[Array], cuts: Indices):
        self.time, self.values = time, tuple(values)
        self.cuts = np.unique(cuts[(cuts > 0) & (cuts < time.size)]).astype(np.intp)
        edges = np.concatenate([[0], self.cuts, [time.size]])
        counts = -(-np.diff(edges) // BLOCK)
        first = np.repeat(edges[:-1] - BLOCK * (np.cumsum(counts) - counts), counts)
        self.starts = first + BLOCK * np.arange(counts.sum())
        self.low, self.high = self._extremes(0, time.size, self.starts)

    def view(self, begin: float, end: float, width: int) -> View:
        """Return what a picture shows between two times.

        The picture has `width` pixels; one sample more is returned on each side.
        """
        size = self.time.size
        if not size:
            return View(self.time, self._samples(0, 0), False)
        first = max(int(np.searchsorted(self.time, begin)) - 1, 0)
        last = min(int(np.searchsorted(self.time, end, "right")) + 1, size)
        last = max(last, min(first + 2, size))
        inside = self.cuts[(self.cuts > first) & (self.cuts < last)]
        if last - first <= RAW * width:
            return _with_gaps(self.time[first:last], self._samples(first, last), inside - first, False)
        # Pixels are spans of time, cut once more at gaps.
        edges = np.searchsorted(self.time[first:last], np.linspace(begin, end, width + 1)) + first
        bounds = np.unique(np.concatenate([[first], edges[(edges > first) & (edges < last)], inside]))
        low, high = self._reduced(first, last, bounds)
        ends = np.concatenate([bounds[1:], [last]]) - 1
        time = np.column_stack([self.time[bounds], self.time[ends]]).ravel()
        pairs = np.stack([low, high], axis=2).reshape(len(self.values), -1)
        return _with_gaps(time, pairs, 2 * np.searchsorted(bounds, inside), True)

    def only(self, rows: Sequence[int]) -> Pyramid:
        """Return some of the channels; their blocks are not made again."""
        if list(rows) == list(range(len(self.values))):
            return self
        part = copy(self)
        part.values = tuple(self.values[row] for row in rows)
        part.low, part.high = self.low[list(rows)], self.high[list(rows)]
        return part

    def longest_piece(self, begin: float, end: float) -> slice:
        """Return the longest run of samples without a gap.

        It is inside a span of time; nothing is copied.
        """
        first, last = (int(at) for at in np.searchsorted(self.time, (begin, end)))
        edges = np.concatenate([[first], self.cuts[(self.cuts > first) & (self.cuts < last)], [last]])
        at = int(np.argmax(np.diff(edges)))
        return slice(int(edges[at]), int(edges[at + 1]))

    def _reduced(self, first: int, last: int, bounds: Indices) -> tuple[Array, Array]:
        """Return the extremes between bounds.

        They come from blocks where these are finer than the bounds, from samples elsewhere.
        """
        if last - first < 2 * BLOCK * bounds.size:
            return self._extremes(first, last, bounds - first)
        # Head and tail are parts of blocks and taken from the samples, everything between from the blocks.
        inner = np.searchsorted(self.starts, first)
        outer = max(int(np.searchsorted(self.starts, last, "right")) - 1, int(inner))
        begins = self.starts[inner:outer]
        stop = int(self.starts[outer]) if outer < self.starts.size else self.time.size
        pieces = [(np.array([first]), *_ends(self._samples(first, int(begins[0])))) if begins[0] > first else None,
                  (begins, self.low[:, inner:outer], self.high[:, inner:outer]),
                  (np.array([stop]), *_ends(self._samples(stop, last))) if stop < last else None]  # fmt: skip
        kept = [piece for piece in pieces if piece is not None]
        places = np.concatenate([piece[0] for piece in kept])
        low = np.concatenate([piece[1] for piece in kept], axis=1)
        high = np.concatenate([piece[2] for piece in kept], axis=1)
        at = np.minimum(np.searchsorted(places, bounds, "left"), places.size - 1)
        at[0] = 0
        return _reduce(low, high, at)

    def _samples(self, first: int, last: int) -> Array:
        """Return samples (channels, N) between two positions."""
        return np.array([one[first:last] for one in self.values]).reshape(len(self.values), -1)

    def _extremes(self, first: int, last: int, starts: Indices) -> tuple[Array, Array]:
        """Return smallest and largest values by block.

        (channels, blocks), from each start to the next; NaN where all are. Channels one by one: no copy is made.
        """
        if not starts.size:
            none = np.empty((len(self.values), 0))
            return none, none
        pairs = [_reduce(one[None, first:last], one[None, first:last], starts) for one in self.values]
        return np.concatenate([low for low, _ in pairs]), np.concatenate([high for _, high in pairs])


def _reduce(low: Array, high: Array, at: Indices) -> tuple[Array, Array]:
    """Reduce extremes between positions.

    Where two positions coincide the first shows the block that both share.
    """
    return np.fmin.reduceat(low, at, axis=1), np.fmax.reduceat(high, at, axis=1)


def _ends(values: Array) -> tuple[Array, Array]:
    return np.fmin.reduce(values, axis=1, keepdims=True), np.fmax.reduce(values, axis=1, keepdims=True)


def _with_gaps(time: Array, values: Array, cuts: NDArray[np.intp], reduced: bool) -> View:
    """Insert an empty point before each cut.

    Lines are interrupted there.
    """
    if not cuts.size:
        return View(time, values, reduced)
    middle = 0.5 * (time[cuts - 1] + time[cuts])
    return View(np.insert(time, cuts, middle), np.insert(values, cuts, np.nan, axis=1), reduced)
