"""inspect: gaps, dead sensors, short and uneven records; what it prints and suggests follows from the data."""

import matplotlib as mpl
import numpy as np
import pytest

import kapitza as kz
from henon_map import henon
from kapitza.errors import DataError

mpl.use("Agg")
TIME = np.arange(8000) * 0.01


def test_gaps_are_cut_before_anything_is_measured():
    """Two swings of different heights with a pause: joined, the jump is noise; cut, there is none."""
    keep = np.ones(len(TIME), bool)
    keep[3000:3007] = keep[5000:5011] = False
    record = kz.Record.from_arrays(TIME[keep], {"x": np.sin(5 * TIME)[keep]})
    found = kz.inspect(record)
    assert found.noise["x"] < 1e-6
    assert len(found.record.segments()) == 3
    assert any("cut at 2 gaps" in note for note in found.notes)


def test_uneven_records_are_not_measured():
    times = np.sort(np.random.default_rng(0).uniform(0, 80, 4000))
    found = kz.inspect(kz.Record.from_arrays(times, {"x": np.sin(5 * times)}))
    assert found.lyapunov is None
    assert not found.spectra
    assert "resampled" in found.suggestion


def test_a_dead_channel_is_left_out_and_named():
    record = kz.Record.from_arrays(TIME, {"x": np.sin(5 * TIME), "c": np.ones(len(TIME))})
    found = kz.inspect(record)
    assert list(found.spectra) == ["x"]
    assert any('"c" does not change' in note for note in found.notes)
    with pytest.raises(DataError, match="no channel changes"):
        kz.inspect(record, channels=["c"])
    with pytest.raises(DataError, match="works on records"):
        kz.inspect(np.zeros(5))


def test_noise_that_was_not_estimated_is_not_zero():
    points = henon(150)
    found = kz.inspect(kz.Record.from_arrays(np.arange(150.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0))
    assert found.noise == {}
    assert "not estimated" in str(found)


def test_the_suggestion_follows_the_reason():
    turning = np.mod(3 * TIME + np.pi, 2 * np.pi) - np.pi
    found = kz.inspect(kz.Record.from_arrays(TIME, {"phi": turning}, angles=["phi"]))
    assert "turns over" in str(found)
    assert "do what its note says" in found.suggestion
    slow = kz.inspect(kz.Record.from_arrays(TIME, {"x": np.sin(5 * TIME)}, period=1e-4))
    assert "check the period" in str(slow)
    assert "record longer" not in slow.suggestion
    two = kz.inspect(kz.Record.from_arrays(TIME, {"x": np.sin(5 * TIME) + 0.5 * np.sin(5 * np.sqrt(2) * TIME)}))
    assert "quasi-periodic" in str(two)
    assert "series itself" in two.suggestion


def test_orbits_of_an_autonomous_record_are_drawn_on_its_section():
    record = kz.simulate(kz.library.lorenz(), t=np.arange(30000) * 0.01).samples(slice(1000, None)).select(["x"])
    orbits = kz.find_orbits(record, max_period=2)
    lines = orbits.plot().axes[0].get_lines()
    assert max(len(line.get_xdata()) for line in lines) == len(orbits.section_points) > 200


def test_orbits_of_a_scalar_map_are_drawn_on_its_return_map():
    x = np.empty(5000)
    x[0] = 0.3
    for i in range(len(x) - 1):
        x[i + 1] = 1 - 1.9 * x[i] ** 2
    orbits = kz.find_orbits(kz.Record.from_arrays(np.arange(5000.0), {"x": x}, period=1.0), max_period=2)
    lines = orbits.plot().axes[0].get_lines()
    assert max(len(line.get_xdata()) for line in lines) == 4999


def test_segments_of_one_sample_are_inspected():
    t = np.arange(40) * 0.1
    record = kz.Record.from_arrays(t, {"x": np.sin(t)}, segment=np.arange(40))
    assert kz.inspect(record).spectra == {}


@pytest.mark.parametrize("interval", [1e-300, 1e-320, 1e300])
def test_times_whose_rates_overflow_are_refused(interval):
    with pytest.raises(DataError, match="Is the unit of time wrong, or the interval"):
        kz.Record.from_arrays(np.arange(40) * interval, {"x": np.sin(np.arange(40.0))})


def test_a_stop_is_heard_in_every_part_of_an_inspection():
    """Reports come often enough, and each of them may stop it: what is finished comes back."""

    class Counter:
        def __init__(self, most):
            self.seen, self.most = [], most

        @property
        def cancelled(self):
            return len(self.seen) >= self.most

        def show(self, progress):
            self.seen.append(progress.text)

    record = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(12_000) * 0.02)
    whole = Counter(10**9)
    kz.inspect(record, monitor=whole)
    # Section and noise, delays, exponent: the parts that grow with the record.
    assert min(whole.seen.count(text) for text in ("", "spectra", "returns")) >= 4
    for most in (2, 6, whole.seen.index("spectra") + 3, len(whole.seen) - 3):
        found = kz.inspect(record, monitor=Counter(most))
        assert found.status is kz.Status.INTERRUPTED
        assert bool(found.noise) == ("noise" in whole.seen[:most])
