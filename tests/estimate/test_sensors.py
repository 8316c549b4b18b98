"""Sensors as they are: gains, offsets, drifts, delays, moving bases, rates alone, limits; values of one recording."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import IdentifiabilityError, KapitzaError

TIMES = np.arange(1200) * 0.05
FREE = ["c", "k", "k3"]
MODEL = kz.Model.from_equations(
    "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
    parameters={"c": 0.1, "k": 1.0, "k3": 0.5, "F": 0.8, "w": 1.3},
    period="2*pi/w",
    start={"x": 1.0, "x'": 0.0},
)
OFF = MODEL.with_values(c=0.13, k=0.7, k3=0.65)


@pytest.fixture(scope="module")
def clean():
    return kz.simulate(MODEL, t=TIMES)


def readings(seed=1, noise=0.01, **channels):
    rng = np.random.default_rng(seed)
    noisy = {name: values + noise * rng.normal(size=TIMES.size) for name, values in channels.items()}
    return kz.Record.from_arrays(TIMES, noisy, period=MODEL.period, phase=0.0)


def assert_right(fit, expected):
    for name, value in expected.items():
        assert abs(fit[name] - value) < 4 * fit.deviations[name], name
        assert fit.deviations[name] < 0.05 * max(abs(value), 0.1), name


TRUE = {"c": 0.1, "k": 1.0, "k3": 0.5}


def test_gain_offset_and_drift_are_found_with_the_parameters(clean):
    record = readings(volt=2.0 * clean["x"] + 0.3 + 0.01 * TIMES)
    sensor = kz.Sensor("x", "gain offset drift", gain=1.7)
    fit = kz.identify(OFF, record, FREE, kz.ShootingFit(outputs={"volt": sensor}))
    assert_right(fit, {**TRUE, "volt_gain": 2.0, "volt_offset": 0.3, "volt_drift": 0.01})


def test_known_gain_and_offset_are_used(clean):
    sensor = kz.Sensor("x", gain=2.0, offset=0.3)
    fit = kz.identify(OFF, readings(volt=2.0 * clean["x"] + 0.3), FREE, kz.ShootingFit(outputs={"volt": sensor}))
    assert_right(fit, TRUE)
    assert "volt_gain" not in fit.values


def test_delay_of_a_sensor():
    late = kz.simulate(MODEL, t=np.concatenate([[0.0], TIMES[1:] - 0.04]))["x"]
    record = readings(noise=0.005, y=late).samples(slice(1, None))
    fit = kz.identify(MODEL, record, FREE, kz.ShootingFit(outputs={"y": kz.Sensor("x", unknown=["delay"])}))
    assert_right(fit, {**TRUE, "y_delay": 0.04})
    assert fit.units["y_delay"] == "s"


def test_laser_on_a_moving_base_whose_velocity_is_a_channel(clean):
    base = np.sin(2 * TIMES)
    record = readings(laser=clean["x'"] + 0.5 * base).with_channel("vb", base)
    fit = kz.identify(OFF, record, FREE, kz.ShootingFit(outputs={"laser": "x' + vb/2"}))
    assert_right(fit, TRUE)
    check = kz.validate(fit, record, parts=["prediction"])
    assert np.median(check.prediction.fit_misfit) < 1.3


def test_measured_signal_of_the_model_in_an_output():
    signal = kz.Signal("vb", TIMES, np.sin(2 * np.pi * 10 * TIMES / 60.0), period=60.0, degree=3)
    model = kz.Model.from_equations(
        "x'' + c*(x' - vb) + k*x + k3*x**3 = 0", parameters=TRUE, signals=[signal], start={"x": 1.0, "x'": 0.0}
    )
    run = kz.simulate(model, x0=[1.0, 0.0], t=TIMES)
    rng = np.random.default_rng(1)
    seen = run["x'"] + signal(TIMES) + 0.01 * rng.normal(size=TIMES.size)
    record = kz.Record.from_arrays(TIMES, {"laser": seen}, period=60.0, phase=0.0)
    fit = kz.identify(model.with_values(k=1.1, k3=0.45), record, FREE, kz.ShootingFit(outputs={"laser": "x' + vb"}))
    assert_right(fit, TRUE)


@pytest.mark.parametrize("seed", range(4))
def test_rate_alone_from_values_thirty_per_cent_off(clean, seed):
    factors = 1 + 0.3 * np.random.default_rng(seed).choice([-1, 1], 3)
    start = MODEL.with_values(**{n: MODEL.values[n] * f for n, f in zip(FREE, factors, strict=True)})
    fit = kz.identify(start, readings(seed, **{"x'": clean["x'"]}), FREE, kz.ShootingFit())
    assert_right(fit, TRUE)


def test_integrated_accelerometer_with_offset_and_drift(clean):
    record = readings(v=clean["x'"] + 0.2 + 0.05 * TIMES)
    fit = kz.identify(OFF, record, FREE, kz.ShootingFit(outputs={"v": kz.Sensor("x'", "offset drift")}))
    assert_right(fit, {**TRUE, "v_offset": 0.2, "v_drift": 0.05})


def test_readings_at_the_ends_of_the_range_are_left_out(clean):
    record = readings(x=clean["x"])
    cut = kz.Record.from_arrays(TIMES, {"x": np.clip(record["x"], -0.9, 0.9)}, period=MODEL.period, phase=0.0)
    fit = kz.identify(MODEL, cut, FREE, kz.ShootingFit(outputs={"x": kz.Sensor("x", limits=(-0.9, 0.9))}))
    assert_right(fit, TRUE)
    lost = int((np.abs(cut["x"]) >= 0.9).sum())
    assert lost > 100
    assert fit.likelihood.readings == TIMES.size - lost
    blind = kz.identify(MODEL, cut, FREE, kz.ShootingFit(throw=False))
    assert abs(blind["k3"] - 0.5) > 20 * fit.deviations["k3"]


def test_accelerometer_in_plain_notation(clean):
    x, v = clean["x"], clean["x'"]
    record = readings(acc=0.8 * np.cos(1.3 * TIMES) - 0.1 * v - x - 0.5 * x**3)
    fit = kz.identify(MODEL.with_values(c=0.12, k3=0.55), record, FREE, kz.ShootingFit(outputs={"acc": "x''"}))
    assert_right(fit, TRUE)


@pytest.mark.parametrize("method", ["shooting", "auto"])
def test_accelerometer_of_a_body_with_dry_friction(method):
    """A force drives a body that slips and sticks; only x'' is measured, and no rate of sign(x') is a pulse."""
    times = np.arange(1500) * 2e-3
    force = 3 * np.sin(2 * np.pi * (4 * times + 3 * times**2))
    true = {"m": 0.6, "c": 2.0, "k": 3000.0, "mu": 1.0}
    model = kz.Model.from_equations(
        "m*x'' + c*x' + k*x + mu*sign(x') = F", parameters=true, signals=[kz.Signal("F", times, force, degree=3)]
    )
    motion = kz.simulate(model, [0.0, 0.0], t=times)
    x, v = motion["x"], motion["x'"]
    assert (v == 0).sum() > 20
    exact = np.where(v == 0, 0.0, (force - 2.0 * v - 3000.0 * x - np.sign(v)) / 0.6)
    noisy = exact + 0.05 * np.random.default_rng(3).normal(size=times.size)
    record = kz.Record.from_arrays(times, {"acc": noisy}, phase=0.0)
    off = model.with_values(m=0.7, c=3.0, k=2500.0, mu=0.6)
    shooting = kz.ShootingFit(outputs={"acc": "x''"})
    chosen = shooting if method == "shooting" else kz.Automatic(shooting=shooting)
    fit = kz.identify(off, record, list(true), chosen)
    for name, value in true.items():
        assert fit.interval(0.95)["low"][name] < value < fit.interval(0.95)["high"][name], name
        assert fit.deviations[name] < 0.1 * value, name


def test_accelerometers_need_no_first_guess():
    """Without values the rates are integrals of the accelerations, and a regression starts the fit."""
    times = np.arange(1200) * 3e-3
    force = 3 * np.sin(2 * np.pi * (4 * times + 1.5 * times**2))
    true = {"m": 0.6, "c": 2.0, "k": 3000.0, "k3": 8e6}
    model = kz.Model.from_equations(
        "m*x'' + c*x' + k*x + k3*x**3 = F", parameters=true, signals=[kz.Signal("F", times, force, degree=3)]
    )
    motion = kz.simulate(model, [0.0, 0.0], t=times)
    exact = (force - 2.0 * motion["x'"] - 3000.0 * motion["x"] - 8e6 * motion["x"] ** 3) / 0.6
    noisy = exact + 0.01 * exact.std() * np.random.default_rng(3).normal(size=times.size) + 0.2
    record = kz.Record.from_arrays(times, {"acc": noisy}, phase=0.0)
    shooting = kz.ShootingFit(outputs={"acc": kz.Sensor("x''", "offset")})
    unknown = model.with_values(**dict.fromkeys(true, float("nan")))
    fit = kz.identify(unknown, record, list(true), kz.Automatic(shooting=shooting))
    assert fit.method == "auto (integrated accelerations → ShootingFit)"
    for name, value in {**true, "acc_offset": 0.2}.items():
        assert fit.interval(0.99)["low"][name] < value < fit.interval(0.99)["high"][name], name
        assert fit.deviations[name] < 0.05 * value, name


def test_unknowns_of_sensors_before_the_experiment():
    linear = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 1.0})
    found = kz.identifiability(linear, outputs={"volt": kz.Sensor("x", "gain")})
    assert found.determined == ("c", "k")
    assert kz.identifiability(MODEL, outputs={"volt": kz.Sensor("x", "gain")}, free=FREE).complete


