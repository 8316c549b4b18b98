"""Orbits at points of a branch, on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import Status
from kapitza.flow import Event, Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit, SolverReport
from kapitza.orbits.of_models import (
    FlowLoop,
    Problem,
    ShootingEquations,
    Solution,
    described,
    polished_cycle,
    total_winding,
)

if TYPE_CHECKING:
    from kapitza.continuation.branch import Branch


def orbit_at(branch: Branch, index: int) -> PeriodicOrbit:
    """Return the orbit at a branch point.

    No Newton step is taken: at a fold it would lead away.
    """
    changes = dict(zip(branch.parameters, branch.values[index].tolist(), strict=True))
    model = branch.model.with_values(**changes)
    fractions, nodes = np.zeros(1), branch.points[index : index + 1]
    if branch.counts.size and branch.counts[index] > 1:
        fractions, nodes = branch.nodes_of(index)
    if model.is_map:
        return polished_cycle(model, nodes, False)[0]
    return _orbit_through(model, nodes, fractions, float(branch.periods[index]), branch.repeats, branch.method)


def _orbit_through(
    model: Model, nodes: Array, fractions: Array, period: float, repeats: int | None, method: str
) -> PeriodicOrbit:
    problem = Problem(model, repeats, period)
    flow = Flow(model)
    reached, jacobian, events = _around(flow, nodes, np.append(fractions, 1.0) * period)
    # Stored nodes have wrapped angles.
    continuous, winding = total_winding(nodes, reached, problem.angles)
    gap = np.abs(ShootingEquations(problem, fractions, None, flow).gaps(nodes, reached)).max()
    loop = FlowLoop(problem.flow, fractions, continuous, period, problem.parameters, winding)
    report = SolverReport(fractions.size, gap=float(gap), events=events)
    solution = Solution(loop, Status.CONVERGED, None, jacobian, report=report)
    return described(problem, solution, method, True)


def _around(flow: Flow, nodes: Array, times: Array) -> tuple[Array, Array, tuple[Event, ...]]:
    """Propagate every node to the next.

    The states that nodes (m, n) reach by the next of times (m + 1,), the tangents (m, n, n), and the events between.
    """
    if len(nodes) == 1:
        # Code for one run is there already, or compiles in a fraction of the time of that for many.
        alone = flow.propagate(nodes[0], times[0], times[1])
        assert alone.jacobian is not None
        return alone.state[None], alone.jacobian[None], tuple(alone.events)
    run = flow.propagate_many(nodes, times[:-1], times[1:], tangents=True)
    assert run.jacobian is not None
    return run.state, run.jacobian, tuple(e for part in run.events for e in part)
