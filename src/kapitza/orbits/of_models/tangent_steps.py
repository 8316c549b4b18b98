"""Steps of many motions with their Jacobians.

Lyapunov exponents are computed from them, for flows and maps alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, ModelError
from kapitza.flow import Flow, Map
from kapitza.model import Evaluator, Model, compile_expressions, symbol

TOLERANCE = 1e-12
"""Tolerance of the integration: averages over a long motion do not gain from a smaller one."""

WIDEST = 8.0
"""Largest ln(longest / shortest axis) of the ellipsoid that a step makes of a sphere, as estimated before: what the
shortest axis is known by is the rest of 36 (double precision)."""

TURNED = 1.0
"""Size of J - 1 after which a step of a free motion is long enough."""

DOUBLINGS = 60
"""Most changes of a step by a factor of 2: 18 orders of magnitude, after which the search ends."""

MOST_PARTS = 4096
"""Parts of a period after which frames are renewed."""

GONE = 1e-10
"""Axis, relative to the longest, below which it counts as zero where the determinant is zero."""

GRADE = 30.0
"""Largest gap in ln between two axes: beyond it a frame in their plane lies in the longer one but for exp(-60), times
the squares of what U holds. Rounding stays that of each row: the rows come in the order of their size."""

WHOLE_GRADE = 600.0
"""Largest gap in ln over all axes together: double precision ends at exp(-708)."""

NOTHING = -1e6
"""Stands for ln 0 where numbers must stay finite."""

LARGEST_GRADE = 300.0


class Steps(Protocol):
    """Motions of one model, one row each.

    unit: length of a step in the unit of the exponents; (B,) rows of parameters have their own.
    """

    def unit(self, vectors: Array) -> Array: ...

    def advance(self, states: Array, count: int, vectors: Array) -> Array:
        """Advance states (B, n) by `count` steps.

        Rows that fail are NaN.
        """
        ...

    def states_along(self, start: Array, counts: NDArray[np.intp], vector: Array) -> Array:
        """Return states along one motion.

        The states (N, n) are those after increasing numbers of steps.
        """
        ...

    def step(self, states: Array, frames: Array, vectors: Array, growth: Growth) -> tuple[Array, Array]:
        """Advance states and frames by one step.

        States (B, n) and orthonormal frames (B, n, n); their growth is added to `growth`.
        """
        ...


class Growth:
    """Product of triangular factors of frames.

    What has been divided out of the frames: R = diag(exp(logs)) U.
    logs: (B, n), NaN where a motion was lost. U: (B, n, n) with a unit diagonal, kept where frames are to be joined:
    its entries stay of order one while the axes are in the order of their growth.
    """

    def __init__(self, count: int, n: int, joined: bool = False):
        self.logs = np.zeros((count, n))
        self.unit_upper = np.tile(np.eye(n), (count, 1, 1)) if joined else None

    def add(self, rows: NDArray[np.intp], upper: Array, collapsed: NDArray[np.bool_]) -> None:
        """Multiply the factors of some rows by R.

        R has shape (b, n, n); collapsed: rows whose shortest axes have no length.
        """
        lengths = np.einsum("bii->bi", upper)
        gone = (lengths < GONE * lengths.max(axis=1, keepdims=True)) & collapsed[:, None] | (lengths == 0.0)
        with np.errstate(divide="ignore"):
            logs = np.where(gone, -np.inf, np.log(np.where(gone, 1.0, lengths)))
        before = self.logs[rows]
        self.logs[rows] = before + logs
        if self.unit_upper is None:
            return
        after, before = (np.maximum(x, NOTHING) for x in (self.logs[rows], before))
        step = upper * np.exp(np.minimum(before[:, None, :] - after[:, :, None], LARGEST_GRADE))
        step[gone] = np.eye(upper.shape[-1])[np.nonzero(gone)[1]]
        self.unit_upper[rows] = step @ self.unit_upper[rows]

    def lose(self, rows: NDArray[np.bool_]) -> None:
        self.logs[rows] = np.nan


def joined_logs(logs: Array, unit_upper: Array, between: Array) -> Array:
    """Return the growth of one frame through all blocks.

    Growth (blocks, n), from the growth of a separate frame in each.
    between: (blocks, n, n) first frame of a block times the last frame of the block before, Q_kᵀ Q'_{k-1}; that of the
    first is not used. With W the carried frame as block k's own sees it, R_k W = W' R gives its growth and W'. Rows of
    R_k are of very different size: a gap in ln beyond `GRADE` changes nothing to rounding and is cut to it.
    """
    carried, result = np.eye(logs.shape[1]), np.empty_like(logs)
    for k, (own, upper) in enumerate(zip(logs, unit_upper, strict=True)):
        carried = carried if k == 0 else between[k] @ carried
        finite = np.maximum(own, NOTHING)
        gaps = np.maximum(np.diff(finite), -min(GRADE, WHOLE_GRADE / len(finite)))
        grade = np.concatenate(([0.0], np.cumsum(gaps)))
        carried, factor = np.linalg.qr(np.exp(grade)[:, None] * (upper @ carried))  # any sign: |R| and Q R
        with np.errstate(divide="ignore"):
            result[k] = own + np.log(np.abs(factor.diagonal())) - grade
    return result


def orthonormal(frames: Array) -> tuple[Array, Array]:
    """Orthonormalise frames by Gram-Schmidt.

    It returns Q (B, n, n) and upper triangular R (B, n, n) with a diagonal >= 0, frames = Q R.
    Many small frames are treated at once.
    """
    count, n = len(frames), frames.shape[-1]
    made, upper = frames.copy(), np.zeros((count, n, n))
    for j in range(n):
        column = made[:, :, j]
        # Twice: the first pass leaves rounding errors of the size of the longest axis.
        for _ in range(2 if j else 0):
            inside = np.einsum("bij,bi->bj", made[:, :, :j], column)
            column -= np.einsum("bij,bj->bi", made[:, :, :j], inside)
            upper[:, :j, j] += inside
        upper[:, j, j] = np.sqrt(np.einsum("bi,bi->b", column, column))
        safe = upper[:, j, j] > 0
        made[:, :, j] = np.where(safe[:, None], column / np.where(safe, upper[:, j, j], 1.0)[:, None], 0.0)
    for row in np.flatnonzero((np.einsum("bii->bi", upper) == 0.0).any(axis=1)):
        # A collapsed direction is replaced by any other: its growth is -inf from now on.
        made[row] = np.linalg.qr(made[row] + 1e-3 * np.eye(n))[0]  # any sign: any direction
    return made, upper


@dataclass(frozen=True)
class FlowSteps:
    """Steps of a flow.

    The excitation period or a time `free`, each cut into `parts` after which frames are renewed.
    """

    model: Model
    free: float | None
    parts: int

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.model, tolerance=TOLERANCE)

    def __reduce__(self) -> tuple[Any, ...]:
        return FlowSteps, (self.model, self.free, self.parts)

    def unit(self, vectors: Array) -> Array:
        periods = None if self.free is not None else self.flow.core.periods(vectors)
        return np.full(len(vectors), self.free) if periods is None else periods

    def advance(self, states: Array, count: int, vectors: Array) -> Array:
        ends, alive = np.full_like(states, np.nan), np.isfinite(states).all(axis=1)
        if alive.any() and count:
            lengths = count * self.unit(vectors[alive])
            ends[alive] = self.flow.propagate_many(
                states[alive], 0.0, lengths, parameters=vectors[alive], throw=False
            ).state
        return ends if count else states

    def states_along(self, start: Array, counts: NDArray[np.intp], vector: Array) -> Array:
        if self.free is None:
            return self.flow.strobe(start, int(counts[-1]), parameters=vector).states[counts]
        times = np.unique(np.concatenate(([0], counts)))
        path = self.flow.trajectory(start, self.free * times, vector)
        return path[np.searchsorted(times, counts)]

    def step(self, states: Array, frames: Array, vectors: Array, growth: Growth) -> tuple[Array, Array]:
        flow, lengths = self.flow, self.unit(vectors) / self.parts
        alive: NDArray[np.bool_] = np.asarray(np.isfinite(states).all(axis=1))
        states, frames = states.copy(), frames.copy()
        for part in range(self.parts):
            rows = np.flatnonzero(alive)
            if not rows.size:
                break
            begin = part * lengths[rows] if self.free is None else np.zeros(rows.size)
            end = flow.propagate_many(
                states[rows], begin, begin + lengths[rows], parameters=vectors[rows], tangents=True, throw=False
            )
            assert end.jacobian is not None
            fine = np.isfinite(end.state).all(axis=1) & np.isfinite(end.jacobian).all(axis=(1, 2))
            alive[rows[~fine]] = False
            rows = rows[fine]
            carried = end.jacobian[fine] @ frames[rows]
            frames[rows], upper = orthonormal(carried)
            growth.add(rows, upper, np.isneginf(end.log_determinant[fine]))
            states[rows] = end.state[fine]
        states[~alive] = np.nan
        growth.lose(~alive)
        return _wrapped(states, self.model), frames


def _wrapped(states: Array, model: Model) -> Array:
    """Wrap angles to within a turn of zero.

    They would lose digits over a long rotation.
    """
    turn = 2 * np.pi
    return np.where(np.array(model.angles), states - turn * np.round(states / turn), states)


@dataclass(frozen=True)
class MapSteps:
    """Iterations of a map."""

    model: Model

    def __reduce__(self) -> tuple[Any, ...]:
        return MapSteps, (self.model,)

    @cached_property
    def _image(self) -> Evaluator:
        return compile_expressions(self.model.structure.rates, self.model.states, self.model.names)

    @cached_property
    def _image_and_slopes(self) -> Evaluator:
        rates, by = self.model.structure.rates, [symbol(s) for s in self.model.states]
        slopes = (sp.diff(f, s) for f in rates for s in by)
        return compile_expressions((*rates, *slopes), self.model.states, self.model.names)

    def unit(self, vectors: Array) -> Array:
        return np.ones(len(vectors))

    def advance(self, states: Array, count: int, vectors: Array) -> Array:
        rates = self._image
        now, values = np.ascontiguousarray(states.T), np.ascontiguousarray(vectors.T)
        for _ in range(count):
            now = rates(now, values)
        return np.where(np.isfinite(now), now, np.nan).T

    def states_along(self, start: Array, counts: NDArray[np.intp], vector: Array) -> Array:
        return Map(self.model).iterate(start, int(counts[-1]), vector)[counts]

    def step(self, states: Array, frames: Array, vectors: Array, growth: Growth) -> tuple[Array, Array]:
        count, n = states.shape
        found = self._image_and_slopes(np.ascontiguousarray(states.T), np.ascontiguousarray(vectors.T)).T
        alive: NDArray[np.bool_] = np.asarray(np.isfinite(found).all(axis=1))
        jacobians = np.where(alive[:, None], found[:, n:], 0.0).reshape(count, n, n)
        frames, upper = orthonormal(jacobians @ frames)
        growth.add(np.arange(count), upper, np.zeros(count, bool))
        growth.lose(~alive)
        return np.where(alive[:, None], found[:, :n], np.nan), frames


def steps_of(model: Model, points: Array, starts: Array) -> FlowSteps | MapSteps:
    """Choose the steps of a model.

    At some sets of parameters (B, npar) they are long enough to be few and short enough for the frames.
    """
    if model.is_map:
        return MapSteps(model)
    if model.delays:
        raise ModelError(
            f'Model "{model.name}" has delays: its state is a piece of its past, which has infinitely many exponents. '
            "Replace the delay by a chain of first-order equations."
        )
    model.needs_repetition("Lyapunov exponents")
    flow = Flow(model, tolerance=TOLERANCE)
    if model.period is not None:
        parts, periods = 1, flow.core.periods(points)
        assert periods is not None
        while parts < MOST_PARTS:
            # Beyond `WIDEST` the determinant is lost in rounding, and with it the width: shorter parts show it again.
            ends = flow.propagate_many(starts, 0.0, periods / parts, points, tangents=True, throw=False)
            assert ends.jacobian is not None
            widths = [_width(j, d) for j, d in zip(ends.jacobian, ends.log_determinant, strict=True)]
            if max(widths) <= WIDEST:
                break
            parts *= 2
        return FlowSteps(model, None, parts)
    found = min(_free_step(flow, x, vector) for x, vector in zip(starts, points, strict=True))
    return FlowSteps(model, found, 1)


def _width(jacobian: Array, log_determinant: float) -> float:
    """Return an upper limit of ln(longest / shortest axis).

    n ln|J| - ln|det J|; 1 where it is not known.
    """
    if not np.isfinite(jacobian).all() or not np.isfinite(log_determinant):
        return 1.0
    n = len(jacobian)
    return float(n * np.log(max(np.linalg.norm(jacobian, 2), 1e-300)) - log_determinant)


def _free_step(flow: Flow, start: Array, vector: Array) -> float:
    """Return the step of a free motion.

    The time after which its tangents have turned or grown, at several places along it.
    """
    step, state, best = 1.0, start, np.inf
    for _ in range(3):
        for _ in range(DOUBLINGS):
            try:
                run = flow.propagate(state, 0.0, step, vector)
            except FlowError:
                step /= 2
                continue
            assert run.jacobian is not None
            turned = float(np.linalg.norm(run.jacobian - np.eye(len(start))))
            if _width(run.jacobian, run.log_determinant) > WIDEST or turned > 8 * TURNED:
                step /= 2
            elif turned < TURNED:
                step *= 2
            else:
                break
        best = min(best, step)
        try:
            state = flow.propagate(state, 0.0, 50 * step, vector, tangents=False).state
        except FlowError:
            break
    return best
