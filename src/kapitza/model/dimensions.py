"""Dimensions of the equations.

Terms that are added must have one dimension. An equation is checked where every symbol states a unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import sympy as sp

from kapitza.base.units import Dimension, dimension, dimension_text, to_si
from kapitza.model.delays import is_delayed
from kapitza.model.model import Model
from kapitza.model.symbols import Expression, rate, time

SCALE = "scale"
"""Under this name a dimension carries the decimal logarithm of its unit in SI: 3 for kN, -3 for mm."""

SAME = (sp.Max, sp.Min)
"""Functions whose value has the dimension of their arguments."""

PURE = (sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.sinh, sp.cosh, sp.tanh, sp.exp, sp.log, sp.erf)
"""Functions of pure numbers or angles; their value is one."""


class Free:
    """A dimension that is not fixed."""


ANY = Free()
"""A bare number in a sum or a comparison: 0, or a value in whatever unit its neighbours have."""


class _Clash(Exception):
    """Two quantities that cannot be added.

    The message names them.
    """


class _Unknown(Exception):
    """An expression whose dimension cannot be checked."""


def dimension_problems(model: Model) -> tuple[str, ...]:
    """Return the sums of unlike quantities, one sentence each.

    The equations and the excitation period are checked; () where no sum is wrong. An equation is checked when every
    coordinate, parameter and signal in it states a unit ("1" for a pure number; "" states nothing). Angles count as
    pure numbers; bare numbers in a sum take the unit of their neighbours. Values are put into the equations as they
    are: kN beside N, or mm beside m, are reported too, unless a factor in the equation converts them.

    >>> import kapitza as kz
    >>> mass, spring = kz.Parameter("m", 2.0, unit="kg"), kz.Parameter("k", 3.0, unit="N*s/m")
    >>> place = kz.Coordinate("x", unit="m")
    >>> model = kz.Model.from_equations("m*x'' + k*x = 0", coordinates=[place], parameters=[mass, spring])
    >>> dimension_problems(model)
    ("Equation 1: m*x'' is in N, k*x in kg*m/s: they cannot be added. Check the units of the parameters.",)
    """
    if model.is_map:
        return ()
    known = dict(_known(model))
    said: list[str] = []
    for number, equation in enumerate(model.equations, start=1):
        try:
            _of(equation, known)
        except _Clash as clash:
            said.append(f"Equation {number}: {clash} Check the units of the parameters.")
        except _Unknown:
            continue
    if model.excitation is not None and model.excitation.period is not None and model.excitation.timing:
        try:
            found = _of(model.excitation.period, known)
            if found is not ANY and (_kind(found) != dimension("s") or _scale(found)):
                said.append(f"The excitation period {model.excitation.period} is in {_shown(found)}, not in s.")
        except _Clash as clash:
            said.append(f"The excitation period: {clash}")
        except _Unknown:
            pass
    return tuple(said)


def _known(model: Model) -> Iterator[tuple[str, Dimension]]:
    """Return the dimension of every symbol with a unit."""
    second = {"second": Fraction(1)}
    yield time.name, second
    for coordinate in model.coordinates:
        own = _measured(coordinate.unit)
        if own is None:
            continue
        for order in range(coordinate.order + 1):
            yield rate(coordinate.name, order).name, _product(own, second, Fraction(-order))
    signals = model.signals
    for part in (*model.parameters, *signals):
        own = _measured(part.unit)
        if own is not None:
            yield part.name, own


def _measured(unit: str) -> Dimension | None:
    """Return the dimension of a unit with its scale.

    None where no unit is stated.
    """
    own = dimension(unit)
    if own is None:
        return None
    factor = to_si(unit)[1].factor
    # to nine digits: products of rounded logarithms compare equal
    power = Fraction(round(math.log10(factor), 9)).limit_denominator(10**9) if factor > 0 else Fraction(0)
    return {**own, SCALE: power} if power else own


def _kind(found: Dimension | Free) -> Dimension:
    """Return the dimension without its scale."""
    return {name: exponent for name, exponent in _pure(found).items() if name != SCALE}


def _scale(found: Dimension | Free) -> float:
    """Return the decimal logarithm of the unit in SI.

    It is 0 for SI units.
    """
    power = float(_pure(found).get(SCALE, 0))
    # The logarithms are rounded to nine digits; products of many units add these errors.
    return power if abs(power) > 1e-6 else 0.0


def _product(one: Dimension, other: Dimension, power: Fraction) -> Dimension:
    total = dict(one)
    for name, exponent in other.items():
        total[name] = total.get(name, Fraction(0)) + exponent * power
    return {name: exponent for name, exponent in total.items() if exponent}


def _of(expression: Expression, known: Mapping[str, Dimension]) -> Dimension | Free:
    """Return the dimension of an expression.

    `ANY` stands for bare numbers.
    """
    if expression.is_number:
        return ANY
    if isinstance(expression, sp.Symbol):
        if is_delayed(expression) or expression.name not in known:
            raise _Unknown
        return known[expression.name]
    if isinstance(expression, (sp.Add, *SAME)):
        return _alike(expression.args, known)
    if isinstance(expression, sp.Mul):
        total: Dimension = {}
        for factor in expression.args:
            total = _product(total, _pure(_of(factor, known)), Fraction(1))
        return total
    if isinstance(expression, sp.Pow):
        return _power(expression, known)
    if isinstance(expression, sp.Abs):
        return _of(expression.args[0], known)
    if isinstance(expression, sp.sign | sp.Heaviside):
        _of(expression.args[0], known)
        return {}
    if isinstance(expression, sp.atan2):
        _alike(expression.args, known)
        return {}
    if isinstance(expression, PURE):
        inside = _pure(_of(expression.args[0], known))
        if _kind(inside):
            raise _Clash(f"{expression} takes a pure number or an angle, not {_shown(inside)}.")
        if _scale(inside) and not _converts(expression.args[0], _scale(inside)):
            raise _Clash(
                f"{expression} takes a pure number or an angle in rad; by these units its argument counts in "
                f"{10 ** _scale(inside):.6g} of it."
            )
        return {}
    if isinstance(expression, sp.Piecewise):
        return _alike([branch.args[0] for branch in expression.args], known)
    raise _Unknown


def _pure(found: Dimension | Free) -> Dimension:
    return {} if isinstance(found, Free) else found


def _power(expression: Expression, known: Mapping[str, Dimension]) -> Dimension:
    base, exponent = expression.args
    inside = _pure(_of(base, known))
    if exponent.is_number and (exponent.is_Rational or exponent.is_Float):
        power = Fraction(float(exponent)).limit_denominator(1000)
        return _product({}, inside, power)
    above = _pure(_of(exponent, known))
    if _kind(inside) or _kind(above):
        raise _Clash(f"{expression} raises {_shown(inside)} to a power in {_shown(above)}: both must be pure numbers.")
    return {}


def _alike(terms: Iterable[Expression], known: Mapping[str, Dimension]) -> Dimension | Free:
    """Return the common dimension of several terms."""
    first: tuple[Expression, Dimension] | None = None
    for term in terms:
        found = _of(term, known)
        if isinstance(found, Free):
            continue
        if first is None:
            first = term, found
            continue
        one, other = sorted([first, (term, found)], key=lambda pair: (-len(str(pair[0])), str(pair[0])))
        if _kind(found) != _kind(first[1]):
            raise _Clash(f"{one[0]} is in {_shown(one[1])}, {other[0]} in {_shown(other[1])}: they cannot be added.")
        ratio = _scale(found) - _scale(first[1])
        if abs(ratio) > 1e-6 and not (_converts(term, ratio) or _converts(first[0], ratio)):
            raise _Clash(
                f"{one[0]} counts in {10 ** _scale(one[1]):.6g} {_shown(one[1])}, {other[0]} in "
                f"{10 ** _scale(other[1]):.6g} {_shown(other[1])}: their numbers cannot be added. Give all units in "
                "one system (kg, m, s, N), or convert by a factor in the equation."
            )
    return ANY if first is None else first[1]


def _converts(term: Expression, ratio: float) -> bool:
    """Return whether the term converts by this ratio.

    It does when one of its numbers is the factor of the ratio.
    """
    front = term.as_independent(*term.free_symbols, as_Add=False)[0]
    numbers = [abs(float(n)) for n in (front, *term.atoms(sp.Number)) if n.is_number and n.is_finite and n]
    # 1e-4 in the logarithm is 2e-4 of the factor: conversions are often written with four digits.
    return any(abs(abs(math.log10(n)) - abs(ratio)) < 1e-4 for n in numbers)


def _shown(found: Dimension | Free) -> str:
    return dimension_text(_kind(found))
