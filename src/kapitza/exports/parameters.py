"""Write parameters beside an exported model.

The files have values, units, standard errors and covariance.
"""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np

from kapitza.estimate import Estimate
from kapitza.exports.program import Program


def parameter_files(program: Program, fit: Estimate | None) -> dict[str, str]:
    """Return the parameters as .json and .csv texts.

    The keys are the suffixes.
    JSON: name, value, unit, fitted and standard error of each parameter, and of the fitted ones the covariance, in the
    order of "fitted". CSV: the same table, and a column for each fitted parameter with its row of the covariance.
    """
    names = () if fit is None else tuple(n for n in fit.names if n in {q.name for q in program.parameters})
    rows = [] if fit is None else [fit.names.index(n) for n in names]
    covariance = np.zeros((0, 0)) if fit is None else np.asarray(fit.covariance)[np.ix_(rows, rows)]
    table = []
    for q in program.parameters:
        deviation = math.sqrt(covariance[names.index(q.name), names.index(q.name)]) if q.name in names else math.nan
        table.append((q.name, q.value, q.unit, q.name in names, deviation))
    content: dict[str, Any] = {
        "model": program.name,
        "method": "" if fit is None else fit.method,
        "degrees_of_freedom": None if fit is None or not math.isfinite(fit.dof) else fit.dof,
        "parameters": [
            {"name": n, "value": v, "unit": u, "fitted": f, "standard_error": _number(d)} for n, v, u, f, d in table
        ],
        "fitted": list(names),
        "covariance": [[_number(v) for v in row] for row in covariance],
        "warnings": [] if fit is None else list(fit.warnings),
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "value", "unit", "fitted", "standard_error", *(f"covariance with {n}" for n in names)])
    for n, v, u, f, d in table:
        own = [repr(float(c)) for c in covariance[names.index(n)]] if f else [""] * len(names)
        writer.writerow([n, repr(v), u, "yes" if f else "no", repr(d) if f else "", *own])
    return {".json": json.dumps(content, indent=2, allow_nan=False) + "\n", ".csv": text.getvalue()}


def _number(value: float) -> float | None:
    """Return a number, None where not finite.

    JSON has no NaN.
    """
    return float(value) if math.isfinite(value) else None
