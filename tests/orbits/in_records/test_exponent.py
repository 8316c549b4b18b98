"""The interval of the largest Lyapunov exponent holds exponents that are known."""

import numpy as np
import pytest

import kapitza as kz
from henon_map import henon

HENON = 0.4192  # per step, at a = 1.4, b = 0.3
LORENZ = 0.9056  # per time unit, at the classical parameters


@pytest.mark.parametrize("noise", [0.0, 0.002])
def test_exponent_of_the_henon_map(noise):
    points = henon(5000)
    points = points + noise * np.ptp(points, axis=0) * np.random.default_rng(0).normal(size=points.shape)
    record = kz.Record.from_arrays(np.arange(5000.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0)
    found = kz.inspect(record).lyapunov
    assert found.low < HENON < found.high
    assert found.high - found.low < 0.3 * HENON + 0.1


def test_exponent_of_the_lorenz_system_from_one_noisy_channel():
    record = kz.simulate(kz.library.lorenz(), t=np.arange(50000) * 0.01).select(["x"]).samples(slice(1000, None))
    found = kz.inspect(kz.measure(record, noise=0.01 * float(np.std(record["x"])), seed=1)).lyapunov
    assert found.low < LORENZ < found.high
    assert found.low > 0


def test_noise_has_no_exponent():
    points = np.random.default_rng(0).normal(size=(3000, 2))
    record = kz.Record.from_arrays(np.arange(3000.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0)
    found = kz.inspect(record)
    assert found.lyapunov is None
    assert any("Lyapunov" in note for note in found.notes)
