"""Intervals under correlated residuals: the delete-block jackknife, and trends along a record."""

import itertools

import numpy as np
import pytest
from scipy.signal import lfilter

import kapitza as kz
from kapitza.estimate.disagreement import Deleted, block_edges, jackknife, trend_chance, widening

CORRELATION = 0.9


def coloured(rng, count):
    """Autoregressive noise of unit variance, stationary from the first sample."""
    white = rng.standard_normal(count)
    white[0] /= np.sqrt(1 - CORRELATION**2)
    return lfilter([np.sqrt(1 - CORRELATION**2)], [1.0, -CORRELATION], white)


def test_jackknife_of_a_mean_gives_the_variance_of_autoregressive_noise():
    # var(mean) = (1 + ρ)/(1 - ρ)/N for N much larger than the correlation time.
    rng, count = np.random.default_rng(1), 4000
    edges, found = block_edges(count, count), []
    assert len(edges) == 13
    for _ in range(300):
        noise = coloured(rng, count)
        without = [np.delete(noise, slice(a, b)).mean() for a, b in itertools.pairwise(edges)]
        found.append(jackknife(np.array(without)[:, None])[0])
    exact = (1 + CORRELATION) / (1 - CORRELATION) / count
    # The mean of 300 estimates with 11 degrees of freedom scatters by 2.5 %; blocks that touch lower it by 1 %.
    assert abs(np.mean(found) / exact - 1) < 0.1


def test_a_trend_of_pieces_is_told_from_scatter():
    rng, flat, scatter = np.random.default_rng(2), np.ones((8, 1, 1)), []
    for _ in range(400):
        scatter.append(trend_chance(5.0 * rng.standard_normal((8, 1)), flat))
    # Probabilities are uniform under scatter of any size: 1 % of them lie below 0.01.
    assert 0.01 < np.mean(np.array(scatter) < 0.05) < 0.1
    falling = np.linspace(1.0, -1.0, 8)[:, None] + 0.1 * rng.standard_normal((8, 1))
    assert trend_chance(falling, flat) < 1e-4


def test_pieces_of_a_stationary_misfit_do_not_widen_by_their_scatter():
    rng = np.random.default_rng(3)
    steps, covariances = 3.0 * rng.standard_normal((8, 1)), np.ones((8, 1, 1))
    scores = 3.0 * rng.standard_normal((240, 1)) / np.sqrt(30.0)
    deleted = steps.mean() - steps / 7.0
    plain = np.array([[1 / 8]])
    alone = widening(plain, scores, steps, covariances, False, np.inf)
    jack = widening(plain, scores, steps, covariances, False, np.inf, deleted=Deleted(deleted, True))
    runs = widening(plain, scores, steps, covariances, False, np.inf, deleted=Deleted(deleted, False))
    assert jack.factor[0] < 5.0 < alone.factor[0]
    assert not jack.spread.any()
    # Recordings of their own show how values scatter between motions.
    assert runs.spread.all()


def test_shooting_intervals_under_coloured_noise_are_as_wide_as_the_errors():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + q*x**3 = F*cos(1.4*t)",
        parameters={"c": 0.2, "k": 1.0, "q": 0.5, "F": 1.2},
        period="2*pi/1.4",
    )
    clean = kz.simulate(model, x0=[0.5, 0.0], t=np.arange(800) * 0.1).select(["x"])
    rng, errors, widths, inside = np.random.default_rng(4), [], [], []
    for _ in range(16):
        noisy = clean["x"] + 0.02 * coloured(rng, clean.size)
        fit = kz.identify(model, kz.Record.from_arrays(clean.time, {"x": noisy}), ["c", "k", "q"], kz.ShootingFit())
        interval, truth = fit.interval(0.9), np.array([model.values[n] for n in fit.names])
        errors.append([fit[n] for n in fit.names] - truth)
        widths.append((interval.high - interval.low).to_numpy() / 2)
        inside.append(((interval.low <= truth) & (truth <= interval.high)).to_numpy())
    # Half a 90 % interval is 1.645 standard errors; the noise intervals alone hold a third, pieces made them six times
    # as wide.
    ratio = np.median(widths, axis=0) / (1.645 * np.sqrt(np.mean(np.square(errors), axis=0)))
    assert (ratio < 2.5).all()
    assert (ratio > 0.6).all()
    assert np.mean(inside) > 0.75


def refitted_without_each(fit_of, parts):
    """Standard errors (k,) of the jackknife by refits that leave out one of the parts each."""
    steps = []
    for left_out in range(len(parts)):
        fit = fit_of([part for i, part in enumerate(parts) if i != left_out])
        steps.append([fit[name] for name in fit.names])
    return np.sqrt(jackknife(np.array(steps)))


def test_weak_form_intervals_count_the_scatter_between_recordings():
    truth = kz.Model.from_equations("x'' + c*x' + k*x + q*x'*abs(x') = 0", parameters={"c": 0.1, "k": 4.0, "q": 0.02})
    rng, records = np.random.default_rng(5), []
    for start in (0.4, 0.7, 1.0, 1.4, 1.9, 2.5):
        run = kz.simulate(truth, x0=[start, 0.0], t=np.arange(600) * 0.05)
        noise = 0.002 * rng.standard_normal(run.size)
        records.append(kz.Record.from_arrays(run.time, {"x": run["x"] + noise}))

    def fit_of(parts):
        return kz.identify(truth.with_values(q=0.0), parts, ["c", "k"], kz.HarmonicFit(noise=0.002))

    fit = fit_of(records)
    assert not fit.misfit.to_the_noise
    # Five degrees of freedom of the blocks and as many of the pieces, joined by Welch and Satterthwaite.
    assert fit.dof <= 12.0
    refits = refitted_without_each(fit_of, records)
    assert (np.array(list(fit.deviations.values())) > 0.8 * refits).all()
    # Damping grows with the amplitude: the scatter is that of six recordings between 0.1 and 0.1 + 8/(3π) q ω a.
    assert 0.3 < fit.deviations["c"] / (8 / (3 * np.pi) * 0.02 * 2.0 * np.std([0.4, 0.7, 1.0, 1.4, 1.9, 2.5])) < 3.0


def test_a_widening_that_nothing_explains_is_reported():
    """A long-run variance of 4 times that of white noise doubles the standard errors."""
    rng = np.random.default_rng(8)
    white = rng.standard_normal((4000, 1)) / np.sqrt(4000)
    # A moving sum of four has the long-run variance 16/4 of its own samples.
    slow = sum(np.roll(white, shift, axis=0) for shift in range(4)) / 2
    for scores, wide in ((white, False), (slow, True)):
        found = widening(np.eye(1), scores, None, None, True, np.inf)
        assert bool(list(found.warnings(explained=False))) is wide
        assert not list(found.warnings(explained=True))
        assert found.factor[0] == pytest.approx(2.0 if wide else 1.0, rel=0.15)
