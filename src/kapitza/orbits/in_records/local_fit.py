"""Local polynomial maps fitted to noisy neighbours.

Both sides of the regression carry noise.
Neighbours are chosen by their measured position z = x + e, so a plain regression of their images on z is biased. The
images are regressed on the expected monomials of x given z instead (see `calibration`), which removes the bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.orbits.in_records.calibration import REACH, calibrate
from kapitza.orbits.in_records.polynomials import expected_monomials, exponents, monomial_slopes, monomials
from kapitza.orbits.in_records.section import Section

STEEP = 5.0  # slope of a map that chaos makes usual
LENGTH = 0.05  # of the attractor, over which maps of chaotic motions bend


@dataclass(frozen=True)
class LocalFits:
    """C local polynomial maps y = F(x).

    They are F(x) = target + Σ_q coefficient_q · u_q((x - centre)/width), in scaled units.
    centre (C, n), target (C, n), width (C,), coefficient (C, q, n) with the terms of `monomials`.
    rows (C, K): the neighbours; weight (C, K); influence (C, q, K): coefficient = influence @ response.
    residual (C, K, n): response minus fit. blur (C, n, n): Cov[x | z], mean over the neighbours.
    count (C,): effective number of neighbours; spread (C, n): standard deviation of the images around the fit.
    degree: of the maps; density: of the logarithm of the density in the window (`calibrate`).
    """

    centre: Array
    target: Array
    width: Array
    coefficient: Array
    rows: Indices
    weight: Array
    influence: Array
    residual: Array
    blur: Array
    count: Array
    spread: Array
    degree: int
    density: int = 2

    def value(self, x: Array, section: Section) -> Array:
        """Evaluate F at one point per map.

        (C, n) → (C, n).
        """
        terms = monomials(self._local(x, section), self.degree)
        return self.target + np.einsum("cq,cqn->cn", terms, self.coefficient)

    def jacobian(self, x: Array, section: Section) -> Array:
        """Evaluate ∂F/∂x at one point per map.

        x (C, n) gives (C, n, n); a row is a component of the image.
        """
        slopes = monomial_slopes(self._local(x, section), self.degree)
        return np.einsum("cqm,cqn->cnm", slopes, self.coefficient) / self.width[:, None, None]

    def _local(self, x: Array, section: Section) -> Array:
        return section.wrap(x - self.centre) / self.width[:, None]

    def take(self, chosen: Indices | slice) -> LocalFits:
        shared = ("degree", "density")
        fields = {name: getattr(self, name)[chosen] for name in self.__dataclass_fields__ if name not in shared}
        return LocalFits(**fields, degree=self.degree, density=self.density)


def window_width(distance: Array, neighbours: int, noise: Array, noise_widths: float) -> Array:
    """Return the width h of each Gaussian window.

    It is wide enough for `neighbours` points and for `noise_widths` noise deviations.
    """
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
    density: int = 2,
) -> LocalFits:
    """Fit one local map around each centre (C, n).

    `search` bounds the neighbours looked at (memory C × search); `widen` multiplies the width of each window.
    """
    search = search or neighbours
    distance, rows = section.nearest(centres, search)
    width = window_width(distance, neighbours, section.noise, noise_widths) * widen
    width = np.minimum(width, np.maximum(distance[:, -1] / REACH, 1e-12))
    return fit_windows(section, centres, distance, rows, width, degree, density)


def fit_windows(
    section: Section, centres: Array, distance: Array, rows: Indices, width: Array, degree: int, density: int = 2
) -> LocalFits:
    """Fit maps to given neighbours and window widths.

    It is the weighted least squares behind `fit_local`.
    """
    offset = section.wrap(section.unit[rows] - centres[:, None, :])
    # Images are taken relative to that of the nearest neighbour, so that angles do not wrap.
    nearest_image = section.unit[rows[:, 0] + 1]
    image = section.wrap(section.unit[rows + 1] - nearest_image[:, None, :])
    inside = distance <= REACH * width[:, None]
    weight = np.where(inside, np.exp(-0.5 * (distance / width[:, None]) ** 2), 0.0)
    weight /= weight.sum(axis=1, keepdims=True)
    corrected, blur = calibrate(offset, weight, width, section.noise, density)
    terms = expected_monomials(corrected / width[:, None, None], blur / width[:, None, None, None] ** 2, degree)
    weighted = np.swapaxes(terms * weight[..., None], 1, 2)
    normal = weighted @ terms
    count = 1.0 / np.sum(weight**2, axis=1)
    diagonal = np.arange(normal.shape[1])
    normal[:, diagonal, diagonal] += smoothness(section, width, count, degree)
    influence = np.linalg.solve(normal, weighted)
    coefficient = influence @ image
    residual = image - terms @ coefficient
    # Weighted residuals lose the degrees of freedom that the fit used: trace of the weighted hat matrix.
    used = np.einsum("cqk,cqk->c", weighted, influence)
    # The floor bounds the correction where the fit uses nearly all degrees of freedom.
    spread = np.sqrt(np.einsum("ck,ckn->cn", weight, residual**2) / np.maximum(1.0 - used, 0.05)[:, None])
    mean_blur = blur[:, 0] if blur.shape[1] == 1 else np.einsum("ck,ckab->cab", weight, blur)
    return LocalFits(
        np.asarray(centres, float), nearest_image, width, coefficient, rows, weight, influence, residual, mean_blur,
        count, spread, degree, density,
    )  # fmt: skip


def smoothness(section: Section, width: Array, count: Array, degree: int) -> Array:
    """Return a weak prior on the coefficients (C, q).

    It expects slopes near `STEEP` and curvatures of one attractor width over `LENGTH` of it.
    It decides only directions that the data leave open, in which the points are not wider than the noise.
    """
    order = np.array([len(term) for term in exponents(section.dimension, degree)])
    expected = np.where(order == 1, STEEP * width[:, None], (width[:, None] / LENGTH) ** order)
    # The prior is weak: its scatter is five times the noise.
    scatter = 5.0 * float(np.max(section.noise, initial=0.0))
    prior = scatter**2 / (count[:, None] * expected**2)
    prior[:, 0] = 0.0
    return prior + 1e-10
