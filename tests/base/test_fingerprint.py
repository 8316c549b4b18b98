"""Fingerprints: equal for equal values in any process, whatever has been worked out from them; else different."""

import copy
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import kapitza as kz
from kapitza.base.argument_checks import checked
from kapitza.base.fingerprint import fingerprint

WORDS = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
SCRIPT = f"""
import kapitza as kz
from kapitza.base.fingerprint import fingerprint
model = kz.library.duffing()
record = kz.Record.from_arrays([0.0, 0.1, 0.2], {{"x": [1.0, 0.5, 0.3]}}, units={{"x": "m"}})
print(fingerprint(model, record, kz.HarmonicFit(), {WORDS}, kz.simulate))
"""


def test_other_processes_see_the_same():
    """Sets of texts have another order in every process: of ten there are 3.6 million."""
    given = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    answers = {subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, env=given).stdout}
    model = kz.library.duffing()
    record = kz.Record.from_arrays([0.0, 0.1, 0.2], {"x": [1.0, 0.5, 0.3]}, units={"x": "m"})
    answers.add(fingerprint(model, record, kz.HarmonicFit(), WORDS, kz.simulate).encode() + b"\n")
    assert len(answers) == 1


def raise_to(base: float, power: int) -> float:
    return base**power


def test_a_function_that_was_called_is_the_same():
    function = checked(raise_to, title="raise_to")
    before = fingerprint(function)
    assert function(2.0, 3) == 8.0
    assert fingerprint(function) == before != fingerprint(checked(raise_to, title="other"))


def test_what_was_worked_out_is_no_part_of_a_value():
    model, other = kz.library.parametric_pendulum(), kz.library.parametric_pendulum()
    kz.simulate(model, periods=2)
    assert fingerprint(model) == fingerprint(other)


def test_a_curve_that_was_drawn_is_the_same():
    """The curve between the points of an orbit keeps states where it was asked for them."""
    model = kz.Model.from_equations("x'' - mu*(1 - x**2)*x' + x = 0", parameters={"mu": 1.0})
    orbit = kz.solve_orbit(model, [2.0, 0.0], period=6.6)
    before = fingerprint(orbit)
    orbit.loop(np.linspace(0.0, 1.0, 7))
    assert fingerprint(orbit) == before == fingerprint(copy.deepcopy(orbit))


def test_a_record_that_travelled_is_the_same():
    """A channel added to a dataset stands behind its coordinates, in the copy before them."""
    record = kz.Record.from_arrays([0.0, 0.1, 0.2], {"x": [1.0, 0.5, 0.3]})
    added = kz.Record(record.dataset.assign(y=record.dataset["x"] + 1.0))
    assert fingerprint(copy.deepcopy(added)) == fingerprint(added)
    other = kz.Record(record.dataset.assign(y=record.dataset["x"] + 2.0))
    assert fingerprint(other) != fingerprint(added)


def line(x, a=1.0):
    return a * x


def other_line(x, a=1.0):
    return a * x + 1.0


MODEL = kz.library.duffing()
RECORD = kz.Record.from_arrays(np.arange(4.0), {"x": np.arange(4.0)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MODEL, MODEL.with_values(k=0.06)),
        (RECORD, kz.Record.from_arrays(np.arange(4.0), {"y": np.arange(4.0)})),
        (RECORD, RECORD.with_attributes(period=2.0)),
        (RECORD, kz.Record.from_arrays(np.arange(4.0), {"x": np.array([0.0, 1.0, 2.0, 3.0 + 1e-15])})),
        (kz.HarmonicFit(), kz.ShootingFit()),
        ([[1], [2]], [[1, 2], []]),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2), np.zeros(2, np.float32)),
        (line, other_line),
        (partial(line, a=2.0), partial(line, a=3.0)),
        (kz.Flow(MODEL), kz.Flow(MODEL.with_values(B=0.1))),
        ({"a"}, {"b"}),
    ],
)
def test_different_values_differ(one, other):
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(one)
    assert len(fingerprint(one)) == 64


def test_a_value_that_holds_itself_ends():
    loop: list = [1]
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)
