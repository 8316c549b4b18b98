"""A fitted model on data that were not fitted."""

import numpy as np
import pytest

import kapitza as kz

NOISE = 0.01


@pytest.fixture(scope="module")
def duffing():
    return kz.Model.from_equations(
        "x'' + c*x' + k1*x + k3*x**3 = F*cos(w*t)",
        parameters={"c": 0.25, "k1": -1.0, "k3": 1.0, "F": 0.3, "w": 1.0},
        period="2*pi/w",
        start={"x": 1.0, "x'": 0.0},
    )


@pytest.fixture(scope="module")
def record(duffing):
    return kz.measure(kz.simulate(duffing, periods=160, samples_per_period=30).select(["x"]), noise=NOISE, seed=2)


@pytest.fixture(scope="module")
def right(duffing, record):
    return kz.validate(duffing, record, parts=["prediction", "section", "exponent", "frequencies"])


@pytest.fixture(scope="module")
def wrong(duffing, record):
    return kz.validate(duffing.with_values(k3=1.15), record, parts=["prediction", "section"])


def test_right_model_follows_to_the_noise_and_its_horizon_is_that_of_its_exponent(right):
    test = right.prediction
    assert len(test.starts) == 8
    assert np.sqrt((test.fit_misfit**2).mean()) == pytest.approx(1.0, abs=0.1)
    # An error of the fitted state, some noise deviations small, grows by exp(λ t) to the limits.
    assert right.exponents.tangents == pytest.approx(0.12, abs=0.04)
    growth = np.log(test.share * test.spread[0] / (test.noises * test.noise[0]))
    between = np.median(test.horizon_signal) - np.median(test.horizon_noise)
    assert 0.2 * growth / right.exponents.tangents < between < 5 * growth / right.exponents.tangents
    assert (test.horizon_signal >= test.horizon_noise).all()


def test_right_model_has_the_section_and_the_frequency_of_the_record(duffing):
    """Of two stretches of the same motion one lies beyond the limit of chance once in some twelve: five records."""
    agree = []
    for seed in range(5):
        motion = kz.simulate(duffing, np.random.default_rng(seed).uniform(-1, 1, 2), periods=480, samples_per_period=30)
        right = kz.validate(
            duffing, kz.measure(motion.select(["x"]), noise=NOISE, seed=seed), parts=["section", "frequencies"]
        )
        assert 0 < right.section.distance <= 2 * right.section.floor
        assert right.frequencies[0].agrees
        agree.append(right.section.agrees)
    assert sum(agree) >= 3


def decay(c):
    return kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": c, "k": 4.0}, start={"x": 1.0, "x'": 0.0})


def test_samples_that_were_fitted_are_counted():
    model = decay(0.1)
    clean = kz.simulate(model, t=np.arange(600) * 0.05).select(["x"])
    first, other = (kz.measure(clean, noise=0.02, seed=seed) for seed in (1, 2))
    fit = kz.identify(model, first.between(stop=20.0), free=["c", "k"])
    fitted = [len(first.between(stop=20.0).time), len(first.between(start=5.0, stop=20.0).time), 0]
    for record, known in zip((first, first.between(start=5.0), other), fitted, strict=True):
        said = [n for n in kz.validate(fit, record, parts=["prediction"]).notes if "samples were fitted" in n]
        assert [int(n.split(" of ")[0]) for n in said] == ([known] if known else [])


def test_another_run_with_few_levels_was_not_fitted():
    """Rounded to 0.2, most samples of two runs are equal, and the last third of each rests."""
    model = decay(0.3)
    time, rounded = np.arange(600) * 0.05, []
    for seed in (1, 2):
        noisy = kz.measure(kz.simulate(model, t=time).select(["x"]), noise=0.05, seed=seed)["x"]
        rounded.append(kz.Record.from_arrays(time, {"x": np.round(noisy / 0.2) * 0.2}))
    assert (rounded[0]["x"] == rounded[1]["x"]).mean() > 0.6
    fit = kz.identify(model, rounded[0], free=["c", "k"], method=kz.ShootingFit())
    notes = kz.validate(fit, rounded[1], parts=["prediction"]).notes
    assert not [n for n in notes if "samples were fitted" in n]


def test_wrong_model_neither_follows_nor_predicts_nor_has_the_section(right, wrong):
    misfit = np.sqrt((wrong.prediction.fit_misfit**2).mean()) if len(wrong.prediction.starts) else np.inf
    assert misfit > 3
    assert np.median(wrong.prediction.horizon_noise) < 0.2 * np.median(right.prediction.horizon_noise)
    assert not wrong.section.agrees


