"""The plain notation: what it means, what it refuses, and that text and expressions go back and forth."""

from __future__ import annotations

import math

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import kapitza as kz
from kapitza.errors import ParseError
from kapitza.model import parse_equation, parse_expression, symbol
from kapitza.model.text import to_text
from processes import calls

NAMES = ["x", "x'", "x''", "phi", "k2", "m", "l", "omega"]
X, M, K = symbol("x"), symbol("m"), symbol("k2")


def test_equation_becomes_the_difference_of_its_sides():
    residual = parse_equation("x'' + k2/(m*l**2)*x' = sin(omega*t) - pi", NAMES)
    x2, x1, l, omega, t = (symbol(n) for n in ("x''", "x'", "l", "omega", "t"))
    assert residual == x2 + K / (M * l**2) * x1 - sp.sin(omega * t) + sp.pi


def test_piecewise_conditions_and_chains():
    expected = sp.Piecewise((X**2, sp.And(X > -1, X < 1)), (1, sp.true))
    assert parse_expression("Piecewise((x**2, -1 < x < 1), (1, True))", NAMES) == expected
    expected = sp.Piecewise((X, sp.Or(X > 2, M < 0)), (0, sp.true))
    assert parse_expression("Piecewise((x, x > 2 or m < 0), (0, True))", NAMES) == expected


# Text together with the number it stands for, worked out by Python while the text is made.
numbers = st.integers(0, 9).map(lambda n: (str(n), float(n))) | st.floats(0.01, 100).map(lambda v: (repr(v), v))
leaves = numbers | st.sampled_from([("x", 0.7), ("m", 1.3), ("k2", -0.4), ("pi", math.pi)])


def _combine(children):
    pairs = st.tuples(children, children)
    return (
        st.tuples(pairs, st.sampled_from("+-*")).map(lambda p: _binary(*p))
        | st.tuples(children, st.integers(0, 3)).map(lambda p: (f"({p[0][0]})**{p[1]}", p[0][1] ** p[1]))
        | children.map(lambda c: (f"-({c[0]})", -c[1]))
        | children.map(lambda c: (f"sin({c[0]})", math.sin(c[1])))
        | children.map(lambda c: (f"abs( {c[0]} )", abs(c[1])))
        | children.map(lambda c: (f"atan({c[0]})", math.atan(c[1])))
        | pairs.map(lambda p: (f"max({p[0][0]}, {p[1][0]})", max(p[0][1], p[1][1])))
        | children.map(lambda c: (f"({c[0]})/(2 + ({c[0]})**2)", c[1] / (2 + c[1] ** 2)))
    )


def _binary(pair, operator):
    (left, a), (right, b) = pair
    value = {"+": a + b, "-": a - b, "*": a * b}[operator]
    return f"({left}) {operator} ({right})", value


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.recursive(leaves, _combine, max_leaves=8).filter(lambda p: abs(p[1]) < 1e6))
def test_text_means_what_arithmetic_means(pair):
    text, value = pair
    point = {X: sp.Float(0.7, 30), M: sp.Float("1.3", 30), K: sp.Float("-0.4", 30)}
    result = float(parse_expression(text, NAMES).xreplace(point).evalf(20))
    assert result == pytest.approx(value, rel=1e-7, abs=1e-6)


symbols = st.sampled_from([symbol(n) for n in NAMES])
atoms = symbols | st.integers(-5, 5).map(sp.Integer) | st.floats(-1e3, 1e3).map(sp.Float)
atoms = atoms | st.fractions(-3, 3, max_denominator=7).map(lambda f: sp.Rational(f.numerator, f.denominator))


def bounded_exp(argument):
    """Constants stay doubles: exp of a large one has no text."""
    return sp.exp(sp.atan(argument))


def _grow(children):
    pairs = st.tuples(children, children)
    return (
        pairs.map(lambda p: p[0] + p[1])
        | pairs.map(lambda p: p[0] * p[1])
        | st.tuples(children, st.sampled_from([2, 3, -1, sp.Rational(3, 2), sp.Rational(-1, 2)])).map(_power)
        | st.tuples(
            st.sampled_from([sp.sin, bounded_exp, sp.sign, sp.Abs, sp.atan, sp.Heaviside, sp.tanh]), children
        ).map(lambda p: p[0](p[1]))
        | pairs.map(lambda p: sp.Max(*p))
        | pairs.map(lambda p: sp.Piecewise((p[0], symbol("x") > 1), (p[1], True)))
    )


def _power(pair):
    base, exponent = pair
    return base**exponent if base.is_positive or (exponent in (2, 3) and base != 0) else base


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.recursive(atoms, _grow, max_leaves=6).filter(lambda e: e.is_extended_real is not False))
def test_written_expressions_are_read_back_unchanged(expression):
    if expression.has(sp.zoo, sp.nan, sp.oo, sp.I):
        return
    first = parse_expression(to_text(expression, NAMES), NAMES)
    assert parse_expression(to_text(first, NAMES), NAMES) == first
    assert abs(_value(first) - _value(expression)) <= 1e-9 * (1 + abs(_value(expression)))


