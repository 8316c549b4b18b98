"""Successive-annealing Monte Carlo search (INVARIANT)."""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.estimate.invariant_fit.conserved import Bounds, VarianceProblem, VarianceSolution, smallest_root


def anneal(
    problem: VarianceProblem,
    start: Array,
    step: Array,
    bounds: Bounds,
    seed: int,
    corrected: bool = False,
    depth: int = 44,
    trials: int = 256,
) -> VarianceSolution:
    """Minimise F3 by random changes of decreasing size.

    Sizes in [2^-(n+1), 2^-n]·step; n grows when a batch of `trials` brings no decrease.
    The minimised function is F3 or, corrected, the noise factor τ at which F3 without its noise vanishes.
    start, step: (k,). Each change moves a random subset of the parameters. Ends at n = depth.
    """
    rng = np.random.default_rng(seed)
    theta, n, evaluated = start.copy(), 0, 0
    best = problem.noise_factor(start) if corrected else problem.value(start)
    while n < depth:
        size = (1 + rng.random((start.size, trials))) * 2.0 ** (-n - 1)
        sign = rng.choice([-1.0, 0.0, 1.0], (start.size, trials))
        candidates = bounds.clip((theta[:, None] + size * sign * step[:, None]).T).T
        values = _values(problem, candidates, corrected)
        evaluated += trials
        winner = int(np.argmin(values))
        if values[winner] < best:
            theta, best = candidates[:, winner], float(values[winner])
        else:
            # No candidate of the batch was better: the steps are halved.
            n += 1
    return VarianceSolution(theta, problem.value(theta), best if corrected else 0.0, evaluated, True)


def _values(problem: VarianceProblem, candidates: Array, corrected: bool) -> Array:
    if not problem.form.separable:
        one = problem.noise_factor if corrected else problem.value
        values = np.array([one(c) for c in candidates.T])
    else:
        moment = problem.moment(candidates[:, 0])
        with np.errstate(all="ignore"):
            c = problem.form.coefficients_of(candidates)
            values = np.sum((moment.root @ c) ** 2, axis=0)
            if corrected:
                b, e = (np.einsum("km,kl,lm->m", c, matrix, c) for matrix in (moment.noise, moment.second))
                values = smallest_root(values, b, e)
    return np.where(np.isfinite(values), values, np.inf)
