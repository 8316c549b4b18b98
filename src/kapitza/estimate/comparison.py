"""Which of several models explains the same data best."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate


def compare_fits(fits: Mapping[str, Estimate]) -> pd.DataFrame:
    """Fits of different models to the same readings, the best first, one row each.

    AIC = 2k - 2 log L and BIC = k log N - 2 log L, k the free parameters (and estimated noises), N the readings; dAIC
    and dBIC are the differences from the best. weight = exp(-dAIC/2), normalised: the evidence for each among these.
    F is the ratio of the residual variances, this fit's over the best's, and p the chance of so large a ratio if both
    explained the data equally well (for models that are not nested a guide, not a test).
    """
    if len(fits) < 2:
        raise KapitzaError("Give at least two fits by name, such as compare_fits({'one': first, 'two': second}).")
    missing = [name for name, fit in fits.items() if "aic" not in fit.details]
    if missing:
        raise KapitzaError(f"{missing[0]} carries no likelihood: compare fits made by OrbitFit.")
    counts = {name: int(fit.details["readings"]) for name, fit in fits.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise KapitzaError(
            f"The fits use different readings ({said}): only fits to the same data can be compared. Orbits that one of "
            "them could not match must be left out of both."
        )
    rows = []
    for name, fit in fits.items():
        free = len(fit.names)
        rows.append({
            "model": name, "status": fit.status.value, "free": free, "readings": counts[name], "chi2": fit.chi2,
            "dof": counts[name] - free, "log L": fit.details["log_likelihood"], "AIC": fit.details["aic"],
            "BIC": fit.details["bic"],
        })  # fmt: skip
    table = pd.DataFrame(rows).sort_values("AIC", ignore_index=True)
    table["dAIC"] = table["AIC"] - table["AIC"].min()
    table["dBIC"] = table["BIC"] - table["BIC"].min()
    evidence = np.exp(-0.5 * table["dAIC"])
    table["weight"] = evidence / evidence.sum()
    variance = table["chi2"] / table["dof"].clip(lower=1)
    table["F"] = variance / variance.iloc[0]
    table["p"] = stats.f.sf(table["F"], table["dof"].clip(lower=1), max(int(table["dof"].iloc[0]), 1))
    table.loc[0, "p"] = np.nan
    return table.set_index("model")
