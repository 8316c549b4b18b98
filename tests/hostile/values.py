"""Values that no function expects: odd numbers, odd text, odd arrays, objects that misbehave."""

from __future__ import annotations

import datetime
import decimal
import fractions
import itertools
import random
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sympy as sp


class Mute:
    """Its repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no description")


class Refusing:
    """Every protocol of Python raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __iter__(self) -> Any:
        raise RuntimeError("no iteration")

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


class Liar:
    """Its length is not what it gives."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> float:
        if index > 1:
            raise IndexError
        return 1.0


class Word(str):
    """Text of a class of the caller's."""


class FailingExecutor:
    def submit(self, fn: Any, /, *args: Any) -> Any:
        raise RuntimeError("no workers")


class EmptyExecutor:
    def submit(self, fn: Any, /, *args: Any) -> Any:
        return None


class BrokenFutures:
    def submit(self, fn: Any, /, *args: Any) -> Any:
        future: Future[Any] = Future()
        future.set_exception(OSError("the worker is gone"))
        return future


def failing_generator() -> Any:
    yield 1.0
    raise RuntimeError("the source ended")


def own_list() -> list[Any]:
    made: list[Any] = [1.0]
    made.append(made)
    return made


def own_table() -> dict[str, Any]:
    made: dict[str, Any] = {"x": 1.0}
    made["y"] = made
    return made


def read_only() -> Any:
    made = np.linspace(0, 1, 5)
    made.setflags(write=False)
    return made


def closed_file() -> Any:
    file = Path("closed.txt").open("w+")  # noqa: SIM115
    file.close()
    return file


NUMBERS = [0, -1, 1, 2, 3, 7, 0.5, -0.5, 1e300, -1e300, 1e-300, 1e-320, 10**400, 2**63, -(2**63), 2**31, 10**9, 10**6]
NUMBERS += [float("nan"), float("inf"), float("-inf"), True, False, -0.0, 1.5, 1e-12, 1j]
TEXTS = ["", " ", "x", "x'", "k", "t", "nan", "0", "\x00", "\x1b[2J", "\u202e", "ａ", "µ", "💥", "\n", "\ud800", "%s"]
TEXTS += ["x" * 5000, "x**x**x**x", "1/0", "sqrt(-1)", "(" * 300, "x = = y", "lambda", "__import__('os')", "auto"]
TEXTS += ["a.b", "/", "."]

