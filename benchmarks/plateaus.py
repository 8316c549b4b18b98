"""Laws whose switching functions vanish on stretches: 300 against steps as written, 100 of them on past values."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from harness import markdown_table
from tests.flow.differences import column_error
from tests.flow.plateaus import CONSTANTS, END, LONGEST, Problem, problems, reference, reference_with_delay

from kapitza import Flow, Model, simulate
from kapitza.errors import KapitzaError

COUNT, DELAYED, SEED = 300, 100, 26
STATE, HELD, TANGENT, WITH_DELAY = 1e-7, 3e-3, 1e-6, 1e-2
"""Limits: HELD where the reference is held at a surface, which it follows to 2e-5 per step across."""

EVERY = 10
"""Of so many laws one is run in a batch as well, which compiles again."""


@dataclass(frozen=True)
class Compared:
    """Errors of the state, of a batch against it and of the tangents; refused: why not, ''  where it runs."""

    number: int
    text: str
    refused: str = ""
    held: bool = False
    state: float = 0.0
    batch: float = 0.0
    tangent: float = 0.0

    @property
    def is_right(self) -> bool:
        within = self.state <= (HELD if self.held else STATE) and self.batch <= 1e-9
        return not self.refused and within and self.tangent <= TANGENT


def compared(number: int) -> Compared:
    """One law by the flow, its tangents by differences, and the reference."""
    problem = problems(COUNT, SEED)[number]
    try:
        return _compared(number, problem)
    except KapitzaError as named:
        return Compared(number, problem.text, refused=str(named))


def _compared(number: int, problem: Problem) -> Compared:
    model = Model.from_equations(f"x'' = {problem.text}", parameters=dict.fromkeys(CONSTANTS, 0.5))
    start, values = problem.start, problem.vector
    flow = Flow(model, wrt=CONSTANTS)
    run = flow.propagate(start, 0.0, END, values)
    expected, held = reference(problem)
    error = float(np.abs(run.state - expected).max())
    if error > STATE:
        # An excursion shorter than a step of the reference is not seen by it.
        expected, held = reference(problem, longest=LONGEST / 8)
        error = float(np.abs(run.state - expected).max())
    batch = 0.0
    if number % EVERY == 0:
        together = flow.propagate_many(np.array([start, start]), 0.0, END, np.array([values, values]))
        batch = float(np.abs(together.state - run.state).max())
    return Compared(number, problem.text, "", held, error, batch, _tangents(flow, problem, run))


def _tangents(flow: Flow, problem: Problem, run: object) -> float:
    columns = np.concatenate([run.jacobian, run.sensitivity], axis=1)  # type: ignore[attr-defined]

    def moved(change: np.ndarray) -> np.ndarray:
        return flow.propagate(problem.start + change[:2], 0.0, END, problem.vector + change[2:]).state

    worst = 0.0
    for i, column in enumerate(columns.T):
        direction = np.eye(5)[i]
        if np.abs(column).max() > 1e-9:
            worst = max(worst, column_error(column, lambda s, d=direction: moved(s * d), 1.0))
        else:
            worst = max(worst, float(np.abs(moved(1e-6 * direction) - run.state).max()))  # type: ignore[attr-defined]
    return worst


def delayed(number: int) -> tuple[str, float | str]:
    """One law of past values: its error, or why it is refused."""
    problem = problems(DELAYED, SEED, delayed=True)[number]
    text = f"x'' = -x - 0.1*x' + 0.4*cos(1.7*t) - 0.5*({problem.text.split('- 0.5*', 1)[1]})"
    try:
        model = Model.from_equations(text, parameters=problem.values)
        found = simulate(model, problem.start, t=[0.0, END])
    except KapitzaError as named:
        return problem.text, str(named)
    return problem.text, float(abs(found["x"][-1] - reference_with_delay(problem)[0]))


def main() -> str:
    with ProcessPoolExecutor(2) as pool:
        laws = list(pool.map(compared, range(COUNT)))
        past = list(pool.map(delayed, range(DELAYED)))
    done = [c for c in laws if not c.refused]
    wrong, refused = [c for c in done if not c.is_right], [c for c in laws if c.refused]
    free, held = [c for c in done if not c.held], [c for c in done if c.held]
    rows = [
        _row("states at t = 6", [c.state for c in free], STATE),
        _row("states at t = 6, held at a surface on the way", [c.state for c in held], HELD),
        _row("tangents (2 states, 3 constants), against differences", [c.tangent for c in done], TANGENT),
    ]
    numbers = [e for _, e in past if not isinstance(e, str)]
    named = [e for _, e in past if isinstance(e, str)]
    together = sum("has delays" in e for e in named)
    off = [(text, e) for text, e in past if not isinstance(e, str) and e > WITH_DELAY]
    lines = [
        "# Switching functions that vanish on stretches",
        "",
        f"{COUNT} different random laws (seed {SEED}, `tests/flow/plateaus.py`): sign, Heaviside, Piecewise, abs, min "
        "and max of functions that are zero on stretches, inside each other. The reference evaluates the law as "
        "written in plain Python, takes a step only where all comparisons in it have the same outcomes, and knows "
        "neither modes nor events.",
        "",
        markdown_table(["compared", "laws", "within the limit", "median error", "largest error", "limit"], rows),
        "",
        f"Wrong: {len(wrong)}. Refused with an error: {len(refused)}." + (" **missed**" if wrong else ""),
        *(f"- {c.number}: refused: `{c.refused[:200]}`" for c in refused[:20]),
        *(f"- {c.number}: {c.state:.1e}, batch {c.batch:.1e}, tangents {c.tangent:.1e}: `{c.text}`" for c in wrong),
        "",
        "## The same on past values",
        "",
        f"{DELAYED} random laws of the state one second ago. Refused with an error: {len(named)} ({together} as delays "
        f"together with switches). Right within {WITH_DELAY:g}, as nothing switches: {len(numbers) - len(off)}. "
        f"Wrong: {len(off)}." + (" **missed**" if off else ""),
        *(f"- {e:.1e}: `{text}`" for text, e in off),
    ]
    return "\n".join(lines)


def _row(name: str, errors: list[float], limit: float) -> list[str]:
    if not errors:
        return [name, "0", "0", "-", "-", f"{limit:g}"]
    within = sum(e <= limit for e in errors)
    return [name, str(len(errors)), str(within), f"{np.median(errors):.1e}", f"{max(errors):.1e}", f"{limit:g}"]
