"""What records look like that are not chaotic, not long, or not whole: no false orbits, and the right name for each."""

import numpy as np
import pytest
from scipy.signal import butter, lfilter

import kapitza as kz
from henon_map import henon
from kapitza.errors import DataError

TIME = np.arange(20000) * 0.01


def strobed(points: np.ndarray, time=None, **settings) -> kz.Record:
    channels = {f"x{i}": column for i, column in enumerate(points.T)}
    return kz.Record.from_arrays(
        np.arange(len(points)) * 1.0 if time is None else time, channels, period=1.0, **settings
    )


def noise(size: float, seed: int = 0) -> np.ndarray:
    return size * np.random.default_rng(seed).normal(size=len(TIME))


@pytest.mark.parametrize("level", [0.0, 0.01, 0.05])
def test_a_sine_without_a_period_is_periodic(level):
    record = kz.Record.from_arrays(TIME, {"x": np.sin(5 * TIME) + noise(level)})
    orbits = kz.find_orbits(record, max_period=4)
    assert "periodic" in orbits.message
    assert [len(o.points) for o in orbits] == [1]
    assert orbits[0].period == pytest.approx(2 * np.pi / 5, rel=1e-3)
    # the mean over a window of at most a twelfth of a turn to each side: sin(π/6)/(π/6) of the peak, at least
    assert 0.95 < orbits[0].points[0, 0] < 1.005
    assert orbits[0].stability == "stable"


@pytest.mark.parametrize("level", [0.0, 0.001, 0.01, 0.05])
def test_a_response_with_the_period_of_the_drive_is_periodic(level):
    channels = {
        "x": np.sin(2 * np.pi * TIME + 0.3) + noise(level, 1),
        "y": np.cos(2 * np.pi * TIME) + noise(level, 2),
    }
    orbits = kz.find_orbits(kz.Record.from_arrays(TIME, channels, period=1.0), max_period=4)
    assert [o.repeats for o in orbits] == [1]
    assert orbits[0].points[0] == pytest.approx([np.sin(0.3), 1.0], abs=0.3 * level + 1e-6)
    assert kz.inspect(kz.Record.from_arrays(TIME, channels, period=1.0)).character.kind == "periodic"


@pytest.mark.parametrize(
    "signal",
    [
        np.sin(5 * TIME) + 0.5 * np.sin(5 * np.sqrt(2) * TIME),
        (1 + 0.3 * np.sin(np.sqrt(0.75) * TIME)) * np.sin(5 * TIME) + noise(0.01),
    ],
)
def test_two_frequencies_are_quasi_periodic(signal):
    orbits = kz.find_orbits(kz.Record.from_arrays(TIME, {"x": signal}), max_period=4)
    assert len(orbits) == 0
    assert "quasi-periodic" in orbits.message


def test_a_strobed_torus_is_quasi_periodic():
    turn = 1.234 * np.arange(3000)
    orbits = kz.find_orbits(strobed(np.column_stack([np.cos(turn) + 0.3 * np.cos(2 * turn), np.sin(turn)])))
    assert len(orbits) == 0
    assert "quasi-periodic" in orbits.message


def test_free_decay_is_named():
    count = np.arange(5000)
    spiral = np.exp(-count / 2000) * np.array([np.cos(0.0134 * count), np.sin(0.0134 * count)])
    orbits = kz.find_orbits(strobed(spiral.T))
    assert len(orbits) == 0
    assert "dies out" in orbits.message


@pytest.mark.parametrize("band", [0.05, [0.04, 0.05]])
@pytest.mark.parametrize("seed", range(2))
def test_filtered_noise_is_noise(band, seed):
    filtered = lfilter(*butter(2, band, btype="low" if np.isscalar(band) else "band"), noise(1.0, seed))
    orbits = kz.find_orbits(kz.Record.from_arrays(TIME, {"x": filtered}), max_period=4)
    assert len(orbits) == 0
    assert "noise" in orbits.message
    assert "periodic" not in orbits.message


