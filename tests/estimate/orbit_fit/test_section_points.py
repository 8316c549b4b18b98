"""OrbitFit on section points: recovery, derivatives, coverage, refusals."""

import numpy as np
import pytest
from scipy import stats

import kapitza as kz
from kapitza.errors import ConvergenceError, IdentifiabilityError


def far(model):
    return model.with_values(m=1.5 * model.values["m"], l=0.8 * model.values["l"])


@pytest.mark.parametrize("formulation", ["all-at-once", "nested"])
def test_exact_orbits_give_the_parameters_back(pendulum, exact, formulation):
    start = far(pendulum) if formulation == "all-at-once" else pendulum.with_values(m=0.0875, l=0.3155)
    fit = kz.identify(start, list(exact), ["m", "l"], kz.OrbitFit(formulation=formulation))
    assert fit["m"] == pytest.approx(pendulum.values["m"], rel=1e-8)
    assert fit["l"] == pytest.approx(pendulum.values["l"], rel=1e-9)
    assert fit.chi2 < 1e-8
    assert not fit.warnings


def test_orbits_are_fitted_by_orbit_fit_without_being_asked(pendulum, exact):
    fit = kz.identify(pendulum.with_values(k2=0.0, k3=0.0), kz.OrbitSet(exact, (True, False)), ["k2", "k3"])
    assert fit.method.startswith("OrbitFit")
    assert fit["k2"] == pytest.approx(pendulum.values["k2"], rel=1e-6)
    assert fit["k3"] == pytest.approx(pendulum.values["k3"], rel=1e-6)


def test_slopes_are_those_of_orbits_solved_anew(pendulum, exact):
    fit = kz.identify(pendulum.with_values(m=0.086), list(exact), ["m", "l"])
    solution, orbit = fit.workings.outcome.solution, exact[3]
    step = 1e-5
    for column, name in enumerate(("m", "l")):
        sides = []
        for sign in (1, -1):
            moved = pendulum.with_values(**{name: pendulum.values[name] * (1 + sign * step)})
            sides.append(kz.solve_orbit(moved, orbit, 2, profile=False).points)
        expected = (sides[0] - sides[1]).ravel() / (2 * step * pendulum.values[name])
        found = solution.reduced[3].follow[:, column]
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6 * np.abs(expected).max())


def test_all_at_once_and_nested_meet_at_the_same_minimum(pendulum, noisy):
    near = pendulum.with_values(m=0.0865, l=0.3168)
    fits = [kz.identify(near, noisy(1), ["m", "l"], kz.OrbitFit(formulation=f)) for f in ("all-at-once", "nested")]
    for name in ("m", "l"):
        assert fits[0][name] == pytest.approx(fits[1][name], abs=1e-4 * fits[0].deviations[name])
    assert fits[0].chi2 == pytest.approx(fits[1].chi2, rel=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say(pendulum, noisy):
    """24 draws of two parameters, 90 % intervals: the count lies within the binomial's 99.9 % range."""
    start, held = pendulum.with_values(m=0.09, l=0.31), 0
    method = kz.OrbitFit(set_aside=False, restarts=0)
    for seed in range(24):
        fit = kz.identify(start, noisy(seed), ["m", "l"], method)
        interval = fit.interval(0.9)
        held += sum(interval.loc[n, "low"] <= pendulum.values[n] <= interval.loc[n, "high"] for n in ("m", "l"))
    low, high = stats.binom.ppf([0.0005, 0.9995], 48, 0.9)
    assert low <= held <= high


def test_dependent_parameters_are_refused_before_iterating_with_the_combinations_named(pendulum, exact):
    for start in (pendulum, pendulum.with_values(k2=0.0, k3=0.0)):
        with pytest.raises(IdentifiabilityError, match=r"only l, k2/m, k3/m") as refusal:
            kz.identify(start, list(exact), ["m", "l", "k2", "k3"])
        assert "Fix 1 of them" in str(refusal.value)


def test_difference_quotients_are_modelled_as_what_they_are(pendulum, exact):
    step = 15.08e-3
    flow = kz.Flow(pendulum)
    read = []
    for orbit in exact:
        later = flow.propagate_many(orbit.points, 0.0, step).state
        points = orbit.points.copy()
        points[:, 1] = (later[:, 0] - points[:, 0]) / step
        read.append(orbit.with_(points=points))
    # The quotient differs from the rate by twice the standard deviation: it matters.
    assert max(np.abs(r.points - o.points).max() for r, o in zip(read, exact, strict=True)) > 9e-3
    method = kz.OrbitFit(outputs={"phi'": kz.DifferenceQuotient("phi", step)})
    fit = kz.identify(far(pendulum), read, ["m", "l"], method)
    assert fit["m"] == pytest.approx(pendulum.values["m"], rel=1e-7)
    assert fit["l"] == pytest.approx(pendulum.values["l"], rel=1e-8)


def test_a_spurious_orbit_is_set_aside_and_named(pendulum, exact):
    wrong = exact[0].with_(points=exact[0].points + np.array([0.5, -2.0]))
    fit = kz.identify(far(pendulum), [*exact, wrong], ["m", "l"])
    assert list(fit.matches.unmatched) == ["5: period 1 A"]
    assert any("5: period 1 A was not matched" in text for text in fit.warnings)
    assert fit["m"] == pytest.approx(pendulum.values["m"], rel=1e-7)


def test_an_orbit_that_is_twice_a_shorter_one_is_recognised(pendulum, exact):
    once = exact[0]
    double = once.with_(
        points=np.vstack([once.points + 1e-4, once.points - 1e-4]), period=2 * once.period, repeats=2,
        covariance=np.diag(np.tile(np.diag(once.covariance), 2)),
    )  # fmt: skip
    fit = kz.identify(pendulum.with_values(m=0.09), [*exact, double], ["m", "l"])
    assert "collapsed onto an orbit of period 1" in fit.matches.unmatched["5: period 2 A"]


def test_a_false_minimum_is_refused(pendulum, exact):
    """Another drive amplitude: no m, l makes the model have these orbits."""
    wrong = pendulum.with_values(A=0.05)
    with pytest.raises(ConvergenceError, match=r"no set of m, l at which the model has the measured orbits"):
        kz.identify(wrong, list(exact), ["m", "l"], kz.OrbitFit(restarts=2))


def test_bad_starts_recover_by_restarts(pendulum, noisy):
    rng, orbits, good = np.random.default_rng(5), noisy(0), 0
    for _ in range(10):
        share = 1 + 0.6 * rng.uniform(-1, 1, 2)
        start = pendulum.with_values(m=share[0] * pendulum.values["m"], l=share[1] * pendulum.values["l"])
        fit = kz.identify(start, orbits, ["m", "l"])
        good += abs(fit["l"] - pendulum.values["l"]) < 5 * fit.deviations["l"]
    assert good == 10


def test_multipliers_narrow_the_interval_and_pull_towards_the_truth(pendulum, exact):
    with_errors = [o.with_(multiplier_deviation=1e-4 * np.abs(o.multipliers)) for o in exact]
    start = pendulum.with_values(k2=0.0, k3=0.0)
    fit = kz.identify(start, with_errors, ["k2", "k3"], kz.OrbitFit(multipliers=True))
    before = np.sqrt(np.diag(fit.matches.without_multipliers))
    after = np.sqrt(np.diag(fit.covariance))
    assert (after < 0.7 * before).all()
    assert fit["k2"] == pytest.approx(pendulum.values["k2"], abs=1e-2 * after[0])
    assert "multipliers" in fit.residuals
