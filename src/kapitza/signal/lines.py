"""Line spectra: sums of sinusoids that predict a signal.

They are fitted to the first half of a signal and tested on the second.

Periodic and quasi-periodic motion is a sum of sinusoids that never lose their phase. Chaos and noise through a
resonance have peaks too, but the phases drift: a fit to the first half does not predict the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array

LONGEST = 8000  # samples that are used
MOST = 16  # sinusoids
PREDICTED = 0.05  # rms error of the second half, relative to its spread, that counts as predicted without noise
LARGEST = 0.3  # the same with noise, at most: a signal that is mostly noise shows no lines
HOPELESS = 0.7  # share that four sinusoids leave of a signal that is not a sum of few


@dataclass(frozen=True)
class Lines:
    """Sinusoids of a signal.

    turns: (K,) frequencies in turns per sample, strongest first; size: (K,) amplitudes.

    error: root mean square difference between the second half and its prediction, relative to its spread.
    """

    turns: Array
    size: Array
    error: float
    limit: float = PREDICTED

    @property
    def hold(self) -> bool:
        """Whether the signal is a sum of these sinusoids."""
        return self.error <= self.limit


def line_spectrum(values: Array, noise: float = 0.0) -> Lines:
    """Fit sinusoids to the first half of a signal.

    The signal `values` (N,) is evenly sampled. Sinusoids are added one after the other until they predict the second
    half.

    All frequencies and amplitudes are refined together by Gauss-Newton steps after each new one. They hold when the
    error is below a twentieth of the spread, or below twice the `noise` of a sample
    (but never above 0.3).

    Examples
    --------
    >>> import numpy as np
    >>> n = np.arange(4000)
    >>> found = line_spectrum(np.sin(0.3 * n) + 0.5 * np.sin(0.3 * 2**0.5 * n))
    >>> found.hold, len(found.turns)
    (True, 2)
    """
    x = np.asarray(values, float)[:LONGEST]
    half = len(x) // 2
    spread = float(np.std(x)) or 1.0
    x = (x - x[:half].mean()) / spread
    row = np.asarray(np.arange(len(x)) - 0.5 * half, np.float64)
    turns = np.empty(0)
    limit = float(np.clip(2.0 * noise / spread, PREDICTED, LARGEST))
    best = Lines(turns, turns, float("inf"), limit)
    rest = x[:half]
    for count in range(1, MOST + 1):
        turns = np.append(turns, _strongest(rest))
        for _ in range(3):
            turns, coefficient = _refined(x[:half], row[:half], turns)
        model = _basis(row, turns) @ coefficient
        rest = x[:half] - model[:half]
        error = float(np.sqrt(np.mean((x[half:] - model[half:]) ** 2)) / max(float(np.std(x[half:])), 1e-300))
        if error < best.error:
            size = spread * np.hypot(coefficient[1 : count + 1], coefficient[count + 1 :])
            order = np.argsort(-size, kind="stable")
            best = Lines(turns[order], size[order], error, limit)
        if best.hold or (count >= 4 and float(np.std(rest)) > HOPELESS):
            break
    return best


def _strongest(rest: Array) -> float:
    """Return the frequency of the highest peak.

    The frequency is in turns per sample, under a Hann window, interpolated between its bins.
    """
    count = len(rest)
    power = np.abs(np.fft.rfft((rest - rest.mean()) * np.hanning(count), 2 * count))
    k = int(np.argmax(power[2:-1])) + 2
    low, middle, high = np.log(np.maximum(power[k - 1 : k + 2], 1e-300))
    bend = low - 2 * middle + high
    shift = 0.5 * (low - high) / bend if bend < 0 else 0.0
    return (k + float(np.clip(shift, -1, 1))) / (2 * count)


def _basis(row: Array, turns: Array) -> Array:
    angle = 2 * np.pi * np.outer(row, turns)
    return np.column_stack([np.ones(len(row)), np.cos(angle), np.sin(angle)])


def _refined(x: Array, row: Array, turns: Array) -> tuple[Array, Array]:
    """Make one Gauss-Newton step of the frequencies.

    Each moves by at most half a bin. Also returned are the amplitudes there.
    """
    count = len(turns)
    basis = _basis(row, turns)
    coefficient = np.linalg.lstsq(basis, x, rcond=1e-12)[0]
    a, b = coefficient[1 : count + 1], coefficient[count + 1 :]
    slope = 2 * np.pi * row[:, None] * (b * basis[:, 1 : count + 1] - a * basis[:, count + 1 :])
    step = np.linalg.lstsq(np.column_stack([basis, slope]), x - basis @ coefficient, rcond=1e-12)[0][-count:]
    limit = 0.5 / len(x)
    moved = np.clip(turns + np.clip(step, -limit, limit), 1e-9, 0.5)
    return moved, np.asarray(np.linalg.lstsq(_basis(row, moved), x, rcond=1e-12)[0], np.float64)
