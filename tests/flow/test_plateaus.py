"""Switching functions that vanish on stretches: their mode is 0 there, whatever is built around them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import kapitza as kz
from flow.differences import column_error
from flow.nested import reference as small_steps
from flow.plateaus import CONSTANTS, END, Problem, problems, reference
from kapitza import Flow, Model, Signal
from kapitza.errors import ModelError
from kapitza.flow.stepper import Stepper
from kapitza.model import rate, symbol

SEED = 26
PROBLEMS = problems(12, SEED)
"""The first of the three hundred of `python -m benchmarks plateaus`."""


def test_a_force_that_is_never_reached():
    """Below x = 0.5 the force is min(sign(0), 0.5) = 0: x = 0.4 cos t."""
    flow = Flow(Model.from_equations("x'' + x + min(sign(max(x - 0.5, 0)), 0.5) = 0"))
    np.testing.assert_allclose(flow.propagate([0.4, 0.0], 0.0, np.pi).state, [-0.4, 0.0], atol=1e-13)


def test_a_plateau_that_is_left_at_second_order():
    """The function max(x, 0)**2 - max(x - 1, 0) leaves zero without a rate; while 0 < x < 1 the force is -x - 1/2."""
    flow = Flow(Model.from_equations("x'' = -x - 0.5*Piecewise((1, max(x, 0)**2 > max(x - 1, 0)), (0, True))"))
    starts = np.stack([np.linspace(-0.9, -0.1, 41), np.full(41, 0.5)], axis=1)
    # x = x0 cos(t) + 0.5 sin(t) is zero at tan(t) = -2 x0, with the rate hypot(x0, 0.5).
    reached, speed = np.arctan(-2 * starts[:, 0]), np.hypot(*starts.T)
    after = 0.4
    expected = -0.5 + 0.5 * np.cos(after) + speed * np.sin(after)
    for start, instant, position in zip(starts, reached, expected, strict=True):
        assert flow.propagate(start, 0.0, instant + after).state[0] == pytest.approx(position, abs=1e-12)


def _flow(problem: Problem) -> Flow:
    model = Model.from_equations(f"x'' = {problem.text}", parameters=dict.fromkeys(CONSTANTS, 0.5))
    return Flow(model, wrt=CONSTANTS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: str(p.number))
def test_random_laws_with_plateaus(problem):
    flow = _flow(problem)
    run = flow.propagate(problem.start, 0.0, END, problem.vector)
    expected, held = reference(problem)
    assert not held
    np.testing.assert_allclose(run.state, expected, atol=1e-8)
    together = flow.propagate_many(np.array([problem.start] * 2), 0.0, END, np.tile(problem.vector, (2, 1)))
    np.testing.assert_allclose(together.state, [run.state] * 2, atol=1e-12)
    columns = np.concatenate([run.jacobian, run.sensitivity], axis=1)
    for i, column in enumerate(columns.T):

        def moved(s: float, i: int = i) -> np.ndarray:
            change = s * np.eye(5)[i]
            return flow.propagate(problem.start + change[:2], 0.0, END, problem.vector + change[2:]).state

        if np.abs(column).max() > 1e-9:
            assert column_error(column, moved, 1.0) < 1e-6
        else:
            assert np.abs(moved(1e-5) - run.state).max() < 1e-10


x, v = symbol("x"), rate("x")
# A law (text or SymPy), values of its parameters, and what it is.
AS_WRITTEN = {
    "factor zero": ("sign(a*x)", {"a": 0.0}, lambda x: 0.0),
    "factor zero, >": ("Piecewise((1, a*x > 0), (0, True))", {"a": 0.0}, lambda x: 0.0),
    "factor zero, >=": ("Piecewise((1, a*x >= 0), (0, True))", {"a": 0.0}, lambda x: 1.0),
    "factor zero inside": ("min(sign(a*x) + x, 0.5)", {"a": 0.0}, lambda x: min(x, 0.5)),
    "equal parameters, >": ("Piecewise((1, a > b and x > 0), (0, True))", {"a": 0.5, "b": 0.5}, lambda x: 0.0),
    "equal parameters, >=": (
        "Piecewise((1, a >= b and x > 0), (0, True))",
        {"a": 0.5, "b": 0.5},
        lambda x: float(x > 0),
    ),
    "edge at zero": ("sign(max(x, a))", {"a": 0.0}, lambda x: float(x > 0)),
    "no width": ("abs(sign(min(max(x, -a), a)) - 0.3)", {"a": 0.0}, lambda x: 0.3),
    "difference of plateaus": (
        "abs(sign(max(x, a) - max(x, b)) - 0.3)",
        {"a": 0.1, "b": 0.2},
        lambda x: 0.3 if x >= 0.2 else 1.3,
    ),
    "Heaviside(0) = 0": (sp.Heaviside(sp.Max(x, 0), 0), {}, lambda x: float(x > 0)),
    "Heaviside(0) = 1": (sp.Heaviside(sp.Max(x, 0), 1), {}, lambda x: 1.0),
    "equal to zero": (sp.Piecewise((1, sp.Eq(sp.Max(x, 0), 0)), (0, True)), {}, lambda x: float(x <= 0)),
    "not equal to zero": (sp.Piecewise((1, sp.Ne(sp.Max(x, 0), 0)), (0, True)), {}, lambda x: float(x > 0)),
}


@pytest.mark.parametrize("case", AS_WRITTEN)
def test_laws_hold_as_written(case):
    law, values, value = AS_WRITTEN[case]
    if isinstance(law, str):
        model = Model.from_equations(f"x'' = -x + 0.3*({law})", parameters=values)
    else:
        model = Model.from_equations([rate("x", 2) + x - sp.Rational(3, 10) * law])
    start, times = np.array([-0.4, 0.9]), np.array([0.0, 2.0, 5.0])
    expected = small_steps(lambda t, x, v, c: -x + 0.3 * value(x), {}, start, times)
    np.testing.assert_allclose(Flow(model).trajectory(start, times), expected, atol=1e-6)


def test_equality_of_what_never_rests_is_refused():
    with pytest.raises(ModelError, match="isolated instants"):
        _ = Model.from_equations([rate("x", 2) + x - sp.Piecewise((1, sp.Eq(x, 0)), (0, True))]).structure.switches


@pytest.mark.parametrize(
    ("law", "value"),
    [
        ("sign(F)", lambda u: float(u > 0)),
        ("Heaviside(F)", lambda u: 1.0 if u > 0 else 0.5),
        ("Piecewise((1, F > 0), (0, True))", lambda u: float(u > 0)),
        ("min(sign(F), 0.5)", lambda u: 0.5 * (u > 0)),
    ],
)
def test_a_measured_excitation_that_is_off_for_a_while(law, value):
    """The excitation is zero up to t = 1.9, rises over 0.1 s and stays: each part in closed form."""
    times = np.linspace(0.0, 8.0, 81)
    signal = Signal("F", times, np.where(times < 1.95, 0.0, 1.0), 8.1, degree=1)
    flow = Flow(Model.from_equations(f"x'' = -x + 0.3*({law})", signals=[signal]))
    off, on = 0.3 * value(0.0), 0.3 * value(1.0)
    start = np.array([-0.4, 0.9])

    def about(centre: float, state: np.ndarray, time: float) -> np.ndarray:
        turn = np.array([[math.cos(time), math.sin(time)], [-math.sin(time), math.cos(time)]])
        return np.array([centre, 0.0]) + turn @ (state - [centre, 0.0])

    expected = about(on, about(off, start, 1.9), 4.0 - 1.9)
    np.testing.assert_allclose(flow.propagate(start, 0.0, 4.0).state, expected, atol=1e-11)


SAME = {
    "min(sign(max(x - 0.2, 0)), 0.5)": "Piecewise((0.5, x > 0.2), (0, True))",
    "sign(max(x - 0.2, 0)*max(x', 0))": "Piecewise((1, x > 0.2 and x' > 0), (0, True))",
    "abs(sign(max(x, 0) + max(x' - 0.3, 0)) - 0.3)": "Piecewise((0.7, x > 0 or x' > 0.3), (0.3, True))",
}
"""A nested law, and the same without anything that vanishes on a stretch."""


def _pair(nested: str) -> list[Model]:
    return [
        Model.from_equations(
            f"x'' + 0.2*x' + x + k*{law} = 0.8*cos(w*t)", parameters={"k": 0.4, "w": 1.3}, period="2*pi/w"
        )
        for law in (nested, SAME[nested])
    ]


@pytest.mark.parametrize("nested", SAME)
def test_rigs_step_as_the_simple_law(nested):
    ends = []
    for model in _pair(nested):
        stepper = Stepper(model, ("w",), 1e-12)
        stepper.begin(np.array([0.3, 0.4]), 0.0)
        for _ in range(300):
            stepper.step(np.array([1.3]), 0.02)
        ends.append(stepper.state.copy())
        stepper.release()
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


@pytest.mark.parametrize("nested", SAME)
def test_periodic_orbits_have_the_multipliers_of_the_simple_law(nested):
    orbits = [kz.solve_orbit(model, [0.1, 0.1], method=kz.Collocation()) for model in _pair(nested)]
    np.testing.assert_allclose(np.abs(orbits[0].multipliers), np.abs(orbits[1].multipliers), atol=1e-9)


@pytest.mark.parametrize("nested", SAME)
def test_weak_form_of_a_nested_law(nested):
    record = kz.simulate(_pair(nested)[1], [0.3, 0.4], periods=40, samples_per_period=64)
    found, simple = (
        kz.identify(model.with_values(k=0.1), record, free=["k"], method=kz.HarmonicFit()) for model in _pair(nested)
    )
    assert found.values["k"] == pytest.approx(simple.values["k"], abs=1e-3)
    assert found.values["k"] == pytest.approx(0.4, abs=6e-3)


def test_motion_held_at_the_edge_of_a_plateau():
    """x' = 1 below zero and -1 above: from x = -0.5 it reaches zero at t = 0.5 and stays there."""
    for law in ("sign(max(x, 0))", "sign((sign(x) + 1)*cos(0.1*t))"):
        path = Flow(Model.from_equations(f"x' = 1 - 2*{law}")).trajectory([-0.5], np.linspace(0.0, 2.0, 5))
        np.testing.assert_allclose(path[:, 0], [-0.5, 0.0, 0.0, 0.0, 0.0], atol=1e-12)


def test_a_surface_that_became_repelling_is_refused_at_once():
    """Stuck at x' = b until the sign of cos(1.3 t) reverses the jump there: two motions leave (law 4 of seed 1001)."""
    law = "abs(Heaviside(max(x', b) - b) - Heaviside((sign(cos(1.3*t)) + 1)*x))"
    text = f"x'' = -x - 0.1*x' + 0.4*cos(1.7*t) - 0.5*({law})"
    flow = Flow(Model.from_equations(text, parameters={"b": 0.6102275033769154}))
    start, reversed_ = [-0.87555417, -0.98460798], 1.5 * np.pi / 1.3
    assert flow.propagate(start, 0.0, reversed_ - 0.001).state[1] == 0.6102275033769154
    for end in (reversed_ + 0.001, END):
        with pytest.raises(kz.errors.FlowError, match=rf"At t = {reversed_:.9g} .* 2 different motions leave"):
            flow.propagate(start, 0.0, end)
