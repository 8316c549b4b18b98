"""F2 where neighbouring points share measured numbers, as the delays of a map do.

Point n of a scalar series is (x[n], x[n-1], x[n-2]): every sample belongs to three points and is displaced once. With A
the derivative of all constraints by all samples, the displacements are eliminated through the banded matrix A V Aᵀ:

    min over θ, E of rᵀ (A V Aᵀ)⁻¹ r,   r = H(z̃) - E + A (y - ỹ),   ỹ = y - V Aᵀ (A V Aᵀ)⁻¹ r

(the Gauss-Helmert iteration); work and memory stay linear in the points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import splu

from kapitza.arrays import Array, Indices
from kapitza.errors import KapitzaError
from kapitza.invariants import Bounds, Form, Points, inverse_by_units
from kapitza.monitor import checkpoint

STEPS = 100
"""At most, until neither parameters nor samples move."""


@dataclass(frozen=True)
class SharedSolution:
    """theta (k,), levels (R,), covariance (k, k) for unit noise factor, displacements in deviations (M,), cost Σ r²."""

    theta: Array
    levels: Array
    covariance: Array
    displacement: Array
    cost: float
    converged: bool
    history: pd.DataFrame


def fit_shared(form: Form, points: Points, start: Array, levels: Array, bounds: Bounds) -> SharedSolution:
    """Displace every measured number once; `points.shared` (d, N) says which number each state of each point is."""
    if points.shared is None:
        raise KapitzaError("The points share no measured numbers: use fit_surface.")
    index = points.shared
    size = int(index.max()) + 1
    samples, variance = np.zeros(size), np.ones(size)
    samples[index.ravel()], variance[index.ravel()] = points.values.ravel(), points.variance.ravel()
    theta, moved, rows, converged = start.copy(), samples.copy(), [], False
    onto = (points.level[:, None] == np.arange(points.levels)).astype(float)
    covariance, cost = np.zeros((theta.size, theta.size)), np.inf
    for step in range(STEPS):
        checkpoint(dict(zip(form.free, theta.tolist(), strict=True)), f"iteration {step + 1}")
        value, gradient, sensitivity = form.at(moved[index], theta)
        slope = _constraint_slopes(gradient, index, size)
        gap = value - levels[points.level] + slope @ (samples - moved)
        jacobian = np.column_stack([sensitivity.T, -onto])
        band = (slope * variance) @ slope.T
        solver = splu((band + 1e-12 * band.trace() / points.count * sparse.eye_array(points.count)).tocsc())
        weighted = solver.solve(jacobian)
        normal = jacobian.T @ weighted
        move = -np.linalg.lstsq(normal, weighted.T @ gap, rcond=1e-14)[0]
        multiplier = solver.solve(gap + jacobian @ move)
        fresh = bounds.clip(theta + move[: theta.size])
        change = np.abs(fresh - theta)
        following = samples - variance * (slope.T @ multiplier)
        still = float(np.max(np.abs(following - moved) / np.sqrt(variance)))
        # half steps of the samples tame points near a saddle of the invariant, where the constraint bends strongly
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
    return SharedSolution(theta, levels, covariance, displacement, cost, converged, history)


def _constraint_slopes(gradient: Array, index: Indices, size: int) -> sparse.csr_array:
    """∂(constraint n)/∂(sample m) as a sparse (N, M) matrix."""
    count = gradient.shape[1]
    rows = np.tile(np.arange(count), gradient.shape[0])
    return sparse.csr_array((gradient.ravel(), (rows, index.ravel())), shape=(count, size))
