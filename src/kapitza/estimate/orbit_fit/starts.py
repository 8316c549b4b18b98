"""Starts of an orbit fit.

The given values come first, then others, the more promising first. One of them is found by continuation: at the
starting values θ₀ the orbits that the model has there are fitted perfectly by θ₀ itself if their own outputs
h(θ₀) are taken as data. Between these and the measured samples y are the problems

    y_s = (1 - s) h(θ₀) + s y,    s from 0 to 1,

each solved from the solution of the one before, with orbits and parameters moving together and every orbit keeping its
period, code and winding; a step that fails is halved. So the parameters are continued from a solvable case to the
solution, where Newton's iteration would jump to another minimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import FlowError
from kapitza.estimate.orbit_fit.matching import close_from_data, lost_character
from kapitza.estimate.orbit_fit.problem import OrbitProblem
from kapitza.estimate.orbit_fit.solver import Solver
from kapitza.estimate.orbit_fit.task import OrbitTask, weights_of
from kapitza.solve import Halving, Outcome, walk_to

CANDIDATES = 8
"""Random points tried for each restart; each costs one run of every segment, far less than a fit."""

SCREENED = 12
"""Number of orbits, the shortest, by which a candidate is rated."""

PARTS = 8
"""Parts into which the candidates are cut for workers; their number is a power of two, at least as large."""


def further_starts(
    task: OrbitTask, given: Array, restarts: int, spread: float, seed: int, executor: Executor | None = None
) -> Iterator[Array]:
    """Yield the given start, then random ones around it.

    They are sorted by how well one shooting interval predicts the next node. With states taken from the data, the
    median over the orbits of the gaps |Φ(x_j, θ) - x_{j+1}| is cheap and has few false minima: no orbit need be
    solved for it.
    """
    from scipy.stats import qmc

    yield given
    if not restarts:
        return
    count = 1 << (restarts * CANDIDATES - 1).bit_length()
    # A low-discrepancy sequence covers the box more evenly than random points; its length is a power of two.
    shape = qmc.Sobol(given.size, rng=np.random.default_rng(seed)).random(count)
    typical = np.where(given != 0, given, task.typical)
    points = typical * (1 + spread * (2 * shape - 1))
    # A start may be wrong by more than `spread`: half of the points cover a decade and a half.
    wide = typical * 10 ** (1.5 * (shape[::2] - 0.5))
    points[::2] = wide
    points = np.clip(points, task.low, task.high)
    short = sorted(range(len(task.problem.targets)), key=lambda i: task.problem.targets[i].count)[:SCREENED]
    problem = Shared(task.problem.subset(short))
    parts = [(problem, some) for some in np.split(points, PARTS)]
    merit = np.concatenate(list(in_order(executor, _prediction_errors, parts)))
    for index in np.argsort(merit, kind="stable")[:restarts]:
        # Points at which the model cannot be run are skipped.
        if np.isfinite(merit[index]):
            yield points[index]


def _prediction_errors(problem: Shared[OrbitProblem], points: Array) -> Array:
    return np.array([_prediction_error(problem.value, theta) for theta in points])


def _prediction_error(problem: OrbitProblem, theta: Array) -> float:
    try:
        blocks = problem.evaluate(problem.starts(), theta)
    except FlowError:
        return float("inf")
    gaps = [problem.gaps(b).mean() for b in blocks]
    reads = [np.abs(r).mean() for r in problem.misfits(blocks)]
    return float(np.median(np.array(gaps) + np.array(reads)))


SMALLEST = 1 / 128
"""Smallest step of the continuation; a path that needs smaller ones has ended."""


def continue_readings(task: OrbitTask, deviations: Array, theta: Array) -> Array | None:
    """Continue the parameters from model outputs to data.

    Returns those at the end of the path, or as far as it goes; None where too few orbits of the data close at θ₀.
    """
    closed = {i: found for i in range(len(task.problem.targets))
              if (found := close_from_data(task.problem, i, theta)) is not None
              and not lost_character(task.problem, i, *found)}  # fmt: skip
    # At least half of the orbits must close, with enough samples to determine the parameters along the path.
    readings = sum(task.problem.targets[i].times.size for i in closed)
    if 2 * len(closed) < len(task.problem.targets) or readings < theta.size + 1:
        return None
    problem = task.problem.subset(list(closed))
    unknowns, blocks = [z for z, _ in closed.values()], [block for _, block in closed.values()]
    measured = [t.values for t in problem.targets]
    gaps = problem.readings(blocks)
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
    solver = Solver(problem, weights, task.low, task.high, task.typical, tolerance=1e-7, max_iterations=10)
    try:
        solution = solver.solve(theta, unknowns, soft=False)
    except FlowError:
        return None
    if not solution.status.ok:
        return None
    # The character of an orbit is compared with that of the step before, not with the data.
    tracked = replace(problem, targets=tuple(
        replace(t, nodes=z[: t.nodes.size].reshape(t.nodes.shape))
        for t, z in zip(problem.targets, unknowns, strict=True)
    ))  # fmt: skip
    pairs = zip(solution.unknowns, solution.blocks, strict=True)
    if any(lost_character(tracked, i, z, block) for i, (z, block) in enumerate(pairs)):
        return None
    return solution.theta, solution.unknowns
