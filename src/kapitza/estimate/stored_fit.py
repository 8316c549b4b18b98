"""Fits of recordings larger than memory, part by part.

Every part is fitted by itself; the estimates are combined by their information. With estimates θ_i and covariances C_i
of parts that share no sample,

    θ = C Σ C_i⁻¹ θ_i,   C = (Σ C_i⁻¹)⁻¹,

the estimate of all parts at once to first order. Disagreement of the parts beyond their covariances widens C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kapitza.base.cures import Fit, marked
from kapitza.base.monitor import Monitor, watch
from kapitza.data import PART, Part, StoredRecord
from kapitza.errors import ConvergenceError, KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit import HarmonicFit
from kapitza.estimate.method import Estimator
from kapitza.model import Model

SURE = 1e-3
"""Probability of a larger disagreement by chance below which the parts disagree."""


def require_local(method: Estimator | str | None) -> Estimator:
    """Return a method that can fit part by part.

    Its rows are local in time.
    """
    if method is None:
        return HarmonicFit()
    if not isinstance(method, str) and method.accepts.by_parts:
        return method
    name = method if isinstance(method, str) else method.name
    raise KapitzaError(
        f"A recording on disk is fitted part by part, by {Fit('harmonic')} or {Fit('invariant')}, not by {name}. For "
        "other methods take a stretch that fits into memory."
    )


def identify_parts(
    fit: Any, model: Model, data: Part, free: Sequence[str] | None, method: Any, monitor: Monitor | None,
    part: int = PART,
) -> Estimate:  # fmt: skip
    """Fit a recording part by part.

    See the head of this module. fit: `identify` of one record. A part that cannot be fitted is left out and reported.
    """
    method, stored = require_local(method), data.source
    assert isinstance(stored, StoredRecord)
    fits: list[Estimate] = []
    failures: list[str] = []
    with watch(monitor, f"fitting {model.name} part by part", stored.size) as task:
        for number, record in enumerate(stored.parts(part), start=1):
            try:
                found = fit(model, replace(data, source=record), free, method)
            except KapitzaError as error:
                failures.append(f"part {number}: {marked(error)}")
            else:
                if found.status.ok and np.isfinite(found.covariance).all():
                    fits.append(_without_samples(found))
                    # The next part starts from these values, close to its own solution.
                    model = model.with_values(**{n: found.values[n] for n in found.names if n in model.names})
                else:
                    failures.append(f"part {number}: {found.status.value}")
            task.advance(record.size)
    if not fits:
        raise ConvergenceError(f"No part of {stored.path.name} could be fitted. {failures[0] if failures else ''}")
    return _together(fits, failures, task.status)


def _without_samples(fit: Estimate) -> Estimate:
    """Return a fit without its long arrays.

    These are as long as the part: kept for every part they would fill the memory that fitting by parts saves.
    """
    return fit.with_(
        residuals={}, data=None, history=None, draws=None, rows=None, level_sets=None, likelihood=None,
        noise_alone=None, workings=None, whiteness={}, base=None if fit.base is None else _without_samples(fit.base),
    )  # fmt: skip


def _together(fits: list[Estimate], failures: list[str], status: Status) -> Estimate:
    from scipy.stats import chi2

    first = fits[0]
    thetas = np.array([[f.values[n] for n in first.names] for f in fits])
    weights = [np.linalg.inv(f.covariance) for f in fits]
    covariance = np.linalg.inv(sum(weights))
    theta = covariance @ sum(w @ t for w, t in zip(weights, thetas, strict=True))
    spread = sum(float((t - theta) @ w @ (t - theta)) for w, t in zip(weights, thetas, strict=True))
    freedom = (len(fits) - 1) * theta.size
    warnings = [w for w in dict.fromkeys(w for f in fits for w in f.warnings) if all(w in f.warnings for f in fits)]
    if freedom and chi2.sf(spread, freedom) < SURE:
        warnings.append(
            f"the {len(fits)} parts of the recording disagree, by {np.sqrt(spread / freedom):.3g} times their errors: "
            "the parameters drift, or the model is wrong; the intervals are widened by that factor."
        )
        # Birge ratio: χ² per degree of freedom between the parts.
        covariance = covariance * (spread / freedom)
    if failures:
        warnings.append(f"{len(failures)} of {len(fits) + len(failures)} parts were left out; {failures[0]}")
    derived = {
        n: 1.0 / np.sqrt(sum(f.derived[n] ** -2.0 for f in fits))
        for n in first.derived
        if all(f.derived.get(n, 0.0) > 0 for f in fits)
    }
    values = dict(zip(first.names, theta.tolist(), strict=True))
    for name in derived:
        shares = [f.derived[name] ** -2.0 for f in fits]
        values.setdefault(name, float(np.average([f.values[name] for f in fits], weights=shares)))
    return first.with_(
        values={**first.values, **values}, covariance=covariance, derived=derived, status=status,
        dof=sum(f.dof for f in fits), chi2=sum(f.chi2 for f in fits), warnings=tuple(warnings), start=first.start,
        chain=(*first.chain, f"{len(fits)} parts of the recording fitted one by one"),
    )  # fmt: skip
