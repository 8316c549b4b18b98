"""Beyond the Gaussian interval: profile likelihood and samples of the posterior."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit.judge import Outcome
from kapitza.estimate.orbit_fit.solver import Solver, SolverSettings, reduce_block
from kapitza.estimate.orbit_fit.task import Task

Array = NDArray[np.float64]


def _inside(estimate: Estimate) -> tuple[Task, Outcome]:
    task, outcome = estimate.details.get("task"), estimate.details.get("outcome")
    if not (isinstance(task, Task) and isinstance(outcome, Outcome)):
        raise KapitzaError("This needs an estimate made by OrbitFit.")
    return task, outcome


def _widening(estimate: Estimate) -> float:
    """Factor on χ² by which the estimate's covariance was widened already."""
    _, outcome = _inside(estimate)
    plain = np.trace(outcome.solution.covariance)
    return float(np.trace(estimate.covariance) / plain) if plain > 0 else 1.0


def orbit_profile_interval(estimate: Estimate, name: str, level: float = 0.95) -> tuple[float, float]:
    """Interval of one parameter: all others, and all orbits, are fitted again at each value tried.

    It ends where the rise of χ² reaches the χ² quantile with one degree of freedom.
    """
    task, outcome = _inside(estimate)
    if name not in estimate.names:
        raise KapitzaError(f'"{name}" was not free in this fit; free were {", ".join(estimate.names)}.')
    index, solution = estimate.names.index(name), outcome.solution
    threshold = float(stats.chi2.ppf(level, 1)) * _widening(estimate)
    prior = outcome.problem.prior_weight

    def excess(value: float) -> float:
        low, high, theta = task.low.copy(), task.high.copy(), solution.theta.copy()
        low[index] = high[index] = value
        slope = solution.covariance[:, index] / solution.covariance[index, index]
        theta = theta + slope * (value - theta[index])
        theta[index] = value
        shift = theta - solution.theta
        unknowns = [z + r.follow @ shift for z, r in zip(solution.unknowns, solution.reduced, strict=True)]
        solver = Solver(outcome.problem, SolverSettings(), solution.weights, low, high, task.typical)
        again = solver.solve(theta, unknowns, soft=False)
        if not again.status.ok:
            raise KapitzaError(f"The profile of {name} could not be followed to {value:.6g}: {again.status.value}.")
        gained = sum(float((r.residual**2).sum()) for r in again.reduced)
        gained += float((prior * (again.theta - outcome.problem.prior_mean) ** 2).sum())
        before = sum(
            float((r.residual[: len(w)] ** 2).sum()) for r, w in zip(solution.reduced, solution.weights, strict=True)
        )
        before += float((prior * (solution.theta - outcome.problem.prior_mean) ** 2).sum())
        return gained - before - threshold

    centre, reach = estimate.values[name], np.sqrt(threshold) * np.sqrt(solution.covariance[index, index])
    ends = []
    for side in (-1.0, 1.0):
        factor = 1.0
        while excess(centre + side * factor * reach) < 0 and factor < 16:
            factor *= 1.5
        bracket = (centre + 0.2 * side * reach, centre + factor * side * reach)
        ends.append(float(optimize.root_scalar(excess, bracket=bracket, xtol=1e-3 * reach).root))
    return ends[0], ends[1]


def log_posterior(estimate: Estimate, theta: Array) -> float:
    """log p(θ | readings) up to a constant: orbits follow θ along their tangent and close to second order."""
    task, outcome = _inside(estimate)
    theta = np.asarray(theta, float)
    if ((theta < task.low) | (theta > task.high)).any():
        return float("-inf")
    problem, solution = outcome.problem, outcome.solution
    shift = theta - solution.theta
    unknowns = [z + r.follow @ shift for z, r in zip(solution.unknowns, solution.reduced, strict=True)]
    try:
        blocks = problem.evaluate(unknowns, theta)
    except FlowError:
        return float("-inf")
    residuals = [reduce_block(b, w).residual for b, w in zip(blocks, solution.weights, strict=True)]
    chi2 = sum(float(r @ r) for r in residuals) / _widening(estimate)
    return -0.5 * (chi2 + float((problem.prior_weight * (theta - problem.prior_mean) ** 2).sum()))


def posterior(estimate: Estimate, draws: int = 400, tune: int = 200, walkers: int | None = None, seed: int = 0) -> Any:
    """Samples of the posterior by emcee, as ArviZ InferenceData (needs the extra `kapitza[bayes]`).

    The walkers start from the Gaussian approximation. Noise is taken as estimated by the fit.
    """
    try:
        with warnings.catch_warnings():
            # ArviZ announces its own refactoring at every import.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
        import emcee
    except ImportError as error:
        raise KapitzaError(f'{error.name} is missing: install it with pip install "kapitza[bayes]".') from None
    count = len(estimate.names)
    walkers = walkers or max(4 * count, 12)
    random = np.random.RandomState(seed)
    centre = np.array([estimate.values[name] for name in estimate.names])
    task, _ = _inside(estimate)
    start = random.multivariate_normal(centre, estimate.covariance, size=walkers)
    start = np.clip(start, task.low, task.high)
    sampler = emcee.EnsembleSampler(walkers, count, lambda theta: log_posterior(estimate, theta))
    sampler.run_mcmc(emcee.State(start, random_state=random.get_state()), tune + draws)
    return arviz.from_emcee(sampler, var_names=list(estimate.names)).sel(draw=slice(tune, None))
