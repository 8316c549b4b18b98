"""Switches inside switches: modes from the inside out, at the start and at each event, without history."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flow.differences import column_error
from flow.nested import CONSTANTS, TIMES, problems, reference
from kapitza import Flow, Model, simulate
from kapitza.errors import EventError

SEED = 12
PROBLEMS = problems(36, SEED)
"""The first of the three hundred of `python -m benchmarks nested`."""

REFUSED = {next(i for i, p in enumerate(PROBLEMS) if p.number == 35)}
"""Refused by name: comparisons of maxima that SymPy multiplies out to 34 switches, many of them changing at once."""


@pytest.mark.parametrize("number", [*range(12), *REFUSED])
def test_random_nested_forces(number):
    """Different expressions with their own constants and starts, against small steps in plain Python."""
    problem = PROBLEMS[number]
    model = Model.from_equations(f"x'' = {problem.force.text}", parameters=dict.fromkeys(CONSTANTS, 0.5))
    flow = Flow(model)
    if number in REFUSED:
        with pytest.raises(EventError, match="no combination of modes continues the motion"):
            flow.trajectory(problem.start, TIMES, problem.vector)
        return
    path = flow.trajectory(problem.start, TIMES, problem.vector)
    expected = reference(problem.force.value, problem.values, problem.start)
    np.testing.assert_allclose(path, expected, atol=3e-6)
    # No memory of earlier runs: another motion in between, and all of them side by side in lanes.
    flow.trajectory(-problem.start, TIMES[:9], problem.vector)
    assert np.array_equal(flow.trajectory(problem.start, TIMES, problem.vector), path)
    if number % 8 == 0:
        starts = np.array([problem.start, -problem.start])
        alone = [path[-1], flow.trajectory(starts[1], TIMES, problem.vector)[-1]]
        together = flow.propagate_many(starts, TIMES[0], TIMES[-1], np.tile(problem.vector, (2, 1)))
        np.testing.assert_allclose(together.state, alone, atol=1e-10)


@pytest.mark.parametrize("number", range(0, 12, 4))
def test_tangents_of_nested_forces(number):
    problem = PROBLEMS[number]
    model = Model.from_equations(f"x'' = {problem.force.text}", parameters=dict.fromkeys(CONSTANTS, 0.5))
    flow = Flow(model, wrt=CONSTANTS)
    run = flow.propagate(problem.start, 0.0, 4.0, problem.vector)
    columns = np.concatenate([run.jacobian, run.sensitivity], axis=1)
    assert np.abs(run.jacobian).max() > 1e-3
    for i, column in enumerate(columns.T):

        def moved(s: float, i: int = i) -> np.ndarray:
            change = s * np.eye(5)[i]
            return flow.propagate(
                problem.start + change[:2], 0.0, 4.0, problem.vector + change[2:], tangents=False
            ).state

        if np.abs(column).max() > 1e-9:
            assert column_error(column, moved, 1.0) < 1e-6
        else:
            assert np.abs(moved(1e-3) - run.state).max() < 1e-12


def test_a_jumping_switch_that_is_touched_is_not_crossed():
    """b cos(1.3 t) + b touches zero at every half period and is located just before it."""
    law = "Piecewise((b*cos(1.3*t) + b, b*cos(1.3*t) + b < 0), (0, True))*sign(x')"
    flow = Flow(Model.from_equations(f"x'' = -x - 0.3*x' + cos(1.3*t) + {law}", parameters={"b": 0.5}))
    free = Flow(Model.from_equations("x'' = -x - 0.3*x' + cos(1.3*t)"))
    times = np.linspace(0.0, 12.0, 25)
    for b in np.random.default_rng(5).uniform(0.1, 0.9, 12):
        np.testing.assert_allclose(
            flow.trajectory([0.2, 0.4], times, [b]), free.trajectory([0.2, 0.4], times), atol=1e-11
        )


def test_the_second_call_is_the_first():
    model = Model.from_equations("x'' = -x - 0.1*max(abs(x) - 0.5, 0)")
    first, second = (simulate(model, [1, 0], t=[0, 0.5, 5])["x"] for _ in range(2))
    assert np.array_equal(first, second)
    assert first[1] == pytest.approx(0.8717303, abs=1e-6)


def test_a_function_left_at_third_order_takes_its_side():
    """At x = 0 the outer comparison is x - sin(x), zero to rounding up to |x| = 1e-8; the law is max(x, 0)."""
    law = "max(max(sin(x), x), max(abs(a*cos(1.3*t)) - c, 0))"
    values = {"a": 0.20079188654202362, "c": 0.775499340042677}
    nested = Flow(Model.from_equations(f"x'' = -x - 0.3*x' + cos(1.3*t) - 0.5*({law})", parameters=values))
    simple = Flow(Model.from_equations("x'' = -x - 0.3*x' + cos(1.3*t) - 0.5*max(x, 0)"))
    times = np.linspace(0.0, 9.0, 19)
    for shift in (0.0, -0.1, 0.1, -0.05, 0.002, -1e-3, 1e-4, 0.311, 0.4):
        start = [-0.31105786 + shift, -0.47116222 + 0.3 * shift]
        np.testing.assert_allclose(nested.trajectory(start, times), simple.trajectory(start, times), atol=1e-12)


FLAT = {
    "sign(max(x, 0))": lambda x: float(x > 0),
    "Heaviside(max(x, 0))": lambda x: 1.0 if x > 0 else 0.5,
    "Piecewise((1, max(x, 0) > 0), (0, True))": lambda x: float(x > 0),
    "Piecewise((1, Piecewise((x, x > 0), (0, True)) > 0), (0, True))": lambda x: float(x > 0),
    "abs(max(x, 0))": lambda x: max(x, 0.0),
    "Piecewise((x, min(x, 0) < 0), (2*x, True))": lambda x: x if x < 0 else 2 * x,
    "abs(sign(x)*x)": abs,
    "x*abs(sign(x))": lambda x: x,
}


@pytest.mark.parametrize("text", FLAT)
def test_functions_that_vanish_for_a_while(text):
    """Inside abs(max(x, 0)) the argument is zero as long as x < 0, and sign(0) = 0."""
    model = Model.from_equations(f"x'' = -x + 0.3*cos(t) + 0.2*({text})")
    start, times = np.array([0.5, 0.1]), np.linspace(0, 9, 20)
    expected = reference(lambda t, x, v, c: -x + 0.3 * math.cos(t) + 0.2 * FLAT[text](x), {}, start, times)
    flow = Flow(model)
    np.testing.assert_allclose(flow.trajectory(start, times), expected, atol=1e-6)
    jacobian = flow.propagate(start, 0.0, 5.0).jacobian
    for i in range(2):
        error = column_error(
            jacobian[:, i],
            lambda s, i=i: flow.propagate(start + s * np.eye(2)[i], 0.0, 5.0, tangents=False).state,
            1.0,
        )
        assert error < 1e-6


def test_a_jump_inside_moves_the_switch_around_it():
    """|sign(x) v| = |v|: at x = 0 the argument jumps from v to -v without passing zero."""
    flow = Flow(Model.from_equations("x'' = -x + 0.2*abs(sign(x)*x')"))
    plain = Flow(Model.from_equations("x'' = -x + 0.2*abs(x')"))
    times = np.linspace(0.0, 9.0, 30)
    np.testing.assert_allclose(flow.trajectory([1.0, 0.2], times), plain.trajectory([1.0, 0.2], times), atol=1e-12)


def test_one_coordinate_at_rest_does_not_blind_the_others():
    """y rests on its switching surface; the crossings of x are found all the same."""
    both = Flow(Model.from_equations(["x'' = -x - 0.5*abs(x)", "y'' = -y*abs(y)"], coordinates=["x", "y"]))
    alone = Flow(Model.from_equations("x'' = -x - 0.5*abs(x)"))
    times = np.linspace(0.0, 7.0, 15)
    path = both.trajectory({"x": 1.0, "y": 0.0, "x'": 0.0, "y'": 0.0}, times)
    np.testing.assert_allclose(path[:, [0, 2]], alone.trajectory([1.0, 0.0], times), atol=1e-13)


def test_bilinear_spring_with_gap_against_its_closed_form():
    """Free flight through the gap of an elastic stop at both sides: half periods of π/√k and flights of 2d/v."""
    k, gap, speed = 4.0, 0.5, 1.2
    flow = Flow(Model.from_equations("x'' = -k*max(abs(x) - d, 0)*sign(x)", parameters={"k": k, "d": gap}))
    period = 2 * np.pi / np.sqrt(k) + 4 * gap / speed
    run = flow.propagate([0.0, speed], 0.0, period)
    np.testing.assert_allclose(run.state, [0.0, speed], atol=1e-13)
    # dT/dv = -4 d/v² by the closed form: ∂x(T)/∂v = -v dT/dv, and the speed at the middle is kept.
    np.testing.assert_allclose(run.jacobian[:, 1], [4 * gap / speed, 1.0], atol=1e-12)


def test_elastic_perfectly_plastic_law():
    """A hysteresis law with a bound on the force: z' = v unless |z| = 1 and v drives it further."""
    law = "Piecewise((0, z >= 1 and v > 0), (0, z <= -1 and v < 0), (v, True))"
    model = Model.from_equations([f"z' = {law}", "v' = -3*sin(t)"], coordinates=["z", "v"])
    path = Flow(model).trajectory([0.0, 3.0], np.array([0.0, 0.2, 1.0, np.pi, 4.0, 6.0]))
    # v = 3 cos t, ∫v = 3 sin t; z sticks at 1 from 3 sin t = 1 until t = π/2, then falls with 3 sin t to -1.
    expected = [0.0, 3 * np.sin(0.2), 1.0, max(1 + 3 * np.sin(np.pi) - 3, -1), -1.0, min(-1 + 3 * np.sin(6.0) + 3, 1)]
    np.testing.assert_allclose(path[:, 0], expected, atol=1e-9)


@pytest.mark.parametrize("force", ["max(cos(t) - 1, 0)", "max(abs(cos(t)) - 1, 0)"])
def test_a_surface_that_is_touched_is_not_crossed(force):
    """The function touches zero every period and at the very start; the force is zero for ever."""
    flow = Flow(Model.from_equations(f"x'' = -x - 0.1*x' + {force}"))
    free = Flow(Model.from_equations("x'' = -x - 0.1*x'"))
    times = np.linspace(0.0, 40.0, 30)
    np.testing.assert_allclose(flow.trajectory([1.0, 0.2], times), free.trajectory([1.0, 0.2], times), atol=1e-13)
