"""Lost samples cost their own information, not the motion's: gaps are bridged, segments cut on purpose are not."""

import numpy as np
import pytest

import kapitza as kz

FREE = ["d", "k", "a"]


@pytest.fixture(scope="module")
def swing():
    """A Duffing oscillator that dies out, 2000 samples with noise 0.01."""
    model = kz.Model.from_equations("x'' + d*x' + k*x + a*x**3 = 0", parameters={"d": 0.1, "k": 4.0, "a": 1.0})
    time = np.arange(2000) * 0.02
    values = kz.Flow(model).trajectory([1.5, 0.0], time)[:, 0] + 0.01 * np.random.default_rng(5).normal(size=2000)
    return model, kz.Record.from_arrays(time, {"x": values})


@pytest.mark.parametrize("lost", [0.02, 0.2])
def test_lost_samples_cost_no_more_than_their_share(swing, lost):
    model, whole = swing
    record = kz.measure(whole, drop=lost, seed=1)
    start = model.with_values(d=0.15, k=3.5, a=1.3)
    full, fit = (kz.identify(start, r, FREE, kz.ShootingFit(noise=0.01)) for r in (whole, record))
    assert len(record.segments()) > 20
    for name in FREE:
        # Information goes with the samples: 1/√(1 - lost), with room for which ones were lost.
        assert fit.deviations[name] == pytest.approx(full.deviations[name] / np.sqrt(1 - lost), rel=0.05)
        assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]


def test_noise_is_estimated_across_lost_samples(swing):
    model, whole = swing
    fit = kz.identify(model.with_values(k=3.5), kz.measure(whole, drop=0.1, seed=2), FREE, kz.ShootingFit())
    assert fit.noise["x"] == pytest.approx(0.01, rel=0.08)
    assert not fit.warnings


def test_trials_on_one_clock_are_kept_apart(swing):
    """Three swings marked as segments: one at once after another, or after five steps with bridge=False."""
    model, _ = swing
    time = np.arange(300) * 0.02
    rng = np.random.default_rng(7)
    runs = [kz.Flow(model).trajectory([x0, 0.0], time)[:, 0] for x0 in (1.5, -1.0, 0.7)]
    values = np.concatenate(runs) + 0.01 * rng.normal(size=900)
    label = np.repeat([0, 1, 2], 300)
    for pause, method in ((0.02, kz.ShootingFit()), (0.1, kz.ShootingFit(bridge=False))):
        clock = np.concatenate([time + i * (time[-1] + pause) for i in range(3)])
        record = kz.Record.from_arrays(clock, {"x": values}, segment=label)
        fit = kz.identify(model.with_values(k=3.5), record, FREE, method)
        for name in FREE:
            assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]


def test_trials_taken_as_one_motion_are_suspected(swing):
    """Two swings five steps apart: no motion leads from one into the other, and the way out is named."""
    model, _ = swing
    time = np.arange(300) * 0.05
    runs = [kz.Flow(model).trajectory(x0, time)[:, 0] for x0 in ([1.5, 0.0], [-1.2, 1.0])]
    values = np.concatenate(runs) + 0.02 * np.random.default_rng(0).normal(size=600)
    clock = np.concatenate([time, time + time[-1] + 0.25])
    record = kz.Record.from_arrays(clock, {"x": values}, segment=np.repeat([0, 1], 300))
    fit = kz.identify(model, record, FREE, kz.ShootingFit(throw=False))
    said = " ".join(fit.warnings) + fit.post_mortem
    assert "carried over 1 gap between segments" in said
    assert "bridge=False" in said


def test_auto_starts_from_harmonic_rows_in_spite_of_gaps(swing):
    model, whole = swing
    gap = np.ones(2000, bool)
    gap[700:703] = gap[1300:1304] = False
    record = kz.Record.from_arrays(whole.time[gap], {"x": whole["x"][gap]})
    fit = kz.identify(model.with_values(d=0.3, k=1.0, a=3.0), record, FREE)
    assert fit.method.startswith("auto (HarmonicFit")
    for name in FREE:
        assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]
