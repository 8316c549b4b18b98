"""Five thousand random models with friction, walls, gaps and nested laws: the compiled stepper against the integrators
that are compiled for each regime."""

from __future__ import annotations

from collections import Counter
from time import process_time

import numpy as np
from harness import markdown_table
from tests.flow.hybrids import draws, hybrid

from kapitza.errors import KapitzaError
from kapitza.flow.core import Core
from kapitza.flow.engine import Run
from kapitza.flow.events import EventEngine

STRUCTURES, DRAWS = 170, 30
PERIODS = 2.9
"""Not a whole number: surfaces that are driven by the clock meet where periods end."""
STATE, TANGENT = 1e-11, 1e-7
"""Largest differences, over 1 + the size of the tangents: what a rounding error may have grown to."""


SAME_INSTANT = 1e-9


def instants(run: Run, end: float) -> list[list[tuple[str, int]]]:
    """Kinds and surfaces of the events, instant by instant: those of one instant have no order.

    An event within rounding of the end is or is not in the run.
    """
    found: list[list[tuple[str, int]]] = []
    last = -np.inf
    for event in run.events:
        if event.time > end - SAME_INSTANT:
            break
        if event.time - last > SAME_INSTANT:
            found.append([])
        found[-1].append((event.kind, event.index))
        last = event.time
    return [sorted(kinds) for kinds in found]


def outcome(ours: Run | KapitzaError, theirs: Run | KapitzaError, end: float) -> str:
    """How two runs of the same motion compare."""
    if isinstance(ours, KapitzaError) or isinstance(theirs, KapitzaError):
        if isinstance(ours, KapitzaError) and isinstance(theirs, KapitzaError):
            return "refused by both"
        return "refused by the stepper" if isinstance(ours, KapitzaError) else "refused by the integrators"
    assert ours.tangents is not None
    assert theirs.tangents is not None
    size = 1.0 + np.abs(theirs.tangents).max()
    if np.abs(ours.state - theirs.state).max() > STATE * size:
        return "other state"
    if np.abs(ours.tangents - theirs.tangents).max() > TANGENT * size:
        return "other tangents"
    # Two surfaces that touch for a moment of rounding are passed, or left and entered again.
    return "equal" if instants(ours, end) == instants(theirs, end) else "equal, a touch is noted otherwise"


def main() -> str:
    found: Counter[str] = Counter()
    events = handled = given_back = elsewhere = 0
    spent = {"stepper": 0.0, "integrators": 0.0}
    seed = used = 0
    while used < STRUCTURES:
        model, number = hybrid(seed).model(), seed
        seed += 1
        starts, vectors = draws(model, number, DRAWS)
        core = Core(model, tuple(model.names[:2]), 1e-15, 100_000)
        engine = core.engine(vectors[0])
        kernel = engine.kernel(True) if isinstance(engine, EventEngine) else None
        if not isinstance(engine, EventEngine) or kernel is None:
            continue  # every switch is continuous: another engine
        used += 1
        other = EventEngine(engine.system, engine.wrt, engine.tolerance)
        other.kernel = lambda with_tangents: None  # type: ignore[method-assign]
        for start, vector in zip(starts, vectors, strict=True):
            end = PERIODS * 2 * np.pi / vector[model.names.index("w")]
            runs: list[Run | KapitzaError] = []
            for name, chosen in (("stepper", engine), ("integrators", other)):
                begin = process_time()
                try:
                    runs.append(chosen.run(start, chosen.unit, 0.0, end, core.runtime(engine, vector, None)))
                except KapitzaError as refusal:
                    runs.append(refusal)
                spent[name] += process_time() - begin
            result = outcome(runs[0], runs[1], end)
            found[result] += 1
            if result in ("other state", "other tangents", "refused by the stepper"):
                print(number, result, start.tolist(), vector.tolist(), flush=True)
            events += 0 if isinstance(runs[0], KapitzaError) else len(runs[0].events)
        handled, given_back = handled + kernel.handled, given_back + kernel.given_back
        elsewhere += kernel.elsewhere
    rows = [[name, str(count)] for name, count in found.most_common()]
    total = sum(found.values())
    share = 100 * given_back / max(1, handled + given_back)
    ratio = spent["integrators"] / spent["stepper"]
    return "\n".join(
        [
            f"{total} runs of {used} random structures (one to three bodies, {PERIODS} periods, tangents by all states "
            f"and two parameters), {events} events noted.",
            "",
            markdown_table(["outcome", "runs"], rows),
            "",
            f"Events decided by the stepper: {handled}. Instants given to the event logic in Python: {given_back} "
            f"({share:.1f} %, target 3 %). Stretches run by another integrator: {elsewhere}.",
            "",
            f"Processor time: {spent['stepper']:.1f} s by the stepper, {spent['integrators']:.1f} s by the integrators "
            f"of each regime, their compilation included ({ratio:.0f} times).",
        ]
    )
