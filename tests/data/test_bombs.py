"""Small files that would fill the memory, run code or block the reader: each is refused, or read for what it is."""

import json
import re

import numpy as np
import pytest
from tests.hostile.bombs import BOMBS, lay, made_bomb, stored_folder
from tests.hostile.pool import Case, outcomes

import kapitza as kz
from kapitza.base.unpacking import FLOOR, VARIABLE, Unpacking
from kapitza.errors import DataError

HARMLESS = {
    # The text of every row is one object, and the pipe, the draft and the second description are not opened.
    ("parquet_texts", 0): "40000 samples",
    ("parquet_pipe", 1): "300 samples",
    ("parquet_gap", 1): "300 samples",
    ("zarr_consolidated", 0): "300 samples",
    ("zarr_second_format", 0): "300 samples",
    ("hdf5_attribute", 0): "4 samples",
}


TWO = {"npz_texts", "matlab_structure", "hdf5_inflated"}
"""Bombs of two kinds, by whether their size is even or odd."""


def test_bombs_are_refused_in_bounded_time_and_memory():
    chosen = [(name, odd) for name in BOMBS for odd in ((0, 1) if name in TWO else (0,)) if (name, odd) not in HARMLESS]
    cases = [Case("stores: bombs", k, made_bomb(name, 10**9 + odd)) for k, (name, odd) in enumerate(chosen)]
    ends = list(outcomes(cases))
    assert len(ends) == len(cases) > 20
    for end in ends:
        assert end.kind in ("result", "refused"), (end.case.content[0], end.kind, end.detail)
        # The first answer is that of kz.read, or of kz.load.
        assert "Record of" not in end.detail.split("', ")[0], (end.case.content[0], end.detail)


@pytest.mark.parametrize(("name", "odd"), list(HARMLESS))
def test_what_is_not_needed_is_not_opened(name, odd, tmp_path):
    record = kz.read(lay(made_bomb(name, 10**9 + odd)[1], tmp_path))
    assert HARMLESS[name, odd] in repr(record)


def test_the_message_says_size_limit_and_cure(tmp_path, monkeypatch):
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, t=np.arange(2.0), x=np.zeros(9_000_000))
    with pytest.raises(
        DataError, match=r"zeros.npz \(.* kB\) would unpack to 72 MB or more; the limit is 64 MB .*LIMIT=\d"
    ):
        kz.read(path)
    monkeypatch.setenv(VARIABLE, "1e8")
    assert kz.data.read_variables(path)["x"].size == 9_000_000
    monkeypatch.setenv(VARIABLE, "50e6")
    with pytest.raises(DataError, match="set by KAPITZA_UNPACK_LIMIT"):
        kz.read(path)
    monkeypatch.setenv(VARIABLE, "plenty")
    with pytest.raises(DataError, match='is "plenty": give a number of bytes'):
        kz.read(path)


def test_the_limit_grows_with_the_file(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    assert Unpacking(tmp_path / "a").limit == FLOOR
    assert Unpacking(tmp_path / "a", 10**6).limit == 2 * 10**8
    assert Unpacking(tmp_path / "a", 10**15).reason == "the memory of this computer"


@pytest.mark.parametrize("codec", ["gzip", "blosc", "crc32c", "zstd", "none"])
def test_listed_codecs_are_read(codec, tmp_path):
    """A folder that was packed again, by Zarr itself, with each of the codecs that are decoded."""
    import zarr
    import zarr.codecs as codecs

    record = kz.simulate(kz.library.duffing(), periods=5, samples_per_period=20)
    path = kz.write(record, tmp_path / "run.zarr")
    packing = {"gzip": codecs.GzipCodec(), "blosc": codecs.BloscCodec(), "crc32c": codecs.Crc32cCodec()}
    packing |= {"zstd": codecs.ZstdCodec(), "none": None}
    for name in ("time", "segment", "x", "x'"):
        stored = zarr.open_array(str(path / name), mode="r")
        values, fill = stored[:], stored.fill_value
        made = {"chunks": (40,), "compressors": packing[codec], "fill_value": fill, "overwrite": True}
        zarr.create_array(str(path / name), shape=values.shape, dtype=values.dtype, **made)[:] = values
    assert np.array_equal(kz.read(path).values(), record.values())
    assert np.array_equal(kz.open_record(path).rows(30, 90).values(), record.values()[30:90])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codecs": [{"name": "numcodecs.pickle"}, {"name": "bytes"}]}, "the codec 'numcodecs.pickle' is not decoded"),
        ({"codecs": [{"name": "bytes"}, {"name": "zstd"}, {"name": "zstd"}]}, "its codecs are bytes, zstd, zstd"),
        ({"data_type": "string"}, "its type is 'string', not a number"),
        ({"zarr_format": 2}, "is not a array of Zarr format 3|is not an array"),
        ({"shape": [3, 3]}, "is not as `write` makes it"),
        ({"storage_transformers": [{"name": "x"}]}, "stored in another way"),
    ],
)
def test_other_descriptions_are_refused_before_zarr_sees_them(change, message, tmp_path):
    path = lay(dict(stored_folder(".zarr")), tmp_path)
    place = path / "x" / "zarr.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(DataError, match=message):
        kz.read(path)


def test_long_texts_of_parquet_are_labels_still(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    note = ["a" * 500 + end for end in "1112223"]
    table = pa.table({"t": np.arange(7.0), "x": np.arange(7.0), "segment": note, "kind": ["u", None, *"vuuuu"]})
    pq.write_table(table, tmp_path / "run.parquet")
    assert [p.stop - p.start for p in kz.read(tmp_path / "run.parquet").segments()] == [3, 3, 1]
    dates = pa.table({"t": [f"2024-05-01 10:00:0{k}" for k in range(7)], "x": np.arange(7.0)})
    pq.write_table(dates, tmp_path / "dates.parquet")
    assert kz.read(tmp_path / "dates.parquet").time[-1] == 6.0


def test_the_limit_that_is_advised_is_enough_at_once(tmp_path, monkeypatch):
    """Data that pack very well, in many arrays: the size of what is still to come is not known at the first refusal."""
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, **{f"x{i}": np.zeros(2_000_000) for i in range(6)})
    with pytest.raises(DataError, match="KAPITZA_UNPACK_LIMIT") as refused:
        kz.read(path, interval=0.1)
    advised = re.search(r"KAPITZA_UNPACK_LIMIT=(\S+)", str(refused.value))
    assert advised
    monkeypatch.setenv("KAPITZA_UNPACK_LIMIT", advised[1])
    assert kz.read(path, interval=0.1).size == 2_000_000
