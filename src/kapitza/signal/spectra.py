"""Power spectra of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array


@dataclass(frozen=True)
class Spectrum:
    """Power density [unit²/Hz] against frequency [Hz].

    peaks: frequencies that stand out, strongest first.
    """

    frequency: Array
    density: Array
    peaks: Array


def power_spectrum(values: Array, interval: float, segments: Sequence[slice] | None = None, peaks: int = 5) -> Spectrum:
    """Estimate the power spectrum by Welch's method.

    The segments count in proportion to their length.

    A peak stands ten times above the median of its surroundings (a sixteenth of the band).
    """
    from scipy.signal import find_peaks, welch

    values = np.asarray(values, float)
    pieces = list(segments or [slice(0, len(values))])
    longest = max(piece.stop - piece.start for piece in pieces)
    window = int(min(4096, max(16, longest // 4), longest))
    total, weight = np.zeros(window // 2 + 1), 0
    frequency: Array = np.asarray(np.fft.rfftfreq(window, interval), float)
    for piece in pieces:
        length = piece.stop - piece.start
        if length >= window:
            total += length * welch(values[piece], fs=1 / interval, nperseg=window, detrend="linear")[1]
            weight += length
    density = total / max(weight, 1)
    reach = max(3, len(density) // 16)
    floor = np.array([np.median(density[max(0, i - reach) : i + reach + 1]) for i in range(len(density))])
    rows, _ = find_peaks(density, height=10 * np.maximum(floor, 1e-300))
    strongest = rows[np.argsort(-density[rows], kind="stable")][:peaks]
    return Spectrum(frequency, density, _between_bins(frequency, density, strongest))


def _between_bins(frequency: Array, density: Array, rows: NDArray[np.intp]) -> Array:
    """Return the frequencies of the peaks between bins.

    The parabola through the logarithms of three neighbours locates the peak of each of these rows.

    A short record has few bins: the nearest one alone may be half a bin, here tens of per cent, off.
    """
    left, middle, right = (np.log(np.maximum(density[rows + step], 1e-300)) for step in (-1, 0, 1))
    curvature = left - 2 * middle + right
    shift = np.where(curvature < 0, 0.5 * (left - right) / np.where(curvature < 0, curvature, -1.0), 0.0)
    return frequency[rows] + shift * (frequency[1] - frequency[0])
