"""Terms that are flat over a long way and act beyond it: no step passes over them."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import erf

import kapitza as kz
from kapitza.flow.system import system_of
from kapitza.flow.tails import limit, tail_arguments, watched_functions

TIMES = np.linspace(0.0, 60.0, 301)


def small_steps(rates, start, times=TIMES):
    """Integrate by SciPy in steps that see every term."""
    run = solve_ivp(rates, (times[0], times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-13, max_step=0.05)
    return run.y.T


def bump(x):
    return 0.8 * (x - 30) * np.exp(-((x - 30) ** 2))


CASES = {
    "hill ahead": (
        "x'' = 2*b*(x - 30)*exp(-(x - 30)**2)", {"b": 0.4}, [0.0, 1.0], lambda t, y: [y[1], bump(y[0])],
    ),
    "hill ahead, with friction": (
        "x'' = 2*b*(x - 30)*exp(-(x - 30)**2) - f*sign(x')", {"b": 0.4, "f": 1e-4}, [0.0, 1.0],
        lambda t, y: [y[1], bump(y[0]) - 1e-4],
    ),
    "drive after rest": (
        "x'' + c*x' + x + 0.4*x**3 = 0.5*(1 + tanh(t - 30))*cos(1.2*t)", {"c": 0.1}, [0.0, 0.0],
        lambda t, y: [y[1], 0.5 * (1 + np.tanh(t - 30)) * np.cos(1.2 * t) - 0.1 * y[1] - y[0] - 0.4 * y[0] ** 3],
    ),
    "drive after rest, with a stop": (
        "x'' + c*x' + x + k*max(x - 0.5, 0) = 0.5*(1 + tanh(t - 30))*cos(1.2*t)", {"c": 0.1, "k": 3.0}, [0.0, 0.0],
        lambda t, y: [
            y[1],
            0.5 * (1 + np.tanh(t - 30)) * np.cos(1.2 * t) - 0.1 * y[1] - y[0] - 3 * max(y[0] - 0.5, 0.0),
        ],
    ),
    "blow": (
        "x'' + c*x' + x = exp(-(t - 41)**2/0.1)", {"c": 0.1}, [0.0, 0.0],
        lambda t, y: [y[1], np.exp(-((t - 41) ** 2) / 0.1) - 0.1 * y[1] - y[0]],
    ),
    "wall of a high power": ("x'' = -x**31", {}, [0.0, 0.1], lambda t, y: [y[1], -(y[0] ** 31)]),
    "error function": (
        "x'' + c*x' + x = 1 + erf(t - 30)", {"c": 0.1}, [0.0, 0.0],
        lambda t, y: [y[1], 1 + erf(t - 30) - 0.1 * y[1] - y[0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_no_step_passes_over_a_term(case):
    equation, values, start, rates = CASES[case]
    model = kz.Model.from_equations(equation, parameters=values)
    flow, expected = kz.Flow(model), small_steps(rates, start)
    assert np.abs(expected - start).max() > 0.05
    many = flow.propagate_many(np.array([start] * 5), np.zeros(5), np.full(5, 60.0), model.vector)
    np.testing.assert_allclose(flow.trajectory(np.array(start), TIMES, model.vector), expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(many.state, expected[-1:].repeat(5, axis=0), rtol=0, atol=1e-7)


def test_tangents_see_the_term():
    model = kz.Model.from_equations(CASES["hill ahead"][0], parameters={"b": 0.4})
    flow, step = kz.Flow(model, wrt=("b",)), 1e-5
    run = flow.propagate(np.array([0.0, 1.0]), 0.0, 60.0, model.vector, tangents=True)
    assert run.jacobian is not None
    ends = [small_steps(CASES["hill ahead"][3], [0.0, 1.0 + d])[-1] for d in (-step, step)]
    np.testing.assert_allclose(run.jacobian[:, 1], (ends[1] - ends[0]) / (2 * step), rtol=1e-5)


def test_an_event_behind_a_tail_is_met():
    # The switch itself is flat for 40 s: the force acts from 39.17 to 40.83 s.
    model = kz.Model.from_equations("x' = Heaviside(exp(-(t - 40)**2) - c)", parameters={"c": 0.5})
    end = kz.Flow(model).propagate(np.array([0.0]), 0.0, 60.0, model.vector).state
    assert end[0] == pytest.approx(2 * np.sqrt(np.log(2.0)), abs=1e-9)


def test_a_stuck_body_is_released_by_a_late_drive():
    model = kz.Model.from_equations(
        "x'' + f*sign(x') = (1 + tanh(t - 30))/2*cos(t)", parameters={"f": 0.4}, start={"x": 0.0, "x'": 0.0}
    )
    late = kz.simulate(model, t=TIMES)
    moving = np.flatnonzero(np.abs(late["x'"]) > 1e-9)
    # The force exceeds the friction first near t = 30, where tanh has risen.
    assert 29.0 < TIMES[moving[0]] < 32.0


def test_backwards_in_time():
    model = kz.Model.from_equations(CASES["hill ahead"][0], parameters={"b": 0.4})
    flow = kz.Flow(model)
    there = flow.propagate(np.array([0.0, 1.0]), 0.0, 60.0, model.vector).state
    back = flow.propagate(there, 60.0, 0.0, model.vector).state
    np.testing.assert_allclose(back, [0.0, 1.0], atol=1e-9)


def test_only_arguments_that_move_limit_steps():
    model = kz.Model.from_equations(
        "x'' + c*exp(p)*x' + x**3 + sqrt(1 + x**2) = exp(-x)*tanh(2*t) + exp(x) + 2**x", parameters={"c": 0.1, "p": 2.0}
    )
    system = system_of(model)
    found = {str(g) for g in tail_arguments(system, watched_functions(system))}
    assert found == {"x/8", "t/4", "x*log(2)/8"}
    assert limit(system)
    plain = system_of(kz.Model.from_equations("x'' + c*x' + sin(x) = cos(t)", parameters={"c": 0.1}))
    assert not limit(plain)
