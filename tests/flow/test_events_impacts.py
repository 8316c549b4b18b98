"""Impacts: free flights, chatter, lasting contact, corners, and what must be refused."""

import numpy as np
import pytest
from scipy.optimize import brentq

from flow.stepwise import Bouncers, march
from kapitza import Flow, Model, library
from kapitza.errors import EventError
from kapitza.flow.engine import Memory, Regime
from kapitza.flow.events import EventEngine
from kapitza.flow.system import system_of

FAST = 1e-3
"""Slower impacts belong to a chatter that the two sides may cut at different speeds."""


def walls() -> Model:
    return Model.from_equations(
        "x'' = p + A*cos(omega*t + phase)",
        parameters={"p": 0.1, "A": 1.0, "omega": 1.0, "phase": 0.0, "r": 0.5},
        period="2*pi/omega",
        impacts=[
            {"name": "right", "surface": "1 - x", "reset": {"x'": "-r*x'"}},
            {"name": "left", "surface": "1 + x", "reset": {"x'": "-r*x'"}},
        ],
        name="walls",
    )


def ball(r: float = 0.7) -> Model:
    return Model.from_equations(
        "x'' = -g",
        parameters={"g": 9.81, "r": r},
        impacts=[{"name": "floor", "surface": "x", "reset": {"x'": "-r*x'"}}],
        name="ball",
    )


def corner(reset_x: dict, reset_y: dict) -> Model:
    return Model.from_equations(
        ["x'' = 0", "y'' = 0"],
        coordinates=["x", "y"],
        impacts=[
            {"name": "wall", "surface": "x", "reset": reset_x},
            {"name": "floor", "surface": "y", "reset": reset_y},
        ],
        name="corner",
    )


def test_pin_joint_flies_freely_between_its_impacts():
    model = library.pin_joint().with_values(gamma=1.3, r=0.85)
    run = Flow(model).propagate([0.2, 0.7], 0.0, 60.0, tangents=False)
    assert len(run.events) > 15
    assert {event.kind for event in run.events} == {"impact"}
    t, x, v = 0.0, 0.2, 0.7
    for event in run.events:

        def position(s, t=t, x=x, v=v):
            return x + (v + 1.3 * np.cos(t)) * (s - t) - 1.3 * (np.sin(s) - np.sin(t))

        hit = brentq(lambda s, p=position: abs(p(s)) - 1, event.time - 1e-6, event.time + 1e-6, xtol=1e-15)
        assert event.time == pytest.approx(hit, abs=1e-12)
        speed = v + 1.3 * (np.cos(t) - np.cos(event.time))
        np.testing.assert_allclose(event.state, [1 - 2 * event.index, speed], atol=1e-12)
        np.testing.assert_allclose(event.after, [1 - 2 * event.index, -0.85 * speed], atol=1e-12)
        # No earlier contact was missed: inside the flight the pin keeps clear of both walls.
        inside = np.linspace(t + 1e-6, event.time - 1e-6, 500)
        assert np.abs(position(inside)).max() < 1
        t, (x, v) = event.time, event.after


def test_300_impact_runs_agree_with_small_steps():
    rng, count, end = np.random.default_rng(3), 300, 12.0
    system = Bouncers(
        p=rng.uniform(-1, 1, count) * (rng.random(count) < 0.8),
        A=rng.uniform(0.2, 1.5, count),
        omega=rng.uniform(0.5, 3, count),
        phase=rng.uniform(0, 6, count),
        r=rng.uniform(0, 0.9, count),
    )
    start = np.stack((rng.uniform(-1, 1, count), rng.uniform(-2, 2, count)), axis=1)
    states, events, furthest = march(system, start[:, 0], start[:, 1], end, 4e-3)
    assert furthest.max() <= 1
    model = walls()
    parameters = np.stack([getattr(system, name) for name in model.names], axis=1)
    result = Flow(model).propagate_many(start, 0.0, end, parameters)
    np.testing.assert_allclose(result.state, states, rtol=0, atol=1e-8)
    for found, expected in zip(result.events, events, strict=True):
        ours = [e for e in found if e.kind != "graze" and not (e.kind == "impact" and abs(e.state[1]) < FAST)]
        theirs = [e for e in expected if not (e[1] == "impact" and abs(e[2]) < FAST)]
        assert [e.kind for e in ours] == [kind for _, kind, _ in theirs]
        for mine, (time, kind, _) in zip(ours, theirs, strict=True):
            # A contact begins where the cut-off of the chatter says so; all else is determined.
            assert mine.time == pytest.approx(time, abs=1e-2 if kind == "contact" else 1e-6)
        assert all(abs(e.state[0]) <= 1 + 1e-12 for e in found)
    seen = {kind for run in events for _, kind, _ in run}
    assert seen == {"impact", "contact", "detach"}


