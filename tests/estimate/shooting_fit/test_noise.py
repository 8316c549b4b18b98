"""Noise of the sensors: given for some, given wrongly, different from record to record, with outliers."""

import re

import numpy as np
import pytest

import kapitza as kz

FREE = ["sigma", "rho", "beta"]
TRUTH = np.array([10.0, 28.0, 8 / 3])


@pytest.fixture(scope="module")
def clean():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(1300) * 0.01)
    return kz.Record.from_arrays(np.arange(800) * 0.01, {c: run[c][500:] for c in run.channels})


def noisy(clean, deviation, seed, channels="xyz", known=False):
    rng = np.random.default_rng(seed)
    noise = dict.fromkeys(channels, deviation) if known else None
    return kz.Record.from_arrays(
        clean.time, {c: clean[c] + deviation * rng.normal(size=clean.size) for c in channels}, noise=noise
    )


def start():
    return kz.library.lorenz().with_values(sigma=9.0, rho=30.0, beta=2.5)


def scaled_errors(fit):
    return np.array([(fit.values[n] - t) / fit.deviations[n] for n, t in zip(FREE, TRUTH, strict=True)])


def test_noise_given_for_one_channel_is_kept_and_the_others_are_estimated(clean):
    fit = kz.identify(start(), noisy(clean, 0.1, 1), FREE, kz.ShootingFit(noise={"x": 0.11}))
    assert fit.noise["x"] == 0.11
    assert fit.noise["y"] == pytest.approx(0.1, rel=0.1)
    assert fit.noise["z"] == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize(("stated", "words"), [(0.01, "too narrow"), (1.0, "too wide")])
def test_noise_stated_ten_times_wrong_is_told(clean, stated, words):
    fit = kz.identify(start(), noisy(clean, 0.1, 1), FREE, kz.ShootingFit(noise=stated))
    told = [text for text in fit.warnings if "noise given" in text]
    assert len(told) == 3
    for text in told:
        assert words in text
        assert float(re.search(r"are (\S+) times", text)[1]) == pytest.approx(0.1 / stated, rel=0.1)


def test_noise_stated_rightly_is_not_questioned(clean):
    fit = kz.identify(start(), noisy(clean, 0.1, 1), FREE, kz.ShootingFit(noise=0.1))
    assert not any("noise given" in text for text in fit.warnings)


def test_two_records_are_weighted_by_their_own_noise(clean):
    """The information of two records adds up: the covariance is the inverse of the sum of their inverses."""
    good, poor = noisy(clean, 0.1, 2, known=True), noisy(clean, 1.0, 3, known=True)
    both = kz.identify(start(), [good, poor], FREE, kz.ShootingFit())
    single = [np.linalg.inv(kz.identify(start(), part, FREE, kz.ShootingFit()).covariance) for part in (good, poor)]
    expected = np.sqrt(np.diag(np.linalg.inv(single[0] + single[1])))
    np.testing.assert_allclose(list(both.deviations.values()), expected, rtol=0.02)
    assert np.abs(scaled_errors(both)).max() < 4
    assert both.chi2 / (6 * 800) == pytest.approx(1.0, abs=0.1)
    assert both.motion.noise_by_record == (dict.fromkeys("xyz", 0.1), dict.fromkeys("xyz", 1.0))


def test_unknown_noise_is_estimated_for_each_record(clean):
    fit = kz.identify(start(), [noisy(clean, 0.1, 4), noisy(clean, 0.8, 5)], FREE, kz.ShootingFit())
    first, second = fit.motion.noise_by_record
    assert first["y"] == pytest.approx(0.1, rel=0.1)
    assert second["y"] == pytest.approx(0.8, rel=0.1)
    assert np.abs(scaled_errors(fit)).max() < 4


def test_records_may_lack_channels_in_either_order(clean):
    # Noise that passes for noise in every test, so that errors are those of noise alone.
    full, part = noisy(clean, 0.1, 6, known=True), noisy(clean, 0.1, 8, "xy", known=True)
    one = kz.identify(start(), [full, part], FREE, kz.ShootingFit())
    other = kz.identify(start(), [part, full], FREE, kz.ShootingFit())
    np.testing.assert_allclose([one.values[n] for n in FREE], [other.values[n] for n in FREE], rtol=1e-6)
    fits = [kz.identify(start(), each, FREE, kz.ShootingFit()) for each in (full, part)]
    assert not any(fit.warnings for fit in (one, *fits))
    single = [np.linalg.inv(fit.covariance) for fit in fits]
    expected = np.sqrt(np.diag(np.linalg.inv(single[0] + single[1])))
    np.testing.assert_allclose(list(one.deviations.values()), expected, rtol=0.02)
    assert one.likelihood.readings == 5 * 800
    assert np.abs(scaled_errors(one)).max() < 4


