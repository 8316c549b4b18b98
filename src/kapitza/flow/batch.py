"""Many trajectories at once: SIMD batches, and worker processes for large numbers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.flow.clock import Piece
from kapitza.flow.core import TURN, Core, Propagation, located
from kapitza.model.model import Model

Array = NDArray[np.float64]


def advance_many(
    core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool, processes: Any = None
) -> Propagation:
    """`Core.advance` for every row; rows that fail are NaN."""
    if processes is None or (isinstance(processes, int) and processes <= 1) or len(states) < 2:
        return _advance_here(core, states, t0, t1, vectors, tangents)
    with workers(processes) as (pool, count):
        parts = np.array_split(np.arange(len(states)), min(count, len(states)))
        settings = (core.model, core.wrt, core.tolerance, core.max_steps, tangents)
        jobs = [pool.submit(_advance_there, settings, states[p], t0[p], t1[p], vectors[p]) for p in parts]
        return _joined([job.result() for job in jobs])


@contextmanager
def workers(processes: int | Executor) -> Iterator[tuple[Executor, int]]:
    """An executor and the number of parts to cut the work into."""
    if isinstance(processes, Executor):
        yield processes, 4 * int(getattr(processes, "_max_workers", 4) or 4)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool, processes


def _advance_there(settings: tuple[Model, Any, float, int, bool], *arrays: Array) -> Propagation:
    model, wrt, tolerance, max_steps, tangents = settings
    states, t0, t1, vectors = arrays
    return _advance_here(Core(model, wrt, tolerance, max_steps), states, t0, t1, vectors, tangents)


def _joined(parts: list[Propagation]) -> Propagation:
    def join(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    events = tuple(event for part in parts for event in part.events)
    return Propagation(
        join("state"), join("jacobian"), join("sensitivity"), join("log_determinant"), events, join("turns")
    )


def _advance_here(core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool) -> Propagation:
    """In rounds: in each, every member that is not done takes its next piece; equal engines share a batch."""
    count, n = states.shape
    plans = [core.pieces(x, a, b, v, tangents) for x, a, b, v in zip(states, t0, t1, vectors, strict=True)]
    engines = [core.engine(v) for v in vectors]
    now, offset = states.copy(), np.zeros_like(states)
    total = np.tile(core.unit, (count, 1, 1)) if tangents else None
    determinant = np.zeros(count) if tangents else np.full(count, np.nan)
    events: list[list[Any]] = [[] for _ in range(count)]
    while True:
        pieces = {i: piece for i, plan in enumerate(plans) if (piece := next(plan, None)) is not None}
        if not pieces:
            break
        for engine in dict.fromkeys(engines[i] for i in pieces):
            members = np.array([i for i in pieces if engines[i] is engine])
            members = members[np.isfinite(now[members]).all(axis=1)]
            if members.size:
                chosen = [pieces[i] for i in members]
                _one_round(core, engine, members, chosen, now, offset, vectors, total, determinant, events)
    end = now + offset
    turns = np.where(core.angles & np.isfinite(end), np.round((end - states) / TURN), 0.0)
    turns = np.nan_to_num(turns).astype(int)
    gathered = tuple(tuple(found) for found in events)
    if total is None:
        return Propagation(end, None, None, determinant, gathered, turns)
    return Propagation(end, total[:, :, :n], total[:, :, n:], determinant, gathered, turns)


def _one_round(
    core: Core,
    engine: Any,
    members: NDArray[np.intp],
    pieces: list[Piece],
    now: Array,
    offset: Array,
    vectors: Array,
    total: Array | None,
    determinant: Array,
    events: list[list[Any]],
) -> None:
    """One piece for each of these members, in place."""
    whole = core.whole_turns(now[members])
    before = now[members] - whole
    offset[members] += whole
    runtime = vectors[members]
    if pieces[0].coefficients is not None:
        runtime = np.concatenate([runtime, np.stack([piece.coefficients for piece in pieces])], axis=1)
    starts, ends = np.array([p.start for p in pieces]), np.array([p.end for p in pieces])
    unit = None if total is None else np.broadcast_to(core.unit, (members.size, *core.unit.shape))
    run = engine.run_many(before, unit, starts, ends, runtime)
    now[members] = run.state
    for i, piece, found in zip(members, pieces, run.events, strict=True):
        events[i] += [located(e, piece.origin, offset[i]) for e in found]
    if total is None:
        return
    assert run.tangents is not None
    for row, piece in enumerate(pieces):
        core.shift_origin(run.tangents[row], before[row], run.state[row], piece.end, piece, runtime[row])
    total[members] = core.chain(run.tangents, total[members])
    determinant[members] += run.log_determinant
