"""The one verb that turns a model and data into parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapitza.errors import KapitzaError
from kapitza.estimate.automatic import Automatic
from kapitza.estimate.estimate import Estimate, Estimator


def identify(
    model: Any, data: Any, free: Sequence[str] | None = None, method: Estimator | str | None = None
) -> Estimate:
    """Estimate the parameters `free` of `model` from `data` (a Record, several, or an OrbitSet).

    method: settings of an estimator, such as `HarmonicFit()`, or "auto" (the default for records): a chain that starts
    cheap and ends efficient.
    """
    if method is None or method == "auto":
        method = Automatic()
    if isinstance(method, str):
        raise KapitzaError(
            f'The only method with a name is "auto", not "{method}": pass settings such as HarmonicFit().'
        )
    if not isinstance(method, Estimator):
        raise KapitzaError(f"{method!r} is not a method of identification: pass settings such as HarmonicFit().")
    return method.fit(model, data, free)
