"""Test whether the likelihood is a parabola, without refitting.

The rise of -2 log L is measured two standard errors away from the minimum.
With V the covariance, the minimum over all other parameters of a quadratic -2 log L is along d = V e_j/√V_jj, and it
rises by 4 at θ ± 2 d. There the motion is swept once and its states take one linear step; the rise found over 4 is 1
for a parabola. Multiple shooting is nonlinear only interval by interval, so where ± 2 d moves no state and no parameter
by more than 4 per cent the ratio differs from 1 by less than 0.25 (measured on 670 parameters of 20 systems) and is not
computed.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.errors import FlowError
from kapitza.estimate.shooting_fit.closing import ClosingSweep
from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.sweep import chain_of, sizes_of, sweep
from kapitza.estimate.shooting_fit.task import MotionTask

FAR = 2.0
"""Standard errors at which the rise is compared with that of a parabola."""

LOOSE, FARTHER = 0.06, 4.0
"""Relative change of a parameter within FAR from which the rise at FARTHER is tested too: a profile may be a parabola
near its minimum and level off (two masses in steady motion: ratio 0.7 at 2, 0.08 at 4 standard errors)."""

SMALL = 0.04
"""Change of a state, relative to its spread, or of a parameter, relative to its value, below which no test is made."""

STRAIGHT = 1.5
"""Largest ratio of the rise to that of a parabola, or its inverse, with which errors stay Gaussian."""


def curved_parameters(task: MotionTask, found: Found, closing: ClosingSweep) -> Flags:
    """Return which parameters (k,) have a non-parabolic likelihood.

    The test is within two standard errors.
    """
    solution = found.solution
    spread = np.sqrt(np.clip(np.diag(solution.covariance), 0.0, None))
    bent = np.zeros(spread.size, bool)
    usable = np.isfinite(spread) & (spread > 0) & ~solution.at_bound
    if not usable.any():
        return bent
    for j in np.flatnonzero(usable & _moves(task, found, closing)):
        # Along this line the other parameters follow parameter j as in the profile of a quadratic.
        direction = solution.covariance[:, j] / spread[j]
        loose = (FAR * np.abs(direction) > LOOSE * sizes_of(solution.theta)).any()
        for far in (FAR, FARTHER) if loose else (FAR,):
            ratios = secants(task, found, closing, far * direction) / far**2
            bent[j] |= not ((ratios > 1 / STRAIGHT) & (ratios < STRAIGHT)).all()
            if bent[j]:
                break
    return bent


def _moves(task: MotionTask, found: Found, closing: ClosingSweep) -> Flags:
    """Return whether a parameter's errors need the test.

    (k,): whether two standard errors move states or parameters enough for a curvature to be visible.
    """
    solution = found.solution
    k = solution.theta.size
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = FAR * solution.covariance / np.sqrt(np.diag(solution.covariance))
    nodes = np.abs(closing.program.response[..., :k] @ steps) / task.scale[:, None]
    # The change of a state grows over its interval by the tangent.
    growth = np.maximum(1.0, np.linalg.norm(closing.part.propagators, axis=(1, 2)))
    states = (nodes.max(axis=1) * growth[:, None]).max(axis=0)
    parameters = (np.abs(steps) / sizes_of(solution.theta)[:, None]).max(axis=0)
    return ~(np.maximum(states, parameters) < SMALL)


def secants(task: MotionTask, found: Found, closing: ClosingSweep, direction: Array) -> Array:
    """Return the rise of -2 log L (2,).

    It is evaluated at θ - `direction` (k,) and θ + `direction`; NaN where the motion cannot be followed.
    """
    solution, k = found.solution, found.solution.theta.size
    states, rises = closing.program.response[..., :k] @ direction, []
    for side in (-1.0, 1.0):
        try:
            part = sweep(
                task.problem, solution.nodes, solution.states + side * states, solution.theta + side * direction,
                solution.weights,
            )  # fmt: skip
            step = chain_of(part, solution.nodes.linked, task.scale).solve_given(np.zeros(k)).nodes
        except (FlowError, np.linalg.LinAlgError):
            rises.append(np.nan)
            continue
        squared = np.einsum("jn,jnm,jm->", step, part.hessian, step)
        # Cost after the linear step of the states, predicted by the quadratic model.
        cost = part.cost + float((part.gradient * step).sum()) + 0.5 * float(squared)
        rises.append(2 * (cost - closing.part.cost))
    return np.array(rises)
