"""Expressions as text in plain notation.

Parsing the text returns the expression.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.str import StrPrinter

from kapitza.base.cures import marked
from kapitza.errors import ModelError, ParseError
from kapitza.model.notation import parse_expression
from kapitza.model.symbols import Expression, vanishes


class _PlainPrinter(StrPrinter):
    """Printer of SymPy for the plain notation.

    It writes every digit of a number, and conditions as the notation has them.
    """

    def _print_Float(self, expr: sp.Float) -> str:
        return repr(float(expr))

    def _print_Exp1(self, expr: sp.Expr) -> str:
        return "exp(1)"

    def _print_And(self, expr: sp.And) -> str:
        return " and ".join(self.parenthesize(a, PRECEDENCE["And"] + 1) for a in sorted(expr.args, key=sp.sstr))

    def _print_Or(self, expr: sp.Or) -> str:
        return " or ".join(self.parenthesize(a, PRECEDENCE["And"] + 1) for a in sorted(expr.args, key=sp.sstr))

    def _print_Heaviside(self, expr: sp.Heaviside) -> str:
        return f"Heaviside({self._print(expr.args[0])})"

    def _print_Relational(self, expr: sp.Rel) -> str:
        level = precedence(expr)
        left, right = (self.parenthesize(side, level) for side in (expr.lhs, expr.rhs))
        return f"{left} {expr.rel_op} {right}"


def to_text(expression: Expression, names: Iterable[str]) -> str:
    """Return the expression in plain notation.

    It is refused when parsing the text would give another expression.
    """
    text = _PlainPrinter().doprint(expression)
    try:
        again = parse_expression(text, names)
    except ParseError as error:
        raise ModelError(f"{expression} cannot be written in plain notation. {marked(error)}") from None
    if again != expression and not vanishes(again - expression):
        raise ModelError(
            f"{expression} changes when it is written and read again (to {again}); simplify it before writing."
        )
    return text
