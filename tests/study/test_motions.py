"""How much of a recording a motion is followed over."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.study.motions import SAMPLES_PER_CYCLE, oversampling
from kapitza.study.recordings import thinned


@pytest.mark.parametrize("samples", [50, 130, 1000, 4000])
def test_an_oversampled_cycle_is_thinned_to_what_a_picture_shows(samples):
    time = np.arange(5 * samples) / samples
    decay = np.exp(-0.5 * time) * np.cos(2 * np.pi * time)
    record = kz.Record.from_arrays(time, {"x": decay, "slow": time})
    every = oversampling(record)
    assert max(1.0, samples / SAMPLES_PER_CYCLE) / every == pytest.approx(1, abs=0.35)
    assert thinned(record, every).size == -(-record.size // every)


def test_short_segments_are_not_thinned_away():
    time = np.arange(10_000) * 1e-3
    label = np.where(np.arange(10_000) < 150, 0, 1)
    record = kz.Record.from_arrays(time, {"x": np.sin(0.1 * time)}, segment=label)
    every = oversampling(record)
    assert every == 1
