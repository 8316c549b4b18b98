"""Periodic points and multipliers from local maps.

Newton solves the cycle equations; propagation of errors gives the covariance.
A cycle x_0 … x_{p-1} solves F_k(x_k) = x_{k+1} (indices modulo p) for the local maps F_k fitted around its points. The
equations are solved for all points together, so that long unstable cycles are as well conditioned as short ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.orbits.in_records.influence import Influence, cycle_matrix
from kapitza.orbits.in_records.local_fit import LocalFits, fit_local, fit_windows
from kapitza.orbits.in_records.polynomials import monomial_curvatures, monomial_slopes, monomials
from kapitza.orbits.in_records.section import Section
from kapitza.solve import eigenvectors

KNOWN_TO = 0.05
"""Share of the scatter about a map to which noisy points determine the map, however many they are.

The true positions of noisy points follow from their density, which no polynomial describes exactly: layers of an
attractor closer than the noise appear as one.
"""

DENSITY_DOUBT = 0.5
"""Share that counts as uncertainty of what other assumptions change, beyond what scatter explains: a density of degree
two instead of four, and windows narrower by `NARROWER`."""

NARROWER = 1.6
"""Factor between two widths of a window, both of which the noise allows."""


@dataclass(frozen=True)
class Cycles:
    """C candidate cycles of one period p.

    It holds points (C, p, n) scaled, Jacobians (C, p, n, n), and the maps (row c·p + k).
    """

    points: Array
    jacobians: Array
    fits: LocalFits
    shift: Array
    settled: NDArray[np.bool_]

    @property
    def period(self) -> int:
        return self.points.shape[1]

    def fits_of(self, cycle: int) -> LocalFits:
        p = self.period
        return self.fits.take(slice(cycle * p, (cycle + 1) * p))


def refine_cycles(
    section: Section,
    start: Array,
    *,
    degree: int,
    neighbours: int,
    search: int,
    noise_widths: float,
    iterations: int = 12,
    reach: float = 0.03,
    density: int = 2,
) -> Cycles:
    """Refine candidate cycles by Newton iterations.

    The iteration starts at `start` (C, p, n); the maps are fitted anew around the points after every step.
    A candidate is `settled` when the last step was far below the width of its windows and it stayed within `reach` of
    its start. Steps are cut at two window widths: a local map is not valid beyond its window.
    """
    cycles, p, n = start.shape

    def fit_around(points: Array) -> LocalFits:
        return fit_local(
            section, points.reshape(-1, n), degree=degree, neighbours=neighbours, search=search,
            noise_widths=noise_widths, density=density,
        )  # fmt: skip

    points = section.canonical(start)
    step_size = np.full(cycles, np.inf)
    moving = np.arange(cycles)
    for iteration in range(iterations):
        here = points[moving]
        fits = fit_around(here)
        step = section.wrap(solve_cycle(section, fits, here)[0] - here)
        width = fits.width.reshape(len(moving), p)
        length = np.linalg.norm(step, axis=2)
        cut = np.minimum(1.0, np.min(2.0 * width / np.maximum(length, 1e-300), axis=1))
        # Noisy windows gain and lose neighbours as they move; half steps end the wandering between two such sets.
        damping = 1.0 if iteration < 4 else 0.5
        points[moving] = section.canonical(here + damping * cut[:, None, None] * step)
        step_size[moving] = np.max(length / width, axis=1)
        away = np.linalg.norm(section.wrap(points[moving] - start[moving]), axis=2).max(axis=1)
        # Candidates that have settled, or left for good, are not moved any more.
        moving = moving[(step_size[moving] >= 1e-4) & (away < 2.0 * reach)]
        if not len(moving):
            break
    fits = fit_around(points)
    points, jacobians = solve_cycle(section, fits, points)
    shift = np.linalg.norm(section.wrap(points - start), axis=2).max(axis=1)
    # Where noise fills the window its centre cannot settle better than within it; the solution of the last maps can.
    noisy = fits.width.reshape(cycles, p).max(axis=1) < 6.0 * float(np.max(section.noise))
    settled = (step_size < np.where(noisy, 1.0, 0.1)) & (shift < reach) & np.isfinite(shift)
    return Cycles(points, jacobians, fits, shift, settled)


def solve_cycle(section: Section, fits: LocalFits, points: Array, iterations: int = 3) -> tuple[Array, Array]:
    """Solve the cycle equations on fixed maps.

    Newton's method returns the points (C, p, n) and the Jacobians there (C, p, n, n).
    """
    cycles, p, n = points.shape
    x = points.reshape(-1, n)
    block = np.arange(p)
    for _ in range(iterations):
        value = fits.value(x, section).reshape(cycles, p, n)
        jacobian = fits.jacobian(x, section).reshape(cycles, p, n, n)
        here = x.reshape(cycles, p, n)
        residual = section.wrap(value - np.roll(here, -1, axis=1))
        step = cyclic_solve(jacobian, residual)
        # Within the fixed maps a step beyond the windows only happens when the cycle matrix is nearly singular.
        limit = 3.0 * fits.width.reshape(cycles, p)[:, block, None]
        x = (here + np.clip(step, -limit, limit)).reshape(-1, n)
    return x.reshape(cycles, p, n), fits.jacobian(x, section).reshape(cycles, p, n, n)


def cyclic_solve(jacobian: Array, residual: Array) -> Array:
    """Solve the linear cycle equations.

    δx with δx_{k+1} - A_k δx_k = r_k, cyclic; zero where the matrix is singular.
    """
    cycles, p, n = residual.shape
    matrix = cycle_matrix(jacobian)
    good = np.asarray(np.isfinite(matrix).all(axis=(1, 2))).reshape(-1, 1, 1)
    matrix = np.where(good, matrix, np.eye(p * n))
    # A singular candidate must not stop the solution of the others in the batch.
    singular = np.reshape(np.abs(np.linalg.det(matrix)) < 1e-14, (-1, 1, 1))
    matrix = matrix + 1e-7 * singular * np.eye(p * n)
    right = np.where(good, residual, 0.0).reshape(cycles, p * n, 1)
    step: Array = np.asarray(np.linalg.solve(matrix, right), float)
    return step.reshape(cycles, p, n)


def cycle_time(section: Section, fits: LocalFits, points: Array, covariance: Array) -> tuple[float, float]:
    """Return the period of a cycle and its deviation.

    The period of one cycle (p, n), in seconds, comes from the times to the images of neighbours.
    The same smoother that gives the image gives the time: T = Σ_k τ_k(x_k), τ_k(x) = Σ_i w_i(x) τ_i over the
    neighbours of x_k. Its error is that of the times about the fit, through ∂τ/∂x that of the points (`covariance`,
    scaled), and what one degree of the maps changes as far as the residuals exceed the noise.
    """
    if section.duration is None:
        return len(points) * section.step, 0.0
    period, slopes, scatter = _time_along(section, fits, points)
    variance = scatter**2 + slopes.ravel() @ covariance @ slopes.ravel()
    if fits.degree > 1:
        lower, moved, _ = lower_cycle(section, fits, points)
        share = float(np.max(excess_share(section, fits, fits.jacobian(points, section))))
        variance += (share * (_time_along(section, lower, moved)[0] - period)) ** 2
    return period, float(np.sqrt(variance))


def _time_along(section: Section, fits: LocalFits, points: Array) -> tuple[float, Array, float]:
    """Return the time along a cycle.

    It returns Σ τ_k(x_k), its slopes (p, n) by the points, and the deviation that the scatter of the times causes.
    """
    assert section.duration is not None
    local = section.wrap(points - fits.centre) / fits.width[:, None]
    weight = np.einsum("kq,kqi->ki", monomials(local, fits.degree), fits.influence)
    times = section.duration[fits.rows]
    offset = section.wrap(section.unit[fits.rows] - fits.centre[:, None]) / fits.width[:, None, None]
    coefficient = np.einsum("kqi,ki->kq", fits.influence, times)
    residual = times - np.einsum("kiq,kq->ki", monomials(offset, fits.degree), coefficient)
    slopes = np.einsum("kqa,kq->ka", monomial_slopes(local, fits.degree), coefficient) / fits.width[:, None]
    return float(np.sum(weight * times)), slopes, float(np.sqrt(np.sum((weight * residual) ** 2)))


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of a cycle.

    points: (p n, p n) covariance, scaled units; multipliers (n,), largest first; deviation (n,) of their moduli.
    joint: (p n + n, p n + n) covariance of points and moduli; influence: of the samples, None without noise.
    """

    points: Array
    multipliers: NDArray[np.complex128]
    deviation: Array
    joint: Array
    influence: Influence | None


