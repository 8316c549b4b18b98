"""Test for a second conserved quantity.

It leaves the parameters of the first one undetermined.

Changing the parameters along v changes H by Q = Σ d_i φ_i, d = ∂c/∂θ v. Where Q varies along the data, its variance
determines v; where Q is conserved too (the momentum of a free rigid body beside its energy), only noise varies it, and
the least variance of H is reached wherever noise happens to lead. With S the moments less what noise adds to them,

    ρ = min over v of (d·S d)/(d·S_raw d)

is the share of the variance of the worst Q that is not noise: about 1 where one quantity is conserved, and a few √(2/N)
where two are (0.0005 to 0.12 for the rigid body at N = 800, 0.7 to 1 for systems with one).
"""

from __future__ import annotations

import numpy as np

from kapitza.base.cures import Fit
from kapitza.errors import IdentifiabilityError
from kapitza.estimate.invariant_fit.conserved import CLEAN, FeatureTable, VarianceProblem, VarianceSolution
from kapitza.estimate.invariant_fit.report import misfit_of
from kapitza.estimate.invariant_fit.setup import Setup, words
from kapitza.estimate.parts import LevelSets
from kapitza.solve import symmetric_eigenvectors

DEVIATIONS, LARGEST = 4.0, 0.5
"""Standard deviations of ρ by noise, and the largest share, up to which the variance passes for noise."""


def refuse_second_invariant(setup: Setup, problem: VarianceProblem, solution: VarianceSolution) -> None:
    """Refuse parameters that a second invariant leaves open.

    They may change while the invariant stays constant to the noise.
    """
    if not solution.theta.size:
        return
    if problem.table.order == 0:
        problem = VarianceProblem(FeatureTable(setup.form, 1), setup.points, problem.weights)
    tau = problem.noise_factor(solution.theta)
    if not CLEAN <= tau < np.inf:
        # Clean data: the rank of the raw sensitivities was tested before the fit.
        return
    misfit = misfit_of(setup, LevelSets(setup.form.expression, np.empty(0), tau))
    if misfit is None or not misfit.to_the_noise:
        # The variation may not be noise: then nothing is conserved, and the misfit is reported.
        return
    slopes, moment = setup.form.local(solution.theta)[1], problem.moment(solution.theta)
    size = np.sqrt(np.clip(np.diag(slopes.T @ moment.raw @ slopes), 0.0, None))
    if not (size > 0).all():
        return
    scaled = slopes / size
    try:
        shares, vectors = symmetric_eigenvectors(scaled.T @ moment.at(tau) @ scaled, scaled.T @ moment.raw @ scaled)
    except np.linalg.LinAlgError:
        return
    # Noise alone gives a share of a few √(2/N).
    if shares[0] >= min(DEVIATIONS * np.sqrt(2.0 / setup.points.count), LARGEST):
        return
    change = words(setup.form.free, vectors[:, 0] / size, solution.theta)
    raise IdentifiabilityError(
        f"A second quantity is conserved along these data: with {change} {setup.name} changes by no more than noise "
        f"({100 * max(float(shares[0]), 0.0):.2g} % of that change is not noise). Fix one of these parameters, or "
        f"fit the motion itself by {Fit('shooting')}."
    )
