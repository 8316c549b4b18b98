"""Floquet multipliers as further terms of the objective (recommended in ORBITS, not tried there)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.orbit_fit.problem import Problem
from kapitza.estimate.orbit_fit.readings import Target
from kapitza.estimate.orbit_fit.solver import Iterate, Reduced
from kapitza.periodic.floquet import monodromy

Array = NDArray[np.float64]

LEAST_KNOWN = 0.5
"""Multipliers whose standard error exceeds this share of their modulus say nothing and are left out."""


def known_multipliers(target: Target) -> NDArray[np.bool_]:
    """Which multipliers of an orbit carry a usable uncertainty."""
    if target.multipliers is None or target.multiplier_deviation is None:
        return np.zeros(0, bool)
    deviation = np.asarray(target.multiplier_deviation, float)
    return np.isfinite(deviation) & (deviation > 0) & (deviation < LEAST_KNOWN * target.multipliers)


def moduli(problem: Problem, unknowns: list[Array], theta: Array) -> list[Array]:
    """|μ| of every orbit at these nodes, largest first."""
    blocks = problem.evaluate(unknowns, theta)
    return [np.abs(monodromy(block.jacobians).multipliers) for block in blocks]


@dataclass(frozen=True)
class MultiplierTerms:
    """Rows (|μ(θ)| - |μ|_measured)/σ with their derivatives along the family of orbits.

    The orbit's own shift dz/dθ is exact; the second derivatives of the flow are central differences.
    inflation: (orbits,) factor on σ of orbits whose multipliers disagree more than their uncertainty allows.
    """

    problem: Problem
    inflation: Array

    def __call__(self, now: Iterate, reduced: list[Reduced]) -> list[Reduced]:
        problem = self.problem
        here = [np.abs(monodromy(block.jacobians).multipliers) for block in now.blocks]
        slopes = [np.zeros((m.size, now.theta.size)) for m in here]
        for column, value in enumerate(now.theta):
            step = 1e-4 * max(abs(value), 1e-3 * float(np.abs(now.theta).max()), 1e-12)
            sides = []
            for sign in (1.0, -1.0):
                theta = now.theta.copy()
                theta[column] += sign * step
                moved = [z + sign * step * r.follow[:, column] for z, r in zip(now.unknowns, reduced, strict=True)]
                sides.append(moduli(problem, moved, theta))
            for slope, above, below in zip(slopes, *sides, strict=True):
                slope[:, column] = (above - below) / (2 * step)
        result = []
        for i, target in enumerate(problem.targets):
            use = known_multipliers(target)
            if not use.any():
                result.append(reduced[i])
                continue
            assert target.multipliers is not None
            spread = self.inflation[i] * np.asarray(target.multiplier_deviation)[use]
            gap = (here[i][use] - target.multipliers[use]) / spread
            result.append(
                replace(
                    reduced[i],
                    residual=np.concatenate([reduced[i].residual, gap]),
                    slope=np.vstack([reduced[i].slope, slopes[i][use] / spread[:, None]]),
                )
            )
        return result
