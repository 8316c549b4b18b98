"""Orbits that a control force holds: the force is a setting of each orbit."""

import numpy as np
import pytest

import kapitza as kz

MODEL = kz.Model.from_equations(
    "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
    parameters={"c": 0.2, "k": 1.0, "k3": 0.5, "F": 0.6, "w": 1.4},
    period="2*pi/w",
    start={"x": 0.5, "x'": 0.0},
)


def held_orbit(amplitude, phase):
    """The response under the drive and a control force with a second harmonic, and that force."""
    model = kz.with_control(MODEL, "x", harmonics=2)
    times = np.linspace(0, MODEL.period, 80, endpoint=False)
    w = MODEL.values["w"]
    force = amplitude * np.sin(w * times + phase) + 0.3 * amplitude * np.cos(2 * w * times)
    setting = kz.control_values(model, times, force)
    orbit = kz.solve_orbit(model.with_values(**setting))
    return orbit.with_(covariance=1e-8 * np.eye(2)), setting


def test_orbits_with_their_control_forces_give_the_parameters_and_without_them_do_not():
    pairs = [held_orbit(amplitude, phase) for amplitude, phase in ((0.15, 0.3), (0.3, 1.0), (0.2, 2.5))]
    model = kz.with_control(MODEL, "x", harmonics=2).with_values(c=0.25, k3=0.4)
    fit = kz.identify(model, pairs, ["c", "k3"])
    for name in fit.names:
        assert abs(fit[name] - MODEL.values[name]) < 5 * fit.deviations[name]
    blind = kz.identify(model, [orbit for orbit, _ in pairs], ["c", "k3"], kz.OrbitFit(throw=False))
    assert not blind.status.ok or max(abs(blind[n] - MODEL.values[n]) / MODEL.values[n] for n in blind.names) > 0.05


def test_values_of_a_force_are_its_fourier_coefficients():
    model = kz.with_control(MODEL, "x", harmonics=3, name="hold")
    w, times = MODEL.values["w"], np.sort(np.random.default_rng(1).uniform(0, 10, 60))
    found = kz.control_values(model, times, 0.1 + 0.4 * np.cos(2 * w * times) - 0.2 * np.sin(3 * w * times), "hold")
    assert found["hold_0"] == pytest.approx(0.1)
    assert found["hold_c2"] == pytest.approx(0.4)
    assert found["hold_s3"] == pytest.approx(-0.2)
    assert found["hold_s1"] == pytest.approx(0.0, abs=1e-12)


def test_wrong_controls_are_refused():
    free = kz.Model.from_equations("x'' + x = 0")
    with pytest.raises(kz.KapitzaError, match="no excitation"):
        kz.with_control(free, "x")
    with pytest.raises(kz.KapitzaError, match='no coordinate "y"'):
        kz.with_control(MODEL, "y")
    with pytest.raises(kz.KapitzaError, match="already"):
        kz.with_control(kz.with_control(MODEL, "x"), "x")
    with pytest.raises(kz.KapitzaError, match='no control "u"'):
        kz.control_values(MODEL, [0.0], [1.0])
    with pytest.raises(kz.KapitzaError, match="at least 11"):
        kz.control_values(kz.with_control(MODEL, "x"), [0.0, 1.0], [1.0, 1.0])
