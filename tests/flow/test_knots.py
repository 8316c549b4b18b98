"""Motions with events that are driven by measured signals, against a closed form and against chained short runs."""

from __future__ import annotations

import itertools
from math import atan2, ceil, copysign, cos, hypot, pi, sin
from typing import Any

import numpy as np
import pytest

import kapitza as kz
from kapitza.base.arrays import Array
from kapitza.flow import Flow
from kapitza.flow.clock import Clock
from kapitza.flow.core import Propagation
from kapitza.flow.engine import ManyStretches, Stretches
from kapitza.flow.events import EventEngine
from kapitza.flow.kernel import library as shared
from kapitza.flow.kernel.library import library

VALUES = {"m": 1.3, "k": 40.0, "mu": 0.9}
STEP = 0.02
EQUATION = "m*x'' + k*x + mu*sign(x') = F"


def held_values(seed: int = 3, count: int = 400) -> np.ndarray:
    """Forces that rub, stick and reverse the mass."""
    rng = np.random.default_rng(seed)
    slow = np.convolve(rng.standard_normal(count + 20), np.ones(20) / 20, "valid")[:count]
    return 12 * slow


def free_motion(x: float, v: float, force: float, side: float, t: float) -> tuple[float, float]:
    """m x'' + k x = force - mu side, solved by x = c + A cos(wt + p)."""
    w, centre = (VALUES["k"] / VALUES["m"]) ** 0.5, (force - VALUES["mu"] * side) / VALUES["k"]
    size, phase = hypot(x - centre, v / w), atan2(-v / w, x - centre)
    return centre + size * cos(w * t + phase), -size * w * sin(w * t + phase)


def time_to_rest(x: float, v: float, force: float, side: float) -> float:
    w, centre = (VALUES["k"] / VALUES["m"]) ** 0.5, (force - VALUES["mu"] * side) / VALUES["k"]
    phase = atan2(-v / w, x - centre)
    turn = ceil(phase / pi + 1e-9)
    return (turn * pi - phase) / w


def closed_form(times: np.ndarray, forces: np.ndarray, start: tuple[float, float]) -> tuple[np.ndarray, int]:
    """States at times under forces held over STEP, and how often the mass comes to rest."""
    (x, v), rests, found, done = start, 0, np.empty((times.size, 2)), 0
    for i, force in enumerate(forces):
        now, end = i * STEP, (i + 1) * STEP
        while now < end:
            load = force - VALUES["k"] * x
            stuck = v == 0 and abs(load) <= VALUES["mu"]
            side = copysign(1.0, v if v else load)
            stop = end if stuck else min(end, now + time_to_rest(x, v, force, side))
            while done < times.size and times[done] <= stop:
                found[done] = (x, 0.0) if stuck else free_motion(x, v, force, side, times[done] - now)
                done += 1
            if not stuck:
                x, v = free_motion(x, v, force, side, stop - now)
                if stop < end:
                    v, rests = 0.0, rests + 1
            now = stop
    return found[:done], rests


def driven(degree: int, period: float | None = None) -> kz.Model:
    forces = held_values()
    signal = kz.Signal(
        "F", np.linspace(0.0, STEP * (forces.size - 1), forces.size), forces, period=period, degree=degree
    )
    return kz.Model.from_equations(EQUATION, parameters=VALUES, signals=[signal])


def tangents_of(run: Propagation[Any, Any]) -> np.ndarray:
    assert run.jacobian is not None
    assert run.sensitivity is not None
    return np.concatenate([run.jacobian, run.sensitivity], axis=-1)


def test_a_held_force_gives_the_closed_form():
    times = np.sort(np.random.default_rng(1).uniform(0.0, 398 * STEP, 500))
    times[0] = 0.0
    expected, rests = closed_form(times, held_values(), (0.03, 0.0))
    assert rests > 10
    flow = Flow(driven(0))
    found = flow.trajectory([0.03, 0.0], times)
    assert np.abs(found - expected).max() < 1e-11
    windows = times[: 20 * 25].reshape(20, 25)
    starts = expected[::25][:20]
    assert np.abs(flow.paths(starts, windows) - expected[: 20 * 25].reshape(20, 25, 2)).max() < 1e-11
    events = flow.propagate([0.03, 0.0], 0.0, float(times[-1])).events
    assert sum(e.kind in ("cross", "stick") for e in events) == rests


