"""Estimate of an invariant fit, with its warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from kapitza.base.arrays import Array
from kapitza.base.cures import Fit, Give
from kapitza.errors import KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identifiability import determined
from kapitza.estimate.invariant_fit.conserved import ASSUMED_NOISE, CLEAN, Form, make_form, precise_least_squares
from kapitza.estimate.invariant_fit.setup import Setup
from kapitza.estimate.judge import doubtful_parameters
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.parts import LevelSets
from kapitza.estimate.priors import surprising_priors, with_priors_and_bounds
from kapitza.estimate.result import make_estimate
from kapitza.signal import scatter

if TYPE_CHECKING:
    import pandas as pd

FAR_OFF = 10.0
"""Distance from the level set, in units of an assumed noise, above which noise is not a likely cause."""


def finish(
    setup: Setup,
    theta: Array,
    covariance: Array,
    residual: Array,
    found: LevelSets,
    converged: bool,
    history: pd.DataFrame | None = None,
    samples: Array | None = None,
) -> Estimate:
    """Return the estimate of an invariant fit.

    Signs are as at the start and the normalisation is set; intervals and warnings are added.
    """
    form, model, settings, points = setup.form, setup.model, setup.settings, setup.points
    theta, covariance = _signs_as_started(form, setup.start, theta, covariance)
    if samples is not None:
        covariance = np.atleast_2d(np.cov(samples.T))
        found = replace(found, bootstrap=samples)
    names, values = form.free, theta
    if settings.scale == "norm" and setup.held is not None:
        names, values, covariance = unit_norm(setup, theta, covariance)
    # The fit itself knows neither; both are joined afterwards.
    values, covariance = with_priors_and_bounds(model, names, values, covariance)
    misfit = misfit_of(setup, found)
    warnings = (
        *setup.warnings,
        *_suspicious(setup, found, misfit),
        *doubtful_parameters(setup.request, values, covariance, names=names),
        *surprising_priors(model, names, values, covariance),
    )
    levels = "1 level set" if points.levels == 1 else f"{points.levels} level sets"
    factor = float(np.sqrt(max(found.noise_factor, 0.0)))
    # Parameters of single records are exact coordinates without noise.
    measured = [j for j, v in enumerate(points.variables) if v not in setup.request.own]
    return make_estimate(
        setup.request,
        f"InvariantFit ({settings.objective} of {setup.name}, {points.count} points, {levels})",
        values,
        covariance,
        names=names,
        status=Status.CONVERGED if converged else Status.STALLED,
        dof=float(setup.spare),
        chi2=found.distance,
        noise={points.variables[j]: factor * float(np.sqrt(np.mean(points.variance[j]))) for j in measured},
        residuals={setup.name: residual},
        warnings=warnings,
        identifiability=determined(names),
        history=history,
        settings=settings,
        level_sets=found,
        misfit=misfit,
        workings=setup,
    )


def _signs_as_started(form: Form, start: Array, theta: Array, covariance: Array) -> tuple[Array, Array]:
    """Keep the signs of the start.

    Where the invariant is even in a parameter (a frequency that enters squared).
    """
    theta, covariance = theta.copy(), covariance.copy()
    if not form.separable:
        return theta, covariance
    for j in range(theta.size):
        if theta[j] * start[j] < 0:
            flipped = theta.copy()
            flipped[j] = -theta[j]
            if np.allclose(form.local(flipped)[0], form.local(theta)[0], rtol=1e-12, atol=0):
                theta = flipped
                covariance[j] *= -1
                covariance[:, j] *= -1
    return theta, covariance


def unit_norm(setup: Setup, theta: Array, covariance: Array) -> tuple[tuple[str, ...], Array, Array]:
    """Return the invariant with coefficients of unit norm.

    It returns the names, all requested parameters (n,) and their covariance (n, n).
    """
    held, model = setup.form, setup.model
    if not held.separable:
        raise KapitzaError(
            f"{Give(scale='norm')} needs an invariant that is a sum of coefficients times functions of the state; "
            "hold a parameter instead."
        )
    full = make_form(held.expression, held.variables, setup.asked, model.values)
    begin = np.array([dict(zip(held.free, theta, strict=True)).get(n, model.values[n]) for n in setup.asked])
    target, _ = full.local(begin)
    size = np.linalg.norm(target)
    found = precise_least_squares(lambda x: full.local(x)[0] - target / size, lambda x: full.local(x)[1], begin)
    if np.sqrt(2 * found.cost) > 1e-8:
        raise KapitzaError(
            f"{Give(scale='norm')} cannot be reached by changing the free parameters; hold one of them instead."
        )
    index = [setup.asked.index(n) for n in held.free]
    change = full.local(begin)[1][:, index]
    normal = (np.eye(target.size) - np.outer(target, target) / size**2) / size
    # Chain rule: held parameters to coefficients, projected to unit norm, to all parameters.
    chain = np.linalg.pinv(full.local(found.x)[1]) @ normal @ change
    return setup.asked, found.x, chain @ covariance @ chain.T


TOLERANCE = 1.5
"""Largest mean square distance from the level sets, over the noise, by curved level sets and noise in the rates."""


def misfit_of(setup: Setup, found: LevelSets) -> Misfit | None:
    """Return the misfit of the level sets.

    It compares distances with the noise, as stated or from the points' own scatter in time.
    None for a balance, which closes or not by itself, and where rates are differences of positions.
    """
    points, factor = setup.points, found.noise_factor
    if setup.settings.objective == "balance" or points.reconstructed or not np.isfinite(factor) or factor < CLEAN:
        return None
    level, noise = factor, "the noise stated"
    if not points.known_noise:
        # Scatter in time needs neighbouring samples, so the longest run is used.
        longest = np.bincount(points.run).argmax()
        values = points.values[:, points.run == longest].T
        seen = scatter(values)
        if not np.isfinite(seen.level).all():
            return None
        assumed = points.variance[:, points.run == longest].mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nanmax(np.where(assumed > 0, seen.level**2 / assumed, np.nan))
        if not ratio > 0:
            return None
        level, noise = factor / float(ratio), "scatter of the samples"
    beyond = float(np.sqrt(max(level - 1.0, 0.0)))
    spread = points.values.std(axis=1)
    own = np.sqrt(points.variance.mean(axis=1) * factor / max(level, 1e-300))
    live = spread > 0
    share = beyond * float(np.sqrt(np.mean((own[live] / spread[live]) ** 2))) if live.any() else 0.0
    chance = float(special.chdtrc(setup.spare, setup.spare * level / TOLERANCE))
    return Misfit(beyond, share, chance, "the level sets", "", noise)


def _suspicious(setup: Setup, found: LevelSets, misfit: Misfit | None) -> list[str]:
    lines: list[str] = []
    settings, points, factor = setup.settings, setup.points, found.noise_factor
    if not points.known_noise and points.doubt is None and not factor < CLEAN:
        lines.append("the noise is not known: the same fraction of the mean modulus of every channel was assumed")
    closed = settings.objective != "balance"  # the balance itself reports where it does not close
    if closed and misfit is not None and not misfit.to_the_noise:
        lines += [(
            f"{text} The conservation is in doubt: damped or driven motion needs "
            f"{Fit('invariant', objective='balance')}."
        )
                  for text in misfit.warnings()]  # fmt: skip
    if (
        (misfit is None or misfit.to_the_noise)
        and not points.known_noise
        and points.doubt is None
        and not points.reconstructed
        and np.isfinite(factor)
        and factor > FAR_OFF**2
    ):
        lines.append(
            f"the points are {np.sqrt(factor):.3g} times as far from a level set as {100 * ASSUMED_NOISE:g} % noise "
            "explains: the model class or the conservation is in doubt; damped or driven motion needs "
            f"{Fit('invariant', objective='balance')}"
        )
    runs = int(np.unique(points.run).size)
    if settings.objective != "balance" and settings.levels == "record" and runs > points.levels and not factor < CLEAN:
        lines.append(
            f"{runs} segments are on {points.levels} level set(s): pass {Give(levels='segment')} if energies differ"
        )
    if points.reconstructed and not setup.model.is_map:
        lines.append(
            f"{', '.join(points.reconstructed)} follow from differences of positions: their systematic error is not in "
            "the intervals; start a fit of the motion from here"
        )
    if found.unprojected:
        lines.append(
            f"{found.unprojected} points have no nearest point on the level set (near a saddle of the invariant)"
        )
    return lines
