"""Integration of equations without switches by a compiled Taylor method."""

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

from kapitza.base.arrays import Array, Flags
from kapitza.errors import FlowError
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
from kapitza.flow.gaps import FEW, Gaps, has_long_step, keeps, long_steps, longest_step, may_take_few, outruns_series
from kapitza.flow.tails import watched_limit, watched_limit_of_lanes
from kapitza.model import to_heyoka

if TYPE_CHECKING:
    from kapitza.flow.events import EventEngine

Factorise = Callable[[Array], tuple[Array, NDArray[np.int32], int]]

(_getrf,) = cast(Sequence[Factorise], get_lapack_funcs(("getrf",), dtype=np.float64))

STEP_LIMIT = 100_000
"""Largest number of Taylor steps of a run; a smooth motion takes a few in each oscillation."""

SMALL, FINER = 1e-6, 1e-15
"""Largest state of a motion that is made with a finer tolerance, and by how much finer that is. The tolerance is
relative to the largest state, and absolute where that is below 1: 1e-17 would be 1e-5 of a motion of 1e-12."""

FINEST = 1e-17
"""Tolerance below which no finer one is taken."""

LANES = 8
"""Members of a SIMD batch, twice the register width: with fewer there are more calls, with more the coefficients leave
the fastest cache."""

_finished = hy.taylor_outcome.time_limit
_crossings = threading.local()


