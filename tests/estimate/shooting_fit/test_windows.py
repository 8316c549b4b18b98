"""Long records and unseen states: windows chosen by their information, and an observer for what no sensor sees."""

import itertools

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.shooting_fit import solver
from kapitza.estimate.shooting_fit.windows import most_informative

FREE = ["sigma", "rho", "beta"]


@pytest.fixture(scope="module")
def long_run():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(12000) * 0.01)
    noise = 0.1 * np.random.default_rng(5).normal(size=(3, run.size))
    return kz.Record.from_arrays(run.time, {c: run[c] + e for c, e in zip("xyz", noise, strict=True)})


def errors(fit):
    truth = kz.library.lorenz().values
    return np.array([(fit.values[n] - truth[n]) / fit.deviations[n] for n in FREE])


def test_two_windows_are_the_best_pair():
    """Greedy choice finds the pair with the largest determinant when one window is clearly the best alone."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(6, 4, 2))
    slopes[2] *= 5
    found = np.swapaxes(slopes, 1, 2) @ slopes
    pairs = [p for p in itertools.combinations(range(6), 2) if 2 in p]
    best = max(pairs, key=lambda p: np.linalg.det(found[p[0]] + found[p[1]]))
    assert tuple(most_informative(found, 2, np.ones(2))) == best


def test_windows_complement_each_other():
    """A second window that tells of the other parameter beats one that repeats the first, however well."""
    found = np.array([np.diag([9.0, 0.0]), np.diag([8.0, 0.0]), np.diag([0.0, 1.0])])
    assert most_informative(found, 2, np.ones(2)).tolist() == [0, 2]


def test_profile_of_windows_is_of_the_samples_fitted(long_run):
    """Not of the whole record: the ends lie about the estimate as its standard error says."""
    fit = kz.identify(kz.library.lorenz(), long_run, FREE, kz.ShootingFit(window=600, windows=2))
    low, high = kz.profile_interval(fit, "rho", 0.95)
    usual = fit.interval(0.95).loc["rho"]
    assert (low, high) == pytest.approx((usual["low"], usual["high"]), abs=0.1 * fit.deviations["rho"])


def test_windows_joined_by_the_parameters(long_run):
    start = kz.library.lorenz().with_values(sigma=14.0, rho=20.0, beta=4.0)
    fit = kz.identify(start, long_run, FREE, kz.ShootingFit(window=800, windows=3))
    whole = kz.identify(start, long_run, FREE, kz.ShootingFit(window=800))
    assert np.abs(errors(fit)).max() < 4
    assert len(fit.residuals["x"]) == 3 * 800
    # A fifth of the samples, and three starts instead of one: less is known, by about the root of five.
    ratio = np.array(list(fit.deviations.values())) / np.array(list(whole.deviations.values()))
    assert (ratio > 1).all()
    assert (ratio < 2 * np.sqrt(12000 / 2400)).all()


def test_windows_where_something_moves_are_chosen():
    """The record rings for a while, then rests: windows at rest tell nothing of frequency and damping."""
    model = kz.Model.from_equations("x'' + d*x' + k*x = 0", parameters={"d": 0.2, "k": 4.0})
    time = np.arange(6000) * 0.05
    rate = np.sqrt(4 - 0.01)
    ringing = np.exp(-0.1 * np.abs(time - 150)) * np.cos(rate * (time - 150)) * (time >= 150)
    record = kz.Record.from_arrays(time, {"x": ringing + 0.01 * np.random.default_rng(1).normal(size=time.size)},
                                   segment=(time >= 150).astype(int))  # fmt: skip
    fit = kz.identify(model.with_values(k=3.0), record, ["d", "k"], kz.ShootingFit(window=300, windows=1))
    assert 149 < fit.motion.times[0] < 160
    assert abs(fit.values["k"] - 4.0) < 4 * fit.deviations["k"]


@pytest.mark.parametrize("seed", [0, 1])
def test_second_state_alone(long_run, seed):
    """From y alone the states at hand lead nowhere: x and z come from the observer."""
    factors = 1 + np.random.default_rng(seed).uniform(-0.3, 0.3, 3)
    truth = kz.library.lorenz()
    start = truth.with_values(**{n: truth.values[n] * f for n, f in zip(FREE, factors, strict=True)})
    record = kz.Record.from_arrays(long_run.time[:1500], {"y": long_run["y"][:1500]})
    fit = kz.identify(start, record, FREE, kz.ShootingFit())
    assert np.abs(errors(fit)).max() < 4


def test_long_records_stiffen_their_links_by_degrees(long_run, monkeypatch):
    """More levels of softness lead to the same minimum; shorter records become rigid at once."""
    start = kz.library.lorenz().with_values(sigma=11.0, rho=26.0, beta=3.0)
    long = kz.identify(start, long_run, FREE)
    monkeypatch.setattr(solver, "LONG", 12_001)
    short = kz.identify(start, long_run, FREE)
    at_once, by_degrees = (fit.history["softness"].to_numpy() for fit in (short, long))
    assert not ((at_once > 0) & (at_once < 0.9 * solver.RIGID_BELOW)).any()
    assert 0 < by_degrees[by_degrees > 0].min() <= solver.RIGID_BELOW_LONG
    moved = [(long.values[n] - short.values[n]) / short.deviations[n] for n in FREE]
    np.testing.assert_allclose(moved, 0.0, atol=1e-3)


def test_long_chaotic_record_does_not_end_in_a_false_minimum():
    """Links that became rigid at once left states near the spikes beside the motion, and a 3.6 errors off."""
    model = kz.library.rossler()
    free = list(model.values)
    clean = kz.simulate(model, x0=[1.0, 1.0, 0.0], t=np.arange(60_000) * 0.1)
    record = kz.measure(clean, noise={c: 0.02 * float(clean[c].std()) for c in clean.channels}, seed=6)
    factors = 1 + 0.15 * np.random.default_rng(6).uniform(-1, 1, len(free))
    start = model.with_values(**{n: model.values[n] * f for n, f in zip(free, factors, strict=True)})
    fit = kz.identify(start, record, free)
    exact = kz.identify(model, record, free)
    assert fit.likelihood.log_likelihood > exact.likelihood.log_likelihood - 3
    assert max(abs(fit.values[n] - model.values[n]) / fit.deviations[n] for n in free) < 3.5
