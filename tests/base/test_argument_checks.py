"""Arguments of public calls are checked against their annotations; every public parameter has one that can be."""

from __future__ import annotations

import inspect
import math
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import kapitza as kz
from kapitza.base.argument_checks import (
    Count,
    Infinite,
    Level,
    Positive,
    Range,
    Reals,
    Seed,
    check_of,
    checked,
    checks_of,
)
from kapitza.errors import ArgumentError, DataError, KapitzaError, ModelError, RigError
from kapitza.public import FOLDERS, NAMESPACES

ROOT = Path(__file__).resolve().parents[2]


def public() -> dict[str, Any]:
    """Every public function, constructor and method by name."""
    parts = {part: getattr(kz, part) for part in NAMESPACES}
    values = {name: getattr(kz, name) for name in kz.__all__}
    values |= {f"{part}.{name}": getattr(module, name) for part, module in parts.items() for name in module.__all__}
    found = dict(values)
    for name, value in values.items():
        if inspect.isclass(value) and not issubclass(value, Exception) and not getattr(value, "_is_protocol", False):
            for member in dir(value):
                held = inspect.getattr_static(value, member)
                held = held.__func__ if isinstance(held, classmethod | staticmethod) else held
                if not member.startswith("_") or member == "__init__":
                    found[f"{name}.{member}"] = held
    return {name: f for name, f in found.items() if inspect.isfunction(f) and f.__module__.startswith("kapitza")}


PUBLIC = public()


def test_there_are_public_functions():
    assert len(PUBLIC) > 400
    # Another kind of callable, such as a cached function, would pass by the check.
    homes = (kz, *(getattr(kz, part) for part in NAMESPACES))
    values = [getattr(home, name) for home in homes for name in home.__all__]
    assert [v for v in values if callable(v) and not (inspect.isfunction(v) or inspect.isclass(v))] == []


USED = re.compile(r"\bkz\.([a-z_]+)\.(\w+)|from kapitza\.([a-z_]+) import ([\w, ]+)")


def test_names_of_parts_in_the_documentation_are_checked():
    """A part of the package that users are shown belongs to NAMESPACES, or the name itself is checked."""
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/jobs/*.md"), *ROOT.glob("examples/**/*.py"), ROOT / "README.md"]
    found = [hit for page in pages for hit in USED.findall(page.read_text(encoding="utf-8"))]
    used = {(part or other, name) for part, one, other, many in found for name in (one or many).split(", ")}
    used = {(part, name) for part, name in used if part in FOLDERS}
    assert ("rig", "RemoteRig") in used
    assert ("flow", "chaotic_record") in used
    for part, name in used:
        value = getattr(getattr(kz, part), name)
        covered = part in NAMESPACES or name in kz.__all__ or not callable(value)
        assert covered or hasattr(value, "__unchecked__"), f"kapitza.{part}.{name} is shown and not checked"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_checked(name):
    """A new name is checked because it is public; a parameter needs a type that `argument_checks` knows."""
    function = PUBLIC[name]
    assert hasattr(function, "__unchecked__"), "the check is missing"
    checks = checks_of(function.__unchecked__)
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    unknown = [p for p in parameters if p not in checks or not checks[p].known]
    assert unknown == [], "annotate these with a type, or with kapitza.base.argument_checks.Anything and a check inside"


