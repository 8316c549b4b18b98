"""Intervals beyond the Gaussian one, priors, bounds, derived parameters, advice, and refusals of bad input."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

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
    """32 × 1500 samples, correlation time below 40 steps: 1200 independent ones, so 0.03 σ and 2 % at one sigma."""
    drawn = kz.posterior(fit, draws=1500, seed=1).posterior
    assert drawn.attrs["log_p_error"] < 0.01
    for name in fit.names:
        samples = drawn[name].values.ravel()
        assert samples.mean() == pytest.approx(fit[name], abs=0.12 * fit.deviations[name])
        assert samples.std() == pytest.approx(fit.deviations[name], rel=0.08)


def test_the_expansion_behind_the_posterior_is_that_of_the_model(fit):
    from kapitza.estimate.orbit_fit.intervals import expand, log_posterior

    fast, centre = expand(fit), np.array([fit[name] for name in fit.names])
    root = np.linalg.cholesky(fit.covariance)
    top = log_posterior(fit, centre)
    for direction in ([2.0, 0.0], [0.0, -2.0], [1.5, 1.5]):
        theta = centre + root @ direction
        # Gaussian to first order: -|d|²/2; the model itself to second
        assert log_posterior(fit, theta) - top == pytest.approx(-0.5 * np.dot(direction, direction), rel=0.05)
        assert fast(theta[None])[0] == pytest.approx(log_posterior(fit, theta), abs=1e-3)


def test_a_bound_makes_the_intervals_those_of_a_truncated_gaussian(pendulum, noisy, fit):
    """Bound half a standard error above the free minimum of k2: moments and quantiles in closed form."""
    low = fit["k2"] + 0.5 * fit.deviations["k2"]
    bounded = changed(pendulum.with_values(k2=1.2 * low, k3=2e-4), "k2", bounds=(low, 1.0))
    held = kz.identify(bounded, noisy(3), ["k2", "k3"])
    exact = stats.truncnorm(0.5, np.inf, loc=fit["k2"], scale=fit.deviations["k2"])
    assert held["k2"] == low
    assert held.deviations["k2"] == pytest.approx(exact.std(), rel=0.06)
    ends = held.interval(0.9).loc["k2"]
    assert ends["low"] == pytest.approx(low, abs=0.01 * fit.deviations["k2"])
    assert ends["high"] == pytest.approx(exact.ppf(0.9), abs=0.1 * fit.deviations["k2"])
    # k3 follows k2 with the correlation of the free fit; it is not known as if k2 sat at the bound
    slope = fit.covariance[0, 1] / fit.covariance[0, 0]
    rest = fit.covariance[1, 1] - slope * fit.covariance[0, 1]
    assert held.deviations["k3"] == pytest.approx(np.sqrt(slope**2 * exact.var() + rest), rel=0.06)
    assert kz.profile_interval(held, "k2", 0.9)[0] == low
    samples = kz.posterior(held, seed=2).posterior["k2"].values
    assert samples.min() >= low
    assert samples.mean() == pytest.approx(exact.mean(), abs=0.1 * exact.std())


def test_multipliers_count_in_profile_and_posterior_as_they_do_in_the_fit(pendulum, noisy):
    with_errors = [o.with_(multiplier_deviation=2e-3 * np.abs(o.multipliers)) for o in noisy(3)]
    start = pendulum.with_values(k2=0.0, k3=0.0)
    found = kz.identify(start, with_errors, ["k2", "k3"], kz.OrbitFit(multipliers=True))
    gauss = found.interval(0.95).loc["k2"]
    width = gauss["high"] - gauss["low"]
    low, high = kz.profile_interval(found, "k2")
    assert low == pytest.approx(gauss["low"], abs=0.03 * width)
    assert high == pytest.approx(gauss["high"], abs=0.03 * width)
    samples = kz.posterior(found, seed=1).posterior["k2"].values
    assert samples.std() == pytest.approx(found.deviations["k2"], rel=0.1)
    quieter = kz.advise(found).set_index("what").loc["half the noise", "k2"]
    assert (quieter > 0).all()


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


def test_parameters_that_cannot_be_told_apart_have_no_finite_interval(pendulum, noisy):
    found = kz.identify(pendulum, noisy(2), ["m", "l", "k2", "k3"], kz.OrbitFit(throw=False))
    assert not found.status.ok
    assert np.isinf([found.deviations[name] for name in ("m", "k2", "k3")]).all()
    assert np.isfinite(found.deviations["l"])
    assert any("only l, k2/m, k3/m" in text for text in found.warnings)


def test_combinations_can_be_free_and_do_not_depend_on_what_is_held(pendulum, noisy):
    start = pendulum.with_values(l=0.3, k2=0.0, k3=0.0)
    first, second = (kz.identify(s, noisy(2), ["l", "k2/m", "k3/m"]) for s in (start, start.with_values(m=0.15)))
    for name in ("l", "k2/m", "k3/m"):
        assert first[name] == pytest.approx(second[name], rel=1e-6)
        assert first.deviations[name] == pytest.approx(second.deviations[name], rel=1e-4)
    assert abs(first["k3/m"] - pendulum.values["k3"] / pendulum.values["m"]) < 4 * first.deviations["k3/m"]
    assert "k2/m" in str(first)
    base = kz.identify(start, noisy(2), ["l", "k2", "k3"], kz.OrbitFit(derived={"k2/m": "k2/m"}))
    assert base.table().loc["k2/m", "error"] == pytest.approx(first.deviations["k2/m"], rel=1e-6)
    assert "k2/m" in str(base)


def test_derived_parameters_of_the_model_are_fitted_and_given_back():
    """Physical m, c, k; the equation knows only d = c/m and w = k/m: these are free, or c and k with m known."""
    model = kz.Model.from_equations(
        "x'' + d*x' + w*x + e*x**3 = 0.5*cos(t)",
        parameters={"m": 2.0, "c": 0.4, "k": 3.0, "e": 0.3, "d": "c/m", "w": "k/m"},
        period="2*pi",
        start={"x": 0.0},
    )
    orbit = kz.solve_orbit(model)
    far = model.with_values(c=0.6, k=2.5)
    physical = kz.identify(far, [orbit], ["c", "k"], kz.OrbitFit(profiles=True))
    mathematical = kz.identify(far, [orbit], ["d", "w"], kz.OrbitFit(profiles=True))
    assert physical["d"] == pytest.approx(0.2, rel=1e-7)
    assert mathematical["d"] == pytest.approx(0.2, rel=1e-7)
    assert mathematical["w"] == pytest.approx(1.5, rel=1e-7)
    assert mathematical.deviations["w"] == pytest.approx(physical.derived["w"], rel=1e-2, abs=1e-12)
    # Of d = c/m and w = k/m nothing follows about c, k and m alone.
    assert not {"m", "c", "k"} & set(mathematical.derived)


def test_derived_parameters_carry_the_error_of_their_sources(pendulum, noisy):
    method = kz.OrbitFit(derived={"k2/m": "k2/m", "area": "l**2"})
    found = kz.identify(pendulum, noisy(2), ["l", "k2", "k3"], method)
    table = found.table()
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
        ({"estimator": "magic"}, ["m"], "choose 'auto' or 'least squares'"),
        ({"formulation": "magic"}, ["m"], "choose 'all-at-once' or 'nested'"),
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
    with pytest.raises(DataError, match="no data to fit"):
        kz.identify(pendulum, kz.OrbitSet(()), ["m"])
    with pytest.raises(DataError, match="give this orbit its own excitation"):
        kz.identify(pendulum, [exact[0].with_(period=0.8)], ["m"])
    with pytest.raises(DataError, match="has no covariance"):
        kz.identify(pendulum, [exact[0].with_(covariance=None)], ["m"], kz.OrbitFit(estimator="weighted"))
    with pytest.raises(ModelError, match="is a map"):
        kz.identify(kz.library.trace_map(), list(exact), ["a"])
    with pytest.raises(DataError, match="above 0"):
        kz.DifferenceQuotient("phi", 0.0)
    with pytest.raises(DataError, match="not on str"):
        kz.identify(pendulum, "orbits.json", ["m"], kz.OrbitFit())


def spoilt(array, value):
    array = np.array(array, float)
    array.flat[0] = value
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: {"points": spoilt(o.points, np.nan)}, 'no number at point 0 of "phi"'),
        (lambda o: {"covariance": 0 * o.covariance}, "is not one"),
        (lambda o: {"covariance": -o.covariance}, "is not one"),
        (lambda o: {"covariance": spoilt(o.covariance, np.nan)}, "is not one"),
        (lambda o: {"covariance": np.eye(3)}, r"shape \(3, 3\)"),
        (lambda o: {"covariance": o.covariance + 2e-5 * np.eye(2)[::-1]}, "correlations within"),
        (lambda o: {"period": float("nan")}, "has the period nan s"),
    ],
)
def test_an_orbit_that_cannot_be_one_is_named(pendulum, exact, change, message):
    wrong = exact[0].with_(**change(exact[0]))
    with pytest.raises(DataError, match=message):
        kz.identify(pendulum, [*exact[1:], wrong], ["m", "l"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": {"phi": -1e-3}}, "finite number, 0 or above"),
        ({"noise": 1e-3}, "carries its own covariance"),
        ({"method": "rubbish"}, "only the nested form"),
        ({"method": "rubbish", "formulation": "nested"}, "not a periodic solver"),
        ({"period": 7}, "is for records"),
        ({"nodes": 0}, "nodes = 0; give a whole number, 1 or more"),
        ({"restarts": -1}, "restarts = -1; give a whole number, 0 or more"),
        ({"derived": {"q": "m/nothing"}}, "nothing"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(pendulum, exact, settings, message):
    with pytest.raises(KapitzaError, match=message):
        kz.identify(pendulum, list(exact), ["m", "l"], kz.OrbitFit(**settings))


def test_multipliers_without_uncertainty_are_refused(pendulum, exact):
    with pytest.raises(DataError, match="no orbit carries the uncertainty of its multipliers"):
        kz.identify(pendulum, list(exact), ["m", "l"], kz.OrbitFit(multipliers=True))


def test_what_is_free_cannot_also_be_given_with_the_data(pendulum, exact):
    with pytest.raises(ModelError, match=r"A is free and also given as 0\.131"):
        kz.identify(pendulum, [(list(exact), {"A": 0.131})], ["A"])


def test_a_profile_is_as_wide_as_the_fit_made_each_variance(pendulum, noisy):
    """With variances widened by 1 and 9, and a χ² that is nearly quadratic, the ends lie 1.96 and 3 · 1.96 σ away."""
    fit = kz.identify(pendulum, noisy(0), ["m", "l"])
    wider = replace(fit, covariance=fit.covariance * np.outer([1.0, 3.0], [1.0, 3.0]))
    for name in fit.names:
        low, high = kz.profile_interval(wider, name)
        assert (high - low) / (2 * wider.deviations[name]) == pytest.approx(1.96, rel=0.05)


def test_a_profile_knows_that_the_noise_was_estimated(pendulum, noisy):
    orbits = [o.with_(covariance=None) for o in noisy(0)]
    fit = kz.identify(pendulum, orbits, ["m", "l"], kz.OrbitFit(estimator="least squares"))
    assert np.isfinite(fit.dof)
    low, high = kz.profile_interval(fit, "l")
    assert (high - low) / (2 * fit.deviations["l"]) == pytest.approx(stats.t.ppf(0.975, fit.dof), rel=0.03)


def test_expressions_of_undetermined_parameters_are_undetermined(pendulum, noisy):
    settings = kz.OrbitFit(throw=False, derived={"k2 half": "k2/2", "twice l": "2*l"}, restarts=0)
    fit = kz.identify(pendulum, noisy(0), ["m", "l", "k2", "k3"], settings)
    assert np.isinf(fit.derived["k2 half"])
    assert fit.derived["twice l"] == pytest.approx(2 * fit.deviations["l"], rel=1e-9)
    combined = kz.identify(pendulum, noisy(0), ["m", "2*l", "k2/m", "k3/m"], kz.OrbitFit(throw=False, restarts=0))
    assert np.isinf(combined.deviations["m"])
    assert np.isfinite(combined.deviations["2*l"])


def test_orbits_that_disagree_count_as_blocks_of_the_jackknife(pendulum, exact):
    """A wrong length that is held: orbits prefer other friction, and their scatter makes the interval."""
    wrong = pendulum.with_values(l=1.002 * pendulum.values["l"], k2=4e-4, k3=2e-4)

    def fitted(orbits):
        return kz.identify(wrong, list(orbits), ["k2", "k3"])

    fit, steps = fitted(exact), []
    for left_out in range(len(exact)):
        part = fitted([orbit for i, orbit in enumerate(exact) if i != left_out])
        steps.append([part["k2"], part["k3"]])
    moved = np.array(steps)
    refits = np.sqrt(4 / 5 * ((moved - moved.mean(axis=0)) ** 2).sum(axis=0))
    assert not fit.misfit.to_the_noise
    assert fit.dof <= 4.0
    assert (np.array(list(fit.deviations.values())) > 0.7 * refits).all()
