"""Extremes by blocks against brute force: nothing that stands out is lost, gaps stay gaps."""

import tracemalloc

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from kapitza.studio import loading
from kapitza.studio.motion import simulated
from kapitza.studio.pyramid import BLOCK, Pyramid
from kapitza.study import recordings


def recording(rng, size, gaps):
    """Return times with gaps, values with outliers and missing numbers, and where the gaps are."""
    steps = np.full(size, 0.01)
    cuts = np.sort(rng.choice(np.arange(1, size), gaps, replace=False)) if gaps else np.empty(0, int)
    steps[cuts] += rng.uniform(0.05, 0.3 * size * 0.01, gaps)
    values = rng.normal(size=(2, size))
    values[0, rng.choice(size, 5, replace=False)] = rng.choice([-1, 1], 5) * 50.0
    values[1, rng.choice(size, size // 50 + 1, replace=False)] = np.nan
    return np.cumsum(steps), values, cuts


@pytest.mark.parametrize("size", [50, 1000, 40_000, 300_000])
@pytest.mark.parametrize("gaps", [0, 1, 17])
def test_no_extreme_is_lost(size, gaps):
    rng = np.random.default_rng(size + gaps)
    time, values, cuts = recording(rng, size, gaps)
    pyramid = Pyramid(time, values, cuts)
    for _ in range(40):
        begin, end = np.sort(rng.uniform(time[0] - 0.5, time[-1] + 0.5, 2))
        width = int(rng.choice([20, 300, 1186]))
        seen = pyramid.view(begin, end, width)
        first = max(int(np.searchsorted(time, begin)) - 1, 0)
        last = min(int(np.searchsorted(time, end, "right")) + 1, size)
        inside = slice(first, max(last, min(first + 2, size)))
        assert np.array_equal(np.nanmin(seen.values, axis=1), np.nanmin(values[:, inside], axis=1), equal_nan=True)
        assert np.array_equal(np.nanmax(seen.values, axis=1), np.nanmax(values[:, inside], axis=1), equal_nan=True)
        assert (np.diff(seen.time) >= 0).all()
        assert seen.time.size <= 2 * (width + gaps) + 4 * width + gaps + 4
        # A line is interrupted at every gap inside, and no pair joins samples of both sides.
        wanted = [c for c in cuts.tolist() if inside.start < c < inside.stop]
        for cut in wanted:
            middle = 0.5 * (time[cut - 1] + time[cut])
            at = np.flatnonzero(np.isclose(seen.time, middle, rtol=0, atol=1e-9))
            assert at.size >= 1
            assert np.isnan(seen.values[:, at]).all()


@pytest.mark.parametrize("gaps", [0, 5])
def test_every_outlier_is_within_a_pixel_of_its_place(gaps):
    rng = np.random.default_rng(7 + gaps)
    size, width = 200_000, 700
    time, values, cuts = recording(rng, size, gaps)
    seen = Pyramid(time, values, cuts).view(time[0], time[-1], width)
    pixel = (time[-1] - time[0]) / width
    for at in np.flatnonzero(np.abs(values[0]) > 20):
        drawn = seen.time[seen.values[0] == values[0, at]]
        assert np.abs(drawn - time[at]).min() <= pixel * (1 + BLOCK * width / size) + 1e-9


def test_few_samples_are_drawn_themselves():
    time = np.arange(100.0)
    seen = Pyramid(time, np.sin(time)[None], np.empty(0, int)).view(10.0, 20.0, 500)
    assert not seen.reduced
    assert np.array_equal(seen.time, np.arange(9.0, 22.0))
    assert np.array_equal(seen.values[0], np.sin(seen.time))


def test_numbers_travel_as_doubles():
    time = np.arange(5.0)
    pyramid = Pyramid(time, np.array([time, np.full(5, np.nan)]), np.array([3]))
    seen = pyramid.view(0.0, 4.0, 100)
    numbers = np.frombuffer(seen.packed(np.zeros((2, seen.time.size))), "<f8")
    count = seen.time.size
    assert numbers[:4].tolist() == [count, 2, 0, 1]
    assert np.array_equal(numbers[4 : 4 + count], seen.time)
    assert np.array_equal(numbers[4 + count : 4 + 2 * count], seen.values[0], equal_nan=True)
    assert np.array_equal(numbers[4 + 3 * count :], np.zeros(2 * count))


def test_spikes_of_a_long_recording_are_marked_after_it_is_shown(tmp_path, monkeypatch):
    """Above the limit the picture comes first; the marks are then those of a short recording."""
    time = np.arange(3000) * 0.01
    x = np.sin(3 * time)
    x[[500, 2100]] += 4.0
    kz.write(kz.Record.from_arrays(time, {"x": x}), tmp_path / "run.csv")
    at_once = loading.load({"file": "run.csv"}, tmp_path)
    monkeypatch.setattr(loading, "SEARCHED", 1000)
    first = loading.load({"file": "run.csv"}, tmp_path)
    assert (first.searched, first.marks) == (False, ())
    later = loading.with_spikes(first)
    assert (later.searched, later.marks) == (True, at_once.marks)
    assert [mark.begin for mark in later.marks] == [5.0, 21.0]


def test_a_motion_over_thinned_data_is_judged_at_its_samples():
    """Between the samples that were simulated a straight line would miss data that the model follows exactly."""
    model = kz.Model.from_equations("phi'' + 0.01*phi' + 36*sin(phi - 3.2) = 0", parameters={}, angles=["phi"])
    time = np.arange(20_001) * 0.01
    record = kz.simulate(model, {"phi": 3.6, "phi'": 0.0}, t=time).wrapped()
    assert np.ptp(record["phi"]) > 6
    made = simulated(model, recordings.thinned(record, 50), {"phi": "angle"}, 0.0, 200.0)
    assert made.time.size == 401
    assert made.missed["angle"] < 0.02
    assert str(made).startswith("angle misses the data by ")
    with pytest.raises(DataError, match="holds no samples of the study"):
        simulated(model, recordings.thinned(record, 50), {"phi": "angle"}, 5.1, 5.2)


def test_a_long_recording_is_read_and_searched_within_its_own_size(tmp_path, monkeypatch):
    """Temporary arrays of 10^7 samples would not leave the server below 1 GB."""
    size = 1_000_000
    time = np.arange(size) * 1e-3
    time[size // 2 :] += 5.0
    rng = np.random.default_rng(2)
    x = np.sin(6 * time) + rng.normal(0, 0.01, size)
    x[rng.choice(size, 5)] += 3.0
    kz.write(kz.Record.from_arrays(time, {"x": x, "y": np.cos(6 * time)}), tmp_path / "run.npz")
    column = 8 * size
    table = {"file": "run.npz", "channels": {"x": "x"}, "every": 1000}
    kz.read(tmp_path / "run.npz")
    monkeypatch.setattr(loading, "SEARCHED", 0)
    tracemalloc.start()
    try:
        shown = loading.load(table, tmp_path)
        held, most = tracemalloc.get_traced_memory()
        # Time, two channels, labels of the segments; blocks of 64.
        assert held < 3.7 * column
        assert most < held + 2.5 * column
        tracemalloc.reset_peak()
        recordings.one_recording(table, tmp_path / "run.npz", (), recordings.KeptRecords(others=[shown.record]))
        assert tracemalloc.get_traced_memory()[1] < held + 3.7 * column
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert len(loading.with_spikes(shown).marks) == 6
        assert tracemalloc.get_traced_memory()[1] < before + 2.6 * column
    finally:
        tracemalloc.stop()
