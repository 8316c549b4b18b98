"""The least value of a quadratic between limits, in any units."""

import numpy as np
import pytest

from kapitza.solve import nearest_within


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_the_nearest_point_is_the_lowest_of_all_between_the_limits(unit):
    """No step from it that stays between the limits descends (Karush, Kuhn and Tucker), whatever the units."""
    rng = np.random.default_rng(3)
    units = np.array([1.0, unit, 1 / unit])
    held = 0
    for _ in range(20):
        root = rng.normal(size=(3, 3))
        hessian = root @ root.T / np.outer(units, units)
        best, low, high = rng.normal(size=3) * units, -0.5 * units, 0.7 * units
        found = nearest_within(hessian, best, low, high)
        slope = hessian @ (found - best) * units
        inside = (found > low) & (found < high)
        assert ((low <= found) & (found <= high)).all()
        assert np.abs(slope[inside]).max(initial=0.0) < 1e-9
        assert (slope[found == low] > -1e-9).all()
        assert (slope[found == high] < 1e-9).all()
        held += int((~inside).sum())
    assert held > 10


def test_a_point_between_the_limits_is_left_alone_and_one_without_room_is_held():
    best = np.array([0.1, 0.2])
    assert nearest_within(np.eye(2), best, np.zeros(2), np.ones(2)) is best
    held = nearest_within(np.array([[2.0, 1.0], [1.0, 2.0]]), best, np.array([0.0, -9.0]), np.array([0.0, 9.0]))
    assert held == pytest.approx([0.0, 0.25])  # d/dy of x² + xy + y² about `best` at x = 0: (0 - 0.1) + 2 (y - 0.2) = 0
