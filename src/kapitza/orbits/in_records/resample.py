"""Bootstrap of one cycle.

First-order propagation is trusted only where redrawn noise gives the same spread.
The noise of every sample and the residuals beyond it are drawn anew, the maps change with them (their coefficients are
linear in the images of the neighbours) and the cycle is solved on the changed maps. Where few points decide a strongly
stretching map, the solutions scatter more than the first order predicts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.orbits.in_records.local_fit import LocalFits
from kapitza.orbits.in_records.locate import Uncertainty, excess_share, solve_cycle
from kapitza.orbits.in_records.section import Section

DRAWS = 48  # as many cycles are solved again; see CLEARLY
CLEARLY = 1.3  # 48 draws know this spread within some 12 %


def widen_by_bootstrap(section: Section, fits: LocalFits, points: Array, found: Uncertainty) -> Uncertainty:
    """Widen deviations that a bootstrap finds larger.

    Only those that are clearly larger; correlations stay.
    """
    moved, sizes = redrawn_cycles(section, fits, points, fits.jacobian(points, section))
    results = np.concatenate([moved.reshape(len(moved), -1), sizes - np.abs(found.multipliers)], axis=1)
    first_order = np.sqrt(np.maximum(np.diag(found.joint), 1e-300))
    # The 90 % quantile, not the variance: one wild draw of a small multiplier must not decide.
    ratio = np.quantile(np.abs(results), 0.9, axis=0) / 1.645 / first_order
    ratio = np.where(np.isfinite(ratio), np.where(ratio > CLEARLY, ratio, 1.0), 1e3)
    joint = found.joint * np.outer(ratio, ratio)
    split = points.size
    return replace(found, points=joint[:split, :split], deviation=np.sqrt(np.diag(joint)[split:]), joint=joint)


def redrawn_cycles(
    section: Section, fits: LocalFits, points: Array, jacobian: Array, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, Array]:
    """Solve the cycle over redrawn noise.

    It returns shifts of the points (D, p, n) and moduli of the multipliers (D, n), largest first.
    """
    p, n = points.shape
    rng = np.random.default_rng(seed)
    samples, position = np.unique(np.concatenate([fits.rows.ravel(), fits.rows.ravel() + 1]), return_inverse=True)
    start, image = position.reshape(2, *fits.rows.shape)
    noise = rng.standard_normal((draws, len(samples), n)) * section.noise
    excess = fits.residual * excess_share(section, fits, jacobian)[:, None, :]
    response = noise[:, image] - np.einsum("kab,dkib->dkia", jacobian, noise[:, start], optimize=True)
    # Residuals beyond the noise keep their size and get random signs (wild bootstrap).
    response += excess * rng.choice([-1.0, 1.0], size=(draws, p, fits.rows.shape[1], 1))
    coefficient = fits.coefficient + np.einsum("kqi,dkia->dkqa", fits.influence, response, optimize=True)
    many = fits.take(np.tile(np.arange(p), draws))
    many = replace(many, coefficient=coefficient.reshape(draws * p, -1, n))
    moved, slopes = solve_cycle(section, many, np.broadcast_to(points, (draws, p, n)), iterations=8)
    product = np.broadcast_to(np.eye(n), (draws, n, n))
    for k in range(p):
        product = slopes[:, k] @ product
    sizes = -np.sort(-np.abs(np.linalg.eigvals(product)), axis=1)  # any sign: sorted
    return section.wrap(moved - points), sizes
