"""Products of sines and cosines as sums of harmonics.

For coordinates a and b, cos a cos b + sin a sin b = cos(a - b).

What Lagrange's equations of a linkage give holds every product of every pair of velocities of every mass. Gathered by
harmonics, an entry of its mass matrix is one cosine and a centrifugal force one sine; integrators and compilers take
less than half the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import sympy as sp

from kapitza.model.elimination import Naming
from kapitza.model.switches import NONSMOOTH
from kapitza.model.symbols import Expression

MOST_TERMS = 50_000
"""Products formed in all, beyond which the expressions are left as they are."""

HIGHEST_POWER = 4
"""Of a sum or a sine that is multiplied out."""

SHORT_FRACTION = 1000
"""Denominators up to here stay fractions among decimal numbers."""

Powers = tuple[tuple[int, int], ...]
"""Numbers of atoms or angles, in order, each with its power or multiple."""

Terms = dict[tuple[Powers, Powers], tuple[Fraction, Fraction]]
"""Real and imaginary part of the coefficient of Π atoms^powers · exp(i Σ multiples · angles)."""

_NOTHING: Powers = ()
_ONE, _ZERO = Fraction(1), Fraction(0)


class _TooLong(Exception):
    pass


def gathered(
    expressions: Sequence[Expression], moving: Iterable[sp.Symbol], coordinates: Iterable[sp.Symbol], naming: Naming
) -> list[Expression]:
    """Return the expressions sorted by harmonics of the coordinates.

    They stay as they are where the sum of all sorted expressions is not shorter.

    moving: symbols that change along a motion; the rest is constant and costs nothing. Harmonics that are multiplied
    with something else become steps.
    """
    if not any(e.has(sp.sin, sp.cos) for e in expressions):
        return list(expressions)
    moving = set(moving)
    table = _Table(moving, set(coordinates))
    named = _Pending(naming)
    try:
        found = [_written(table, table.terms(e), named) for e in expressions]
    except _TooLong:
        return list(expressions)
    if not table.angles:
        return list(expressions)
    symbols = set(named.steps)
    if _size([*found, *named.steps.values()], moving | symbols) >= _size(expressions, moving):
        return list(expressions)
    known = {placeholder: naming.name(e) for placeholder, e in named.steps.items()}
    return [e.xreplace(known) for e in found]


class _Pending:
    """Steps that are named after a choice.

    They are named once the shorter form is chosen.
    """

    def __init__(self, naming: Naming):
        self.naming = naming
        self.steps: dict[sp.Symbol, Expression] = {}
        self._known: dict[Expression, sp.Symbol] = {}

    def name(self, expression: Expression) -> Expression:
        if expression.is_number or isinstance(expression, sp.Symbol):
            return expression
        if expression.could_extract_minus_sign():
            return -self.name(-expression)
        if expression not in self._known:
            self._known[expression] = placeholder = sp.Dummy(real=True)
            self.steps[placeholder] = expression
        return self._known[expression]


class _Table:
    """The terms of expressions by their atoms and angles.

    Atoms and angles are numbered.
    """

    def __init__(self, moving: set[sp.Symbol], coordinates: set[sp.Symbol]):
        self.moving, self.coordinates = moving, coordinates
        self.atoms: dict[Expression, int] = {}
        self.angles: dict[Expression, int] = {}
        self.has_floats = False
        self._known: dict[Expression, Terms] = {}
        self._formed = 0

    def terms(self, node: Expression) -> Terms:
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._terms(node)
        return found

    def _terms(self, node: Expression) -> Terms:
        if isinstance(node, sp.Rational):
            return {(_NOTHING, _NOTHING): (Fraction(int(node.p), int(node.q)), _ZERO)} if node else {}
        if isinstance(node, sp.Float) and node.is_finite:
            self.has_floats = True
            return {(_NOTHING, _NOTHING): (Fraction(float(node)), _ZERO)} if node else {}
        if isinstance(node, sp.Add):
            return self._sum([self.terms(a) for a in node.args])
        if isinstance(node, sp.Mul):
            return self._product([self.terms(a) for a in node.args])
        if isinstance(node, sp.Pow) and node.exp.is_Integer and node.exp > 0:
            power = int(node.exp)
            if power <= HIGHEST_POWER and not isinstance(node.base, sp.Symbol):
                return self._product([self.terms(node.base)] * power)
            return self._atom(node.base, power)
        if isinstance(node, (sp.sin, sp.cos)):
            waves = self._waves(node)
            if waves is not None:
                return waves
        return self._atom(node, 1)

    def _atom(self, node: Expression, power: int) -> Terms:
        number = self.atoms.setdefault(node, len(self.atoms))
        return {(((number, power),), _NOTHING): (_ONE, _ZERO)}

    def _waves(self, node: Expression) -> Terms | None:
        """Return the terms of a sine or cosine.

        Its argument is a sum of whole multiples of coordinates; None for other arguments.
        """
        multiples: dict[int, int] = {}
        for part in sp.Add.make_args(node.args[0]):
            factor, angle = part.as_coeff_Mul()
            if angle not in self.coordinates or not factor.is_Integer:
                return None
            multiples[self.angles.setdefault(angle, len(self.angles))] = int(factor)
        up = tuple(sorted(multiples.items()))
        down = tuple((angle, -k) for angle, k in up)
        half = Fraction(1, 2)
        if isinstance(node, sp.cos):
            return {(_NOTHING, up): (half, _ZERO), (_NOTHING, down): (half, _ZERO)}
        return {(_NOTHING, up): (_ZERO, -half), (_NOTHING, down): (_ZERO, half)}

    def _sum(self, parts: list[Terms]) -> Terms:
        total: Terms = {}
        for part in parts:
            for key, (real, imaginary) in part.items():
                had = total.get(key)
                total[key] = (real, imaginary) if had is None else (had[0] + real, had[1] + imaginary)
        return {key: value for key, value in total.items() if value != (0, 0)}

    def _product(self, parts: list[Terms]) -> Terms:
        result: Terms = {(_NOTHING, _NOTHING): (_ONE, _ZERO)}
        for part in sorted(parts, key=len):
            total: Terms = {}
            self._formed += len(result) * len(part)
            if self._formed > MOST_TERMS:
                raise _TooLong
            for (powers, waves), (a, b) in result.items():
                for (further, other), (c, d) in part.items():
                    key = _merged(powers, further), _merged(waves, other)
                    real, imaginary = a * c - b * d, a * d + b * c
                    had = total.get(key)
                    total[key] = (real, imaginary) if had is None else (had[0] + real, had[1] + imaginary)
            result = {key: value for key, value in total.items() if value != (0, 0)}
        return result


def _merged(one: Powers, other: Powers) -> Powers:
    """Return both products as one, their powers added."""
    if not one or not other:
        return one or other
    total = dict(one)
    for number, power in other:
        total[number] = total.get(number, 0) + power
    return tuple(sorted((number, power) for number, power in total.items() if power))


def _written(table: _Table, terms: Terms, named: _Pending) -> Expression:
    """Return an expression from its terms.

    Σ monomial · Σ coefficient · cos or sin; the coefficients are written in symbols that do not move.
    """
    atoms, angles = list(table.atoms), list(table.angles)
    is_moving = [not table.moving.isdisjoint(a.free_symbols) for a in atoms]
    number = _decimal if table.has_floats else _rational
    groups: dict[tuple[Powers, Powers, bool], list[Expression]] = {}
    for (powers, waves), (real, imaginary) in terms.items():
        if waves and waves[0][1] < 0:
            continue  # the conjugate of another one
        factor = sp.Mul(*[atoms[i] ** p for i, p in powers if not is_moving[i]])
        monomial = tuple((i, p) for i, p in powers if is_moving[i])
        twice = 2 if waves else 1
        if real:
            groups.setdefault((monomial, waves, True), []).append(number(twice * real) * factor)
        if imaginary:
            groups.setdefault((monomial, waves, False), []).append(number(-twice * imaginary) * factor)
    result: list[Expression] = []
    for (monomial, waves, even), parts in groups.items():
        wave = sp.Add(*parts)
        if len(parts) > 1:
            wave = sp.factor_terms(wave)
        if waves:
            wave = wave * (sp.cos if even else sp.sin)(sp.Add(*[k * angles[i] for i, k in waves]))
        others = sp.Mul(*[atoms[i] ** p for i, p in monomial])
        # A factor of a jump stays beside it: where the factor is zero there is no jump.
        if waves and others != 1 and not others.has(*NONSMOOTH):
            wave = named.name(wave)
        result.append(wave * others)
    return sp.Add(*result)


def _rational(value: Fraction) -> Expression:
    return sp.Rational(value.numerator, value.denominator)


def _decimal(value: Fraction) -> Expression:
    return _rational(value) if value.denominator < SHORT_FRACTION else sp.Float(float(value))


def _size(expressions: Iterable[Expression], moving: set[sp.Symbol]) -> int:
    """Count operations on moving symbols, shared ones once."""
    seen: set[Expression] = set()
    moves: dict[Expression, bool] = {}

    def is_moving(node: Expression) -> bool:
        if node not in moves:
            moves[node] = node in moving if isinstance(node, sp.Symbol) else any(map(is_moving, node.args))
        return moves[node]

    def count(node: Expression) -> int:
        if node in seen or not is_moving(node):
            return 0
        seen.add(node)
        parts = [a for a in node.args if is_moving(a)]
        own = len(parts) - (len(parts) == len(node.args)) if isinstance(node, (sp.Add, sp.Mul)) else bool(node.args)
        return own + sum(map(count, parts))

    return sum(map(count, expressions))
