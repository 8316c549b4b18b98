"""The verdict of a study, its spectra and units; expected values from closed forms and the true values."""

import re
from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate import Misfit
from kapitza.report import write_study_report
from kapitza.report.interactive import log_ticks
from kapitza.report.motions import as_recorded, motions_of
from kapitza.report.spectrum_figures import correlation_figure, response_figure, spectrum_figure
from kapitza.report.verdict import verdict_of
from kapitza.study import fitted_settings

STUDY = """
[model]
equations = ["x'' + c*x' + k*x = F"]
parameters = {c = 0.5, k = 90.0}
[data]
file = "run.csv"
drive = ["F"]
drive_degree = 3
[fit]
free = ["c", "k"]
method = "shooting"
hold_back = 0.2
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """x'' + c x' + k x = F with c = 1, k = 100 under noise as drive, x recorded in mm."""
    folder = tmp_path_factory.mktemp("verdict")
    time = np.arange(1500) * 0.02
    random = np.random.default_rng(1)
    smooth = np.convolve(random.standard_normal(time.size + 8), np.hanning(9), "valid")
    signal = kz.Signal("F", time, smooth, float(time[-1] + time[1]), degree=3)
    model = kz.Model.from_equations("x'' + c*x' + k*x = F", parameters={"c": 1.0, "k": 100.0}, signals=[signal])
    x = 1e3 * kz.simulate(model, x0=[0.0, 0.0], t=time)["x"] + 0.1 * random.standard_normal(time.size)
    rows = np.column_stack([time, smooth, x])
    np.savetxt(folder / "run.csv", rows, fmt="%.9g", delimiter=",", header="t [s],F [N/kg],x [mm]", comments="")
    (folder / "run.toml").write_text(STUDY)
    return kz.read_study(folder / "run.toml").run(kz.Silent())


def test_a_right_model_is_good_in_the_unit_of_the_recording(result):
    verdict = verdict_of(result)
    assert verdict.grade == "good"
    assert "follows the data to the noise" in verdict.sentence
    size = float(re.search(r"s ahead to ([\d.]+) mm", verdict.sentence)[1])
    # The prediction error is that of the sensor, 0.1 mm, and of the fitted states.
    assert 0.08 < size < 0.3
    assert any("kapitza validate" in step for step in verdict.steps)


def test_a_friction_below_zero_is_in_the_first_sentence(tmp_path):
    """Quadratic drag fitted by viscous and dry friction: the dry one comes out negative."""
    truth = kz.Model.from_equations("x'' + q*x'*abs(x') + k*x = 0", parameters={"q": 0.005, "k": 25.0})
    clean = kz.simulate(truth, x0=[1.0, 0.0], t=np.arange(4000) * 0.01).select(["x"])
    kz.write(kz.measure(clean, noise=1e-4, seed=1), tmp_path / "run.csv")
    (tmp_path / "run.toml").write_text(
        "[model]\nequations = [\"x'' + c*x' + d*sign(x') + k*x = 0\"]\nparameters = {c = 0.1, d = 0.01, k = 25.0}\n"
        '[data]\nfile = "run.csv"\n[fit]\nfree = ["c", "d", "k"]\nmethod = "shooting"\n'
    )
    made = kz.read_study(tmp_path / "run.toml").run(kz.Silent())
    assert made.chosen.answer["d"] < 0
    verdict = verdict_of(made)
    assert "a friction feeds energy in (d below zero)" in verdict.sentence
    assert verdict.grade != "good"
    assert any("bound 0" in step for step in verdict.steps)
    # The model misses the data: what is left is not called noise.
    page = write_study_report(made, tmp_path / "report.html").read_text()
    assert "Standard deviation of what the model leaves" in page


def test_weak_and_wrong_models_are_named(result):
    chosen = result.chosen
    loose = chosen.answer.with_(covariance=np.diag([1.0, 1e-4]))
    weak = verdict_of(replace(result, fits=(replace(chosen, estimate=loose),)))
    assert weak.grade == "fair"
    assert "one parameter is weak (c)" in weak.sentence
    missed = chosen.answer.with_(misfit=Misfit(size=12.0, share=0.03, chance=0.0))
    wrong = verdict_of(replace(result, fits=(replace(chosen, estimate=missed),)))
    assert wrong.grade == "bad"
    assert "misses the data by 12 times the noise" in wrong.sentence
    assert "What is missing?" in wrong.steps[0]
    failed = verdict_of(replace(result, fits=(replace(chosen, estimate=None, failure="no"),)))
    assert failed.sentence == "No fit succeeded."


def test_the_frequency_response_is_that_of_the_oscillator(result):
    """|H| = 1 / |k - ω² + i c ω|, in mm per N/kg, where windows resolve the peak: away from resonance."""
    best = result.best
    record = fitted_settings(best)[0][0]
    motion = as_recorded(motions_of(best)[0], record)
    figure = response_figure(motion, record, ["F"])
    model = next(trace for trace in figure.data if trace.name == "model")
    frequency, modulus = np.array(model.x, float), np.array(model.y, float)
    omega = 2 * np.pi * frequency
    expected = 1e3 / np.abs(100.0 - omega**2 + 1j * omega)
    away = (frequency > 3.0) & (frequency < 6.0)
    assert away.sum() > 4
    np.testing.assert_allclose(modulus[away], expected[away], rtol=0.15)
    assert "mm" in figure.layout.yaxis.title.text
    assert figure.layout.yaxis.dtick in (1, "D2")


def test_labels_of_logarithmic_axes_leave_room():
    assert log_ticks(np.array([0.3, 4.0]))["dtick"] == "D2"
    assert log_ticks(np.array([1e-4, np.nan, 0.0, 1.0]))["dtick"] == 1
    assert log_ticks(np.array([np.nan]))["dtick"] == "D2"


def test_a_driven_motion_has_no_free_decay(result, tmp_path, monkeypatch):
    def refused(motion):
        raise AssertionError("a driven motion was looked at for a free decay")

    monkeypatch.setattr("kapitza.report.study_report.decay_figure", refused)
    assert "Free decay" not in write_study_report(result, tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_spectrum_holds_the_variance_of_the_noise(result):
    best = result.best
    motion = as_recorded(motions_of(best)[0], fitted_settings(best)[0][0])
    figure = spectrum_figure(motion)
    left = next(trace for trace in figure.data if trace.name == "residuals")
    step = left.x[1] - left.x[0]
    assert step * np.sum(left.y) == pytest.approx(0.1**2, rel=0.15)


def test_correlations_and_page(result, tmp_path):
    figure = correlation_figure(result.best)
    assert np.diag(np.array(figure.data[0].z)) == pytest.approx(1.0)
    page = write_study_report(result, tmp_path / "report.html").read_text()
    assert '<p class="verdict good"><strong>Good.</strong>' in page
    assert "What to do next" in page
    assert "x [mm]" in page
    noise = re.search(r"Standard deviation of the noise: x ([\d.]+) mm", page)
    assert float(noise[1]) == pytest.approx(0.1, rel=0.1)
