"""Batches of short trajectories, each with its own times.

This is the inner loop of fits along a record.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import heyoka as hy
import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.flow.batch import advance_many
from kapitza.flow.clock import Piece
from kapitza.flow.columns import Blocks
from kapitza.flow.compiled import (
    LARGEST_UNROLLED_LANES,
    cached,
    code_of,
    compile_integrator,
    equations,
    is_short,
    with_tangents,
)
from kapitza.flow.core import Core
from kapitza.flow.engine import ManyStretches, Stretches
from kapitza.flow.events import EventEngine
from kapitza.flow.gaps import keeps, long_steps
from kapitza.flow.smooth import LANES, SmoothEngine, by_batch
from kapitza.flow.tails import watched_limit_of_lanes

MOST_AT_ONCE = 20_000
"""Equations of tangents up to which short runs have them all in one program: the states are then integrated once."""

WORTH_A_THREAD = 20_000
"""Samples from which a second thread saves time: the integrator runs without the interpreter's lock, its set-up not."""

MEMBERS_PER_STEP = 0.5
"""Steps of a batch from sample to sample that cost as much as a run of one member over all its samples."""

BATCHES_PER_CHECK = 32
"""Batches between two tests of whether a run has failed."""


def sample_lanes(
    core: Core,
    states: Array,
    times: Array,
    vectors: Array,
    threads: int = 1,
    max_steps: int | None = None,
    refuse: bool = True,
    blocks: Blocks | None = None,
    bare: bool = False,
) -> tuple[Array, Array]:
    """Sample short trajectories with their tangents.

    Returns states (B, m + 1, n) and tangents (B, m + 1, n, n + k) at times (B, m + 1), the first being those of the
    start. states: (B, n); vectors: (B, npar). Systems without switches, walls and measured polynomials run in wide
    batches; others go from sample to sample with `advance_many`. max_steps: of each batch, if fewer than those of the
    core. refuse: raise FlowError when a run fails; otherwise its samples are NaN. blocks: what earlier runs of a large
    system found about columns that may be shared; it is brought up to date. bare: states alone; the tangents have no
    columns.
    """
    count, samples = times.shape
    if count == 0 or samples == 1:
        # No step is made: the samples are the starts.
        unit = core.unit[:, : 0 if bare else core.columns]
        return states[:, None, :].repeat(samples, 1), np.tile(unit, (count, samples, 1, 1))
    blocks = blocks or Blocks()
    engine = core.engine(vectors[0])
    limit = core.max_steps if max_steps is None else min(max_steps, core.max_steps)
    one_engine = not core.engine_kinds(vectors).any()
    if not isinstance(engine, SmoothEngine):
        return _step_by_step(core, states, times, vectors, refuse, bare)
    if core.has_knots or not one_engine:
        return _step_by_step(core, states, times, vectors, refuse, bare)
    whole = core.whole_turns(states)
    periods = core.periods(vectors)
    turns = np.zeros(count) if periods is None else np.floor(times[:, 0] / periods)
    origin = times[:, 0] if core.model.structure.is_autonomous else turns * (0.0 if periods is None else periods)
    local = times - origin[:, None]
    parts = np.array_split(np.arange(count), threads if times.size >= WORTH_A_THREAD else 1)
    runtime = core.runtime(engine, vectors, None)
    columns = 0 if bare else engine.columns
    if len(parts) == 1:
        reached, tangents = _run(engine, columns, states - whole, local, runtime, limit, refuse, blocks)
    else:
        pool = _pool(len(parts), os.getpid())
        work = [((states - whole)[p], local[p], runtime[p], limit, refuse, replace(blocks)) for p in parts]
        jobs = [pool.submit(_run, engine, columns, *one) for one in work]
        found = [job.result() for job in jobs]
        reached, tangents = (np.concatenate([f[i] for f in found]) for i in (0, 1))
    if not columns and (small := engine.are_small(reached)).any():
        again = (states - whole)[small], local[small], runtime[small], limit, refuse, blocks
        reached[small] = _run(engine.finer, 0, *again)[0]
    for i in range(samples if columns else 0):
        core.shift_origin(
            tangents[:, i], reached[:, 0], reached[:, i], local[:, 0], local[:, i], turns, vectors
        )  # fmt: skip
    return reached + whole[:, None, :], tangents


