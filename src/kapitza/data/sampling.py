"""Sampling of a record.

The module covers regularity of the times, gaps, and values between samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import DataError

REGULAR = 1e-3
"""Largest deviation of a step from the interval, relative, that rounded time stamps explain."""
GAP = 1.5
"""Intervals beyond which a step has lost at least one sample."""


@dataclass(frozen=True)
class Gap:
    """An interruption inside a segment.

    It has the sample before it, its time [s], and the number of missing samples.
    """

    after: int
    time: float
    missing: int


@dataclass(frozen=True)
class Sampling:
    """The sampling interval and its regularity.

    interval [s] is the mean step, the median one where steps vary; deviation the largest deviation from the median
    relative to it (without gaps).

    Steps between segments are not counted: a segment boundary is a known interruption.
    """

    interval: float
    deviation: float
    gaps: tuple[Gap, ...]
    samples: int
    tolerance: float = REGULAR

    @property
    def rate(self) -> float:
        """Samples per second."""
        return 1.0 / self.interval

    @property
    def regular(self) -> bool:
        """Return whether the sampling is regular.

        There are no gaps, and every step equals the interval within the tolerance.
        """
        return not self.gaps and self.deviation <= self.tolerance

    def __str__(self) -> str:
        if not np.isfinite(self.interval):
            return "too few samples to speak of a sampling interval"
        lines = [f"every {self.interval:.6g} s ({self.rate:.6g} Hz), steps within {100 * self.deviation:.2g} %"]
        if self.gaps:
            missing = sum(gap.missing for gap in self.gaps)
            lines[0] += f"; {len(self.gaps)} gaps, {missing} samples missing"
            lines += [f"  gap after sample {g.after}, t = {g.time:.6g} s: {g.missing} missing" for g in self.gaps[:5]]
            if len(self.gaps) > 5:
                lines.append(f"  and {len(self.gaps) - 5} more")
        return "\n".join(lines)


def inspect_sampling(
    time: Array, segment: NDArray[np.integer], tolerance: float = REGULAR, gap: float = GAP
) -> Sampling:
    """Return the sampling of times and segments.

    A step above `gap` intervals inside a segment is a gap.
    """
    if gap <= 1:
        raise DataError(f"A gap is a step longer than the sampling interval: {gap} intervals cannot be one; use 1.5.")
    inside = segment[1:] == segment[:-1]

    def steps_inside() -> Array:
        steps = np.diff(time)
        return steps if inside.all() else steps[inside]

    if not inside.any():
        return Sampling(float("nan"), float("nan"), (), time.size, tolerance)
    # The median sorts in place: another copy of 10^7 steps would take more memory than making them again takes time.
    interval = float(np.median(steps_inside(), overwrite_input=True))
    steps = steps_inside()
    is_gap = steps > gap * interval
    gapped = bool(is_gap.any())
    usual = steps[~is_gap] if gapped else steps
    # The largest |step / interval - 1| is that of the shortest or of the longest step.
    deviation = max(abs(float(usual.min()) / interval - 1), abs(float(usual.max()) / interval - 1))
    if deviation <= tolerance:
        # The median of rounded steps is itself rounded: 0.003333 s for a clock of 300 Hz.
        interval = float(usual.mean())
    if not gapped:
        return Sampling(interval, deviation, (), time.size, tolerance)
    del usual
    after = np.flatnonzero(is_gap) if inside.all() else np.flatnonzero(inside)[is_gap]
    missing = np.maximum(1, np.rint(steps[is_gap] / interval).astype(int) - 1)
    gaps = [Gap(int(i), float(time[i]), int(n)) for i, n in zip(after.tolist(), missing.tolist(), strict=True)]
    return Sampling(interval, deviation, tuple(gaps), time.size, tolerance)


@dataclass(frozen=True)
class EvenClock:
    """Times (N,) of an even clock.

    Its stamps were rounded (or cut) to multiples of `quantum` [s]; interval [s].
    """

    time: Array
    interval: float
    quantum: float


FEWEST = 10
"""Samples of the shortest segment in which rounding can be distinguished from jitter."""

FINEST = 9
"""Decimals of a time stamp that may have been rounded."""


def even_clock(time: Array, segment: NDArray[np.integer]) -> EvenClock | None:
    """Return the even clock behind rounded time stamps.

    It satisfies t_k = a + T k within half a quantum in every segment; None is returned otherwise.

    T is common to all segments, a differs between them. The quantum is the coarsest power of ten of which all stamps
    are multiples. Stamps that are even as they are give None.
    """
    edges = np.flatnonzero(np.diff(segment)) + 1
    pieces = np.split(np.arange(time.size), edges)
    if min(piece.size for piece in pieces) < FEWEST:
        return None
    quantum = next((10.0**-d for d in range(FINEST + 1) if _multiples(time, 10.0**d)), None)
    if quantum is None:
        return None
    counts = [np.arange(piece.size) - (piece.size - 1) / 2 for piece in pieces]
    pull = sum(float(k @ time[piece]) for k, piece in zip(counts, pieces, strict=True))
    interval = pull / sum(float(k @ k) for k in counts)
    if quantum > 0.5 * interval:
        return None  # a sample that is missing would look the same
    made = np.empty_like(time)
    for k, piece in zip(counts, pieces, strict=True):
        off = time[piece] - interval * k
        if np.ptp(off) > 1.1 * quantum:
            return None
        made[piece] = 0.5 * (off.max() + off.min()) + interval * k
    if np.abs(made - time).max() < REGULAR * interval:
        return None
    return EvenClock(made, float(interval), quantum)


def _multiples(time: Array, factor: float) -> bool:
    scaled = time * factor
    return bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6 + 1e-15 * np.abs(scaled).max())


def cut_segments(
    segment: NDArray[np.integer] | NDArray[np.floating], after: Sequence[int] | NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return segment labels with further cuts.

    Labels are 0, 1, 2, …; the cuts are after the samples given.
    """
    cut = np.zeros(segment.size, bool)
    cut[1:] = segment[1:] != segment[:-1]
    cut[np.asarray(after, int) + 1] = True
    return np.cumsum(cut, dtype=np.int32)


def between_samples(time: Array, values: Array, wanted: Array) -> Array:
    """Return values at other times by a spline.

    The spline through the samples is cubic (of lower degree in very short pieces).

    time: (N,), values: (N, channels), angles continuous; wanted: (M,) inside [time[0], time[-1]].
    """
    from scipy.interpolate import make_interp_spline

    if time.size == 1:
        return np.repeat(values, wanted.size, axis=0)
    return make_interp_spline(time, values, k=min(3, time.size - 1))(wanted)


def phase_times(start: float, stop: float, origin: float, period: float) -> Array:
    """Return all times origin + k·period in an interval.

    The interval is [start, stop], with a small tolerance at both ends.
    """
    hair = 1e-9 * period
    first = int(np.ceil((start - hair - origin) / period))
    last = int(np.floor((stop + hair - origin) / period))
    return np.clip(origin + period * np.arange(first, last + 1, dtype=np.float64), start, stop)
