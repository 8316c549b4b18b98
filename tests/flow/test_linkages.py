"""Large mass matrices: linked pendulums against Newton's law joint by joint, with friction, walls and tangents."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.flow import Flow
from kapitza.flow.events import settle
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.many import complementary
from kapitza.flow.system import system_of
from linkages import accelerations, energy, linked_pendulum


def newton(model, start, times, torque=None):
    """States (N, 2n) by an explicit method of order eight on the accelerations of `linkages`."""
    n = start.size // 2

    def rates(_, x):
        return np.concatenate([x[n:], accelerations(model, x, torque)])

    return solve_ivp(rates, (times[0], times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-12).y.T


@pytest.mark.parametrize("links", [3, 10])
def test_rates_are_those_of_newtons_law(links):
    model = linked_pendulum(links, damping=0.02)
    states = np.random.default_rng(links).uniform(-2.0, 2.0, (20, 2 * links))
    expected = np.array([accelerations(model, x) for x in states])
    found = Flow(model).rates(states)
    assert np.abs(found[:, links:] - expected).max() < 1e-9 * np.abs(expected).max()
    assert (found[:, :links] == states[:, links:]).all()


def test_motion_agrees_with_an_independent_integration_and_keeps_its_energy():
    model = linked_pendulum(6)
    start = np.array([0.9, -0.4, 0.3, 0.8, -0.2, 0.5, *np.zeros(6)])
    times = np.linspace(0.0, 1.5, 16)
    found = Flow(model).trajectory(start, times)
    assert np.abs(found - newton(model, start, times)).max() < 1e-9
    levels = energy(model, Flow(model).trajectory(start, np.linspace(0.0, 10.0, 200)))
    assert np.ptp(levels) < 1e-12 * np.abs(levels).max()


def test_tangents_are_those_of_differences():
    model = linked_pendulum(4, damping=0.05)
    flow = Flow(model, wrt=("l2", "m1", "c"))
    start = np.array([0.8, -0.5, 0.4, 0.2, 0.1, 0.3, -0.2, 0.0])
    run = flow.propagate(start, 0.0, 0.7)
    step = 1e-5
    for k, column in enumerate(np.eye(8) * step):
        ends = [flow.propagate(start + s * column, 0.0, 0.7, tangents=False).state for s in (1, -1)]
        assert np.abs((ends[0] - ends[1]) / (2 * step) - run.jacobian[:, k]).max() < 1e-7
    for k, name in enumerate(("l2", "m1", "c")):
        ends = [
            flow.propagate(start, 0.0, 0.7, {name: model.values[name] + s * step}, tangents=False).state
            for s in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert np.abs(slope - run.sensitivity[:, k]).max() < 1e-7 * max(1.0, np.abs(slope).max())
    assert run.log_determinant == pytest.approx(np.linalg.slogdet(run.jacobian)[1], abs=1e-9)


def test_dry_friction_while_every_joint_turns_one_way():
    model = linked_pendulum(3, friction=0.2)
    flow = Flow(model)
    start = np.array([0.1, 0.2, 0.3, 3.0, 7.0, 12.0])
    torque = 0.2 * np.array([0.0, 0.0, -1.0])  # each joint brakes its rod and drives the one before
    expected = newton(model, start, np.linspace(0.0, 0.04, 9), torque)
    assert (np.diff(expected[:, 3:], axis=1) > 0).all()
    assert np.abs(flow.propagate(start, 0.0, 0.04, tangents=False).state - expected[-1]).max() < 1e-9


def test_a_joint_that_sticks_makes_one_rigid_body_of_two_links():
    """With a joint too tight to slip, the model is that of a bent double pendulum."""
    model = linked_pendulum(3)
    tight = kz.Model.from_equations(
        [e + s for e, s in zip(model.equations, _joint_two("50*sign"), strict=True)],
        coordinates=model.coordinates,
        parameters=model.parameters,
        name="one tight joint",
    )
    start = np.array([0.5, 0.9, -0.3, 1.0, 1.0, -0.5])
    flow = Flow(tight)
    run = flow.propagate(start, 0.0, 0.6, tangents=False)
    bent = _bent_pendulum(0.4)
    bent = bent.with_values(**{name: model.values[name] for name in bent.names})
    motion = Flow(bent)  # its rates alone: unlike code for the Taylor method, they are compiled at once
    begin = np.array([0.5, -0.3, 1.0, -0.5])
    rigid = solve_ivp(lambda _, x: motion.rates(x), (0.0, 0.6), begin, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    assert np.abs(run.state - [rigid[0], rigid[0] + 0.4, rigid[1], rigid[2], rigid[2], rigid[3]]).max() < 1e-9


def _joint_two(law: str):
    from kapitza.model import parse_expression

    torque = parse_expression(f"{law}(q2' - q1')", ["q1'", "q2'"])
    return [-torque, torque, 0]


def _bent_pendulum(angle: float) -> kz.Model:
    """The three-link pendulum whose second rod is fixed to the first under an angle."""
    x1, y1 = "l1*cos(q1)*q1'", "l1*sin(q1)*q1'"
    x2, y2 = f"({x1} + l2*cos(q1 + {angle})*q1')", f"({y1} + l2*sin(q1 + {angle})*q1')"
    x3, y3 = f"({x2} + l3*cos(q3)*q3')", f"({y2} + l3*sin(q3)*q3')"
    kinetic = f"m1*(({x1})**2 + ({y1})**2)/2 + m2*({x2}**2 + {y2}**2)/2 + m3*({x3}**2 + {y3}**2)/2"
    heights = [f"l{i}*cos({q})" for i, q in ((1, "q1"), (2, f"q1 + {angle}"), (3, "q3"))]
    potential = " ".join(f"- m{i}*g*({' + '.join(heights[:i])})" for i in (1, 2, 3))
    names = ["m1", "m2", "m3", "l1", "l2", "l3", "g"]
    return kz.Model.from_lagrangian(
        f"{kinetic} - ({potential})", ["q1", "q3"], angles=["q1", "q3"], parameters=dict.fromkeys(names, 1.0)
    )


def test_friction_at_every_joint_brings_the_linkage_to_rest():
    model = linked_pendulum(3, damping=0.01, friction=0.6)
    flow = Flow(model)
    start = np.array([0.9, 0.5, 0.2, 0.0, 0.0, 0.0])
    states = flow.trajectory(start, np.linspace(0.0, 12.0, 241))
    levels = energy(model, states)
    assert (np.diff(levels) < 1e-10).all()
    assert np.abs(states[-1, 3:]).max() < 1e-9


def test_a_wall_reflects_and_tangents_pass_it():
    walls = [{"surface": "sin(q1) + 0.3", "reset": {"q1'": "-0.8*q1'"}, "name": "stop"}]
    model = linked_pendulum(3, damping=0.02, impacts=walls)
    flow = Flow(model, wrt=("l1",))
    start = np.array([0.6, 0.5, 0.4, 0.0, 0.0, 0.0])
    run = flow.propagate(start, 0.0, 1.0)
    impacts = [e for e in run.events if e.kind == "impact"]
    assert impacts
    assert impacts[0].state[0] == pytest.approx(-np.arcsin(0.3), abs=1e-12)
    free = Flow(linked_pendulum(3, damping=0.02)).propagate(start, 0.0, impacts[0].time, tangents=False).state
    assert np.abs(free - impacts[0].state).max() < 1e-10
    step = 1e-6
    slope = [flow.propagate(start + s * step * np.eye(6)[1], 0.0, 1.0, tangents=False).state for s in (1, -1)]
    assert np.abs((slope[0] - slope[1]) / (2 * step) - run.jacobian[:, 1]).max() < 1e-5 * np.abs(run.jacobian).max()
    assert run.log_determinant == pytest.approx(np.linalg.slogdet(run.jacobian)[1], abs=1e-8)


def test_joints_and_a_stop_are_settled_as_by_the_event_logic(request):
    """Joints that stick and slip and a stop that is struck: states, events and tangents."""
    walls = [{"surface": "sin(q1) + 0.1", "reset": {"q1'": "-0.8*q1'"}, "name": "stop"}]
    model = linked_pendulum(3, damping=0.02, friction=0.4, impacts=walls)
    flow, start = Flow(model, wrt=("l1",)), np.array([0.9, 0.5, -0.2, 0.0, 0.0, 0.0])
    together = flow.propagate(start, 0.0, 1.0)
    request.getfixturevalue("by_event_logic")
    apart = flow.propagate(start, 0.0, 1.0)
    assert np.abs(together.state - apart.state).max() < 1e-9
    assert [(e.kind, e.index) for e in together.events] == [(e.kind, e.index) for e in apart.events]
    assert {"stick", "release", "impact"} <= {e.kind for e in together.events}
    for one, other in ((together.jacobian, apart.jacobian), (together.sensitivity, apart.sensitivity)):
        assert np.abs(one - other).max() < 1e-7 * max(1.0, np.abs(other).max())


def test_six_joints_at_rest_begin_to_move():
    """Every joint is at its surface, some at a rate of the size of rounding."""
    model = linked_pendulum(6, damping=0.01, friction=0.05)
    states = Flow(model).trajectory(np.array([*np.full(6, 0.5), *np.zeros(6)]), np.linspace(0.0, 1.0, 21))
    levels = energy(model, states)
    assert (np.diff(levels) < 1e-10).all()
    assert levels[-1] < levels[0] - 0.01


def test_five_joints_at_rest_settle_as_by_trying_every_answer(monkeypatch):
    """Which joints stick and which slip: the pivoting rule against all 243 answers."""
    model = linked_pendulum(5, friction=0.35)
    states = [np.array([*angles, *np.zeros(5)]) for angles in np.random.default_rng(8).uniform(-0.7, 0.7, (12, 5))]
    geometry = Geometry(system_of(model), ())
    quick = [_settled(geometry, model, x) for x in states]
    monkeypatch.setattr(settle, "MOST_AT_ONCE", 5)
    assert quick == [_settled(geometry, model, x) for x in states]
    assert len({stuck for _, stuck in quick}) > 3


def _settled(geometry, model, state):
    """Modes and stuck switches at a state at rest."""
    place = settle.Place(state, 0.0, model.vector)
    question = settle.Question(tuple((i, (settle.STICK, 1, -1)) for i in range(5)), ())
    modes, regime = settle.settle(geometry, place, np.ones(5), question)
    return tuple(m for i, m in enumerate(modes) if i not in regime.stuck), regime.stuck


@pytest.mark.parametrize("seed", range(4))
def test_complementarity_with_limits(seed):
    random = np.random.default_rng(seed)
    for size in (2, 4, 6):
        root = random.normal(size=(size, size))
        gain, free = -(root @ root.T + 0.1 * np.eye(size)), 2 * random.normal(size=size)
        found = complementary(gain, free)
        stuck = found == 0
        control = found.copy()
        control[stuck] = np.linalg.solve(gain[np.ix_(stuck, stuck)], -(free + gain @ found)[stuck])
        rates = free + gain @ control
        assert (np.abs(control) <= 1 + 1e-9).all()
        assert np.abs(rates[stuck]).max(initial=0.0) < 1e-9
        assert (found * rates)[~stuck].min(initial=0.0) > -1e-9