def test_record_without_a_usable_channel_is_refused(clean):
    stray = kz.Record.from_arrays(clean.time, {"u": clean["x"]})
    with pytest.raises(kz.KapitzaError, match="Record 1 has the channels u"):
        kz.identify(start(), [noisy(clean, 0.1, 1), stray], FREE, kz.ShootingFit())


DUFFING = kz.Model.from_equations("x'' + d*x' + k*x + a*x**3 = 0", parameters={"d": 0.1, "k": 4.0, "a": 1.0})
DUFFING_FREE = ["d", "k", "a"]


@pytest.fixture(scope="module")
def transient():
    return kz.simulate(DUFFING, x0=[1.5, 0.0], t=np.arange(400) * 0.05)


def readings(run, deviation, seed, outliers=0.0):
    rng = np.random.default_rng(seed)
    x = run["x"] + deviation * rng.normal(size=run.size)
    wild = rng.random(run.size) < 0.05
    wild[0] = True
    return kz.Record.from_arrays(run.time, {"x": x + outliers * wild * rng.choice([-1.0, 1.0], run.size)})


@pytest.mark.parametrize("seed", range(4))
def test_outliers_larger_than_the_signal(transient, seed):
    fit = kz.identify(DUFFING, readings(transient, 0.02, seed, 5.0), DUFFING_FREE, kz.ShootingFit(robust=True))
    errors = [(fit.values[n] - DUFFING.values[n]) / fit.deviations[n] for n in DUFFING_FREE]
    assert np.abs(errors).max() < 4
    assert fit.noise["x"] == pytest.approx(0.02, rel=0.25)


def test_robust_loss_states_its_errors_rightly_on_gaussian_noise(transient):
    """Huber's estimate has 95 % of the efficiency at the Gaussian: errors larger by 1/√0.95, as stated."""
    robust, plain, noise, scaled = [], [], [], []
    for seed in range(12):
        record = readings(transient, 0.02, 50 + seed)
        fit = kz.identify(DUFFING, record, DUFFING_FREE, kz.ShootingFit(robust=True))
        other = kz.identify(DUFFING, record, DUFFING_FREE, kz.ShootingFit())
        if fit.warnings or other.warnings:
            continue  # by chance the noise does not pass for noise: errors then come from blocks
        robust.append(list(fit.deviations.values()))
        noise.append(fit.noise["x"])
        scaled.append([(fit.values[n] - DUFFING.values[n]) / fit.deviations[n] for n in DUFFING_FREE])
        plain.append(list(other.deviations.values()))
    assert len(robust) >= 10
    assert np.mean(noise) == pytest.approx(0.02, rel=0.03)
    np.testing.assert_allclose(np.mean(robust, axis=0) / np.mean(plain, axis=0), 0.95**-0.5, rtol=0.03)
    assert 0.7 < np.sqrt(np.mean(np.square(scaled))) < 1.3


@pytest.mark.parametrize("deviation", [0.5, 1.0])
def test_noise_as_large_as_the_motion_is_still_a_fit(deviation):
    """The motion decays from 1.5 to 0.2: the noise is 0.7 and 0.9 of the spread of the readings."""
    run = kz.simulate(DUFFING, x0=[1.5, 0.0], t=np.arange(800) * 0.05)
    fit = kz.identify(DUFFING, readings(run, deviation, 0), DUFFING_FREE, kz.ShootingFit())
    errors = [(fit.values[n] - DUFFING.values[n]) / fit.deviations[n] for n in DUFFING_FREE]
    assert np.abs(errors).max() < 4
    assert fit.noise["x"] == pytest.approx(deviation, rel=0.1)


def test_many_short_pieces_of_white_noise_count_as_white():
    run = kz.simulate(DUFFING, x0=[1.5, 0.0], t=np.arange(800) * 0.05)
    noise = 0.02 * np.random.default_rng(3).normal(size=800)
    record = kz.Record.from_arrays(run.time + 5.0 * (np.arange(800) // 20), {"x": run["x"] + noise})
    cut = kz.Record.from_arrays(record.time, {"x": record["x"]}, segment=np.arange(800) // 20)
    fit = kz.identify(DUFFING, cut, DUFFING_FREE, kz.ShootingFit())
    assert not any("white" in text for text in fit.warnings)


def test_records_of_different_noise_are_white_together():
    """The noisier of two records would decide alone, on fewer samples than are counted, were it not for its weight."""
    model, alarms = kz.library.lorenz(), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        runs = []
        for count, deviation, x0 in ((800, 0.1, [1.0, 1.0, 25.0]), (300, 0.5, [2.0, 1.0, 20.0])):
            run = kz.simulate(model, x0=x0, t=np.arange(count) * 0.01)
            runs.append(
                kz.Record.from_arrays(run.time, {c: run[c] + deviation * rng.normal(size=count) for c in run.channels})
            )
        fit = kz.identify(model, runs, FREE, kz.ShootingFit())
        alarms += sum(p < 0.02 for p in fit.whiteness.values())
    # 36 tests at 2 %: six or more alarms have a chance below 1e-4.
    assert alarms < 6
