"""Units: exact factors, kinds that must not be mixed, texts that are no units."""

import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kapitza.base.units import Conversion, conversion, is_unit, rate_unit, to_si
from kapitza.errors import DataError

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


@pytest.mark.parametrize(
    ("text", "cure"),
    [("mil", "thou"), ("mils", "thou"), ("M", "molar"), ("S", "siemens"), ("mg", "milligravity"), ("lb", "lbf")],
)
def test_symbols_of_laboratories_with_two_meanings_are_asked_for(text, cure):
    with pytest.raises(DataError, match=f'"{text}", which has two meanings: give .*"{cure}"'):
        to_si(text)
    with pytest.raises(DataError, match=f'of which "{text}" has two meanings'):
        to_si(f"V/{text}")
    to_si(cure)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("MM", "mm"),
        ("Mm", "mm"),
        ("MS", "ms"),
        ("Ms", "ms"),
        ("DEG", "deg"),
        ("Ma", "mA"),
        ("MM/s", "mm/s"),
    ],
)
def test_the_other_case_is_suggested_not_taken(text, near):
    with pytest.raises(DataError, match=f'is it "{near}"'):
        to_si(text)


@pytest.mark.parametrize("text", ["pa", "ma", "R", "c", "k", "e", "Gs", "kmil", "PS", "gauss", "NM", "kn", "ks"])
def test_symbols_that_only_a_registry_knows_are_asked_for(text):
    """pint takes "pa" for a picoyear, "R" for the gas constant and "PS" for petasiemens."""
    assert not is_unit(text)


PLAIN = {
    **{"Ns": (1, "N*s"), "Vs": (1, "V*s"), "Pas": (1, "Pa*s"), "mAh": (3.6, "A*s"), "Nmm": (1e-3, "N*m")},
    **{"thou": (25.4e-6, "m"), "lbf": (4.4482216152605, "N"), "psi": (6894.757293168, "Pa"), "in": (0.0254, "m")},
    **{
        "hr": (3600, "s"),
        "sec": (1, "s"),
        "min": (60, "s"),
        "d": (86400, "s"),
        "mbar": (100, "Pa"),
        "kΩ": (1e3, "ohm"),
    },
    **{
        "mM": (1, "mol/m^3"),
        "kΩ": (1e3, "ohm"),
        "mS": (1e-3, "siemens"),
        "nF": (1e-9, "farad"),
        "pC": (1e-12, "coulomb"),
    },
    **{"milligravity": (9.80665e-3, "m/s^2"), "kg": (1, "kg"), "volts": (1, "V"), "degrees": (math.pi / 180, "rad")},
    **{"l/min": (1e-3 / 60, "m^3/s"), "mN": (1e-3, "N"), "MN": (1e6, "N"), "mHz": (1e-3, "Hz"), "MHz": (1e6, "Hz")},
}


@pytest.mark.parametrize("text", list(PLAIN))
def test_symbols_mean_what_laboratories_mean(text):
    """Factors from the SI brochure and NIST SP 811."""
    factor, wanted = PLAIN[text]
    assert conversion(text, wanted).factor == pytest.approx(factor, rel=1e-9)


def test_every_symbol_leads_to_a_unit_that_can_be_read_again():
    from kapitza.base.units import AMBIGUOUS, SYMBOLS

    texts = [prefix + symbol for symbol, prefixes in SYMBOLS.items() for prefix in ("", *prefixes)]
    for text in (t for t in texts if t not in AMBIGUOUS):
        unit, change = to_si(text)
        assert conversion(text, unit) == change, text
        assert to_si(unit) == (unit, Conversion()), text


def test_products_with_hyphens_and_gravity():
    assert to_si("N-m") == ("N-m", Conversion())
    assert conversion("lbf-in", "N*m").factor == pytest.approx(4.4482216152605 * 0.0254, rel=1e-12)
    for symbol in ("gn", "g_n"):
        assert to_si(symbol) == ("m/s^2", Conversion(9.80665))
    assert not is_unit("N--m")


@pytest.mark.parametrize("text", ["N/A", "pH", "m/s-2", "m/s^-2"])
def test_texts_that_mean_something_else_are_asked_for(text):
    """ "Not available", an acidity, a slip for m s^-2."""
    with pytest.raises(DataError, match=r"two meanings|not known"):
        to_si(text)
    assert is_unit(to_si("mN/A")[0])


READINGS = {
    "ms-1": ("m/s", "1/ms"),
    "ms⁻²": ("m/s^2", "1/ms^2"),
    "ms^-2": ("m/s^2", "1/ms^2"),
    "ms2": ("m/s^2", "ms^2"),
    "mV-1": ("m/V", "1/mV"),
    "Nm-1": ("N/m", "1/N/m"),
    "kNm^-1": ("kN/m", "1/kN/m"),
    "Nm2": ("N*m^2", "N^2*m^2"),
    "rads-1": ("rad/s", "1/rad"),
    "degs^-2": ("deg/s^2", "1/deg^2"),
    "counts-1": ("count/s", "1/counts"),
    "mm ms-1": ("m/s", "1/ms"),
}


@pytest.mark.parametrize(("text", "readings"), READINGS.items())
def test_a_power_of_the_last_letter_or_of_the_whole_is_not_guessed(text, readings):
    first, second = readings
    with pytest.raises(DataError, match=re.escape(f'"{text}", which has two meanings: give "{first}" or "{second}".')):
        to_si(text)
    assert is_unit(first)
    assert is_unit(second)


@pytest.mark.parametrize(
    ("text", "factor"),
    {
        "m s-1": 1,
        "ms^2": 1e-6,
        "mm-1": 1e3,
        "us-1": 1e6,
        "mV^2/Hz": 1e-6,
        "1/ms": 1e3,
        "min-1": 1 / 60,
        "rads": 1,
    }.items(),
)
def test_powers_with_one_reading_are_taken(text, factor):
    assert to_si(text)[1].factor == pytest.approx(factor, rel=1e-14)


@pytest.mark.parametrize("text", ["U", "points", "link", "hands"])
def test_words_of_headers_are_not_taken_for_old_measures(text):
    with pytest.raises(DataError, match="two meanings"):
        to_si(text)
    assert is_unit("U/min")
