"""Stretches of free motion, many at once, through events of the usual kind: what most of a record is.

A journey through events costs some hundred microseconds of bookkeeping before it moves, and as much at every event.
Where the start is clear of all surfaces, the batch integrator of free motion runs without it. At a switch that both
sides leave in the same direction, and at a wall that throws the state back, alone and fast, all members that stand
there are carried across together. Whatever else comes (stick, contact, touching, two surfaces at once) is left to a
journey from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import heyoka as hy
import numpy as np
from numpy.typing import NDArray

from kapitza.flow.engine import Event
from kapitza.flow.events.batch import LANES, CompiledLanes, compiled_lanes
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.journey import SAME_INSTANT, WRONG_SIDE, Settings
from kapitza.flow.events.passing import Crowd, bounce, cross, offsets, surfaces_of
from kapitza.flow.events.regimes import CROSS, IMPACT
from kapitza.flow.events.settle import CLEAR, Regime

Array = NDArray[Any]
Rows = NDArray[np.intp]

ROUNDS = 40
"""Events of one member after which it is left to a journey."""


@dataclass(frozen=True)
class Stretches:
    """Ends of B runs: done (B,) where they met nothing unusual; state (B, n), tangents (B, n, n + k) or None, log|det|.

    modes (B, k): of the switches; events: of each member.
    """

    done: NDArray[np.bool_]
    state: Array
    tangents: Array | None
    log_determinant: Array
    modes: Array
    events: list[tuple[Event, ...]]


def clear_stretches(
    geometry: Geometry, settings: Settings, states: Array, t0: Array, t1: Array, parameters: Array
) -> Stretches:
    """Run the members that start clear of every surface to t1 (B,), as far as what they meet is simple."""
    crowd = Crowd.at(geometry, settings, states, t0, parameters)
    done = np.zeros(len(states), bool)
    nested = any(geometry.inner(i) or s.can_vanish for i, s in enumerate(geometry.system.switches))
    simple = not (geometry.domain.is_entered or nested)
    active = np.flatnonzero(_clear(crowd) & (t1 > t0)) if simple else np.empty(0, np.intp)
    if active.size:
        lanes = compiled_lanes(geometry, settings.wrt, settings.tolerance)
        for _ in range(ROUNDS):
            arrived, ending = _run(crowd, lanes, settings, active, t1)
            done[active[arrived]] = True
            active = _go_on(crowd, lanes, settings, active, ending)
            if not active.size:
                break
    return Stretches(
        done, crowd.state, crowd.tangents, crowd.log_determinant, crowd.modes, [tuple(found) for found in crowd.events]
    )


def _clear(crowd: Crowd) -> NDArray[np.bool_]:
    """Which members stand clear of every surface; their modes are set."""
    count, switches = len(crowd.state), crowd.geometry.switches
    values = surfaces_of(crowd, np.arange(count))
    crowd.modes[:] = np.where(values[:, :switches] >= 0, 1.0, -1.0)
    values[:, :switches] *= crowd.modes
    return values.min(axis=1, initial=np.inf) > CLEAR


def _go_on(crowd: Crowd, lanes: CompiledLanes, settings: Settings, active: Rows, ending: Rows) -> Rows:
    """The members that go on: carried across where they met a simple event, or not at their end yet."""
    left = [active[ending == GOING]]
    for number, found in enumerate(lanes.endings):
        here = active[ending == number]
        if not here.size:
            continue
        if found.kind == CROSS:
            left.append(here[cross(crowd, settings, here, found.index)])
        elif found.kind == IMPACT:
            left.append(here[bounce(crowd, settings, here, found.index)])
    return np.sort(np.concatenate(left))


ARRIVED, GOING, GIVEN_UP = -1, -2, -3


def _run(
    crowd: Crowd, lanes: CompiledLanes, settings: Settings, active: Rows, t1: Array
) -> tuple[NDArray[np.bool_], Rows]:
    """To the next event or the end: which members arrived, and the number of the ending that the others met."""
    integrator, n = lanes.integrator, crowd.state.shape[1]
    state, values, clock = integrator.state, integrator.pars, integrator.time
    count = active.size
    # The last batch is filled up with copies of its last member.
    rows = active[np.minimum(np.arange(-(-count // LANES) * LANES), count - 1)]
    start = np.zeros((rows.size, state.shape[0]))
    start[:, :n] = crowd.state[rows]
    if crowd.tangents is not None:
        start[:, n:-1] = crowd.tangents[rows].reshape(rows.size, -1)
    flags = np.tile(crowd.geometry.flags_of(Regime()), (rows.size, 1))
    known = np.column_stack((crowd.parameters[rows], crowd.modes[rows], flags, offsets(crowd, rows)))
    runtime = np.ascontiguousarray(known[:, : values.shape[0]])
    begin = crowd.time[rows]
    target = np.minimum(t1[rows], begin + crowd.longest[rows])
    reached, times = np.empty_like(start), np.empty(rows.size)
    ending: Rows = np.full(rows.size, GIVEN_UP, np.intp)
    for first in range(0, rows.size, LANES):
        here = slice(first, first + LANES)
        state[:], values[:] = start[here].T, runtime[here].T
        integrator.set_time(begin[here])
        integrator.reset_cooldowns()
        ending[here] = _propagate(integrator, target[here].copy(), settings, len(lanes.endings))
        ending[here][_approached(crowd, lanes, rows[here])] = GIVEN_UP
        reached[here], times[here] = state.T, clock
    reached, times, ending = reached[:count], times[:count], ending[:count]
    ending[~np.isfinite(reached).all(axis=1)] = GIVEN_UP
    keep = ending != GIVEN_UP
    kept = active[keep]
    crowd.stretch[kept] = times[keep] - crowd.time[kept]
    crowd.state[kept], crowd.time[kept], crowd.longest[kept] = reached[keep, :n], times[keep], np.inf
    if crowd.tangents is not None:
        crowd.tangents[kept] = reached[keep, n:-1].reshape(kept.size, n, -1)
        crowd.log_determinant[kept] += reached[keep, -1]
    # Nobody may stand on the wrong side of a surface: an event would have been lost.
    sides = surfaces_of(crowd, kept)
    sides[:, : crowd.geometry.switches] *= crowd.modes[kept]
    wrong = sides.min(axis=1, initial=np.inf) < -WRONG_SIDE * (1.0 + np.abs(crowd.state[kept]).max(axis=1))
    ending[np.flatnonzero(keep)[wrong]] = GIVEN_UP
    arrived = (ending == ARRIVED) & (crowd.time[active] >= t1[active])
    ending[(ending == ARRIVED) & ~arrived] = GOING
    return arrived, ending


def _propagate(integrator: Any, target: Array, settings: Settings, endings: int) -> Rows:
    """All lanes to their targets; the number of the ending where one stopped each, or ARRIVED, or GIVEN_UP."""
    clock, found = integrator.time, np.full(LANES, ARRIVED, np.intp)
    for _ in range(LANES + 1):
        integrator.propagate_until(target, max_steps=settings.max_steps)
        going = False
        for lane, result in enumerate(integrator.propagate_res):
            outcome = result[0]
            if outcome == hy.taylor_outcome.time_limit:
                continue
            if outcome == hy.taylor_outcome.success:
                going = True
                continue
            number = -int(outcome.value) - 1
            found[lane] = number if 0 <= number < endings else GIVEN_UP
            # One that stops holds up the others: it stands still while they go on.
            target[lane] = clock[lane]
        if not going:
            break
    else:
        found[found == ARRIVED] = GIVEN_UP
    return found


def _approached(crowd: Crowd, lanes: CompiledLanes, rows: Rows) -> list[int]:
    """Lanes that came nearer to a wall than rounding on the way: a journey judges what that was."""
    geometry, near = crowd.geometry, []
    for note in lanes.approaches:
        for lane, time, state in note.found:
            i = rows[lane]
            last = crowd.events[i][-1].time if crowd.events[i] else -np.inf
            if time - last <= SAME_INSTANT * (1.0 + abs(time)):
                continue
            point = geometry.point(state, time, crowd.parameters[i], crowd.modes[i])
            distance = float(geometry.values(point)[geometry.switches + note.index])
            if distance <= WRONG_SIDE * (1.0 + float(np.abs(state).max())):
                near.append(lane)
        note.found.clear()
    return near
