"""Profiles whose one side cannot be followed: they are used as far as they go, and what is open is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.special import lambertw

import kapitza as kz

TIME = np.linspace(0, 6, 40)
MODEL = kz.Model.from_equations("s' = -V*s/(K + s)", parameters={"V": 1.0, "K": 2.0})


def closed_form(start: float, rate: float, half: float) -> np.ndarray:
    """Michaelis-Menten decay: s + K log s = s0 + K log s0 - V t."""
    return half * lambertw(start / half * np.exp((start - rate * TIME) / half)).real


def profile(values: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Σ r² at fixed K, the least over initial state and V."""
    made = []
    for one in half:
        fit = least_squares(lambda p, one=one: closed_form(p[0], p[1], one) - values, [3.0, 0.5 + 0.25 * one])
        made.append(2 * fit.cost)
    return np.array(made)


@pytest.mark.parametrize("seed", [0, 3])
def test_interval_of_a_half_saturation_follows_its_profile(seed):
    """Four standard errors below K there is no law; the profile above is three times as long as the parabola."""
    clean = closed_form(3.0, 1.0, 2.0)
    noise = 0.1 * clean.std() * np.random.default_rng(seed).standard_normal(TIME.size)
    fit = kz.identify(MODEL, kz.Record.from_arrays(TIME, {"s": clean + noise}), ["V", "K"], kz.ShootingFit())
    half = np.geomspace(0.15, 14.0, 120)
    squares = profile(clean + noise, half)
    density = np.exp(-0.5 * (squares - squares.min()) / (squares.min() / (TIME.size - 3)))
    weight = np.gradient(half) * density
    order = np.argsort(-density)
    inside = half[order][np.cumsum(weight[order]) / weight.sum() <= 0.9]
    low, high = fit.interval(0.9).loc["K"]
    assert low == pytest.approx(inside.min(), rel=0.15)
    assert high == pytest.approx(inside.max(), rel=0.15)
