"""The engine for models with jumping switches and impacts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import EventError, FlowError
from kapitza.flow.engine import Event, ManyStretches, Memory, Run, Stretches, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.instants import begin, meet
from kapitza.flow.events.journey import Journey, Settings
from kapitza.flow.kernel.engine import Kernel, run_many, run_one
from kapitza.flow.kernel.library import library
from kapitza.flow.kernel.tape import NoTapeError
from kapitza.flow.smooth import SmoothEngine

FEW_SAMPLES = 16
"""Samples requested at once in the first stretch."""

MORE_SAMPLES = 4
"""The next stretch requests this many times the samples of the last one."""

ONE_STRETCH = "A run over several stretches of a measured drive needs the compiled stepper: install Kapitza again."
"""A journey in Python has the coefficients of one stretch."""


class EventEngine:
    """Engine for systems with discontinuous switches or walls.

    See `kapitza.flow.engine.Engine`.

    Events are located to rounding; tangents pass through them by saltation. A switch whose field points to its surface
    from both sides sticks (Filippov), a wall whose rebounds are slower than contact_speed holds; both are left when the
    equivalent control or the contact force reaches its limit. At parameter values that make every switch
    continuous (k1 = 0 in k1 sign(v)) the smooth engine takes over.
    """

    def __init__(
        self,
        system: System,
        wrt: tuple[int, ...] = (),
        tolerance: float = 1e-15,
        observe: tuple[sp.Expr, ...] = (),
        max_steps: int = 100_000,
        contact_speed: float = 1e-6,
    ):
        self.system, self.wrt, self.tolerance, self.observe = system, tuple(wrt), tolerance, tuple(observe)
        self.geometry = Geometry(system, self.wrt)
        self.settings = Settings(None, tolerance, self.observe, contact_speed, max_steps)
        continuous = tuple(replace(s, continuous=True) for s in system.switches)
        self.smooth = SmoothEngine(replace(system, switches=continuous), self.wrt, tolerance, self.observe, max_steps)
        self.unit = self.smooth.unit
        self._kernels: dict[bool, Kernel | None] = {}

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
        """Integrate from state (n,) at t0 to t1.

        t1 must be later than t0. The tangents returned are those of the run times the ones given.
        """
        several = stretches is not None and len(stretches.ends) > 1
        if not several and self.geometry.is_smooth_at(parameters):
            return self.smooth.run(state, tangents, t0, t1, parameters, grid, memory)
        refuse_backwards(t0, t1)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        kernel = self.kernel(tangents is not None)
        if kernel is not None:
            followed = stretches if several else None
            return self._run_compiled(kernel, settings, state, tangents, t0, t1, parameters, grid, memory, followed)
        if several:
            raise FlowError(ONE_STRETCH)
        journey = Journey(self.geometry, settings, state, t0, parameters)
        states, changes, rates = travel(journey, t1, np.zeros(0) if grid is None else np.asarray(grid, float))
        events = in_order(journey)
        grid_states = None if grid is None else states
        if tangents is None:
            return Run(journey.state, None, grid_states, None, events)
        assert journey.tangents is not None
        return Run(
            journey.state,
            chain(journey.tangents, tangents),
            grid_states,
            None if grid is None else chain(changes, tangents),
            events,
            journey.log_determinant,
            rates=journey.end_rates(),
            grid_rates=None if grid is None else rates,
        )

    def kernel(self, with_tangents: bool) -> Kernel | None:
        """Return the compiled stepper of this system.

        None where it is not built or cannot express the equations.
        """
        if with_tangents not in self._kernels:
            found, geometry = None, self.geometry
            # Linkages with many joints that rub enter hundreds of regimes: without tangents one flow in the speeds of
            # the joints takes a third of the time of a tape per regime (10 links over 20 s: 0.3 against 0.9 s, the
            # first run 1.6 against 12 s). Terms whose domain is entered need the state put inside it at the event.
            by_joints = geometry.joints is not None and not with_tangents
            left_alone = by_joints or geometry.domain.is_entered or geometry.system.enters_by_the_clock
            if library() is not None and not left_alone:
                with contextlib.suppress(NoTapeError):
                    found = Kernel(self.geometry, self.wrt if with_tangents else None, self.observe)
            self._kernels[with_tangents] = found
        return self._kernels[with_tangents]

    def _run_compiled(
        self,
        kernel: Kernel,
        settings: Settings,
        state: Array,
        tangents: Array | None,
        t0: float,
        t1: float,
        parameters: Array,
        grid: Array | None,
        memory: Memory | None,
        stretches: Stretches | None,
    ) -> Run[float, Event]:
        trip, rates = run_one(kernel, settings, state, t0, t1, parameters, grid, memory, stretches)
        samples = trip.samples
        grid_states = None if samples is None else samples.states
        if tangents is None or trip.tangents is None:
            return Run(trip.x, None, grid_states, None, trip.events, memory=trip.memory)
        return Run(
            trip.x,
            chain(trip.tangents, tangents),
            grid_states,
            None if samples is None else chain(samples.tangents, tangents),
            trip.events,
            trip.run.log_determinant,
            memory=trip.memory,
            # The caller evaluates rates with the coefficients of the first stretch only.
            rates=rates if trip.run.regime or stretches is not None else None,
            grid_rates=None if samples is None else samples.rates,
        )

    def spans_periods(self, parameters: Array) -> bool:
        """Return whether tangents may grow over many periods.

        The compiled stepper controls the errors of states and tangents separately.
        """
        return self.kernel(True) is not None and not self.geometry.is_smooth_at(parameters)

    def passes_knots(self, parameters: Array, tangents: bool) -> bool:
        """Return whether the compiled stepper makes the run."""
        return self.kernel(tangents) is not None and not self.geometry.is_smooth_at(parameters)

    def _all_smooth(self, parameters: Array) -> bool:
        """Return whether every row makes all switches continuous.

        parameters: (B, npar). The answer depends on which entries are zero.
        """
        zero = parameters == 0.0
        if (zero == zero[:1]).all():
            return self.geometry.is_smooth_at(parameters[0])
        return all(self.geometry.is_smooth_at(row) for row in parameters)

    def run_many(
        self,
        states: Array,
        tangents: Array | None,
        t0: Array,
        t1: Array,
        parameters: Array,
        stretches: Sequence[Stretches] | None = None,
    ) -> Run[Array, Sequence[Event]]:
        """Integrate B runs at once.

        states: (B, n), tangents: (B, n, n + k), t0 and t1: (B,), parameters: (B, npar).

        Members that fail come back as NaN.
        """
        several = stretches is not None and any(len(own.ends) > 1 for own in stretches)
        if not several and self._all_smooth(parameters):
            return self.smooth.run_many(states, tangents, t0, t1, parameters)
        backwards = np.flatnonzero(np.asarray(t1) < np.asarray(t0))
        if backwards.size:
            refuse_backwards(float(t0[backwards[0]]), float(t1[backwards[0]]))
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        kernel = self.kernel(tangents is not None)
        if kernel is not None:
            run = run_many(kernel, settings, states, t0, t1, parameters, stretches if several else None)
            if tangents is None or run.tangents is None:
                return run
            return replace(run, tangents=chain(run.tangents, tangents))
        if several:
            raise FlowError(ONE_STRETCH)
        runs = [
            self._journey_or_nan(settings, states[i], float(t0[i]), float(t1[i]), parameters[i])
            for i in range(len(states))
        ]
        events, determinants = tuple(r.events for r in runs), np.array([r.log_determinant for r in runs])
        ends = np.array([r.state for r in runs])
        if tangents is None:
            return Run(ends, events=events, log_determinant=determinants)
        rates = np.array([r.rates for r in runs])
        changes = chain(np.array([r.tangents for r in runs]), tangents)
        return Run(ends, changes, events=events, log_determinant=determinants, rates=rates)

    def sample_many(
        self,
        states: Array,
        times: Array,
        parameters: Array,
        stretches: Sequence[Stretches] | ManyStretches | None,
        tangents: bool,
    ) -> Run[Array, Sequence[Event]] | None:
        """Sample B runs.

        times: (B, m), from the first on.
        The tangents start from the identity; members that fail are NaN. None where the compiled stepper does not serve.
        """
        kernel = self.kernel(tangents)
        if kernel is None or self._all_smooth(parameters):
            return None
        settings = replace(self.settings, wrt=self.wrt) if tangents else self.settings
        return run_many(kernel, settings, states, times[:, 0], times[:, -1], parameters, stretches, times)

    def _journey_or_nan(
        self, settings: Settings, state: Array, t0: float, t1: float, parameters: Array
    ) -> Run[float, Event]:
        """Make one run without the compiled stepper.

        NaN where the run fails.
        """
        try:
            journey = Journey(self.geometry, settings, state, t0, parameters)
            travel(journey, t1, np.zeros(0))
            rates = journey.rates_at(journey.state[None], np.array([journey.t]))[0]
            return Run(
                journey.state, journey.tangents, None, None, in_order(journey), journey.log_determinant, rates=rates
            )
        except FlowError:
            lost = np.full(state.size, np.nan)
            columns = None if settings.wrt is None else np.full((state.size, state.size + len(settings.wrt)), np.nan)
            return Run(lost, columns, log_determinant=np.nan, rates=lost)


def in_order(journey: Journey) -> tuple[Event, ...]:
    """Return the events by time.

    Observed crossings and grazes are read after the stretch that contains them.
    """
    return tuple(sorted(journey.events, key=lambda event: event.time))


def refuse_backwards(t0: float, t1: float) -> None:
    if t1 < t0:
        raise EventError(
            f"A motion with switches or impacts cannot run backwards from t = {t0:g} to {t1:g}: states that stick or "
            "come to rest have many pasts. Run it forwards."
        )


def chain(change: Array, tangents: Array) -> Array:
    """Chain the tangents with the change of a stretch.

    The change was computed from the identity.
    """
    size = change.shape[-2]
    result = change[..., :size] @ tangents
    result[..., size:] += change[..., size:]
    return result


def travel(journey: Journey, t1: float, grid: Array) -> tuple[Array, Array, Array]:
    """Run to t1 and sample at the grid times.

    Returns states (N, n), tangents (N, n, n + k) and rates (N, n).
    Without tangents the last two are empty.
    """
    n, columns = journey.geometry.size, journey.columns
    states = np.empty((grid.size, n))
    tangents = np.empty((0 if journey.tangents is None else grid.size, n, columns))
    rates = np.empty((len(tangents), n))
    begin(journey)
    done, together = 0, FEW_SAMPLES
    while True:
        here = int(np.searchsorted(grid, journey.t, side="right"))
        if here > done:
            states[done:here] = journey.state
            if journey.tangents is not None:
                tangents[done:here] = journey.tangents
                rates[done:here] = journey.rates_at(states[done:here], grid[done:here])
            done = here
        if journey.t >= t1 and done == grid.size:
            return states, tangents, rates
        ending, samples = journey.advance(t1, grid[done : done + together])
        # An integrator allocates all requested samples, and fills them only up to the next event.
        taken = 0 if samples is None else len(samples)
        together = MORE_SAMPLES * (together if ending is None else max(FEW_SAMPLES, taken))
        if samples is not None:
            stop = done + len(samples)
            states[done:stop] = samples[:, :n]
            if journey.tangents is not None:
                tangents[done:stop] = samples[:, n : n * (1 + columns)].reshape(-1, n, columns)
                rates[done:stop] = journey.rates_at(states[done:stop], grid[done:stop])
            done = stop
        if ending is not None:
            meet(journey, ending)
