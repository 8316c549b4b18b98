"""Record: selection, segments, sampling, angles; expected values from closed forms."""

import copy

import numpy as np
import pytest
import xarray as xr

from kapitza.base.angles import wrap
from kapitza.data import Record
from kapitza.errors import DataError
from processes import calls


@pytest.fixture
def rotation() -> Record:
    """φ = 2π·1.7 t, wrapped, and x = cos 2π t, 50 samples per second, excitation period 1 s."""
    time = np.arange(0, 10.001, 0.02)
    channels = {"phi": wrap(2 * np.pi * 1.7 * time), "x": np.cos(2 * np.pi * time)}
    return Record.from_arrays(time, channels, units={"phi": "rad", "x": "m"}, angles=["phi"], period=1.0)


def test_unwrapped_and_wrapped_are_inverse(rotation):
    continuous = rotation.unwrapped()
    assert np.allclose(continuous["phi"], 2 * np.pi * 1.7 * rotation.time, atol=1e-9)
    assert np.allclose(continuous.wrapped()["phi"], rotation["phi"], atol=1e-9)
    assert np.array_equal(continuous["x"], rotation["x"])


def test_strobe_on_the_grid_takes_the_samples_themselves(rotation):
    strobed = rotation.strobed()
    assert np.allclose(strobed.time, np.arange(11))
    assert np.allclose(strobed["x"], 1, atol=1e-12)
    later = rotation.strobed(phase=0.5)
    assert np.allclose(later.time, np.arange(10) + 0.5)
    assert np.allclose(later["x"], -1, atol=1e-12)
    assert later.phase == 0.5


def test_strobe_between_samples_is_fourth_order():
    """The cubic spline's error falls by 2^4 when the interval is halved."""
    errors = []
    for interval in (0.02, 0.01):
        time = np.arange(0, 10 + interval / 2, interval)
        record = Record.from_arrays(time, {"x": np.cos(2 * np.pi * time)}, period=1.0)
        phase = 0.2 + interval / 3
        inner = record.strobed(phase).between(2, 8)
        errors.append(np.abs(inner["x"] - np.cos(2 * np.pi * phase)).max())
    assert 12 < errors[0] / errors[1] < 20


def test_strobe_honours_the_phase_of_the_first_sample(rotation):
    cut = rotation.between(0.3)
    assert cut.phase == pytest.approx(0.3, abs=1e-9)
    assert np.allclose(cut.strobed()["x"], 1, atol=1e-12)


def test_resampling_follows_a_wrapped_angle_through_the_seam(rotation):
    fine = rotation.resampled(0.005)
    assert np.allclose(np.diff(fine.time), 0.005)
    assert np.allclose(fine["phi"], 2 * np.pi * 1.7 * fine.time, atol=1e-9)
    assert np.abs(fine["x"] - np.cos(2 * np.pi * fine.time)).max() < 1e-4


def test_gaps_are_reported_and_cut():
    time = np.delete(np.arange(100) * 0.1, [10, 11, 50])
    record = Record.from_arrays(time, {"x": time})
    sampling = record.sampling()
    assert sampling.interval == pytest.approx(0.1)
    assert [(g.after, g.missing) for g in sampling.gaps] == [(9, 2), (47, 1)]
    assert not sampling.regular
    with pytest.raises(DataError, match=r"2 gaps, 3 samples missing(.|\n)*split_at_gaps"):
        record.require_regular()
    pieces = record.split_at_gaps()
    assert [p.stop - p.start for p in pieces.segments()] == [10, 38, 49]
    assert pieces.require_regular().regular
    assert [len(piece) for piece in pieces.pieces()] == [10, 38, 49]


def test_irregular_sampling_is_told_from_gaps():
    time = np.arange(50) * 0.1 + 0.01 * (np.arange(50) % 2)
    with pytest.raises(DataError, match=r"not sampled regularly.*resampled"):
        Record.from_arrays(time, {"x": time}).require_regular()


def test_selection_by_mask_cuts_where_samples_are_left_out(rotation):
    mask = np.ones(len(rotation), bool)
    mask[[7, 100]] = False
    chosen = rotation.samples(mask)
    assert [p.stop - p.start for p in chosen.segments()] == [7, 92, len(rotation) - 101]
    assert len(rotation.samples(slice(None, None, 2)).segments()) == 1
    assert rotation.select(["x"]).channels == ("x",)


def test_concatenation_makes_segments_and_aligns_the_phase(rotation):
    late = rotation.between(3.3, 6)  # begins 0.3 s into a period
    shifted = Record.from_arrays(late.time - 3.3, {n: late[n] for n in late.channels}, angles=["phi"], period=1.0)
    joined = Record.concatenate([rotation, shifted.with_attributes(phase=late.phase)])
    assert len(joined.segments()) == 2
    assert joined.units["phi"] == "rad"
    assert np.allclose(joined["x"], np.cos(2 * np.pi * joined.time), atol=1e-9)
    assert np.allclose(joined.strobed()["x"], 1, atol=1e-9)


