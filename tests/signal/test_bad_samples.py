"""Spikes, dropouts and saturation are found; events of a motion are not taken for them."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import marks_of
from kapitza.signal import bad_sample_warnings, bad_samples, cut_at_bad_runs, without_bad_samples

TIME = np.arange(1500) * 0.02


def noisy(values: np.ndarray, seed: int = 0, level: float = 0.01) -> np.ndarray:
    return values + level * np.random.default_rng(seed).standard_normal(values.size)


def wave() -> np.ndarray:
    return np.sin(3.0 * TIME) + 0.3 * np.sin(7.1 * TIME)


def test_every_large_spike_is_found_and_no_other_sample():
    values = noisy(wave())
    index = np.random.default_rng(1).choice(np.arange(6, 1494), 15, replace=False)
    values[index] += 0.5 * np.where(np.arange(15) % 2, 1.0, -1.0)
    found = bad_samples(values)
    assert not (set(np.flatnonzero(found.lost)) - set(index))
    assert found.spikes[index].mean() >= 0.9


def test_values_in_place_of_spikes_are_those_of_the_motion():
    values = noisy(wave())
    values[[300, 301, 900]] += 2.0
    found = bad_samples(values)
    assert np.flatnonzero(found.spikes).tolist() == [300, 301, 900]
    # A cubic through six samples of noise 0.01 has an error below 0.02 at these places.
    assert np.abs(found.filled - wave())[found.spikes].max() < 0.05


@pytest.mark.parametrize("shape", ["impact", "jump", "corner", "square", "pulse", "rest"])
def test_sharp_motion_is_not_flagged(shape):
    phase = (TIME * 0.7) % 1.0
    values = {
        "impact": np.abs(np.sin(3.0 * TIME)),
        "jump": np.cos(3.0 * TIME) * np.sign(np.sin(3.0 * TIME)),
        "corner": np.abs(phase - 0.5),
        "square": np.sign(np.sin(2.0 * TIME)),
        "pulse": np.exp(-(((phase - 0.5) / 0.01) ** 2)),
        "rest": np.where(TIME < 10, 0.0, np.sin(TIME - 10)),
    }[shape]
    for level in (0.0, 1e-3, 1e-2):
        assert not bad_samples(noisy(values, 3, level)).lost.any()


@pytest.mark.parametrize("parts", [1000, 200, 50, 15])
def test_rounded_samples_are_not_flagged(parts):
    step = wave().std() / parts
    assert not bad_samples(np.round(wave() / step) * step).lost.any()
    assert not bad_samples(np.round(noisy(wave()) / step) * step).lost.any()


def test_noise_with_long_tails_is_not_spikes():
    tails = 0.01 * np.random.default_rng(2).standard_t(3, TIME.size)
    assert bad_samples(wave() + tails).lost.sum() <= 3


def test_dropout_and_held_value_are_found():
    values = noisy(2.0 + wave())
    values[400:408] = 0.0
    fast = 650 + int(np.argmax(np.abs(np.diff(wave()[650:750]))))
    values[fast : fast + 6] = values[fast - 1]
    found = bad_samples(values)
    assert found.dropouts[400:408].all()
    assert found.dropouts[fast : fast + 6].all()
    assert found.lost.sum() <= 15


def test_saturation_is_found():
    values = np.minimum(noisy(wave()), 0.9)
    found = bad_samples(values)
    assert found.saturated.sum() == (values == 0.9).sum()
    assert not found.spikes.any()


def test_one_visit_to_the_end_of_the_range_is_saturation():
    values = noisy(np.sin(3.0 * TIME) * np.exp(-0.1 * TIME))
    values = np.minimum(values, 0.87)
    assert np.count_nonzero(np.diff((values == 0.87).astype(int)) == 1) == 1
    assert np.array_equal(bad_samples(values).saturated, values == 0.87)


def test_saturation_of_a_converter_is_found():
    step = 2.0**-8
    values = np.minimum(np.round(noisy(wave()) / step) * step, 0.75)
    found = bad_samples(values)
    assert np.array_equal(found.saturated, values == 0.75)


def test_short_records_are_left_alone():
    values = np.zeros(30)
    values[12] = 5.0
    assert not bad_samples(values).lost.any()


def test_record_keeps_its_marks_when_it_is_cut_and_renamed():
    values = noisy(wave())
    values[500] += 1.0
    record = without_bad_samples(kz.Record.from_arrays(TIME, {"x": values}))
    assert np.flatnonzero(marks_of(record, "x")).tolist() == [500]
    part = record.between(start=TIME[400]).renamed({"x": "y"})
    assert np.flatnonzero(marks_of(part, "y")).tolist() == [100]
    assert without_bad_samples(part) is part
    (text,) = bad_sample_warnings(part)
    assert '"y" has 1 spike (at 10 s)' in text


def test_record_that_keeps_its_samples_is_not_marked():
    values = noisy(wave())
    values[500] += 1.0
    record = kz.Record.from_arrays(TIME, {"x": values}, bad_samples="keep")
    assert without_bad_samples(record) is record


def test_wrapped_angles_are_not_flagged_and_their_spikes_are_found():
    angle = noisy(2.0 * TIME + 0.4 * np.sin(3.0 * TIME))
    angle[600] += 0.8
    for values in (angle, (angle + np.pi) % (2 * np.pi) - np.pi):
        record = kz.Record.from_arrays(TIME, {"phi": values}, angles=["phi"])
        marked = without_bad_samples(record)
        assert np.flatnonzero(marks_of(marked, "phi")).tolist() == [600]
        assert abs(np.angle(np.exp(1j * (marked["phi"][600] - angle[600] + 0.8)))) < 0.05
        assert np.array_equal(np.delete(marked["phi"], 600), np.delete(values, 600))


def test_long_runs_are_cut_out_for_methods_that_need_every_sample():
    values = noisy(2.0 + wave())
    values[400:408] = 0.0
    values[900] += 1.0
    record = without_bad_samples(kz.Record.from_arrays(TIME, {"x": values}))
    cut = cut_at_bad_runs(record)
    assert cut.size == 1500 - 8
    assert len(cut.segments()) == 2


def test_a_long_held_value_is_a_dropout():
    """A third of a cycle: no cubic leads across it, but noise that is not rounded has no ties."""
    values = noisy(wave())
    values[700:745] = values[700]
    assert np.flatnonzero(bad_samples(values).dropouts).tolist() == list(range(700, 745))


def test_a_channel_that_sticks_until_the_end_is_a_dropout():
    values = noisy(wave())
    values[500:] = values[500]
    found = bad_samples(values)
    assert found.dropouts[500:].all()
    assert not found.lost[:500].any()


def test_rest_at_the_end_is_not_a_dropout():
    """Clean and rounded records of a motion that comes to rest."""
    still = np.where(TIME < 15, wave() * (1 - TIME / 15), 0.0)
    for values in (still, np.round(noisy(still, level=0.002) / 0.02) * 0.02):
        assert not bad_samples(values).dropouts.any()


def test_values_held_next_to_an_end_are_dropouts():
    time = np.arange(1500) * 0.02
    values = np.exp(-0.05 * time) * np.cos(3.0 * time) + 0.005 * np.random.default_rng(4).standard_normal(time.size)
    values[1:9], values[-10:-1] = 0.0, -0.15
    found = bad_samples(values)
    assert np.flatnonzero(found.lost).tolist() == [*range(1, 9), *range(1490, 1499)]
