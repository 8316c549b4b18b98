"""Simulated rigs against exact discrete-time solutions, transfer functions and the flow of the model."""

import math

import numpy as np
import pytest
from scipy.linalg import expm

import kapitza as kz
from kapitza.errors import RigError, RigLimitError
from kapitza.rig import (
    Driven,
    Feedback,
    FourierSeries,
    NoiseLevel,
    PureDelay,
    SecondOrder,
    Sensors,
    SimulatedRig,
    beam_rig,
    duffing_rig,
    pendulum_rig,
    settle_and_measure,
)


def linear_model():
    return kz.Model.from_equations("x'' + 0.3*x' + 4*x = 0", start={"x": 0.0, "x'": 0.0})


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.013])
def test_sampled_feedback_is_exact_zero_order_hold(delay):
    step, gains, count = 0.01, (5.0, 2.0), 400
    rig = SimulatedRig(linear_model(), feedback=[Feedback("x", gains, delay)], sample_time=step, ramp=0.0)
    target = FourierSeries(1.7, [0.1, 0.5, -0.2, 0.0, 0.3])
    rig.set({"x": target})
    samples = rig.run(count)
    # The same loop by matrix exponentials of (x, x', u): held values change d + f samples after they were computed.
    block = np.array([[0.0, 1.0, 0.0], [-4.0, -0.3, 1.0], [0.0, 0.0, 0.0]])
    whole = math.floor(delay / step + 1e-9)
    part = delay / step - whole
    first, rest = expm(block * part * step), expm(block * (1 - part) * step)
    state, sent, positions = np.zeros(2), [0.0] * (whole + 2), []
    for k in range(count):
        positions.append(state[0])
        error = state - np.array([target(k * step), target(k * step, 1)])
        sent.append(-gains[0] * error[0] - gains[1] * error[1])
        state = (first @ [*state, sent[-2 - whole]])[:2]
        state = (rest @ [*state, sent[-1 - whole]])[:2]
    assert np.abs(samples.values[:, 0] - positions).max() < 1e-11
    assert np.ptp(positions) > 0.3
    held = np.array([part * sent[k + 1] + (1 - part) * sent[k + 2] for k in range(count)])
    assert np.abs(samples.control[:, 0] - held).max() < 1e-11


def test_runs_continue_as_if_they_were_one():
    settings = {"sensors": Sensors(), "delay": 0.0105}
    demands = {"y": FourierSeries(6.5, [0, 0, 0, 0.01, 0]), "theta": FourierSeries(6.5, [0, 0.3, 0.1, 0, 0])}
    once, pieces = pendulum_rig(**settings), pendulum_rig(**settings)
    once.set(demands)
    pieces.set(demands)
    whole = once.run(3000)
    parts = [pieces.run(n) for n in (1, 700, 299, 2000)]
    assert np.abs(np.concatenate([p.values for p in parts]) - whole.values).max() < 1e-9
    assert [p.index for p in parts] == [0, 1, 701, 1000]


def test_actuator_follows_its_transfer_function_and_feels_the_load():
    omega, own, mass, delay, m = 13.0, 100.0, 5.0, 0.0103, 0.27
    rig = pendulum_rig(SecondOrder(own, mass, delay, "F"))
    measured = settle_and_measure(
        rig, {"y": FourierSeries(omega, [0.0, 0.01, 0.0]), "theta": FourierSeries.zero(omega)}, resolution=1e-9
    )
    s = 1j * omega
    transfer = own**2 * np.exp(-s * delay) / ((1 + m / mass) * s**2 + 2 * own * s + own**2)
    y = measured.coefficients[0]
    assert y[1] - 1j * y[2] == pytest.approx(0.01 * transfer, rel=1e-7)
    force = measured.coefficients[2]
    assert force[1] - 1j * force[2] == pytest.approx(m * omega**2 * (y[1] - 1j * y[2]), rel=1e-7)


def test_pure_delay_moves_the_demand():
    rig = pendulum_rig(PureDelay(0.0123))
    demand = FourierSeries(6.5, [0.0, 0.002, 0.001, 0.01, -0.003])
    measured = settle_and_measure(rig, {"y": demand, "theta": FourierSeries.zero(6.5)})
    assert measured.coefficients[0, :5] == pytest.approx(demand.shifted(0.0123).coefficients, abs=1e-12)


def test_beam_with_a_gap_agrees_with_the_flow():
    rig = beam_rig(gains=(0.0, 0.0))
    rig.set({"x": FourierSeries.zero(55.0)}, A=0.3, Omega=55.0)
    samples = rig.run(600)
    model = kz.rig.beam_rig().plant.model.with_values(A=0.3, Omega=55.0)
    exact = kz.Flow(model).trajectory([0.0, 0.0], 1e-3 * np.arange(600))
    assert exact[:, 0].max() > 1.2  # the gap closes
    assert np.abs(samples.values[:, 0] - exact[:, 0]).max() < 1e-9


