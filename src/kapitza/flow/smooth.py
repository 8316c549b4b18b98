"""Integration of equations without jumps by a compiled Taylor method.

Switches across which the right-hand side is continuous (such as v|v|) are mode signs set at the located crossing, so
that every step stays inside one analytic piece; tangents pass through them unchanged.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import heyoka as hy
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import EventError, FlowError
from kapitza.flow.compiled import compile_integrator, equations, is_short, kept, symbol_table, with_tangents
from kapitza.flow.engine import Event, Run, System
from kapitza.flow.sides import Sides
from kapitza.model import to_heyoka

Array = NDArray[np.float64]

STEP_LIMIT = 100_000
LANES = 8
"""Members of a SIMD batch; twice the register width still gains."""

RESTING_CHECKS = 17
"""Instants at which a motion that starts at rest on a surface is looked at, to see whether it stays there."""

_finished = hy.taylor_outcome.time_limit
_crossings = threading.local()


class _SetMode:
    """At a crossing the mode takes the sign with which the function leaves zero, in the direction of integration."""

    def __init__(self, switch: int, parameters: int, sides: Sides):
        self.switch, self.row, self.sides = switch, parameters + switch, sides

    def __call__(self, integrator: Any, sign: int) -> bool:
        step = integrator.last_h
        if sign and step:
            integrator.pars[self.row] = sign if step > 0 else -sign
        if self.sides.count > 1:
            state = integrator.state[: self.sides.size]
            self.sides.settle_others(state, integrator.time, integrator.pars, self.switch, 1.0 if step >= 0 else -1.0)
        return True


class _SetModeOfLane:
    """The same for one member of a batch."""

    def __init__(self, switch: int, parameters: int, sides: Sides):
        self.switch, self.row, self.sides = switch, parameters + switch, sides

    def __call__(self, integrator: Any, sign: int, lane: int) -> bool:
        step = integrator.last_h[lane]
        if sign and step:
            integrator.pars[self.row, lane] = sign if step > 0 else -sign
        if self.sides.count > 1:
            state, runtime = integrator.state[: self.sides.size, lane], integrator.pars[:, lane].copy()
            self.sides.settle_others(state, integrator.time[lane], runtime, self.switch, 1.0 if step >= 0 else -1.0)
            integrator.pars[:, lane] = runtime
        return True


class _NoteCrossing:
    """Writes the crossing of an observed surface to the log of this thread."""

    def __init__(self, index: int, size: int):
        self.index, self.size = index, size

    def __call__(self, integrator: Any, time: float, sign: int) -> None:
        integrator.update_d_output(time)
        state = integrator.d_output[: self.size].copy()
        _crossings.events.append(Event(float(time), "crossing", self.index, int(sign), state))


class SmoothEngine:
    """Engine for systems whose right-hand side is continuous; see `kapitza.flow.engine.Engine`."""

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
        self._unit = np.eye(self.size, self.columns).ravel()
        self._sides = kept(("sides", system), lambda: Sides(system)) if system.switches else None
        self._scalar: dict[tuple[bool, bool], Any] = {}
        self._lanes: dict[bool, Any] = {}

    def run(
        self,
        state: Array,
        tangents: Array | None,
        t0: float,
        t1: float,
        parameters: Array,
        grid: Array | None = None,
        memory: Any = None,
    ) -> Run:
        n = self.size
        if self.observe:
            _crossings.events = []
        integrator = self._integrator(tangents is not None)
        resting = self._start(integrator, state, t0, t1, parameters)
        if resting and t1 != t0:
            ahead = t1 if grid is None else next((t for t in grid if t != t0), t1)
            integrator = self._along_the_surface(tangents is not None, state, t0, float(ahead), t1, parameters)
        samples = None
        if grid is not None and len(grid):
            samples = self._sample(integrator, t0, state, grid)
        if integrator.time != t1:
            self._require_finish(integrator, integrator.propagate_until(t1, max_steps=self.max_steps)[0], t0, state)
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
        return Run(end[:n], self._chain(change, tangents), grid_states, grid_tangents, events, determinant)

    def run_many(self, states: Array, tangents: Array | None, t0: Array, t1: Array, parameters: Array) -> Run:
        count, n = states.shape
        integrator = self._batch(tangents is not None)
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
        nothing = ((),) * count
        if tangents is None:
            return Run(ends[:, :n], events=nothing, log_determinant=np.full(count, np.nan))
        change = ends[:, n:].reshape(count, n, self.columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            determinants = np.linalg.slogdet(change[:, :, :n])[1]
        return Run(ends[:, :n], self._chain(change, tangents), events=nothing, log_determinant=determinants)

    def _chain(self, change: Array, tangents: Array) -> Array:
        """Tangents after a stretch whose own change was computed from the identity."""
        n = self.size
        result = change[..., :n] @ tangents
        result[..., n:] += change[..., n:]
        return result

    def _start(self, integrator: Any, state: Array, t0: float, t1: float, parameters: Array) -> bool:
        """Load a start; True when it rests on a switching surface."""
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
        if self._sides is not None:
            forward = 1.0 if t1 >= t0 else -1.0
            modes = self._sides.modes(state[:, None], np.array([t0]), runtime[:, None], forward)
            runtime[self.parameters :] = modes[:, 0]
            return bool(self._sides.resting(state[:, None], np.array([t0]), runtime[:, None])[0])
        return False

    def _along_the_surface(
        self, tangents: bool, state: Array, t0: float, ahead: float, t1: float, parameters: Array
    ) -> Any:
        """An integrator loaded with a start that rests on a switching surface; ahead: the first time of interest.

        Where the surface holds the motion (an equilibrium, a symmetric motion) no event is looked for. Otherwise the
        surface is left at higher order: the first step is taken without events, in the mode that it ends in.
        """
        assert self._sides is not None
        quiet = self._integrator(tangents, quiet=True)
        self._start(quiet, state, t0, t1, parameters)
        times = np.linspace(t0, t1, RESTING_CHECKS)
        result = quiet.propagate_grid(times, max_steps=self.max_steps)
        path = np.ascontiguousarray(result[5][:, : self.size].T)
        held = result[0] == _finished and self._sides.stays(path, times, quiet.pars[:, None])
        self._start(quiet, state, t0, t1, parameters)
        if held:
            return quiet
        first_step = (ahead - t0) / 8
        quiet.step(first_step)
        after, time = quiet.state[: self.size].copy(), quiet.time
        self._start(quiet, state, t0, t1, parameters)
        forward = 1.0 if t1 >= t0 else -1.0
        modes = self._sides.modes(after[:, None], np.array([time]), quiet.pars[:, None], forward)[:, 0]
        quiet.pars[self.parameters :] = modes
        quiet.step(first_step)
        integrator = self._integrator(tangents)
        integrator.time, integrator.state[:] = quiet.time, quiet.state
        integrator.pars[:] = quiet.pars
        return integrator

    def _sample(self, integrator: Any, t0: float, state: Array, grid: Array) -> Array:
        """States (with tangents) at the times of the grid; those at t0 are the start itself."""
        given = int(grid[0] == t0)
        times = np.concatenate(([integrator.time], grid[given:]))
        result = integrator.propagate_grid(times, max_steps=self.max_steps)
        self._require_finish(integrator, result[0], t0, state)
        samples = result[5]
        if not given:
            return samples[1:]
        samples[0, : self.size] = state
        samples[0, self.size :] = self._unit[: samples.shape[1] - self.size]
        return samples

    def _run_lanes(self, integrator: Any, states: Array, t0: Array, t1: Array, parameters: Array) -> Array | None:
        """One batch; None when a member stopped early, which stops the others as well, or lost a crossing."""
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
            forward = np.where(t1 >= t0, 1.0, -1.0)
            runtime[self.parameters :] = self._sides.modes(states.T, t0, runtime, forward)
            if self._sides.resting(states.T, t0, runtime).any():
                return None
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
        """The members of a batch on their own; those that fail are NaN."""
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

    def _require_finish(self, integrator: Any, outcome: Any, t0: float, start: Array) -> None:
        if outcome == _finished:
            return
        time, state = integrator.time, integrator.state[: self.size]
        if not (np.isfinite(time) and np.isfinite(state).all()):
            # Nothing is left of the last step: say where it began.
            time, state = t0, start
        place = f"t = {time:.6g} with {described(self.system, state)}"
        if outcome == hy.taylor_outcome.step_limit:
            raise FlowError(
                f"The trajectory needs more than {self.max_steps} steps in one stretch; it stands at {place}. "
                "It probably diverges; check the parameters and the start, or raise max_steps."
            )
        raise FlowError(
            f"The trajectory left the finite numbers after {place}. It diverges, or the equations are singular there; "
            "check the parameters and the start."
        )

    def _integrator(self, tangents: bool, quiet: bool = False) -> Any:
        """The scalar integrator; a quiet one looks for no switches."""
        found = self._scalar.get((tangents, quiet))
        if found is None:
            key = ("smooth", quiet, self.system, self.wrt if tangents else None, self.tolerance, self.observe)
            found = kept(key, lambda: compile_integrator(lambda: self._build(tangents, quiet)))
            self._scalar[tangents, quiet] = found
        return found

    def _batch(self, tangents: bool) -> Any:
        if tangents not in self._lanes:
            key = ("smooth batch", self.system, self.wrt if tangents else None, self.tolerance)
            self._lanes[tangents] = kept(key, lambda: compile_integrator(lambda: self._build_batch(tangents)))
        return self._lanes[tangents]

    def _equations(self, tangents: bool) -> Any:
        return with_tangents(self.system, self.wrt) if tangents else equations(self.system)

    def _build(self, tangents: bool, quiet: bool) -> Any:
        table = symbol_table(self.system)
        switches = [
            hy.t_event(to_heyoka(s.function, table), callback=_SetMode(i, self.parameters, self._sides))
            for i, s in enumerate(self.system.switches)
            if self._sides is not None and not quiet
        ]
        surfaces = [hy.nt_event(to_heyoka(s, table), _NoteCrossing(i, self.size)) for i, s in enumerate(self.observe)]
        written = self._equations(tangents)
        return hy.taylor_adaptive(
            written,
            np.zeros(len(written)),
            tol=self.tolerance,
            compact_mode=not is_short(written),
            t_events=switches,
            nt_events=surfaces,
        )

    def _build_batch(self, tangents: bool) -> Any:
        table = symbol_table(self.system)
        switches = [
            hy.t_event_batch(to_heyoka(s.function, table), callback=_SetModeOfLane(i, self.parameters, self._sides))
            for i, s in enumerate(self.system.switches)
            if self._sides is not None
        ]
        written = self._equations(tangents)
        return hy.taylor_adaptive_batch(
            written,
            np.zeros((len(written), LANES)),
            tol=self.tolerance,
            compact_mode=not is_short(written),
            t_events=switches,
        )


def described(system: System, state: Array) -> str:
    """A state in words: "phi = 0.1, phi' = 2"."""
    return ", ".join(f"{s.name} = {value:.6g}" for s, value in zip(system.states, state, strict=True))


def log_determinant(matrix: Array) -> float:
    """log|det| of a square matrix; -inf when singular."""
    if matrix.shape[0] == 2:
        value = abs(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
        return math.log(value) if value > 0 else -math.inf
    return float(np.linalg.slogdet(matrix)[1])
