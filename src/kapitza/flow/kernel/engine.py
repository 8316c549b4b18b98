"""Trajectories with events by the compiled stepper.

Instants that it does not decide go to the event logic in Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.flow.engine import Event, Events, ManyStretches, Memory, Regime, Run, Stretches
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.instants import begin, meet
from kapitza.flow.events.journey import Journey, Settings
from kapitza.flow.events.regimes import EDGE, REPEL, Ending, hidden_gains
from kapitza.flow.kernel.library import (
    DONE,
    FINE,
    FULL,
    GIVEN_BACK,
    KINDS,
    MANY_EVENTS,
    MEMORY,
    NEED_REGIME,
    NOT_FINITE,
    SHIFTED,
    STALLED,
    STEPS,
    STRICT,
    TOUCHED,
    UNSETTLED,
    CheckedTape,
    CRun,
    Space,
    address,
    library,
)
from kapitza.flow.kernel.tape import NoTapeError, write_tape
from kapitza.model import symbolic

Marks = NDArray[np.int32]

Runs = NDArray[Any]
"""Structures laid out like `CRun`, one for each run."""

ROOM = 64
"""Events of one run that are noted before the list is emptied."""

FEW_RUNS = 16
"""Runs that are not worth a second thread."""


def toggled(regime: Regime, switch: int) -> Regime:
    """Return the regime with one switch toggled.

    A switch that slid now sticks, and the reverse.
    """
    stuck = set(regime.stuck) ^ {switch}
    return Regime(tuple(sorted(stuck)), regime.contact)


class _Spaces(threading.local):
    """Workspace of each thread, made at first access."""

    def __init__(self) -> None:
        self.own = Space()


class Kernel:
    """The tapes of a system.

    A tape is written when its regime is first entered. Threads share the object.

    handled, given_back, passed, begun: events decided by the stepper, instants that went to the event logic, steps that
    passed a surface which is zero at their start, and starts that the event logic settled.
    """

    def __init__(self, geometry: Geometry, wrt: tuple[int, ...] | None, observe: tuple[sp.Expr, ...]):
        self.geometry, self.observe, self.tangents = geometry, observe, wrt is not None
        self.wrt = np.array(wrt or (), np.int32)
        self.columns = 0 if wrt is None else geometry.size + len(wrt)
        self.handled = self.given_back = self.passed = self.begun = 0
        self.next_regime = np.full((1, max(geometry.switches, 1)), -1, np.int32)
        self.handles: ctypes.Array[ctypes.c_void_p] = (ctypes.c_void_p * 0)()
        self.regimes: list[Regime] = []
        self.library = library()
        self._lock = threading.Lock()
        self._spaces = _Spaces()
        self._tapes: list[CheckedTape] = []
        self._places: dict[Regime, int] = {}
        self.place(Regime())

    @property
    def space(self) -> Space:
        """Workspace of the runs of this thread."""
        return self._spaces.own

    def place(self, regime: Regime) -> int:
        """Return the number of the tape of a regime.

        A regime that no tape can express is an error.
        """
        if regime not in self._places:
            with self._lock, symbolic:
                if regime not in self._places:
                    self._places[regime] = self._write(regime)
        return self._places[regime]

    def _write(self, regime: Regime) -> int:
        tape = CheckedTape(write_tape(self.geometry, regime, self.observe, self.tangents))
        self._tapes.append(tape)
        self.regimes.append(regime)
        self.handles = (ctypes.c_void_p * len(self._tapes))(*(t.handle for t in self._tapes))
        # A new table each time: runs in other threads keep theirs.
        table = np.full((len(self.regimes), max(self.geometry.switches, 1)), -1, np.int32)
        known = {r: k for k, r in enumerate(self.regimes)}
        for k, r in enumerate(self.regimes):
            for i in range(self.geometry.switches):
                table[k, i] = known.get(toggled(r, i), -1)
        self.next_regime = table
        return len(self._tapes) - 1

    def ending(self, run: CRun) -> Ending:
        """Return the surface at which a run has stopped."""
        kind, index = KINDS[run.ending_kind], run.ending_index
        if kind != EDGE:
            return Ending(kind, index)
        # A tape watches the ends of terms that have a watched function, then the gains of its regime.
        watched = [k for k, edge in enumerate(self.geometry.system.edges) if edge.watched is not None]
        if index < len(watched):
            return Ending(EDGE, watched[index])
        return Ending(REPEL, hidden_gains(self.geometry, self.regimes[run.regime])[index - len(watched)][0])


@dataclass
class Samples:
    """Samples at the times of a grid.

    States (N, n), tangents (N, n, n + k) and rates (N, n) are filled from the left.
    """

    grid: Array
    states: Array
    tangents: Array
    rates: Array

    @staticmethod
    def at(grid: Array, size: int, columns: int) -> Samples:
        """Return empty samples at a grid.

        grid: (N,), or (B, N) for many runs.
        """
        rows = grid.shape if columns else (*grid.shape[:-1], 0)
        return Samples(
            np.ascontiguousarray(grid, float),
            np.empty((*grid.shape, size)),
            np.empty((*rows, size, columns)),
            np.empty((*rows, size)),
        )

    def row(self, i: int) -> Samples:
        """Return views of the samples of one run."""
        return Samples(self.grid[i], self.states[i], self.tangents[i], self.rates[i])


class Noted(NamedTuple):
    """Events as the stepper notes them.

    times: (N,); marks: kind, index, direction (N, 3); states: before and after each event (N, 2, n).
    """

    times: Array
    marks: Marks
    states: Array

    def events(self) -> Iterator[Event]:
        rows = zip(self.times.tolist(), self.marks.tolist(), self.states, strict=True)
        for t, (kind, index, direction), (before, after) in rows:
            name = KINDS[kind]
            yield Event(t, name, index, direction, before, None if name == "crossing" else after)


class Trip:
    """One run of the stepper.

    It holds the numbers the stepper works on, and a journey where the event logic is needed.

    x (n,), tangents (n, n + k) or None, runtime (npar + switches,) with the modes last, end_rates (n,).
    """

    def __init__(
        self,
        kernel: Kernel,
        settings: Settings,
        run: CRun,
        x: Array,
        tangents: Array | None,
        runtime: Array,
        end_rates: Array,
    ):
        self.kernel, self.settings, self.run = kernel, settings, run
        self.x, self.tangents, self.runtime, self.end_rates = x, tangents, runtime, end_rates
        self.samples: Samples | None = None
        self.sides = np.zeros(len(kernel.observe))
        run.side = address(self.sides)
        self._times, self._marks = np.empty(ROOM), np.empty((ROOM, 3), np.int32)
        self._states = np.empty((ROOM, 2, x.size))
        self._parts: list[Noted | Sequence[Event]] = []
        self._journey: Journey | None = None
        self._taken = self._handled = 0  # events taken from the journey; those of the stepper up to then
        self._returned: tuple[float, int, int] | None = None
        self._fine_at = np.nan  # time at which the stepper had finer thresholds
        self._shifted_at = np.nan  # time at which it passed surfaces a few roundings away

    def travel(self) -> None:
        """Go on to the end of the run."""
        run = self.run
        run.event_times, run.event_marks = address(self._times), address(self._marks)
        run.event_states, run.event_room, run.event_count = address(self._states), ROOM, 0
        status = self._call()
        while status != DONE:
            self._answer(status)
            status = self._call()

    def go_on(self, status: int, events: Noted) -> None:
        """Continue a run of many that has stopped.

        events: those that it has noted so far.
        """
        self._parts.append(events)
        self._answer(status)
        self.travel()

    def _answer(self, status: int) -> None:
        """Prepare the next call of the stepper.

        status: why the stepper returned.
        """
        run, kernel = self.run, self.kernel
        if status == NEED_REGIME:
            # Where the switch cannot stick, as its rate does not jump, there is no tape: the event logic decides.
            with contextlib.suppress(NoTapeError):
                kernel.place(toggled(kernel.regimes[run.regime], run.ending_index))
                return
        if status != FULL:
            self._leave(status)

    @property
    def memory(self) -> Memory:
        first = self.runtime.size - self.kernel.geometry.switches
        return Memory(self.runtime[:first], self.runtime[first:], self.kernel.regimes[self.run.regime], self.sides)

    @property
    def events(self) -> Sequence[Event]:
        parts = tuple(self._parts)
        count = sum(map(_count, parts))
        return Events(count, lambda: _in_order(parts)) if count else ()

    def _call(self) -> int:
        run, kernel = self.run, self.kernel
        # Local references keep both alive in C while another thread replaces them.
        handles, table, before = kernel.handles, kernel.next_regime, run.handled
        run.next_regime = address(table)
        status = kernel.library.kz_travel(handles, len(handles), ctypes.byref(run), kernel.space.handle)
        kernel.handled += run.handled - before
        count = run.event_count
        if count:
            times, marks, states = self._times[:count], self._marks[:count], self._states[:count]
            self._parts.append(Noted(times.copy(), marks.copy(), states.copy()))
            run.event_count = 0
        return status

    def _leave(self, status: int) -> None:
        """Leave the stepper for one instant.

        The event logic decides it, or the next step passes a surface that is zero at its start.
        """
        run, kernel = self.run, self.kernel
        if run.handled != self._handled:
            self._returned = None  # the stepper has moved on, if only to another event at the same time
        journey = self._on_the_way()
        if status == MEMORY:
            raise MemoryError("no memory for a run")
        if status == NOT_FINITE:
            journey.refuse_to_diverge()
        if status == MANY_EVENTS:
            journey.refuse_more_events()
        if status == STEPS:
            journey.refuse_more_steps()
        lenient, here = STRICT, (run.t, run.ending_kind, run.ending_index)
        if status == UNSETTLED:
            kernel.begun += 1
            begin(journey)
            run.fresh = 0
        elif status in (GIVEN_BACK, NEED_REGIME) and self._returned != here:
            self._returned = here
            kernel.given_back += 1
            journey.guard()
            journey.limit_events()
            meet(journey, kernel.ending(run))
        elif status in (GIVEN_BACK, NEED_REGIME, STALLED):
            # The same instant once more means a surface that is touched, or one that is not quite reached: a few
            # roundings later the event logic is asked again.
            kernel.passed += 1
            journey.guard()
            journey.limit_at_once()
            if status == STALLED and self._fine_at != run.t:
                lenient, self._fine_at = FINE, run.t
            else:
                # A few roundings were not enough: the event logic calls a surface touched up to its own rounding.
                lenient = TOUCHED if self._shifted_at == run.t else SHIFTED
                self._returned, self._shifted_at = None, run.t
        else:
            raise FlowError(f"The compiled stepper refused the run (status {status}) at {journey.described()}.")
        self._take_over(journey)
        run.lenient = lenient

    def _on_the_way(self) -> Journey:
        """Return the journey at the state of the stepper."""
        run, kernel = self.run, self.kernel
        first = self.runtime.size - kernel.geometry.switches
        if self._journey is None:
            self._journey = Journey(kernel.geometry, self.settings, self.x, run.t, self.runtime[:first].copy())
        journey = self._journey
        still = self._returned is not None and self._returned[0] == run.t == journey.t and not run.fresh
        if still and np.array_equal(journey.state, self.x):
            return journey  # nothing has moved since the event logic was here
        if run.knot_count:
            journey.parameters = self.runtime[:first].copy()
        journey.state, journey.t, journey.modes = self.x.copy(), run.t, self.runtime[first:].copy()
        journey.regime, journey.changed = kernel.regimes[run.regime], True
        journey.fastest = max(journey.fastest, run.fastest)
        if self.tangents is not None:
            journey.tangents, journey.log_determinant = self.tangents.copy(), run.log_determinant
        return journey

    def _take_over(self, journey: Journey) -> None:
        run = self.run
        self.x[:], self.runtime[self.runtime.size - journey.modes.size :] = journey.state, journey.modes
        run.t, run.t_low, run.steps, run.pending = journey.t, 0.0, 0, 0
        if self.tangents is not None:
            assert journey.tangents is not None
            self.tangents[:], run.log_determinant = journey.tangents, journey.log_determinant
        run.regime = self.kernel.place(journey.regime)
        self._handled = run.handled
        if len(journey.events) > self._taken:
            self._parts.append(tuple(journey.events[self._taken :]))
            self._taken = len(journey.events)


class Steps:
    """A state that is advanced step by step.

    Parameters may change between the steps. No events are returned.
    x: (n,) state; runtime: (npar + switches,), in which the caller sets the parameters.
    """

    def __init__(self, kernel: Kernel, settings: Settings):
        n, system = kernel.geometry.size, kernel.geometry.system
        self.kernel, self.settings = kernel, settings
        self.x, self.runtime = np.zeros(n), np.zeros(len(system.parameters) + kernel.geometry.switches)
        self._noted = Noted(np.empty(ROOM), np.empty((ROOM, 3), np.int32), np.empty((ROOM, 2, n)))
        self._run = CRun()
        self._reference = ctypes.byref(self._run)
        self._prepare()

    def _prepare(self) -> None:
        """Lay out a run that has not begun, with the tapes known now."""
        kernel, run = self.kernel, _new_run(self.kernel, self.settings, 0.0, 0.0)
        run.x, run.runtime = address(self.x), address(self.runtime)
        run.event_times, run.event_marks, run.event_states = map(address, self._noted)
        run.event_room = ROOM
        # Local references keep both alive in C while another thread replaces them.
        self._handles, self._table = kernel.handles, kernel.next_regime
        run.next_regime = address(self._table)
        self._blank = bytes(run)

    def advance(self, t0: float, t1: float) -> None:
        """Advance the state from t0 to t1.

        The modes are those of the state at t0: parameters may have moved a surface.
        """
        run, kernel = self._run, self.kernel
        ctypes.memmove(self._reference, self._blank, len(self._blank))
        run.t, run.t1 = t0, t1
        status = kernel.library.kz_travel(self._handles, len(self._handles), self._reference, kernel.space.handle)
        if status != DONE:
            trip = Trip(kernel, self.settings, run, self.x, None, self.runtime, np.empty(0))
            trip.go_on(status, Noted(np.empty(0), np.empty((0, 3), np.int32), np.empty((0, 2, self.x.size))))
            self._prepare()


def _count(part: Noted | Sequence[Event]) -> int:
    return len(part.times) if isinstance(part, Noted) else len(part)


def _in_order(parts: Sequence[Noted | Sequence[Event]]) -> Iterator[Event]:
    """Return the events by time.

    Those of one instant keep their order.
    """
    made: list[Event] = []
    for part in parts:
        made += part.events() if isinstance(part, Noted) else part
    return iter(sorted(made, key=lambda event: event.time))


def run_one(
    kernel: Kernel,
    settings: Settings,
    state: Array,
    t0: float,
    t1: float,
    parameters: Array,
    grid: Array | None = None,
    memory: Memory | None = None,
    stretches: Stretches | None = None,
) -> tuple[Trip, Array]:
    """Make one run with tangents from the identity.

    Also returned is x' at its end.
    """
    n, switches, columns = kernel.geometry.size, kernel.geometry.switches, kernel.columns
    x, runtime, end_rates = np.array(state, float), np.zeros(parameters.size + switches), np.empty(n)
    runtime[: parameters.size] = parameters
    tangents = np.eye(n, columns) if columns else None
    run = _new_run(kernel, settings, t0, t1)
    run.x, run.V, run.runtime, run.end_rates = address(x), address(tangents), address(runtime), address(end_rates)
    trip = Trip(kernel, settings, run, x, tangents, runtime, end_rates)
    if memory is not None:
        trip.sides[:] = memory.sides
    # Tangents that start on a surface are projected onto it, as at a fresh start.
    known = memory is not None and not (columns and memory.regime.collapses)
    if memory is not None and known and np.array_equal(memory.parameters, parameters):
        runtime[parameters.size :], run.regime, run.fresh = memory.modes, kernel.place(memory.regime), 0
    if grid is not None:
        samples = trip.samples = Samples.at(grid, n, columns)
        run.grid, run.grid_x, run.grid_count = address(samples.grid), address(samples.states), grid.size
        if columns:
            run.grid_V, run.grid_rates = address(samples.tangents), address(samples.rates)
    kept = None if stretches is None else _follow(np.frombuffer(memoryview(run), np.dtype(CRun))[0], stretches)
    trip.travel()
    del kept
    return trip, end_rates


def _follow(run: np.void, stretches: Stretches) -> tuple[Array, Array]:
    """Make a run span several stretches between knots.

    Returns the arrays that the run refers to: they must live as long as it.
    """
    ends, coefficients = (np.ascontiguousarray(a, float) for a in (stretches.ends, stretches.coefficients))
    # The stepper reads as many rows as there are ends, and cannot pass an end before the one that precedes it.
    if coefficients.ndim != 2 or len(coefficients) != ends.size or not (ends[1:] >= ends[:-1]).all():
        raise ValueError("the stretches between knots are not well formed")
    run["t1"], run["knot_count"] = ends[0], ends.size - 1
    run["first_coefficient"], run["signals"] = stretches.first, coefficients.shape[1]
    run["knots"] = ends.ctypes.data + ends.itemsize
    run["coefficients"] = coefficients.ctypes.data + coefficients.strides[0]
    run["max_events"] *= ends.size
    return ends, coefficients


def _follow_many(runs: Runs, stretches: ManyStretches) -> tuple[Array, Array]:
    """Make every run span its stretches, as `_follow`."""
    ends, table = (np.ascontiguousarray(a, float) for a in (stretches.ends, stretches.coefficients))
    starts, counts, rows = stretches.starts, stretches.counts, stretches.rows
    inside = np.ones(ends.size, bool)
    inside[starts] = False
    # The stepper reads as many rows as there are ends, and cannot pass an end before the one that precedes it.
    whole = counts.size == len(runs) and (counts > 0).all() and counts.sum() == ends.size and table.ndim == 2
    if not whole or (rows < 0).any() or (rows + counts > len(table)).any() or (np.diff(ends) < 0)[inside[1:]].any():
        raise ValueError("the stretches between knots are not well formed")
    runs["t1"], runs["knot_count"] = ends[starts], counts - 1
    runs["first_coefficient"], runs["signals"] = stretches.first, table.shape[1]
    runs["knots"] = ends.ctypes.data + ends.itemsize * (starts + 1)
    runs["coefficients"] = table.ctypes.data + table.strides[0] * (rows + 1)
    runs["max_events"] *= counts
    return ends, table


def _new_run(kernel: Kernel, settings: Settings, t0: float, t1: float) -> CRun:
    return CRun(
        t=t0, t1=t1, tolerance=settings.tolerance, contact_speed=settings.contact_speed,
        log_determinant=0.0 if kernel.tangents else np.nan, wrt=address(kernel.wrt),
        max_steps=settings.max_steps, max_events=settings.max_events,
        columns=kernel.columns, max_at_once=settings.max_events_at_once, fresh=1,
    )  # fmt: skip


def run_many(
    kernel: Kernel,
    settings: Settings,
    states: Array,
    t0: Array,
    t1: Array,
    parameters: Array,
    stretches: Sequence[Stretches] | ManyStretches | None = None,
    grids: Array | None = None,
) -> Run[Array, Sequence[Event]]:
    """Run all rows on all cores.

    The tangents start from the identity. Rows that fail are NaN.
    stretches: those of each row. grids: (B, m) times of samples.
    """
    (count, n), switches, columns = states.shape, kernel.geometry.switches, kernel.columns
    x, runtime = np.array(states, float, order="C"), np.zeros((count, parameters.shape[1] + switches))
    runtime[:, : parameters.shape[1]] = parameters
    tangents = np.tile(np.eye(n, columns), (count, 1, 1)) if columns else None
    end_rates = np.empty((count, n))
    times, marks = np.empty((count, ROOM)), np.empty((count, ROOM, 3), np.int32)
    noted = np.empty((count, ROOM, 2, n))
    samples = None if grids is None else Samples.at(grids, n, columns)
    # One structure, laid out like `CRun`, for each row.
    runs: Runs = np.repeat(np.frombuffer(bytes(_new_run(kernel, settings, 0.0, 0.0)), np.dtype(CRun)), count)
    runs["t"], runs["t1"], runs["event_room"] = t0, t1, ROOM
    named = {"x": x, "V": tangents, "runtime": runtime, "end_rates": end_rates, "event_times": times}
    named |= {"event_marks": marks, "event_states": noted}
    if samples is not None:
        runs["grid_count"] = samples.grid.shape[1]
        named |= {"grid": samples.grid, "grid_x": samples.states}
        named |= {"grid_V": samples.tangents, "grid_rates": samples.rates} if columns else {}
    for name, array in named.items():
        first = address(array)
        if array is not None and first is not None:
            runs[name] = first + array.strides[0] * np.arange(count)
    if isinstance(stretches, ManyStretches):
        kept = [_follow_many(runs, stretches)]
    else:
        kept = [] if stretches is None else [_follow(runs[i], own) for i, own in enumerate(stretches)]
    _travel_many(kernel, runs)
    kernel.handled += int(runs["handled"].sum())
    events: list[Sequence[Event]] = [()] * count

    def noted_by(i: int, met: int) -> Noted:
        return Noted(times[i, :met], marks[i, :met], noted[i, :met])

    counts, statuses = runs["event_count"].tolist(), runs["status"].tolist()
    # Rows without events that have arrived, which are most of them in fits, need nothing more.
    for i in np.flatnonzero((runs["event_count"] > 0) | (runs["status"] != DONE)).tolist():
        met, status = counts[i], statuses[i]
        if status == DONE:
            events[i] = Events(met, lambda i=i, met=met: _in_order((noted_by(i, met),)))
            continue
        part = noted_by(i, met)
        run = CRun.from_buffer(runs.data, i * runs.itemsize)
        own = None if tangents is None else tangents[i]
        trip = Trip(kernel, settings, run, x[i], own, runtime[i], end_rates[i])
        trip.samples = None if samples is None else samples.row(i)
        try:
            trip.go_on(status, part)
            events[i] = trip.events
        except FlowError:
            x[i] = np.nan
            if tangents is not None:
                tangents[i] = np.nan
            if samples is not None:
                samples.row(i).states[:], samples.row(i).tangents[:] = np.nan, np.nan
    del kept
    held = bool((runs["regime"] != 0).any()) or stretches is not None
    determinants = runs["log_determinant"].copy()
    made = Run[Array, Sequence[Event]](x, tangents, events=tuple(events), log_determinant=determinants)
    made = replace(made, rates=end_rates if held else None)
    if samples is None:
        return made
    whole, rates = (samples.tangents, samples.rates) if columns else (None, None)
    return replace(made, grid_states=samples.states, grid_tangents=whole, grid_rates=rates)


def _travel_many(kernel: Kernel, runs: Runs) -> None:
    """Run all rows, in equal parts for the cores.

    The lock of the interpreter is free during the calls.
    """
    handles, table, many = kernel.handles, kernel.next_regime, kernel.library.kz_travel_many
    runs["next_regime"] = table.ctypes.data
    threads = 1 if len(runs) < FEW_RUNS else min(os.cpu_count() or 1, len(runs) // (FEW_RUNS // 2))
    if threads == 1:
        many(handles, len(handles), runs.ctypes.data, len(runs))
        return
    # Runs differ in length: small parts keep all cores busy to the end.
    borders = np.linspace(0, len(runs), 8 * threads + 1).astype(int)
    pool = _pool(threads, os.getpid())
    parts = [
        pool.submit(many, handles, len(handles), runs.ctypes.data + int(a) * runs.itemsize, int(b - a))
        for a, b in itertools.pairwise(borders)
    ]
    # All parts write into arrays of the caller: none may be left running when an exception ends the call.
    wait(parts)
    for part in parts:
        part.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return threads that are kept.

    A fit calls thousands of times, and a new thread takes as long as a hundred steps. A forked process needs new ones.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix=f"kapitza-runs-{process}")
