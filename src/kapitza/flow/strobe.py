"""Strobing: samples at fractions of the excitation period.

Runs may have millions of periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kapitza.base.angles import split_turns
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.flow import arguments
from kapitza.flow.batch import advance_many
from kapitza.flow.core import PERIODS_PER_PIECE, TURN, Core, Filled


@dataclass(frozen=True)
class Strobe:
    """Strobed states.

    states: (N+1, n) with angles in [-π, π); turns: (N+1, n) whole turns since the start; times: (N+1,).
    Continuous angles are states + 2π turns. The object converts to its states, np.asarray(strobe).
    followed: members that a device handed back and the processor followed.
    """

    times: Array
    states: Array
    turns: NDArray[np.int32]
    followed: int = 0

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.states, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def continuous(self) -> Array:
        """States with continuous angles, states + 2π turns."""
        return self.states + TURN * self.turns


def strobe(
    core: Core,
    x: Anything,
    periods: int,
    samples_per_period: int,
    vector: Array,
    phase: float,
    after: Filled | None = None,
) -> Strobe:
    state = arguments.state_vector(core.model, x)
    periods = arguments.whole("periods", periods, 0)
    per_period = arguments.whole("samples_per_period", samples_per_period, 1)
    phase = arguments.instant("phase", phase)
    clock = core.clock(vector)
    if clock.period is None:
        raise arguments.unforced(core.model)
    phase = float(phase % clock.period)
    count = periods * per_period
    states, turns = np.empty((count + 1, core.size)), np.zeros((count + 1, core.size), np.int32)
    states[0], turns[0] = split_turns(state, core.angles)
    fill = _strobe_between_knots if clock.knots is not None else _strobe_blocks
    fill(core, states, turns, vector, clock.period, phase, per_period, after)
    times = instants(phase, clock.period, per_period, periods)
    return Strobe(times, states, turns)


def instants(phase: float, period: float, per_period: int, periods: int) -> Array:
    """Return the times of the samples.

    They are (periods · per_period + 1,); whole periods are exact multiples.
    """
    times = np.arange(periods * per_period + 1, dtype=np.float64)
    # Divided first, the whole periods are exact multiples of the period.
    times /= per_period
    times *= period
    times += phase
    return times


def _strobe_blocks(
    core: Core, states: Array, turns: NDArray[np.int32], vector: Array, period: float, phase: float, per_period: int,
    after: Filled | None,
) -> None:  # fmt: skip
    """Strobe in blocks of periods, in compiled code.

    Each block starts at the same wrapped time with wrapped angles.
    """
    engine = core.engine(vector)
    block = PERIODS_PER_PIECE * per_period
    grid = instants(phase, period, per_period, PERIODS_PER_PIECE)
    runtime, memory = core.runtime(engine, vector, None), None
    for first in range(0, len(states) - 1, block):
        size = min(block, len(states) - 1 - first)
        part = grid[: size + 1]
        run = engine.run(states[first], None, part[0], part[-1], runtime, part, memory)
        assert run.grid_states is not None
        inside, whole = split_turns(run.grid_states[1:], core.angles)
        states[first + 1 : first + 1 + size] = inside
        turns[first + 1 : first + 1 + size] = turns[first] + whole
        memory = run.memory
        if after is not None:
            after(states, first + 1 + size)


def _strobe_between_knots(
    core: Core, states: Array, turns: NDArray[np.int32], vector: Array, period: float, phase: float, per_period: int,
    after: Filled | None,
) -> None:  # fmt: skip
    """Strobe one period at a time, between knots.

    The knots are those of the measured signals.
    """
    grid = instants(phase, period, per_period, 1)
    for first in range(0, len(states) - 1, per_period):
        samples = core.sample(states[first], grid, vector, tangents=False)[0]
        inside, whole = split_turns(samples[1:], core.angles)
        states[first + 1 : first + 1 + per_period] = inside
        turns[first + 1 : first + 1 + per_period] = turns[first] + whole
        if after is not None:
            after(states, first + 1 + per_period)


def strobe_many(core: Core, starts: Array, periods: int, vectors: Array, phase: float) -> Strobe:
    """Strobe many states (B, n) side by side.

    Each has its parameters (B, npar); see `Flow.strobe_many`.
    """
    count = arguments.whole("periods", periods, 0)
    lengths = core.periods(vectors)
    if lengths is None:
        raise arguments.unforced(core.model)
    begin = np.mod(arguments.instant("phase", phase), lengths)
    states, turns = np.empty((count + 1, *starts.shape)), np.zeros((count + 1, *starts.shape), np.int32)
    states[0], turns[0] = split_turns(starts, core.angles)
    for i in range(count):
        end = advance_many(core, states[i], begin, begin + lengths, vectors, tangents=False).state
        alive = np.isfinite(end)
        inside, whole = split_turns(np.where(alive, end, 0.0), core.angles)
        states[i + 1], turns[i + 1] = np.where(alive, inside, np.nan), turns[i] + whole
    times = begin + lengths * np.arange(count + 1)[:, None]
    return Strobe(times, states, turns)
