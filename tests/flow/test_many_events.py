"""Many runs through events at once: the same numbers as each run on its own, events and determinants included."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.flow import Flow

FRICTION = kz.Model.from_equations(
    "x'' + c*x' + k*x + f*sign(x') = F*cos(w*t)",
    parameters={"c": 0.1, "k": 1.0, "f": 0.1, "F": 1.0, "w": 1.3},
    period="2*pi/w",
)
WALL = kz.Model.from_equations(
    "x'' + c*x' + k*x = F*cos(w*t)",
    parameters={"c": 0.1, "k": 1.0, "r": 0.8, "F": 1.0, "w": 1.3},
    period="2*pi/w",
    impacts=[{"surface": "1 - x", "reset": {"x'": "-r*x'"}}],
)
LINKAGE = kz.Model.from_equations(
    (
        "2*a'' + cos(a-b)*b'' + sin(a-b)*b'**2 + 20*sin(a) + f*sign(a') + h*sign(a'-b') = F*cos(w*t)",
        "b'' + cos(a-b)*a'' - sin(a-b)*a'**2 + 10*sin(b) - h*sign(a'-b') = 0",
    ),
    parameters={"f": 0.2, "h": 0.1, "F": 8.0, "w": 3.0},
    period="2*pi/w",
)
MODELS = {
    "two joints": (LINKAGE, ("f", "h")),
    "friction": (FRICTION, ("c", "f")),
    "wall": (WALL, ("c", "r")),
    "cart": (kz.library.colliding_cart(), ("k", "gamma")),
    "pin joint": (kz.library.pin_joint(), ("gamma", "r")),
}


def starts(model: kz.Model, flow: Flow) -> np.ndarray:
    random = np.random.default_rng(3)
    return flow.strobe(0.3 * random.normal(size=len(model.states)), 40).states[-12:]


@pytest.mark.parametrize("name", MODELS)
def test_many_runs_through_events_are_those_of_single_runs(name):
    model, wrt = MODELS[name]
    flow = Flow(model, wrt=wrt)
    period = flow.period()
    here = starts(model, flow)
    many = flow.propagate_many(here, 0.0, 1.3 * period, tangents=True)
    singles = [flow.propagate(x, 0.0, 1.3 * period) for x in here]
    assert sum(len(one.events) for one in singles) >= 12
    for i, one in enumerate(singles):
        assert many.state[i] == pytest.approx(one.state, abs=1e-12)
        assert many.jacobian[i] == pytest.approx(one.jacobian, rel=1e-10, abs=1e-11)
        assert many.sensitivity[i] == pytest.approx(one.sensitivity, rel=1e-10, abs=1e-11)
        if np.isfinite(one.log_determinant):
            assert many.log_determinant[i] == pytest.approx(one.log_determinant, abs=1e-10)
        assert [(e.kind, e.index, e.direction) for e in many.events[i]] == [
            (e.kind, e.index, e.direction) for e in one.events
        ]
        assert [e.time for e in many.events[i]] == pytest.approx([e.time for e in one.events], abs=1e-11)


def test_members_that_start_at_rest_stick_as_in_single_runs():
    flow = Flow(FRICTION.with_values(f=2.0), wrt=("c",))
    here = np.array([[0.1, 0.0], [0.1, 1e-9], [0.2, 0.5]])
    many = flow.propagate_many(here, 0.0, 3.0, tangents=True, parameters=FRICTION.with_values(f=2.0).values)
    for i, x in enumerate(here):
        one = flow.propagate(x, 0.0, 3.0, FRICTION.with_values(f=2.0).values)
        assert many.state[i] == pytest.approx(one.state, abs=1e-12)
        assert [e.kind for e in many.events[i]] == [e.kind for e in one.events]
    assert any(e.kind == "stick" for e in many.events[2])


def test_a_rotation_without_a_period_is_cut_alike_alone_and_among_others():
    model = kz.Model.from_equations("phi'' + d*phi' + sin(phi) = 0", angles=["phi"], parameters={"d": 0.05})
    flow = Flow(model, wrt=("d",))
    here = np.array([[0.1, 0.2], [0.0, 9.0], [2.0, -25.0]])
    many = flow.propagate_many(here, 0.0, np.array([3.0, 4.0, 7.0]), tangents=True)
    for i, end in enumerate((3.0, 4.0, 7.0)):
        one = flow.propagate(here[i], 0.0, end)
        assert many.state[i] == pytest.approx(one.state, abs=1e-11)
        assert many.jacobian[i] == pytest.approx(one.jacobian, rel=1e-10, abs=1e-10)
        assert tuple(many.turns[i]) == tuple(one.turns)
