"""Distances of measured points from a branch.

Distances are in standard deviations of the points, perpendicular to the curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from kapitza.base.arrays import Array, Indices
from kapitza.continuation import Branch, Kind
from kapitza.data import MeasuredBranch
from kapitza.errors import ConvergenceError

FINE = 6000
"""Points of the spline through a branch; the nearest one to a measured point is searched among them."""

DEGREE = 5
"""Degree of that spline."""

NODES = {2: 5, 3: 3}
"""Gauss-Hermite nodes in each direction of the noise, by the number of directions."""


@dataclass(frozen=True)
class Distances:
    """Distances (m,) of measured points in standard deviations.

    roughness: interpolation error of the curve, estimated by leaving out every other point. For curves, curve: (FINE,
    d), noise: (N, d), feet: (N,) indices on the curve, normals: (N, d, d - 1) directions in which the distances are
    measured, in units of the noise.
    """

    values: Array
    roughness: float = 0.0
    curve: Array | None = None
    noise: Array | None = None
    feet: Indices | None = None
    normals: Array | None = None

    def moments(self) -> tuple[Array, Array]:
        """Return mean and standard deviation (m,) of the distances.

        For points whose true place is their foot; 0 and 1 on a straight line. At a sharp tip more noise falls outside
        than inside. They are computed by Gauss-Hermite quadrature over the noise.
        """
        if self.curve is None or self.noise is None or self.feet is None or self.normals is None:
            return np.zeros(self.values.size), np.ones(self.values.size)
        count, size = self.noise.shape
        nodes, weights = hermegauss(NODES[size])
        weights = np.prod(np.meshgrid(*[weights] * size), axis=0).ravel() / weights.sum() ** size
        cloud = np.stack([each.ravel() for each in np.meshgrid(*[nodes] * size)], axis=1)
        around = (self.curve[self.feet][:, None] + self.noise[:, None] * cloud).reshape(-1, size)
        each = np.repeat(np.arange(count), len(cloud))
        # Each noisy copy has its own foot, as a measured point would.
        moved = nearest(around, self.noise[each], self.curve)
        # In a plane the sign is the left of the curve at each foot, as for the points; in space the normals of the
        # true foot serve, because the Householder directions of two feet need not agree.
        normals = _normals(self.curve, moved, self.noise[each]) if size == 2 else self.normals[each]
        spread = along_normals(around, self.noise[each], self.curve, moved, normals)
        spread = spread.reshape(count, len(cloud), size - 1)
        mean = np.einsum("c,nck->nk", weights, spread)
        variance = np.einsum("c,nck->nk", weights, (spread - mean[:, None]) ** 2)
        return mean.ravel(), np.sqrt(variance).ravel()


def distances(data: MeasuredBranch, branch: Branch, before: Distances | None = None) -> Distances:
    """Return the distances of measured points from the branch.

    before: distances whose directions are kept, for finite differences.
    """
    if not data.curve:
        return Distances(_from_bifurcations(data, branch))
    curve, roughness = _finely(branch, data)
    noise = data.noises
    points = _on_the_turn(data, curve)
    feet = nearest(points, noise, curve)
    normals = _normals(curve, feet, noise) if before is None or before.normals is None else before.normals
    values = along_normals(points, noise, curve, feet, normals).ravel()
    return Distances(values, roughness, curve, noise, feet, normals)


def nearest(points: Array, noise: Array, curve: Array) -> Indices:
    """Return the nearest points of a polyline (M, d).

    It returns one index per point (N, d), by the distance in units of its noise (N, d).
    """
    weight = noise**-2.0
    # Σ w (p - c)² without Σ w p², which does not depend on c; a matrix product avoids an (N, M, d) array.
    square = weight @ (curve**2).T - 2 * (weight * points) @ curve.T
    # Tangents are central differences, so the first and the last point cannot be feet.
    return np.clip(square.argmin(axis=1), 1, len(curve) - 2)


def along_normals(points: Array, noise: Array, curve: Array, feet: Indices, normals: Array) -> Array:
    """Return the normal distances from the feet.

    (N, d - 1), in units of the noise; the component along the curve is dropped.
    """
    away = (points - curve[feet]) / noise
    return np.einsum("nd,ndk->nk", away, normals)


def _normals(curve: Array, feet: Indices, noise: Array) -> Array:
    """Return orthonormal normals of the curve.

    They are (N, d, d - 1), in units of the noise; in a plane the normal points to the left.
    """
    along = (curve[feet + 1] - curve[feet - 1]) / noise
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    size = along.shape[1]
    if size == 2:
        return np.stack([-along[:, 1], along[:, 0]], axis=1)[:, :, None]
    # Householder's reflection takes the first axis to ± along: its other columns are at right angles to it.
    first = np.eye(size)[0]
    mirror = along + np.where(along[:, :1] >= 0, 1.0, -1.0) * first
    whole = np.eye(size) - 2 * mirror[:, :, None] * mirror[:, None, :] / (mirror**2).sum(axis=1)[:, None, None]
    return whole[:, :, 1:]


def _on_the_turn(data: MeasuredBranch, curve: Array) -> Array:
    """Return the points with phases near the curve.

    (N, d); phases are moved by whole turns to where they are nearest to the curve.
    """
    points = data.coordinates
    if data.phases is None:
        return points
    low, high = curve[:, -1].min(), curve[:, -1].max()
    # All turns for which a phase can be within half a turn of the curve.
    turns = np.arange(np.floor((low - np.pi) / (2 * np.pi)), np.ceil((high + np.pi) / (2 * np.pi)) + 1)
    tried = points[None] + np.stack([np.zeros_like(turns), np.zeros_like(turns), 2 * np.pi * turns], axis=1)[:, None]
    gaps = []
    for each in tried:
        feet = nearest(each, data.noises, curve)
        gaps.append((((each - curve[feet]) / data.noises) ** 2).sum(axis=1))
    return tried[np.argmin(gaps, axis=0), np.arange(len(points))]


def _finely(branch: Branch, data: MeasuredBranch) -> tuple[Array, float]:
    """Return the interpolated branch (FINE, d) and its roughness.

    The columns are parameter, amplitude, and period or phase. The roughness is in units of the smallest noise.
    """
    from scipy.interpolate import make_interp_spline

    if len(branch) < 2 * (DEGREE + 1):
        raise ConvergenceError(f"The branch has {len(branch)} points only: {branch.end_messages[1]}")
    s = branch.arclength - branch.arclength[0]
    columns = [branch.values[:, 0], branch.amplitude(data.state, 256)]
    if data.periods is not None:
        columns.append(branch.periods)
    if data.phases is not None:
        columns.append(phases_of(branch, data.state))
    points = np.stack(columns, axis=1)
    fine = np.linspace(0.0, s[-1], FINE)
    # The spline through every other point is compared with the points left out: an error bound without more
    # continuation.
    half = make_interp_spline(s[::2], points[::2], k=DEGREE)(np.linspace(0.0, s[::2][-1], FINE))
    left_out = points[1 : s[::2].size * 2 - 2 : 2]
    noise = np.broadcast_to(data.noises.min(axis=0), left_out.shape)
    feet = nearest(left_out, noise, half)
    missed = along_normals(left_out, noise, half, feet, _normals(half, feet, noise))
    return make_interp_spline(s, points, k=DEGREE)(fine), float(np.linalg.norm(missed, axis=1).max())


def phases_of(branch: Branch, state: str) -> Array:
    """Return the phases φ (N,) along a branch.

    The first harmonic of a state at the frequency of the drive is a cos(ωt + φ); φ is continuous in N.
    """
    if not branch.repeats:
        raise ConvergenceError("A motion without a drive has no phase relative to a drive.")
    profile = branch.profiles(64 * branch.repeats)[:, :, branch.model.states.index(state)]
    return np.unwrap(np.angle(np.fft.rfft(profile, axis=1)[:, branch.repeats]))


def _from_bifurcations(data: MeasuredBranch, branch: Branch) -> Array:
    """Return distances (N,) of bifurcation points.

    Each measured point is assigned to another one of the model, so that the sum of squared distances is least.
    """
    from scipy.optimize import linear_sum_assignment

    found = np.array([b.value for b in branch.of(Kind(data.kind))])
    if len(found) < len(data):
        raise ConvergenceError(f"The model has {len(found)} {data.kind} points where {len(data)} were measured.")
    noise = np.broadcast_to(np.asarray(data.value_noise, float), data.values.shape)
    gaps = (found[None] - data.values[:, None]) / noise[:, None]
    # One-to-one: two measured points must not be explained by the same bifurcation.
    rows, columns = linear_sum_assignment(gaps**2)
    return gaps[rows, columns]