@pytest.mark.parametrize(("degree", "period"), [(0, None), (1, None), (3, None), (1, 8.0), (3, 8.0)])
def test_many_knots_at_once_equal_runs_from_knot_to_knot(degree: int, period: float | None):
    flow = Flow(driven(degree, period), wrt=("m", "k", "mu"))
    begin, end = (0.013, 6.0) if period is None else (5.013, 14.0)
    knots = STEP * np.arange(np.ceil(begin / STEP), np.floor(end / STEP) + 1)
    state, total, met = np.array([0.03, 0.1]), np.eye(2, 5), 0
    for a, b in itertools.pairwise(np.concatenate([[begin], knots, [end]])):
        if b - a > 1e-12:
            step = flow.propagate(state, float(a), float(b), tangents=True)
            change = tangents_of(step)
            state, met = step.state, met + len(step.events)
            total = change[:, :2] @ total + np.hstack([np.zeros((2, 2)), change[:, 2:]])
    allowed = 1e-10 * (1 + np.abs(total).max())
    whole = flow.propagate([0.03, 0.1], begin, end, tangents=True)
    assert len(whole.events) == met
    assert np.abs(whole.state - state).max() < 1e-12
    assert np.abs(tangents_of(whole) - total).max() < allowed
    many = flow.propagate_many([[0.03, 0.1]] * 3, np.full(3, begin), np.full(3, end), tangents=True)
    assert np.abs(tangents_of(many) - total).max() < allowed
    times = np.tile(np.linspace(begin, end, 40), (3, 1))
    states, by_state, by_theta = flow.trajectories([[0.03, 0.1]] * 3, times)
    assert np.abs(states[:, -1] - state).max() < 1e-12
    assert np.abs(np.concatenate([by_state, by_theta], axis=-1)[:, -1] - total).max() < allowed


def test_stretches_of_many_runs_are_those_of_each():
    random = np.random.default_rng(0)
    knots = np.sort(random.uniform(0.0, 10.0, 60))
    clock = Clock(None, False, knots, random.normal(size=(59, 3)), 2)
    free = random.uniform(knots[0], knots[-1], (300, 2))
    on_knots = np.stack([knots[:50], knots[random.integers(50, 60, 50)]], axis=1)
    next_to = np.stack([knots[:-1], knots[1:]], axis=1)
    t0, t1 = np.sort(np.concatenate([free, on_knots, next_to, next_to + np.array([1e-13, -1e-13])]), axis=1).T
    many = clock.many_within_reach(t0, t1)
    for i, (begin, end) in enumerate(zip(t0.tolist(), t1.tolist(), strict=True)):
        (piece,) = clock.pieces(begin, end, 1)
        assert piece.stretches is not None
        own = slice(many.starts[i], many.starts[i] + many.counts[i])
        assert np.array_equal(piece.stretches.ends, many.ends[own])
        rows = slice(many.rows[i], many.rows[i] + many.counts[i])
        assert np.array_equal(piece.stretches.coefficients, many.coefficients[rows])


@pytest.mark.parametrize("change", [{"counts": [3, 3]}, {"rows": [0, 8]}, {"rows": [-1, 0]}, {"ends": [1, 3, 2, 4, 5]}])
def test_malformed_stretches_of_many_runs_are_refused(change: dict[str, list[int]]):
    flow = Flow(driven(0))
    assert flow._core is not None
    engine = flow._core.engine(np.array(list(VALUES.values())))
    assert isinstance(engine, EventEngine)
    parts = {"ends": np.array([1.0, 2.0, 3.0, 4.0, 5.0]), "counts": np.array([3, 2]), "rows": np.array([0, 0])}
    parts |= {name: np.asarray(value, parts[name].dtype) for name, value in change.items()}
    table = np.zeros((9, 2))
    stretches = ManyStretches(parts["ends"], parts["counts"], parts["rows"], table, 3)
    times = np.array([[0.0, 3.0], [0.0, 5.0]])
    given = np.tile(np.append(list(VALUES.values()), np.ones(len(engine.system.parameters) - 3)), (2, 1))
    with pytest.raises(ValueError, match="not well formed"):
        engine.sample_many(np.zeros((2, 2)), times, given, stretches, tangents=False)


SMOOTH = {
    "cubic": ("m*x'' + c*x' + k*x + 30*x**3 = F", {"m": 1.3, "c": 0.4, "k": 40.0}, (0.03, 0.1), ()),
    "drag": ("m*x'' + c*x'*abs(x') + k*x = F", {"m": 1.3, "c": 0.4, "k": 40.0}, (0.03, 0.1), ()),
    "stop": ("m*x'' + c*x' + 10*x + k*max(x - 0.05, 0) = F", {"m": 1.3, "c": 0.4, "k": 90.0}, (0.03, 0.1), ()),
    "nested": ("m*x'' + c*x' + k*max(abs(x) - 0.04, 0)*x = F", {"m": 1.3, "c": 0.4, "k": 900.0}, (0.0, 0.0), ()),
    "angle": ("m*x'' + c*x' + k*sin(x) = 4*F", {"m": 1.3, "c": 0.4, "k": 4.0}, (3.0, 2.0), ("x",)),
}


