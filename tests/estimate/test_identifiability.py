import numpy as np
import pytest

from kapitza.estimate.identifiability import analyse

VALUES = np.array([0.0858, 0.317, 4.85e-4, 1.9e-4])
NAMES = ("m", "l", "k2", "k3")


def information(exponents: np.ndarray) -> np.ndarray:
    """Information of data that depend on the products Π θ^exponents (rows) only, seen through random sensitivities."""
    relative = np.random.default_rng(0).normal(size=(50, len(exponents))) @ exponents
    return relative.T @ relative / np.outer(VALUES, VALUES)


def test_scaling_law_is_named():
    found = analyse(information(np.array([[0, 1, 0, 0], [-1, 0, 1, 0], [-1, 0, 0, 1.0]])), NAMES, VALUES)
    assert found.rank == 3
    assert set(found.determined) == {"l", "k2/m", "k3/m"}
    assert "only l, k2/m, k3/m" in found.message()
    np.testing.assert_allclose(found.directions[:, 0], [1, 0, 1, 1], atol=1e-6)


def test_two_free_directions_with_fractional_powers():
    found = analyse(information(np.array([[1, -2, 0, 0], [0, 0, 1, 1.0]])), NAMES, VALUES)
    assert found.rank == 2
    assert set(found.determined) == {"l/m**(1/2)", "k3*k2"}
    assert len(found.undetermined) == 2


def test_full_rank_has_nothing_undetermined():
    found = analyse(np.diag([1.0, 4.0]), ("a", "b"), np.ones(2))
    assert found.complete
    assert found.determined == ("a", "b")
    assert found.condition == pytest.approx(2.0)


def test_a_parameter_at_zero_beside_one_known_to_many_digits_is_determined():
    """The second is zero and measured in its own resolution; the third is exchanged for it to a part in 2,000."""
    information = np.array([[4e12, 0.0, 0.0], [0.0, 1.0, -0.9995], [0.0, -0.9995, 1.0]])
    found = analyse(information, ["k", "c", "d"], np.array([6400.0, 1.0, 1.0]))
    assert found.complete
    exchanged = np.array([[4e12, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]])
    found = analyse(exchanged, ["k", "c", "d"], np.array([64.0, 1.0, 1.0]))
    assert (found.rank, found.determined) == (2, ("k", "d/c"))
    np.testing.assert_allclose(np.abs(found.directions[1:, 0]), 1.0)
    found = analyse(np.diag([4e12, 1.0, 0.0]), ["k", "c", "d"], np.array([64.0, 1.0, 1.0]))
    assert (found.rank, found.determined) == (2, ("k", "c"))
