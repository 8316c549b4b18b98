"""Compiled flows of a system, one per regime.

The system has switches and walls. A flow is built when the motion first enters its regime.

In free motion every mode is ±1 and a run-time parameter. Where switches slide and walls hold, the field is

    f = f0 + E z,   E = (-half jumps of the stuck switches, impulse directions of the contacts),

with z from ds/dt = 0 and dw/dt = 0 (equivalent controls λ = -z, contact forces z). The flow of a regime watches the
surfaces that can end it: m s for a free switch, 1 - λ² for a stuck one, g for a free wall, the force of a contact, all
falling through zero. Where the gain s_x E can vanish together with its load, λ does not show that the surface repels
the motion afterwards: the gain is watched too. In a linkage with friction at its joints one flow serves all regimes
without contact.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import heyoka as hy
import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.flow.compiled import (
    Equations,
    cached,
    code_of,
    compile_integrator,
    divergence,
    equations,
    full_table,
    is_short,
    with_tangents,
)
from kapitza.flow.engine import Event, Regime, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.held import ABOVE_ZERO, HeldSteps, cancelled, offset, shared_factors, split_steps
from kapitza.flow.events.joints import joint_program
from kapitza.model import Expression, Step, derivative, solve_named, to_heyoka

COOLDOWN = 1e-10
"""Time in which an event that changed nothing is not met again. heyoka's own estimate grows without bound where the
surface is left at zero speed, as after a release, and loses the next crossing."""

NEARLY_ZERO_SPEED = 1e-9
"""Nearest approaches are noted this much before the turning point: after a detachment the speed starts at zero."""

CROSS, RELEASE, REPEL, IMPACT, DETACH, EDGE = "cross", "release", "repel", "impact", "detach", "edge"


@dataclass(frozen=True)
class Ending:
    """A surface whose zero ends a stretch.

    The function falls through zero. kind: of event; index: of the switch or wall.
    """

    kind: str
    index: int
    expression: sp.Expr


def offset_table(geometry: Geometry) -> dict[sp.Symbol, hy.expression]:
    """Map the offsets to compiled code."""
    first = len(geometry.system.parameters) + geometry.switches + len(geometry.flags)
    return {offset(k): hy.par[first + k] for k in range(geometry.switches + geometry.walls)}


class NoteCrossing:
    """Event callback that keeps crossings of an observed surface.

    The motion is not changed.
    """

    def __init__(self, index: int, size: int):
        self.index, self.size = index, size
        self.found: list[Event] = []

    def __call__(self, integrator: hy.taylor_adaptive_dbl, time: float, sign: int) -> None:
        integrator.update_d_output(time)
        state = integrator.d_output[: self.size].copy()
        self.found.append(Event(float(time), "crossing", self.index, int(sign), state))


class NoteApproach:
    """Event callback that keeps nearest approaches to a wall.

    A graze or a penetration shows there.
    """

    def __init__(self, index: int, size: int):
        self.index, self.size = index, size
        self.found: list[tuple[float, Array]] = []

    def __call__(self, integrator: hy.taylor_adaptive_dbl, time: float, sign: int) -> None:
        integrator.update_d_output(time)
        self.found.append((float(time), integrator.d_output[: self.size].copy()))


RegimeKey = tuple[int, Regime, tuple[int, ...] | None, float, tuple[sp.Expr, ...]]
"""Thread, regime, parameters of the sensitivities, tolerance and observed surfaces of a compiled regime."""


@dataclass(frozen=True)
class CompiledRegime:
    """An integrator with the meaning of its events.

    endings: of its terminal events; crossings, approaches: the notes of its other events.
    state, values: views of its state and run-time parameters, which stay where they are.
    """

    integrator: hy.taylor_adaptive_dbl
    state: Array
    values: Array
    endings: tuple[Ending, ...]
    crossings: tuple[NoteCrossing, ...]
    approaches: tuple[NoteApproach, ...]


@lru_cache(maxsize=256)
def regime_flow(geometry: Geometry, regime: Regime) -> tuple[System, tuple[Ending, ...]]:
    """Return the system of a regime and its endings.

    The system has the rates of the regime.
    """
    system = geometry.system
    endings = [
        Ending(CROSS, i, s.mode * s.function + offset(i))
        for i, s in enumerate(system.switches)
        if i not in regime.stuck
    ] + [
        Ending(IMPACT, j, w.surface + offset(geometry.switches + j))
        for j, w in enumerate(system.walls)
        if j not in regime.contact
    ]
    endings += [Ending(EDGE, k, edge.watched) for k, edge in enumerate(system.edges) if edge.watched is not None]
    if not regime.collapses:
        return system, tuple(endings)
    held, balance = _held_rates(geometry, regime)
    split = len(regime.stuck)
    endings += [Ending(RELEASE, i, 1 - z**2 + ABOVE_ZERO) for i, z in zip(regime.stuck, balance[:split], strict=True)]
    endings += [Ending(DETACH, j, z + ABOVE_ZERO) for j, z in zip(regime.contact, balance[split:], strict=True)]
    endings += [Ending(REPEL, i, gain) for i, gain in hidden_gains(geometry, regime)]
    moving = _moving(geometry, held.smooth_steps)
    # A control or force that never changes ends nothing.
    changing = tuple(e for e in endings if not moving.isdisjoint(e.expression.free_symbols))
    return held, changing


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
        steps, base, halves = split_steps(system, stuck, geometry.jumps)
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


def flow_of(geometry: Geometry, regime: Regime) -> System:
    """Return the system of a stretch in the regime."""
    if regime.collapses and is_by_joints(geometry, regime):
        return joint_flow(geometry)[0]
    return regime_flow(geometry, regime)[0]


def is_by_joints(geometry: Geometry, regime: Regime) -> bool:
    """Return whether one joint flow serves this regime.

    That flow is written in the speeds of the joints.
    """
    return geometry.joints is not None and not regime.contact


@lru_cache(maxsize=64)
def joint_flow(geometry: Geometry) -> tuple[System, tuple[sp.Expr, ...]]:
    """Return the one flow of a linkage with friction.

    It serves all combinations of stuck joints. Also returned is the function of every surface that ends a regime.
    It costs little more than free motion.
    """
    system, form = geometry.system, geometry.joint_form
    assert form is not None
    program = joint_program(system, form, geometry.flags, geometry.slipping)
    ends = [*program.ends]
    ends += [w.surface + offset(geometry.switches + j) for j, w in enumerate(system.walls)]
    ends += [edge.watched for edge in system.edges if edge.watched is not None]
    rates = (*system.smooth_rates[: len(program.accelerations)], *program.accelerations)
    joined = replace(system, smooth_steps=program.steps, smooth_rates=rates, elimination=None, flags=geometry.flags)
    return joined, tuple(ends)


def _endings_of(geometry: Geometry, regime: Regime) -> tuple[Ending, ...]:
    """Return the endings of the one flow.

    The meaning of its functions depends on the regime.
    """
    _, ends = joint_flow(geometry)
    edges = [k for k, edge in enumerate(geometry.system.edges) if edge.watched is not None]
    meant = [(RELEASE if i in regime.stuck else CROSS, i) for i in range(geometry.switches)]
    meant += [(IMPACT, j) for j in range(geometry.walls)]
    meant += [(EDGE, k) for k in edges]
    return tuple(Ending(kind, i, end) for (kind, i), end in zip(meant, ends, strict=True))


def compiled_regime(
    geometry: Geometry,
    regime: Regime,
    wrt: tuple[int, ...] | None,
    tolerance: float,
    observe: tuple[sp.Expr, ...],
) -> CompiledRegime:
    """Return the integrator of a regime.

    It has tangents unless wrt is None, and is compiled once per thread.
    """
    # The system itself is a costly key: it is looked up once per geometry.
    near = (threading.get_ident(), regime, wrt, tolerance, observe)
    if near not in geometry.compiled:
        # Without tangents free motion is one more regime; with them it has one more equation, the determinant.
        by_joints = is_by_joints(geometry, regime) and (regime.collapses or wrt is None)
        kind = "joints" if by_joints else regime
        key = ("events", geometry.system, kind, wrt, tolerance, observe)
        built = cached(
            key, lambda: compile_integrator(lambda: _build(geometry, regime, wrt, tolerance, observe, by_joints))
        )
        geometry.compiled[near] = replace(built, endings=_endings_of(geometry, regime)) if by_joints else built
    return geometry.compiled[near]


def _build(
    geometry: Geometry,
    regime: Regime,
    wrt: tuple[int, ...] | None,
    tolerance: float,
    observe: tuple[sp.Expr, ...],
    by_joints: bool,
) -> CompiledRegime:
    if by_joints:
        system, endings = joint_flow(geometry)[0], _endings_of(geometry, regime)
    else:
        system, endings = regime_flow(geometry, regime)
    table = {**full_table(system), **offset_table(geometry)}
    falling, rising = hy.event_direction.negative, hy.event_direction.positive
    surfaces = [to_heyoka(e.expression, table) for e in endings]
    terminal = [hy.t_event(s, direction=falling, cooldown=COOLDOWN) for s in surfaces]
    notes = [NoteCrossing(i, geometry.size) for i in range(len(observe))]
    watched = [hy.nt_event(to_heyoka(h, table), note) for h, note in zip(observe, notes, strict=True)]
    for j in (j for j in range(geometry.walls) if j not in regime.contact):
        watched.append(
            hy.nt_event(
                to_heyoka(geometry.speeds[j], table) + NEARLY_ZERO_SPEED,
                NoteApproach(j, geometry.size),
                direction=rising,
            )
        )
    rates = integrated_equations(system, regime, wrt)
    integrator = hy.taylor_adaptive(
        rates,
        np.zeros(integrated_size(geometry.size, regime, wrt)),
        tol=tolerance,
        **code_of(by_joints or regime.collapses or not is_short(system, rates, surfaces)),
        t_events=terminal,
        nt_events=watched,
    )
    # heyoka keeps its own copies of the callbacks: the notes are read from those.
    kept_notes = [event.callback for event in integrator.nt_events] if watched else []
    crossings = tuple(note for note in kept_notes if isinstance(note, NoteCrossing))
    approaches = tuple(note for note in kept_notes if isinstance(note, NoteApproach))
    return CompiledRegime(integrator, integrator.state, integrator.pars, endings, crossings, approaches)


def integrated_equations(system: System, regime: Regime, wrt: tuple[int, ...] | None) -> Equations:
    """Return the equations that are integrated.

    They are those of the states; with tangents also V (row-major n x (n + k)) and, in free motion, log|det V| whose
    rate is tr f_x.
    """
    if wrt is None:
        return equations(system)
    system_equations = with_tangents(system, wrt)
    if not regime.collapses:
        system_equations.append((hy.expression("log determinant"), divergence(system)))
    return system_equations


def integrated_size(size: int, regime: Regime, wrt: tuple[int, ...] | None) -> int:
    if wrt is None:
        return size
    return size * (1 + size + len(wrt)) + (0 if regime.collapses else 1)
