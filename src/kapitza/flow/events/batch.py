"""Many trajectories with events: free motion in SIMD lanes, everything else one by one.

Each lane carries a `Journey`. A lane that meets an event leaves it to the journey, which may pass stretches of stick or
contact on its own, and comes back when it moves freely; a lane that is done takes the next journey.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import heyoka as hy
import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError
from kapitza.flow.compiled import LARGEST_UNROLLED_LANES, cached, code_of, compile_integrator, full_table, is_short
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.instants import begin, meet
from kapitza.flow.events.journey import Journey, Settings
from kapitza.flow.events.regimes import (
    COOLDOWN,
    NEARLY_ZERO_SPEED,
    Ending,
    integrated_equations,
    integrated_size,
    offset_table,
    regime_flow,
)
from kapitza.flow.events.settle import Regime
from kapitza.model import to_heyoka

Array = NDArray[Any]

LANES = 8
"""Members of a SIMD batch; twice the register width still gains."""


NOTHING = np.zeros(0)


class NoteApproachOfLane:
    """Keeps lane, time and state of every nearest approach to a wall."""

    def __init__(self, index: int, size: int):
        self.index, self.size = index, size
        self.found: list[tuple[int, float, Array]] = []

    def __call__(self, integrator: Any, time: float, sign: int, lane: int) -> None:
        integrator.update_d_output(np.full(LANES, time))
        self.found.append((lane, float(time), integrator.d_output[: self.size, lane].copy()))


@dataclass(frozen=True)
class CompiledLanes:
    """A batch integrator of free motion with the meaning of its events."""

    integrator: Any
    endings: tuple[Ending, ...]
    approaches: tuple[NoteApproachOfLane, ...]


def compiled_lanes(geometry: Geometry, wrt: tuple[int, ...] | None, tolerance: float) -> CompiledLanes:
    """The batch integrator, with tangents unless wrt is None; compiled once per thread."""
    # The system itself is a dear key: it is asked for once per geometry.
    near = ("lanes", threading.get_ident(), wrt, tolerance)
    if near not in geometry.compiled:
        key = ("event lanes", geometry.system, wrt, tolerance)
        geometry.compiled[near] = cached(key, lambda: compile_integrator(lambda: _build(geometry, wrt, tolerance)))
    return geometry.compiled[near]


def _build(geometry: Geometry, wrt: tuple[int, ...] | None, tolerance: float) -> CompiledLanes:
    free = Regime()
    system, endings = regime_flow(geometry, free)
    table = {**full_table(system), **offset_table(geometry)}
    falling, rising = hy.event_direction.negative, hy.event_direction.positive
    surfaces = [to_heyoka(e.expression, table) for e in endings]
    terminal = [hy.t_event_batch(s, direction=falling, cooldown=COOLDOWN) for s in surfaces]
    watched = [
        hy.nt_event_batch(
            to_heyoka(speed, table) + NEARLY_ZERO_SPEED, NoteApproachOfLane(j, geometry.size), direction=rising
        )
        for j, speed in enumerate(geometry.speeds)
    ]
    equations = integrated_equations(system, free, wrt)
    integrator = hy.taylor_adaptive_batch(
        equations,
        np.zeros((integrated_size(geometry.size, free, wrt), LANES)),
        tol=tolerance,
        **code_of(not is_short(system, equations, surfaces, LARGEST_UNROLLED_LANES)),
        t_events=terminal,
        nt_events=watched,
    )
    return CompiledLanes(integrator, endings, tuple(event.callback for event in integrator.nt_events))


class EventBatch:
    """Journeys that share the lanes of one batch integrator until all have arrived or failed."""

    def __init__(self, geometry: Geometry, settings: Settings, journeys: list[Journey], ends: Array):
        self.lanes = compiled_lanes(geometry, settings.wrt, settings.tolerance)
        self.integrator = self.lanes.integrator
        self.settings, self.journeys, self.ends = settings, journeys, ends
        self.failed: dict[int, FlowError] = {}
        self._next = 0
        self._members: list[int | None] = [None] * LANES
        self._targets = np.zeros(LANES)
        self._times = np.zeros(LANES)
        self._parked: tuple[Array, Array] = (np.zeros(0), np.zeros(0))

    def run(self) -> None:
        """Bring every journey to its end; those that cannot go on are in `failed`."""
        for lane in range(LANES):
            self._admit(lane)
        if self._parked[0].size:
            self._park([lane for lane, member in enumerate(self._members) if member is None])
        while any(member is not None for member in self._members):
            self.integrator.set_time(self._times)
            self.integrator.propagate_until(self._targets, max_steps=self.settings.max_steps)
            self._times = np.array(self.integrator.time)
            self._judge_approaches()
            for lane, result in enumerate(self.integrator.propagate_res):
                member = self._members[lane]
                if member is not None and result[0] != hy.taylor_outcome.success:
                    self._arrive(lane, member, result[0])

    def _admit(self, lane: int) -> None:
        """Give the lane the next journey that moves freely for a while."""
        self._members[lane] = None
        while self._next < len(self.journeys):
            member, self._next = self._next, self._next + 1
            journey = self.journeys[member]
            try:
                begin(journey)
                self._pass_held(journey, self.ends[member])
            except FlowError as failure:
                self.failed[member] = failure
                continue
            if journey.t < self.ends[member]:
                self._members[lane] = member
                self._load(lane, member)
                return
        # An empty lane stands still.
        self._targets[lane] = self._times[lane]

    def _park(self, lanes: list[int]) -> None:
        """Fill lanes that stand still with a state and parameters at which the rates are finite: those of a start."""
        state, runtime = self._parked
        self.integrator.state[:, lanes] = state[:, None]
        self.integrator.pars[:, lanes] = runtime[:, None]

    def _load(self, lane: int, member: int) -> None:
        journey = self.journeys[member]
        vector, runtime = journey.packed()
        self.integrator.state[:, lane] = vector
        self.integrator.pars[:, lane] = runtime[: self.integrator.pars.shape[0]]
        if self._parked[0].size == 0:
            self._parked = self.integrator.state[:, lane].copy(), self.integrator.pars[:, lane].copy()
        self._times[lane] = journey.t
        self._targets[lane] = min(self.ends[member], journey.t + journey.longest)
        journey.longest = np.inf
        if journey.changed:
            self.integrator.reset_cooldowns(lane)

    def _arrive(self, lane: int, member: int, outcome: Any) -> None:
        """A lane stopped: at an event, at its end, or because the trajectory cannot go on."""
        journey = self.journeys[member]
        try:
            journey.unpack(self.integrator.state[:, lane].copy(), float(self._times[lane]))
            ending = journey.ending_of(self.lanes.endings, outcome)
            journey.guard()
            if ending is not None:
                journey.limit_events()
                meet(journey, ending)
                self._pass_held(journey, self.ends[member])
        except FlowError as failure:
            self.failed[member] = failure
        if member in self.failed or journey.t >= self.ends[member]:
            # What failed must not stop the others again.
            self._park([lane])
            self._admit(lane)
        else:
            self._load(lane, member)

    def _pass_held(self, journey: Journey, end: float) -> None:
        """Stick and contact are left to the journey itself."""
        while journey.regime.collapses and journey.t < end:
            ending, _ = journey.advance(end, NOTHING)
            if ending is not None:
                meet(journey, ending)

    def _judge_approaches(self) -> None:
        for note in self.lanes.approaches:
            for lane, time, state in note.found:
                member = self._members[lane]
                if member is not None and member not in self.failed:
                    try:
                        self.journeys[member].judge_approach(note.index, time, state)
                    except FlowError as failure:
                        self.failed[member] = failure
            note.found.clear()
