"""Parameters come back from noisy records of systems whose parameters are known."""

import numpy as np
import pytest

import kapitza as kz

DURATIONS = {"lorenz": (60.0, 0.005), "duffing": (600.0, 0.05), "horizontally_excited_pendulum": (600.0, 0.05)}


def chaotic_model(name):
    if name == "duffing":
        return kz.library.duffing().with_values(k=0.05, B=7.5)
    return getattr(kz.library, name)()


def noisy_record(name, seed):
    """1 % of the size of each coordinate, coordinates only."""
    model = chaotic_model(name)
    duration, step = DURATIONS[name]
    record = kz.simulate(model, t=np.arange(0.0, duration, step))
    names = [c.name for c in model.coordinates]
    smooth = record.unwrapped()
    clean = kz.Record.from_arrays(
        record.time,
        {n: smooth[n] for n in names},
        angles=[c.name for c in model.coordinates if c.angle],
        period=model.period,
    )
    size = {n: 0.01 * float(np.std(record[n])) for n in names}
    return model, kz.measure(clean, noise=size, seed=seed)


@pytest.mark.parametrize("name", list(DURATIONS))
def test_one_percent_noise(name):
    model, record = noisy_record(name, seed=3)
    start = model.with_values(**dict.fromkeys(free_names(name), 1.0))
    fit = kz.identify(start, record, free=free_names(name), method=fit_settings(name))
    for parameter in free_names(name):
        assert fit[parameter] == pytest.approx(model.values[parameter], rel=0.01)


def free_names(name):
    return {
        "lorenz": ["sigma", "rho", "beta"],
        "duffing": ["k", "B"],
        "horizontally_excited_pendulum": ["c", "r", "f"],
    }[name]


def fit_settings(name):
    return kz.HarmonicFit(nonlinear="separate") if name == "horizontally_excited_pendulum" else kz.HarmonicFit()
