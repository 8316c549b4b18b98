"""Modes of a decay against their closed form; nonlinear decays have one."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.signal import decay_modes, half_cycles, linear_modes, motion_end

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


def noted(values: np.ndarray) -> str:
    return " ".join(kz.inspect(kz.Record.from_arrays(TIME, {"x": values})).notes)


def test_modes_eight_per_cent_apart_are_two():
    """Half cycles of their beats give one frequency with 6 % of damping at large amplitude."""
    rng = np.random.default_rng(3)
    values = mode(2.0, 0.02, 1.0, 0.0) + mode(2.16, 0.02, 0.8, 1.0) + 5e-3 * rng.standard_normal(TIME.size)
    found = sorted(linear_modes(TIME, values, 5e-3), key=lambda m: m.frequency)
    assert [m.frequency for m in found] == pytest.approx([2.0, 2.16], rel=5e-3)
    assert [m.damping for m in found] == pytest.approx([0.02, 0.02], rel=0.1)
    assert "(modes this close may also be one nonlinear mode)" in noted(values)


def test_a_mode_with_half_a_per_cent_of_the_energy_is_listed():
    rng = np.random.default_rng(4)
    values = mode(1.5, 0.03, 1.0, 0.0) + mode(8.0, 0.01, 0.1, 0.0) + 5e-3 * rng.standard_normal(TIME.size)
    found = sorted(linear_modes(TIME, values, 5e-3), key=lambda m: m.frequency)
    assert [m.frequency for m in found] == pytest.approx([1.5, 8.0], rel=5e-3)


def test_noise_at_small_amplitude_does_not_shift_the_frequency():
    """Single half cycles at four noise widths scatter by a tenth; so did the frequency that was reported."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        decay = half_cycles(TIME, mode(2.0, 0.02, 1.0, 0.0) + 5e-3 * rng.standard_normal(TIME.size), noise=5e-3)
        assert decay is not None
        small = decay.sentence("m", 5e-3).split("; ")[1]
        assert float(small.split(" Hz")[0]) == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("noise", [1e-3, 1e-2, 5e-2])
def test_a_pendulum_is_not_two_modes(noise):
    model = kz.Model.from_equations("x'' + 0.1*x' + 9*sin(x) = 0", parameters={})
    record = kz.measure(kz.simulate(model, x0=[0.5, 0.0], t=2 * TIME).select(["x"]), noise=noise, seed=1)
    assert len(linear_modes(2 * TIME, record["x"], noise * record["x"].std())) <= 1


def test_two_halves_of_a_cycle_last_differently():
    """x'' + 0.1 x' + 9 x + 3 x² = 0: at small amplitude 3/(2π) Hz; single half cycles give 0.41 and 0.52 Hz."""
    model = kz.Model.from_equations("x'' + 0.1*x' + 9*x + 3*x**2 = 0", parameters={})
    record = kz.measure(kz.simulate(model, x0=[1.0, 0.0], t=2 * TIME).select(["x"]), noise=1e-3, seed=1)
    decay = half_cycles(record.time, record["x"], noise=1e-3)
    assert decay is not None
    small = decay.sentence("m", 1e-3).split("; ")[1]
    assert float(small.split(" Hz")[0]) == pytest.approx(3 / (2 * np.pi), rel=5e-3)


def test_shares_of_modes_that_cancel_do_not_exceed_the_energy():
    """Two modes 2 % apart, of opposite signs: each has more energy than their sum."""
    time = np.arange(3000) * 0.01
    one, other = (np.exp(-0.2 * time) * np.cos(2 * np.pi * f * time) for f in (2.0, 2.02))
    values = one - 0.9 * other + 1e-4 * np.random.default_rng(1).standard_normal(time.size)
    assert (one**2).sum() > 1.5 * ((one - 0.9 * other) ** 2).sum()
    for modes in (linear_modes(time, values, 1e-4), decay_modes(time, values)):
        assert modes
        assert sum(mode.share for mode in modes) <= 1.0 + 1e-12