@pytest.mark.parametrize("law", SMOOTH)
@pytest.mark.parametrize(("degree", "period"), [(0, None), (3, None), (3, 8.0)])
def test_smooth_motions_pass_knots_as_from_knot_to_knot(law: str, degree: int, period: float | None):
    equation, values, start, angles = SMOOTH[law]
    forces = held_values()
    signal = kz.Signal(
        "F", np.linspace(0.0, STEP * (forces.size - 1), forces.size), forces, period=period, degree=degree
    )
    model = kz.Model.from_equations(equation, parameters=values, signals=[signal], angles=angles)
    flow = Flow(model, wrt=tuple(values))
    begin, end = (0.013, 6.0) if period is None else (5.013, 14.0)
    knots = STEP * np.arange(np.ceil(begin / STEP), np.floor(end / STEP) + 1)
    times = np.concatenate([[begin], knots, [end]])
    times = times[np.append(np.diff(times) > 1e-9, True)]
    states, total, growth = [np.array(start)], np.eye(2, 5), 1.0
    for a, b in itertools.pairwise(times):
        step = flow.propagate(states[-1], float(a), float(b), tangents=True)
        change = tangents_of(step)
        states.append(step.state)
        total = change[:, :2] @ total + np.hstack([np.zeros((2, 2)), change[:, 2:]])
        growth = max(growth, np.abs(total[:, :2]).max())
    # Rounding of the first steps grows with the motion's own sensitivity to its start.
    size = growth * (1 + np.abs(states).max())
    allowed = 1e-11 * (1 + np.abs(total).max())
    whole = flow.propagate(start, begin, end, tangents=True)
    assert len(whole.events) == 0
    assert np.abs(whole.state - states[-1]).max() < 1e-14 * size
    assert np.abs(tangents_of(whole) - total).max() < allowed
    assert whole.log_determinant == pytest.approx(np.linalg.slogdet(total[:, :2])[1], abs=1e-9)
    path, by_state, by_theta = flow.trajectory_tangents(start, times)
    assert np.abs(path - states).max() < 1e-14 * size
    assert np.abs(np.concatenate([by_state, by_theta], axis=-1)[-1] - total).max() < allowed
    many = flow.propagate_many([start] * 3, np.full(3, begin), np.full(3, end), tangents=True)
    assert np.abs(tangents_of(many) - total).max() < allowed
    assert all(len(events) == 0 for events in many.events)
    # Members of one call may run in both directions.
    both = flow.propagate_many([start, states[-1]], np.array([begin, end]), np.array([end, begin]), tangents=True)
    assert np.abs(both.state[0] - states[-1]).max() < 1e-14 * size
    assert np.abs(both.state[1] - start).max() < 1e-11 * size


