"""Random models with friction, walls, gaps and nested laws: the compiled stepper against plain small steps.

The reference knows no events: midpoint steps of the equations as they are written, with sign, max and abs evaluated,
and a reset where a step ends behind a wall. It is wrong by about a step, which sets the limit; no code is shared but
the right-hand side.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from harness import markdown_table
from numpy.typing import NDArray
from tests.flow.hybrids import draws, hybrid

from kapitza.errors import KapitzaError
from kapitza.flow.core import Core
from kapitza.flow.events import EventEngine
from kapitza.model import compile_expressions

Array = NDArray[np.float64]

STRUCTURES, DRAWS = 170, 30
PERIODS = 2.9
STEPS = 8000
LIMIT = 20.0
"""Largest difference, in steps times 1 + the size of the tangents: an error of the reference may have grown to it."""


def small_steps(core: Core, starts: Array, ends: Array, runtime: Array) -> Array:
    """States (B, n) at `ends` from `starts` at 0, all runs side by side."""
    system = core.system
    walls = [compile_expressions((w.surface, *w.reset), (*system.states, "t"), system.parameters) for w in system.walls]
    values = np.ascontiguousarray(runtime[:, : len(system.parameters)].T)
    now, h = starts.copy(), ends / STEPS
    distances = [w(np.vstack((now.T, np.zeros(len(now)))), values)[0] for w in walls]
    for i in range(STEPS):
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
            distances[j] = found[0]
        now = ahead
    return now


def main() -> str:
    found: Counter[str] = Counter()
    worst: list[float] = []
    seed = used = 0
    while used < STRUCTURES:
        model, number = hybrid(seed).model(), seed
        seed += 1
        starts, vectors = draws(model, number, DRAWS)
        core = Core(model, tuple(model.names[:2]), 1e-15, 100_000)
        engine = core.engine(vectors[0])
        if not isinstance(engine, EventEngine) or engine.kernel(True) is None:
            continue
        used += 1
        ends = PERIODS * 2 * np.pi / vectors[:, model.names.index("w")]
        reference = small_steps(core, starts, ends, vectors)
        for start, vector, end, expected in zip(starts, vectors, ends, reference, strict=True):
            try:
                run = engine.run(start, engine.unit, 0.0, float(end), core.runtime(engine, vector, None))
            except KapitzaError:
                found["refused"] += 1
                continue
            assert run.tangents is not None
            size = 1.0 + np.abs(run.tangents).max()
            apart = float(np.abs(run.state - expected).max() / (size * end / STEPS))
            worst.append(apart)
            right = apart <= LIMIT
            found["as in small steps" if right else "apart"] += 1
            if not right:
                print(number, "apart", f"{apart:.3g}", f"{size:.3g}", start.tolist(), vector.tolist(), flush=True)
    rows = [[name, str(count)] for name, count in found.most_common()]
    return (
        f"{sum(found.values())} runs of {used} random structures, {PERIODS} periods in {STEPS} small steps.\n\n"
        + markdown_table(["outcome", "runs"], rows)
        + f"\n\nDifferences over a step times 1 + the size of the tangents: median {np.median(worst):.2g}, largest "
        f"{max(worst):.2g}, limit {LIMIT:g}."
    )
