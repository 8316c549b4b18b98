"""Fields of frozen dataclasses computed on first access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from threading import RLock
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Later(Generic[T]):
    """A value that is computed later.

    It is computed once, by the thread that needs it first, and kept.
    """

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
    """Return a `Later` for a field of this type.

    The field computes the value on first access.
    """
    return cast(T, Later(compute))


class _Deferrable:
    """A field that takes a value or a `Later`.

    Reading it always returns the value.
    """

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
    """Return a field that may be given later.

    It is a field of a frozen dataclass, with its default or without, that takes a `Later`.
    """
    return _Deferrable(default)


def as_given(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, uncomputed.

    Fields given as a `Later` are not computed: a changed copy shares them.
    """
    return {f.name: vars(instance)[f.name] for f in fields(instance) if f.init}


def changed(instance: T, **changes: Any) -> T:
    """Return a copy with some fields changed.

    `dataclasses.replace` would compute the fields given as a `Later`.
    """
    return type(instance)(**(as_given(instance) | changes))


def as_computed(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, computed.

    They are sent to other processes.
    """
    return {f.name: getattr(instance, f.name) for f in fields(instance)}
