"""Half cycles of free decays against the closed form of a damped oscillator."""

import re

import numpy as np
import pytest

from kapitza.signal import half_cycles


def test_a_damped_oscillator_gives_back_its_frequency_and_damping():
    ratio, omega = 0.02, 2 * np.pi * 3.0
    damped = omega * np.sqrt(1 - ratio**2)
    time = np.arange(0, 6, 0.002)
    clean = 0.5 + np.exp(-ratio * omega * time) * np.cos(damped * time)
    noisy = clean + 0.002 * np.random.default_rng(1).standard_normal(time.size)
    decay = half_cycles(time, noisy, 0.5)
    assert decay is not None
    assert decay.dies_out
    large = decay.amplitude > 0.1
    assert np.median(decay.frequency[large]) == pytest.approx(damped / (2 * np.pi), rel=2e-3)
    assert np.median(decay.damping[large]) == pytest.approx(ratio, rel=0.05)
    assert np.allclose(decay.amplitude[large], np.exp(-ratio * omega * decay.time[large]), atol=0.01)
    rate, rest = decay.sentence().split(" Hz", 1)
    assert float(rate) == pytest.approx(damped / (2 * np.pi), rel=1e-3)
    assert rest.startswith(" and 2 % of critical damping")


def test_a_pendulum_slows_down_at_large_amplitude():
    from scipy.integrate import solve_ivp
    from scipy.special import ellipk

    time = np.arange(0, 60, 0.005)
    found = solve_ivp(lambda _t, y: [y[1], -np.sin(y[0]) - 0.05 * y[1]], (0, 60), [2.0, 0.0], t_eval=time, rtol=1e-10)
    decay = half_cycles(time, found.y[0], 0.0)
    assert decay is not None
    # period of the undamped pendulum, 4 K(sin²(A/2)), at the amplitude of each half cycle
    exact = 1 / (4 * ellipk(np.sin(decay.amplitude / 2) ** 2))
    assert np.allclose(decay.frequency, exact, rtol=0.01)


def test_a_rest_position_that_is_off_does_not_split_the_frequencies():
    """2 % of the amplitude off rest, every second half cycle is 1.3 % longer; the cycles around them are equal."""
    time = np.arange(0, 8, 0.002)
    decay = half_cycles(time, np.exp(-0.1 * time) * np.cos(2 * np.pi * 1.5 * time), 0.02)
    assert decay is not None
    assert np.allclose(decay.frequency, 1.5, rtol=1e-3)


def test_steady_vibration_and_noise_do_not_die_out():
    time = np.arange(0, 20, 0.01)
    steady = half_cycles(time, np.sin(5 * time))
    assert steady is not None
    assert not steady.dies_out
    noise = half_cycles(time, np.random.default_rng(2).standard_normal(time.size))
    assert noise is None or not noise.dies_out
    assert half_cycles(time[:50], np.sin(time[:50])) is None


def test_inspect_tells_frequency_and_damping_of_a_free_decay():
    import kapitza as kz

    ratio, omega = 0.01, 2 * np.pi * 3.0
    time = np.arange(0, 12, 0.01)
    values = np.exp(-ratio * omega * time) * np.cos(omega * time)
    noisy = values + 0.002 * np.random.default_rng(1).standard_normal(time.size)
    said = str(kz.inspect(kz.Record.from_arrays(time, {"x": noisy}, units={"x": "m"})))
    found = re.search(r"Free decay of x: (\S+) Hz and (\S+) % of critical damping at large amplitude", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(3.0, rel=5e-3)
    assert float(found[2]) == pytest.approx(1.0, rel=0.1)
    assert "Next: a free decay" in said


def test_the_top_of_a_half_cycle_is_the_first_of_equal_samples():
    swing = np.array([0.0, 1.0, 2.0, 2.0, 1.0])
    values = np.concatenate([sign * size * swing[1:] for sign, size in zip([1, -1] * 6, range(12, 0, -1), strict=True)])
    decay = half_cycles(np.arange(values.size, dtype=float), values, 0.0)
    assert decay is not None
    assert np.array_equal(decay.amplitude, 2.0 * np.arange(11, 1, -1))
    assert np.array_equal(decay.time, 4.0 * np.arange(1, 11) + 1)


def test_noise_alone_has_no_half_cycles():
    import kapitza as kz

    rng = np.random.default_rng(0)
    time, values = np.linspace(0, 60, 300), rng.standard_normal(300)
    assert half_cycles(time, values, noise=1.0) is None
    assert "Free decay" not in str(kz.inspect(kz.Record.from_arrays(time, {"x": values})))


@pytest.mark.parametrize(("ratio", "dies"), [(0.004, True), (0.0005, False)])
def test_a_slow_decay_is_one_before_a_fifth_of_it_is_lost(ratio, dies):
    """A pendulum that lost 19 % in its record was called periodic with noise; one that lost 3 % may be."""
    time = np.arange(0, 9, 0.01)
    values = np.exp(-ratio * 7.4 * time) * np.cos(7.4 * time) + 1e-4 * np.random.default_rng(2).standard_normal(900)
    decay = half_cycles(time, values, 0.0, 1e-4)
    assert decay is not None
    assert decay.dies_out == dies


def test_a_sustained_motion_with_noise_does_not_die_out():
    for seed in range(40):
        time = np.arange(0, 9, 0.01)
        values = np.cos(7.4 * time) + 0.05 * np.random.default_rng(seed).standard_normal(900)
        decay = half_cycles(time, values, 0.0, 0.05)
        assert decay is None or not decay.dies_out
