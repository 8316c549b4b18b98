"""Low-pass filters and the level of white noise."""

from __future__ import annotations

from math import comb

import numpy as np
from scipy.special import chdtri

from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.signal.convolution import BLACKMAN_HARRIS, HANN, welch_density


def low_pass_periodic(values: Array, harmonics: int) -> Array:
    """Keep the first `harmonics` harmonics of periodic samples.

    The mean is kept too. The samples are (N, ...); there is no phase shift.
    """
    spectrum = np.fft.rfft(values, axis=0)
    spectrum[harmonics + 1 :] = 0.0
    return np.fft.irfft(spectrum, n=len(values), axis=0)


MEDIAN_TO_DEVIATION = 1.4826
"""Standard deviation of a Gaussian over its median absolute deviation."""


def difference_noise(differences: Array, order: int, robust: bool = False) -> float:
    """Estimate white noise from its differences (N,).

    The result is a standard deviation. Smooth motion vanishes in differences of this order.

    They have binom(2 order, order) times its variance. robust: by their median modulus; 0 where there are none.
    """
    if not differences.size:
        return 0.0
    size = MEDIAN_TO_DEVIATION * np.median(np.abs(differences)) if robust else np.sqrt(np.mean(differences**2))
    return float(size / np.sqrt(comb(2 * order, order)))


def noise_level(values: Array, order: int = 6) -> Array:
    """Estimate the white noise of each column.

    The result is the standard deviation on smooth samples (N, c).

    From the spectrum of the differences of order `order` near the Nyquist frequency, the part of the band in which
    smooth motion has died out: the median of the upper fifth of the periodogram, corrected for the difference operator.
    """
    values = np.asarray(values, float)
    if len(values) < 16 + order:
        raise DataError(f"{len(values)} samples are too few to see their noise: give at least {16 + order}.")
    differences = np.diff(values, n=order, axis=0)
    segment = min(1024, len(differences))
    frequency, power = welch_density(differences, segment, HANN)
    upper = (frequency > 0.4) & (frequency < 0.5)
    gain = (2.0 * np.sin(np.pi * frequency[upper])) ** (2 * order)
    # The median of χ² is below its mean, by a third where there is one segment only.
    freedom = 2.0 * _segments(len(differences), segment) / (1.0 + 2.0 * HANN_OVERLAP)
    middle = float(chdtri(max(freedom, 2.0), 0.5)) / max(freedom, 2.0)
    # Two-sided white density of unit variance is 1 per cycle/sample; Welch's one-sided estimate doubles it.
    return np.sqrt(np.median(power[upper] / gain[:, None], axis=0) / (2.0 * middle))


HANN_OVERLAP = 1.0 / 36.0
"""Squared correlation of the spectra of two Hann windows that overlap by half."""


def _segments(samples: int, segment: int) -> int:
    """Return the number of segments of Welch's estimate.

    Each segment is half over the one before.
    """
    return max(1, (samples - segment // 2) // (segment - segment // 2))


FALSE_BAND = 0.01
"""Probability that white noise alone is taken for signal at some frequency."""


def signal_band(values: Array, noise: Array, contrast: float = 4.0) -> Array:
    """Return the highest frequency above the noise.

    It is in cycles per sample, for each column.

    values: (N, c); noise: (c,) standard deviations. The spectrum is that of second differences, so that drifting and
    rotating signals do not leak into it; it is compared with the noise raised by the same differences. Few segments
    scatter widely: the contrast is at least the level that the highest bin reaches once in a hundred records of noise.
    """
    values = np.asarray(values, float)
    differences = np.diff(values, n=2, axis=0)
    segment = int(min(np.clip(len(values) // 4, 128, 1024), len(differences)))
    count = _segments(len(differences), segment)
    contrast = max(contrast, float(chdtri(2.0 * count, FALSE_BAND / (segment // 2 + 1))) / (2.0 * count))
    frequency, power = welch_density(differences, segment, BLACKMAN_HARRIS)
    floor = 2.0 * np.asarray(noise) ** 2 * ((2.0 * np.sin(np.pi * frequency)) ** 4)[:, None]
    rounding = (64.0 * np.finfo(float).eps * np.abs(values).max(axis=0)) ** 2
    above = power > contrast * (floor + rounding)
    return np.array([frequency[np.flatnonzero(column)[-1]] if column.any() else frequency[1] for column in above.T])
