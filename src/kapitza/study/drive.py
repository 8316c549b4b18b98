"""The drive of a forced model against the recording, before any fit: a frequency that is off spoils everything else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.model import Model

Array = NDArray[np.float64]

REACH = 0.05
"""How far from the stated frequency a line is looked for."""

FEWEST_PERIODS = 8.0

LINE = 5.0
"""Height over the median from which a peak is a line: noise without one reaches it with a chance of 3e-8 per bin."""


def drive_warning(model: Model, record: Record, free: tuple[str, ...]) -> str:
    """A sentence where the recording's line near the drive lies at another frequency than the model's, else nothing.

    Of the first channel, the longest segment: the largest peak of its Hann-windowed spectrum within 5 % of the stated
    frequency f. It is told when it stands above its surroundings and is off by more than the peak can be located, a
    quarter of 1/duration, and by 2e-4 f.
    """
    if model.is_map or model.excitation is None or model.excitation.signals or model.period is None:
        return ""
    if {s.name for s in model.excitation.period.free_symbols} & set(free):
        return ""
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    time = record.time[piece] - record.time[piece][0]
    channel = record.channels[0]
    values = record.unwrapped()[channel][piece]
    period, duration = float(model.period), float(time[-1])
    if duration < FEWEST_PERIODS * period or len(time) < 4 * duration / period:
        return ""
    stated = 1 / period
    found, height = _peak(time, values - values.mean(), stated, duration)
    off = found / stated - 1
    if height < LINE or abs(off) < max(0.25 / (duration * stated), 2e-4) or abs(off) > 0.95 * REACH:
        return ""
    return (
        f"The model is driven at {stated:.6g} Hz, but {channel} has its line at {found:.6g} Hz, {100 * off:+.2g} %: "
        f"damping and stiffness come out wrong with such a drive. A period of {1 / found:.8g} s fits the recording: "
        "set it, or free the frequency."
    )


def _peak(time: Array, values: Array, stated: float, duration: float) -> tuple[float, float]:
    """Frequency of the largest line near the stated one, and its height over the median of its surroundings."""
    window = np.hanning(len(time)) * values
    step = 0.1 / duration
    count = min(int(2 * REACH * stated / step) + 1, 4001)
    grid = stated * (1 + np.linspace(-REACH, REACH, count))
    power = np.abs(np.exp(-2j * np.pi * np.outer(grid, time)) @ window)
    best = int(np.argmax(power))
    if 0 < best < count - 1:
        left, middle, right = power[best - 1 : best + 2]
        curvature = left - 2 * middle + right
        shift = 0.5 * (left - right) / curvature if curvature else 0.0
        return float(grid[best] + shift * (grid[1] - grid[0])), float(power[best] / np.median(power))
    return float(grid[best]), float(power[best] / np.median(power))
