"""Steps that the last coefficients of a series do not limit: tails of terms, and series with gaps."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
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


@pytest.mark.parametrize("power", [3, 5, 7, 9, 11, 13])
@pytest.mark.parametrize("tolerance", [1e-9, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15])
def test_series_with_gaps_from_a_start_at_zero(power, tolerance):
    model = kz.Model.from_equations(f"x'' = -k*x**{power}", parameters={"k": 1e6})
    flow, start = kz.Flow(model, tolerance=tolerance), np.array([0.0, 1e-2])
    ends = [flow.propagate(start, 0.0, 20.0, model.vector).state]
    ends += [flow.trajectory(start, np.linspace(0, 20.0, 3000), model.vector)[-1]]
    ends += list(flow.propagate_many(np.array([start] * 3), np.zeros(3), np.full(3, 20.0), model.vector).state)
    carried = flow.propagate(start, 0.0, 20.0, model.vector, tangents=True)
    assert carried.jacobian is not None
    assert np.linalg.det(carried.jacobian) == pytest.approx(1.0, abs=1e3 * tolerance)
    for x, v in [*ends, carried.state]:
        assert v**2 / 2 + 1e6 * x ** (power + 1) / (power + 1) == pytest.approx(5e-5, abs=100 * tolerance)


@pytest.mark.parametrize("stop", ["", " - 2*max(x - 1e3, 0)"])
def test_sweeps_from_time_zero(stop):
    model = kz.Model.from_equations(f"x'' = cos(a*t**4) + sin(b*t**3){stop}", parameters={"a": 1.0, "b": 2.0})
    run = kz.Flow(model).propagate(np.array([0.3, 0.1]), 0.0, 3.0, model.vector)
    speed = quad(lambda t: np.cos(t**4) + np.sin(2 * t**3), 0.0, 3.0, epsabs=1e-12, limit=500)[0]
    assert run.state[1] == pytest.approx(0.1 + speed, abs=1e-9)


def test_a_series_with_gaps_beside_a_wall():
    model = kz.Model.from_equations(
        "x'' = -x**7", impacts=[{"surface": "2 - x", "reset": {"x'": "-x'"}}], start={"x": 0.0, "x'": 1.0}
    )
    x, v = kz.Flow(model).propagate(np.array([0.0, 1.0]), 0.0, 20.0, model.vector).state
    assert v**2 / 2 + x**8 / 8 == pytest.approx(0.5, abs=1e-9)