def test_a_smooth_run_over_many_knots_is_one_call(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    inner = EventEngine.run

    def counted(self: EventEngine, *given: Any, **named: Any) -> Any:
        calls.append(1)
        return inner(self, *given, **named)

    monkeypatch.setattr(EventEngine, "run", counted)
    equation, values, start, _ = SMOOTH["cubic"]
    forces = held_values()
    signal = kz.Signal("F", np.linspace(0.0, STEP * (forces.size - 1), forces.size), forces)
    model = kz.Model.from_equations(equation, parameters=values, signals=[signal])
    Flow(model).trajectory(start, STEP * np.arange(forces.size))
    assert len(calls) == 1


def test_a_smooth_motion_under_a_drive_does_not_need_the_stepper(monkeypatch: pytest.MonkeyPatch):
    """From knot to knot by heyoka where the library is not built: the same states."""
    signal = kz.Signal("F", STEP * np.arange(60), held_values(count=60))
    model = kz.Model.from_equations("1.7*x'' + 0.2*x' + 5*sin(x) = F", signals=[signal])
    times = np.linspace(0.0, STEP * 59, 31)
    with monkeypatch.context() as without:
        library.cache_clear()
        without.setattr(shared, "library_path", lambda: None)
        plain = Flow(model).trajectory([0.3, 0.0], times)
        assert not Flow(model).core.engine(model.vector).passes_knots(model.vector, False)
    library.cache_clear()
    assert Flow(model).core.engine(model.vector).passes_knots(model.vector, False)
    np.testing.assert_allclose(Flow(model).trajectory([0.3, 0.0], times), plain, rtol=0, atol=1e-13)


def test_a_smooth_motion_that_diverges_under_a_drive_is_refused():
    forces = 400.0 + held_values()
    signal = kz.Signal("F", np.linspace(0.0, STEP * (forces.size - 1), forces.size), forces)
    model = kz.Model.from_equations("x'' - k*x**3 = F", parameters={"k": 5.0}, signals=[signal])
    flow = Flow(model, wrt=("k",))
    for call in (flow.trajectory, flow.trajectory_tangents):
        with pytest.raises(kz.KapitzaError, match=r"t = 0\.\d+"):
            call([0.03, 0.1], STEP * np.arange(forces.size))
    ends = flow.propagate_many([[0.03, 0.1]] * 2, np.zeros(2), np.full(2, STEP * (forces.size - 1)), throw=False)
    assert np.isnan(ends.state).all()


def test_a_lasting_contact_passes_knots():
    """A ball on a table under a measured lift leaves it when the lift exceeds the weight."""
    t = np.linspace(0.0, 2.95, 60)
    force = np.where(t < 1.5, 4.0, 4.0 + 8.0 * (t - 1.5))
    model = kz.Model.from_equations(
        "m*y'' = F - m*g",
        parameters={"m": 1.0, "g": 9.81, "r": 0.5},
        signals=[kz.Signal("F", t, force, degree=1)],
        impacts=[{"surface": "y", "reset": {"y'": "-r*y'"}}],
    )
    lift = 1.5 + (9.81 - 4.0) / 8.0
    times = np.linspace(0.0, 2.9, 30)
    expected = np.where(times < lift, 0.0, 8.0 * np.clip(times - lift, 0, None) ** 3 / 6)
    found = Flow(model).trajectory([0.0, 0.0], times)
    assert np.abs(found[:, 0] - expected).max() < 1e-9


def test_a_batch_between_knots_equals_single_runs() -> None:
    # Members start and end on knots, between them, run backwards or not at all.
    rng = np.random.default_rng(0)
    times: Array = np.linspace(0.0, 9.95, 200)
    drive = kz.Signal("u", times, rng.standard_normal(200).cumsum() * 0.1, degree=3)
    model = kz.Model.from_equations("x'' + 0.2*x' + k*x + x**3 = u", parameters={"k": 1.0}, signals=[drive])
    flow = kz.Flow(model, wrt=("k",))
    states = rng.standard_normal((9, 2))
    begin = np.array([times[3], 1.23, times[7], 2.0, 3.3, 0.0, times[-1], 4.0, times[5]])
    end = np.array([times[90], times[60], 4.44, 2.0, 1.1, times[-1], 0.0, times[80] + 1e-15, times[5] - 0.02])
    together = flow.propagate_many(states, begin, end, tangents=True)
    assert together.jacobian is not None
    for i in range(len(states)):
        alone = flow.propagate(states[i], begin[i], end[i])
        np.testing.assert_allclose(together.state[i], alone.state, rtol=1e-12, atol=1e-12)
        assert alone.jacobian is not None
        np.testing.assert_allclose(together.jacobian[i], alone.jacobian, rtol=1e-10, atol=1e-10)
    with pytest.raises(kz.KapitzaError, match=r'Signal "u" is known from 0 to 9\.95 s, not at 12 s'):
        flow.propagate_many(states, begin, np.full(9, 12.0))


@pytest.mark.parametrize(("ends", "rows"), [([0.1, 0.2, 0.3], 2), ([0.1, 0.3, 0.2], 3), ([0.1, np.nan, 0.3], 3)])
def test_stretches_that_the_stepper_cannot_follow_are_refused(ends: list[float], rows: int):
    """With too few rows it would read beyond them; an end that is not later would never be passed."""
    core = Flow(driven(1)).core
    vector = np.array(list(VALUES.values()))
    engine, (piece, *_) = core.engine(vector), core.pieces(np.zeros(2), 0.0, 0.3, vector, False)
    assert isinstance(engine, EventEngine)
    assert piece.stretches is not None
    runtime = core.runtime(engine, vector, piece.coefficients)
    bad = Stretches(np.array(ends), piece.stretches.coefficients[:rows], piece.stretches.first)
    with pytest.raises(ValueError, match="not well formed"):
        engine.run(np.array([0.1, 0.2]), None, 0.0, 0.3, runtime, stretches=bad)
    with pytest.raises(ValueError, match="not well formed"):
        engine.run_many(np.array([[0.1, 0.2]]), None, np.zeros(1), np.full(1, 0.3), runtime[None], [bad])


def test_a_motion_back_to_its_rest_touches_the_surface_it_began_on():
    """x = 0 is passed by 1e-13 or touched, as rounding has it: one of a hundred runs did not settle."""
    equation, values, start, _ = SMOOTH["nested"]
    forces = held_values()
    signal = kz.Signal("F", np.linspace(0.0, STEP * (forces.size - 1), forces.size), forces, degree=3)
    flow = Flow(kz.Model.from_equations(equation, parameters=values, signals=[signal]))
    end = flow.propagate(start, 0.013, 6.0, tangents=False).state
    ends = end * (1 + 1e-13 * np.random.default_rng(0).standard_normal((1000, 2)))
    back = flow.propagate_many(ends, np.full(1000, 6.0), np.full(1000, 0.013), tangents=False).state
    assert np.abs(back).max() < 1e-10