MAKERS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object()": object,
    "Mute()": Mute,
    "Refusing()": Refusing,
    "Liar()": Liar,
    "Word('x')": lambda: Word("x"),
    "int": lambda: int,
    "lambda": lambda: lambda *a, **k: None,
    "b'x'": lambda: b"x",
    "bytearray": lambda: bytearray(b"xyz"),
    "[]": list,
    "()": tuple,
    "{}": dict,
    "set": lambda: {1.0, 2.0},
    "[None]": lambda: [None],
    "['x', 1]": lambda: ["x", 1],
    "['x', 'x']": lambda: ["x", "x"],
    "[[1], [1, 2]]": lambda: [[1], [1, 2]],
    "{1: 2}": lambda: {1: 2},
    "{'x': None}": lambda: {"x": None},
    "{'': 1}": lambda: {"": 1},
    "{'x': nan}": lambda: {"x": float("nan")},
    "{'zz': 1.0}": lambda: {"zz": 1.0},
    "(1, 0)": lambda: (1.0, 0.0),
    "(nan, 1)": lambda: (float("nan"), 1.0),
    "own_list()": own_list,
    "own_table()": own_table,
    "generator": lambda: (v for v in (1.0, 2.0)),
    "failing_generator()": failing_generator,
    "count()": itertools.count,
    "range(3)": lambda: range(3),
    "slice(2)": lambda: slice(2),
    "float32": lambda: np.float32(0.5),
    "int8": lambda: np.int8(3),
    "np.bool_": lambda: np.bool_(True),
    "array(1.0)": lambda: np.array(1.0),
    "array([])": lambda: np.array([]),
    "array(object)": lambda: np.array([1.0, None, "x"], dtype=object),
    "array(text)": lambda: np.array(["a", "b"]),
    "array(complex)": lambda: np.array([1j, 2.0]),
    "array(dates)": lambda: np.array(["2020-01-01"], "datetime64[s]"),
    "array(nan)": lambda: np.full(5, np.nan),
    "array(inf)": lambda: np.array([0.0, np.inf]),
    "array(1e300)": lambda: np.array([1e300, -1e300]),
    "array(2d)": lambda: np.ones((3, 2)),
    "array(3d)": lambda: np.ones((2, 2, 2)),
    "array(equal)": lambda: np.ones(5),
    "array(falling)": lambda: np.linspace(1, 0, 5),
    "array(backwards)": lambda: np.linspace(0, 1, 10)[::-2],
    "array(read only)": read_only,
    "array(masked)": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "array(fields)": lambda: np.zeros(2, [("a", float), ("b", int)]),
    "array(bool)": lambda: np.array([True, False]),
    "Series": lambda: pd.Series([1.0, 2.0]),
    "DataFrame": lambda: pd.DataFrame({"x": [1.0, 2.0]}),
    "DataFrame()": pd.DataFrame,
    "Symbol": lambda: sp.Symbol("x"),
    "sp.I": lambda: sp.I,
    "sp.oo": lambda: sp.oo,
    "sp.pi": lambda: sp.pi,
    "Matrix": lambda: sp.Matrix([[1, 0], [0, 1]]),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "Decimal": lambda: decimal.Decimal("0.1"),
    "date": lambda: datetime.date(2020, 1, 1),
    "timedelta": lambda: datetime.timedelta(seconds=1),
    "Path('.')": lambda: Path("."),
    "Path('missing.csv')": lambda: Path("missing.csv"),
    "/dev/null": lambda: Path("/dev/null"),
    "closed file": closed_file,
    "memoryview": lambda: memoryview(b"abc"),
    "FailingExecutor()": FailingExecutor,
    "EmptyExecutor()": EmptyExecutor,
    "BrokenFutures()": BrokenFutures,
}


def hostile(chance: random.Random) -> tuple[str, Any]:
    """A description and a value."""
    kind = chance.random()
    if kind < 0.3:
        number = chance.choice(NUMBERS)
        return repr(number)[:40], number
    if kind < 0.45:
        text = chance.choice(TEXTS)
        return ascii(text)[:40], text
    if kind < 0.55:
        size = chance.randint(0, 5)
        numbers = [chance.choice(NUMBERS) for _ in range(size)]
        return repr(numbers)[:80], numbers
    name = chance.choice(sorted(MAKERS))
    return name, MAKERS[name]()


ARRAYS = [name for name in sorted(MAKERS) if name.startswith("array") and name not in ("array(object)", "array(text)")]


def odd_like(suited: Any, chance: random.Random) -> tuple[str, Any]:
    """An odd value of the same kind as one that suits: what passes a check of types."""
    if isinstance(suited, bool) or suited is None:
        return hostile(chance)
    if isinstance(suited, int | float):
        value: Any = chance.choice(NUMBERS)
    elif isinstance(suited, str):
        value = chance.choice(TEXTS)
    elif isinstance(suited, np.ndarray):
        name = chance.choice(ARRAYS)
        return name, MAKERS[name]()
    elif isinstance(suited, dict):
        value = {k: odd_like(v, chance)[1] if chance.random() < 0.7 else v for k, v in suited.items()}
    elif isinstance(suited, list | tuple) and suited:
        value = [odd_like(v, chance)[1] if chance.random() < 0.5 else v for v in suited]
        value = value[: chance.randint(0, len(value))] if chance.random() < 0.3 else value
        value = tuple(value) if isinstance(suited, tuple) else value
    else:
        return hostile(chance)
    return described(value), value


def described(value: Any) -> str:
    """Return the beginning of the text of a value, or its type where it cannot be shown."""
    try:
        return ascii(value)[:80]
    except Exception:  # a part of it misbehaves
        return f"a {type(value).__name__} that cannot be shown"
