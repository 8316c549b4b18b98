"""Least squares on problems with known minimisers, bounds and units that must not matter."""

import numpy as np
import pytest

from kapitza.errors import FlowError, Status
from kapitza.solve import gauss_newton


def rosenbrock(x):
    residual = np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    return residual, np.array([[-20 * x[0], 10.0], [-1.0, 0.0]])


def test_rosenbrock_valley():
    result = gauss_newton(rosenbrock, np.array([-1.2, 1.0]))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.x, [1, 1], atol=1e-10)


def test_units_do_not_change_the_path():
    """x2 in units a million times smaller: the same number of iterations and the same answer."""
    unit = np.array([1.0, 1e-6])

    def scaled(z):
        residual, jacobian = rosenbrock(z * unit)
        return residual, jacobian * unit

    plain = gauss_newton(rosenbrock, np.array([-1.2, 1.0]))
    other = gauss_newton(scaled, np.array([-1.2, 1.0]) / unit)
    assert len(plain.history) == len(other.history)
    np.testing.assert_allclose(other.x * unit, plain.x, rtol=1e-9)


def test_linear_problem_equals_lstsq():
    rng = np.random.default_rng(0)
    matrix, right = rng.normal(size=(30, 4)), rng.normal(size=30)
    result = gauss_newton(lambda x: (matrix @ x - right, matrix), np.zeros(4))
    np.testing.assert_allclose(result.x, np.linalg.lstsq(matrix, right, rcond=None)[0], atol=1e-9)


def test_bound_holds_and_is_reported():
    matrix, right = np.eye(2), np.array([2.0, -1.0])
    result = gauss_newton(lambda x: (matrix @ x - right, matrix), np.zeros(2), upper=np.array([1.0, 5.0]))
    np.testing.assert_allclose(result.x, [1.0, -1.0], atol=1e-9)
    np.testing.assert_array_equal(result.active, [True, False])


def test_a_failing_region_is_avoided():
    def guarded(x):
        if x[0] > 2.5:
            raise FlowError("no trajectory")
        return np.exp(x) - 9.0, np.diag(np.exp(x))

    result = gauss_newton(guarded, np.array([0.0]))
    assert result.x[0] == pytest.approx(np.log(9.0), abs=1e-8)
