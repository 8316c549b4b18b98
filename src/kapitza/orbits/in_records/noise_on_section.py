"""Noise of a section from disagreeing neighbours.

The scatter of the images of neighbours gives the noise.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.orbits.in_records.local_fit import fit_windows, window_width
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.section import Section

LARGEST_SAMPLE = 40_000  # points from which the noise is known within a per cent
WIDTHS = 2.0  # windows this many noise deviations wide no longer mistake the noise for the shape of the map


def section_noise(section: Section, centres: int = 600, seed: int = 0) -> Array:
    """Estimate the measurement noise per coordinate.

    The standard deviations (n,) are in scaled units.
    Around a point the images scatter about a local quadratic map with variances Σ + A Cov[x|z] Aᵀ, A its Jacobian.
    Many neighbourhoods with different A make this a linear system for the variances in Σ, solved with non-negative
    least squares over the third of the neighbourhoods that stretches least, where the map itself bends least. The
    windows are widened until they are wider than the noise found.
    """
    rng = np.random.default_rng(seed)
    thinned = section.thinned(LARGEST_SAMPLE, seed)
    rows = thinned.starts[rng.choice(len(thinned.starts), min(centres, len(thinned.starts)), replace=False)]
    neighbours = 8 * term_count(section.dimension, 2)
    noise = np.zeros(section.dimension)
    while True:
        noise = np.zeros(section.dimension)
        places = section.unit[rows[: max(100, min(len(rows), 60_000 // neighbours))]]
        distance, near = thinned.nearest(places, neighbours)
        width = window_width(distance, neighbours, noise, 0.0)
        # The fit itself uses the noise (calibration), so its estimate is iterated.
        for _ in range(3):
            fits = fit_windows(thinned.with_noise(noise), places, distance, near, width, degree=2)
            jacobian = fits.jacobian(fits.centre, section)
            calm = np.argsort(np.linalg.norm(jacobian, axis=(1, 2)), kind="stable")[: max(len(places) // 3, 1)]
            noise = _solve_variances(jacobian[calm], fits.spread[calm] ** 2)
        wide_enough = np.median(fits.width) >= WIDTHS * np.max(noise)
        if wide_enough or 2 * neighbours > min(len(thinned.starts) // 4, 3000):
            return noise
        neighbours *= 2


def _solve_variances(jacobian: Array, variance: Array) -> Array:
    """Solve for the noise deviations σ.

    The equations variance_c = σ_c² + Σ_d A_cd² σ_d² are weighted by their own expected size and trimmed.
    """
    from scipy.optimize import nnls

    n = jacobian.shape[1]
    system = jacobian**2 + np.eye(n)
    keep = np.isfinite(variance).all(axis=1)
    system, target = system[keep].reshape(-1, n), variance[keep].ravel()
    # The scatter of a variance is proportional to it, hence relative weights.
    weight = 1.0 / np.maximum(system.sum(axis=1), 1e-300)
    solution = np.zeros(n)
    chosen = np.ones(len(target), bool)
    for _ in range(4):
        solution, _ = nnls(system[chosen] * weight[chosen, None], target[chosen] * weight[chosen])
        expected = np.maximum(system @ solution, 1e-300)
        weight = 1.0 / expected
        # Residual variances of about 40 degrees of freedom stay below 2.2 times their mean; larger ones are misfit.
        chosen = target < 2.2 * np.maximum(expected, np.quantile(target, 0.25))
    return np.sqrt(solution)
