"""The engine for models with jumping switches and impacts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import EventError
from kapitza.flow.engine import Event, Run, System
from kapitza.flow.events.batch import EventBatch
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.instants import begin, meet
from kapitza.flow.events.journey import Journey, Settings
from kapitza.flow.smooth import SmoothEngine

Array = NDArray[Any]


class EventEngine:
    """Engine for systems with discontinuous switches or walls; see `kapitza.flow.engine.Engine`.

    Events are located to rounding; tangents pass through them by saltation. A switch whose field points to its surface
    from both sides sticks (Filippov), a wall whose rebounds are slower than contact_speed holds; both are left when the
    equivalent control or the contact force says so. At parameter values that make every switch continuous (k1 = 0 in
    k1 sign(v)) the smooth engine takes over.
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
        """From state (n,) at t0 to t1 > t0; the tangents returned are those of the run times the ones given."""
        if self.geometry.is_smooth_at(parameters):
            return self.smooth.run(state, tangents, t0, t1, parameters, grid, memory)
        refuse_backwards(t0, t1)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
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

    def run_many(self, states: Array, tangents: Array | None, t0: Array, t1: Array, parameters: Array) -> Run:
        """B runs at once: states (B, n), tangents (B, n, n + k), t0 and t1 (B,), parameters (B, npar).

        Members that fail come back as NaN.
        """
        if all(self.geometry.is_smooth_at(row) for row in parameters):
            return self.smooth.run_many(states, tangents, t0, t1, parameters)
        for start, end in zip(t0, t1, strict=True):
            refuse_backwards(start, end)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        journeys = [
            Journey(self.geometry, settings, x, t, row) for x, t, row in zip(states, t0, parameters, strict=True)
        ]
        batch = EventBatch(self.geometry, settings, journeys, t1)
        batch.run()
        lost = list(batch.failed)
        ends = np.array([j.state for j in journeys])
        ends[lost] = np.nan
        events = tuple(in_order(j) for j in journeys)
        determinants = np.array([j.log_determinant for j in journeys])
        if tangents is None:
            return Run(ends, events=events, log_determinant=determinants)
        changes = np.array([j.tangents for j in journeys])
        changes[lost] = np.nan
        held = any(j.regime.collapses for j in journeys)
        rates = np.array([j.rates_at(j.state[None], np.array([j.t]))[0] for j in journeys]) if held else None
        return Run(ends, chain(changes, tangents), events=events, log_determinant=determinants, rates=rates)


def in_order(journey: Journey) -> tuple[Event, ...]:
    """Events by time: observed crossings and grazes are read after the stretch in which they lie."""
    return tuple(sorted(journey.events, key=lambda event: event.time))


def refuse_backwards(t0: float, t1: float) -> None:
    if t1 < t0:
        raise EventError(
            f"A motion with switches or impacts cannot run backwards from t = {t0:g} to {t1:g}: states that stick or "
            "come to rest have many pasts. Run it forwards."
        )


def chain(change: Array, tangents: Array) -> Array:
    """Tangents after a stretch whose own change was computed from the identity."""
    size = change.shape[-2]
    result = change[..., :size] @ tangents
    result[..., size:] += change[..., size:]
    return result


def travel(journey: Journey, t1: float, grid: Array) -> tuple[Array, Array, Array]:
    """Run to t1; states (N, n), tangents (N, n, n + k) and rates (N, n) at the grid times.

    Without tangents the last two are empty.
    """
    n, columns = journey.geometry.size, journey.columns
    states = np.empty((grid.size, n))
    tangents = np.empty((0 if journey.tangents is None else grid.size, n, columns))
    rates = np.empty((len(tangents), n))
    begin(journey)
    done = 0
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
        ending, samples = journey.advance(t1, grid[done:])
        if samples is not None:
            stop = done + len(samples)
            states[done:stop] = samples[:, :n]
            if journey.tangents is not None:
                tangents[done:stop] = samples[:, n : n * (1 + columns)].reshape(-1, n, columns)
                rates[done:stop] = journey.rates_at(states[done:stop], grid[done:stop])
            done = stop
        if ending is not None:
            meet(journey, ending)
