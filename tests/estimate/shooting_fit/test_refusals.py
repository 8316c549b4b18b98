"""Bad input: a clear refusal before work starts, or the right answer all the same."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz

FREE = ["sigma", "rho", "beta"]


@pytest.fixture(scope="module")
def record():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(1300) * 0.01)
    rng = np.random.default_rng(0)
    return kz.Record.from_arrays(
        np.arange(800) * 0.01, {c: run[c][500:] + 0.05 * rng.normal(size=800) for c in run.channels}
    )


def part(record, count, channels=("x", "y", "z")):
    return kz.Record.from_arrays(record.time[:count], {c: record[c][:count] for c in channels})


def test_record_at_rest():
    still = kz.Record.from_arrays(np.arange(100) * 0.1, {"x": np.ones(100), "y": np.ones(100)})
    with pytest.raises(kz.KapitzaError, match="No channel changes"):
        kz.identify(kz.library.lorenz(), still, FREE, kz.ShootingFit())


def test_fewer_readings_than_unknowns(record):
    with pytest.raises(kz.KapitzaError, match="2 samples cannot determine 6 unknowns"):
        kz.identify(kz.library.lorenz(), part(record, 2, ["x"]), FREE, kz.ShootingFit())


def test_as_many_readings_as_unknowns_leave_no_noise_to_estimate(record):
    with pytest.raises(kz.KapitzaError, match=r"6 samples determine 6 unknowns.*give the noise"):
        kz.identify(kz.library.lorenz(), part(record, 2), FREE, kz.ShootingFit())
    fit = kz.identify(kz.library.lorenz(), part(record, 2), FREE, kz.ShootingFit(noise=0.05))
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]


def test_few_readings_do_not_make_one_channel_exact(record):
    """Nine readings, six unknowns: the three channels share what is left, none is trusted to rounding."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        run = kz.simulate(kz.library.lorenz(), x0=[5.0, 6.0, 20.0], t=np.arange(3) * 0.01)
        few = kz.Record.from_arrays(run.time, {c: run[c] + 0.1 * rng.normal(size=3) for c in run.channels})
        fit = kz.identify(kz.library.lorenz(), few, FREE, kz.ShootingFit(throw=False))
        assert min(fit.noise.values()) > 1e-3


def test_three_samples_give_wide_intervals_that_hold_the_truth(record):
    fit = kz.identify(kz.library.lorenz(), part(record, 3), FREE, kz.ShootingFit())
    interval = fit.interval(0.999)
    assert interval.loc["rho", "low"] < 28 < interval.loc["rho", "high"]
    assert fit.deviations["sigma"] > 0.1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"spacing": 0}, "spacing.* = 0; give a whole number, 1 or more"),
        ({"softness": -1.0}, "softness = -1; give a number, more than 0"),
        ({"bridge": "no"}, "bridge = 'no'; give True or False"),
        ({"outputs": "x"}, "outputs is 'x'; give a table"),
        ({"initial": 1.0}, "initial = 1.0; give a table"),
        ({"hold_back": 1.0}, "hold_back.* = 1; give a number between 0 and 1"),
        ({"hold_back": 0.999}, "hold back less"),
        ({"noise": {"x": np.inf}}, r"noise\['x'\] = inf; give a finite number"),
        ({"noise": {"u": 1.0}}, 'noise names "u"'),
        ({"initial": {"w": 1.0}}, "not a state"),
        ({"initial": {"x": np.nan}}, r"initial\['x'\] = nan; give a finite number"),
        ({"outputs": {"w": "x"}}, 'No channel "w"'),
        ({"outputs": {"x": 3}}, "depends on nothing"),
        ({"outputs": {"x": "3"}}, "depends on nothing"),
        ({"spacing": 2.5}, "spacing.* = 2.5.*whole number"),
        ({"max_iterations": 10.5}, "max_iterations = 10.5.*whole number"),
        ({"noise": -0.1}, "finite number, 0 or above"),
        ({"process_noise": 0.1}, "process_noise = 0.1; give True or False or a table"),
        ({"process_noise": {"x": -0.1}}, "none negative"),
        ({"process_noise": {}}, "one positive"),
    ],
)
def test_settings_that_cannot_work(record, settings, words):
    with pytest.raises(kz.KapitzaError, match=words):
        kz.identify(kz.library.lorenz(), record, FREE, kz.ShootingFit(**settings))


@pytest.mark.parametrize("method", [None, kz.ShootingFit()])
def test_free_parameter_with_a_typing_error(record, method):
    with pytest.raises(kz.KapitzaError, match=r'"roh".*Did you mean "rho"'):
        kz.identify(kz.library.lorenz(), record, ["roh"], method)


