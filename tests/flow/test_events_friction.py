"""Dry friction: crossings, stick and release, several switches, and what must be refused."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from flow.stepwise import Oscillators, march
from kapitza import Flow, Model, Signal, library, simulate
from kapitza.errors import EventError
from kapitza.flow.engine import Memory, Regime
from kapitza.flow.events import EventEngine
from kapitza.flow.system import system_of


def belt(**values) -> Model:
    parameters = {"c": 0.1, "F": 1.0, "u": 0.3, "A": 1.0, "omega": 1.0} | values
    equation = "x'' + c*x' + x + F*sign(x' - u) = A*cos(omega*t)"
    return Model.from_equations(equation, parameters=parameters, period="2*pi/omega", name="belt")


def kinds(events) -> list[str]:
    return [event.kind for event in events if event.kind != "graze"]


def test_300_stick_slip_runs_agree_with_small_steps():
    rng, count, end = np.random.default_rng(2), 300, 15.0
    system = Oscillators(
        c=rng.uniform(0, 0.3, count),
        F=rng.uniform(0.1, 1.5, count),
        u=rng.uniform(-0.5, 0.8, count) * (rng.random(count) < 0.7),
        A=rng.uniform(0, 2, count),
        omega=rng.uniform(0.3, 2.5, count),
    )
    start = rng.uniform(-2, 2, (count, 2))
    states, events, _ = march(system, start[:, 0], start[:, 1], end, 4e-3)
    model = belt()
    parameters = np.stack([getattr(system, name) for name in model.names], axis=1)
    result = Flow(model).propagate_many(start, 0.0, end, parameters)
    np.testing.assert_allclose(result.state, states, rtol=0, atol=1e-9)
    for found, expected in zip(result.events, events, strict=True):
        assert kinds(found) == [kind for _, kind, _ in expected]
        times = [event.time for event in found if event.kind != "graze"]
        np.testing.assert_allclose(times, [time for time, _, _ in expected], rtol=0, atol=1e-8)
    seen = {kind for run in events for _, kind, _ in run}
    assert seen == {"cross", "stick", "release"}


def test_pendulum_with_dry_friction_comes_to_rest_at_an_angle_and_stays():
    model = library.parametric_pendulum().with_values(k1=5e-2, A=0.02)
    flow = Flow(model)
    end = flow.propagate([1.5, 0.0], 0.0, 20 * model.period, tangents=False)
    assert end.events[-1].kind == "stick"
    angle, speed = end.state
    assert speed == 0.0
    assert 0.01 < abs(angle) < 1.0
    later = flow.propagate(end.state, 20 * model.period, 520 * model.period)
    assert later.state[0] == angle
    assert later.state[1] == 0.0
    assert later.events == ()
    assert later.log_determinant == -np.inf
    # The start has still its place in the angle, its speed is forgotten.
    np.testing.assert_allclose(later.jacobian, [[1.0, 0.0], [0.0, 0.0]], atol=1e-12)


def test_a_stuck_mass_is_released_when_the_spring_reaches_the_friction():
    model = belt(c=0.0, F=1.0, u=0.5, A=0.0)
    run = Flow(model).propagate([0.0, 0.5], 0.0, 10.0, tangents=False)
    assert run.events[0].kind == "release"
    assert run.events[0].time == pytest.approx(2.0, abs=1e-12)
    # Then x'' + x = 1 from (1, 1/2).
    run = Flow(model).propagate([0.0, 0.5], 0.0, 7.0, tangents=False)
    np.testing.assert_allclose(run.state, [1 + 0.5 * np.sin(5.0), 0.5 * np.cos(5.0)], atol=1e-12)


def test_the_side_of_a_released_mass_follows_the_force():
    model = belt(c=0.0, F=0.5, u=0.0, A=1.0, omega=0.2)
    times = np.linspace(0.0, 60.0, 6001)
    states = Flow(model).trajectory([0.0, 0.0], times)

    def smooth(t, y):
        return [y[1], -y[0] - 0.5 * np.tanh(y[1] / 1e-5) + np.cos(0.2 * t)]

    reference = solve_ivp(smooth, (0, 60), [0.0, 0.0], t_eval=times, method="LSODA", rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(states.T, reference.y, atol=2e-3)


def test_two_switches_crossing_at_the_same_instant_are_both_processed():
    # x and y are the same motion, so that both switches are reached together, again and again.
    model = Model.from_equations(
        ["x'' + x + 0.3*sign(x - 0.5) = 0", "y'' + y + 0.3*sign(y - 0.5) = 0"], name="twins", coordinates=["x", "y"]
    )
    alone = Model.from_equations("x'' + x + 0.3*sign(x - 0.5) = 0", name="one")
    pair = Flow(model).propagate([0.0, 0.0, 1.3, 1.3], 0.0, 30.0, tangents=False)
    one = Flow(alone).propagate([0.0, 1.3], 0.0, 30.0, tangents=False)
    np.testing.assert_allclose(pair.state, np.repeat(one.state, 2), atol=1e-11)
    assert len(one.events) > 5
    assert len(pair.events) == 2 * len(one.events)


def test_two_masses_stick_at_the_same_time():
    model = Model.from_equations(
        ["x'' + x + 0.2*(x - y) + sign(x') = 0", "y'' + y + 0.2*(y - x) + 0.8*sign(y') = 0"],
        coordinates=["x", "y"],
        name="blocks",
    )
    run = Flow(model).propagate([3.0, -2.5, 0.0, 0.0], 0.0, 60.0, tangents=False)
    x, y, *speeds = run.state
    assert speeds == [0.0, 0.0]
    assert abs(x + 0.2 * (x - y)) <= 1.0
    assert abs(y + 0.2 * (y - x)) <= 0.8
    assert run.events[-1].kind == "stick"


def test_sliding_on_two_surfaces_whose_modes_multiply_is_refused():
    model = Model.from_equations(
        ["x'' = -sign(x')*(1 + 0.5*sign(y'))", "y'' = -sign(y')*(1 + 0.5*sign(x'))"],
        coordinates=["x", "y"],
        name="entangled",
    )
    with pytest.raises(EventError, match="no combination of modes"):
        Flow(model).propagate([0.0, 0.0, 1.0, 0.4], 0.0, 10.0, tangents=False)


def test_a_start_from_which_several_motions_leave_is_refused():
    model = Model.from_equations("x'' = sign(x')", name="repelling")
    with pytest.raises(EventError, match="different motions leave this state"):
        Flow(model).propagate([0.0, 0.0], 0.0, 1.0)


def test_a_broken_mode_raises_instead_of_a_wrong_number():
    model = belt()
    engine = EventEngine(system_of(model))
    wrong = Memory(model.vector, -np.ones(1), Regime(), np.zeros(0))
    with pytest.raises(EventError, match=r"u - x' = .* a crossing was lost"):
        engine.run(np.array([0.0, -1.0]), None, 0.0, 0.2, model.vector, memory=wrong)


def test_endless_events_are_named():
    model = belt()
    engine = EventEngine(system_of(model))
    engine.settings = dataclasses.replace(engine.settings, max_events=5)
    with pytest.raises(EventError, match="More than 5 events in one stretch"):
        engine.run(np.array([2.0, 0.0]), None, 0.0, 100.0, model.vector)


def test_running_backwards_is_refused():
    with pytest.raises(EventError, match="cannot run backwards"):
        Flow(belt()).propagate([0.0, 1.0], 1.0, 0.0)


def test_a_switch_that_depends_on_time_is_crossed_where_it_moves():
    # sign(x - cos 2t) with x = t/4 exactly known crossings: the surface moves through the state.
    model = Model.from_equations(["x' = 1/4", "y' = sign(x - cos(2*t))"], coordinates=["x", "y"], name="moving")
    run = Flow(model).propagate([0.0, 0.0], 0.0, 3.0, tangents=False)
    for event in run.events:
        assert event.time / 4 == pytest.approx(np.cos(2 * event.time), abs=1e-12)
    grid = np.linspace(0, 3, 2_000_001)
    expected = np.trapezoid(np.sign(grid / 4 - np.cos(2 * grid)), grid)
    assert run.state[1] == pytest.approx(expected, abs=5e-6)


def test_samples_between_events_are_those_of_separate_runs():
    model = belt(F=0.4)
    flow, times = Flow(model, wrt=("F", "omega")), np.linspace(0.0, 12.0, 37)
    states, jacobians, sensitivities = flow.trajectory_tangents([1.5, 0.0], times)
    np.testing.assert_allclose(flow.trajectory([1.5, 0.0], times), states, atol=1e-12)
    for i in (7, 20, 36):
        alone = flow.propagate([1.5, 0.0], 0.0, times[i])
        np.testing.assert_allclose(states[i], alone.state, atol=1e-12)
        np.testing.assert_allclose(jacobians[i], alone.jacobian, atol=1e-10)
        np.testing.assert_allclose(sensitivities[i], alone.sensitivity, atol=1e-10)


def test_dry_friction_under_a_measured_force():
    """M q'' + R sign q' = F: sticks while F < R, then q = (F - R) (t - t1)² / 2 M."""
    times = np.arange(0.0, 8.0, 0.01)
    # Linear between samples, so that the measured force jumps within one of them.
    force = Signal("F", times, np.where(times < 2.0, 0.3, 2.0), 8.0, degree=1)
    model = Model.from_equations("M*q'' + R*sign(q') = F", parameters={"M": 4.0, "R": 0.5}, signals=[force])
    position = simulate(model, x0=[1.0, 0.0], t=np.array([0.0, 1.9, 5.0]))["q"]
    assert position[1] == 1.0
    assert position[2] == pytest.approx(1.0 + 1.5 * 3.0**2 / 8.0, abs=0.01 * 3.0 * 1.5 / 4.0)