def test_summary_table_and_figure(right, tmp_path):
    assert "follows to the noise" in str(right)
    assert "oscillations" in str(right)
    assert list(right.table().columns) == ["measured", "modelled", "verdict"]
    right.plot(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 10_000


def test_noise_is_that_of_the_sensor_also_where_the_model_is_wrong(duffing, record):
    bare = kz.Record.from_arrays(record.time, {"x": record["x"]}, period=record.period, phase=0.0)
    for model in (duffing, duffing.with_values(k3=1.15)):
        check = kz.validate(model, bare, parts=["prediction"])
        assert check.prediction.noise[0] == pytest.approx(NOISE, rel=0.25)


def test_orbits_of_the_record_are_found_again_in_the_model():
    model = kz.library.parametric_pendulum()
    run = kz.measure(kz.simulate(model, periods=6000), noise=1e-4, seed=1)
    check = kz.validate(model, run, parts=["orbits"], max_period=2)
    assert check.orbits
    assert all(orbit.matched for orbit in check.orbits)


def test_a_fit_and_a_setting_of_its_own(duffing, record):
    fit = kz.identify(duffing, record.between(stop=100.0), free=["c", "k3"])
    later = record.between(start=200.0)
    check = kz.validate(fit.with_(model=fit.model.with_values(F=0.5)), (later, {"F": 0.3}), parts=["prediction"])
    assert check.model.values["F"] == 0.3
    assert np.median(check.prediction.fit_misfit) < 1.3


def test_a_transient_is_compared_with_one():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + d*x**3 = F*cos(w*t)",
        parameters={"c": 0.12, "k": 1.0, "d": 0.6, "F": 0.9, "w": 1.1},
        period="2*pi/w",
        start={"x": 0.5, "x'": 0.0},
    )
    run = kz.measure(kz.simulate(model, periods=35, samples_per_period=60).select(["x"]), noise=NOISE, seed=1)
    assert kz.validate(model, run, parts=["section"]).section.agrees
    assert not kz.validate(model.with_values(k=1.05), run, parts=["section"]).section.agrees


def test_limit_cycle_of_the_record_and_of_the_model():
    model = kz.Model.from_equations(
        "x'' - mu*(1 - x**2)*x' + x = 0", parameters={"mu": 1.0}, start={"x": 2.0, "x'": 0.0}
    )
    run = kz.measure(kz.simulate(model, t=np.arange(4000) * 0.05), noise=NOISE, seed=2)
    for values, right in (({}, True), ({"mu": 1.2}, False)):
        check = kz.validate(model.with_values(**values), run, parts=["orbits"])
        (orbit,) = check.orbits
        assert (orbit.distance < 0.02) == right
        assert (orbit.deviations < 5) == right
        assert ("beyond its errors" in str(check)) != right


def test_readings_beyond_the_range_of_a_sensor_are_no_errors_of_the_model(duffing, record):
    cut = kz.Record.from_arrays(record.time, {"x": np.clip(record["x"], -1.0, 1.0)}, period=record.period, phase=0.0)
    check = kz.validate(
        duffing,
        cut,
        outputs={"x": kz.Sensor("x", limits=(-1.0, 1.0))},
        noise=NOISE,
        parts=["prediction", "frequencies"],
    )
    assert np.mean(np.abs(cut["x"]) >= 1.0) > 0.1
    assert np.median(check.prediction.fit_misfit) < 1.3
    assert np.isnan(check.prediction.error).any()
    assert np.median(check.prediction.horizon_noise) > 5.0
    assert np.abs(check.simulated["x"]).max() <= 1.0
    blind = kz.validate(duffing, cut.with_attributes(bad_samples="keep"), noise=NOISE, parts=["prediction"])
    assert blind.prediction.failed or np.median(blind.prediction.fit_misfit) > 3


def test_a_value_of_every_recording_is_asked_for(duffing):
    runs = [
        kz.measure(kz.simulate(duffing.with_values(F=F), t=np.arange(400) * 0.1).select(["x"]), noise=NOISE, seed=1)
        for F in (0.3, 0.2)
    ]
    fit = kz.identify(duffing, runs, ["c", "F"], kz.ShootingFit(), own=["F"])
    with pytest.raises(kz.KapitzaError, match="F differs between the recordings that were fitted"):
        kz.validate(fit, runs[1], parts=["prediction"])
    check = kz.validate(fit, (runs[1], {"F": fit["F_1"]}), parts=["prediction"], stretches=2)
    assert np.median(check.prediction.fit_misfit) < 1.3
    assert check.model.values["F"] == fit["F_1"]


