"""What a fit of periodic orbits adds to the page of an estimate: its orbits, its likelihood, what to measure next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from kapitza.estimate import Estimate, advise
from kapitza.estimate.identifiability import Identifiability
from kapitza.report.page import Section

ADVICE_ROWS = 8
"""Of the ranking: what comes after hardly narrows an interval."""


def orbit_fit_sections(estimate: Estimate) -> list[Section]:
    """Which orbits matched and what would help most; empty for other methods."""
    matches = estimate.details.get("matches")
    if not isinstance(matches, pd.DataFrame) or matches.empty:
        return []
    sections = [Section("Orbits matched", matched_notes(estimate, matches), table=matches)]
    helpful = advice_table(estimate)
    if helpful is not None:
        text = "How much narrower the interval of each parameter would become [%]."
        sections.append(Section("What to measure next", (text,), table=helpful))
    return sections


def matched_notes(estimate: Estimate, matches: pd.DataFrame) -> tuple[str, ...]:
    unmatched = estimate.details.get("unmatched", {})
    notes = [f"{len(matches) - len(unmatched)} of {len(matches)} orbits of the data are orbits of the fitted model."]
    if "chi2/reading" in matches:
        notes.append("chi2/reading: mean of the squared residuals of an orbit, in squared standard errors; near 1.")
    if "multiplier mismatch" in matches:
        notes.append("Multiplier mismatch: largest deviation of a Floquet multiplier, in its standard errors.")
    back = estimate.details.get("put back", ())
    if back:
        notes.append("Lost on the way and put back: " + "; ".join(back) + ".")
    return tuple(notes)


def likelihood_notes(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Criteria by which models are compared on the same data, and how alike the parameters are; empty where unknown."""
    notes = []
    known = [float(details.get(name, np.nan)) for name in ("log_likelihood", "aic", "bic")]
    if np.isfinite(known).all():
        notes.append(
            f"Log-likelihood {known[0]:.6g}, Akaike's criterion (AIC) {known[1]:.6g}, Schwarz's (BIC) {known[2]:.6g}. "
            "Of two models fitted to the same data the one with the lower criterion explains them better."
        )
    found = details.get("identifiability")
    if isinstance(found, Identifiability) and found.complete and len(found.names) > 1:
        notes.append(
            f"All free parameters are determined; at the start the least certain combination of them was known "
            f"{found.condition:.2g} times less well than the most certain one."
        )
    return tuple(notes)


def advice_table(estimate: Estimate) -> pd.DataFrame | None:
    task = estimate.details.get("task")
    if task is None or estimate.names != task.names or not np.isfinite(estimate.covariance).all():
        return None
    if estimate.details["outcome"].solution.at_bound.any():
        return None
    return advise(estimate).head(ADVICE_ROWS).round(1)