def test_a_cloud_about_one_point_may_be_a_periodic_response():
    points = np.random.default_rng(0).normal(size=(2000, 2)) * 0.1 + [5.0, 3.0]
    assert "period of the drive" in kz.find_orbits(strobed(points)).message


def test_short_records_are_not_called_noise():
    orbits = kz.find_orbits(strobed(henon(60)))
    assert "too few" in orbits.message
    assert "looks like" not in orbits.message
    assert "not estimated" in kz.find_orbits(strobed(henon(190))).message


def test_gaps_inside_a_segment_cut_the_record():
    """One percent of the samples lost and not marked: the orbits of the whole record, and a word about it."""
    points = henon(12000)
    keep = np.random.default_rng(0).random(len(points)) > 0.01
    broken = strobed(points[keep], np.arange(len(points))[keep] * 1.0)
    orbits = kz.find_orbits(broken, max_period=6)
    assert [o.repeats for o in orbits] == [1, 2, 4, 6, 6]
    assert f"cut at {len(broken.sampling().gaps)} gaps" in orbits.message
    for orbit in orbits:
        x, y = orbit.points.T
        image = np.column_stack([1 - 1.4 * x * x + y, 0.3 * x])
        assert np.abs(image - np.roll(orbit.points, -1, axis=0)).max() < 1e-4


def test_many_short_segments_in_any_order_are_not_joined():
    """Pieces of 30 points in random order hold the orbits of the map and no others."""
    points = henon(12000).reshape(400, 30, 2)
    mixed = points[np.random.default_rng(1).permutation(400)].reshape(-1, 2)
    orbits = kz.find_orbits(strobed(mixed, segment=np.repeat(np.arange(400), 30)), max_period=4)
    assert [o.repeats for o in orbits] == [1, 2, 4]
    for orbit in orbits:
        x, y = orbit.points.T
        image = np.column_stack([1 - 1.4 * x * x + y, 0.3 * x])
        assert np.abs(image - np.roll(orbit.points, -1, axis=0)).max() < 1e-4


def test_random_sampling_times_are_refused():
    times = np.sort(np.random.default_rng(0).uniform(0, 200, 5000))
    with pytest.raises(DataError, match="not sampled regularly"):
        kz.find_orbits(kz.Record.from_arrays(times, {"x": np.sin(times)}))
    jittered = TIME + 0.002 * np.random.default_rng(0).uniform(-1, 1, len(TIME))
    with pytest.raises(DataError, match=r"rms.*resampled"):
        kz.find_orbits(kz.Record.from_arrays(jittered, {"x": np.sin(jittered)}))


def test_a_wrong_period_is_named_with_the_right_one():
    model = kz.library.parametric_pendulum()
    record = kz.simulate(model, periods=4000, samples_per_period=8)
    orbits = kz.find_orbits(record.with_attributes(period=1.0005 * model.period), max_period=1)
    assert len(orbits) == 0
    assert "drifts by 2 periods" in orbits.message
    assert f"{model.period:.4g}" in orbits.message


def test_a_strobed_period_need_not_be_exact():
    points = henon(4000)
    exact = kz.find_orbits(strobed(points), max_period=2)
    rounded = kz.find_orbits(strobed(points, np.arange(4000) * 1.0005), max_period=2)
    assert [o.points.tolist() for o in rounded] == [o.points.tolist() for o in exact]


def test_an_angle_that_swings_across_the_cut_oscillates():
    """Hanging at π: the wrapped angle jumps, the motion does not."""
    swing = np.pi + 0.6 * np.sin(5 * TIME)
    wrapped = np.mod(swing + np.pi, 2 * np.pi) - np.pi
    orbits = kz.find_orbits(kz.Record.from_arrays(TIME, {"phi": wrapped}, angles=["phi"]), max_period=2)
    assert [len(o.points) for o in orbits] == [1]
    turning = np.mod(3 * TIME + np.pi, 2 * np.pi) - np.pi
    with pytest.raises(DataError, match="turns over"):
        kz.find_orbits(kz.Record.from_arrays(TIME, {"phi": turning}, angles=["phi"]))


