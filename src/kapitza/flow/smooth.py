"""Integration of continuous equations by a compiled Taylor method.

Switches across which the right-hand side is continuous (such as v|v|) are mode signs set at the located crossing, so
that every step stays inside one analytic piece; tangents pass through them unchanged.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import heyoka as hy
import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from kapitza.base.arrays import Array
from kapitza.errors import EventError, FlowError
from kapitza.flow.columns import MOST_TANGENTS, Columns
from kapitza.flow.compiled import (
    LARGEST_UNROLLED_LANES,
    Equations,
    cached,
    code_of,
    compile_integrator,
    equations,
    full_table,
    is_short,
    symbol_table,
    with_tangents,
)
from kapitza.flow.domains import Domain, LastFinite
from kapitza.flow.engine import Edge, Event, Memory, Run, Stretches, System, described
from kapitza.flow.sides import Sides
from kapitza.model import to_heyoka

if TYPE_CHECKING:
    from kapitza.flow.events import EventEngine

Factorise = Callable[[Array], tuple[Array, NDArray[np.int32], int]]

(_getrf,) = cast(Sequence[Factorise], get_lapack_funcs(("getrf",), dtype=np.float64))

STEP_LIMIT = 100_000
"""Largest number of Taylor steps of a run; a smooth motion takes a few in each oscillation."""

LANES = 8
"""Members of a SIMD batch, twice the register width: with fewer there are more calls, with more the coefficients leave
the fastest cache."""

FIRST_STEPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.125)
"""Fractions of the time to the first sample after which a surface left at higher order may show its side."""

BEYOND = 1e-15
"""How far beyond zero the function of a switch around others is met. One that is zero to rounding after an inner switch
has passed, as x - sin(x) is near 0, would be met there again and again. It is below the error of a state."""

EVENTS_AT_ONCE = 64
"""Surfaces met in steps of no length, one after another, after which the motion is refused."""

RESTING_CHECKS = 17
"""Instants at which a motion that starts on a surface is tested for staying there."""

_finished = hy.taylor_outcome.time_limit
_crossings = threading.local()
_standing = threading.local()


class _SetMode:
    """Event callback that sets the mode at a crossing.

    The mode takes the sign with which the function leaves zero, in the direction of integration.
    """

    def __init__(self, switch: int, sides: Sides):
        self.switch, self.sides = switch, sides

    def __call__(self, integrator: hy.taylor_adaptive_dbl, sign: int) -> bool:
        step = integrator.last_h
        _standing.events = _standing.events + 1 if step == 0.0 else 0
        if _standing.events > EVENTS_AT_ONCE:
            self.sides.refuse_repetition(self.switch, integrator.state[: self.sides.size], integrator.time)
        forward = 1.0 if step >= 0 else -1.0
        # A step of no length has no direction: the motion itself then decides the side.
        side = sign * forward if step else 0.0
        state = integrator.state[: self.sides.size]
        self.sides.cross(state, integrator.time, integrator.pars, self.switch, side, forward)
        _enter(self.sides, integrator)
        return True


class _SetModeOfLane:
    """The same for one member of a batch."""

    def __init__(self, switch: int, sides: Sides):
        self.switch, self.sides = switch, sides

    def __call__(self, integrator: hy.taylor_adaptive_batch_dbl, sign: int, lane: int) -> bool:
        step = integrator.last_h[lane]
        _standing.lanes[lane] = _standing.lanes[lane] + 1 if step == 0.0 else 0
        if _standing.lanes[lane] > EVENTS_AT_ONCE:
            return False  # alone it is refused, or not
        forward = 1.0 if step >= 0 else -1.0
        side = sign * forward if step else 0.0
        state, runtime = integrator.state[: self.sides.size, lane], integrator.pars[:, lane].copy()
        self.sides.cross(state, integrator.time[lane], runtime, self.switch, side, forward)
        self.sides.enter(state, integrator.time[lane], runtime)
        integrator.pars[:, lane] = runtime
        return True


class _PassEdge:
    """Event callback at the end of a term.

    The motion continues where the model defines how, and stops otherwise.
    """

    def __init__(self, edge: Edge, sides: Sides | None, domain: Domain):
        self.edge, self.sides, self.domain = edge, sides, domain

    def __call__(self, integrator: hy.taylor_adaptive_dbl, sign: int) -> bool:
        forward = 1.0 if integrator.last_h >= 0 else -1.0
        state, runtime = integrator.state[: self.domain.size], integrator.pars
        if self.sides is None:
            return self.domain.passes(self.edge, state, integrator.time, runtime)
        goes_on = self.sides.pass_edge(self.edge, state, integrator.time, runtime, forward)
        if goes_on:
            _enter(self.sides, integrator)
        return goes_on


def _enter(sides: Sides, integrator: hy.taylor_adaptive_dbl) -> None:
    if not sides.has_entries:
        return
    time = integrator.time
    later = sides.enter(integrator.state[: sides.size], time, integrator.pars)
    if later != time:
        integrator.time = later


class _NoteCrossing:
    """Event callback that logs crossings of an observed surface.

    The log belongs to this thread.
    """

    def __init__(self, index: int, size: int):
        self.index, self.size = index, size

    def __call__(self, integrator: hy.taylor_adaptive_dbl, time: float, sign: int) -> None:
        integrator.update_d_output(time)
        state = integrator.d_output[: self.size].copy()
        _crossings.events.append(Event(float(time), "crossing", self.index, int(sign), state))


class SmoothEngine:
    """Engine for systems with a continuous right-hand side.

    See `kapitza.flow.engine.Engine`.
    """

    def __init__(
        self,
        system: System,
        wrt: tuple[int, ...] = (),
        tolerance: float = 1e-15,
        observe: tuple[sp.Expr, ...] = (),
        max_steps: int = STEP_LIMIT,
    ):
        self.system, self.wrt, self.tolerance, self.observe = system, tuple(wrt), tolerance, tuple(observe)
        self.max_steps = max_steps
        self.size, self.columns = len(system.states), len(system.states) + len(self.wrt)
        self.parameters = len(system.parameters)
        self.unit = np.eye(self.size, self.columns)
        self._unit = self.unit.ravel()
        self._sides = cached(("sides", system), lambda: Sides(system)) if system.switches else None
        self._domain = Domain(system)
        self.by_columns = None
        """Tangents of a system that is too large to have them all in one program."""
        if self.size * self.columns > MOST_TANGENTS and self.is_plain:
            self.by_columns = Columns(system, self.wrt, tolerance, max_steps)
        self._scalar: dict[tuple[int, bool, bool], hy.taylor_adaptive_dbl] = {}
        self._views: dict[tuple[int, bool], tuple[hy.taylor_adaptive_dbl, Array, Array]] = {}
        self._lanes: dict[tuple[int, bool], hy.taylor_adaptive_batch_dbl] = {}

    def run(
        self,
        state: Array,
        tangents: Array | None,
        t0: float,
        t1: float,
        parameters: Array,
        grid: Array | None = None,
        memory: Memory | None = None,
        stretches: Stretches | None = None,
    ) -> Run[float, Event]:
        n = self.size
        if stretches is not None and len(stretches.ends) > 1:
            assert self._stepper is not None
            run = self._stepper.run(state, tangents, t0, t1, parameters, grid, None, stretches)
            # Switches across which the rates are continuous are not events of a smooth system.
            return replace(run, events=(), memory=None)
        if tangents is not None and self.by_columns is not None and t1 != t0:
            return self._run_by_columns(self.by_columns, state, tangents, t0, t1, parameters, grid)
        if self.observe:
            _crossings.events = []
        integrator = self._integrator(tangents is not None)
        resting = self._start(integrator, state, t0, t1, parameters)
        if resting is not None and t1 != t0:
            ahead = float(t1 if grid is None else next((t for t in grid if t != t0), t1))
            integrator = self._along_the_surface(tangents is not None, state, t0, ahead, t1, parameters, resting)
        samples = None
        if grid is not None and len(grid):
            samples, outcome = self._sample(integrator, t0, state, grid)
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        if integrator.time != t1:
            outcome = integrator.propagate_until(t1, max_steps=self.max_steps)[0]
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        end = integrator.state.copy()
        if self._sides is not None:
            self._sides.check(end[:n, None], np.array([t1]), integrator.pars[:, None], self.tolerance)
        events = tuple(_crossings.events) if self.observe else ()
        grid_states = None if samples is None else samples[:, :n]
        if tangents is None:
            return Run(end, None, grid_states, None, events)
        change = end[n:].reshape(n, self.columns)
        grid_tangents = None
        if samples is not None:
            grid_tangents = self._chain(samples[:, n:].reshape(-1, n, self.columns), tangents)
        determinant = log_determinant(change[:, :n])
        after = change if tangents is self.unit else self._chain(change, tangents)
        return Run(end[:n], after, grid_states, grid_tangents, events, determinant)

    def _run_by_columns(
        self,
        by_columns: Columns,
        state: Array,
        tangents: Array,
        t0: float,
        t1: float,
        parameters: Array,
        grid: Array | None,
    ) -> Run[float, Event]:
        given = np.empty(0) if grid is None else np.asarray(grid, float)
        # Times of the run: the start, those of the grid behind it, the end; `places` are the positions of the grid.
        times, places = np.unique(np.concatenate(([t0], given, [t1])), return_inverse=True)
        if t1 < t0:
            times, places = times[::-1].copy(), len(times) - 1 - places
        found = by_columns.one(state, times, parameters)
        if found is None:
            # The motion without tangents raises the error that names its cause.
            self.run(state, None, t0, t1, parameters)
            raise FlowError(
                f"The tangents of the motion from {described(self.system, state)} at t = {t0:.6g} left the finite "
                f"numbers, or need more than {self.max_steps} steps; shorten the stretch, or raise max_steps."
            )
        states, changes = found
        change = changes[-1]
        after = change if tangents is self.unit else self._chain(change, tangents)
        sampled = None if grid is None else self._chain(changes[places[1:-1]], tangents)
        grid_states = None if grid is None else states[places[1:-1]]
        return Run(states[-1], after, grid_states, sampled, (), log_determinant(change[:, : self.size]))

    def arrive(self, state: Array, t0: float, t1: float, parameters: Array) -> Array:
        """Return only the state (n,) at t1.

        The system must be plain (`is_plain`). Solvers call this most often.
        """
        integrator, now, runtime = self._memory(False)
        now[:] = state
        integrator.time = t0
        runtime[:] = parameters[: runtime.size]
        # Without a limit of steps a diverging guess of a solver would run for minutes.
        outcome = integrator.propagate_until(t1, max_steps=self.max_steps)[0]
        if outcome != _finished:
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        return now.copy()

    def carry(self, state: Array, t0: float, t1: float, parameters: Array) -> tuple[Array, Array]:
        """Return the state at t1 with its tangents.

        The tangents (n, n + k) begin as `unit`. The system must be plain.
        """
        (integrator, now, runtime), n = self._memory(True), self.size
        now[:n] = state
        now[n:] = self._unit
        integrator.time = t0
        runtime[:] = parameters[: runtime.size]
        outcome = integrator.propagate_until(t1, max_steps=self.max_steps)[0]
        if outcome != _finished:
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        end = now.copy()
        return end[:n], end[n:].reshape(n, self.columns)

    def _memory(self, tangents: bool) -> tuple[hy.taylor_adaptive_dbl, Array, Array]:
        """Return this thread's integrator with views of its memory.

        The views of state and parameters stay valid.
        """
        place = threading.get_ident(), tangents
        found = self._views.get(place)
        if found is None:
            integrator = self._integrator(tangents)
            found = self._views[place] = integrator, integrator.state, integrator.pars
        return found

    @property
    def is_plain(self) -> bool:
        """Return whether the integrator needs no events.

        The system then has no switch and no end of a term, and nothing is observed.
        """
        return self._sides is None and not self._domain.watched and not self.observe

    def spans_periods(self, parameters: Array) -> bool:
        """Return False: tangents must not grow over many periods.

        Errors are relative to the largest number, be it a state or a tangent.
        """
        return False

    def passes_knots(self, parameters: Array, tangents: bool) -> bool:
        """Return whether the compiled stepper makes such a run.

        An integrator of heyoka has one set of coefficients; from knot to knot its calls take 10 to 50 times as long as
        the steps of the stepper.
        """
        stepper = self._stepper
        return stepper is not None and stepper.has_kernel(tangents)

    @cached_property
    def _stepper(self) -> EventEngine | None:
        """Engine of runs over several stretches between knots.

        None where surfaces are observed, where a term ends, and for tangents of systems that need parts of columns.
        """
        from kapitza.flow.events import EventEngine

        if self.observe or self._domain.watched or self.by_columns is not None:
            return None
        return EventEngine(self.system, self.wrt, self.tolerance, (), self.max_steps)

    def run_many(
        self,
        states: Array,
        tangents: Array | None,
        t0: Array,
        t1: Array,
        parameters: Array,
        stretches: Sequence[Stretches] | None = None,
    ) -> Run[Array, Sequence[Event]]:
        count = len(states)
        if stretches is not None and any(len(own.ends) > 1 for own in stretches):
            assert self._stepper is not None
            run = self._stepper.run_many(states, tangents, t0, t1, parameters, stretches)
            return replace(run, events=((),) * count)
        if tangents is not None and self.by_columns is not None:
            return self._run_many_by_columns(self.by_columns, states, tangents, t0, t1, parameters)
        integrator = self._batch(tangents is not None)
        if self.is_plain:
            return self._ended(self._run_packed(integrator, states, tangents is not None, t0, t1, parameters), tangents)
        ends = np.empty((count, integrator.state.shape[0]))
        for first in range(0, count, LANES):
            # The last batch is filled up with copies of its last member.
            members = np.minimum(np.arange(first, first + LANES), count - 1)
            last = min(first + LANES, count)
            done = self._run_lanes(integrator, states[members], t0[members], t1[members], parameters[members])
            if done is None:
                members = members[: last - first]
                done = self._one_by_one(states, tangents is not None, t0, t1, parameters, members)
            ends[first:last] = done[: last - first]
        return self._ended(ends, tangents)

    def _run_packed(
        self,
        integrator: hy.taylor_adaptive_batch_dbl,
        states: Array,
        tangents: bool,
        t0: Array,
        t1: Array,
        parameters: Array,
    ) -> Array:
        """Run all batches of a plain system.

        Returns the ends (B, n) or (B, n (1 + columns)).
        All batches are laid out before: numbers that are put into shape for every batch cost as much as two periods of
        eight members.
        """
        n, count = self.size, len(states)
        now, runtime, clock = integrator.state, integrator.pars, integrator.time
        used = min(runtime.shape[0], self.parameters)
        # The last batch is filled up with copies of its last member.
        members = np.minimum(np.arange(-(-count // LANES) * LANES), count - 1)
        starts = np.empty((members.size // LANES, now.shape[0], LANES))
        starts[:, :n] = by_batch(states[members])
        starts[:, n:] = self._unit[: now.shape[0] - n, None]
        begin, end = (t[members].reshape(-1, LANES) for t in (t0, t1))
        alike = bool((parameters == parameters[0]).all())
        values = by_batch(parameters[members[:LANES] if alike else members, :used])
        runtime[:used] = values[0]
        ends, arrived = np.empty_like(starts), np.empty(begin.shape, bool)
        go, limit = integrator.propagate_until, self.max_steps
        for batch in range(len(starts)):
            now[:] = starts[batch]
            if not alike:
                runtime[:used] = values[batch]
            integrator.set_time(begin[batch])
            go(end[batch], max_steps=limit)
            ends[batch] = now
            arrived[batch] = clock == end[batch]
        good = arrived & np.isfinite(ends).all(axis=1)
        rows = np.ascontiguousarray(ends.transpose(0, 2, 1)).reshape(members.size, -1)[:count]
        for batch in np.flatnonzero(~good.all(axis=1)):
            # A member that stops early stops the others as well.
            chosen = np.arange(batch * LANES, min((batch + 1) * LANES, count))
            rows[chosen] = self._one_by_one(states, tangents, t0, t1, parameters, chosen)
        return rows

    def _run_many_by_columns(
        self, by_columns: Columns, states: Array, tangents: Array, t0: Array, t1: Array, parameters: Array
    ) -> Run[Array, Sequence[Event]]:
        count, n = states.shape
        ends = np.full((count, n * (1 + self.columns)), np.nan)
        for first in range(0, count, LANES):
            # The last batch is filled up with copies of its last member.
            members = np.minimum(np.arange(first, first + LANES), count - 1)
            last = min(first + LANES, count)
            times = np.stack([t0[members], t1[members]])
            found = by_columns.many(states[members].T, times, parameters[members].T, self.max_steps)
            if found is not None:
                ends[first:last] = found[-1].T[: last - first]
            else:
                ends[first:last] = self._one_by_one(states, True, t0, t1, parameters, members[: last - first])
        return self._ended(ends, tangents)

    def _ended(self, ends: Array, tangents: Array | None) -> Run[Array, Sequence[Event]]:
        """Return the runs from their final rows.

        ends: (B, n) or (B, n (1 + columns)).
        """
        count, n = len(ends), self.size
        nothing = ((),) * count
        if tangents is None:
            return Run(ends[:, :n], events=nothing, log_determinant=np.full(count, np.nan))
        change = ends[:, n:].reshape(count, n, self.columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            determinants = np.linalg.slogdet(change[:, :, :n])[1]
        return Run(ends[:, :n], self._chain(change, tangents), events=nothing, log_determinant=determinants)

    def _chain(self, change: Array, tangents: Array) -> Array:
        """Chain the tangents with the change of a stretch.

        The change was computed from the identity.
        """
        n = self.size
        result = change[..., :n] @ tangents
        result[..., n:] += change[..., n:]
        return result

    def _start(
        self, integrator: hy.taylor_adaptive_dbl, state: Array, t0: float, t1: float, parameters: Array
    ) -> NDArray[np.bool_] | None:
        """Load a start into the integrator.

        Returns the switches (switches,) on whose surface the start is; None when it is on none.
        """
        n = self.size
        now, runtime = integrator.state, integrator.pars
        now[:n] = state
        if now.size > n:
            now[n:] = self._unit
        integrator.time = t0
        # Events of an earlier run must not be taken for ones just handled.
        if integrator.with_events:
            integrator.reset_cooldowns()
        # Parameters that occur in no equation may be missing at the end.
        used = min(runtime.size, self.parameters)
        runtime[:used] = parameters[:used]
        if self._sides is None:
            return None
        _standing.events = 0
        modes, resting = self._sides.modes(state[:, None], np.array([t0]), runtime[:, None], _direction(t0, t1))
        runtime[self.parameters : self.parameters + self._sides.count] = modes[:, 0]
        _enter(self._sides, integrator)
        return None if resting is None else resting[:, 0]

    def _along_the_surface(
        self,
        tangents: bool,
        state: Array,
        t0: float,
        ahead: float,
        t1: float,
        parameters: Array,
        resting: NDArray[np.bool_],
    ) -> hy.taylor_adaptive_dbl:
        """Return an integrator loaded with a start on surfaces.

        ahead: the first time of interest.
        Where a surface holds the motion (an equilibrium, a symmetric motion) its crossing is not located, as it
        would be met at once and without end. Otherwise the surface is left at higher order: a first short step is taken
        without locating it, in the mode that it ends in.
        """
        sides = self._sides
        assert sides is not None
        chosen = self._integrator(tangents, selective=True)
        watched = chosen.pars[self.parameters + sides.count :]

        def load(modes: Array | None = None) -> None:
            self._start(chosen, state, t0, t1, parameters)
            watched[:] = np.where(resting, 0.0, 1.0)
            if modes is not None:
                chosen.pars[self.parameters : self.parameters + sides.count] = modes
                chosen.state[: self.size], chosen.time = state, t0
                _enter(sides, chosen)

        load()
        times = np.linspace(t0, t1, RESTING_CHECKS)
        result = chosen.propagate_grid(times, max_steps=self.max_steps)
        path = np.ascontiguousarray(result[5][:, : self.size].T)
        held = result[0] == _finished and sides.stays(path, times, chosen.pars[:, None], resting)
        load()
        if held:
            return chosen
        for part in FIRST_STEPS:
            load()
            step = part * (ahead - t0)
            if chosen.propagate_until(t0 + step, max_steps=self.max_steps)[0] != _finished:
                break
            after, time = chosen.state[: self.size].copy(), np.array([chosen.time])
            modes, still = sides.modes(after[:, None], time, chosen.pars[:, None], _direction(t0, t1))
            load(modes[:, 0])
            if still is None or not (still[:, 0] & resting).any():
                chosen.propagate_until(t0 + step, max_steps=self.max_steps)
                break
        watched[:] = 1.0
        return chosen

    def _sample(
        self, integrator: hy.taylor_adaptive_dbl, t0: float, state: Array, grid: Array
    ) -> tuple[Array, hy.taylor_outcome]:
        """Return states at the times of the grid.

        They include tangents; those at t0 are the start itself. Also returned is the outcome of the run.
        """
        given = int(grid[0] == t0)
        times = np.concatenate(([integrator.time], grid[given:]))
        result = integrator.propagate_grid(times, max_steps=self.max_steps)
        samples = result[5]
        # A run that ends at its first step gives no samples at all; the caller tests its outcome.
        if not given or not len(samples):
            return samples[1:], result[0]
        samples[0, : self.size] = state
        samples[0, self.size :] = self._unit[: samples.shape[1] - self.size]
        return samples, result[0]

    def _run_lanes(
        self, integrator: hy.taylor_adaptive_batch_dbl, states: Array, t0: Array, t1: Array, parameters: Array
    ) -> Array | None:
        """Run one batch.

        The result is None when a member stopped early, which stops the others as well, or lost a crossing.
        """
        n = self.size
        now, runtime = integrator.state, integrator.pars
        now[:n] = states.T
        if now.shape[0] > n:
            now[n:] = self._unit[:, None]
        integrator.set_time(t0)
        if integrator.with_events:
            integrator.reset_cooldowns()
        used = min(runtime.shape[0], self.parameters)
        runtime[:used] = parameters[:, :used].T
        if self._sides is not None:
            _standing.lanes = [0] * LANES
            modes, resting = self._sides.modes(states.T, t0, runtime, np.where(t1 >= t0, 1.0, -1.0))
            if resting is not None:
                return None
            runtime[self.parameters :] = modes
        integrator.propagate_until(t1, max_steps=self.max_steps)
        if any(result[0] != _finished for result in integrator.propagate_res):
            return None
        if self._sides is not None:
            try:
                self._sides.check(now[:n], t1, runtime, self.tolerance)
            except EventError:
                # One member is at fault: alone, the others are not.
                return None
        return now.T.copy()

    def _one_by_one(
        self, states: Array, with_tangents: bool, t0: Array, t1: Array, parameters: Array, members: NDArray[np.intp]
    ) -> Array:
        """Run the members of a batch separately.

        Members that fail are NaN.
        """
        unit = np.eye(self.size, self.columns) if with_tangents else None
        rows = np.full((members.size, self.size + (self._unit.size if with_tangents else 0)), np.nan)
        for row, i in enumerate(members):
            try:
                run = self.run(states[i], unit, float(t0[i]), float(t1[i]), parameters[i])
            except FlowError:
                continue
            rows[row, : self.size] = run.state
            if run.tangents is not None:
                rows[row, self.size :] = run.tangents.ravel()
        return rows

    def _require_finish(
        self,
        integrator: hy.taylor_adaptive_dbl,
        outcome: hy.taylor_outcome,
        start: Array,
        t0: float,
        t1: float,
        parameters: Array,
    ) -> None:
        if outcome == _finished:
            return
        time, state = integrator.time, integrator.state[: self.size].copy()
        if not (np.isfinite(time) and np.isfinite(state).all()):
            # Nothing is left of the last step: once more, to see where it began.
            found = LastFinite(self.size, start, t0)
            self._start(integrator, start, t0, t1, parameters)
            if np.isfinite(integrator.state).all():
                integrator.propagate_until(t1, max_steps=self.max_steps, callback=found)
            time, state = found.time, found.state
        place = f"t = {time:.6g} with {described(self.system, state)}"
        stopped_at = -int(outcome) - 1 - len(self.system.switches)
        reached = self._domain.watched[stopped_at] if 0 <= stopped_at < len(self._domain.watched) else None
        if reached is None and self.system.edges:
            modes = integrator.pars[self.parameters : self.parameters + len(self.system.switches)]
            reached = self._domain.nearest(state, time, np.concatenate((parameters[: self.parameters], modes)))
        if reached is not None:
            raise self._domain.refusal(reached, place)
        if outcome == hy.taylor_outcome.step_limit:
            raise FlowError(
                f"The trajectory needs more than {self.max_steps} steps in one stretch; it is at {place}. "
                "It probably diverges; check the parameters and the start, or raise max_steps."
            )
        raise FlowError(
            f"The trajectory left the finite numbers after {place}. It diverges, or the equations are singular there; "
            "check the parameters and the start."
        )

    def _integrator(self, tangents: bool, selective: bool = False) -> hy.taylor_adaptive_dbl:
        """Return the scalar integrator.

        A selective one locates only the switches whose flags, after the modes, are 1.
        """
        place = threading.get_ident(), tangents, selective
        found = self._scalar.get(place)
        if found is None:
            key = ("smooth", selective, self.system, self.wrt if tangents else None, self.tolerance, self.observe)
            found = cached(key, lambda: compile_integrator(lambda: self._build(tangents, selective)))
            self._scalar[place] = found
        return found

    def _batch(self, tangents: bool) -> hy.taylor_adaptive_batch_dbl:
        place = threading.get_ident(), tangents
        if place not in self._lanes:
            key = ("smooth batch", self.system, self.wrt if tangents else None, self.tolerance)
            self._lanes[place] = cached(key, lambda: compile_integrator(lambda: self._build_batch(tangents)))
        return self._lanes[place]

    def _equations(self, tangents: bool) -> Equations:
        return with_tangents(self.system, self.wrt) if tangents else equations(self.system)

    def _surfaces(self, selective: bool = False) -> list[hy.expression]:
        """Return the switching functions.

        A function that is not watched, or vanishes altogether (mode 0), is 1.
        """
        table = symbol_table(self.system)
        modes = {switch.mode for switch in self.system.switches}
        surfaces = []
        for switch in self.system.switches:
            function, mode = to_heyoka(switch.function, table), table[switch.mode]
            nested = not modes.isdisjoint(switch.function.free_symbols)
            if nested or switch.can_vanish:
                function = mode * mode * function + (1.0 - mode * mode) + BEYOND * mode
            surfaces.append(function)
        if not selective:
            return surfaces
        flags = [hy.par[self.parameters + len(surfaces) + i] for i in range(len(surfaces))]
        return [flag * s + (1.0 - flag) for flag, s in zip(flags, surfaces, strict=True)]

    def ends(self) -> list[hy.expression]:
        """Return the functions watched at the ends of terms.

        These events come after the switches.
        """
        table = full_table(self.system)
        return [to_heyoka(edge.watched, table) for edge in self._domain.watched if edge.watched is not None]

    def _build(self, tangents: bool, selective: bool) -> hy.taylor_adaptive_dbl:
        table = symbol_table(self.system)
        functions = self._surfaces(selective)
        switches = [
            hy.t_event(s, callback=_SetMode(i, self._sides)) for i, s in enumerate(functions) if self._sides is not None
        ]
        ends = [
            hy.t_event(e, callback=_PassEdge(edge, self._sides, self._domain))
            for e, edge in zip(self.ends(), self._domain.watched, strict=True)
        ]
        surfaces = [hy.nt_event(to_heyoka(s, table), _NoteCrossing(i, self.size)) for i, s in enumerate(self.observe)]
        written = self._equations(tangents)
        return hy.taylor_adaptive(
            written,
            np.zeros(len(written)),
            tol=self.tolerance,
            **code_of(not is_short(self.system, written, functions)),
            t_events=[*switches, *ends],
            nt_events=surfaces,
        )

    def _build_batch(self, tangents: bool) -> hy.taylor_adaptive_batch_dbl:
        functions = self._surfaces()
        switches = [
            hy.t_event_batch(s, callback=_SetModeOfLane(i, self._sides))
            for i, s in enumerate(functions)
            if self._sides is not None
        ]
        written = self._equations(tangents)
        return hy.taylor_adaptive_batch(
            written,
            np.zeros((len(written), LANES)),
            tol=self.tolerance,
            **code_of(not is_short(self.system, written, functions, LARGEST_UNROLLED_LANES)),
            t_events=[*switches, *(hy.t_event_batch(edge) for edge in self.ends())],
        )


def by_batch(rows: Array) -> Array:
    """Lay out the rows of the members by batch.

    The rows are (B, q) with B a multiple of the lanes; the result is (B / lanes, q, lanes).
    """
    return np.ascontiguousarray(rows.reshape(len(rows) // LANES, LANES, rows.shape[1]).transpose(0, 2, 1))


def _direction(t0: float, t1: float) -> float:
    return 1.0 if t1 >= t0 else -1.0


def log_determinant(matrix: Array) -> float:
    """Return log|det| of a square matrix.

    -inf when the matrix is singular.
    """
    if matrix.shape[0] == 2:
        value = abs(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
        return math.log(value) if value > 0 else -math.inf
    # np.linalg.slogdet takes three times as long for the few states of a model.
    factors = _getrf(matrix)[0]
    pivots = np.abs(factors.diagonal()).tolist()
    return sum(map(math.log, pivots)) if min(pivots) > 0 else (math.nan if math.isnan(sum(pivots)) else -math.inf)
