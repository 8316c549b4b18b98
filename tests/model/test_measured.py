"""Measured excitation: local polynomials and Fourier series against the functions they sample."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import ModelError
from kapitza.model import Signal, compile_expressions

PERIOD = 1.7
GRID = PERIOD * np.arange(40) / 40


def wave(t):
    return 0.3 + np.sin(2 * np.pi * t / PERIOD) + 0.2 * np.cos(6 * np.pi * t / PERIOD + 0.4)


def slope(t):
    w = 2 * np.pi / PERIOD
    return w * np.cos(w * t) - 0.6 * w * np.sin(3 * w * t + 0.4)


def by_coefficients(signal, t):
    """The signal from its knots and local coefficients, as an integrator uses them."""
    interval = np.clip(np.searchsorted(signal.knots, t, side="right") - 1, 0, signal.knots.size - 2)
    powers = (t - signal.knots[interval])[:, None] ** np.arange(signal.coefficients.shape[1])
    return (signal.coefficients[interval] * powers).sum(axis=1)


@pytest.mark.parametrize("offset", [0.0, 0.013])
@pytest.mark.parametrize("degree", [0, 1, 3, 5])
def test_passes_through_the_samples_and_repeats(degree, offset):
    times = GRID + offset
    signal = Signal("F", times, wave(times), PERIOD, degree=degree)
    np.testing.assert_allclose(signal(times), wave(times), atol=1e-12)
    np.testing.assert_allclose(signal(times - 3 * PERIOD + 1e-9), signal(times + 2 * PERIOD + 1e-9), atol=1e-12)
    assert signal.knots[0] == 0.0
    assert signal.knots[-1] == PERIOD
    assert (np.diff(signal.knots) > 0).all()
    t = np.linspace(0, PERIOD, 501)[:-1]
    np.testing.assert_allclose(by_coefficients(signal, t), signal(t), atol=1e-12)
    assert signal.coefficients.shape == (signal.knots.size - 1, degree + 1)


@pytest.mark.parametrize(("degree", "order"), [(0, 1), (1, 2), (3, 4), (5, 6)])
def test_error_falls_with_the_order_of_the_polynomial(degree, order):
    t = np.linspace(0, PERIOD, 3001)
    errors = []
    for count in (40, 80):
        times = PERIOD * np.arange(count) / count
        errors.append(np.abs(Signal("F", times, wave(times), PERIOD, degree=degree)(t) - wave(t)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


def test_fourier_series_is_exact_for_its_harmonics():
    signal = Signal("F", GRID, wave(GRID), PERIOD, kind="fourier", harmonics=4)
    t = np.linspace(-1, 5, 200)
    np.testing.assert_allclose(signal(t), wave(t), atol=1e-12)
    np.testing.assert_allclose(signal(t, derivative=1), slope(t), atol=1e-11)
    compiled = compile_expressions([signal.expression], ["t"])
    np.testing.assert_allclose(compiled(t[None])[0], wave(t), atol=1e-12)


def test_a_repeated_time_is_a_jump():
    signal = Signal("F", [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 5.0, 5.0], 3.0)
    np.testing.assert_allclose(signal([0.5, 1.0 - 1e-12, 1.0, 1.5, 2.5]), [0.5, 1.0, 5.0, 5.0, 2.5], atol=1e-11)
    np.testing.assert_allclose(signal.knots, [0.0, 1.0, 2.0, 3.0])


def test_a_last_sample_at_the_period_closes_the_signal():
    times = np.append(GRID, PERIOD)
    for degree in (1, 3):
        signal = Signal("F", times, wave(times), PERIOD, degree=degree)
        assert signal.knots.size == 41
        np.testing.assert_allclose(signal(times[:-1]), wave(times[:-1]), atol=1e-12)


def test_spline_derivative():
    signal = Signal("F", GRID, wave(GRID), PERIOD, degree=5)
    t = np.linspace(0, PERIOD, 100)
    assert np.abs(signal(t, derivative=1) - slope(t)).max() < 1e-2


def test_equality_and_hash_follow_the_samples():
    assert Signal("F", GRID, wave(GRID), PERIOD) == Signal("F", GRID, wave(GRID), PERIOD)
    assert hash(Signal("F", GRID, wave(GRID), PERIOD)) == hash(Signal("F", GRID, wave(GRID), PERIOD))
    assert Signal("F", GRID, wave(GRID), PERIOD) != Signal("F", GRID, 2 * wave(GRID), PERIOD)


BAD = {
    "two or more": {"times": [0.0], "values": [1.0]},
    "one per time": {"values": [1.0, 2.0]},
    "period -1": {"period": -1.0},
    "not finite, the first is number 1": {"values": [0.0, np.nan, 1.0]},
    "sort": {"times": [0.0, 0.5, 0.2]},
    "at most one period": {"times": [0.0, 0.5, 2.0]},
    'kind "spline"': {"kind": "spline"},
    "degree 2": {"degree": 2},
    "occurs twice": {"times": [0.0, 0.5, 0.5], "degree": 3},
    "three times": {"times": [0.5, 0.5, 0.5]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_samples_are_named(message):
    given = {"times": [0.0, 0.3, 0.6], "values": [1.0, 2.0, 0.0], "period": 1.0} | BAD[message]
    with pytest.raises(ModelError, match='Signal "F"') as error:
        Signal("F", **given)
    assert message in str(error.value)


def test_too_few_samples_for_the_degree_or_harmonics():
    with pytest.raises(ModelError, match="too few for degree 5"):
        _ = Signal("F", [0.0, 0.3, 0.6], [1.0, 2.0, 0.0], 1.0, degree=5).coefficients
    with pytest.raises(ModelError, match="between 1 and 1"):
        _ = Signal("F", [0.0, 0.3, 0.6], [1.0, 2.0, 0.0], 1.0, kind="fourier", harmonics=2).fourier


def test_exchanged_drives_keep_the_others_and_their_periods():
    grid = np.arange(0, 4, 0.1)
    force, load = Signal("F", grid, np.cos(grid), 4.0), Signal("G", grid, np.ones(40), 4.0)
    model = kz.Model.from_equations("x'' + x = F + G", signals=[force, load], start={"x": 0.0, "x'": 0.0})
    other = kz.with_drives(model, {"F": Signal("new", grid, 2 * np.cos(grid), 4.0)})
    assert [(s.name, s(0.0)) for s in other.signals] == [("F", 2.0), ("G", 1.0)]
    short = Signal("F", grid[:10], grid[:10], 1.0)
    with pytest.raises(ModelError, match='"F" repeats after 1 s, another one after 4 s'):
        kz.with_drives(model, {"F": short})
    # Nothing is asked of it after the end, so that its period does not matter.
    assert kz.with_drives(model, {"F": short}, end=0.8).signals[0](0.5) == pytest.approx(0.5)
    # Beside a drive that needs no period another one keeps its own.
    series = Signal("F", grid[:10], grid[:10], 1.0, kind="fourier")
    beside = kz.with_drives(model, {"F": series}, end=0.8)
    assert beside.period is None
    assert beside.signals[0](1.3) == pytest.approx(series(0.3))
