"""Parameters drawn from the errors of a fit, for bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm
from scipy.stats.qmc import Sobol

from kapitza.study.outcome import Outcome

DRAWS = 64
"""How many motions a band of predictions is made of."""

FORCE_DRAWS = 1024
"""How many a band of forces is made of, which cost nothing."""


def parameter_draws(outcome: Outcome, names: Sequence[str], seed: int, count: int = DRAWS) -> list[dict[str, float]]:
    """Values of these parameters with the covariance of the fit; those without an error stay out.

    count: a power of two. The numbers fill the distribution evenly (Sobol): the width of a 95 % band of 64 of them
    scatters by 7 %, that of independent ones by 10 %.
    """
    keep = [outcome.names.index(n) for n in names if np.isfinite(outcome.deviations.get(n, np.nan))]
    if not keep:
        return []
    correlation = np.nan_to_num(np.array(outcome.correlation, float)[np.ix_(keep, keep)])
    np.fill_diagonal(correlation, 1.0)
    spread = np.array([outcome.deviations[outcome.names[i]] for i in keep])
    mean = np.array([outcome.values[outcome.names[i]] for i in keep])
    # rounding may leave a correlation matrix with eigenvalues just below zero
    sizes, axes = np.linalg.eigh(correlation)
    even = norm.ppf(Sobol(len(keep), rng=np.random.default_rng(seed)).random(count))
    drawn = mean + spread * ((even * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T)
    return [dict(zip([outcome.names[i] for i in keep], row.tolist(), strict=True)) for row in drawn]
