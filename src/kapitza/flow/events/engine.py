"""The engine for models with switches and impacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array, Flags
from kapitza.errors import EventError
from kapitza.flow.engine import Event, ManyStretches, Memory, Run, Stretches, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.journey import Settings
from kapitza.flow.kernel.engine import Kernel, Steps, run_many, run_one
from kapitza.flow.kernel.library import NoStepperError
from kapitza.flow.kernel.tape import NoTapeError
from kapitza.flow.tails import LOOSEST
from kapitza.model import time as time_symbol

BACK = {time_symbol: -time_symbol}
"""Time in a motion that runs backwards."""


class EventEngine:
    """Engine for systems with switches or walls.

    See `kapitza.flow.engine.Engine`.

    Events are located to rounding; tangents pass through them by saltation. A switch whose field points to its surface
    from both sides sticks (Filippov), a wall whose rebounds are slower than contact_speed holds; both are left when the
    equivalent control or the contact force reaches its limit. Crossings of switches across which the rates are
    continuous are no events; at parameter values that make every switch continuous (k1 = 0 in k1 sign(v)) all are, and
    the motion may run backwards.
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
        self.settings = Settings(None, min(tolerance, LOOSEST), self.observe, contact_speed, max_steps)
        self.unit = np.eye(len(system.states), len(system.states) + len(self.wrt))
        self._kernels: dict[bool, Kernel] = {}

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

        The tangents returned are those of the run times the ones given. Only a motion without jumps runs backwards.
        """
        engine = self.serving(parameters[None])
        if t1 < t0:
            engine._refuse_backwards(t0, t1)
            back = None if grid is None else -grid
            return _turned(engine._reversed.run(state, tangents, -t0, -t1, parameters, back, memory))
        if engine is not self:
            return engine.run(state, tangents, t0, t1, parameters, grid, memory, stretches)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        several = stretches is not None and len(stretches.ends) > 1
        kernel, followed = self.kernel(tangents is not None), stretches if several else None
        trip, rates = run_one(kernel, settings, state, t0, t1, parameters, grid, memory, followed)
        samples, events = trip.samples, self._told(trip.events)
        grid_states = None if samples is None else samples.states
        if tangents is None or trip.tangents is None:
            return Run(trip.x, None, grid_states, None, events, memory=trip.memory)
        return Run(
            trip.x,
            trip.tangents if tangents is self.unit else chain(trip.tangents, tangents),
            grid_states,
            None if samples is None else chain(samples.tangents, tangents),
            events,
            trip.run.log_determinant,
            memory=trip.memory,
            # The caller evaluates rates with the coefficients of the first stretch only.
            rates=rates if trip.run.regime or several else None,
            grid_rates=None if samples is None else samples.rates,
        )

    def kernel(self, with_tangents: bool) -> Kernel:
        """Return the compiled stepper of this system."""
        if with_tangents not in self._kernels:
            self._kernels[with_tangents] = Kernel(self.geometry, self.wrt if with_tangents else None, self.observe)
        return self._kernels[with_tangents]

    def steps(self) -> Steps:
        """Return a state that is advanced step by step."""
        return Steps(self.kernel(False), self.settings)

    def has_kernel(self, with_tangents: bool) -> bool:
        """Return whether the stepper is built and can express the equations."""
        try:
            self.kernel(with_tangents)
        except (NoStepperError, NoTapeError):
            return False
        return True

    def spans_periods(self, parameters: Array) -> bool:
        """Return True: tangents may grow over many periods.

        The compiled stepper controls the errors of states and tangents separately.
        """
        return True

    def passes_knots(self, parameters: Array, tangents: bool) -> bool:
        """Return True: the compiled stepper passes them."""
        return True

    @cached_property
    def is_continuous(self) -> bool:
        """Return whether no event changes the rates."""
        return self.system.is_smooth

    @cached_property
    def _continuous(self) -> EventEngine:
        """Engine of the parameters at which no switch makes the rates jump."""
        continuous = tuple(replace(s, continuous=True) for s in self.system.switches)
        return self._with(replace(self.system, switches=continuous))

    @cached_property
    def _reversed(self) -> EventEngine:
        """Engine of the motion in reversed time."""
        return self._with(reversed_in_time(self.system), tuple(s.xreplace(BACK) for s in self.observe))

    def _with(self, system: System, observe: tuple[sp.Expr, ...] | None = None) -> EventEngine:
        settings, observe = self.settings, self.observe if observe is None else observe
        return EventEngine(system, self.wrt, self.tolerance, observe, settings.max_steps, settings.contact_speed)

    def serving(self, parameters: Array) -> EventEngine:
        """Return the engine of these parameters (B, npar).

        Which entries are zero decides whether the rates jump.
        """
        if self.is_continuous or self.system.walls:
            return self
        zero = parameters == 0.0
        rows = parameters[:1] if (zero == zero[:1]).all() else parameters
        return self._continuous if all(self.geometry.is_smooth_at(row) for row in rows) else self

    def _told(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events that are reported.

        Without jumps they are the crossings of observed surfaces.
        """
        if not self.is_continuous or not len(events):
            return events
        return tuple(event for event in events if event.kind == "crossing")

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
        engine = self.serving(parameters)
        if engine is not self:
            return engine.run_many(states, tangents, t0, t1, parameters, stretches)
        backwards = np.asarray(t1) < np.asarray(t0)
        if backwards.any():
            first = int(np.flatnonzero(backwards)[0])
            self._refuse_backwards(float(t0[first]), float(t1[first]))
            return self._both_ways(backwards, states, tangents, t0, t1, parameters)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        several = stretches is not None and any(len(own.ends) > 1 for own in stretches)
        kernel = self.kernel(tangents is not None)
        run = run_many(kernel, settings, states, t0, t1, parameters, stretches if several else None)
        run = replace(run, events=tuple(map(self._told, run.events))) if self.is_continuous else run
        if tangents is None or run.tangents is None:
            return run
        return replace(run, tangents=chain(run.tangents, tangents))

    def _both_ways(
        self, backwards: Flags, states: Array, tangents: Array | None, t0: Array, t1: Array, parameters: Array
    ) -> Run[Array, Sequence[Event]]:
        """Run the members of a batch in their directions."""
        ends, determinants = np.empty_like(states), np.empty(len(states))
        changes = None if tangents is None else np.empty_like(tangents)
        for engine, sign, chosen in ((self, 1.0, ~backwards), (self._reversed, -1.0, backwards)):
            if chosen.any():
                given = None if tangents is None else tangents[chosen]
                run = engine.run_many(states[chosen], given, sign * t0[chosen], sign * t1[chosen], parameters[chosen])
                ends[chosen], determinants[chosen] = run.state, run.log_determinant
                if changes is not None:
                    changes[chosen] = run.tangents
        return Run(ends, changes, events=((),) * len(states), log_determinant=determinants)

    def sample_many(
        self,
        states: Array,
        times: Array,
        parameters: Array,
        stretches: Sequence[Stretches] | ManyStretches | None,
        tangents: bool,
    ) -> Run[Array, Sequence[Event]]:
        """Sample B runs.

        times: (B, m), from the first on.
        The tangents start from the identity; members that fail are NaN.
        """
        engine = self.serving(parameters)
        if engine is not self:
            return engine.sample_many(states, times, parameters, stretches, tangents)
        settings = replace(self.settings, wrt=self.wrt) if tangents else self.settings
        return run_many(
            self.kernel(tangents), settings, states, times[:, 0], times[:, -1], parameters, stretches, times
        )

    def _refuse_backwards(self, t0: float, t1: float) -> None:
        if not self.is_continuous:
            raise EventError(
                f"A motion with switches or impacts cannot run backwards from t = {t0:g} to {t1:g}: states that stick "
                "or come to rest have many pasts. Run it forwards."
            )