@functools.cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return threads that are kept.

    Each thread compiles its own integrator. A forked process needs new threads.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix=f"kapitza-lanes-{process}")


def _run(
    engine: SmoothEngine,
    columns: int,
    states: Array,
    times: Array,
    vectors: Array,
    limit: int,
    refuse: bool,
    blocks: Blocks,
) -> tuple[Array, Array]:
    """Sample batch by batch.

    Returns states (B, m, n) and tangents (B, m, n, columns) at times (B, m); all the columns or none.
    Everything is laid out before as the integrator has it, and the views of its state, time and parameters are
    fetched once: for short intervals these calls would cost as much as the integration.
    """
    count, n = states.shape
    samples, by_columns = times.shape[1], engine.by_columns if columns else None
    if by_columns is not None and (n * columns > MOST_AT_ONCE or by_columns.share_some(blocks)):
        return _run_by_columns(engine, states, times, vectors, limit, refuse, blocks)
    integrator, ends = _integrator(engine, columns), bool(engine.ends())
    state, values, clock = integrator.state, integrator.pars, integrator.time
    # The last batch is filled up with copies of its last member.
    members = np.minimum(np.arange(-(-count // LANES) * LANES), count - 1)
    starts = np.empty((members.size // LANES, n * (1 + columns), LANES))
    starts[:, :n] = by_batch(states[members])
    starts[:, n:] = np.eye(n, columns).ravel()[:, None]
    grid = by_batch(times[members])
    alike = bool((vectors == vectors[0]).all())
    rates, doubtful = engine.filling_rates(vectors, members), np.zeros((len(starts), LANES), bool)
    runtime = by_batch(vectors[members[:LANES] if alike else members, : values.shape[0]])
    values[:] = runtime[0]
    result, arrived = (
        np.full((len(starts), samples, n * (1 + columns), LANES), np.nan),
        np.zeros((len(starts), LANES), bool),
    )

    spans = by_batch(times[members][:, -1:] - times[members][:, :1])[:, 0]
    keep = rates is not None and any(itertools.starmap(keeps, zip(rates, spans, strict=True)))

    def go(start: Array, instants: Array, out: Array) -> bool | NDArray[np.bool_]:
        """Write the samples (m, q, lanes) of one batch.

        Returns which members arrived.
        """
        state[:] = start
        integrator.set_time(instants[0])
        if ends:
            integrator.reset_cooldowns()
        # A grid that was left early ends in NaN; a state that ran out of steps is at an earlier time.
        if samples > 2:
            out[:] = integrator.propagate_grid(instants, max_steps=limit)[1]
            return True
        # Without inner samples the dense output, three times the work of the step, is not needed.
        integrator.propagate_until(instants[1], max_steps=limit, write_tc=keep)
        out[1] = state
        return clock == instants[1]

    for batch, (start, instants) in enumerate(zip(starts, grid, strict=True)):
        if not alike:
            values[:] = runtime[batch]
        arrived[batch] = go(start, instants, result[batch])
        if rates is not None:
            doubtful[batch] = long_steps(integrator, n, rates[batch], instants[-1] - instants[0])
            if not ends and not (np.isfinite(result[batch, -1]).all() and np.all(arrived[batch])):
                doubtful[batch] |= rates[batch] == 0.0  # a step that was too long may have stopped the batch
        if not refuse:
            # A member that leaves the finite numbers stops the others as well: run each in a batch of copies.
            for lane in np.flatnonzero(
                ~(np.isfinite(result[batch, -1]).all(axis=0) & arrived[batch] | doubtful[batch])
            ):
                alone, copies = np.empty_like(result[batch]), np.full(LANES, lane)
                if not alike:
                    values[:] = runtime[batch][:, copies]
                arrived[batch, lane] = np.all(go(start[:, copies], instants[:, copies], alone))
                result[batch, :, :, lane] = alone[:, :, 0]
                if rates is not None:
                    lengths = (instants[-1] - instants[0])[copies]
                    doubtful[batch, lane] = long_steps(integrator, n, rates[batch, copies], lengths)[0]
        if ends and not (arrived[batch].all() and np.isfinite(result[batch, -1]).all()):
            # A member at the end of a root stops the others as well: each on its own.
            chosen = members[batch * LANES : (batch + 1) * LANES]
            result[batch], arrived[batch] = _one_by_one(engine, columns, states, times, vectors, chosen, refuse)
        if refuse and batch % BATCHES_PER_CHECK == 0:
            recent = slice(max(0, batch - BATCHES_PER_CHECK), batch + 1)
            if not (arrived[recent] & np.isfinite(result[recent, -1]).all(axis=1) | doubtful[recent]).all():
                break
    if doubtful.any():
        arrived |= doubtful
        _sample_with_care(engine, states, times, vectors, np.flatnonzero(doubtful.ravel()[:count]), result)
    result[:, 0] = starts
    rows = np.ascontiguousarray(result.transpose(0, 3, 1, 2)).reshape(members.size, samples, -1)[:count]
    good = np.isfinite(rows[:, -1]).all(axis=1) & arrived.ravel()[:count]
    rows[~good, 1:] = np.nan
    if refuse:
        _require(good, states, limit)
    return rows[..., :n], rows[..., n:].reshape(count, samples, n, columns)


def _sample_with_care(
    engine: SmoothEngine, states: Array, times: Array, vectors: Array, members: NDArray[np.intp], result: Array
) -> None:
    """Sample members whose series may have gaps by the stepper.

    result: (batches, samples, q, lanes), changed in place.
    """
    n = engine.size
    assert engine.careful is not None
    tangents = result.shape[2] > n
    run = engine.careful.sample_many(states[members], times[members], vectors[members], None, tangents)
    assert run.grid_states is not None
    batches, lanes = np.divmod(members, LANES)
    result[batches, :, :n, lanes] = run.grid_states
    if run.grid_tangents is not None:
        result[batches, :, n:, lanes] = run.grid_tangents.reshape(members.size, times.shape[1], -1)


def _require(good: NDArray[np.bool_], states: Array, limit: int) -> None:
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise FlowError(
            f"Trajectory {bad} of {len(good)}, from {np.array2string(states[bad], precision=4)}, left the finite "
            f"numbers or needs more than {limit} steps; check the parameters and the starts, or raise max_steps."
        )


def _run_by_columns(
    engine: SmoothEngine, states: Array, times: Array, vectors: Array, limit: int, refuse: bool, blocks: Blocks
) -> tuple[Array, Array]:
    """Sample a large system by columns.

    Its tangents come a few columns at a time.
    """
    count, n = states.shape
    samples, columns = times.shape[1], engine.columns
    assert engine.by_columns is not None
    reached, tangents = np.empty((count, samples, n)), np.empty((count, samples, n, columns))
    good = np.zeros(count, bool)
    for first in range(0, count, LANES):
        members = np.minimum(np.arange(first, first + LANES), count - 1)
        own = min(LANES, count - first)
        here = slice(first, first + own)
        batch = states[members].T, times[members].T, vectors[members].T, limit, blocks
        good[here] = engine.by_columns.short(*batch, reached[here], tangents[here])
        if good[first]:
            continue
        if refuse and engine.filling_rates(vectors, members) is None:
            _require(np.arange(count) < first, states, limit)
        lanes, arrived = _one_by_one(engine, columns, states, times, vectors, members, refuse=False)
        rows, good[here] = lanes[..., :own].transpose(2, 0, 1), arrived[:own]
        reached[here], tangents[here] = rows[..., :n], rows[..., n:].reshape(own, samples, n, columns)
        reached[here, 0], tangents[here, 0] = states[here], np.eye(n, columns)
    if refuse:
        _require(good, states, limit)
    return reached, tangents


def _one_by_one(
    engine: SmoothEngine,
    columns: int,
    states: Array,
    times: Array,
    vectors: Array,
    members: NDArray[np.intp],
    refuse: bool,
) -> tuple[Array, NDArray[np.bool_]]:
    """Sample the members of one batch without lanes.

    Returns the samples (samples, q, lanes), and which members arrived.
    """
    n, samples = engine.size, times.shape[1]
    unit = np.eye(n, columns) if columns else None
    result, arrived = np.full((samples, n * (1 + columns), LANES), np.nan), np.zeros(LANES, bool)
    for lane, i in enumerate(members):
        try:
            run = engine.run(states[i], unit, times[i, 0], times[i, -1], vectors[i], times[i])
        except FlowError:
            if refuse:
                raise
            continue
        assert run.grid_states is not None
        result[:, :n, lane] = run.grid_states
        if run.grid_tangents is not None:
            result[:, n:, lane] = run.grid_tangents.reshape(samples, -1)
        arrived[lane] = True
    return result, arrived


def _integrator(engine: SmoothEngine, columns: int) -> hy.taylor_adaptive_batch_dbl:
    wrt = engine.wrt if columns else None

    def build() -> hy.taylor_adaptive_batch_dbl:
        written = equations(engine.system) if wrt is None else with_tangents(engine.system, wrt)
        return hy.taylor_adaptive_batch(
            written,
            np.zeros((len(written), LANES)),
            tol=engine.tolerance,
            **code_of(not is_short(engine.system, written, largest=LARGEST_UNROLLED_LANES)),
            t_events=[hy.t_event_batch(end) for end in engine.ends()],
            nt_events=watched_limit_of_lanes(engine.system),
        )

    return cached(("lanes", engine.system, wrt, engine.tolerance), lambda: compile_integrator(build))


def _step_by_step(
    core: Core, states: Array, times: Array, vectors: Array, refuse: bool, bare: bool
) -> tuple[Array, Array]:
    count, samples = times.shape
    n = core.size
    together = _sampled_together(core, states, times, vectors, not bare)
    if together is not None:
        if refuse and not np.isfinite(together[0]).all():
            raise FlowError("A trajectory left the finite numbers between two samples; check parameters and starts.")
        return together
    reached = np.empty((count, samples, n))
    tangents = np.empty((count, samples, n, 0 if bare else core.columns))
    reached[:, 0], tangents[:, 0] = states, core.unit[:, : tangents.shape[3]]
    if count * MEMBERS_PER_STEP < samples - 1:
        # Few long runs, such as those of one length among many, are sampled one by one.
        for i in range(count):
            try:
                alone = core.sample(states[i], times[i], vectors[i], tangents=not bare)
            except FlowError:
                if refuse:
                    raise
                reached[i, 1:], tangents[i, 1:] = np.nan, np.nan
                continue
            reached[i] = alone[0]
            if alone[1] is not None:
                tangents[i] = alone[1]
        return reached, tangents
    for i in range(1, samples):
        run = advance_many(core, reached[:, i - 1], times[:, i - 1], times[:, i], vectors, not bare)
        if refuse and not np.isfinite(run.state).all():
            raise FlowError("A trajectory left the finite numbers between two samples; check parameters and starts.")
        reached[:, i] = run.state
        if run.jacobian is not None and run.sensitivity is not None:
            change = np.concatenate([run.jacobian, run.sensitivity], axis=2)
            tangents[:, i] = core.chain(change, tangents[:, i - 1])
    return reached, tangents


def _sampled_together(
    core: Core, states: Array, times: Array, vectors: Array, tangents: bool
) -> tuple[Array, Array] | None:
    """Sample all members in one call.

    The stepper for events samples them.
    None where another engine serves, or where a member needs several pieces of time.
    """
    engine = core.engine(vectors[0])
    if not isinstance(engine, EventEngine) or core.engine_kinds(vectors).any():
        return None
    plan = _plan_together(core, states, times[:, 0], times[:, -1], vectors, tangents)
    if plan is None:
        return None
    whole = core.whole_turns(states)
    local = np.clip(times - plan.origin[:, None], plan.start[:, None], plan.end[:, None])
    local[:, -1] = plan.end
    runtime = core.runtime(engine, vectors, plan.coefficients)
    run = engine.sample_many(states - whole, local, runtime, plan.stretches, tangents)
    reached, changes = run.grid_states, run.grid_tangents
    assert reached is not None
    if changes is None:
        return reached + whole[:, None, :], np.empty((*times.shape, core.size, 0))
    for i in range(times.shape[1]):
        rates = None if run.grid_rates is None else run.grid_rates[:, i]
        starts = reached[:, 0], reached[:, i], local[:, 0], local[:, i]
        core.shift_origin(changes[:, i], *starts, plan.turns, runtime, rates)
    changes[:, 0] = core.unit  # before a start on a surface is put onto it
    return reached + whole[:, None, :], changes


@dataclass(frozen=True)
class _Plan:
    """One piece of time for each member, as `clock.Piece`.

    start, end, origin: (B,) local times; turns: (B,); coefficients: (B, m) of the signals on the first stretches.
    """

    start: Array
    end: Array
    origin: Array
    turns: NDArray[np.int64]
    stretches: Sequence[Stretches] | ManyStretches | None = None
    coefficients: Array | None = None


def _plan_together(core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool) -> _Plan | None:
    """Return the piece of each member; None where one needs several.

    Members are planned by array operations; only drives that repeat and jumps driven by the clock are planned one by
    one.
    """
    periods = core.periods(vectors)
    if periods is not None and (core.has_knots or (tangents and core.has_timed_jumps)):
        return _plan_each(core, states, t0, t1, vectors, tangents)
    nothing = np.zeros(len(states))
    if core.has_knots:
        if (t1 < t0).any():
            return _plan_each(core, states, t0, t1, vectors, tangents)
        core.check_reach(t0, t1)
        found = core.clock(vectors[0]).many_within_reach(t0, t1)
        if found.counts.max() > core.stretches_per_piece(vectors[0], tangents):
            return None
        return _Plan(t0, t1, nothing, nothing.astype(np.int64), found, found.coefficients[found.rows])
    if periods is None:
        if (core.piece_counts(states, t0, t1, vectors) > 1).any():
            return None
        origin = t0 if core.model.structure.is_autonomous else nothing
        return _Plan(t0 - origin, t1 - origin, origin, nothing.astype(np.int64))
    turns = np.floor(t0 / periods).astype(np.int64)
    # The margin keeps rounding from leaving a last piece of no length.
    if (np.abs(t1 - t0) > core.periods_per_piece(vectors, tangents) * periods * (1 + 1e-9)).any():
        return None
    local = t0 - turns * periods
    return _Plan(local, local + (t1 - t0), turns * periods, turns)


def _plan_each(core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool) -> _Plan | None:
    pieces: list[Piece] = []
    for state, begin, end, vector in zip(states, t0, t1, vectors, strict=True):
        found = list(itertools.islice(core.pieces(state, float(begin), float(end), vector, tangents), 2))
        if len(found) > 1:
            return None
        pieces += found
    stretches = tuple(piece.stretches for piece in pieces if piece.stretches is not None) or None
    start, end, origin = (np.array(rows) for rows in zip(*((p.start, p.end, p.origin) for p in pieces), strict=True))
    turns = np.array([piece.turns for piece in pieces], np.int64)
    coefficients = None if stretches is None else np.stack([own.coefficients[0] for own in stretches])
    return _Plan(start, end, origin, turns, stretches, coefficients)
