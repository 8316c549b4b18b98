"""How much of a recording a motion is followed over."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.study.motions import oversampling
from kapitza.study.recordings import thinned


@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("samples", [50, 200, 1000, 4000])
def test_an_oversampled_cycle_is_thinned_to_what_a_picture_shows(samples, noise):
    time = np.arange(5 * samples) / samples
    decay = np.exp(-0.5 * time) * np.cos(2 * np.pi * time)
    record = kz.Record.from_arrays(time, {"x": decay, "slow": time})
    record = kz.measure(record, noise=noise, seed=1) if noise else record
    every = oversampling(record)
    # at least 30 samples per cycle stay, and no more than 200 where there were more
    assert min(samples, 30) <= samples / every <= max(200, samples / 64)
    assert thinned(record, every).size == -(-record.size // every)


def test_a_fast_motion_on_a_slow_drift_keeps_its_samples():
    time = np.arange(5000) * 0.01
    turns = 200 * np.sin(2 * np.pi * time / 50)
    record = kz.Record.from_arrays(time, {"phi": turns + np.sin(2 * np.pi * time / 0.5)}, angles=["phi"])
    assert oversampling(record) == 1


def test_noise_alone_is_not_thinned_and_short_segments_stay():
    time = np.arange(10_000) * 1e-3
    noise = np.random.default_rng(1).standard_normal(time.size)
    assert oversampling(kz.Record.from_arrays(time, {"x": noise})) == 1
    label = np.where(np.arange(10_000) < 150, 0, 1)
    assert oversampling(kz.Record.from_arrays(time, {"x": np.sin(0.1 * time)}, segment=label)) == 1
