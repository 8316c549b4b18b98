"""Convolution and spectrum beside those of SciPy."""

import numpy as np
import pytest
from scipy.signal import oaconvolve, welch

from kapitza.signal.convolution import BLACKMAN_HARRIS, HANN, convolved, welch_density


@pytest.mark.parametrize(("count", "width"), [(9, 9), (20, 7), (4096, 5), (10_000, 601), (9000, 1)])
def test_convolution_is_that_of_scipy(count, width):
    random = np.random.default_rng(count)
    values, weights = random.standard_normal((count, 2)), random.standard_normal(width)
    expected = oaconvolve(values, weights[:, None], mode="valid", axes=0)
    np.testing.assert_allclose(convolved(values, weights), expected, atol=1e-12)
    np.testing.assert_allclose(convolved(values.T, weights, axis=1), expected.T, atol=1e-12)


@pytest.mark.parametrize(("name", "window"), [("hann", HANN), ("blackmanharris", BLACKMAN_HARRIS)])
@pytest.mark.parametrize("size", [16, 33, 300])
def test_spectrum_is_that_of_scipy(name, window, size):
    values = np.random.default_rng(size).standard_normal((300, 2)) + 5.0
    frequency, density = welch_density(values, size, window)
    expected = welch(values, nperseg=size, axis=0, window=name, detrend="constant")
    np.testing.assert_allclose(frequency, expected[0], atol=1e-15)
    np.testing.assert_allclose(density, expected[1], rtol=1e-9, atol=1e-14)
