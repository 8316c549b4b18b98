"""Highest derivatives as sensors read them.

An accelerometer reads x'' of the equations. Where friction holds, sign(x') of the equations has no value of its own:
the acceleration is then the one that keeps the switching function s at zero (Filippov).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sympy as sp

from kapitza.model.switches import Switch
from kapitza.model.symbols import Expression, derivative, symbol, time

ON_SURFACE = 1e-12
"""Largest switching function, relative to the sum of its terms, of a state that sticks; rounding leaves less."""

TINY = 1e-100
"""Keeps the mode -a/b and its derivatives finite without friction, b = 0; its square is still a double."""


def highest_derivatives(states: Sequence[str], rates: Sequence[Expression]) -> dict[sp.Symbol, Expression]:
    """Return the highest derivative of each coordinate, in states.

    x'' of a coordinate of second order, x' of one of first order. states: names; rates: right-hand sides.
    """
    return {symbol(f"{name}'"): value for name, value in zip(states, rates, strict=True) if f"{name}'" not in states}


def read_derivatives(
    states: Sequence[str],
    rates: Sequence[Expression],
    switches: Sequence[Switch],
    smooth: Sequence[Expression],
    signals: Collection[sp.Symbol] = (),
) -> dict[sp.Symbol, Expression]:
    """Return the highest derivatives with the modes of sticking.

    With the mode m of a switch s, ds/dt = a + b m. Where s = 0 and |a/b| < 1 the state sticks and m = -a/b; elsewhere
    m = sign(s). A switch whose function holds a signal keeps m = sign(s), and so do the others in a and b.

    smooth: the rates with the modes of the switches.
    """
    if all(switch.continuous for switch in switches):
        return highest_derivatives(states, rates)
    slopes = dict(zip(map(symbol, states), smooth, strict=True))
    sides: dict[sp.Symbol, Expression] = {}
    for switch in switches:
        sides[switch.mode] = sp.sign(switch.function.xreplace(sides))
    modes: dict[sp.Symbol, Expression] = {}
    for switch in switches:
        held = switch.function.free_symbols.isdisjoint(signals)
        modes[switch.mode] = sides[switch.mode] + (_sticking(switch, slopes, sides) if held else 0)
    return {top: e.xreplace(modes) for top, e in highest_derivatives(states, smooth).items()}


def _sticking(
    switch: Switch, slopes: Mapping[sp.Symbol, Expression], sides: Mapping[sp.Symbol, Expression]
) -> Expression:
    """Return what sticking adds to sign(s): -a/b where s = 0, else 0."""
    function = switch.function
    if switch.continuous or not function.free_symbols & slopes.keys():
        return sp.Integer(0)
    change = derivative(function, time) + sp.Add(*[derivative(function, x) * f for x, f in slopes.items()])
    gain = derivative(change, switch.mode)
    if gain == 0 or gain.has(switch.mode) or gain.has(sp.DiracDelta):
        return sp.Integer(0)
    rest = change.xreplace({switch.mode: sp.Integer(0)})
    mode = -rest / (gain - TINY)
    return (_on_surface(function) * sp.Max(-1, sp.Min(1, mode))).xreplace(dict(sides))


def _on_surface(function: Expression) -> Expression:
    """Return 1 where s = 0 within rounding, else 0."""
    terms = sp.Add.make_args(function)
    if len(terms) == 1:
        return 1 - sp.sign(function) ** 2
    least = ON_SURFACE * sp.Add(*[sp.Abs(term) for term in terms])
    return 1 - sp.sign(sp.Max(sp.Abs(function) - least, 0))
