"""Trajectories against closed forms, cited numbers and hand-written right-hand sides."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from kapitza import Flow, Map, Model, library, simulate
from kapitza.errors import KapitzaError
from kapitza.flow import count_builds
from kapitza.flow.simulation import start_of


def periodic_point(flow: Flow, guess, periods: int):
    """A small Newton iteration on the strobe map, angles on the circle."""
    x, span = np.array(guess, float), periods * flow.period()
    for _ in range(12):
        run = flow.propagate(x, 0.0, span)
        gap = run.state - x - 2 * np.pi * run.turns
        x = x - np.linalg.solve(run.jacobian - np.eye(2), gap)
    assert np.abs(gap).max() < 1e-11
    return x, np.sort_complex(np.linalg.eigvals(flow.propagate(x, 0.0, span).jacobian))


# Values of the orbits and multipliers: ORBITS pendulum, an independent Newton shooting at tolerance 1e-13.
@pytest.mark.parametrize(
    ("periods", "guess", "multipliers"),
    [
        (1, (0.0, 0.0), (-2.005, -0.480)),
        (1, (2.9668, 6.4066), (-1.709, -0.427)),
        (1, (-2.9668, -6.4066), (-1.709, -0.427)),
        (1, (0.1912, 11.4138), (0.039, 18.48)),
        (1, (np.pi, 0.0), (0.026, 37.47)),
        (2, (2.9802, 3.3295), (-2.496, -0.213)),
        (2, (-2.1028, -3.8203), (-94.4, -0.007)),
        (4, (-2.3647, 7.6839), (-24.94, -0.0141)),
    ],
)
def test_multipliers_of_the_crank_pendulum(periods, guess, multipliers):
    flow = Flow(library.parametric_pendulum())
    x, found = periodic_point(flow, guess, periods)
    assert x == pytest.approx(guess, abs=2e-4)
    for value, cited in zip(found.real, multipliers, strict=True):
        digits = len(str(cited).split(".")[1])
        assert value == pytest.approx(cited, abs=0.5001 * 10.0**-digits)


def test_harmonic_oscillator_is_exact():
    model = Model.from_equations("x'' + w**2*x = 0", coordinates=["x"], parameters={"w": 3.0}, name="oscillator")
    flow = Flow(model, wrt=("w",))
    t = 7.3
    run = flow.propagate([1.0, 0.5], 0.0, t)
    c, s = np.cos(3 * t), np.sin(3 * t)
    assert run.state == pytest.approx([c + 0.5 * s / 3, -3 * s + 0.5 * c], abs=1e-13)
    assert run.jacobian == pytest.approx(np.array([[c, s / 3], [-3 * s, c]]), abs=1e-13)
    assert run.sensitivity[0, 0] == pytest.approx(-t * s + 0.5 * (t * c / 3 - s / 9), abs=1e-12)
    assert run.log_determinant == pytest.approx(0.0, abs=1e-13)


def test_quadratic_damping_equals_its_closed_form():
    """v' = -k v|v| has v = v0/(1 + k |v0| t); through a reversal of an added constant force the switch flips."""
    model = Model.from_equations("v' = -k*v*abs(v) + F", coordinates=["v"], parameters={"k": 2.0, "F": 0.0})
    flow = Flow(model)
    assert flow.propagate([-3.0], 0.0, 4.0).state[0] == pytest.approx(-3 / (1 + 2 * 3 * 4), rel=1e-14)
    # v' = F - k v|v| from v < 0: tan until v = 0, then tanh.
    k, force, v0, root = 2.0, 0.5, -3.0, np.sqrt(0.25)
    until_zero = np.arctan(-v0 / root) / (k * root)
    expected = root * np.tanh(k * root * (2.5 - until_zero))
    assert flow.propagate([v0], 0.0, 2.5, {"F": force}).state[0] == pytest.approx(expected, rel=1e-13)


def oleo_rates(t, y, v, force):
    u, temperature, rate = y
    friction = (v["theta7"] + v["theta8"] * u**2) * np.arctan(v["theta9"] * rate)
    gas = v["theta4"] * temperature / (1 + v["theta5"] * u + v["theta6"] * temperature)
    rest = v["theta3"] * abs(rate) * rate + gas + friction + v["theta10"]
    heat = v["theta11"] * (temperature + v["theta12"]) + v["theta13"] * temperature * rate / (1 + v["theta5"] * u)
    return [rate, -heat, (force(t) - rest) / v["theta1"] - v["theta2"]]


def base_excited_rates(t, y, v):
    a, b, p, q = y
    c, s = np.cos(b - a), np.sin(b - a)
    mass = np.array([[1.0, v["B11"] * c], [v["B21"] * c, 1.0]])
    first = -v["B11"] * q**2 * s + (v["B12"] + v["B13"] * np.cos(t) + v["B14"] * np.sin(t)) * np.sin(a)
    first += v["C11"] * np.sign(p) - v["C12"] * (q - p)
    second = v["B21"] * p**2 * s + (v["B22"] + v["B23"] * np.cos(t) + v["B24"] * np.sin(t)) * np.sin(b)
    second += v["C2"] * (q - p)
    return [p, q, *np.linalg.solve(mass, [-first, -second])]


