"""Intervals beyond the Gaussian one, priors, bounds, derived parameters, advice, and refusals of bad input."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, KapitzaError, ModelError


@pytest.fixture(scope="module")
def fit(pendulum, noisy):
    return kz.identify(pendulum.with_values(k2=0.0, k3=0.0), noisy(3), ["k2", "k3"])


def changed(model, name, **changes):
    return replace(model, parameters=tuple(replace(p, **changes) if p.name == name else p for p in model.parameters))


def test_profile_likelihood_of_a_nearly_linear_problem_is_the_gaussian_interval(fit):
    low, high = kz.profile_interval(fit, "k2")
    gauss = fit.interval(0.95).loc["k2"]
    width = gauss["high"] - gauss["low"]
    assert low == pytest.approx(gauss["low"], abs=0.03 * width)
    assert high == pytest.approx(gauss["high"], abs=0.03 * width)


def test_posterior_samples_have_the_mean_and_spread_of_the_estimate(fit):
    samples = kz.posterior(fit, draws=80, tune=40, walkers=10, seed=1).posterior["k3"].values.ravel()
    # 10 × 80 samples with a correlation time of some 20 steps: 40 independent ones
    assert samples.mean() == pytest.approx(fit["k3"], abs=0.7 * fit.deviations["k3"])
    assert samples.std() == pytest.approx(fit.deviations["k3"], rel=0.5)


def test_a_prior_joins_the_data_as_one_more_reading(pendulum, noisy, fit):
    deviation = fit.deviations["k3"]
    prior = kz.Prior(pendulum.values["k3"], deviation)
    informed = changed(pendulum.with_values(k2=0.0, k3=0.0), "k3", prior=prior)
    with_prior = kz.identify(informed, noisy(3), ["k2", "k3"], kz.OrbitFit(estimator="bayes"))
    # equal weights: the variance halves, the estimate lies half-way
    assert with_prior.deviations["k3"] == pytest.approx(deviation / np.sqrt(2), rel=0.02)
    assert with_prior["k3"] == pytest.approx((fit["k3"] + prior.mean) / 2, abs=0.05 * deviation)


def test_a_bound_holds_and_is_reported(pendulum, exact):
    tight = changed(pendulum.with_values(k3=1.5e-4), "k3", bounds=(0.0, 1.8e-4))
    found = kz.identify(tight, list(exact), ["k3"], kz.OrbitFit(throw=False))
    assert found["k3"] == 1.8e-4
    assert any("sits at its bound" in text for text in found.warnings)


def test_derived_parameters_carry_the_error_of_their_sources(pendulum, noisy):
    found = kz.identify(pendulum, noisy(2), ["l", "k2"], kz.OrbitFit(derived={"k2/m": "k2/m", "area": "l**2"}))
    table = found.details["derived"].set_index("name")
    assert found["k2/m"] == pytest.approx(found["k2"] / pendulum.values["m"])
    assert table.loc["k2/m", "error"] == pytest.approx(found.deviations["k2"] / pendulum.values["m"])
    assert table.loc["area", "error"] == pytest.approx(2 * found["l"] * found.deviations["l"])


def test_advice_says_what_the_fit_with_the_new_data_confirms(pendulum, exact):
    start = pendulum.with_values(k2=4e-4)
    few = kz.identify(start, list(exact[:3]), ["k2", "k3"])
    ranking = kz.advise(few, [exact[3]]).set_index(["what", "which"])
    promised = ranking.loc[("further orbit", f"period 2 {exact[3].code}"), "k2"]
    more = kz.identify(start, list(exact[:4]), ["k2", "k3"])
    gained = 100 * (1 - more.deviations["k2"] / few.deviations["k2"])
    assert promised == pytest.approx(gained, abs=0.1)
    # all noise halved would halve every error; one of two channels gives less than that
    assert 0 < ranking.loc[("half the noise", "phi"), "k2"] < 50


@pytest.mark.parametrize(
    ("settings", "free", "message"),
    [
        ({"estimator": "magic"}, ["m"], "choose one of auto"),
        ({"formulation": "magic"}, ["m"], 'choose "all-at-once" or "nested"'),
        ({"estimator": "bayes"}, ["m"], "needs a prior"),
        ({"outputs": {"v": "phi"}}, ["m"], '"v" is not a channel'),
        ({}, ["omega"], "sets the period of the excitation"),
        ({}, ["m", "m"], "named twice"),
        ({}, [], "No free parameters"),
    ],
)
def test_bad_settings_are_refused_with_their_cure(pendulum, exact, settings, free, message):
    with pytest.raises(KapitzaError, match=message):
        kz.identify(pendulum, list(exact), free, kz.OrbitFit(**settings))


def test_bad_data_are_refused_with_their_cure(pendulum, exact):
    with pytest.raises(DataError, match="no orbits to fit"):
        kz.identify(pendulum, kz.OrbitSet(()), ["m"])
    with pytest.raises(DataError, match="give this orbit its own excitation"):
        kz.identify(pendulum, [exact[0].with_(period=0.8)], ["m"])
    with pytest.raises(DataError, match="has no covariance"):
        kz.identify(pendulum, [exact[0].with_(covariance=None)], ["m"], kz.OrbitFit(estimator="weighted"))
    with pytest.raises(ModelError, match="is a map"):
        kz.identify(kz.library.trace_map(), list(exact), ["a"])
    with pytest.raises(DataError, match="above 0"):
        kz.Differenced("phi", 0.0)
