"""Return maps for many states at once.

A return is one excitation period of a flow, or one step of a map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from kapitza.base.angles import wrap_states
from kapitza.base.arrays import Array
from kapitza.flow import Flow
from kapitza.model import Model, compile_expressions, symbol


class PeriodReturn:
    """Return map x(0) → x(T) of a forced model.

    It takes wrapped angles and returns continuous ones.
    The engine is called directly: every member runs over the same single period, so nothing has to be planned per
    member. tolerance: 1e-10 suffices for a search, whose finds are polished afterwards.
    """

    def __init__(self, model: Model, tolerance: float = 1e-10):
        self.model, self.size = model, len(model.states)
        self.angles = np.array(model.angles, bool)
        self.vector = model.vector
        self.period = float(model.period or 0.0)
        self._flow = Flow(model, tolerance=tolerance)
        self._direct = not any(s.kind == "polynomial" for s in model.excitation.signals) if model.excitation else False

    def __call__(self, states: Array, tangents: bool) -> tuple[Array, Array | None]:
        """Advance states (B, n) by one period.

        States (B, n) → (B, n) and Jacobians (B, n, n); rows that fail are NaN.
        """
        count = states.shape[0]
        if not self._direct:
            run = self._flow.propagate_many(states, 0.0, self.period, self.vector, tangents, throw=False)
            return run.state, run.jacobian
        unit = np.broadcast_to(np.eye(self.size), (count, self.size, self.size)) if tangents else None
        engine: Any = self._flow.core.engine(self.vector)
        vectors = np.broadcast_to(self.vector, (count, self.vector.size))
        parameters = self._flow.core.runtime(engine, vectors, None)
        begin, end = np.zeros(count), np.full(count, self.period)
        run = engine.run_many(states, unit, begin, end, parameters)
        return run.state, run.tangents


class StepReturn:
    """Step x → F(x) of a map, with Jacobian."""

    def __init__(self, model: Model):
        self.model, self.size = model, len(model.states)
        self.angles = np.array(model.angles, bool)
        self.vector = model.vector
        rates = model.structure.rates
        slopes = [sp.diff(r, symbol(s)) for r in rates for s in model.states]
        self._value = compile_expressions(rates, model.states, model.names)
        self._slope = compile_expressions(slopes, model.states, model.names)

    def __call__(self, states: Array, tangents: bool) -> tuple[Array, Array | None]:
        columns = np.ascontiguousarray(states.T)
        after = self._value(columns, self.vector).T
        if not tangents:
            return after, None
        return after, self._slope(columns, self.vector).T.reshape(-1, self.size, self.size)


Return = PeriodReturn | StepReturn


def return_map(model: Model) -> Return:
    return StepReturn(model) if model.is_map else PeriodReturn(model)


def iterate(step: Return, states: Array, times: int) -> Array:
    """Iterate a return map.

    (times + 1, B, n) with wrapped angles; members that fail stay NaN.
    """
    path = np.empty((times + 1, *states.shape))
    path[0] = wrap_states(states, step.angles)
    for k in range(times):
        alive = np.isfinite(path[k]).all(axis=1)
        path[k + 1] = np.nan
        if alive.any():
            path[k + 1, alive] = wrap_states(step(path[k, alive], False)[0], step.angles)
    return path
