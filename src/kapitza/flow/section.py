"""Sections: crossings of a surface by a motion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.errors import EventError, FlowError, ModelError, nearest_name
from kapitza.flow import arguments
from kapitza.flow.arguments import State
from kapitza.flow.core import Core
from kapitza.flow.engine import Event
from kapitza.model import compile_expressions, parse_expression, symbol

PERIODS_PER_LOOK = 3.7182
"""Periods of the first search interval. Not a whole number, so that crossings in step with the excitation never fall on
the border of two intervals."""

LARGEST_LOOK = 8
"""Search intervals double up to this many times the first."""

DEFAULT_LIMIT = 1e5
"""Without `max_time` the search ends after this many times the first interval."""

SAME_CROSSING = 1e-9
"""Crossings closer than this, relative to the first interval, are one; one this close to the start is the start."""


@dataclass(frozen=True)
class Crossings:
    """Crossings of a surface.

    times: (N,), states: (N, n) with angles continuous, directions: (N,) of the crossing.
    The result unpacks as `times, states = flow.section(...)`.
    """

    times: Array
    states: Array
    directions: NDArray[np.int64]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.times, self.states))


def find_crossings(
    core: Core,
    x: State,
    surface: sp.Expr | str,
    crossings: int,
    direction: int,
    t0: float,
    vector: Array,
    max_time: float | None,
) -> Crossings:
    """Locate crossings of a surface; see `Flow.section`."""
    state = arguments.state_vector(core.model, x)
    wanted, t0 = arguments.whole("crossings", crossings, 1), arguments.instant("t0", t0)
    if direction not in (-1, 0, 1):
        raise arguments.ArgumentError(f"direction = {direction}; choose +1 (rising), -1 (falling) or 0 (both).")
    written = _read_surface(core, surface)
    observed = _on_the_circle(core, written)
    look = first = _first_look(core, state, t0, vector)
    limit = DEFAULT_LIMIT * first if max_time is None else float(max_time)
    found: list[Event] = []
    last: Event | None = None
    time = t0
    while len(found) < wanted:
        if time - t0 >= limit:
            raise FlowError(
                f"Only {len(found)} of {wanted} crossings of {written} were met between t = {t0:g} and {time:g}; "
                "ask for fewer, choose another surface, or raise `max_time`."
            )
        step = min(look, limit - (time - t0))
        run = core.advance(state, time, time + step, vector, tangents=False, observe=(observed,))
        met = [e for e in run.events if e.kind == "crossing" and e.time - t0 > SAME_CROSSING * first]
        met, last = _alternating(core, met, last, SAME_CROSSING * first)
        found += _wanted_ones(core, written, observed, met, vector, direction)
        state, time, look = run.state, time + step, min(2 * look, LARGEST_LOOK * first)
    found = found[:wanted]
    return Crossings(
        np.array([e.time for e in found]),
        np.array([e.state for e in found]),
        np.array([e.direction for e in found], dtype=np.int64),
    )


def _read_surface(core: Core, surface: sp.Expr | str) -> sp.Expr:
    model = core.model
    names = [*model.states, "t", *model.names]
    if isinstance(surface, str):
        expression = parse_expression(surface, names)
    else:
        expression = checks.expression("The surface", surface, error=ModelError)
    unknown = sorted({str(s) for s in expression.free_symbols} - set(names))
    if unknown:
        raise ModelError(
            f'The surface contains "{unknown[0]}", neither a state nor a parameter of "{model.name}".'
            f"{nearest_name(unknown[0], names)}"
        )
    if not any(expression.has(symbol(s)) for s in (*model.states, "t")):
        raise ModelError(f"The surface {expression} contains no state; it is never crossed.")
    return expression


def _on_the_circle(core: Core, surface: sp.Expr) -> sp.Expr:
    """Return the surface as a function on the circle.

    phi - c means phi = c modulo 2π, among the zeros of sin(phi - c).
    """
    for name, angle in zip(core.model.states, core.model.angles, strict=True):
        phi = symbol(name)
        if not angle or sp.simplify(surface.xreplace({phi: phi + 2 * sp.pi}) - surface) == 0:
            continue
        slope = sp.diff(surface, phi)
        if not (isinstance(slope, sp.Integer) and slope != 0):
            raise ModelError(
                f"The surface {surface} changes when {name} makes a full turn; write it with sin({name}) or "
                f"cos({name}), or as {name} - c."
            )
        return sp.sin(surface)
    return surface


def _alternating(core: Core, events: list[Event], last: Event | None, near: float) -> tuple[list[Event], Event | None]:
    """Drop repeated crossings and refuse lost ones.

    A crossing at the border of two pieces is met twice. A function that is continuous along the motion rises and falls
    in turn.
    """
    kept: list[Event] = []
    for event in events:
        if last is not None and event.direction == last.direction:
            if event.time - last.time <= near:
                continue
            if core.system.is_smooth:
                raise EventError(
                    f"The surface is crossed twice in the same direction, at t = {last.time:.9g} and {event.time:.9g}: "
                    "the crossing between was lost. Shift t0 by part of a period or tighten the tolerance."
                )
        kept.append(event)
        last = event
    return kept, last


def _wanted_ones(
    core: Core, surface: sp.Expr, observed: sp.Expr, events: list[Event], vector: Array, direction: int
) -> list[Event]:
    """Return the crossings in the wanted direction.

    Of the zeros of sin(phi - c) those at c are kept, not those at c + π.
    """
    chosen = [e for e in events if direction in (0, e.direction)]
    if observed is surface or not chosen:
        return chosen
    function = compile_expressions([surface], (*core.model.states, "t"), core.model.names)
    inputs = np.array([(*e.state, e.time) for e in chosen if e.state is not None])
    values = function(np.ascontiguousarray(inputs.T), vector)[0]
    return [e for e, value in zip(chosen, values, strict=True) if np.cos(value) > 0]


def _first_look(core: Core, state: Array, t0: float, vector: Array) -> float:
    """Return a time in which the state changes.

    It is a few excitation periods, or the size of the state over its rate.
    """
    period = core.period_law(vector)
    if period is not None:
        return PERIODS_PER_LOOK * period
    rates = core.rates(state, t0, vector)
    return 10.0 * float(np.linalg.norm(state) + 1.0) / float(np.linalg.norm(rates) + 1e-3)
