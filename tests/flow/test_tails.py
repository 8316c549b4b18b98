"""Steps that the last coefficients of a series do not limit: tails of terms."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad, solve_ivp
from scipy.special import erf

import kapitza as kz
from kapitza.errors import FlowError
from kapitza.flow.system import system_of
from kapitza.flow.tails import OF_ROOT, limit, tail_arguments, watched_functions
from kapitza.model import time

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
    found = tail_arguments(system, watched_functions(system))
    x, t = system.states[0], time
    assert set(found) == {x / 8, t / 4, x * sp.log(2) / 8, sp.expand(OF_ROOT * (1 + x**2))}
    assert limit(system)
    plain = system_of(kz.Model.from_equations("x'' + c*x' + sin(x) = cos(t)", parameters={"c": 0.1}))
    assert not limit(plain)


ROUGH = {
    "smooth speed": (
        "x'' + x + 0.1*x'*sqrt(x'**2 + e) = cos(1.3*t)", 1e-8, [1.0, 0.0], 30.0,
        lambda t, y: [y[1], np.cos(1.3 * t) - y[0] - 0.1 * y[1] * np.sqrt(y[1] ** 2 + 1e-8)],
    ),
    "smooth sign": (
        "x'' + 0.05*x' + x/sqrt(x**2 + e) = 0", 1e-8, [1.0, 0.0], 10.0,
        lambda t, y: [y[1], -0.05 * y[1] - y[0] / np.sqrt(y[0] ** 2 + 1e-8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROUGH)
@pytest.mark.parametrize("stop", ["", " + 0.001*max(x - 100, 0)"])
@pytest.mark.parametrize("named", [False, True])
def test_roots_that_nearly_vanish(case, stop, named):
    # Away from the zero v sqrt(v² + 1e-8) is v² to rounding, and beyond it -v².
    equation, e, start, end, rates = ROUGH[case]
    left, right = (equation if named else equation.replace("e)", f"{e!r})")).split(" = ")
    flow = kz.Flow(kz.Model.from_equations(f"{left}{stop} = {right}", parameters={"e": e} if named else {}))
    times = np.linspace(0.0, end, 101)
    expected = solve_ivp(rates, (0.0, end), start, "DOP853", times, rtol=1e-12, atol=1e-13, max_step=5e-3).y.T
    np.testing.assert_allclose(flow.trajectory(np.array(start), times), expected, rtol=0, atol=2e-9)
    many = flow.propagate_many(np.array([start] * 5), np.zeros(5), np.full(5, end))
    np.testing.assert_allclose(many.state, expected[-1:].repeat(5, axis=0), rtol=0, atol=2e-9)


@pytest.mark.parametrize(
    ("drive", "value"),
    [
        ("exp(-exp(30 - t))", lambda t: np.exp(-np.exp(30.0 - t))),
        ("tanh(sinh(t - 20))", lambda t: np.tanh(np.sinh(t - 20.0))),
        ("exp(-1/((t - 3)**2 + 0.01))", lambda t: np.exp(-1.0 / ((t - 3.0) ** 2 + 0.01))),
    ],
)
@pytest.mark.parametrize("stop", ["", " + 0.001*max(x - 1000, 0)"])
def test_arguments_of_any_size(drive, value, stop):
    # The change of an argument grows with a high power of the step, or has a pole within it.
    end = kz.Flow(kz.Model.from_equations(f"x' = {drive}{stop}")).propagate(np.zeros(1), 0.0, 40.0).state
    wanted = quad(value, 0.0, 40.0, points=[3.0, 20.0, 30.0], epsabs=1e-12, limit=500)[0]
    assert end[0] == pytest.approx(wanted, abs=1e-9)


def test_equations_with_delays_see_what_is_ahead():
    # The past is constant until t = 20, so that x follows the pulse alone.
    equation = "x' = exp(-(t - 12)**2/40) - c*x(t - 20)"
    flow, times = kz.Flow(kz.Model.from_equations(equation, parameters={"c": 0.01})), np.linspace(0.0, 20.0, 5)
    pulse = [quad(lambda t: np.exp(-((t - 12.0) ** 2) / 40.0), 0.0, end, epsabs=1e-13)[0] for end in times]
    np.testing.assert_allclose(flow.trajectory(np.zeros(1), times)[:, 0], pulse, rtol=0, atol=1e-10)
    # A pulse that no step of a delay's 64th part follows was passed over: it is refused.
    late = kz.Flow(kz.Model.from_equations("x' = exp(-(t - 230)**2) - 0.01*x(t - 100)"))
    with pytest.raises(FlowError, match="changes much faster than its delay"):
        late.trajectory(np.zeros(1), np.linspace(0.0, 300.0, 4))
