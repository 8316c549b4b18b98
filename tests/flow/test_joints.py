"""Dry friction at the joints of linkages: accelerations while some stick, instants, energy."""

import itertools

import numpy as np
import pytest
import sympy as sp

import kapitza as kz
from kapitza.base.arrays import Array
from kapitza.flow import Flow
from kapitza.flow.engine import Memory, Regime
from kapitza.flow.events import EventEngine
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.settle import Place, motion
from kapitza.flow.kernel.engine import run_one
from kapitza.flow.system import system_of
from kapitza.model import rate, symbol
from linkages import accelerations, energy, linked_pendulum

KINDS = ("stick", "release", "cross")


def belt_linkage() -> kz.Model:
    """Three links whose joints rub: the first against a drum that turns to and fro."""
    base = linked_pendulum(3, damping=0.02, friction=0.3)
    drum = kz.Model.from_equations(
        [e.xreplace({sp.sign(rate("q1")): sp.sign(rate("q1") - _drum())}) for e in base.equations],
        coordinates=base.coordinates,
        parameters={**base.values, "w": 2.0},
        period="2*pi/w",
        name="drum",
    )
    assert drum.equations != base.equations
    return drum


def _drum():
    return sp.Rational(1, 2) * sp.cos(symbol("w") * symbol("t"))


def rates_in(model: kz.Model, state: Array, modes: Array, stuck: tuple[int, ...]) -> Array:
    """Rates of the tape of a regime at a state."""
    engine = EventEngine(system_of(model))
    kept = Memory(model.vector, modes, Regime(stuck), np.zeros(0))
    return run_one(engine.kernel(False), engine.settings, state, 0.0, 0.0, model.vector, memory=kept)[1]


@pytest.mark.parametrize("drum", [False, True])
def test_only_friction_between_bodies_makes_a_linkage(drum):
    model = belt_linkage() if drum else linked_pendulum(4, friction=0.2)
    assert Geometry(system_of(model), ()).is_linkage
    assert not Geometry(system_of(linked_pendulum(3)), ()).is_linkage


@pytest.mark.parametrize(
    "law",
    [
        {"q1": "-mu*sign(q1')*(2 + sign(q2'))", "q2": "-mu*sign(q2')", "q3": "-mu*sign(q3')"},  # modes multiply
        {"q1": "-mu*sign(q1') - mu*max(q1, 0)", "q2": "-mu*sign(q2')", "q3": "-mu*sign(q3')"},  # a continuous switch
        {"q1": "-mu*sign(q1' + sign(q2'))", "q2": "-mu*sign(q2')", "q3": "-mu*sign(q3')"},  # a switch inside another
    ],
)
def test_other_friction_is_settled_by_trying_all_answers(law):
    forces = {q: kz.model.parse_expression(e, ["mu", "q1", "q1'", "q2'", "q3'"]) for q, e in law.items()}
    assert not Geometry(system_of(linked_pendulum(3, parameters={"mu": 0.1}, forces=forces)), ()).is_linkage


def test_accelerations_of_stuck_joints_are_those_of_newtons_law():
    """Some joints stick: the torques that hold them, put into Newton's law, keep them at rest."""
    model = linked_pendulum(5, damping=0.0, friction=0.7)
    geometry = Geometry(system_of(model), ())
    random = np.random.default_rng(4)
    for stuck in ((), (1,), (0, 3), (0, 1, 2, 3, 4)):
        state, modes = random.uniform(-1.0, 1.0, 10), random.choice([-1.0, 1.0], 5)
        slopes = geometry.of_switches(geometry.point(state, 0.0, model.vector, modes)).by_state[:, 5:]
        held = slopes[list(stuck)]
        state[5:] -= np.linalg.pinv(held) @ (held @ state[5:])
        found = motion(geometry, Place(state, 0.0, model.vector), modes, Regime(stuck))
        shares = modes.copy()
        shares[list(stuck)] = found.controls
        expected = accelerations(model, state, -0.7 * shares @ slopes)
        assert np.abs(held @ expected).max(initial=0.0) < 1e-11
        assert found.field[5:] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert rates_in(model, state, modes, stuck)[5:] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tangents", [False, True])
def test_instants_settled_in_the_stepper_are_those_of_the_event_logic(request, tangents):
    model = linked_pendulum(4, damping=0.01, friction=0.15)
    start = np.array([0.9, 0.5, -0.2, 0.4, 0.0, 0.0, 0.0, 0.0])
    flow = Flow(model, wrt=("mu",))
    quick = flow.propagate(start, 0.0, 2.0, tangents=tangents)
    request.getfixturevalue("by_event_logic")
    slow = flow.propagate(start, 0.0, 2.0, tangents=tangents)
    assert [(e.kind, e.index, e.direction) for e in quick.events] == [
        (e.kind, e.index, e.direction) for e in slow.events
    ]
    assert {e.kind for e in quick.events} >= set(KINDS)
    assert [e.time for e in quick.events] == pytest.approx([e.time for e in slow.events], abs=1e-11)
    assert np.abs(quick.state - slow.state).max() < 1e-11
    if tangents:
        assert np.abs(quick.jacobian - slow.jacobian).max() < 1e-9 * np.abs(slow.jacobian).max()
        assert np.abs(quick.sensitivity - slow.sensitivity).max() < 1e-9 * np.abs(slow.sensitivity).max()


def test_joints_that_stick_beside_a_moving_drum_stay_at_rest():
    """The first joint rubs against a drum; between stick and release of a joint its speed is zero."""
    model = belt_linkage()
    flow, start = Flow(model), np.array([0.3, 0.5, -0.2, 0.0, 0.1, 0.0])
    run = flow.propagate(start, 0.0, 3.0, tangents=False)
    assert {e.index for e in run.events} == {0, 1, 2}
    for joint in (1, 2):
        own = [e for e in run.events if e.index == joint]
        held = [(a.time, b.time) for a, b in itertools.pairwise(own) if (a.kind, b.kind) == ("stick", "release")]
        assert held
        times = np.unique([0.0, *np.concatenate([np.linspace(a, b, 9)[1:-1] for a, b in held]), 3.0])
        states = flow.trajectory(start, times)[1:-1]
        np.testing.assert_allclose(states[:, 2 + joint], states[:, 3 + joint], rtol=0, atol=1e-12)


def test_energy_lost_is_the_work_of_friction():
    """Σ μ|r| + c r² over the stretches between events, by Gauss's rule."""
    model = linked_pendulum(6, damping=0.01, friction=0.05)
    flow, start = Flow(model), np.array([*np.full(6, 0.5), *np.zeros(6)])
    events = [e.time for e in flow.propagate(start, 0.0, 2.0, tangents=False).events]
    borders = np.unique([0.0, *events, 2.0])
    parts = [np.linspace(a, b, 4)[:-1] for a, b in itertools.pairwise(borders)]
    borders = np.concatenate([*parts, [2.0]])
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(borders) / 2
    times = (borders[:-1] + half)[:, None] + half[:, None] * nodes
    times, share = times.ravel(), (half[:, None] * weights).ravel()
    chosen = share > 1e-9  # events at one instant leave stretches of no length
    states = flow.trajectory(start, np.concatenate([[0.0], times[chosen], [2.0]]))
    relative = np.diff(states[:, 6:], axis=1, prepend=0.0)
    power = 0.05 * np.abs(relative).sum(axis=1) + 0.01 * (relative**2).sum(axis=1)
    levels = energy(model, states[[0, -1]])
    assert len(events) > 20
    assert levels[0] - levels[1] == pytest.approx(power[1:-1] @ share[chosen], rel=1e-9)
