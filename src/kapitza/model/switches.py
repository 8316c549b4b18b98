"""Switches: where sign, Abs, Heaviside, Max, Min and Piecewise change, as functions with a mode sign each.

Every nonsmooth term is rewritten with a mode m = ±1, the sign of its switching function s:

    sign(s) -> m,  |s| -> m s,  Heaviside(s) -> (1+m)/2,  max(a, b) -> (a+b)/2 + m (a-b)/2  with s = a-b,
    Piecewise((e1, s>0), (e2, True)) -> e2 + (1+m)/2 (e1-e2).

Between two crossings of s = 0 the modes are constants and the rates are smooth.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from kapitza.errors import ModelError
from kapitza.model.symbols import Expression, vanishes

NONSMOOTH = (sp.sign, sp.Abs, sp.Heaviside, sp.Max, sp.Min, sp.Piecewise)
HALF = sp.Rational(1, 2)

MOST_COMBINATIONS = 64
"""Combinations of other modes for which the continuity of one switch is tested."""


@dataclass(frozen=True)
class Switch:
    """A switching function s, its mode symbol m (the sign of s), and whether the rates are continuous at s = 0."""

    function: Expression
    mode: sp.Symbol
    continuous: bool = False


def split_switches(
    rates: tuple[Expression, ...], moving: Iterable[sp.Symbol]
) -> tuple[tuple[Switch, ...], tuple[Expression, ...]]:
    """Switches of the rates and the rates written with their modes.

    moving: the symbols that change along a motion (states, time, signals); a nonsmooth term of parameters alone stays.
    The order of the switches depends on the expressions only: inner ones first, then by their text.
    """
    moving = set(moving)
    modes: dict[Expression, sp.Symbol] = {}
    smooth = tuple(_clamped_powers(r) for r in rates)
    while True:
        nodes = _innermost(smooth, moving)
        if not nodes:
            break
        functions = {_orient(s)[0] for node in nodes for s in _functions(node) if _moves(s, moving)}
        for function in sorted(functions - modes.keys(), key=sp.sstr):
            modes[function] = mode = sp.Symbol(f"mode:{len(modes) + 1}", real=True)
            moving.add(mode)
        replacements = {node: _with_modes(node, modes, moving) for node in nodes}
        smooth = tuple(r.xreplace(replacements) for r in smooth)
    switches = tuple(
        Switch(function, mode, _is_continuous(smooth, function, mode, modes.values()))
        for function, mode in modes.items()
        if any(r.has(mode) for r in smooth) or any(mode in f.free_symbols for f in modes)
    )
    return switches, smooth


def split_program(
    steps: tuple[tuple[sp.Symbol, Expression], ...], rates: tuple[Expression, ...], moving: Iterable[sp.Symbol]
) -> tuple[tuple[Switch, ...], tuple[tuple[sp.Symbol, Expression], ...], tuple[Expression, ...]]:
    """Switches of the rates and of the named steps before them, and both written with the modes.

    A switch counts as continuous when no step jumps: that is safe, as the rates then do not either.
    """
    expressions = [*(e for _, e in steps), *rates]
    rough = [i for i, e in enumerate(expressions) if e.has(*NONSMOOTH)]
    switches, smooth = split_switches(tuple(expressions[i] for i in rough), moving)
    for i, e in zip(rough, smooth, strict=True):
        expressions[i] = e
    named = tuple((name, e) for (name, _), e in zip(steps, expressions, strict=False))
    return switches, named, tuple(expressions[len(steps) :])


def _moves(expression: Expression, moving: set[sp.Symbol]) -> bool:
    return not expression.free_symbols.isdisjoint(moving)


def _innermost(expressions: tuple[Expression, ...], moving: set[sp.Symbol]) -> list[Expression]:
    """Nonsmooth terms that switch during the motion and hold no other such term, in a fixed order."""
    found = set().union(*(e.atoms(*NONSMOOTH) for e in expressions)) if expressions else set()
    switching = [n for n in found if _is_switching(n, moving)]
    inner = [n for n in switching if not any(n is not other and n.has(other) for other in switching)]
    return sorted(inner, key=sp.sstr)


def _is_switching(node: Expression, moving: set[sp.Symbol]) -> bool:
    if isinstance(node, (sp.Max, sp.Min)):
        return _moves(node, moving)
    return any(_moves(s, moving) and not _is_mode_test(s) for s in _functions(node))


def _is_mode_test(function: Expression) -> bool:
    """Piecewise terms that were kept test the bare mode symbol; they are done."""
    return isinstance(function, sp.Symbol) and function.name.startswith("mode:")


def _arguments(node: Expression) -> list[Expression]:
    """Arguments in a fixed order where order does not matter (Max, Min), as written elsewhere."""
    return sorted(node.args, key=sp.sstr) if isinstance(node, (sp.Max, sp.Min)) else list(node.args)


def _functions(node: Expression) -> list[Expression]:
    """The switching functions of one nonsmooth term; Max and Min are taken two arguments at a time."""
    arguments = _arguments(node)
    if isinstance(node, (sp.Max, sp.Min)):
        return [arguments[0] - arguments[1]]
    if not isinstance(node, sp.Piecewise):
        return [arguments[0]]
    relations: set[Expression] = set().union(*(condition.atoms(sp.Rel) for _, condition in arguments))
    for relation in relations:
        if isinstance(relation, (sp.Equality, sp.Unequality)):
            raise ModelError(f"The condition {relation} holds at isolated instants only; write it with < or >.")
    return [r.lhs - r.rhs for r in sorted(relations, key=sp.sstr)]


def _orient(function: Expression) -> tuple[Expression, int]:
    """The switching function up to a positive factor, with the sign that was taken out: s and -2 s are one switch."""
    coefficient, rest = sp.expand(function, deep=False).primitive()
    sign = -1 if coefficient.is_negative else 1
    if rest.could_extract_minus_sign():
        rest, sign = -rest, -sign
    return rest, sign


def _mode(function: Expression, modes: dict[Expression, sp.Symbol], moving: set[sp.Symbol]) -> Expression:
    if not _moves(function, moving):
        return sp.sign(function)
    rest, sign = _orient(function)
    return sign * modes[rest]


def _with_modes(node: Expression, modes: dict[Expression, sp.Symbol], moving: set[sp.Symbol]) -> Expression:
    arguments = _arguments(node)
    first = arguments[0]
    if isinstance(node, (sp.Max, sp.Min)):
        second = arguments[1]
        direction = 1 if isinstance(node, sp.Max) else -1
        mode = _mode(first - second, modes, moving)
        pair = (first + second) / 2 + direction * mode * (first - second) / 2
        return node.func(pair, *arguments[2:]) if len(arguments) > 2 else pair
    if isinstance(node, sp.Piecewise):
        return _piecewise_with_modes(arguments, modes, moving)
    mode = _mode(first, modes, moving)
    if isinstance(node, sp.sign):
        return mode
    if isinstance(node, sp.Abs):
        return mode * first
    return (1 + mode) * HALF


def _piecewise_with_modes(cases: list[Expression], modes: dict, moving: set[sp.Symbol]) -> Expression:
    if cases[-1].cond != sp.true:
        raise ModelError(f"{sp.Piecewise(*cases)} does not say what holds elsewhere; end it with (value, True).")
    if any(_is_fragile(case.expr) for case in cases):
        relations = {r: _mode_relation(r, modes, moving) for case in cases for r in case.cond.atoms(sp.Rel)}
        return sp.Piecewise(*[(case.expr, case.cond.xreplace(relations)) for case in cases])
    result = cases[-1].expr
    for case in reversed(cases[:-1]):
        result = result + _weight(case.cond, modes, moving) * (case.expr - result)
    return result


def _is_fragile(value: Expression) -> bool:
    """True when a branch may have no finite value outside its own region: it must be selected, not weighted by zero."""
    powers = value.atoms(sp.Pow)
    roots = any(not p.exp.is_integer or p.exp.is_negative for p in powers if p.base.free_symbols)
    return roots or bool(value.atoms(sp.log, sp.asin, sp.acos, sp.acosh, sp.atanh))


def _mode_relation(relation: Expression, modes: dict, moving: set[sp.Symbol]) -> Expression:
    function = relation.lhs - relation.rhs
    if not _moves(function, moving) or _is_mode_test(function):
        return relation
    above = isinstance(relation, (sp.StrictGreaterThan, sp.GreaterThan))
    mode = _mode(function, modes, moving)
    return mode > 0 if above else mode < 0


def _weight(condition: Expression, modes: dict, moving: set[sp.Symbol]) -> Expression:
    """1 where the condition holds and 0 elsewhere, as a polynomial in the modes."""
    if condition in (sp.true, sp.false):
        return sp.Integer(condition == sp.true)
    if isinstance(condition, sp.And):
        return sp.Mul(*[_weight(c, modes, moving) for c in condition.args])
    if isinstance(condition, sp.Or):
        return 1 - sp.Mul(*[1 - _weight(c, modes, moving) for c in condition.args])
    if isinstance(condition, sp.Not):
        return 1 - _weight(condition.args[0], modes, moving)
    mode = _mode(condition.lhs - condition.rhs, modes, moving)
    above = isinstance(condition, (sp.StrictGreaterThan, sp.GreaterThan))
    return (1 + mode if above else 1 - mode) * HALF


def _clamped_powers(expression: Expression) -> Expression:
    """Max(a, 0)**p with fractional p (Hertz contact) as a Piecewise: its Taylor series breaks on the flat side."""

    def clamped(node: Expression) -> bool:
        if not (isinstance(node, sp.Pow) and isinstance(node.base, sp.Max) and len(node.base.args) == 2):
            return False
        return 0 in node.base.args and not node.exp.is_integer

    def rewrite(node: Expression) -> Expression:
        inside = next(a for a in node.base.args if a != 0)
        return sp.Piecewise((inside**node.exp, inside > 0), (0, True))

    return expression.replace(clamped, rewrite)


def _is_continuous(
    rates: tuple[Expression, ...], function: Expression, mode: sp.Symbol, modes: Iterable[sp.Symbol]
) -> bool:
    """Do the rates agree on both sides of s = 0, whatever the other modes? Decided on the surface, with 30 digits."""
    jumps = [r.xreplace({mode: sp.Integer(1)}) - r.xreplace({mode: sp.Integer(-1)}) for r in rates if r.has(mode)]
    present = function.free_symbols.union(*(j.free_symbols for j in jumps))
    others = [m for m in modes if m in present and m != mode]
    for signs in itertools.islice(itertools.product((1, -1), repeat=len(others)), MOST_COMBINATIONS):
        point = {m: sp.Integer(sign) for m, sign in zip(others, signs, strict=True)}
        surface = sp.expand(function.xreplace(point))
        if not all(_vanishes_on(surface, jump.xreplace(point)) for jump in jumps):
            return False
    return True


def _vanishes_on(surface: Expression, jump: Expression) -> bool:
    variable = _linear_symbol(surface)
    if variable is None:
        # No symbol of s can be isolated: continuous only when s is visibly a factor of the jump.
        if not surface.free_symbols:
            return True
        below = sp.fraction(sp.cancel(jump / surface))[1]
        return not below.has(*(surface.atoms(sp.Function) or surface.free_symbols))
    slope = sp.diff(surface, variable)
    root = -(surface - slope * variable) / slope
    return vanishes(jump.xreplace({variable: root}))


def _linear_symbol(surface: Expression) -> sp.Symbol | None:
    for candidate in sorted(surface.free_symbols, key=lambda s: s.name):
        slope = sp.diff(surface, candidate)
        if slope != 0 and not slope.has(candidate):
            return candidate
    return None
