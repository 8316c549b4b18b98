"""Sections: the instants at which a motion crosses a surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import FlowError, ModelError, nearest_name
from kapitza.flow import arguments
from kapitza.flow.core import Core
from kapitza.flow.engine import Event
from kapitza.model.compiled import compile_expressions
from kapitza.model.notation import parse_expression
from kapitza.model.symbols import symbol
from kapitza.model.symbols import time as time_symbol

Array = NDArray[np.float64]

FIRST_LOOK = 64
"""Looks ahead grow from a few natural times to this many times as long."""

AT_START = 1e-9
"""A crossing this close to the start, relative to the first look, is the start itself."""


@dataclass(frozen=True)
class Crossings:
    """Crossings of a surface: times (N,), states (N, n) with angles continuous, directions (N,) of the crossing."""

    times: Array
    states: Array
    directions: NDArray[np.int64]

    def __iter__(self):
        """Unpacks as `times, states = flow.section(...)`."""
        return iter((self.times, self.states))


def find_crossings(
    core: Core,
    x: Any,
    surface: sp.Expr | str,
    crossings: int,
    direction: int,
    t0: float,
    parameters: Any,
    longest: float | None,
) -> Crossings:
    state, vector = arguments.state_vector(core.model, x), arguments.parameter_vector(core.model, parameters)
    wanted = arguments.whole("crossings", crossings, 1)
    t0 = arguments.instant("t0", t0)
    if direction not in (-1, 0, 1):
        raise arguments.ArgumentError(f"direction = {direction}; choose +1 (rising), -1 (falling) or 0 (both).")
    observed, slope = _on_the_circle(core, _read_surface(core, surface))
    stretch = _first_stretch(core, state, t0, vector)
    limit = 1e5 * stretch if longest is None else float(longest)
    found: list[Event] = []
    now, time = state, t0
    while len(found) < wanted:
        if time - t0 >= limit:
            raise FlowError(
                f"Only {len(found)} of {wanted} crossings of {surface} were met between t = {t0:g} and {time:g}; "
                "ask for fewer, choose another surface, or raise `longest`."
            )
        step = min(stretch, limit - (time - t0))
        run = core.advance(now, time, time + step, vector, tangents=False, observe=(observed,))
        met = [e for e in run.events if e.kind == "crossing" and e.time - t0 > AT_START * stretch]
        found += _in_direction(slope, met, vector, direction)
        now, time = run.state, time + step
    found = found[:wanted]
    times = np.array([e.time for e in found])
    states = np.array([e.state for e in found])
    return Crossings(times, states, np.array([e.direction for e in found]))


def _read_surface(core: Core, surface: sp.Expr | str) -> sp.Expr:
    model = core.model
    names = [*model.states, "t", *model.names]
    expression = parse_expression(surface, names) if isinstance(surface, str) else sp.sympify(surface)
    unknown = sorted({str(s) for s in expression.free_symbols} - set(names))
    if unknown:
        raise ModelError(
            f'The surface contains "{unknown[0]}", neither a state nor a parameter of "{model.name}".'
            f"{nearest_name(unknown[0], names)}"
        )
    if not any(expression.has(symbol(s)) for s in (*model.states, "t")):
        raise ModelError(f"The surface {expression} contains no state; it is never crossed.")
    return expression


def _on_the_circle(core: Core, surface: sp.Expr) -> tuple[sp.Expr, Any]:
    """The surface as a function on the circle, and its rate along the motion (compiled).

    phi - c means phi = c modulo 2π: its zeros are those of sin((phi - c)/2), which does not notice whole turns.
    """
    observed = surface
    for name, angle in zip(core.model.states, core.model.angles, strict=True):
        phi = symbol(name)
        if not angle or not surface.has(phi):
            continue
        if sp.simplify(surface.xreplace({phi: phi + 2 * sp.pi}) - surface) == 0:
            continue
        if sp.diff(surface, phi) not in (1, -1):
            raise ModelError(
                f"The surface {surface} changes when {name} makes a full turn; write it with sin({name}) or "
                f"cos({name}), or as {name} - c."
            )
        observed = sp.sin(surface / 2)
    system = core.system
    rate = sp.diff(surface, time_symbol) + sum(
        sp.diff(surface, s) * f for s, f in zip(system.states, core.model.structure.rates, strict=True)
    )
    signals = core.model.structure.signals
    return observed, compile_expressions([rate], (*system.states, "t", *signals), core.model.names)


def _in_direction(slope: Any, events: list[Event], vector: Array, direction: int) -> list[Event]:
    if not events or direction == 0:
        return events
    return [e for e in events if e.direction == direction]


def _first_stretch(core: Core, state: Array, t0: float, vector: Array) -> float:
    """A time over which something happens: the excitation period, or the size of the state over its rate."""
    clock = core.clock(vector)
    if clock.period is not None:
        return 4 * clock.period
    rates = core.rates(state, t0, vector)
    return 10.0 * float(np.linalg.norm(state) + 1.0) / float(np.linalg.norm(rates) + 1e-3)
