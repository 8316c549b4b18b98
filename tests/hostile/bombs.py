"""Files and folders made to fill the memory, to keep the reader busy or to run code; each is a few kilobytes.

A bomb is a table of contents: path in the folder of the case → bytes, or None for a pipe. Its first path is read.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.hostile.damage import damaged_bytes
from tests.hostile.family import register
from tests.hostile.saved import sealed_again

Bomb = dict[str, bytes | None]
BOMBS: dict[str, Callable[[int], Bomb]] = {}
"""Makers of bombs by name; each takes the size that its bomb declares, in numbers."""


def bomb(make: Callable[[int], Bomb]) -> Callable[[int], Bomb]:
    BOMBS[make.__name__] = make
    return make


@cache
def stored_folder(suffix: str) -> dict[str, bytes]:
    """A small recording in a folder as `write` makes it, by path."""
    import kapitza as kz

    time = np.arange(300) / 20
    record = kz.Record.from_arrays(time, {"x": np.sin(time), "v": np.cos(time)}, units={"x": "m"})
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"run{suffix}"
        for first in (0, 100, 200):
            kz.write(record.samples(slice(first, first + 100)), path, append=True)
        return {str(p.relative_to(name)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def zarr_with(change: Callable[[dict[str, Any]], None], chunk: bytes | None = None) -> Bomb:
    """The folder with the description of every array changed, and a chunk in place of its own."""
    made: Bomb = {"run.zarr/zarr.json": b"", **stored_folder(".zarr")}
    for path in list(made):
        if path.endswith("/zarr.json") and path.count("/") == 2:
            facts = json.loads(made[path] or b"")
            change(facts)
            made[path] = json.dumps(facts).encode()
    for path in [p for p in made if "/c/" in p]:
        made[path] = chunk or made[path]
    return made


@bomb
def zarr_shape(size: int) -> Bomb:
    return zarr_with(lambda facts: facts.update(shape=[size]))


@bomb
def zarr_chunk(size: int) -> Bomb:
    def change(facts: dict[str, Any]) -> None:
        facts["shape"], facts["chunk_grid"]["configuration"]["chunk_shape"] = [size], [size]

    return zarr_with(change)


@bomb
def zarr_chunks(size: int) -> Bomb:
    def change(facts: dict[str, Any]) -> None:
        facts["shape"], facts["chunk_grid"]["configuration"]["chunk_shape"] = [size // 100], [1]

    return zarr_with(change)


@cache
def zstd_zeros(size: int) -> bytes:
    from numcodecs import Zstd

    return bytes(Zstd().encode(bytes(min(8 * size, 200_000_000))))


@bomb
def zarr_zstd(size: int) -> Bomb:
    """Chunks of the right shape whose packed content is far longer."""
    return zarr_with(lambda facts: None, chunk=zstd_zeros(size))


@bomb
def zarr_gzip(size: int) -> Bomb:
    def change(facts: dict[str, Any]) -> None:
        facts["codecs"][1:] = [{"name": "gzip", "configuration": {"level": 5}}]

    machine = zlib.compressobj(1, wbits=31)
    packed = b"".join(machine.compress(bytes(1 << 20)) for _ in range(80)) + machine.flush()
    return zarr_with(change, chunk=packed)


@bomb
def zarr_pickle(size: int) -> Bomb:
    def change(facts: dict[str, Any]) -> None:
        facts["codecs"] = [{"name": "numcodecs.pickle", "configuration": {"protocol": 5}}, {"name": "bytes"}]

    return zarr_with(change, chunk=HARMFUL)


@bomb
def zarr_sharded(size: int) -> Bomb:
    def change(facts: dict[str, Any]) -> None:
        inner = {"chunk_shape": [1], "codecs": [{"name": "numcodecs.pickle"}], "index_codecs": [{"name": "bytes"}]}
        facts["codecs"] = [{"name": "sharding_indexed", "configuration": inner}]

    return zarr_with(change)


HARMFUL = b"cos\nsystem\n(S'touch owned'\ntR."
"""A pickle that runs a command."""


@bomb
def zarr_second_format(size: int) -> Bomb:
    """Format 2 with objects that are decoded by pickle, also beside a description of format 3."""
    about = json.loads(stored_folder(".zarr")["run.zarr/zarr.json"])["attributes"]
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "compressor": None, "fill_value": None}
    array |= {"order": "C", "filters": [{"id": "pickle", "protocol": 5}]}
    made: Bomb = {"run.zarr/.zgroup": b'{"zarr_format": 2}', "run.zarr/.zattrs": json.dumps(about).encode()}
    for name in ("time", "segment", "x", "v"):
        made |= {f"run.zarr/{name}/.zarray": json.dumps(array).encode(), f"run.zarr/{name}/0": HARMFUL}
    return made if size % 2 else {**stored_folder(".zarr"), **made}


@bomb
def zarr_consolidated(size: int) -> Bomb:
    """A second description of the arrays, in that of the group."""
    made: Bomb = dict(stored_folder(".zarr"))
    group = json.loads(made["run.zarr/zarr.json"] or b"")
    arrays = {name: json.loads(made[f"run.zarr/{name}/zarr.json"] or b"") for name in ("time", "segment", "x", "v")}
    for facts in arrays.values():
        facts["shape"], facts["chunk_grid"]["configuration"]["chunk_shape"] = [size], [size]
    group["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": arrays}
    return {**made, "run.zarr/zarr.json": json.dumps(group).encode()}


@bomb
def zarr_pipe(size: int) -> Bomb:
    """Pipes, which block whoever opens them, in place of chunks or of a description."""
    made: Bomb = dict(stored_folder(".zarr"))
    return {**made, ("run.zarr/time/c/0", "run.zarr/x/zarr.json", "run.zarr/zarr.json")[size % 3]: None}


@bomb
def parquet_pipe(size: int) -> Bomb:
    made: Bomb = dict(stored_folder(".parquet"))
    return {**made, ("run.parquet/part-000001.parquet", "run.parquet/.part-000003.1.parquet")[size % 2]: None}


@bomb
def parquet_gap(size: int) -> Bomb:
    """Parts that are missing, or drafts of a writer that was killed."""
    made: Bomb = dict(stored_folder(".parquet"))
    draft = {"run.parquet/.part-000003.abcd.parquet": b"PAR1 half a draft"}
    return {**made, **draft} if size % 2 else {p: c for p, c in made.items() if "000001" not in p}


def parquet(table: Any, **settings: Any) -> Bomb:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream, **settings)
    return {"run.parquet": stream.getvalue()}


@bomb
def parquet_texts(size: int) -> Bomb:
    """A long text in every row, stored once."""
    import pyarrow as pa

    rows = min(size, 10**9) // 25_000
    texts = pa.chunked_array([pa.array(["x" * 24_000] * 1000)] * (rows // 1000))
    time = pa.array(np.arange(len(texts)) / 10.0)
    return parquet(pa.table({"t": time, "x": time, "note": texts}), compression="zstd")


@bomb
def parquet_prefixes(size: int) -> Bomb:
    """Texts that each repeat the one before."""
    import pyarrow as pa

    texts = pa.array(["x" * 100_000] * 1000)
    time = pa.array(np.arange(1000) / 10.0)
    encoding = {"note": "DELTA_BYTE_ARRAY"}
    return parquet(pa.table({"t": time, "x": time, "note": texts}), use_dictionary=False, column_encoding=encoding)


@bomb
def parquet_page(size: int) -> Bomb:
    """One page of zeros, packed."""
    import pyarrow as pa

    rows = min(size // 20, 10_000_000)
    zeros = pa.array(np.zeros(rows))
    return parquet(pa.table({"t": zeros, "x": zeros}), compression="zstd", use_dictionary=False, data_page_size=1 << 30)


@bomb
def parquet_lists(size: int) -> Bomb:
    import pyarrow as pa

    offsets = pa.array([0, min(size // 20, 10_000_000)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(min(size // 20, 10_000_000))))
    return parquet(pa.table({"t": pa.array([0.0]), "x": lists}), compression="zstd")


def hdf5(fill: Callable[[Any], None], suffix: str = ".h5") -> Bomb:
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["t"] = np.arange(4.0)
        fill(file)
    return {f"run{suffix}": stream.getvalue()}


@bomb
def hdf5_nested(size: int) -> Bomb:
    def fill(file: Any) -> None:
        group = file
        for _ in range(min(size // 10**5, 3000)):
            group = group.create_group("g")
        group["x"] = np.arange(4.0)

    return hdf5(fill)


@bomb
def hdf5_chunk(size: int) -> Bomb:
    """An array of four numbers in a chunk of many."""
    return hdf5(
        lambda file: file.create_dataset("x", (4,), "f8", maxshape=(None,), chunks=(min(size, 500_000_000),),
                                         fillvalue=1.0)
    )  # fmt: skip


@bomb
def hdf5_many_chunks(size: int) -> Bomb:
    return hdf5(lambda file: file.create_dataset("x", (min(size, 7_900_000),), "f8", chunks=(1,), fillvalue=1.0))


@cache
def deflated_zeros() -> bytes:
    machine = zlib.compressobj(1)
    return b"".join(machine.compress(bytes(1 << 20)) for _ in range(100)) + machine.flush()


@bomb
def hdf5_inflated(size: int) -> Bomb:
    """A chunk of 32 numbers whose packed content is 100 MB; packed once, or twice."""

    def fill(file: Any) -> None:
        import h5py

        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        # HDF5 1 keeps three bytes of the packed size from 256 bytes a chunk on, and this content needs them.
        plist.set_chunk((32,))
        plist.set_deflate(9)
        if size % 2:
            plist.set_deflate(8)
        content = zlib.compress(deflated_zeros()) if size % 2 else deflated_zeros()
        shape = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, shape, plist).write_direct_chunk((0,), content)

    return hdf5(fill)


@bomb
def hdf5_attribute(size: int) -> Bomb:
    """An attribute that names one long text thousands of times."""

    def fill(file: Any) -> None:
        import h5py

        file["x"] = np.arange(4.0)
        file["x"].attrs.create("units", ["m" * 1000] * 3000, dtype=h5py.string_dtype())

    return hdf5(fill)


@bomb
def hdf5_references(size: int) -> Bomb:
    """Cells of a MATLAB file that all stand for one array."""

    def fill(file: Any) -> None:
        import h5py

        file["#refs#/a"] = np.arange(30_000.0)
        cells = file.create_dataset("x", (3000,), h5py.ref_dtype)
        cells[:] = [file["#refs#/a"].ref] * 3000

    return hdf5(fill, ".mat")


@bomb
def csv_wide(size: int) -> Bomb:
    """Short rows below one of thousands of fields."""
    return {"run.csv": b"1" + b",1" * 9000 + b"\n" + b"1\n" * min(size // 1000, 300_000)}


@bomb
def npz_lzma(size: int) -> Bomb:
    stream, header = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as archive:
        shape = (min(size, 1_000_000),)
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        archive.writestr("t.npy", header.getvalue() + bytes(8 * shape[0]))
    return {"run.npz": stream.getvalue()}


@bomb
def npz_texts(size: int) -> Bomb:
    """One text of many characters, and many names."""
    stream = io.BytesIO()
    if size % 2:
        np.savez_compressed(stream, t=np.array(["x" * 20_000_000]))
    else:
        with zipfile.ZipFile(stream, "w") as archive:
            for number in range(12_000):
                archive.writestr(f"{number}.npy", b"\x93NUMPY\x01\x00v\x00")
    return {"run.npz": stream.getvalue()}


@bomb
def matlab_structure(size: int) -> Bomb:
    """A structure without fields, or cells, of many places."""
    kind = 2 if size % 2 else 1
    flags = struct.pack("<IIII", 6, 8, kind, 0)
    dimensions = struct.pack("<IIii", 5, 8, min(size, 2**31 - 1), 1)
    name = struct.pack("<II", 1, 1) + b"x".ljust(8, b"\0")
    fields = struct.pack("<IIi4x", 5, 4, 32) + struct.pack("<II", 1, 0) if kind == 2 else b""
    inside = flags + dimensions + name + fields
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    return {"run.mat": head + struct.pack("<II", 14, len(inside)) + inside}


@bomb
def matlab_zeros(size: int) -> Bomb:
    import scipy.io

    stream = io.BytesIO()
    zeros = np.zeros(min(size // 20, 4_500_000))
    scipy.io.savemat(stream, {"t": zeros, "x": zeros}, do_compression=True)
    return {"run.mat": stream.getvalue()}


@bomb
def netcdf_repeated(size: int) -> Bomb:
    """Thousands of variables that stand for the same bytes."""
    count, length = 4000, 50_000
    head = b"CDF\x01" + struct.pack(">I", 0) + struct.pack(">III", 10, 1, 1) + b"t\0\0\0" + struct.pack(">I", length)
    head += struct.pack(">II", 0, 0) + struct.pack(">II", 11, count)
    variable = [
        struct.pack(">I", 5) + b"v%04d\0\0\0" % number + struct.pack(">IIIIII", 1, 0, 0, 0, 6, 8 * length)
        for number in range(count)
    ]
    begin = len(head) + sum(len(v) + 4 for v in variable)
    return {"run.nc": head + b"".join(v + struct.pack(">I", begin) for v in variable) + bytes(8 * length)}


@bomb
def saved_texts(size: int) -> Bomb:
    """A saved model with an array of very long texts among its facts."""
    import h5py

    facts = {"format": 1, "models": [], "noun": {"$": "array", "dtype": f"<U{min(size, 4 * 10**8)}", "shape": [1]}}
    facts["noun"]["items"] = ["a"]
    return _saved({"facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}, h5py)


@bomb
def saved_chunks(size: int) -> Bomb:
    """A saved noun whose arrays are packed."""
    import h5py

    facts = {"format": 1, "models": [], "noun": {"$": "array", "dtype": "float64", "name": "x"}}
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    return _saved({"facts": text, "x": np.zeros(min(size // 50, 4_000_000))}, h5py)


def _saved(arrays: dict[str, Any], h5py: Any) -> Bomb:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for name, values in arrays.items():
            packed = {"chunks": values.shape, "compression": "gzip"} if name != "facts" else {}
            file.create_dataset(name, data=values, **packed)
    from kapitza.saving.sealed import SEALED

    return {"noun.nc": sealed_again(stream.getvalue() + bytes(SEALED))}


def lay(made: Bomb, folder: Path) -> Path:
    """Write a bomb into a folder; returns what is to be read."""
    import os

    for name, content in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        else:
            path.write_bytes(content)
    return folder / next(iter(made)).split("/")[0]


def use(case: tuple[str, Bomb], folder: Path) -> object:
    """Read it in every way that there is."""
    import kapitza as kz
    from kapitza.errors import KapitzaError

    path = lay(case[1], folder)
    if path.name == "noun.nc":
        return str(kz.load(path))[:500]
    seen = []
    for read in (lambda: kz.read(path), lambda: kz.open_record(path).rows(0, 20), lambda: kz.inspect(path)):
        try:
            seen.append(repr(read())[:500])
        except KapitzaError as problem:
            seen.append(str(problem)[:500])
    if (folder / "owned").exists():
        raise AssertionError("a pickle ran")
    if not any(seen):
        raise AssertionError("no result and no message")
    return seen


@cache
def made_bomb(name: str, size: int) -> tuple[str, Bomb]:
    return name, BOMBS[name](size)


@st.composite
def damaged_folders(draw: st.DrawFn) -> tuple[str, Bomb]:
    """A stored recording with one of its files wounded, lost or doubled."""
    made: Bomb = dict(stored_folder(draw(st.sampled_from([".zarr", ".parquet"]))))
    path = draw(st.sampled_from(sorted(made)))
    wound = draw(st.sampled_from(["bytes", "bytes", "bytes", "lose", "pipe", "swap"]))
    if wound == "bytes":
        made[path] = draw(damaged_bytes([made[path] or b""]))
    elif wound == "lose":
        del made[path]
    elif wound == "pipe":
        made[path] = None
    else:
        other = draw(st.sampled_from(sorted(made)))
        made[path], made[other] = made[other], made[path]
    return "damaged", made


declared = st.sampled_from([10**9, 10**9 + 1, 2**31 - 1, 10**8])
register("stores: bombs", st.builds(made_bomb, st.sampled_from(sorted(BOMBS)), declared), use, 0.5)
register("stores: damaged folders", st.deferred(damaged_folders), use, 1.0)
