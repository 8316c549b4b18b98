"""Jobs of the verbs as work for kernels.

A thread stops where it cannot decide: a graze, a chatter, a motion that sticks, more steps than expected. Those rows
are handed back to the processor, which follows them as it does without a device, and they are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Required, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import split_turns
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import ModelError
from kapitza.flow.batch import Many
from kapitza.flow.core import TURN, Core, Propagation
from kapitza.flow.device import card
from kapitza.flow.device.card import Found, Work, in_parts
from kapitza.flow.device.source import Program, kernel_source, refuse
from kapitza.flow.engine import System
from kapitza.flow.hoisting import hoist_constants
from kapitza.flow.strobe import Strobe, strobe_many
from kapitza.model import Model, symbol

DONE, DIVERGED, HANDED_BACK = 0, 1, 2
"""Status of a thread; anything beyond is handed back too."""

STEPS_PER_STRETCH, FEWEST_STEPS = 2000, 20_000
"""Steps after which a thread hands its trajectory back: a smooth period takes some ten to a hundred."""

TOLERANCES = (1e-13, 1e-6)
"""Range of the tolerance of a step in double precision; finer ones of a flow are taken as the first."""

SAME = 1e-12
"""Share of a period that is not followed at its end: rounding of times."""


class Settings(TypedDict, total=False):
    """Fields of `Work` that a job sets.

    The others have defaults.
    """

    begins: Array
    lengths: Array
    wholes: Required[NDArray[np.int32]]
    rests: Array
    setup: NDArray[np.int32]
    nets: Array
    turns: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """Trajectories of a model, ready for kernels.

    vectors: their parameters (B, npar).
    """

    model: Model
    system: System
    vectors: Array
    tolerance: float
    is_map: bool = False

    @staticmethod
    def of_flow(core: Core, vectors: Array, model: Model) -> Task:
        if core.has_knots:
            raise ModelError(
                f'Model "{model.name}" cannot be followed on a device: its excitation is measured, with knots. Leave '
                f"{Give('device')} out, or give the signal as a Fourier series."
            )
        kinds = core.engine_kinds(vectors)
        system = core.engine(vectors[0]).system
        if kinds.any():
            system = hoist_constants(core.system, frozenset(symbol(name) for name in model.names))
        return Task(model, system, vectors, float(np.clip(core.tolerance, *TOLERANCES)))

    @staticmethod
    def of_map(model: Model, vectors: Array) -> Task:
        names = (symbol(s) for s in model.states), (symbol(p) for p in model.names)
        states, parameters = (tuple(n) for n in names)
        rates = tuple(model.structure.rates)
        system = System(states, parameters, rates, rates, tuple(model.angles))
        return Task(model, system, vectors, 1e-9, is_map=True)

    @property
    def size(self) -> int:
        return len(self.system.states)

    def run(self, program: Program, states: Array, out: tuple[int, ...], **settings: Unpack[Settings]) -> Found:
        """Launch a job from states (B, n).

        settings: fields of `Work`.
        """
        n = self.size
        refuse(self.system, n + n * program.columns + int(program.volume), self.model.name)
        # Parameters that all trajectories share are often one row that is repeated without copies.
        shared = len(self.vectors) < 2 or self.vectors.strides[0] == 0
        different = () if shared else tuple(np.flatnonzero((self.vectors != self.vectors[:1]).any(axis=0)).tolist())
        program = replace(program, own=different, is_map=self.is_map)
        given: Settings = {
            "begins": np.zeros(1), "rests": np.zeros(1), "lengths": np.ones(1), "setup": np.array([1], np.int32),
            "nets": np.zeros(1), **settings,
        }  # fmt: skip
        stretches = int((np.max(settings["wholes"]) + 1) * given["setup"][0])
        work = Work(
            states.T, self.vectors[0], self.vectors[:, list(different)].T, tolerance=self.tolerance, out=out,
            max_steps=min(FEWEST_STEPS + STEPS_PER_STRETCH * stretches, 2**31 - 1), **given,
        )  # fmt: skip
        found = in_parts(card.cuda(), kernel_source(program), work)
        if self.system.edges:
            # Where a term ends, only the processor can tell whether the motion continues.
            found.marks[0][found.marks[0] == DIVERGED] = HANDED_BACK
        return found


def _one_or_each(values: Array) -> Array:
    """Return one value (1,) where all are equal."""
    return values[:1] if (values == values[0]).all() else values


def _program(task: Task, job: str, columns: int = 0, volume: bool = False) -> Program:
    return Program(task.system, job, columns, volume=volume)


def propagate_on_device(
    core: Core,
    model: Model,
    states: Array,
    t0: Array,
    t1: Array,
    vectors: Array,
    tangents: bool,
    follow: Callable[[NDArray[np.intp]], Many],
) -> Many:
    """Do the work of `advance_many` on the device.

    follow(rows) follows some rows on the processor.
    """
    if tangents and core.wrt:
        raise ModelError(
            f"Sensitivities by parameter are not computed on a device; leave {Give('device')} or {Give('wrt')} out."
        )
    if (t1 < t0).any():
        raise ModelError(f"Trajectories on a device run forwards; leave {Give('device')} out for t1 < t0.")
    task, n = Task.of_flow(core, vectors, model), core.size
    periods = core.periods(vectors)
    if periods is None:
        begin = np.zeros_like(t0) if model.structure.is_autonomous else t0
        lengths, wholes, rests = np.ones_like(t0), np.zeros(len(t0)), t1 - t0
    else:
        begin, lengths = np.mod(t0, periods), periods
        wholes = np.floor((t1 - t0) / periods + SAME)
        rests = t1 - t0 - wholes * periods
        rests = np.where(rests <= SAME * periods, 0.0, rests)
    columns = n if tangents else 0
    found = task.run(
        _program(task, "ENDS", columns, volume=tangents), states, (n + n * columns + tangents,), turns=(n,),
        wholes=_one_or_each(wholes).astype(np.int32), begins=_one_or_each(begin),
        lengths=_one_or_each(lengths), rests=_one_or_each(rests),
    )  # fmt: skip
    ends = found.out[:n].T + TURN * found.turns.T + core.whole_turns(states)
    jacobian = found.out[n : n + n * n].T.reshape(-1, n, n) if tangents else None
    lost = (found.marks[0] == DIVERGED) | ((found.marks[0] == DONE) & ~np.isfinite(ends).all(axis=1))
    ends[lost] = np.nan
    back = np.flatnonzero(~lost & (found.marks[0] != DONE))
    if back.size:
        again = follow(back)
        ends[back] = again.state
        if jacobian is not None:
            jacobian[back] = again.jacobian
    # The integral of the divergence: of the determinant of the product little is left after many periods.
    determinants = found.out[-1].copy() if tangents else np.full(len(states), np.nan)
    if jacobian is not None:
        jacobian[lost], determinants[lost] = np.nan, np.nan
        if back.size:
            determinants[back] = again.log_determinant
    turns = np.where(core.angles & np.isfinite(ends), np.round((ends - states) / TURN), 0.0).astype(int)
    none = None if jacobian is None else np.empty((len(states), n, 0))
    return Propagation(ends, jacobian, none, determinants, ((),) * len(states), turns, int(back.size))


def strobe_on_device(core: Core, model: Model, starts: Array, periods: int, vectors: Array, phase: float) -> Strobe:
    """Do the work of `strobe_many` on the device."""
    lengths = core.periods(vectors)
    assert lengths is not None
    task, (count, n) = Task.of_flow(core, vectors, model), starts.shape
    begin = np.mod(phase, lengths)
    states, turns = np.empty((periods + 1, count, n)), np.zeros((periods + 1, count, n), np.int32)
    states[0], turns[0] = split_turns(starts, core.angles)
    followed = 0
    if periods:
        found = task.run(
            _program(task, "STROBE"), starts, (periods, n), turns=(periods + 1, n),
            wholes=np.array([periods], np.int32), begins=_one_or_each(begin), lengths=_one_or_each(lengths),
        )  # fmt: skip
        inside, whole = split_turns(np.moveaxis(found.out, 2, 1), core.angles)
        states[1:], turns[1:] = inside, turns[0] + np.moveaxis(found.turns, 2, 1)[1:] + whole
        status = found.marks[0]
        back = np.flatnonzero(status != DONE)
        followed = int((status > DIVERGED).sum())
        if back.size:
            # Also those that diverge: only the processor knows where.
            again = strobe_many(core, starts[back], periods, vectors[back], phase)
            states[:, back], turns[:, back] = again.states, again.turns
    times = begin + lengths * np.arange(periods + 1)[:, None]
    return Strobe(times, states, turns, followed)


def prepare_nets(task: Task) -> Future[None]:
    """Compile the kernel of `nets_on_device` in a thread.

    The thread also opens the card, while the processor finds the nets.
    """
    refuse(task.system, task.size, task.model.name)
    program = replace(_program(task, "NETS"), is_map=task.is_map)
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(lambda: card.cuda().prepare(kernel_source(program)))
    finally:
        pool.shutdown(wait=False)


def nets_on_device(
    task: Task, starts: Array, period: float, transient: int, looks: int, nets: Array
) -> tuple[NDArray[np.int32], Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Label starts by the net that they enter.

    Returns labels (B,), -1 for none; states (B, n); and which rows diverged or are handed back.

    nets: (k, n + n² + 1) rows of centre, weight and number.
    """
    n = task.size
    found = task.run(
        _program(task, "NETS"), starts, (n,), wholes=np.array([transient], np.int32), lengths=np.array([period]),
        setup=np.array([1, looks, len(nets)], np.int32), nets=np.ascontiguousarray(nets.ravel()),
    )  # fmt: skip
    status, states = found.marks[0], found.out.T
    diverged = (status == DIVERGED) | ((status == DONE) & ~np.isfinite(states).all(axis=1))
    return found.marks[1], states, diverged, (status != DONE) & ~diverged


def growth_on_device(
    task: Task, starts: Array, lengths: Array, parts: int, plan: tuple[int, int, int], frame: Array
) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Compute the logarithmic growth of frames.

    Returns ln of the growth, (B, blocks, n), and which rows diverged or are handed back.

    lengths: (B,) of the steps; plan: steps before, steps of a block, blocks. In flows the last axis follows from the
    integral of the divergence: a frame of n - 1 vectors is enough.
    """
    n, (before, steps, blocks) = task.size, plan
    found = task.run(
        _program(task, "GROWTH", n if task.is_map else n - 1, volume=not task.is_map), starts, (blocks, n),
        wholes=np.array([before + steps * blocks], np.int32), lengths=_one_or_each(lengths),
        setup=np.array([parts, before, steps], np.int32), nets=np.ascontiguousarray(frame.ravel()),
    )  # fmt: skip
    growth, status = np.moveaxis(found.out, 2, 0), found.marks[0]
    diverged = status == DIVERGED
    # A sum is not finite where one of its numbers is not, and takes a tenth of the time of asking each.
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(found.out.sum(axis=(0, 1)))
    back = ~diverged & ((status != DONE) | lost)
    if diverged.any() or back.any():
        growth[diverged | back] = np.nan
    return growth, diverged, back
