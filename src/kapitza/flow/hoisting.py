"""Constants of the equations, computed once per run.

They are the parts that depend on parameters alone.
A Taylor integrator treats ω²/l as one more series whose higher terms are zero, and multiplies series in every step.
As a separate run-time parameter it is a number.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp

from kapitza.flow.engine import System
from kapitza.model import Evaluator, Expression, Step, compile_expressions, symbol


@lru_cache(maxsize=256)
def hoist_constants(system: System, constant: frozenset[sp.Symbol]) -> System:
    """Move parameter-only parts into further parameters.

    Their values are the `constants` of the new system.
    constant: the parameters that may be absorbed; those whose sensitivities are wanted stay in the equations.
    """
    if not constant:
        return system
    hoist = _Hoist(set(constant))
    steps: list[Step] = []
    for name, expression in system.smooth_steps:
        rewritten = hoist(expression.xreplace(hoist.steps))
        steps.append((name, rewritten))
        if rewritten.is_number or rewritten in hoist.constant:
            hoist.steps[name] = rewritten
    smooth = tuple(hoist(f.xreplace(hoist.steps)) for f in system.smooth_rates)
    found = sorted(hoist.found.items(), key=lambda item: item[1].name)
    return replace(
        system,
        smooth_steps=tuple(steps),
        smooth_rates=smooth,
        parameters=(*system.parameters, *(name for _, name in found)),
        constants=tuple(expression for expression, _ in found),
    )


def constants_function(system: System) -> Evaluator:
    """Compile the constants of a system.

    They depend on the parameters before them: f((0, N), (npar, N)) -> (constants, N).
    """
    count = len(system.parameters) - len(system.constants)
    named = system.parameters[count:]
    steps = tuple(zip(named, system.constants, strict=True))
    return compile_expressions(named, (), system.parameters[:count], steps)


class _Hoist:
    """Rewrites expressions; equal parts get one symbol."""

    def __init__(self, constant: set[sp.Symbol]):
        self.constant = constant
        self.found: dict[sp.Basic, sp.Symbol] = {}
        self.known: dict[sp.Basic, sp.Expr] = {}
        self.steps: dict[sp.Basic, sp.Basic] = {}
        """Steps that turned out to be constants."""
        self._symbols: dict[sp.Basic, frozenset[sp.Symbol]] = {}

    def __call__(self, node: Expression) -> Expression:
        if node not in self.known:
            self.known[node] = self.rewrite(node)
        return self.known[node]

    def rewrite(self, node: Expression) -> Expression:
        if not node.args or not self.symbols(node):
            return node
        if self.is_constant(node):
            return self.name(node)
        if isinstance(node, (sp.Add, sp.Mul)):
            fixed = [a for a in node.args if self.symbols(a) <= self.constant]
            moving = [self(a) for a in node.args if not self.symbols(a) <= self.constant]
            return node.func(self(node.func(*fixed)), *moving) if fixed else node.func(*moving)
        if isinstance(node, sp.Pow) and node.exp.is_number:
            # The exponent decides how the power is translated: it must stay a number.
            return sp.Pow(self(node.base), node.exp)
        return node.func(*[self(a) for a in node.args])

    def is_constant(self, node: sp.Basic) -> bool:
        return bool(self.symbols(node)) and self.symbols(node) <= self.constant

    def symbols(self, node: sp.Basic) -> frozenset[sp.Symbol]:
        """Return the symbols in a node.

        Kept, because SymPy would gather them again at every level.
        """
        found = self._symbols.get(node)
        if found is None:
            own = [frozenset((node,))] if isinstance(node, sp.Symbol) else map(self.symbols, node.args)
            found = self._symbols[node] = frozenset[sp.Symbol]().union(*own)
        return found

    def name(self, node: sp.Basic) -> sp.Symbol:
        if node not in self.found:
            self.found[node] = named = symbol(f"constant:{len(self.found):05d}")
            self.constant.add(named)
        return self.found[node]
