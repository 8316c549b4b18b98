"""Modes of a decay against their closed form; nonlinear decays have one."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.signal import decay_modes

TIME = np.arange(3000) * 0.005


def mode(frequency, damping, size, phase):
    rate = 2 * np.pi * frequency
    return size * np.exp(-rate * damping * TIME) * np.cos(rate * np.sqrt(1 - damping**2) * TIME + phase)


@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_two_and_three_modes_are_told_apart(noise):
    rng = np.random.default_rng(1)
    true = [(1.1, 0.01, 1.0, 0.3), (2.9, 0.02, 0.6, 1.0), (4.7, 0.008, 0.3, 2.0)]
    for count in (2, 3):
        values = sum(mode(*one) for one in true[:count]) + noise * rng.standard_normal(TIME.size)
        found = sorted(decay_modes(TIME, values), key=lambda m: m.frequency)
        assert len(found) == count
        for one, (frequency, damping, _, _) in zip(found, true, strict=False):
            assert one.frequency == pytest.approx(frequency, rel=5e-3)
            assert one.damping == pytest.approx(damping, rel=0.1)


def test_a_nonlinear_decay_has_one_mode_and_its_amplitude_dependence_is_said():
    model = kz.Model.from_equations("x'' + 0.3*x' + 40*x + 60*x**3 = 0", parameters={})
    record = kz.measure(kz.simulate(model, x0=[1.0, 0.0], t=TIME).select(["x"]), noise=1e-3, seed=1)
    assert len(decay_modes(TIME, record["x"])) <= 1
    notes = " ".join(kz.inspect(record).notes)
    assert "at large amplitude" in notes


def test_inspect_lists_the_modes_of_a_decay():
    rng = np.random.default_rng(2)
    values = mode(1.0, 0.02, 1.0, 0.0) + mode(3.3, 0.006, 0.25, 0.5) + 1e-3 * rng.standard_normal(TIME.size)
    notes = " ".join(kz.inspect(kz.Record.from_arrays(TIME, {"x": values})).notes)
    assert "Free decay of x: 2 modes, 1 Hz and 2 % of critical damping" in notes