def _value(expression):
    points = {symbol(n): sp.Rational(3 * i + 1, 7) for i, n in enumerate(NAMES)}
    return complex(expression.xreplace(points).evalf(20))


@settings(max_examples=300, deadline=1000, derandomize=True)
@given(st.text(alphabet="xmphi02.5+-*/()',=<>[]{}:;_ \n\"\\^@lambdsin.φ'", max_size=40))
def test_any_text_is_read_or_refused_as_a_parse_error(text):
    try:
        parse_equation(text, NAMES)
    except ParseError:
        return


REFUSED = {
    "x.real": "dot",
    "x.__class__": "__",
    "__import__('os')": "__",
    "open(x)": 'unknown function "open"',
    "[x for x in m]": "not",
    "(x for y in m)": "comprehensions",
    "lambda x: x": "not understood",
    "x if m else k2": "Piecewise",
    "x[0]": "square brackets",
    "10**10**10": "exponent exceeds 64",
    "(((10**60)**60)**60)**60": "too large",
    "x**1000": "exponent exceeds 64",
    "9" * 5000: "too",
    "1e999": "too large",
    "x; m": "one expression at a time",
    "x and m": "conditions of Piecewise",
    "x == m": "comparisons",
    "x := 3": "not understood",
    "'text'": "not understood",
    "x^2": "write **",
    "2x": "missing",
    "x m": "missing",
    "sin": "needs an argument",
    "sin()": "takes 1 arguments",
    "sin(x, m)": "takes 1 arguments",
    "x(m)": "x*(...)",
    "1j*x": "not a real number",
    "True": "not a real number",
    "x/0": "division by zero",
    "log(0)": "finite real",
    "acos(2)*x": "finite real",
    "x*atanh(2)": "finite real",
    "1/(sin(1)**2 + cos(1)**2 - 1)": "division by zero",
    "(sin(1)**2 + cos(1)**2 - 1)**(-2)*x": "division by zero",
    "sqrt(-1)": "finite real",
    "(-8)**(1/3)": "root of a negative number",
    "max(sin(exp(exp(40))), 0)": "too large for exp",
    "sin(10**60)": "too large for sin",
    "max(" + "x," * 40 + "m)": "at most 16",
    "x = m = 2": "second '='",
    "= x": "empty",
    "": "empty",
    "sin(x": "not understood",
    "sni(x)": 'Did you mean "sin"?',
    "omga*x": 'Did you mean "omega"?',
    "x'''": "no such derivative",
    "lambda*x": 'write "lambda_"',
    "Piecewise((x, x > 1))": "last case",
    "Piecewise(x, m)": "pairs",
    "f(x=1)": "inside brackets",
    "sni(x = 1": '"(" is not closed before "="',
    "sni(x) = 2*(1 + m*(x)": '"(" is not closed',
    "-" * 15000 + "x": "nested too deeply",
    "(" * 500_000 + ")" * 500_000: "characters",
    "(" * 5000 + "x" + ")" * 5000: "nested deeper",
    "sin(" * 100 + "x" + ")" * 100: "nested deeper",
    "x" * 1_000_000: "characters",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda t: t[:20])
def test_refused_quickly_with_a_reason(text):
    messages = []

    def attempt():
        try:
            parse_equation(text, NAMES)
        except ParseError as problem:
            messages.append(str(problem))

    assert calls(attempt) < 100_000  # a text of a million characters is not walked through
    assert REFUSED[text] in messages[0]
    assert len(messages[0]) < 500


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("phi'' + sni(phi) = 0", 9),
        ("m = x + omga", 9),
        ("  x +  k3", 8),
        ("φ + k9", 5),
        ("x + m*(2 - l.y)", 12),
        ("phi'' + omga*(phi = 0", 14),
        ("phi'' + omga*phi = x*(1 + sin(x)", 22),
    ],
)
def test_message_points_at_the_column(text, column):
    with pytest.raises(ParseError, match=f"Column {column}:") as error:
        parse_equation(text, [*NAMES, "phi''", "φ"])
    lines = str(error.value).splitlines()
    assert lines[1][lines[2].index("^")] == text[column - 1]
    assert error.value.column == column


def test_an_error_in_a_model_has_its_place_and_survives_copying():
    import copy

    with pytest.raises(ParseError) as error:
        kz.Model.from_equations(["x' = v", "v' = -k*y"], parameters={"k": 1.0})
    assert (error.value.place, error.value.column) == (("equations", 1), 9)
    again = copy.copy(error.value)
    assert (again.place, again.column, str(again)) == (("equations", 1), 9, str(error.value))


def test_a_long_sum_is_read_without_deep_recursion():
    text = " + ".join(f"x**{n % 5 + 1}" for n in range(800))
    assert parse_expression(text, NAMES) == 160 * sum(X**n for n in range(1, 6))


def test_a_misspelt_function_is_recognised_where_it_counts_as_a_name():
    """`kapitza new` takes every unknown word as a parameter, so "sgn" is among the names."""
    with pytest.raises(ParseError, match=r'unknown function "sgn"\. Did you mean "sign"\?') as error:
        parse_expression("k*sgn(x)", {*NAMES, "sgn"})
    assert ".." not in str(error.value).replace("(...)", "").replace("*", "")
