"""Check of the arguments of public calls.

Arguments are checked against the annotations of the signature.

`checked(function)` returns the function with a check in front, `check_methods(class)` does the same to the constructor
and the public methods of a class. The package applies both to every public name when the name is first loaded, so a new
name is covered without further work. The check

- converts what has the promised meaning (3.0 for an int, NumPy scalars, a generator for a sequence, text for a Path),
- refuses everything else by an `ArgumentError` with the name of the argument, its value and what to give,
- refuses NaN and infinity unless the default of the argument is such a number, or the class is a result,
- refuses numbers outside the range that `Annotated[float, Range(...)]` states.

A call costs about 1 µs and 0.3 µs per argument. Types are resolved at the first call: imports under `TYPE_CHECKING` are
followed only then, and classes of other packages that are not loaded need no loading, because no argument can be one.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from kapitza.base import checks
from kapitza.base.lazy_fields import Later
from kapitza.base.part_fields import gathered
from kapitza.base.syntax import module_tree
from kapitza.errors import (
    ArgumentError,
    DataArgumentError,
    KapitzaError,
    ModelArgumentError,
    RigArgumentError,
    TooLargeError,
    no_such,
)
from kapitza.public import RENAMED_ARGUMENTS

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = __name__.partition(".")[0]
"""Classes of this package are checked, and their annotations are resolved, wherever their module is."""


@dataclass(frozen=True)
class Range:
    """Limits of a number.

    low <= value <= high, above < value < below; nan, inf: whether these are admitted.
    """

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    nan: bool = False
    inf: bool = False


Positive = Annotated[float, Range(above=0.0)]
NotNegative = Annotated[float, Range(low=0.0)]
Share = Annotated[float, Range(low=0.0, high=1.0)]
Level = Annotated[float, Range(above=0.0, below=1.0)]
Infinite = Annotated[float, Range(inf=True)]
"""A number that may be infinite, such as an end of a range."""

MaybeMissing = Annotated[float, Range(nan=True)]
"""A number that may be NaN: not known yet."""

Count = Annotated[int, Range(low=1)]
Index = Annotated[int, Range(low=0)]
Seed = Annotated[int, Range(low=0, high=checks.LARGEST_SEED)]
FREE = Range(nan=True, inf=True)
"""Of the numbers in results: any."""

MOST = 2**53
"""Largest whole number where no range is stated: beyond it floating-point numbers skip whole ones."""


@dataclass(frozen=True)
class Check:
    """Recognition and admission of values of a type.

    wanted: what to give, for messages. near(value): whether the value is of this kind at all. admit(what, value): the
    value to go on with, or an ArgumentError. known: False where the annotation states nothing about the value.
    """

    wanted: str
    near: Callable[[Any], bool]
    admit: Callable[[str, Any], Any]
    known: bool = True


CHECKED_INSIDE = Check("anything", lambda value: True, lambda what, value: value)
"""Mark of a parameter whose own check inside the function says more: `Annotated[float, CHECKED_INSIDE]`."""

Anything = Annotated[Any, CHECKED_INSIDE]
"""On purpose not checked here: the function has no use of its own for the value, or checks what it means itself."""

Reals = Annotated[ArrayLike, Check("numbers", lambda v: _may_be_array(v), lambda what, v: _array(what, v, np.float64))]
"""Real numbers of any shape, as an array of float64."""


class Unknown(TypeError):
    """An annotation that cannot be checked.

    The author of the function must change it.
    """


def check_of(hint: Any, limits: Range | None = None) -> Check:
    """Return the check of an annotation.

    limits: of the numbers in it.
    """
    limits = limits or Range()
    if hint is None or hint is type(None):
        return Check("None", lambda v: v is None, _admit_none)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return Check("anything", lambda v: True, lambda what, v: v, known=False)
    origin = get_origin(hint)
    if origin is Annotated:
        return _annotated(hint, limits)
    if origin in (Union, types.UnionType):
        return _union(hint, limits)
    if origin is Literal:
        words = get_args(hint)
        return Check(" or ".join(map(repr, words)), lambda v: isinstance(v, str), _one_of(words))
    if origin is np.ndarray:
        kind = get_args(get_args(hint)[1])
        return Check("an array", _may_be_array, _array_of(kind[0] if kind else Any))
    if origin is not None:
        return _container(origin, get_args(hint), limits)
    if hint in SCALARS:
        return SCALARS[hint](limits)
    return _class(hint)


def _admit_none(what: str, value: Any) -> None:
    if value is not None:
        raise ArgumentError(f"{what} = {checks.shown(value)}; give None.")


def _one_of(words: tuple[Any, ...]) -> Callable[[str, Any], Any]:
    def admit(what: str, value: Any) -> Any:
        if isinstance(value, str):
            return checks.choice(what, value, [w for w in words if isinstance(w, str)])
        if any(value is w or (type(value) is type(w) and value == w) for w in words):
            return value
        raise ArgumentError(f"{what} = {checks.shown(value)}; choose {' or '.join(map(repr, words))}.")

    return admit


# Numbers, text, paths


def _real(limits: Range) -> Check:
    plain = limits == Range()

    def admit(what: str, value: Any) -> float:
        if type(value) is float and plain and -math.inf < value < math.inf:
            return value
        number = checks.number(what, value, finite=False)
        if math.isnan(number):
            if limits.nan:
                return number
            raise ArgumentError(f"{what} = nan; give a {'' if limits.inf else 'finite '}number.")
        if math.isinf(number) and not limits.inf:
            raise ArgumentError(f"{what} = {number}; give a finite number.")
        if plain or limits == FREE:
            return number
        return checks.number(
            what, number, low=limits.low, high=limits.high, above=limits.above, below=limits.below, finite=False
        )

    return Check("a number", checks.is_number, admit)


def _whole(limits: Range) -> Check:
    least = None if limits.low == -math.inf else int(limits.low)
    most = MOST if limits.high == math.inf else int(limits.high)

    def admit(what: str, value: Any) -> int:
        number = checks.whole(what, value, least=least, most=None if abs(most) == MOST else most)
        if abs(number) > most:
            raise ArgumentError(f"{what} = {checks.shown(number)}; give a whole number of at most {most:.1g}.")
        return number

    return Check("a whole number", checks.is_number, admit)


def _complex(limits: Range) -> Check:
    def admit(what: str, value: Any) -> complex:
        if not isinstance(value, (complex, np.complexfloating)):
            return complex(checks.number(what, value, finite=not limits.nan))
        return complex(value)

    return Check("a number", lambda v: isinstance(v, (complex, np.complexfloating)) or checks.is_number(v), admit)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and not isinstance(value, (bytes, bytearray))


def _slice(what: str, value: Any) -> slice:
    if not isinstance(value, slice):
        raise ArgumentError(f"{what} is {checks.shown(value)}; give a slice.")
    ends = [None if v is None else checks.whole(what, v, most=MOST) for v in (value.start, value.stop, value.step)]
    if ends[2] == 0:
        raise ArgumentError(f"{what} has the step 0; give another step.")
    return slice(*ends)


SCALARS: dict[Any, Callable[[Range], Check]] = {
    float: _real,
    int: _whole,
    complex: _complex,
    bool: lambda limits: Check("True or False", lambda v: isinstance(v, (bool, np.bool_)), checks.flag),
    str: lambda limits: Check("text", lambda v: isinstance(v, str), checks.text),
    Path: lambda limits: Check("a path", _is_path, checks.path),
    os.PathLike: lambda limits: Check("a path", _is_path, checks.path),
    slice: lambda limits: Check("a slice", lambda v: isinstance(v, slice), _slice),
    np.ndarray: lambda limits: Check("an array", _may_be_array, _array_of(Any)),
}


# Arrays


def _may_be_array(value: Any) -> bool:
    return not isinstance(value, (str, bytes, Mapping, set, frozenset)) and value is not None


KINDS = {np.bool_: ("b", "truth values"), np.complex128: ("biufc", "numbers")}
KINDS |= dict.fromkeys((np.integer, np.intp, np.int64, np.int32), ("iu", "whole numbers"))


def _array_of(kind: Any) -> Callable[[str, Any], Any]:
    return lambda what, value: _array(what, value, kind)


def _array(what: str, value: Any, kind: Any) -> Any:
    """Return the value as an array.

    kind: of its numbers. An array of this kind is not copied.
    """
    if type(value) is np.ndarray and (value.dtype == kind if kind is not Any else value.dtype != object):
        return value
    if kind is np.float64:
        return checks.array(what, value)
    letters, wanted = KINDS.get(kind, ("biufcMmSU", "numbers"))
    try:
        found = np.asarray(value)
    except Exception:  # a foreign object may raise anything while it is converted
        raise ArgumentError(f"{what}: {checks.shown(value)} cannot be read as an array of {wanted}.") from None
    if letters == "iu" and found.dtype.kind == "f":
        odd = found[~(np.isfinite(found) & (found % 1 == 0) & (np.abs(found) <= MOST))]
        if odd.size:
            raise ArgumentError(f"{what} holds {odd.flat[0]:g}; give whole numbers.")
        return found.astype(np.int64)
    if found.dtype.kind not in letters and found.size:
        raise ArgumentError(f"{what}: {checks.shown(value)} cannot be read as an array of {wanted}.")
    return found if kind in (Any, np.integer) else np.asarray(found, dtype=typing.cast(Any, kind))


# Containers


def _container(origin: Any, inside: tuple[Any, ...], limits: Range) -> Check:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _table(inside[0], inside[1], limits)
    if origin is tuple and inside and inside[-1] is not Ellipsis:
        return _fixed(inside, limits)
    if origin is Callable:
        return _class(Callable)
    if origin is os.PathLike:
        return SCALARS[os.PathLike](limits)
    if origin is type:
        return Check("a class", lambda v: isinstance(v, type), _instance((type,), "a class"))
    if isinstance(origin, type) and (origin in (tuple, list) or issubclass(Sequence, origin)):
        return _series(origin, inside[0], limits)
    raise Unknown(f"{origin}[...] cannot be checked")


def _is_series(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping, set, frozenset))


def _same(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def _series(origin: Any, inner: Any, limits: Range) -> Check:
    entry = check_of(inner, limits)
    exact = {tuple: tuple, list: list}.get(origin, Sequence)
    unordered = origin is Iterable

    def admit(what: str, value: Any) -> Any:
        if inner is str and isinstance(value, str):
            value = [value]
        elif unordered and isinstance(value, (set, frozenset)):
            value = sorted(value, key=str)
        entries = _entries(what, value)
        admitted = [entry.admit(f"{what}, entry {i},", v) for i, v in enumerate(entries)] if entry.known else entries
        # A noun that is a sequence, such as an OrbitSet, stays itself.
        if isinstance(value, exact) and _same(entries, admitted):
            return value
        return tuple(admitted) if origin is tuple else admitted

    wanted = "a list" if not entry.known else f"a list (of each entry: {entry.wanted})"

    # One text alone is a list of one: entered letter by letter it would be an error far away.
    def near(value: Any) -> bool:
        alone = inner is str and isinstance(value, str)
        return alone or _is_series(value) or (unordered and isinstance(value, (set, frozenset)))

    return Check(wanted, near, admit, entry.known)


def _entries(what: str, value: Any) -> list[Any]:
    try:
        return checks.items(what, value)
    except KapitzaError:
        raise
    except Exception as problem:  # a generator of the caller's may raise anything
        raise ArgumentError(f"{what} fails while it is read: {checks.shown(problem)}.") from problem


def _fixed(inside: tuple[Any, ...], limits: Range) -> Check:
    entries = [check_of(one, limits) for one in inside]
    wanted = f"({', '.join(one.wanted for one in entries)})"

    def admit(what: str, value: Any) -> Any:
        given = _entries(what, value) if _is_series(value) else None
        if given is None or len(given) != len(entries):
            raise ArgumentError(f"{what} = {checks.shown(value)}; give {wanted}.")
        admitted = tuple(
            one.admit(f"{what}, entry {i},", v) for i, (one, v) in enumerate(zip(entries, given, strict=True))
        )
        return value if isinstance(value, tuple) and _same(value, admitted) else admitted

    return Check(wanted, _is_series, admit, all(one.known for one in entries))


def _table(key: Any, inner: Any, limits: Range) -> Check:
    names, entry = check_of(key, limits), check_of(inner, limits)

    def admit(what: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{what} is {checks.shown(value)}; give a table {{name: ...}}.")
        table = {names.admit(f"{what}: a key", k): v for k, v in value.items()}
        admitted = {k: entry.admit(f"{what}[{checks.shown(k)}]", v) for k, v in table.items()}
        unchanged = len(admitted) == len(value) and all(k in value and value[k] is v for k, v in admitted.items())
        return value if unchanged else admitted

    wanted = "a table {name: ...}" if not entry.known else f"a table {{name: {entry.wanted}}}"
    return Check(wanted, lambda v: isinstance(v, Mapping), admit, entry.known)


# Classes, unions, ranges


def _described(kind: Any) -> str:
    name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    if kind is Callable or name == "Callable":
        return "a function"
    return f"{'an' if name[0] in 'AEIOU' and not name.startswith('Uni') else 'a'} {name}"


def _instance(kinds: tuple[Any, ...], wanted: str) -> Callable[[str, Any], Any]:
    def admit(what: str, value: Any) -> Any:
        if _is(value, kinds):
            return value
        raise ArgumentError(f"{what} is {_named(value)}; give {wanted}.")

    return admit


def _named(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else checks.shown(value)


def _is(value: Any, kinds: tuple[Any, ...]) -> bool:
    loaded = tuple(k for k in (k.loaded() if isinstance(k, Unloaded) else k for k in kinds) if k is not None)
    return any(_offers(value, k) if _members(k) else isinstance(value, k) for k in loaded)


@cache
def _members(kind: Any) -> tuple[str, ...]:
    """Return the members of a protocol.

    Other classes have none.
    """
    if not isinstance(kind, type) or not getattr(kind, "_is_protocol", False):
        return ()
    bases = [base for base in kind.__mro__ if getattr(base, "_is_protocol", False)]
    names = dict.fromkeys(n for base in bases for n in (*vars(base), *getattr(base, "__annotations__", ())))
    return tuple(name for name in names if not name.startswith("_"))


def _offers(value: Any, protocol: type) -> bool:
    """Return whether a value has a protocol's members.

    Properties are not computed for it, as `isinstance` would do.
    """
    return not isinstance(value, type) and all(_has(value, name) for name in _members(protocol))


def _has(value: Any, name: str) -> bool:
    try:
        inspect.getattr_static(value, name)
        return True
    except AttributeError:
        pass
    try:
        getattr(value, name)
    except Exception:  # attributes of a foreign object may raise anything
        return False
    return True


def _class(kind: Any) -> Check:
    if not isinstance(kind, (type, Unloaded)) and kind is not Callable:
        raise Unknown(f"{kind!r} is not a type")
    wanted = _described(kind)
    if _members(kind):
        wanted += f" (an object with {', '.join(_members(kind))})"
    if isinstance(kind, type) and issubclass(kind, Enum):
        wanted += f" ({', '.join(one.name for one in kind)})"
    return Check(wanted, lambda v: _is(v, (kind,)), _instance((kind,), wanted))


def _union(hint: Any, limits: Range) -> Check:
    inside = get_args(hint)
    if str in inside and any(one is Path or get_origin(one) is os.PathLike for one in inside):
        # One path, as text or as a Path.
        inside = tuple(one for one in inside if one is not str)
    checks = [check_of(one, limits) for one in inside]
    wanted = " or ".join(dict.fromkeys(one.wanted for one in checks))

    def admit(what: str, value: Any) -> Any:
        refusal = None
        for one in checks:
            if one.near(value):
                try:
                    return one.admit(what, value)
                except KapitzaError as problem:
                    refusal = refusal or problem
        raise refusal or ArgumentError(f"{what} = {_named(value)}; give {wanted}.")

    return Check(
        wanted,
        lambda v: any(one.near(v) for one in checks),
        admit,
        any(one.known and one.wanted != "None" for one in checks),
    )


def _annotated(hint: Any, limits: Range) -> Check:
    inside, *marks = get_args(hint)
    for mark in marks:
        if isinstance(mark, Check):
            return mark
        if isinstance(mark, Range):
            limits = replace(mark, nan=mark.nan or limits.nan, inf=mark.inf or limits.inf)
    return check_of(inside, limits)


# Types of a signature


class Unloaded:
    """A name of a package that is not loaded.

    No object can be an instance of it until it is loaded.
    """

    def __init__(self, module: str, path: tuple[str, ...] = ()):
        self._module, self._path = module, path
        self.__name__ = path[-1] if path else module

    def __getattr__(self, name: str) -> Unloaded:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unloaded(self._module, (*self._path, name))

    def __call__(self) -> None:
        """Present because `typing` accepts only callables as types."""

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __getitem__(self, inside: Any) -> Unloaded:
        return self

    def loaded(self) -> Any:
        found = sys.modules.get(self._module)
        for name in self._path:
            found = inspect.getattr_static(found, name, None)
        return found


class _Names(dict[str, Any]):
    """Names that a module imports under TYPE_CHECKING.

    They are resolved when they are used.
    """

    def __init__(self, module: str):
        super().__init__()
        self._imports = _type_imports(module)

    def __missing__(self, name: str) -> Any:
        module, attribute = self._imports[name]
        own = module.partition(".")[0] == PACKAGE
        if not own and module not in sys.modules:
            return Unloaded(module, (attribute,) if attribute else ())
        found = import_module(module)
        return getattr(found, attribute) if attribute else found


@cache
def _type_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return the imports of a module under TYPE_CHECKING.

    The result maps name to (module, attribute).
    """
    try:
        tree = module_tree(inspect.getsource(sys.modules[module]))
    except (OSError, KeyError):
        return {}
    found: dict[str, tuple[str, str]] = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING"):
            for node in ast.walk(block):
                if isinstance(node, ast.ImportFrom):
                    found |= {a.asname or a.name: (node.module or "", a.name) for a in node.names}
                elif isinstance(node, ast.Import):
                    found |= {a.asname or a.name: (a.name, "") for a in node.names}
    return found


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types that annotate a function's parameters."""
    stand_in = types.SimpleNamespace(
        __annotations__={k: v for k, v in getattr(function, "__annotations__", {}).items() if k != "return"}
    )
    names = _Names(function.__module__)
    return typing.get_type_hints(stand_in, getattr(function, "__globals__", {}), names, include_extras=True)


