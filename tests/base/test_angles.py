"""Angles on the circle: properties that hold for every angle."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapitza.base import angles as circle
from kapitza.base.angles import difference, mean, split_turns, turns, unwrap, wrap, wrap_states, wrap_upper

angles = st.floats(-1e6, 1e6)


@given(angles)
def test_wrap_lands_in_its_interval_and_keeps_the_direction(angle):
    wrapped, upper = float(wrap(angle)), float(wrap_upper(angle))
    assert -np.pi <= wrapped < np.pi
    assert -np.pi < upper <= np.pi
    rounding = 1e-15 * max(1.0, abs(angle))
    for result in (wrapped, upper):
        assert abs(np.exp(1j * result) - np.exp(1j * angle)) <= 4 * rounding


@given(angles)
def test_wrap_is_idempotent(angle):
    assert wrap(wrap(angle)) == wrap(angle)
    assert wrap_upper(wrap_upper(angle)) == wrap_upper(angle)


@pytest.mark.parametrize("angle", [np.pi, -np.pi, 3 * np.pi, np.nextafter(-np.pi, -4), np.nextafter(np.pi, 4)])
def test_wrap_at_the_seam(angle):
    assert -np.pi <= wrap(angle) < np.pi
    assert -np.pi < wrap_upper(angle) <= np.pi


@given(st.lists(st.floats(-3.1, 3.1), min_size=2, max_size=50), st.floats(-100, 100))
def test_unwrap_undoes_wrap_when_steps_stay_below_half_a_turn(steps, start):
    continuous = start + np.cumsum(steps)
    recovered = unwrap(wrap(continuous))
    turns = (recovered - continuous) / (2 * np.pi)
    assert np.allclose(turns, np.rint(turns[0]), atol=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_difference_is_the_shorter_way_round_and_leaves_the_rest(a, b):
    gap = difference(a, b, (True, False, True))
    assert gap[1] == a[1] - b[1]
    assert (np.abs(gap[[0, 2]]) <= np.pi).all()
    assert np.exp(1j * (np.array(b) + gap))[[0, 2]] == pytest.approx(np.exp(1j * np.array(a))[[0, 2]], abs=1e-9)


def test_states_given_are_not_changed():
    states = np.full((4, 2), 10.0)
    wrap_states(states, (True, False))
    difference(states, np.zeros(2), (True, False))
    assert (states == 10.0).all()


@given(angles)
def test_turns_taken_away_are_those_that_are_missing(angle):
    inside, whole = split_turns(np.array([angle, angle]), (True, False))
    assert -np.pi <= inside[0] < np.pi
    assert inside[1] == angle
    assert whole[1] == 0
    assert inside[0] + circle.TURN * whole[0] == pytest.approx(angle, abs=1e-9)


@given(st.integers(-50, 50), st.floats(-3.0, 3.0))
def test_turns_of_a_change(count, rest):
    assert turns(count * circle.TURN + rest) == count
    assert turns([count * circle.TURN] * 2, (False, True)).tolist() == [0, count]


@given(st.floats(-3.0, 3.0), st.floats(0.0, 1.5))
def test_mean_of_a_symmetric_pair_is_its_middle(middle, half):
    assert wrap(mean([middle - half, middle + half]) - middle) == pytest.approx(0.0, abs=1e-12)


def test_examples_run():
    assert doctest.testmod(circle, raise_on_error=True).attempted > 3
