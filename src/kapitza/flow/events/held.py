"""Rates split by the modes of stuck switches.

The rates are those of a system that is solved step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import sympy as sp

from kapitza.flow.engine import System
from kapitza.model import Elimination, Expression, Step, derivative, symbol

MOST_TERMS = 300
"""Operations of two expressions up to which their common polynomial factor is computed."""


@dataclass
class HeldSteps:
    """Named steps, extended by those of a held motion.

    prefix: of the names of new steps.
    """

    steps: list[Step]
    prefix: str = "held"

    def name(self, expression: sp.Expr) -> sp.Expr:
        """Name the expression as one more step.

        A number or a symbol is returned as it is.
        """
        if expression.is_number or isinstance(expression, sp.Symbol):
            return expression
        named = symbol(f"{self.prefix}:{len(self.steps)}")
        self.steps.append((named, expression))
        return named


Jumps = dict[sp.Symbol, tuple[tuple[Step, ...], list[sp.Expr]]]
"""By mode: the steps that solve for half of the jump of the highest derivatives, and the solution."""


def split_steps(
    system: System, modes: Sequence[sp.Symbol], known: Jumps, affine: bool
) -> tuple[tuple[Step, ...], tuple[sp.Expr, ...], tuple[list[sp.Expr], ...]]:
    """Split the rates into mean and half jumps.

    Returns the steps, the mean f0 of each rate over both values of the modes, and half of its jump by each mode.

    Where the modes occur in the forces alone, as those of friction do, and linearly, the jumps are solved for with the
    existing factors, exact to rounding of their size. Otherwise whole programs are subtracted.

    known: jumps of earlier calls, which are extended. A jump does not depend on which other switches stick.
    affine: whether the modes occur so, see `forces_alone_are_affine`.
    """
    elimination = system.elimination
    assert elimination is not None
    if affine:
        gone = dict.fromkeys(modes, sp.Integer(0))
        forces = set(elimination.rest)
        steps = [(name, e.xreplace(gone) if name in forces else e) for name, e in system.smooth_steps]
        halves: list[list[sp.Expr]] = [[] for _ in system.smooth_rates]
        for mode in modes:
            if mode not in known:
                known[mode] = _jump(system, elimination, mode)
            own_steps, jumps = known[mode]
            steps += own_steps
            by_top = dict(zip(elimination.tops, jumps, strict=True))
            for own, rate in zip(halves, system.smooth_rates, strict=True):
                own.append(by_top.get(rate, sp.Integer(0)))
        return tuple(steps), system.smooth_rates, tuple(halves)
    held = HeldSteps([])
    above = _program_at(system, held, dict.fromkeys(modes, sp.Integer(1)), "+")
    halves = [[] for _ in above]
    for k, mode in enumerate(modes):
        values = {**dict.fromkeys(modes, sp.Integer(1)), mode: sp.Integer(-1)}
        for own, high, low in zip(halves, above, _program_at(system, held, values, f"-{k}"), strict=True):
            own.append(held.name((high - low) / 2))
    base = tuple(held.name(f - sp.Add(*own)) for f, own in zip(above, halves, strict=True))
    return tuple(held.steps), base, tuple(halves)


def _jump(system: System, elimination: Elimination, mode: sp.Symbol) -> tuple[tuple[Step, ...], list[sp.Expr]]:
    """Solve M w = -dh/dm for one mode m.

    The forces h are linear in m. Returns the steps, named after the mode, and w.
    """
    held = HeldSteps([], f"held:{mode.name}")
    touched = {name: e for name, e in system.smooth_steps if e.has(mode)}
    slopes: dict[sp.Expr, sp.Expr] = {name: held.name(derivative(e, mode)) for name, e in touched.items()}
    given = [-slopes.get(h, sp.Integer(0)) for h in elimination.rest]
    jumps = elimination.solve(given, lambda e: e, held.name)
    return tuple(held.steps), jumps


def forces_alone_are_affine(system: System, modes: Sequence[sp.Symbol]) -> bool:
    """Return whether the modes occur linearly in forces alone.

    The system is solved step by step; the modes occur nowhere else.
    """
    assert system.elimination is not None
    forces = set(system.elimination.rest)
    touched = {name: e for name, e in system.smooth_steps if e.has(*modes)}
    return touched.keys() <= forces and all(is_affine(e, modes) for e in touched.values())


def shared_factors(gain: Expression, load: Expression, moving: Set[sp.Basic]) -> list[sp.Expr]:
    """Return moving factors that gain and load share.

    They can change their sign; a load of zero has every factor.
    """
    if moving.isdisjoint(gain.free_symbols):
        return []
    over = [sp.fraction(sp.together(e))[0] for e in _exact(gain, load)]
    try:
        common = sp.gcd(*over) if sp.count_ops(over) <= MOST_TERMS else _by_factors(*over)
    except sp.PolynomialError:
        common = _by_factors(*over)
    factors = [
        f.base if isinstance(f, sp.Pow) else f
        for f in sp.Mul.make_args(sp.factor_terms(common))
        if not f.is_nonnegative
    ]
    return [f for f in factors if not moving.isdisjoint(f.free_symbols)]


def _by_factors(gain: Expression, load: Expression) -> sp.Expr:
    """Return the product of the factors written in both."""
    own, other = (sp.Mul.make_args(sp.factor_terms(e)) for e in (gain, load))
    return sp.factor_terms(gain) if load.is_zero else sp.Mul(*(f for f in own if f in other or -f in other))


def cancelled(load: Expression, gain: Expression) -> Expression:
    """Return load / gain without the factors they share."""
    over, under = _exact(load, gain)
    if sp.count_ops((over, under)) > MOST_TERMS:
        return sp.factor_terms(over) / sp.factor_terms(under)
    return sp.cancel(over / under)


def _exact(*expressions: Expression) -> list[sp.Expr]:
    """Return the expressions with rational numbers: rounding hides common factors."""
    return [sp.nsimplify(e, rational=True) for e in expressions]


def is_affine(expression: sp.Expr, modes: Sequence[sp.Symbol]) -> bool:
    if any(p.has(*modes) for p in expression.atoms(sp.Piecewise)):
        return False
    return all(derivative(expression, m).free_symbols.isdisjoint(modes) for m in modes if expression.has(m))


def _program_at(system: System, held: HeldSteps, values: Mapping[sp.Symbol, sp.Expr], mark: str) -> list[Expression]:
    """Return the rates at given modes.

    Their steps are added under separate names.
    """
    renamed = dict(values)
    for name, expression in system.smooth_steps:
        own = symbol(f"{name.name}:{mark}")
        held.steps.append((own, expression.xreplace(renamed)))
        renamed[name] = own
    return [f.xreplace(renamed) for f in system.smooth_rates]
