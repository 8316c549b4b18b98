"""Settings one by one: known initial states, measured excitation, curved outputs, whiteness, windows."""

import numpy as np
import pytest

import kapitza as kz

TIME = np.arange(600) * 0.05


def oscillator(**values):
    parameters = {"d": 0.2, "k": 4.0, **values}
    return kz.Model.from_equations("x'' + d*x' + k*x = 0", parameters=parameters)


def decay(time, d=0.2, k=4.0):
    """x of x'' + d x' + k x = 0 from x = 1, x' = 0."""
    rate = np.sqrt(k - d**2 / 4)
    return np.exp(-d / 2 * time) * (np.cos(rate * time) + d / 2 / rate * np.sin(rate * time))


def test_known_initial_state_is_kept_and_sharpens_the_answer():
    noise = 0.05 * np.random.default_rng(1).normal(size=TIME.size)
    record = kz.Record.from_arrays(TIME, {"x": decay(TIME) + noise})
    start = oscillator(d=0.5, k=3.0)
    held = kz.identify(start, record, ["d", "k"], kz.ShootingFit(initial={"x": 1.0, "x'": 0.0}))
    open_ = kz.identify(start, record, ["d", "k"], kz.ShootingFit())
    assert held.motion.states[0] == pytest.approx([1.0, 0.0], abs=1e-6)
    for name, true in (("d", 0.2), ("k", 4.0)):
        assert abs(held.values[name] - true) < 4 * held.deviations[name]
        assert held.deviations[name] < open_.deviations[name]
    # With the start known, d alone is seen by x: its information is the sum of squared sensitivities.
    step = 1e-5
    slopes = np.array(
        [
            (decay(TIME, d=0.2 + step) - decay(TIME, d=0.2 - step)) / (2 * step),
            (decay(TIME, k=4.0 + step) - decay(TIME, k=4.0 - step)) / (2 * step),
        ]
    )
    expected = np.sqrt(np.diag(np.linalg.inv(slopes @ slopes.T))) * 0.05
    assert np.array(list(held.deviations.values())) == pytest.approx(expected, rel=0.1)


def test_measured_excitation():
    """A force known by its samples alone drives the motion; mass and damping are found from the answer."""
    knots = np.linspace(0, 6.0, 61)[:-1]
    force = np.sin(2 * np.pi * knots / 6) + 0.5 * np.sign(np.sin(4 * np.pi * knots / 6))
    signal = kz.Signal("F", knots, force, 6.0, degree=1)
    model = kz.Model.from_equations("m*x'' + c*x' + 3*x + x**3 = F", parameters={"m": 1.0, "c": 0.3}, signals=[signal])
    clean = kz.simulate(model, x0=[0.0, 0.0], t=np.arange(800) * 0.05)
    readings = clean["x"] + 0.005 * np.random.default_rng(2).normal(size=clean.size)
    record = kz.Record.from_arrays(clean.time, {"x": readings}, period=6.0, phase=0.0)
    fit = kz.identify(model.with_values(m=1.3, c=0.1), record, ["m", "c"], kz.ShootingFit())
    for name in ("m", "c"):
        assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]
    assert fit.noise["x"] == pytest.approx(0.005, rel=0.15)


def test_curved_output():
    """An accelerometer and a potentiometer with a square law: neither is a state."""
    model = oscillator()
    rng = np.random.default_rng(3)
    x = decay(TIME)
    speed = np.gradient(x, TIME, edge_order=2)
    channels = {
        "x": x + 0.01 * rng.normal(size=TIME.size),
        "power": speed**2 + 0.02 * rng.normal(size=TIME.size),
    }
    record = kz.Record.from_arrays(TIME, channels)
    fit = kz.identify(oscillator(d=0.4, k=3.0), record, ["d", "k"], kz.ShootingFit(outputs={"power": "x'**2"}))
    for name in ("d", "k"):
        assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]


def test_noise_that_remembers_is_not_white():
    rng = np.random.default_rng(4)
    white = 0.02 * rng.normal(size=TIME.size)
    coloured = np.convolve(0.02 * rng.normal(size=TIME.size + 9), np.ones(10) / np.sqrt(10), mode="valid")
    for noise, expected in ((white, False), (coloured, True)):
        fit = kz.identify(oscillator(k=3.5), kz.Record.from_arrays(TIME, {"x": decay(TIME) + noise}), ["d", "k"],
                          kz.ShootingFit())  # fmt: skip
        assert any("misses the data" in text for text in fit.warnings) is expected
        assert (fit.whiteness["x"] < 1e-3) is expected


def test_whiteness_has_the_level_it_states():
    """p-values of white residuals are uniform: about half lie below one half."""
    chances = []
    for seed in range(30):
        noise = 0.02 * np.random.default_rng(seed).normal(size=TIME.size)
        record = kz.Record.from_arrays(TIME, {"x": decay(TIME) + noise})
        chances.append(kz.identify(oscillator(), record, ["d", "k"], kz.ShootingFit()).whiteness["x"])
    assert 0.25 < np.mean(np.array(chances) < 0.5) < 0.75
    assert min(chances) > 1e-3
