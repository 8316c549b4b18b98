"""Many members across a switch or off a wall at once, where nothing is in doubt; see `instants` for all the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.flow.engine import Event
from kapitza.flow.events.geometry import ROUNDING as SURFACE_ROUNDING
from kapitza.flow.events.geometry import Geometry, PointFunction
from kapitza.flow.events.instants import FLIGHTS_AHEAD
from kapitza.flow.events.journey import ROUNDING, Settings
from kapitza.flow.events.settle import CLEAR, FAR, FAST, MOMENT, PLAIN

Array = NDArray[Any]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Crowd:
    """B members on their way, changed in place: state (B, n), time, tangents (B, n, n + k) or None, modes, events.

    longest: of the next stretch; stretch: length of the last one.
    """

    geometry: Geometry
    state: Array
    time: Array
    parameters: Array
    modes: Array
    tangents: Array | None
    log_determinant: Array
    longest: Array
    stretch: Array
    events: list[list[Event]]

    @classmethod
    def at(cls, geometry: Geometry, settings: Settings, states: Array, t0: Array, parameters: Array) -> Crowd:
        count, n = states.shape
        wrt = settings.wrt
        return cls(
            geometry, states.copy(), np.array(t0, float), parameters, np.ones((count, geometry.switches)),
            None if wrt is None else np.tile(np.eye(n, n + len(wrt)), (count, 1, 1)),
            np.full(count, np.nan if wrt is None else 0.0), np.full(count, np.inf), np.zeros(count),
            [[] for _ in range(count)],
        )  # fmt: skip

    def points(self, rows: Rows, state: Array | None = None, modes: Array | None = None) -> Array:
        """Points (inputs, R) of some members, elsewhere or in other modes if given."""
        state = self.state[rows] if state is None else state
        modes = self.modes[rows] if modes is None else modes
        return np.ascontiguousarray(np.column_stack((state, self.time[rows], self.parameters[rows], modes)).T)


@dataclass(frozen=True)
class Tables:
    """Values (R, h), state gradients (R, h, n), time and parameter derivatives (R, h), (R, h, k) of some functions."""

    value: Array
    by_state: Array
    by_time: Array
    by_parameter: Array

    @classmethod
    def of(cls, function: PointFunction, points: Array, size: int) -> Tables:
        if function.compiled is None:
            table = np.zeros((points.shape[1], *function.shape))
        else:
            table = function.compiled(points).T.reshape(points.shape[1], *function.shape)
        return cls(table[..., 0], table[..., 1 : 1 + size], table[..., 1 + size], table[..., 2 + size :])

    def rates(self, index: int, field: Array) -> Array:
        """d/dt of one function along the fields (R, n)."""
        return np.einsum("rn,rn->r", self.by_state[:, index], field) + self.by_time[:, index]


def surfaces_of(crowd: Crowd, rows: Rows) -> Array:
    """All s, then all g, of some members: (R, h)."""
    function = crowd.geometry.values.compiled
    return np.zeros((rows.size, 0)) if function is None else function(crowd.points(rows)).T.copy()


def fields(crowd: Crowd, points: Array) -> Array:
    """x' (R, n) in free motion."""
    function = crowd.geometry.rates.compiled
    assert function is not None
    return function(points).T


def offsets(crowd: Crowd, rows: Rows) -> Array:
    """For every surface a few roundings of what its function can reach in the time of the last stretch, (R, h)."""
    geometry, stretch = crowd.geometry, crowd.stretch[rows]
    if not stretch.any():
        # Everybody stands at a start, clear of all surfaces.
        return np.full((rows.size, geometry.switches + geometry.walls), 1e-100)
    here = crowd.points(rows)
    other = crowd.points(rows, modes=-crowd.modes[rows])
    # On the other side a term may have no value.
    both = np.fmax(np.abs(fields(crowd, here)), np.abs(fields(crowd, other)))
    reach = np.abs(crowd.state[rows]) + stretch[:, None] * both
    tables = [Tables.of(geometry.table_of_switches, here, geometry.size)]
    tables += [Tables.of(geometry.table_of_walls, here, geometry.size)] if geometry.walls else []
    parts = [
        ROUNDING * (np.einsum("rhn,rn->rh", np.abs(t.by_state), reach) + np.abs(t.by_time) * stretch[:, None]) + 1e-100
        for t in tables
    ]
    return np.concatenate(parts, axis=1)


