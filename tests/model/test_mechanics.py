"""Models from SymPy's mechanics and from URDF, against each other and against Newton's equations."""

import numpy as np
import pytest
import sympy as sp
from sympy.physics.mechanics import (
    KanesMethod,
    LagrangesMethod,
    Particle,
    Point,
    ReferenceFrame,
    dynamicsymbols,
)

import kapitza as kz
from kapitza.errors import ModelError
from kapitza.model import compile_expressions
from linkages import accelerations, linked_pendulum

VALUES = {"m1": 0.6, "m2": 0.7, "l1": 0.38, "l2": 0.36, "g": 9.81}


def double_pendulum():
    """Frame, points and particles of a planar double pendulum in absolute angles."""
    q = dynamicsymbols("q1 q2")
    m1, m2, l1, l2, g = sp.symbols("m1 m2 l1 l2 g")
    frame, origin = ReferenceFrame("N"), Point("O")
    origin.set_vel(frame, 0)
    points, bodies, last = [], [], origin
    for i, (m, l) in enumerate([(m1, l1), (m2, l2)]):
        point = last.locatenew(f"P{i}", l * (sp.sin(q[i]) * frame.x - sp.cos(q[i]) * frame.y))
        points.append(point)
        bodies.append(Particle(f"B{i}", point, m))
        last = point
    loads = [(p, -m * g * frame.y) for p, m in zip(points, (m1, m2), strict=True)]
    return q, frame, origin, points, bodies, loads


def kane(kinematic):
    q, frame, origin, points, bodies, loads = double_pendulum()
    u = dynamicsymbols("u1 u2")
    t = dynamicsymbols._t
    relations = [qi.diff(t) - e for qi, e in zip(q, kinematic(u), strict=True)]
    solved = {qi.diff(t): e for qi, e in zip(q, kinematic(u), strict=True)}
    last = origin
    for point in points:
        velocity = point.pos_from(origin).dt(frame).subs(solved)
        point.set_vel(frame, velocity)
        last = point
    assert last is points[-1]
    method = KanesMethod(frame, q_ind=q, u_ind=u, kd_eqs=relations)
    method.kanes_equations(bodies, loads)
    return method


def lagrange():
    q, frame, origin, points, _, _ = double_pendulum()
    m1, m2, g = sp.symbols("m1 m2 g")
    energy = 0
    for point, m in zip(points, (m1, m2), strict=True):
        place = point.pos_from(origin)
        velocity = place.dt(frame)
        energy += m * velocity.dot(velocity) / 2 - m * g * place.dot(frame.y)
    return LagrangesMethod(energy, q)


def rates(model, states):
    evaluate = compile_expressions(model.structure.rates, model.states, model.names, steps=model.structure.steps)
    return evaluate(np.ascontiguousarray(states.T), model.vector[:, None] * np.ones(len(states))).T


STATES = np.random.default_rng(5).uniform(-2.0, 2.0, (20, 4))


@pytest.mark.parametrize("method", [lambda: kane(lambda u: u), lagrange], ids=["Kane", "Lagrange"])
def test_double_pendulum_of_sympy_obeys_newton(method):
    model = kz.Model.from_sympy(method(), parameters=VALUES, angles=["q1", "q2"])
    assert model.states == ("q1", "q2", "q1'", "q2'")
    reference = linked_pendulum(2).with_values(**VALUES)
    expected = np.array([accelerations(reference, state) for state in STATES])
    assert np.allclose(rates(model, STATES)[:, 2:], expected, rtol=1e-11, atol=1e-11)


def test_other_speeds_are_states_of_their_own():
    model = kz.Model.from_sympy(kane(lambda u: [u[0], u[1] + u[0]]), parameters=VALUES)
    assert model.states == ("q1", "q2", "u1", "u2")
    plain = kz.Model.from_sympy(lagrange(), parameters=VALUES)
    x0 = {"q1": 0.7, "q2": -0.4, "q1'": 0.3, "q2'": 0.5}
    times = np.linspace(0.0, 1.0, 11)
    first = kz.simulate(plain, x0=x0, t=times).values()
    second = kz.simulate(model, x0={"q1": 0.7, "q2": -0.4, "u1": 0.3, "u2": 0.2}, t=times).values()
    assert np.allclose(first[:, :2], second[:, :2], atol=1e-10)
    assert np.allclose(first[:, 3] - first[:, 2], second[:, 3], atol=1e-10)


def test_constraints_and_unformed_equations_are_refused():
    q, frame, *_ = double_pendulum()
    u = dynamicsymbols("u1 u2")
    t = dynamicsymbols._t
    with pytest.raises(ModelError, match="Call kanes_equations"):
        kz.Model.from_sympy(KanesMethod(frame, q_ind=q, u_ind=u, kd_eqs=[q[0].diff(t) - u[0], q[1].diff(t) - u[1]]))
    bound = LagrangesMethod(q[0].diff(t) ** 2 + q[1].diff(t) ** 2, q, hol_coneqs=[q[0] - q[1]])
    with pytest.raises(ModelError, match="1 constraints with multipliers"):
        kz.Model.from_sympy(bound)
    with pytest.raises(ModelError, match="not a KanesMethod or LagrangesMethod"):
        kz.Model.from_sympy(3)


