"""Expected true position of a noisy point.

E[x | z] and Cov[x | z] of neighbours that were chosen by their measured position.

A measured point z = x + e, e ~ N(0, Σ), lies at x = z + Σ ∇ log p(z) on average, with covariance Σ + Σ ∇∇ log p(z) Σ,
where p is the density of the *measured* points (Tweedie's formula). Inside a window log p is a polynomial of degree
two (a Gaussian: mean and covariance of the windowed points) or four (sheets, edges and skewed clouds, as chaotic
attractors have them).

The polynomial of degree four is fitted by score matching (Hyvärinen 2005): with window w that vanishes on the border,
s = ∇ log p minimises E[w (|s|²/2 + ∇·s) + s·∇w]; for a polynomial this is a linear system for its coefficients.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from kapitza.base.arrays import Array
from kapitza.orbits.in_records.polynomials import monomial_curvatures, monomial_slopes
from kapitza.solve import symmetric_function

REACH = 3.0  # neighbours beyond this many widths carry about 1 % of the weight of the nearest and are left out
RIDGE = 1e-3  # of the diagonal: keeps coefficients that few points decide small
LARGEST_SHIFT = 3.0  # noise deviations; a measured point is rarely further from the true one


def calibrate(offset: Array, weight: Array, width: Array, noise: Array, degree: int) -> tuple[Array, Array]:
    """Return mean and covariance of true positions.

    They are E[x | z] - c (C, K, n) and Cov[x | z] (C, 1 or K, n, n) of neighbours at `offset` = z - c (C, K, n).
    weight (C, K) and width (C,) are those of Gaussian windows, noise (n,) the standard deviations in Σ; `degree` (2 or
    4) is that of log p.
    """
    n = offset.shape[-1]
    if not np.any(noise > 0):
        return offset, np.zeros((len(offset), 1, n, n))
    if degree == 2:
        return _gaussian(offset, weight, width, noise)
    return _quartic(offset, weight > 0, width, noise)


def _gaussian(offset: Array, weight: Array, width: Array, noise: Array) -> tuple[Array, Array]:
    """Calibrate with a Gaussian density.

    With mean m and covariance S of the windowed points, ∇ log p(z) = -S⁻¹(z - m) + (z - c)/h².
    """
    n = offset.shape[-1]
    mean = np.einsum("ck,ckn->cn", weight, offset)
    centred = offset - mean[:, None, :]
    covariance = np.swapaxes(centred * weight[..., None], 1, 2) @ centred
    sigma = np.diag(noise**2)
    kernel = np.eye(n) / (truncated_variance(n) * np.maximum(width, 1e-300) ** 2)[:, None, None]
    # The covariance of a cloud without width is singular: add the square of a thousandth of the window.
    covariance = covariance + 1e-6 * width[:, None, None] ** 2 * np.eye(n)
    curvature = cap_curvature(np.linalg.inv(covariance) - kernel, noise, -0.5)
    precision = curvature + kernel
    pull = np.einsum("cnm,cm->cn", precision, mean)
    gradient = pull[:, None, :] - np.einsum("cnm,ckm->ckn", curvature, offset)
    return offset + gradient * noise**2, (sigma - sigma @ curvature @ sigma)[:, None]


def _quartic(offset: Array, inside: NDArray[np.bool_], width: Array, noise: Array) -> tuple[Array, Array]:
    unit = offset / width[:, None, None]
    slopes = monomial_slopes(unit, 4)[..., 1:, :]
    bends = monomial_curvatures(unit, 4)[..., 1:, :, :]
    kernel = np.where(inside, np.exp(-0.5 * np.einsum("cka,cka->ck", unit, unit)), 0.0)
    # The window minus its value at the rim vanishes there, as the integration by parts requires.
    window = np.maximum(kernel - np.exp(-0.5 * REACH**2), 0.0)
    total = np.maximum(window.sum(axis=1), 1e-300)
    weighted = slopes * window[..., None, None]
    normal = np.einsum("ckma,ckla->cml", weighted, slopes, optimize=True) / total[:, None, None]
    right = np.einsum("ck,ckmaa->cm", window, bends, optimize=True)
    right -= np.einsum("ck,cka,ckma->cm", kernel, unit, slopes, optimize=True)
    # The ridge keeps coefficients small that few points decide.
    diagonal = np.arange(normal.shape[1])
    normal[:, diagonal, diagonal] *= 1.0 + RIDGE
    normal[:, diagonal, diagonal] += 1e-12
    theta = -np.linalg.solve(normal, right[..., None] / total[:, None, None])[..., 0]
    relative = noise / width[:, None]
    shift = np.einsum("cm,ckma->cka", theta, slopes) * relative[:, None, :] ** 2
    # The polynomial may extrapolate: its shift is bounded by a multiple of the noise.
    length = np.linalg.norm(shift / np.maximum(relative, 1e-300)[:, None, :], axis=2, keepdims=True)
    shift = shift * np.minimum(1.0, LARGEST_SHIFT / np.maximum(length, 1e-300))
    curvature = -np.einsum("cm,ckmab->ckab", theta, bends, optimize=True) / width[:, None, None, None] ** 2
    sigma = np.diag(noise**2)
    covariance = sigma - sigma @ cap_curvature(curvature, noise, -1.0) @ sigma
    return (unit + shift) * width[:, None, None], covariance


def truncated_variance(n: int) -> float:
    """Return the variance of a truncated unit Gaussian.

    It is the variance per coordinate in n dimensions, with the Gaussian cut off at radius `REACH`.
    """
    cut = 0.5 * REACH**2
    return float(gammainc(0.5 * n + 1.0, cut) / gammainc(0.5 * n, cut))


def cap_curvature(curvature: Array, noise: Array, lowest: float) -> Array:
    """Bound the curvature of -log p by the noise.

    Curvatures (..., n, n) are at most Σ⁻¹ for noise of deviations (n,): the value for a cloud of nothing but noise.

    A density measured with noise is a convolution with it, so -∇∇ log p cannot exceed Σ⁻¹; dips are bounded by
    `lowest` in the same units.
    """
    # A component without noise is hardly capped; a floor near the others keeps rounding out of it.
    root = np.maximum(noise, 1e-6 * noise.max())
    units = root[:, None] * root[None, :]
    return symmetric_function(curvature * units, lambda value: np.clip(value, lowest, 1.0 - 1e-4)) / units
