"""Equations of a system in a regime.

In free motion every mode is ±1 and a run-time parameter. Where switches slide and walls hold, the field is

    f = f0 + E z,   E = (-half jumps of the stuck switches, impulse directions of the contacts),

with z from ds/dt = 0 and dw/dt = 0 (equivalent controls λ = -z, contact forces z). A regime ends at the surfaces that
the stepper watches: m s for a free switch, 1 - λ² for a stuck one, g for a free wall, the force of a contact, all
falling through zero. Where the gain s_x E can vanish together with its load, λ does not show that the surface repels
the motion afterwards: the gain is watched too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from kapitza.flow.engine import Regime, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.held import HeldSteps, cancelled, forces_alone_are_affine, shared_factors, split_steps
from kapitza.model import Expression, Step, derivative, solve_named

CROSS, RELEASE, REPEL, IMPACT, DETACH, EDGE = "cross", "release", "repel", "impact", "detach", "edge"


@dataclass(frozen=True)
class Ending:
    """A surface whose zero ends a stretch.

    kind: of event; index: of the switch, wall or end of a term.
    """

    kind: str
    index: int


def _moving(geometry: Geometry, steps: Sequence[Step]) -> set[sp.Basic]:
    """Return the states, the time and the steps that follow them."""
    moving: set[sp.Basic] = {*geometry.system.states, geometry.differentiate[geometry.size]}
    for name, step in steps:
        if not moving.isdisjoint(step.free_symbols):
            moving.add(name)
    return moving


@lru_cache(maxsize=256)
def hidden_gains(geometry: Geometry, regime: Regime) -> tuple[tuple[int, sp.Expr], ...]:
    """Return the stuck switches whose gain can vanish unnoticed.

    Each comes with its gain g = s_x E. The control λ = (s_x f0 + s_t) / g stays finite where g and the load vanish by
    the same factor, as with friction N(t) sign(v) and no other force: nothing is released when N falls below zero.
    Systems solved step by step have named gains, whose factors are not known.
    """
    if geometry.system.elimination is not None or not regime.stuck:
        return ()
    held, rows, directions, base, drift = _parts_of_balance(geometry, regime)
    moving = _moving(geometry, held.steps)
    found: list[tuple[int, sp.Expr]] = []
    for i, row, direction, d in zip(regime.stuck, rows, directions, drift, strict=False):
        gain, load = _dot(row, direction), _dot(row, base) + d
        place = _bare_state(row, d)
        if place is not None:
            # A state that is held at a constant does not move its gain.
            state = geometry.system.states[place]
            constant = sp.expand(state - geometry.system.switches[i].function / row[place])
            if moving.isdisjoint(constant.free_symbols):
                gain, load = gain.xreplace({state: constant}), load.xreplace({state: constant})
        factors = shared_factors(gain, load, moving)
        if any(not _is_switched(geometry, gain, factor) for factor in factors):
            found.append((i, gain))
    return tuple(found)


def _is_switched(geometry: Geometry, gain: Expression, factor: sp.Expr) -> bool:
    """Return whether a switch changes the gain at the factor's zero.

    The gain max(N, 0) or abs(N) is N times a function of the mode of N: the event of that switch decides.
    """
    return any(
        gain.has(switch.mode) and sp.cancel(switch.function / factor).is_number for switch in geometry.system.switches
    )


def regime_balance(geometry: Geometry, regime: Regime) -> tuple[System, list[sp.Expr]]:
    """Return the system of a regime and its balance.

    The balance z holds the regime; it is empty in free motion.
    """
    return _held_rates(geometry, regime) if regime.collapses else (geometry.system, [])


def _held_rates(geometry: Geometry, regime: Regime) -> tuple[System, list[sp.Expr]]:
    """Return the system with rates f0 + E z.

    It also returns the balance z. The regime has stuck switches or contacts.
    """
    system = geometry.system
    held, rows, directions, base, drift = _parts_of_balance(geometry, regime)
    name = held.name if system.elimination is not None else _unnamed
    gain = [[name(_dot(row, column)) for column in directions] for row in rows]
    lacking = [name(-_dot(row, base) - d) for row, d in zip(rows, drift, strict=True)]
    if system.elimination is not None and len(rows) > 1:
        balance = solve_named(gain, lacking, held)
    elif len(rows) > 1:
        matrix = sp.Matrix(gain)
        balance = [name(z) for z in (matrix.adjugate() * sp.Matrix(lacking) / matrix.det()).flat()]
    elif hidden_gains(geometry, regime):
        # The common factor must cancel: a quotient of two zeros has no series.
        balance = [cancelled(lacking[0], gain[0][0])]
    else:
        balance = [name(lacking[0] / gain[0][0])]
    rates = [b + _dot([c[k] for c in directions], balance) for k, b in enumerate(base)]
    for row, d in zip(rows, drift, strict=True):
        place = _bare_state(row, d)
        if place is not None:
            # The surface is this state itself: its rate is exactly zero, which the balance gives only to rounding.
            rates[place] = sp.Integer(0)
    named = tuple(held.steps) if system.elimination is not None else system.smooth_steps
    return replace(system, smooth_steps=named, smooth_rates=tuple(rates), elimination=None), balance


def _bare_state(row: Sequence[Expression], drift: Expression) -> int | None:
    """Return the state that a surface consists of.

    None where the surface is more than one state. The rate of a single state is zero without rounding.
    """
    present = [k for k, entry in enumerate(row) if entry != 0]
    return present[0] if len(present) == 1 and row[present[0]].is_number and drift == 0 else None


def _parts_of_balance(
    geometry: Geometry, regime: Regime
) -> tuple[HeldSteps, list[list[sp.Expr]], list[list[sp.Expr]], Sequence[sp.Expr], list[sp.Expr]]:
    """Return the parts of the balance of a regime.

    They are the steps, gradients of the surfaces that hold, directions E, the field f0 and the time derivatives of the
    surfaces.
    """
    system = geometry.system
    plus = {geometry.modes[i]: sp.Integer(1) for i in regime.stuck}
    stuck = [geometry.modes[i] for i in regime.stuck]
    steps: tuple[Step, ...] = system.smooth_steps
    if system.elimination is None:
        base, halves = zip(*(_split_modes(f, stuck) for f in system.smooth_rates), strict=True)
    else:
        affine = geometry.forces_are_affine or forces_alone_are_affine(system, stuck)
        steps, base, halves = split_steps(system, stuck, geometry.jumps, affine)
    directions: list[list[sp.Expr]] = [[-half[k] for half in halves] for k in range(len(stuck))]
    directions += [_impulse(geometry, j) for j in regime.contact]
    surfaces = [system.switches[i].function.xreplace(plus) for i in regime.stuck]
    surfaces += [geometry.speeds[j] for j in regime.contact]
    rows = [[derivative(h, x) for x in system.states] for h in surfaces]
    drift = [derivative(h, geometry.differentiate[geometry.size]) for h in surfaces]
    return HeldSteps(list(steps)), rows, directions, base, drift


def _unnamed(expression: sp.Expr) -> sp.Expr:
    return expression


def _split_modes(rate: Expression, modes: list[sp.Symbol]) -> tuple[Expression, list[Expression]]:
    """Split a rate into mean and half jumps.

    f0 is the mean over both values of the modes; half of the jump is taken by each mode.
    """
    slopes = [derivative(rate, m) for m in modes]
    tested = any(p.has(m) for p in rate.atoms(sp.Piecewise) for m in modes)
    if not tested and all(slope.free_symbols.isdisjoint(modes) for slope in slopes):
        # Affine in the modes: short expressions, whose common factors cancel in the balance.
        return rate.xreplace(dict.fromkeys(modes, sp.Integer(0))), slopes
    plus = dict.fromkeys(modes, sp.Integer(1))
    above = rate.xreplace(plus)
    halves = [(above - rate.xreplace({**plus, m: sp.Integer(-1)})) / 2 for m in modes]
    return above - sp.Add(*halves), halves


def _impulse(geometry: Geometry, wall: int) -> list[sp.Expr]:
    """Return the direction in which the wall pushes.

    It is (I - R_x) w_x.
    """
    states, reset = geometry.system.states, geometry.system.walls[wall].reset
    normal = [derivative(geometry.speeds[wall], x) for x in states]
    return [n - _dot([derivative(r, x) for x in states], normal) for n, r in zip(normal, reset, strict=True)]


def _dot(left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> sp.Expr:
    return sum((a * b for a, b in zip(left, right, strict=True) if a != 0 and b != 0), sp.Integer(0))
