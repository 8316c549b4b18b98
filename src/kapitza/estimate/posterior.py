"""Samples of a posterior, as ArviZ InferenceData."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import By
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, Shared
from kapitza.errors import KapitzaError
from kapitza.estimate.bayes import at_walkers, bayes_packages, count_walkers, sample_density
from kapitza.estimate.counted_likelihood import CountedLikelihood, counts_drives
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit import expand, log_posterior
from kapitza.estimate.priors import bounds_of
from kapitza.estimate.result import likelihood_of
from kapitza.estimate.shooting_fit import MotionDensity

DEGREE = 4
"""Degree of the polynomial that approximates log p of a motion within a few standard errors."""

REACH = 3.0
"""Radius of the points of the polynomial, in standard errors."""

TESTS = {"orbits": 40, "motion": 20}
"""Draws on which an expansion of log p is compared with the model; of a motion they are costly."""

TOGETHER = 32
"""Points that are evaluated between two reports of progress."""

ERROR = {"orbits": 0.05, "motion": 0.1}
"""Largest error of log p (root mean square) with which an expansion is used."""


def posterior(
    estimate: Estimate,
    draws: int = 1000,
    tune: int = 300,
    walkers: int | None = None,
    seed: int = 0,
    exact: bool | None = None,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
) -> Any:
    """Draw samples of the posterior by emcee.

    The samples are ArviZ InferenceData (needs the extra ``kapitza[bayes]``).

    The walkers start from the Gaussian approximation. Noise is taken as estimated by the fit. Orbits: residuals to
    second order about the estimate. Motions (`ShootingFit`, "auto"): the initial states are fitted again at every set
    of parameters; log p is a polynomial of degree 4 through such fits. Where the fit counts the noise of measured
    drives, log p counts it too. The equations of `HarmonicFit` are linear in the parameters, their posterior is
    Gaussian, cut at the bounds.

    Parameters
    ----------
    estimate : Estimate
        Made by `OrbitFit`, `ShootingFit`, ``"auto"`` or `HarmonicFit`.
    draws, tune : int
        Steps of every walker that are returned, and steps before them.
    walkers : int, optional
        At least two per parameter; by default eight, and 32 in all.
    seed : int
        Of the walkers.
    exact : bool, optional
        False evaluates the expansion, all walkers at once; True runs the model for every walker; by default the
        expansion is compared with the model on some draws and used where log p agrees.
    executor : optional
        Runs the model for several walkers at once: anything with ``submit``, as in concurrent.futures. The samples do
        not depend on it.
    monitor : Monitor, optional
        Shown the progress. Cancelled, or after Ctrl-C, the draws that are finished come back.

    Returns
    -------
    arviz.InferenceData
        The attribute "status" of its posterior is INTERRUPTED where it was stopped; "log_p_error" says how well the
        expansion did (NaN for the exact one, 0 for a Gaussian).

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.duffing()
    >>> orbit = kz.solve_orbit(model, profile=False).with_(covariance=1e-6 * np.eye(2))
    >>> fit = kz.identify(model, [orbit], free=["k"])
    >>> samples = kz.posterior(fit, draws=200, seed=1).posterior["k"]
    >>> bool(abs(samples.std() / fit.deviations["k"] - 1) < 0.2)
    True
    """
    if not likelihood_of(estimate):
        raise KapitzaError(
            f"{estimate.method} has no likelihood to sample: fit by {By('shooting')}, {By('harmonic')} or "
            f"{By('orbits')}."
        )
    if not estimate.status.ok or not np.isfinite(estimate.covariance).all():
        raise KapitzaError("Some parameters are not determined by these data: there is no posterior to sample.")
    bayes_packages()  # refused before any work where they are missing
    count, random = len(estimate.names), np.random.RandomState(seed)
    walkers = count_walkers(count, walkers, draws, tune)
    density, error = _density(estimate, exact, random, executor, monitor)
    start = _inside_bounds(estimate, walkers, random)
    return sample_density(estimate.names, density, error, start, random, draws, tune, monitor)


def _inside_bounds(estimate: Estimate, count: int, random: np.random.RandomState) -> Array:
    """Return starts of the walkers within the bounds.

    Some of the draws of the estimate, else of the Gaussian approximation, clipped to the bounds where too few are
    inside.
    """
    if estimate.draws is not None:
        return estimate.draws[random.choice(len(estimate.draws), count, replace=False)]
    centre = np.array([estimate.values[n] for n in estimate.names])
    low, high = bounds_of(estimate.model, estimate.names)
    root = np.linalg.cholesky(estimate.covariance)
    # Twenty times as many as needed: those outside the bounds are dropped.
    drawn = centre + random.standard_normal((20 * count, len(centre))) @ root.T
    inside = drawn[((drawn > low) & (drawn < high)).all(axis=1)]
    return inside[:count] if len(inside) >= count else np.asarray(np.clip(drawn[:count], low, high), np.float64)


Density = Callable[[Array], Array]
"""log p of parameters (W, k), up to a constant."""


def _density(
    estimate: Estimate,
    exact: bool | None,
    random: np.random.RandomState,
    executor: Executor | None,
    monitor: Monitor | None,
) -> tuple[Density, float]:
    """Return the density to sample, and its error.

    The error is that of the expansion behind it, NaN where the model is run.
    """
    centre = np.array([estimate.values[n] for n in estimate.names])
    root = np.linalg.cholesky(estimate.covariance)
    low, high = bounds_of(estimate.model, estimate.names)

    def scaled(theta: Array) -> Array:
        return np.asarray(np.linalg.solve(root, (theta - centre).T).T, np.float64)

    def bounded(inner: Density) -> Density:
        return lambda theta: np.where(((theta < low) | (theta > high)).any(axis=1), -np.inf, inner(theta))

    if likelihood_of(estimate) == "gaussian":
        return bounded(lambda theta: -0.5 * (scaled(theta) ** 2).sum(axis=1)), 0.0
    if likelihood_of(estimate) == "orbits":
        by_model: Density = partial(at_walkers, executor, _each, Shared(partial(log_posterior, estimate)))
        expansion: Density = expand(estimate)
    else:
        model: Density = (
            CountedLikelihood(estimate)
            if counts_drives(estimate)
            else partial(at_walkers, executor, _each, Shared(MotionDensity(estimate)))
        )
        inside = np.clip(centre + _points(len(centre), random) @ root.T, low, high)
        # Each point is a fit of the states with the parameters held.
        heights = _heights(model, inside, monitor)
        known = np.isfinite(heights)
        polynomial = _Polynomial(scaled(inside)[known], heights[known])
        # The fit may have widened the variances: the likelihood gives the shape, the estimate the width.
        widening = max(polynomial.curvature, 1e-12)
        by_model = bounded(lambda theta: model(theta) / widening)
        expansion = bounded(lambda theta: polynomial(scaled(theta)) / widening)
    if exact is not True:
        kind = likelihood_of(estimate)
        tests = _inside_bounds(estimate, TESTS[kind], random)
        gap = expansion(tests) - by_model(tests)
        error = float(np.std(gap[np.isfinite(gap)])) if np.isfinite(gap).sum() > 1 else float("inf")
        if exact is False or error < ERROR[kind]:
            return expansion, error
    return by_model, float("nan")


def _heights(model: Density, points: Array, monitor: Monitor | None) -> Array:
    """Return log p (P,) of points (P, k), with progress."""
    with watch(monitor, "expanding the likelihood", len(points)) as task:
        found = []
        for i in range(0, len(points), TOGETHER):
            found.append(model(points[i : i + TOGETHER]))
            task.advance(len(found[-1]))
    # Without all of its points the expansion is not determined.
    if task.interrupted:
        raise KeyboardInterrupt
    return np.concatenate(found)


def _each(density: Shared[Callable[[Array], float]], theta: Array) -> Array:
    return np.array([density.value(row) for row in theta])


def _points(count: int, random: np.random.RandomState) -> Array:
    """Return the points at which log p is evaluated.

    They are in standard errors: one at the estimate, and twice as many as the polynomial has terms.
    """
    terms = len(_exponents(count))
    drawn = random.standard_normal((2 * terms, count))
    radius = REACH * random.uniform(0.1, 1.0, len(drawn)) ** 0.5
    return np.vstack([np.zeros(count), drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * radius[:, None]])


def _exponents(count: int) -> list[tuple[int, ...]]:
    # The number of terms grows as count^degree, and each term needs two evaluations of the model.
    degree = DEGREE if count <= 4 else 3
    return [c for d in range(degree + 1) for c in itertools.combinations_with_replacement(range(count), d)]


class _Polynomial:
    """Polynomial approximation of log p in standard errors.

    It is found by least squares, weighted towards the estimate.
    """

    def __init__(self, points: Array, heights: Array):
        self.exponents = _exponents(points.shape[1])
        if len(points) < len(self.exponents):
            raise KapitzaError(
                "The model cannot be run in the neighbourhood of the estimate: there is no posterior to sample."
            )
        # A Gaussian of two standard errors: the expansion must be best where the samples are.
        weight = np.exp(-0.125 * (points**2).sum(axis=1))
        rows = self._rows(points)
        found = np.linalg.lstsq(rows * weight[:, None], (heights - heights.max()) * weight, rcond=None)[0]
        self.coefficients: Array = np.asarray(found, np.float64)

    def _rows(self, points: Array) -> Array:
        return np.stack([np.prod(points[:, list(e)], axis=1) for e in self.exponents], axis=1)

    @property
    def curvature(self) -> float:
        """Mean second derivative of -log p.

        It is 1 where the covariance is that of the likelihood.
        """
        squares = [self.exponents.index((i, i)) for i in range(max(e[0] for e in self.exponents if e) + 1)]
        return float(np.mean(-2 * self.coefficients[squares]))

    def __call__(self, points: Array) -> Array:
        # Beyond the points a polynomial may rise again: there the Gaussian replaces it.
        size = np.linalg.norm(points, axis=1)
        inner = np.where(size > REACH, REACH / np.maximum(size, 1e-300), 1.0)
        fall = 0.5 * self.curvature * np.maximum(size**2 - REACH**2, 0.0)
        return self._rows(points * inner[:, None]) @ self.coefficients - fall
