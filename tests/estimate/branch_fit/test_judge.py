"""Intervals of branch fits by the jackknife: linear rows whose scatter is known."""

import numpy as np

import kapitza as kz
from kapitza.estimate.branch_fit.curves import Distances
from kapitza.estimate.branch_fit.judge import misfit_of, order_along, widening_of
from kapitza.estimate.intervals import half_width
from kapitza.estimate.misfit import Misfit


def rows(count, residual):
    """Distances of points in the plane whose feet lie along a line."""
    feet = np.arange(1, count + 1)
    return [Distances(residual, 0.0, np.zeros((count + 2, 2)), np.ones((count, 2)), feet, np.zeros((count, 2, 1)))]


def data(count):
    return [kz.MeasuredBranch("response", "omega", np.arange(count) + 1.0, np.ones(count), "x", 1e-3, 1e-2)]


def test_noise_is_not_called_a_misfit_and_what_is_left_is():
    """Of 400 draws of white noise at most a few are called a misfit at p = 1e-3; a slow wave in it always is."""
    random = np.random.default_rng(0)
    count, alarms = 24, 0
    for _ in range(400):
        residual = random.standard_normal(count)
        alarms += not misfit_of(data(count), rows(count, residual), residual, np.empty((count, 0))).to_the_noise
    assert alarms <= 4
    wave = random.standard_normal(count) + 3 * np.sin(2 * np.pi * np.arange(count) / count)
    assert not misfit_of(data(count), rows(count, wave), wave, np.empty((count, 0))).to_the_noise


def test_few_points_that_drift_are_a_misfit():
    """Five points are too few for their correlation; a drift of 5 standard errors is seen, in noise it is not."""
    random = np.random.default_rng(2)
    count, seen, alarms = 5, 0, 0
    slopes, drift = np.ones((count, 1)), np.arange(5.0) - 2.0
    for _ in range(400):
        noise = random.standard_normal(count)
        for size in (0.0, 5.0):
            residual = noise - noise.mean() + size * drift / np.linalg.norm(drift)
            found = not misfit_of(data(count), rows(count, residual), residual, slopes).to_the_noise
            seen, alarms = seen + (found and size > 0), alarms + (found and size == 0)
    assert seen > 0.85 * 400
    assert alarms <= 4


def test_intervals_hold_the_mean_of_a_correlated_process():
    """90 % intervals of the mean of an autoregressive process from blocks of neighbours; noise alone is too narrow."""
    random = np.random.default_rng(1)
    count, held, narrow = 48, 0, 0
    jacobian = -np.ones((count, 1))
    misses = Misfit(1.0, 0.1, 0.0)
    for _ in range(300):
        process = np.zeros(count + 50)
        for k in range(1, process.size):
            process[k] = 0.6 * process[k - 1] + random.standard_normal()
        process = process[50:]
        residual = process - process.mean()  # the fit takes the mean; its truth is 0
        wider = widening_of(rows(count, residual), residual, jacobian, misses)
        deviation = float(np.sqrt(wider.of(np.array([[1 / count]]))[0, 0]))
        held += abs(process.mean()) <= half_width(0.9, wider.freedom) * deviation
        narrow += abs(process.mean()) <= 1.645 / np.sqrt(count)
    assert 0.82 <= held / 300 <= 0.95
    assert narrow / 300 < 0.6


def test_few_points_take_the_scatter_for_the_noise():
    residual = np.array([3.0, -3.0, 0.5, -0.5])
    jacobian = np.stack([np.ones(4), np.arange(4.0), np.arange(4.0) ** 2], axis=1)
    wider = widening_of(rows(4, residual), residual, jacobian, Misfit(1.0, 0.1, 0.0))
    assert np.allclose(wider.factor, np.sqrt(residual @ residual))
    assert wider.freedom == 1.0
    assert widening_of(rows(4, residual), residual, jacobian, Misfit(0.0, 0.0, 1.0)) is None


def test_rows_are_ordered_along_the_branch():
    found = Distances(np.zeros(6), 0.0, np.zeros((9, 3)), np.ones((3, 3)), np.array([5, 1, 3]), np.zeros((3, 3, 2)))
    assert order_along([Distances(np.zeros(2)), found])[1].tolist() == [4, 5, 6, 7, 2, 3]