def reversed_in_time(system: System) -> System:
    """Return the system of y(s) = x(-s): y' = -f(y, -s).

    The rates of the system must not jump.
    """
    edges = tuple(
        replace(
            edge,
            term=edge.term.xreplace(BACK),
            margin=edge.margin.xreplace(BACK),
            watched=None if edge.watched is None else edge.watched.xreplace(BACK),
            exponent=None if edge.exponent is None else edge.exponent.xreplace(BACK),
        )
        for edge in system.edges
    )
    return replace(
        system,
        rates=tuple(-f.xreplace(BACK) for f in system.rates),
        smooth_rates=tuple(-f.xreplace(BACK) for f in system.smooth_rates),
        switches=tuple(replace(s, function=s.function.xreplace(BACK)) for s in system.switches),
        steps=tuple((name, e.xreplace(BACK)) for name, e in system.steps),
        smooth_steps=tuple((name, e.xreplace(BACK)) for name, e in system.smooth_steps),
        elimination=None,
        edges=edges,
    )


def _turned(run: Run[float, Event]) -> Run[float, Event]:
    """Return a run in reversed time as one that goes backwards."""
    events = tuple(replace(event, time=-event.time, direction=-event.direction) for event in run.events)
    rates, sampled = (None if r is None else -r for r in (run.rates, run.grid_rates))
    return replace(run, events=events, rates=rates, grid_rates=sampled)


def chain(change: Array, tangents: Array) -> Array:
    """Chain the tangents with the change of a stretch.

    The change was computed from the identity.
    """
    size = change.shape[-2]
    result = change[..., :size] @ tangents
    result[..., size:] += change[..., size:]
    return result