def planar_rates(t, y, v):
    """Two point pendulums, l1 = λ l2 and m1 + m2 = μ m2: λμ φ1'' + cos φ2'' ..., gravity through ω1² = g/l1."""
    a, b, p, q = y
    lam, mu, w2 = v["lambda_"], v["mu"], v["omega1"] ** 2
    c, s = np.cos(a - b), np.sin(a - b)
    mass = np.array([[lam * mu, c], [c, 1 / lam]])
    right = [-(q**2) * s - lam * mu * w2 * np.sin(a), p**2 * s - w2 * np.sin(b)]
    return [p, q, *np.linalg.solve(mass, right)]


def test_oleo_equals_a_hand_written_right_hand_side():
    """From knot to knot, as the piecewise linear force has kinks; compared up to the step of the force."""
    model = library.oleo(values="estimation")
    force, v, x = model.excitation.signals[0], model.values, start_of(model)
    knots = force.knots[force.knots <= 0.1 + 1e-12]
    y = x
    for a, b in pairwise(knots):
        y = solve_ivp(oleo_rates, (a, b), y, "Radau", args=(v, force), rtol=1e-12, atol=1e-14).y[:, -1]
    ours = Flow(model).propagate(x, 0.0, knots[-1], tangents=False).state
    assert np.abs(ours - y).max() / np.abs(y).max() < 1e-9
    assert ours == pytest.approx(y, rel=1e-7)


@pytest.mark.parametrize(
    ("system", "rates"),
    [(library.base_excited_double_pendulum, base_excited_rates), (library.planar_double_pendulum, planar_rates)],
    ids=["base-excited", "planar"],
)
def test_double_pendulums_equal_hand_written_right_hand_sides(system, rates):
    model = system()
    x = start_of(model)
    reference = solve_ivp(rates, (0.0, 2.0), x, "DOP853", args=(model.values,), rtol=1e-13, atol=1e-14).y[:, -1]
    found = Flow(model).propagate(x, 0.0, 2.0, tangents=False).state
    assert found == pytest.approx(reference, rel=1e-9, abs=1e-9)


def test_a_late_period_is_as_accurate_as_the_first():
    flow = Flow(library.parametric_pendulum(), wrt=("m",))
    period, x = flow.period(), np.array([0.5, 1.0])
    first = flow.propagate(x, 0.0, period)
    late = flow.propagate(x, 2**20 * period, (2**20 + 1) * period)
    # t0 itself is only known to its last digit, 1e-10 s; without wrapping the error is 1e-9 and grows.
    assert late.state == pytest.approx(first.state, abs=5e-9)
    many_turns = np.array([2 * np.pi * 10_000, 0.0])
    turned = flow.propagate(x + many_turns, 0.0, period)
    assert turned.jacobian == pytest.approx(first.jacobian, abs=1e-9)
    assert turned.state - many_turns == pytest.approx(first.state, abs=1e-9)


def test_strobe_does_not_depend_on_how_far_it_has_run():
    """A block of the strobe restarted from its wrapped state gives the same samples, at period 32 and at 2^15."""
    flow = Flow(library.parametric_pendulum())
    strobe = flow.strobe([0.5, 1.0], 2**15 + 8)
    for start in (32, 2**15):
        again = flow.strobe(strobe.states[start], 8)
        assert again.states == pytest.approx(strobe.states[start : start + 9], abs=1e-9)
    assert strobe.states[:, 0].min() >= -np.pi
    assert strobe.states[:, 0].max() < np.pi


def test_strobe_trajectory_and_propagate_agree():
    flow = Flow(library.parametric_pendulum())
    x, period = np.array([0.5, 1.0]), flow.period()
    strobe = flow.strobe(x, 5, samples_per_period=4, phase=0.3 * period)
    assert strobe.continuous == pytest.approx(flow.trajectory(x, strobe.times), abs=1e-11)
    end = flow.propagate(x, strobe.times[0], strobe.times[-1])
    assert strobe.continuous[-1] == pytest.approx(end.state, abs=1e-11)
    states, jacobians, _ = flow.trajectory_tangents(x, strobe.times)
    assert jacobians[-1] == pytest.approx(end.jacobian, rel=1e-9, abs=1e-9 * np.abs(end.jacobian).max())
    assert flow.dense(x, 0.0, 4 * period)(2.3) == pytest.approx(flow.trajectory(x, [0.0, 2.3])[-1], abs=1e-11)
    assert states[-1] == pytest.approx(end.state, abs=1e-11)


LAWS = ["abs(x')*x'", "max(x - 0.2, 0)", "abs(cos(1.3*t) - x)*b", "abs(abs(x) - b)", "log(1 + abs(x*x'))"]


