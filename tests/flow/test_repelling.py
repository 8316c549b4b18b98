"""A surface that holds a motion stops attracting it: refused at that time, or left to the side that leads away.

The motion x'' = F - mu*sign(x' - b) with b = 1/2 starts at x' = 1 and is held at x' = b after t = 1 / (2 (mu - F)).
"""

import re

import numpy as np
import pytest

from kapitza import Flow, Model
from kapitza.errors import EventError

B = 0.5


@pytest.fixture(params=["stepper", "event logic"], autouse=True)
def both(request):
    """Run with events decided by the compiled stepper, and by the event logic in Python."""
    if request.param == "event logic":
        request.getfixturevalue("by_event_logic")


def flow_of(*equations: str) -> Flow:
    return Flow(Model.from_equations(list(equations), parameters={"b": B}))


def held_at(t: float, force: float = 0.0) -> float:
    """Return x(t) of the motion that is held since 1 / (2 (1 - F)), from x = 0 and x' = 1 with mu = 1."""
    since = 0.5 / (1.0 - force)
    return 0.75 * since + B * (t - since)


def refused_at(flow: Flow, start, end: float) -> float:
    """Return the time at which a run to `end` is refused; runs with tangents and samples are refused there too."""
    times = []
    for run in (
        lambda: flow.propagate(start, 0.0, end, tangents=False),
        lambda: flow.propagate(start, 0.0, end),
        lambda: flow.trajectory(start, np.linspace(0.0, end, 7)),
    ):
        with pytest.raises(EventError, match=r"different motions leave|do not define to which one") as found:
            run()
        times += [float(t) for t in re.findall(r"^At t = ([\d.]+)", str(found.value))]
    assert len(times) == 3
    assert max(times) == min(times)
    return times[0]


@pytest.mark.parametrize(
    ("equations", "start"),
    [
        (["x'' = -sign(x' - b)*sign(1 - t)"], [0.0, 1.0]),
        (["x'' = -sign(x' - b)*(0.25 + 0.75*sign(1 - t))"], [0.0, 1.0]),
        (["x'' = -sign(x' - b)*sign(held - x)", "held' = 0"], [0.0, 0.625, 1.0]),
        (["x'' = -sign(x' - b)*sign(1 - y)", "y' = 1"], [0.0, 0.0, 1.0]),
        (["x'' = -sign(x' - b)*sign(1 - t)", "y'' = -sign(y')"], [0.0, 0.0, 1.0, 0.25]),
    ],
)
def test_another_switch_makes_the_surface_repelling(equations, start):
    flow = flow_of(*equations)
    for end in (0.75, 0.999):
        assert flow.propagate(start, 0.0, end).state[0] == pytest.approx(held_at(end), abs=1e-14)
    for end in (1.001, 1.1, 20.0):
        assert refused_at(flow, start, end) == 1.0


def test_the_batch_marks_the_refused_rows():
    flow = flow_of("x'' = -sign(x' - b)*sign(1 - t)")
    ends = flow.propagate_many(np.array([[0.0, 1.0], [0.0, 3.0]]), 0.0, 1.5, throw=False).state
    assert np.isnan(ends[0]).all()
    # x' = 2 at t = 1, before it could be held, and rises afterwards
    np.testing.assert_allclose(ends[1], [2.5 + 1.0 + 0.125, 2.5], atol=1e-14)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("reversed_", [False, True])
def test_the_motion_leaves_to_the_side_that_leads_away(side, reversed_):
    """F jumps from 0 to 2: x'' = 2 - 1 above b, and below b it is larger; with mu = -1, 2 + 1 above b."""
    friction = "sign(1 - t)*sign(x' - b)" if reversed_ else "sign(x' - b)"
    end = flow_of(f"x'' = {side}*(1 + sign(t - 1)) - {friction}").propagate([0.0, 1.0], 0.0, 2.0, tangents=False)
    rate = side * (3.0 if reversed_ else 1.0)
    np.testing.assert_allclose(end.state, [held_at(2.0) + rate / 2, B + rate], atol=1e-13)
    assert [event.kind for event in end.events] == ["stick", "cross", "release"]
    assert [event.time for event in end.events] == pytest.approx([0.5, 1.0, 1.0], abs=1e-14)


