"""Units: exact factors, kinds that must not be mixed, texts that are no units."""

import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kapitza.errors import DataError
from kapitza.units import Conversion, conversion, is_unit, rate_unit, to_si

FACTORS = {
    ("ms", "s"): 1e-3,
    ("µs", "s"): 1e-6,  # the sign micro
    ("μs", "s"): 1e-6,  # the letter mu
    ("h", "s"): 3600.0,
    ("deg", "rad"): math.pi / 180,
    ("°/s", "rad/s"): math.pi / 180,
    ("rev/min", "rad/s"): 2 * math.pi / 60,
    ("rpm", "rad/s"): 2 * math.pi / 60,
    ("deg/ms", "rad/s"): 1000 * math.pi / 180,
    ("mm", "m"): 1e-3,
    ("mm/s^2", "m/s²"): 1e-3,
    ("mNm", "N*m"): 1e-3,
    ("kN", "N"): 1e3,
    ("%", "1"): 1e-2,
    ("gravity", "m/s^2"): 9.80665,
    ("m s-2", "m/s^2"): 1.0,
    ("deg", "1"): math.pi / 180,
}


@pytest.mark.parametrize(("pair", "factor"), FACTORS.items())
def test_factors(pair, factor):
    there, back = conversion(*pair), conversion(*reversed(pair))
    assert there.factor == pytest.approx(factor, rel=1e-14)
    assert there.factor * back.factor == pytest.approx(1, rel=1e-14)
    assert to_si(pair[0])[1].factor == pytest.approx(factor, rel=1e-14)


def test_temperatures_have_an_offset():
    assert conversion("degC", "K")(np.array([0.0, 100.0])) == pytest.approx([273.15, 373.15])
    assert conversion("degF", "degC")(np.array([32.0, 212.0])) == pytest.approx([0.0, 100.0], abs=1e-12)
    assert conversion("degC", "K").spread(2.0) == 2.0
    assert not is_unit("degC/s")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("Hz", "rad/s"), ("%", "rad"), ("counts", "rad"), ("mm", "rad"), ("s", "m"), ("N", "N*m"), ("V", "m"), ("1", "m")],
)
def test_kinds_are_not_mixed(given, wanted):
    """pint converts the first three by the factor 1."""
    with pytest.raises(DataError, match=re.escape(f'is in "{given}", which cannot be converted to "{wanted}"')):
        conversion(given, wanted)


@pytest.mark.parametrize("text", ["g", "C", "G", "a", "F"])
def test_two_meanings_are_asked_for(text):
    with pytest.raises(DataError, match="two meanings: give"):
        to_si(text)


@pytest.mark.parametrize(
    "text",
    [
        *("10**10**10", "m**(10**9)", "1e9**1e9", "__import__", "left", "a.u.", "LSB", "m/s kg", "m//s", "(", "dB"),
        *("m" * 99, "lambda: 0", "m.__class__", "m/(s", "1e400", "𝓂^99999"),
    ],
)
def test_what_is_no_unit_is_asked_for_at_once(text):
    assert not is_unit(text)
    with pytest.raises(DataError, match="is not known: give one that is"):
        to_si(text)


@given(st.text(max_size=80))
@example("tf5")
@example("Ym9*Ym9*Ym9")
def test_any_text_is_a_unit_or_not(text):
    if is_unit(text):
        unit, change = to_si(text)
        assert is_unit(unit)
        assert math.isfinite(change.factor)


def test_milliseconds_become_decimal_seconds():
    """Divided by 1000, not multiplied by its rounded inverse: the sampling stays as regular as it was."""
    assert np.array_equal(Conversion(1e-3)(np.arange(100.0)), np.arange(100) / 1000)


def test_rates():
    assert rate_unit("rad") == "rad/s"
    assert rate_unit("") == ""
    assert rate_unit("mm", 2) == "mm/s^2"
