"""On which side of each switching surface a state stands."""

from __future__ import annotations

from typing import Any

import heyoka as hy
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import EventError
from kapitza.flow.compiled import full_table
from kapitza.flow.engine import System
from kapitza.model import time as time_symbol
from kapitza.model import to_heyoka

Array = NDArray[np.float64]

ON_SURFACE = 1e-13
"""A switching function this close to zero, relative to the state, counts as on its surface."""

WRONG_SIDE = 1e-9
"""A switch this far on the side that contradicts its mode, relative to the state, is an error."""


class Sides:
    """Modes of the switches at a state: signs of the functions, on a surface the side towards which the motion leaves.

    Columns in every method: states (n, N), times (N,), parameters (npar, N), modes (switches, N).
    """

    def __init__(self, system: System):
        self.switches, self.size = system.switches, len(system.states)
        self.count = len(system.switches)
        table = full_table(system)
        rates = [
            sp.diff(s.function, time_symbol)
            + sum(sp.diff(s.function, x) * f for x, f in zip(system.states, system.smooth_rates, strict=True))
            for s in system.switches
        ]
        inputs = [table[s] for s in system.states]
        self._functions = hy.cfunc([to_heyoka(s.function, table) for s in system.switches], vars=inputs)
        self._rates = hy.cfunc([to_heyoka(r, table) for r in rates], vars=inputs)
        # Switches on a single state, the usual case, need no compiled call.
        self._rows = [system.states.index(s.function) if s.function in system.states else -1 for s in system.switches]
        self._direct = all(row >= 0 for row in self._rows)

    def functions(self, states: Array, times: Array, runtime: Array) -> Array:
        """Values of the switching functions, (switches, N)."""
        if self._direct:
            return states[self._rows]
        return self._evaluate(self._functions, states, times, runtime)

    def modes(self, states: Array, times: Array, runtime: Array, forward: Array | float) -> Array:
        """Modes at the start of a run; runtime: (npar + switches, N), whose modes are overwritten on the way."""
        values = self.functions(states, times, runtime)
        modes = np.where(values >= 0, 1.0, -1.0)
        on_surface = np.abs(values) <= ON_SURFACE * np.maximum(1.0, np.abs(states).max(axis=0))
        if on_surface.any():
            runtime = runtime.copy()
            runtime[-self.count :] = modes
            leaving = forward * self._evaluate(self._rates, states, times, runtime)
            modes = np.where(on_surface, np.where(leaving >= 0, 1.0, -1.0), modes)
        return modes

    def resting(self, states: Array, times: Array, runtime: Array) -> NDArray[np.bool_]:
        """(N,) which columns stand on a switching surface that they do not leave at first order.

        There the event would fire at once and for ever.
        """
        values = self.functions(states, times, runtime)
        size = np.maximum(1.0, np.abs(states).max(axis=0))
        on_surface = np.abs(values) <= ON_SURFACE * size
        if not on_surface.any():
            return np.zeros(states.shape[1], bool)
        rates = self._evaluate(self._rates, states, times, runtime)
        return (on_surface & (np.abs(rates) <= ON_SURFACE * size)).any(axis=0)

    def stays(self, states: Array, times: Array, runtime: Array) -> bool:
        """Do all columns stand on every surface on which the first one stands?"""
        values = np.abs(self.functions(states, times, np.broadcast_to(runtime, (runtime.shape[0], times.size))))
        allowed = ON_SURFACE * np.maximum(1.0, np.abs(states).max(axis=0))
        return bool((values <= allowed)[values[:, 0] <= allowed[0]].all())

    def settle_others(self, state: Array, time: float, runtime: Array, crossed: int, forward: float) -> None:
        """Set, in place, the modes of switches that are on their surface at the instant another one crosses.

        Two events at one instant are reported as one; the second would be lost.
        """
        columns = state[:, None], np.array([time]), runtime[:, None]
        values = self.functions(*columns)[:, 0]
        near = np.abs(values) <= ON_SURFACE * max(1.0, float(np.abs(state).max()))
        near[crossed] = False
        if near.any():
            leaving = forward * self._evaluate(self._rates, *columns)[:, 0]
            modes = runtime[-self.count :]
            modes[near] = np.where(leaving[near] >= 0, 1.0, -1.0)

    def check(self, states: Array, times: Array, runtime: Array, tolerance: float = 0.0) -> None:
        """Raise when a switch stands on the side that contradicts its mode: a crossing was lost.

        tolerance: of the integration; what it may have moved the state by is no evidence.
        """
        modes = runtime[-self.count :]
        values = self.functions(states, times, runtime)
        wrong = modes * values < -max(WRONG_SIDE, 1e3 * tolerance) * np.maximum(1.0, np.abs(states).max(axis=0))
        if wrong.any():
            which, column = (int(i[0]) for i in np.nonzero(wrong))
            raise EventError(
                f"At t = {times[column]:.6g} the switching function {self.switches[which].function} is "
                f"{values[which, column]:.3g} while its mode is {modes[which, column]:+.0f}: a crossing was lost. "
                "Tighten the tolerance of the flow."
            )

    def _evaluate(self, function: Any, states: Array, times: Array, runtime: Array) -> Array:
        arguments = {}
        if function.nparams:
            arguments["pars"] = np.ascontiguousarray(runtime[: function.nparams])
        if function.is_time_dependent:
            arguments["time"] = np.ascontiguousarray(times)
        return function(np.ascontiguousarray(states), **arguments)