def test_one_free_parameter_may_be_a_plain_name_for_the_chain_and_the_bound(record):
    fit = kz.identify(kz.library.lorenz(), record, "rho")
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(100) * 0.01)
    assert list(kz.cramer_rao(kz.library.lorenz(), run, {"x": 0.1}, "rho").index) == ["rho"]


def test_class_in_place_of_settings(record):
    with pytest.raises(kz.KapitzaError, match="the class ShootingFit; give an Estimator"):
        kz.identify(kz.library.lorenz(), record, FREE, kz.ShootingFit)


def test_one_number_is_the_noise_of_every_channel(record):
    fit = kz.identify(kz.library.lorenz(), record, FREE, kz.ShootingFit(noise=0.05))
    assert fit.noise == {"x": 0.05, "y": 0.05, "z": 0.05}


def test_dead_sensor_beside_a_good_one_is_named():
    model = kz.Model.from_equations("phi'' + d*phi' + w2*sin(phi) = 0", parameters={"d": 0.1, "w2": 4.0})
    run = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(1000) * 0.02)
    noise = 0.01 * np.random.default_rng(1).normal(size=1000)
    dead = kz.Record.from_arrays(run.time, {"phi": run["phi"] + noise, "phi'": np.zeros(1000)})
    with pytest.raises(kz.KapitzaError, match=r"phi' reads 0 throughout.*record.select"):
        kz.identify(model, dead, ["d", "w2"], kz.ShootingFit())


def test_start_that_is_not_a_number(record):
    with pytest.raises(kz.KapitzaError, match="Give rho a starting value"):
        kz.identify(kz.library.lorenz().with_values(rho=np.nan), record, FREE, kz.ShootingFit())


def test_start_outside_its_bounds_is_moved_to_them(record):
    model = kz.library.lorenz()
    bounded = tuple(kz.Parameter("rho", 50.0, bounds=(20.0, 40.0)) if p.name == "rho" else p for p in model.parameters)
    fit = kz.identify(replace(model, parameters=bounded), record, FREE, kz.ShootingFit())
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]


def test_one_sensor_recorded_twice_is_told(record):
    twice = kz.Record.from_arrays(record.time, {**{c: record[c] for c in record.channels}, "copy": record["x"]})
    fit = kz.identify(kz.library.lorenz(), twice, FREE, kz.ShootingFit(outputs={"copy": "x"}))
    assert any("copy" in text for text in fit.warnings)


def test_parameter_that_does_not_act():
    model = kz.Model.from_equations("x'' + d*x' + w**2*x + q*x*0 = 0", parameters={"d": 0.1, "w": 1.0, "q": 2.0})
    time = np.arange(400) * 0.05
    noise = 0.01 * np.random.default_rng(1).normal(size=400)
    record = kz.Record.from_arrays(time, {"x": np.exp(-0.05 * time) * np.cos(time) + noise})
    with pytest.raises(kz.KapitzaError, match="q may change and no output shows it"):
        kz.identify(model, record, ["d", "w", "q"], kz.ShootingFit())


def test_one_free_parameter_may_be_a_plain_name(record):
    fit = kz.identify(kz.library.lorenz().with_values(rho=24.0), record, "rho", kz.ShootingFit())
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]


def pendulum(**marks):
    model = kz.library.parametric_pendulum()
    clean = kz.simulate(model, periods=40, samples_per_period=20, seed=1)
    noise = 0.01 * np.random.default_rng(2).normal(size=clean.size)
    marks = {"angles": ["phi"], "period": clean.period, "phase": 0.0, **marks}
    return model, kz.Record.from_arrays(clean.time, {"phi": clean["phi"] + noise}, **marks)


def test_angle_that_was_not_declared_is_taken_modulo_a_turn():
    model, record = pendulum(angles=[])
    fit = kz.identify(model.with_values(l=0.3), record, ["l", "k3"], kz.ShootingFit())
    assert abs(fit.values["l"] - model.values["l"]) < 4 * fit.deviations["l"]


def test_wrong_period_of_the_excitation_is_told_in_words():
    model, record = pendulum(period=2 * np.pi / 9.9)
    with pytest.raises(kz.KapitzaError, match=r"cannot follow|out of step"):
        kz.identify(model.with_values(omega=9.9), record, ["l", "k3"], kz.ShootingFit(max_iterations=20))


