"""Recordings: tables that generators write, and damaged files of every format."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.hostile.damage import damaged_bytes, numbers, texts
from tests.hostile.family import register

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".h5", ".mat", ".npz", ".73.mat", ".nc", ".wav")


@cache
def originals(suffix: str) -> list[bytes]:
    """Small valid files of a format, written by Kapitza and by others."""
    import h5py
    import pandas as pd
    import scipy.io
    import scipy.io.wavfile

    import kapitza as kz

    time = np.arange(60) / 20
    channels = {"phi": np.sin(time), "x/y": np.cos(time), "#a": time**2}
    record = kz.Record.from_arrays(time, channels, units={"phi": "rad"}, angles=["phi"], period=0.7, noise={"phi": 0.1})
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if suffix == ".nc":
            with scipy.io.netcdf_file(folder / "a.nc", "w") as file:
                file.createDimension("t", 60)
                file.createVariable("t", "d", ("t",))[:] = time
                file.createVariable("x", "d", ("t",))[:] = np.sin(time)
            return [(folder / "a.nc").read_bytes()]
        if suffix == ".wav":
            for number, kind in enumerate((np.int16, np.float32)):
                scipy.io.wavfile.write(folder / f"{number}.wav", 20, (100 * np.sin(time)).astype(kind))
            return [(folder / f"{number}.wav").read_bytes() for number in range(2)]
        matlab = "7.3" if suffix == ".73.mat" else "5"
        path = folder / f"a{suffix.replace('.73', '')}"
        kz.write(record, path, matlab=matlab)
        found.append(path.read_bytes())
        if suffix == ".h5":
            with h5py.File(path, "w") as file:
                file["run/t"], file["run/x"], file["note"] = time, np.outer(time, [1, 2]), "a text"
                file.create_dataset("packed", data=time, chunks=(10,), compression="gzip")
            found.append(path.read_bytes())
        if suffix == ".mat":
            cells = np.empty((1, 2), object)
            cells[0, 0], cells[0, 1] = time[:3], time[:4]
            scipy.io.savemat(path, {"t": time, "s": {"x": time, "units": {"x": "mm"}}, "c": cells}, do_compression=True)
            found.append(path.read_bytes())
        if suffix == ".parquet":
            frame = pd.DataFrame({"time": pd.to_timedelta(time, unit="s"), "x": time, "note": ["a"] * 60})
            frame.to_parquet(path)
            found.append(path.read_bytes())
        if suffix == ".npz":
            stream = io.BytesIO()
            np.savez_compressed(stream, t=time, x=np.outer(time, [1.0, 2.0]))
            found.append(stream.getvalue())
    return found


@cache
def lab_originals(name: str) -> list[bytes]:
    """A small valid file of an acquisition system."""
    from tests.data.test_lab_files import MAKERS

    with tempfile.TemporaryDirectory() as folder:
        MAKERS[name](Path(folder) / name)
        return [(Path(folder) / name).read_bytes()]


LAB = ("run.tdms", "run.uff", "run.xlsx", "run.mf4", "run.mcap")


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A text table as no logger would write it."""
    separator = draw(st.sampled_from([",", ";", "\t", " ", "|", ", "]))
    width, height = draw(st.integers(1, 5)), draw(st.integers(0, 8))
    field = st.one_of(numbers.map(str), texts, st.floats(0, 9).map(repr), st.floats(0, 9).map(repr))
    start = draw(st.sampled_from(["", "", "", "# ", "% kapitza: {", "# kapitza: {}\n", "\ufeff", "\n\n"]))
    tame = st.sampled_from(["x", "phi [deg]", "y (mm)", "z_ms", "v [g]", "u", "w"])
    names = [draw(st.one_of(tame, tame, texts)) for _ in range(width - 1)]
    header = separator.join(["t", *names]) if draw(st.integers(0, 4)) else ""
    unit_row = separator.join(draw(st.sampled_from(["s", "ms", "deg", "", "LSB", "10**10**10"])) for _ in range(width))
    mild = st.floats(-9, 9).map(repr)
    fields = [draw(st.sampled_from([mild, mild, mild, field])) for _ in range(width - 1)]
    rows = [separator.join([repr(i / 7), *(draw(own) for own in fields)]) for i in range(height)]
    lines = [start + header, *([] if draw(st.integers(0, 3)) else [unit_row]), *rows]
    text = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])).join(lines)
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "latin-1", "utf-16"])), "replace")


