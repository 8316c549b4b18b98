"""Random calls of every public function, constructor and method, made from the annotations of their signatures.

A case is a number: the seed of one call. Most arguments of a call are right, taken by the name and the type of the
parameter; one or two are hostile (values.py), or the call has an argument too many, too few or unknown.
"""

from __future__ import annotations

import inspect
import itertools
import os
import random
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from hypothesis import strategies as st
from tests.hostile.family import register
from tests.hostile.nouns import Stopping, nouns, squared
from tests.hostile.values import hostile, odd_like

from kapitza.public import NAMESPACES

RIGHT: dict[str, list[Any]] = {
    "x": [[0.4, 0.0], {"x": 0.4, "x'": 0.0}, [1.0, 0.0], [0.5]],
    "X": [[[0.4, 0.0], [0.5, 0.1]], [[1.0, 0.0, 20.0]]],
    "x0": [None, [0.4, 0.0], {"x": 0.3}],
    "t": [np.linspace(0, 1, 11), [0.0, 0.5, 1.0]],
    "t0": [0.0],
    "t1": [0.5, 1.0],
    "times": [np.linspace(0, 1, 11), [0.0, 0.5, 1.0]],
    "time": ["t", np.linspace(0, 1, 5)],
    "periods": [2, 3],
    "max_period": [1, 2],
    "starts": [4, 8],
    "rounds": [1],
    "draws": [20],
    "tune": [5],
    "fits": [2],
    "points": [3],
    "grid": [3, 4],
    "transient": [5],
    "depth": [1],
    "max_branches": [2],
    "max_points": [5],
    "plane": [{"k": (3.9, 4.2)}, {"k": (3.9, 4.2), "w": (0.9, 1.1)}, None],
    "length": [50.0],
    "blocks": [4],
    "region": [{"x": (-2.0, 2.0), "x'": (-2.0, 2.0)}, {"x": (0.0, 1.0)}],
    "bounds": [(3.9, 4.2), (0.5, 2.0), None],
    "parameter": ["k", "w", "B"],
    "frequency": ["w"],
    "force": ["B", np.ones(11)],
    "state": ["x"],
    "free": [["k"], ["k", "B"]],
    "measured": [["x"], None],
    "name": ["x", "k", "b1"],
    "names": [["x"], {"x": "y"}],
    "channels": [["x"], {"x": [1.0, 2.0, 3.0, 4.0, 5.0]}, None],
    "units": [{"x": "mm"}, {}, None],
    "angles": [[], ["x"]],
    "noise": [0.01, {"x": 0.01}, None],
    "outputs": [{"x": "x"}, {}],
    "start": [None, {"x": 0.4, "x'": 0.0}, [0.4, 0.0]],
    "guess": [None, [0.4, 0.0]],
    "equations": ["x'' + k*x = 0", ["x' = y", "y' = -x"], {"x": "1 - a*x**2"}],
    "lagrangian": ["x'**2/2 - k*x**2/2"],
    "hamiltonian": ["p**2/2 + k*q**2/2"],
    "coordinates": [["x"], None],
    "positions": [["q"]],
    "momenta": [["p"]],
    "M": [np.eye(2)],
    "C": [np.eye(2) * 0.1],
    "K": [np.diag([1.0, 4.0])],
    "modes": [1],
    "parameters": [{"k": 4.0}, None],
    "period": [1.0, 2, None],
    "unit": ["m", ""],
    "order": [1, 2],
    "coordinate": ["x"],
    "laws": [["k*x"], ["x"]],
    "terms": [[], ["x**2"], ["x", "x**3"]],
    "function": [squared],
    "items": [[1.0, 2.0]],
    "index": [0, 1, slice(0, 3)],
    "interval": [0.1, None],
    "level": [0.9],
    "surface": ["x"],
    "crossings": [2],
    "direction": [1, 0],
    "kind": ["response"],
    "steps": [2],
    "samples": [5],
    "path": ["a.csv", "a.nc", "b.png", "c.html", "m.toml", "run.csv", "study.toml"],
    "folder": ["results"],
    "keep": [None, "kept"],
    "own": [(), ["k"]],
    "values": [{"x": 0.4, "x'": 0.0}, [0.5, 0.7], np.ones(101)],
    "amplitudes": [[0.5, 0.9]],
    "output": ["x"],
    "subject": [],
    "matlab": ["5"],
    "missing": ["refuse", "cut"],
    "truth": [{"k": 1.0}],
    "seed": [0, 1],
    "precision": ["double"],
}
"""Values that suit a parameter of this name."""

