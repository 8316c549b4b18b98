"""What is asked of a fit, checked once: model, free parameters, data with the values of each, noise, outputs.

Every estimator starts from a `Request`, which `identify` makes. So data, names and noise are read in one way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.workers import Executor
from kapitza.data import MeasuredBranch, Noise, Record, check_noise, is_number, stated_noise
from kapitza.errors import DataError, ModelError
from kapitza.estimate.observation import Output
from kapitza.estimate.priors import Priors, bounds_of, priors_of
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.signal import cut_at_bad_runs

SAME_PERIOD = 1e-3
"""Relative difference between the excitation periods of data and model that rounding may explain."""

KINDS: dict[type, str] = {
    Record: "record",
    PeriodicOrbit: "orbit",
    OrbitSet: "set of orbits",
    MeasuredBranch: "measured branch",
}


@dataclass(frozen=True)
class Part:
    """A record, an orbit or a set of orbits, with the parameter values that are its own."""

    source: Record | PeriodicOrbit | OrbitSet | MeasuredBranch
    own: Mapping[str, float] = field(default_factory=dict)
    number: int = 0

    @property
    def label(self) -> str:
        return f"{KINDS[type(self.source)]} {self.number}"

    @property
    def record(self) -> Record | None:
        """The record itself, or the one that a set of orbits was found in."""
        source = self.source.source if isinstance(self.source, OrbitSet) else self.source
        return source if isinstance(source, Record) else None

    def setting(self, model: Model) -> Model:
        """The model with the values of this part."""
        return model.with_values(**self.own) if self.own else model


@dataclass(frozen=True)
class Request:
    """One question to an estimator.

    free: names as they were asked for, None for all of them. parts: the data, one by one; data: as they were passed.
    noise: as stated; see `stated`. outputs: what channels measure, in plain notation. executor: who does repeated work.
    """

    model: Model
    free: tuple[str, ...] | None
    parts: tuple[Part, ...]
    noise: Noise = None
    outputs: Mapping[str, Output] = field(default_factory=dict)
    data: Any = field(default=None, repr=False)
    executor: Executor | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Workers do not get the executor that they work for."""
        return {**self.__dict__, "executor": None}

    @property
    def names(self) -> tuple[str, ...]:
        """The free parameters."""
        return self.model.names if self.free is None else self.free

    @property
    def start(self) -> Array:
        """Values (k,) of the free parameters to start from."""
        return np.array([self.model.values[name] for name in self.names])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds (k,) of the free parameters."""
        return bounds_of(self.model, self.names)

    @property
    def priors(self) -> Priors:
        """What is known of the free parameters."""
        return priors_of(self.model, self.names)

    @property
    def own(self) -> frozenset[str]:
        """Parameters that some of the data have values of their own for."""
        return frozenset(name for part in self.parts for name in part.own)

    def model_at(self, theta: Array) -> Model:
        """The model with the free parameters at values theta (k,)."""
        return self.model.with_values(**dict(zip(self.names, np.asarray(theta, float).tolist(), strict=True)))

    def at(self, model: Model) -> Request:
        """The same question with other starting values."""
        return replace(self, model=model)

    def require_free(self) -> None:
        """Refuse a fit of nothing."""
        if not self.names:
            names = self.model.names
            test = "to test fixed values on these data use kz.validate(model, record) or ShootingFit()"
            cure = (
                f'name at least one, for example free=["{names[0]}"]; {test}.'
                if names
                else f"the model has none; {test}."
            )
            raise ModelError(f"No free parameters: {cure}")

    def require_start(self) -> None:
        """Refuse free parameters without a value to start from."""
        missing = [name for name in self.names if not np.isfinite(self.model.values[name])]
        if missing:
            raise ModelError(f"Give {', '.join(missing)} a starting value by model.with_values({missing[0]}=...).")

    def records(self, who: str) -> list[tuple[Record, Mapping[str, float]]]:
        """The data as records, each with the values that are its own."""
        found = []
        for part in self.parts:
            if not isinstance(part.source, Record):
                raise DataError(f"{who} works on records, not on {_kind(part.source)}: read or simulate one.")
            found.append((part.source, part.own))
        return found

    def whole_records(self, who: str) -> list[tuple[Record, Mapping[str, float]]]:
        """The same for methods that need every sample, cut where several bad ones follow each other."""
        return [(cut_at_bad_runs(record), own) for record, own in self.records(who)]

    def stated(self, channels: Sequence[str]) -> dict[str, float]:
        """Stated noise by channel, of the channels in use; a name that is not among them is refused."""
        return stated_noise(self.noise, channels)

    def positive_noise(self, channels: Sequence[str]) -> dict[str, float]:
        """The same without exact channels: a weight needs a size, which is then estimated."""
        return {name: value for name, value in self.stated(channels).items() if value > 0}


@dataclass(frozen=True)
class Task:
    """What a method works on: the request made ready, with what its equations need besides."""

    request: Request

    @property
    def model(self) -> Model:
        return self.request.model

    @property
    def names(self) -> tuple[str, ...]:
        return self.request.names


def make_request(model: Model, data: Any, free: Any, method: Any = None, executor: Executor | None = None) -> Request:
    """Check what was asked; noise and outputs are those of the method's settings."""
    names = free_names(model, free)
    parts = parts_of(data)
    for part in parts:
        _check_own(model, part, names)
        _check_period(model, part, names)
    noise = getattr(method, "noise", None)
    check_noise(noise)
    return Request(model, names, parts, noise, getattr(method, "outputs", {}), data, executor)