REFUSED = [
    (lambda: kz.simulate(kz.library.duffing(), perods=3), 'simulate has no argument "perods". Did you mean "periods"?'),
    (lambda: kz.simulate(), "simulate needs model"),
    (lambda: kz.simulate(3, periods=1), "model = 3; give a Model or a Unit."),
    (lambda: kz.simulate(kz.Model, periods=1), "model = the class Model; give a Model or a Unit."),
    (lambda: kz.simulate(kz.library.duffing(), periods="2"), "periods = '2'; give a whole number or None."),
    (lambda: kz.simulate(kz.library.duffing(), periods=True), "periods = True; give a whole number or None."),
    (lambda: kz.simulate(kz.library.duffing(), model=1), "model is given twice"),
    (lambda: kz.Shooting(1e-9, 3, 1.0, 4), "Shooting got 4 arguments by place and takes at most 3"),
    (lambda: kz.Shooting(tolerance=math.nan), "tolerance = nan; give a finite number."),
    (lambda: kz.Shooting(largest_step=math.nan), "largest_step = nan; give a number."),
    (lambda: kz.library.duffing(k=1), 'duffing has no argument "k"'),
    (lambda: kz.read("a.csv", decimal=3), "decimal = 3; give text or None."),
    (lambda: kz.read("a" * 300), "at most 255 characters"),
    (lambda: kz.solve_orbit(kz.library.duffing(), method="Shooting"), "method = 'Shooting'; give a Method"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refusals_say_what_to_give(call, message):
    with pytest.raises(ArgumentError) as refusal:
        call()
    assert message in str(refusal.value)
    assert isinstance(refusal.value, KapitzaError | TypeError)


def test_refusals_are_errors_of_their_package():
    with pytest.raises(ModelError, match="name"):
        kz.Parameter(3)
    with pytest.raises(DataError, match="path"):
        kz.read(3)
    with pytest.raises(RigError, match="frequency"):
        kz.rig.FourierSeries("fast", [0.0])


def test_largest_steps_may_be_infinite_and_missing_values_nan():
    assert kz.Shooting(largest_step=math.inf).largest_step == math.inf
    assert math.isnan(kz.Parameter("k", math.nan).value)


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (int, 3.0, 3),
        (int, np.int8(3), 3),
        (float, np.float32(0.5), 0.5),
        (float, np.array(2.0), 2.0),
        (Infinite, math.inf, math.inf),
        (Sequence[str], "x", ["x"]),
        (Iterable[str], (v for v in "ab"), ["a", "b"]),
        (tuple[str, ...], ["a"], ("a",)),
        (tuple[float, float], [1, 2], (1.0, 2.0)),
        (Mapping[str, float], {"x": 1}, {"x": 1.0}),
        (str | Path, "a.csv", Path("a.csv")),
        (Literal["a", "b"] | None, "b", "b"),
        (float | Mapping[str, float] | None, {"x": 2}, {"x": 2.0}),
        (Seed, 0, 0),
    ],
)
def test_values_of_the_same_meaning_are_converted(hint, given, expected):
    found = check_of(hint).admit("it", given)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("hint", "given", "message"),
    [
        (int, 2.5, "it = 2.5; give a whole number."),
        (int, 10**400, "it = a whole number of about 401 digits; give a whole number of at most 9e+15."),
        (float, "1", "it = '1'; give a number."),
        (float, 10**400, "too large for a number"),
        (Count, 0, "it = 0; give a whole number, 1 or more."),
        (Positive, 0.0, "it = 0; give a number, more than 0."),
        (Level, 1.0, "it = 1; give a number between 0 and 1."),
        (Annotated[float, Range(low=-1, high=1)], 2, "it = 2; give a number between -1 and 1."),
        (Sequence[float], [1, math.nan], "it, entry 1, = nan; give a finite number."),
        (Sequence[float], {1.0}, "it is {1.0}; give a list."),
        (tuple[float, float], [1.0], "it = [1.0]; give (a number, a number)."),
        (Mapping[str, float], {1: 1.0}, "it: a key is 1; give text."),
        (Mapping[str, float], {"x": "1"}, "it['x'] = '1'; give a number."),
        (Literal["red", "blue"], "rde", "it = 'rde'; choose 'red' or 'blue'. Did you mean \"red\"?"),
        (bool, 1, "it = 1; give True or False."),
        (Reals, ["1"], "it: ['1'] cannot be read as real numbers."),
        (str | Path, b"a", "it = b'a'; give a path."),
    ],
)
def test_other_values_are_refused(hint, given, message):
    with pytest.raises(ArgumentError) as refusal:
        check_of(hint).admit("it", given)
    assert message in str(refusal.value)


def test_objects_that_misbehave_are_refused():
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __iter__(self) -> Any:
            raise RuntimeError

        def __repr__(self) -> str:
            raise RuntimeError

    own: list[Any] = []
    own.append(own)
    for value in (Refusing(), own, (x / 0 for x in (1, 2))):
        for hint in (float, Reals, Sequence[float], Mapping[str, float], kz.Model, kz.Monitor, str | Path):
            with pytest.raises(ArgumentError):
                check_of(hint).admit("it", value)


def test_sequences_that_are_nouns_stay_themselves():
    orbits = kz.OrbitSet(())
    assert check_of(Sequence[kz.PeriodicOrbit]).admit("it", orbits) is orbits
    numbers = np.ones(3)
    assert check_of(Reals).admit("it", numbers) is numbers


def test_checked_functions_keep_their_face_and_travel():
    def length(x: float, y: float = 0.0) -> float:
        """The length."""
        return x + y

    made = checked(length)
    assert inspect.signature(made) == inspect.signature(length)
    assert made.__doc__ == "The length."
    assert made(1, y=np.float64(2)) == 3.0
    assert pickle.loads(pickle.dumps(kz.simulate)) is kz.simulate  # noqa: S301


def test_work_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(kz.KapitzaError, match=r"Map\.iterate needs more memory than there is"):
        kz.Map(kz.library.trace_map()).iterate([0.1, 0.2, 0.3], 2**50)


def test_protocols_are_recognised_without_computing_their_properties():
    class Costly:
        show = None

        @property
        def cancelled(self) -> bool:
            raise AssertionError("computed")

    monitor = Costly()
    assert check_of(kz.Monitor | None).admit("it", monitor) is monitor
    with pytest.raises(ArgumentError, match="it is the class Silent; give a Monitor"):
        check_of(kz.Monitor).admit("it", kz.Silent)