def test_changed_channels(rotation):
    doubled = rotation.with_channel("y", 2 * rotation["x"], unit="m", noise=0.1)
    assert doubled.noise == {"y": 0.1}
    assert rotation.renamed({"x": "u"}).channels == ("phi", "u")
    assert "501 samples in 1 segment" in repr(rotation)


bad_inputs = {
    "not finite at 1 samples, first at sample 2": ([0, 1, 2], {"x": [0, 1, np.nan]}),
    "Time repeats after sample 1": ([0, 1, 1], {"x": [0, 1, 2]}),
    "Time runs backwards after sample 0": ([1, 0, 2], {"x": [0, 1, 2]}),
    "Time is not finite at sample 1": ([0, np.inf, 2], {"x": [0, 1, 2]}),
    "holds no samples": ([], {"x": []}),
    "one per time": ([0, 1], {"x": [0, 1, 2]}),
}


@pytest.mark.parametrize(("message", "arrays"), bad_inputs.items())
def test_bad_arrays_are_refused(message, arrays):
    with pytest.raises(DataError, match=message):
        Record.from_arrays(*arrays)


def test_names_that_are_no_channels_are_refused():
    """A mistyped angle would silently be an ordinary channel."""
    for parts in ({"angles": ["phj"]}, {"angles": "phj"}, {"units": {"phj": "rad"}}, {"noise": {"phj": 0.1}}):
        with pytest.raises(DataError, match=r'of "phj" is given.*Did you mean "phi"'):
            Record.from_arrays([0.0, 1.0], {"phi": [0, 1], "x": [0, 1]}, **parts)
    with pytest.raises(DataError, match="no channels"):
        Record.from_arrays([0.0, 1.0], {})
    record = Record.from_arrays([0.0, 1.0], {"x": [0, 1], "phi": [0, 1]}, angles=(name for name in ["phi"]))
    assert record.dataset["phi"].attrs["angle"]


def test_bad_requests_name_the_cure(rotation):
    with pytest.raises(DataError, match='Did you mean "phi"'):
        rotation["phii"]
    with pytest.raises(DataError, match="excitation period is -1"):
        rotation.with_attributes(period=-1.0)
    with pytest.raises(DataError, match="spans 0 to 10 s"):
        rotation.between(20, 30)
    with pytest.raises(DataError, match="positive"):
        rotation.resampled(0)
    with pytest.raises(DataError, match="give it a period"):
        Record.from_arrays([0.0, 1.0], {"x": [0, 1]}).strobed()
    with pytest.raises(DataError, match="select or rename"):
        Record.concatenate([rotation, rotation.select(["x"])])
    with pytest.raises(DataError, match="different excitations"):
        Record.concatenate([rotation, rotation.with_attributes(period=2.0)])


def test_gaps_are_not_drawn_across():
    """A gap of 1000 s in a record of 12 s: its periods are lost, not invented."""
    time = np.concatenate([np.arange(300) * 0.02, 1000 + np.arange(300) * 0.02]) + 0.003
    record = Record.from_arrays(time, {"x": np.cos(2 * np.pi * time)}, period=1.0, phase=0.003)
    for made, interval in ((record.strobed(0.5), 1.0), (record.resampled(0.007), 0.007)):
        assert len(made.segments()) == 2
        assert len(made) <= 12.1 / interval + 2
        assert np.abs(made["x"] - np.cos(2 * np.pi * made.time)).max() < 1e-3
        assert np.diff(made.time)[[0, -1]] == pytest.approx([interval, interval])


def test_lost_samples_between_strobes_do_not_cut():
    """Every 40th sample is lost, never at the strobe: the strobed record is unbroken."""
    time = np.arange(2000) * 0.02
    kept = np.arange(2000) % 50 != 20
    record = Record.from_arrays(time[kept], {"x": np.cos(2 * np.pi * time[kept])}, period=1.0)
    strobed = record.strobed(0.11)
    assert len(strobed.segments()) == 1
    assert len(strobed) == 40
    assert strobed["x"] == pytest.approx(np.cos(2 * np.pi * 0.11), abs=1e-3)


def test_irregular_sampling_is_resampled_whole():
    rng = np.random.default_rng(3)
    time = np.cumsum(rng.uniform(0.005, 0.03, 1000))
    record = Record.from_arrays(time, {"x": np.cos(2 * np.pi * time)})
    fine = record.resampled(0.01)
    assert len(fine.segments()) == 1
    assert np.abs(fine["x"] - np.cos(2 * np.pi * fine.time)).max() < 1e-2