def cross(crowd: Crowd, settings: Settings, rows: Rows, index: int) -> NDArray[np.bool_]:
    """Carry members across a switch that both sides leave in the same direction; for which (R,) it was plain."""
    geometry = crowd.geometry
    after_modes = crowd.modes[rows]
    side = after_modes[:, index].copy()
    after_modes[:, index] = -side
    points = crowd.points(rows)
    before, after = fields(crowd, points), fields(crowd, crowd.points(rows, modes=after_modes))
    table = Tables.of(geometry.table_of_switches, points, geometry.size)
    rate, left = table.rates(index, before), table.rates(index, after)
    slope = np.abs(table.by_state[:, index])
    size = np.einsum("rn,rn->r", slope, np.maximum(np.abs(before), np.abs(after))) + np.abs(table.by_time[:, index])
    plain = (-side * rate > 0) & (rate * left > 0) & (np.minimum(np.abs(rate), np.abs(left)) > PLAIN * size)
    plain &= np.abs(rate) > FAR * settings.contact_speed
    state, time = np.abs(crowd.state[rows]), np.abs(crowd.time[rows])
    rounding = SURFACE_ROUNDING * (
        1.0 + np.einsum("rn,rn->r", slope, 1.0 + state) + np.abs(table.by_time[:, index]) * (1.0 + time)
    )
    moment = MOMENT * (1.0 + state.max(axis=1)) / (1.0 + np.abs(before).max(axis=1))
    plain &= np.abs(rate) * moment > FAST * rounding
    plain &= _others_clear(crowd, rows, index)
    chosen = rows[plain]
    jump = (after - before)[plain] / rate[plain, None]
    gradient, by_parameter = table.by_state[plain, index], table.by_parameter[plain, index]
    if crowd.tangents is not None:
        n = crowd.state.shape[1]
        reached = np.einsum("rn,rnc->rc", gradient, crowd.tangents[chosen])
        reached[:, n:] += by_parameter
        crowd.tangents[chosen] += jump[:, :, None] * reached[:, None, :]
        crowd.log_determinant[chosen] += np.log(np.abs(1.0 + np.einsum("rn,rn->r", gradient, jump)))
    crowd.modes[chosen] = after_modes[plain]
    if not geometry.system.switches[index].continuous:
        for i, speed in zip(chosen, rate[plain], strict=True):
            crowd.events[i].append(
                Event(
                    float(crowd.time[i]),
                    "cross",
                    index,
                    int(np.sign(speed)),
                    crowd.state[i].copy(),
                    crowd.state[i].copy(),
                )
            )
    return plain


def bounce(crowd: Crowd, settings: Settings, rows: Rows, wall: int) -> NDArray[np.bool_]:
    """Throw members back from a wall that they reach and leave fast, alone; which of them (R,) it was plain for."""
    geometry, n = crowd.geometry, crowd.state.shape[1]
    surface = Tables.of(geometry.table_of_walls, crowd.points(rows), n)
    normal = surface.by_state[:, wall]
    share = surface.value[:, wall] / np.einsum("rn,rn->r", normal, normal)
    struck = crowd.state[rows] - normal * share[:, None]
    points = crowd.points(rows, struck)
    surface = Tables.of(geometry.table_of_walls, points, n)
    reset = Tables.of(geometry.table_of_resets[wall], points, n)
    before = fields(crowd, points)
    speed = surface.rates(wall, before)
    thrown = reset.value
    values = _values(crowd, crowd.points(rows, thrown))
    modes = np.where(values[:, : geometry.switches] >= 0, 1.0, -1.0)
    there = crowd.points(rows, thrown, modes)
    speeds = Tables.of(geometry.table_of_speeds, there, n)
    after = fields(crowd, there)
    fast = FAR * settings.contact_speed
    plain = (speed < -fast) & (speeds.value[:, wall] > fast) & _others_clear(crowd, rows, geometry.switches + wall)
    values[:, : geometry.switches] *= modes
    values[:, geometry.switches + wall] = np.inf
    plain &= values.min(axis=1, initial=np.inf) > CLEAR
    chosen = rows[plain]
    if crowd.tangents is not None:
        gradient = surface.by_state[plain, wall]
        shift = -np.concatenate((gradient, surface.by_parameter[plain, wall]), axis=1) / speed[plain, None]
        slopes = reset.by_state[plain]
        lag = np.einsum("rab,rb->ra", slopes, before[plain]) + reset.by_time[plain] - after[plain]
        jump = slopes + lag[:, :, None] * shift[:, None, :n]
        result = jump @ crowd.tangents[chosen]
        result[:, :, n:] += reset.by_parameter[plain] + lag[:, :, None] * shift[:, None, n:]
        crowd.tangents[chosen] = result
        crowd.log_determinant[chosen] += np.linalg.slogdet(jump)[1]
    crowd.state[chosen], crowd.modes[chosen] = thrown[plain], modes[plain]
    turned_back = speeds.rates(wall, after)[plain]
    flight = FLIGHTS_AHEAD * 2 * speeds.value[plain, wall] / np.where(turned_back < 0, -turned_back, 1.0)
    crowd.longest[chosen] = np.where(turned_back < 0, flight, np.inf)
    for i, hit in zip(chosen, struck[plain], strict=True):
        crowd.events[i].append(Event(float(crowd.time[i]), "impact", wall, -1, hit.copy(), crowd.state[i].copy()))
    return plain


def _values(crowd: Crowd, points: Array) -> Array:
    function = crowd.geometry.values.compiled
    assert function is not None
    return function(points).T.copy()


def _others_clear(crowd: Crowd, rows: Rows, one: int) -> NDArray[np.bool_]:
    """Whether every surface but this one is far."""
    values = surfaces_of(crowd, rows)
    values[:, : crowd.geometry.switches] *= crowd.modes[rows]
    values[:, one] = np.inf
    return values.min(axis=1, initial=np.inf) > CLEAR