def propagate(section: Section, fits: LocalFits, points: Array, jacobian: Array, doubt: float = 0.0) -> Uncertainty:
    """Propagate errors of maps to a cycle (p, n).

    The propagation is of first order. The noise of every sample is followed through all maps that use it (see
    `Influence`). Residuals beyond the noise (a map that is not polynomial, noise in the dynamics) are added sample by
    sample. `doubt` (0 … 1) is the least share of the change by one degree of the maps that counts as uncertainty. What
    the density of noisy points leaves open (`_density_part`) is added as well: without it the errors of long records
    would go to zero, below the error of the maps.
    """
    p, n = points.shape
    local = section.wrap(points - fits.centre) / fits.width[:, None]
    slope_terms = monomial_slopes(local, fits.degree) / fits.width[:, None, None]
    multipliers, gradient = multiplier_gradient(jacobian)
    influence = Influence(
        fits.rows, np.einsum("kq,kqi->ki", monomials(local, fits.degree), fits.influence),
        np.einsum("kqm,kqi->kmi", slope_terms, fits.influence), jacobian, gradient,
        map_curvature(section, fits, points), section.noise, section.scale,
    )  # fmt: skip
    noisy = bool(np.any(section.noise > 0))
    noise = influence.root()[1].reshape(p * n + n, -1) if noisy else np.zeros((p * n + n, 1))
    excess = _excess_part(section, fits, influence)
    covariance = noise @ noise.T + excess @ excess.T
    bend = misfit(section, fits, points, multipliers, doubt)
    common = np.outer(bend, bend)
    if noisy:
        density = _density_part(section, fits, points, influence, np.diag(covariance))
        common += density @ density.T
        influence = replace(influence, common=common)
    covariance += common
    split = p * n
    deviation = np.sqrt(np.diag(covariance)[split:])
    return Uncertainty(covariance[:split, :split], multipliers, deviation, covariance, influence if noisy else None)


