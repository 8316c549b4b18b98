"""Noise of every channel from the residuals, and how well it is known.

A fit that follows a channel closely leaves it smaller residuals than its noise. What it takes is the channel's leverage
h_c = tr(S_c F⁻¹ S_cᵀ), S_c the whitened slopes of its readings and F the information: Σ_c h_c is the number of
parameters, and E|r_c|² = σ_c² (m_c - h_c) for m_c readings.
"""

from __future__ import annotations

import numpy as np

from kapitza.arrays import Array
from kapitza.estimate.orbits.problem import OrbitProblem
from kapitza.estimate.orbits.solver import OrbitSolution, covariance_of
from kapitza.estimate.orbits.task import OrbitTask


def residual_deviations(task: OrbitTask, problem: OrbitProblem, solution: OrbitSolution) -> Array:
    """σ_c (c,) of every channel; with plain least squares one σ for all of them."""
    residual = np.concatenate(problem.readings(solution.blocks))
    least = 1e-12 * problem.channel_scale
    if task.estimator == "least squares":
        left = max(residual.size - len(task.names) - _loose(solution), 1)
        return np.maximum(np.full(len(least), np.sqrt(float((residual**2).sum()) / left)), least)
    left = np.maximum(_left_over(problem, solution), 1.0)
    squares = np.bincount(problem.channel, residual**2, minlength=len(least))
    return np.maximum(np.sqrt(squares / left), least)


def noise_freedom(task: OrbitTask, problem: OrbitProblem, solution: OrbitSolution, plain: float) -> float:
    """Degrees of freedom of the intervals when σ_c is estimated per channel.

    The variance of parameter i is a sum over channels, v_i = Σ_c v_ic with v_ic = (F⁻¹ F_c F⁻¹)_ii, and every part is
    as uncertain as its σ_c²: ν_i = v_i² / Σ_c (v_ic² / ν_c), after Welch and Satterthwaite. The least ν_i is taken.
    """
    informations = _information_by_channel(problem, solution)
    if task.estimator == "least squares" or len(informations) == 1:
        return plain
    inverse = covariance_of(solution.information)
    if not np.isfinite(inverse).all():
        return plain
    parts = np.array([np.diag(inverse @ f @ inverse) for f in informations])
    left = np.maximum(_left_over(problem, solution), 1.0)
    total = np.diag(inverse)
    known = (total**2 / np.maximum((parts**2 / left[:, None]).sum(axis=0), 1e-300))[total > 0]
    return float(min(known.min(initial=np.inf), plain))


def _left_over(problem: OrbitProblem, solution: OrbitSolution) -> Array:
    """m_c - h_c of every channel; phases and periods of free motions are charged in proportion to the readings."""
    channel = problem.channel
    count = np.bincount(channel, minlength=len(problem.channel_scale)).astype(float)
    inverse = covariance_of(solution.information)
    if not np.isfinite(inverse).all():
        return count * (1 - (solution.theta.size + _loose(solution)) / channel.size)
    leverage = [float(np.sum(inverse * f)) for f in _information_by_channel(problem, solution)]
    return count * (1 - _loose(solution) / channel.size) - np.array(leverage)


def _information_by_channel(problem: OrbitProblem, solution: OrbitSolution) -> list[Array]:
    """F_c (k, k) of every channel; Σ_c F_c and the priors make up the information."""
    pairs = zip(solution.reduced, problem.targets, strict=True)
    slopes = np.concatenate([r.slope[: t.times.size] for r, t in pairs])
    chosen = [slopes[problem.channel == c] for c in range(len(problem.channel_scale))]
    return [s.T @ s for s in chosen]


def _loose(solution: OrbitSolution) -> int:
    """Unknowns of the orbits that closure leaves open: phase and period of free motions."""
    return sum(block.free for block in solution.blocks)
