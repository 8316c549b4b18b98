"""What an estimate says about its limits: bounds, multipliers, dependent, derived and combined parameters."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import kapitza as kz
from kapitza.errors import KapitzaError, Status


def changed(model, name, **changes):
    return replace(model, parameters=tuple(replace(p, **changes) if p.name == name else p for p in model.parameters))


@pytest.fixture(scope="module")
def friction(pendulum):
    return pendulum.with_values(k2=0.0, k3=0.0)


@pytest.fixture(scope="module")
def plain(friction, noisy):
    return kz.identify(friction, noisy(3), ["k2", "k3"])


@pytest.fixture(scope="module")
def with_multipliers(friction, noisy):
    orbits = [o.with_(multiplier_deviation=2e-3 * np.abs(o.multipliers)) for o in noisy(3)]
    return kz.identify(friction, orbits, ["k2", "k3"], kz.OrbitFit(multipliers=True))


def test_advice_after_multipliers_never_promises_a_loss(with_multipliers):
    ranking = kz.advise(with_multipliers)
    assert (ranking[["k2", "k3"]].to_numpy() > -1e-6).all()
    assert (ranking[["k2", "k3"]].to_numpy() <= 50 + 1e-6).all()


def truncated_moments(mean, covariance, bound, seed=0):
    """Mean and covariance of a Gaussian cut off below `bound` in its first entry, in closed form (Tallis 1961)."""
    sd = np.sqrt(covariance[0, 0])
    a = (bound - mean[0]) / sd
    rise = stats.norm.pdf(a) / stats.norm.sf(a)
    shift = covariance[:, 0] / sd * rise
    shrink = np.outer(covariance[:, 0], covariance[:, 0]) / covariance[0, 0] * (rise * (rise - a))
    return mean + shift, covariance - shrink


def test_a_parameter_at_its_bound_leaves_the_others_as_uncertain_as_they_are(friction, noisy, plain):
    """k2 and k3 correlate by -0.99: with k2 cut off above the minimum, k3 is known as the cut Gaussian says."""
    bound = plain["k2"] + 0.5 * plain.deviations["k2"]
    start = changed(friction.with_values(k2=1.1 * bound), "k2", bounds=(bound, 1.0))
    fit = kz.identify(start, noisy(3), ["k2", "k3"])
    assert fit["k2"] == bound
    assert any("k2 sits at its bound" in text for text in fit.warnings)
    mean, covariance = truncated_moments(np.array([plain["k2"], plain["k3"]]), plain.covariance, bound)
    assert fit.deviations["k3"] == pytest.approx(np.sqrt(covariance[1, 1]), rel=0.1)
    assert fit.deviations["k2"] == pytest.approx(np.sqrt(covariance[0, 0]), rel=0.1)
    low, high = fit.interval(0.9).loc["k2"]
    # one-sided: from the bound to the 90 % quantile of the tail
    sd = plain.deviations["k2"]
    tail = plain["k2"] + sd * stats.norm.isf(0.1 * stats.norm.sf((bound - plain["k2"]) / sd))
    assert low == pytest.approx(bound, abs=0.02 * sd)
    assert high == pytest.approx(tail, abs=0.1 * sd)
    assert np.isfinite(fit.correlation).all()
    assert kz.profile_interval(fit, "k2")[0] == bound
    samples = kz.posterior(fit, draws=400, tune=200, seed=2).posterior
    assert float(samples["k2"].min()) >= bound
    assert float(samples["k3"].mean()) == pytest.approx(mean[1], abs=0.5 * np.sqrt(covariance[1, 1]))


def test_a_profile_stays_within_the_bounds(friction, noisy, plain):
    bound = plain["k2"] - 0.8 * plain.deviations["k2"]
    fit = kz.identify(changed(friction.with_values(k2=plain["k2"]), "k2", bounds=(bound, 1.0)), noisy(3), ["k2", "k3"])
    assert kz.profile_interval(fit, "k2")[0] == bound


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1])
def test_levels_lie_between_zero_and_one(plain, level):
    with pytest.raises(KapitzaError, match="between 0 and 1"):
        kz.profile_interval(plain, "k2", level=level)
    with pytest.raises(KapitzaError, match="between 0 and 1"):
        plain.interval(level)


def test_dependent_parameters_have_infinite_errors_when_they_are_fitted_all_the_same(pendulum, exact):
    fit = kz.identify(pendulum, list(exact), ["m", "l", "k2", "k3"], kz.OrbitFit(throw=False))
    assert fit.status is Status.SINGULAR
    assert [np.isinf(fit.deviations[name]) for name in fit.names] == [True, False, True, True]
    assert fit.identifiable == ("l", "k2/m", "k3/m")
    assert any("only l, k2/m, k3/m" in text for text in fit.warnings)
    with pytest.raises(KapitzaError, match="not determined"):
        kz.profile_interval(fit, "m")
    with pytest.raises(KapitzaError, match="not determined"):
        kz.posterior(fit)
    with pytest.raises(KapitzaError, match="free only l, k2/m, k3/m"):
        kz.advise(fit)


def test_derived_parameters_are_printed_with_their_errors(pendulum, noisy):
    fit = kz.identify(pendulum, noisy(2), ["l", "k2", "k3"], kz.OrbitFit(derived={"k2/m": "k2/m"}))
    expected = fit.deviations["k2"] / pendulum.values["m"]
    row = fit.table(0.95).loc["k2/m"]
    assert row["error"] == pytest.approx(expected)
    assert row["high"] - row["low"] == pytest.approx(2 * stats.norm.ppf(0.975) * expected)
    line = next(text for text in str(fit).splitlines() if text.strip().startswith("k2/m"))
    assert f"± {expected:.2g}" in line


def test_the_refusal_of_dependent_parameters_can_be_followed(pendulum, exact):
    """What the message calls determined can be passed as free."""
    with pytest.raises(KapitzaError, match="free only the combinations") as refusal:
        kz.identify(pendulum, list(exact), ["m", "l", "k2", "k3"])
    named = str(refusal.value).split("only ")[1].split(".")[0].split(", ")
    fit = kz.identify(pendulum, list(exact), named)
    assert fit["k3/m"] == pytest.approx(pendulum.values["k3"] / pendulum.values["m"], rel=1e-7)


def test_combinations_that_depend_on_each_other_are_refused(pendulum, exact):
    with pytest.raises(KapitzaError, match="not independent"):
        kz.identify(pendulum, list(exact), ["k2/m", "m/k2"])


def test_a_prior_that_is_not_used_is_mentioned(pendulum, noisy):
    informed = changed(pendulum.with_values(k3=1.5e-4), "k3", prior=kz.Prior(1.9e-4, 1e-5))
    fit = kz.identify(informed, noisy(2), ["k3"], kz.OrbitFit(estimator="weighted"))
    assert any("prior of k3 was not used" in text for text in fit.warnings)


def test_a_prior_against_the_data_is_blamed(pendulum, noisy):
    wrong = changed(pendulum, "l", prior=kz.Prior(0.5, 1e-6))
    with pytest.raises(KapitzaError, match="prior of l"):
        kz.identify(wrong, noisy(2), ["m", "l"], kz.OrbitFit(restarts=1))


def test_few_walkers_are_refused(plain):
    with pytest.raises(KapitzaError, match="walkers"):
        kz.posterior(plain, walkers=3)


def test_advice_passes_over_an_orbit_that_does_not_close(plain, exact):
    broken = exact[0].with_(points=exact[0].points + np.array([[0.9, -7.0]]), code="X")
    ranking = kz.advise(plain, [broken, exact[3]])
    row = ranking[ranking["which"] == "period 1 X"].iloc[0]
    assert np.isnan(row["k2"])
    assert "does not close" in row["what"]
    assert (ranking["what"] == "further orbit").sum() == 1
