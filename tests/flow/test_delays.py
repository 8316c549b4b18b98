"""Equations with delays against closed forms: exponentials, and polynomials by the method of steps."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import kapitza as kz
from kapitza.errors import FlowError, KapitzaError, ModelError, ParseError
from kapitza.flow.delayed import Past
from kapitza.flow.stepper import Stepper


def retarded(delay=1.0):
    return kz.Model.from_equations("x' = -a*x(t - tau)", parameters={"a": 1.0, "tau": delay})


def steps_solution(times):
    """x' = -x(t - 1), x = 1 for t <= 0: Σ (-1)^k (t - k + 1)^k / k! over k with t >= k - 1."""
    total = np.zeros_like(times)
    for k in range(40):
        total += np.where(
            times >= k - 1, (-1.0) ** k * np.clip(times - (k - 1), 0.0, None) ** k / math.factorial(k), 0.0
        )
    return total


def test_retarded_equation_against_polynomials_by_steps():
    times = np.linspace(0, 9.7, 300)
    found = kz.Flow(retarded()).trajectory([1.0], times)[:, 0]
    assert np.abs(found - steps_solution(times)).max() < 1e-12


def test_retarded_exponential_stays_exponential():
    rate = brentq(lambda s: s + 0.3 * np.exp(-0.7 * s), -1.0, 0.0)
    model = retarded(0.7).with_values(a=0.3)
    times = np.linspace(0, 30, 200)
    found = kz.Flow(model).trajectory({"x": f"exp({rate!r}*t)"}, times)[:, 0]
    assert found == pytest.approx(np.exp(rate * times), rel=1e-10)


@pytest.mark.parametrize(("c", "a"), [(0.5, 0.3), (-0.9, -0.4), (-1.2, 0.3)])
def test_neutral_exponential_stays_exponential(c, a):
    """x' = c x'(t - τ) + a x with the past e^{λt}, λ = c λ e^{-λτ} + a."""
    tau = 0.4

    def characteristic(s):
        return s - c * s * np.exp(-s * tau) - a

    grid = np.linspace(-3, 3, 400)
    values = characteristic(grid)
    at = np.flatnonzero(values[:-1] * values[1:] < 0)[-1]
    rate = brentq(characteristic, grid[at], grid[at + 1], xtol=1e-15)
    model = kz.Model.from_equations("x' = c*x'(t - tau) + a*x", parameters={"c": c, "a": a, "tau": tau})
    times = np.linspace(0, 4, 100)
    found = kz.Flow(model).trajectory({"x": f"exp({rate!r}*t)"}, times)[:, 0]
    # Rounding of the past grows like |c|^(t/τ) where that exceeds 1.
    assert found == pytest.approx(np.exp(rate * times), rel=1e-10)


def test_jumps_of_the_rate_fall_on_the_delays():
    """x' = x'(t - 1)/2 + 1 from a constant past: x' = 2 - 2^-k on [k, k + 1), exactly."""
    model = kz.Model.from_equations("x' = x'(t - tau)/2 + 1", parameters={"tau": 1.0})
    past = kz.Flow(model).dense([0.0], 0.0, 6.0)
    for k in range(6):
        inside = np.linspace(k, k + 1, 7)[:-1]
        assert past(inside, derivative=1)[:, 0] == pytest.approx(2 - 0.5**k, abs=1e-14)
    assert past(6.0)[0] == pytest.approx(sum(2 - 0.5**k for k in range(6)), abs=1e-13)


def test_second_order_delayed_rate_and_two_delays():
    """x'' = -x - x'(t - τ) + x(t - 2τ)/2 with the past of a complex root stays that motion."""
    tau = 0.5

    def h(s):
        return s**2 + 1 + s * np.exp(-s * tau) - 0.5 * np.exp(-2 * s * tau)

    root = 0.3 + 1.2j
    for _ in range(60):
        slope = (h(root + 1e-7) - h(root - 1e-7)) / 2e-7
        root -= h(root) / slope
    assert abs(h(root)) < 1e-12
    s, w = float(root.real), float(root.imag)
    model = kz.Model.from_equations("x'' = -x - x'(t - tau) + x(t - 2*tau)/2", parameters={"tau": tau})
    past = {
        "x": f"exp({s!r}*t)*cos({w!r}*t)",
        "x'": f"exp({s!r}*t)*({s!r}*cos({w!r}*t) - {w!r}*sin({w!r}*t))",
    }
    times = np.linspace(0, 5, 60)
    found = kz.Flow(model).trajectory(past, times)[:, 0]
    assert found == pytest.approx(np.exp(s * times) * np.cos(w * times), abs=1e-10 * np.exp(abs(s) * 5))


