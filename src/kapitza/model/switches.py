"""Switches of nonsmooth terms, with a mode each.

A switch is where sign, Abs, Heaviside, Max, Min or Piecewise changes.

Every nonsmooth term is rewritten with the mode m of its switching function s:

    sign(s) -> m,  |s| -> m s,  Heaviside(s) -> (1+m)/2,  max(a, b) -> (a+b)/2 + m (a-b)/2  with s = a-b,
    Piecewise((e1, s>0), (e2, True)) -> e2 + (1+m)/2 (e1-e2).

Between two crossings of s = 0 the modes are constants and the rates are smooth.

Values of a mode. m = +1 where s > 0, m = -1 where s < 0, and m = 0 where s vanishes on a stretch of the motion and not
only at an instant. m = 0 is possible for a switch with `can_vanish`, that is where s

- holds the modes of other switches: s = (1+m1) x/2 of abs(max(x, 0)) vanishes while x < 0;
- has parameters as factors: s = a x vanishes for a = 0;
- consists of signals: s = u of a measured excitation that is zero for a while.

Terms with such a mode are polynomials in it that are exact at -1, 0 and 1: s > 0 is m (m+1)/2, s >= 0 is
1 - m (m-1)/2, s = 0 is 1 - m². All other modes are ±1 only, and terms are linear in each of them. At an isolated
instant with s = 0 no mode is 0: the motion decides whether s is crossed, touched or held at zero.

Order. Terms are rewritten from the inside out, so s of an outer switch may hold modes of inner ones, which come before
it in the tuple: abs(abs(x) - a) has s1 = x and s2 = m1 x - a. Modes are evaluated in this order. Whether s vanishes is
known once the modes inside it are: it then vanishes at all states and times around, and its mode stays 0 until a mode
inside it changes. An outer term whose sign follows from the modes inside alone gets no switch: sign(max(x, 0)) is
(1+m1)/2, and min(m, a) changes only when m does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import sympy as sp
from sympy.logic.boolalg import Boolean

from kapitza.errors import ModelError
from kapitza.model.symbols import Expression, derivative, vanishes

NONSMOOTH = (sp.sign, sp.Abs, sp.Heaviside, sp.Max, sp.Min, sp.Piecewise)
"""Functions that become switches."""

HALF = sp.Rational(1, 2)

FLAT = 1e-12
"""A switching function of at most this size, relative to the states, vanishes if it is so all around."""

MOST_COMBINATIONS = 64
"""Combinations of other modes for which the continuity of one switch is tested one by one."""

MOST_FIXED = 1024
"""Combinations of modes over which a function of modes and parameters alone is written out."""

MOST_CASES = 27
"""Combinations of inner modes over which the function of an outer switch is examined."""

LARGEST_QUOTIENT = 500
"""Operations in a jump up to which it is divided by its surface to see whether the surface is a factor."""


@dataclass(frozen=True)
class Switch:
    """A switching function s and its mode m.

    m is the sign of s.

    continuous: the rates do not jump where the mode changes. can_vanish: s may be zero on a stretch, where m = 0.
    """

    function: Expression
    mode: sp.Symbol
    continuous: bool = False
    can_vanish: bool = False

    def jumps(self, expression: Expression) -> list[Expression]:
        """Return the jumps of an expression with the mode.

        They are its differences between the values of the mode; empty where it does not hold the mode.
        """
        if not expression.has(self.mode):
            return []
        above, below = (expression.xreplace({self.mode: sp.Integer(side)}) for side in (1, -1))
        if not self.can_vanish:
            return [above - below]
        between = expression.xreplace({self.mode: sp.Integer(0)})
        return [above - between, below - between]


def split_switches(
    rates: tuple[Expression, ...], moving: Iterable[sp.Symbol], signals: Iterable[sp.Symbol] = ()
) -> tuple[tuple[Switch, ...], tuple[Expression, ...]]:
    """Return the switches, and the rates with modes.

    moving: the symbols that change along a motion (states, time, signals); a nonsmooth term of parameters alone stays.
    signals: those of them that may be constant for a while. The order of the switches depends on the expressions only:
    inner ones first, then by their text.
    """
    rewriting = _Rewriting(set(moving), set(signals))
    smooth = tuple(rewriting(_clamped_powers(r)) for r in rates)
    modes, renamed = _in_order(rewriting.modes)
    smooth = tuple(r.xreplace(renamed) for r in smooth)
    used = {s for r in smooth for s in r.free_symbols}
    for function, mode in reversed(modes.items()):
        # A switch that occurs only in an unused switch is not used either.
        used |= function.free_symbols if mode in used else set()
    vanishing = {renamed[m] for m in rewriting.vanishing}
    composed = {renamed[m] for m in rewriting.modes.values()} - {renamed[m] for m in rewriting.jumping}
    found = [Switch(f, mode, can_vanish=mode in vanishing) for f, mode in modes.items() if mode in used]
    fixed = _fixed_terms((*smooth, *modes), {*rewriting.moving, *modes.values()})
    tested = [replace(s, function=s.function.xreplace(fixed)) for s in found]
    rates = tuple(r.xreplace(fixed) for r in smooth)
    outer: list[Switch] = []
    for s in reversed(tested):
        continuous = _is_continuous(rates, s, tested, s.mode in composed) and not any(_throws(s, o) for o in outer)
        outer.append(replace(s, continuous=continuous))
    switches = tuple(replace(s, continuous=t.continuous) for s, t in zip(found, reversed(outer), strict=True))
    return switches, smooth


def _fixed_terms(expressions: Iterable[Expression], moving: set[sp.Symbol]) -> dict[Expression, sp.Symbol]:
    """Return symbols for nonsmooth terms of parameters alone.

    An expression that vanishes for b > 0 need not vanish with sign(b) = -1.
    """
    terms = {t for e in expressions for t in e.atoms(*NONSMOOTH) if t.free_symbols.isdisjoint(moving)}
    return {t: sp.Symbol(f"fixed:{i}", real=True) for i, t in enumerate(sorted(terms, key=sp.sstr))}


def split_program(
    steps: tuple[tuple[sp.Symbol, Expression], ...],
    rates: tuple[Expression, ...],
    moving: Iterable[sp.Symbol],
    signals: Iterable[sp.Symbol] = (),
) -> tuple[tuple[Switch, ...], tuple[tuple[sp.Symbol, Expression], ...], tuple[Expression, ...]]:
    """Return the switches of the rates and steps.

    Also both written with the modes; the named steps come before the rates.

    A switch counts as continuous when no step jumps: that is safe, as the rates then do not either.
    """
    expressions = [*(e for _, e in steps), *rates]
    rough = [i for i, e in enumerate(expressions) if e.has(*NONSMOOTH)]
    switches, smooth = split_switches(tuple(expressions[i] for i in rough), moving, signals)
    for i, e in zip(rough, smooth, strict=True):
        expressions[i] = e
    named = tuple((name, e) for (name, _), e in zip(steps, expressions, strict=False))
    return switches, named, tuple(expressions[len(steps) :])


def _in_order(
    found: dict[Expression, sp.Symbol],
) -> tuple[dict[Expression, sp.Symbol], dict[sp.Symbol, sp.Symbol]]:
    """Return the functions with their final modes.

    Inner functions come first, then by their text. Also returned: how the modes are renamed.
    """
    left = dict(found)
    renamed: dict[sp.Symbol, sp.Symbol] = {}
    ordered: dict[Expression, sp.Symbol] = {}
    while left:
        inner = [f for f in left if not (f.free_symbols & (set(left.values()) - renamed.keys()))]
        named = {f.xreplace(renamed): f for f in inner}
        for function in sorted(named, key=sp.sstr):
            ordered[function] = mode = sp.Symbol(f"mode:{len(ordered) + 1}", real=True)
            renamed[left.pop(named[function])] = mode
    return ordered, renamed


Reading = Callable[[Expression], Expression]
Table = dict[tuple[Expression, ...], Expression]
Signs = tuple[list[sp.Symbol], Table]


def _itself(mode: Expression) -> Expression:
    return mode


class _Rewriting:
    """A rewriting of expressions from the inside out.

    A term that occurs twice is rewritten once.

    modes: the mode of each switching function found so far, under a temporary name. jumping: those of them that
    represent more than an absolute value, a maximum or a minimum, which are continuous by themselves. vanishing: those
    whose functions may vanish on a stretch.
    """

    def __init__(self, moving: set[sp.Symbol], signals: set[sp.Symbol]):
        self.moving, self.free = moving, moving - signals
        self.modes: dict[Expression, sp.Symbol] = {}
        self.jumping: set[sp.Symbol] = set()
        self.vanishing: set[sp.Symbol] = set()
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
        if isinstance(node, sp.sign):
            return self._sign(arguments[0], _itself, jumps=True)
        if isinstance(node, sp.Heaviside):
            # H(s) at s = 0 is the second argument, one half unless given.
            return self._sign(arguments[0], lambda m: node.args[1] * (1 - m**2) + m * (m + 1) * HALF, jumps=True)
        if isinstance(node, sp.Abs):
            return self._choice(arguments[0], lambda m, at: m * at(arguments[0]))
        return node.func(*arguments)

    def _moves(self, expression: Expression) -> bool:
        return not expression.free_symbols.isdisjoint(self.moving)

    def _sign(self, function: Expression, read: Reading, jumps: bool = False) -> Expression:
        """Return read(sign of a function) in modes.

        It is a polynomial in modes, exact at all their values.
        """
        modes, signs = self._signs(function, jumps)
        return sp.expand(self._interpolated(modes, {values: read(sign) for values, sign in signs.items()}))

    def _choice(self, function: Expression, read: Callable[[Expression, Reading], Expression]) -> Expression:
        """Return read(sign of a function, at).

        It is an expression that is linear in the sign.

        at: puts the values of the modes into an expression, where the sign follows from modes in the function. Powers
        of modes are then left out: a mean of m over a sampling cell, as `HarmonicFit` takes it, has no power.
        """
        modes, signs = self._signs(function, jumps=False)
        if function.free_symbols.isdisjoint(modes):
            return read(self._interpolated(modes, signs), _itself)
        points = {values: dict(zip(modes, values, strict=True)) for values in signs}
        chosen = {values: read(sign, lambda e, v=values: e.xreplace(points[v])) for values, sign in signs.items()}
        return self._interpolated(modes, chosen)

    def _signs(self, function: Expression, jumps: bool) -> Signs:
        """Return modes and the signs of a function.

        The signs are given at all combinations of the values of the modes.

        The function may hold modes. Its sign follows from these, or is that of a switch of its own.
        """
        inside = self._inside(function)
        if not self._moves(function):
            self.jumping.update(inside)
            return inside, self._fixed_signs(function, inside)
        signs = self._signs_of_cases(function, inside)
        if signs is not None:
            self.jumping.update(inside if jumps else ())
            return inside, signs
        if inside and isinstance(function, sp.Mul):
            found = self._signs_of_factors(function, jumps)
            if found is not None:
                return found
        mode, side = self._own_mode(function, inside)
        self.jumping.update([mode] if jumps else [])
        return [mode], {(value,): side * value for value in self._values(mode)}

    def _signs_of_factors(self, function: Expression, jumps: bool) -> Signs | None:
        """Return the signs of a product from its factors.

        No factor needs to vanish together with another one.
        """
        factors = [f for f in function.args if self._moves(f) or self._inside(f)]
        # Parameters stay with something that moves: their sign has no slope.
        place = next(i for i, f in enumerate(factors) if self._moves(f))
        factors[place] *= sp.Mul(*[f for f in function.args if f not in factors])
        if len(factors) < 2:
            return None
        parts = [self._signs(f, jumps) for f in factors]
        modes = sorted({m for own, _ in parts for m in own}, key=lambda m: m.name)
        if self._cases(modes) > MOST_CASES:
            return None
        combined: Table = {}
        for values in self._points(modes):
            point = dict(zip(modes, values, strict=True))
            combined[values] = sp.Mul(*[signs[tuple(point[m] for m in own)] for own, signs in parts])
        return modes, combined

    def _inside(self, function: Expression) -> list[sp.Symbol]:
        return sorted(function.free_symbols & self._symbols, key=lambda s: s.name)

    def _values(self, mode: sp.Symbol) -> tuple[Expression, ...]:
        return (sp.Integer(1), sp.Integer(-1), sp.Integer(0))[: 3 if mode in self.vanishing else 2]

    def _points(self, inside: list[sp.Symbol]) -> Iterator[tuple[Expression, ...]]:
        """Return all combinations of values of some modes."""
        return itertools.product(*(self._values(m) for m in inside))

    def _interpolated(self, inside: list[sp.Symbol], values: Table) -> Expression:
        """Return the polynomial in modes with these values.

        It is exact at all combinations; it is interpolated in one mode after another.
        """
        if not inside:
            return values[()]
        mode, rest = inside[0], inside[1:]
        above, below, *between = (
            self._interpolated(rest, {point[1:]: v for point, v in values.items() if point[0] == side})
            for side in self._values(mode)
        )
        mean, slope = (above + below) * HALF, (above - below) * HALF
        if not between:
            return mean + mode * slope
        return between[0] + mode * slope + mode**2 * (mean - between[0])

    def _fixed_signs(self, function: Expression, inside: list[sp.Symbol]) -> Table:
        """Return the signs of a function without motion.

        It holds modes and parameters alone, changes with them and at no other instant.
        """
        cases = self._cases(inside)
        if cases > MOST_FIXED:
            raise ModelError(
                f"The term {function} depends on {len(inside)} switches with {cases} combinations and on nothing that "
                f"moves; at most {MOST_FIXED} combinations can be resolved. Split it with Piecewise."
            )
        return {p: sp.sign(function.xreplace(dict(zip(inside, p, strict=True)))) for p in self._points(inside)}

    def _signs_of_cases(self, function: Expression, inside: list[sp.Symbol]) -> Table | None:
        """Return the signs that follow from the modes inside.

        The function moves. None where its signs do not follow from the modes.

        At every combination it must be a number or, up to a factor, the function of one of the modes inside.
        """
        if not inside or self._cases(inside) > MOST_CASES:
            return None
        functions = {mode: f for f, mode in self.modes.items() if mode in inside}
        signs: Table = {}
        for values in self._points(inside):
            point = dict(zip(inside, values, strict=True))
            case = sp.expand(function.xreplace(point))
            if case.is_number:
                signs[values] = sp.sign(case)
                continue
            rest, side = _orient(case)
            oriented = ((mode, *_orient(sp.expand(f.xreplace(point)))) for mode, f in functions.items())
            same = next((side * own * point[mode] for mode, f, own in oriented if f == rest), None)
            if same is None:
                return None
            signs[values] = same
        return signs

    def _cases(self, inside: list[sp.Symbol]) -> int:
        return math.prod(len(self._values(m)) for m in inside)

    def _own_mode(self, function: Expression, inside: list[sp.Symbol]) -> tuple[sp.Symbol, int]:
        """Return the mode of a moving function.

        Also the sign by which the function differs from that of the mode.
        """
        rest, side = _orient(function)
        if rest not in self.modes:
            self.modes[rest] = mode = sp.Symbol(f"mode?{len(self.modes) + 1}", real=True)
            self._symbols.add(mode)
            cases = (rest.xreplace(dict(zip(inside, p, strict=True))) for p in self._points(inside))
            if self._cases(inside) > MOST_CASES or not all(self._never_vanishes(case) for case in cases):
                self.vanishing.add(mode)
        return self.modes[rest], side

    def _never_vanishes(self, function: Expression) -> bool:
        """Return whether a function never vanishes on a stretch.

        True when a slope by a state or by time is not zero, whatever the parameters and signals.
        """
        function = sp.expand(function)
        slopes = (derivative(function, v) for v in sorted(function.free_symbols & self.free, key=lambda s: s.name))
        return any(slope.free_symbols <= self.free and not vanishes(slope) for slope in slopes)

    def _extreme(self, kind: Callable[..., Expression], arguments: list[Expression]) -> Expression:
        """Return Max or Min, formed two at a time.

        Winners are compared with winners: then the terms grow with the square of their number.
        """
        fixed = [a for a in arguments if not self._moves(a) and a.free_symbols.isdisjoint(self._symbols)]
        left = sorted({*arguments} - {*fixed}, key=sp.sstr) + ([kind(*fixed)] if fixed else [])
        direction = 1 if kind is sp.Max else -1
        while len(left) > 1:
            pairs = list(zip(left[::2], left[1::2], strict=False))
            left = [self._larger(a, b, direction) for a, b in pairs] + left[2 * len(pairs) :]
        return left[0]

    def _larger(self, a: Expression, b: Expression, direction: int) -> Expression:
        """Return max(a, b), or min(a, b).

        direction: 1 for max, -1 for min.
        """
        return self._choice(a - b, lambda m, at: (at(a) + at(b)) / 2 + direction * m * (at(a) - at(b)) / 2)

    def _piecewise(self, node: sp.Piecewise) -> Expression:
        cases = list(node.args)
        if cases[-1].cond != sp.true:
            raise ModelError(f"{node} does not say what holds elsewhere; end it with (value, True).")
        values, weights = [self(c.expr) for c in cases], [self._weight(c.cond) for c in cases]
        if any(_is_fragile(c.expr) for c in cases):
            chosen = [(v, w > HALF) for v, w in zip(values[:-1], weights[:-1], strict=True)]
            return sp.Piecewise(*chosen, (values[-1], True))
        terms: list[Expression] = []
        rest: Expression = sp.Integer(1)
        for value, weight in zip(values, weights, strict=True):
            terms.append(value * weight * rest)
            rest = rest * (1 - weight)
        return sp.Add(*terms)

    def _weight(self, condition: Boolean) -> Expression:
        """Return 1 where the condition holds, else 0.

        It is a polynomial in the modes.
        """
        if condition in (sp.true, sp.false):
            return sp.Integer(int(condition == sp.true))
        if isinstance(condition, sp.And):
            return sp.Mul(*[self._weight(c) for c in condition.args])
        if isinstance(condition, sp.Or):
            return 1 - sp.Mul(*[1 - self._weight(c) for c in condition.args])
        if isinstance(condition, sp.Not):
            return 1 - self._weight(condition.args[0])
        if isinstance(condition, sp.ITE):
            test, then, otherwise = (self._weight(c) for c in condition.args)
            return test * then + (1 - test) * otherwise
        if not isinstance(condition, sp.Rel):
            raise ModelError(f"The condition {condition} is not understood; write it with <, <=, >, >=, and, or.")
        function = self(condition.lhs) - self(condition.rhs)
        weight = self._sign(function, _READINGS[type(condition)], jumps=True)
        if isinstance(condition, (sp.Equality, sp.Unequality)) and weight.is_number:
            raise ModelError(f"The condition {condition} holds at isolated instants only; write it with < or >.")
        return weight


_READINGS: dict[type[sp.Basic], Reading] = {
    sp.StrictGreaterThan: lambda m: m * (m + 1) * HALF,
    sp.StrictLessThan: lambda m: m * (m - 1) * HALF,
    sp.GreaterThan: lambda m: 1 - m * (m - 1) * HALF,
    sp.LessThan: lambda m: 1 - m * (m + 1) * HALF,
    sp.Equality: lambda m: 1 - m**2,
    sp.Unequality: lambda m: m**2,
}
"""1 where a condition on lhs - rhs holds and 0 elsewhere, by its sign."""


def _orient(function: Expression) -> tuple[Expression, int]:
    """Return the switching function up to a positive factor.

    Also the sign that was taken out: s and -2 s are one switch.
    """
    coefficient, rest = sp.expand(function, deep=False).primitive()
    factor, rest = rest.as_coeff_Mul()
    sign = -1 if (coefficient * factor).is_negative else 1
    if rest.could_extract_minus_sign():
        rest, sign = -rest, -sign
    return rest, sign


def _is_fragile(value: Expression) -> bool:
    """Return whether a branch must be selected.

    It may have no finite value outside its own region, so it cannot be weighted by zero.
    """
    powers = value.atoms(sp.Pow)
    roots = any(not p.exp.is_integer or p.exp.is_negative for p in powers if p.base.free_symbols)
    return roots or bool(value.atoms(sp.log, sp.asin, sp.acos, sp.acosh, sp.atanh))


def _clamped_powers(expression: Expression) -> Expression:
    """Return Max(a, 0)**p as a Piecewise.

    p is fractional (Hertz contact): its Taylor series breaks on the flat side.
    """

    def clamped(node: Expression) -> bool:
        if not (isinstance(node, sp.Pow) and isinstance(node.base, sp.Max) and len(node.base.args) == 2):
            return False
        return sp.Integer(0) in node.base.args and not node.exp.is_integer

    def rewrite(node: Expression) -> Expression:
        base, exponent = node.as_base_exp()
        inside = next(a for a in base.args if a != 0)
        return sp.Piecewise((inside**exponent, inside > 0), (0, True))

    return expression.replace(clamped, rewrite) if expression.has(sp.Max) else expression


def _is_continuous(rates: tuple[Expression, ...], switch: Switch, switches: list[Switch], composed: bool) -> bool:
    """Return whether the rates agree across the switch.

    They must agree on both sides of s = 0 for all other modes. The test is made on the surface, with 30 digits.

    composed: the mode comes from absolute values, maxima and minima alone, so that nothing but a division by zero on
    the surface can make the rates jump. Where nothing can be shown the switch counts as a jump, which is never wrong.
    """
    mode, function = switch.mode, switch.function
    if composed and not any(_divides(r) for r in rates if r.has(mode)):
        return True
    jumps = [jump for r in rates for jump in switch.jumps(r)]
    present = function.free_symbols.union(*(j.free_symbols for j in jumps))
    others = [s for s in switches if s.mode in present and s is not switch]
    # With the other modes as free numbers at first: a jump that vanishes for all of them does so for their values.
    tested = any(j.has(sp.Piecewise) for j in jumps)
    if not (tested and others) and all(_vanishes_on(function, jump) for jump in jumps):
        return True
    values = [(1, -1, 0) if s.can_vanish else (1, -1) for s in others]
    if not others or math.prod(map(len, values)) > MOST_COMBINATIONS:
        return False
    for chosen in itertools.product(*values):
        point = {s.mode: sp.Integer(value) for s, value in zip(others, chosen, strict=True)}
        surface = sp.expand(function.xreplace(point))
        if not all(_vanishes_on(surface, jump.xreplace(point)) for jump in jumps):
            return False
    return True


def _throws(inner: Switch, outer: Switch) -> bool:
    """Return whether an inner switch makes the rates jump.

    They may jump with the outer mode at the instant at which the inner mode changes.
    """
    if outer.continuous or not outer.function.has(inner.mode):
        return False
    return outer.can_vanish or not all(_vanishes_on(inner.function, jump) for jump in inner.jumps(outer.function))


def _divides(rate: Expression) -> bool:
    """Return whether a quotient or root may be singular.

    It is one of something that moves with the modes, on the surface.
    """
    return any(not (p.exp.is_integer and p.exp.is_positive) for p in rate.atoms(sp.Pow) if p.base.free_symbols)


def _vanishes_on(surface: Expression, jump: Expression) -> bool:
    if jump == 0:
        return True
    variable = _linear_symbol(surface)
    if variable is None:
        # Functions and powers become free numbers: a jump that vanishes for all numbers vanishes for their values.
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