def test_long_record_goes_through_a_window_first():
    """The window's parameters and noise carry the whole record, with few nodes from the start."""
    model = kz.library.lorenz()
    run = kz.simulate(model, x0=[1, 1, 1], t=np.arange(13000) * 0.01)
    rng = np.random.default_rng(3)
    record = kz.Record.from_arrays(run.time, {c: run[c] + 0.1 * rng.normal(size=run.size) for c in run.channels})
    fit = kz.identify(model.with_values(sigma=14.0, rho=20.0, beta=4.0), record, FREE, kz.ShootingFit(window=1500))
    errors = np.array([(fit.values[n] - model.values[n]) / fit.deviations[n] for n in FREE])
    assert np.abs(errors).max() < 4
    assert fit.motion.times.size < run.size / 3


ROTOR = kz.Model.from_equations("phi'' + d*phi' + w2*sin(phi) = u", parameters={"d": 0.3, "w2": 4.0, "u": 3.0})


def turning(**marks):
    """A rotor that turns over again and again, read modulo a turn; the model does not call phi an angle."""
    run = kz.simulate(ROTOR, x0=[0.0, 4.0], t=np.arange(600) * 0.02)
    readings = run["phi"] + 0.01 * np.random.default_rng(4).normal(size=600)
    return kz.Record.from_arrays(run.time, {"phi": (readings + np.pi) % (2 * np.pi) - np.pi}, **marks)


def test_angle_of_the_record_that_the_model_takes_as_a_plain_coordinate():
    fit = kz.identify(ROTOR.with_values(d=0.2, w2=3.5), turning(angles=["phi"]), ["d", "w2"], kz.ShootingFit())
    for name in ("d", "w2"):
        assert abs(fit.values[name] - ROTOR.values[name]) < 4 * fit.deviations[name]


def test_jumps_by_a_turn_that_nobody_declared_are_named():
    method = kz.ShootingFit(max_iterations=15)
    with pytest.raises(kz.KapitzaError, match='"phi" jumps by about a turn'):
        kz.identify(ROTOR.with_values(d=0.2, w2=3.5), turning(), ["d", "w2"], method)


def test_recorded_force_that_is_not_the_one_in_the_model():
    knots = np.linspace(0, 6.0, 61)[:-1]
    signal = kz.Signal("F", knots, np.sin(2 * np.pi * knots / 6), 6.0, degree=1)
    model = kz.Model.from_equations("m*x'' + c*x' + 3*x = F", parameters={"m": 1.0, "c": 0.3}, signals=[signal])
    run = kz.simulate(model, x0=[0.0, 0.0], t=np.arange(600) * 0.05)
    x, force = run["x"] + 0.005 * np.random.default_rng(2).normal(size=run.size), signal(run.time)
    right = kz.Record.from_arrays(run.time, {"x": x, "F": force + 0.01}, period=6.0, phase=0.0)
    fit = kz.identify(model.with_values(m=1.2), right, ["m", "c"], kz.ShootingFit())
    assert abs(fit.values["m"] - 1.0) < 4 * fit.deviations["m"]
    wrong = kz.Record.from_arrays(run.time, {"x": x, "F": 2 * force}, period=6.0, phase=0.0)
    with pytest.raises(kz.KapitzaError, match='channel "F" differs from the signal "F"'):
        kz.identify(model, wrong, ["m", "c"], kz.ShootingFit())


def test_record_without_noise_gives_no_warning_of_its_residuals():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(800) * 0.01)
    fit = kz.identify(kz.library.lorenz(), run, FREE, kz.ShootingFit())
    assert fit.warnings == ()


def test_outputs_beside_a_curved_one_give_the_states_they_see():
    """x is seen through its square alone; y by a gain and an offset, z directly."""
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(1300) * 0.01)
    noise = 0.1 * np.random.default_rng(5).normal(size=(3, 800))
    late = {c: run[c][500:] for c in "xyz"}
    channels = {"u": late["x"] ** 2 + noise[0], "v": 2 * late["y"] + 3 + noise[1], "z": late["z"] + noise[2]}
    record = kz.Record.from_arrays(np.arange(800) * 0.01, channels)
    start = kz.library.lorenz().with_values(sigma=7.0, rho=35.0, beta=2.0)
    fit = kz.identify(start, record, FREE, kz.ShootingFit(outputs={"u": "x**2", "v": "2*y + 3"}))
    errors = [(fit.values[n] - kz.library.lorenz().values[n]) / fit.deviations[n] for n in FREE]
    assert np.abs(errors).max() < 4


def test_bound_needs_the_noise_by_channel():
    states = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(100) * 0.01)
    with pytest.raises(kz.KapitzaError, match=r"noise is 0\.1; give a table"):
        kz.cramer_rao(kz.library.lorenz(), states, 0.1, FREE)
