"""Decompositions whose signs, bases and order do not depend on LAPACK."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from kapitza.solve import (
    basis_of,
    eigenvalues,
    eigenvectors,
    first_largest,
    largest_first,
    ordered,
    orthogonal_factor,
    pivoted_columns,
    singular_vectors,
    symmetric_eigenvectors,
    symmetric_function,
    triangular_factor,
)


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def positive_at_the_largest(columns):
    rows = first_largest(np.abs(columns))
    lead = columns[rows, np.arange(columns.shape[1])]
    return bool((np.abs(lead.imag) < 1e-14).all() and (lead.real > 0).all())


def test_first_of_equal_sizes_counts():
    assert first_largest(np.array([1.0, 2.0, 2.0 * (1 + 1e-9), 1.5])) == 1
    assert list(largest_first(np.array([1.0, 2.0, 2.0 * (1 + 1e-9), 3.0, 0.0]))) == [3, 1, 2, 0, 4]
    assert largest_first(np.zeros(0)).size == 0


def test_symmetric_vectors_solve_their_equation(rng):
    a, b = rng.standard_normal((2, 5, 5))
    matrix, metric = a + a.T, b @ b.T + np.eye(5)
    for m in (None, metric):
        values, vectors = symmetric_eigenvectors(matrix, m)
        weight = np.eye(5) if m is None else m
        assert np.allclose(matrix @ vectors, weight @ vectors * values)
        assert np.allclose(vectors.T @ weight @ vectors, np.eye(5))
        assert (np.diff(values) > 0).all()
        assert positive_at_the_largest(vectors)


def test_a_space_has_one_basis(rng):
    """Whatever orthonormal basis of a space comes in, the same one comes out; coordinate planes give unit vectors."""
    space = np.linalg.qr(rng.standard_normal((6, 3)))[0]
    first = basis_of(space)
    assert np.allclose(first @ first.T, space @ space.T)
    for seed in range(5):
        assert np.allclose(basis_of(space @ ortho_group.rvs(3, random_state=seed)), first, atol=1e-12)
    plane = np.eye(4)[:, [1, 3]] @ ortho_group.rvs(2, random_state=1)
    assert np.allclose(basis_of(plane), np.eye(4)[:, [1, 3]], atol=1e-14)
    assert basis_of(np.zeros((4, 0))).shape == (4, 0)


def test_equal_eigenvalues_have_one_basis(rng):
    turn = ortho_group.rvs(5, random_state=2)
    matrix = turn @ np.diag([1.0, 1.0, 1.0, 2.0, 3.0]) @ turn.T
    _, expected = symmetric_eigenvectors((matrix + matrix.T) / 2)
    for seed in range(4):
        noise = 1e-16 * np.random.default_rng(seed).standard_normal((5, 5))
        _, vectors = symmetric_eigenvectors((matrix + matrix.T) / 2 + noise + noise.T)
        assert np.allclose(vectors, expected, atol=1e-9)


def test_general_eigenvectors_in_order(rng):
    """Rotations with equal moduli, a real pair and a double pair: order and vectors do not depend on the input's."""
    blocks = [np.array([[c, -s], [s, c]]) for c, s in ((0.6, 0.8), (0.8, 0.6), (0.6, 0.8))]
    matrix = np.zeros((8, 8))
    for i, block in enumerate(blocks):
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    matrix[6, 6], matrix[7, 7] = -1.0, 0.5
    base = rng.standard_normal((8, 8)) + 3 * np.eye(8)
    matrix = base @ matrix @ np.linalg.inv(base)
    values, vectors = eigenvectors(matrix)
    assert np.allclose(matrix @ vectors, vectors * values)
    expected = [0.8 + 0.6j, 0.8 - 0.6j, 0.6 + 0.8j, 0.6 - 0.8j, 0.6 + 0.8j, 0.6 - 0.8j, -1.0, 0.5]
    assert np.allclose(values, expected)
    assert np.allclose(eigenvalues(matrix), values)
    assert positive_at_the_largest(vectors)
    assert np.allclose(vectors[:, 0], vectors[:, 1].conj())
    plain = np.linalg.eig(matrix)
    pairs = [i for i in range(8) if plain.eigenvalues[i].imag > 0]
    order = [k for i in pairs[::-1] for k in (i, i + 1)] + [i for i in range(8) if plain.eigenvalues[i].imag == 0]
    order = order[1::-1] + order[2:]  # the conjugate first, as other programs may return it
    again, turned = ordered(plain.eigenvalues[order], plain.eigenvectors[:, order] * np.exp(0.7j))
    assert np.allclose(again, values)
    assert np.allclose(turned, vectors, atol=1e-9)


def test_defective_matrices_keep_their_vectors():
    values, vectors = eigenvectors(np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert np.allclose(values, 1.0)
    assert np.allclose(np.abs(vectors[0]), 1.0)


@pytest.mark.parametrize("shape", [(4, 4), (7, 3), (3, 7)])
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("rank", [2, 3])
def test_singular_vectors_multiply_back(rng, shape, kind, rank):
    matrix = (rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))).astype(kind)
    if kind is complex:
        matrix = matrix * np.exp(1j * rng.random((shape[0], 1)))
    for full in (True, False):
        left, values, right = singular_vectors(matrix, full)
        count = values.size
        assert np.allclose((left[:, :count] * values) @ right[:count], matrix)
        assert np.allclose(right @ right.conj().T, np.eye(len(right)))
        assert np.allclose(left.conj().T @ left, np.eye(left.shape[1]))
        assert positive_at_the_largest(right.conj().T)


def test_singular_vectors_of_flipped_input_agree(rng):
    """A and S A, S = diag(±1): the right vectors are the same, also those of the null space."""
    matrix = rng.standard_normal((5, 3)) @ rng.standard_normal((3, 6))
    right = singular_vectors(matrix)[2]
    flipped = singular_vectors(matrix * np.array([1, -1, -1, 1, -1.0])[:, None])[2]
    assert np.allclose(flipped, right, atol=1e-10)


def test_triangles_have_positive_leads(rng):
    matrix = rng.standard_normal((2, 7, 4))
    matrix[1, :, 1] = 2 * matrix[1, :, 0]
    q, r = orthogonal_factor(matrix)
    assert np.allclose(q @ r, matrix)
    assert (np.diagonal(r[0]) > 0).all()
    assert np.allclose(triangular_factor(matrix), r)
    assert np.allclose(triangular_factor(matrix * _S[:, None]), r, atol=1e-13)


_S = np.array([1, -1, 1, -1, -1, 1, 1.0])


def test_functions_of_symmetric_matrices(rng):
    half = rng.standard_normal((3, 4, 4))
    matrix = half @ np.swapaxes(half, 1, 2)
    root = symmetric_function(matrix, np.sqrt)
    assert np.allclose(root @ root, matrix)
    assert np.allclose(root, np.swapaxes(root, 1, 2))


def test_pivots_take_the_first_of_equal_columns():
    matrix = np.array([[1.0, 1.0 + 1e-12, 0.0], [0.0, 0.0, 1.0 - 1e-12]])
    order, lengths = pivoted_columns(matrix)
    assert list(order) == [0, 2]
    assert np.allclose(lengths, 1.0)
    order, lengths = pivoted_columns(np.array([[1.0, 2.0], [2.0, 4.0]]))
    assert list(order) == [1, 0]
    assert lengths[1] < 1e-15
