"""Probabilities and sizes in sentences."""

import math

import pytest

from kapitza.base.rounded import chance_text, p_text, two_digits


def test_probabilities_below_the_range_of_doubles_are_bounded():
    assert chance_text(-6107.0) == p_text(0.0) == p_text(1e-305) == "p < 1e-300"
    assert chance_text(-math.inf) == "p < 1e-300"
    assert p_text(0.01234) == chance_text(math.log10(0.01234)) == "p = 0.012"
    assert p_text(3.4e-7, 1) == "p = 3e-07"


@pytest.mark.parametrize(("value", "text"), [(1049.0, "1000"), (643.2, "640"), (0.01234, "0.012"), (9.96, "10")])
def test_two_digits_are_written_out(value, text):
    assert two_digits(value) == text
