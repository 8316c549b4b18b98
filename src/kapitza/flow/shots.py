"""Repeated runs over one stretch of time.

A corrector runs the stretch again and again while the parameters of interest move.
"""

from __future__ import annotations

from math import floor, pi
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array
from kapitza.flow.smooth import SmoothEngine

if TYPE_CHECKING:
    from kapitza.flow.core import Core


class Shots:
    """x(t1) from x(t0) of a forced smooth model.

    The run is made with tangents or without, at moving values of `wrt`.
    Pieces of time, constants and checks are the same for all shots and are settled once:
    a shot then costs little beside the steps of the integrator. `Core.shots` makes the object.
    """

    def __init__(self, core: Core, engine: SmoothEngine, vector: Array, period: float, t0: float, t1: float):
        self._core, self._engine = core, engine
        self._runtime = core.runtime(engine, vector, None).copy()
        # One parameter, the usual case, is reached by its number: several times faster than by a list.
        self._places: int | list[int] = core.wrt_index[0] if len(core.wrt_index) == 1 else list(core.wrt_index)
        self._turning = np.flatnonzero(core.angles).tolist()
        local = t0 - floor(t0 / period) * period
        self._whole = local, local + (t1 - t0)
        # Tangents begin anew at every period: grown ones would take the steps for themselves.
        self._pieces = [(piece.start, piece.end) for piece in core.clock(vector).pieces(t0, t1, 1)]

    def arrive(self, start: Array, values: Array) -> Array:
        """Return x(t1) (n,) from x(t0) (n,).

        values: (k,) of `wrt`.
        """
        self._runtime[self._places] = values if values.size > 1 else values[0]
        begin, end = self._whole
        for i in self._turning:
            if abs(start[i]) >= pi:
                whole = self._core.whole_turns(start)
                return self._engine.arrive(start - whole, begin, end, self._runtime) + whole
        return self._engine.arrive(start, begin, end, self._runtime)

    def carry(self, start: Array, values: Array) -> tuple[Array, Array]:
        """Return x(t1) with its tangents (n, n + k)."""
        self._runtime[self._places] = values if values.size > 1 else values[0]
        state, offset, total = start, None, None
        for begin, end in self._pieces:
            for i in self._turning:
                if abs(state[i]) >= pi:
                    whole = self._core.whole_turns(state)
                    state, offset = state - whole, whole if offset is None else offset + whole
                    break
            state, change = self._engine.carry(state, begin, end, self._runtime)
            total = change if total is None else self._core.chain(change, total)
        assert total is not None
        return state if offset is None else state + offset, total
