"""Tangents of large systems, computed by columns.

All n (n + k) equations of the tangents in one program take minutes and gigabytes to compile for hundreds of states. A
program of the states and a few columns V' = f_x V compiles quickly; run again for the next columns it gives the same
numbers, as columns do not depend on each other. In a batch each lane carries separate columns. Over short stretches
columns far from each other share a run, see `kapitza.flow.sharing`.
"""

from __future__ import annotations

from dataclasses import dataclass

import heyoka as hy
import numpy as np

from kapitza.base.arrays import Array
from kapitza.flow.compiled import cached, code_of, compile_integrator, equations, with_some_tangents
from kapitza.flow.engine import System
from kapitza.flow.gaps import Gaps, keeps, long_steps
from kapitza.flow.sharing import SharedColumns, distances, share
from kapitza.flow.tails import watched_limit_of_lanes

MOST_TANGENTS = 4000
"""Equations of tangents that are compiled as one program."""

LANES = 8
"""Members of a SIMD batch; twice the register width still gains."""

WIDTH = 16
"""Columns in a lane, without those of the parameters; with fewer the states cost more than the columns."""

LEAST_SAVING = 0.7
"""Sharing is tried where at most this share of the columns remains to be integrated."""

LEAK = 1e-12
"""Relative error of tangents taken apart, where the tolerance of the integration is not larger."""

_finished = hy.taylor_outcome.time_limit


@dataclass
class Blocks:
    """Number of blocks of shared columns in recent runs.

    The next runs begin with this number; 0 means that sharing saves nothing.
    Each flow has a separate count: earlier runs of other flows must not change its numbers, not even by rounding.
    """

    count: int = 1


