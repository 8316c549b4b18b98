"""Construction of an `Estimate`.

The fields that follow from the request and the fitted values are filled in here, for all methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import as_parts, plain_data
from kapitza.errors import KapitzaError, Status
from kapitza.estimate.derived import derived_parameters
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.parts import Question
from kapitza.estimate.request import Request, make_request

T = TypeVar("T")


def make_estimate(
    request: Request,
    method: str,
    theta: Array,
    covariance: Array,
    *,
    names: Sequence[str] | None = None,
    wanted: Mapping[str, str] | None = None,
    **parts: Any,
) -> Estimate:
    """Return the estimate with values theta (k,).

    covariance: (k, k); names: by default the free parameters. Derived parameters of the model, and further expressions
    `wanted`, follow with their errors. parts: other fields of `Estimate` and of its parts. A fit that failed has values
    without errors: no intervals, no identifiability.
    """
    model = request.model
    names = tuple(request.names if names is None else names)
    if parts.get("status", Status.CONVERGED) not in (Status.CONVERGED, Status.SINGULAR):
        # A failed fit states no errors, but what no data determine stays infinite.
        endless = np.isinf(np.diag(covariance))
        covariance = np.full((len(names), len(names)), np.nan)
        covariance[endless, endless] = np.inf
        parts |= {"identifiability": None, "noise_alone": None, "draws": None, "misfit": None}
    fitted = dict(zip(names, np.asarray(theta, float).tolist(), strict=True))
    moved = model.with_values(**fitted)
    derived = derived_parameters(moved, names, covariance, wanted)
    values = {**fitted, **{name: value for name, value, _ in derived}}
    question = Question(
        model=moved,
        data=plain_data(request.parts),
        start={name: model.values[name] for name in names},
        fixed={n: model.values[n] for n in model.names if n not in names and n not in request.own},
        units={p.name: p.unit for p in model.parameters},
    )
    made = Estimate(
        names, values, covariance, method, derived={name: error for name, _, error in derived}, question=question
    )
    return made.with_(**parts)


def likelihood_of(estimate: Estimate) -> str:
    """Return which likelihood profiles and posteriors run.

    See `Accepts`; "" where there is none.
    """
    return "" if estimate.settings is None else estimate.settings.accepts.likelihood


def workings_of(estimate: Estimate, kind: type[T]) -> T:
    """Return the workings of the fit behind an estimate.

    The fit of an estimate that was loaded from a file is made again, once, from where it started: to the same bits.
    """
    if estimate.workings is None and estimate.settings is not None and estimate.model is not None:
        object.__setattr__(estimate, "workings", _made_again(estimate))
    if not isinstance(estimate.workings, kind):
        raise KapitzaError(f"{estimate.method} does not offer this.")
    return estimate.workings


def _made_again(estimate: Estimate) -> Any:
    assert estimate.settings is not None
    # The estimate of combinations is made from that of the parameters.
    fit = estimate.base or estimate
    model = estimate.model.with_values(**dict(estimate.start))
    return estimate.settings.fit(make_request(model, as_parts(estimate.data), fit.names, estimate.settings)).workings
