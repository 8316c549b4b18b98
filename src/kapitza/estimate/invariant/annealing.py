"""The successive-annealing Monte Carlo search of the INVARIANT document."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.invariant.variance import Bounds, VarianceProblem, VarianceSolution

Array = NDArray[np.float64]


def anneal(
    problem: VarianceProblem, start: Array, step: Array, bounds: Bounds, seed: int, depth: int = 44, trials: int = 256
) -> VarianceSolution:
    """Random changes of size in [2^-(n+1), 2^-n]·step; n grows when a batch of `trials` brings no decrease of F3.

    start, step: (k,). Each change moves a random subset of the parameters. Ends at n = depth.
    """
    rng = np.random.default_rng(seed)
    theta, best, n, evaluated = start.copy(), problem.value(start), 0, 0
    while n < depth:
        size = (1 + rng.random((start.size, trials))) * 2.0 ** (-n - 1)
        sign = rng.choice([-1.0, 0.0, 1.0], (start.size, trials))
        candidates = bounds.clip((theta[:, None] + size * sign * step[:, None]).T).T
        values = _values(problem, candidates)
        evaluated += trials
        winner = int(np.argmin(values))
        if values[winner] < best:
            theta, best = candidates[:, winner], float(values[winner])
        else:
            n += 1
    return VarianceSolution(theta, best, 0.0, evaluated, True)


def _values(problem: VarianceProblem, candidates: Array) -> Array:
    if problem.form.separable:
        root = problem.moment(candidates[:, 0]).root
        with np.errstate(all="ignore"):
            values = np.sum((root @ problem.form.coefficients_of(candidates)) ** 2, axis=0)
    else:
        values = np.array([problem.value(c) for c in candidates.T])
    return np.where(np.isfinite(values), values, np.inf)
