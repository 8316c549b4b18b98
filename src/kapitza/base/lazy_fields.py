"""Fields of frozen dataclasses that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from threading import RLock
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Later(Generic[T]):
    """A value to come: computed once, by whichever thread asks first, and kept."""

    def __init__(self, compute: Callable[[], T]):
        self._compute: Callable[[], T] | None = compute
        self._alone = RLock()
        self._value: T | None = None

    def __call__(self) -> T:
        with self._alone:
            if self._compute is not None:
                self._value = self._compute()
                # What it was computed from is not kept alive by the value.
                self._compute = None
        return cast(T, self._value)


def to_come(compute: Callable[[], T]) -> T:
    """A `Later` for a field of this type, which gives the value when it is asked for."""
    return cast(T, Later(compute))


class _Deferrable:
    """A field that takes its value or a `Later`, and always gives the value."""

    def __init__(self, default: Any):
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            if self._default is MISSING:
                raise AttributeError(self._name)
            return self._default
        value = vars(instance)[self._name]
        if isinstance(value, Later):
            value = vars(instance)[self._name] = value()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value


def deferrable(default: Any = MISSING) -> Any:
    """A field of a frozen dataclass, with its default or without, that may be given as a `Later`."""
    return _Deferrable(default)


def as_given(instance: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, those to come not yet computed: to make a changed copy that shares them."""
    return {f.name: vars(instance)[f.name] for f in fields(instance) if f.init}


def changed(instance: T, **changes: Any) -> T:
    """Return a copy of a dataclass with some fields changed; `dataclasses.replace` would compute those to come."""
    return type(instance)(**(as_given(instance) | changes))


def as_computed(instance: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, all computed: what travels to other processes."""
    return {f.name: getattr(instance, f.name) for f in fields(instance)}