def test_noise_beside_another_unit_is_refused(duffing):
    metres = kz.Model.from_equations(
        "x'' + c*x' = 0", [kz.Coordinate("x", unit="m")], parameters={"c": 0.1}, start={"x": 0.0, "x'": 1.0}
    )
    run = kz.simulate(metres, t=np.arange(100) * 0.1)
    milli = kz.Record.from_arrays(run.time, {"x": 1e3 * run["x"]}, units={"x": "mm"})
    with pytest.raises(kz.KapitzaError, match="is the noise of the method in the one or the other"):
        kz.validate(metres, milli, noise=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": ["orbit"]}, 'no part "orbit"'),
        ({"stretches": 0}, "stretches"),
        ({"warm_up": 1.0}, "warm_up = 1"),
    ],
)
def test_wrong_settings_are_refused(duffing, record, arguments, message):
    with pytest.raises(kz.KapitzaError, match=message):
        kz.validate(duffing, record, **arguments)


def test_other_things_than_models_and_records_are_refused(duffing, record):
    with pytest.raises(kz.KapitzaError, match="an Estimate or a Model"):
        kz.validate(3.0, record)
    with pytest.raises(kz.KapitzaError, match="one record at a time"):
        kz.validate(duffing, [record, record])


def test_a_record_that_no_stretch_of_the_model_follows():
    """Noise alone, as one stretch: nothing is predicted, and the result says why."""
    model = kz.Model.from_equations("x'' + 0.1*x' + k*x = 0", parameters={"k": 4.0}, start={"x": 1.0, "x'": 0.0})
    noise = np.random.default_rng(1).normal(size=120)
    record = kz.Record.from_arrays(0.1 * np.arange(120), {"x": noise}, noise={"x": 0.01})
    check = kz.validate(model, record, stretches=1)
    assert (len(check.prediction.starts), len(check.prediction.failed)) == (0, 1)
    assert "stretches followed: 0 of 1" in str(check)


def test_what_no_term_explains_is_no_all_clear():
    model = kz.Model.from_equations("p'' + d*p' + w*sin(p) = 0", parameters={"d": 0.12, "w": 40.0})
    times = np.arange(600) * 0.01
    record = kz.measure(kz.simulate(model, [0.9, 0.0], t=times).select(["p"]), noise=0.003, seed=1)
    check = kz.validate(model, record, parts=["terms"])
    assert not check.rejected
    assert not check.unexplained
    assert not check.notes
    stepped = record.with_channel("p", record["p"] + np.where(times > 3.2, 0.03, 0.0), "", False)
    check = kz.validate(model, stepped, parts=["terms"])
    assert any("3.2" in note and "stays there" in note for note in check.notes)
    swaying = record.with_channel("p", record["p"] + 0.02 * np.sin(0.9 * times**2), "", False)
    check = kz.validate(model, swaying, parts=["terms"])
    assert "misses the data by" in check.unexplained
    assert check.rejected or "something is missing that none of these terms explains" in str(check)


def test_a_motion_that_does_not_follow_ends_the_fit_of_its_states_early():
    """A hardening spring without its friction: rigid steps threw the states to 1e8 sizes, for minutes."""
    time = np.arange(1600) * 0.005
    sweep = kz.Signal("a", time, 6 * np.sin(2 * np.pi * (5 * time + 0.6 * time**2)), degree=3)
    law = "x'' + c*x' + k*x + k3*x**3 + d*sign(x') = -a"
    values = {"c": 2.0, "k": 2200.0, "k3": 1.1e7, "d": 0.3}
    truth = kz.Model.from_equations(law, parameters=values, signals=[sweep])
    record = kz.measure(kz.simulate(truth, [0.0, 0.0], t=time).select(["x"]), noise=1e-5, seed=1)
    wrong = kz.Model.from_equations(
        law.replace(" + d*sign(x')", ""), parameters={"c": 6.0, "k": 2600.0, "k3": 0.9e7}, signals=[sweep]
    )
    fit = kz.identify(wrong, record, [], kz.ShootingFit(throw=False))
    assert not fit.status.ok
    # It ends near the data, where a step from sample to sample is cheap.
    assert np.abs(fit.motion.states[:, 0]).max() < 1e3 * np.abs(record["x"]).max()
