"""Derivative rules against polynomials, convergence orders and their own noise gain."""

import numpy as np
import pytest

from kapitza.errors import DataError
from kapitza.signal import five_point, local_polynomial, noise_level, signal_band, smoothing_spline


@pytest.mark.parametrize(
    ("kernels", "degree"), [(five_point(), 4), (local_polynomial(9, 7), 7), (local_polynomial(20, 9), 9)]
)
def test_polynomials_are_differentiated_exactly(kernels, degree):
    t = np.linspace(-1.0, 1.0, 101)
    polynomial = np.polynomial.Polynomial(np.random.default_rng(0).normal(size=degree + 1))
    found = kernels.apply(polynomial(t)[:, None], t[1] - t[0])[:, :, 0]
    inside = t[kernels.half_width : len(t) - kernels.half_width]
    for order in range(3):
        exact = polynomial.deriv(order)(inside) if order else polynomial(inside)
        np.testing.assert_allclose(found[order], exact, atol=1e-9 * np.abs(exact).max())


def test_five_point_rule_has_order_four():
    errors = []
    for count in (50, 100, 200):
        t = np.linspace(0.0, 2 * np.pi, count + 1)
        found = five_point().apply(np.sin(t)[:, None], t[1] - t[0])[:, :, 0]
        errors.append(np.abs(found[1] - np.cos(t[2:-2])).max())
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    np.testing.assert_allclose(orders, 4.0, atol=0.05)


def test_spline_passes_its_band():
    kernels = smoothing_spline(0.05)
    t = np.arange(2000.0)
    wave = np.sin(2 * np.pi * 0.02 * t)
    found = kernels.apply(wave[:, None], 1.0)[:, :, 0]
    m = kernels.half_width
    np.testing.assert_allclose(found[0], wave[m:-m], atol=2e-3)
    np.testing.assert_allclose(found[1], 2 * np.pi * 0.02 * np.cos(2 * np.pi * 0.02 * t[m:-m]), atol=2e-3)


def test_noise_gain_is_the_variance_of_filtered_noise():
    kernels = local_polynomial(8, 5)
    noise = np.random.default_rng(1).normal(size=(200_000, 1))
    filtered = kernels.apply(noise, 0.1)[:, :, 0]
    np.testing.assert_allclose(np.cov(filtered), kernels.noise_gain(0.1), rtol=0.03, atol=0.03)


def test_half_of_the_samples_suffice():
    offsets = np.arange(-12, 13)
    even = local_polynomial(12, 5, offsets[offsets % 2 == 0])
    assert not even.weights[:, (offsets % 2) == 1].any()
    t = np.linspace(-1, 1, 60)
    np.testing.assert_allclose(even.apply((t**3)[:, None], t[1] - t[0])[1, :, 0], 3 * t[12:-12] ** 2, atol=1e-10)


def test_noise_level_and_band_of_a_known_signal():
    t = np.arange(20_000)
    clean = np.sin(2 * np.pi * 0.01 * t) + 0.3 * np.sin(2 * np.pi * 0.043 * t)
    noisy = clean + 0.01 * np.random.default_rng(2).normal(size=t.size)
    level = noise_level(noisy[:, None])
    assert level[0] == pytest.approx(0.01, rel=0.05)
    assert signal_band(noisy[:, None], level)[0] == pytest.approx(0.043, abs=0.01)


def test_too_short_a_stretch_is_refused():
    with pytest.raises(DataError, match="too short for derivatives over 19 points"):
        local_polynomial(9).apply(np.zeros((10, 1)), 0.1)


@pytest.mark.parametrize("samples", [300, 1000, 2000])
def test_noise_of_short_records_is_not_read_low(samples):
    rng = np.random.default_rng(3)
    motion = np.sin(0.05 * np.arange(samples))[:, None]
    found = [float(noise_level(motion + 0.1 * rng.standard_normal((samples, 8))).mean()) for _ in range(25)]
    assert np.mean(found) == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("samples", [300, 1000, 3000])
def test_noise_is_not_taken_for_signal(samples):
    rng = np.random.default_rng(4)
    motion = np.sin(0.05 * np.arange(samples))[:, None]
    bands = signal_band(motion + 0.02 * rng.standard_normal((samples, 200)), np.full(200, 0.02))
    # The main lobe of a short window is up to 8 bins of 1/128 wide; a false band lies anywhere up to 0.5.
    assert (bands > 0.1).mean() <= 0.02
