"""Checked request to an estimator.

`identify` makes the `Request` (model, free parameters, parts of the data, outputs) from which every estimator starts,
so that names, values and noise follow one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Do, Fit, Give, Set
from kapitza.base.workers import Executor
from kapitza.data import Part, Record, is_number, noise_by_channel
from kapitza.errors import DataError, ModelError
from kapitza.estimate.drives import check_reach
from kapitza.estimate.method import Estimator
from kapitza.estimate.observation import Output
from kapitza.estimate.priors import Priors, bounds_of, priors_of
from kapitza.model import Model
from kapitza.signal import cut_at_bad_runs

SAME_PERIOD = 1e-3
"""Relative difference between the excitation periods of data and model up to which rounding explains it."""


@dataclass(frozen=True)
class Request:
    """Model, free parameters and data of one fit.

    free: names of the free parameters, None for all of them. parts: the data, each with its noise. stated: noise by
    channel as the settings of the method have it. outputs: what channels measure. executor: does repeated work.
    """

    model: Model
    free: tuple[str, ...] | None
    parts: tuple[Part, ...]
    stated: Mapping[str, float] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    executor: Executor | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the executor, which workers must not get."""
        return {**self.__dict__, "executor": None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free parameters."""
        return self.model.names if self.free is None else self.free

    @property
    def start(self) -> Array:
        """Starting values (k,) of the free parameters."""
        return np.array([self.model.values[name] for name in self.names])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds (k,) of the free parameters."""
        return bounds_of(self.model, self.names)

    @property
    def priors(self) -> Priors:
        """Priors of the free parameters."""
        return priors_of(self.model, self.names)

    @property
    def own(self) -> frozenset[str]:
        """Parameters that are given per part of the data."""
        return frozenset(name for part in self.parts for name in part.values)

    def model_at(self, theta: Array) -> Model:
        """Return the model with free parameters theta (k,)."""
        return self.model.with_values(**dict(zip(self.names, np.asarray(theta, float).tolist(), strict=True)))

    def setting(self, part: Part) -> Model:
        """Return the model with the values of a part."""
        return self.model.with_values(**part.values) if part.values else self.model

    def at(self, model: Model) -> Request:
        """Return the request with other starting values."""
        return replace(self, model=model)

    def require_free(self) -> None:
        """Refuse a request without free parameters."""
        if not self.names:
            names = self.model.names
            verb = Do("kz.validate(model, record)", "`kapitza validate`")
            test = f"to test fixed values on these data use {verb} or {Fit('shooting')}"
            cure = (
                f"name at least one, for example {Give(free=[names[0]])}; {test}."
                if names
                else f"the model has none; {test}."
            )
            raise ModelError(f"No free parameters: {cure}")

    def require_start(self) -> None:
        """Refuse free parameters without a value to start from."""
        missing = [name for name in self.names if not np.isfinite(self.model.values[name])]
        if missing:
            raise ModelError(f"Give {', '.join(missing)} a starting value by {Set('values', **{missing[0]: ...})}.")

    @property
    def records(self) -> list[tuple[Record, Mapping[str, float]]]:
        """Records, each with its parameter values."""
        return [(part.source, part.values) for part in self.parts if isinstance(part.source, Record)]

    @property
    def whole_records(self) -> list[tuple[Record, Part]]:
        """Records for methods that need every sample.

        They are cut where several bad samples follow each other.
        """
        return [(cut_at_bad_runs(part.source), part) for part in self.parts if isinstance(part.source, Record)]

    @property
    def positive_noise(self) -> dict[str, float]:
        """Stated noise without exact channels.

        A weight needs a positive noise; for exact channels it is estimated.
        """
        return {name: value for name, value in self.stated.items() if value > 0}


@dataclass(frozen=True)
class Task:
    """Request with what the equations of a method need."""

    request: Request

    @property
    def model(self) -> Model:
        return self.request.model

    @property
    def names(self) -> tuple[str, ...]:
        return self.request.names


def make_request(
    model: Model, parts: Sequence[Part], free: Any, method: Estimator, executor: Executor | None = None
) -> Request:
    """Check a question and make the request.

    Noise and outputs are those of the method's settings.
    """
    names = free_names(model, free)
    method.accepts.check(method.name, parts)
    for part in parts:
        _check_values(model, part, names)
        _check_period(model, part, names)
        if part.record is not None:
            check_reach(model, part.record, part.label)
    known = noise_by_channel(parts, method.noise, [signal.name for signal in model.signals])
    parts = tuple(part.with_noise(known) for part in parts)
    # A plain table: the default of the settings cannot be sent to worker processes.
    return Request(model, names, parts, known, dict(method.outputs), executor)


def free_names(model: Model, free: Any) -> tuple[str, ...] | None:
    """Return the names of the parameters to fit.

    Each must be known to the model. A single name may be given as text; None means all parameters.
    """
    if free is None:
        return None
    names = (free,) if isinstance(free, str) else tuple(free)
    for name in names:
        model.check(name)
    if len(set(names)) < len(names):
        raise ModelError(f"A free parameter is named twice: {', '.join(names)}.")
    return names


def _check_values(model: Model, part: Part, free: tuple[str, ...] | None) -> None:
    """Refuse values of a part for free parameters.

    A free parameter is common to all data, so it cannot also be known for one part.
    """
    for name, value in part.values.items():
        model.check(name)
        if not is_number(value):
            raise DataError(f"{name} = {value!r} is given with {part.label}: give a finite number.")
        if name in (model.names if free is None else free):
            raise ModelError(
                f"{name} is free and also given as {value:.6g} with {part.label}: take it out of free, or out of the "
                f"values of {part.label}."
            )


def _check_period(model: Model, part: Part, free: tuple[str, ...] | None) -> None:
    """Refuse records with another excitation period than the model's.

    The cause is another unit of time, or another setting.
    """
    excitation, record = model.excitation, part.record
    if excitation is None or record is None or record.period is None or excitation.signals:
        return
    names = model.names if free is None else free
    used = excitation.timing
    setting = model.with_values(**part.values)
    # A free or unknown period cannot be compared.
    if used & set(names) or not all(np.isfinite(setting.values[name]) for name in used):
        return
    period = setting.period
    if period is not None and abs(record.period / period - 1.0) > SAME_PERIOD:
        raise DataError(
            f"The excitation of {part.label} has the period {record.period:.6g} s, that of the model {period:.6g} s: "
            "give this record its own excitation, (record, {name: value}), bring both to the same unit of time (scale "
            f"the times of the record by {period / record.period:.6g}), or correct the period of the record."
        )
