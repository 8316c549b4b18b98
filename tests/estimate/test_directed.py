"""Score tests on a record that was not fitted: level, power, and the shift that a missing term made in the fit."""

import numpy as np
import pytest
from scipy import stats

import kapitza as kz
from kapitza.estimate.missing import ModelTest

RIG = {"c": 0.1, "k": 4.0}
TIME = np.arange(600) * 0.04
LINEAR = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=RIG)


def record_of(q: float, start: list[float], seed: int, noise: float = 0.01) -> kz.Record:
    truth = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={**RIG, "q": q})
    return kz.measure(kz.simulate(truth, start, t=TIME).select(["x"]), noise=noise, seed=seed)


def fitted(q: float, seed: int, noise: float = 0.01) -> kz.Estimate:
    return kz.identify(LINEAR, record_of(q, [1.0, 0.0], seed, noise), ["c", "k"], kz.ShootingFit())


def outcome(q: float, seed: int, noise: float = 0.01) -> ModelTest:
    return verdict(fitted(q, seed, noise), record_of(q, [0.4, 0.9], 1000 + seed, noise))


def verdict(fit: kz.Estimate | kz.Model, record: kz.Record) -> ModelTest:
    test = kz.validate(fit, record, parts=["terms"]).test
    assert test is not None
    return test


def test_the_column_of_a_term_holds_the_shift_in_the_fit():
    """With almost no noise the one-step coefficient on the held-back record is the true one.

    The fit has moved k by about 3/4 q A²: without this shift in the column the coefficient would come out far off.
    """
    found = outcome(2e-3, 1, noise=1e-5)
    cubic = next(t for t in found.terms.terms if t.name == "cubic stiffness of x")
    assert cubic.coefficient == pytest.approx(2e-3, abs=3 * cubic.error)
    assert cubic.error < 5e-5
    assert found.shifted
    fixed = verdict(fitted(2e-3, 1, 1e-5).model, record_of(2e-3, [0.4, 0.9], 1001, 1e-5))
    wrong = next(t for t in fixed.terms.terms if t.name == "cubic stiffness of x")
    assert abs(wrong.coefficient / 2e-3 - 1) > 0.3


def test_right_models_are_rejected_seldom_and_wrong_ones_with_the_power_that_is_stated():
    right = [outcome(0.0, seed) for seed in range(24)]
    # 5 % of 24: more than 4 has a probability of 0.006
    assert sum(t.rejected for t in right) <= 4
    cubic = next(t for t in right[0].terms.terms if t.name == "cubic stiffness of x")
    seen = [outcome(cubic.detectable, seed) for seed in range(12)]
    # Detectable: with 95 % at 3 % for all terms. Fewer than 9 of 12 has a probability below 0.3 %.
    assert sum(t.terms.missing for t in seen) >= 9
    assert all(0.0 <= t.chance <= 1.0 for t in (*right, *seen))


def test_parameters_that_another_record_asks_for_are_a_reason():
    moved = LINEAR.with_values(k=4.02)
    other = kz.measure(kz.simulate(moved, [0.4, 0.9], t=TIME).select(["x"]), noise=0.01, seed=5)
    check = kz.validate(fitted(0.0, 2), other, parts=["terms"])
    assert check.rejected
    test = verdict(fitted(0.0, 2), other)
    assert test.parameters < 1e-4
    assert "other parameters" in str(check)
    # The difference is that of two estimates.
    own = kz.identify(LINEAR, other, ["c", "k"], kz.ShootingFit())
    first = fitted(0.0, 2)
    gap = np.array([own[n] - first[n] for n in ("c", "k")])
    square = gap @ np.linalg.solve(own.covariance + first.covariance, gap)
    assert np.log10(test.parameters) == pytest.approx(np.log10(stats.chi2.sf(square, 2)), rel=0.15)


def test_verdict_power_and_table_are_printed_and_kept(tmp_path):
    right = kz.validate(fitted(0.0, 3), record_of(0.0, [0.4, 0.9], 77), parts=["terms"])
    assert not right.rejected
    assert "not rejected (p = " in str(right)
    assert "Would have been seen" in str(right)
    assert "Anything else: from" in str(right)
    wrong = kz.validate(fitted(0.1, 3), record_of(0.1, [0.4, 0.9], 77), parts=["terms"])
    assert wrong.rejected
    assert "is missing" in str(wrong)
    assert {"missing terms", "parameters that either record prefers"} <= set(wrong.table().index)
    kz.save(wrong, tmp_path / "check.nc")
    again = kz.load(tmp_path / "check.nc")
    assert again.rejected
    assert str(again) == str(wrong)


def test_fits_without_a_motion_are_tested_with_the_parameters_refitted():
    fit = kz.identify(LINEAR, record_of(0.1, [1.0, 0.0], 4), ["c", "k"], kz.HarmonicFit())
    test = verdict(fit, record_of(0.1, [0.8, 1.2], 78))
    assert test.rejected
    assert not test.shifted


def test_a_difference_outside_the_dictionary_is_seen_at_the_size_that_is_stated():
    """A line in the readings that no term makes, at the root mean square from which it is seen with 95 %."""
    fit, seen, size = fitted(0.0, 6), 0, outcome(0.0, 6).line
    for seed in range(10):
        clean = record_of(0.0, [0.4, 0.9], 300 + seed)
        line = size * 0.01 * np.sqrt(2) * np.cos(31.0 * TIME + seed)
        other = clean.with_channel("x", clean["x"] + line, "", False)
        seen += verdict(fit, other).residuals < 0.01
    assert seen >= 7


def test_chance_of_a_gain_is_that_of_student_also_where_it_underflows():
    """Against the beta integral in 60 digits (mpmath)."""
    import mpmath

    from kapitza.estimate.missing.score import log_chance

    for size, freedom in ((2.5, 40.0), (3.2, 600.0), (60.0, 2400.0), (900.0, 700.0)):
        with mpmath.workdps(60):
            x = mpmath.mpf(freedom) / (freedom + mpmath.mpf(size) ** 2)
            exact = float(mpmath.log(mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True)))
        assert float(log_chance(size**2, 1.0, 1.0, freedom)) == pytest.approx(exact, rel=1e-6)
