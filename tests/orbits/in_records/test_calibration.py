"""Noise on both sides: expectations in closed form, and the place of a noisy point between two sheets."""

import numpy as np
import pytest

from kapitza.orbits.in_records.calibration import REACH, calibrate
from kapitza.orbits.in_records.polynomials import expected_monomials, exponents


def test_expected_monomials_are_the_moments_of_a_gaussian():
    """E x⁴ = u⁴ + 6 u² s² + 3 s⁴ and E x² y² = u² v² + u² t² + v² s² + 4 u v c + s² t² + 2 c²."""
    u, v, variance, other, shared = 0.7, -0.4, 0.09, 0.04, 0.02
    blur = np.array([[[[variance, shared], [shared, other]]]])
    terms = dict(zip(exponents(2, 4), expected_monomials(np.array([[[u, v]]]), blur, 4)[0, 0], strict=True))
    assert terms[0, 0, 0, 0] == pytest.approx(u**4 + 6 * u**2 * variance + 3 * variance**2)
    assert terms[0, 0, 1] == pytest.approx(u**2 * v + v * variance + 2 * u * shared)
    mixed = u**2 * v**2 + u**2 * other + v**2 * variance + 4 * u * v * shared + variance * other + 2 * shared**2
    assert terms[0, 0, 1, 1] == pytest.approx(mixed)


def test_quartic_density_knows_two_sheets_where_a_gaussian_does_not():
    """Points on x = ± a with noise s: E[x | z] = a tanh(a z / s²); a Gaussian density knows only a straight line."""
    rng = np.random.default_rng(0)
    sheet, noise, width = 0.8, 0.8, 0.8
    measured = rng.choice([-sheet, sheet], 40000) + noise * rng.normal(size=40000)
    measured = measured[np.abs(measured) < REACH * width]
    weight = np.exp(-0.5 * (measured / width) ** 2)
    weight /= weight.sum()
    truth = sheet * np.tanh(sheet * measured / noise**2)
    errors = {}
    for degree in (2, 4):
        placed, _ = calibrate(measured[None, :, None], weight[None], np.array([width]), np.array([noise]), degree)
        errors[degree] = np.sqrt(np.sum(weight * (placed[0, :, 0] - truth) ** 2))
    assert errors[4] < 0.5 * errors[2]
    assert errors[4] < 0.1 * sheet


def test_both_densities_agree_where_the_points_are_gaussian():
    """x ~ N(0, 1), noise s: E[x | z] = z / (1 + s²), Cov = s² / (1 + s²)."""
    rng = np.random.default_rng(1)
    noise, width = 0.5, 1.0
    measured = rng.normal(size=50000) * np.sqrt(1 + noise**2)
    measured = measured[np.abs(measured) < REACH * width]
    weight = np.exp(-0.5 * (measured / width) ** 2)
    weight /= weight.sum()
    near = np.abs(measured) < width
    for degree in (2, 4):
        placed, blur = calibrate(measured[None, :, None], weight[None], np.array([width]), np.array([noise]), degree)
        assert placed[0, near, 0] == pytest.approx(measured[near] / (1 + noise**2), abs=0.02)
        assert np.median(blur) == pytest.approx(noise**2 / (1 + noise**2), rel=0.05)
