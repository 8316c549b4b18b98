"""What comes from outside is checked once, by kind; nothing changes its meaning on the way in."""

from __future__ import annotations

import datetime
import fractions
import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from kapitza.base import checks
from kapitza.errors import ArgumentError, DataError, KapitzaError

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**400, max_value=10**410)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.dates()
    | st.sampled_from(
        [sp.Symbol("x"), sp.pi, sp.I, sp.oo, sp.Matrix([1]), np.datetime64("2020-01-01"), np.bool_(True)]
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_every_value_is_admitted_as_its_type_or_refused(value):
    promised = [
        (lambda: checks.text("it", value), str),
        (lambda: checks.texts("it", value), list),
        (lambda: checks.name("it", value), str),
        (lambda: checks.number("it", value), float),
        (lambda: checks.whole("it", value), int),
        (lambda: checks.flag("it", value), bool),
        (lambda: checks.array("it", value), np.ndarray),
        (lambda: checks.items("it", value), list),
        (lambda: checks.table("it", value), dict),
        (lambda: checks.expression("it", value), sp.Basic),
        (lambda: checks.choice("it", value, ["a", "b"]), str),
    ]
    for call, kind in promised:
        refusal = None
        try:
            assert isinstance(call(), kind)
        except KapitzaError as error:
            refusal = str(error)
        assert refusal is None or (refusal.startswith("it") and refusal.isprintable())


@pytest.mark.parametrize(
    "value",
    [True, "1", None, 1j, 10**400, datetime.date(2020, 1, 1), [1.0], sp.Symbol("x"), sp.I, math.nan, math.inf, b"1"],
)
def test_no_numbers(value):
    with pytest.raises(ArgumentError, match="rate"):
        checks.number("rate", value)


def test_numbers():
    given = [1, 1.0, np.float32(1), np.int8(1), np.array(1.0), fractions.Fraction(1), sp.Integer(1), sp.sin(0) + 1]
    assert [checks.number("rate", v) for v in given] == [1.0] * len(given)
    assert math.isnan(checks.number("rate", math.nan, finite=False))
    with pytest.raises(DataError, match=r"rate = 0; give a number, more than 0\."):
        checks.number("rate", 0.0, above=0.0, error=DataError)
    with pytest.raises(ArgumentError, match=r"rate = 2; give a number between 0 and 1"):
        checks.number("rate", 2, low=0.0, high=1.0)
    with pytest.raises(ArgumentError, match=r"seed = -1; give a whole number from 0"):
        checks.seed(-1)
    assert checks.seed(None) is None
    assert checks.whole("n", 3.0) == 3
    with pytest.raises(ArgumentError, match="about 5001 digits"):
        checks.whole("n", 10**5000, most=10)


@pytest.mark.parametrize(
    "values",
    [
        ["1", 2.0],
        [None, 1.0],
        [True, False],
        [1j],
        np.array(["2020-01-01"], "datetime64[s]"),
        [[1.0], [1.0, 2.0]],
        {1: 2},
    ],
)
def test_numpy_would_have_converted_these(values):
    with pytest.raises(ArgumentError, match=r"States: .*cannot be read as real numbers"):
        checks.array("States", values)


def test_arrays():
    assert np.isnan(checks.array("x", np.ma.masked_array([1.0, 2.0], [False, True]))[1])
    assert checks.array("x", [10**30, fractions.Fraction(1, 4), sp.pi]).tolist() == [1e30, 0.25, math.pi]
    given = np.ones(3)
    assert checks.array("x", given) is not given
    with pytest.raises(ArgumentError, match=r"x has the shape \(3,\); give \(any, 2\)"):
        checks.array("x", given, shape=(None, 2))
    with pytest.raises(ArgumentError, match="1 of 2 numbers are not finite, the first is number 1"):
        checks.array("x", [0.0, math.nan], finite=True)
    with pytest.raises(ArgumentError, match=r"more than 1\.8e308"):
        checks.array("x", [10**400])


def test_one_spelling():
    assert checks.canonical("µ") == "μ"
    assert checks.canonical("ａ''") == "a''"
    assert checks.canonical("x²") == "x²"
    assert checks.words("µ*xʹ + ａ") == "μ*x' + a"
    assert checks.skeleton("а") == "a"  # Cyrillic
    with pytest.raises(ArgumentError, match="occurs twice"):
        checks.table("it", {"a": 1, "ａ": 2})


@pytest.mark.parametrize("name", ["", "1a", "a b", "a__b", "lambda", "x'", "a\x1b[2J", "x²", "a" * 300, "aʹ"])
def test_no_names(name):
    with pytest.raises(ArgumentError, match="name"):
        checks.name("A channel", name)


def test_nothing_is_evaluated(tmp_path):
    touched = tmp_path / "touched"
    code = f"__import__('pathlib').Path({str(touched)!r}).touch()"
    for value in (code, (code,), {code: 1}, {1: code}, {code}, [code], b"x", sp.Tuple(1), sp.true, None):
        with pytest.raises(ArgumentError, match="give an expression as text or SymPy, or a number"):
            checks.expression("it", value)
    assert not touched.exists()
    assert checks.expression("it", 2) == sp.Integer(2)
    assert checks.expression("it", np.float64(0.5)) == sp.Float(0.5)


def test_lists_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "runs").write_text("a\nb\n")
    with (tmp_path / "runs").open() as closed:
        pass
    for wrong in (np.array(1.0), closed, (1 / x for x in (1, 0))):
        with pytest.raises(ArgumentError, match=r"runs is .*cannot be read .*; give a list"):
            checks.items("runs", wrong)
