"""Anderson mixing ends linear iterations that creep or diverge."""

import numpy as np
import pytest

from kapitza.solve import AndersonMixing


@pytest.mark.parametrize("rates", [(0.95, 0.5, 0.1), (1.2, 0.3, 0.2)])
def test_a_linear_iteration_ends_once_its_directions_have_been_seen(rates):
    """x → x + f(x) contracts slowly, or not at all; with three differences of three variables the step is exact."""
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    matrix, fixed = basis @ np.diag(rates) @ basis.T, rng.normal(size=3)
    x, mixing = np.zeros(3), AndersonMixing(depth=3)
    for _ in range(8):
        x = x + mixing.improve(x, matrix @ (x - fixed) + fixed - x)
    assert x == pytest.approx(fixed, abs=1e-8)


def test_a_step_that_the_last_ones_make_wild_is_taken_as_it_is():
    mixing = AndersonMixing()
    steps = [np.array([size]) for size in (1.0, 1.001, 1.0021)]  # hardly less after a move of 1: far to go
    found = [mixing.improve(np.array([float(i)]), step) for i, step in enumerate(steps)]
    assert found[-1] is steps[-1]


def test_points_of_another_length_begin_a_new_memory():
    mixing = AndersonMixing()
    for i in range(4):
        mixing.improve(np.arange(5.0) + i, np.full(5, 0.5**i))
    step = np.array([0.1, 0.2, 0.3])
    assert mixing.improve(np.zeros(3), step) is step
