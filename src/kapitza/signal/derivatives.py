"""Derivatives of sampled data.

The rules are five-point differences, local polynomials and smoothing splines.

Every linear rule is a set of kernels h_0, h_1, h_2 with y^(k)(t_i) = Σ_j h_k[j] y(t_{i+j}), j = -m … m, so that its
effect on white noise is known: Cov(y^(k), y^(l)) = σ² Σ_j h_k[j] h_l[j].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.signal.convolution import convolved

DIRECT = 200_000
"""Products of samples and weights up to which a matrix product is faster than transforms: 3 to 10 times at 1500
samples."""


@dataclass(frozen=True)
class Kernels:
    """Weights of a linear rule for value and derivatives.

    The derivatives are the first and the second.

    weights: (3, 2 m + 1) for the samples -m … m around the point, for unit spacing of the samples.
    """

    weights: Array
    name: str = ""

    @property
    def half_width(self) -> int:
        return (self.weights.shape[1] - 1) // 2

    def apply(self, values: Array, step: float) -> Array:
        """Return value and derivatives at the interior samples.

        The first and second derivative follow the value: (N, c) -> (3, N - 2 m, c).
        """
        values = np.asarray(values, float)
        if len(values) <= 2 * self.half_width:
            raise DataError(
                f"A stretch of {len(values)} samples is too short for derivatives over {self.weights.shape[1]} points: "
                "use a longer record or a smaller half_width."
            )
        scaled = self.weights / step ** np.arange(3.0)[:, None]
        if values.size * scaled.shape[1] <= DIRECT:
            around = np.lib.stride_tricks.sliding_window_view(values, scaled.shape[1], axis=0)
            return np.ascontiguousarray(np.moveaxis(np.ascontiguousarray(around) @ scaled.T, 2, 0))
        middle = slice(self.half_width, len(values) - self.half_width)
        # A rule that leaves the values as they are needs no transform.
        return np.stack([
            values[middle] if np.array_equal(weights, np.eye(1, len(weights), self.half_width)[0])
            else convolved(values, weights[::-1])
            for weights in scaled
        ])  # fmt: skip

    def noise_gain(self, step: float) -> Array:
        """Return the covariance (3, 3) for unit white noise.

        It is that of value, first and second derivative.
        """
        scaled = self.weights / step ** np.arange(3.0)[:, None]
        return scaled @ scaled.T


def five_point() -> Kernels:
    """Return fourth-order central differences (HARMONIC 28, 29).

    The value itself is not smoothed.
    """
    value = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    first = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12.0
    second = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12.0
    return Kernels(np.stack([value, first, second]), "five-point")


def local_polynomial(half_width: int, degree: int = 9, offsets: NDArray[np.integer] | None = None) -> Kernels:
    """Return the rule of a least-squares polynomial.

    The polynomial goes through 2 m + 1 samples (Savitzky and Golay), in an orthogonal basis.

    offsets: use these samples only (weights elsewhere are zero), for two estimates with independent noise.
    """
    used = np.arange(-half_width, half_width + 1) if offsets is None else np.asarray(offsets)
    if used.size <= degree:
        raise DataError(
            f"A polynomial of degree {degree} needs more than {degree} points, not {used.size}: raise half_width."
        )
    basis = np.polynomial.legendre.legvander(used / half_width, degree)
    orthogonal, triangular = np.linalg.qr(basis)  # any sign: Q R⁻ᵀ
    weights = np.zeros((3, 2 * half_width + 1))
    found = orthogonal @ np.linalg.solve(triangular.T, _legendre_at_centre(degree).T)
    weights[:, used + half_width] = found.T / float(half_width) ** np.arange(3.0)[:, None]
    return Kernels(weights, f"local polynomial of degree {degree} over {used.size} points")


@lru_cache(maxsize=32)
def _legendre_at_centre(degree: int) -> Array:
    """Return Legendre polynomials and derivatives at 0.

    The values and first two derivatives are (3, degree + 1).
    """
    unit = np.eye(degree + 1)
    values = [[np.polynomial.Legendre(row).deriv(order)(0.0) for row in unit] for order in range(3)]
    found = np.array(values, np.float64)
    found.setflags(write=False)
    return found


def cutoff_half_width(cutoff: float, degree: int = 9) -> int:
    """Return the half width of a local polynomial.

    It passes frequencies up to `cutoff` [cycles per sample].

    The -3 dB point lies near (n + 1) / (3.2 m - 4.6) of the Nyquist frequency (Schafer 2011); half of it is kept
    free of damping worth mentioning.
    """
    wide = ((degree + 1) / (4.0 * min(cutoff, 0.5)) + 4.6) / 3.2
    return int(np.clip(np.floor(wide), degree // 2 + 2, 200))


def smoothing_spline(cutoff: float) -> Kernels:
    """Return the rule of a cubic smoothing spline.

    The samples are evenly spaced; the kernels are its response far from the ends.

    It minimises Σ (y_i - s(t_i))² + λ ∫ s''² dt and damps a frequency f by 1 / (1 + λ (2π f)⁴); λ is set so that
    `cutoff` [cycles per sample] passes with 99 %.
    """
    from scipy.interpolate import make_smoothing_spline

    penalty = 0.01 / (2.0 * np.pi * min(cutoff, 0.5)) ** 4
    half_width = int(np.clip(np.ceil(12.0 * penalty**0.25), 5, 400))
    grid = np.arange(-2 * half_width, 2 * half_width + 1, dtype=float)
    impulse = (grid == 0).astype(float)
    spline = make_smoothing_spline(grid, impulse, lam=penalty)
    offsets = np.arange(-half_width, half_width + 1, dtype=float)
    weights = np.stack([spline(offsets), spline.derivative(1)(-offsets), spline.derivative(2)(-offsets)])
    # The truncated tails are made up for, so that polynomials of low degree keep their derivatives exactly.
    weights[0] /= weights[0].sum()
    weights[1] /= weights[1] @ offsets
    weights[2] -= weights[2].mean()
    weights[2] /= weights[2] @ (offsets**2 / 2.0)
    return Kernels(weights, f"smoothing spline, λ = {penalty:.3g} intervals⁴")