@pytest.mark.parametrize("law", LAWS)
def test_backwards_through_continuous_switches(law: str):
    """A run and the run back: the start again, and inverse tangents; a batch may hold both directions."""
    model = Model.from_equations(
        f"x'' + c*x' + x + 0.3*x**3 + 0.4*({law}) = cos(1.3*t)", parameters={"c": 0.2, "b": 0.3}
    )
    flow, start = Flow(model, wrt=("c", "b")), np.array([0.7, -0.2])
    there = flow.propagate(start, 0.4, 7.0)
    back = flow.propagate(there.state, 7.0, 0.4)
    np.testing.assert_allclose(back.state, start, atol=1e-12)
    np.testing.assert_allclose(back.jacobian @ there.jacobian, np.eye(2), atol=1e-11)
    np.testing.assert_allclose(back.jacobian @ there.sensitivity + back.sensitivity, 0.0, atol=1e-11)
    assert back.log_determinant == pytest.approx(-there.log_determinant, abs=1e-11)
    assert not there.events
    many = flow.propagate_many([start, there.state], [0.4, 7.0], [7.0, 0.4], tangents=True)
    np.testing.assert_allclose(many.state, [there.state, back.state], atol=1e-12)
    np.testing.assert_allclose(many.sensitivity, [there.sensitivity, back.sensitivity], atol=1e-11)
    np.testing.assert_allclose(many.log_determinant, [there.log_determinant, back.log_determinant], atol=1e-11)


def test_backwards_returns_to_the_start():
    flow = Flow(library.parametric_pendulum())
    x, period = np.array([0.5, 1.0]), flow.period()
    there = flow.propagate(x, 0.2, 0.2 + 2.5 * period)
    back = flow.propagate(there.state, 0.2 + 2.5 * period, 0.2)
    assert back.state == pytest.approx(x, abs=1e-10)
    assert back.jacobian @ there.jacobian == pytest.approx(np.eye(2), abs=1e-8)


def test_one_structure_compiles_once():
    model = library.duffing()
    Flow(model, wrt=("k",)).propagate([0.1, 0.1], 0.0, 1.0)
    before = count_builds()
    for k in (0.05, 0.06, 0.07):
        Flow(model.with_values(k=k), wrt=("k",)).propagate([0.1, 0.1], 0.0, 1.0)
        Flow(library.duffing(), wrt=("k",)).propagate([0.1, 0.1], 0.0, 1.0, {"k": k})
    assert count_builds() == before


def test_rates_are_the_derivative_of_the_trajectory():
    flow = Flow(library.pendulum_on_spring())
    x, h = start_of(flow.model), 2e-4
    for t in (0.0, 0.37):
        path = flow.trajectory(x, [t, t + h, t + 2 * h, t + 3 * h, t + 4 * h])
        slope = (path[0] - 8 * path[1] + 8 * path[3] - path[4]) / (12 * h)
        assert flow.rates(path[2], t + 2 * h) == pytest.approx(slope, abs=1e-6)


def test_one_time_alone_is_a_record_of_one_sample():
    model = Model.from_equations("x'' + 4*x = 0")
    record = simulate(model, [1.25, 0.0], t=[0.5])  # the start is the state at the first time
    assert record.size == 1
    assert record["x"][0] == 1.25


@pytest.mark.parametrize("odd", [{"parameters": "\u202e"}, {"parameters": ["1.4", "x"]}, {"parameters": [1.4, None]}])
def test_parameters_of_precise_iterations_that_are_not_numbers_are_named(odd):
    henon = Model.from_map({"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3})
    with pytest.raises(KapitzaError, match=r"parameters = .*decimal string"):
        Map(henon).iterate([0.1, 0.1], 3, precision="quad", **odd)
    with pytest.raises(KapitzaError, match="missing: y"):
        Map(henon).iterate({"x": "0.1"}, 3, precision="quad")


@pytest.mark.parametrize("size", [1e-7, 1e-9, 1e-12, 1e-18])
@pytest.mark.parametrize("start", [(1.0, 0.0), (0.0, 0.0)], ids=["released", "from rest"])
def test_small_motions_are_as_exact_as_large_ones(size, start):
    """The tolerance of heyoka is absolute for states below 1."""
    model = Model.from_equations("x'' = -x - 0.1*x' + a*cos(2*t) - x**3/a**2", parameters={"a": 1.0})
    times, one = np.linspace(0.0, 30.0, 61), np.array(start)
    large = Flow(model).trajectory(one, times)
    flow, x0 = Flow(model.with_values(a=size)), size * one
    several, begin, end = np.array([x0] * 9), np.zeros(9), np.full(9, 30.0)
    for path in (flow.trajectory(x0, times), flow.paths(several, np.array([times] * 9))[-1]):
        np.testing.assert_allclose(path / size, large, rtol=0, atol=1e-12)
    ends = [flow.propagate(x0, 0.0, 30.0, tangents=False).state]
    ends += list(flow.propagate_many(several, begin, end, tangents=False).state)
    ends += [flow.paths(several, np.array([times[[0, -1]]] * 9))[0, -1]]
    for state in ends:
        np.testing.assert_allclose(state / size, large[-1], rtol=0, atol=1e-12)
