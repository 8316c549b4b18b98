"""Predictions beyond a recording: bands hold further samples, from the first one on."""

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import kapitza as kz
from kapitza.estimate import last_state
from kapitza.study import predicted_table

NOISE, SIZE, FURTHER = 0.01, 400, 80


@pytest.fixture(scope="module")
def oscillator():
    return kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.05, "k": 4.0, "q": 1.0})


def recorded(model, seed):
    clean = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(SIZE + FURTHER) * 0.05)
    return clean, kz.measure(clean.select(["x"]), noise=NOISE, seed=seed)


def test_bands_hold_further_samples_from_the_start(oscillator):
    """95 % of 30 x 80 samples; samples of one record share its errors, so the share scatters by about 3 %."""
    measured, unmeasured = [], []
    for seed in range(100, 130):
        clean, record = recorded(oscillator, seed)
        fit = kz.identify(oscillator.with_values(k=4.2), record.samples(slice(0, SIZE)), free=["c", "k", "q"])
        table = predicted_table(fit, np.arange(FURTHER + 1) * 0.05, None, {})
        for name, data, found in (("x", record["x"], measured), ("x'", clean["x'"], unmeasured)):
            low, high = (np.asarray(table[f"{name} {side}"])[1:] for side in ("low", "high"))
            found.append((data[SIZE:] > low) & (data[SIZE:] < high))
            assert (high > low).all()
    for found in (measured, unmeasured):
        assert 0.87 < np.mean(found) < 0.999
        assert np.mean(found, axis=0)[:5].mean() > 0.85


def test_the_last_state_has_the_error_of_repeated_records(oscillator):
    """Root mean square error over 40 records at the true parameters, beside the standard error."""
    off, stated = [], []
    for seed in range(40):
        clean, record = recorded(oscillator, seed)
        last = last_state(oscillator, record, {}, {"x": NOISE}, ["k"])
        off.append(last.state - [clean[name][-1] for name in oscillator.states])
        stated.append(np.sqrt(np.diag(last.covariance)))
    # Forty errors give their standard deviation to 11 %.
    assert np.allclose(np.sqrt(np.mean(np.square(off), axis=0)) / np.mean(stated, axis=0), 1.0, atol=0.35)


def test_the_last_state_moves_with_a_parameter(oscillator):
    """By differences: the state found at another stiffness."""
    _, record = recorded(oscillator, 3)
    noise, step = {"x": NOISE}, 1e-3
    last = last_state(oscillator, record, {}, noise, ["k"])
    moved = [last_state(oscillator.with_values(k=4.0 + s), record, {}, noise, ["k"]).state for s in (-step, step)]
    assert np.allclose((moved[1] - moved[0]) / (2 * step), last.by_parameter[:, 0], rtol=0.05, atol=1e-3)


SENSED = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.05, "k": 4.0, "q": 1.0})
STATE_BAND = ("x (state) low", "x (state) high")


def deflected(seed):
    """Samples of a sensor with a known gain, an unknown offset and a drift; the last ones are not fitted."""
    clean = kz.simulate(SENSED, x0=[1.0, 0.0], t=np.arange(SIZE + FURTHER) * 0.05)
    noise = NOISE * np.random.default_rng(seed).normal(size=SIZE + FURTHER)
    return clean, 2.0 * clean["x"] + 0.3 + 0.02 * clean.time + noise


def sensed(seed):
    """The clean record, the samples, and the prediction after a fit of the first ones."""
    clean, samples = deflected(seed)
    record = kz.Record.from_arrays(clean.time[:SIZE], {"x": samples[:SIZE]}, units={"x": "m"})
    sensor = kz.Sensor("x", "offset drift", gain=2.0)
    fit = kz.identify(
        SENSED.with_values(k=4.2), record, free=["c", "k", "q"], method=kz.ShootingFit(outputs={"x": sensor})
    )
    return clean, samples, fit


def test_columns_are_what_the_sensor_reads_with_its_errors_and_noise():
    """95 % of 20 x 80 further samples; the states stand under their names, with their own narrower bands."""
    inside, within = [], []
    for seed in range(200, 220):
        clean, samples, fit = sensed(seed)
        table = predicted_table(fit, np.arange(FURTHER + 1) * 0.05, None, {})
        low, high, state, least, most = (
            np.asarray(table[name])[1:] for name in ("x low [m]", "x high [m]", "x (state)", *STATE_BAND)
        )
        inside.append((samples[SIZE:] > low) & (samples[SIZE:] < high))
        within.append((clean["x"][SIZE:] > least) & (clean["x"][SIZE:] < most))
        # 0.3 + drift apart from twice the state: without them no sample would be in the band.
        assert np.abs(np.asarray(table["x [m]"])[1:] - 2.0 * state).min() > 0.5
        assert (high - low > 2 * 1.96 * fit.noise["x"]).all()
    assert 0.90 < np.mean(inside) < 0.99
    assert np.mean(inside, axis=0)[:5].mean() > 0.85
    assert 0.85 < np.mean(within) < 0.999


def test_a_sensor_drifts_on_under_a_new_drive():
    """New drives count their time from the start of the prediction, the drift of the sensor from the recording."""
    time = np.arange(400) * 0.05
    drive = np.sin(1.3 * time)
    model = kz.Model.from_equations(
        "x'' + 0.4*x' + k*x = F", parameters={"k": 4.0}, signals=[kz.Signal("F", time, drive, degree=3)]
    )
    clean = kz.simulate(model, x0=[1.0, 0.0], t=time)
    read = clean["x"] + 0.5 * time + 1e-4 * np.random.default_rng(1).normal(size=time.size)
    record = kz.Record.from_arrays(time, {"x": read, "F": drive})
    fit = kz.identify(model, record, free=["k"], method=kz.ShootingFit(outputs={"x": kz.Sensor("x", "drift")}))
    formula = sp.sin(1.3 * (sp.Symbol("t", real=True) + time[-1]))
    table = predicted_table(fit, np.array([0.0, 0.05]), None, {}, drives={"F": formula})
    assert table["x"][0] == pytest.approx(read[-1], abs=2e-3)


def test_tables_have_the_units_of_the_recording(tmp_path):
    """A file in degrees: its columns and rates are in degrees again."""
    time = np.arange(400) * 0.05
    model = kz.Model.from_equations("phi'' + c*phi' + k*sin(phi) = 0", parameters={"c": 0.05, "k": 4.0})
    clean = kz.simulate(model, x0=[0.8, 0.0], t=time)
    degrees = np.degrees(clean["phi"]) + 0.05 * np.random.default_rng(2).normal(size=time.size)
    table = pd.DataFrame({"t [s]": time[:300], "phi [deg]": degrees[:300]})
    table.to_csv(tmp_path / "run.csv", index=False)
    record = kz.read(tmp_path / "run.csv")
    fit = kz.identify(model, record, free=["c", "k"], method=kz.ShootingFit())
    table = predicted_table(fit, np.arange(100) * 0.05, None, {})
    assert np.abs(np.asarray(table["phi [deg]"])[1:] - degrees[300:399]).max() < 0.5
    rates = np.degrees(clean["phi'"])
    assert np.abs(np.asarray(table["phi' [deg/s]"])[1:] - rates[300:399]).max() < 0.5
