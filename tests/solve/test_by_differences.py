"""Newton by differences: exact on parabolas, within limits, across a curved valley, honest where it cannot."""

import numpy as np
import pytest

from kapitza.errors import Status
from kapitza.solve import minimise_by_differences, slopes_by_differences

NO_LIMIT = np.full(2, np.inf)


def test_parabola_with_units_far_apart_is_solved_exactly():
    centre, hessian = np.array([3e-6, 2e5]), np.array([[4e12, 30.0], [30.0, 1e-9]])

    def function(x):
        return 0.5 * (x - centre) @ hessian @ (x - centre) + 7.0

    found = minimise_by_differences(function, np.array([1e-6, 1e5]), np.array([1e-6, 1e4]), -NO_LIMIT, NO_LIMIT)
    assert found.status is Status.CONVERGED
    assert found.x == pytest.approx(centre, rel=1e-9)
    assert found.hessian == pytest.approx(hessian, rel=1e-5)


def test_minimum_outside_the_limits_is_held_at_the_limit():
    def function(x):
        return 0.5 * ((x[0] - 2) ** 2 + (x[1] + x[0]) ** 2)

    found = minimise_by_differences(function, np.zeros(2), np.ones(2), np.full(2, -5.0), np.array([1.0, 5.0]))
    assert found.x == pytest.approx([1.0, -1.0], abs=1e-8)
    assert found.at_limit.tolist() == [True, False]


def test_curved_valley():
    def valley(x):
        return 50 * (x[1] - x[0] ** 2) ** 2 + 0.5 * (1 - x[0]) ** 2

    found = minimise_by_differences(valley, np.array([-1.2, 1.0]), np.full(2, 0.1), -NO_LIMIT, NO_LIMIT, 60)
    assert found.status is Status.CONVERGED
    deviations = np.sqrt(np.diag(np.linalg.inv([[401.0, -200.0], [-200.0, 100.0]])))
    assert (np.abs(found.x - 1.0) < 0.05 * deviations).all()


def test_function_that_does_not_exist_everywhere():
    def function(x):
        return np.inf if x[0] <= 0 else x[0] - np.log(x[0]) + x[1] ** 2

    found = minimise_by_differences(function, np.array([0.05, 3.0]), np.array([0.1, 1.0]), -NO_LIMIT, NO_LIMIT)
    assert found.status is Status.CONVERGED
    assert found.x == pytest.approx([1.0, 0.0], abs=0.03)


def test_slopes_by_central_differences_are_exact_up_to_the_third_derivative():
    """Of a parabola they are the slopes themselves, of a cube they are too large by the square of the step."""
    x, steps = np.array([2.0, -3.0]), np.array([1e-3, 1e-2])
    slopes = slopes_by_differences(lambda v: np.array([v[0] ** 2, v[0] * v[1], v[1] ** 3]), x, steps)
    assert slopes == pytest.approx(np.array([[4.0, 0.0], [-3.0, 2.0], [0.0, 27.0 + steps[1] ** 2]]), abs=1e-11)
