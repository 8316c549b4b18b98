"""Nouns made of parts.

The attributes of a part are attributes of its owner too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from inspect import getattr_static
from typing import Any, Generic, TypeVar, cast
from warnings import warn

from kapitza.base.lazy_fields import changed

T = TypeVar("T")


class Inside(Generic[T]):
    """An attribute of a part, under the same name.

    home: the field that holds the part.
    """

    def __init__(self, home: str):
        self.home = home

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return cast(T, self)
        return getattr(getattr(instance, self.home), self.name)


class Former(Generic[T]):
    """A field under its former name.

    Reading it gives a DeprecationWarning.
    """

    def __init__(self, now: str):
        self.now = now

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return cast(T, self)
        warn(f"{type(instance).__name__}.{self.name} is called {self.now} now.", DeprecationWarning, stacklevel=2)
        return getattr(instance, self.now)


class OfKind(Generic[T]):
    """A field that holds one of several kinds.

    Reading it returns the value if it is of this kind, else None.
    """

    def __init__(self, home: str, *kinds: type[T]):
        self.home, self.kinds = home, kinds

    def __get__(self, instance: Any, owner: type | None = None) -> T | None:
        if instance is None:
            return cast(T, self)
        found = getattr(instance, self.home)
        return found if isinstance(found, self.kinds) else None


def gathered(kind: type, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, by parts.

    Arguments that are fields of parts are put into the parts.
    """
    homes = _homes(kind)
    if homes.keys().isdisjoint(named):
        return dict(named)
    empty = {f.name: cast(Any, f.default_factory) for f in fields(kind)}
    made = dict(named)
    for name in homes.keys() & named.keys():
        home = homes[name]
        part = made[home] if home in made else empty[home]()
        made[home] = changed(part, **{name: made.pop(name)})
    return made


@cache
def _homes(kind: type) -> dict[str, str]:
    """Return the fields of parts of a class.

    Each has the field that holds the part.
    """
    return {name: place.home for name, place in vars(kind).items() if isinstance(place, Inside)}


def with_parts(instance: T, changes: Mapping[str, Any]) -> T:
    """Return a copy with changed fields.

    Fields of a noun, or fields of its parts, are changed.
    """
    own = {f.name for f in fields(cast(Any, instance))}
    made: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        place = getattr_static(type(instance), name, None)
        if isinstance(place, Inside):
            inner.setdefault(place.home, {})[name] = value
        elif isinstance(place, OfKind):
            if value is None:
                # No part of this kind: a part of another kind, held or given along with it, stays.
                if place.__get__(instance) is not None:
                    made.setdefault(place.home, None)
            elif made.get(place.home) is not None or not isinstance(value, place.kinds):
                raise TypeError(
                    f"{place.home} of {type(instance).__name__} cannot take {type(value).__name__} as {name}"
                )
            else:
                made[place.home] = value
        elif name in own:
            made[name] = value
        else:
            raise TypeError(f"{type(instance).__name__} has no field {name}")
    return changed(instance, **made, **{home: changed(getattr(instance, home), **some) for home, some in inner.items()})