def test_no_sample_of_a_chattering_motion_lies_behind_a_wall():
    model = walls().with_values(p=0.4, A=0.8, omega=0.7, r=0.6)
    states = Flow(model).trajectory([0.0, 1.0], np.linspace(0.0, 60.0, 60_001))
    assert np.abs(states[:, 0]).max() <= 1 + 1e-12


def test_a_bouncing_ball_comes_to_rest_after_the_sum_of_its_flights():
    height, g, r = 1.0, 9.81, 0.7
    run = Flow(ball(r), wrt=("g", "r")).propagate([height, 0.0], 0.0, 10.0)
    fall = np.sqrt(2 * height / g)
    contact = next(event for event in run.events if event.kind == "contact")
    assert contact.time == pytest.approx(fall * (1 + r) / (1 - r), abs=1e-5)
    impacts = [event for event in run.events if event.kind == "impact"]
    flights = fall * 2 * r ** np.arange(1, len(impacts))
    np.testing.assert_allclose(np.diff([event.time for event in impacts]), flights, atol=1e-11)
    np.testing.assert_array_equal(run.state, [0.0, 0.0])
    np.testing.assert_allclose(run.jacobian, 0.0, atol=1e-12)
    np.testing.assert_allclose(run.sensitivity, 0.0, atol=1e-12)
    assert run.log_determinant == -np.inf


def test_contact_speed_does_not_change_the_answer():
    from kapitza.flow.events import EventEngine
    from kapitza.flow.system import system_of

    model = walls().with_values(p=0.3, A=0.9, omega=0.6, r=0.4)
    ends = []
    for speed in (1e-3, 1e-4, 1e-5, 1e-6):
        engine = EventEngine(system_of(model), contact_speed=speed)
        run = engine.run(np.array([0.0, 1.0]), None, 0.0, 20.0, model.vector)
        assert {"contact", "detach"} <= {event.kind for event in run.events}
        ends.append(run.state)
    np.testing.assert_allclose(ends, np.broadcast_to(ends[0], (4, 2)), atol=1e-11)


def test_a_pressed_start_on_the_wall_stays_until_the_force_turns():
    model = walls().with_values(p=0.0, A=1.0, omega=1.0)
    run = Flow(model).propagate([1.0, 0.0], 0.0, 2.0, tangents=False)
    assert [event.kind for event in run.events] == ["detach"]
    assert run.events[0].time == pytest.approx(np.pi / 2, abs=1e-12)
    # From then on x'' = cos t from rest at x = 1.
    np.testing.assert_allclose(run.state, [1 - np.cos(2.0) - (2.0 - np.pi / 2), np.sin(2.0) - 1], atol=1e-12)


def test_a_start_on_the_wall_with_speed_towards_it_rebounds_at_once():
    run = Flow(ball(0.5)).propagate([0.0, -2.0], 0.0, 0.1, tangents=False)
    assert run.events[0].kind == "impact"
    assert run.events[0].time == 0.0
    np.testing.assert_allclose(run.state, [1.0 * 0.1 - 9.81 * 0.005, 1.0 - 0.981], atol=1e-12)


def test_both_walls_of_a_corner_are_struck_at_once():
    model = corner({"x'": "-x'"}, {"y'": "-y'"})
    run = Flow(model).propagate([1.0, 1.0, -1.0, -1.0], 0.0, 3.0)
    assert sorted(event.index for event in run.events) == [0, 1]
    np.testing.assert_allclose(run.state, [2.0, 2.0, 1.0, 1.0], atol=1e-12)


def test_a_corner_whose_resets_depend_on_the_order_is_refused():
    model = corner({"x'": "-x'", "y'": "y' + x'"}, {"y'": "-y'", "x'": "x' + y'"})
    with pytest.raises(EventError, match="depends on which reset comes first"):
        Flow(model).propagate([1.0, 1.0, -1.0, -1.0], 0.0, 3.0)


def test_a_start_behind_a_wall_is_refused():
    with pytest.raises(EventError, match=r"penetrated by 0\.1"):
        Flow(ball()).propagate([-0.1, 1.0], 0.0, 1.0)