EXTRA = {
    "follow": {"direction": 1, "detect": False, "half_map": True},
    "find_orbits": {"starts": 8, "rounds": 1, "region": {"x": (0.0, 1.0)}, "seed": 1},
    "diagram": {"direction": 1},
    "frequency_response": {"stepping": None},
    "Model.from_equations": {"period": "2*pi", "start": {"x": 1.0}, "outputs": {"y": "2*x"}},
    "Record.from_arrays": {"phase": 0.0, "name": "run"},
    "Model.with_values": {"k": 2.0},
    "Record.with_attributes": {"period": 2.0},
}
"""Settings that are passed on, by call."""

WORKERS = ("workers", "processes")
"""Left out: worker processes of ours cannot be started below a process of this kind."""

LARGE = (2**31, 10**9, 10**6)
"""Counts that make work long but right: given only where a monitor can stop it."""

SLOW = ("posterior", "coverage", "basins", "exponents")
"""Long by nature: called a fifth as often."""


SERVERS = ("rig.RigServer", "rig.RemoteRig", "rig.serve_rig")
"""Left out: they open sockets and threads that outlive a case; tests/rig attacks them through messages."""


@dataclass(frozen=True)
class Target:
    """Something to call, or to read: owner is the class whose instance a method or property needs."""

    label: str
    owner: str = ""
    attribute: str = ""
    read: bool = False


@cache
def targets() -> list[Target]:
    """Every public function, constructor, method and property."""
    import kapitza as kz

    found = []
    values = {name: getattr(kz, name) for name in kz.__all__}
    for part in NAMESPACES:
        values |= {f"{part}.{name}": getattr(getattr(kz, part), name) for name in getattr(kz, part).__all__}
    for name, value in values.items():
        if name in SERVERS:
            continue
        if inspect.isfunction(value):
            found.append(Target(name))
        elif inspect.isclass(value) and not issubclass(value, Exception) and not getattr(value, "_is_protocol", False):
            if name != "Status":
                found.append(Target(name))
            for member in dir(value):
                if member.startswith("_") or hasattr(Sequence, member):
                    continue
                held = inspect.getattr_static(value, member)
                if isinstance(held, classmethod | staticmethod):
                    found.append(Target(f"{name}.{member}"))
                elif inspect.isfunction(held) or isinstance(held, property) or hasattr(held, "func"):
                    found.append(Target(f"{name}.{member}", value.__name__, member, not inspect.isfunction(held)))
    return found


def right(name: str, hint: Any, chance: random.Random, depth: int = 0) -> Any:
    """A value that suits the parameter."""
    if name == "monitor":
        return Stopping()
    if name in RIGHT and RIGHT[name] and chance.random() < 0.8:
        return chance.choice(RIGHT[name])
    return by_type(name, hint, chance, depth)


def by_type(name: str, hint: Any, chance: random.Random, depth: int = 0) -> Any:
    """A value of the annotated type."""
    if depth > 4 or hint is None or hint is type(None):
        return None
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [getattr(mark, "low", None) for mark in inside[1:]]
        if inside[0] is Any or limits == [None]:
            return chance.choice([[0.4, 0.0], 1.0, "x", {"x": 1.0}, *nouns()["Record"][:2], *nouns()["Model"][:2]])
        return by_type(name, inside[0], chance, depth)
    if origin in (Union, types.UnionType):
        return by_type(name, chance.choice(inside), chance, depth + 1)
    if origin is Literal:
        return chance.choice(inside)
    if origin is np.ndarray or hint is np.ndarray:
        return np.linspace(0, 1, 5)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {chance.choice(["x", "k", "x'"]): by_type(name, inside[1], chance, depth + 1)}
    if origin is tuple and inside[-1] is not Ellipsis:
        return tuple(by_type(name, one, chance, depth + 1) for one in inside)
    if origin is not None and inside and hint is not Callable and origin is not os.PathLike:
        return [by_type(name, inside[0], chance, depth + 1) for _ in range(chance.randint(0, 2))]
    simple: dict[Any, list[Any]] = {
        int: [1, 2, 3], float: [0.1, 0.5, 1.0], bool: [True, False], str: ["x", "k", "w"], complex: [1.0],
        Path: [Path("a.csv")], slice: [slice(0, 3)],
    }  # fmt: skip
    if isinstance(hint, type) and hint in simple:
        return chance.choice(simple[hint])
    if origin is os.PathLike:
        return "a.csv"
    known = nouns().get(getattr(hint, "__name__", ""), [None])
    # The first of a kind belong together: models, records and orbits of the same system.
    return None if not known else known[0] if chance.random() < 0.6 else chance.choice(known)


