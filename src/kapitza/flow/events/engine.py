"""The engine for models with jumping switches and impacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import EventError
from kapitza.flow.engine import Event, ManyStretches, Memory, Run, Stretches, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.journey import Settings
from kapitza.flow.kernel.engine import Kernel, run_many, run_one
from kapitza.flow.smooth import SmoothEngine


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

        t1 must be later than t0. The tangents returned are those of the run times the ones given.
        """
        several = stretches is not None and len(stretches.ends) > 1
        if not several and self.geometry.is_smooth_at(parameters):
            return self.smooth.run(state, tangents, t0, t1, parameters, grid, memory)
        refuse_backwards(t0, t1)
        settings = self.settings if tangents is None else replace(self.settings, wrt=self.wrt)
        kernel, followed = self.kernel(tangents is not None), stretches if several else None
        trip, rates = run_one(kernel, settings, state, t0, t1, parameters, grid, memory, followed)
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
            rates=rates if trip.run.regime or several else None,
            grid_rates=None if samples is None else samples.rates,
        )

    def kernel(self, with_tangents: bool) -> Kernel:
        """Return the compiled stepper of this system."""
        if with_tangents not in self._kernels:
            self._kernels[with_tangents] = Kernel(self.geometry, self.wrt if with_tangents else None, self.observe)
        return self._kernels[with_tangents]

    def spans_periods(self, parameters: Array) -> bool:
        """Return whether tangents may grow over many periods.

        The compiled stepper controls the errors of states and tangents separately.
        """
        return not self.geometry.is_smooth_at(parameters)

    def passes_knots(self, parameters: Array, tangents: bool) -> bool:
        """Return whether the compiled stepper makes the run."""
        return not self.geometry.is_smooth_at(parameters)

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
        run = run_many(kernel, settings, states, t0, t1, parameters, stretches if several else None)
        if tangents is None or run.tangents is None:
            return run
        return replace(run, tangents=chain(run.tangents, tangents))

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
        The tangents start from the identity; members that fail are NaN. None where the smooth engine serves.
        """
        if self._all_smooth(parameters):
            return None
        settings = replace(self.settings, wrt=self.wrt) if tangents else self.settings
        return run_many(
            self.kernel(tangents), settings, states, times[:, 0], times[:, -1], parameters, stretches, times
        )


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