def test_saturated_laser_on_a_moving_base(clean):
    """The range is that of the readings, not of what is left when the base is taken off."""
    base = np.sin(2 * TIMES)
    shown = np.clip(readings(laser=clean["x'"] + base)["laser"], -1.1, 1.1)
    record = kz.Record.from_arrays(TIMES, {"laser": shown, "vb": base}, period=MODEL.period, phase=0.0)
    lost = int((np.abs(shown) >= 1.1).sum())
    assert lost > 100
    method = kz.ShootingFit(outputs={"laser": kz.Sensor("x' + vb", limits=(-1.1, 1.1))})
    fit = kz.identify(MODEL, record, FREE, method)
    assert_right(fit, TRUE)
    assert fit.likelihood.readings == TIMES.size - lost


def late_by(delay):
    """What a sensor reads that is late, from when on it reads the motion at all."""
    seen = delay <= TIMES
    path = kz.simulate(MODEL, t=np.concatenate([[0.0], TIMES[seen][1:] - delay]))["x"]
    values = path + 0.005 * np.random.default_rng(1).normal(size=path.size)
    first = float(TIMES[seen][1])
    return kz.Record.from_arrays(TIMES[seen][1:], {"y": values[1:]}, period=MODEL.period, phase=first % MODEL.period)


