"""Divergence of neighbours, spectra, and the inspection of records with known character."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from kapitza.signal import largest_lyapunov, power_spectrum


def logistic(count: int) -> np.ndarray:
    values = np.empty(count)
    values[0] = 0.3123
    for i in range(1, count):
        values[i] = 4 * values[i - 1] * (1 - values[i - 1])
    return values


def test_exponent_of_the_logistic_map_is_log_two():
    result = largest_lyapunov(logistic(20000), 1.0, horizon=15)
    assert result.value == pytest.approx(np.log(2), rel=0.08)
    assert result.low < result.value < result.high


def test_exponent_scales_with_the_step():
    values = logistic(20000)
    assert largest_lyapunov(values, 0.1, horizon=15).value == pytest.approx(
        10 * largest_lyapunov(values, 1.0, horizon=15).value
    )


def test_too_short_a_record_is_refused():
    with pytest.raises(DataError, match="record longer"):
        largest_lyapunov(np.arange(50.0), 1.0)


def test_spectrum_finds_the_lines_and_keeps_the_power():
    time = np.arange(40000) * 0.01
    noise = np.random.default_rng(0).normal(size=time.size)
    values = 2.0 * np.sin(2 * np.pi * 5 * time) + np.sin(2 * np.pi * 12 * time) + 0.1 * noise
    spectrum = power_spectrum(values, 0.01)
    assert spectrum.peaks[:2] == pytest.approx([5, 12], abs=0.1)
    assert np.trapezoid(spectrum.density, spectrum.frequency) == pytest.approx(2.0 + 0.5 + 0.01, rel=0.02)


def test_inspection_of_chaos_suggests_orbits():
    record = kz.simulate(kz.library.parametric_pendulum(), periods=4000)
    found = kz.inspect(record)
    assert found.strobed
    assert found.lyapunov.low > 0
    assert "find_orbits" in str(found)
    assert found.noise["phi"] < 1e-3


def test_inspection_measures_the_noise_of_dense_and_strobed_records():
    model = kz.library.parametric_pendulum()
    dense = kz.measure(kz.simulate(model, periods=300, samples_per_period=60), noise={"phi": 0.01}, seed=0)
    assert kz.inspect(dense, channels=["phi"]).noise["phi"] == pytest.approx(0.01, rel=0.1)
    strobed = kz.simulate(model, periods=15000)
    noisy = kz.measure(strobed, noise={"phi": 0.0031, "phi'": 0.015}, seed=0)
    for name in noisy.channels:
        noisy.dataset[name].attrs.pop("noise", None)
    levels = kz.inspect(noisy).noise
    assert levels["phi"] == pytest.approx(0.0031, rel=0.15)
    assert levels["phi'"] == pytest.approx(0.015, rel=0.15)


def test_inspection_of_a_short_record_says_what_is_missing():
    time = np.arange(60) * 0.1
    found = kz.inspect(kz.Record.from_arrays(time, {"x": np.sin(time)}))
    assert found.notes
    assert "orbits need at least some thousand oscillations" in found.suggestion


def test_inspection_draws_what_it_found():
    time = np.arange(6000) * 0.02
    rng = np.random.default_rng(0)
    record = kz.Record.from_arrays(time, {"x": np.sin(3 * time) + 0.01 * rng.normal(size=time.size)}, period=2.0)
    figure = kz.inspect(record).plot()
    assert len(figure.axes) >= 2


@pytest.mark.parametrize("frequency", [0.8, 0.945, 1.1, 1.7])
def test_a_line_between_two_bins_of_a_short_record_is_found_there(frequency):
    time = np.arange(1280) * 0.005
    spectrum = power_spectrum(np.cos(2 * np.pi * frequency * time), 0.005)
    # bins of 0.625 Hz: the nearest one would be up to 0.31 Hz off
    assert spectrum.peaks[0] == pytest.approx(frequency, abs=0.12)
