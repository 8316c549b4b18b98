"""Every format back unchanged; the layouts that loggers write; messages for broken files."""

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

import kapitza as kz
from kapitza.data import Record, read_variables
from kapitza.errors import DataError

FORMATS = ("a.csv", "a.tsv", "a.txt", "a.parquet", "a.h5", "a.hdf5", "a.mat", "a.npz")
finite = st.floats(allow_nan=False, allow_infinity=False)


def sample(values: list[float], cut: int = 1) -> Record:
    count = len(values)
    channels = {"phi": np.array(values), "phi'": np.arange(count) / 3}
    segment = (np.arange(count) >= cut).astype(int)
    return Record.from_arrays(
        np.arange(count) * 0.1, channels, units={"phi": "rad", "phi'": "rad/s"}, angles=["phi"], segment=segment,
        noise={"phi": 0.25}, period=0.7, phase=0.1, name="test",
    )  # fmt: skip


def same(one: Record, other: Record) -> None:
    assert one.channels == other.channels
    assert np.array_equal(one.time, other.time)
    assert np.array_equal(one.values(), other.values())
    assert one.segments() == other.segments()
    assert (one.units, one.angles, one.noise) == (other.units, other.angles, other.noise)
    assert (one.period, one.phase) == (other.period, other.phase)


@settings(max_examples=40)
@given(values=st.lists(finite, min_size=3, max_size=20))
@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_is_exact(name, values, tmp_path_factory):
    record = sample(values)
    path = kz.write(record, tmp_path_factory.mktemp("round") / name)
    same(record, kz.read(path))


def test_round_trip_matlab_hdf5(tmp_path):
    record = sample([1.0, 2.0, 3.0])
    path = kz.write(record, tmp_path / "a.mat", matlab="7.3")
    assert path.read_bytes()[:10] == b"MATLAB 7.3"
    same(record, kz.read(path))


def test_chosen_channels_keep_segments_units_and_new_names(tmp_path):
    for name in FORMATS:
        path = kz.write(sample([1.0, 2.0, 3.0], cut=2), tmp_path / name)
        record = kz.read(path, channels={"phi": "theta"})
        assert record.channels == ("theta",)
        assert record.angles == (True,)
        assert record.units == {"theta": "rad"}
        assert len(record.segments()) == 2


