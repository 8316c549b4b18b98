"""The Lorenz system, 3000 samples at 0.01: a chaotic record on which local optimisers fail."""

import numpy as np
import pytest

import kapitza as kz

FREE = ["sigma", "rho", "beta"]
TRUTH = np.array([10.0, 28.0, 8 / 3])


@pytest.fixture(scope="module")
def clean():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(4000) * 0.01)
    return kz.Record.from_arrays(np.arange(3000) * 0.01, {c: run[c][1000:] for c in run.channels})


def noisy(clean, level, seed, channels=("x", "y", "z")):
    rng = np.random.default_rng(seed)
    readings = {c: clean[c] + level * clean[c].std() * rng.normal(size=clean.size) for c in channels}
    return kz.Record.from_arrays(clean.time, readings)


def far_start(seed):
    factors = 1 + np.random.default_rng(1000 + seed).uniform(-0.8, 0.8, 3)
    return kz.library.lorenz().with_values(**dict(zip(FREE, TRUTH * factors, strict=True)))


def errors(fit):
    return np.array([fit.values[name] for name in FREE]) - TRUTH


def test_noise_free_data_give_the_parameters_to_rounding(clean):
    fit = kz.identify(far_start(0), clean, FREE, kz.ShootingFit())
    assert np.abs(errors(fit)).max() < 1e-10
    assert fit.status.ok


@pytest.mark.parametrize("level", [0.01, 0.1])
def test_far_starts_reach_the_truth_within_the_stated_errors(clean, level):
    bound = kz.cramer_rao(
        kz.library.lorenz(), clean, {c: level * clean[c].std() for c in clean.channels}, FREE
    ).to_numpy()
    scaled = []
    for seed in range(8):
        fit = kz.identify(far_start(seed), noisy(clean, level, seed), FREE, kz.ShootingFit())
        scaled.append(errors(fit) / np.sqrt(np.diag(fit.covariance)))
        np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), np.sqrt(np.diag(bound)), rtol=0.1)
        assert fit.noise["x"] == pytest.approx(level * clean["x"].std(), rel=0.05)
    assert np.abs(scaled).max() < 4
    assert 0.5 < np.std(scaled) < 1.5


def test_one_channel_is_enough(clean):
    for seed in range(3):
        fit = kz.identify(far_start(seed), noisy(clean, 0.05, seed, ["x"]), FREE, kz.ShootingFit())
        assert (np.abs(errors(fit)) < 4 * np.sqrt(np.diag(fit.covariance))).all()


def test_covariance_is_the_inverse_information_of_one_long_shot(clean):
    """Over a short stretch single shooting is well conditioned: its normal equations give the same covariance."""
    short = kz.Record.from_arrays(clean.time[:60], {c: clean[c][:60] for c in clean.channels})
    noise = {"x": 0.1, "y": 0.2, "z": 0.3}
    flow = kz.Flow(kz.library.lorenz(), wrt=tuple(FREE))
    _, by_state, by_theta = flow.trajectory_tangents(short.values()[0], short.time)
    weights = np.array([1 / noise[c] for c in short.channels])
    jacobian = (weights[:, None] * np.concatenate([by_state, by_theta], axis=2)).reshape(-1, 6)
    expected = np.linalg.inv(jacobian.T @ jacobian)[3:, 3:]
    found = kz.cramer_rao(kz.library.lorenz(), short, noise, FREE).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_outliers_do_little_harm_to_the_robust_loss(clean):
    record = noisy(clean, 0.01, 3)
    spoilt = {c: record[c].copy() for c in record.channels}
    for c in spoilt:
        spoilt[c][::50] += 5.0
    spoilt = kz.Record.from_arrays(record.time, spoilt, bad_samples="keep")
    robust = np.abs(errors(kz.identify(far_start(1), spoilt, FREE, kz.ShootingFit(robust=True))))
    plain = np.abs(errors(kz.identify(far_start(1), spoilt, FREE, kz.ShootingFit())))
    assert robust.max() < 0.03
    assert robust.max() < 0.5 * plain.max()


def test_gaps_segments_and_two_records_share_the_parameters(clean):
    record = noisy(clean, 0.01, 5)
    keep = np.ones(record.size, bool)
    keep[700:900] = False
    keep[1500:1503] = False
    holed = kz.Record.from_arrays(record.time[keep], {c: record[c][keep] for c in record.channels})
    fit = kz.identify(far_start(2), [holed, noisy(clean, 0.01, 6)], FREE, kz.ShootingFit())
    assert (np.abs(errors(fit)) < 4 * np.sqrt(np.diag(fit.covariance))).all()


def test_prior_and_bound_are_respected(clean):
    record = noisy(clean, 0.05, 7)
    start = far_start(3)
    parameters = tuple(
        kz.Parameter("rho", 27.0, bounds=(0.0, 27.5)) if p.name == "rho" else p for p in start.parameters
    )
    from dataclasses import replace

    fit = kz.identify(replace(start, parameters=parameters), record, FREE, kz.ShootingFit())
    assert fit.values["rho"] == pytest.approx(27.5)
    assert any("bound" in text for text in fit.warnings)
    tight = tuple(
        kz.Parameter("beta", 2.0, prior=kz.Prior(8 / 3, 1e-6)) if p.name == "beta" else p for p in start.parameters
    )
    fit = kz.identify(replace(start, parameters=tight), record, FREE, kz.ShootingFit())
    assert fit.values["beta"] == pytest.approx(8 / 3, abs=5e-6)
    assert fit.deviations["beta"] == pytest.approx(1e-6, rel=0.01)


def test_held_back_samples_test_the_prediction(clean):
    fit = kz.identify(far_start(4), noisy(clean, 0.01, 8), FREE, kz.ShootingFit(hold_back=0.1))
    prediction = fit.motion.prediction
    assert prediction.horizon > 0.5
    assert prediction.error.shape == (300, 3)


def test_profile_likelihood_agrees_with_the_standard_error(clean):
    fit = kz.identify(far_start(5), noisy(clean, 0.01, 9), FREE, kz.ShootingFit())
    low, high = kz.profile_interval(fit, "rho", 0.95)
    interval = fit.interval(0.95).loc["rho"]
    assert low == pytest.approx(interval["low"], abs=0.1 * fit.deviations["rho"])
    assert high == pytest.approx(interval["high"], abs=0.1 * fit.deviations["rho"])


def test_profile_of_the_only_parameter(clean):
    record = noisy(clean, 0.01, 9)
    fit = kz.identify(kz.library.lorenz().with_values(rho=20.0), record, ["rho"], kz.ShootingFit())
    low, high = kz.profile_interval(fit, "rho", 0.68)
    assert high - low == pytest.approx(2 * 0.9945 * fit.deviations["rho"], rel=0.05)


def test_the_channel_that_drives_the_others_is_enough(clean):
    """A first run may settle near the data with wrong unseen states: the observer's states then lead to the truth."""
    short = kz.Record.from_arrays(clean.time[:800], {c: clean[c][:800] for c in clean.channels})
    start = kz.library.lorenz().with_values(sigma=9.0, rho=30.0, beta=2.5)
    for seed in range(4):
        fit = kz.identify(start, noisy(short, 0.012, seed, ["y"]), FREE, kz.ShootingFit())
        assert (np.abs(errors(fit)) < 4 * np.sqrt(np.diag(fit.covariance))).all()
