"""Columns from files of named arrays: parquet, HDF5, MATLAB v5 and v7.3, npz.

Nothing here unpickles: a file is data, never code.

The libraries of the containers are imported where they are used: they cost 40 MB that most sessions do not need.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from kapitza.data.columns import METADATA, SEGMENT_NAMES, TIME_NAMES, Columns, Key, Wanted, numeric, parse_metadata
from kapitza.errors import DataError, nearest_name

Variable = NDArray[Any] | list[NDArray[Any]]


def read_variables(path: str | Path) -> dict[str, Variable]:
    """Every numeric array of a .mat, .h5, .hdf5 or .npz file by name; a MATLAB cell array is a list of arrays.

    Members of structures and groups are named with dots and slashes: "run.t", "run1/t".
    """
    import h5py

    path = Path(path)
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz":
            found = npz_variables(path)
        elif h5py.is_hdf5(path):
            found = hdf5_variables(path)
        elif suffix == ".mat":
            found = matlab_variables(path)
        else:
            raise DataError(f"{path.name} is not an HDF5 file: it may be damaged, or another format.")
    except (OSError, ValueError, KeyError, NotImplementedError, scipy.io.matlab.MatReadError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{path.name} cannot be read as {suffix}: {problem}.") from problem
    found.pop(METADATA, None)
    if not found:
        raise DataError(f"{path.name} holds no arrays of numbers.")
    return found


def npz_variables(path: Path) -> dict[str, Variable]:
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path.name} is not an npz archive: it may be damaged, or another format.")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return {name: array for name, array in arrays.items() if numeric(array)}


def matlab_variables(path: Path) -> dict[str, Variable]:
    found: dict[str, Variable] = {}

    def collect(name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            return
        if value.dtype.names and value.size == 1:
            for member in value.dtype.names:
                collect(f"{name}.{member}", value[member].ravel()[0])
        elif value.dtype == object:
            pieces = [piece for piece in value.ravel(order="F") if isinstance(piece, np.ndarray) and numeric(piece)]
            if pieces:
                found[name] = pieces
        elif numeric(value):
            found[name] = value

    for name, value in scipy.io.loadmat(path).items():
        if not name.startswith("__"):
            collect(name, value)
    return found


def hdf5_variables(path: Path) -> dict[str, Variable]:
    """Datasets by path. MATLAB v7.3 stores arrays transposed, and cells as references into "#refs#"."""
    import h5py

    found: dict[str, Variable] = {}
    with h5py.File(path, "r") as file:

        def collect(name: str, item: Any) -> None:
            if not isinstance(item, h5py.Dataset) or name.startswith("#"):
                return
            from_matlab = "MATLAB_class" in item.attrs
            if item.dtype == h5py.ref_dtype:
                pieces = [file[reference] for reference in np.asarray(item[()]).ravel()]
                found[name] = [np.asarray(p[()]).T for p in pieces if isinstance(p, h5py.Dataset)]
            elif item.dtype.kind in "fiub" and item.attrs.get("MATLAB_class", b"double") != b"char":
                array = np.asarray(item[()])
                found[name] = array.T if from_matlab else array

        file.visititems(collect)
    return found


def file_metadata(path: Path) -> Mapping[str, Any]:
    """What `write` left about units, angles, noise and period, {} when another program wrote the file."""
    import h5py
    import pyarrow.parquet as pq

    text = ""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            text = str(archive[METADATA]) if METADATA in archive.files else ""
    elif suffix == ".parquet":
        text = (pq.read_schema(path).metadata or {}).get(METADATA.encode(), b"").decode()
    elif h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            text = str(file.attrs.get(METADATA, ""))
    elif suffix == ".mat":
        stored = scipy.io.loadmat(path, variable_names=[METADATA]).get(METADATA)
        text = str(stored.ravel()[0]) if isinstance(stored, np.ndarray) and stored.size == 1 else ""
    return parse_metadata(text)


def read_parquet(path: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise DataError(f"{path.name} cannot be read as parquet: {problem}.") from problem
    metadata = file_metadata(path)
    values = tuple(column.to_numpy() for column in table.columns)
    facts, attributes = metadata.get("channels", {}), metadata.get("attributes", {})
    return Columns(tuple(table.column_names), values, facts=facts, attributes=attributes)


def read_container(path: Path, wanted: Wanted) -> tuple[Columns, dict[str, str] | None]:
    """Columns from named arrays, and the channels asked for in terms of these columns.

    The time variable sets the number of samples; arrays of other lengths are left out unless asked for. An array with
    several columns (or rows) becomes several columns NAME_0, NAME_1, … or those named: channels={"Y": ["phi", "v"]}.
    """
    time, channels, segment = wanted.time, wanted.channels, wanted.segment
    variables, metadata = read_variables(path), file_metadata(path)
    original = {stored: name for name, stored in metadata.get("variables", {}).items()}
    variables = {original.get(name, name): value for name, value in variables.items()}
    time_name = usual_name(variables, TIME_NAMES) if time is None else known_variable(variables, time, path)
    segment_name = usual_name(variables, SEGMENT_NAMES) if segment is None else known_variable(variables, segment, path)
    if wanted.interval is not None:
        time_name = None
    elif time_name is None:
        raise DataError(
            f"{path.name}: none of {', '.join(variables)} is called time: name it with "
            'time="...", or give the sampling interval in seconds, interval=...'
        )
    lengths = piece_lengths(variables, time_name, channels, path)
    chosen: dict[str, Any] = dict.fromkeys(variables)
    if channels is not None:
        chosen = chosen_variables(variables, channels, path)
    helpers = {name: None for name in (time_name, segment_name) if name is not None and name not in chosen}
    names, values, asked, facts = [], [], {}, {}
    for name, new in {**chosen, **helpers}.items():
        required = name == time_name or (channels is not None and name in chosen)
        stacked = stack(name, variables[name], lengths, path, required)
        if stacked is None:
            continue
        own = column_names(name, stacked.shape[1], new)
        names += own
        values += list(stacked.T)
        facts |= dict.fromkeys(own, metadata.get("channels", {}).get(name, {}))
        if name not in helpers:
            asked |= {column: column for column in own}
    sections = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    columns = Columns(tuple(names), tuple(values), sections, facts, metadata.get("attributes", {}))
    return columns, (None if channels is None else asked)


def usual_name(variables: Mapping[str, Variable], usual: Sequence[str]) -> str | None:
    """The first variable whose name, groups apart, is one of the usual ones."""
    last = {name.replace("/", ".").rpartition(".")[2].lower(): name for name in reversed(list(variables))}
    return next((last[name] for name in usual if name in last), None)


def known_variable(variables: Mapping[str, Variable], key: Key, path: Path) -> str:
    if isinstance(key, int):
        raise DataError(f"{path.name} holds named arrays: choose by name ({', '.join(variables)}), not by position.")
    if key not in variables:
        hint = nearest_name(key, variables)
        raise DataError(f'{path.name} has no variable "{key}"; it has {", ".join(variables)}.{hint}')
    return key


def chosen_variables(variables: Mapping[str, Variable], channels: Any, path: Path) -> dict[str, Any]:
    if isinstance(channels, str):
        raise DataError(f'channels is a list of names: channels=["{channels}"].')
    pairs = channels.items() if isinstance(channels, Mapping) else [(key, None) for key in channels]
    return {known_variable(variables, key, path): new for key, new in pairs}


def piece_lengths(variables: Mapping[str, Variable], time_name: str | None, channels: Any, path: Path) -> list[int]:
    """Number of samples of each piece: from the time, else from the (first) variable asked for or the longest."""
    if time_name is not None:
        times = variables[time_name]
        return [piece.size for piece in (times if isinstance(times, list) else [times])]
    if channels:
        leading = variables[next(iter(chosen_variables(variables, channels, path)))]
    else:
        leading = max(variables.values(), key=lambda v: sum(p.size for p in v) if isinstance(v, list) else v.size)
    return [max(piece.shape, default=1) for piece in (leading if isinstance(leading, list) else [leading])]


def stack(name: str, value: Variable, lengths: Sequence[int], path: Path, required: bool) -> NDArray[Any] | None:
    """Pieces one below the other, samples along the first axis; None when the lengths do not fit."""
    pieces = value if isinstance(value, list) else [value]
    matrices = [piece.reshape(-1, 1) if piece.ndim < 2 or piece.size in piece.shape else piece for piece in pieces]
    turned = [m if m.shape[0] == n else m.T for m, n in zip(matrices, lengths, strict=False)]
    fits = len(pieces) == len(lengths) and all(
        m.ndim == 2 and m.shape[0] == n and m.shape[1] == turned[0].shape[1]
        for m, n in zip(turned, lengths, strict=True)
    )
    if fits:
        return np.concatenate(turned)
    if not required:
        return None
    shapes = ", ".join(str(piece.shape) for piece in pieces[:3]) + (", …" if len(pieces) > 3 else "")
    raise DataError(
        f'{path.name}: "{name}" ({len(pieces)} piece{"s" if len(pieces) > 1 else ""} of shape {shapes}) does not fit '
        f"the time, which has {len(lengths)} of {', '.join(map(str, lengths[:3]))}{', …' if len(lengths) > 3 else ''} "
        "samples: choose the time that belongs to it."
    )


def column_names(name: str, count: int, new: Any) -> list[str]:
    if new is None:
        return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    given = [new] if isinstance(new, str) else list(new)
    if len(given) != count:
        raise DataError(f'"{name}" has {count} columns: give {count} names for it, not {len(given)}.')
    return given
