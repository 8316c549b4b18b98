"""Free decays: amplitude, frequency and damping of a vibration that dies out, half cycle by half cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

FEWEST = 8
"""Half cycles below which nothing is said."""


@dataclass(frozen=True)
class Decay:
    """Half cycles of a vibration about its rest position.

    time (H,): middle of each [s]; amplitude (H,): largest deviation; frequency (H,) [Hz] of the cycle around it;
    damping (H,): ratio to critical, from the slope of log amplitude over five half cycles.
    """

    time: Array
    amplitude: Array
    frequency: Array
    damping: Array

    @property
    def dies_out(self) -> bool:
        """Whether the amplitude falls steadily, to less than 80 %."""
        order, _ = np.asarray(stats.spearmanr(self.time, self.amplitude))
        return bool(order < -0.9 and self.amplitude[-3:].mean() < 0.8 * self.amplitude[:3].mean())

    def sentence(self, unit: str = "") -> str:
        """Frequency and damping at the largest and at the smallest amplitude."""
        parts = []
        for name, part in (("large", slice(0, 3)), ("small", slice(-3, None))):
            size, rate, ratio = (float(np.median(v[part])) for v in (self.amplitude, self.frequency, self.damping))
            parts.append(
                f"{rate:.4g} Hz and {100 * ratio:.2g} % of critical damping at {name} amplitude ({size:.3g} {unit})"
            )
        return "; ".join(parts).replace(" )", ")")


def half_cycles(time: Array, values: Array, rest: float | None = None) -> Decay | None:
    """The half cycles of `values` (N,) between crossings of the rest position.

    rest: by default the mean under a Hann window, in which whole oscillations cancel.

    Crossings count only after an excursion beyond a twentieth of the largest one that is left: noise at the crossing
    makes none of its own. None where there are fewer than eight half cycles.
    """
    if rest is None:
        weight = np.hanning(values.size + 2)[1:-1]
        rest = float(weight @ values / weight.sum())
    x = values - rest
    crossing = np.flatnonzero(np.signbit(x[1:]) != np.signbit(x[:-1])) + 1
    edges = np.concatenate([[0], crossing, [x.size]])
    if edges.size < FEWEST:
        return None
    peak = np.maximum.reduceat(np.abs(x), edges[:-1])
    ahead = np.maximum.accumulate(peak[::-1])[::-1]
    real = peak > 0.05 * ahead
    # noise crossings are joined to the half cycle before them: a half cycle begins where a real one of other sign does
    sign = np.sign(np.add.reduceat(x, edges[:-1]))
    starts = np.flatnonzero(real)
    starts = starts[np.concatenate([[True], np.diff(sign[starts]) != 0])]
    bounds = np.append(edges[starts], x.size)
    if bounds.size < FEWEST + 2:
        return None
    # the first and the last half cycle are cut by the ends of the recording
    begin, end = bounds[1:-2], bounds[2:-1]
    at = np.array([b + int(np.argmax(np.abs(x[b:e]))) for b, e in zip(begin, end, strict=True)])
    amplitude = np.abs(x[at])
    middle = time[at]
    edge = _crossing_times(time, x, bounds[1:-1])
    frequency = 1.0 / (2.0 * np.diff(edge))
    return Decay(middle, amplitude, frequency, _damping(middle, amplitude, frequency))


def _crossing_times(time: Array, x: Array, index: NDArray[np.intp]) -> Array:
    """Times of the crossings before these samples, interpolated."""
    before, after = x[index - 1], x[index]
    share = np.where(after != before, before / np.where(after != before, before - after, 1.0), 0.0)
    return time[index - 1] + np.clip(share, 0.0, 1.0) * (time[index] - time[index - 1])


def _damping(time: Array, amplitude: Array, frequency: Array, width: int = 5) -> Array:
    """-d log A/dt over 2π f, the slope by least squares over `width` neighbouring half cycles."""
    width = min(width, time.size)
    first = np.clip(np.arange(time.size) - width // 2, 0, time.size - width)
    rows = first[:, None] + np.arange(width)
    t = time[rows] - time[rows].mean(axis=1, keepdims=True)
    slope = (t * np.log(np.maximum(amplitude[rows], 1e-300))).sum(axis=1) / (t**2).sum(axis=1)
    return -slope / (2 * np.pi * frequency)
