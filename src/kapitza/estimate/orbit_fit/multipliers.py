"""Floquet multipliers as terms of the objective.

ORBITS recommends them but does not try them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.estimate.orbit_fit.problem import OrbitProblem, Target
from kapitza.estimate.orbit_fit.solver import OrbitIterate, Reduced
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import monodromy
from kapitza.solve import slopes_by_differences, symmetric_function

LEAST_KNOWN = 0.5
"""Multipliers whose standard error exceeds this share of their modulus carry no information and are left out."""


def known_multipliers(target: Target) -> Flags:
    """Return which multipliers have a usable uncertainty."""
    if target.multipliers is None or target.multiplier_deviation is None:
        return np.zeros(0, bool)
    deviation = np.asarray(target.multiplier_deviation, float)
    return np.isfinite(deviation) & (deviation > 0) & (deviation < LEAST_KNOWN * target.multipliers)


def joint_covariance(target: Target) -> tuple[Array, Array]:
    """Return the covariances of moduli and samples.

    (n, n) of the moduli and (n, m) of moduli and samples; the latter zero where it is not known.
    """
    deviation = np.asarray(target.multiplier_deviation, float)
    own, cross = np.diag(deviation**2), np.zeros((deviation.size, target.times.size))
    source = target.source
    if isinstance(source, PeriodicOrbit) and target.rows is not None and source.joint_covariance is not None:
        joint = source.joint_covariance
        size = source.points.size
        if joint.shape == (size + deviation.size, size + deviation.size):
            return joint[size:, size:], joint[size:, :size][:, target.rows]
    return own, cross


def moduli(problem: OrbitProblem, unknowns: list[Array], theta: Array) -> list[Array]:
    """Return |μ| of every orbit, largest first."""
    blocks = problem.evaluate(unknowns, theta)
    return [np.abs(monodromy(block.jacobians).multipliers) for block in blocks]


@dataclass(frozen=True)
class MultiplierTerms:
    """Rows of the multipliers, given the points.

    They are L⁻¹ [(|μ(θ)| - |μ|) - B r] for the moduli, with their derivatives along the orbits. Moduli and points come
    from the same maps, so their errors are correlated: B = Σ_μx Σ_xx⁻¹ predicts them from the residuals r of the
    points, and L Lᵀ = Σ_μμ - B Σ_xμ is the conditional covariance. The orbit's own shift dz/dθ is exact; the second
    derivatives of the flow are central differences. inflation: (orbits,) factor on σ of orbits whose multipliers
    disagree more than their uncertainty allows. weights: W of every orbit, Wᵀ W = Σ_xx⁻¹.
    """

    problem: OrbitProblem
    inflation: Array
    weights: list[Array]

    def __call__(self, now: OrbitIterate, reduced: list[Reduced]) -> list[Reduced]:
        here = [np.abs(monodromy(block.jacobians).multipliers) for block in now.blocks]
        slopes = self._slopes(now, reduced, here)
        result = []
        for i, target in enumerate(self.problem.targets):
            use = known_multipliers(target)
            if not use.any():
                result.append(reduced[i])
                continue
            assert target.multipliers is not None
            gap = here[i][use] - target.multipliers[use]
            result.append(self._with_rows(i, target, reduced[i], use, gap, slopes[i][use]))
        return result

    def _slopes(self, now: OrbitIterate, reduced: list[Reduced], here: list[Array]) -> list[Array]:
        """Return d|μ|/dθ (n, k) along the family of orbits."""
        size = np.abs(now.theta)

        def along(theta: Array) -> Array:
            moved = [z + r.follow @ (theta - now.theta) for z, r in zip(now.unknowns, reduced, strict=True)]
            return np.concatenate(moduli(self.problem, moved, theta))

        # Second derivatives of the flow are not integrated, so the slopes are differences.
        every = slopes_by_differences(along, now.theta, 1e-4 * np.maximum(size, max(1e-3 * size.max(), 1e-12)))
        return np.split(every, np.cumsum([m.size for m in here])[:-1])

    def _with_rows(self, i: int, target: Target, reduced: Reduced, use: Flags, gap: Array, slope: Array) -> Reduced:
        own, cross = joint_covariance(target)
        own, cross = own[np.ix_(use, use)], cross[use]
        weight, count = self.weights[i], target.times.size
        if weight.ndim == 2 and np.any(cross):
            # B r = Σ_μx Wᵀ (W r): the whitened residuals of the points are known already.
            carry = cross @ weight[:count, :count].T
            gap = gap - carry @ reduced.residual[:count]
            slope = slope - carry @ reduced.slope[:count]
            own = own - carry @ carry.T
        size = np.sqrt(np.diag(joint_covariance(target)[0])[use])
        # The conditional deviation is at least a tenth of the unconditional one: a smaller one would be chance.
        root = symmetric_function(own / np.outer(size, size), lambda v: 1 / np.sqrt(np.maximum(v, 1e-2)))
        root = root / size / self.inflation[i]
        return replace(
            reduced,
            residual=np.concatenate([reduced.residual, root @ gap]),
            slope=np.vstack([reduced.slope, root @ slope]),
        )