def test_neutral_equation_of_second_order_knows_the_delayed_acceleration():
    """M y'' + K y + m y''(t - τ) = 0 grows at its characteristic root."""
    model = kz.Model.from_equations(
        "M*y'' + C*y' + K*y + m*y''(t - tau) = 0",
        parameters={"M": 0.2, "C": 0.1, "K": 200.0, "m": 0.27, "tau": 0.01},
        start={"y": 0.001, "y'": 0.0},
    )
    times = np.linspace(0.0, 0.4, 4001)
    speed = kz.Flow(model).trajectory([0.001, 0.0], times)[:, 1]
    late = times > 0.2
    envelope = np.maximum.reduceat(np.abs(speed[late]), np.arange(0, late.sum(), 200))
    rate = np.polyfit(np.arange(envelope.size) * 0.02, np.log(envelope), 1)[0]
    leading = kz.rig.delay_stability(0.2, 0.1, 200.0, 0.27, 0.01).rate
    assert rate == pytest.approx(leading, rel=0.03)


def test_going_on_with_memory_is_going_on():
    flow = kz.Flow(retarded())
    whole = flow.dense([1.0], 0.0, 7.3)
    first = flow.dense([1.0], 0.0, 2.6)
    assert isinstance(first, Past)
    later = flow.dense(first, 2.6, 7.3)
    times = np.linspace(0, 7.3, 50)
    assert np.array_equal(whole(times), later(times))
    assert flow.propagate([1.0], 0.0, 2.5, tangents=False).state == pytest.approx(first(2.5))


def test_forcing_in_time_and_text_round_trip(tmp_path):
    model = kz.Model.from_equations(
        "x'' + 0.4*x' + x + 0.2*x(t - tau) = cos(w*t)", parameters={"tau": 0.3, "w": 1.7}, period="2*pi/w", name="late"
    )
    path = tmp_path / "late.toml"
    kz.write_model(model, path)
    again = kz.read_model(path)
    assert again.equations == model.equations
    times = np.linspace(0, 120, 2000)
    found = kz.Flow(again).trajectory([0.0, 0.0], times)[:, 0]
    s = 1.7j
    response = 1 / (s**2 + 0.4 * s + 1 + 0.2 * np.exp(-0.3 * s))
    late = times > 110
    assert found[late] == pytest.approx((response * np.exp(s * times[late])).real, abs=1e-8)


def test_simulate_gives_records_of_models_with_delays():
    model = retarded()
    times = np.linspace(0, 9.7, 300)
    record = kz.simulate(model, [1.0], t=times)
    assert np.abs(record["x"] - steps_solution(times)).max() < 1e-12
    first = kz.Flow(model).dense([1.0], 0.0, 2.6)
    later = kz.simulate(model, first, t=np.linspace(2.6, 9.0, 40))
    assert np.abs(later["x"] - steps_solution(np.linspace(2.6, 9.0, 40))).max() < 1e-12
    noisy = kz.simulate(model, {"x": "1 + 0*t"}, t=times, noise=0.1, seed=3)
    assert np.std(noisy["x"] - record["x"]) == pytest.approx(0.1, rel=0.15)
    forced = kz.Model.from_equations(
        "x'' + 0.4*x' + x + 0.2*x(t - tau) = cos(w*(t - tau))",
        parameters={"tau": 0.3, "w": 1.7}, period="2*pi/w", start={"x": 0.0, "x'": 0.0},
    )  # fmt: skip
    strobed = kz.simulate(forced, periods=60, samples_per_period=8)
    s = 1.7j
    response = np.exp(-0.3 * s) / (s**2 + 0.4 * s + 1 + 0.2 * np.exp(-0.3 * s))
    assert strobed.period == pytest.approx(2 * np.pi / 1.7)
    assert strobed["x"][-9:] == pytest.approx((response * np.exp(s * strobed.time[-9:])).real, abs=1e-8)
    with pytest.raises(ModelError, match="no excitation period"):
        kz.simulate(model, [1.0], periods=3)


def test_long_runs_keep_no_more_of_the_past_than_they_need(monkeypatch):
    """Cut into stretches of 50 segments a run is the same, to the last bit."""
    model = kz.Model.from_equations("x' = r*x*(1 - x(t - tau))", parameters={"tau": 1.0, "r": 2.1})
    times = np.linspace(0, 90, 31)
    whole = kz.Flow(model).trajectory([0.5], times)
    monkeypatch.setattr("kapitza.flow.delayed.STRETCH", 50)
    kept = []
    recent = Past.recent
    monkeypatch.setattr(Past, "recent", lambda self, length: kept.append(recent(self, length)) or kept[-1])
    assert np.array_equal(kz.Flow(model).trajectory([0.5], times), whole)
    assert len(kept) > 1
    assert kept[-1].end - kept[-1].start < 6.0


