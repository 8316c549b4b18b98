"""The symbols in which every model is written.

A coordinate `phi` has the symbols phi, phi', phi''; time is t. All symbols are real. The names of the states of a
model are the names of these symbols: ("phi", "phi'") for one second-order coordinate.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

import sympy as sp

Expression: TypeAlias = Any
"""A real SymPy expression. SymPy's own annotations stop at Basic, which knows no arithmetic."""


symbolic = threading.RLock()
"""Held while models are analysed and compiled: SymPy's caches are not made for several threads at once."""


def symbol(name: str) -> sp.Symbol:
    """The symbol of a parameter, coordinate or rate; the same name always gives the same symbol."""
    return sp.Symbol(name, real=True)


def rate(name: str, order: int = 1) -> sp.Symbol:
    """Symbol of the time derivative of a coordinate: rate("phi", 2) is phi''."""
    return symbol(name + "'" * order)


time = symbol("t")


def vanishes(expression: Expression) -> bool:
    """Is the expression identically zero? Decided with 30 digits at three points of unrelated rationals."""
    free = sorted(expression.free_symbols, key=lambda s: s.name)
    for trial in range(3):
        point = {s: sp.Rational(1 + (7919 * (i + 1) + 104729 * trial) % 997, 613) for i, s in enumerate(free)}
        result = sp.N(expression.xreplace(point), 30)
        if not (result.is_number and abs(complex(result)) <= 1e-20):
            return False
    return True