def test_known_noise_of_samples_is_smaller_on_a_turning_section():
    """A window of 2 h + 1 samples averages the noise; the estimate from neighbours agrees with it."""
    from kapitza.orbits.in_records import turning_section

    record = kz.simulate(kz.library.lorenz(), t=np.arange(40000) * 0.01).samples(slice(1000, None)).select(["x"])
    noisy = kz.measure(record, noise=0.08, seed=1)
    unknown = kz.Record.from_arrays(noisy.time, {"x": noisy["x"]})
    known, estimated = turning_section(noisy), turning_section(unknown)
    assert (known.noise_source, estimated.noise_source) == ("known", "estimated")
    assert known.noise == pytest.approx(estimated.noise, rel=0.35)
    assert known.noise[0] * known.scale[0] < 0.08 / 4
    assert np.array_equal(turning_section(unknown, noise={"x": 0.08}).noise, known.noise)


def test_a_dead_channel_is_named_on_circles_too():
    points = henon(500)
    record = strobed(points).with_channel("encoder", np.ones(500), angle=True)
    with pytest.raises(DataError, match='"encoder" does not change'):
        kz.find_orbits(record)


def logistic(rate: float, count: int) -> np.ndarray:
    x, out = 0.3, np.empty(count + 500)
    for i in range(len(out)):
        x = rate * x * (1 - x)
        out[i] = x
    return out[500:, None]


def test_chaos_in_bands_is_not_quasi_periodic():
    """Four bands visited in turn: every fourth point is close, yet the motion is chaotic about a cycle of four."""
    rate = 3.59
    orbits = kz.find_orbits(strobed(logistic(rate, 20000)), max_period=4)
    assert [o.repeats for o in orbits] == [4]
    x = orbits[0].points[:, 0]
    assert rate * x * (1 - x) == pytest.approx(np.roll(x, -1), abs=1e-6)
    assert abs(orbits[0].multipliers[0]) == pytest.approx(abs(np.prod(rate * (1 - 2 * x))), rel=0.01)
    assert abs(orbits[0].multipliers[0]) > 1


@pytest.mark.parametrize("level", [0.0, 1e-3, 0.03])
def test_a_long_period_is_not_chaos_in_bands(level):
    random = np.random.default_rng(0)
    points = np.tile(random.normal(size=(14, 2)), (600, 1))
    orbits = kz.find_orbits(strobed(points + level * random.normal(size=points.shape)), max_period=4)
    assert len(orbits) == 0
    assert "periodic" in orbits.message


@pytest.mark.parametrize("seed", range(2))
def test_noise_does_not_split_a_cycle_into_a_longer_one(seed):
    """At this rate the logistic map has one cycle of four; a second one would be the cycle of two, blurred."""
    rate = 3.59
    points = logistic(rate, 20000)
    noisy = points + 1e-3 * np.random.default_rng(seed).normal(size=points.shape)
    cycles = [o.points[:, 0] for o in kz.find_orbits(strobed(noisy), max_period=4) if o.repeats == 4]
    assert len(cycles) == 1
    assert np.ptp(cycles[0]) > 0.5


def test_a_noisy_free_decay_is_not_called_periodic():
    time = np.arange(2000) * 0.005
    swing = np.exp(-0.08 * time) * np.cos(6 * time) + 0.002 * np.random.default_rng(0).standard_normal(time.size)
    found = kz.inspect(kz.Record.from_arrays(time, {"x": swing}))
    assert "Free decay of x" in str(found)
    assert "periodic" not in str(found)
    assert "free decay" in found.suggestion
