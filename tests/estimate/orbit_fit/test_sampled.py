"""OrbitFit on whole profiles, records and outputs: noise estimated, several excitations, free motions, any solver."""

import numpy as np
import pytest

import kapitza as kz


@pytest.fixture(scope="module")
def duffing():
    return kz.library.duffing().with_values(k=0.08, B=0.2)


def steady(model, guess, samples=60, periods=1):
    """One repetition of the orbit near the guess, as a record of x alone."""
    orbit = kz.solve_orbit(model, guess, periods)
    loop = orbit.loop
    states = loop(np.arange(samples) / samples)
    return kz.Record.from_arrays(
        np.arange(samples) * orbit.period / samples, {"x": states[:, 0]}, period=model.period, phase=0.0
    )


def test_a_record_of_positions_gives_damping_and_force_with_noise_unknown(duffing):
    clean = steady(duffing, None)
    record = kz.measure(clean, noise=2e-3, seed=4)
    method = kz.OrbitFit(estimator="maximum likelihood")
    fit = kz.identify(duffing.with_values(k=0.1, B=0.22), record, ["k", "B"], method)
    assert fit.dof == 58
    for name in ("k", "B"):
        assert abs(fit[name] - duffing.values[name]) < 4 * fit.deviations[name]
    # the noise estimate scatters by σ/sqrt(2 dof): 9 %
    assert fit.noise["x"] == pytest.approx(2e-3, rel=0.4)


def test_noise_free_profiles_give_the_parameters_back(duffing):
    orbit = kz.solve_orbit(duffing)
    fit = kz.identify(duffing.with_values(k=0.1, B=0.22), [orbit], ["k", "B"], kz.OrbitFit(profiles=True))
    assert fit["k"] == pytest.approx(0.08, rel=1e-8)
    assert fit["B"] == pytest.approx(0.2, rel=1e-8)


def test_records_with_different_excitations_are_fitted_together(duffing):
    data = []
    for force in (0.2, 0.25):
        record = kz.measure(steady(duffing.with_values(B=force), None), noise=1e-4, seed=int(100 * force))
        data.append((record, {"B": force}))
    fit = kz.identify(duffing.with_values(k=0.1), data, ["k"], kz.OrbitFit())
    assert abs(fit["k"] - 0.08) < 4 * fit.deviations["k"]
    assert len(fit.matches.orbits) == 2


@pytest.fixture(scope="module")
def van_der_pol():
    return kz.Model.from_equations(
        "x'' - mu*(1 - x**2)*x' + k*x = 0", parameters={"mu": 0.8, "k": 1.3}, start={"x": 2.0}, name="van_der_pol"
    )


def test_a_free_oscillation_is_fitted_with_its_period(van_der_pol):
    orbit = kz.solve_orbit(van_der_pol, [2.0, 0.0], 5.9)
    fit = kz.identify(van_der_pol.with_values(mu=1.0, k=1.2), [orbit], ["mu", "k"], kz.OrbitFit(profiles=True))
    assert fit["mu"] == pytest.approx(0.8, rel=1e-7)
    assert fit["k"] == pytest.approx(1.3, rel=1e-7)
    assert fit.matches.orbits[0].period == pytest.approx(orbit.period, rel=1e-8)


def test_a_wrong_period_of_a_free_oscillation_does_not_spoil_the_fit(van_der_pol):
    """The samples carry the period; the number written beside them counts only with an error of its own."""
    exact = kz.solve_orbit(van_der_pol, [2.0, 0.0], 5.9)
    start, method = van_der_pol.with_values(mu=0.9, k=1.25), kz.OrbitFit(profiles=True, noise=1e-3)
    rng = np.random.default_rng(7)
    states = exact.profile.states + 1e-3 * rng.standard_normal(exact.profile.states.shape)
    fits = []
    for share in (1.0, 1.003):
        orbit = exact.with_(period=share * exact.period, profile=kz.orbits.Profile(exact.profile.times, states))
        fits.append(kz.identify(start, [orbit], ["mu", "k"], method))
        for name in ("mu", "k"):
            assert abs(fits[-1][name] - van_der_pol.values[name]) < 4 * fits[-1].deviations[name]
    assert fits[0]["k"] == pytest.approx(fits[1]["k"], abs=1e-3 * fits[0].deviations["k"])
    known = exact.with_(profile=kz.orbits.Profile(exact.profile.times, states), period_deviation=1e-6 * exact.period)
    sharper = kz.identify(start, [known], ["mu", "k"], method)
    assert sharper.deviations["k"] < 0.7 * fits[0].deviations["k"]
    assert abs(sharper["k"] - 1.3) < 4 * sharper.deviations["k"]


