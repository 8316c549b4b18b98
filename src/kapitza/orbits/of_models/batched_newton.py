"""Damped Newton iterations for many cycles at once.

The cycles are periodic orbits of a return map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.angles import difference, wrap_states
from kapitza.base.arrays import Array
from kapitza.orbits.of_models.returns import Return, iterate


@dataclass(frozen=True)
class BatchSettings:
    """Settings of the batched Newton iteration.

    radius: first limit of a step, relative to the size of the region; steps that worsen the gaps are halved.
    """

    max_iterations: int = 30
    tolerance: float = 1e-8
    radius: float = 0.25
    worse: float = 1.5
    smallest: float = 1e-4


def batched_newton(step: Return, nodes: Array, scale: Array, settings: BatchSettings | None = None) -> Array:
    """Solve for many cycles of a return map.

    It solves F(x_k) = x_{k+1} around cycles of p points for B starts (B, p, n) at once and returns those that
    converged.

    Each cycle is a multiple-shooting problem with one node per return, so that long unstable cycles converge from
    starts that a single node could not use. Cycles leave the batch as they converge or fail.
    """
    settings = settings or BatchSettings()
    nodes = nodes[np.isfinite(nodes).all(axis=(1, 2))]
    radius = np.full(nodes.shape[0], settings.radius)
    gaps, slopes = _evaluate(step, nodes, scale)
    done: list[Array] = []
    for _ in range(settings.max_iterations):
        if nodes.shape[0] == 0:
            break
        move = _steps(gaps, slopes, scale)
        length = np.abs(move).max(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.minimum(1.0, radius / length)
        trial = nodes + factor[:, None, None] * move * scale
        finished = length <= settings.tolerance
        if finished.any():
            done.append(wrap_states(trial[finished], step.angles))
        alive = ~finished & np.isfinite(length) & (radius > settings.smallest)
        nodes, gaps, slopes, radius = nodes[alive], gaps[alive], slopes[alive], radius[alive]
        trial, length, factor = trial[alive], length[alive], factor[alive]
        if nodes.shape[0] == 0:
            break
        new_gaps, new_slopes = _evaluate(step, trial, scale)
        old_size, new_size = np.abs(gaps).max(axis=(1, 2)), np.abs(new_gaps).max(axis=(1, 2))
        # Far from a solution a good Newton step may raise the gaps a little.
        better = new_size <= settings.worse * old_size
        nodes = np.where(better[:, None, None], wrap_states(trial, step.angles), nodes)
        gaps = np.where(better[:, None, None], new_gaps, gaps)
        slopes = np.where(better[:, None, None, None], new_slopes, slopes)
        radius = np.where(better, np.maximum(radius, np.minimum(2 * radius, 4 * length)), 0.5 * factor * length)
    return np.concatenate(done) if done else np.zeros((0, *nodes.shape[1:]))


def _evaluate(step: Return, nodes: Array, scale: Array) -> tuple[Array, Array]:
    """Return scaled gaps and Jacobians of all cycles.

    Gaps (B, p, n) and Jacobians (B, p, n, n); failures are infinite.
    """
    count, points, n = nodes.shape
    after, slopes = step(wrap_states(nodes.reshape(-1, n), step.angles), True)
    assert slopes is not None
    after = after.reshape(nodes.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # members that escape to infinity are failures
        gaps = difference(after, np.roll(nodes, -1, axis=1), step.angles) / scale
        slopes = slopes.reshape(count, points, n, n) * scale / scale[:, None]
    bad = ~(np.isfinite(gaps).all(axis=(1, 2)) & np.isfinite(slopes).all(axis=(1, 2, 3)))
    # Failed members keep their shape in the batch and are sorted out by their infinite gaps.
    gaps[bad] = np.inf
    slopes[bad] = 0.0
    return gaps, slopes


def _steps(gaps: Array, slopes: Array, scale: Array) -> Array:
    """Return the Newton steps of all cycles.

    Dense block-cyclic systems, small enough to be solved in one stack.
    """
    count, points, n = gaps.shape
    matrix = np.zeros((count, points, n, points, n))
    index = np.arange(points)
    matrix[:, index, :, index, :] += np.moveaxis(slopes, 1, 0)
    matrix[:, index, :, (index + 1) % points, :] -= np.eye(n)
    matrix = matrix.reshape(count, points * n, points * n)
    right = np.where(np.isfinite(gaps), -gaps, 0.0).reshape(count, points * n, 1)
    # A tiny shift keeps exactly singular members from stopping the others; it is far below the tolerance.
    matrix += 1e-14 * np.eye(points * n)
    steps = np.asarray(np.linalg.solve(matrix, right), np.float64).reshape(gaps.shape)
    steps[~np.isfinite(gaps).all(axis=(1, 2))] = np.nan
    return steps


def cycles_from(step: Return, starts: Array, points: int) -> Array:
    """Return start cycles (B, p, n).

    They are p points of the trajectory from each start (B, n).
    """
    return np.moveaxis(iterate(step, starts, points - 1), 0, 1)