@cache
def zip_bomb(declared: tuple[int, ...], size: int) -> bytes:
    """An archive of one array whose header declares a shape, with `size` bytes of zeros; a second to deflate."""
    import zipfile

    stream, header = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": declared})
        archive.writestr("t.npy", header.getvalue() + bytes(size))
    return stream.getvalue()


@st.composite
def bombs(draw: st.DrawFn) -> tuple[str, bytes]:
    """Small files that declare large contents, or point out of themselves."""
    import h5py

    stream = io.BytesIO()
    shape = draw(st.sampled_from([(10**9,), (10**5, 10**5), (3, 10**8), (2**31,)]))
    kind = draw(st.sampled_from(["fill", "external", "virtual", "npz", "link", "zip"]))
    if kind in ("npz", "zip"):
        return ".npz", zip_bomb(shape, 16) if kind == "npz" else zip_bomb((25_000_000,), 200_000_000)
    with h5py.File(stream, "w") as file:
        file["t"] = np.arange(4.0)
        if kind == "fill":
            file.create_dataset("x", shape, "f8", chunks=True, fillvalue=1.0, compression="gzip")
        elif kind == "external":
            file.create_dataset("x", (4,), "f8", external=[("../canary.bin", 0, 32)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource("../canary.h5", "x", (4,))
            file.create_virtual_dataset("x", layout)
        else:
            file["x"] = h5py.ExternalLink("../canary.h5", "x")
    return ".h5", stream.getvalue()


def damaged(suffix: str) -> st.SearchStrategy[tuple[str, bytes]]:
    return st.deferred(lambda: damaged_bytes(originals(suffix))).map(lambda content: (suffix, content))


def use(case: tuple[tuple[str, bytes], dict[str, Any]], folder: Path) -> object:
    """Read it, look at it, and write it again."""
    import kapitza as kz

    (suffix, content), request = case
    path = folder / f"run{suffix.replace('.73', '')}"
    path.write_bytes(content)
    record = kz.read(path, **request)
    shown = [repr(record), str(record.sampling()), str(record.values()[:4])]
    back = kz.read(kz.write(record, folder / "again.csv"))
    if back.channels != record.channels or not np.array_equal(back.values(), record.values()):
        raise AssertionError("the record that was read does not survive csv")
    return shown


requests = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"interval": st.just(0.1)}),
    st.fixed_dictionaries({}, optional={"time": texts, "channels": st.lists(texts, max_size=2), "missing": texts}),
    st.just({"missing": "drop"}),
    st.fixed_dictionaries({"units": st.dictionaries(st.sampled_from(["t", "x", "phi"]), texts, max_size=2)}),
)
written = st.one_of(*(damaged(suffix) for suffix in SUFFIXES))
register("recordings: damaged files", st.tuples(written, requests), use, 3.0)
lab = st.sampled_from(LAB).flatmap(
    lambda name: damaged_bytes(lab_originals(name)).map(lambda content: (Path(name).suffix, content))
)
register("recordings: acquisition systems", st.tuples(lab, requests), use, 1.0)
texted = st.tuples(st.sampled_from([".csv", ".csv", ".txt", ".tsv", ".h5"]), tables())
register("recordings: tables", st.tuples(texted, requests), use, 1.5)
register("recordings: bombs", st.tuples(bombs(), requests), use, 0.5)
