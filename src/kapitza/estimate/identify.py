"""The one verb that turns a model and data into parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate


@runtime_checkable
class Estimator(Protocol):
    """A method of identification: settings in a frozen dataclass, one verb."""

    def fit(self, model: Any, data: Any, free: Sequence[str] | None) -> Estimate: ...


def identify(model: Any, data: Any, free: Sequence[str] | None = None, method: Estimator | None = None) -> Estimate:
    """Estimate the parameters `free` of `model` from `data` (a Record, several, or an OrbitSet).

    method: settings of an estimator, such as `HarmonicFit()`.
    """
    if method is None:
        raise KapitzaError("Say which method to use, for example method=kz.InvariantFit().")
    if not isinstance(method, Estimator):
        raise KapitzaError(f"{method!r} is not a method of identification: pass settings such as HarmonicFit().")
    return method.fit(model, data, free)
