"""One bad sample must not hide what a model misses, and must not spoil estimates or intervals."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz

TIME = np.arange(1200) * 0.02
MODEL = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 9.0})
CUBIC = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.2, "k": 9.0, "q": 2.0})
SPIKES = (100, 431, 777)


def record(model: kz.Model, spikes: tuple[int, ...] = (), size: float = 0.5) -> kz.Record:
    clean = kz.simulate(model, x0=[1.0, 0.0], t=TIME).select(["x"])
    made = kz.measure(clean, noise=0.005, seed=4)
    values = made["x"].copy()
    values[list(spikes)] += size
    return kz.Record.from_arrays(TIME, {"x": values})


@pytest.mark.parametrize("method", [kz.ShootingFit(), kz.HarmonicFit()])
def test_spikes_leave_estimate_and_interval_alone(method):
    clean = kz.identify(MODEL, record(MODEL), ["c", "k"], method)
    spiked = kz.identify(MODEL, record(MODEL, SPIKES), ["c", "k"], method)
    for name in ("c", "k"):
        assert abs(spiked.values[name] - clean.values[name]) < 0.3 * clean.deviations[name]
        assert spiked.deviations[name] < 1.3 * clean.deviations[name]
    assert any("3 spikes (at 2, 8.62, 15.54 s)" in text for text in spiked.warnings)
    assert not any("spike" in text for text in clean.warnings)


def test_spikes_do_not_hide_a_missing_term():
    fit = kz.identify(MODEL, record(CUBIC, SPIKES, 3.0), ["c", "k"], kz.ShootingFit())
    assert fit.misfit is not None
    assert not fit.misfit.to_the_noise
    assert kz.suggest(fit).missing


def test_outliers_too_small_to_see_without_a_model_are_named_by_the_fit():
    fit = kz.identify(MODEL, record(MODEL, SPIKES, 0.045), ["c", "k"], kz.ShootingFit())
    said = " ".join(fit.warnings)
    assert all(time in said for time in ("(at 2", "8.62", "15.54"))
    assert fit.noise["x"] == pytest.approx(0.005, rel=0.1)


def test_misfit_is_not_taken_for_outliers():
    fit = kz.identify(MODEL, record(CUBIC), ["c", "k"], kz.ShootingFit())
    assert not any("spike" in text for text in fit.warnings)


def test_inspect_and_validate_name_bad_samples():
    data = record(MODEL, SPIKES)
    found = kz.inspect(data)
    assert any("3 spikes" in note for note in found.notes)
    assert found.noise["x"] == pytest.approx(0.005, rel=0.2)
    check = kz.validate(MODEL, data, parts=["prediction"])
    assert any("3 spikes" in note for note in check.notes)
    assert np.median(check.prediction.fit_misfit) < 1.3


def test_marked_fit_is_saved_and_read_again(tmp_path):
    fit = kz.identify(MODEL, record(MODEL, SPIKES), ["c", "k"], kz.ShootingFit())
    kz.save(fit, tmp_path / "fit.nc")
    again = kz.load(tmp_path / "fit.nc")
    assert again.warnings == fit.warnings
    assert kz.suggest(again).missing == kz.suggest(fit).missing


def test_study_names_bad_samples_in_its_check_and_cleans_the_drive(tmp_path):
    kz.write(record(MODEL, SPIKES), tmp_path / "run.csv")
    text = (
        "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.2, k = 9.0}\n"
        '[data]\nfile = "run.csv"\n[fit]\nfree = ["c", "k"]\nmethod = "shooting"\n'
    )
    (tmp_path / "rig.toml").write_text(text)
    study = kz.read_study(tmp_path / "rig.toml")
    assert any("3 spikes" in said for said in study.warnings())
    (tmp_path / "rig.toml").write_text(text.replace('"run.csv"', '"run.csv"\nbad_samples = "keep"'))
    assert not any("spike" in said for said in kz.read_study(tmp_path / "rig.toml").warnings())


def test_glitches_below_the_residuals_of_a_wrong_model_are_not_named():
    """An encoder of 1 kHz: 3 % of single samples are off by 8 times its noise, a tenth of what friction leaves."""
    time = np.arange(8000) * 5e-4
    truth = kz.Model.from_equations("x'' + 0.05*x' + f*tanh(500*x') + 60*x = 0", parameters={"f": 0.3})
    clean = np.asarray(kz.simulate(truth, x0=[1.0, 0.0], t=time)["x"])
    rng = np.random.default_rng(5)
    glitches = rng.random(time.size) < 0.03
    noisy = clean + 1e-5 * rng.standard_normal(time.size) + 8e-5 * glitches * rng.choice([-1, 1], time.size)
    record = kz.Record.from_arrays(time, {"x": noisy})
    wrong = kz.Model.from_equations("x'' + d*x' + k*x = 0", parameters={"d": 0.1, "k": 59.0})
    fit = kz.identify(wrong, record, free=["d", "k"], method=kz.ShootingFit())
    assert fit.misfit.misses
    assert not any("spike" in str(text) for text in fit.warnings)
