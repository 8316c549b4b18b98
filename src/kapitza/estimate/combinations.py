"""Free combinations of parameters: free=["l", "k2/m", "k3/m"].

Derived parameters of the model may be free as well. The data often determine combinations of parameters, not the
parameters themselves. As many base parameters as there are combinations are fitted, the others are held; values and
covariance are then given in the combinations, which do not depend on the held values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import IdentifiabilityError, ModelError
from kapitza.estimate.derived import carried_covariance, slopes_at, values_at
from kapitza.estimate.estimate import Estimate
from kapitza.model import Model, derived_in_base, parse_expression, symbol
from kapitza.solve import pivoted_columns


@dataclass(frozen=True)
class Combinations:
    """Free combinations and the base parameters fitted for them.

    labels, expressions: of the combinations. names: of the base parameters.
    """

    model: Model
    labels: tuple[str, ...]
    expressions: tuple[sp.Expr, ...]
    names: tuple[str, ...]


def combinations_of(model: Model, free: Sequence[str] | str | None) -> Combinations | None:
    """Return how to fit combinations named in `free`.

    The result is None where `free` names independent parameters only.
    """
    free = (free,) if isinstance(free, str) else free
    if free is None or set(free) <= set(model.names) or model.is_map:
        return None
    # Only base parameters are fitted; derived ones are written out in them.
    base = derived_in_base(model)
    known = {p.name for p in model.parameters}
    if all(name.isidentifier() and name not in known for name in free if name not in model.names):
        return None  # misspelled names: the model refuses them later and lists the names it has
    expressions = tuple(parse_expression(text, known).xreplace(base) for text in free)
    used = sorted({str(s) for e in expressions for s in e.free_symbols}, key=model.names.index)
    slopes = slopes_at(model, expressions, used)
    # Pivoting takes the parameters that move the combinations most, relative to their own size.
    size = np.array([abs(model.values[name]) or 1.0 for name in used])
    sizes = np.linalg.norm(slopes * size, axis=1, keepdims=True)
    if not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise ModelError(f"{free[int(np.argmin(sizes))]} does not change with any parameter at the starting values.")
    order, lengths = pivoted_columns(slopes * size / sizes)
    # Rows are scaled to unit length, so that this is a relative rank test.
    rank = int((lengths > 1e-9).sum())
    if rank < len(free):
        raise IdentifiabilityError(
            f"{', '.join(free)} are not independent: only {rank} of the {len(free)} combinations are. Leave some out."
        )
    chosen = sorted((used[i] for i in order[: len(free)]), key=model.names.index)
    return Combinations(model, tuple(free), expressions, tuple(chosen))


def in_combinations(fit: Estimate, free: Combinations) -> Estimate:
    """Return the estimate in terms of the free combinations.

    The base parameters fitted in their place become derived parameters.
    """
    slopes = slopes_at(fit.model, free.expressions, fit.names)
    covariance = carried_covariance(slopes, fit.covariance)
    values = dict(zip(free.labels, values_at(fit.model, free.expressions).tolist(), strict=True))
    rest = {name: value for name, value in fit.values.items() if name not in values}
    errors = _known_without(fit, free, {**fit.derived, **fit.deviations})
    held = tuple(sorted({str(s) for e in free.expressions for s in e.free_symbols} - set(fit.names)))
    alone = fit.noise_alone
    if alone is not None:
        alone = replace(alone, covariance=carried_covariance(slopes, alone.covariance))
    known = fit.identifiability
    if known is not None and known.complete:
        # Independent combinations of determined parameters are determined.
        known = replace(known, names=free.labels, determined=free.labels)
    return fit.with_(
        names=free.labels, values={**values, **rest}, covariance=covariance,
        start=dict(zip(free.labels, values_at(free.model, free.expressions).tolist(), strict=True)),
        derived={name: error for name, error in errors.items() if name not in values},
        draws=None if fit.draws is None else values_of(fit.draws, fit, slopes, values),
        base=fit, held=held, identifiability=known, noise_alone=alone,
    )  # fmt: skip


def _known_without(fit: Estimate, free: Combinations, errors: Mapping[str, float]) -> dict[str, float]:
    """Return the errors that are independent of held values.

    These belong to quantities that follow from the combinations alone. With c/m free and k held, m has a value and an
    error in the fit that carry no information.
    """
    model, base = fit.model, derived_in_base(fit.model)
    used = tuple(dict.fromkeys(str(s) for e in free.expressions for s in e.free_symbols))
    rows = slopes_at(model, free.expressions, used)
    kept = {}
    for name, error in errors.items():
        expression = base.get(symbol(name), symbol(name))
        inside = [n for n in used if symbol(n) in expression.free_symbols]
        if inside:
            slope = slopes_at(model, [expression], used)[0]
            # A gradient outside the span of the gradients of the combinations depends on the held values.
            rest = slope - rows.T @ np.linalg.lstsq(rows.T, slope, rcond=None)[0]
            if np.linalg.norm(rest) > 1e-9 * np.linalg.norm(slope):
                continue
        kept[name] = error
    return kept


def values_of(draws: Array, fit: Estimate, slopes: Array, values: dict[str, float]) -> Array:
    """Return draws of the combinations, to first order.

    They are the draws of the parameters, transformed by the slopes.
    """
    centre = np.array([fit.values[name] for name in fit.names])
    return np.array(list(values.values())) + (draws - centre) @ slopes.T
