"""What stretches of the record say about the parameters: scores of blocks, and steps that pieces of it would take."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from kapitza.arrays import Array, Flags
from kapitza.estimate.disagreement import PIECES, Widening, widening
from kapitza.estimate.series.closing import ClosingSweep
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.sweep import Sweep, anchor_of, chain_of, sizes_of
from kapitza.estimate.series.task import MotionTask
from kapitza.solve import ChainProgram

MOST_BLOCKS = 240
"""Blocks into which the intervals are gathered for their scores."""

READINGS_PER_UNKNOWN = 12
"""Readings of a piece for each of its unknowns: first states and parameters."""


def widening_of(
    task: MotionTask, found: Found, closing: ClosingSweep, white: bool, level: float, freedom: float
) -> Widening | None:
    """What blocks and pieces make of the intervals of a motion without kicks; None where they say nothing."""
    solution, part = found.solution, closing.plain
    free = ~solution.at_bound
    if not free.any():
        return None
    linked, scale = solution.nodes.linked, task.scale
    anchor = anchor_of(sizes_of(solution.theta))
    try:
        scores = None if task.settings.robust else _scores(part, closing.program)[:, free]
        steps, covariances = _pieces(task, part, linked, scale, anchor, free)
    except np.linalg.LinAlgError:
        return None
    covariance = solution.covariance[np.ix_(free, free)]
    made = widening(covariance, scores, steps, covariances, white, freedom, level)
    factor = np.ones(free.size)
    factor[free] = made.factor
    return replace(made, factor=factor)


def _program(part: Sweep, linked: Flags, scale: Array, anchor: Array, here: slice) -> ChainProgram:
    """The chain of the nodes in `here` alone, with what its own readings say about the parameters."""
    kept = linked[here].copy()
    kept[-1] = False
    return chain_of(part.over(here), kept, scale, anchor)


def _scores(part: Sweep, program: ChainProgram) -> Array:
    """Pulls (B, k) of successive blocks on the parameters, the motion following them as it follows all the data.

    With X_j = ∂x_j/∂θ, the change of node j that is best for a change of the parameters, interval j pulls by
    g_jᵀ X_j + h_j (g: gradient by its node, h: directly); all of them together pull at nothing. Further parameters of
    the program stay as they are.
    """
    assert part.own_gradient is not None
    count, free = part.gradient.shape[0], part.own_gradient.shape[1]
    border = len(program.information)
    still = program.solve_given(np.zeros(border)).nodes
    moved = np.stack([program.solve_given(unit).nodes - still for unit in np.eye(free, border)], axis=2)
    pulls = np.einsum("jn,jnk->jk", part.gradient, moved) + part.own_gradient
    edges = np.linspace(0, count, min(MOST_BLOCKS, count) + 1).astype(int)
    return np.add.reduceat(pulls, edges[:-1], axis=0)


def _pieces(
    task: MotionTask, part: Sweep, linked: Flags, scale: Array, anchor: Array, free: Flags
) -> tuple[Array | None, Array | None]:
    """Steps (P, f) from the estimate that pieces of the record would take on their own, with covariances (P, f, f)."""
    count, n = part.gradient.shape
    unknowns = n + int(free.sum())
    for pieces in PIECES:
        if count < 4 * pieces or task.problem.samples.readings < pieces * READINGS_PER_UNKNOWN * unknowns:
            continue
        edges = np.linspace(0, count, pieces + 1).astype(int)
        steps, covariances = [], []
        for first, last in itertools.pairwise(edges.tolist()):
            program = _program(part, linked, scale, anchor, slice(first, last))
            inner = np.ix_(free, free)
            covariance = np.linalg.inv(program.information[inner])
            steps.append(covariance @ program.pull[free])
            covariances.append(covariance)
        return np.array(steps), np.array(covariances)
    return None, None
