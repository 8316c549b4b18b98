"""One vocabulary of sensor errors: what is simulated is what is fitted, found and marked."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import BY_NAME, FITTED, KINDS, PROPOSED, TESTED, marks_of
from kapitza.signal import without_bad_samples

TIME = np.arange(1200) * 0.02
MODEL = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 9.0})
CLEAN = kz.simulate(MODEL, x0=[1.0, 0.0], t=TIME)
SIZES = {"gain": 1.3, "offset": 0.4, "drift": 0.02, "delay": 0.05}


@pytest.mark.parametrize("error", FITTED, ids=lambda error: error.name)
def test_a_simulated_error_is_fitted(error):
    """y = gain h(t - delay) + offset + drift t, with the other channel exact: the fit gives back what was simulated."""
    known = {"x": SIZES[error.name]}
    seen = kz.measure(CLEAN, noise=1e-3, seed=1, **{error.name: known}).between(start=0.2)
    method = kz.ShootingFit(outputs={"x": kz.Sensor("x", error.name)})
    fit = kz.identify(MODEL, seen, ["c", "k"], method)
    found = f"x_{error.name}"
    assert abs(fit[found] - SIZES[error.name]) < 5 * fit.deviations[found]
    assert fit.deviations[found] < 0.05 * SIZES[error.name]


@pytest.mark.parametrize("error", sorted({*PROPOSED, *TESTED}, key=lambda e: e.name), ids=lambda error: error.name)
def test_a_column_is_the_derivative_of_what_is_simulated(error):
    """∂y/∂size by differences, for x = sin 3t with the rate 3 cos 3t."""
    h, rate = np.sin(3 * TIME), 3 * np.cos(3 * TIME)
    if error.apply is None:  # the clock of the record: y(t) = h(t/(1 + s)), and h(t - s)
        moved = {"clock": lambda s: np.sin(3 * TIME / (1 + s)), "phase": lambda s: np.sin(3 * (TIME - s))}[error.name]
    else:
        moved = lambda s: error.apply(h, error.ideal + s, TIME, lambda _, late: np.sin(3 * (TIME - late)))  # noqa: E731
    step = 1e-6
    slope = (moved(step) - moved(-step)) / (2 * step)
    assert np.allclose(error.column(h, rate, TIME), slope, atol=1e-6 * (1 + np.abs(slope).max()))


def test_bad_samples_are_simulated_and_marked():
    noisy = {"noise": 1e-3, "seed": 3}
    for name, settings in (
        ("spike", {"spikes": {"x": 0.005}}),
        ("dropout", {"dropouts": {"x": 0.02}}),
        ("saturation", {"limits": {"x": (-0.8, 0.8)}}),
    ):
        plain, seen = kz.measure(CLEAN, **noisy), kz.measure(CLEAN, **noisy, **settings)
        marks = marks_of(without_bad_samples(seen), "x")
        spoiled = seen["x"] != plain["x"]
        assert spoiled.any(), name
        assert BY_NAME[name].mark in KINDS
        assert np.mean(marks[spoiled] > 0) > 0.8, name


def test_errors_leave_other_channels_and_the_noise_alone():
    plain = kz.measure(CLEAN, noise=0.1, seed=5)
    same = kz.measure(CLEAN, noise=0.1, seed=5, gain=1.0, offset=0.0, drift=0.0, delay=0.0)
    assert np.array_equal(plain.values(), same.values())
    off = kz.measure(CLEAN, noise=0.1, seed=5, offset={"x": 2.0})
    assert np.allclose(off["x"] - plain["x"], 2.0)
    assert np.array_equal(off["x'"], plain["x'"])
