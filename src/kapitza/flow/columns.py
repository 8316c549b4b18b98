"""Tangents of large systems, a few columns at a time.

All n (n + k) equations of the tangents in one program take minutes and gigabytes to compile for hundreds of states. A
program of the states and a few columns V' = f_x V compiles quickly; run again for the next columns it gives the same
numbers, as columns do not see each other. In a batch each lane carries columns of its own.
"""

from __future__ import annotations

from typing import Any

import heyoka as hy
import numpy as np
from numpy.typing import NDArray

from kapitza.flow.compiled import cached, code_of, compile_integrator, with_some_tangents
from kapitza.flow.engine import System

Array = NDArray[np.float64]

MOST_TANGENTS = 4000
"""Equations of tangents that are compiled as one program."""

LANES = 8
WIDTH = 16
"""Columns in a lane, besides those of the parameters; with fewer the states cost more than the columns."""

_finished = hy.taylor_outcome.time_limit


class Columns:
    """Tangents of a system without switches and observed surfaces, by state and by the parameters wrt."""

    def __init__(self, system: System, wrt: tuple[int, ...], tolerance: float, max_steps: int):
        self.system, self.wrt, self.tolerance, self.max_steps = system, wrt, tolerance, max_steps
        self.size, self.further = len(system.states), len(wrt)
        self.width = min(WIDTH, self.size)

    def integrator(self) -> Any:
        """States and columns, row-major (n, width + k), in a batch."""
        return cached(
            ("columns", self.system, self.wrt, self.tolerance, self.width), lambda: compile_integrator(self._build)
        )

    def _build(self) -> Any:
        written = with_some_tangents(self.system, self.wrt, self.width)
        zeros = np.zeros((len(written), LANES))
        return hy.taylor_adaptive_batch(written, zeros, tol=self.tolerance, **code_of(True))

    def one(self, state: Array, times: Array, parameters: Array) -> tuple[Array, Array] | None:
        """States (m, n) and tangents (m, n, n + k) at times (m,), the first that of the start; None where it fails.

        The lanes share the motion and divide the columns among them.
        """
        n, together = self.size, self.width * LANES
        units = np.eye(n, -(-n // together) * together)
        tangents = np.empty((len(times), n, n + self.further))
        states = np.empty((len(times), n))
        lanes = np.repeat(state[:, None], LANES, axis=1)
        grid = np.repeat(times[:, None], LANES, axis=1)
        runtime = np.repeat(parameters[:, None], LANES, axis=1)
        for first in range(0, n, together):
            own = units[:, first : first + together].reshape(n, LANES, self.width).transpose(0, 2, 1)
            found = self._run(lanes, own, grid, runtime, self.max_steps)
            if found is None:
                return None
            last = min(first + together, n)
            columns = found[:, n:].reshape(len(times), n, self.width + self.further, LANES)
            chosen = columns[:, :, : self.width].transpose(0, 1, 3, 2).reshape(len(times), n, together)
            tangents[:, :, first:last] = chosen[:, :, : last - first]
            if not first:
                states[:], tangents[:, :, n:] = found[:, :n, 0], columns[:, :, self.width :, 0]
        return states, tangents

    def many(self, states: Array, times: Array, runtime: Array, max_steps: int) -> Array | None:
        """One batch: states (n, lanes) at times (m, lanes) with values (npar, lanes), everything (m, n (1 + n + k),
        lanes); None where a member fails.
        """
        n, count = self.size, len(times)
        units = np.eye(n, -(-n // self.width) * self.width)
        result = np.empty((count, n * (1 + n + self.further), LANES))
        tangents = result[:, n:].reshape(count, n, n + self.further, LANES)
        for first in range(0, n, self.width):
            own = np.repeat(units[:, first : first + self.width, None], LANES, axis=2)
            found = self._run(states, own, times, runtime, max_steps)
            if found is None:
                return None
            last = min(first + self.width, n)
            columns = found[:, n:].reshape(count, n, self.width + self.further, LANES)
            tangents[:, :, first:last] = columns[:, :, : last - first]
            if not first:
                result[:, :n], tangents[:, :, n:] = found[:, :n], columns[:, :, self.width :]
        return result

    def _run(self, states: Array, columns: Array, times: Array, runtime: Array, max_steps: int) -> Array | None:
        """(m, n (1 + width + k), lanes) from states (n, lanes) and columns (n, width, lanes)."""
        integrator = self.integrator()
        n = self.size
        start = np.zeros(integrator.state.shape)
        start[:n] = states
        start[n:].reshape(n, self.width + self.further, LANES)[:, : self.width] = columns
        integrator.state[:] = start
        integrator.set_time(times[0])
        values = integrator.pars
        values[:] = runtime[: values.shape[0]]
        if len(times) == 2:
            # Without samples on the way the dense output is not needed.
            integrator.propagate_until(times[1], max_steps=max_steps)
            found = np.stack([start, integrator.state])
        else:
            found = integrator.propagate_grid(times, max_steps=max_steps)[1]
        good = all(result[0] == _finished for result in integrator.propagate_res) and np.isfinite(found[-1]).all()
        return found if good else None
