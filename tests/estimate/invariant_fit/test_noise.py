"""Noise: bias and its removal, intervals, surface fits, several level sets."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.invariant_fit.conserved.expression import make_form
from kapitza.estimate.invariant_fit.conserved.moments import FeatureTable, second_moments
from kapitza.estimate.invariant_fit.conserved.points import Points
from kapitza.estimate.invariant_fit.surface import nearest
from kapitza.model import symbol

TRUTH = {"m2": 1.0, "omega1": 1.0, "omega2": 1.0, "a": 0.0, "b": 1.0, "c": 0.0, "d": -1 / 3}


@pytest.fixture(scope="module")
def long_orbit():
    return kz.simulate(kz.library.henon_heiles(), t=np.arange(20000.0))


def one_state(values, deviation):
    """Points of a single state x on one level set."""
    count = values.size
    zero = np.zeros(count, int)
    variance = np.full((1, count), deviation**2)
    return Points(("x",), values[None], variance, zero, zero, np.arange(count, dtype=float))


@pytest.mark.parametrize("order", [1, 2])
def test_corrected_moments_are_those_of_the_clean_data(order):
    # for x² the products have degree 4: order 2 of the series is exact, order 1 leaves 3 σ⁴ - σ⁴
    x, sigma = symbol("x"), 0.3
    form = make_form(symbol("k") * x**2 + x, ("x",), ("k",), {"k": 1.0})
    clean = np.random.default_rng(0).uniform(-1, 2, 400_000)
    noisy = clean + sigma * np.random.default_rng(1).standard_normal(clean.size)
    theta, ones = np.array([1.0]), np.ones(clean.size)
    want = second_moments(FeatureTable(form, 0), one_state(clean, 0.0), theta, ones).raw
    got = second_moments(FeatureTable(form, order), one_state(noisy, sigma), theta, ones).at(1.0)
    left_over = {1: 2 * sigma**4, 2: 0.0}[order]
    quadratic = next(i for i, f in enumerate(form.features) if f == x**2)
    want[quadratic, quadratic] -= left_over
    np.testing.assert_allclose(got, want, atol=0.02)


def test_correction_removes_the_bias_of_the_variance(long_orbit):
    noisy = kz.measure(long_orbit, relative_noise=0.05, seed=1)
    model = kz.library.henon_heiles()
    plain = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit(correction=0))
    corrected = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit())
    for name in ("m2", "omega1", "omega2", "b", "d"):
        assert abs(plain[name] - TRUTH[name]) > 5 * plain.deviations[name]
        assert abs(corrected[name] - TRUTH[name]) < abs(plain[name] - TRUTH[name]) / 3
        assert abs(corrected[name] - TRUTH[name]) < 4 * corrected.deviations[name]
    assert corrected.level_sets.noise_factor == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("objective", ["variance", "surface"])
def test_ninety_per_cent_intervals_hold_the_truth(long_orbit, objective):
    model, inside = kz.library.henon_heiles(), []
    for seed in range(15):
        piece = kz.Record(long_orbit.dataset.isel(time=slice(200 * seed, 200 * seed + 200)))
        noisy = kz.measure(piece, relative_noise=0.03, seed=seed)
        fit = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit(objective))
        table = fit.interval(0.9)
        inside += [table.loc[n, "low"] <= t <= table.loc[n, "high"] for n, t in TRUTH.items()]
    # 105 intervals, correlated within a fit: 0.9 within about two standard errors of 30 independent ones
    assert 0.78 <= np.mean(inside) <= 0.99


def test_bootstrap_agrees_with_the_sandwich(long_orbit):
    noisy = kz.measure(kz.Record(long_orbit.dataset.isel(time=slice(0, 400))), relative_noise=0.02, seed=5)
    model = kz.library.henon_heiles()
    sandwich = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit()).deviations
    samples = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit(bootstrap=150, seed=1)).deviations
    for name in TRUTH:
        assert samples[name] == pytest.approx(sandwich[name], rel=0.35)


def test_projections_lie_on_the_level_and_the_distance_is_normal():
    # circle of radius 2 with equal noise: the distance is | |z| - 2 | / σ
    x, y = symbol("x"), symbol("y")
    form = make_form(symbol("k") * (x**2 + y**2), ("x", "y"), ("k",), {"k": 1.0})
    values = np.array([[3.0, 0.5, -1.0], [1.0, 1.2, -2.5]])
    zero = np.zeros(3, int)
    points = Points(("x", "y"), values, np.full((2, 3), 0.04), zero, zero, np.arange(3.0))
    near = nearest(form, points, np.array([1.0]), np.array([4.0]))
    radius = np.hypot(*values)
    np.testing.assert_allclose(np.hypot(*near.points), 2.0, rtol=1e-8)
    np.testing.assert_allclose(near.distance, (radius - 2) / 0.2, rtol=1e-8)
    np.testing.assert_allclose(near.points, 2 * values / radius, rtol=1e-7)


def test_surface_agrees_with_odrpack(long_orbit):
    noisy = kz.measure(kz.Record(long_orbit.dataset.isel(time=slice(0, 300))), relative_noise=0.03, seed=2)
    model = kz.library.henon_heiles()
    ours = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit("surface"))
    theirs = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit("surface", solver="odrpack"))
    assert ours.chi2 == pytest.approx(theirs.chi2, rel=1e-6)
    for name in TRUTH:
        assert ours[name] == pytest.approx(theirs[name], abs=1e-5)


def test_records_of_different_energy_share_the_parameters():
    model = kz.library.henon_heiles()
    starts = [[0.0, 0.1 * k, 0.3, 0.1 * k] for k in range(4)]
    records = [kz.simulate(model, x0=s, t=np.arange(60.0)) for s in starts]
    levels = [0.5 * (0.09 + 0.01 * k**2) + 0.005 * k**2 - (0.1 * k) ** 3 / 3 for k in range(4)]
    noisy = [kz.measure(r, relative_noise=0.01, seed=i) for i, r in enumerate(records)]
    for objective in ("variance", "surface"):
        clean = kz.identify(model, records, free=list(TRUTH), method=kz.InvariantFit(objective))
        np.testing.assert_allclose(clean.level_sets.levels, levels, atol=1e-8)
        fit = kz.identify(model, noisy, free=list(TRUTH), method=kz.InvariantFit(objective))
        for name, truth in TRUTH.items():
            assert abs(fit[name] - truth) < 5 * fit.deviations[name] + 1e-3


def test_wrong_model_class_is_suspected(long_orbit):
    noisy = kz.measure(kz.Record(long_orbit.dataset.isel(time=slice(0, 300))), relative_noise=0.005, seed=2)
    fit = kz.identify(
        kz.library.henon_heiles().with_values(b=0.0, d=0.0),
        noisy,
        free=["m2", "omega1", "omega2"],
        method=kz.InvariantFit(),
    )
    assert any("in doubt" in w for w in fit.warnings)


def test_noise_that_nobody_stated_is_read_off_dense_readings():
    """Five times as noisy a rate: assumed equal shares would put it into the stiffness."""
    model = kz.Model.from_equations(
        "x'' + k*x + d*x**3 = 0", parameters={"k": 1.0, "d": 0.8}, start={"x": 1.2, "x'": 0.0},
        invariants={"H": "x'**2/2 + k*x**2/2 + d*x**4/4"},
    )  # fmt: skip
    clean, scores = kz.simulate(model, t=np.arange(1500) * 0.06), []
    for seed in range(12):
        random = np.random.default_rng(seed)
        noisy = {"x": clean["x"] + 0.01 * random.normal(size=1500), "x'": clean["x'"] + 0.05 * random.normal(size=1500)}
        fit = kz.identify(model, kz.Record.from_arrays(clean.time, noisy), ["k", "d"], kz.InvariantFit())
        assert not any("noise is not known" in text for text in fit.warnings)
        assert fit.noise["x"] == pytest.approx(0.01, rel=0.4)
        assert fit.noise["x'"] == pytest.approx(0.05, rel=0.2)
        scores.append([(fit[n] - model.values[n]) / fit.deviations[n] for n in fit.names])
    assert np.sqrt(np.mean(np.square(scores))) < 1.6
    # Shuffled points show no noise of their own.
    order = np.random.default_rng(1).permutation(1500)
    shuffled = {c: noisy[c][order] for c in noisy}
    fit = kz.identify(model, kz.Record.from_arrays(clean.time, shuffled), ["k", "d"], kz.InvariantFit())
    assert any("noise is not known" in text for text in fit.warnings)
