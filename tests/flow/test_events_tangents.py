"""Tangents and sensitivities through crossings, stick, impacts and contact, against differences."""

import numpy as np
import pytest

from flow.differences import TOLERANCE, column_error, fourth_order
from kapitza import Flow, Model, library
from kapitza.flow.events import EventEngine
from kapitza.flow.system import system_of

PENDULUM = library.parametric_pendulum


def friction_and_wall() -> Model:
    """Two coupled masses: friction on one, a wall for the other, which the first keeps pressing when at rest."""
    return Model.from_equations(
        ["x'' + c*x' + x + k*(x - y) + F*sign(x') = A*cos(omega*t)", "y'' + c*y' + 2*y + k*(y - x) = -P"],
        coordinates=["x", "y"],
        parameters={"c": 0.1, "k": 0.6, "F": 0.25, "A": 1.1, "omega": 0.9, "P": 0.5, "d": 0.3, "r": 0.5},
        period="2*pi/omega",
        impacts=[{"name": "stop", "surface": "y + d", "reset": {"y'": "-r*y'"}}],
        name="friction and wall",
    )


def tilted_wall() -> Model:
    """Frictionless mass that slides into a straight wall across both coordinates, with damping that couples them."""
    return Model.from_equations(
        ["x'' + 0.3*x' + 0.1*y' = -g + a*y", "y'' + 0.2*y' + 0.1*x' = 0.4*x"],
        coordinates=["x", "y"],
        parameters={"g": 2.0, "a": 0.3, "s": 0.5, "r": 0.4},
        impacts=[
            {
                "name": "slope",
                "surface": "x + s*y",
                "reset": {"x'": "x' - (1 + r)*(x' + s*y')/(1 + s**2)", "y'": "y' - (1 + r)*s*(x' + s*y')/(1 + s**2)"},
            }
        ],
        name="tilted wall",
    )


CASES = {
    "pin joint, impacts": (library.pin_joint(), [0.1, 0.3], 14.0, {"impact"}),
    "pin joint, started late": (library.pin_joint(), [0.1, 0.3], 9.0, {"impact"}),
    "cart between buffers": (library.colliding_cart(), [0.2, 1.5], 14.0, {"cross"}),
    "pendulum of the rig": (PENDULUM(experiment=True), [1.2, 1.5], 3.0, {"cross"}),
    "pendulum that sticks": (PENDULUM().with_values(k1=6.88e-2, A=0.05), [1.2, 1.5], 1.9, {"stick", "release"}),
    "pendulum that ends stuck": (PENDULUM().with_values(k1=6.88e-2, A=0.05), [1.2, 1.5], 3.0, {"stick"}),
    "friction and wall": (friction_and_wall(), [0.5, 0.3, 0.2, -0.4], 12.0, {"impact", "cross"}),
    "tilted wall, contact": (tilted_wall(), [0.8, 0.1, 0.2, 0.3], 4.0, {"impact", "contact"}),
}


def worst_column(flow: Flow, x, t0: float, t1: float) -> float:
    """Largest error of a column relative to its largest entry."""
    model, x = flow.model, np.asarray(x, float)
    run = flow.propagate(x, t0, t1)
    errors = []

    def end(start, parameters=None):
        return flow.propagate(start, t0, t1, parameters, tangents=False).state

    def compare(column, function, scale):
        return column_error(column, function, scale, smallest=1e-9)

    for i, unit in enumerate(np.eye(x.size)):
        errors.append(compare(run.jacobian[:, i], lambda s, unit=unit: end(x + s * unit), max(abs(x[i]), 0.01)))
    for i, name in enumerate(flow.wrt):
        value = model.values[name]
        errors.append(compare(run.sensitivity[:, i], lambda s, n=name, v=value: end(x, {n: v + s}), abs(value) or 0.01))
    return max(errors)


@pytest.mark.parametrize("case", CASES)
def test_tangents_equal_differences(case):
    model, x, end, expected = CASES[case]
    start = 0.4 if "late" in case else 0.0
    flow = Flow(model, wrt=model.names, tolerance=TOLERANCE)
    seen = {event.kind for event in flow.propagate(x, start, end, tangents=False).events}
    assert expected <= seen
    assert worst_column(flow, x, start, end) < 1e-6


def test_tangents_of_a_double_pendulum_through_friction():
    model = library.base_excited_double_pendulum().with_values(C11=1e-2)
    flow = Flow(model, wrt=("B11", "B12", "C11", "C12", "C2"), tolerance=TOLERANCE)
    kinds = [e.kind for e in flow.propagate([0.5, 1.0, 0.3, 0.2], 0.0, 25.0, tangents=False).events]
    assert kinds.count("cross") >= 2
    assert worst_column(flow, [0.5, 1.0, 0.3, 0.2], 0.0, 25.0) < 1e-6


def test_tangents_of_a_double_pendulum_that_sticks():
    model = library.base_excited_double_pendulum().with_values(C11=0.1)
    flow = Flow(model, wrt=("B21", "C11", "C2"), tolerance=TOLERANCE)
    assert "stick" in {e.kind for e in flow.propagate([0.5, 1.0, 0.3, 0.2], 0.0, 8.0, tangents=False).events}
    assert worst_column(flow, [0.5, 1.0, 0.3, 0.2], 0.0, 8.0) < 1e-6


def test_tangents_of_the_landing_gear_through_its_quadratic_damping():
    model = library.oleo()
    flow = Flow(model, wrt=("theta3", "theta4", "theta11"), tolerance=TOLERANCE)
    x = [0.13, 293.0, 0.4]
    assert worst_column(flow, x, 0.0, 0.0333) < 1e-6