LINK = '<link name="{0}"><inertial><origin xyz="0 0 -{1}"/><mass value="{2}"/></inertial></link>'
JOINT = (
    '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><origin xyz="0 0 {4}"/><axis xyz="0 1 0"/>'
    '<dynamics damping="{5}" friction="{6}"/></joint>'
)


def chain(damping=0.0, friction=0.0):
    """Two rods in the plane x-z, joints about y: the angles of the joints are relative."""
    parts = ['<link name="base"/>', LINK.format("upper", 0.38, 0.6), LINK.format("lower", 0.36, 0.7)]
    parts.append(JOINT.format("hip", "continuous", "base", "upper", 0, damping, friction))
    parts.append(JOINT.format("knee-1", "revolute", "upper", "lower", -0.38, damping, friction))
    return f'<?xml version="1.0"?><robot name="leg">{"".join(parts)}</robot>'


def written(tmp_path, text):
    path = tmp_path / "leg.urdf"
    path.write_text(text, encoding="utf-8")
    return path


def test_chain_of_urdf_obeys_newton(tmp_path):
    model = kz.Model.from_urdf(written(tmp_path, chain()))
    assert model.states == ("hip", "knee_1", "hip'", "knee_1'")
    assert model.angles == (True, False, False, False)
    assert {n: model.values[n] for n in ("m_upper", "m_lower")} == {"m_upper": 0.6, "m_lower": 0.7}
    model = model.with_values(g=9.81)
    reference = linked_pendulum(2).with_values(**VALUES)
    absolute = np.stack([STATES[:, 0], STATES[:, 0] + STATES[:, 1], STATES[:, 2], STATES[:, 2] + STATES[:, 3]], axis=1)
    expected = np.array([accelerations(reference, state) for state in absolute])
    found = rates(model, STATES)[:, 2:]
    assert np.allclose(np.cumsum(found, axis=1), expected, rtol=1e-10, atol=1e-10)


def test_joints_lose_energy_by_damping_and_friction(tmp_path):
    model = kz.Model.from_urdf(written(tmp_path, chain(0.01, 0.02)), forces={"hip": "0.1*hip"})
    plain = kz.Model.from_urdf(written(tmp_path, chain()))
    assert [p.name for p in model.parameters if p.name[:2] in ("d_", "f_")] == [
        "d_hip",
        "f_hip",
        "d_knee_1",
        "f_knee_1",
    ]
    values = dict(zip(model.states, (0.3, 0.2, 0.5, -0.4), strict=True))
    mass = plain.structure.mass_matrix
    known = {sp.Symbol(n, real=True): v for n, v in {**values, **plain.values}.items()}
    numbers = np.array(mass.xreplace(known).tolist(), float)
    torque = np.array([-0.01 * 0.5 - 0.02 + 0.1 * 0.3, 0.01 * 0.4 + 0.02])
    state = np.array([list(values.values())])
    apart = rates(model, state)[0, 2:] - rates(plain, state)[0, 2:]
    assert np.allclose(numbers @ apart, torque, atol=1e-12)


BOMB = '<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "declares a document type or entities"),
        ('<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot/>', "declares a document type or entities"),
        ("<robot>", "is not XML"),
        ("<sdf/>", "root is <sdf>"),
        (chain().replace("continuous", "floating"), 'joint "hip" is of type "floating"'),
        (chain().replace('link="base"', 'link="ground"'), 'the link "ground", which is missing'),
        (chain().replace('xyz="0 1 0"', 'xyz="0 0 0"'), "its axis is zero"),
        (chain().replace('value="0.6"', 'value="nan"'), "is not 1 finite numbers"),
        (chain().replace('value="0.6"', 'value="-1"'), "must not be negative"),
        (chain().replace('<child link="lower"/>', '<child link="upper"/>'), 'link "upper" has two parents'),
        (chain().replace("<axis", '<mimic joint="hip"/><axis'), "mimics another one"),
        (
            chain().removesuffix("</robot>")
            + '<link name="a"/><link name="b"/>'
            + JOINT.format("p", "fixed", "a", "b", 0, 0, 0)
            + JOINT.format("q", "fixed", "b", "a", 0, 0, 0)
            + "</robot>",
            'link "a" is in a closed loop',
        ),
        ("<a>" * 200 + "</a>" * 200, "more than 100 deep"),
    ],
)
def test_bad_descriptions_are_refused(text, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        kz.Model.from_urdf(written(tmp_path, text))