def excess_share(section: Section, fits: LocalFits, jacobian: Array) -> Array:
    """Return the scatter share that noise does not explain.

    It is the share (p, n) of the scatter about each map, as a standard deviation.
    """
    expected = section.noise**2 + np.einsum("kab,kbc,kac->ka", jacobian, fits.blur, jacobian)
    return np.sqrt(np.clip(1.0 - expected / np.maximum(fits.spread**2, 1e-300), 0.0, 1.0))


def misfit(
    section: Section, fits: LocalFits, points: Array, multipliers: NDArray[np.complex128], doubt: float
) -> Array:
    """Return the change with maps one degree lower.

    The change of points and |multipliers| (p n + n) bounds the effect of the form of the maps.
    It counts as far as the residuals exceed the noise (where noise explains them the form of the map is not at fault),
    or as far as the caller doubts it.
    """
    p, n = points.shape
    if fits.degree < 2:
        return np.zeros(p * n + n)
    _, moved, jacobian = lower_cycle(section, fits, points)
    values, _ = multiplier_gradient(jacobian)
    share = max(doubt, float(np.max(excess_share(section, fits, fits.jacobian(points, section)))))
    change = np.concatenate([section.wrap(moved - points).ravel(), np.abs(values) - np.abs(multipliers)])
    return share * np.where(np.isfinite(change), change, 0.0)


def lower_cycle(section: Section, fits: LocalFits, points: Array) -> tuple[LocalFits, Array, Array]:
    """Locate the cycle with maps one degree lower.

    The windows are the same; the maps, the cycle (p, n) and the Jacobians (p, n, n) are returned.
    """
    return _other_cycle(section, fits, points, fits.degree - 1, fits.density, fits.width)