def test_bent_switching_surfaces_agree_with_the_flow_as_flat_ones_do():
    # x² - gap² is not linear in the state: the compiled functions judge the steps instead of planes.
    settings = {"parameters": {"gap": 0.5}, "start": {"x": 0.0, "x'": 2.0}}
    for contact in ("Max(0, x**2 - gap**2)", "Max(0, x - gap)"):
        model = kz.Model.from_equations(f"x'' + 0.2*x' + 9*x + 20*{contact} = 0", **settings)
        rig = SimulatedRig(model, feedback=[Feedback("x", (0.0, 0.0))], sample_time=0.01, rest={"x": 0.0, "x'": 2.0})
        rig.set({"x": FourierSeries.zero(1.0)})
        values = rig.run(500).values[:, 0]
        exact = kz.Flow(model).trajectory([0.0, 2.0], 0.01 * np.arange(500))[:, 0]
        assert exact.max() > 0.51
        assert np.abs(values - exact).max() < 1e-9


@pytest.mark.parametrize("sample_time", [0.01, 0.05, 0.2])
def test_gaps_on_both_sides_agree_with_the_flow_however_many_are_met_in_a_sample(sample_time):
    force = "20*Max(0, x - gap) - 35*Max(0, -x - gap)"
    model = kz.Model.from_equations(
        f"x'' + 0.1*x' + 4*x + {force} = 1.5*cos(2.5*t)",
        parameters={"gap": 0.3}, period="2*pi/2.5", start={"x": 0.0, "x'": 2.0},
    )  # fmt: skip
    rig = SimulatedRig(model, feedback=[Feedback("x", (0.0, 0.0))], sample_time=sample_time, rest={"x": 0.0, "x'": 2.0})
    rig.set({"x": FourierSeries.zero(2.5)})
    count = round(20 / sample_time)
    values = rig.run(count).values[:, 0]
    exact = kz.Flow(model).trajectory([0.0, 2.0], sample_time * np.arange(count))[:, 0]
    assert exact.max() > 0.35
    assert exact.min() < -0.35
    assert np.abs(values - exact).max() < 1e-8


def test_changing_the_frequency_keeps_the_phase():
    rig = duffing_rig(gains=(0.0, 0.0))
    rig.set({"x": FourierSeries.zero(1.0)}, B=0.3, omega=1.0)
    last = rig.run(777).phases[-1]
    rig.set({"x": FourierSeries.zero(1.1)}, omega=1.1)
    after = rig.run(10).phases
    gap = (after[0] - last + np.pi) % (2 * np.pi) - np.pi
    assert gap == pytest.approx(0.02, abs=0.003)
    assert np.diff(after) == pytest.approx(1.1 * 0.02)


def test_noise_level_matches_the_spread_of_many_measurements():
    demands = {"y": FourierSeries(6.5, [0, 0, 0, 0.01, 0]), "theta": FourierSeries(6.5, [0, 0.3, 0, 0, 0])}
    rig = pendulum_rig(sensors=Sensors(noise={"theta": 3e-3, "y": 1e-4, "F": 0.01}, drop=0.01), seed=4)
    noise, sets = NoiseLevel(), []
    with rig:
        for _ in range(60):
            last = settle_and_measure(rig, demands, noise=noise)
            sets.append(last.coefficients)
    spread = np.std(sets, axis=0)
    # 60 measurements with two periods each know a standard deviation to about 10 % each; pooled over modes to 3 %.
    ratio = np.sqrt(np.mean(last.deviations**2, axis=1) / np.mean(spread**2, axis=1))
    assert ratio == pytest.approx(1.0, abs=0.2)
    assert 0 < last.lost < 0.05


def test_quantised_and_drifting_sensors():
    sensors = Sensors(quantum={"theta": 0.01}, drift={"F": 0.5})
    rig = pendulum_rig(sensors=sensors)
    rig.set({"theta": FourierSeries(6.5, [0, 0.3, 0])})
    values = rig.run(4000).values
    steps = values[:, 1] / 0.01
    assert np.abs(steps - np.round(steps)).max() < 1e-9
    assert len(np.unique(values[:, 1])) > 10
    exact = pendulum_rig(sensors=Sensors(quantum={"theta": 0.01}))
    exact.set({"theta": FourierSeries(6.5, [0, 0.3, 0])})
    drift = values[:, 2] - exact.run(4000).values[:, 2]
    assert 0.05 < np.abs(drift[-1]) < 3.0
    assert np.abs(np.diff(drift)).max() < 0.5 * math.sqrt(1e-3) * 5


