"""Three hundred random expressions with switches inside switches: states against small steps, tangents against
differences."""

from __future__ import annotations

import numpy as np
from harness import markdown_table
from tests.flow.differences import column_error
from tests.flow.nested import CONSTANTS, END, Problem, problems, reference

from kapitza import Flow, Model
from kapitza.errors import KapitzaError

COUNT, SEED = 300, 12
STATE, TANGENT = 3e-6, 1e-6


def compared(problem: Problem) -> tuple[float, float] | str:
    """Largest difference of the end state from the reference, and of a tangent column from differences; or why not."""
    try:
        return _compared(problem)
    except KapitzaError as named:
        return str(named)


def _compared(problem: Problem) -> tuple[float, float]:
    model = Model.from_equations(f"x'' = {problem.force.text}", parameters=dict.fromkeys(CONSTANTS, 0.5))
    start, values = problem.start, problem.vector
    flow = Flow(model, wrt=CONSTANTS)
    run = flow.propagate(start, 0.0, END, values)
    expected = reference(problem.force.value, problem.values, start, np.array([0.0, END]))[-1]

    def moved(change: np.ndarray) -> np.ndarray:
        # The integrator with tangents serves for the differences too: one compilation for each expression.
        return flow.propagate(start + change[:2], 0.0, END, values + change[2:]).state

    assert run.jacobian is not None
    assert run.sensitivity is not None
    columns = np.concatenate([run.jacobian, run.sensitivity], axis=1)
    worst = 0.0
    for i, column in enumerate(columns.T):
        direction = np.eye(5)[i]
        if np.abs(column).max() > 1e-9:
            worst = max(worst, column_error(column, lambda s, d=direction: moved(s * d), 1.0))
        else:
            worst = max(worst, float(np.abs(moved(1e-4 * direction) - run.state).max()))
    return float(np.abs(run.state - expected).max()), worst


def main() -> str:
    chosen = problems(COUNT, SEED)
    ends = [compared(problem) for problem in chosen]
    pairs = [end for end in ends if not isinstance(end, str)]
    refused = [(p, end) for p, end in zip(chosen, ends, strict=True) if isinstance(end, str)]
    states, tangents = np.array(pairs).T
    off = [
        (p, end)
        for p, end in zip(chosen, ends, strict=True)
        if not isinstance(end, str) and (end[0] > STATE or end[1] > TANGENT)
    ]
    rows = [
        [name, str(int((errors <= limit).sum())), f"{np.median(errors):.1e}", f"{errors.max():.1e}", f"{limit:g}"]
        for name, errors, limit in (
            ("states at t = 6, against small steps", states, STATE),
            ("tangents (2 states, 3 constants), against differences", tangents, TANGENT),
        )
    ]
    missed = len(off) + len(refused)
    lines = [
        "# Switches inside switches",
        "",
        f"{COUNT} different random expressions (seed {SEED}, `tests/flow/nested.py`), each with its own constants and "
        "start: absolute values, maxima, minima, gaps, saturations, backlash and cases inside each other, two and "
        "three deep. The reference evaluates the same expression in plain Python in steps of at most 0.05 and knows no "
        "events.",
        "",
        markdown_table(["compared", "within the limit", "median error", "largest error", "limit"], rows),
        "",
        f"Refused with an error: {len(refused)}. Beyond a limit: {len(off)}." + (" **missed**" if missed else ""),
        *(f"- {p.number}: refused: `{text[:200]}`" for p, text in refused[:20]),
        *(f"- {p.number}: state {end[0]:.1e}, tangents {end[1]:.1e}: `{p.force.text}`" for p, end in off[:20]),
    ]
    return "\n".join(lines)
