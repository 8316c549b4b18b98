"""Add sections on orbit fits to the page.

They show the orbits, the likelihood, and what to measure next.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kapitza.estimate import Estimate, OrbitMatches, advise
from kapitza.report.page import Section

ADVICE_ROWS = 8
"""Of the ranking: what comes after hardly narrows an interval."""


def orbit_fit_sections(estimate: Estimate) -> list[Section]:
    """Return which orbits matched, and what would help.

    The list is empty for other methods.
    """
    matches = estimate.matches
    if matches is None or matches.table.empty:
        return []
    sections = [Section("Orbits matched", matched_notes(matches), table=matches.table)]
    helpful = advice_table(estimate)
    if helpful is not None:
        text = "How much narrower the interval of each parameter would become [%]."
        sections.append(Section("What to measure next", (text,), table=helpful))
    return sections


def matched_notes(matches: OrbitMatches) -> tuple[str, ...]:
    table, unmatched = matches.table, matches.unmatched
    notes = [f"{len(table) - len(unmatched)} of {len(table)} orbits of the data are orbits of the fitted model."]
    if "chi2/reading" in table:
        notes.append("chi2/reading: mean of the squared residuals of an orbit, in squared standard errors; near 1.")
    if "multiplier mismatch" in table:
        notes.append("Multiplier mismatch: largest deviation of a Floquet multiplier, in its standard errors.")
    if matches.put_back:
        notes.append("Lost on the way and put back: " + "; ".join(matches.put_back) + ".")
    return tuple(notes)


def likelihood_notes(estimate: Estimate) -> tuple[str, ...]:
    """Return criteria that compare models on the data.

    They also say how alike the parameters are; empty where unknown.
    """
    notes = []
    known = estimate.likelihood
    if known is not None and np.isfinite(known.log_likelihood):
        notes.append(
            f"Log-likelihood {known.log_likelihood:.6g}, Akaike's criterion (AIC) {known.aic:.6g}, Schwarz's (BIC) "
            f"{known.bic:.6g}. "
            "Of two models fitted to the same data the one with the lower criterion explains them better."
        )
    found = estimate.identifiability
    if estimate.matches is not None and found is not None and found.complete and len(found.names) > 1:
        notes.append(
            f"All free parameters are determined; at the start the least certain combination of them was known "
            f"{found.condition:.2g} times less well than the most certain one."
        )
    return tuple(notes)


def advice_table(estimate: Estimate) -> pd.DataFrame | None:
    if estimate.base is not None or estimate.draws is not None or not np.isfinite(estimate.covariance).all():
        return None
    return advise(estimate).head(ADVICE_ROWS).round(1)
