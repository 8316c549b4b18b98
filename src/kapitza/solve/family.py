"""Families of equations and their border rows.

A family has more unknowns than conditions; border rows make it square.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from kapitza.base.arrays import Array
from kapitza.solve.lapack import getrf, getrs
from kapitza.solve.newton import DenseLinearised, Linearised, Measured, MeasuredSystem


class Solver(Protocol):
    """A factorised matrix: `solve` takes (N,) or (N, q)."""

    def solve(self, right: Array, /) -> Array: ...


class LinearisedFamily(Protocol):
    """F(z) (m,) and its Jacobian at a point.

    The Jacobian (m, N) has any structure; `bordered` adds N - m rows and factorises.

    A singular bordered matrix raises LinAlgError, at the latest when it is solved with.
    """

    @property
    def residual(self) -> Array: ...

    def bordered(self, rows: Array, /) -> Solver: ...


Linear = TypeVar("Linear", bound=LinearisedFamily)
LinearOut = TypeVar("LinearOut", bound=LinearisedFamily, covariant=True)


class Family(Protocol[LinearOut]):
    """Equations F(z) = 0 with more unknowns than equations.

    m equations have N > m unknowns; the solutions are a curve when N = m + 1.

    By convention parameters are the last unknowns. scale: (N,) sizes of the unknowns.
    """

    @property
    def scale(self) -> Array: ...

    def residual(self, z: Array) -> Array: ...

    def linearise(self, z: Array) -> LinearOut: ...


@runtime_checkable
class MeasuredFamily(Protocol):
    """A family measured by an experiment.

    Its residuals have standard deviations, and no derivatives.

    Continuation carries the Jacobian (m, N) from point to point by Broyden's updates; `jacobian` gives the first one
    (from differences, say), and again when the updated one has failed.
    """

    @property
    def scale(self) -> Array: ...

    def measure(self, z: Array) -> Measured: ...

    def jacobian(self, z: Array) -> Array: ...


class DenseSolver:
    """LU factors of a small dense matrix.

    The rows are scaled. A matrix that is singular to working precision raises LinAlgError.
    """

    def __init__(self, matrix: Array):
        # Rows in different units would mislead the choice of pivots.
        self._size = np.maximum.reduce(np.abs(matrix), axis=1)
        sizes = self._size.tolist()
        if not (isfinite(sum(sizes)) and min(sizes) > 0):
            raise np.linalg.LinAlgError("the matrix has an empty or infinite row")
        self._lu, self._pivots, info = getrf(matrix / self._size[:, None])
        if info > 0:
            raise np.linalg.LinAlgError("the matrix is singular")
        self.matrix = matrix

    @property
    def sign(self) -> int:
        """Sign of the determinant."""
        # A handful of numbers at every point of a branch: array operations would take longer.
        sign = 1
        for i, (place, entry) in enumerate(zip(self._pivots.tolist(), self._lu.diagonal().tolist(), strict=True)):
            if (place != i) != (entry < 0):
                sign = -sign
        return sign

    @property
    def determinant(self) -> float:
        return prod(map(abs, self._lu.diagonal().tolist())) * prod(self._size.tolist()) * self.sign

    def solve(self, right: Array) -> Array:
        scaled = right / (self._size if right.ndim == 1 else self._size[:, None])
        return getrs(self._lu, self._pivots, scaled)[0]

    def solve_transposed(self, right: Array) -> Array:
        found = getrs(self._lu, self._pivots, right, trans=1)[0]
        return found / (self._size if right.ndim == 1 else self._size[:, None])


@dataclass(frozen=True)
class DensePoint:
    """A linearised family with a dense Jacobian (m, N)."""

    residual: Array
    jacobian: Array

    def bordered(self, rows: Array) -> DenseSolver:
        return DenseSolver(np.vstack([self.jacobian, rows]))


@dataclass(frozen=True)
class BorderedLinearised(Generic[Linear]):
    """The square system at one point.

    It holds the residual with that of the border, and the factors.
    """

    residual: Array
    solver: Solver
    family: Linear

    def solve(self, residual: Array) -> Array:
        return self.solver.solve(residual)


@dataclass(frozen=True)
class Bordered(Generic[Linear]):
    """A family with linear border rows.

    F(z) = 0 and rows z = targets are a square `System` for `newton`.
    """

    family: Family[Linear]
    rows: Array
    targets: Array

    def _border(self, z: Array) -> Array:
        return self.rows @ z - self.targets

    def residual(self, z: Array) -> Array:
        return np.concatenate([self.family.residual(z), self._border(z)])

    def linearise(self, z: Array) -> BorderedLinearised[Linear]:
        at = self.family.linearise(z)
        return BorderedLinearised(np.concatenate([at.residual, self._border(z)]), at.bordered(self.rows), at)

    def beside(self, at: Linear) -> BorderedLinearised[Linear]:
        """Return a neighbour's matrix with this border.

        A chord iteration begins with it.
        """
        return BorderedLinearised(np.zeros(0), at.bordered(self.rows), at)


@dataclass(frozen=True)
class MeasuredBordered(MeasuredSystem):
    """A measured family with linear border rows.

    The border is exact; its deviation only makes it count as one equation more.
    """

    family: MeasuredFamily
    rows: Array
    targets: Array
    slack: float = field(default=1e-6)

    def measure(self, z: Array) -> Measured:
        found = self.family.measure(z)
        border = self.rows @ z - self.targets
        size = self.slack * np.maximum(np.abs(self.rows) @ self.family.scale, 1e-300)
        return Measured(np.concatenate([found.value, border]), np.concatenate([found.deviation, size]))

    def beside(self, jacobian: Array) -> Linearised:
        square = np.vstack([jacobian, self.rows])
        return DenseLinearised(np.zeros(len(square)), square)
