"""Ends of terms: roots, logarithms and inverse functions that lose their real value, with and without switches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import beta

from kapitza import Flow, Model, simulate
from kapitza.errors import FlowError
from kapitza.flow.lanes import sample_lanes
from kapitza.flow.stepper import Stepper

ENDS = {
    # law: start, the term in the message, the time at which it ends
    "x' = -sqrt(max(x, -5))": (1.0, "sqrt", 2.0),
    "x' = -sqrt(min(x, 3))": (1.0, "sqrt", 2.0),
    "x' = -sqrt(min(x, 3))*(2 + sign(sin(t + 1) - 2))": (1.0, "sqrt", 2.0),
    "x' = -x**(2/3)": (1.0, r"x\*\*\(2/3\)", 3.0),
    "x' = -x**p": (1.0, r"x\*\*p", 2.0),
    "x' = acos(x)": (0.0, r"acos\(x\)", 1.3707622),
    "x' = -1 + 0.001*log(x)": (1.0, r"log\(x\)", None),
    "x' = sqrt(1 - cos(t + 1))": (0.0, "sqrt", 2 * np.pi - 1),
    "x' = asin(sin(t))": (0.0, "asin", np.pi / 2),
    "x' = atan2(sin(t), cos(t))": (0.0, "atan2", np.pi),
    "x' = -sqrt(abs(x))": (1.0, "sqrt", 2.0),
    "x' = -1/x": (1.0, "pole of 1/x", 0.5),
}


@pytest.mark.parametrize("law", ENDS)
def test_a_motion_ends_where_a_term_does_by_its_name(law):
    """Without it x' = -sqrt(max(x, -5)) falls to 0 at t = 2 and rises to 1 again, along the other root."""
    start, term, time = ENDS[law]
    flow = Flow(Model.from_equations(law, parameters={"p": 0.5} if "p" in law else {}))
    with pytest.raises(FlowError, match=f"(end of the domain|pole).*{term.removeprefix('pole of ')}") as caught:
        flow.trajectory([start], np.linspace(0.0, 8.0, 9))
    if time is not None:
        assert float(str(caught.value).split(" at t = ")[1].split()[0]) == pytest.approx(time, abs=2e-5)


def test_tangents_lanes_and_samples_end_too():
    model = Model.from_equations("x' = -sqrt(max(c*x, -5))", parameters={"c": 1.0})
    flow = Flow(model, wrt=("c",))
    with pytest.raises(FlowError, match="end of the domain"):
        flow.propagate([1.0], 0.0, 4.0)
    ends = flow.propagate_many([[1.0], [9.0]], 0.0, 4.0, throw=False).state
    assert np.isnan(ends[0, 0])
    assert ends[1, 0] == pytest.approx(1.0)


def test_wide_lanes_end_at_roots_and_the_others_go_on():
    flow = Flow(Model.from_equations("x' = -sqrt(c*x)", parameters={"c": 1.0}), wrt=("c",))
    times = np.tile(np.linspace(0.0, 4.0, 5), (9, 1))
    starts = np.append(np.full(8, 9.0), 1.0)[:, None]
    states, tangents = sample_lanes(flow._core, starts, times, np.ones((9, 1)), refuse=False)
    np.testing.assert_allclose(states[:8, :, 0], np.tile((3 - times[0] / 2) ** 2, (8, 1)), atol=1e-13)
    # x = (√x0 - √c t/2)²: by c it is -(√x0 - √c t/2) t / (2 √c).
    np.testing.assert_allclose(tangents[:8, -1, 0, 1], -(3 - 2) * 4 / 2 * np.ones(8), atol=1e-12)
    assert np.isnan(states[8, -1, 0])
    with pytest.raises(FlowError, match=r"end of the domain of sqrt\(c\*x\)"):
        sample_lanes(flow._core, starts, times, np.ones((9, 1)))


def test_an_emptied_tank_rests():
    """h' = -√max(h, 0) from 1 is (1 - t/2)² until 2, then 0; the tangents vanish with it."""
    flow = Flow(Model.from_equations("h' = -k*sqrt(max(h, 0))", parameters={"k": 1.0}), wrt=("k",))
    times = np.linspace(0.0, 5.0, 11)
    np.testing.assert_allclose(flow.trajectory([1.0], times)[:, 0], np.maximum(1 - times / 2, 0) ** 2, atol=1e-15)
    run = flow.propagate([1.0], 0.0, 5.0)
    assert abs(run.jacobian[0, 0]) < 1e-12
    assert abs(run.sensitivity[0, 0]) < 1e-12
    np.testing.assert_allclose(flow.trajectory([0.0], times), 0.0, atol=1e-20)
    np.testing.assert_allclose(flow.propagate_many([[1.0], [9.0]], 0.0, 4.0).state[:, 0], [0.0, 1.0], atol=1e-13)


@pytest.mark.parametrize("jump", ["", "*(2 + sign(sin(t) - 2))"])
def test_a_tank_is_filled_again(jump):
    """Resting until the inflow starts: at t = 2π + s it is that of a tank that was empty then."""
    flow = Flow(Model.from_equations(f"h' = -sqrt(max(h, 0)){jump} + max(sin(t), 0)"))
    late = flow.trajectory([1.0], [0.0, 2 * np.pi - 0.5, 2 * np.pi + 1.5])[:, 0]
    fresh = flow.trajectory([0.0], [0.0, 1.5])[:, 0]
    assert abs(late[1]) < 1e-14
    assert late[2] == pytest.approx(fresh[1], abs=1e-12)
    # Near the start h = t²/2 - ∫√h, and √h <= t/√2: between t²/2 (1 - 1/√2) and t²/2.
    assert 0.5 * 1e-4 * (1 - 0.71) < flow.trajectory([0.0], [0.0, 0.01])[-1, 0] < 0.5 * 1e-4


