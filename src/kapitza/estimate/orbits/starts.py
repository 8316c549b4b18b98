"""Where to start: the given values, then others, the more promising first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from kapitza.errors import FlowError
from kapitza.estimate.orbits.problem import OrbitProblem
from kapitza.estimate.orbits.task import OrbitTask
from kapitza.executor import Executor, Shared, in_order

Array = NDArray[np.float64]

CANDIDATES = 8
"""Random points tried for each restart: one run of every segment each, far cheaper than a fit."""

SCREENED = 12
"""Orbits, the shortest, that judge a candidate."""

PARTS = 8
"""Into which the candidates, a power of two of at least as many, are cut for workers."""


def further_starts(
    task: OrbitTask, given: Array, restarts: int, spread: float, seed: int, executor: Executor | None = None
) -> Iterator[Array]:
    """The given start; then random ones around it, sorted by how well one shooting interval predicts the next node.

    With states taken from the data, the median over the orbits of the gaps |Φ(x_j, θ) - x_{j+1}| is cheap and has few
    false minima: no orbit need be solved for it.
    """
    yield given
    if not restarts:
        return
    count = 1 << (restarts * CANDIDATES - 1).bit_length()
    shape = qmc.Sobol(given.size, rng=np.random.default_rng(seed)).random(count)
    typical = np.where(given != 0, given, task.typical)
    points = typical * (1 + spread * (2 * shape - 1))
    # Each parameter may also be far too small: half of the points spread over a decade and a half.
    wide = typical * 10 ** (1.5 * (shape[::2] - 0.5))
    points[::2] = wide
    points = np.clip(points, task.low, task.high)
    short = sorted(range(len(task.problem.targets)), key=lambda i: task.problem.targets[i].count)[:SCREENED]
    problem = Shared(task.problem.subset(short))
    parts = [(problem, some) for some in np.split(points, PARTS)]
    merit = np.concatenate(list(in_order(executor, _prediction_errors, parts)))
    for index in np.argsort(merit)[:restarts]:
        if np.isfinite(merit[index]):
            yield points[index]


def _prediction_errors(problem: Shared[OrbitProblem], points: Array) -> Array:
    return np.array([_prediction_error(problem.value, theta) for theta in points])


def _prediction_error(problem: OrbitProblem, theta: Array) -> float:
    try:
        blocks = problem.evaluate(problem.starts(), theta)
    except FlowError:
        return float("inf")
    gaps = [np.abs(b.gap.reshape(-1, problem.scale.size) / problem.scale).mean() for b in blocks]
    reads = [np.abs(b.residual[: t.times.size] / problem.channel_scale[t.channel]).mean()
             for b, t in zip(blocks, problem.targets, strict=True)]  # fmt: skip
    return float(np.median(np.array(gaps) + np.array(reads)))
