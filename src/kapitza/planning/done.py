"""Experiments that a fit has already used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import as_parts
from kapitza.estimate import Estimate
from kapitza.planning.choice import Choice


@dataclass(frozen=True)
class Done:
    """Run that was measured.

    It holds the run as a choice, and the root mean square of its channels.
    """

    choice: Choice
    size: Mapping[str, float]


def done_by(fit: Estimate) -> tuple[Done, ...]:
    """Return the runs that a fit used.

    They are the uninterrupted stretches of the recordings of a fit by shooting; other methods have none.
    """
    motion = fit.motion
    if motion is None:
        return ()
    parts = as_parts(fit.data)
    channels = tuple(fit.residuals)
    found, begun = [], 0
    for piece in np.unique(motion.piece):
        here = motion.piece == piece
        times = motion.sample_times[here]
        number = int(motion.record[here][0]) if motion.record is not None else 0
        node = begun
        begun = _next_piece(motion.times, node, float(times[-1]))
        # A sampling interval needs at least two steps.
        if times.size < 3:
            continue
        start = dict(zip(fit.model.states, motion.states[node].tolist(), strict=True))
        noise = motion.noise_by_record[min(number, len(motion.noise_by_record) - 1)]
        own = {n: v for n, v in parts[min(number, len(parts) - 1)].values.items() if n in fit.model.names}
        run = Choice(
            {**own},
            start,
            float(times[-1] - times[0]),
            # Differences of time stamps carry their rounding: 0.09999999999999964 on a run sheet.
            float(f"{np.median(np.diff(times)):.9g}"),
            {n: float(noise[n]) for n in channels},
            begin=float(times[0]),
        )
        measured = motion.measured[here]
        size = {name: float(np.nanstd(measured[:, i])) for i, name in enumerate(channels)}
        found.append(Done(run, size))
    return tuple(found)


def _next_piece(nodes: Array, first: int, end: float) -> int:
    """Return the first node of the next piece.

    The present piece begins at node `first` and ends at time `end`.
    Nodes (J,) of all pieces follow each other, and those of two records may have the same times.
    """
    rest = nodes[first + 1 :]
    behind = (rest > end) | (np.diff(nodes[first:]) <= 0)
    return first + 1 + (int(behind.argmax()) if behind.any() else rest.size)
