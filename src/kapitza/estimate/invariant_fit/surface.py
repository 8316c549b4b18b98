"""F2: least weighted displacement onto the level sets.

    min over θ, E, z̃ of Σ_i Σ_j (z_ij - z̃_ij)² / v_ij   subject to   H(z̃_i; θ) = E_level(i)

The points are eliminated one by one: for given θ, E the nearest z̃_i is found by its own Newton iteration, and the
signed distance r_i has the exact derivatives ∂r_i/∂θ = ∂H/∂θ / s_i, ∂r_i/∂E = -1/s_i with s_i² = Σ_j v_ij (∂H/∂z_j)² at
z̃_i. The remaining problem in θ and the levels is solved by Gauss-Newton; work and memory are linear in the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.monitor import checkpoint
from kapitza.errors import KapitzaError
from kapitza.estimate.invariant_fit.conserved import Bounds, Form, Points, inverse_by_units
from kapitza.estimate.judge import robust_scale

if TYPE_CHECKING:
    import pandas as pd

PROJECTION_STEPS = 40
"""Most Newton steps of a point onto the surface; a point that has not converged then stays where it is."""

PROJECTION_TOLERANCE = 1e-9
"""Change of a projection, in standard deviations of the noise, at which it counts as found."""
STEPS = 60
"""Gauss-Newton steps after which a fit counts as not converged."""

SHARED_STEPS = 100
"""The same where points share measured numbers: until neither parameters nor samples move."""

ROUNDING = 1e-11
"""Relative decrease of the cost that is below rounding and the tolerance of the projections."""


@dataclass(frozen=True)
class Nearest:
    """Nearest points on the level sets.

    It holds points (d, N), signed distances r (N,), s (N,), ∂H/∂θ (k, N), and whether they were found.
    """

    points: Array
    distance: Array
    slope: Array
    sensitivity: Array
    found: Flags


@dataclass(frozen=True)
class Displaced:
    """Result of a displacement fit.

    theta (k,), levels E (R,), cost: sum of squared displacements in deviations, history of the iteration.
    """

    theta: Array
    levels: Array
    cost: float
    converged: bool
    history: pd.DataFrame


@dataclass(frozen=True)
class SurfaceSolution(Displaced):
    """Displacement fit of independent points.

    It also holds the nearest points, and robust weights (N,) of their distances.
    """

    nearest: Nearest
    weights: Array


def nearest(form: Form, points: Points, theta: Array, levels: Array, guess: Array | None = None) -> Nearest:
    """Project all points onto their level sets.

    Each step is taken for those that still move:
    z̃ ← z - v ∇H λ with λ = (H(z̃) - E + ∇H·(z - z̃)) / s², damped where the level is not approached.
    """
    near = points.values.copy() if guess is None else guess.copy()
    energy, deviation = levels[points.level], np.sqrt(np.maximum(points.variance, 1e-300))
    count = points.count
    multiplier, slope = np.zeros(count), np.ones(count)
    active = np.arange(count)
    damping, misfit = np.ones(count), np.full(count, np.inf)
    for _ in range(PROJECTION_STEPS):
        z, v = points.values[:, active], points.variance[:, active]
        here = near[:, active]
        value, gradient, _ = form.at(here, theta)
        gap = value - energy[active]
        square = np.maximum(np.einsum("dn,dn->n", v, gradient**2), 1e-300)
        factor = (gap + np.einsum("dn,dn->n", gradient, z - here)) / square
        move = z - v * gradient * factor - here
        # Near a saddle the step overshoots: damping grows while the gap does.
        worse = np.abs(gap) > 1.5 * misfit[active]
        damping[active] = np.where(worse, np.maximum(damping[active] / 2, 0.05), np.minimum(1.0, 1.5 * damping[active]))
        misfit[active] = np.abs(gap)
        multiplier[active], slope[active] = factor, np.sqrt(square)
        near[:, active] = here + damping[active] * move
        moving = np.max(np.abs(move) / deviation[:, active], axis=0) > PROJECTION_TOLERANCE
        active = active[moving]
        if not active.size:
            break
    _, gradient, sensitivity = form.at(near, theta)
    slope = np.sqrt(np.maximum(np.einsum("dn,dn->n", points.variance, gradient**2), 1e-300))
    found = np.ones(count, bool)
    found[active] = False
    return Nearest(near, multiplier * slope, slope, sensitivity, found)


def robust_weights(distance: Array, loss: str) -> Array:
    """Return the weights of a robust loss.

    They are 1, or for "cauchy" 1/(1 + (r / 2.385 s)²) with s from the median modulus (95 % efficient on Gaussian
    noise).
    """
    if loss == "linear":
        return np.ones_like(distance)
    spread = robust_scale(distance) or 1.0
    return 1.0 / (1.0 + (distance / (2.385 * spread)) ** 2)


def projected_rows(near: Nearest, points: Points, weights: Array) -> tuple[Array, Array]:
    """Return residuals (N,) and Jacobian (k, N).

    The level of each set is eliminated (rows weighted by √w).
    """
    root = np.sqrt(weights)
    border, residual, jacobian = root / near.slope, root * near.distance, root * near.sensitivity / near.slope
    total = np.bincount(points.level, border**2, points.levels)

    def without_level(row: Array) -> Array:
        part = np.bincount(points.level, border * row, points.levels) / total
        return row - border * part[points.level]

    return without_level(residual), np.array([without_level(row) for row in jacobian])


def level_step(near: Nearest, points: Points, weights: Array, move: Array) -> Array:
    """Return the change of the levels for a step.

    `move` is the step of the parameters.
    """
    border = weights / near.slope
    row = near.distance + (move @ near.sensitivity) / near.slope
    total = np.bincount(points.level, border / near.slope, points.levels)
    return np.bincount(points.level, border * row, points.levels) / total


def fit_surface(form: Form, points: Points, start: Array, levels: Array, bounds: Bounds, loss: str) -> SurfaceSolution:
    """Fit by damped Gauss-Newton.

    The damping grows until the cost falls; robust weights are renewed at every step.
    """
    import pandas as pd

    theta = start.copy()
    near = nearest(form, points, theta, levels)
    damping, converged, rows = 0.0, False, []
    for step in range(STEPS):
        checkpoint(dict(zip(form.free, theta.tolist(), strict=True)), f"iteration {step + 1}")
        w = robust_weights(near.distance, loss)
        cost = float(np.sum(w * near.distance**2))
        residual, jacobian = projected_rows(near, points, w)
        normal, gradient = jacobian @ jacobian.T, jacobian @ residual
        rows.append((step, cost, damping, *theta))
        size = np.sqrt(np.diag(normal)) + 1e-300
        scaled = normal / np.outer(size, size) + damping * np.eye(size.size)
        move = bounds.clip(theta - np.linalg.lstsq(scaled, gradient / size, rcond=1e-14)[0] / size) - theta
        trial_levels = levels + level_step(near, points, w, move)
        trial = nearest(form, points, theta + move, trial_levels, near.points)
        fresh = float(np.sum(w * trial.distance**2))
        small = np.all(np.abs(move) <= 1e-9 * np.maximum(np.abs(theta), 1e-3))
        # The predicted decrease is below rounding.
        small |= -float(gradient @ move) <= ROUNDING * cost
        if fresh <= cost * (1 + 1e-12):
            theta, levels, near = theta + move, trial_levels, trial
            damping = damping / 10 if damping > 1e-6 else 0.0
        else:
            damping = max(10 * damping, 1e-4)
        if small or damping > 1e8:
            converged = bool(small)
            break
    w = robust_weights(near.distance, loss)
    history = pd.DataFrame(rows, columns=["step", "cost", "damping", *form.free])
    return SurfaceSolution(theta, levels, float(np.sum(w * near.distance**2)), converged, history, near, w)


@dataclass(frozen=True)
class SharedSolution(Displaced):
    """Displacement fit of points that share samples.

    covariance (k, k) is for unit noise factor; displacement (M,) is that of the M measured numbers, in deviations.
    """

    covariance: Array
    displacement: Array


def fit_shared(form: Form, points: Points, start: Array, levels: Array, bounds: Bounds) -> SharedSolution:
    """Displace every measured number once.

    `points.shared` (d, N) states which number each state of each point is.
    Point n of a scalar series of a map is (x[n], x[n-1], x[n-2]): every sample belongs to three points. With A the
    derivative of all constraints by all samples, the displacements are eliminated through the banded matrix A V Aᵀ:

        min over θ, E of rᵀ (A V Aᵀ)⁻¹ r,   r = H(z̃) - E + A (y - ỹ),   ỹ = y - V Aᵀ (A V Aᵀ)⁻¹ r

    (the Gauss-Helmert iteration); work and memory stay linear in the points.
    """
    import pandas as pd

    if points.shared is None:
        raise KapitzaError("The points share no measured numbers: use fit_surface.")
    index = points.shared
    size = int(index.max()) + 1
    samples, variance = np.zeros(size), np.ones(size)
    samples[index.ravel()], variance[index.ravel()] = points.values.ravel(), points.variance.ravel()
    theta, moved, rows, converged = start.copy(), samples.copy(), [], False
    onto = (points.level[:, None] == np.arange(points.levels)).astype(float)
    covariance, cost = np.zeros((theta.size, theta.size)), np.inf
    for step in range(SHARED_STEPS):
        checkpoint(dict(zip(form.free, theta.tolist(), strict=True)), f"iteration {step + 1}")
        value, gradient, sensitivity = form.at(moved[index], theta)
        slope = _constraint_slopes(gradient, index, size)
        gap = value - levels[points.level] + slope @ (samples - moved)
        jacobian = np.column_stack([sensitivity.T, -onto])
        band = (slope * variance) @ slope.T
        # A tiny ridge: constraints of neighbouring points may be nearly dependent.
        solver = splu((band + 1e-12 * band.trace() / points.count * sparse.eye_array(points.count)).tocsc())
        weighted = solver.solve(jacobian)
        normal = jacobian.T @ weighted
        move = -np.linalg.lstsq(normal, weighted.T @ gap, rcond=1e-14)[0]
        multiplier = solver.solve(gap + jacobian @ move)
        fresh = bounds.clip(theta + move[: theta.size])
        change = np.abs(fresh - theta)
        following = samples - variance * (slope.T @ multiplier)
        still = float(np.max(np.abs(following - moved) / np.sqrt(variance)))
        # Half steps of the samples stabilise points near a saddle of the invariant, where the constraint is curved.
        moved = following if still < 1 or step == 0 else (following + moved) / 2
        theta, levels = fresh, levels + move[theta.size :]
        covariance = inverse_by_units(normal)[: theta.size, : theta.size]
        cost = float(np.sum((samples - moved) ** 2 / variance))
        rows.append((step, cost, *theta))
        if np.all(change <= 1e-9 * np.maximum(np.abs(theta), 1e-3)) and still < 1e-6:
            converged = True
            break
    history = pd.DataFrame(rows, columns=["step", "cost", *form.free])
    displacement = (samples - moved) / np.sqrt(variance)
    return SharedSolution(theta, levels, cost, converged, history, covariance, displacement)


def _constraint_slopes(gradient: Array, index: Indices, size: int) -> sparse.csr_array:
    """Return ∂(constraint n)/∂(sample m), sparse (N, M)."""
    count = gradient.shape[1]
    rows = np.tile(np.arange(count), gradient.shape[0])
    return sparse.csr_array((gradient.ravel(), (rows, index.ravel())), shape=(count, size))


def fit_odrpack(form: Form, points: Points, start: Array, levels: Array, bounds: Bounds) -> tuple[Array, Array]:
    """Fit by odrpack's implicit orthogonal-distance regression.

    The problem is the same: θ (k,), levels (R,); for small data.
    """
    from odrpack import odr_fit

    k = start.size
    finite = np.isfinite(bounds.low) | np.isfinite(bounds.high)
    low = np.concatenate([np.where(np.isfinite(bounds.low), bounds.low, -1e300), np.full(levels.size, -1e300)])
    high = np.concatenate([np.where(np.isfinite(bounds.high), bounds.high, 1e300), np.full(levels.size, 1e300)])

    def misfit(x: Array, beta: Array) -> Array:
        return form.at(x, beta[:k])[0] - beta[k:][points.level]

    def by_parameter(x: Array, beta: Array) -> Array:
        onto = -(points.level == np.arange(levels.size)[:, None]).astype(float)
        return np.vstack([form.at(x, beta[:k])[2], onto])

    def by_state(x: Array, beta: Array) -> Array:
        return form.at(x, beta[:k])[1]

    answer = odr_fit(
        misfit,
        points.values,
        np.zeros(points.count),
        np.concatenate([start, levels]),
        weight_x=1.0 / points.variance,
        bounds=(low, high) if finite.any() else None,
        task="implicit-ODR",
        jac_beta=by_parameter,
        jac_x=by_state,
        maxit=500,
    )
    return answer.beta[:k], answer.beta[k:]
