"""Parameters derived from the fitted ones, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.model import Model, derived_in_base, parse_expression, symbol


def derived_parameters(
    model: Model,
    names: Sequence[str],
    covariance: Array,
    wanted: Mapping[str, str] | None = None,
    strict: bool = True,
) -> list[tuple[str, float, float]]:
    """Return name, value and standard error of derived parameters.

    They are the model's derived parameters and the expressions `wanted`. To first order σ_d² = (∂d/∂θ) Σ (∂d/∂θ)ᵀ; this
    transforms mathematical parameters to physical ones, and back. Infinite and undefined values are NaN; with
    strict=False (at starting values) only the expressions are checked.
    """
    base = derived_in_base(model)
    expressions = {s.name: e for s, e in base.items()}
    known = {p.name for p in model.parameters}
    for label, text in (wanted or {}).items():
        # Written in base parameters, which are the ones with a covariance.
        expressions[label] = parse_expression(text, known).xreplace(base)
    rows = []
    for label, expression in expressions.items():
        value = float(values_at(model, [expression])[0])
        if strict or np.isfinite(value):
            variance = carried_covariance(slopes_at(model, [expression], names), covariance)[0, 0]
            rows.append((label, value, float(np.sqrt(max(variance, 0.0)))))
    return rows


def values_at(model: Model, expressions: Sequence[sp.Expr]) -> Array:
    """Evaluate expressions (c,) at the values of the model.

    NaN where an expression has no value, for example because of a division by zero.
    """
    # 17 digits hold a double exactly; evaluation in SymPy turns 1/0 into a symbol and not into an exception.
    at = {symbol(n): sp.Float(v, 17) for n, v in zip(model.names, model.vector, strict=True)}
    found = [sp.N(e.xreplace(at)) for e in expressions]
    return np.array([float(v) if v.is_Float or v.is_Integer or v.is_Rational else np.nan for v in found])


def slopes_at(model: Model, expressions: Sequence[sp.Expr], names: Sequence[str]) -> Array:
    """Return the slopes (c, k) of expressions by parameters.

    They are ∂ expressions / ∂ parameters, at the values of the model.
    """
    flat = values_at(model, [sp.diff(e, symbol(n)) for e in expressions for n in names])
    return flat.reshape(len(expressions), len(names))


def carried_covariance(slopes: Array, covariance: Array) -> Array:
    """Return J Σ Jᵀ for slopes J (c, k).

    An expression that depends on a parameter of infinite variance has an infinite variance too.
    """
    endless = np.isinf(np.diag(covariance))
    # Infinite entries are set to zero first: 0 · inf would make the independent expressions NaN.
    finite = np.where(endless[:, None] | endless[None, :], 0.0, covariance)
    result = slopes @ finite @ slopes.T
    touched = (slopes[:, endless] != 0).any(axis=1)
    result[touched, touched] = np.inf
    return result
