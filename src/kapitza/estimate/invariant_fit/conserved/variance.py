"""F3: least variance of the invariant over the data.

The bias by noise is removed. On separated forms H = c(θ)·φ the data enter once, through the moments S of the
features; the remaining problem has the size of θ. Without correction: min |R c(θ)|², RᵀR = S0, by Gauss-Newton
from several starts (one linear least-squares solution where c is linear). With correction: the smallest noise
factor τ(θ) with c·S(τ)·c = 0. It does not depend on the scale of H, so any normalisation gives the same
solution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from kapitza.base.arrays import Array
from kapitza.base.monitor import checkpoint
from kapitza.errors import KapitzaError
from kapitza.estimate.invariant_fit.conserved.expression import Form
from kapitza.estimate.invariant_fit.conserved.moments import FeatureTable, Moments, second_moments
from kapitza.estimate.invariant_fit.conserved.points import Points
from kapitza.solve import singular_vectors

STEPS = 200
"""Steps after which the minimisation counts as not converged."""

CLEAN = 1e-12
"""Noise factor below which the data are clean to rounding and the correction is left out."""


@dataclass(frozen=True)
class Bounds:
    low: Array
    high: Array

    def clip(self, theta: Array) -> Array:
        return np.clip(theta, self.low, self.high)


@dataclass(frozen=True)
class VarianceSolution:
    """Solution of a variance fit.

    theta (k,); value: F3, the mean square of H about its level; tau: noise variance over the stated one.
    """

    theta: Array
    value: float
    tau: float
    steps: int
    converged: bool


def precise_least_squares(
    residual: Callable[[Array], Array], jacobian: Any, start: Array, bounds: Bounds | None = None
) -> Any:
    """Run SciPy's least squares until rounding stops it.

    The method is a trust region; the start must be strictly inside the bounds.
    """
    from scipy.optimize import OptimizeResult, least_squares

    if not start.size:  # NumPy below 2.4 has no norm of nothing
        return OptimizeResult(x=start, cost=0.5 * float((residual(start) ** 2).sum()), nfev=1, status=1)

    low, high = (bounds.low, bounds.high) if bounds else (-np.inf, np.inf)
    return least_squares(residual, start, jacobian, (low, high), x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15)


class VarianceProblem:
    """Moments as a function of θ.

    It needs one pass over the data for separated forms, one per θ otherwise.
    """

    def __init__(
        self,
        table: FeatureTable,
        points: Points,
        weights: Array,
        unit_norm: bool = False,
        given: Moments | None = None,
    ):
        self.table, self.points, self.weights, self.unit_norm = table, points, weights, unit_norm
        self._last: tuple[bytes, Moments] | None = None if given is None else (b"", given)

    @property
    def form(self) -> Form:
        return self.table.form

    def moment(self, theta: Array) -> Moments:
        key = b"" if self.form.separable else np.asarray(theta, float).tobytes()
        if self._last is None or self._last[0] != key:
            found = second_moments(self.table, self.points, theta, self.weights)
            if self.unit_norm:
                found = replace(found, noise=np.eye(len(found.root)), second=np.zeros_like(found.second))
            self._last = (key, found)
        return self._last[1]

    def value(self, theta: Array) -> float:
        """Return F3.

        F3 is the mean square of H about its level.
        """
        c, _ = self.form.local(theta)
        return float(np.sum((self.moment(theta).root @ c) ** 2))

    def noise_factor(self, theta: Array) -> float:
        """Return the smallest τ with c·S(τ)·c = 0.

        Without a root it is where the form comes closest to zero.
        """
        c, _ = self.form.local(theta)
        if not np.isfinite(c).all():
            return np.inf
        moment = self.moment(theta)
        a, b, e = float(np.sum((moment.root @ c) ** 2)), c @ moment.noise @ c, c @ moment.second @ c
        return float(smallest_root(np.array([a]), np.array([b]), np.array([e]))[0])


def smallest_root(a: Array, b: Array, e: Array) -> Array:
    """Return the smallest τ (M,) of a quadratic.

    a - τ b + τ² e = 0, or where it comes closest; infinite where noise would add nothing.
    """
    gap = b * b - 4 * a * e
    with np.errstate(all="ignore"):
        curved = np.where(gap < 0, b / (2 * e), 2 * a / (b + np.sqrt(np.clip(gap, 0, None))))
        # The quadratic formula loses its digits where the second order is negligible.
        root = np.where(np.abs(e) * a < 1e-14 * b * b, a / b, curved)
    return np.where(b > 0, root, np.inf)


def minimise_raw(problem: VarianceProblem, starts: list[Array], bounds: Bounds) -> VarianceSolution:
    """Minimise |R c(θ)|² from each start.

    The best is returned.
    """
    form = problem.form

    def residual(theta: Array) -> Array:
        moment = problem.moment(theta)
        return moment.root @ form.local(theta)[0] / scale

    def jacobian(theta: Array) -> Array:
        return problem.moment(theta).root @ form.local(theta)[1] / scale

    best, count, scale = None, 0, 1.0
    for start in starts:
        inner = _inside(bounds.clip(start), bounds)
        if best is None:  # one scale for all starts, so that their costs compare
            scale = float(np.linalg.norm(problem.moment(inner).root)) or 1.0
        found = precise_least_squares(residual, jacobian, inner, bounds)
        count += int(found.nfev)
        if best is None or found.cost < best.cost:
            best = found
    if best is None:
        raise KapitzaError("A fit needs at least one start.")
    return VarianceSolution(best.x, problem.value(best.x), 0.0, count, bool(best.status > 0))


def _inside(theta: Array, bounds: Bounds) -> Array:
    """Return a start strictly between the bounds.

    The bounded solver needs it.
    """
    span = np.where(np.isfinite(bounds.high - bounds.low), bounds.high - bounds.low, np.maximum(1.0, np.abs(theta)))
    low, high = bounds.low + 1e-8 * span, bounds.high - 1e-8 * span
    return np.clip(theta, low, high)


def linear_starts(problem: VarianceProblem, theta: Array, bounds: Bounds) -> list[Array]:
    """Return starts from a linear relaxation.

    c(θ) is fitted to the free coefficients of least variance: far starts become near ones.
    The coefficients that hold no free parameter set the scale where there are some; else the smallest singular vector.
    """
    form = problem.form
    if not form.separable:
        return []
    c, _ = form.local(theta)
    moment = problem.moment(theta)
    # Coefficients without a free parameter are known numbers.
    held = ~np.any(_touched(form, theta, bounds), axis=1)
    relaxed = c.copy()
    if held.any() and not held.all():
        target = moment.root[:, held] @ c[held]
        relaxed[~held] = -np.linalg.lstsq(moment.root[:, ~held], target, rcond=None)[0]
    else:
        relaxed = singular_vectors(moment.root)[2][-1]
        # A singular vector has no sign: that of the present coefficients is taken.
        relaxed *= np.sign(relaxed @ c) or 1.0
        relaxed *= np.linalg.norm(c)
    size = np.maximum(np.abs(relaxed), 1e-3 * np.abs(relaxed).max())

    def mismatch(x: Array) -> Array:
        return (form.local(x)[0] - relaxed) / size

    def slope(x: Array) -> Array:
        return form.local(x)[1] / size[:, None]

    found = []
    for start in (theta, _inside(bounds.clip(np.ones_like(theta)), bounds)):
        try:
            fit = precise_least_squares(mismatch, slope, _inside(bounds.clip(start), bounds), bounds)
        except ValueError:  # a coefficient is infinite at this start
            continue
        found.append(fit.x)
    return found


def _touched(form: Form, theta: Array, bounds: Bounds) -> NDArray[np.bool_]:
    """Return which coefficients depend on which parameters.

    The flags are (K, k), tested away from accidental zeros.
    """
    away = bounds.clip(theta + 0.37 * np.maximum(1.0, np.abs(theta)))
    return (form.local(away)[1] != 0) | (form.local(theta)[1] != 0)


def minimise_corrected(problem: VarianceProblem, start: Array, bounds: Bounds) -> VarianceSolution:
    """Minimise the noise factor τ(θ).

    Gauss-Newton takes steps -(Cᵀ S C)⁻¹ Cᵀ S c at S = S(τ), damped until τ falls.
    """
    form = problem.form
    theta, tau = start, problem.noise_factor(start)
    shift, done, step = 0.0, False, 0
    for _ in range(STEPS):
        step += 1
        checkpoint(dict(zip(form.free, theta.tolist(), strict=True)), f"iteration {step}")
        c, slopes = form.local(theta)
        moment = problem.moment(theta)
        matrix = moment.at(tau)
        hessian, gradient = slopes.T @ matrix @ slopes, slopes.T @ matrix @ c
        metric = slopes.T @ moment.raw @ slopes
        size = np.diag(metric)
        # At a bound such as omega = 0 a parameter that enters squared has no effect: it stays there.
        metric = metric + np.diag(np.where(size > 1e-24 * size.max(), 0.0, size.max()))
        lowest = eigh(hessian, metric, eigvals_only=True, subset_by_index=[0, 0])[0]
        # S(τ) is indefinite away from the minimum: the ridge makes the step a descent direction.
        ridge = max(shift, 1e-6 - lowest if lowest <= 1e-6 else 0.0)
        move = -np.linalg.solve(hessian + ridge * metric, gradient)
        trial = bounds.clip(theta + move)
        fresh = problem.noise_factor(trial)
        if fresh <= tau * (1 + 1e-13):
            small = np.abs(trial - theta) <= 1e-11 * np.maximum(np.abs(theta), 1e-3)
            theta, tau, shift = trial, fresh, shift / 10 if shift > 1e-4 else 0.0
            if small.all():
                done = True
                break
        elif np.all(np.abs(move) <= 1e-9 * np.maximum(np.abs(theta), 1e-3)):
            done = True
            break
        else:
            shift = max(10 * shift, 1e-3)
            if shift > 1e8:
                break
    return VarianceSolution(theta, problem.value(theta), tau, step, done)
