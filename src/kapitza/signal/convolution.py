"""Convolution and Welch's spectrum by FFT.

`scipy.signal` has both, but loads `scipy.stats` and takes 0.7 s of processor to import; every fit needs these two.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kapitza.base.arrays import Array

HANN = (0.5, -0.5)
BLACKMAN_HARRIS = (0.35875, -0.48829, 0.14128, -0.01168)
"""Cosine coefficients of windows (Harris 1978)."""

BLOCK = 4096
"""Shortest block of the overlap-save method; blocks of 8 kernel lengths or more cost nearly the same per sample."""


def convolved(values: Array, weights: Array, axis: int = 0) -> Array:
    """Return the convolution where all terms exist.

    It is Σ_j weights[j] values[n + k - 1 - j], N - k + 1 points along the axis.

    Overlap-save: blocks that overlap by k - 1 samples are multiplied in the frequency domain, and the first k - 1
    points of each, which wrap around, are dropped.
    """
    moved = np.moveaxis(values, axis, -1)
    count, width = moved.shape[-1] - len(weights) + 1, len(weights)
    size = 1 << (min(max(BLOCK, 8 * width), moved.shape[-1]) - 1).bit_length()
    step = size - width + 1
    blocks = -(-count // step)
    padded = np.zeros((*moved.shape[:-1], (blocks - 1) * step + size))
    padded[..., : moved.shape[-1]] = moved
    pieces = sliding_window_view(padded, size, axis=-1)[..., ::step, :]
    product = np.fft.irfft(np.fft.rfft(pieces) * np.fft.rfft(weights, size), size)[..., width - 1 :]
    result = np.asarray(product, np.float64).reshape(*moved.shape[:-1], -1)[..., :count]
    return np.moveaxis(result, -1, axis)


def welch_density(values: Array, size: int, window: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the one-sided power density by Welch's method.

    The columns are (N, c). Frequencies [cycles per sample] are returned first.

    Mean over segments of `size` samples, each half over the one before, without its mean, under a window w given by
    its cosine coefficients: 2 |Σ w x exp(-2πift)|² / Σ w², at the ends of the band half of it.
    """
    angle = 2.0 * np.pi * np.arange(size) / size
    taper = sum(a * np.cos(k * angle) for k, a in enumerate(window))
    pieces = sliding_window_view(values, size, axis=0)[:: size - size // 2]
    power = np.abs(np.fft.rfft((pieces - pieces.mean(axis=-1, keepdims=True)) * taper)) ** 2
    density = 2.0 * power.mean(axis=0).T / np.sum(np.square(taper))
    density[0] /= 2.0
    if size % 2 == 0:
        density[-1] /= 2.0
    return np.fft.rfftfreq(size).astype(np.float64), density
