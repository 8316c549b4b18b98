"""write: a record to a file that `read` gives back unchanged.

The libraries of the containers are imported where they are used: they cost 40 MB that most sessions do not need.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io

from kapitza.data.columns import METADATA
from kapitza.data.record import Record
from kapitza.errors import DataError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
WRITABLE = (*SEPARATORS, ".parquet", ".h5", ".hdf5", ".mat", ".npz")


def write(record: Record, path: str | Path, matlab: str = "5") -> Path:
    """Write a record as csv, tsv, txt, parquet, HDF5, MATLAB or npz; the suffix decides. Returns the path.

    The file appears complete or not at all. Units, angles, noise and the excitation travel along.
    matlab: "5", or "7.3" (HDF5 inside; needed above 2 GB). MATLAB names cannot hold a prime: phi' is stored
        as phi_rate.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in WRITABLE:
        raise DataError(f'{path.name}: the suffix "{suffix}" is not known; write one of {", ".join(WRITABLE)}.')
    if matlab not in ("5", "7.3"):
        raise DataError(f'MATLAB files are written in version "5" or "7.3", not "{matlab}".')
    clash = {"time", "segment", METADATA} & set(record.channels)
    if clash:
        raise DataError(f"A channel may not be called {', '.join(sorted(clash))} in a file: rename it first.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        if suffix in SEPARATORS:
            write_text(record, draft, SEPARATORS[suffix])
        elif suffix == ".parquet":
            write_parquet(record, draft)
        elif suffix == ".mat" and matlab == "7.3":
            write_matlab_hdf5(record, draft)
        elif suffix == ".mat":
            write_matlab(record, draft)
        elif suffix == ".npz":
            write_npz(record, draft)
        else:
            write_hdf5(record, draft)
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft beside the file that takes its place only when it is complete."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        draft.chmod(0o666 & ~current_mask())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def current_mask() -> int:
    """The user's mask for new files (it can only be read by setting it)."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def metadata(record: Record, **more: Any) -> str:
    """Units, angles, noise, period and further attributes as JSON."""

    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        return value if isinstance(value, str | int | float | bool) else str(value)

    channels = {name: {k: plain(v) for k, v in record.dataset[name].attrs.items()} for name in record.channels}
    attributes = {str(key): plain(value) for key, value in record.dataset.attrs.items()}
    return json.dumps({"channels": channels, "attributes": attributes, **more}, ensure_ascii=True)


def arrays(record: Record) -> dict[str, Any]:
    """Time, segment and channels by name."""
    columns = {"time": record.time, "segment": record.dataset["segment"].values}
    return columns | {name: record[name] for name in record.channels}


def write_text(record: Record, path: Path, separator: str) -> None:
    units = record.units
    header = ["time [s]", "segment", *(f"{n} [{units[n]}]" if units[n] else n for n in record.channels)]
    for name in header:
        if separator in name or "\n" in name:
            raise DataError(f'The name "{name}" holds the separator: rename the channel, or write another format.')
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(f"# {METADATA}: {metadata(record)}\n")
        stream.write(separator.join(header) + "\n")
        # 17 significant digits bring every float back exactly
        pd.DataFrame(arrays(record)).to_csv(stream, sep=separator, header=False, index=False, float_format="%.17g")


def write_parquet(record: Record, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(arrays(record)).replace_schema_metadata({METADATA: metadata(record)})
    pq.write_table(table, path)


def write_hdf5(record: Record, path: Path) -> None:
    import h5py

    if any("/" in name for name in record.channels):
        raise DataError('HDF5 names cannot hold "/": rename the channel first.')
    with h5py.File(path, "w") as file:
        file.attrs[METADATA] = metadata(record)
        for name, values in arrays(record).items():
            file.create_dataset(name, data=values)
        for name, unit in {"time": "s", **record.units}.items():
            file[name].attrs["unit"] = unit


def write_npz(record: Record, path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays(record), **{METADATA: np.array(metadata(record))})


def matlab_names(record: Record) -> dict[str, str]:
    """Channel → MATLAB identifier: phi'' becomes phi_rate_rate, anything else outside [A-Za-z0-9_] an underscore."""
    names: dict[str, str] = {}
    for name in record.channels:
        clean = re.sub(r"[^A-Za-z0-9_]", "_", name.replace("'", "_rate"))
        clean = clean if clean[:1].isalpha() else f"x{clean}"
        while clean in {*names.values(), "time", "segment", METADATA}:
            clean += "_"
        names[name] = clean
    return names


def matlab_arrays(record: Record) -> tuple[dict[str, Any], str]:
    names = matlab_names(record)
    columns = {names.get(name, name): np.asarray(values).reshape(-1, 1) for name, values in arrays(record).items()}
    return columns, metadata(record, variables=names)


def write_matlab(record: Record, path: Path) -> None:
    columns, about = matlab_arrays(record)
    scipy.io.savemat(path, {**columns, METADATA: about}, long_field_names=True)


def write_matlab_hdf5(record: Record, path: Path) -> None:
    """MATLAB v7.3: HDF5 behind a header of 512 bytes, arrays transposed, each marked with its class."""
    import h5py

    columns, about = matlab_arrays(record)
    with h5py.File(path, "w", userblock_size=512) as file:
        file.attrs[METADATA] = about
        for name, values in columns.items():
            dataset = file.create_dataset(name, data=values.T)
            dataset.attrs["MATLAB_class"] = np.bytes_("int32" if values.dtype == np.int32 else "double")
    text = b"MATLAB 7.3 MAT-file, written by Kapitza HDF5 schema 1.00 ."
    with path.open("r+b") as stream:
        # 116 bytes of text, 8 unused, version 0x0200 and the mark of little-endian order
        stream.write(text.ljust(116) + bytes(8) + b"\x00\x02IM")
