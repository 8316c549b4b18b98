"""From a case that is solved to the one that is wanted: the readings are led from the model's own to the measured ones.

At the starting values θ₀ the orbits that the model has there are fitted perfectly by θ₀ itself if their own readings
h(θ₀) are taken as data. Between these and the measured readings y lie the problems

    y_s = (1 - s) h(θ₀) + s y,    s from 0 to 1,

each solved from the answer of the one before, with orbits and parameters moving together and every orbit keeping its
period, code and winding; a step that fails is halved. So the parameters are continued from a solvable case to the
answer, where Newton's iteration would leap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError
from kapitza.estimate.orbits.character import close_from_data, lost_character
from kapitza.estimate.orbits.problem import OrbitProblem
from kapitza.estimate.orbits.solver import Solver, SolverSettings
from kapitza.estimate.orbits.task import OrbitTask, weights_of
from kapitza.solve import Halving, Outcome, walk_to

Array = NDArray[np.float64]

SMALLEST = 1 / 128
"""Of a step: a path that needs smaller ones has come to an end."""


def continue_readings(task: OrbitTask, deviations: Array, theta: Array) -> Array | None:
    """Parameters at the end of the path, or as far as it goes; None where no orbit of the data closes at θ₀."""
    closed = {i: found for i in range(len(task.problem.targets))
              if (found := close_from_data(task.problem, i, theta)) is not None
              and not lost_character(task.problem, i, *found)}  # fmt: skip
    # Half of the orbits, and enough readings, or the path leads nowhere in particular.
    readings = sum(task.problem.targets[i].times.size for i in closed)
    if 2 * len(closed) < len(task.problem.targets) or readings < theta.size + 1:
        return None
    problem = task.problem.subset(list(closed))
    unknowns, blocks = [z for z, _ in closed.values()], [block for _, block in closed.values()]
    measured = [t.values for t in problem.targets]
    gaps = [block.residual[: t.times.size] for block, t in zip(blocks, problem.targets, strict=True)]
    weights = weights_of(task, problem, deviations)

    def attempt(last: tuple[Array, list[Array]], ahead: float) -> Outcome[tuple[Array, list[Array]]]:
        # y + (1 - s)(h(θ₀) - y): angles keep the branch of the gap.
        between = [y + (1 - ahead) * gap for y, gap in zip(measured, gaps, strict=True)]
        return Outcome(_step(task, problem.with_values(between), weights, *last))

    rule = Halving(0.125, SMALLEST, growth=2.0, largest=0.5)
    (theta, _), done, _ = walk_to((theta, unknowns), attempt, rule)
    return theta if done > 0 else None


def _step(
    task: OrbitTask, problem: OrbitProblem, weights: list[Array], theta: Array, unknowns: list[Array]
) -> tuple[Array, list[Array]] | None:
    settings = SolverSettings(tolerance=1e-7, max_iterations=10)
    solver = Solver(problem, settings, weights, task.low, task.high, task.typical)
    try:
        solution = solver.solve(theta, unknowns, soft=False)
    except FlowError:
        return None
    if not solution.status.ok:
        return None
    tracked = replace(problem, targets=tuple(
        replace(t, nodes=z[: t.nodes.size].reshape(t.nodes.shape))
        for t, z in zip(problem.targets, unknowns, strict=True)
    ))  # fmt: skip
    pairs = zip(solution.unknowns, solution.blocks, strict=True)
    if any(lost_character(tracked, i, z, block) for i, (z, block) in enumerate(pairs)):
        return None
    return solution.theta, solution.unknowns
