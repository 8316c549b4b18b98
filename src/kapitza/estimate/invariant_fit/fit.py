"""Settings of `InvariantFit`, and its fits.

Parameters from a conserved quantity, without integration and without the order in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import sympy as sp

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Fit, Give
from kapitza.base.monitor import checkpoint
from kapitza.data import Noise, Record
from kapitza.errors import ConvergenceError, DataError, ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.invariant_fit.annealing import anneal
from kapitza.estimate.invariant_fit.balance import fit_balance
from kapitza.estimate.invariant_fit.conserved import (
    CLEAN,
    Bounds,
    FeatureTable,
    Form,
    Points,
    VarianceProblem,
    VarianceSolution,
    linear_starts,
    minimise_corrected,
    minimise_raw,
    scores,
    variance_covariance,
)
from kapitza.estimate.invariant_fit.intervals import bootstrap, surface_covariance
from kapitza.estimate.invariant_fit.report import finish
from kapitza.estimate.invariant_fit.second import refuse_second_invariant
from kapitza.estimate.invariant_fit.setup import Setup, prepare
from kapitza.estimate.invariant_fit.surface import SharedSolution, fit_odrpack, fit_shared, fit_surface, robust_weights
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.parts import LevelSets
from kapitza.estimate.request import Request, make_request

REWEIGHTINGS = 50
"""Most weightings; the iteration ends when weights and values agree."""

UNEVEN = 0.05
"""Share of points left out at the border of the domain above which distances are minimised, not the variance."""


@dataclass(frozen=True)
class InvariantFit(Estimator):
    """Fit points to level sets of a conserved quantity.

    Points z of one or several orbits are on H(z; θ) = E.

    No integration, and no order in time. Priors count as further samples.

    Parameters
    ----------
    objective : str
        "variance" (F3: variance of H over the points), "surface" (F2: least displacement onto H = E), or "balance"
        (energy balance dH/dt = power in weak form: H need not be conserved).
    invariant : str or SymPy expression, optional
        Name of a declared invariant, or an expression in states and parameters; by default the declared energy, or the
        only one. Energy of a damped model is given here, not declared: it is not conserved.
    correction : int, optional
        Order (0, 1, 2) to which the bias that noise gives the variance is removed; by default 1, and 0 where states
        were reconstructed (their systematic errors are not noise).
    scale : str, optional
        The factor of H is not identifiable: name of the parameter to hold, or "norm" for coefficients of unit norm.
    noise : float or mapping, optional
        Standard deviation, one for all or by channel (0: exact); the record's own by default. Only ratios matter.
    momenta : str
        How states that were not measured follow from positions: "second", "fourth", "sixth", "eighth" order
        differences, "smooth", or "auto" (the least expected error).
    weights : str
        "equal", "gradient" (1/variance of H at the point), "auto": gradient where states were reconstructed.
    loss : str
        "linear", "cauchy" (points far off count less), "auto": cauchy where states were reconstructed.
    levels : str
        Each "record" or each "segment" has its own level E.
    solver : str
        "gauss-newton", "annealing" (successive-annealing Monte Carlo on the variance, corrected if requested),
        "odrpack" (small surfaces).
    starts : int
        Random starts in addition to the model's values.
    bootstrap : int
        Resampled fits for the covariance, 0 for the sandwich.
    window : float, optional
        Length [s] of the windows of the balance.
    seed : int
        Of everything random.
    then : method, optional
        One that fits the motion (F1), started from the result, such as ``ShootingFit()``.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.henon_heiles()
    >>> record = kz.simulate(model, t=np.arange(100.0))
    >>> fit = kz.identify(model.with_values(b=0.5), record, free=["b"], method=kz.InvariantFit())
    >>> round(fit["b"], 6)
    1.0
    """

    accepts: ClassVar[Accepts] = Accepts(sources=(Record,), by_parts=True)

    objective: Literal["variance", "surface", "balance"] = "variance"
    invariant: str | sp.Expr | None = None
    correction: int | None = None
    scale: str | None = None
    noise: Noise = None
    momenta: str = "auto"
    weights: Literal["auto", "equal", "gradient"] = "auto"
    loss: Literal["auto", "linear", "cauchy"] = "auto"
    levels: Literal["record", "segment"] = "record"
    solver: Literal["gauss-newton", "annealing", "odrpack"] = "gauss-newton"
    starts: int = 8
    bootstrap: int = 0
    window: float | None = None
    seed: int = 0
    then: Estimator | None = None

    def __post_init__(self):
        checks.seed(self.seed)
        choices = {
            "objective": ("variance", "surface", "balance"),
            "momenta": ("auto", "second", "fourth", "sixth", "eighth", "smooth"),
            "weights": ("auto", "equal", "gradient"),
            "loss": ("auto", "linear", "cauchy"),
            "levels": ("record", "segment"),
            "solver": ("gauss-newton", "annealing", "odrpack"),
        }
        for name, allowed in choices.items():
            checks.choice(name, getattr(self, name), allowed)
        if self.correction is not None:
            checks.whole("correction", self.correction, least=0, most=2)
        checks.whole("starts", self.starts, least=0)
        checks.whole("bootstrap", self.bootstrap, least=0)
        if self.window is not None:
            checks.number("window, in seconds,", self.window, above=0)

    def fit(self, request: Request) -> Estimate:
        """Estimate the free parameters from records.

        By default all parameters of the invariant are free.
        """
        model = request.model
        if model.is_map and self.then is not None and not isinstance(self.then, InvariantFit):
            raise ModelError(
                f'"{model.name}" is a map, and {type(self.then).__name__} fits flows: leave {Give("then")} out; '
                f"{Fit('invariant', objective='surface')} is the most accurate fit of a map."
            )
        if self.objective == "balance":
            return self._handed_over(request, fit_balance(self, request))
        setup = prepare(self, request)
        solution, problem = self._variance(setup, setup.points)
        refuse_second_invariant(setup, problem, solution)
        if setup.left_out > UNEVEN:
            # Near the border the noise of the invariant is too uneven for its variance: distances are minimised.
            setup = replace(setup, settings=replace(self, objective="surface"))
        surface = setup.settings.objective == "surface"
        estimate = (self._surface_estimate if surface else self._variance_estimate)(setup, solution, problem)
        return self._handed_over(request, estimate)

    def _handed_over(self, request: Request, estimate: Estimate) -> Estimate:
        if self.then is None:
            return estimate
        near = request.model.with_values(**{n: estimate.values[n] for n in estimate.names})
        names = estimate.names if request.free is None else request.free
        return self.then.fit(make_request(near, request.parts, names, self.then))

    def _weighting(self, points: Points) -> tuple[str, str]:
        rebuilt = _rebuilt(points)
        weights = self.weights if self.weights != "auto" else ("gradient" if rebuilt else "equal")
        loss = self.loss if self.loss != "auto" else ("cauchy" if rebuilt else "linear")
        return weights, loss

    def _order(self, points: Points) -> int:
        return self.correction if self.correction is not None else int(not _rebuilt(points))

    def _variance(
        self, setup: Setup, points: Points, start: Array | None = None
    ) -> tuple[VarianceSolution, VarianceProblem]:
        """Minimise F3, reweighted until weights and θ agree.

        Reweighted only where weights depend on θ.
        """
        weighting, loss = self._weighting(points)
        table = FeatureTable(setup.form, self._order(points))
        problem = VarianceProblem(table, points, np.ones(points.count), self.scale == "norm" and table.order == 0)
        begin = setup.start if start is None else start
        solution = self._solve(problem, begin, setup.bounds, first=start is None)
        checkpoint(dict(zip(setup.form.free, solution.theta.tolist(), strict=True)))
        # Weights do not depend on θ: one solution is enough.
        if weighting == "equal" and loss == "linear":
            return solution, problem
        slopes = FeatureTable(setup.form, max(1, table.order))
        for _ in range(REWEIGHTINGS):
            weights = point_weights(slopes, points, solution.theta, problem.weights, weighting, loss)
            problem = VarianceProblem(table, points, weights, problem.unit_norm)
            previous, solution = solution, self._solve(problem, solution.theta, setup.bounds, first=False)
            checkpoint(dict(zip(setup.form.free, solution.theta.tolist(), strict=True)))
            change = np.abs(solution.theta - previous.theta)
            if np.all(change <= 1e-7 * np.maximum(np.abs(solution.theta), 1e-3)):
                break
        return solution, problem

    def _solve(self, problem: VarianceProblem, begin: Array, bounds: Bounds, first: bool) -> VarianceSolution:
        if self.solver == "annealing" and first:
            size = np.maximum(np.abs(begin), 1.0)
            raw = anneal(problem, begin, size, bounds, self.seed)
            # Data exact to rounding have no noise whose bias could be removed.
            clean = not problem.table.order or not CLEAN <= problem.noise_factor(raw.theta) < np.inf
            return raw if clean else anneal(problem, raw.theta, size, bounds, self.seed, corrected=True)
        starts = [begin, *linear_starts(problem, begin, bounds)] if first else [begin]
        if first:
            starts += random_starts(begin, bounds, self.starts if problem.form.separable else 0, self.seed)
        raw = minimise_raw(problem, starts, bounds)
        if not (problem.table.order or problem.unit_norm):
            return raw
        factor = problem.noise_factor(raw.theta)
        if factor < CLEAN or not np.isfinite(factor):
            return raw
        return minimise_corrected(problem, raw.theta, bounds)

    def _variance_estimate(self, setup: Setup, solution: VarianceSolution, problem: VarianceProblem) -> Estimate:
        covariance = variance_covariance(problem, solution) + self._of_read_noise(setup, solution)
        value, levels = _levels(setup, problem, solution.theta)
        found = LevelSets(setup.form.expression, levels, solution.tau, variance=solution.value)
        residual = value - levels[setup.points.level]
        done = partial(finish, setup, solution.theta, covariance, residual, found, solution.converged)
        return self._bootstrapped(setup, done, partial(_variance_again, self, setup, solution.theta))

    def _of_read_noise(self, setup: Setup, solution: VarianceSolution) -> Array:
        """Return the covariance (k, k) due to estimated noise.

        The estimate changes with the error of noise that was estimated from the samples.
        """
        points, theta = setup.points, solution.theta
        total = np.zeros((theta.size, theta.size))
        if points.doubt is None or not self._order(points) or not CLEAN <= solution.tau < np.inf:
            return total
        for j in np.flatnonzero(points.doubt):
            variance = points.variance.copy()
            # One standard deviation of the estimated noise variance.
            variance[j] *= 1.0 + points.doubt[j]
            shift = self._variance(setup, replace(points, variance=variance), theta)[0].theta - theta
            total += np.outer(shift, shift)
        return total

    def _bootstrapped(self, setup: Setup, done: Callable[..., Estimate], refit: Callable[[Points], Array]) -> Estimate:
        """Return the estimate, with a bootstrap covariance if requested."""
        estimate = done()
        if not self.bootstrap:
            return estimate
        checkpoint(estimate)
        return done(samples=bootstrap(setup.points, refit, self.bootstrap, self.seed, setup.request.executor))

    def _surface_estimate(self, setup: Setup, start: VarianceSolution, problem: VarianceProblem) -> Estimate:
        form, points, levels = setup.form, setup.points, _levels(setup, problem, start.theta)[1]
        if points.shared is not None:
            self._refuse_for_shared()
            return self._shared_estimate(setup, fit_shared(form, points, start.theta, levels, setup.bounds))
        loss = self._weighting(points)[1]
        begin = start.theta
        if self.solver == "odrpack":
            # odrpack gives a start; the covariance comes from the iteration below.
            begin, levels = fit_odrpack(form, points, begin, levels, setup.bounds)
        solution = fit_surface(form, points, begin, levels, setup.bounds, loss)
        if not np.isfinite(solution.cost):
            raise ConvergenceError(
                f"The surface fit diverged: start nearer, or use {Give(objective='variance')}.", solution
            )
        covariance = surface_covariance(solution, points)
        nearest = solution.nearest
        found = LevelSets(
            form.expression, solution.levels, solution.cost / setup.spare, distance=solution.cost,
            projections=nearest.points, unprojected=int(np.sum(~nearest.found)),
        )  # fmt: skip
        done = partial(
            finish, setup, solution.theta, covariance, nearest.distance, found, solution.converged, solution.history
        )
        again = partial(_surface_again, form, setup.bounds, loss, solution.theta, solution.levels)
        return self._bootstrapped(setup, done, again)

    def _refuse_for_shared(self) -> None:
        """Refuse settings that do not apply to shared samples.

        They would have no effect on the fit.
        """
        asked = {
            f"bootstrap={self.bootstrap}": self.bootstrap > 0,
            f'loss="{self.loss}"': self.loss == "cauchy",
            f'solver="{self.solver}"': self.solver == "odrpack",
        }
        if any(asked.values()):
            raise DataError(
                "Every sample is a coordinate of several points here, and a surface is fitted to all of them at "
                f"once: {', '.join((name for name, given in asked.items() if given))} does not apply. Leave it out, "
                f"or use {Fit('invariant', objective='variance')}."
            )

    def _shared_estimate(self, setup: Setup, solution: SharedSolution) -> Estimate:
        factor = solution.cost / setup.spare
        found = LevelSets(setup.form.expression, solution.levels, factor, distance=solution.cost)
        covariance = solution.covariance * factor
        return finish(
            setup, solution.theta, covariance, solution.displacement, found, solution.converged, solution.history
        )


def _rebuilt(points: Points) -> bool:
    """Return whether states were reconstructed.

    Their errors must differ from point to point.
    """
    return bool(points.reconstructed) and bool(np.ptp(points.variance, axis=1).any())


def _levels(setup: Setup, problem: VarianceProblem, theta: Array) -> tuple[Array, Array]:
    """Return the invariant (N,) and its levels (R,).

    The invariant is given at every point, the level is its mean over each level set.
    """
    value, level = setup.form.at(setup.points.values, theta)[0], setup.points.level
    return value, np.bincount(level, problem.weights * value) / np.bincount(level, problem.weights)


def _variance_again(settings: InvariantFit, setup: Setup, theta: Array, sample: Points) -> Array:
    return settings._variance(setup, sample, theta)[0].theta


def _surface_again(form: Form, bounds: Bounds, loss: str, theta: Array, levels: Array, sample: Points) -> Array:
    return fit_surface(form, sample, theta, levels, bounds, loss).theta


def random_starts(begin: Array, bounds: Bounds, count: int, seed: int) -> list[Array]:
    """Return random starts inside the bounds.

    They are within a factor of ten of the model's values and of one.
    """
    rng = np.random.default_rng(seed)
    size = np.maximum(np.abs(begin), 1.0)
    sign = np.where(bounds.low >= 0, 1.0, rng.choice([-1.0, 1.0], (count, begin.size)))
    return [bounds.clip(row) for row in sign * size * 10 ** rng.uniform(-1, 1, (count, begin.size))]


def point_weights(
    table: FeatureTable, points: Points, theta: Array, current: Array, weighting: str, loss: str
) -> Array:
    """Return the weights of the points.

    With weighting "gradient" they are 1/(∇H·V·∇H), capped, times the robust weight of the standardised deviation.
    """
    parts = scores(table, points, theta, current, 0.0)
    square = np.einsum("dn,dn->n", points.variance, parts.gradient**2)
    weights = np.ones(points.count)
    if weighting == "gradient":
        weights = 1.0 / np.maximum(square, 1e-300)
        # Near a saddle ∇H vanishes: without the cap a few points would decide the fit.
        weights = np.minimum(weights, 10 * np.quantile(weights, 0.9))
    return weights * robust_weights(parts.invariant * np.sqrt(weights), loss)
