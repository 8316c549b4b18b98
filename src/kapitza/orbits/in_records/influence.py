"""Effect of the noise of each sample on orbits.

Every sample j carries one noise vector e_j. It enters the map that starts from it as a regressor (weight times -A e_j)
and the map that ends in it as a response (weight times e_j). Orbits that pass near each other share samples, so their
errors are correlated; the influence keeps what is needed to compute the correlation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array, Indices


@dataclass(frozen=True)
class Influence:
    """First-order influence of samples on one orbit.

    It concerns points and |multipliers|, in scaled units.
    rows: (p, K) rows of the section that each map uses; value, slope: (p, K) and (p, n, K) weights of their images in
    the value and the slopes of the map at its point; jacobian: (p, n, n); gradient: (n, p, n, n) of |μ| by the
    Jacobians; curvature: (p, n, n, n) of the maps; noise, scale: (n,) of the section.
    common: (p n + n, p n + n) the part of the orbit's covariance, in scaled units, that further points of the same
    kind would not make smaller.
    """

    rows: Indices
    value: Array
    slope: Array
    jacobian: Array
    gradient: Array
    curvature: Array
    noise: Array
    scale: Array
    common: Array | None = None

    def root(self) -> tuple[Indices, Array]:
        """Return samples and a root of their covariance.

        The samples are (S,); the square root (p n + n, S, n) is that of the covariance that their noise causes.
        """
        p, n = self.jacobian.shape[:2]
        samples, position = np.unique(np.concatenate([self.rows.ravel(), self.rows.ravel() + 1]), return_inverse=True)
        start, image = position.reshape(2, *self.rows.shape)
        value = np.zeros((p, n, len(samples), n))
        slope = np.zeros((p, n, n, len(samples), n))
        eye = np.eye(n)
        for k in range(p):
            # A neighbour occurs once in a map, so plain indexed addition is safe.
            value[k][:, start[k], :] -= np.einsum("i,ab->aib", self.value[k], self.jacobian[k])
            value[k][:, image[k], :] += np.einsum("i,ab->aib", self.value[k], eye)
            slope[k][:, :, start[k], :] -= np.einsum("mi,ab->amib", self.slope[k], self.jacobian[k])
            slope[k][:, :, image[k], :] += np.einsum("mi,ab->amib", self.slope[k], eye)
        value *= self.noise
        slope *= self.noise
        moved = self.results(value.reshape(p, n, -1), slope.reshape(p, n, n, -1))
        return np.asarray(samples, np.intp), moved.reshape(len(moved), len(samples), n)

    def physical_common(self) -> Array:
        """Return `common` of the points in physical units.

        The result is (p n, p n), in the units of the record.
        """
        p, n = self.jacobian.shape[:2]
        if self.common is None:
            return np.zeros((p * n, p * n))
        units = np.tile(self.scale, p)
        return np.outer(units, units) * self.common[: p * n, : p * n]

    def common_of_multipliers(self) -> Array:
        """Return variances (n,) of |μ| in `common`."""
        p, n = self.jacobian.shape[:2]
        return np.zeros(n) if self.common is None else np.diag(self.common)[p * n :].copy()

    def physical_root(self) -> tuple[Indices, Array]:
        """Return `root` with points in physical units."""
        samples, root = self.root()
        p, n = self.jacobian.shape[:2]
        units = np.concatenate([np.tile(self.scale, p), np.ones(n)])
        return samples, units[:, None, None] * root

    def results(self, value_error: Array, slope_error: Array) -> Array:
        """Propagate errors of maps to points and multipliers.

        Errors of values (p, n, S) and Jacobians (p, n, n, S) become errors of points and |multipliers| (p n + n, S).
        """
        p, n, samples = value_error.shape
        to_points = np.linalg.inv(cycle_matrix(self.jacobian[None])[0]).reshape(p, n, p, n)
        moved = np.einsum("kaLb,Lbs->kas", to_points, value_error, optimize=True)
        # The Jacobian is read at a point that moved: ∂A/∂x · δx belongs to its error.
        jacobian_error = slope_error + np.einsum("kabc,kcs->kabs", self.curvature, moved, optimize=True)
        sizes = np.einsum("mkab,kabs->ms", self.gradient, jacobian_error, optimize=True)
        return np.concatenate([moved.reshape(p * n, samples), sizes])


def cycle_matrix(jacobian: Array) -> Array:
    """Return the matrix of the cycle equations.

    The matrix (C, p n, p n) is that of δx_{k+1} - A_k δx_k, with A the Jacobians (C, p, n, n).
    """
    cycles, p, n, _ = jacobian.shape
    matrix = np.zeros((cycles, p, n, p, n))
    eye = np.eye(n)
    for k in range(p):
        matrix[:, k, :, (k + 1) % p, :] += eye
        matrix[:, k, :, k, :] -= jacobian[:, k]
    return matrix.reshape(cycles, p * n, p * n)
