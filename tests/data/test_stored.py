"""Recordings that grow on disk and are read part by part."""

import gc
import weakref

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.errors import DataError, KapitzaError
from same_motion import same_motion

MODEL = kz.library.parametric_pendulum()


@pytest.fixture(scope="module")
def whole():
    record = kz.simulate(MODEL, periods=11_999)
    return kz.measure(record, noise={"phi": 1e-3, "phi'": 1e-2}, seed=1)


@pytest.fixture(scope="module", params=[".zarr", ".parquet"])
def stored(request, whole, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / f"long{request.param}"
    for first in range(0, 12_000, 5000):
        kz.write(whole.samples(slice(first, first + 5000)), path, append=True)
    return kz.open_record(path)


def test_parts_are_the_record(stored, whole):
    assert (stored.size, stored.channels, stored.period) == (12_000, whole.channels, whole.period)
    parts = list(stored.parts(4096))
    assert [len(p) for p in parts] == [4000, 4000, 4000]
    assert np.array_equal(np.concatenate([p.values() for p in parts]), whole.values())
    assert np.array_equal(np.concatenate([p.time for p in parts]), whole.time)
    assert all(len(p.segments()) == 1 for p in parts)
    assert parts[1].angles == whole.angles
    assert parts[1].noise == whole.noise
    back = kz.read(stored.path)
    assert np.array_equal(back.values(), whole.values())
    assert len(back.segments()) == 1


def test_an_interruption_begins_a_segment(whole, tmp_path):
    for suffix in (".zarr", ".parquet"):
        path = tmp_path / f"log{suffix}"
        for first in (0, 200):
            kz.write(whole.samples(slice(first, first + 100)), path, append=True)
        assert len(kz.open_record(path).rows(0, 200).segments()) == 2


def test_the_phase_of_a_part_is_its_own(tmp_path):
    record = kz.simulate(kz.library.duffing(), periods=20, samples_per_period=10).with_attributes(phase=0.3)
    kz.write(record, tmp_path / "run.zarr")
    stored = kz.open_record(tmp_path / "run.zarr")
    assert stored.rows(37, 60).excitation_start == pytest.approx(record.excitation_start)


def test_half_an_append_is_not_seen_and_mended(whole, tmp_path):
    import zarr

    path = kz.write(whole.samples(slice(0, 100)), tmp_path / "log.zarr")
    zarr.open_group(str(path), mode="a")["phi"].append(np.zeros(7))
    assert kz.open_record(path).size == 100
    kz.write(whole.samples(slice(100, 150)), path, append=True)
    assert np.array_equal(kz.read(path).values(), whole.values()[:150])


def test_what_does_not_belong_behind_is_refused(whole, tmp_path):
    path = kz.write(whole.samples(slice(0, 100)), tmp_path / "log.parquet", append=True)
    with pytest.raises(DataError, match="same channels"):
        kz.write(whole.select(["phi"]), path, append=True)
    with pytest.raises(DataError, match="excitation period"):
        kz.write(whole.with_attributes(period=0.5), path, append=True)
    with pytest.raises(DataError, match="appending needs"):
        kz.write(whole, tmp_path / "log.csv", append=True)
    (tmp_path / "mine.zarr").mkdir()
    with pytest.raises(DataError, match="not replaced"):
        kz.write(whole, tmp_path / "mine.zarr")
    (tmp_path / "mine.parquet").mkdir()
    with pytest.raises(DataError, match="not written by"):
        kz.open_record(tmp_path / "mine.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        kz.open_record(tmp_path / "mine.zarr")
    with pytest.raises(DataError, match="no recording"):
        kz.open_record(tmp_path / "none.parquet")


def test_orbits_of_the_parts_are_those_of_the_whole(stored, whole):
    """Every orbit of up to two periods that the whole record shows, at its place within the errors of both."""
    together = kz.find_orbits(whole, max_period=2, tolerance=0.02)
    apart = kz.find_orbits(stored, max_period=2, part=6000, tolerance=0.02)
    assert len(together) >= 2
    assert {len(o.points) for o in apart} == {len(o.points) for o in together}
    matched = 0
    for orbit in together:
        size = np.sqrt(np.diag(orbit.covariance))
        near = [o for o in apart if o.points.shape == orbit.points.shape]
        gaps = [
            np.abs((np.roll(o.points, k, axis=0) - orbit.points).ravel() / size).max()
            for o in near
            for k in range(len(o.points))
        ]
        matched += min(gaps) < 6
    assert matched >= len(together) - 1
    assert any("parts of the recording" in note for o in apart for note in o.notes)


def test_a_fit_of_parts_is_the_fit_of_the_whole(tmp_path):
    model = kz.library.duffing()
    clean = kz.simulate(model, periods=120, samples_per_period=60).select(["x"])
    whole = kz.measure(clean, noise=0.01, seed=2)
    for first in range(0, whole.size, 2000):
        kz.write(whole.samples(slice(first, first + 2000)), tmp_path / "run.parquet", append=True)
    stored = kz.open_record(tmp_path / "run.parquet")
    from kapitza.estimate.stored_fit import identify_parts

    together = kz.identify(model, whole, free=["k", "B"], method=kz.HarmonicFit())
    parts, alive = [], []

    def fit_and_look(*arguments):
        gc.collect()
        alive.append(sum(part() is not None for part in parts))
        parts.append(weakref.ref(arguments[1].source))
        return kz.identify(*arguments)

    apart = identify_parts(fit_and_look, model, as_parts(stored)[0], ["k", "B"], kz.HarmonicFit(), None, part=2400)
    # Of the parts before, at most the last one is still in memory.
    assert len(alive) == 4
    assert max(alive) <= 1
    for name in ("k", "B"):
        assert abs(apart[name] - model.values[name]) < 4 * apart.deviations[name]
        assert abs(apart[name] - together[name]) < 2 * together.deviations[name]
        assert 0.5 < apart.deviations[name] / together.deviations[name] < 2.0
    assert "4 parts" in apart.chain[-1]
    assert kz.identify(model, stored, free=["k"], method=kz.HarmonicFit()).status.ok
    with pytest.raises(KapitzaError, match="part by part"):
        kz.identify(model, stored, free=["k"], method=kz.ShootingFit())


def test_an_invariant_fit_of_parts_is_that_of_the_whole(tmp_path):
    """Hénon-Heiles on one level set: the parts share it, and the answer is theirs together."""
    truth = kz.library.henon_heiles()
    whole = kz.measure(kz.simulate(truth, t=np.arange(9000.0)), noise=0.01, seed=3)
    for first in range(0, whole.size, 2500):
        kz.write(whole.samples(slice(first, first + 2500)), tmp_path / "run.zarr", append=True)
    stored = kz.open_record(tmp_path / "run.zarr")
    from kapitza.estimate.stored_fit import identify_parts

    free, start = ["b", "d"], truth.with_values(b=1.2, d=-0.25)
    together = kz.identify(start, whole, free, kz.InvariantFit())
    apart = identify_parts(kz.identify, start, as_parts(stored)[0], free, kz.InvariantFit(), None, part=3000)
    for name in free:
        assert abs(apart[name] - truth.values[name]) < 4 * apart.deviations[name]
        assert abs(apart[name] - together[name]) < 2 * together.deviations[name]
        assert 0.5 < apart.deviations[name] / together.deviations[name] < 2.0
    assert "3 parts" in apart.chain[-1]
    assert kz.identify(start, stored, free, kz.InvariantFit())["b"] == pytest.approx(together["b"], rel=1e-9)


def test_a_flow_beyond_memory_is_strobed_and_inspected(tmp_path):
    flow = same_motion(MODEL, 24_001, MODEL.period / 8, 160, period=MODEL.period)
    path = kz.write(flow, tmp_path / "flow.zarr")
    stored = kz.open_record(path)
    found = kz.find_orbits(stored, max_period=2, part=12_000, tolerance=0.03)
    strobed = kz.find_orbits(flow.samples(slice(None, None, 8)), max_period=2, tolerance=0.03)
    assert len(found) == len(strobed) > 0
    gaps = [min(np.abs(a.points - b.points).max() for b in strobed) for a in found]
    assert max(gaps) < 1e-3
    looked = kz.inspect(stored, max_period=2)
    assert "24001 of 24001 samples" in looked.notes[0]
    assert "1 segment;" in looked.notes[0]


@pytest.mark.parametrize("name", ["log.parquet", "log.zarr"])
def test_every_recording_that_does_not_go_on_is_a_segment_of_its_own(tmp_path, name):
    path = tmp_path / name
    for begin in (0.0, 0.0, 500.0, 100.0):
        kz.write(kz.Record.from_arrays(begin + np.arange(10.0), {"x": np.zeros(10)}), path, append=True)
    assert [p.start for p in kz.open_record(path).rows(0, 40).segments()] == [0, 10, 20, 30]


def test_parts_that_are_gone_are_missed(tmp_path, whole):
    """Neither zeros in their place nor a later start with the phase of the first part."""
    for first in range(0, 300, 100):
        kz.write(whole.samples(slice(first, first + 100)), tmp_path / "log.parquet", append=True)
    (tmp_path / "log.parquet" / "part-000001.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks part-000001\.parquet"):
        kz.open_record(tmp_path / "log.parquet")
    for name in ("phi", "segment", "time"):
        path = kz.write(whole.samples(slice(0, 100)), tmp_path / f"{name}.zarr")
        chunks = [f for f in (path / name).rglob("*") if f.is_file() and f.name != "zarr.json"]
        assert len(chunks) == 1
        chunks[0].unlink()
        with pytest.raises(DataError, match=rf'"{name}" (is missing|from 0 to 100 are lost)|Time'):
            kz.open_record(path).rows(0, 100)


@pytest.mark.parametrize("suffix", [".zarr", ".parquet"])
def test_one_description_holds_for_all_that_is_appended(tmp_path, suffix):
    """Noise, angles or a phase of the drive that differ were those of the first record without a word."""
    times = np.arange(10.0)

    def record(begin=0.0, **more):
        facts = {"units": {"x": "m"}, "noise": {"x": 0.1}, "period": 2.0} | more
        return kz.Record.from_arrays(begin + times, {"x": np.sin(times)}, **facts)

    path = kz.write(record(), tmp_path / f"log{suffix}", append=True)
    for other, message in (
        (record(10.0, noise={"x": 0.2}), 'noise of "x" is stored as 0.1, that of the record is 0.2'),
        (record(10.0, units={"x": "rad"}, angles=["x"]), 'stored in "m"'),
        (record(10.3, phase=0.0), r"starts at 10\.3 s, that of the recording at 0 s, 0\.15 periods apart"),
        (record(10.0, phase=0.5), "0.25 periods apart"),
    ):
        with pytest.raises(DataError, match=message):
            kz.write(other, path, append=True)
    # A start that lies whole periods later is the same drive.
    kz.write(record(10.0, phase=0.0), path, append=True)
    assert kz.open_record(path).size == 20
    assert len(kz.open_record(path).rows(0, 20).segments()) == 1
    angle = kz.write(
        kz.Record.from_arrays(times, {"x": times}, units={"x": "rad"}), tmp_path / f"a{suffix}", append=True
    )
    turned = kz.Record.from_arrays(10 + times, {"x": times}, units={"x": "rad"}, angles=["x"])
    with pytest.raises(DataError, match='"x" is an angle in one'):
        kz.write(turned, angle, append=True)


@pytest.mark.parametrize("suffix", [".zarr", ".parquet"])
def test_another_sampling_rate_begins_a_segment(tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    kz.write(kz.Record.from_arrays(np.arange(10.0), {"x": np.zeros(10)}), path, append=True)
    kz.write(kz.Record.from_arrays(10 + 0.01 * np.arange(50), {"x": np.zeros(50)}), path, append=True)
    assert [piece.start for piece in kz.open_record(path).rows(0, 60).segments()] == [0, 10]


def test_a_part_of_other_units_put_in_by_hand_is_refused(tmp_path):
    times = np.arange(10.0)
    for begin in (0.0, 10.0):
        path = kz.write(
            kz.Record.from_arrays(begin + times, {"x": times}, units={"x": "m"}), tmp_path / "log.parquet", append=True
        )
    other = kz.write(kz.Record.from_arrays(10 + times, {"x": times}, units={"x": "mm"}), tmp_path / "other.parquet")
    (path / "part-000001.parquet").write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=r"part-000001\.parquet in log\.parquet has other channels, units or angles"):
        kz.open_record(path)


def test_pages_of_a_file_are_where_its_library_finds_them(tmp_path):
    import pandas as pd
    import pyarrow.parquet as pq

    from kapitza.data.formats.parquet import chunks

    names = np.array(["rest", "sweep"])
    table = {"t": np.arange(500) * 0.1, "x": np.ones(500), "note": names[np.arange(500) // 250]}
    for number, dictionary in enumerate((True, False, ["note"])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame(table).to_parquet(path, row_group_size=200, use_dictionary=dictionary)
        metadata = pq.read_metadata(path)
        with path.open("rb") as stream:
            found = chunks(stream, path)
        assert [len(group) for group in found] == [3, 3, 3]
        for g, group in enumerate(found):
            for k, chunk in enumerate(group):
                column = metadata.row_group(g).column(k)
                begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
                assert (chunk.begin, chunk.end) == (begin, begin + column.total_compressed_size)
                assert chunk.texts == (column.physical_type == "BYTE_ARRAY")


def test_a_footer_that_contradicts_itself_does_not_end_the_process(tmp_path):
    import pandas as pd
    from tests.hostile.pool import Case, outcomes

    pd.DataFrame({"t": np.arange(50) * 0.1, "x": np.ones(50)}).to_parquet(tmp_path / "run.parquet")
    content = (tmp_path / "run.parquet").read_bytes()
    # Thrift: field 3 (repetition) of x from 1 (optional) to 0 (required), while the statistics count lost values.
    place = content.rindex(b"\x25\x02\x18\x01x")
    damaged = content[: place + 1] + b"\x00" + content[place + 2 :]
    (end,) = outcomes([Case("stores: damaged folders", 0, ("damaged", {"run.parquet": damaged}))])
    assert end.kind in ("result", "refused"), end.detail


def test_a_footer_without_columns_is_refused(tmp_path):
    import io

    from kapitza.data.formats.parquet import chunks

    # A structure that ends at once; a list of 2**62 booleans, each of which takes a byte.
    many = b"\x49\xf1" + b"\x80" * 8 + b"\x40"
    for footer in (b"\x00", many, b""):
        content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        with pytest.raises(DataError, match="its footer does not list its columns"):
            chunks(io.BytesIO(content), tmp_path / "run.parquet")
