"""Steps of series that lack the orders which decide a step."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ellipj, ellipk

import kapitza as kz
from kapitza.flow.gaps import Gaps, has_long_step, longest_step, outruns_series
from kapitza.flow.stepper import Stepper
from kapitza.flow.system import system_of


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


@pytest.mark.parametrize("power", [9, 11, 13])
@pytest.mark.parametrize("wall", [False, True])
def test_loose_tolerances(power, wall):
    # A series of the order 9 has no term of x**9 at x = 0.
    walls = [{"surface": "2 - x", "reset": {"x'": "-x'"}}] if wall else []
    flow = kz.Flow(kz.Model.from_equations(f"x'' = -x**{power}", impacts=walls), tolerance=1e-4)
    assert np.abs(flow.trajectory(np.array([0.0, 1.0]), np.linspace(0.0, 20.0, 3))).max() < 1.5


@pytest.mark.parametrize("oscillators", [21, 33])
def test_gaps_of_large_models(oscillators):
    # Of 66 states the tangents come by columns.
    model = kz.Model.from_equations([f"x{i}'' = -x{i}**7" for i in range(oscillators)])
    flow, moves = kz.Flow(model), np.array([name.endswith("'") for name in model.states])
    start, times = np.where(moves, 1.0, 0.0), np.linspace(0.0, 10.0, 3)
    found = [flow.propagate(start, 0.0, 10.0, tangents=t).state for t in (False, True)]
    found += [flow.trajectory(start, times)[-1], flow.trajectories(start[None], times[None])[0][0, -1]]
    found += [flow.propagate_many(start[None], 0.0, 10.0, tangents=t).state[0] for t in (False, True)]
    for state in found:
        np.testing.assert_allclose(state[moves] ** 2 / 2 + state[~moves] ** 8 / 8, 0.5, rtol=0, atol=1e-12)
    one = kz.Flow(kz.Model.from_equations("x'' = -x**7")).propagate(np.array([0.0, 1.0]), 0.0, 10.0, tangents=True)
    jacobian = flow.trajectories(start[None], times[None])[1][0, -1]
    place = model.states.index("x20")
    own = [place, model.states.index("x20'")]
    np.testing.assert_allclose(jacobian[np.ix_(own, own)], one.jacobian, rtol=0, atol=1e-11)


@pytest.mark.parametrize("coupling", [0.0, 0.1])
def test_gaps_of_an_eliminated_mass_matrix(coupling):
    rows = [" + ".join(f"{4 if i == j else 'e'}*q{j}''" for j in range(4)) for i in range(4)]
    equations = [f"{row} = -q{i}**7" for i, row in enumerate(rows)]
    model = kz.Model.from_equations(equations, parameters={"e": coupling})
    assert model.structure.steps
    flow, moves = kz.Flow(model), np.array([name.endswith("'") for name in model.states])
    start, mass = np.where(moves, 1.0, 0.0), np.where(np.eye(4), 4.0, coupling)
    for tangents in (False, True):
        state = flow.propagate(start, 0.0, 20.0, tangents=tangents).state
        energy = state[moves] @ mass @ state[moves] / 2 + (state[~moves] ** 8).sum() / 8
        assert energy == pytest.approx(mass.sum() / 2, abs=1e-11)


def test_a_series_with_gaps_beside_a_wall():
    model = kz.Model.from_equations(
        "x'' = -x**7", impacts=[{"surface": "2 - x", "reset": {"x'": "-x'"}}], start={"x": 0.0, "x'": 1.0}
    )
    x, v = kz.Flow(model).propagate(np.array([0.0, 1.0]), 0.0, 20.0, model.vector).state
    assert v**2 / 2 + x**8 / 8 == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("power", [3, 5, 6, 7, 9, 11])
@pytest.mark.parametrize("offset", [0.0, 1e-16, 1e-6, 1e-3, 0.5])
@pytest.mark.parametrize("at", [0.0, 1.0])
def test_energy_near_an_inflection_of_the_potential(power, offset, at):
    # The offset leaves small coefficients in the gaps, and x = 0.5 leads through them again and again.
    even = power % 2 == 0
    rate = f"-(x - a)**{power}" if not even else f"-(x - a)**{power - 1}*sqrt((x - a)**2 + 1)"
    flow = kz.Flow(kz.Model.from_equations(f"x'' = {rate}", parameters={"a": at}))
    start, end = np.array([at + offset, 1.0]), 40.0

    def energy(x, v):
        if not even:
            return v**2 / 2 + (x - at) ** (power + 1) / (power + 1)
        return v**2 / 2 + quad(lambda u: u ** (power - 1) * np.sqrt(u**2 + 1), 0.0, x - at, epsabs=1e-13)[0]

    times = np.linspace(0.0, end, 6)
    found = [flow.propagate(start, 0.0, end).state, flow.propagate(start, 0.0, end, tangents=True).state]
    found += list(flow.trajectory(start, times))
    found += list(flow.propagate_many(np.array([start] * 11), np.zeros(11), np.full(11, end)).state)
    found += list(flow.paths(np.array([start] * 3), np.array([times] * 3))[:, -1])
    found += list(flow.trajectories(np.array([start] * 3), np.array([times] * 3))[0][:, -1])
    for x, v in found:
        assert energy(x, v) == pytest.approx(energy(*start), abs=1e-12)


@pytest.mark.parametrize("tolerance", [1e-9, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15])
def test_pendulum_released_at_a_right_angle(tolerance):
    # Its series has every fourth order only: with 12 or 16 orders the last two vanish.
    flow = kz.Flow(kz.Model.from_equations("phi'' = -sin(phi)"), tolerance=tolerance)
    times = np.linspace(0.0, 30.0, 61)
    sine = ellipj(times + ellipk(0.5), 0.5)[0] * np.sqrt(0.5)
    found = flow.trajectory(np.array([np.pi / 2, 0.0]), times)
    np.testing.assert_allclose(np.sin(found[:, 0] / 2), sine, rtol=0, atol=1e3 * tolerance)
    end = flow.propagate(np.array([np.pi / 2, 0.0]), 0.0, 30.0, tangents=False).state
    assert np.sin(end[0] / 2) == pytest.approx(sine[-1], abs=1e3 * tolerance)


def test_integrals_along_a_line():
    flow = kz.Flow(kz.Model.from_equations(["k' = 1", "a' = k", "x' = cos(a)", "y' = cos(k**2)", "z' = sin(k*k*k)"]))
    assert flow.model.states == ("k", "a", "x", "y", "z")
    many = flow.propagate_many(np.zeros((9, 5)), np.zeros(9), np.full(9, 4.0)).state
    ends = [flow.propagate(np.zeros(5), 0.0, 4.0).state, *many]
    ends += [flow.trajectory(np.zeros(5), np.linspace(0.0, 4.0, 3))[-1]]
    for end in ends:
        for value, drive in zip(end[2:], [lambda k: np.cos(k**2 / 2), lambda k: np.cos(k**2), lambda k: np.sin(k**3)],
                                strict=True):  # fmt: skip
            assert value == pytest.approx(quad(drive, 0.0, 4.0, epsabs=1e-12, limit=500)[0], abs=1e-11)


@pytest.mark.parametrize("stop", ["", " - 2*max(x - 1e3, 0)"])
def test_a_weak_spring_fills_no_gap(stop):
    flow = kz.Flow(kz.Model.from_equations(f"x'' = -1e-9*x - x**7{stop}"))
    x, v = flow.propagate(np.array([0.0, 1.0]), 0.0, 20.0).state
    assert v**2 / 2 + 5e-10 * x**2 + x**8 / 8 == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(
    "weak", ["+ e*cos(2*t)", "+ 1e4*e*exp(-t/1000)", "+ 1e12*e*sin(1e-9*t)", "+ e*y", "+ e*y**2"], ids=str
)
def test_weak_drives_fill_no_gap(weak):
    # The part of the drive in the motion is 1e-7 or less after 30 s, but so small a coefficient decides no step.
    model = kz.Model.from_equations(["y' = -y", f"x'' = -x**7 {weak}"], parameters={"e": 1e-12})
    flow, start = kz.Flow(model), np.array([1.0, 0.0, 1.0])
    small = flow.trajectory(start, np.linspace(0.0, 30.0, 3001))[-1]
    np.testing.assert_allclose(flow.trajectory(start, np.linspace(0.0, 30.0, 2))[-1], small, rtol=0, atol=1e-11)
    stepped = start
    for t in np.arange(0.0, 30.0, 0.05):
        stepped = flow.propagate(stepped, t, t + 0.05, tangents=False).state
    np.testing.assert_allclose(small, stepped, rtol=0, atol=1e-11)


def test_rates_that_fill_gaps():
    def rate(equations, values=None):
        model = kz.Model.from_equations(equations, parameters=values or {})
        return Gaps(system_of(model)).filling_rate(model.vector)

    assert rate("x'' = -x**3") == 0.0
    assert rate("x'' = -c*x' - x**3", {"c": 0.5}) == pytest.approx(0.5)
    assert rate("x'' = -c*x' - k*x - x**3", {"c": 0.0, "k": 9.0}) == pytest.approx(3.0)
    assert rate("x'' = -k*x - x'**3", {"k": 9.0}) == pytest.approx(3.0)
    assert rate("x'' = -x**3 + f*cos(t)", {"f": 0.0}) == 0.0
    assert rate("x'' = -x**3 + f*cos(t)", {"f": 0.1}) == pytest.approx(0.1)
    assert rate("x'' = -x**3 + f*sin(w*t)", {"f": 0.1, "w": 0.03}) == pytest.approx(0.003)
    # What another state fills enters by its factor.
    assert rate(["y' = -y", "x'' = -x**7 + e*y"], {"e": 1e-5}) == pytest.approx(1e-5)
    assert rate(["y' = -y", "x'' = -x**7 + e*y"], {"e": 4.0}) == pytest.approx(1.0)
    assert rate(["x' = y", "y' = -2*x"]) == np.inf
    # The slowest part of a model counts.
    assert rate(["x' = -x**3 - 4*x", "y'' = -y**5"]) == 0.0
    system = system_of(kz.Model.from_equations("x'' = -c*x' - x**3", parameters={"c": 0.5}))
    rows = Gaps(system).filling_rates(np.array([[0.5], [0.0], [2.0]]))
    np.testing.assert_allclose(rows, [0.5, 0.0, 2.0])


def test_long_steps():
    assert has_long_step(0.0, 1.0, 1.0, 1)
    assert has_long_step(0.0, -10.0, 3.0, 10)
    assert not has_long_step(0.0, 10.0, 1.5, 10)
    assert not has_long_step(1.0, 10.0, 3.0, 10)
    # The end of the run cuts the last step, which is not counted.
    assert longest_step(-10.0, 0.0, 1, 0.0) == 10.0
    assert longest_step(10.0, 1.0, 5, 0.0) == 6.0
    assert longest_step(10.0, 1.0, 10, -2.5) == 2.5


def test_a_step_that_outruns_its_series():
    # 1/(1 + s⁸) has the radius 1, and no terms of the orders 18 and 19.
    series = np.zeros((1, 20))
    series[0, ::8] = [1.0, -1.0, 1.0]
    assert not outruns_series(series, np.array(0.2))
    assert outruns_series(series, np.array(0.5))
    assert outruns_series(np.array([[1.0, 2.0, -3.0] + [0.0] * 17]), np.array(0.1))


@pytest.mark.parametrize("members", [1, 8, 20])
@pytest.mark.parametrize("length", [0.3, 1.0, 2.5, 7.0])
def test_short_runs_beside_a_gap(members, length):
    # Of one to a few steps: each in lanes, with and without tangents, and from sample to sample.
    flow = kz.Flow(kz.Model.from_equations("x'' = -x**7"))
    starts = np.column_stack((np.linspace(0.0, 1e-3, members), np.linspace(1.0, 1.2, members)))
    times = np.tile(np.linspace(0.0, length, 3), (members, 1))

    def energy(states):
        return states[:, 1] ** 2 / 2 + states[:, 0] ** 8 / 8

    wanted = energy(starts)
    for tangents in (False, True):
        run = flow.propagate_many(starts, np.zeros(members), np.full(members, length), tangents=tangents)
        np.testing.assert_allclose(energy(run.state), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(energy(flow.trajectories(starts, times)[0][:, -1]), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(energy(flow.paths(starts, times[:, ::2])[:, -1]), wanted, rtol=0, atol=1e-12)
    alone = [flow.propagate(s, 0.0, length, tangents=False).state for s in starts]
    np.testing.assert_allclose(energy(np.array(alone)), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [0.1, 0.5, 2.0])
def test_the_stepper_of_rigs_passes_no_gap(length):
    stepper = Stepper(kz.Model.from_equations("x'' = -x**7"))
    stepper.begin(np.array([0.0, 1.0]), 0.0)
    for _ in range(round(20.0 / length)):
        stepper.step(np.empty(0), length)
    stepper.release()
    x, v = stepper.state
    assert v**2 / 2 + x**8 / 8 == pytest.approx(0.5, abs=1e-9)
