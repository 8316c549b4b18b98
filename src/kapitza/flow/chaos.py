"""Long records of chaotic motion, restarted after settling.

The chaos of many systems is transient: the motion settles on a periodic orbit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Count, Index, NotNegative, Seed, checked
from kapitza.base.arrays import Array, Indices
from kapitza.errors import FlowError
from kapitza.flow.flow import Flow
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.data import Record


CHUNK = 20
"""Excitation periods between two tests of whether the motion is still chaotic."""

LOOK_BACK = 24
"""Periods over which a motion must repeat itself to count as settled."""


@checked
def chaotic_record(
    model: Model,
    periods: Count,
    samples_per_period: Count = 1,
    seed: Seed | None = None,
    *,
    spread: Mapping[str, float] | None = None,
    transient: Index = 20,
    shortest: Count = 60,
    longest_cycle: Count = 12,
    tolerance: NotNegative = 5e-3,
) -> Record:
    """Simulate `periods` excitation periods of chaotic motion.

    The motion starts from a random state; `transient` periods are dropped. When the strobed states repeat after
    q <= longest_cycle periods, within `tolerance` of their spread (angles of 2π), throughout the last 24 periods, the
    motion has settled: the settled part is cut off, with twice the look-back before it, and a new start is drawn.
    Segments shorter than `shortest` periods are dropped. Every segment begins at phase zero of the excitation.
    spread: half range of the random start, by state (default: π for angles, 1 for others), around the model's start.
    """
    model.needs_repetition("excitation periods to count")
    flow = Flow(model)
    period = flow.period()
    if period is None:
        raise FlowError(f'Model "{model.name}" is autonomous: chaotic_record counts excitation periods; use simulate.')
    random = np.random.default_rng(checks.seed(seed))
    centre = np.array([model.start.get(name, 0.0) for name in model.states])
    half = np.array(
        [(spread or {}).get(n, np.pi if a else 1.0) for n, a in zip(model.states, model.angles, strict=True)]
    )
    # A state whose spread is zero still needs a positive tolerance.
    size = np.where(model.angles, 2 * np.pi, np.maximum(half, 1e-12))
    pieces: list[Array] = []
    missing, tries = periods, 0
    while missing > 0:
        tries += 1
        if tries > 50 + 10 * periods // shortest:
            raise FlowError(
                f'Model "{model.name}": after {tries} random starts only {periods - missing} of {periods} chaotic '
                "periods were found; the chaos is too short-lived here. Lower `shortest`, or change the parameters."
            )
        start = centre + half * random.uniform(-1.0, 1.0, len(half))
        piece = _until_settled(flow, start, missing + transient, samples_per_period, size, longest_cycle, tolerance)
        piece = piece[transient * samples_per_period :]
        if len(piece) < min(shortest, missing) * samples_per_period:
            continue
        pieces.append(piece)
        missing -= len(piece) // samples_per_period
    return _segments(model, pieces, period, samples_per_period)


def _until_settled(
    flow: Flow, start: Array, periods: int, samples: int, size: Array, cycle: int, tolerance: float
) -> Array:
    """Return continuous states (n, states) until the motion settles.

    The run ends there, or when the periods are through.
    """
    blocks: list[Array] = []
    state, turns, done = start, np.zeros(start.size), 0
    while done < periods:
        chunk = min(CHUNK, periods - done)
        strobe = flow.strobe(state, chunk, samples)
        blocks.append(strobe.continuous[:-1] + 2 * np.pi * turns)
        turns = turns + strobe.turns[-1]
        state = strobe.states[-1]
        done += chunk
        recent = np.concatenate(blocks[-3:])[::samples]
        if len(recent) >= LOOK_BACK + cycle and _repeats(
            recent[-LOOK_BACK - cycle :], flow.model, size, cycle, tolerance
        ):
            # The motion settles before the test shows it: cut the look-back and twice as much before it.
            keep = max(0, done - 3 * LOOK_BACK) * samples
            return np.concatenate(blocks)[:keep]
    return np.concatenate(blocks)


def _repeats(strobed: Array, model: Model, size: Array, cycle: int, tolerance: float) -> bool:
    for q in range(1, cycle + 1):
        gap = difference(strobed[q:], strobed[:-q], model.angles)
        if (np.abs(gap[-LOOK_BACK + q :]) <= tolerance * size).all():
            return True
    return False


def _segments(model: Model, pieces: list[Array], period: float, samples: int) -> Record:
    """Join the pieces into one record of segments.

    Each piece starts at a whole period, one period after the last began to end.
    """
    times: list[Array] = []
    labels: list[Indices] = []
    begin = 0
    for number, piece in enumerate(pieces):
        times.append((begin + np.arange(len(piece)) / samples) * period)
        labels.append(np.full(len(piece), number))
        begin += -(-len(piece) // samples) + 1
    states = np.concatenate(pieces)
    # Loaded here: a flow alone should not pay the memory of labelled arrays.
    from kapitza.data import Record

    return Record.from_arrays(
        np.concatenate(times),
        {name: states[:, i] for i, name in enumerate(model.states)},
        angles=[n for n, a in zip(model.states, model.angles, strict=True) if a],
        units=model.units,
        segment=np.concatenate(labels),
        period=period,
        name=model.name,
        source="simulated",
    )
