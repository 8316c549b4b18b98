"""The one verb that turns a model and data into parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.automatic import Automatic
from kapitza.estimate.estimate import Estimate, Estimator
from kapitza.estimate.orbits import OrbitFit
from kapitza.orbit import OrbitSet, PeriodicOrbit


def identify(
    model: Any, data: Any, free: Sequence[str] | None = None, method: Estimator | str | None = None
) -> Estimate:
    """Estimate the parameters `free` of `model` from `data` (a Record, several, or an OrbitSet).

    method: settings of an estimator, such as `HarmonicFit()`. By default, orbits are fitted by `OrbitFit()` and records
    by "auto": a chain that starts cheap and ends efficient.
    """
    if isinstance(data, list | tuple) and not data:
        raise DataError("There are no data to fit: pass a record, several of them, or the orbits found in one.")
    if method is None or method == "auto":
        method = OrbitFit() if _holds_orbits(data) else Automatic()
    if isinstance(method, str):
        raise KapitzaError(
            f'The only method with a name is "auto", not "{method}": pass settings such as HarmonicFit().'
        )
    if isinstance(method, type):
        raise KapitzaError(f"Pass settings, not their class: method={method.__name__}().")
    if not isinstance(method, Estimator):
        raise KapitzaError(f"{method!r} is not a method of identification: pass settings such as HarmonicFit().")
    return method.fit(model, data, free)


def _holds_orbits(data: Any) -> bool:
    """Orbits, sets of them, or sequences and (data, values) pairs that begin with one."""
    if isinstance(data, OrbitSet | PeriodicOrbit):
        return True
    return isinstance(data, tuple | list) and len(data) > 0 and _holds_orbits(data[0])
