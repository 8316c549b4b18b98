"""Fingerprints of values.

A fingerprint is a text that is equal for equal values, in any process. It shows whether stored work is the requested
work.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np
import sympy as sp

Digest = Any


def fingerprint(*values: Any) -> str:
    """Return 64 hexadecimal digits of values.

    The content counts: numbers, texts, arrays, models, records, settings.

    Functions count by their names and their own code (not by that of functions they call), objects of other libraries
    by their pickled form.
    """
    digest = sha256()
    _add(digest, values, {})
    return digest.hexdigest()


def _add(digest: Digest, value: Any, seen: dict[int, Any]) -> None:
    """Add the kind and content of a value.

    Parts of containers are counted, so that none runs into another.
    """
    kind = type(value)
    digest.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | range | type(Ellipsis)):
        digest.update(repr(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, np.ndarray | np.generic):
        _add_array(digest, np.asarray(value), seen)
    elif id(value) in seen:
        # A value that holds itself.
        digest.update(b"again")
    else:
        seen[id(value)] = value
        _add_compound(digest, value, seen)
        # The same object in another place must read as an equal one would.
        del seen[id(value)]


def _add_array(digest: Digest, array: np.ndarray, seen: dict[int, Any]) -> None:
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        _add_all(digest, array.ravel().tolist(), seen)
    else:
        digest.update(np.ascontiguousarray(array).tobytes())


def _add_all(digest: Digest, values: Iterable[Any], seen: dict[int, Any]) -> None:
    parts = list(values)
    digest.update(f"{len(parts)}:".encode())
    for part in parts:
        _add(digest, part, seen)


def _add_compound(digest: Digest, value: Any, seen: dict[int, Any]) -> None:
    library = type(value).__module__.split(".")[0]
    if isinstance(value, Enum):
        digest.update(value.name.encode())
    elif isinstance(value, sp.Basic | sp.MatrixBase):
        digest.update(sp.srepr(value).encode())
    elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc | types.ModuleType):
        digest.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode())
    elif isinstance(value, types.FunctionType):
        closure = [cell.cell_contents for cell in value.__closure__ or ()]
        named = (value.__module__, value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__)
        _add_all(digest, (*named, *closure), seen)
    elif isinstance(value, types.MethodType):
        _add_all(digest, (value.__func__, value.__self__), seen)
    elif isinstance(value, types.CodeType):
        _add_all(digest, (value.co_code, value.co_names, value.co_consts), seen)
    elif isinstance(value, functools.partial):
        _add_all(digest, (value.func, value.args, value.keywords), seen)
    elif library == "xarray":
        # Channels first: the order in which channels and coordinates were added does not matter.
        ordered = [value.variables[name].values for name in (*value.data_vars, *value.coords)]
        _add_all(digest, (value.to_dict(data=False), *ordered), seen)
    elif isinstance(value, Mapping):
        _add_all(digest, (part for item in value.items() for part in item), seen)
    elif isinstance(value, Set):
        _add_all(digest, sorted(fingerprint(part) for part in value), seen)
    elif isinstance(value, list | tuple):
        _add_all(digest, value, seen)
    elif is_dataclass(value):
        # Fields alone, and of these not such as are neither given nor compared: what an object has worked out and
        # kept is not a part of what it is.
        names = [f.name for f in fields(value) if f.init or f.compare]
        _add_all(digest, [part for name in names for part in (name, getattr(value, name))], seen)
    else:
        _add_all(digest, _reduced(value), seen)


def _reduced(value: Any) -> tuple[Any, ...]:
    """Return the pickled form of an object."""
    sent = value.__reduce_ex__(2)
    if isinstance(sent, str):
        return (sent,)
    return tuple(list(part) if isinstance(part, Iterator) else part for part in sent)
