"""Linear systems with the structure of trajectories.

They are cyclic chains and bands, each with a border.

Periodic orbits, collocation and the fits that carry states along a record all lead to unknowns x_0, x_1, … in which
each equation joins two neighbours, plus a few unknowns (period, parameters) and a few equations (phase, outputs) that
touch everything: the border. Both solvers here take time and memory proportional to the number of nodes and pivot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.solve.lapack import Pivots, gbtrf, gbtrs, getrf, getrs, tbtrs

WIDE = 6
"""Columns of a block from which it is written as a whole; narrow ones go faster element by element."""

MODERATE = 1e4
"""Largest growth along a chain that is marched: rounding of a step grows by this factor."""


@dataclass(frozen=True)
class _Level:
    """One halving of the chain.

    It reduces a right-hand side and substitutes back.
    """

    rotation: Array  # (pairs, 2n, 2n), transposed orthogonal factor
    inverse: Array  # (pairs, n, n), inverse of the triangular factor
    left: Array  # (pairs, n, n), T⁻¹U
    right: Array  # (pairs, n, n), T⁻¹V
    border: Array  # (pairs, n, k), T⁻¹W
    rows: Array  # (m, pairs, n), border rows at the eliminated nodes
    odd: bool


class CyclicSystem:
    """Factorised cyclic chain with a border.

    L_i x_i + R_i x_{i+1} + C_i p = r_i (i = 0 … J-1, x_J = x_0), Σ D_i x_i + E p = s.

    left, right: (J, n, n); columns C: (J, n, k); rows D: (k, J, n); corner E: (k, k).

    Neighbouring equations are paired and their common unknown is removed by an orthogonal transformation of both
    (structured orthogonal elimination, S. J. Wright, SIAM J. Sci. Stat. Comput. 13 (1992) 742), all pairs at once,
    until one equation is left: O(J) work in log2(J) array operations. Products of propagators are never formed, so
    growth and decay along the chain do no harm, and the chain alone may be singular (as for the phase of an
    autonomous orbit) when its border is not.
    """

    def __init__(
        self,
        left: Array,
        right: Array,
        columns: Array | None = None,
        rows: Array | None = None,
        corner: Array | None = None,
    ):
        count, size = left.shape[0], left.shape[1]
        self.count, self.size = count, size
        columns = np.zeros((count, size, 0)) if columns is None else columns
        self.border = columns.shape[2]
        rows = np.zeros((self.border, count, size)) if rows is None else rows
        corner = np.zeros((self.border, self.border)) if corner is None else corner
        # The chain is opened at node 0: nodes 0 … J, the last one being the first again.
        rows = np.concatenate([rows, np.zeros((self.border, 1, size))], axis=1)
        self._levels: list[_Level] = []
        corner = corner.copy()
        while left.shape[0] > 1:
            left, right, columns, rows, corner = self._halve(left, right, columns, rows, corner)
        first = np.vstack([np.hstack([left[0], columns[0]]), np.hstack([rows[:, 0], corner])])
        last = np.zeros_like(first)
        last[:, :size] = np.vstack([right[0], rows[:, -1]])
        self._dense = _factor_dense(first, last)

    def _halve(
        self, left: Array, right: Array, columns: Array, rows: Array, corner: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        pairs, n = left.shape[0] // 2, self.size
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        pair = np.concatenate([right[first], left[second]], axis=1)
        orthogonal, triangle = np.linalg.qr(pair, mode="complete")  # any sign: of equations
        rotation = np.swapaxes(orthogonal, 1, 2)
        inverse = np.linalg.inv(triangle[:, :n])
        to_left = rotation[:, :, :n] @ left[first]
        to_right = rotation[:, :, n:] @ right[second]
        to_border = rotation @ np.concatenate([columns[first], columns[second]], axis=1)
        level = _Level(
            rotation,
            inverse,
            inverse @ to_left[:, :n],
            inverse @ to_right[:, :n],
            inverse @ to_border[:, :n],
            rows[:, 1 : 2 * pairs : 2],
            left.shape[0] % 2 == 1,
        )
        self._levels.append(level)
        kept = rows[:, 0::2].copy() if not level.odd else np.concatenate([rows[:, 0:-1:2], rows[:, -1:]], axis=1)
        kept[:, :pairs] -= np.einsum("mpi,pij->mpj", level.rows, level.left)
        kept[:, 1 : pairs + 1] -= np.einsum("mpi,pij->mpj", level.rows, level.right)
        corner = corner - np.einsum("mpi,pik->mk", level.rows, level.border)
        tail = slice(2 * pairs, None)
        return (
            np.concatenate([to_left[:, n:], left[tail]]),
            np.concatenate([to_right[:, n:], right[tail]]),
            np.concatenate([to_border[:, n:], columns[tail]]),
            kept,
            corner,
        )

    def solve(self, chain: Array, border: Array | None = None) -> tuple[Array, Array]:
        """Return x (J, n, q) and p (k, q).

        The right-hand sides are r (J, n, q) and s (k, q); vectors without q work too.
        """
        flat = chain.ndim == 2
        chain = chain[..., None] if flat else chain
        edge = np.zeros((self.border, chain.shape[2])) if border is None else np.asarray(border, float)
        edge = edge[..., None] if edge.ndim == 1 else edge
        n = self.size
        reduced: list[Array] = []
        for level in self._levels:
            pairs = level.inverse.shape[0]
            both = np.concatenate([chain[0 : 2 * pairs : 2], chain[1 : 2 * pairs : 2]], axis=1)
            both = level.rotation @ both
            middle = level.inverse @ both[:, :n]
            edge = edge - np.einsum("mpi,piq->mq", level.rows, middle)
            reduced.append(middle)
            chain = np.concatenate([both[:, n:], chain[2 * pairs :]])
        solution = _solve_dense(self._dense, np.concatenate([chain[0], edge]))
        ends, p = solution[:n], solution[n:]
        nodes = np.stack([ends, ends])
        for level, middle in zip(reversed(self._levels), reversed(reduced), strict=True):
            pairs = middle.shape[0]
            inner = middle - level.left @ nodes[:pairs] - level.right @ nodes[1 : pairs + 1] - level.border @ p
            wider = np.empty((2 * pairs + 1 + level.odd, n, inner.shape[2]))
            wider[0 : 2 * pairs + 1 : 2] = nodes[: pairs + 1]
            wider[1 : 2 * pairs : 2] = inner
            if level.odd:
                wider[-1] = nodes[-1]
            nodes = wider
        x = nodes[:-1]
        return (x[..., 0], p[:, 0]) if flat else (x, p)

    def signed_log_determinant(self) -> tuple[float, float]:
        """Return sign and logarithm of |det| of the whole matrix, as np.linalg.slogdet does.

        An eliminated node contributes det Qᵀ · det T · (-1)ⁿ: its columns are n places to the right of T's rows.
        """
        lu, scale, pivots = self._dense
        diagonal = np.diag(lu)
        swapped = int(np.count_nonzero(pivots != np.arange(pivots.size)))
        sign = (-1.0) ** swapped * float(np.prod(np.sign(diagonal)))
        size = float(np.log(np.abs(diagonal)).sum() + np.log(scale).sum())
        for level in self._levels:
            inverse = np.diagonal(level.inverse, axis1=1, axis2=2)  # 1/T_ii
            turned: Array = np.sign(np.linalg.det(level.rotation)) * np.sign(inverse).prod(axis=1)
            sign *= float(turned.prod()) * (-1.0) ** (self.size * len(inverse))
            size -= float(np.log(np.abs(inverse)).sum())
        return sign, size


class MarchedChain:
    """The chain of `CyclicSystem` with R_i = -1, marched.

    x_{i+1} = L_i x_i + C_i p - r_i from x_0 on.

    One triangular band solve carries x_0 and p through the whole chain; n + k equations for both are left, the closure
    x_J = x_0 and the border. Errors grow with the products of the L_i, whose largest entry is `growth`: beyond
    `MODERATE` take `CyclicSystem`. reach: (J, n, n + k) derivatives of x_1 … x_J by x_0 and p.
    """

    def __init__(self, left: Array, columns: Array, rows: Array, corner: Array):
        self.count, self.size = left.shape[0], left.shape[1]
        self.border = columns.shape[2]
        n, total = self.size, self.count * self.size
        band = np.zeros((self.count, n, 2 * n))
        row, column = np.indices((n, n))
        band[:-1, column, n + row - column] = -left[1:]
        # LAPACK wants the band column by column: this is its transpose.
        self._band = band.reshape(total, 2 * n).T
        start = np.zeros((n + self.border, total))
        start[:n, :n] = left[0].T
        start[n:] = columns.reshape(total, self.border).T
        flat = self._marched(start.T)
        self.reach = flat.reshape(self.count, n, n + self.border)
        self.growth = float(np.abs(flat[:, :n]).max()) if np.isfinite(flat).all() else np.inf
        if self.growth > MODERATE:
            return
        self._nodes = np.concatenate([np.eye(n, n + self.border), flat[:-n]])
        self._rows = rows.reshape(self.border, total)
        first = np.concatenate([self.reach[-1], self._rows @ self._nodes])
        first[n:, n:] += corner
        last = np.zeros_like(first)
        last[:n, :n] = -np.eye(n)
        self._dense = _factor_dense(first, last)

    def _marched(self, right: Array) -> Array:
        return tbtrs(self._band, right, uplo="L", diag="U")[0]

    def solve(self, chain: Array, border: Array | None = None) -> tuple[Array, Array]:
        """Return x (J, n, q) and p (k, q).

        The right-hand sides are r (J, n, q) and s (k, q); vectors without q work too.
        """
        flat, n = chain.ndim == 2, self.size
        part = self._marched(-chain.reshape(self.count * n, -1))
        edge = np.zeros((self.border, part.shape[1])) if border is None else np.asarray(border, float)
        edge = edge.reshape(self.border, part.shape[1])
        right = np.concatenate([-part[-n:], edge - self._rows[:, n:] @ part[:-n]])
        known = _solve_dense(self._dense, right)
        x = self._nodes @ known
        x[n:] += part[:-n]
        if flat:
            return x.reshape(self.count, n), known[n:, 0]
        return x.reshape(self.count, n, -1), known[n:]


def closed_chain(left: Array, columns: Array, rows: Array, corner: Array) -> MarchedChain | CyclicSystem:
    """Factorise a closed chain with a border.

    It solves L_i x_i - x_{i+1} + C_i p = r_i, Σ D_i x_i + E p = s. The chain is marched where little grows along it.
    """
    marched = MarchedChain(left, columns, rows, corner)
    if marched.growth <= MODERATE:
        return marched
    return CyclicSystem(left, np.broadcast_to(-np.eye(left.shape[1]), left.shape), columns, rows, corner)


def _factor_dense(first: Array, last: Array) -> tuple[Array, Array, Pivots]:
    """Factorise first + last by row-scaled LU with pivoting.

    Raises LinAlgError when the matrix is singular to working precision.

    Rows are scaled by the sizes before the sum, so that a row which cancels to rounding counts as empty.
    """
    matrix = first + last
    scale = np.maximum(np.abs(first), np.abs(last)).max(axis=1, initial=0.0)
    if not np.isfinite(scale).all() or (scale == 0).any():
        raise np.linalg.LinAlgError("the reduced system has an empty or infinite row")
    lu, pivots, info = getrf(matrix / scale[:, None])
    if info > 0 or np.abs(np.diag(lu)).min(initial=1.0) < 2e-15 * np.abs(np.diag(lu)).max(initial=1.0):
        raise np.linalg.LinAlgError("the reduced system is singular to working precision")
    return lu, scale, pivots


def _solve_dense(factors: tuple[Array, Array, Pivots], right: Array) -> Array:
    lu, scale, pivots = factors
    # scipy.linalg.lu_solve takes three times as long for so few unknowns.
    return getrs(lu, pivots, right / scale[:, None])[0]


class BorderedBand:
    """Factorised band matrix with a border.

    [[A, C], [D, E]] [x, p] = [r, s].

    band: (lower + upper + 1, N) in diagonal order, band[upper + i - j, j] = A[i, j]; columns C (N, k), rows D (k, N),
    corner E (k, k). A is factorised with row pivoting (LAPACK gbtrf), the border by its Schur complement E - D A⁻¹ C,
    with one step of refinement. A must be regular on its own. reached: A⁻¹ C (N, k).
    product: A x of x (N, q) by other means. The band is not kept then: it comes as the last rows of an array
    (2 lower + upper + 1, N), column by column in memory, in which the factors take its place.
    """

    def __init__(
        self,
        band: Array,
        lower: int,
        upper: int,
        columns: Array | None = None,
        rows: Array | None = None,
        corner: Array | None = None,
        truncate: float = 0.0,
        product: Callable[[Array], Array] | None = None,
    ):
        self.lower, self.upper, self.count = lower, upper, band.shape[1]
        padded = band
        if product is None:
            # Column by column in memory, as LAPACK wants it: a copy would cost twice the factorisation.
            padded = np.zeros((2 * lower + upper + 1, self.count), order="F")
            padded[lower:] = band
        self.multiply = product or functools.partial(_by_diagonals, band, lower, upper)
        self._lu, self._pivots, info = gbtrf(padded, lower, upper, overwrite_ab=True)
        if info > 0:
            raise np.linalg.LinAlgError(f"the band matrix is singular at row {info}")
        self.columns = np.zeros((self.count, 0)) if columns is None else columns
        self.border = self.columns.shape[1]
        self.rows = np.zeros((self.border, self.count)) if rows is None else rows
        self.corner = np.zeros((self.border, self.border)) if corner is None else corner
        self.reached = self._band_solve(self.columns) if self.border else self.columns
        # Overflow makes the Schur complement infinite, which scaled_inverse refuses (LinAlgError).
        with np.errstate(over="ignore", invalid="ignore"):
            self.schur = self.corner - self.rows @ self.reached
        self.schur_inverse = scaled_inverse(self.schur, truncate)

    def _band_solve(self, right: Array) -> Array:
        solution, info = gbtrs(self._lu, self.lower, self.upper, right, self._pivots)
        if info != 0:
            raise np.linalg.LinAlgError(f"gbtrs refused argument {-info}")
        return solution

    @property
    def log_determinant(self) -> float:
        """log|det A| of the band alone."""
        return float(np.log(np.abs(self._lu[self.lower + self.upper])).sum())

    def _once(self, right: Array, border: Array) -> tuple[Array, Array]:
        x = self._band_solve(right)
        if not self.border:
            return x, border
        p = self.schur_inverse @ (border - self.rows @ x)
        return x - self.reached @ p, p

    def solve(self, right: Array, border: Array | None = None, refine: bool = True) -> tuple[Array, Array]:
        """Return x and p.

        x: (N, q) or (N,), p: (k, q) or (k,).
        """
        flat = right.ndim == 1
        right = right[:, None] if flat else right
        border = np.zeros((self.border, right.shape[1])) if border is None else np.asarray(border, float)
        border = border[:, None] if border.ndim == 1 else border
        x, p = self._once(right, border)
        if refine:
            dx, dp = self._once(right - self.multiply(x) - self.columns @ p, border - self.rows @ x - self.corner @ p)
            x, p = x + dx, p + dp
        return (x[:, 0], p[:, 0]) if flat else (x, p)

    def solve_given(self, right: Array, p: Array) -> tuple[Array, Array]:
        """Solve the band for a known border.

        It solves A x = r - C p with x (N,) and p (k,).
        """
        return self._band_solve((right - self.columns @ p)[:, None])[:, 0], p


def _by_diagonals(band: Array, lower: int, upper: int, x: Array) -> Array:
    """Return A x for x (N, q)."""
    total, count = np.zeros_like(x), band.shape[1]
    for offset in range(-lower, upper + 1):
        start, stop = max(0, -offset), min(count, count - offset)
        diagonal = band[upper - offset, start + offset : stop + offset]
        total[start:stop] += diagonal[:, None] * x[start + offset : stop + offset]
    return total


def scaled_inverse(matrix: Array, truncate: float) -> Array:
    """Invert a small matrix after scaling.

    Rows and columns are made free of units. With `truncate` the weak directions are left out.
    """
    if not matrix.size:
        return matrix
    size = np.sqrt(np.abs(np.diag(matrix)))
    size = np.where(size > 0, size, 1.0) if truncate else np.abs(matrix).max(axis=1)
    if not np.isfinite(matrix).all() or (size == 0).any():
        raise np.linalg.LinAlgError("the border has an empty or infinite row")
    if not truncate:
        return np.asarray(np.linalg.inv(matrix / size[:, None]) / size, float)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / (2 * np.outer(size, size)))  # any sign: V f(λ) Vᵀ
    kept = np.abs(values) > truncate * np.abs(values).max()
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return np.asarray(inverse / np.outer(size, size), float)


def inverse_within(matrix: Array, free: NDArray[np.bool_], truncate: float) -> Array:
    """Invert the free rows and columns of a matrix.

    free: (k,). The inverse is zero elsewhere: held parameters have no variance.
    """
    inside, inverse = np.ix_(free, free), np.zeros_like(matrix)
    inverse[inside] = scaled_inverse(matrix[inside], truncate)
    return inverse


def fold(count: int) -> NDArray[np.intp]:
    """Return the places of a closed chain's nodes.

    They turn the chain into a band: node i goes to place fold(count)[i].
    Nodes are taken from both ends in turn (0, J-1, 1, J-2, …), so neighbours on the circle are at most two places
    apart.
    """
    order = np.empty(count, np.intp)
    order[0::2] = np.arange((count + 1) // 2)
    order[1::2] = count - 1 - np.arange(count // 2)
    place = np.empty(count, np.intp)
    place[order] = np.arange(count)
    return place


def scatter_blocks(band: Array, upper: int, blocks: Array, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> None:
    """Add blocks to a band in diagonal order.

    The top left corners of the blocks (K, a, b) are at (rows[k], columns[k]).
    Blocks may overlap, but no two may have the same corner.
    """
    _, a, b = blocks.shape
    if not len(blocks):
        return
    below, apart = rows - columns, np.diff(columns[:2], append=columns[0] + 1)[0]
    # Blocks in separate, evenly spaced rows, the usual case, are reached by slices: several times faster than by index.
    regular = apart > 0 and (below == below[0]).all() and (np.diff(columns) == apart).all()
    place = upper + below[0]
    if regular and apart >= b >= WIDE and band.strides[0] == band.itemsize and b - 1 <= place <= band.shape[0] - a:
        # No two share a column: element (i, j) of each is at the same distance from its corner, all at once.
        item, column = band.strides
        as_strided(band[place:, columns[0] :], blocks.shape, (apart * column, item, column - item))[...] += blocks
        return
    for i in range(a):
        for j in range(b):
            if regular:
                along = slice(columns[0] + j, columns[-1] + j + 1, apart)
                band[place + i - j, along] += blocks[:, i, j]
            else:
                band[upper + below + i - j, columns + j] += blocks[:, i, j]
