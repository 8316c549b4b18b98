"""Parameters drawn from the errors of a fit, for bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kapitza.study.outcome import Outcome

DRAWS = 60
"""How many are drawn: enough for 95 % bands to a tenth of their width."""


def parameter_draws(outcome: Outcome, names: Sequence[str], seed: int) -> list[dict[str, float]]:
    """Values of these parameters with the covariance of the fit; those without an error stay out."""
    keep = [outcome.names.index(n) for n in names if np.isfinite(outcome.deviations.get(n, np.nan))]
    if not keep:
        return []
    correlation = np.nan_to_num(np.array(outcome.correlation, float)[np.ix_(keep, keep)])
    np.fill_diagonal(correlation, 1.0)
    spread = np.array([outcome.deviations[outcome.names[i]] for i in keep])
    mean = np.array([outcome.values[outcome.names[i]] for i in keep])
    random = np.random.default_rng(seed)
    drawn = random.multivariate_normal(mean, correlation * np.outer(spread, spread), DRAWS, check_valid="ignore")
    return [dict(zip([outcome.names[i] for i in keep], row.tolist(), strict=True)) for row in drawn]
