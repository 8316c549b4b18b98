"""Compare a model's drive with the recording.

This is done before any fit: a wrong drive frequency makes all other parameters wrong.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.angles import TURN
from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.model import Model

REACH = 0.05
"""How far from the stated frequency a line is looked for."""

FEWEST_PERIODS = 8.0
"""Below, a spectrum does not resolve the line of the drive."""

CARRIES = 0.6
"""Share of the motion from which on one line is what it does."""

FEWEST_CYCLES = 5
"""Cycles over a recording below which a peak is a drift and no line."""


LINE = 5.0
"""Height over the median from which a peak is a line: noise without one reaches it with a chance of 3e-8 per bin."""


def drive_warning(model: Model, record: Record, free: tuple[str, ...]) -> str:
    """Warn when the recording contradicts the drive frequency.

    In the longest segment of the first channel it finds the largest peak of the Hann-windowed spectrum within 5 % of
    the stated frequency f. The warning is given when the peak exceeds its surroundings and is off by more than the peak
    can be located, a quarter of 1/duration, and by 2e-4 f. The text is empty otherwise.
    """
    if model.is_map or model.excitation is None or model.excitation.signals or model.period is None:
        return ""
    if model.excitation.timing & set(free):
        return ""
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    time = record.time[piece] - record.time[piece][0]
    channel = record.channels[0]
    values = record.unwrapped()[channel][piece]
    period, duration = float(model.period), float(time[-1])
    if duration < FEWEST_PERIODS * period or len(time) < 4 * duration / period:
        return ""
    stated = 1 / period
    if record.angles[0] and np.ptp(values) > TURN:
        # An angle that turns over and over drifts: its line stands in the rate.
        time, values = 0.5 * (time[1:] + time[:-1]), np.diff(values) / np.diff(time)
        time -= time[0]
    centred = values - values.mean()
    found = line_near(time, centred, stated)
    if found is None:
        return _elsewhere(channel, time, centred, stated)
    off = found / stated - 1
    # At the edge of the search the largest value belongs to a line outside it.
    if abs(off) < max(0.25 / (duration * stated), 2e-4) or abs(off) > 0.95 * REACH:
        return ""
    return (
        f"The model is driven at {stated:.6g} Hz, but {channel} has its line at {found:.6g} Hz, {100 * off:+.2g} %: "
        f"damping and stiffness come out wrong with such a drive. A period of {1 / found:.8g} s fits the recording: "
        "set it, or free the frequency."
    )


def _elsewhere(channel: str, time: Array, values: Array, stated: float) -> str:
    """Warn of a dominant line far from the drive.

    It carries most of the motion, and no line is near the drive, its multiples or parts.
    """
    power = np.abs(np.fft.rfft(values * np.hanning(len(values)))) ** 2
    bins = np.arange(len(power)) / (float(time[-1]) * len(time) / (len(time) - 1))
    best = 1 + int(np.argmax(power[1:]))
    if best < FEWEST_CYCLES:
        return ""
    # A line under a Hann window covers its bin and two on each side.
    share = power[max(best - 2, 1) : best + 3].sum() / max(power[1:].sum(), 1e-300)
    # Nonlinear motion also responds at multiples and parts of the drive frequency.
    ratios = [m / n for m in (1, 2, 3) for n in (1, 2, 3)]
    near = any(abs(bins[best] / (r * stated) - 1) < max(REACH, 2 / (float(time[-1]) * r * stated)) for r in ratios)
    if share < CARRIES or near or any(line_near(time, values, r * stated) is not None for r in (0.5, 2.0)):
        return ""
    return (
        f"The model is driven at {stated:.5g} Hz, but {channel} shows nothing there: it moves at {bins[best]:.5g} Hz. "
        "Its times look like another unit than s, or it belongs to another drive."
    )


def line_near(time: Array, values: Array, stated: float) -> float | None:
    """Return the frequency of the line near `stated`.

    It is the largest line within 5 %, or None where no peak exceeds its surroundings.
    time (N,) from 0, values (N,) about 0; Hann window, the peak located by a parabola.
    """
    duration = float(time[-1])
    window = np.hanning(len(time)) * values
    # A line is four bins of 1/duration wide: its surroundings must be wider.
    reach = min(max(REACH, 8 / (duration * stated)), 0.9)
    # Ten points per bin of 1/duration locate the peak; the limit bounds the time of long records.
    count = min(int(20 * reach * stated * duration) + 1, 4001)
    grid = stated * (1 + np.linspace(-reach, reach, max(count, 3)))
    power = np.array([np.abs(np.exp(-2j * np.pi * f * time) @ window) for f in grid])
    best = int(np.argmax(np.where(np.abs(grid / stated - 1) <= REACH + 1e-12, power, 0.0)))
    if power[best] < LINE * np.median(power):
        return None
    if 0 < best < len(grid) - 1:
        left, middle, right = power[best - 1 : best + 2]
        curvature = left - 2 * middle + right
        shift = 0.5 * (left - right) / curvature if curvature else 0.0
        return float(grid[best] + shift * (grid[1] - grid[0]))
    return float(grid[best])