def test_delays_longer_than_the_run_and_much_shorter():
    assert kz.Flow(retarded(50.0)).trajectory([1.0], [0.0, 10.0])[-1, 0] == pytest.approx(-9.0)
    rate = brentq(lambda s: s + np.exp(-1e-3 * s), -2.0, 0.0)
    found = kz.Flow(retarded(1e-3)).trajectory({"x": f"exp({rate!r}*t)"}, [0.0, 2.0])[-1, 0]
    assert found == pytest.approx(np.exp(2 * rate), rel=1e-11)
    with pytest.raises(FlowError, match="leave so short a delay out"):
        kz.simulate(retarded(1e-9), [1.0], t=np.linspace(0, 10, 5))
    with pytest.raises(ModelError, match="Without delay write the term at the present time"):
        kz.simulate(retarded(0.0), [1.0], t=[0.0, 1.0])


def test_pasts_that_a_polynomial_does_not_follow_are_resolved_or_refused():
    """x(t) = 1 - [sin 200(t - 1) - sin(-200)]/200 on the first delay after cos 200t."""
    flow, times = kz.Flow(retarded()), np.linspace(0, 1, 9)
    found = flow.trajectory({"x": "cos(200*t)"}, times)[:, 0]
    assert found == pytest.approx(1 - (np.sin(200 * (times - 1)) + math.sin(200)) / 200, abs=1e-12)
    for past in ("Abs(t + 0.3)", "cos(20000*t)", "1/(t + 0.501)"):
        with pytest.raises(KapitzaError, match="kink, or changes too fast"):
            flow.trajectory({"x": past}, times)
    with pytest.raises(KapitzaError, match=r"not finite at t = -0\.5"):
        flow.trajectory({"x": "1/(t + 0.5)"}, times)


def test_going_on_with_other_parameters_begins_at_the_end_of_the_past():
    flow = kz.Flow(retarded())
    past = flow.dense([1.0], 0.0, 2.6)
    with pytest.raises(FlowError, match=r"made with other parameters.*t0 = past\.end = 3"):
        flow.dense(past, 2.6, 5.0, {"a": 2.0})
    # x(3 + s) = x(3) - 2 ∫ x over [2, 2 + s], and x there is known.
    later = flow.dense(past, past.end, 4.0, {"a": 2.0})
    nodes, weights = np.polynomial.legendre.leggauss(8)
    exact = steps_solution(np.array([3.0]))[0] - 2 * 0.5 * weights @ steps_solution(2.5 + 0.5 * nodes)
    assert later(4.0)[0] == pytest.approx(exact, abs=1e-12)
    other = kz.Flow(kz.Model.from_equations("z' = -z(t - tau)", parameters={"tau": 1.0}))
    with pytest.raises(FlowError, match="take one of this model"):
        other.dense(past, 3.0, 4.0)


def test_blow_up_is_an_error_and_no_hang():
    model = kz.Model.from_equations("x' = x(t - tau)**2 + x**2", parameters={"tau": 0.5})
    with pytest.raises(FlowError, match=r"blew up|needs steps below"):
        kz.Flow(model).trajectory([1.0], np.linspace(0, 5, 10))


def test_periodic_orbits_by_a_state_are_refused_in_words():
    model = kz.Model.from_equations("y'' + 0.1*y' + y = -0.2*y(t - tau)", parameters={"tau": 1.0})
    for method in (kz.Shooting(), kz.Collocation()):
        with pytest.raises(ModelError, match="periodic orbits, monodromy and multipliers by a state do not exist"):
            kz.solve_orbit(model, [1.0, 0.0], period=6.0, method=method)


