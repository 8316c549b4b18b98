"""write: store a record without loss.

`read` returns the record unchanged.

The libraries of the containers are imported where they are used: they cost 40 MB that most sessions do not need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Numbers
from kapitza.base.csv_tables import harmless, harmless_json
from kapitza.base.files import replacing
from kapitza.base.suffixes import SEPARATORS, WRITABLE
from kapitza.data.appending import append_parquet, write_zarr
from kapitza.data.columns import METADATA
from kapitza.data.formats import write_uff
from kapitza.data.record import Record
from kapitza.errors import DataError

if TYPE_CHECKING:
    from h5py import File


def write(record: Record, path: str | Path, matlab: str = "5", append: bool = False) -> Path:
    """Write a record into a file.

    The suffix decides how: text, parquet, zarr, HDF5, MATLAB, npz or UFF.

    The file appears complete or not at all. Units, angles, noise and the excitation travel along (units alone
    into UFF, which holds evenly sampled records of one segment).

    Parameters
    ----------
    record : Record
        What to write.
    path : path
        Where; csv, tsv, txt, parquet, zarr (a folder), h5, hdf5, mat, npz or uff.
    matlab : str
        "5", or "7.3" (HDF5 inside; needed above 2 GB). MATLAB names cannot hold a prime: phi' is stored as phi_rate.
    append : bool
        Put the record behind those that are there: into a .zarr folder, or as one more part into a .parquet folder.
        Times that go on within one and a half sampling intervals continue the last segment. `open_record` reads
        such recordings part by part.

    Returns
    -------
    Path
        Of the file.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> record = kz.simulate(kz.library.duffing(), periods=10)
    >>> path = kz.write(record, pathlib.Path(tempfile.mkdtemp()) / "run.parquet")
    >>> bool((kz.read(path).values() == record.values()).all())
    True
    """
    path = checks.path("The file to write", path, error=DataError)
    suffix = path.suffix.lower()
    if suffix not in WRITABLE:
        raise DataError(f'{path.name}: the suffix "{suffix}" is not known; write one of {", ".join(WRITABLE)}.')
    if matlab not in ("5", "7.3"):
        raise DataError(f'MATLAB files are written in version "5" or "7.3", not "{matlab}".')
    if append and suffix not in (".zarr", ".parquet"):
        raise DataError(f'{path.name}: appending needs a .zarr or a .parquet folder, not "{suffix}".')
    if suffix == ".zarr":
        names = stored_names(record)
        write_zarr(record, path, append, metadata(record, variables=names), arrays(record, names))
        return path
    if append:
        append_parquet(record, path, write_parquet)
        return path
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
        elif suffix == ".uff":
            write_uff(record, draft)
        else:
            write_hdf5(record, draft)
    return path


def metadata(record: Record, **more: Mapping[str, str]) -> str:
    """Return the metadata of a record as JSON.

    Units, angles, noise, period and further attributes; the channels are in their order.
    """

    def plain(value: object) -> str | float:
        value = cast("np.generic[Any]", value).item() if isinstance(value, np.generic) else value
        return value if isinstance(value, str | int | float | bool) else str(value)

    channels = {
        name: {k: plain(v) for k, v in column.attrs.items()} for name, column in record.content.channels.items()
    }
    attributes = {str(key): plain(value) for key, value in record.content.attrs.items()}
    return json.dumps({"channels": channels, "attributes": attributes, **more}, ensure_ascii=True)


def arrays(record: Record, names: Mapping[str, str] | None = None) -> dict[str, Numbers]:
    """Return time, segment and channels by name.

    The names are their own or those given.
    """
    columns: dict[str, Numbers] = {"time": record.time, "segment": record.content.segment}
    return columns | {(names or {}).get(name, name): record[name] for name in record.channels}


def stored_names(record: Record) -> dict[str, str]:
    """Return the names of the channels in a file.

    A name is replaced where containers cannot hold it (slashes, #, "file").
    """
    taken = {"time", "segment", METADATA}
    names: dict[str, str] = {}
    for number, name in enumerate(record.channels):
        harmless = re.fullmatch(r"[^\W\d][\w' .()\[\]-]{0,80}", name) and name.rstrip(" .") == name
        stored = name if harmless and name not in ("file", "allow_pickle") else f"channel_{number}"
        while stored in taken:
            stored += "_"
        names[name] = stored
        taken.add(stored)
    return names


def write_text(record: Record, path: Path, separator: str) -> None:
    import pandas as pd

    units = record.units
    # The names as they are stand in the metadata; the header is for people and other programs.
    header = ["time [s]", "segment", *(f"{n} [{units[n]}]" if units[n] else n for n in record.channels)]
    # A spreadsheet may take any of , ; and tab for the separator.
    header = [re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\",;]", "_", name) for name in header]
    header = [harmless(name) for name in header]
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(f"# {METADATA}: {harmless_json(metadata(record))}\n")
        stream.write(separator.join(header) + "\n")
        # 17 significant digits bring every float back exactly
        pd.DataFrame(arrays(record)).to_csv(stream, sep=separator, header=False, index=False, float_format="%.17g")


def write_parquet(record: Record, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = stored_names(record)
    table = pa.table(arrays(record, names)).replace_schema_metadata({METADATA: metadata(record, variables=names)})
    pq.write_table(table, path)


def write_hdf5(record: Record, path: Path) -> None:
    import h5py

    names = stored_names(record)
    with h5py.File(path, "w", track_order=True) as file:
        write_hdf5_text(file, metadata(record, variables=names))
        for name, values in arrays(record, names).items():
            file.create_dataset(name, data=values)
        for name, unit in {"time": "s", **record.units}.items():
            file[names.get(name, name)].attrs["unit"] = printable(unit)


def write_hdf5_text(file: File, about: str) -> None:
    """Store the metadata as a dataset of bytes.

    An attribute holds 64 KB at most.
    """
    file.create_dataset(METADATA, data=np.frombuffer(about.encode("ascii"), np.uint8))


def printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "")


def write_npz(record: Record, path: Path) -> None:
    names = stored_names(record)
    about = np.frombuffer(metadata(record, variables=names).encode("ascii"), np.uint8)
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays(record, names), **{METADATA: about})


def matlab_names(record: Record) -> dict[str, str]:
    """Return the MATLAB identifiers of the channels.

    phi'' becomes phi_rate_rate; any other character outside [A-Za-z0-9_] becomes an underscore.
    """
    taken = {"time", "segment", METADATA}
    names: dict[str, str] = {}
    for name in record.channels:
        clean = re.sub(r"[^A-Za-z0-9_]", "_", name.replace("'", "_rate"))[:50]
        clean = clean if clean[:1].isalpha() else f"x{clean}"
        number = 1
        stored = clean
        while stored in taken:
            number += 1
            stored = f"{clean}_{number}"
        names[name] = stored
        taken.add(stored)
    return names


def matlab_arrays(record: Record) -> tuple[dict[str, Numbers], str]:
    names = matlab_names(record)
    columns = {name: np.asarray(values).reshape(-1, 1) for name, values in arrays(record, names).items()}
    return columns, metadata(record, variables=names)


def write_matlab(record: Record, path: Path) -> None:
    import scipy.io

    columns, about = matlab_arrays(record)
    scipy.io.savemat(path, {**columns, METADATA: about}, long_field_names=True)


def write_matlab_hdf5(record: Record, path: Path) -> None:
    """Write a record as MATLAB v7.3.

    It is HDF5 behind a header of 512 bytes, arrays transposed, each marked with its class.
    """
    import h5py

    columns, about = matlab_arrays(record)
    with h5py.File(path, "w", userblock_size=512, track_order=True) as file:
        write_hdf5_text(file, about)
        file[METADATA].attrs["MATLAB_class"] = np.bytes_("uint8")
        for name, values in columns.items():
            dataset = file.create_dataset(name, data=values.T)
            dataset.attrs["MATLAB_class"] = np.bytes_("int32" if values.dtype == np.int32 else "double")
    text = b"MATLAB 7.3 MAT-file, written by Kapitza HDF5 schema 1.00 ."
    with path.open("r+b") as stream:
        # 116 bytes of text, 8 unused, version 0x0200 and the mark of little-endian order
        stream.write(text.ljust(116) + bytes(8) + b"\x00\x02IM")
