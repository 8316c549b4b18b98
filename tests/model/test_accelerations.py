"""Highest derivatives as an accelerometer reads them, also where friction holds."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate import observe_channels

TIMES = np.arange(3000) / 1000


def read(model, states, free, outputs):
    seen = observe_channels(model, ["acc"], [False], outputs, free)
    parameters = np.array([model.values[n] for n in model.names])
    return seen.value(states, TIMES, parameters)[:, 0], seen.linearise(states, TIMES, parameters)


@pytest.mark.parametrize("friction", ["mu*sign(x')", "mu*(2*Heaviside(x') - 1)"])
def test_friction_that_holds_leaves_no_acceleration(friction):
    force = 3 * np.sin(2 * np.pi * 6 * TIMES) * np.minimum(1, TIMES)
    model = kz.Model.from_equations(
        f"m*x'' + c*x' + k*x + {friction} = F",
        parameters={"m": 0.6, "c": 2.0, "k": 3000.0, "mu": 0.5},
        signals=[kz.Signal("F", TIMES, force, degree=3)],
        outputs={"acc": "x''"},
    )
    motion = kz.simulate(model, [0, 0], t=TIMES)
    x, v = motion["x"], motion["x'"]
    held = v == 0
    assert 100 < held.sum() < 1500
    slipping = (force - 2.0 * v - 3000 * x - 0.5 * np.sign(v)) / 0.6
    # Own output of the model, and one in the settings.
    for outputs in ({}, {"acc": "x''"}):
        acceleration, (_, by_state, by_parameter) = read(model, np.column_stack([x, v]), ["m", "mu"], outputs)
        assert np.abs(acceleration[held]).max() < 1e-12
        assert np.allclose(acceleration[~held], slipping[~held], rtol=1e-12, atol=1e-12)
        # Away from the switch, d x''/d x = -k/m and d x''/d mu = -sign(x')/m; while held, both are zero.
        assert np.allclose(by_state[~held, 0, 0], -5000.0)
        assert np.allclose(by_parameter[~held, 0, 1], -np.sign(v[~held]) / 0.6)
        assert np.abs(by_parameter[held]).max() < 1e-9


def test_a_body_carried_by_a_belt_has_the_acceleration_of_the_belt():
    model = kz.Model.from_equations(
        "x'' + k*x + mu*sign(x' - vb) = 0", parameters={"k": 4.0, "mu": 1.0, "vb": 0.1}, outputs={"acc": "x''"}
    )
    motion = kz.simulate(model, [0.0, 0.1], t=TIMES[:1500])
    states = np.zeros((TIMES.size, 2))
    states[:1500] = motion.values()
    states[1500:] = [0.1, -0.2]
    acceleration, _ = read(model, states, ["k"], {})
    # Until x = mu/k the belt carries the body at its own speed.
    assert np.abs(acceleration[:1500]).max() < 1e-12
    assert np.allclose(acceleration[1500:], -4.0 * 0.1 + 1.0)


def test_without_friction_the_mode_of_sticking_stays_finite():
    model = kz.Model.from_equations(
        "x'' + k*x + mu*sign(x') = 0", parameters={"k": 4.0, "mu": 0.0}, outputs={"acc": "x''"}
    )
    states = np.column_stack([np.linspace(-1, 1, TIMES.size), np.zeros(TIMES.size)])
    acceleration, slopes = read(model, states, ["k", "mu"], {})
    assert np.allclose(acceleration, -4.0 * states[:, 0])
    assert all(np.isfinite(each).all() for each in slopes)


def test_an_acceleration_written_out_by_hand_has_derivatives_away_from_the_switch():
    model = kz.Model.from_equations("x'' + k*x + mu*sign(x') = 0", parameters={"k": 4.0, "mu": 1.0})
    states = np.column_stack([np.linspace(-1, 1, TIMES.size), np.linspace(1, -1, TIMES.size) + 1e-4])
    value, (_, by_state, by_parameter) = read(model, states, ["mu"], {"acc": "-k*x - mu*sign(x')"})
    assert np.allclose(value, -4.0 * states[:, 0] - np.sign(states[:, 1]))
    assert np.allclose(by_state[:, 0], [-4.0, 0.0])
    assert np.allclose(by_parameter[:, 0, 0], -np.sign(states[:, 1]))
