"""Noise of sampled signals."""

import numpy as np
import pytest

from kapitza.signal import difference_noise


@pytest.mark.parametrize("order", [3, 6])
def test_noise_from_differences(order):
    """Differences of order n of white noise have binom(2n, n) times its variance; a smooth motion leaves none."""
    rng, t = np.random.default_rng(7), np.arange(20_000)
    values = np.sin(0.01 * t) + 0.2 * rng.standard_normal(t.size)
    assert difference_noise(np.diff(values, order), order) == pytest.approx(0.2, rel=0.03)
    values[::500] += 50.0
    assert difference_noise(np.diff(values, order), order, robust=True) == pytest.approx(0.2, rel=0.05)
    assert difference_noise(np.empty(0), order) == 0.0
