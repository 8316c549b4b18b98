"""Files of each format: clean, long, damaged, empty, with counts that are too large, with hostile channel names."""

from __future__ import annotations

import io
import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from tests.hostile.damage import damaged_bytes
from tests.hostile.family import register
from tests.hostile.recordings import use

FAMILY = "recordings: formats"
FORMATS = (".csv", ".parquet", ".mat", ".h5", ".npz", ".xlsx", ".tdms", ".uff", ".wav", ".mf4", ".mcap")
STATES = ("clean", "long", "damaged", "empty", "overstated", "names")
COUNT = 1009
"""Samples of a short file: a prime, so that its bytes are found again as a count."""

LONG = {".xlsx": 10_000, ".mcap": 10_000}
"""Samples of a long file where its library takes a second for as many; 50,000 elsewhere."""


def wave(count: int) -> np.ndarray:
    return np.sin(0.03 * np.arange(count))


@cache
def made(suffix: str, name: str = "x", count: int = COUNT) -> bytes:
    """A file with one channel of a name, made by the library of its format."""
    from tests.data.test_lab_names import MAKERS

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run{suffix}"
        if suffix == ".mcap":
            write_bag(path, name, wave(count))
        elif suffix in MAKERS:
            MAKERS[suffix](path, name, wave(count))
        else:
            write_table(path, name, wave(count))
        return path.read_bytes()


def write_table(path: Path, name: str, values: np.ndarray) -> None:
    import h5py
    import pandas as pd
    import scipy.io
    from scipy.io import wavfile

    time = np.arange(values.size) / 1000
    if path.suffix == ".csv":
        pd.DataFrame({"time": time, name: values}).to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pd.DataFrame({"time": time, name: values}).to_parquet(path)
    elif path.suffix == ".mat":
        word = name.encode("ascii", "replace").decode()[:31]
        scipy.io.savemat(path, {"time": time, word: values})
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["time"], file[name] = time, values
    elif path.suffix == ".npz":
        np.savez(path, **{"time": time, name: values})
    else:
        wavfile.write(path, 1000, np.round(32767 * values).astype(np.int16))
        # The title of a sound is the one name that it has.
        title = name.encode() + bytes(2 - len(name.encode()) % 2)
        inside = b"INFOINAM" + struct.pack("<I", len(title)) + title
        content = path.read_bytes() + b"LIST" + struct.pack("<I", len(inside)) + inside
        path.write_bytes(content[:4] + struct.pack("<I", len(content) - 8) + content[8:])


def write_bag(path: Path, name: str, values: np.ndarray) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types, kind = store.types, "sensor_msgs/msg/JointState"
    with Writer(path.parent / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/joints", kind, typestore=store)
        for k, value in enumerate(values.tolist()):
            stamp = types["builtin_interfaces/msg/Time"](sec=k // 1000, nanosec=k % 1000 * 1_000_000)
            header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            none = np.zeros(0)
            message = types[kind](header=header, name=[name], position=np.array([value]), velocity=none, effort=none)
            writer.write(connection, 1_000_000 * k, store.serialize_cdr(message, kind))
    next((path.parent / "bag").glob("*.mcap")).rename(path)


def overstated(suffix: str, size: int) -> bytes:
    """The file with every number that may be a count of its samples replaced by `size`."""
    if suffix == ".xlsx":
        from openpyxl import Workbook

        book, stream = Workbook(), io.BytesIO()
        for row in (("time [s]", "x"), (0.0, 1.0), (0.1, 2.0)):
            book.active.append(row)
        book.active.cell(min(size, 1_048_576), 16_384, 1.0)
        book.save(stream)
        return stream.getvalue()
    content = made(suffix)
    for count in (COUNT, 8 * COUNT, 2 * COUNT):
        content = content.replace(struct.pack("<Q", count), struct.pack("<Q", size))
        content = content.replace(struct.pack("<I", count), struct.pack("<I", size % 2**32))
        content = content.replace(b" %d " % count, b" %d " % size)
    return content


@st.composite
def files(draw: st.DrawFn) -> tuple[tuple[str, bytes], str]:
    """A file and the state it is in."""
    from tests.data.test_lab_names import NAMES

    suffix, state = draw(st.sampled_from([(suffix, state) for suffix in FORMATS for state in STATES]))
    if state == "clean":
        content = made(suffix)
    elif state == "long":
        content = made(suffix, count=LONG.get(suffix, 50_000))
    elif state == "damaged":
        content = draw(damaged_bytes([made(suffix)]))
    elif state == "empty":
        # 40 bytes of a text are its header and two rows.
        content = made(suffix)[: draw(st.sampled_from([0, 1, 4, 16] if suffix == ".csv" else [0, 1, 4, 16, 40]))]
    elif state == "overstated":
        content = overstated(suffix, draw(st.sampled_from([10**6, 2**31 - 1, 2**32 - 8, 10**12, 2**63 - 1])))
    else:
        content = made(suffix, draw(st.sampled_from(NAMES)))
    return (suffix, content), state


def act(case: tuple[tuple[str, bytes], str], folder: Path) -> object:
    """Read and write the file; a whole one must come back with every sample, an empty one must be refused."""
    import kapitza as kz

    (suffix, content), state = case
    if state in ("clean", "long"):
        path = folder / f"whole{suffix}"
        path.write_bytes(content)
        record = kz.read(path)
        count = COUNT if state == "clean" else LONG.get(suffix, 50_000)
        if record.size != count or not np.allclose(record.values()[:, 0], wave(count), atol=1e-4):
            raise AssertionError(f"{record} is not what the file holds")
    shown = use(((suffix, content), {}), folder)
    if state == "empty":
        raise AssertionError(f"a file of {len(content)} bytes was read: {shown}")
    return shown


register(FAMILY, files(), act, 1.5)