def test_a_reset_into_the_wall_is_refused():
    model = Model.from_equations(
        "x'' = -1", impacts=[{"name": "floor", "surface": "x", "reset": {"x'": "x'/2"}}], name="sinking"
    )
    with pytest.raises(EventError, match="must not be negative after the impact"):
        Flow(model).propagate([1.0, 0.0], 0.0, 3.0)


def test_a_reset_that_moves_a_resting_state_has_no_contact():
    model = Model.from_equations(
        ["x'' = -1", "y' = 0"],
        coordinates=["x", "y"],
        impacts=[{"name": "floor", "surface": "x", "reset": {"x'": "-x'/2", "y": "y + 1"}}],
        name="counter",
    )
    with pytest.raises(EventError, match="no lasting contact is defined"):
        Flow(model).propagate([1.0, 0.0, 0.0], 0.0, 10.0)


def test_a_graze_is_reported():
    # x = cos t touches the wall at 1 after one turn without crossing it.
    model = Model.from_equations(
        "x'' = -x", impacts=[{"name": "wall", "surface": "1 + 1e-11 - x", "reset": {"x'": "-x'"}}], name="touching"
    )
    run = Flow(model).propagate([0.0, 1.0], 0.0, 3.0, tangents=False)
    assert [event.kind for event in run.events] == ["graze"]
    assert run.events[0].time == pytest.approx(np.pi / 2, abs=1e-6)


def test_a_lost_impact_is_refused():
    model = ball()
    engine = EventEngine(system_of(model))
    flying = Memory(model.vector, np.zeros(0), Regime(), np.zeros(0))
    with pytest.raises(EventError, match="penetrated"):
        engine.run(np.array([-1e-6, -1.0]), None, 0.0, 1.0, model.vector, memory=flying)


def test_a_moving_wall_gives_its_speed_to_the_mass():
    # A heavy bat x = t/2 meets a mass at rest at 1: elastic, so that it leaves with twice the speed of the bat.
    model = Model.from_equations(
        "x'' = 0", impacts=[{"name": "bat", "surface": "x - t/2", "reset": {"x'": "1 - x'"}}], name="bat"
    )
    run = Flow(model).propagate([1.0, 0.0], 0.0, 4.0)
    assert run.events[0].time == pytest.approx(2.0, abs=1e-12)
    np.testing.assert_allclose(run.state, [3.0, 1.0], atol=1e-12)
    # The later the impact the shorter the flight: x(4) = x0 + (4 - 2 x0) for a start x0 at rest.
    np.testing.assert_allclose(run.jacobian[:, 0], [-1.0, 0.0], atol=1e-12)


def test_a_mass_with_friction_leaves_the_wall_for_good():
    """The contact at the left wall ends at t = 7.97; the mass was held there again, to t = 22.4."""
    values = {"p": -0.2325, "A": 1.317, "w": 0.4364, "phase": 1.576, "r": 0.0957, "mu": 0.2067}
    model = Model.from_equations(
        "x'' + mu*sign(x') = p + A*cos(w*t + phase)",
        parameters=values,
        impacts=[
            {"name": "right", "surface": "1 - x", "reset": {"x'": "-r*x'"}},
            {"name": "left", "surface": "1 + x", "reset": {"x'": "-r*x'"}},
        ],
    )
    times = np.linspace(0.0, 25.0, 101)
    path = np.asarray(Flow(model).trajectory([-0.2685, -0.3116], times))[:, 0]
    assert np.abs(path - _pushed_between_walls(values, -0.2685, -0.3116, 25.0, 100)).max() < 1e-3


def _pushed_between_walls(values, x: float, v: float, end: float, samples: int):
    """Positions by 400 small steps a sample: friction stops a mass and holds it, walls at ±1 reflect it."""
    steps, found = 400 * samples, [x]
    h = end / steps
    for i in range(steps):
        force = values["p"] + values["A"] * np.cos(values["w"] * (i + 0.5) * h + values["phase"])
        if v == 0.0 and abs(force) <= values["mu"]:
            ahead = 0.0
        else:
            ahead = v + h * (force - values["mu"] * np.sign(v if v else force))
            ahead = 0.0 if v * ahead < 0 else ahead
        x, v = x + h * (v + ahead) / 2, ahead
        if abs(x) > 1.0:
            v = -values["r"] * v if v * x > 0 else v
            x = np.sign(x)
        if (i + 1) % 400 == 0:
            found.append(x)
    return np.array(found)
