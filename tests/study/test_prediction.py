"""Predictions beyond a recording: bands hold further samples, from the first one on."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate import last_state
from kapitza.study import predicted_table

NOISE, SIZE, FURTHER = 0.01, 400, 80


@pytest.fixture(scope="module")
def oscillator():
    return kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.05, "k": 4.0, "q": 1.0})


def recorded(model, seed):
    clean = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(SIZE + FURTHER) * 0.05)
    return clean, kz.measure(clean.select(["x"]), noise=NOISE, seed=seed)


def test_bands_hold_further_samples_from_the_start(oscillator):
    """95 % of 30 x 80 samples; samples of one record share its errors, so the share scatters by about 3 %."""
    measured, unmeasured = [], []
    for seed in range(100, 130):
        clean, record = recorded(oscillator, seed)
        fit = kz.identify(oscillator.with_values(k=4.2), record.samples(slice(0, SIZE)), free=["c", "k", "q"])
        table = predicted_table(fit, np.arange(FURTHER + 1) * 0.05, None, {})
        for name, data, found in (("x", record["x"], measured), ("x'", clean["x'"], unmeasured)):
            low, high = (np.asarray(table[f"{name} {side}"])[1:] for side in ("low", "high"))
            found.append((data[SIZE:] > low) & (data[SIZE:] < high))
            assert (high > low).all()
    for found in (measured, unmeasured):
        assert 0.87 < np.mean(found) < 0.999
        assert np.mean(found, axis=0)[:5].mean() > 0.85


def test_the_last_state_has_the_error_of_repeated_records(oscillator):
    """Root mean square error over 40 records at the true parameters, beside the standard error."""
    off, stated = [], []
    for seed in range(40):
        clean, record = recorded(oscillator, seed)
        last = last_state(oscillator, record, {}, {"x": NOISE}, ["k"])
        off.append(last.state - [clean[name][-1] for name in oscillator.states])
        stated.append(np.sqrt(np.diag(last.covariance)))
    # Forty errors give their standard deviation to 11 %.
    assert np.allclose(np.sqrt(np.mean(np.square(off), axis=0)) / np.mean(stated, axis=0), 1.0, atol=0.35)


def test_the_last_state_moves_with_a_parameter(oscillator):
    """By differences: the state found at another stiffness."""
    _, record = recorded(oscillator, 3)
    noise, step = {"x": NOISE}, 1e-3
    last = last_state(oscillator, record, {}, noise, ["k"])
    moved = [last_state(oscillator.with_values(k=4.0 + s), record, {}, noise, ["k"]).state for s in (-step, step)]
    assert np.allclose((moved[1] - moved[0]) / (2 * step), last.by_parameter[:, 0], rtol=0.05, atol=1e-3)