def test_what_does_not_exist_is_refused_in_words():
    model = kz.Model.from_equations(
        "x'' + x' + x(t - tau) = cos(t)", parameters={"tau": 0.3}, period="2*pi", start={"x": 0.1, "x'": 0.0}
    )
    flow = kz.Flow(model)
    with pytest.raises(ModelError, match="its state is a piece of its past"):
        flow.propagate([0.1, 0.0], 0.0, 1.0)
    for attempt in (
        lambda: flow.strobe([0.1, 0.0], 3),
        lambda: flow.section([0.1, 0.0], "x", 2),
        lambda: flow.propagate_many([[0.1, 0.0]], 0.0, 1.0),
        lambda: kz.solve_orbit(model),
        lambda: kz.find_orbits(model, max_period=1),
        lambda: kz.Flow(model, wrt=("tau",)),
    ):
        with pytest.raises(KapitzaError, match=r"delay|past"):
            attempt()
    with pytest.raises(FlowError, match="forwards only"):
        flow.propagate([0.1, 0.0], 1.0, 0.0, tangents=False)
    with pytest.raises(ModelError, match=r"delay of .* is -0\.3"):
        flow.trajectory([0.1, 0.0], [0.0, 1.0], {"tau": -0.3})


def test_notation_of_past_values():
    with pytest.raises(ParseError, match=r"k\*\(\.\.\.\) for a product"):
        kz.Model.from_equations("x' + k(x + 1) = 0", parameters={"k": 1.0})
    with pytest.raises(ParseError, match="time to come"):
        kz.Model.from_equations("x' + x(t + 1) = 0")
    with pytest.raises(ModelError, match=r'uses "k\(t - 1\)"'):
        kz.Model.from_equations("x' + k(t - 1)*x = 0", parameters={"k": 1.0})
    with pytest.raises(ModelError, match="no common measure"):
        kz.Flow(
            kz.Model.from_equations("x' = -x(t - a) - x(t - b)", parameters={"a": 1.0, "b": math.sqrt(2)})
        ).trajectory([1.0], [0.0, 1.0])
    with pytest.raises(ModelError, match="switches"):
        kz.Flow(kz.Model.from_equations("x' = -sign(x) - x(t - 1)"))
    with pytest.raises(ModelError, match="switches"):
        kz.Flow(kz.Model.from_equations("x' = -x(t - 1) + sign(t - 2)"))
    pair = kz.Model.from_equations("x' = -x(t - (a + b))", parameters={"a": 0.25, "b": 0.75})
    assert kz.Flow(pair).trajectory([1.0], np.linspace(0, 3, 5))[:, 0] == pytest.approx(
        steps_solution(np.linspace(0, 3, 5)), abs=1e-12
    )


SWITCHED = [
    "sign(x(t - 1))",
    "abs(x'(t - 1))",
    "max(x(t - 1), 0)",
    "Heaviside(x(t - 1) - x)",
    "Piecewise((1, x(t - 1) > k), (0, True))",
    "min(sign(max(x(t - 1), 0)), 0.5)",
]


@pytest.mark.parametrize("law", SWITCHED)
def test_switches_on_past_values_are_refused(law, tmp_path):
    """x' = -sign(x(t - 1)) from 0.5 has x(3.5) = 1 by the method of steps; 0 came out as nobody saw the switch."""
    forced = kz.Model.from_equations("x'' + 0.1*x' + x = cos(t)", parameters={"k": 0.3}, period="2*pi")
    model = kz.Model.from_equations(f"x'' + 0.1*x' + x + k*{law} = cos(t)", parameters={"k": 0.3}, period="2*pi")
    record = kz.simulate(forced, [0.5, 0.0], periods=4, samples_per_period=32)
    kz.write_model(model, tmp_path / "model.toml")
    entries = [
        lambda: kz.simulate(model, [0.5, 0.0], t=[0.0, 3.5]),
        lambda: kz.simulate(kz.read_model(tmp_path / "model.toml"), [0.5, 0.0], t=[0.0, 3.5]),
        lambda: kz.Flow(model).dense([0.5, 0.0], 0.0, 3.5),
        lambda: kz.solve_orbit(model, [0.5, 0.0]),
        lambda: kz.find_orbits(model),
        lambda: model.equilibrium({"x": 0.1, "x'": 0.0}),
        lambda: model.linearise({"x": 0.1, "x'": 0.0}),
        lambda: Stepper(model),
        *(
            lambda method=method: kz.identify(model, record, free=["k"], method=method)
            for method in (None, kz.HarmonicFit(), kz.ShootingFit(), kz.OrbitFit())
        ),
    ]
    for entry in entries:
        with pytest.raises(KapitzaError, match=r"delay|past|t - 1"):
            entry()


def test_a_switch_that_never_changes_needs_no_event():
    """max(x(t - 1), 0) >= 0 always holds: x' = -1."""
    model = kz.Model.from_equations("x' = -Piecewise((1, max(x(t - 1), 0) >= 0), (0, True))")
    assert kz.simulate(model, [0.5], t=[0.0, 3.5])["x"][-1] == pytest.approx(-3.0, abs=1e-13)