@pytest.mark.parametrize("case", ["pin joint, impacts", "cart between buffers", "pendulum of the rig"])
def test_log_determinant_counts_the_jumps(case):
    model, x, end, _ = CASES[case]
    run = Flow(model, wrt=model.names, tolerance=TOLERANCE).propagate(x, 0.0, end)
    assert run.log_determinant == pytest.approx(np.linalg.slogdet(run.jacobian)[1], abs=1e-9)


def test_determinant_of_the_pin_joint_is_that_of_its_impacts():
    # Free flight keeps areas; each impact multiplies them by r².
    model = library.pin_joint().with_values(gamma=1.1, r=0.8)
    run = Flow(model).propagate([0.1, 0.4], 0.0, 30.0)
    assert len(run.events) > 5
    assert run.log_determinant == pytest.approx(2 * len(run.events) * np.log(0.8), abs=1e-10)


def test_orbits_multipliers_pass_the_quadratic_damping():
    """Multipliers of Table 3.1 recomputed (ORBITS), with k3 φ'|φ'| as a switch."""
    model = PENDULUM()
    flow = Flow(model)
    for guess, expected in (
        ((0.0, 0.0), (-2.005, -0.480)),
        ((2.9668, 6.4066), (-1.709, -0.427)),
        ((0.1912, 11.4138), (18.48, 0.039)),
        ((np.pi, 0.0), (37.47, 0.026)),
    ):
        x = np.array(guess)
        for _ in range(8):
            run = flow.propagate(x, 0.0, model.period)
            turn = np.array([2 * np.pi * np.round((run.state[0] - x[0]) / (2 * np.pi)), 0.0])
            x = x - np.linalg.solve(run.jacobian - np.eye(2), run.state - x - turn)
        multipliers = np.linalg.eigvals(flow.propagate(x, 0.0, model.period).jacobian).real
        multipliers = multipliers[np.argsort(-np.abs(multipliers))]
        digits = 5e-3 if abs(expected[0]) > 10 else 5e-4
        np.testing.assert_allclose(multipliers, expected, atol=digits)


def test_sensitivity_to_friction_that_is_absent():
    model = PENDULUM()
    flow = Flow(model, wrt=("k1", "m"))
    x, end = [1.2, 1.5], 0.9

    def ended(k1):
        return flow.propagate(x, 0.0, end, {"k1": k1}, tangents=False).state

    # Friction has one sign only: a one-sided difference of second order.
    h = 1e-6
    slope = (4 * ended(h) - ended(2 * h) - 3 * ended(0.0)) / (2 * h)
    np.testing.assert_allclose(flow.propagate(x, 0.0, end).sensitivity[:, 0], slope, rtol=1e-5)


def test_many_runs_equal_single_ones():
    rng = np.random.default_rng(5)
    for model, spread in ((friction_and_wall(), [1.0, 0.25, 1.0, 1.0]), (library.colliding_cart(), [0.9, 2.0])):
        wrt = (0, 1, 2)
        engine = EventEngine(system_of(model), wrt)
        states = rng.uniform(-1, 1, (21, len(spread))) * spread
        begin, end = np.zeros(21), rng.uniform(3, 9, 21)
        parameters = model.vector * rng.uniform(0.9, 1.1, (21, model.vector.size))
        unit = np.eye(len(spread), len(spread) + len(wrt))
        many = engine.run_many(states, np.broadcast_to(unit, (21, *unit.shape)), begin, end, parameters)
        for b in range(21):
            one = engine.run(states[b], unit, 0.0, end[b], parameters[b])
            np.testing.assert_allclose(many.state[b], one.state, atol=1e-10)
            size = np.abs(one.tangents).max()
            np.testing.assert_allclose(many.tangents[b], one.tangents, atol=1e-9 * size)
            assert [e.kind for e in many.events[b]] == [e.kind for e in one.events]
            np.testing.assert_allclose(many.log_determinant[b], one.log_determinant, atol=1e-9)


def test_members_that_fail_are_nan_and_leave_the_others_alone():
    model = library.pin_joint()
    states = np.array([[0.1, 0.3], [5.0, 0.0], [0.2, 0.3]])
    result = Flow(model).propagate_many(states, 0.0, 10.0, throw=False)
    assert np.isnan(result.state[1]).all()
    single = Flow(model).propagate(states[2], 0.0, 10.0, tangents=False)
    np.testing.assert_allclose(result.state[2], single.state, atol=1e-12)


@pytest.mark.parametrize("t0", [0.0, 0.3])
def test_sensitivity_to_the_frequency_of_a_square_wave(t0):
    """The instants of the jumps move with the frequency; those at whole periods lie where time is wrapped."""
    model = Model.from_equations(
        "x'' + 0.2*x' + 1.3*x = A*sign(sin(w*t))", parameters={"A": 1.0, "w": 2.0}, period="2*pi/w"
    )
    flow = Flow(model, wrt=("w", "A"))
    x, t1 = [1.0, 0.0], 17.0
    run = flow.propagate(x, t0, t1)
    for i, name in enumerate(flow.wrt):
        value = model.values[name]
        difference = fourth_order(
            lambda s, name=name, value=value: flow.propagate(x, t0, t1, {name: value + s}, tangents=False).state, 1e-4
        )
        np.testing.assert_allclose(run.sensitivity[:, i], difference, atol=1e-7)
    many = flow.propagate_many([x, x], t0, t1, tangents=True)
    _, _, sampled = flow.trajectory_tangents(x, np.linspace(t0, t1, 40))
    np.testing.assert_allclose(many.sensitivity[1], run.sensitivity, atol=1e-11)
    np.testing.assert_allclose(sampled[-1], run.sensitivity, atol=1e-11)
