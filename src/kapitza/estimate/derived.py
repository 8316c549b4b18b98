"""Parameters that follow from the fitted ones, with errors carried along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import sympy as sp

from kapitza.arrays import Array
from kapitza.model import Model, derived_in_base, parse_expression, symbol


def derived_parameters(
    model: Model,
    names: Sequence[str],
    covariance: Array,
    wanted: Mapping[str, str] | None = None,
    strict: bool = True,
) -> pd.DataFrame:
    """Value and standard error of the model's derived parameters and of further expressions of its parameters.

    To first order: σ_d² = (∂d/∂θ) Σ (∂d/∂θ)ᵀ; this carries mathematical parameters back to physical ones, and forth.
    Infinite and undefined values are NaN; with strict=False (at starting values) only the expressions are checked.
    """
    base = derived_in_base(model)
    expressions = {s.name: e for s, e in base.items()}
    known = {p.name for p in model.parameters}
    for label, text in (wanted or {}).items():
        expressions[label] = parse_expression(text, known).xreplace(base)
    at = {symbol(n): sp.Float(v, 17) for n, v in zip(model.names, model.vector, strict=True)}
    rows = []
    for label, expression in expressions.items():
        slope = np.array([_number(sp.diff(expression, symbol(n)).xreplace(at)) for n in names])
        value = _number(expression.xreplace(at))
        if strict or np.isfinite(value):
            rows.append((label, value, float(np.sqrt(max(carried_covariance(slope[None], covariance)[0, 0], 0.0)))))
    return pd.DataFrame(rows, columns=["name", "value", "error"])


def carried_covariance(slopes: Array, covariance: Array) -> Array:
    """J Σ Jᵀ for slopes J (c, k); what leans on a parameter of infinite variance has an infinite variance too."""
    endless = np.isinf(np.diag(covariance))
    finite = np.where(endless[:, None] | endless[None, :], 0.0, covariance)
    result = slopes @ finite @ slopes.T
    touched = (slopes[:, endless] != 0).any(axis=1)
    result[touched, touched] = np.inf
    return result


def _number(expression: sp.Basic) -> float:
    """The value of an expression without symbols, NaN where it has none (a division by zero)."""
    value = sp.N(expression)
    return float(value) if value.is_Float or value.is_Integer or value.is_Rational else float("nan")
