"""The symbols in which every model is written.

A coordinate `phi` has the symbols phi, phi', phi''; time is t. All symbols are real. The names of the states of a
model are the names of these symbols: ("phi", "phi'") for one second-order coordinate.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import sympy as sp

from kapitza.base import checks
from kapitza.base.argument_checks import Check


def _admit_expression(what: str, value: object) -> sp.Expr:
    return checks.expression(what, value)


def _may_be_expression(value: object) -> bool:
    return isinstance(value, sp.Basic) or checks.is_number(value)


Written: TypeAlias = Annotated[
    Any,
    Check(
        "an expression as text or SymPy",
        lambda value: isinstance(value, str) or _may_be_expression(value),
        lambda what, value: checks.text(what, value) if isinstance(value, str) else _admit_expression(what, value),
    ),
]
"""An expression as SymPy, or as text that the constructor of a model reads."""

Expression: TypeAlias = Annotated[sp.Expr, Check("an expression of SymPy", _may_be_expression, _admit_expression)]
"""A real SymPy expression."""


symbolic = threading.RLock()
"""Held while models are analysed and compiled: SymPy's caches are not made for several threads at once."""


@lru_cache(maxsize=4096)
def symbol(name: str) -> sp.Symbol:
    """Return the symbol of a parameter, coordinate or rate.

    The same name always gives the same symbol.
    """
    return sp.Symbol(name, real=True)


def rate(name: str, order: int = 1) -> sp.Symbol:
    """Return the symbol of a time derivative.

    rate("phi", 2) is phi''.
    """
    return symbol(name + "'" * order)


time = symbol("t")


@lru_cache(maxsize=50_000)
def derivative(expression: Expression, by: sp.Symbol) -> Expression:
    """Return ∂ expression / ∂ by.

    It is that of `sympy.diff` for sums, products and powers, without its detours.

    SymPy multiplies terms that do not depend on the symbol by zero and then tests whether that is finite: for a chain
    of masses that takes most of the time.
    """
    if by not in expression.free_symbols:
        return sp.Integer(0)
    if expression == by:
        return sp.Integer(1)
    if isinstance(expression, sp.Add):
        return sp.Add(*[derivative(term, by) for term in expression.args if by in term.free_symbols])
    if isinstance(expression, sp.Mul):
        factors = expression.args
        moving = [i for i, factor in enumerate(factors) if by in factor.free_symbols]
        return sp.Add(*[sp.Mul(derivative(factors[i], by), *factors[:i], *factors[i + 1 :]) for i in moving])
    if isinstance(expression, sp.Pow) and expression.exp.is_number:
        return sp.Mul(expression.exp, sp.Pow(expression.base, expression.exp - 1), derivative(expression.base, by))
    return sp.diff(expression, by)


def vanishes(expression: Expression) -> bool:
    """Return whether an expression is identically zero.

    It is evaluated with 30 digits at three points of unrelated rationals.
    """
    free = sorted(expression.free_symbols, key=lambda s: s.name)
    for trial in range(3):
        point = {s: sp.Rational(1 + (7919 * (i + 1) + 104729 * trial) % 997, 613) for i, s in enumerate(free)}
        result = sp.N(expression.xreplace(point), 30)
        # Of 30 digits ten may be lost by cancellation.
        if not (result.is_number and abs(complex(result)) <= 1e-20):
            return False
    return True
