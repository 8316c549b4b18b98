"""Bifurcations as families in two parameters.

The families are zeros of minimally extended systems.
The block G of the bordered system [[A, B], [Cᵀ, 0]] [V; G] = [0; 1] vanishes where A has as many null vectors as there
are borders: one for A = M - 1 with the phase condition (folds) and A = M + 1 (doublings), two for A = M² - 2κM + 1
(Neimark-Sacker points, κ = cos φ) and A = f_x² + kI (Hopf points, k = ω²). κ and k pass 1:1, 1:2 and Bogdanov-Takens
points regularly, where φ and ω have a square root. The squares are written as two turns, so that only products with
f_x or with single segments occur. By the symmetry of second derivatives the gradient of an entry of G by all unknowns
is -wᵀ d/dε F_z(x + εv), v from V, w from the transpose: two linearisations for each turn of v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.branch import EQUILIBRIUM_FOLDS
from kapitza.continuation.codimension_two import curve_readings, curve_tests, judged_on_curve
from kapitza.continuation.equilibria import EquilibriumFamily, EquilibriumPoint
from kapitza.continuation.family import Node, Orbit, PlainPoint, Readings, Sample, Subject, Test
from kapitza.continuation.motion import ShootingFamily, ShootingPoint
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.model import Model
from kapitza.solve import DensePoint, singular_vectors

InnerFamily = ShootingFamily | EquilibriumFamily
InnerPoint = ShootingPoint | EquilibriumPoint

DIFFERENCE = 1e-5
"""Step of the differences along v, relative to the sizes of the states; only the gradient of G is differenced."""


@dataclass(frozen=True)
class CurveFamily:
    """Equations of a curve of bifurcations.

    They are the orbit (or equilibrium) equations and G = 0 for z = (x, [T], [κ or k], p, q).
    inner: the family with both parameters free (or more, whose derivatives are wanted), on one node or several; kind:
    what vanishes; b, c: (m, 1) or (m, 2) borders, renewed from point to point; rate: size of f_x [1/s], scales k.
    """

    inner: InnerFamily
    kind: Kind
    b: Array
    c: Array
    rate: float = 1.0

    @property
    def free(self) -> tuple[str, ...]:
        return self.inner.free

    @property
    def model(self) -> Model:
        return self.inner.model

    @property
    def state_sizes(self) -> Array:
        return self.inner.state_sizes

    @property
    def delicate(self) -> bool:
        return False

    @property
    def of_orbits(self) -> bool:
        return isinstance(self.inner, ShootingFamily)

    @property
    def pair(self) -> bool:
        """Whether the bifurcation is one of a pair.

        For a pair κ or k is among the unknowns.
        """
        return self.kind in (Kind.NEIMARK_SACKER, Kind.HOPF)

    @property
    def base(self) -> int:
        """Unknowns of the orbit: nodes and T."""
        return self.inner.scale.size - len(self.free)

    @property
    def scale(self) -> Array:
        return self._scale

    @cached_property
    def _scale(self) -> Array:
        own = self.inner.scale
        angle = [1.0] if self.kind is Kind.NEIMARK_SACKER else [self.rate**2] if self.kind is Kind.HOPF else []
        return np.concatenate([own[: self.base], angle, own[self.base :]])

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        """Return the weights (N,) of squared components.

        The weights define the length of a step.
        """
        return 1.0 / self.scale**2

    def split(self, z: Array) -> tuple[Array, float]:
        """Split off κ or k from the unknowns.

        Returns the unknowns of the inner family, and κ or k.
        """
        if not self.pair:
            return z, 0.0
        return np.delete(z, self.base), float(z[self.base])

    def joined(self, own: Array, square: float) -> Array:
        """Join inner unknowns with κ or k."""
        return np.insert(own, self.base, square) if self.pair else own

    def matrix(self, at: InnerPoint, square: float) -> Array:
        """Return A, square: what is singular on the curve."""
        if isinstance(at, EquilibriumPoint):
            f, rate = at.matrix(), self.rate
            if self.kind is not Kind.HOPF:
                return f
            one = np.eye(f.shape[0])
            return np.block([[f, -rate * one], [square / rate * one, f]])
        if self.kind is Kind.NEIMARK_SACKER:
            return _two_turns(at.inner.closed_segments(), square)
        return at.full()[:, : self.base] if self.kind is Kind.FOLD else at.chain(-1.0)

    def null_vectors(self, at: InnerPoint, square: float) -> tuple[Array, Array, Array]:
        """Return null vectors of the bordered matrix.

        It returns the first column of V (m,), W (m, k) and the first column of G (k,).
        """
        a = self.matrix(at, square)
        size, width = a.shape[0], self.b.shape[1]
        bordered = np.zeros((size + width, size + width))
        bordered[:size, :size], bordered[:size, size:], bordered[size:, :size] = a, self.b, self.c.T
        # The right-hand side [0; 1] normalises the null vectors by the borders.
        right = np.zeros((size + width, width))
        right[size:] = np.eye(width)
        v = np.asarray(np.linalg.solve(bordered, right[:, 0]), float)
        w = np.asarray(np.linalg.solve(bordered.T, right), float)
        return v[:size], w[:size], v[size:]

    def residual(self, z: Array) -> Array:
        own, square = self.split(z)
        at = self.inner.linearise(own)
        return np.concatenate([at.residual, self.null_vectors(at, square)[2]])

    def linearise(self, z: Array) -> CurvePoint:
        own, square = self.split(z)
        at = self.inner.linearise(own)
        v, w, g = self.null_vectors(at, square)
        base = at.full()
        jacobian = np.vstack([base, -self._by_unknowns(own, v, w)])
        if self.pair:
            column = np.concatenate([np.zeros(base.shape[0]), -self._by_square(v, w)])
            jacobian = np.insert(jacobian, self.base, column, axis=1)
        return CurvePoint(np.concatenate([at.residual, g]), jacobian, self, at, v, w)

    def _by_unknowns(self, own: Array, v: Array, w: Array) -> Array:
        """Return wᵀ (dA/dz) v (k, N).

        The columns are all unknowns of the inner family.
        """
        turns = 2 if self.pair else 1
        rows = v.size // turns
        parts = [w[i * rows : (i + 1) * rows].T @ self.second(own, v[i * rows : (i + 1) * rows]) for i in range(turns)]
        return np.sum(parts, axis=0)

    def _by_square(self, v: Array, w: Array) -> Array:
        """Return wᵀ (dA/dκ) v or wᵀ (dA/dk) v.

        Shape (k,): both are in the last rows only.
        """
        n, half = len(self.model.states), v.size // 2
        if self.kind is Kind.HOPF:
            return w[half:].T @ v[:half] / self.rate
        return -2 * w[-n:].T @ v[half : half + n]

    def second(self, own: Array, v: Array) -> Array:
        """Return second derivatives along v.

        It returns d/dε of the Jacobian's rows along v, (rows of A, N), by two linearisations.
        """
        rows = v.size
        direction = np.zeros(own.size)
        direction[:rows] = v
        size = float(np.abs(direction / self.inner.scale).max())
        if size == 0.0:
            return np.zeros((rows, own.size))
        # Two linearisations instead of second-order variations, which took 4.9 ms against 0.3 ms per run.
        step = DIFFERENCE / size
        ahead = self.inner.linearise(own + step * direction).full()
        behind = self.inner.linearise(own - step * direction).full()
        return (ahead - behind)[:rows] / (2 * step)

    def allowed(self, z: Array) -> bool:
        return self.inner.allowed(self.split(z)[0])

    def with_borders(self, at: InnerPoint, square: float) -> CurveFamily:
        """Return the family with fresh borders.

        The borders are singular vectors of A itself.
        """
        left, _, right = singular_vectors(self.matrix(at, square))
        width = 2 if self.pair else 1
        return replace(self, b=left[:, -width:], c=right[-width:].T)

    def subject(self, nodes: Sequence[Node]) -> Subject:
        if isinstance(self.inner, ShootingFamily):
            return Subject(self.kind.value, self.inner.full_repeats)
        return Subject(self.kind.value if self.kind is Kind.HOPF else EQUILIBRIUM_FOLDS, method="Newton")


@dataclass(frozen=True)
class CurvePoint(DensePoint, PlainPoint):
    """Linearised extended system at one point.

    The Jacobian with what it was made of: the inner point, V and W.
    """

    family: CurveFamily
    inner: InnerPoint
    v: Array
    w: Array

    def renewed(self, z: Array) -> tuple[CurveFamily, CurvePoint]:
        """Return the family with borders from the null vectors.

        The bordered matrix stays far from singular. On the curve other borders combine the rows of the gradient of G
        and nothing else, so the null vector stays.
        """
        own, square = self.family.split(z)
        family, point = self.family, self.inner
        renewed = self.inner.renewed(own)
        if renewed is not None:
            family, point = replace(family, inner=renewed[0]), renewed[1]
        # Borders near the null vectors keep the bordered matrix well conditioned.
        family = family.with_borders(self.inner, square)
        return family, replace(self, family=family, inner=point)

    def inner_orbit(self, z: Array) -> Orbit | None:
        return self.inner.orbit(self.family.split(z)[0])

    def motion(self) -> Array | None:
        return self.inner.motion()

    def readings(self, node: Node) -> Readings:
        return curve_readings(self, node)

    @property
    def tests(self) -> tuple[Test, ...]:
        return curve_tests(self.family.kind, self.family.of_orbits)

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        return judged_on_curve(self, kind, node, first, last)

    def sample(self, z: Array, readings: Readings) -> Sample:
        own, _ = self.family.split(z)
        if isinstance(self.inner, EquilibriumPoint):
            return Sample(own[-2:], own[: self.inner.family.size], 0.0, readings.multipliers)
        orbit = self.inner.orbit(own)
        whole = readings.multipliers if orbit.closing is None else readings.multipliers**2
        nodes = orbit.whole_nodes() if orbit.frame.dynamics.is_map else None
        return Sample(own[-2:], orbit.section_point(), orbit.full_period, whole, nodes)


def _two_turns(segments: Array, cosine: float) -> Array:
    """Return the matrix of tangents along two turns.

    The matrix (2Jn, 2Jn) acts on the tangents v_0 … v_{2J-1}: v_{j+1} = S_j v_j, v_{2J} - 2κ v_J + v_0 = 0.
    """
    count, n = len(segments), segments[0].shape[0]
    matrix = np.zeros((2 * count, n, 2 * count, n))
    for j in range(2 * count):
        matrix[j, :, j] += segments[j % count]
        if j + 1 < 2 * count:
            matrix[j, :, j + 1] -= np.eye(n)
    matrix[-1, :, count] -= 2 * cosine * np.eye(n)
    matrix[-1, :, 0] += np.eye(n)
    return matrix.reshape(2 * count * n, 2 * count * n)