def test_tangents_through_a_contact_of_hertz():
    """x'' = -max(x, 0)^1.5 from 1 leaves at v = -√(4/5) and flies on: ∂v/∂x0 = -√(4/5)·5/4 x0^(1/4)."""
    jacobian = Flow(Model.from_equations("x'' = -max(x, 0)**1.5")).propagate([1.0, 0.0], 0.0, 5.0).jacobian
    assert jacobian[1, 0] == pytest.approx(-np.sqrt(0.8) * 1.25, abs=1e-10)
    assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-9)


def test_a_root_that_is_entered_at_speed():
    """x' = 1 - √max(x, 0) from -1: with u = √x, t = 1 - 2 u - 2 ln(1 - u)."""
    path = simulate(Model.from_equations("x' = 1 - sqrt(max(x, 0))"), [-1.0], t=[0.0, 1.0, 4.0])["x"]
    u = np.sqrt(path[-1])
    assert 1 - 2 * u - 2 * np.log(1 - u) == pytest.approx(4.0, abs=1e-12)


def test_a_root_of_a_magnitude_is_crossed_at_speed():
    """x'' = -√|x| sign x keeps its energy v²/2 + (2/3)|x|^1.5."""
    path = Flow(Model.from_equations("x'' = -sqrt(abs(x))*sign(x)")).trajectory([1.0, 0.0], np.linspace(0, 12, 30))
    np.testing.assert_allclose(path[:, 1] ** 2 / 2 + 2 / 3 * np.abs(path[:, 0]) ** 1.5, 2 / 3, atol=1e-12)


def test_a_root_that_is_touched_keeps_its_sign():
    """x = (t - 1)², y' = √x = |t - 1|: y = 1/2 + (t - 1)²/2 after t = 1. Without it y falls again."""
    model = Model.from_equations(["x'' = 2", "y' = sqrt(max(x, 0))"], coordinates=["x", "y"])
    path = Flow(model).trajectory({"x": 1.0, "x'": -2.0, "y": 0.0}, [0.0, 0.5, 3.0])
    np.testing.assert_allclose(path[:, 1], [0.0, 0.375, 2.5], atol=1e-10)


def test_a_root_of_the_clock():
    """x' = √max(sin t, 0): one hump has the area B(3/4, 1/2)."""
    path = simulate(Model.from_equations("x' = sqrt(max(sin(t + 1), 0))"), [0.0], t=[0.0, 2 * np.pi - 1, 3 * np.pi - 1])
    assert path["x"][2] - path["x"][1] == pytest.approx(beta(0.75, 0.5), abs=1e-9)


def test_an_angle_by_atan2_inside_a_sine_goes_round():
    path = simulate(Model.from_equations("x' = sin(atan2(sin(t), cos(t)))"), [0.0], t=[0.0, 6.0])
    assert path["x"][-1] == pytest.approx(1 - np.cos(6.0))


def _drive(stepper: Stepper, value: float, steps: int) -> None:
    for _ in range(steps):
        stepper.step(np.full(1, value), 0.1)


@pytest.mark.parametrize("law", ["x' = -sqrt(x) + u", "x' = -sqrt(max(x, -5)) + u", "x' = acos(-x) - pi + u"])
def test_a_stepped_model_ends_too(law):
    """The stepper of simulated rigs: without it x falls to its end and rises again."""
    model = Model.from_equations(law, parameters={"u": 0.0})
    stepper = Stepper(model, held=("u",))
    stepper.begin(np.array([1.0 if "acos" not in law else 0.3]), 0.0)
    with pytest.raises(FlowError, match="end of the domain"):
        _drive(stepper, 0.0, 40)
    stepper.release()


def test_a_stepped_tank_rests_and_fills():
    model = Model.from_equations("h' = -sqrt(max(h, 0)) + u", parameters={"u": 0.0})
    stepper = Stepper(model, held=("u",))
    stepper.begin(np.array([1.0]), 0.0)
    _drive(stepper, 0.0, 30)
    assert abs(stepper.state[0]) < 1e-12
    _drive(stepper, 1.0, 10)
    # From 0 with inflow 1: t = -2 √h - 2 ln(1 - √h).
    u = np.sqrt(stepper.state[0])
    stepper.release()
    assert -2 * u - 2 * np.log(1 - u) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize(
    ("law", "start"),
    [
        ("x'' + 0.1*x' + x + 0.2*sign(x') + 3*max(x - 0.3, 0)**1.5 = u*cos(t)", [0.5, -0.4]),
        ("x'' = -x + u*sqrt(max(sin(t), 0))*sign(x')", [0.3, 1.1]),
        ("x' = sqrt(max(sin(t + u), 0)) - 0.3*x", [0.4]),
    ],
)
def test_terms_that_a_switch_leads_into_have_tangents(law, start):
    """States against midpoint steps, which know no events, and tangents against differences of runs without them."""
    model = Model.from_equations(law, parameters={"u": 0.7})
    flow, start = Flow(model), np.array(start)
    run = flow.propagate(start, 0.0, 9.0)
    now, steps = start, 10000
    h = 9.0 / steps
    for i in range(steps):
        middle = now + h / 2 * flow.core.rates(now, i * h, model.vector)
        now = now + h * flow.core.rates(middle, (i + 0.5) * h, model.vector)
    np.testing.assert_allclose(run.state, now, rtol=0, atol=2e-3)
    for j, unit in enumerate(np.eye(start.size)):
        ends = [flow.propagate(start + s * 1e-6 * unit, 0.0, 9.0, tangents=False).state for s in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-6, run.jacobian[:, j], rtol=0, atol=1e-7)
