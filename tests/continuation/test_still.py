"""Folds where the parameter stands still to rounding, as in a canard explosion, on curves p = g(x) with a flat part."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.continuation.family import PlainPoint, Readings, Subject
from kapitza.continuation.family import test_of as a_test
from kapitza.continuation.path import first_node
from kapitza.continuation.trace import Stepping, Trace
from kapitza.solve import ByEffort, DenseSolver

NOISE = 2e-16
"""Wiggles of the flat part: slopes of 1e-13, whose sign says nothing."""


@pytest.fixture(scope="module")
def fold():
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = 0.3*cos(omega*t)", parameters={"omega": 1.0}, period="2*pi/omega"
    )
    return kz.follow(model, kz.solve_orbit(model), "omega", (1.0, 3.0)).of(Kind.FOLD)[0]


@dataclass(frozen=True)
class Flat:
    """Solutions of p = g(x), where g is constant but for wiggles within |x| < 1."""

    power: int
    label: object
    free = ("p",)
    scale = np.ones(2)
    metric = np.ones(2)
    state_sizes = np.ones(1)
    delicate = False

    def residual(self, z):
        beyond = max(abs(z[0]) - 1.0, 0.0) * np.sign(z[0])
        return np.array([z[1] - beyond**self.power - NOISE * np.sin(470 * z[0])])

    def linearise(self, z):
        return Point(self, z)

    def allowed(self, z):
        return True

    def subject(self, nodes):
        return Subject("curve", None)


@dataclass(frozen=True, eq=False)
class Point(PlainPoint):
    family: Flat
    z: np.ndarray

    @property
    def residual(self):
        return self.family.residual(self.z)

    @property
    def tests(self):
        return (a_test(Kind.FOLD),)

    def bordered(self, rows):
        x, power = self.z[0], self.family.power
        beyond = max(abs(x) - 1.0, 0.0) * np.sign(x)
        slope = power * beyond ** (power - 1) + 470 * NOISE * np.cos(470 * x)
        return DenseSolver(np.vstack([[-slope, 1.0], rows]))

    def motion(self):
        return np.ones((1, 1))

    def orbit(self, z):
        return SimpleNamespace(offset=0.0, events=())

    def readings(self, node):
        # The multiplier of a canard passes 1 where the curve turns.
        other = np.exp(50 * node.z[0]) if self.family.power == 2 else 1e-9
        return Readings(np.array([1.0, other], complex), {Kind.FOLD: float(node.tangent[-1])}, "", float("nan"))

    def judged(self, kind, node, first, last, rank=None):
        return replace(self.family.label, value=node.value, period=10.0 + node.z[0])


class Open:
    """No end but the bounds."""

    def within(self, before, node):
        return None

    def after(self, trace, node):
        return None

    def shrunk(self, node):
        return None


def followed(power, fold):
    family = Flat(power, fold)
    begin = np.array([-2.0, (-1.0) ** power])
    start = first_node(family, begin, -1.0 if power == 2 else 1.0).point
    trace = Trace(start, (-1.5, 0.99), Stepping(rule=ByEffort(0.05, 1e-7, 0.1)), ending=Open())
    nodes = [start, *trace]
    assert nodes[-1].z[0] > 1.9  # through the flat part
    flips = np.sign([n.tangent[-1] for n in nodes if abs(n.z[0]) < 1])
    assert (flips[1:] != flips[:-1]).sum() > 4
    return [b for _, b in trace.bifurcations]


def test_wiggles_of_a_parameter_that_stands_still_are_no_folds(fold):
    assert followed(3, fold) == []


def test_a_parameter_that_leaves_against_its_direction_has_turned_once(fold):
    found = followed(2, fold)
    assert [b.kind for b in found] == [Kind.FOLD]
    assert found[0].value == pytest.approx(0.0, abs=1e-15)
    assert found[0].period == pytest.approx(10.0, abs=1e-6)  # where the multiplier passes 1
