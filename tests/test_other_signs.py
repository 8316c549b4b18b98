"""The test double of LAPACK gives valid decompositions, and other ones."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg

import kapitza as kz
import other_signs


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("seed", range(5))
def test_they_are_valid(seed, rng):
    other = np.random.default_rng(seed)
    general = rng.standard_normal((5, 5))
    symmetric = general + general.T
    values, vectors = other_signs._eig(other, np.linalg.eig(general))
    assert np.allclose(general @ vectors, vectors * values)
    values, vectors = other_signs._eigh(other, np.linalg.eigh(symmetric))
    assert np.allclose(symmetric @ vectors, vectors * values)
    for matrix in (general[:, :3], general[:3], np.ones((4, 3))):
        for full in (True, False):
            left, values, right = other_signs._svd(other, np.linalg.svd(matrix, full_matrices=full))
            assert np.allclose((left[:, : values.size] * values) @ right[: values.size], matrix)
            assert np.allclose(right @ right.T, np.eye(len(right)))
        for mode in ("reduced", "complete"):
            q, r = other_signs._qr(other, np.linalg.qr(matrix, mode=mode))
            assert np.allclose(q @ r, matrix)


def test_equal_eigenvalues_get_another_basis():
    plain = np.linalg.eigh(np.eye(3))
    other = other_signs._eigh(np.random.default_rng(1), plain)
    assert np.abs(np.abs(other.eigenvectors) - np.eye(3)).max() > 0.1
    assert np.allclose(other.eigenvectors.T @ other.eigenvectors, np.eye(3))


def test_general_eigenvalues_change_their_order_and_keep_their_pairs():
    matrix = np.zeros((6, 6))
    matrix[:2, :2] = [[0.0, 1.0], [-1.0, 0.0]]
    matrix[2:, 2:] = np.diag([3.0, 4.0, 5.0, 6.0])
    orders = set()
    for seed in range(8):
        values, _ = other_signs._eig(np.random.default_rng(seed), np.linalg.eig(matrix))
        orders.add(tuple(values.tolist()))
        above = int(np.flatnonzero(values.imag > 0)[0])
        assert values[above + 1] == values[above].conj()
    assert len(orders) > 4


def test_results_do_not_depend_on_signs(monkeypatch):
    """The mode in which two masses move against each other; three masses with two modes of equal frequency."""
    text = ["x'' + 2*x - y + x**3 = 0", "y'' + 2*y - x + y**3 = 0"]
    model = kz.Model.from_equations(text)

    def found():
        branch = kz.backbone(model, bounds=(1.7, 1.8), mode=1)
        return [branch.points, kz.modal_reduction(np.eye(3), 3 * np.eye(3) - np.ones((3, 3)), 3).shapes]

    plain = found()
    for seed in range(2):
        with monkeypatch.context() as restored:
            for module in (np.linalg, scipy.linalg, scipy.sparse.linalg):
                for name in ("eig", "eigh", "svd", "qr", "orth", "null_space", "eigs", "eigsh", "svds"):
                    if hasattr(module, name):
                        restored.setattr(module, name, getattr(module, name))
            other_signs.install(seed)
            for one, other in zip(plain, found(), strict=True):
                assert np.allclose(one, other, rtol=1e-8, atol=1e-10)