def arguments(label: str, function: Any, chance: random.Random) -> tuple[list[Any], dict[str, Any], list[str]]:
    """Arguments by place and by name, and what is odd about them."""
    from kapitza.base.argument_checks import hints_of

    inner = getattr(function, "__unchecked__", inspect.unwrap(function))
    hints = hints_of(inner)
    parameters = [p for p in inspect.signature(inner).parameters.values() if p.name not in ("self", "cls")]
    given, named, odd = [], dict[str, Any](), list[str]()
    single = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in WORKERS]
    chosen = [p for p in single if p.default is p.empty or chance.random() < 0.25 or p.name == "monitor"]
    optional = [p for p in single if p.default is not p.empty and p not in chosen]
    wounds = chance.choices([0, 1, 2, 3], [30, 50, 15, 5])[0]
    if wounds and optional and chance.random() < 0.5:
        chosen.append(chance.choice(optional))
        wounded = {chosen[-1].name}
    else:
        wounded = {p.name for p in chance.sample(chosen, min(wounds, len(chosen)))}
    for parameter in chosen:
        if parameter.name in wounded:
            suited = right(parameter.name, hints.get(parameter.name), chance)
            description, value = hostile(chance) if chance.random() < 0.5 else odd_like(suited, chance)
            if type(value) is int and value in LARGE and not any(p.name == "monitor" for p in parameters):
                description, value = "1000", 1000
            odd.append(f"{parameter.name} = {description}")
        else:
            value = right(parameter.name, hints.get(parameter.name), chance)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            given.append(value)
        else:
            named[parameter.name] = value
    many = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    if many is not None:
        given += [hostile(chance)[1] for _ in range(chance.randint(0, 2))]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        for key, value in EXTRA.get(label, {}).items():
            if chance.random() < 0.4:
                description, named[key] = hostile(chance) if chance.random() < 0.4 else (repr(value)[:40], value)
                odd.append(f"{key} = {description}")
    change = chance.random()
    if change < 0.02 and named:
        odd.append(f"without {named.popitem()[0]}")
    elif change < 0.04:
        given.append(hostile(chance)[1])
        odd.append("one more by place")
    elif change < 0.06:
        named["unknwon"] = 1
        odd.append("an unknown name")
    return given, named, odd


def prepare(folder: Path) -> None:
    """Files that readers may find."""
    (folder / "run.csv").write_text("t,x\n" + "".join(f"{i / 10},{(i * i) % 17}\n" for i in range(40)))


def resolved(target: Target, chance: random.Random) -> Any:
    """The function to call, or the value of a property."""
    import kapitza as kz

    if target.owner:
        owners = nouns().get(target.owner)
        if not owners:
            return None
        return getattr(chance.choice(owners), target.attribute)
    found: Any = kz
    for part in target.label.split("."):
        found = getattr(found, part)
    return found


def call(seed: int, folder: Path) -> object:
    """Make the call of this seed; a failure carries its description."""
    from kapitza.errors import KapitzaError

    chance = random.Random(seed)
    target = chance.choice(targets())
    while target.label in SLOW and chance.random() < 0.8:
        target = chance.choice(targets())
    prepare(folder)
    said = target.label
    named: dict[str, Any] = {}
    try:
        function = resolved(target, chance)
        if target.read or function is None:
            return repr(function)[:200]
        signed = function.__init__ if inspect.isclass(function) else getattr(function, "__func__", function)
        given, named, odd = arguments(target.label, signed, chance)
        said = f"{target.label}({', '.join(named)}); odd: {'; '.join(odd) or 'nothing'}"
        result = function(*given, **named)
        if isinstance(result, Iterator):
            result = list(itertools.islice(result, 3))
        return repr(result)[:200]
    except KapitzaError:
        raise
    except KeyboardInterrupt as problem:
        # A monitor that stopped the work before there was anything to return.
        if getattr(named.get("monitor"), "stopped", False):
            return "stopped"
        problem.add_note(said)
        raise
    except BaseException as problem:
        problem.add_note(said)
        raise


def warm() -> None:
    """Make the nouns before processes are forked."""
    nouns()
    targets()


register("calls", st.integers(0, 2**63 - 1), call, 6.0, seconds=20.0)