@pytest.mark.parametrize(("after", "is_refused"), [("-n", True), ("n", False)])
def test_an_impact_makes_the_surface_repelling(after, is_refused):
    """The wall y = 0 is reached at t = 1; its reset reverses the friction n of x'' = 0.2 - n sign(x' - b)."""
    model = Model.from_equations(
        ["x'' = 0.2 - n*sign(x' - b)", "y'' = 0", "n' = 0"],
        parameters={"b": B},
        impacts=[{"surface": "y", "reset": {"y'": "-y'", "n": after}}],
    )
    values = {"x": 0.0, "y": 1.0, "n": 1.0, "x'": 1.0, "y'": -1.0}
    flow, start = Flow(model), [values[name] for name in model.states]
    assert flow.propagate(start, 0.0, 0.99).state[0] == pytest.approx(held_at(0.99, 0.2), abs=1e-13)
    if is_refused:
        assert refused_at(flow, start, 1.01) == refused_at(flow, start, 5.0) == 1.0
    else:
        assert flow.propagate(start, 0.0, 1.5).state[0] == pytest.approx(held_at(1.5, 0.2), abs=1e-13)


@pytest.mark.parametrize(
    ("equations", "start", "time"),
    [
        (["x'' = -cos(t)*sign(x' - b)"], [0.0, B], np.pi / 2),
        (["x'' = -cos(t)*(sign(x' - b) + 0.3)"], [0.0, B], np.pi / 2),
        (["x'' = -(1.5 - y)*sign(x' - b) + 0.1*y*(y - 1.5) + 0.1*(y - 1.5)", "y' = 1"], [0.0, 0.0, B], 1.5),
        (["x'' = -cos(t)*sign(x' - b)", "y'' = -sign(y')"], [0.0, 0.0, B, 0.25], np.pi / 2),
        (["x'' = -cos(t)*sign(x' - b)", "y' = abs(cos(t))"], [0.0, 0.0, B], np.pi / 2),
    ],
)
def test_the_gain_vanishes_together_with_the_load(equations, start, time):
    """The control of the held surface is constant or finite: only the gain shows that it repels from this time on."""
    flow = flow_of(*equations)
    assert flow.propagate(start, 0.0, time - 0.01).state[0] == pytest.approx(B * (time - 0.01), abs=1e-14)
    for end in (time + 0.001, time + 0.1, time + 6.0):
        assert refused_at(flow, start, end) == pytest.approx(time, abs=1e-8)


@pytest.mark.parametrize("load", ["max(cos(t), 0)", "abs(cos(t))", "cos(t)**2", "(2 + cos(t))", "(2 + exp(-x'**2))"])
def test_a_gain_that_does_not_become_negative_holds_on(load):
    end = flow_of(f"x'' = -{load}*sign(x' - b)").propagate([0.0, B], 0.0, 20.0, tangents=False)
    np.testing.assert_allclose(end.state, [10.0, B], atol=1e-12)


def test_a_gain_that_vanishes_under_load_releases_before():
    """x'' = F - cos(t) sign(x' - b), F = 0.3: released at cos(t) = F, then x'' = F - cos(t)."""
    end = flow_of("x'' = 0.3 - cos(t)*sign(x' - b)").propagate([0.0, B], 0.0, 3.0, tangents=False)
    left, force = np.arccos(0.3), 0.3
    speed = B + force * (3.0 - left) - (np.sin(3.0) - np.sin(left))
    place = B * 3.0 + force * (3.0 - left) ** 2 / 2 + np.cos(3.0) - np.cos(left) + np.sin(left) * (3.0 - left)
    assert end.events[0].time == pytest.approx(left, abs=1e-14)
    np.testing.assert_allclose(end.state, [place, speed], atol=1e-13)
