"""Local polynomial maps fitted to neighbours, with noise on both sides of the regression.

Neighbours are chosen by their measured position z = x + e. Then E[x | z] = z + Σ ∇ log p(z), where p is the density of
the measured points and Σ the covariance of the noise (Tweedie's formula): the noise biases the slope only where the
density is curved. Inside a Gaussian window of width h around c the windowed points have mean m and covariance S, hence
∇ log p(z) = -S⁻¹(z - m) + (z - c)/h² and Cov[x | z] = Σ - Σ (S⁻¹ - 1/h²) Σ. The images are regressed on the expected
monomials of x given z instead of the monomials of z, which removes the bias.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from kapitza.orbits.section import Section

Array = NDArray[np.float64]
Index = NDArray[np.intp]

REACH = 3.0  # neighbours beyond this many widths carry about 1 % of the weight of the nearest and are left out
STEEP = 5.0
LENGTH = 0.05


@dataclass(frozen=True)
class LocalFits:
    """C local maps y = F(x), F(x) = target + Σ_q coefficient_q · u_q((x - centre)/width), in scaled units.

    centre (C, n), target (C, n), width (C,), coefficient (C, q, n) with the terms of `monomials`.
    rows (C, K): the neighbours; weight (C, K); influence (C, q, K): coefficient = influence @ response.
    residual (C, K, n): response minus fit. blur (C, n, n): Cov[x | z].
    count (C,): effective number of neighbours; spread (C, n): standard deviation of the images around the fit.
    """

    centre: Array
    target: Array
    width: Array
    coefficient: Array
    rows: Index
    weight: Array
    influence: Array
    residual: Array
    blur: Array
    count: Array
    spread: Array
    degree: int

    def value(self, x: Array, section: Section) -> Array:
        """F at one point per map, (C, n) → (C, n)."""
        terms = monomials(self._local(x, section), self.degree)
        return self.target + np.einsum("cq,cqn->cn", terms, self.coefficient)

    def jacobian(self, x: Array, section: Section) -> Array:
        """∂F/∂x at one point per map, (C, n) → (C, n, n), row = component of the image."""
        slopes = monomial_slopes(self._local(x, section), self.degree)
        return np.einsum("cqm,cqn->cnm", slopes, self.coefficient) / self.width[:, None, None]

    def _local(self, x: Array, section: Section) -> Array:
        return section.wrap(x - self.centre) / self.width[:, None]

    def take(self, chosen: Index | slice) -> LocalFits:
        fields = {name: getattr(self, name)[chosen] for name in self.__dataclass_fields__ if name != "degree"}
        return LocalFits(**fields, degree=self.degree)


@lru_cache
def exponents(n: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Coordinates multiplied in each term, lowest degree first: (), (0,), (1,), (0, 0), (0, 1), …"""
    return tuple(c for d in range(degree + 1) for c in itertools.combinations_with_replacement(range(n), d))


def term_count(n: int, degree: int) -> int:
    return len(exponents(n, degree))


def monomials(u: Array, degree: int) -> Array:
    """Terms 1, u_a, u_a u_b, … of (..., n) → (..., q)."""
    return np.stack([_product(u, term) for term in exponents(u.shape[-1], degree)], axis=-1)


def monomial_slopes(u: Array, degree: int) -> Array:
    """∂/∂u of `monomials`, (..., n) → (..., q, n)."""
    terms = exponents(u.shape[-1], degree)
    slopes = np.zeros((*u.shape[:-1], len(terms), u.shape[-1]))
    for q, term in enumerate(terms):
        for place, a in enumerate(term):
            slopes[..., q, a] += _product(u, term[:place] + term[place + 1 :])
    return slopes


def monomial_curvatures(u: Array, degree: int) -> Array:
    """∂²/∂u∂u of `monomials`, (..., n) → (..., q, n, n)."""
    n = u.shape[-1]
    terms = exponents(n, degree)
    curvature = np.zeros((*u.shape[:-1], len(terms), n, n))
    for q, term in enumerate(terms):
        for i, j in itertools.permutations(range(len(term)), 2):
            rest = tuple(a for k, a in enumerate(term) if k not in (i, j))
            curvature[..., q, term[i], term[j]] += _product(u, rest)
    return curvature


def expected_monomials(u: Array, blur: Array, degree: int) -> Array:
    """E of `monomials` of a Gaussian with means u (C, K, n) and covariances blur (C, n, n), up to degree three."""
    terms = monomials(u, degree)
    if not np.any(blur):
        return terms
    for q, term in enumerate(exponents(u.shape[-1], degree)):
        if len(term) == 2:
            terms[..., q] += blur[:, None, term[0], term[1]]
        elif len(term) == 3:
            for alone, pair in ((0, (1, 2)), (1, (0, 2)), (2, (0, 1))):
                terms[..., q] += u[..., term[alone]] * blur[:, None, term[pair[0]], term[pair[1]]]
    return terms


def _product(u: Array, term: tuple[int, ...]) -> Array:
    result = np.ones(u.shape[:-1])
    for a in term:
        result = result * u[..., a]
    return result


def window_width(distance: Array, neighbours: int, noise: Array, noise_widths: float) -> Array:
    """Width h of each Gaussian window: wide enough for `neighbours` points, and for `noise_widths` noise deviations."""
    by_count = distance[:, min(neighbours, distance.shape[1]) - 1] / REACH
    by_noise = noise_widths * float(np.max(noise, initial=0.0))
    # The search returned a limited number of points: a window may not reach beyond the last of them.
    return np.maximum(np.minimum(np.maximum(by_count, by_noise), distance[:, -1] / REACH), 1e-12)


