"""Batches of trajectories: SIMD lanes and worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.arrays import Array, Indices
from kapitza.base.workers import Executor, in_order, pool_of
from kapitza.flow.clock import SAME_INSTANT
from kapitza.flow.core import TURN, Core, CoreSettings, Propagation
from kapitza.flow.engine import Engine, Event, Stretches, join_events
from kapitza.flow.smooth import SmoothEngine

Many = Propagation[Array, Sequence[Event]]
"""The propagation of many members."""

KNOTS_PER_MEMBER = 4
"""A round of few members costs 100 µs, the plan of a member 40 µs and a step of the stepper 4 µs."""

PARTS = 16
"""Parts into which many runs are cut for worker processes."""


def advance_many(
    core: Core,
    states: Array,
    t0: Array,
    t1: Array,
    vectors: Array,
    tangents: bool,
    processes: int | Executor | None = None,
) -> Many:
    """Propagate every row as `Core.advance` does.

    Rows that fail are NaN.
    """
    if isinstance(processes, (int, float)):
        processes = checks.whole("processes", processes, least=1)
    if processes is None or processes == 1 or len(states) < 2:
        return _advance_here(core, states, t0, t1, vectors, tangents)
    # The same parts whoever works: the answer must not depend on the number of workers.
    parts = np.array_split(np.arange(len(states)), min(PARTS, len(states)))
    jobs = [(core.settings, tangents, states[p], t0[p], t1[p], vectors[p]) for p in parts]
    if not isinstance(processes, int):
        return _joined(list(in_order(processes, _advance_there, jobs)))
    # This process is one of them: it works too.
    with pool_of(processes - 1) as pool:
        return _joined(list(in_order(pool, _advance_there, jobs)))


def _advance_there(settings: CoreSettings, tangents: bool, states: Array, t0: Array, t1: Array, vectors: Array) -> Many:
    return _advance_here(Core(*settings), states, t0, t1, vectors, tangents)


def _joined(parts: list[Many]) -> Many:
    jacobians = [part.jacobian for part in parts if part.jacobian is not None]
    sensitivities = [part.sensitivity for part in parts if part.sensitivity is not None]
    return Propagation(
        np.concatenate([part.state for part in parts]),
        np.concatenate(jacobians) if jacobians else None,
        np.concatenate(sensitivities) if sensitivities else None,
        np.concatenate([part.log_determinant for part in parts]),
        tuple(event for part in parts for event in part.events),
        np.concatenate([part.turns for part in parts]),
    )


@dataclass(frozen=True)
class _Round:
    """One piece of time for each of some members.

    The local times run from start to end, as in `clock.Piece`. coefficients: (B, m) run-time values of the signals at
    the starts; stretches: between the knots, where a piece has several.
    """

    members: Indices
    start: Array
    end: Array
    origin: Array
    turns: NDArray[np.int64]
    coefficients: Array | None = None
    stretches: tuple[Stretches, ...] | None = None

    def pick(self, chosen: NDArray[np.bool_]) -> _Round:
        values = None if self.coefficients is None else self.coefficients[chosen]
        some = None if self.stretches is None else tuple(self.stretches[i] for i in np.flatnonzero(chosen))
        times = self.start[chosen], self.end[chosen], self.origin[chosen]
        return _Round(self.members[chosen], *times, self.turns[chosen], values, some)


@dataclass
class _Progress:
    """Current state of each member."""

    now: Array
    offset: Array
    total: Array | None
    determinant: Array
    events: dict[int, list[tuple[Sequence[Event], float, Array | None]]]


def _advance_here(core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool) -> Many:
    """Advance all members in this process, in rounds.

    In each round every member that is not done takes its next piece. Members with equal engines share a batch.
    """
    count, n = states.shape
    kinds = core.engine_kinds(vectors)
    progress = _Progress(
        states.copy(),
        np.zeros_like(states),
        np.tile(core.unit, (count, 1, 1)) if tangents else None,
        np.zeros(count) if tangents else np.full(count, np.nan),
        {},
    )
    for all_together in _rounds(core, states, t0, t1, vectors, tangents):
        # A member that has failed stays NaN and takes no further pieces.
        alive = np.isfinite(progress.now[all_together.members]).all(axis=1)
        for kind in np.unique(kinds[all_together.members[alive]]):
            part = all_together.pick(alive & (kinds[all_together.members] == kind))
            _take(core, core.engine(vectors[part.members[0]]), part, progress, vectors)
    end = progress.now + progress.offset
    turns = np.where(core.angles & np.isfinite(end), np.round((end - states) / TURN), 0.0).astype(int)
    met, total = progress.events, progress.total
    events = tuple(join_events(met[i]) if i in met else () for i in range(count)) if met else ((),) * count
    if total is None:
        return Propagation(end, None, None, progress.determinant, events, turns)
    return Propagation(end, total[:, :, :n], total[:, :, n:], progress.determinant, events, turns)


def _take(core: Core, engine: Engine, part: _Round, progress: _Progress, vectors: Array) -> None:
    """Advance the members of a round by their pieces."""
    members = part.members
    whole = core.whole_turns(progress.now[members])
    before = progress.now[members] - whole
    progress.offset[members] += whole
    runtime = core.runtime(engine, vectors[members], part.coefficients)
    unit = None if progress.total is None else np.broadcast_to(core.unit, (members.size, *core.unit.shape))
    run = engine.run_many(before, unit, part.start, part.end, runtime, part.stretches)
    progress.now[members] = run.state
    met = () if isinstance(engine, SmoothEngine) else np.flatnonzero([len(found) for found in run.events]).tolist()
    numbers, origins, turning = members.tolist(), part.origin.tolist(), bool(core.angles.any())
    for row in met:
        i = numbers[row]
        offset = progress.offset[i].copy() if turning else None
        progress.events.setdefault(i, []).append((run.events[row], origins[row], offset))
    if progress.total is not None:
        change = run.tangents
        assert change is not None
        core.shift_origin(change, before, run.state, part.start, part.end, part.turns, runtime, run.rates)
        progress.total[members] = core.chain(change, progress.total[members])
        progress.determinant[members] += run.log_determinant


def _rounds(core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool) -> Iterator[_Round]:
    periods = core.periods(vectors)
    if periods is None and not core.has_knots:
        yield from _free_rounds(core, states, t0, t1, vectors)
        return
    one = len(vectors) > 0 and not core.engine_kinds(vectors).any()
    smooth = periods is None and one and isinstance(core.engine(vectors[0]), SmoothEngine)
    if smooth and not _spans_many_knots(core, t0, t1, vectors[0]):
        yield from _knot_rounds(core, t0, t1, vectors)
        return
    if periods is None or core.has_knots or (tangents and core.has_timed_jumps):
        yield from _planned_rounds(core, states, t0, t1, vectors, tangents)
        return
    longest = core.periods_per_piece(vectors, tangents)
    turns = np.floor(t0 / periods).astype(int)
    local, forward = t0 - turns * periods, np.where(t1 >= t0, 1, -1)
    step = longest * periods
    members = np.arange(len(states))
    while members.size:
        start, origin = local[members], turns[members] * periods[members]
        left = t1[members] - (start + origin)
        # The margin keeps rounding from leaving a last piece of no length.
        last = np.abs(left) <= step[members] * (1 + 1e-9)
        end = start + np.where(last, left, forward[members] * step[members])
        yield _Round(members, start, end, origin, turns[members].copy())
        turns[members] += forward[members] * longest
        members = members[~last]


def _spans_many_knots(core: Core, t0: Array, t1: Array, vector: Array) -> bool:
    """Return whether each member meets many more knots than there are members.

    A run of its own over all its knots then takes less time than rounds of all members from knot to knot.
    """
    knots = core.clock(vector).knots
    assert knots is not None
    first, last = np.searchsorted(knots, np.minimum(t0, t1)), np.searchsorted(knots, np.maximum(t0, t1))
    return float(np.mean(last - first)) > KNOTS_PER_MEMBER * len(t0)


def _free_rounds(core: Core, states: Array, t0: Array, t1: Array, vectors: Array) -> Iterator[_Round]:
    """Yield the rounds of a model without a period.

    Each member has one piece, or as many as a rotation needs between wrappings (see `Core.pieces`).
    """
    counts = core.piece_counts(states, t0, t1, vectors)
    timeless = core.model.structure.is_autonomous
    step = (t1 - t0) / counts
    members = np.arange(len(states))
    for i in range(int(counts.max(initial=1))):
        members = members[counts[members] > i]
        begin = t0[members] + i * step[members]
        length = np.where(counts[members] > i + 1, step[members], t1[members] - begin)
        origin = begin if timeless else np.zeros_like(begin)
        start = begin - origin
        yield _Round(members, start, start + length, origin, np.zeros(members.size, np.int64))


def _knot_rounds(core: Core, t0: Array, t1: Array, vectors: Array) -> Iterator[_Round]:
    """Yield rounds between the knots of nonrepeating signals.

    All members have the same knots, so that each round is made by array operations.
    """
    core.check_reach(t0, t1)
    clock = core.clock(vectors[0])
    knots, coefficients = clock.knots, clock.coefficients
    assert knots is not None
    assert coefficients is not None
    near = SAME_INSTANT * float(knots[-1] - knots[0])
    ahead, now, members = np.where(t1 >= t0, 1, -1), np.array(t0, float), np.arange(len(t0))
    while members.size:
        start, sign = now[members], ahead[members]
        # The interval that begins here: a knot within rounding of the start is behind it.
        index = np.where(
            sign > 0,
            np.searchsorted(knots, start + near, side="right") - 1,
            np.searchsorted(knots, start - near, side="left") - 1,
        )
        index = np.clip(index, 0, len(coefficients) - 1)
        stop = knots[np.where(sign > 0, index + 1, index)]
        last = sign * (t1[members] - stop) <= near
        end = np.where(last, t1[members], stop)
        nothing = np.zeros(members.size)
        yield _Round(members, start, end, nothing, nothing.astype(np.int64), coefficients[index])
        now[members] = end
        members = members[~last]


def _planned_rounds(
    core: Core, states: Array, t0: Array, t1: Array, vectors: Array, tangents: bool
) -> Iterator[_Round]:
    """Yield rounds in which each member has its plan.

    Plans differ by the knots of signals, jumps driven by the clock, and the rotation of autonomous models.
    """
    rows = zip(states, t0, t1, vectors, strict=True)
    # One engine takes a round: a member that runs backwards takes one stretch at a time, so the others do too.
    single = bool((t1 < t0).any())
    plans = {i: core.pieces(x, float(a), float(b), v, tangents, single) for i, (x, a, b, v) in enumerate(rows)}
    while True:
        pieces = {i: piece for i, plan in plans.items() if (piece := next(plan, None)) is not None}
        if not pieces:
            return
        plans = {i: plans[i] for i in pieces}
        found = list(pieces.values())
        stretches = tuple(p.stretches for p in found if p.stretches is not None)
        yield _Round(
            np.array(list(pieces)),
            np.array([p.start for p in found]),
            np.array([p.end for p in found]),
            np.array([p.origin for p in found]),
            np.array([p.turns for p in found]),
            np.stack([own.coefficients[0] for own in stretches]) if stretches else None,
            stretches or None,
        )
