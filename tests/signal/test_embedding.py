"""Delay and dimension against signals whose answers are known."""

import numpy as np
import pytest

from kapitza.errors import DataError
from kapitza.signal import (
    DelayCurve,
    embed,
    embedding_dimension,
    forced_delay,
    mutual_information,
    smoothing_coordinates,
)


def test_information_of_independent_samples_is_zero_and_of_itself_the_entropy():
    values = np.random.default_rng(0).normal(size=40000)
    curve = mutual_information(values, 5, bins=16)
    assert curve.information[0] == pytest.approx(4.0, abs=0.02)
    assert np.abs(curve.information[1:]).max() < 0.01


def test_information_of_correlated_gaussians_is_closed_form():
    """I = -log2(1 - rho²)/2 for a Gaussian autoregression with correlation rho."""
    rng = np.random.default_rng(1)
    rho = 0.8
    values = np.empty(200000)
    values[0] = 0.0
    steps = rng.normal(size=values.size) * np.sqrt(1 - rho**2)
    for i in range(1, values.size):
        values[i] = rho * values[i - 1] + steps[i]
    curve = mutual_information(values, 2, bins=40)
    for lag in (1, 2):
        assert curve.information[lag] == pytest.approx(-0.5 * np.log2(1 - rho ** (2 * lag)), abs=0.03)


def test_delay_of_a_sine_is_a_quarter_period():
    """Noise blurs the two branches of the noise-free relation; what is left follows the correlation."""
    time = np.arange(40000)
    noise = np.random.default_rng(0).normal(size=time.size)
    curve = mutual_information(np.sin(2 * np.pi * time / 103.7) + 0.5 * noise, 60)
    assert abs(curve.delay - 103.7 / 4) < 4
    assert forced_delay([curve], 103.7) == curve.delay


def test_delay_falls_back_to_the_quarter_of_the_drive():
    falling = DelayCurve(np.arange(50), np.exp(-np.arange(50) / 40.0), 40, False)
    assert forced_delay([falling, falling], 100.0) == 25


def test_segments_are_not_mixed():
    values = np.concatenate([np.zeros(200), np.arange(200.0)])
    vectors, rows = embed(values, 5, 3, [slice(0, 200), slice(200, 400)])
    assert len(vectors) == 2 * 190
    assert not np.any((rows >= 190) & (rows < 200))


def test_dimension_of_henon_is_two_and_of_noise_large():
    x, y = 0.1, 0.1
    series = np.empty(6000)
    for i in range(series.size):
        x, y = 1 - 1.4 * x * x + y, 0.3 * x
        series[i] = x
    curve = embedding_dimension(series[100:], 1, largest=5, theiler=0)
    assert curve.by_false_neighbours == 2
    assert curve.by_cao in {2, 3}
    assert np.abs(curve.randomness - 1).max() > 0.3
    noise = embedding_dimension(np.random.default_rng(0).normal(size=4000), 1, largest=4, theiler=0)
    assert np.abs(noise.randomness - 1).max() < 0.15


def test_smoothing_coordinates_keep_polynomials_and_the_noise_level():
    rng = np.random.default_rng(0)
    noise = smoothing_coordinates(rng.normal(size=50000), 7, 3)
    assert np.cov(noise.T) == pytest.approx(np.eye(3), abs=0.05)
    ramp = smoothing_coordinates(np.arange(100.0), 4, 3)
    assert np.ptp(ramp[:, 1]) < 1e-9
    assert np.abs(ramp[:, 2]).max() < 1e-9


def test_short_series_are_refused():
    with pytest.raises(DataError, match="needs 50 samples"):
        mutual_information(np.arange(30.0), 20)
    with pytest.raises(DataError, match="shorten the delay"):
        embedding_dimension(np.arange(50.0), 10)