def test_long_delays_are_followed_or_told():
    """A third of a radian is followed to the noise; more than that is told."""
    method = kz.ShootingFit(outputs={"y": kz.Sensor("x", "delay", delay=0.2)})
    fit = kz.identify(MODEL, late_by(0.3), FREE, method)
    assert_right(fit, {**TRUE, "y_delay": 0.3})
    assert not any("late by" in text for text in fit.warnings)
    method = kz.ShootingFit(outputs={"y": kz.Sensor("x", delay=1.0)}, throw=False)
    fit = kz.identify(MODEL, late_by(1.0), FREE, method)
    assert any("late by 1 s" in text for text in fit.warnings)


def test_known_drift_is_taken_off_for_the_weak_form(clean):
    record = readings(noise=0.002, y=2.0 * clean["x"] + 0.3 + 0.05 * TIMES)
    sensor = kz.Sensor("x", gain=2.0, offset=0.3, drift=0.05)
    fit = kz.identify(MODEL, record, FREE, kz.HarmonicFit(outputs={"y": sensor}))
    for name, value in TRUE.items():
        assert abs(fit[name] - value) < 4 * fit.deviations[name]


def test_every_recording_has_an_amplitude_of_its_own(clean):
    other = kz.simulate(MODEL.with_values(F=0.5), t=TIMES)
    records = [readings(1, x=clean["x"]), readings(2, x=other["x"])]
    for method in (kz.ShootingFit(), kz.HarmonicFit()):
        fit = kz.identify(MODEL, records, [*FREE, "F"], method, own=["F"])
        assert_right(fit, {**TRUE, "F_0": 0.8, "F_1": 0.5})
        assert "F" not in fit.values
        assert "F  " not in str(fit)


def test_offset_of_its_own_in_every_recording(clean):
    records = [readings(1, y=clean["x"] + 0.1), readings(2, y=clean["x"] - 0.2)]
    method = kz.ShootingFit(outputs={"y": kz.Sensor("x", "offset")})
    fit = kz.identify(MODEL, records, FREE, method, own=["y_offset"])
    assert_right(fit, {**TRUE, "y_offset_0": 0.1, "y_offset_1": -0.2})


def test_a_sensor_without_an_offset_is_nothing_to_warn_of(clean):
    method = kz.ShootingFit(outputs={"y": kz.Sensor("x", "offset drift")})
    fit = kz.identify(MODEL, readings(3, y=clean["x"]), FREE, method)
    assert abs(fit["y_offset"]) < 4 * fit.deviations["y_offset"]
    assert not any("standard error" in text for text in fit.warnings)


