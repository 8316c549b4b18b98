"""Profile and posterior of an orbit fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit.judge import Outcome
from kapitza.estimate.orbit_fit.result import OrbitWorkings
from kapitza.estimate.orbit_fit.solver import OrbitIterate, OrbitSolution, Reduced, Solver, reduce_block
from kapitza.estimate.orbit_fit.task import OrbitTask
from kapitza.estimate.priors import Priors
from kapitza.estimate.result import workings_of


def _inside(estimate: Estimate) -> tuple[OrbitTask, Outcome]:
    workings = workings_of(estimate, OrbitWorkings)
    if estimate.names != workings.task.names:
        raise KapitzaError(
            f"This estimate is in combinations: take estimate.base, in {', '.join(workings.task.names)}."
        )
    return workings.task, workings.outcome


def _widening(estimate: Estimate, index: int | None = None) -> float:
    """Return the factor by which variances were widened.

    It is that of one parameter, or the mean of all.
    """
    _, outcome = _inside(estimate)
    plain = np.diag(outcome.solution.covariance)
    if estimate.draws is not None or not np.isfinite(estimate.covariance).all() or not (plain > 0).all():
        return 1.0
    # Ratios are taken parameter by parameter: a sum of variances would depend on their units.
    ratios = np.diag(estimate.covariance) / plain
    return float(ratios.mean() if index is None else ratios[index])


def _chi2(outcome: Outcome, reduced: list[Reduced], theta: Array) -> float:
    return sum(float(r.residual @ r.residual) for r in reduced) + 2 * outcome.problem.priors.cost(theta)


def _moved(solution: OrbitSolution, theta: Array) -> list[Array]:
    """Return the unknowns at other parameters.

    Every orbit is moved along its tangent.
    """
    shift = theta - solution.theta
    return [z + r.follow @ shift for z, r in zip(solution.unknowns, solution.reduced, strict=True)]


class OrbitProfile:
    """Profile of χ² over one parameter.

    All orbits are fitted again; multipliers are included where they were fitted.
    """

    def __init__(self, estimate: Estimate, name: str):
        self.task, self.outcome = _inside(estimate)
        self.name, self.index, solution = name, estimate.names.index(name), self.outcome.solution
        self.widening = _widening(estimate, self.index)
        self.spread = estimate.covariance if estimate.draws is not None else solution.covariance
        known = np.isfinite(estimate.covariance).all() and np.isfinite(self.spread).all()
        if not (known and self.spread[self.index, self.index] > 0):
            raise KapitzaError(f"{name} is not determined by these data: its profile is flat.")
        self.width = float(np.sqrt(self.spread[self.index, self.index]))
        self.before = _chi2(self.outcome, solution.reduced, solution.theta)

    def rise(self, value: float) -> float:
        task, solution, index = self.task, self.outcome.solution, self.index
        low, high, theta = task.low.copy(), task.high.copy(), solution.theta.copy()
        low[index] = high[index] = value
        slope = self.spread[:, index] / self.spread[index, index]
        # Start on the ridge of the Gaussian, where the other parameters follow.
        theta = np.clip(theta + slope * (value - theta[index]), low, high)
        solver = Solver(self.outcome.problem, solution.weights, low, high, task.typical, self.outcome.extra)
        again = solver.solve(theta, _moved(solution, theta), soft=False)
        if not again.status.ok:
            why = again.status.value
            raise KapitzaError(f"The profile of {self.name} could not be followed to {value:.6g}: {why}.")
        return _chi2(self.outcome, again.reduced, again.theta) - self.before


def log_posterior(estimate: Estimate, theta: Array) -> float:
    """Return log p(θ | samples) up to a constant.

    Orbits follow θ along their tangent and close to second order.
    """
    task, outcome = _inside(estimate)
    theta = np.asarray(theta, float)
    if ((theta < task.low) | (theta > task.high)).any():
        return float("-inf")
    reduced = _reduced_at(outcome, theta)
    return float("-inf") if reduced is None else -0.5 * _chi2(outcome, reduced, theta) / _widening(estimate)


def _reduced_at(outcome: Outcome, theta: Array) -> list[Reduced] | None:
    unknowns = _moved(outcome.solution, theta)
    try:
        now = OrbitIterate(theta, unknowns, outcome.problem.evaluate(unknowns, theta))
        reduced = [reduce_block(b, w) for b, w in zip(now.blocks, outcome.solution.weights, strict=True)]
        return reduced if outcome.extra is None else outcome.extra(now, reduced)
    except FlowError:
        return None


@dataclass(frozen=True)
class Expansion:
    """Second-order expansion of the whitened residuals.

    It is about the estimate: r(θ) = r₀ + S d + ½ dᵀ H d, d = L⁻¹ (θ - θ̂). residual (m,), slope (m, k), curvature
    (m, k, k); root: L (k, k), so that d has the unit covariance of the estimate. With it a whole ensemble is
    evaluated in one product, where the model would be run once per walker.
    """

    centre: Array
    root: Array
    residual: Array
    slope: Array
    curvature: Array
    low: Array
    high: Array
    priors: Priors
    widening: float

    def __call__(self, theta: Array) -> Array:
        """Return log p of parameters (W, k).

        It is known up to a constant.
        """
        d = np.linalg.solve(self.root, (theta - self.centre).T).T
        r = self.residual + d @ self.slope.T + 0.5 * np.einsum("wa,mab,wb->wm", d, self.curvature, d, optimize=True)
        chi2 = (r**2).sum(axis=1) + ((theta - self.priors.mean) ** 2 * self.priors.weight).sum(axis=1)
        outside = ((theta < self.low) | (theta > self.high)).any(axis=1)
        return np.where(outside, -np.inf, -0.5 * chi2 / self.widening)


def expand(estimate: Estimate) -> Expansion:
    """Expand the residuals about the estimate.

    Second derivatives come from the slopes one standard error to either side.
    """
    task, outcome = _inside(estimate)
    solution = outcome.solution
    root = np.asarray(np.linalg.cholesky(estimate.covariance), np.float64)
    reduced = _reduced_at(outcome, solution.theta)
    assert reduced is not None
    residual = np.concatenate([r.residual for r in reduced])
    slope: Array = np.concatenate([r.slope for r in reduced])
    curvature = np.zeros((residual.size, root.shape[0], root.shape[0]))
    for column in range(root.shape[0]):
        sides = []
        for sign in (1.0, -1.0):
            near = _reduced_at(outcome, solution.theta + sign * root[:, column])
            # Where the model cannot be run one standard error away, the expansion stays linear in that direction.
            sides.append(slope if near is None else np.concatenate([r.slope for r in near]))
        curvature[:, :, column] = 0.5 * (sides[0] - sides[1]) @ root
    # Second derivatives are symmetric; differences are so only approximately.
    curvature = 0.5 * (curvature + np.swapaxes(curvature, 1, 2))
    return Expansion(
        solution.theta, root, residual, slope @ root, curvature, task.low, task.high, outcome.problem.priors,
        _widening(estimate),
    )  # fmt: skip
