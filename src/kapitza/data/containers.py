"""Columns from files of named arrays: parquet, HDF5, NetCDF, MATLAB v5 and v7.3, npz.

Nothing here unpickles, follows a path out of the file or believes a declared size: a file is data, never code.

The libraries of the containers are imported where they are used: they cost 40 MB that most sessions do not need.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from kapitza.data.columns import (
    METADATA,
    SEGMENT_NAMES,
    TIME_NAMES,
    Columns,
    Key,
    Metadata,
    Wanted,
    listed,
    numeric,
    parse_metadata,
)
from kapitza.data.matlab5 import check_structure
from kapitza.errors import DataError, KapitzaError, nearest_name

Variable = NDArray[Any] | list[NDArray[Any]]

FLOOR = 64_000_000  # bytes
RATIO = 200
"""A file may unpack to FLOOR bytes, or to RATIO times its own size: more is damage, or made to fill the memory."""

MOST_ARRAYS = 10_000


@dataclass
class Contents:
    """What a container holds: arrays by name, units that it states, what `write` left."""

    arrays: dict[str, Variable] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)

    def add(self, name: str, value: Variable, path: Path) -> None:
        if len(self.arrays) >= MOST_ARRAYS:
            raise DataError(f"{path.name} holds more than {MOST_ARRAYS} arrays: it is no recording.")
        self.arrays[name] = value


def read_variables(path: str | Path) -> dict[str, Variable]:
    """Every numeric array of a .mat, .h5, .hdf5, .nc or .npz file by name; a MATLAB cell array is a list of arrays.

    Members of structures and groups are named with dots and slashes: "run.t", "run1/t".
    """
    return read_contents(Path(path)).arrays


def read_contents(path: Path) -> Contents:
    suffix = path.suffix.lower()
    found = guarded(path, suffix, lambda: _contents(path, suffix))
    if not found.arrays:
        raise DataError(f"{path.name} holds no arrays of numbers.")
    return found


def guarded(path: Path, suffix: str, reading: Callable[[], Any]) -> Any:
    """The result of a reading. The libraries raise whatever they please on damaged files: any of it is one message."""
    try:
        return reading()
    except KapitzaError:
        raise
    except MemoryError as problem:
        raise DataError(f"{path.name} does not fit into the memory.") from problem
    except Exception as problem:
        why = str(problem).strip().rstrip(".") or type(problem).__name__
        raise DataError(f"{path.name} cannot be read as {suffix}: {why[:200]}. It may be damaged.") from problem


def check_size(path: Path, numbers: int) -> None:
    """Refuse a file that would unpack to far more than it holds."""
    own = path.stat().st_size
    if 8 * numbers > max(FLOOR, RATIO * own):
        raise DataError(
            f"{path.name} ({own} bytes) declares {numbers:.3g} numbers, {8e-6 * numbers:.3g} MB: no recording packs so "
            f"well (allowed is {RATIO} times the file). It is damaged, or made to fill the memory."
        )


def _contents(path: Path, suffix: str) -> Contents:
    import h5py

    if suffix == ".npz":
        return npz_contents(path)
    if h5py.is_hdf5(path):
        return hdf5_contents(path)
    if suffix == ".mat":
        return matlab_contents(path)
    if suffix == ".nc":
        return netcdf_contents(path)
    raise DataError(f"{path.name} is not an HDF5 file: it may be damaged, or another format.")


def npz_contents(path: Path) -> Contents:
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path.name} is not an npz archive: it may be damaged, or another format.")
    found, total = Contents(), 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                shape, dtype = array_header(stream, path)
            count = 1
            for length in shape:
                count *= int(length)
            if count * dtype.itemsize > member.file_size:
                raise DataError(f"{path.name}: {member.filename} declares {shape} numbers and holds fewer: damaged.")
            total += count
            check_size(path, total)
            with archive.open(member) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
            name = member.filename.removesuffix(".npy")
            if name == METADATA:
                found.metadata = parse_metadata(stored_text(array))
            elif numeric(array) or array.dtype.kind in "mM":
                found.add(name, array, path)
    return found


def array_header(stream: Any, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that a stored array declares."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{path.name} holds arrays in version {version} of the npy format: save them again as 1.0.")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise DataError(f"{path.name} cannot be read: it holds pickled objects, which are code, not data.")
    return shape, dtype


def stored_text(value: Any) -> str:
    """Metadata as text: from bytes, or from text itself."""
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return array.tobytes().decode("ascii", "replace")
    return str(array.ravel()[0]) if array.size == 1 else ""


def netcdf_contents(path: Path) -> Contents:
    """The classic format; version 4 is HDF5."""
    found = Contents()
    with scipy.io.netcdf_file(path, "r", mmap=False) as file:
        for name, variable in file.variables.items():
            array = np.array(variable.data)
            if numeric(array):
                found.add(name, array.astype(array.dtype.newbyteorder("=")), path)
                found.units[name] = unit_text(getattr(variable, "units", ""))
    return found


def unit_text(value: Any) -> str:
    """A unit stored as an attribute; "seconds since 2020-01-01" is in seconds."""
    value = value.ravel()[0] if isinstance(value, np.ndarray) and value.size == 1 else value
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return str(text).partition(" since ")[0].strip() if isinstance(text, str) else ""


def matlab_contents(path: Path) -> Contents:
    found = Contents()

    def collect(name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            return
        if value.dtype.names and value.size == 1:
            for member in value.dtype.names:
                collect(f"{name}.{member}" if name else member, value[member].ravel()[0])
        elif value.dtype == object:
            pieces = [piece for piece in value.ravel(order="F") if isinstance(piece, np.ndarray) and numeric(piece)]
            if pieces:
                found.add(name, pieces, path)
        elif value.dtype.kind == "U" and value.size == 1:
            texts[name] = str(value.ravel()[0])
        elif numeric(value):
            found.add(name, value, path)

    texts: dict[str, str] = {}
    if scipy.io.matlab.matfile_version(path)[0] == 1:
        check_structure(path, max(FLOOR, RATIO * path.stat().st_size))
    check_size(path, sum(int(np.prod(shape, dtype=object)) for _, shape, _ in scipy.io.whosmat(path)))
    for name, value in scipy.io.loadmat(path).items():
        if not name.startswith("__"):
            collect(name, value)
    found.metadata = parse_metadata(texts.pop(METADATA, ""))
    found.units = units_among(texts, found.arrays)
    return found


def units_among(texts: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, str]:
    """Units from fields of text: units.t beside t, run.units.t beside run.t."""
    units = {}
    for name in arrays:
        group, _, own = name.rpartition(".")
        places = [f"{group}.{key}.{own}".lstrip(".") for key in ("units", "unit")]
        text = next((texts[place] for place in places if place in texts), "")
        if text:
            units[name] = text.strip()
    return units


def hdf5_contents(path: Path) -> Contents:
    """Datasets by path. MATLAB v7.3 stores arrays transposed, and cells as references into "#refs#"."""
    import h5py

    found, texts, total = Contents(), {}, 0
    with h5py.File(path, "r") as file:
        from_matlab = path.suffix.lower() == ".mat"

        def array(item: h5py.Dataset) -> NDArray[Any]:
            nonlocal total
            refuse_other_files(item, path)
            total += item.size or 0
            check_size(path, total)
            value = np.asarray(item[()])
            return value.T if "MATLAB_class" in item.attrs or from_matlab else value

        def collect(name: str, item: Any) -> None:
            if not isinstance(item, h5py.Dataset) or item.shape is None or name.split("/")[0] in ("#refs#", METADATA):
                return
            kind = item.attrs.get("MATLAB_class", b"")
            if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
                pieces = [file[reference] for reference in np.asarray(array(item)).ravel(order="F") if reference]
                arrays = [array(p) for p in pieces if isinstance(p, h5py.Dataset) and p.dtype.kind in "fiub"]
                if arrays:
                    found.add(name, arrays, path)
            elif item.dtype.kind in "fiub" and kind == b"char":
                texts[name.replace("/", ".")] = "".join(chr(c) for c in array(item).ravel(order="F")[:200])
            elif item.dtype.kind in "fiub":
                found.add(name, array(item), path)
                found.units[name] = unit_text(item.attrs.get("units", item.attrs.get("unit", "")))

        refuse_links_out(file, path)
        file.visititems(collect)
        about = file.get(METADATA)
        text = array(about) if isinstance(about, h5py.Dataset) else file.attrs.get(METADATA, "")
        found.metadata = parse_metadata(stored_text(text))
    dotted = {name.replace("/", "."): name for name in found.arrays}
    found.units |= {dotted[name]: unit for name, unit in units_among(texts, dotted).items()}
    return found


def refuse_other_files(item: Any, path: Path) -> None:
    """A dataset may say that its numbers lie in another file, any file of the computer: that is not followed."""
    if item.external or item.is_virtual:
        kind = "in another file (external storage)" if item.external else "in other files (a virtual dataset)"
        raise DataError(f'{path.name}: the numbers of "{item.name}" lie {kind}, which is not followed: copy them in.')


def refuse_links_out(file: Any, path: Path) -> None:
    """A name may stand for a dataset of another file: neither followed nor passed over without a word."""
    import h5py

    def name_of(name: str, link: Any) -> str | None:
        return name if isinstance(link, h5py.ExternalLink) else None

    # An exception does not pass the visit: it ends at the first name that comes back.
    found = file.visititems_links(name_of)
    if found is not None:
        name = found if isinstance(found, str) else found.decode("utf-8", "replace")
        raise DataError(f'{path.name}: "{name}" is a link to another file, which is not followed: copy the numbers in.')


def read_parquet(path: Path) -> Columns:
    return guarded(path, ".parquet", lambda: _parquet(path))


def _parquet(path: Path) -> Columns:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if file.metadata.num_columns > MOST_ARRAYS:
            raise DataError(f"{path.name} has {file.metadata.num_columns} columns, more than a recording has.")
        check_size(path, file.metadata.num_rows * file.metadata.num_columns)
        table = file.read()
    stored = (table.schema.metadata or {}).get(METADATA.encode(), b"")
    about = parse_metadata(stored.decode("utf-8", "replace"))
    original = {stored: name for name, stored in about.stored.items()}
    names = tuple(original.get(name, name) for name in map(str, table.column_names))
    if len(set(names)) < len(names):
        raise DataError(f"{path.name} has several columns of one name: {listed(sorted(names))}.")
    values = tuple(column_values(column) for column in table.columns)
    facts = {name: dict(facts) for name, facts in about.facts.items()}
    for name, column in zip(names, table.schema, strict=True):
        unit = (column.metadata or {}).get(b"unit", (column.metadata or {}).get(b"units", b""))
        if unit and name not in facts:
            facts[name] = {"unit": unit_text(unit)}
    return Columns(names, values, facts=facts, attributes=about.attributes, own=about.found)


def column_values(column: Any) -> NDArray[Any]:
    """Numbers, durations or dates (in UTC) of a column; whole numbers with nulls become floats."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy()


