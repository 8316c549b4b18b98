"""Expressions as text of each language.

One printer writes all of them, fully bracketed, from a small description of the language. What is not in the list of
functions is refused, so no unknown text reaches a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from kapitza.exports.program import Body, ExportError

LARGEST_PRODUCT = 8
"""Whole powers up to this one are written as products: `pow` is slower, and rounds differently."""

SAME_NAME = {
    sp.sin: "sin", sp.cos: "cos", sp.tan: "tan", sp.asin: "asin", sp.acos: "acos", sp.atan: "atan", sp.atan2: "atan2",
    sp.sinh: "sinh", sp.cosh: "cosh", sp.tanh: "tanh", sp.asinh: "asinh", sp.acosh: "acosh", sp.atanh: "atanh",
    sp.exp: "exp", sp.log: "log", sp.erf: "erf",
}  # fmt: skip

RELATIONS = {
    sp.StrictGreaterThan: ">",
    sp.GreaterThan: ">=",
    sp.StrictLessThan: "<",
    sp.LessThan: "<=",
    sp.Equality: "==",
    sp.Unequality: "!=",
}


@dataclass(frozen=True)
class Language:
    """How one language writes what differs.

    reference: text of argument `kind` with number `i` (None for t); functions: names that differ from those of C;
    power, choice: of their arguments; sign: sign(x) with sign(0) = 0.
    """

    reference: Callable[[str, int], str]
    power: str = "pow({0}, {1})"
    choice: str = "(({0}) ? ({1}) : ({2}))"
    absolute: str = "fabs({0})"
    sign: str = "(({0} > 0.0) - ({0} < 0.0))"
    root: str = "sqrt({0})"
    both: str = "&&"
    either: str = "||"
    negation: str = "!({0})"
    unequal: str = "!="
    integer: str = "{0}.0"
    local: str = "w{0}"
    define: str = "const double {0} = {1};"
    functions: Mapping[Any, str] = field(default_factory=dict)

    def lines(self, program: Body, put: Callable[[int, str], str]) -> list[str]:
        """Return the statements of a program.

        put: the statement that stores result i.
        """
        defined = [self.define.format(self.text(name), self.text(e)) for name, e in program.steps]
        return defined + [put(i, self.text(e)) for i, e in enumerate(program.results)]

    def text(self, e: Any) -> str:
        """Return an expression as text."""
        if isinstance(e, sp.Symbol):
            kind, _, number = e.name.partition(":")
            if kind == "w":
                return self.local.format(number)
            return self.reference(kind, int(number or 0))
        if e.is_number and (isinstance(e, sp.Number | sp.NumberSymbol) or not e.args):
            return self._number(e)
        if isinstance(e, sp.Add):
            return "(" + " + ".join(self.text(a) for a in e.args) + ")"
        if isinstance(e, sp.Mul):
            return self._product(e)
        if isinstance(e, sp.Pow):
            return self._power(e.base, e.exp)
        return self._function(e)

    def _number(self, e: Any) -> str:
        if isinstance(e, sp.Integer):
            return self.integer.format(int(e)) if e >= 0 else f"({self.integer.format(int(e))})"
        if isinstance(e, sp.Rational):
            return f"({self.integer.format(int(e.p))} / {self.integer.format(int(e.q))})"
        value = float(e)
        if value != value or value in (float("inf"), float("-inf")):
            raise ExportError(f"The equations hold the number {e}, which has no finite value.")
        return repr(value) if value >= 0 else f"({value!r})"

    def _product(self, e: Any) -> str:
        above, below = [], []
        for factor in e.args:
            if isinstance(factor, sp.Pow) and factor.exp.is_number and factor.exp.is_negative:
                below.append(self._power(factor.base, -factor.exp))
            elif factor == -1:
                above.insert(0, self._number(sp.Integer(-1)))
            else:
                above.append(self.text(factor))
        top = " * ".join(above) or self.integer.format(1)
        return f"({top})" if not below else f"(({top}) / ({' * '.join(below)}))"

    def _power(self, base: Any, exponent: Any) -> str:
        inside = self.text(base)
        if base is sp.E:
            return f"{self.functions.get(sp.exp, 'exp')}({self.text(exponent)})"
        if exponent.is_number and exponent.is_negative:
            return f"({self.integer.format(1)} / {self._power(base, -exponent)})"
        if exponent == sp.Rational(1, 2):
            return self.root.format(inside)
        if exponent.is_Integer and 1 <= exponent <= LARGEST_PRODUCT:
            return "(" + " * ".join([inside] * int(exponent)) + ")"
        if exponent.is_Rational and exponent.q == 2 and 1 < exponent <= LARGEST_PRODUCT:
            return "(" + " * ".join([inside] * int(exponent - sp.Rational(1, 2)) + [self.root.format(inside)]) + ")"
        return self.power.format(inside, self.text(exponent))

    def _function(self, e: Any) -> str:
        kind, arguments = type(e), [self.text(a) for a in e.args if not isinstance(e, sp.Piecewise)]
        if kind in SAME_NAME:
            name = self.functions.get(kind, SAME_NAME[kind])
            return f"{name}({', '.join(arguments)})"
        if isinstance(e, sp.Abs):
            return self.absolute.format(arguments[0])
        if isinstance(e, sp.sign):
            return self.sign.format(arguments[0])
        if isinstance(e, sp.Heaviside):
            at_zero = self.text(e.args[1])
            one, zero = self.integer.format(1), self.integer.format(0)
            below = self.choice.format(f"{arguments[0]} < {zero}", zero, at_zero)
            return self.choice.format(f"{arguments[0]} > {zero}", one, below)
        if isinstance(e, sp.Max | sp.Min):
            relation, result = (">" if isinstance(e, sp.Max) else "<"), arguments[0]
            for other in arguments[1:]:
                result = self.choice.format(f"{result} {relation} {other}", result, other)
            return result
        if isinstance(e, sp.Piecewise):
            return self._cases(e)
        if kind in RELATIONS or isinstance(e, sp.And | sp.Or | sp.Not):
            return self.condition(e)
        raise ExportError(f"The function {kind.__name__} in the equations cannot be exported; write it by others.")

    def _cases(self, e: Any) -> str:
        *first, last = e.args
        result = self.text(last.expr)
        for case in reversed(first):
            result = self.choice.format(self.condition(case.cond), self.text(case.expr), result)
        return result

    def condition(self, e: Any) -> str:
        """Return a condition as text."""
        if isinstance(e, sp.And | sp.Or):
            word = self.both if isinstance(e, sp.And) else self.either
            return "(" + f" {word} ".join(self.condition(a) for a in e.args) + ")"
        if isinstance(e, sp.Not):
            return self.negation.format(self.condition(e.args[0]))
        if type(e) in RELATIONS:
            word = self.unequal if isinstance(e, sp.Unequality) else RELATIONS[type(e)]
            return f"({self.text(e.args[0])} {word} {self.text(e.args[1])})"
        raise ExportError(f"The condition {e} in the equations cannot be exported.")