class Columns:
    """Tangents by state and by the parameters wrt.

    The system has no switches and no observed surfaces.
    """

    def __init__(self, system: System, wrt: tuple[int, ...], tolerance: float, max_steps: int, gaps: Gaps):
        self.system, self.wrt, self.tolerance, self.max_steps = system, wrt, tolerance, max_steps
        self.gaps = gaps
        self.size, self.further = len(system.states), len(wrt)
        self.width = min(WIDTH, self.size)
        self._shared: dict[int, SharedColumns | None] = {}

    def integrator(self) -> hy.taylor_adaptive_batch_dbl:
        """Return the batch integrator of states and columns.

        The columns are row-major, (n, width + k).
        """
        return cached(
            ("columns", self.system, self.wrt, self.tolerance, self.width), lambda: compile_integrator(self._build)
        )

    def _build(self) -> hy.taylor_adaptive_batch_dbl:
        written = with_some_tangents(self.system, self.wrt, self.width)
        zeros = np.zeros((len(written), LANES))
        limit = watched_limit_of_lanes(self.system)
        return hy.taylor_adaptive_batch(written, zeros, tol=self.tolerance, **code_of(True), nt_events=limit)

    def one(self, state: Array, times: Array, parameters: Array) -> tuple[Array, Array] | None:
        """Return states and tangents of one motion.

        times: (m,), the first that of the start. The states are (m, n), the tangents (m, n, n + k); None where the run
        fails. The lanes share the motion and divide the columns among them.
        """
        n, together = self.size, self.width * LANES
        # Zero columns fill the last batch.
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
        """Run one batch with all columns.

        states: (n, lanes), times: (m, lanes), runtime: (npar, lanes). Returns states and tangents as
        (m, n (1 + n + k), lanes); None where a member fails.
        """
        n, count = self.size, len(times)
        # Zero columns fill the last block.
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

    def share_some(self, blocks: Blocks) -> bool:
        """Return whether some columns may be integrated together.

        The answer depends on the runs so far.
        """
        while blocks.count and self._share(blocks.count) is None:
            self._take_more(blocks)
        return blocks.count > 0

    def short(
        self,
        states: Array,
        times: Array,
        runtime: Array,
        max_steps: int,
        blocks: Blocks,
        reached: Array,
        tangents: Array,
    ) -> bool:
        """Run one batch over short stretches with shared columns.

        The numbers are those of `many`. They are written into reached (p, m, n) and tangents (p, m, n, n + k) of the
        first p lanes. The columns are shared in as few blocks as can be taken apart. Returns False where a member
        fails.
        """
        n, own = self.size, len(reached)
        while self.share_some(blocks):
            shared = self._share(blocks.count)
            assert shared is not None
            found = self._run_shared(shared, states, times, runtime, max_steps)
            if found is None:
                return False
            reached[:], sums, tangents[..., :n], tangents[..., n:] = found[0][:own], found[1][:own], 0.0, found[2][:own]
            if shared.take_apart(sums, max(LEAK, self.tolerance), tangents):
                return True
            self._take_more(blocks)
        every = self.many(states, times, runtime, max_steps)
        if every is None:
            return False
        rows = every.transpose(2, 0, 1)[:own]
        reached[:], tangents[:] = rows[..., :n], rows[..., n:].reshape(tangents.shape)
        return True

    def _take_more(self, blocks: Blocks) -> None:
        more = blocks.count + 1
        blocks.count = more if more * self.width <= LEAST_SAVING * self.size else 0

    def _share(self, blocks: int) -> SharedColumns | None:
        if blocks not in self._shared:
            names = {s.name: i for i, s in enumerate(self.system.states)}
            depends = np.zeros((self.size, self.size), bool)
            for i, (_, rate) in enumerate(equations(self.system)):
                depends[i, [names[name] for name in hy.get_variables(rate)]] = True
            self._shared[blocks] = share(distances(depends), blocks * self.width - 1)
        return self._shared[blocks]

    def _run_shared(
        self, shared: SharedColumns, states: Array, times: Array, runtime: Array, max_steps: int
    ) -> tuple[Array, Array, Array] | None:
        """Integrate the sums of shared columns.

        Returns states (lanes, m, n), sums (lanes, m, n, C + 1) and columns of the parameters (lanes, m, n, k).
        """
        n, count, sums = self.size, len(times), shared.starts.shape[1]
        starts = np.zeros((n, -(-sums // self.width) * self.width))
        starts[:, :sums] = shared.starts
        found: list[Array] = []
        for first in range(0, sums, self.width):
            own = np.repeat(starts[:, first : first + self.width, None], LANES, axis=2)
            part = self._run(states, own, times, runtime, max_steps)
            if part is None:
                return None
            found.append(np.ascontiguousarray(part.transpose(2, 0, 1)))
        blocks = [f[..., n:].reshape(LANES, count, n, self.width + self.further) for f in found]
        together = np.concatenate([b[..., : self.width] for b in blocks], axis=3)[..., :sums]
        return found[0][..., :n], together, blocks[0][..., self.width :]

    def _run(self, states: Array, columns: Array, times: Array, runtime: Array, max_steps: int) -> Array | None:
        """Integrate one set of columns in a batch.

        states: (n, lanes), columns: (n, width, lanes). Returns (m, n (1 + width + k), lanes); None where a member fails
        or may have passed a gap in its series.
        """
        integrator = self.integrator()
        n = self.size
        start = np.zeros(integrator.state.shape)
        start[:n] = states
        start[n:].reshape(n, self.width + self.further, LANES)[:, : self.width] = columns
        integrator.state[:] = start
        integrator.set_time(times[0])
        values = integrator.pars
        values[:] = runtime[: values.shape[0]]
        rates, lengths = self.gaps.filling_rates(runtime.T), times[-1] - times[0]
        if len(times) == 2:
            # Without samples inside the stretch the dense output is not needed.
            keep = rates is not None and keeps(rates, lengths)
            integrator.propagate_until(times[1], max_steps=max_steps, write_tc=keep)
            found = np.stack([start, integrator.state])
        else:
            found = integrator.propagate_grid(times, max_steps=max_steps)[1]
        if rates is not None and np.any(long_steps(integrator, n, rates, lengths)):
            return None
        good = all(result[0] == _finished for result in integrator.propagate_res) and np.isfinite(found[-1]).all()
        return found if good else None