def _other_cycle(
    section: Section, fits: LocalFits, points: Array, degree: int, density: int, width: Array
) -> tuple[LocalFits, Array, Array]:
    """Locate the cycle with maps of another form.

    The maps are fitted to the same neighbours; they are returned with the cycle (p, n) and the Jacobians (p, n, n).
    """
    distance = np.linalg.norm(section.wrap(section.unit[fits.rows] - fits.centre[:, None, :]), axis=2)
    other = fit_windows(section, fits.centre, distance, fits.rows, width, degree, density)
    moved, jacobian = solve_cycle(section, other, points[None])
    return other, moved[0], jacobian[0]


def multiplier_gradient(jacobian: Array) -> tuple[NDArray[np.complex128], Array]:
    """Return multipliers (n,) and gradients of their moduli.

    ∂|μ_a|/∂A_k: (n, p, n, n); the gradient of |μ| is the real part of conj(μ)/|μ| · ∂μ.
    """
    p, n, _ = jacobian.shape
    gradient = np.zeros((n, p, n, n))
    before = [np.eye(n)]
    for k in range(p):
        before.append(jacobian[k] @ before[-1])
    after = [np.eye(n)]
    for k in range(p - 1, -1, -1):
        after.append(after[-1] @ jacobian[k])
    after.reverse()
    multipliers, right = eigenvectors(before[p])
    # A defective product has no inverse of its eigenvectors.
    left = np.linalg.pinv(right)
    phase = np.conj(multipliers) / np.maximum(np.abs(multipliers), 1e-300)
    for k in range(p):
        for a in range(n):
            row = left[a] @ after[k + 1]
            column = before[k] @ right[:, a]
            gradient[a, k] = np.real(phase[a] * np.outer(row, column))
    return multipliers, gradient


def map_curvature(section: Section, fits: LocalFits, points: Array) -> Array:
    """Return ∂²F_a/∂x_b∂x_c of each map at its point.

    The result is (p, n, n, n).
    """
    local = section.wrap(points - fits.centre) / fits.width[:, None]
    curvature = np.einsum("kqbc,kqa->kabc", monomial_curvatures(local, fits.degree), fits.coefficient)
    return curvature / fits.width[:, None, None, None] ** 2


def _density_part(section: Section, fits: LocalFits, points: Array, influence: Influence, scatter: Array) -> Array:
    """Return a root of the covariance from the density.

    Square root (p n + n, S) of the covariance that comes from the unknown density of noisy points.
    scatter (p n + n): variances of the results as far as they come from the scatter of the samples.
    """
    p, n = points.shape
    value = np.zeros((p, n, p, n, 1 + n))
    slope = np.zeros((p, n, n, p, n, 1 + n))
    for k in range(p):
        for a in range(n):
            value[k, a, k, a, 0] = KNOWN_TO * fits.spread[k, a]
            for m in range(n):
                slope[k, a, m, k, a, 1 + m] = KNOWN_TO * fits.spread[k, a] / fits.width[k]
    root = influence.results(value.reshape(p, n, -1), slope.reshape(p, n, n, -1))
    if fits.density == 2:
        return root
    changes = []
    for density, width in ((2, fits.width), (4, fits.width / NARROWER)):
        moved = _other_cycle(section, fits, points, fits.degree, density, width)[1]
        # Points alone: slopes in narrow windows scatter so much that their change carries no information.
        change = np.concatenate([section.wrap(moved - points).ravel(), np.zeros(n)])
        change = np.where(np.isfinite(change), change, 0.0)
        changes.append(DENSITY_DOUBT * np.sign(change) * np.sqrt(np.maximum(change**2 - scatter, 0.0)))
    return np.column_stack([root, *changes])


def _excess_part(section: Section, fits: LocalFits, influence: Influence) -> Array:
    """Return a root of the covariance from excess residuals.

    It comes from residuals beyond the noise, each sample of each map independent.
    """
    jacobian = influence.jacobian
    p, n = jacobian.shape[:2]
    residual = fits.residual * excess_share(section, fits, jacobian)[:, None, :]
    neighbours = fits.rows.shape[1]
    value = np.zeros((p, n, p, neighbours))
    slope = np.zeros((p, n, n, p, neighbours))
    for k in range(p):
        value[k, :, k] = influence.value[k] * residual[k].T
        slope[k, :, :, k] = residual[k].T[:, None, :] * influence.slope[k][None]
    return influence.results(value.reshape(p, n, -1), slope.reshape(p, n, n, -1))
