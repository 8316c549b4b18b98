"""Faults of a measurement (gains, offsets, the clock, the phase of the drive) are asked for by name."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.faults import FAULT, Candidate, Scores, candidates, strongest

ROESSLER = kz.library.rossler()
TIMES = np.arange(2500) * 0.06


def rossler_record(seed, gain=1.0, fast=0.0, offset=0.0):
    clean = kz.simulate(ROESSLER, x0=[1.0, 1.0, 0.5], t=TIMES)
    rng = np.random.default_rng(seed)
    seen = {c: clean[c] + 0.01 * clean[c].std() * rng.standard_normal(TIMES.size) for c in "xyz"}
    seen["y"] = gain * seen["y"] + offset
    return kz.Record.from_arrays((1 + fast) * TIMES, seen)


def test_a_pull_is_told_as_often_as_noise_allows():
    rng, tried = np.random.default_rng(1), [Candidate("gain", "x"), Candidate("clock"), Candidate("offset", "x")]
    own = np.array([4.0, 1e-12, 9.0])
    found = [strongest(tried, Scores(np.sqrt(own) * rng.standard_normal(3), own, np.ones(3), own)) for _ in range(4000)]
    assert np.mean([fault is not None for fault in found]) == pytest.approx(FAULT, abs=0.005)
    assert not [fault for fault in found if fault is not None and fault.kind == "clock"]
    sure = strongest(tried, Scores(np.array([0.0, 0.0, 90.0]), own, np.ones(3), own))
    assert sure is not None
    assert (sure.kind, sure.channel, sure.size) == ("offset", "x", pytest.approx(10.0))
    assert sure.error == pytest.approx(1 / 3)


def test_an_angle_has_no_gain_and_only_a_drive_a_phase():
    kinds = {(c.kind, c.channel) for c in candidates(["phi", "x"], [True, False], driven=True)}
    assert kinds == {("gain", "x"), ("offset", "phi"), ("offset", "x"), ("clock", ""), ("phase", "")}
    assert {c.kind for c in candidates([f"x{i}" for i in range(40)], [False] * 40, driven=False)} == {"clock"}


@pytest.mark.parametrize("method", [kz.HarmonicFit(), kz.ShootingFit()], ids=["weak", "shooting"])
@pytest.mark.parametrize(
    ("fault", "kind", "size"),
    [({"fast": 0.004}, "clock", 0.004), ({"gain": 0.96}, "gain", -0.04), ({"offset": 0.3}, "offset", 0.3)],
    ids=["clock", "gain", "offset"],
)
def test_the_fault_is_named_with_its_size(method, fault, kind, size):
    fit = kz.identify(ROESSLER, rossler_record(3, **fault), ["a", "b", "c"], method)
    assert not fit.misfit.to_the_noise
    seen = fit.misfit.fault
    assert seen is not None
    assert seen.kind == kind
    assert seen.size == pytest.approx(size, rel=0.15)
    assert [text for text in fit.warnings if str(seen) in text]


@pytest.mark.parametrize("method", [kz.HarmonicFit(), kz.ShootingFit()], ids=["weak", "shooting"])
def test_a_right_measurement_has_none(method):
    fits = [kz.identify(ROESSLER, rossler_record(seed), ["a", "b", "c"], method) for seed in range(4)]
    assert len(fits) == 4
    assert all(fit.misfit.to_the_noise for fit in fits)
    assert not [text for fit in fits for text in fit.warnings if "the data" in text]


def test_a_faint_clock_is_seen_though_the_residuals_pass_for_noise():
    """Far below what shows in the residuals as a whole, and the values are off by many of their errors."""
    fit = kz.identify(ROESSLER, rossler_record(4, fast=1e-4), ["a", "b", "c"], kz.ShootingFit())
    assert fit.misfit.fault is not None
    assert fit.misfit.fault.kind == "clock"
    assert fit.misfit.fault.size == pytest.approx(1e-4, abs=4 * fit.misfit.fault.error)
    assert [text for text in fit.warnings if "clock of the record" in text]


def test_a_gain_that_free_parameters_absorb_is_not_seen():
    """x → g x turns b into b/g² and F into g F exactly: no record can tell."""
    model = kz.Model.from_equations(
        "x'' + c*x' + b*x**3 = F*cos(t)", parameters={"c": 0.1, "b": 1.0, "F": 0.5}, period="2*pi"
    )
    clean = kz.simulate(model, x0=[0.4, 0.0], t=np.arange(2000) * 0.06)
    x = 1.05 * (clean["x"] + 0.01 * clean["x"].std() * np.random.default_rng(5).standard_normal(2000))
    record = kz.Record.from_arrays(clean.time, {"x": x}, period=clean.period, phase=0.0)
    for method in (kz.HarmonicFit(), kz.ShootingFit()):
        fit = kz.identify(model, record, ["c", "b", "F"], method)
        assert fit.misfit.fault is None
        assert fit["F"] == pytest.approx(1.05 * 0.5, abs=5 * fit.deviations["F"])


def test_a_fault_is_kept_in_files(tmp_path):
    fit = kz.identify(ROESSLER, rossler_record(3, gain=0.96), ["a", "b", "c"], kz.HarmonicFit())
    kz.save(fit, tmp_path / "fit.nc")
    assert kz.load(tmp_path / "fit.nc").misfit == fit.misfit


def test_no_gain_is_blamed_in_homogeneous_equations():
    """The column of a gain is the residual itself there: it explained any missing term, by a gain 100 % off."""
    times, rig = np.arange(2000) * 0.02, {"c": 0.15, "k": 9.0}
    truth = kz.Model.from_equations("x'' + c*x' + k*x + 0.5*x**3 = 0", parameters=rig)
    clean = kz.simulate(truth, x0=[1.0, 0.0], t=times).select(["x"])
    record = kz.measure(clean, noise=0.003 * float(np.std(clean["x"])), seed=1)
    linear = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=rig)
    fit = kz.identify(linear, record, ["c", "k"], kz.HarmonicFit())
    assert fit.misfit.misses
    assert fit.misfit.fault is None
