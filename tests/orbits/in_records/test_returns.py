"""Returns of dense forced records against what chance gives."""

import numpy as np
import pytest
from scipy.signal import butter, lfilter

import kapitza as kz
from kapitza.errors import DataError
from same_motion import same_motion

TIME = np.arange(20000) * 0.01


def signal(kind: str, seed: int) -> np.ndarray:
    white = np.random.default_rng(seed).normal(size=len(TIME))
    if kind == "walk":
        return white.cumsum()
    return lfilter(*butter(2, float(kind)), white) if kind != "white" else white


@pytest.mark.parametrize("kind", ["white", "walk", "0.05", "0.01"])
@pytest.mark.parametrize("seed", range(2))
def test_noise_has_returns_but_no_orbits(kind, seed):
    record = kz.Record.from_arrays(TIME, {"x": signal(kind, seed)}, period=0.2)
    orbits = kz.find_orbits(record, max_period=10, method=kz.ReturnSearch())
    assert len(orbits) == 0
    assert "by chance" in orbits.message
    assert all("unrelated stretches" in reason for _, reason in orbits.rejected)
    assert len(orbits.rejected) > 0


def test_returns_of_a_chaotic_pendulum_beat_chance():
    model = kz.library.parametric_pendulum()
    period = float(model.period)
    record = same_motion(model, 60000, period / 20, stretch=80, period=period).select(["phi"])
    strict = kz.find_orbits(record, max_period=2, method=kz.ReturnSearch(tolerance=0.05))
    loose = kz.find_orbits(record, max_period=2, method=kz.ReturnSearch(tolerance=0.08))
    assert 0 < len(strict) <= len(loose)
    assert all(o.stretch.chance <= 0.05 for o in loose)
    turning = [o for o in strict if abs(o.winding[0]) == o.repeats]  # once per period, be it seen over one or two
    assert min(abs(abs(o.points[0, 0]) - 2.9668) for o in turning) < 0.3


def test_a_second_segment_at_another_phase_brings_no_duplicates():
    """Six samples removed in the middle: profiles are compared at the phase of the drive, not of the segment."""
    model = kz.library.parametric_pendulum()
    record = kz.simulate(model, periods=1500, samples_per_period=20).select(["phi"])
    keep = np.ones(len(record), bool)
    keep[15003:15009] = False
    whole = kz.find_orbits(record, max_period=2, method=kz.ReturnSearch(tolerance=0.03))
    cut = kz.find_orbits(record.samples(keep), max_period=2, method=kz.ReturnSearch(tolerance=0.03))
    assert abs(len(cut) - len(whole)) <= 2


def test_closure_is_the_largest_miss_as_a_share_of_the_range():
    """Tolerances differ per channel: the closure is a share of the range, not of the largest tolerance."""
    turn = 2 * np.pi * TIME
    channels = {"x": np.sin(turn) + 0.02 * np.sin(turn / 2), "y": np.cos(turn) + 0.08 * np.sin(turn / 2)}
    record = kz.Record.from_arrays(TIME, channels, period=1.0)
    orbits = kz.find_orbits(record, max_period=1, method=kz.ReturnSearch(tolerance={"x": 0.03, "y": 0.16}, delay=20))
    assert len(orbits) > 0
    for orbit in orbits:
        rows = orbit.stretch.first + np.arange(21)
        shares = [np.abs(record[n][rows + 100] - record[n][rows]).max() / np.ptp(record[n]) for n in "xy"]
        assert orbit.closure == pytest.approx(max(shares), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tolerance": 0}, "tolerance = 0"),
        ({"tolerance": -1}, "tolerance = -1"),
        ({"dimension": 0}, "dimension = 0"),
        ({"delay": -2}, "delay = -2"),
        ({"chance": 2.0}, "chance = 2"),
        ({"candidates": 0}, "candidates = 0"),
        ({"tolerance": {"x": 0.1, "z": 0.1}}, 'Tolerance of "z"'),
    ],
)
def test_wrong_settings_are_named(settings, said):
    record = kz.Record.from_arrays(TIME, {"x": np.sin(TIME)}, period=1.0)
    with pytest.raises(DataError, match=said):
        kz.find_orbits(record, max_period=2, method=kz.ReturnSearch(**settings))


def test_short_records_say_so():
    time = np.arange(80) * 0.1
    record = kz.Record.from_arrays(time, {"x": np.sin(time)}, period=1.0)
    orbits = kz.find_orbits(record, max_period=2, method=kz.ReturnSearch())
    assert len(orbits) == 0
    assert "at least ten" in orbits.message