def test_saturation_is_seen_and_holds_the_control():
    rig = SimulatedRig(linear_model(), feedback=[Feedback("x", (50.0, 5.0), saturation=0.5)], sample_time=0.01)
    measured = settle_and_measure(rig, {"x": FourierSeries(2.0, [0, 1.0, 0])}, extra=6)
    assert measured.saturated > 0.3
    rig.set({"x": FourierSeries(2.0, [0, 1.0, 0])})
    assert np.abs(rig.run(500).control).max() == 0.5


def test_demands_outside_limits_never_leave_the_computer():
    rig = pendulum_rig()
    with pytest.raises(RigLimitError, match=r'"y" reaches a value of 0\.4, the limit is 0\.3:'):
        rig.set({"y": FourierSeries(6.5, [0, 0.4, 0])})
    with pytest.raises(RigLimitError, match="rate of"):
        rig.set({"y": FourierSeries(60.0, [0, 0.2, 0])})
    with pytest.raises(RigError, match="safe state"):
        rig.run(10)
    shaken = duffing_rig()
    with pytest.raises(RigLimitError, match='"B" = 7'):
        shaken.set({"x": FourierSeries(1.0, [0, 0.1, 0])}, B=7.0)
    with pytest.raises(RigError, match="whole multiple"):
        shaken.set({"x": FourierSeries(1.3, [0, 0.1, 0])}, omega=1.0)
    with pytest.raises(RigError, match='no input "angle"'):
        rig.set({"angle": FourierSeries(6.5, [0, 0.1, 0])})


def test_new_demands_keep_the_rate_limit_on_the_way():
    rig = SimulatedRig(
        kz.Model.from_equations(["y'' + y = 0", "x'' + 0.3*x' + 4*x = y"], start={"y": 0.0}),
        driven=[Driven("y", limit=2.0, rate_limit=5.0)],
        sample_time=0.01,
        ramp=0.0,
    )
    rig.set({"y": FourierSeries(1.0, [1.0, 0.0, 0.0])})
    rig.run(200)
    rig.set({"y": FourierSeries(1.0, [-1.0, 0.0, 0.0])})
    path = rig.run(300).values[:, 0]
    assert path[-1] == pytest.approx(-1.0)
    assert np.abs(np.diff(path)).max() / 0.01 <= 5.0


def test_safe_state_whatever_happens():
    rig = pendulum_rig()

    def fail_in_the_middle():
        with rig:
            rig.set({"theta": FourierSeries(6.5, [0, 0.5, 0])})
            rig.run(500)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    with pytest.raises(RigError, match="safe state"):
        rig.run(1)
    rig.set({"theta": FourierSeries(6.5, [0, 0.0, 0])})
    assert np.abs(rig.run(5).values).max() < 1e-12


def test_a_runaway_is_stopped_and_named():
    rig = SimulatedRig(
        kz.Model.from_equations("x'' - x**3 = 0", start={"x": 0.0}),
        feedback=[Feedback("x", (-9.0, -9.0))],
        sample_time=0.05,
    )
    rig.set({"x": FourierSeries(1.0, [0.0, 1.0, 0.0])})
    with pytest.raises(RigError, match="ran away and was stopped"):
        rig.run(20_000)


def test_a_sensor_that_gives_nan_stops_the_rig():
    rig = pendulum_rig()
    run = rig.run

    def broken(samples):
        result = run(samples)
        result.values[17, 2] = np.nan
        return result

    rig.run = broken
    with pytest.raises(RigError, match=r'sensor "F" gave nan at sample 17'):
        settle_and_measure(rig, {"theta": FourierSeries(6.5, [0, 0.1, 0])})
    with pytest.raises(RigError, match="safe state"):
        run(1)


def test_a_rig_that_never_settles_says_so():
    # A negative damping of the loop gives an oscillation of its own that no demand repeats.
    model = kz.Model.from_equations("x'' + (x**2 - 1)*x' + 7.3*x = 0")
    rig = SimulatedRig(model, feedback=[Feedback("x", (0.0, 0.0))], sample_time=0.01, rest={"x": 0.1})
    measured = settle_and_measure(rig, {"x": FourierSeries(1.0, [0, 0.1, 0])}, longest=12)
    assert not measured.settled
    assert measured.waited == 10


def test_projection_leaves_out_lost_samples():
    series = FourierSeries(1.0, [0.2, 0.5, -0.1, 0.03, 0.7])
    from kapitza.rig.fourier import project

    phases = 1.234 + 0.0131 * np.arange(480)
    values = np.column_stack([series(phases), 2 * series(phases)])
    lost = np.random.default_rng(1).random(480) < 0.1
    values[lost] = np.nan
    found = project(values, 1.234, 0.0131, 4, lost)
    assert found[0, :5] == pytest.approx(series.coefficients, abs=1e-12)
    assert found[1, 5:] == pytest.approx(np.zeros(4), abs=1e-12)
