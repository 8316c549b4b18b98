"""Switches: where sign, Abs, Heaviside, Max, Min and Piecewise change, as functions with a mode sign each.

Every nonsmooth term is rewritten with a mode m = ±1, the sign of its switching function s:

    sign(s) -> m,  |s| -> m s,  Heaviside(s) -> (1+m)/2,  max(a, b) -> (a+b)/2 + m (a-b)/2  with s = a-b,
    Piecewise((e1, s>0), (e2, True)) -> e2 + (1+m)/2 (e1-e2).

Between two crossings of s = 0 the modes are constants and the rates are smooth. Terms inside terms are rewritten from
the inside out, so the function of an outer switch may hold modes of inner ones, which come before it in the order:
abs(abs(x) - a) has s1 = x and s2 = m1 x - a. Such a function may vanish over a stretch (that of abs(max(x, 0)) while
x < 0); its mode is then 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kapitza.errors import ModelError
from kapitza.model.symbols import Expression, vanishes

NONSMOOTH = (sp.sign, sp.Abs, sp.Heaviside, sp.Max, sp.Min, sp.Piecewise)
HALF = sp.Rational(1, 2)

MOST_COMBINATIONS = 64
"""Combinations of other modes for which the continuity of one switch is tested one by one."""

MOST_INNER_MODES = 6
"""Modes in a function of modes and parameters alone, which is written out over all their combinations."""

LARGEST_QUOTIENT = 500
"""Operations in a jump up to which it is divided by its surface to see whether the surface is a factor."""


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
    rewriting = _Rewriting(set(moving))
    smooth = tuple(rewriting(_clamped_powers(r)) for r in rates)
    modes, renamed = _in_order(rewriting.modes)
    smooth = tuple(r.xreplace(renamed) for r in smooth)
    used = set().union(*(r.free_symbols for r in smooth), *(f.free_symbols for f in modes))
    composed = {renamed[m] for m in rewriting.modes.values()} - {renamed[m] for m in rewriting.jumping}
    switches = tuple(
        Switch(function, mode, _is_continuous(smooth, function, mode, modes.values(), mode in composed))
        for function, mode in modes.items()
        if mode in used
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


def _in_order(
    found: dict[Expression, sp.Symbol],
) -> tuple[dict[Expression, sp.Symbol], dict[sp.Symbol, sp.Symbol]]:
    """Functions with their final modes, inner ones first and then by their text, and how the modes are renamed."""
    left, renamed = dict(found), {}
    ordered: dict[Expression, sp.Symbol] = {}
    while left:
        inner = [f for f in left if not (f.free_symbols & (set(left.values()) - renamed.keys()))]
        named = {f.xreplace(renamed): f for f in inner}
        for function in sorted(named, key=sp.sstr):
            ordered[function] = mode = sp.Symbol(f"mode:{len(ordered) + 1}", real=True)
            renamed[left.pop(named[function])] = mode
    return ordered, renamed


class _Rewriting:
    """One pass from the inside out; a term that occurs twice is rewritten once.

    modes: the mode of each switching function met so far, by a name for the time being. jumping: those of them that
    stand for more than an absolute value, a maximum or a minimum, which are continuous by themselves.
    """

    def __init__(self, moving: set[sp.Symbol]):
        self.moving = moving
        self.modes: dict[Expression, sp.Symbol] = {}
        self.jumping: set[sp.Symbol] = set()
        self._known: dict[Expression, Expression] = {}
        self._symbols: set[sp.Symbol] = set()

    def __call__(self, node: Expression) -> Expression:
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._rewrite(node)
        return found

    def _rewrite(self, node: Expression) -> Expression:
        if not node.args or node.free_symbols.isdisjoint(self.moving) or not node.has(*NONSMOOTH):
            return node
        if isinstance(node, sp.Piecewise):
            return self._piecewise(node)
        arguments = [self(a) for a in node.args]
        if isinstance(node, (sp.Max, sp.Min)):
            return self._extreme(node.func, arguments)
        if isinstance(node, (sp.sign, sp.Heaviside)):
            mode = self._mode(arguments[0], jumps=True)
            return mode if isinstance(node, sp.sign) else (1 + mode) * HALF
        if isinstance(node, sp.Abs):
            return self._mode(arguments[0]) * arguments[0]
        return node.func(*arguments)

    def _moves(self, expression: Expression) -> bool:
        return not expression.free_symbols.isdisjoint(self.moving)

    def _mode(self, function: Expression, jumps: bool = False) -> Expression:
        """The sign of a function that holds modes at most: a mode symbol, or known from the modes inside."""
        if not self._moves(function):
            return self._over_modes(function)
        rest, sign = _orient(function)
        if rest not in self.modes:
            self.modes[rest] = mode = sp.Symbol(f"mode?{len(self.modes) + 1}", real=True)
            self._symbols.add(mode)
        if jumps:
            self.jumping.add(self.modes[rest])
        return sign * self.modes[rest]

    def _over_modes(self, function: Expression) -> Expression:
        """The sign of a function of modes and parameters alone, which changes with them and at no other instant."""
        inside = sorted(function.free_symbols & self._symbols, key=lambda s: s.name)
        if len(inside) > MOST_INNER_MODES:
            raise ModelError(
                f"The term {function} depends on {len(inside)} switches and on nothing that moves; at most "
                f"{MOST_INNER_MODES} can be resolved. Split it with Piecewise."
            )
        self.jumping.update(inside)
        terms = []
        for signs in itertools.product((1, -1), repeat=len(inside)):
            weight = sp.Mul(*[(1 + side * m) * HALF for m, side in zip(inside, signs, strict=True)])
            point = {m: sp.Integer(side) for m, side in zip(inside, signs, strict=True)}
            terms.append(weight * sp.sign(function.xreplace(point)))
        return sp.expand(sp.Add(*terms)) if inside else terms[0]

    def _extreme(self, kind: Any, arguments: list[Expression]) -> Expression:
        """Max or Min two at a time, winners against winners: then the terms grow with the square of their number."""
        fixed = [a for a in arguments if not self._moves(a) and a.free_symbols.isdisjoint(self._symbols)]
        left = sorted({*arguments} - {*fixed}, key=sp.sstr) + ([kind(*fixed)] if fixed else [])
        direction = 1 if kind is sp.Max else -1
        while len(left) > 1:
            pairs = list(zip(left[::2], left[1::2], strict=False))
            won = [(a + b) / 2 + direction * self._mode(a - b) * (a - b) / 2 for a, b in pairs]
            left = won + left[2 * len(pairs) :]
        return left[0]

    def _piecewise(self, node: Expression) -> Expression:
        cases = list(node.args)
        if cases[-1].cond != sp.true:
            raise ModelError(f"{node} does not say what holds elsewhere; end it with (value, True).")
        values, weights = [self(c.expr) for c in cases], [self._weight(c.cond) for c in cases]
        if any(_is_fragile(c.expr) for c in cases):
            chosen = [(v, w > HALF) for v, w in zip(values[:-1], weights[:-1], strict=True)]
            return sp.Piecewise(*chosen, (values[-1], True))
        terms, rest = [], sp.Integer(1)
        for value, weight in zip(values, weights, strict=True):
            terms.append(value * weight * rest)
            rest = rest * (1 - weight)
        return sp.Add(*terms)

    def _weight(self, condition: Expression) -> Expression:
        """1 where the condition holds and 0 elsewhere, as a polynomial in the modes."""
        if condition in (sp.true, sp.false):
            return sp.Integer(condition == sp.true)
        if isinstance(condition, sp.And):
            return sp.Mul(*[self._weight(c) for c in condition.args])
        if isinstance(condition, sp.Or):
            return 1 - sp.Mul(*[1 - self._weight(c) for c in condition.args])
        if isinstance(condition, sp.Not):
            return 1 - self._weight(condition.args[0])
        if isinstance(condition, sp.ITE):
            test, then, otherwise = (self._weight(c) for c in condition.args)
            return test * then + (1 - test) * otherwise
        if isinstance(condition, (sp.Equality, sp.Unequality)):
            raise ModelError(f"The condition {condition} holds at isolated instants only; write it with < or >.")
        if not isinstance(condition, sp.Rel):
            raise ModelError(f"The condition {condition} is not understood; write it with <, <=, >, >=, and, or.")
        function = self(condition.lhs) - self(condition.rhs)
        mode = self._mode(function, jumps=True)
        if isinstance(condition, (sp.StrictLessThan, sp.LessThan)):
            mode = -mode
        if function.free_symbols.isdisjoint(self._symbols):
            return (1 + mode) * HALF
        # Around other switches a function may vanish for a while, with the mode 0: > is then false and >= is true.
        strict = isinstance(condition, (sp.StrictGreaterThan, sp.StrictLessThan))
        return mode * (mode + 1) * HALF if strict else 1 - mode * (mode - 1) * HALF


def _orient(function: Expression) -> tuple[Expression, int]:
    """The switching function up to a positive factor, with the sign that was taken out: s and -2 s are one switch."""
    coefficient, rest = sp.expand(function, deep=False).primitive()
    factor, rest = rest.as_coeff_Mul()
    sign = -1 if (coefficient * factor).is_negative else 1
    if rest.could_extract_minus_sign():
        rest, sign = -rest, -sign
    return rest, sign


def _is_fragile(value: Expression) -> bool:
    """True when a branch may have no finite value outside its own region: it must be selected, not weighted by zero."""
    powers = value.atoms(sp.Pow)
    roots = any(not p.exp.is_integer or p.exp.is_negative for p in powers if p.base.free_symbols)
    return roots or bool(value.atoms(sp.log, sp.asin, sp.acos, sp.acosh, sp.atanh))


def _clamped_powers(expression: Expression) -> Expression:
    """Max(a, 0)**p with fractional p (Hertz contact) as a Piecewise: its Taylor series breaks on the flat side."""

    def clamped(node: Expression) -> bool:
        if not (isinstance(node, sp.Pow) and isinstance(node.base, sp.Max) and len(node.base.args) == 2):
            return False
        return 0 in node.base.args and not node.exp.is_integer

    def rewrite(node: Expression) -> Expression:
        inside = next(a for a in node.base.args if a != 0)
        return sp.Piecewise((inside**node.exp, inside > 0), (0, True))

    return expression.replace(clamped, rewrite) if expression.has(sp.Max) else expression


def _is_continuous(
    rates: tuple[Expression, ...], function: Expression, mode: sp.Symbol, modes: Iterable[sp.Symbol], composed: bool
) -> bool:
    """Do the rates agree on both sides of s = 0, whatever the other modes? Decided on the surface, with 30 digits.

    composed: the mode comes from absolute values, maxima and minima alone, so that nothing but a division by zero on
    the surface can make the rates jump. Where nothing can be shown the switch counts as a jump, which is never wrong.
    """
    if composed and not any(_divides(r) for r in rates if r.has(mode)):
        return True
    jumps = [r.xreplace({mode: sp.Integer(1)}) - r.xreplace({mode: sp.Integer(-1)}) for r in rates if r.has(mode)]
    present = function.free_symbols.union(*(j.free_symbols for j in jumps))
    others = [m for m in modes if m in present and m != mode]
    # With the other modes as free numbers at first: a jump that vanishes for all of them does so for ±1.
    tested = any(j.has(sp.Piecewise) for j in jumps)
    if not (tested and others) and all(_vanishes_on(function, jump) for jump in jumps):
        return True
    if not others or 2 ** len(others) > MOST_COMBINATIONS:
        return False
    for signs in itertools.product((1, -1), repeat=len(others)):
        point = {m: sp.Integer(sign) for m, sign in zip(others, signs, strict=True)}
        surface = sp.expand(function.xreplace(point))
        if not all(_vanishes_on(surface, jump.xreplace(point)) for jump in jumps):
            return False
    return True


def _divides(rate: Expression) -> bool:
    """True when a quotient or root of something that moves with the modes may be singular on the surface."""
    return any(not (p.exp.is_integer and p.exp.is_positive) for p in rate.atoms(sp.Pow) if p.base.free_symbols)


def _vanishes_on(surface: Expression, jump: Expression) -> bool:
    if jump == 0:
        return True
    variable = _linear_symbol(surface)
    if variable is None:
        # Functions and powers stand for numbers of their own: what vanishes for any vanishes for theirs.
        parts = sorted(surface.atoms(sp.Function, sp.Pow), key=sp.sstr)
        outer = [p for p in parts if not any(p is not q and q.has(p) for q in parts)]
        named = {p: sp.Symbol(f"part:{i}", real=True) for i, p in enumerate(outer)}
        surface, jump = surface.xreplace(named), jump.xreplace(named)
        variable = _linear_symbol(surface)
    if variable is None:
        # No symbol of s can be isolated: continuous only when s is visibly a factor of the jump.
        if not surface.free_symbols:
            return True
        if sp.count_ops(jump) > LARGEST_QUOTIENT:
            return False
        below = sp.fraction(sp.cancel(jump / surface))[1]
        return not below.has(*(surface.atoms(sp.Function) or surface.free_symbols))
    slope = sp.diff(surface, variable)
    root = -(surface - slope * variable) / slope
    return vanishes(jump.xreplace({variable: root}))


def _linear_symbol(surface: Expression) -> sp.Symbol | None:
    for candidate in sorted(surface.free_symbols, key=lambda s: s.name):
        if candidate.name.startswith("mode:"):
            continue
        slope = sp.diff(surface, candidate)
        if slope != 0 and not slope.has(candidate):
            return candidate
    return None
