"""Dry friction at the joints of linkages: one flow in the speeds of the joints, and instants settled in them."""

import itertools

import numpy as np
import pytest
import sympy as sp

import kapitza as kz
from kapitza.flow import Flow
from kapitza.flow.events import EventEngine, instants
from kapitza.flow.events.geometry import Geometry, Regime
from kapitza.flow.events.settle import Place, motion
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


def test_a_linkage_is_known_by_its_joints():
    model = linked_pendulum(4, friction=0.2)
    geometry = Geometry(system_of(model), ())
    form = geometry.joint_form
    assert form is not None
    assert sorted(form.switches) == [0, 1, 2, 3]
    steps = np.array(form.slopes, float)
    speeds = np.array([[1.0, 0, 0, 0], [1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])
    assert (np.abs(steps) == np.abs(speeds)).all()
    assert np.allclose(np.array(form.signs)[:, None] * steps @ np.array(form.inverse, float), np.eye(4))
    assert Geometry(system_of(belt_linkage()), ()).joint_form is None  # a joint that rubs against a moving drum


@pytest.mark.parametrize(
    "law",
    [
        {"q1": "-mu*sign(q1') - mu*sign(q2')", "q2": "-mu*sign(q2')", "q3": "-mu*sign(q3')"},  # along other torques
        {"q1": "-mu*sign(q1')", "q2": "-mu*sign(q2') - mu*sign(2*q2' - 1)", "q3": "-mu*sign(q3')"},  # twice at a joint
        {"q1": "-mu*sign(q1'*q2')", "q2": "-mu*sign(q2')", "q3": "-mu*sign(q3')"},  # slopes that are no numbers
    ],
)
def test_other_friction_is_left_to_the_flow_by_forces(law):
    forces = {q: kz.model.parse_expression(e, ["mu", "q1'", "q2'", "q3'"]) for q, e in law.items()}
    model = linked_pendulum(3, parameters={"mu": 0.1}, forces=forces)
    assert Geometry(system_of(model), ()).joint_form is None


def test_accelerations_in_the_joints_are_those_of_newtons_law():
    """Some joints stick: the torques that hold them, put into Newton's law, keep them at rest."""
    model = linked_pendulum(5, damping=0.0, friction=0.7)
    geometry = Geometry(system_of(model), ())
    joints = geometry.joints
    assert joints is not None
    random = np.random.default_rng(4)
    for stuck in ((), (1,), (0, 3), (0, 1, 2, 3, 4)):
        state, modes = random.uniform(-1.0, 1.0, 10), random.choice([-1.0, 1.0], 5)
        state[5:] -= joints.lift[:, stuck] @ (joints.slopes[list(stuck)] @ state[5:])
        found = joints.motion(state, 0.0, model.vector, modes, geometry.flags_of(Regime(stuck)))
        assert found.has_one_answer
        assert np.abs([found.slips[k] for k in stuck]).max(initial=0.0) < 1e-12
        assert [found.shares[k] for k in range(5) if k not in stuck] == pytest.approx(
            [modes[k] for k in range(5) if k not in stuck], abs=1e-10
        )
        torque = -0.7 * np.array(found.shares) @ joints.slopes
        assert found.accelerations == pytest.approx(accelerations(model, state, torque), rel=1e-9, abs=1e-9)
        general = motion(geometry, Place(state, 0.0, model.vector), modes, Regime(stuck))
        assert found.accelerations == pytest.approx(general.field[5:], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tangents", [False, True])
@pytest.mark.usefixtures("without_kernel")
def test_instants_settled_in_the_joints_are_those_of_all_surfaces(monkeypatch, tangents):
    model = linked_pendulum(4, damping=0.01, friction=0.15)
    start = np.array([0.9, 0.5, -0.2, 0.4, 0.0, 0.0, 0.0, 0.0])
    flow = Flow(model, wrt=("mu",))
    quick = flow.propagate(start, 0.0, 2.0, tangents=tangents)
    settled = []
    monkeypatch.setattr(instants, "settle_joint", lambda journey, ending: settled.append(ending))
    slow = flow.propagate(start, 0.0, 2.0, tangents=tangents)
    assert len(settled) > 15
    assert [(e.kind, e.index, e.direction) for e in quick.events] == [
        (e.kind, e.index, e.direction) for e in slow.events
    ]
    assert {e.kind for e in quick.events} >= set(KINDS)
    assert [e.time for e in quick.events] == pytest.approx([e.time for e in slow.events], abs=1e-11)
    assert np.abs(quick.state - slow.state).max() < 1e-11
    if tangents:
        assert np.abs(quick.jacobian - slow.jacobian).max() < 1e-9 * np.abs(slow.jacobian).max()
        assert np.abs(quick.sensitivity - slow.sensitivity).max() < 1e-9 * np.abs(slow.sensitivity).max()


def test_a_joint_that_sticks_to_a_moving_drum(monkeypatch):
    """By the compiled stepper, and with a flow of its own for every regime."""
    model = belt_linkage()
    start = np.array([0.3, 0.5, -0.2, 0.0, 0.1, 0.0])
    together = Flow(model).propagate(start, 0.0, 3.0, tangents=False)
    monkeypatch.setattr(EventEngine, "kernel", lambda engine, with_tangents: None)
    apart = Flow(model).propagate(start, 0.0, 3.0, tangents=False)
    assert [(e.kind, e.index) for e in together.events] == [(e.kind, e.index) for e in apart.events]
    assert {"stick", "release"} <= {e.kind for e in together.events}
    assert np.abs(together.state - apart.state).max() < 1e-10


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