def test_unknown_gain_of_a_linear_system_is_refused_with_the_reason():
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 1.0})
    record = kz.Record.from_arrays(TIMES, {"y": np.exp(-0.05 * TIMES) * np.cos(TIMES)})
    with pytest.raises(IdentifiabilityError, match="only c, k"):
        kz.identify(model, record, ["c", "k"], kz.ShootingFit(outputs={"y": kz.Sensor("x", "gain")}))


def test_a_fit_with_sensors_is_saved_and_loaded(clean, tmp_path):
    method = kz.ShootingFit(outputs={"volt": kz.Sensor("x", "offset")})
    fit = kz.identify(MODEL, readings(volt=clean["x"] + 0.3), FREE, method)
    kz.save(fit, tmp_path / "fit.nc")
    again = kz.load(tmp_path / "fit.nc")
    assert again.values == fit.values
    assert again.sensors == fit.sensors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kz.Sensor("x", "ofset"), 'no unknown "ofset"'),
        (lambda: kz.Sensor("x", gain=0.0), "reads nothing"),
        (lambda: kz.Sensor("x", offset=float("nan")), "finite number"),
        (lambda: kz.Sensor("x", limits=(1.0, -1.0)), "the lower one first"),
    ],
)
def test_wrong_sensors_are_refused(make, message):
    with pytest.raises(kz.KapitzaError, match=message):
        make()


def test_value_of_an_error_that_no_sensor_has_is_refused():
    sensor = kz.Sensor("x", gain=1.5, offset=(0.2, 0.1))
    assert [sensor.value(name) for name in ("gain", "offset", "delay")] == [1.5, 0.2, 0.0]
    with pytest.raises(KapitzaError, match=r'A sensor has no error "ofset".*offset'):
        sensor.value("ofset")


def test_wrong_uses_are_refused(clean):
    record = readings(x=clean["x"], vb=np.sin(TIMES))
    with pytest.raises(kz.KapitzaError, match="Signal of the model"):
        kz.identify(MODEL, record, FREE, kz.ShootingFit(outputs={"x": "x*vb"}))
    for word in ("gain", "offset"):
        with pytest.raises(kz.KapitzaError, match="needs sensors that are known"):
            kz.identify(MODEL, record, FREE, kz.HarmonicFit(outputs={"x": kz.Sensor("x", word)}))
    with pytest.raises(kz.KapitzaError, match=r"a delay of 0\.1, which HarmonicFit cannot undo"):
        kz.identify(MODEL, record, FREE, kz.HarmonicFit(outputs={"x": kz.Sensor("x", delay=0.1)}))
    with pytest.raises(kz.KapitzaError, match="Signal of the model"):
        kz.identify(MODEL, record, FREE, kz.ShootingFit(outputs={"x": kz.Sensor("x + vb", delay=0.1)}))
    with pytest.raises(kz.KapitzaError, match="known factor"):
        kz.identify(MODEL, record, ["c/k", "k3"], kz.ShootingFit(outputs={"x": "x + c*vb"}))
    with pytest.raises(kz.KapitzaError, match="no such channel"):
        kz.identify(MODEL, [record, record.select(["x"])], FREE, kz.ShootingFit(outputs={"x": "x + vb"}))
    orbit = kz.solve_orbit(MODEL, [1.0, 0.0], throw=False)
    for sensor in (kz.Sensor("x", limits=(-1, 1)), kz.Sensor("x", drift=0.1)):
        with pytest.raises(kz.KapitzaError, match="not in orbits"):
            kz.identify(MODEL, orbit, FREE, kz.OrbitFit(outputs={"x": sensor}))
    milli = kz.Record.from_arrays(TIMES, {"y": 1e3 * clean["x"]}, units={"y": "mm"}, period=MODEL.period, phase=0.0)
    for sensor in (kz.Sensor("x", limits=(-900, 900)), kz.Sensor("x", "gain", offset=3.0)):
        with pytest.raises(kz.KapitzaError, match="in the one or the other"):
            kz.identify(MODEL, milli, FREE, kz.ShootingFit(outputs={"y": sensor}))
    with pytest.raises(kz.KapitzaError, match="one recording only"):
        kz.identify(MODEL, record, [*FREE, "F"], kz.ShootingFit(), own=["F"])
    with pytest.raises(kz.KapitzaError, match="not in free"):
        kz.identify(MODEL, [record, record], FREE, kz.ShootingFit(), own=["F"])
