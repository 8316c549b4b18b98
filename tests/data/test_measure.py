"""Synthetic measurement: the statistics that were asked for, repeatable."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import Record
from kapitza.errors import DataError

COUNT = 40_000


@pytest.fixture
def clean() -> Record:
    time = np.arange(COUNT) * 0.01
    channels = {"phi": 3 + np.sin(time), "x": 2 * np.cos(time)}
    return Record.from_arrays(time, channels, angles=["phi"])


def test_noise_has_the_deviation_asked_for(clean):
    noisy = kz.measure(clean, noise={"x": 0.1}, seed=1)
    error = noisy["x"] - clean["x"]
    # standard error of a deviation from N samples: σ/√(2N)
    assert error.std() == pytest.approx(0.1, abs=5 * 0.1 / np.sqrt(2 * COUNT))
    assert abs(error.mean()) < 5 * 0.1 / np.sqrt(COUNT)
    assert np.array_equal(noisy["phi"], clean["phi"])
    assert noisy.noise == {"x": pytest.approx(0.1)}


def test_relative_noise_refers_to_the_mean_modulus_of_wrapped_angles(clean):
    noisy = kz.measure(clean, relative_noise=0.05, seed=2)
    wrapped = np.angle(np.exp(1j * clean["phi"]))
    assert noisy.noise["phi"] == pytest.approx(0.05 * np.abs(wrapped).mean())
    assert noisy.noise["x"] == pytest.approx(0.05 * np.abs(clean["x"]).mean())


def test_quantisation_is_that_of_an_encoder(clean):
    step = 2 * np.pi / 1024
    measured = kz.measure(clean, quantum={"phi": step})
    counts = measured["phi"] / step
    assert np.allclose(counts, np.rint(counts), atol=1e-9)
    error = measured["phi"] - clean["phi"]
    assert np.abs(error).max() <= step / 2 * (1 + 1e-9)
    assert error.std() == pytest.approx(step / np.sqrt(12), rel=0.02)
    assert measured.noise["phi"] == pytest.approx(step / np.sqrt(12))


def test_jitter_moves_the_sampling_instants(clean):
    """A displaced instant changes x by x'·δ, so the error's deviation is σ·rms(x') for small σ."""
    sigma = 1e-3
    measured = kz.measure(clean, jitter=sigma, seed=3)
    error = measured["x"] - clean["x"]
    assert np.array_equal(measured.time, clean.time)
    assert error.std() == pytest.approx(sigma * np.sqrt(2), rel=0.02)


def test_dropped_samples_become_gaps(clean):
    measured = kz.measure(clean, drop=0.1, seed=4)
    lost = COUNT - len(measured)
    assert lost == pytest.approx(0.1 * COUNT, abs=5 * np.sqrt(COUNT * 0.1 * 0.9))
    assert len(measured.segments()) > 1
    assert measured.sampling().regular  # inside the segments nothing is missing


def test_seed_makes_it_repeatable(clean):
    settings = {"noise": 0.1, "quantum": 0.01, "jitter": 1e-3, "drop": 0.01}
    one, two, three = (kz.measure(clean, **settings, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.values(), two.values())
    assert one.size != three.size or not np.array_equal(one.values(), three.values())


def test_nothing_asked_for_changes_nothing(clean):
    assert np.array_equal(kz.measure(clean).values(), clean.values())


def test_bad_settings_are_refused(clean):
    settings = {
        'noise of channel "phi" = -1': {"noise": -1},
        'No channel "xx".*Did you mean': {"noise": {"xx": 1}},
        r"quantum\['x'\] = nan": {"quantum": {"x": np.nan}},
        "jitter, a standard deviation": {"jitter": -1},
        "loses every sample": {"drop": 1.0},
    }
    for message, setting in settings.items():
        with pytest.raises(DataError, match=message):
            kz.measure(clean, **setting)
    strobed = Record.from_arrays(np.arange(10.0), {"x": np.arange(10.0)}, period=1.0)
    with pytest.raises(DataError, match="samples_per_period"):
        kz.measure(strobed, jitter=0.01)
