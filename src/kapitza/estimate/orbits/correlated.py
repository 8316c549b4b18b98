"""Standard errors where the errors of the readings hang together in ways that the weights do not say.

The minimum with weights W is θ = θ₀ + F⁻¹ Σ_o G_o e_o with G_o = S_oᵀ W_o, S_o the whitened slopes of orbit o and e_o
the errors of its readings. Whatever their true covariance is, that of θ is F⁻¹ M F⁻¹ with
M = Σ_oo' G_o Cov(e_o, e_o') G_o'ᵀ.
"""

from __future__ import annotations

import numpy as np

from kapitza.arrays import Array
from kapitza.estimate.orbits.judge import Outcome
from kapitza.estimate.orbits.noise import noise_freedom
from kapitza.estimate.orbits.readings import Target
from kapitza.estimate.orbits.solver import Reduced
from kapitza.estimate.orbits.task import OrbitTask
from kapitza.orbit import PeriodicOrbit
from kapitza.orbits_in_data import Influence


def robust_covariance(task: OrbitTask, outcome: Outcome) -> tuple[Array, float]:
    """Covariance (k, k) of the parameters and its degrees of freedom (infinite where the noise was known).

    Orbits found in one record share samples of it: the noise of every sample is followed into all orbits it touches.
    Whole profiles averaged over visits have errors that are correlated along the orbit: then each orbit counts as one
    observation, M = Σ_o g_o g_oᵀ with g_o = S_oᵀ r_o, and there are orbits less parameters degrees of freedom.
    """
    covariance = outcome.solution.covariance.copy()
    freedom = float("inf")
    if not task.noise_known:
        freedom = noise_freedom(task, outcome.problem, outcome.solution, float(outcome.dof))
    if any(t.clustered for t in outcome.problem.targets):
        groups, free = len(outcome.matched), len(task.names)
        if groups <= free:
            return covariance, freedom
        scores = np.array([r.slope.T @ r.residual for r in outcome.solution.reduced])
        middle = scores.T @ scores * groups / (groups - free)
        return covariance @ middle @ covariance, float(groups - free)
    if task.noise_known and outcome.extra is None:
        middle = shared_samples(outcome)
        if middle is not None:
            covariance = covariance @ middle @ covariance
    return covariance, freedom


def shared_samples(outcome: Outcome) -> Array | None:
    """M from the noise of the samples, the rest of each orbit's covariance independent; None without influences."""
    parts = list(zip(outcome.problem.targets, outcome.solution.reduced, outcome.solution.weights, strict=True))
    if len(parts) < 2 or any(_influence(t) is None for t, _, _ in parts):
        return None
    total = np.diag(outcome.problem.priors.weight)
    rows, pulls = [], []
    for target, reduced, weight in parts:
        influence, covariance = _influence(target), target.covariance
        assert influence is not None
        assert covariance is not None
        assert target.rows is not None
        samples, root = influence.physical_root()
        root = root[target.rows]
        pull = _gain(reduced, weight, len(target.rows))
        flat = root.reshape(len(root), -1)
        total = total + pull @ (covariance - flat @ flat.T) @ pull.T
        rows.append(samples)
        pulls.append(np.einsum("km,msn->skn", pull, root))
    place = np.unique(np.concatenate(rows), return_inverse=True)[1]
    summed = np.zeros((place.max() + 1, *pulls[0].shape[1:]))
    np.add.at(summed, place, np.concatenate(pulls))
    return np.asarray(total + np.einsum("skn,sln->kl", summed, summed))


def _influence(target: Target) -> Influence | None:
    source = target.source
    if not isinstance(source, PeriodicOrbit) or target.rows is None or target.covariance is None:
        return None
    found = source.influence
    return found if isinstance(found, Influence) else None


def _gain(reduced: Reduced, weight: Array, count: int) -> Array:
    """G = Sᵀ W (k, m) of the readings."""
    return reduced.slope[:count].T @ weight[:count, :count]
