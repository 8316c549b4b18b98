"""Matrix factors with a fixed order, basis and sign.

They are eigenvectors, singular vectors and QR factors.
LAPACK leaves open the sign (complex: the phase) of every vector, the basis of the space of equal eigenvalues and the
order of the eigenvalues of a general matrix. Processors with other kernels choose differently. Convention here:

- the largest component of a vector is positive; of components equal to within TIE the first one counts;
- vectors of equal eigenvalues (to within EQUAL) are the echelon basis of their space, see `basis_of`;
- eigenvalues of general matrices: largest modulus first, then largest real part, then positive imaginary part.

Code outside this module calls np.linalg.eig, eigh, svd and qr only where signs, order and basis cancel, with the reason
on the same line in a comment "any sign: ..." (tests/test_architecture.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Complex, Numbers
from kapitza.solve.lapack import metric_eigenvectors

TIE = 1e-6
"""Relative difference below which two sizes count as equal: far above rounding, far below differences that matter."""

SAME_ORDER = 1e-8
"""Relative difference of moduli or real parts of eigenvalues that does not decide their order: conservative orbits have
several multipliers of modulus 1, to about 1e-10."""

EQUAL = 1e-13
"""Gap between values, over the largest, below which vectors have no digits: their error is rounding over gap."""

EQUAL_GENERAL = 1e-10
"""The same for general matrices, over the eigenvalue itself: their eigenvalues are less exact."""

SPANNING = 1e-3
"""Smallest singular value of unit vectors that span a space; below it the matrix counts as defective."""


def first_largest(sizes: Array, axis: int = 0) -> Any:
    """Return the index of the largest size.

    The sizes are ≥ 0; of those equal to within TIE the first one counts.
    """
    sizes = np.asarray(sizes)
    return np.argmax(sizes >= (1 - TIE) * sizes.max(axis=axis, keepdims=True), axis=axis)


def largest_first(sizes: Array) -> NDArray[np.intp]:
    """Return the order of sizes (n,), largest first.

    The sizes are ≥ 0; those equal to within TIE keep their order.
    """
    sizes = np.asarray(sizes, float)
    return np.lexsort((np.arange(sizes.size), _levels(sizes, TIE)))


def oriented(vectors: Any) -> Any:
    """Return columns (..., n, m) with fixed signs.

    Each is multiplied by ±1, or a complex unit, so that its largest component is positive.
    """
    if not vectors.size:
        return vectors
    row = np.expand_dims(first_largest(np.abs(vectors), axis=-2), -2)
    lead = np.take_along_axis(vectors, row, axis=-2)
    size = np.abs(lead)
    return vectors * np.where(size > 0, lead.conj() / np.where(size > 0, size, 1.0), 1.0)


def basis_of(vectors: Any) -> Any:
    """Return the echelon basis of a space.

    It is V Q with Q unitary; the orthonormal columns V (n, g) span the space.

    Column k has the largest component that a unit vector of the space can have at pivot row k, and the columns after it
    vanish there. It depends on the space alone. V may be orthonormal in any metric.
    """
    rest = vectors
    found: list[Numbers] = []
    while rest.shape[1]:
        row = int(first_largest(np.linalg.norm(rest, axis=1)))
        direction = rest[row].conj()[:, None]
        turn = np.linalg.qr(direction, mode="complete")[0]
        found.append(rest @ turn[:, :1])
        rest = rest @ turn[:, 1:]
    return oriented(np.hstack(found)) if found else vectors


def eigenvalues(matrix: Array) -> Complex:
    """Return the eigenvalues (n,) of a real matrix.

    They have the order of this module; conjugate pairs are neighbours.
    """
    found = np.asarray(np.linalg.eigvals(matrix), np.complex128)
    return found[_order(found)]


def eigenvectors(matrix: Array) -> tuple[Complex, Complex]:
    """Return eigenvalues and eigenvectors of a real matrix.

    The eigenvalues are (n,), the unit eigenvectors (n, n), as columns.
    """
    values, vectors = np.linalg.eig(matrix)
    return ordered(np.asarray(values, np.complex128), np.asarray(vectors, np.complex128))


def ordered(values: Complex, vectors: Complex) -> tuple[Complex, Complex]:
    """Return eigenvalues and eigenvectors in fixed order and signs.

    They belong to a real matrix, found by any method; order and signs are those of this module.
    """
    order = _order(values)
    values, vectors = values[order], vectors[:, order] / np.linalg.norm(vectors[:, order], axis=0).clip(1e-300)
    for members in _equal(values):
        space, spread, _ = np.linalg.svd(vectors[:, members], full_matrices=False)
        if spread[-1] > SPANNING:
            vectors[:, members] = basis_of(space)
    return values, oriented(vectors)


def symmetric_eigenvectors(matrix: Array, metric: Array | None = None) -> tuple[Array, Array]:
    """Return λ (n,) ascending and V (n, n).

    A V = B V diag(λ), Vᵀ B V = 1; B is the metric, 1 if None.
    """
    values, vectors = np.linalg.eigh(matrix) if metric is None else metric_eigenvectors(matrix, metric)
    values, vectors = np.asarray(values, float), np.array(vectors, float)
    for members in _close(values):
        vectors[:, members] = basis_of(vectors[:, members])
    return values, oriented(vectors)


def symmetric_function(matrix: Array, function: Callable[[Array], Array]) -> Array:
    """Return V f(λ) Vᵀ of symmetric matrices.

    The matrices are (..., n, n). Roots and inverses need no choice of signs or basis.
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def singular_vectors(matrix: Any, full: bool = True) -> tuple[Any, Array, Any]:
    """Return U, σ descending, Vᴴ of a matrix.

    A = U diag(σ) Vᴴ; the largest component of each right vector is positive.

    Null spaces have the echelon basis. Without `full` the left vectors of vanishing σ are arbitrary: leave them out.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=full)
    left, right = left.copy(), right.conj().T.copy()
    small = int((values > EQUAL * values.max(initial=0.0)).sum())
    for members in _close(values[:small]):
        turned = basis_of(right[:, members])
        left[:, members] = left[:, members] @ (right[:, members].conj().T @ turned)
        right[:, members] = turned
    for vectors in (left, right):
        vectors[:, small:] = basis_of(vectors[:, small:])
    signed = oriented(right[:, :small])
    left[:, :small] *= np.sum(right[:, :small].conj() * signed, axis=0)
    right[:, :small] = signed
    return left, values, right.conj().T


def orthogonal_factor(matrix: Array) -> tuple[Array, Array]:
    """Return Q and R of A = Q R.

    Q: (..., m, k), R: (..., k, n); the first entry of every row of R is positive.
    """
    orthogonal, triangle = np.linalg.qr(matrix)
    sign = _row_signs(triangle)
    return orthogonal * np.swapaxes(sign, -1, -2), triangle * sign


def triangular_factor(matrix: Array) -> Array:
    """Return the triangular factor of A = Q R.

    R is (..., k, n); the first entry of every row is positive.
    """
    triangle = np.asarray(np.linalg.qr(matrix, mode="r"), float)
    return triangle * _row_signs(triangle)


def pivoted_columns(matrix: Array) -> tuple[NDArray[np.intp], Array]:
    """Order the columns of a matrix by pivoting.

    The columns of (m, n) are ordered by what they add to those before; the lengths (min(m, n),) of that are returned
    too.

    QR with column pivoting in which of columns equal to within TIE the first one is taken.
    """
    rest = np.array(matrix, float)
    order: list[int] = []
    lengths: list[float] = []
    for _ in range(min(rest.shape)):
        sizes = np.linalg.norm(rest, axis=0)
        sizes[order] = 0.0
        pick = int(first_largest(sizes))
        order.append(pick)
        lengths.append(float(sizes[pick]))
        if sizes[pick] > 0:
            unit = rest[:, pick] / sizes[pick]
            # Twice: once leaves rounding of the first length in the remainder of nearly dependent columns.
            for _ in range(2):
                rest = rest - np.outer(unit, unit @ rest)
    return np.array(order, np.intp), np.array(lengths)


def _row_signs(triangle: Array) -> Array:
    """Return the signs (..., k, 1) of the rows.

    The sign is that of the first entry of a row of R that is not rounding of its column.
    """
    size = np.linalg.norm(triangle, axis=-2, keepdims=True)
    lead = np.argmax(np.abs(triangle) > 1e3 * np.finfo(float).eps * size, axis=-1)[..., None]
    return np.where(np.take_along_axis(triangle, lead, axis=-1) < 0, -1.0, 1.0)


def _levels(sizes: Array, tie: float) -> NDArray[np.intp]:
    """Return the ranks (n,) of sizes.

    The largest has rank 0. Neighbours closer than `tie`, relative, share a rank.
    """
    order = np.argsort(-sizes, kind="stable")
    falling = sizes[order]
    apart = falling[:-1] - falling[1:] > tie * np.abs(falling[:-1])
    ranks = np.zeros(sizes.size, np.intp)
    ranks[order[1:]] = np.cumsum(apart)
    return ranks


def _order(values: Complex) -> NDArray[np.intp]:
    """Return the order of a real matrix's eigenvalues.

    The conjugate of a complex one follows it.
    """
    first, below = np.flatnonzero(values.imag >= 0), list(np.flatnonzero(values.imag < 0))
    own = values[first]
    size = np.abs(own)
    # Real parts in units of the modulus: all from -1 to 1.
    part = own.real / np.where(size > 0, size, 1.0)
    order: list[int] = []
    for i in np.lexsort((-own.imag, _levels(part + 2.0, SAME_ORDER), _levels(size, SAME_ORDER))):
        order.append(int(first[i]))
        if own[i].imag > 0 and below:
            # LAPACK has the conjugate next, other programs anywhere.
            order.append(int(below.pop(int(np.argmin(np.abs(values[below] - own[i].conj()))))))
    return np.array([*order, *below], np.intp)


def _equal(values: Complex) -> list[NDArray[np.intp]]:
    """Return the groups of equal eigenvalues.

    The values are sorted; a group has two or more, each equal to the one before it.
    """
    left = list(range(values.size))
    found: list[NDArray[np.intp]] = []
    while left:
        members = [left.pop(0)]
        for i in list(left):
            if abs(values[i] - values[members[-1]]) <= EQUAL_GENERAL * abs(values[i]):
                members.append(i)
                left.remove(i)
        if len(members) > 1:
            found.append(np.array(members, np.intp))
    return found


def _close(values: Array) -> list[slice]:
    """Return the groups of close values.

    The values are sorted; a group has two or more neighbours that are equal to within rounding of the largest.
    """
    if values.size < 2:
        return []
    apart = np.abs(np.diff(values)) > EQUAL * np.abs(values).max()
    edges = np.concatenate([[0], np.flatnonzero(apart) + 1, [values.size]])
    return [slice(a, b) for a, b in itertools.pairwise(edges) if b - a > 1]