LAYOUTS = {
    "header": "t,x,y\n0,1,2\n1,3,4\n",
    "units in the header": "t [s], x (m), y [1]\n0, 1, 2\n1, 3, 4\n",
    "units below the header": "t;x;y\ns;m;1\n0;1;2\n1;3;4\n",
    "comment header": "% t x y\n  0.0e+000  1.0  2.0 \n  1.0  3.0e0  4.0 \n",
    "hash comments": "# logger 7\n# t\tx\ty\n0\t1\t2\n1\t3\t4\n",
    "trailing separators": '"t","x","y",\n0,1,2,\n1,3,4,\n',
    "decimal commas": "t;x;y\n0,0;1,0;2,0\n1,0;3,0;4,0\n",
    "carriage returns, blank lines": "t x y\r\n\r\n0 1 2\r\n1 3 4\r\n\r\n",
    "byte order mark": "\ufefft,x,y\n0,1,2\n1,3,4\n",
    "title lines": "Rig 3, run 7\nt,x,y\n0,1,2\n1,3,4\n",
    "text column": "t,x,state,y\n0,1,idle,2\n1,3,busy,4\n",
    "comments within": "# run\nt,x,y\n0,1,2\n# bump\n1,3,4\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, tmp_path):
    path = tmp_path / "run.csv"
    path.write_bytes(LAYOUTS[layout].encode())
    record = kz.read(path)
    assert record.channels == ("x", "y")
    assert np.array_equal(record.time, [0, 1])
    assert np.array_equal(record.values(), [[1, 2], [3, 4]])
    if "units" in layout:
        assert record.units == {"x": "m", "y": "1"}


def test_headerless_files_and_positions(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("0 0.0 5\n0 0.1 6\n1 0.0 7\n1 0.1 8\n")
    record = kz.read(path, time=1, segment=0, channels={2: "x"})
    assert len(record.segments()) == 2
    assert np.array_equal(record["x"], [5, 6, 7, 8])
    named = kz.read(path, names=["trial", "t", "x"])
    assert np.array_equal(named.values(), record.values())
    assert len(named.segments()) == 2


def test_sampling_interval_instead_of_time(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("V1,V2\n1,2\n3,4\n")
    assert np.allclose(kz.read(path, interval=0.5).time, [0, 0.5])


@given(
    rows=st.lists(st.tuples(finite, finite), min_size=2, max_size=12),
    separator=st.sampled_from([",", ";", "\t", " ", "  "]),
    trailing=st.booleans(),
    comment=st.sampled_from(["", "% measured\n", "# x y\n"]),
)
def test_any_table_of_numbers_is_read(rows, separator, trailing, comment, tmp_path_factory):
    end = (separator if trailing else "") + "\n"
    text = comment + "".join(f"{x!r}{separator}{y!r}{end}" for x, y in rows)
    path = tmp_path_factory.mktemp("any") / "a.txt"
    path.write_text(text)
    record = kz.read(path, interval=1.0)
    assert np.array_equal(record.values(), np.array(rows))


BROKEN = {
    "": "is empty",
    "\n\n": "no rows of numbers",
    "t,x\n": "no rows of numbers",
    "hello world\n": "no rows of numbers",
    "t,x\n0,1\n1,nan\n2,3\n": 'line 3.*"x" is missing.*missing="drop"',
    "t,x\n0,1\n1,\n2,3\n": 'line 3.*"x" is missing',
    "t,x\n0,1\n\n1,oops\n2,3\n": 'line 4.*"x".*not a number',
    "t,x\n0,1\n1,2,3\n": "ragged rows: line 3 has 3 fields",
    "t,x,y\n0,1,2\n1,2\n": r"line 3 \(it has 2 fields, the first row 3\)",
    "t,x,\n0,1,\n1,2,3\n": "ragged rows: line 3",
    "t,x\n0,1\n0,2\n": "Time repeats after sample 0",
    "t,x\n1,1\n0,2\n": "Time runs backwards",
    "x,y\n1,1\n0,2\n": "called time.*interval",
    "t,x,x\n1,1,1\n2,2,2\n": "several columns called x",
    "t\n1\n2\n": "no numeric columns",
}


@pytest.mark.parametrize(("text", "message"), BROKEN.items())
def test_broken_text_is_refused(text, message, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        kz.read(path)


def test_wrong_requests_are_refused(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t,omega,phi\n0,1,2\n1,2,3\n")
    requests = {
        'no column "omga".*Did you mean "omega"': {"channels": ["omga"]},
        "There is no column 3": {"channels": [3]},
        'channels=."phi".': {"channels": "phi"},
        '"phj" is declared.*Did you mean "phi"': {"angles": ["phj"]},
        "not both": {"time": "t", "interval": 1.0},
        "positive": {"interval": -1.0},
        "has 3 columns, names has 2": {"names": ["t", "x"]},
        '"refuse" or "drop"': {"missing": "ignore"},
        "would be called x": {"channels": {"omega": "x", "phi": "x"}},
        "excitation period is 0": {"period": 0},
    }
    for message, request in requests.items():
        with pytest.raises(DataError, match=message):
            kz.read(path, **request)
    with pytest.raises(DataError, match=r"There is no file.*run\.csv"):
        kz.read(tmp_path / "run8.csv")
    with pytest.raises(DataError, match="suffix"):
        kz.read(tmp_path / "run.xyz")
    with pytest.raises(DataError, match="suffix"):
        kz.write(sample([1.0, 2.0]), tmp_path / "run.xyz")


@pytest.mark.parametrize("suffix", [".parquet", ".h5", ".mat", ".npz", ".csv"])
def test_damaged_binary_files_are_refused(suffix, tmp_path):
    path = tmp_path / f"run{suffix}"
    path.write_bytes(b"\x00\x01\x02 not what the suffix says" * 20)
    with pytest.raises(DataError, match="run"):
        kz.read(path)


def test_npz_with_pickled_objects_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, t=np.arange(3.0), x=np.array([{"a": 1}, 2, 3], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        kz.read(path)


def test_missing_rows_are_dropped_and_cut(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t,x\n0,1\n1,2\n2,\n3,4\n4,5\n5")
    record = kz.read(path, missing="drop")
    assert np.array_equal(record.time, [0, 1, 3, 4])
    assert record.segments() == [slice(0, 2), slice(2, 4)]


def test_matlab_cells_and_structures(tmp_path):
    cells = np.empty((2, 1), object)
    times = np.empty((2, 1), object)
    for i, n in enumerate((3, 4)):
        cells[i, 0] = np.vstack([np.arange(n), 10 + np.arange(n)]).astype(float)
        times[i, 0] = np.arange(n, dtype=float).reshape(-1, 1)
    scipy.io.savemat(tmp_path / "a.mat", {"Y": cells, "T": times, "run": {"t": np.arange(3.0), "u": np.ones(3)}})
    record = kz.read(tmp_path / "a.mat", time="T", channels={"Y": ["a", "b"]})
    assert [p.stop - p.start for p in record.segments()] == [3, 4]
    assert np.array_equal(record["b"], [10, 11, 12, 10, 11, 12, 13])
    assert kz.read(tmp_path / "a.mat", time="run.t", channels={"run.u": "u"}).channels == ("u",)
    assert sorted(read_variables(tmp_path / "a.mat")) == ["T", "Y", "run.t", "run.u"]


def test_matlab_v73_cells(tmp_path):
    """As MATLAB stores them: references into #refs#, arrays transposed."""
    with h5py.File(tmp_path / "a.mat", "w") as file:
        for name, pieces in {"Y": [np.ones((3, 2)), np.zeros((4, 2))], "T": [np.arange(3.0), np.arange(4.0)]}.items():
            stored = [file.create_dataset(f"#refs#/{name}{i}", data=np.atleast_2d(p)) for i, p in enumerate(pieces)]
            cell = file.create_dataset(name, (1, 2), dtype=h5py.ref_dtype)
            cell[0] = [piece.ref for piece in stored]
            cell.attrs["MATLAB_class"] = np.bytes_("cell")
    record = kz.read(tmp_path / "a.mat", time="T", channels=["Y"])
    assert record.channels == ("Y_0", "Y_1")
    assert np.array_equal(record["Y_1"], [1, 1, 1, 0, 0, 0, 0])


def test_files_of_other_programs(tmp_path):
    pd.DataFrame({"time": [0.0, 1.0], "x": [1.0, 2.0]}).to_parquet(tmp_path / "a.parquet")
    assert np.array_equal(kz.read(tmp_path / "a.parquet")["x"], [1, 2])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run1/t"] = np.arange(3.0)
        file["run1/xy"] = np.arange(6.0).reshape(3, 2)
    record = kz.read(tmp_path / "a.h5", time="run1/t", channels={"run1/xy": ["x", "y"]})
    assert np.array_equal(record["y"], [1, 3, 5])


def test_foreign_metadata_cannot_break_the_reader(tmp_path):
    for metadata in ("[1, 2]", '{"channels": 3}', '{"attributes": {"period": "soon", "noise": 1}}', "{not json"):
        path = tmp_path / "a.csv"
        path.write_text(f"# kapitza: {metadata}\nt,x\n0,1\n1,2\n")
        record = kz.read(path)
        assert record.period is None
        assert np.array_equal(record["x"], [1, 2])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = kz.write(sample([1.0, 2.0]), tmp_path / "a.csv")
    before = path.read_bytes()
    monkeypatch.setattr(pd.DataFrame, "to_csv", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        kz.write(sample([3.0, 4.0]), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


HOSTILE = [
    *(
        "zeta",
        "alpha",
        "#a",
        "a/b",
        "x,y",
        "tab\there",
        "line\nbreak",
        '"quoted"',
        "t",
        "Time",
        "seconds",
        "file",
        "kapitza",
    ),
    *(
        "phi'",
        "phi''",
        "phi_rate",
        "[m]",
        "x [mm]",
        "x (deg)",
        "phi_deg",
        ".",
        "..",
        "µ",
        "μ",
        "ａ",
        " a",
        "a ",
        "",
        "1",
        "%",
    ),
    *(
        "\x1b[31mred",
        "\u202e",
        "nan",
        "channel_3",
        "self",
        "period",
        "name" * 60,
        "'; DROP TABLE",
        "日本語",
        "🎯",
        "\x00",
        "__x",
    ),
]
UNITS = ["", "rad", "mm", "deg/ms", "furlong", "a.u.", "µm", "1", "m/s²"]


@pytest.mark.parametrize("order", ["as listed", "backwards"])
@pytest.mark.parametrize("name", [*FORMATS, "v73.mat"])
def test_hostile_names_orders_and_units_come_back(name, order, tmp_path):
    names = HOSTILE if order == "as listed" else HOSTILE[::-1]
    time = np.arange(4) * 0.1 + 5
    record = Record.from_arrays(
        time,
        {channel: np.arange(4.0) + 10 * place for place, channel in enumerate(names)},
        units={channel: UNITS[place % len(UNITS)] for place, channel in enumerate(names)} | {"alpha": "rad"},
        angles=["alpha"],
        segment=np.array([0, 0, 1, 1]),
        noise={"#a": 0.5, "a/b": 0.25},
        period=0.3,
        phase=0.1,
        note="a\nb\x1b",
    )
    path = kz.write(record, tmp_path / name, matlab="7.3" if name == "v73.mat" else "5")
    back = kz.read(path)
    same(record, back)
    assert back.dataset.attrs["note"] == "a\nb\x1b"
    chosen = kz.read(path, channels=["#a", "alpha"])
    assert chosen.channels == ("#a", "alpha")
    assert np.array_equal(chosen["#a"], record["#a"])


def test_hdf5_with_texts_beside_the_numbers(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"], file["note"], file["#a"] = np.arange(3.0), np.ones(3), "measured on Monday", np.zeros(3)
        file["names"] = ["one", "two"]
    assert sorted(kz.read(tmp_path / "a.h5").channels) == ["#a", "x"]


def test_hdf5_does_not_read_other_files(tmp_path):
    (tmp_path / "secret.bin").write_bytes(np.full(3, 42.0).tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.full(3, 42.0)
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file["t"] = np.arange(3.0)
        file.create_dataset("x", (3,), "f8", external=[(str(tmp_path / "secret.bin"), 0, 24)])
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file["t"] = np.arange(3.0)
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "x", (3,))
        file.create_virtual_dataset("x", layout)
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["t"], file["y"] = np.arange(3.0), np.ones(3)
        file["x"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "x")
    for name in ("external", "virtual"):
        with pytest.raises(DataError, match='numbers of "/x" lie in'):
            kz.read(tmp_path / f"{name}.h5")
    with pytest.raises(DataError, match='"x" is a link to another file'):
        kz.read(tmp_path / "linked.h5")


def test_declared_sizes_are_not_believed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = np.arange(4.0)
        file.create_dataset("x", (10**9,), "f8", chunks=(10**6,), fillvalue=1.0)
    assert (tmp_path / "a.h5").stat().st_size < 20_000
    zeros = {"t": np.zeros(9_000_000)}
    np.savez_compressed(tmp_path / "a.npz", **zeros)
    scipy.io.savemat(tmp_path / "a.mat", zeros, do_compression=True)
    for name in ("a.h5", "a.npz", "a.mat"):
        with pytest.raises(DataError, match=r"would unpack to .*KAPITZA_UNPACK_LIMIT"):
            kz.read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.mat", "v73.mat", "a.parquet"])
def test_every_cut_and_many_flips_are_named(name, tmp_path):
    """A file cut anywhere, or with a byte flipped anywhere, is read or refused, never a traceback."""
    path = kz.write(sample([1.0, 2.0, 3.0]), tmp_path / name, matlab="7.3" if name == "v73.mat" else "5")
    whole = path.read_bytes()
    places = np.linspace(1, len(whole) - 1, 25).astype(int)
    refused = []
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 0x5A
        for content in (whole[:place], bytes(flipped)):
            path.write_bytes(content)
            try:
                kz.read(path)
            except DataError as problem:
                refused.append(str(problem))
    assert len(refused) >= len(places)


def test_matlab_flags_that_would_end_the_process_are_refused(tmp_path):
    """SciPy reads the imaginary part that the flag promises, wherever that may lie."""
    path = kz.write(sample([1.0, 2.0, 3.0]), tmp_path / "a.mat")
    whole = bytearray(path.read_bytes())
    assert whole[144] == 6  # class double
    for byte, value in ((145, 0x08), (144, 200), (144, 4), (128, 77), (132, 255)):
        wounded = whole.copy()
        wounded[byte] = value
        path.write_bytes(wounded)
        with pytest.raises(DataError, match=r"a\.mat cannot be read as \.mat|called time"):
            kz.read(path)


def test_a_late_byte_of_another_encoding_does_no_harm(tmp_path):
    rows = [f"{i / 10},{i}" for i in range(500)]
    rows[400] += "  # 5\xb0"
    path = tmp_path / "a.csv"
    path.write_bytes(b"# rig\nt,x\n" + "\n".join(rows).encode("latin-1") + b"\n# \xe4nde\n")
    assert len(kz.read(path)) == 500


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (";t;x\n0;0,0;1.234,5\n1;1,0;2,5\n2;2,0;3\n", [1234.5, 2.5, 3.0]),
        ('t,x\n0,"1,234.5"\n1,"2"\n2,3.5\n', [1234.5, 2.0, 3.5]),
        ("t;x\n0;1,5\n1;12.345.678,25\n", [1.5, 12345678.25]),
        ("Timestamp,x\n0,1\n1,2\n", [1.0, 2.0]),
        ("t\tx\tnote\n\tmm\t\n0\t1000\tok\n1\t2000\tok\n", [1.0, 2.0]),
    ],
    ids=["index and semicolons", "thousands in quotes", "two thousands", "timestamp", "units with blanks before tabs"],
)
def test_tables_as_programs_and_people_write_them(tmp_path, text, values):
    path = tmp_path / "run.csv"
    path.write_text(text)
    assert kz.read(path)["x"].tolist() == values


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_counts_from_1970_need_their_unit(tmp_path, unit):
    """1.7e12 s is not a time: it is not taken for seconds."""
    path = tmp_path / "run.csv"
    per = {"ms": 1e3, "us": 1e6}[unit]
    path.write_text("timestamp,x\n" + "".join(f"{1.7e9 * per + 0.5 * per * k:.0f},{k}\n" for k in range(5)))
    with pytest.raises(DataError, match=r'say its unit, units=\{"timestamp": "ms"\}'):
        kz.read(path)
    assert np.allclose(np.diff(kz.read(path, units={"timestamp": unit}).time), 0.5)


@pytest.mark.parametrize(("name", "number"), [("Fs", 250.0), ("dt", 0.004)])
def test_a_rate_or_an_interval_beside_the_arrays_is_the_clock(tmp_path, name, number):
    scipy.io.savemat(tmp_path / "run.mat", {name: number, "x": np.arange(10.0)})
    record = kz.read(tmp_path / "run.mat")
    assert record.channels == ("x",)
    assert np.allclose(record.time, 0.004 * np.arange(10))


@pytest.mark.parametrize("shape", [(60, 0), (0, 60), (0,), (3, 4, 5)])
def test_arrays_without_one_column_are_refused(tmp_path, shape):
    np.savez(tmp_path / "run.npz", x=np.empty(shape))
    with pytest.raises(DataError, match=r"No channels|no rows"):
        kz.read(tmp_path / "run.npz", interval=0.1)


@pytest.mark.parametrize("separator", ["ａ", ",,", "é"])
def test_separators_of_several_bytes_are_refused(tmp_path, separator):
    (tmp_path / "run.csv").write_text("t,x\n0,1\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="one ASCII character"):
        kz.read(tmp_path / "run.csv", separator=separator)


@pytest.mark.parametrize(
    ("write", "scale"),
    [
        (lambda i, v: f"{i};{v:,d}", 1),
        (lambda i, v: f"{i};{v:,d}".replace(",", "."), 1),
        (lambda i, v: f"{i / 100:.2f};{v:,d}", 1),
        (lambda i, v: f"{i};{v / 1000:.3f}".replace(".", ","), 1000),
        (lambda i, v: f"{i};{v / 1000:.3f}", 1000),
        (lambda i, v: f"{i},{v / 1000:.3f}", 1000),
        (lambda i, v: f"{i};{v / 1000:g}".replace(".", ","), 1000),
        (lambda i, v: f"{i};{v / 1000:g}", 1000),
    ],
)
def test_signs_group_thousands_or_set_decimals_apart(tmp_path, write, scale):
    """12,345 is twelve thousand beside 955 and 0, and twelve and a third beside 0,955 and 0,000."""
    values = np.round(123456 * np.sin(0.1 * np.arange(100))).astype(int).tolist()
    rows = [write(i, v) for i, v in enumerate(values)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["t,F" if "," in rows[0] and ";" not in rows[0] else "t;F", *rows]) + "\n")
    assert np.allclose(scale * kz.read(path)["F"], values, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("separator", "sign", "mark"), [(";", ",", "0"), (";", ".", "-999"), (",", ".", "955")])
def test_decimals_beside_a_whole_number_stay_decimals(tmp_path, separator, sign, mark):
    """A logger writes 0 or -999 for a lost sample; a comma that separates columns is not a decimal sign."""
    values = [20 + i + 0.345 for i in range(40)]
    rows = [f"{i}{separator}{v:.3f}".replace(".", sign) for i, v in enumerate(values)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join([f"t{separator}F", *rows, f"40{separator}{mark}"]) + "\n")
    assert np.allclose(kz.read(path)["F"], [*values, float(mark)], rtol=1e-12)
