"""Modes of a decay against their closed form; nonlinear decays have one."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.signal import decay_modes, motion_end

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


def test_a_decay_that_ends_in_noise_is_still_a_decay():
    """Two modes with closed-form damping 0.3/(2π 3) and 0.5/(2π 7.3), followed by as much noise again and more."""
    time, rng = np.arange(6000) * 0.005, np.random.default_rng(0)
    clean = np.exp(-0.3 * time) * np.cos(2 * np.pi * 3 * time)
    clean = clean + 0.6 * np.exp(-0.5 * time) * np.cos(2 * np.pi * 7.3 * time + 0.4)
    values = clean + 0.005 * rng.standard_normal(time.size)
    # The amplitude of the first mode falls to three times the noise (root mean square) where e^(-0.3 t)/√2 = 0.015.
    assert time[motion_end(values, 0.005) - 1] == pytest.approx(np.log(1 / (0.015 * np.sqrt(2))) / 0.3, abs=1.0)
    assert motion_end(values[:2000], 0.005) == 2000
    notes = " ".join(kz.inspect(kz.Record.from_arrays(time, {"x": values})).notes)
    assert "2 modes" in notes
    assert "1.6 % of critical damping" in notes