class _PassEdge:
    """Event callback at the end of a term.

    The motion continues where the term has no end at these values, and stops otherwise.
    """

    def __init__(self, edge: Edge, domain: Domain):
        self.edge, self.domain = edge, domain

    def __call__(self, integrator: hy.taylor_adaptive_dbl, sign: int) -> bool:
        return self.domain.passes(self.edge, integrator.state[: self.domain.size], integrator.time, integrator.pars)


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
    """Engine for systems without switches and walls.

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
        self._domain = Domain(system)
        self._gaps = Gaps(system)
        self.by_columns = None
        """Tangents of a system that is too large to have them all in one program."""
        if self.size * self.columns > MOST_TANGENTS and self.is_plain:
            self.by_columns = Columns(system, self.wrt, tolerance, max_steps, self._gaps)
        self._scalar: dict[tuple[int, bool], hy.taylor_adaptive_dbl] = {}
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
            return replace(self._stepper.run(state, tangents, t0, t1, parameters, grid, None, stretches), memory=None)
        if tangents is None and self.is_fine(state):
            return self.finer.run(state, None, t0, t1, parameters, grid)
        if tangents is not None and self.by_columns is not None and t1 != t0:
            return self._run_by_columns(self.by_columns, state, tangents, t0, t1, parameters, grid)
        if self.observe:
            _crossings.events = []
        integrator = self._integrator(tangents is not None)
        self._start(integrator, state, t0, parameters)
        samples, outcome, longest, steps = None, _finished, 0.0, 0
        if grid is not None and len(grid):
            samples, outcome, longest, steps = self._sample(integrator, t0, state, grid)
        if outcome == _finished and integrator.time != t1:
            keep = self._keeps(t1 - t0, parameters)
            outcome, _, last, more = integrator.propagate_until(t1, max_steps=self.max_steps, write_tc=keep)[:4]
            longest, steps = max(longest, last), steps + more
        if self._may_have_gaps(integrator, t1 - t0, (outcome, longest, steps), parameters):
            assert self.careful is not None
            return replace(self.careful.run(state, tangents, t0, t1, parameters, grid), memory=None)
        self._require_finish(integrator, outcome, state, t0, t1, parameters)
        end = integrator.state.copy()
        if tangents is None and not state.any() and self.is_fine(end):
            return self.finer.run(state, None, t0, t1, parameters, grid)
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
            if self._gaps.filling_rate(parameters) < math.inf and self.careful is not None:
                with np.errstate(invalid="ignore"):
                    run = self.careful.run(state, tangents, t0, t1, parameters, grid)
                if run.tangents is not None and np.isfinite(run.tangents).all():
                    return replace(run, memory=None)
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
        if self.is_fine(state):
            return self.finer.arrive(state, t0, t1, parameters)
        integrator, now, runtime = self._memory(False)
        now[:] = state
        integrator.time = t0
        runtime[:] = parameters[: runtime.size]
        # Without a limit of steps a diverging guess of a solver would run for minutes.
        keep = self._keeps(t1 - t0, parameters)
        outcome, _, longest, steps = integrator.propagate_until(t1, max_steps=self.max_steps, write_tc=keep)[:4]
        if self._may_have_gaps(integrator, t1 - t0, (outcome, longest, steps), parameters):
            assert self.careful is not None
            return self.careful.run(state, None, t0, t1, parameters).state
        if outcome != _finished:
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        if state[0] == 0.0 and not state.any() and self.is_fine(now):
            return self.finer.arrive(state, t0, t1, parameters)
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
        keep = self._keeps(t1 - t0, parameters)
        outcome, _, longest, steps = integrator.propagate_until(t1, max_steps=self.max_steps, write_tc=keep)[:4]
        if self._may_have_gaps(integrator, t1 - t0, (outcome, longest, steps), parameters):
            assert self.careful is not None
            run = self.careful.run(state, self.unit, t0, t1, parameters)
            assert run.tangents is not None
            return run.state, run.tangents
        if outcome != _finished:
            self._require_finish(integrator, outcome, state, t0, t1, parameters)
        end = now.copy()
        return end[:n], end[n:].reshape(n, self.columns)

    def is_fine(self, state: Array) -> bool:
        """Return whether a motion of this size is made with a finer tolerance.

        Tangents are of the size 1 and need no finer one.
        """
        values = state.tolist()
        return self.tolerance > FINEST and all(-SMALL < x < SMALL for x in values) and any(values)

    def are_small(self, paths: Array) -> Flags:
        """Return which motions (B, m, n) are made with a finer tolerance."""
        sizes = np.abs(paths).max(axis=(1, 2))
        return (sizes > 0.0) & (sizes < SMALL) & (self.tolerance > FINEST)

    @cached_property
    def finer(self) -> SmoothEngine:
        """Engine of small motions."""
        return SmoothEngine(self.system, self.wrt, self.tolerance * FINER, self.observe, self.max_steps)

    def _keeps(self, length: float, parameters: Array) -> bool:
        """Return whether the coefficients of the last step of a run may be needed."""
        return may_take_few(self._gaps.filling_rate(parameters), length)

    def _may_have_gaps(
        self,
        integrator: hy.taylor_adaptive_dbl,
        length: float,
        done: tuple[hy.taylor_outcome, float, int],
        parameters: Array,
    ) -> bool:
        """Return whether a run has to be made again by the stepper, as one of its steps may have been too long.

        A run that failed may have failed by such a step. done: its outcome, longest step and number of steps.
        """
        outcome, longest, steps = done
        rate = self._gaps.filling_rate(parameters)
        if rate == math.inf or length == 0.0 or self.careful is None:
            return False
        if outcome != _finished:
            return rate == 0.0 and not self.system.edges
        longest = longest_step(length, longest, steps, integrator.last_h)
        if not has_long_step(rate, length, longest, steps):
            return False
        return steps >= FEW or bool(outruns_series(integrator.tc[: self.size], np.array(longest)))

    @cached_property
    def careful(self) -> EventEngine | None:
        """Engine of runs whose series may have gaps, see `kapitza.flow.gaps`.

        None where the stepper is not built.
        """
        from kapitza.flow.events import EventEngine

        engine = EventEngine(self.system, self.wrt, self.tolerance, self.observe, self.max_steps)
        return engine if engine.has_kernel(False) and engine.has_kernel(True) else None

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

        The system then has no end of a term, and nothing is observed.
        """
        return not self._domain.watched and not self.observe

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
            return self._stepper.run_many(states, tangents, t0, t1, parameters, stretches)
        if tangents is not None and self.by_columns is not None:
            return self._run_many_by_columns(self.by_columns, states, tangents, t0, t1, parameters)
        integrator = self._batch(tangents is not None)
        if self.is_plain:
            ends = self._run_packed(integrator, states, tangents is not None, t0, t1, parameters)
            small = self.are_small(np.stack((states, ends[:, : self.size]), 1)) if tangents is None else []
            if np.any(small):
                ends[small] = self.finer.run_many(states[small], None, t0[small], t1[small], parameters[small]).state
            return self._ended(ends, tangents)
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
        ends, arrived, doubtful = np.empty_like(starts), np.zeros(begin.shape, bool), np.zeros(begin.shape, bool)
        rates = self.filling_rates(parameters, members)
        go, limit = integrator.propagate_until, self.max_steps
        for batch in range(len(starts)):
            now[:] = starts[batch]
            if not alike:
                runtime[:used] = values[batch]
            integrator.set_time(begin[batch])
            if rates is None:
                go(end[batch], max_steps=limit)
            else:
                lengths = end[batch] - begin[batch]
                go(end[batch], max_steps=limit, write_tc=keeps(rates[batch], lengths))
                doubtful[batch] = long_steps(integrator, n, rates[batch], lengths)
            ends[batch] = now
            arrived[batch] = clock == end[batch]
        good = arrived & np.isfinite(ends).all(axis=1)
        rows = np.ascontiguousarray(ends.transpose(0, 2, 1)).reshape(members.size, -1)[:count]
        for batch in np.flatnonzero(~good.all(axis=1)):
            # A member that stops early stops the others as well.
            chosen = np.arange(batch * LANES, min((batch + 1) * LANES, count))
            rows[chosen] = self._one_by_one(states, tangents, t0, t1, parameters, chosen)
        again = np.flatnonzero((doubtful & good.all(axis=1, keepdims=True)).ravel()[:count])
        if again.size:
            rows[again] = self._run_with_care(states, tangents, t0, t1, parameters, again)
        return rows

    def _run_with_care(
        self, states: Array, tangents: bool, t0: Array, t1: Array, parameters: Array, members: NDArray[np.intp]
    ) -> Array:
        """Run members whose series may have gaps by the stepper."""
        assert self.careful is not None
        unit = np.broadcast_to(self.unit, (members.size, *self.unit.shape)) if tangents else None
        run = self.careful.run_many(states[members], unit, t0[members], t1[members], parameters[members])
        if run.tangents is None:
            return run.state
        return np.concatenate((run.state, run.tangents.reshape(members.size, -1)), axis=1)

    def filling_rates(self, parameters: Array, members: NDArray[np.intp]) -> Array | None:
        """Return the rates (B / lanes, lanes) that fill gaps of members, see `kapitza.flow.gaps`.

        None where no series has them, and where no stepper would make the runs again.
        """
        rates = self._gaps.filling_rates(parameters) if len(parameters) else None
        return None if rates is None or self.careful is None else rates[members].reshape(-1, LANES)

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

    def _start(self, integrator: hy.taylor_adaptive_dbl, state: Array, t0: float, parameters: Array) -> None:
        """Load a start into the integrator."""
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

    def _sample(
        self, integrator: hy.taylor_adaptive_dbl, t0: float, state: Array, grid: Array
    ) -> tuple[Array, hy.taylor_outcome, float, int]:
        """Return states at the times of the grid.

        They include tangents; those at t0 are the start itself. Also returned are the outcome of the run, its longest
        step and the number of steps.
        """
        given = int(grid[0] == t0)
        times = np.concatenate(([integrator.time], grid[given:]))
        result = integrator.propagate_grid(times, max_steps=self.max_steps)
        outcome, _, longest, steps, _, samples = result
        # A run that ends at its first step gives no samples at all; the caller tests its outcome.
        if not given or not len(samples):
            return samples[1:], outcome, longest, steps
        samples[0, : self.size] = state
        samples[0, self.size :] = self._unit[: samples.shape[1] - self.size]
        return samples, outcome, longest, steps

    def _run_lanes(
        self, integrator: hy.taylor_adaptive_batch_dbl, states: Array, t0: Array, t1: Array, parameters: Array
    ) -> Array | None:
        """Run one batch.

        The result is None when a member stopped early, which stops the others as well.
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
        rates = self.filling_rates(parameters, np.arange(LANES))
        keep = rates is not None and keeps(rates[0], t1 - t0)
        integrator.propagate_until(t1, max_steps=self.max_steps, write_tc=keep)
        if any(result[0] != _finished for result in integrator.propagate_res):
            return None
        if rates is not None and any(long_steps(integrator, n, rates[0], t1 - t0)):
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
            self._start(integrator, start, t0, parameters)
            if np.isfinite(integrator.state).all():
                integrator.propagate_until(t1, max_steps=self.max_steps, callback=found)
            time, state = found.time, found.state
        place = f"t = {time:.6g} with {described(self.system, state)}"
        stopped_at = -int(outcome) - 1
        reached = self._domain.watched[stopped_at] if 0 <= stopped_at < len(self._domain.watched) else None
        if reached is None and self.system.edges:
            reached = self._domain.nearest(state, time, parameters[: self.parameters])
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

    def _integrator(self, tangents: bool) -> hy.taylor_adaptive_dbl:
        """Return the scalar integrator of this thread."""
        place = threading.get_ident(), tangents
        found = self._scalar.get(place)
        if found is None:
            key = ("smooth", self.system, self.wrt if tangents else None, self.tolerance, self.observe)
            found = cached(key, lambda: compile_integrator(lambda: self._build(tangents)))
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

    def ends(self) -> list[hy.expression]:
        """Return the functions watched at the ends of terms."""
        table = full_table(self.system)
        return [to_heyoka(edge.watched, table) for edge in self._domain.watched if edge.watched is not None]

    def _build(self, tangents: bool) -> hy.taylor_adaptive_dbl:
        table = symbol_table(self.system)
        ends = [
            hy.t_event(e, callback=_PassEdge(edge, self._domain))
            for e, edge in zip(self.ends(), self._domain.watched, strict=True)
        ]
        surfaces = [hy.nt_event(to_heyoka(s, table), _NoteCrossing(i, self.size)) for i, s in enumerate(self.observe)]
        written = self._equations(tangents)
        return hy.taylor_adaptive(
            written,
            np.zeros(len(written)),
            tol=self.tolerance,
            **code_of(not is_short(self.system, written)),
            t_events=ends,
            nt_events=[*surfaces, *watched_limit(self.system, self.observe)],
        )

    def _build_batch(self, tangents: bool) -> hy.taylor_adaptive_batch_dbl:
        written = self._equations(tangents)
        return hy.taylor_adaptive_batch(
            written,
            np.zeros((len(written), LANES)),
            tol=self.tolerance,
            **code_of(not is_short(self.system, written, largest=LARGEST_UNROLLED_LANES)),
            t_events=[hy.t_event_batch(edge) for edge in self.ends()],
            nt_events=watched_limit_of_lanes(self.system),
        )


def by_batch(rows: Array) -> Array:
    """Lay out the rows of the members by batch.

    The rows are (B, q) with B a multiple of the lanes; the result is (B / lanes, q, lanes).
    """
    return np.ascontiguousarray(rows.reshape(len(rows) // LANES, LANES, rows.shape[1]).transpose(0, 2, 1))


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