def free_names(model: Model, free: Any) -> tuple[str, ...] | None:
    """The parameters to fit, each known to the model; one name may stand alone. None stands for all."""
    if free is None:
        return None
    names = (free,) if isinstance(free, str) else tuple(free)
    for name in names:
        model.check(name)
    if len(set(names)) < len(names):
        raise ModelError(f"A free parameter is named twice: {', '.join(names)}.")
    return names


def parts_of(data: Any) -> tuple[Part, ...]:
    """Records, orbits, sets of orbits, (data, {name: value}) pairs, and sequences of these, one by one."""
    found: list[tuple[Any, Mapping[str, float]]] = []
    _flatten(data, {}, found)
    if not found:
        raise DataError(
            "There are no data to fit: pass a record, several of them, or the orbits found in one (find_orbits may "
            "have found none)."
        )
    return tuple(Part(source, own, number) for number, (source, own) in enumerate(found))


def _flatten(data: Any, own: Mapping[str, float], found: list[tuple[Any, Mapping[str, float]]]) -> None:
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Mapping):
        _flatten(data[0], {**own, **data[1]}, found)
    elif isinstance(data, OrbitSet):
        if len(data):
            found.append((data, own))
    elif isinstance(data, Record | PeriodicOrbit | MeasuredBranch):
        found.append((data, own))
    elif isinstance(data, list | tuple):
        for part in data:
            _flatten(part, own, found)
    else:
        raise DataError(
            f"identify works on records, orbits, sets of orbits, pairs of these with {{parameter: value}}, and lists, "
            f"not on {_kind(data)}: read, simulate or find one."
        )


def _kind(data: Any) -> str:
    word = KINDS.get(type(data))
    return type(data).__name__ if word is None else f"{'an' if word == 'orbit' else 'a'} {word}"


def _check_own(model: Model, part: Part, free: tuple[str, ...] | None) -> None:
    """A parameter cannot be free, common to all data, and also known for one of them."""
    for name, value in part.own.items():
        model.check(name)
        if not is_number(value):
            raise DataError(f"{name} = {value!r} is given with {part.label}: give a finite number.")
        if name in (model.names if free is None else free):
            raise ModelError(
                f"{name} is free and also given as {value:.6g} with {part.label}: take it out of free, or out of the "
                f"values of {part.label}."
            )


def _check_period(model: Model, part: Part, free: tuple[str, ...] | None) -> None:
    """Refuse records whose excitation period is not the model's: another unit of time, or another setting."""
    excitation, record = model.excitation, part.record
    if excitation is None or record is None or record.period is None or excitation.signals:
        return
    names = model.names if free is None else free
    used = {s.name for s in excitation.period.free_symbols}
    setting = part.setting(model)
    if used & set(names) or not all(np.isfinite(setting.values[name]) for name in used):
        return
    period = setting.period
    if period is not None and abs(record.period / period - 1.0) > SAME_PERIOD:
        raise DataError(
            f"The excitation of {part.label} has the period {record.period:.6g} s, that of the model {period:.6g} s: "
            "give this record its own excitation, (record, {name: value}), bring both to the same unit of time (scale "
            f"the times of the record by {period / record.period:.6g}), or correct the period of the record."
        )