def fit_local(
    section: Section,
    centres: Array,
    *,
    degree: int = 2,
    neighbours: int = 64,
    noise_widths: float = 3.0,
    search: int | None = None,
    widen: Array | float = 1.0,
) -> LocalFits:
    """Fit one local map around each of the `centres` (C, n).

    `search` bounds the neighbours looked at (memory C × search); `widen` multiplies the width of each window.
    """
    search = search or neighbours
    distance, rows = section.nearest(centres, search)
    width = window_width(distance, neighbours, section.noise, noise_widths) * widen
    width = np.minimum(width, np.maximum(distance[:, -1] / REACH, 1e-12))
    return fit_windows(section, centres, distance, rows, width, degree)


def fit_windows(section: Section, centres: Array, distance: Array, rows: Index, width: Array, degree: int) -> LocalFits:
    """The weighted least squares behind `fit_local`, for given neighbours and window widths."""
    offset = section.wrap(section.unit[rows] - centres[:, None, :])
    nearest_image = section.unit[rows[:, 0] + 1]
    image = section.wrap(section.unit[rows + 1] - nearest_image[:, None, :])
    inside = distance <= REACH * width[:, None]
    weight = np.where(inside, np.exp(-0.5 * (distance / width[:, None]) ** 2), 0.0)
    weight /= weight.sum(axis=1, keepdims=True)
    corrected, blur = regression_calibration(offset, weight, width, section.noise)
    terms = expected_monomials(corrected / width[:, None, None], blur / width[:, None, None] ** 2, degree)
    normal = np.einsum("ckq,ck,ckr->cqr", terms, weight, terms, optimize=True)
    count = 1.0 / np.sum(weight**2, axis=1)
    diagonal = np.arange(normal.shape[1])
    normal[:, diagonal, diagonal] += smoothness(section, width, count, degree)
    influence = np.linalg.solve(normal, np.swapaxes(terms * weight[..., None], 1, 2))
    coefficient = influence @ image
    residual = image - terms @ coefficient
    # Weighted residuals lose the degrees of freedom that the fit used: trace of the weighted hat matrix.
    used = np.einsum("ckq,cqk,ck->c", terms, influence, weight, optimize=True)
    spread = np.sqrt(np.einsum("ck,ckn->cn", weight, residual**2) / np.maximum(1.0 - used, 0.05)[:, None])
    return LocalFits(
        np.asarray(centres, float), nearest_image, width, coefficient, rows, weight, influence, residual, blur,
        count, spread, degree,
    )  # fmt: skip


def smoothness(section: Section, width: Array, count: Array, degree: int) -> Array:
    """Weak prior on the coefficients (C, q): slopes near `STEEP`, bends by one attractor over `LENGTH` of it.

    It decides only what the data leave open: directions in which the points are no wider than the noise.
    """
    order = np.array([len(term) for term in exponents(section.dimension, degree)])
    expected = np.where(order == 1, STEEP * width[:, None], (width[:, None] / LENGTH) ** order)
    scatter = 5.0 * float(np.max(section.noise, initial=0.0))
    prior = scatter**2 / (count[:, None] * expected**2)
    prior[:, 0] = 0.0
    return prior + 1e-10


def regression_calibration(offset: Array, weight: Array, width: Array, noise: Array) -> tuple[Array, Array]:
    """E[x | z] - c for every neighbour (C, K, n) and Cov[x | z] (C, n, n); see the head of this file."""
    n = offset.shape[-1]
    if not np.any(noise > 0):
        return offset, np.zeros((len(offset), n, n))
    mean = np.einsum("ck,ckn->cn", weight, offset)
    centred = offset - mean[:, None, :]
    covariance = np.einsum("ck,ckn,ckm->cnm", weight, centred, centred, optimize=True)
    sigma = np.diag(noise**2)
    kernel = np.eye(n) / (truncated_variance(n) * np.maximum(width, 1e-300) ** 2)[:, None, None]
    # A cloud with no width at all cannot be inverted; a thousandth of the window is as good as none.
    covariance = covariance + 1e-6 * width[:, None, None] ** 2 * np.eye(n)
    curvature = cap_curvature(np.linalg.inv(covariance) - kernel, noise)
    precision = curvature + kernel
    pull = np.einsum("cnm,cm->cn", precision, mean)
    gradient = pull[:, None, :] - np.einsum("cnm,ckm->ckn", curvature, offset)
    corrected = offset + gradient * noise**2
    return corrected, sigma - sigma @ curvature @ sigma


def truncated_variance(n: int) -> float:
    """Variance per coordinate of a unit Gaussian in n dimensions cut off at radius `REACH`."""
    cut = 0.5 * REACH**2
    return float(gammainc(0.5 * n + 1.0, cut) / gammainc(0.5 * n, cut))


def cap_curvature(curvature: Array, noise: Array) -> Array:
    """Curvatures (C, n, n) of -log p that noise of deviations (n,) allows: at most Σ⁻¹, a cloud of nothing but noise.

    A density measured with noise is a convolution with it, so -∇∇ log p cannot exceed Σ⁻¹; dips are bounded likewise.
    """
    if not noise.any():
        return curvature
    # A component without noise is hardly capped; a floor near the others keeps rounding out of it.
    root = np.maximum(noise, 1e-6 * noise.max())
    value, vector = np.linalg.eigh(curvature * (root[:, None] * root[None, :]))
    capped = (vector * np.clip(value, -0.5, 1.0 - 1e-4)[:, None, :]) @ np.swapaxes(vector, 1, 2)
    return capped / (root[:, None] * root[None, :])