def test_landing_gear_gives_the_same_estimate_by_every_solver():
    """PERIODIC section 6.5: θ4 and θ11 from y = u + θ14, started from (6.0, 0.66)."""
    truth = kz.library.oleo(values="estimation")
    orbit = kz.solve_orbit(truth, truth.state())
    loop = orbit.loop
    samples = 50
    y = loop(np.arange(samples) / samples)[:, 0] + truth.values["theta14"]
    record = kz.Record.from_arrays(
        np.arange(samples) * orbit.period / samples, {"y": y}, period=truth.period, phase=0.0
    )
    record = kz.measure(record, noise=1e-4, seed=0)
    start = truth.with_values(theta4=6.0, theta11=0.66)
    methods = (kz.OrbitFit(), kz.OrbitFit(formulation="nested", method=kz.Collocation(tolerance=1e-7)))
    # Collocation reads its own curve and differentiates its own curves: nothing of the flow is in the second fit.
    first, second = (kz.identify(start, record, ["theta4", "theta11"], m) for m in methods)
    for name in ("theta4", "theta11"):
        assert abs(first[name] - truth.values[name]) < 4 * first.deviations[name]
        assert first[name] == pytest.approx(second[name], rel=1e-5)


def test_noise_of_a_decisive_channel_is_not_underestimated(duffing):
    """x is fifty times noisier than x': both parameters are charged to the eight readings of x'.

    Then E|r|² = σ² (8 - 2) there and σ² · 8 for x, so that the squares of the weighted residuals sum to 6 and 8; the
    intervals rest on those six degrees of freedom, not on all fourteen.
    """
    orbit = kz.solve_orbit(duffing)
    share = np.arange(8) / 8
    states = orbit.loop(share)
    clean = kz.Record.from_arrays(
        share * orbit.period, {"x": states[:, 0], "x'": states[:, 1]}, period=duffing.period, phase=0.0
    )
    method = kz.OrbitFit(estimator="maximum likelihood", restarts=0)
    for seed in range(3):
        record = kz.measure(clean, noise={"x": 5e-3, "x'": 1e-4}, seed=seed)
        fit = kz.identify(duffing, record, ["k", "B"], method)
        assert float((fit.residuals["x'"] ** 2).sum()) == pytest.approx(6, abs=0.05)
        assert float((fit.residuals["x"] ** 2).sum()) == pytest.approx(8, abs=0.05)
        assert fit.dof == pytest.approx(6, abs=0.2)


def test_the_nested_form_has_the_same_history_as_the_other(duffing):
    record = kz.measure(steady(duffing, None), noise=1e-3, seed=1)
    start = duffing.with_values(k=0.09, B=0.21)
    fit = kz.identify(start, record, ["k", "B"], kz.OrbitFit(formulation="nested", noise=1e-3))
    history = fit.history
    assert history["k"].iloc[-1] == pytest.approx(fit["k"], rel=1e-6)
    assert history["cost"].is_monotonic_decreasing
    assert 0 < history["closure"].max() < 1e-8


def test_time_discretisation_converges_to_shooting_with_its_order(duffing):
    """Each point more of second-order differences: the estimate's error falls as the square of the step."""
    record = kz.measure(steady(duffing, None), noise=2e-3, seed=4)
    start, free = duffing.with_values(k=0.1, B=0.22), ["k", "B"]
    goal = kz.identify(start, record, free, kz.OrbitFit())
    gaps = []
    for points in (60, 120):
        method = kz.Differences(points=points, order=2, tolerance=1e-2)
        fit = kz.identify(start, record, free, kz.OrbitFit(formulation="nested", method=method))
        gaps.append(abs(fit["B"] - goal["B"]))
    assert gaps[0] > 1e-7
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.15)


def test_the_model_that_made_the_data_is_told_by_its_criteria(duffing):
    """Data of a Duffing oscillator; the rival has a linear spring, with one free parameter more."""
    record = kz.measure(steady(duffing, (1.0, 0.0)), noise=2e-3, seed=4)
    linear = kz.Model.from_equations(
        "x'' + k*x' + w*x = B*cos(t)", parameters={"k": 0.1, "w": 0.8, "B": 0.2}, period="2*pi", start={"x": 1.0}
    )
    fits = {
        "cubic": kz.identify(duffing, record, ["k", "B"], kz.OrbitFit()),
        "linear": kz.identify(linear, record, ["k", "w", "B"], kz.OrbitFit(throw=False)),
    }
    table = kz.compare_fits(fits)
    assert table.index[0] == "cubic"
    # By definition: dAIC = 2 (k₂ - k₁) + χ²₂ - χ²₁ where the noise is known
    expected = 2 * (3 - 2) + fits["linear"].chi2 - fits["cubic"].chi2
    assert table.loc["linear", "dAIC"] == pytest.approx(expected)
    assert table.loc["linear", "dAIC"] > 10
    assert table.loc["cubic", "weight"] > 0.99
    with pytest.raises(kz.KapitzaError, match="at least two fits"):
        kz.compare_fits({"cubic": fits["cubic"]})


@pytest.mark.parametrize("method", [kz.Shooting(), kz.Collocation()], ids=["shooting", "collocation"])
def test_an_unstable_free_motion_is_fitted_by_any_solver(method):
    lorenz = kz.library.lorenz()
    orbit = kz.solve_orbit(lorenz, [-13.76, -19.58, 27.0], 1.5586)
    settings = kz.OrbitFit(profiles=True, formulation="nested", method=method, restarts=0)
    fit = kz.identify(lorenz.with_values(rho=28.5), [orbit], ["sigma", "rho", "beta"], settings)
    for name in fit.names:
        assert fit[name] == pytest.approx(lorenz.values[name], rel=1e-6)
