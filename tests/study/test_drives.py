"""Measured drives: recognised by `new`, noisy, replaced in predictions by a file or a formula."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.data import recognised_drives
from kapitza.errors import KapitzaError
from kapitza.estimate import drive_effect, with_drive_noise
from kapitza.study import drive_of, predicted_table, write_new_study
from kapitza.study.recognised import clocks, rates

TIME = np.arange(800) * 0.02
DRIVE = np.convolve(np.random.default_rng(1).normal(size=860), np.hanning(30) / 8, "same")[:800]


def rig(c=0.4, k=30.0, b=2.0):
    signal = kz.Signal("Force", TIME, DRIVE, TIME[-1] + 0.02, unit="N")
    return kz.Model.from_equations(
        "x'' + c*x' + k*x = b*Force",
        parameters={"c": c, "k": k, "b": b},
        signals=[signal],
        start={"x": 0.0, "x'": 0.0},
        name="rig",
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("drives") / "run.csv"
    x = kz.simulate(rig(), t=TIME, noise={"x": 0.002, "x'": 0.0}, seed=2)["x"]
    pd.DataFrame({"time [s]": TIME, "x [m]": x, "Force [N]": DRIVE}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("units", "drives"),
    [
        ({"x": "m", "F": "N"}, ("F",)),
        ({"x": "m", "baseAcc": "m/s^2"}, ("baseAcc",)),
        ({"x": "", "shaker_input": ""}, ("shaker_input",)),
        ({"a": "V", "b": "V"}, ()),
        ({"Force": "N"}, ()),
        ({"phi": "rad", "phi2": "rad"}, ()),
        ({"baseline": "m", "x": "m"}, ()),
        ({"Angle": "rad", "Battery": "V"}, ()),
        ({"Weg": "V", "Kraft": "V"}, ("Kraft",)),
    ],
)
def test_drives_are_told_by_name_and_unit(units, drives):
    record = kz.Record.from_arrays(TIME, {name: np.sin(TIME) for name in units}, units=units)
    assert recognised_drives(record) == drives


def test_the_written_study_finds_the_gain_of_the_drive(recording):
    path = write_new_study(recording, force=True)
    text = path.read_text(encoding="utf-8")
    assert 'drive = ["Force"]' in text
    assert "x'' + c*x' + k*x = b*Force" in text
    for word in ("# robust = true", "# measures = "):
        assert word in text
    fit = kz.read_study(path).run()["model 1"]
    for name, truth in {"c": 0.4, "k": 30.0, "b": 2.0}.items():
        assert abs(fit.values[name] - truth) < 4 * fit.deviations[name]


def test_a_drive_can_be_named_or_left_out(recording, tmp_path):
    out = tmp_path / "study.toml"
    text = write_new_study(recording, out, drive=[]).read_text(encoding="utf-8")
    assert '# drive = ["F"]' in text
    with pytest.raises(KapitzaError, match="leave at least one"):
        write_new_study(recording, out, force=True, drive=["x", "Force"])
    with pytest.raises(KapitzaError, match="Force"):
        write_new_study(recording, out, force=True, drive=["Forse"])


@pytest.fixture(scope="module")
def fit():
    record = kz.simulate(rig(), t=TIME, noise={"x": 0.002, "x'": 0.01}, seed=2)
    return kz.identify(rig(k=31.0), record, free=["k", "b"], method=kz.ShootingFit())


def test_predictions_under_a_formula_follow_it(fit):
    """The motion from rest under 2 cos 3t, beside the closed form of the linear oscillator at the estimates."""
    times, x0 = np.linspace(0.0, 4.0, 81), np.zeros(2)
    table = predicted_table(fit, times, x0, {}, drives={"Force": drive_of("Force", "2*cos(3*t)")})
    c, k, b = 0.4, fit.values["k"], 2.0 * fit.values["b"]
    gain = b / ((k - 9.0) + 3j * c)
    forced = np.real(gain * np.exp(3j * times))
    roots = np.roots([1.0, c, k])
    weights = np.linalg.solve(np.array([[1, 1], roots]), -np.array([gain.real, np.real(3j * gain)]))
    expected = forced + np.real(np.exp(np.outer(times, roots)) @ weights)
    assert np.allclose(table["x"], expected, atol=1e-9)
    assert (table["x low"] <= table["x"] + 1e-12).all()


def test_predictions_under_a_file_equal_simulations_under_its_sine(fit, tmp_path):
    """At 63 samples per oscillation straight lines would weaken the drive by (π/63)²/3, 0.08 %."""
    values = np.sin(5.0 * TIME[:300])
    pd.DataFrame({"t [s]": TIME[:300] + 7.0, "Force [N]": values}).to_csv(tmp_path / "next.csv", index=False)
    drive = drive_of("Force", str(tmp_path / "next.csv"), "N")
    times = TIME[:250]
    table = predicted_table(fit, times, np.array([0.1, 0.0]), {}, drives={"Force": drive})
    other = kz.Model.from_equations(
        "x'' + 0.4*x' + k*x = b*sin(5*t)", parameters={n: fit.values[n] for n in ("k", "b")}
    )
    assert np.allclose(table["x"], kz.simulate(other, x0=[0.1, 0.0], t=times)["x"], atol=1e-6)
    with pytest.raises(KapitzaError, match=r'"Force" lasts 5\.98 s, the prediction 8 s'):
        predicted_table(fit, np.linspace(0.0, 8.0, 11), np.zeros(2), {}, drives={"Force": drive})


def test_a_prediction_without_a_drive_says_how_to_give_one(fit):
    with pytest.raises(KapitzaError, match=r"Force was measured.*--drive NAME=FILE"):
        predicted_table(fit, TIME[:10], None, {})
    with pytest.raises(KapitzaError, match="not a measured drive"):
        predicted_table(fit, TIME[:10], None, {}, drives={"Force": drive_of("Force", "0"), "u": drive_of("u", "t")})
    with pytest.raises(KapitzaError):
        drive_of("Force", "__import__('os')")


def test_the_effect_of_noise_in_the_drive_is_that_of_repeated_experiments():
    """The root mean square error over experiments with noisy drives, beside what each fit predicts of it."""
    truth = rig()
    clean = kz.simulate(truth, t=TIME).select(["x"])
    errors, predicted, told = [], [], []
    for seed in range(4):
        noise = 0.3 * np.random.default_rng(100 + seed).normal(size=TIME.size)
        signal = replace(truth.signals[0], values=DRIVE + noise)
        model = replace(truth, excitation=replace(truth.excitation, signals=(signal,)))
        record = kz.measure(clean, noise=0.002, seed=seed).with_attributes(phase=0.0)
        fit = kz.identify(model, record, free=["c", "b"], method=kz.ShootingFit())
        effect = drive_effect(fit)
        assert effect.noise["Force"] == pytest.approx(0.3, rel=0.35)
        errors.append([fit.values[n] - truth.values[n] for n in ("c", "b")])
        predicted.append([effect.moved[n] for n in ("c", "b")])
        told.append(effect.sentence(fit))
    # Weighted by both noises the estimate is better than least squares with the shift in its interval.
    better = with_drive_noise(fit)
    assert "is counted" in better.warnings[-1]
    assert better.misfit.to_the_noise
    for name in ("c", "b"):
        assert better.deviations[name] < 0.8 * np.hypot(fit.deviations[name], effect.moved[name])
        assert abs(better.values[name] - truth.values[name]) < 4 * better.deviations[name]
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.mean(predicted, axis=0)
    # Four errors: chi-square with 4 degrees of freedom is within [0.21, 14.9] with a probability of 99 %.
    assert (np.sqrt(0.21 / 4) < ratio).all()
    assert (ratio < np.sqrt(14.9 / 4)).all()
    assert all("The noise of the measured drive Force" in text for text in told)


def test_a_clean_drive_says_nothing(fit):
    effect = drive_effect(fit)
    assert effect.sentence(fit) == ""


def test_noise_of_the_drive_explains_what_a_fit_leaves_across_a_gap(tmp_path):
    """A drive of 0.15 % noise leaves structure; no term is missing, and a gap in the recording changes nothing."""
    rng = np.random.default_rng(7)
    time = np.arange(0.0, 12.0, 0.004)
    shape = sum(np.sin(2 * np.pi * f * time + p) for f, p in ((3.1, 0.2), (5.3, 1.0), (7.9, 2.0), (10.7, 0.5)))
    parameters = {"m": 0.8, "c": 3.0, "k": 3500.0, "k3": 5e6}
    equation = "m*x'' + c*x' + k*x + k3*x**3 = F"
    drive = kz.Signal("F", time, 6 * shape, degree=3)
    truth = kz.Model.from_equations(equation, parameters=parameters, signals=[drive])
    x = kz.simulate(truth, x0=[0.0, 0.0], t=time)["x"] + 1e-6 * rng.normal(size=time.size)
    frame = pd.DataFrame({"t [s]": time, "x [m]": x, "F [N]": 6 * shape + 0.02 * rng.normal(size=time.size)})
    frame.drop(index=range(1500, 1540)).to_csv(tmp_path / "run.csv", index=False)
    study = write_new_study(tmp_path / "run.csv", equations=[equation])
    fit = kz.read_study(study).run().chosen
    assert not fit.missing.missing
    assert fit.answer.misfit.to_the_noise
    assert any("is counted" in text for text in fit.answer.warnings)
    for name, value in parameters.items():
        assert abs(fit.answer.values[name] - value) < 4 * fit.answer.deviations[name]


def written(folder, columns, name="run.csv", **settings):
    """Return the text of the study that `new` writes for a table."""
    time = np.arange(0.0, 4.0, 0.01)
    table = {"Zeit [s]": time} | {column: np.sin((2 + i) * time) for i, column in enumerate(columns)}
    pd.DataFrame(table).to_csv(folder / name, index=False, sep=";", decimal=",")
    path = write_new_study(folder / name, force=True, **settings)
    kz.read_study(path)  # what is written can be run
    return path.read_text(encoding="utf-8")


def test_names_of_columns_and_of_equations_are_brought_together(tmp_path):
    """A foreign name of the time, blanks in names, a drive under another name, a column named in the equation."""
    columns = ["Slider Position [mm]", "Load Cell [N]"]
    law = "m*x'' + c*x' + k*x = {}"
    text = written(tmp_path, columns, equations=[law.format("Load Cell")])
    assert 'channels = {"Slider Position" = "x", "Load Cell" = "Load_Cell"}' in text
    assert 'drive = ["Load_Cell"]' in text
    assert 'free = ["m", "c", "k"]' in text
    text = written(tmp_path, columns, equations=[law.format("F")], drive={"Load Cell": "F"})
    assert 'drive = ["F"]' in text
    with pytest.raises(KapitzaError, match=r'"Load Cell" drives.*drive={"Load Cell": "NAME"}'):
        written(tmp_path, columns, equations=[law.format("F")])
    with pytest.raises(KapitzaError, match="say which one measures it"):
        written(tmp_path, ["a [mm]", "b [mm]"], equations=[law.format("0")])
    text = written(
        tmp_path, ["a [rad]", "b [rad]"], equations=["q'' + k*sin(q) = 0"], channels={"b": "q"}, angles=["b"]
    )
    assert 'channels = {"b" = "q"}' in text
    assert "coordinates.q = {angle = true}" in text
    with pytest.raises(KapitzaError, match="Column"):
        written(tmp_path, ["x [mm]"], equations=["x'' + k x = 0"])


def test_a_drive_that_no_equation_holds_is_a_problem(tmp_path):
    text = written(tmp_path, ["x [mm]", "F [N]"], equations=["m*x'' + k*x = F"])
    (tmp_path / "run.toml").write_text(
        text.replace('= F"', '= G"').replace("parameters.m", "parameters.G = 1.0\nparameters.m")
    )
    with pytest.raises(KapitzaError, match='"F" drives, but no equation holds it'):
        kz.read_study(tmp_path / "run.toml")


def test_combinations_can_be_free_in_a_study(tmp_path):
    text = written(tmp_path, ["x [mm]", "F [N]"], equations=["m*x'' + c*x' + k*x = g*F"])
    text = text.replace('free = ["m", "c", "k", "g"]', 'free = ["c/m", "k/m", "g/m"]')
    (tmp_path / "run.toml").write_text(text)
    assert kz.read_study(tmp_path / "run.toml").candidates[0].free == ("c/m", "k/m", "g/m")
    (tmp_path / "run.toml").write_text(text.replace("c/m", "c/q"))
    with pytest.raises(KapitzaError, match="q"):
        kz.read_study(tmp_path / "run.toml")


def test_clocks_and_rates_are_recognised(tmp_path):
    """x = exp(-t/9) cos(5 t) + 3 has the rate v; u is v with 5 % more gain, s a second clock, y a quarter turn late."""
    t = np.arange(2000) * 0.005
    decay = np.exp(-t / 9)
    v = -decay * (np.cos(5 * t) / 9 + 5 * np.sin(5 * t))
    columns = {"s": 100 + 2 * t, "x": decay * np.cos(5 * t) + 3, "v": v, "u": 1.05 * v, "y": decay * np.sin(5 * t)}
    record = kz.Record.from_arrays(t, columns)
    assert clocks(record) == ("s",)
    assert rates(record, ("x", "v", "u", "y")) == {"v": "x"}
    # Units that contradict are not a rate; those that agree are one.
    for unit, found in (("m", {}), ("m/s", {"v": "x"})):
        stated = kz.Record.from_arrays(t, {"x": columns["x"], "v": v}, units={"x": "m", "v": unit})
        assert rates(stated, ("x", "v")) == found
    kz.write(kz.Record.from_arrays(t, {name: columns[name] for name in ("s", "x", "v")}), tmp_path / "run.csv")
    study = kz.read_study(write_new_study(tmp_path / "run.csv"))
    assert study.fitted[0].record.channels == ("x", "x'")
    assert study.candidates[0].model.values["rest"] == pytest.approx(3, abs=0.1)
    # A state of the equations keeps its name.
    named = write_new_study(tmp_path / "run.csv", equations=["x' = v", "v' = -k*(x - 3)"], force=True)
    assert kz.read_study(named).fitted[0].record.channels == ("x", "v")