def test_grids_that_would_fill_the_memory_are_refused(rotation):
    for request in (lambda: rotation.resampled(1e-300), lambda: rotation.with_attributes(period=1e-12).strobed()):
        with pytest.raises(DataError, match="too short"):
            request()
    with pytest.raises(DataError, match="shorter than"):
        rotation.with_attributes(period=1e300).strobed(5e299)


def test_a_wide_record_is_printed_briefly():
    wide = Record.from_arrays([0.0, 1.0], {f"x{i}": [0.0, 1.0] for i in range(3000)})
    assert len(repr(wide)) < 300
    assert "and 2988 more" in repr(wide)


@pytest.mark.parametrize("name", ["time", "segment"])
def test_coordinates_are_no_channels(name, rotation):
    for attempt in (
        lambda: Record.from_arrays([0.0, 1.0], {name: [0.0, 1.0]}),
        lambda: rotation.with_channel(name, rotation["x"]),
        lambda: rotation.renamed({"x": name}),
    ):
        with pytest.raises(DataError, match=r"coordinate|cannot be called"):
            attempt()


def test_labels_of_segments_that_are_no_whole_numbers_are_refused():
    with pytest.raises(DataError, match=r"segment holds 0\.2; give whole numbers"):
        Record.from_arrays([0.0, 1.0, 2.0], {"x": [1.0, 2.0, 3.0]}, segment=[0.2, 0.7, 1.0])


def test_wide_records_cost_in_proportion_to_their_channels():
    def cost(count):
        channels = {f"c{i}": np.zeros(3) for i in range(count)}
        return calls(lambda: Record.from_arrays([0.0, 1.0, 2.0], channels))

    cost(100)
    assert cost(8000) < 11 * cost(800)


@pytest.mark.parametrize(
    ("variables", "coords", "wrong"),
    [
        ({"x": ("time", [1.0, 2.0])}, {}, "has no time"),
        ({"x": ("time", [1.0, 2.0])}, {"time": [0.0, 1.0]}, "has no segment"),
        ({-2: ("time", [1.0, 2.0])}, {"time": [0.0, 1.0], "segment": ("time", [0, 0])}, "has -2"),
        ({"x": ("t", [1.0, 2.0])}, {"time": [0.0, 1.0], "segment": ("time", [0, 0])}, "has 'x' along t"),
    ],
)
def test_datasets_that_are_not_of_a_record_are_refused(variables, coords, wrong):
    with pytest.raises(DataError, match=wrong):
        Record(xr.Dataset(variables, coords=coords))


def test_a_record_follows_changes_of_its_dataset():
    record = Record.from_arrays(np.arange(3.0), {"x": np.arange(3.0)}, noise={"x": 0.1}, units={"x": "m"})
    assert record.noise == {"x": 0.1}
    record.dataset["x"].attrs.pop("noise")
    record.dataset.attrs["period"] = 2.0
    assert record.noise == {}
    assert record.period == 2.0
    assert record.units == {"x": "m"}
    assert record.samples(slice(0, 2)).noise == {}


@pytest.mark.parametrize(
    "derive",
    [
        lambda record: record.with_attributes(name="a"),
        lambda record: record.samples(slice(0, 2)),
        lambda record: record.select(["x"]),
        lambda record: record.renamed({"x": "y"}),
        copy.copy,
    ],
)
def test_records_made_from_a_record_do_not_follow_later_changes_of_its_dataset(derive):
    record = Record.from_arrays(np.arange(3.0), {"x": np.arange(3.0)}, noise={"x": 0.1}, units={"x": "m"})
    record.dataset.attrs["period"] = 2.0
    made = derive(record)
    record.dataset["x"].attrs.update(noise=0.5, unit="mm")
    record.dataset.attrs["period"] = 3.0
    assert list(made.noise.values()) == [0.1]
    assert list(made.units.values()) == ["m"]
    assert made.period == 2.0


def test_the_dataset_of_a_record_has_all_that_the_record_has():
    made = Record.from_arrays(
        np.arange(4.0), {"x": np.arange(4.0)}, units={"x": "m"}, segment=np.array([0, 0, 1, 1]), period=1.5, note="a"
    )
    again = Record(made.dataset)
    assert again.channels == made.channels
    assert again.units == made.units
    assert [(s.start, s.stop) for s in again.segments()] == [(0, 2), (2, 4)]
    assert again.dataset.attrs == {"note": "a", "period": 1.5}
    back = copy.deepcopy(made)
    assert back.dataset.identical(made.dataset)


def test_times_given_are_not_shared_and_cannot_be_changed():
    time = np.arange(3.0)
    record = Record.from_arrays(time, {"x": np.zeros(3)})
    time[0] = -5.0
    assert record.time[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        record.time[0] = 1.0