def read_container(path: Path, wanted: Wanted) -> tuple[Columns, Wanted]:
    """Columns from named arrays, and what was asked for in terms of these columns.

    The time variable sets the number of samples; arrays of other lengths are left out unless asked for. An array with
    several columns (or rows) becomes several columns NAME_0, NAME_1, … or those named: channels={"Y": ["phi", "v"]}.
    """
    time, channels, segment = wanted.time, wanted.channels, wanted.segment
    contents = read_contents(path)
    variables, about = original_names(contents), contents.metadata
    segment_name = usual_name(variables, SEGMENT_NAMES) if segment is None else known_variable(variables, segment, path)
    time_name = time_variable(variables, wanted, about.found, path)
    if time is not None and wanted.interval is not None:
        raise DataError("Give the time column or the sampling interval, not both.")
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
        stated = {"unit": contents.units[name]} if contents.units.get(name) else {}
        facts |= {column: {**stated, **about.facts.get(name, {})} for column in own}
        if name not in helpers:
            asked |= {column: column for column in own}
    if len(set(names)) < len(names):
        raise DataError(f"{path.name}: two columns would have the same name among {listed(sorted(names))}.")
    sections = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    columns = Columns(tuple(names), tuple(values), sections, facts, about.attributes, about.found)
    asked = None if channels is None else asked
    return columns, replace(wanted, channels=asked, time=time_name, segment=segment_name)


