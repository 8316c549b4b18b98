"""Plain small steps of random models with events, independent of the event engine.

The reference knows no events: midpoint steps of the equations as they are written, with sign, max and abs evaluated,
and a reset where a step ends behind a wall. Its error is about one step; no code is shared but the right-hand side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.flow.core import Core
from kapitza.model import compile_expressions

Array = NDArray[np.float64]


@dataclass
class Reference:
    """Small steps of B runs: states (B, n) at the ends, impacts (B, walls), sign changes (B, switches)."""

    states: Array
    impacts: NDArray[np.int64]
    flips: NDArray[np.int64]


def small_steps(core: Core, starts: Array, ends: Array, runtime: Array, steps: int) -> Reference:
    """All runs side by side, from `starts` at 0."""
    system = core.system
    inputs = (*system.states, "t")
    walls = [compile_expressions((w.surface, *w.reset), inputs, system.parameters) for w in system.walls]
    plain = plain_switches(core)
    switches = compile_expressions([system.switches[i].function for i in plain], inputs, system.parameters)
    values = np.ascontiguousarray(runtime[:, : len(system.parameters)].T)

    def signs(x: Array, t: Array) -> Array:
        return np.sign(switches(np.vstack((x.T, t)), values)).T if plain else np.zeros((len(x), 0))

    count, h = len(starts), ends / steps
    now, side = starts.copy(), signs(starts, np.zeros(count))
    impacts, flips = np.zeros((count, len(walls)), int), np.zeros((count, len(plain)), int)
    distances = [w(np.vstack((now.T, np.zeros(count))), values)[0] for w in walls]
    for i in range(steps):
        t = i * h
        middle = now + h[:, None] / 2 * core.rates(now, t, runtime)
        ahead = now + h[:, None] * core.rates(middle, t + h / 2, runtime)
        for j, wall in enumerate(walls):
            found = wall(np.vstack((ahead.T, t + h)), values)
            hit = (found[0] < 0) & (found[0] < distances[j])
            if hit.any():
                # The straight line to the wall, the reset there, and on at the rates behind it.
                share = np.clip(distances[j][hit] / (distances[j][hit] - found[0][hit]), 0.0, 1.0)
                at, when = now[hit] + share[:, None] * (ahead[hit] - now[hit]), t[hit] + share * h[hit]
                after = wall(np.vstack((at.T, when)), values[:, hit])[1:].T
                left = ((1 - share) * h[hit])[:, None]
                ahead[hit] = after + left * core.rates(after, when, runtime[hit])
                found = wall(np.vstack((ahead.T, t + h)), values)
                impacts[hit, j] += 1
            distances[j] = found[0]
        beyond = signs(ahead, t + h)
        flips += beyond != side
        now, side = ahead, beyond
    return Reference(now, impacts, flips)


def plain_switches(core: Core) -> list[int]:
    """Switches that jump and whose functions hold no mode of another switch."""
    modes = {s.mode for s in core.system.switches}
    switches = enumerate(core.system.switches)
    return [i for i, s in switches if not s.continuous and modes.isdisjoint(s.function.free_symbols)]
