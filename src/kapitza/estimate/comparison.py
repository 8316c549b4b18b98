"""Comparison of models fitted to the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.cures import By
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate

if TYPE_CHECKING:
    import pandas as pd

TIE = 2.0
"""Difference in AIC below which the data do not distinguish two models."""


def compare_fits(fits: Mapping[str, Estimate]) -> pd.DataFrame:
    """Compare fits of different models, the best first.

    All fits use the same samples; the table has one row per fit.

    AIC = 2k - 2 log L and BIC = k log N - 2 log L, k the numbers fitted (free parameters, estimated noises and, by
    `ShootingFit`, initial states), N the number of samples; dAIC and dBIC are the differences from the best. weight =
    exp(-dAIC/2), normalised: the evidence for each among these. Of models within 2 of the lowest AIC, which the data do
    not distinguish, the smallest comes first. F is the ratio of the residual variances, this fit's over the best's, and
    p the probability of so large a ratio if both explained the data equally well (for models that are not nested a
    guide, not a test).

    Parameters
    ----------
    fits : mapping of str to Estimate
        Fits of `OrbitFit` or of `ShootingFit` (``"auto"`` included), all of one kind, by name.

    Returns
    -------
    pandas.DataFrame
        Indexed by name, the best first.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> damped = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> free = kz.Model.from_equations("x'' + k*x = 0", parameters={"k": 1.0}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(damped, t=np.arange(300) * 0.1), noise=0.01, seed=1)
    >>> fits = {m: kz.identify(model, record, free=[p], method=kz.ShootingFit()) for m, model, p in
    ...         (("damped", damped, "c"), ("free", free, "k"))}
    >>> kz.compare_fits(fits).index[0]
    'damped'
    """
    import pandas as pd
    from scipy import stats

    named = isinstance(fits, Mapping) and all(isinstance(fit, Estimate) for fit in fits.values())
    if not named or len(fits) < 2:
        raise KapitzaError("Give at least two fits by name, such as compare_fits({'one': first, 'two': second}).")
    known = {name: fit.likelihood for name, fit in fits.items() if fit.likelihood is not None}
    missing = [name for name in fits if name not in known]
    if missing:
        raise KapitzaError(
            f"{missing[0]} carries no likelihood: compare fits made by {By('orbits')} or {By('shooting')}."
        )
    if len({fit.matches is None for fit in fits.values()}) > 1:
        raise KapitzaError("Fits of orbits and fits of series use different samples: compare fits of one kind.")
    counts = {name: found.readings for name, found in known.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise KapitzaError(
            f"The fits use different samples ({said}): only fits to the same data can be compared. Orbits that one of "
            "them could not match must be left out of both."
        )
    rows = []
    for name, fit in fits.items():
        found = known[name]
        # Initial states are fitted too; an estimated noise takes no degree of freedom from the residuals.
        noises = 0 if np.isinf(fit.dof) else len(fit.noise)
        dof = counts[name] - (found.fitted - noises)
        rows.append({
            "model": name, "status": fit.status.value, "free": len(fit.names), "readings": counts[name],
            "chi2": fit.chi2, "dof": dof, "log L": found.log_likelihood, "AIC": found.aic, "BIC": found.bic,
        })  # fmt: skip
    table = pd.DataFrame(rows)
    table["dAIC"] = table["AIC"] - table["AIC"].min()
    # Among tied models the fewest free parameters come first, then the lowest AIC.
    tied = (table["dAIC"] < TIE).to_numpy()
    order = np.lexsort((table["AIC"].to_numpy(), np.where(tied, table["free"], 0), ~tied))
    table = table.iloc[order].reset_index(drop=True)
    table["dBIC"] = table["BIC"] - table["BIC"].min()
    # Akaike weights.
    evidence = np.exp(-0.5 * table["dAIC"])
    table["weight"] = evidence / evidence.sum()
    variance = table["chi2"] / table["dof"].clip(lower=1)
    table["F"] = variance / variance.iloc[0]
    table["p"] = stats.f.sf(table["F"], table["dof"].clip(lower=1), max(int(table["dof"].iloc[0]), 1))
    # The best fit is not compared with itself.
    table.loc[0, "p"] = np.nan
    return table.set_index("model")