def original_names(contents: Contents) -> dict[str, Variable]:
    """The arrays under the names and in the order that they had when `write` stored them."""
    original = {stored: name for name, stored in contents.metadata.stored.items()}
    variables = {original.get(name, name): value for name, value in contents.arrays.items()}
    contents.units = {original.get(name, name): unit for name, unit in contents.units.items()}
    place = {name: number for number, name in enumerate(contents.metadata.names)}
    return dict(sorted(variables.items(), key=lambda pair: place.get(pair[0], -1)))


def time_variable(variables: Mapping[str, Variable], wanted: Wanted, own: bool, path: Path) -> str | None:
    if wanted.time is not None:
        return known_variable(variables, wanted.time, path)
    if wanted.interval is not None:
        return None
    found = ["time"] if own and "time" in variables else usual_names(variables, TIME_NAMES)
    if len(found) > 1:
        raise DataError(f'{path.name}: several look like the time, {listed(found)}: say which with time="...".')
    if not found:
        raise DataError(
            f"{path.name}: none of {listed(list(variables))} is called time: name it with "
            'time="...", or give the sampling interval in seconds, interval=...'
        )
    return found[0]


def usual_names(variables: Mapping[str, Variable], usual: Sequence[str]) -> list[str]:
    """All variables whose names, groups apart, are among the usual ones."""
    return [name for name in variables if name.replace("/", ".").rpartition(".")[2].lower() in usual]


def usual_name(variables: Mapping[str, Variable], usual: Sequence[str]) -> str | None:
    """The first variable whose name, groups apart, is one of the usual ones."""
    last = {name.replace("/", ".").rpartition(".")[2].lower(): name for name in reversed(list(variables))}
    return next((last[name] for name in usual if name in last), None)


def known_variable(variables: Mapping[str, Variable], key: Key, path: Path) -> str:
    if not isinstance(key, str):
        raise DataError(f"{path.name} holds named arrays: choose by name ({listed(list(variables))}), not by {key!r}.")
    if key not in variables:
        hint = nearest_name(key, variables)
        raise DataError(f'{path.name} has no variable "{key}"; it has {listed(list(variables))}.{hint}')
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
    if fits and turned and turned[0].shape[1] <= MOST_ARRAYS:
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
    given = [new] if isinstance(new, str) else list(new) if isinstance(new, list | tuple) else []
    if len(given) != count or not all(isinstance(name, str) for name in given):
        raise DataError(f'"{name}" has {count} columns: give {count} names for it, not {len(given)}.')
    return given
