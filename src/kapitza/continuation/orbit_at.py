"""Points of a branch as orbits with everything, on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import Status
from kapitza.flow import Flow
from kapitza.orbit import PeriodicOrbit, SolverReport
from kapitza.orbits_of_models import FlowLoop, Problem, ShootingEquations, Solution, described, total_winding

if TYPE_CHECKING:
    from kapitza.continuation.branch import Branch

Array = NDArray[np.float64]


def orbit_at(branch: Branch, index: int) -> PeriodicOrbit:
    """The orbit at a point of a branch as it is: no Newton step is taken, at a fold it would lead away."""
    changes = dict(zip(branch.parameters, branch.values[index].tolist(), strict=True))
    model = branch.model.with_values(**changes)
    fractions, nodes = np.zeros(1), branch.points[index : index + 1]
    if branch.counts.size and branch.counts[index] > 1:
        fractions, nodes = branch.nodes_of(index)
    return _orbit_through(model, nodes, fractions, float(branch.periods[index]), branch.repeats, branch.method)


def _orbit_through(
    model: object, nodes: Array, fractions: Array, period: float, repeats: int | None, method: str
) -> PeriodicOrbit:
    from kapitza.model import Model

    assert isinstance(model, Model)
    problem = Problem(model, repeats, period)
    flow = Flow(model)
    begins = fractions * period
    ends = np.append(begins[1:], period)
    run = flow.propagate_many(nodes, begins, ends, None, tangents=True)
    continuous, winding = total_winding(nodes, run.state, problem.angles)
    assert run.jacobian is not None
    gap = np.abs(ShootingEquations(problem, fractions, None, flow)._flatten(nodes, run.state)).max()
    events = tuple(e for part in run.events for e in part)
    loop = FlowLoop(problem.flow, fractions, continuous, period, problem.parameters, winding)
    report = SolverReport(fractions.size, gap=float(gap), events=events)
    solution = Solution(loop, Status.CONVERGED, None, run.jacobian, report=report)
    return described(problem, solution, method, True)
