"""The compiled stepper for events: against small steps, the event logic and smooth flows; damaged tapes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flow.hybrids import draws, hybrid
from flow.small_steps import small_steps
from kapitza import Flow, Model
from kapitza.errors import FlowError, ModelError
from kapitza.flow.core import Core
from kapitza.flow.engine import Run
from kapitza.flow.events import EventEngine
from kapitza.flow.events.instants import begin
from kapitza.flow.events.journey import Journey
from kapitza.flow.events.settle import Regime
from kapitza.flow.kernel import library as shared
from kapitza.flow.kernel.library import BAD_CALL, CheckedTape, library
from kapitza.flow.kernel.tape import NoTapeError, write_tape
from kapitza.flow.stepper import Stepper
from kapitza.model import symbol

FAR_WALL = [{"name": "far", "surface": "x + 1e6", "reset": {"x": "x"}}]


@pytest.fixture
def loaded_anew() -> Iterator[None]:
    library.cache_clear()
    yield
    library.cache_clear()


@pytest.mark.usefixtures("loaded_anew")
@pytest.mark.parametrize("fault", ["of other sources", "not a library", "missing"])
def test_a_library_that_cannot_be_used_is_refused(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if fault == "of other sources":
        monkeypatch.setattr(shared, "SOURCE", tmp_path / "hybrid.c")
        shared.SOURCE.write_bytes(Path(shared.__file__).with_name("hybrid.c").read_bytes() + b"\n")
    elif fault == "not a library":
        (tmp_path / "hybrid.so").write_bytes(b"")
        monkeypatch.setenv("KAPITZA_KERNEL", str(tmp_path / "hybrid.so"))
    else:
        monkeypatch.setattr(shared, "library_path", lambda: None)
    jumping = Flow(Model.from_equations("x'' + x + mu*sign(x') = 0", parameters={"mu": 0.2}), tolerance=1.3e-15)
    for _ in range(2):
        with pytest.raises(FlowError, match=r'compiled stepper.* "make" or "pip install -e ."'):
            jumping.propagate([1.0, 0.0], 0.0, 1.0)
    smooth = Flow(Model.from_equations("x'' + x = 0"), tolerance=1.3e-15).propagate([1.0, 0.0], 0.0, np.pi)
    np.testing.assert_allclose(smooth.state, [-1.0, 0.0], atol=1e-14)


@pytest.mark.parametrize("seed", [0, 3, 7, 19, 36, 41])
def test_the_event_logic_decides_as_the_stepper_does(seed, request):
    """Events in the same order, states to rounding, tangents: random friction, gaps, walls and nested laws."""
    model = hybrid(seed).model()
    starts, vectors = draws(model, seed, 3)
    core = Core(model, tuple(model.names[:2]), 1e-15, 100_000)
    engine = core.engine(vectors[0])
    assert isinstance(engine, EventEngine)
    kernel = engine.kernel(True)

    def runs(chosen: EventEngine) -> list[Run]:
        ends = 4 * np.pi / vectors[:, model.names.index("w")]
        grids = [np.linspace(0.0, end, 9) for end in ends]
        times = zip(starts, ends, vectors, grids, strict=True)
        return [chosen.run(x, chosen.unit, 0.0, end, core.runtime(engine, v, None), g) for x, end, v, g in times]

    decided = runs(engine)
    request.getfixturevalue("by_event_logic")
    other = EventEngine(engine.system, engine.wrt, engine.tolerance)
    met = 0
    for ours, theirs in zip(decided, runs(other), strict=True):
        assert [(e.kind, e.index, e.direction) for e in ours.events] == [
            (e.kind, e.index, e.direction) for e in theirs.events
        ]
        size = 1.0 + np.abs(theirs.grid_tangents).max()
        met += len(ours.events)
        for one, two in zip(ours.events, theirs.events, strict=True):
            assert abs(one.time - two.time) < 1e-11 * size
            np.testing.assert_allclose(one.after, two.after, rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(ours.grid_states, theirs.grid_states, rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(ours.grid_tangents, theirs.grid_tangents, rtol=0, atol=1e-8 * size)
        np.testing.assert_allclose(ours.grid_rates, theirs.grid_rates, rtol=0, atol=1e-9 * size)
        assert ours.log_determinant == pytest.approx(theirs.log_determinant, abs=1e-9 * size)
    assert met > 10
    assert kernel.handled > 0.9 * met
    assert other.kernel(True).given_back > 0.9 * met


@pytest.mark.parametrize("seed", [0, 3, 7, 19, 36, 41])
def test_random_models_agree_with_small_steps(seed):
    """Ends, numbers of impacts and tangents: midpoint steps and differences of them, without any events."""
    model = hybrid(seed).model()
    starts, vectors = draws(model, seed, 3)
    core = Core(model, tuple(model.names[:2]), 1e-15, 100_000)
    engine = core.engine(vectors[0])
    assert isinstance(engine, EventEngine)
    ends, steps = 4 * np.pi / vectors[:, model.names.index("w")], 4000
    reference = small_steps(core, starts, ends, vectors, steps)
    for i, (start, vector, end) in enumerate(zip(starts, vectors, ends, strict=True)):
        run = engine.run(start, engine.unit, 0.0, float(end), core.runtime(engine, vector, None))
        assert run.tangents is not None
        size = 1.0 + np.abs(run.tangents).max()
        np.testing.assert_allclose(run.state, reference.states[i], rtol=0, atol=20 * size * end / steps)
        shift = 1e-6 / size
        moved = [start + sign * shift * np.ones(start.size) for sign in (1, -1)]
        near = [engine.run(x, None, 0.0, float(end), core.runtime(engine, vector, None)).state for x in moved]
        along = run.tangents[:, : start.size].sum(axis=1)
        np.testing.assert_allclose((near[0] - near[1]) / (2 * shift), along, rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("seed", [3, 19, 41])
def test_a_run_in_pieces_is_the_whole_run(seed):
    """Starts between events, or while something sticks, are settled anew."""
    model = hybrid(seed).model()
    flow, start = Flow(model, wrt=(model.names[0],)), np.full(len(model.states), 0.3)
    whole = flow.propagate(start, 0.0, 12.0)
    state, events = start, []
    for a, b in itertools.pairwise(np.linspace(0.0, 12.0, 8)):
        part = flow.propagate(state, a, b, tangents=False)
        state = part.state
        events += [(e.kind, e.index) for e in part.events]
    assert events == [(e.kind, e.index) for e in whole.events]
    np.testing.assert_allclose(state, whole.state, rtol=0, atol=1e-12 * (1.0 + np.abs(whole.jacobian).max()))


@pytest.mark.parametrize(
    "rate",
    [
        "cos(a*x) - 0.2*x", "-tan(0.3*x) + a*cos(t)", "tanh(a*x) - 2*x + sin(t)", "exp(-a*x) - x", "log(x + 3) - a*x",
        "asin(0.3*x) - a*x + 0.2*cos(t)", "acos(0.3*x) - a*x", "atan(a*x) - x + cos(2*t)", "sqrt(x**2 + a) - 2*x",
        "asinh(a*x) - x", "acosh(x + 4) - a*x", "atanh(0.2*x) - a*x + sin(t)", "erf(a*x) - x", "cosh(0.3*x) - a*x",
        "sinh(0.3*x) - a*x", "atan2(x + 2, a + x**2) - x", "(x + 3)**a - x", "(x + 3)**2.3*0.1 - a*x", "a/(x + 3) - x",
        "x**3*a - x**5", "abs(a)*cos(x) + max(a, 2)*sin(t) - x", "sign(a - 3)*x + min(a, 0.5)/(1 + x**2)",
    ],
)  # fmt: skip
def test_every_operation_integrates_as_in_a_smooth_flow(rate):
    """A wall that is never reached sends the equations through the tape; the smooth flow is another integrator."""
    smooth = Flow(Model.from_equations(f"x' = {rate}", parameters={"a": 0.7}), wrt=("a",))
    walled = Flow(Model.from_equations(f"x' = {rate}", parameters={"a": 0.7}, impacts=FAR_WALL), wrt=("a",))
    for start in (0.4, -0.6):
        one, two = (f.propagate([start], 0.3, 1.8) for f in (walled, smooth))
        np.testing.assert_allclose(one.state, two.state, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(one.jacobian, two.jacobian, rtol=1e-12)
        np.testing.assert_allclose(one.sensitivity, two.sensitivity, rtol=1e-11, atol=1e-13)
        assert one.log_determinant == pytest.approx(np.log(two.jacobian[0, 0]), abs=1e-12)


def test_a_bouncing_ball_keeps_its_times():
    """Impacts of a ball dropped from 1 m at t_n = t_0 (1 + 2 Σ r^k), in closed form."""
    wall = [{"name": "floor", "surface": "h", "reset": {"h'": "-r*h'"}}]
    model = Model.from_equations("h'' = -g", parameters={"g": 9.81, "r": 0.9}, impacts=wall)
    first = np.sqrt(2 / 9.81)
    run = Flow(model).propagate([1.0, 0.0], 0.0, 4.0, tangents=False)
    expected = first * (1 + 2 * np.cumsum(np.concatenate(([0.0], 0.9 ** np.arange(1, 40)))))
    times = [e.time for e in run.events if e.kind == "impact"]
    assert len(times) == (expected < 4.0).sum()
    np.testing.assert_allclose(times, expected[: len(times)], rtol=1e-13)


@pytest.mark.parametrize("excess", [1e-2, 1e-6, 1e-10, 1e-13])
def test_impacts_are_found_down_to_rounding_and_none_beyond(excess):
    """x = (1 ± e) sin t and a wall at 1: one impact with +, none with -."""
    wall = [{"name": "wall", "surface": "1 - x", "reset": {"x'": "-x'"}}]
    flow = Flow(Model.from_equations("x'' = -x", impacts=wall))
    kinds = {
        sign: [e.kind for e in flow.propagate([0.0, 1.0 + sign * excess], 0.0, 2.5, tangents=False).events]
        for sign in (1, -1)
    }
    assert "impact" in kinds[1]
    assert "impact" not in kinds[-1]


def test_batches_equal_single_runs():
    model = hybrid(41).model()
    starts, vectors = draws(model, 5, 40)
    ends = 6 * np.pi / vectors[:, model.names.index("w")]
    flow = Flow(model, wrt=("c",))
    together = flow.propagate_many(starts, 0.0, ends, vectors, tangents=True)
    for i in range(0, 40, 5):
        alone = flow.propagate(starts[i], 0.0, ends[i], vectors[i])
        size = np.abs(alone.jacobian).max()
        np.testing.assert_allclose(together.state[i], alone.state, rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(together.jacobian[i], alone.jacobian, rtol=0, atol=1e-9 * size)
        assert [e.kind for e in together.events[i]] == [e.kind for e in alone.events]


def test_rows_may_lie_in_any_order_in_memory():
    model = Model.from_equations("x'' + c*x' + x + f*sign(x') = 0", parameters={"c": 0.1, "f": 0.05})
    core = Flow(model).core
    engine = core.engine(model.vector)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2))
    rows = core.runtime(engine, model.vector * np.linspace(0.5, 1.5, 20)[:, None], None)
    begin, end = np.zeros(20), np.full(20, 3.0)
    first = engine.run_many(states, None, begin, end, rows)
    for order in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]):
        assert np.array_equal(engine.run_many(order(states), None, begin, end, order(rows)).state, first.state)
    with pytest.raises(ValueError, match="do not follow each other"):
        shared.address(np.asfortranarray(states))


def test_a_motion_beyond_the_limit_of_steps_is_refused():
    model = hybrid(0).model()
    with pytest.raises(FlowError, match="more than 1 steps"):
        Flow(model, max_steps=1).propagate(np.full(len(model.states), 0.3), 0.0, 50.0)


def test_tapes_that_are_not_well_formed_are_refused():
    model = hybrid(7).model()
    engine = Core(model, (), 1e-15, 1000).engine(model.vector)
    assert isinstance(engine, EventEngine)
    tape = write_tape(engine.geometry, Regime(), (), False)
    CheckedTape(tape)
    for name in ("sizes", "code", "outputs"):
        values = getattr(tape, name).copy()
        values.flat[-1] = 2**30
        with pytest.raises(ValueError, match="not well formed"):
            CheckedTape(replace(tape, **{name: values}))
    assert BAD_CALL


def test_damaged_tapes_never_crash():
    """Thousands of tapes with random numbers in them, in a process of its own."""
    script = Path(__file__).with_name("damaged_tapes.py")
    done = subprocess.run([sys.executable, str(script), "3000", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, run = map(int, done.stdout.split())
    assert refused + run == 3000
    assert run > 100


def test_a_regime_that_no_tape_can_express_is_refused(monkeypatch):
    model = Model.from_equations("x'' + x + mu*sign(x') = F*cos(t)", parameters={"mu": 0.8, "F": 0.5}, period="2*pi")

    def without_sticking(geometry, regime, observe, tangents):
        if regime.stuck:
            raise NoTapeError("no tape for a regime that sticks")
        return write_tape(geometry, regime, observe, tangents)

    monkeypatch.setattr("kapitza.flow.kernel.engine.write_tape", without_sticking)
    flow = Flow(model, wrt=("mu",), tolerance=1.1e-14)
    flow.propagate([2.0, 0.0], 0.0, 3.9)
    with pytest.raises(ModelError, match="no tape for a regime that sticks"):
        flow.propagate([2.0, 0.0], 0.0, 20.0)


def test_a_detached_mass_leaves_the_wall_at_third_order():
    """x'' = cos(t) against the wall x = 0: held from t = 0 on where -cos(t) presses, left at pi/2 as x = t - sin(t)."""
    wall = {"name": "wall", "surface": "x", "reset": {"x'": "-x'/2"}}
    flow = Flow(Model.from_equations("x'' = -cos(t)", impacts=[wall]))
    run = flow.propagate([0.0, 0.0], 0.0, 3.0, tangents=False)
    assert [e.kind for e in run.events] == ["detach"]
    assert run.events[0].time == pytest.approx(np.pi / 2, abs=1e-14)
    late = 3.0 - np.pi / 2
    np.testing.assert_allclose(run.state, [late - np.sin(late), 1.0 - np.cos(late)], rtol=0, atol=1e-14)


def test_crossings_on_the_borders_of_pieces_are_noted_once():
    """x = sin(t) is zero at the end of every period, where pieces end."""
    model = Model.from_equations("x' = cos(w*t)", parameters={"w": 1.0}, period="2*pi/w", impacts=FAR_WALL)
    core, periods = Flow(model).core, 320
    run = core.advance(np.zeros(1), 0.0, (periods + 0.1) * 2 * np.pi, model.vector, False, (symbol("x"),))
    half_turns = np.array([e.time for e in run.events]) / np.pi
    np.testing.assert_allclose(half_turns, np.arange(2 * periods + 1), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("length", "duration"), [(1e-6, 1.0), (1e-9, 1e-5), (1e-9, 1.0), (1.0, 1e6), (1e6, 1e-3)])
def test_impacts_do_not_depend_on_the_units(length, duration):
    """The same motion in other units, in which its impacts are slow or fast, and its gap is small or large.

    Steps are chosen for an error of 1e-15 in the units of the states.
    """

    def motion(x, t):
        values = {"c": 0.1 / t, "k": 1 / t**2, "F": 0.9 * x / t**2, "w": 1.1 / t, "g": 0.5 * x, "r": 0.8}
        wall = {"name": "stop", "surface": "g - x", "reset": {"x'": "-r*x'"}}
        model = Model.from_equations(
            "x'' + c*x' + k*x = F*cos(w*t)", parameters=values, impacts=[wall], period="2*pi/w"
        )
        start = np.array([0.08639605, 0.20540454]) * (x, x / t)
        run = Flow(model).propagate(start, 0.0, 40.0 * t, tangents=False)
        times = np.array([e.time for e in run.events if e.kind in ("impact", "contact", "detach")])
        return run.state / (x, x / t), times / t

    (state, times), (expected, when) = motion(length, duration), motion(1.0, 1.0)
    assert len(when) == 7
    np.testing.assert_allclose(times, when, rtol=0, atol=1e-12 + 1e-17 / length)
    np.testing.assert_allclose(state, expected, rtol=0, atol=1e-12 + 1e-17 / length)


@pytest.mark.parametrize("height", [1.0, 1e-6])
def test_a_ball_comes_to_rest_after_the_sum_of_its_flights_in_any_units(height):
    """Gravity 9.81 heights per s^2: the flights last as long at every height."""
    g, r = 9.81 * height, 0.7
    wall = {"name": "floor", "surface": "x", "reset": {"x'": "-r*x'"}}
    model = Model.from_equations("x'' = -g", parameters={"g": g, "r": r}, impacts=[wall])
    run = Flow(model).propagate([height, 0.0], 0.0, 10.0, tangents=False)
    contact = next(event for event in run.events if event.kind == "contact")
    assert contact.time == pytest.approx(np.sqrt(2 * height / g) * (1 + r) / (1 - r), abs=1e-5)
    np.testing.assert_array_equal(run.state, [0.0, 0.0])


def test_a_run_is_the_same_whether_its_tapes_are_written_or_not():
    """The tape of a sticking mass is written when it is first asked for, in the middle of a run."""
    rng, stuck = np.random.default_rng(5), 0
    for tolerance in 1e-15 * (1.0 + 1e-3 * np.arange(80)):  # an engine of its own each
        model = Model.from_equations(
            "x'' + 0.1*x' + x + F*sign(x' - u) = cos(w*t)",
            parameters={"F": 0.5, "u": 0.3, "w": rng.uniform(0.4, 0.5)},
            period="2*pi/w",
        )
        flow, start = Flow(model, tolerance=tolerance), rng.uniform(-1.0, 1.0, 2)
        first, second = flow.propagate(start, 0.0, 4.0), flow.propagate(start, 0.0, 4.0)
        stuck += any(e.kind == "stick" for e in first.events)
        np.testing.assert_array_equal(first.state, second.state)
        np.testing.assert_array_equal(first.jacobian, second.jacobian)
    assert stuck > 30


@pytest.mark.parametrize(
    ("start", "kind"),
    [([0.2, 0.5], "release"), ([2.0, 0.5], "cross"), ([-2.0, 0.5], "cross"), ([0.2, 0.5 + 1e-9], "stick")],
)
def test_starts_on_a_surface_are_settled_in_the_stepper(start, kind):
    """A mass on a belt at the speed of the belt: it sticks, is pulled back, or pushed ahead. The event logic agrees."""
    model = Model.from_equations(
        "x'' + d*x' + x + mu*sign(x' - v) = F*cos(w*t)",
        parameters={"d": 0.05, "mu": 0.4, "v": 0.5, "F": 0.3, "w": 1.3}, period="2*pi/w",
    )  # fmt: skip
    core = Core(model, ("mu", "v"), 1e-15, 100_000)
    engine = core.engine(model.vector)
    assert isinstance(engine, EventEngine)
    kernel = engine.kernel(True)
    kernel.place(Regime((0,)))
    runtime = core.runtime(engine, model.vector, None)
    journey = Journey(engine.geometry, replace(engine.settings, wrt=engine.wrt), np.array(start), 0.1, runtime)
    begin(journey)
    settled = engine.run(np.array(start), engine.unit, 0.1, 0.1, runtime)
    assert settled.memory is not None
    assert settled.memory.regime == journey.regime
    if not journey.regime.stuck:
        np.testing.assert_array_equal(settled.memory.modes, journey.modes)
    np.testing.assert_allclose(settled.state, journey.state, rtol=0, atol=1e-15)
    np.testing.assert_allclose(settled.tangents, journey.tangents, rtol=0, atol=1e-14)
    assert settled.log_determinant == journey.log_determinant
    ours = engine.run(np.array(start), engine.unit, 0.1, 8.0, runtime)
    assert kernel.given_back == kernel.passed == kernel.begun == 0
    assert ours.events[0].kind == kind


@pytest.mark.parametrize("length", [1.0, 1e-9, 1e6])
@pytest.mark.parametrize(("distance", "grazes"), [(1e-11, True), (1e-4, False)])
def test_grazes_do_not_depend_on_the_units(length, distance, grazes):
    """x = a sin t with a short of a wall by a share of its distance: closer than 1e-9 it is noted."""
    wall = {"name": "stop", "surface": "g - x", "reset": {"x'": "-x'"}}
    model = Model.from_equations("x'' + x = 0", parameters={"g": length}, impacts=[wall])
    run = Flow(model).propagate([0.0, length * (1 - distance)], 0.0, 3.0, tangents=False)
    assert [e.kind for e in run.events] == (["graze"] if grazes else [])


@pytest.mark.parametrize(
    ("seed", "draw", "end", "kinds"),
    [(34, 12, 5.76, ["stick", "release"]), (170, 26, 1.9, ["cross", "stick", "release"])],
)
def test_tangents_where_a_release_comes_with_a_stick(seed, draw, end, kinds):
    """Two bodies that stick together come to rest: one is held by the ground, the other goes on."""
    model = hybrid(seed).model()
    starts, vectors = (a[draw] for a in draws(model, seed, 30))
    flow = Flow(model)
    run = flow.propagate(starts, 0.0, end, vectors)
    last = [e for e in run.events if e.time == run.events[-1].time]
    assert [e.kind for e in last] == kinds
    for j, step in enumerate(1e-6 * np.eye(starts.size)):
        ends = [flow.propagate(starts + sign * step, 0.0, end, vectors, tangents=False).state for sign in (1, -1)]
        np.testing.assert_allclose(run.jacobian[:, j], (ends[0] - ends[1]) / 2e-6, rtol=0, atol=1e-7)


@pytest.mark.parametrize("law", ["0.3*sign(x')", "0.5*abs(x*x')", "0.4*max(x - 0.2, 0)"])
def test_short_steps_meet_the_events_of_one_run(law: str):
    """A friction that sticks and lets go, a stop that is struck: steps of 10 ms as one run over all of them."""
    stop = {"name": "stop", "surface": "0.8 - x", "reset": {"x'": "-0.7*x'"}}
    model = Model.from_equations(
        f"x'' + 0.1*x' + 4*x + {law} = 3*sin(1.7*t) + u", parameters={"u": 0.2}, impacts=[stop]
    )
    stepper, reached = Stepper(model, ("u",), 1e-13), []
    stepper.begin(np.array([0.1, 0.0]), 0.0)
    for _ in range(900):
        stepper.step(np.array([0.2]), 0.01)
        reached.append(stepper.state.copy())
    stepper.release()
    flow = Flow(model)
    assert {event.kind for event in flow.propagate([0.1, 0.0], 0.0, 9.0).events} >= {"impact"}
    expected = flow.trajectory([0.1, 0.0], np.arange(901) * 0.01)[1:]
    np.testing.assert_allclose(reached, expected, atol=1e-9)