def _limits_by_default(default: Any, free: bool) -> Range:
    """Return the limits that a default implies.

    Numbers are finite unless the default is not.
    """
    if free:
        return FREE
    parts = default if isinstance(default, tuple) else (default,)
    numbers = [one for one in parts if isinstance(one, float)]
    return Range(nan=any(map(math.isnan, numbers)), inf=any(map(math.isinf, numbers)))


def checks_of(function: Callable[..., Any], free: bool = False) -> dict[str, Check]:
    """Return the check of every parameter by name.

    free: any number is admitted, as in results.
    """
    hints, made = hints_of(function), {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints:
            continue
        try:
            made[name] = check_of(hints[name], _limits_by_default(parameter.default, free))
        except Unknown as problem:
            raise Unknown(f"{function.__qualname__}, {name}: {problem}") from None
    return made


# Calls

ERRORS = {"kapitza.model": ModelArgumentError, "kapitza.data": DataArgumentError, "kapitza.rig": RigArgumentError}
"""What is raised, by package; `ArgumentError` elsewhere."""


class _Call:
    """The arguments of a function and their checks.

    The checks are made at the first call.
    """

    def __init__(self, function: Callable[..., Any], title: str, method: bool, free: bool):
        self.error = next((e for home, e in ERRORS.items() if function.__module__.startswith(home)), ArgumentError)
        self.function, self.title, self.free = function, title, free
        parameters = list(inspect.signature(function).parameters.values())
        self.skipped = 1 if method else 0
        parameters = parameters[self.skipped :]
        self.positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.named = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
        self.many = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self.settings = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        self.needed = [
            p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        self.checks: dict[str, Check] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the checks out of a pickle.

        A function must have the same fingerprint before its first call and after it.
        """
        return _Call, (self.function, self.title, bool(self.skipped), self.free)

    def admitted(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the checked arguments.

        Refused arguments raise the error of the package that the function belongs to.
        """
        try:
            return self._admitted(given, named)
        except ArgumentError as problem:
            raise self.error(*problem.args) from problem.__cause__

    def _admitted(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        checks = self.checks
        if checks is None:
            checks = self.checks = checks_of(self.function, self.free)
        if self.free:
            named = gathered(type(given[0]), named)
        admitted = list(given[: self.skipped])
        given = given[self.skipped :]
        if len(given) > len(self.positional) and self.many is None:
            raise ArgumentError(self._too_many(len(given)))
        for place, value in enumerate(given):
            name = self.positional[place] if place < len(self.positional) else str(self.many)
            admitted.append(self._one(checks, name, name, value))
        known = set(self.positional[: len(given)])
        taken: dict[str, Any] = {}
        for name, value in self._renamed(named).items():
            if name in self.named:
                if name in known:
                    raise ArgumentError(f"{self.title}: {name} is given twice, by place and by name; give it once.")
                taken[name] = self._one(checks, name, name, value)
            elif self.settings is not None:
                taken[name] = self._one(checks, self.settings, name, value)
            else:
                raise ArgumentError(self._no_such(name))
        for name in self.needed:
            if name not in known and name not in taken:
                raise ArgumentError(f"{self.title} needs {name}; it takes {self._listed()}.")
        return admitted, taken

    def _renamed(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments under their present names.

        Former names give a warning.
        """
        former = RENAMED_ARGUMENTS.get(self.title, {})
        if former.keys().isdisjoint(named):
            return named
        for name in former.keys() & named.keys():
            warnings.warn(f"{self.title}: {name} is called {former[name]} now.", DeprecationWarning, stacklevel=5)
        return {former.get(name, name): value for name, value in named.items()}

    def _one(self, checks: dict[str, Check], parameter: str, what: str, value: Any) -> Any:
        check = checks.get(parameter)
        # A field that is computed later has its type by construction.
        return value if check is None or isinstance(value, Later) else check.admit(what, value)

    def _listed(self) -> str:
        return ", ".join(self._names()) or "no arguments"

    def _names(self) -> list[str]:
        return [*self.positional, *sorted(self.named - set(self.positional))]

    def _too_many(self, count: int) -> str:
        return (
            f"{self.title} got {count} arguments by place and takes at most {len(self.positional)}: {self._listed()}."
        )

    def _no_such(self, name: str) -> str:
        return no_such(self.title, "argument", name, self._names())


def checked(function: F, *, title: str = "", method: bool = False, free: bool = False, home: str = "") -> F:
    """Return the function with checked arguments.

    Signature, name and docstring are kept.

    title: its name in messages. method: the first argument is self or cls. free: any number is admitted, as in results.
    home: the module where it is found under its name; other processes, to which it may be sent, look there.
    """
    if inspect.getattr_static(function, "__unchecked__", None) is not None:
        return function
    plan = _Call(function, title or function.__name__, method, free)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        admitted, taken = plan.admitted(given, named)
        try:
            return function(*admitted, **taken)
        except MemoryError as problem:
            if isinstance(problem, KapitzaError):
                raise
            raise TooLargeError(f"{plan.title} needs more memory than there is ({problem}); ask for less.") from problem

    call.__unchecked__ = function  # type: ignore[attr-defined]
    call.__module__ = home or function.__module__
    return typing.cast(F, call)


def check_names(namespace: dict[str, Any], results: Iterable[str] = ()) -> None:
    """Check the arguments of a module's public names.

    The functions and classes listed in `__all__` are replaced in place.

    results: the classes whose numbers may be missing (NaN) or infinite.
    """
    for name in namespace["__all__"]:
        if inspect.isfunction(namespace[name]):
            namespace[name] = checked(namespace[name], home=namespace["__name__"])
        elif inspect.isclass(namespace[name]):
            check_methods(namespace[name], free=name in results)


def check_methods(kind: type, free: bool = False) -> None:
    """Check the arguments of a class.

    The constructor and the public methods are replaced in place.
    """
    if issubclass(kind, (BaseException, Enum)) or getattr(kind, "_is_protocol", False):
        return
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != PACKAGE:
            continue
        for name, member in list(vars(base).items()):
            if name != "__init__" and name.startswith("_"):
                continue
            title = base.__name__ if name == "__init__" else f"{base.__name__}.{name}"
            if isinstance(member, (classmethod, staticmethod)):
                inner = checked(member.__func__, title=title, method=isinstance(member, classmethod))
                setattr(base, name, type(member)(inner))
            elif inspect.isfunction(member):
                setattr(base, name, checked(member, title=title, method=True, free=free and name == "__init__"))
