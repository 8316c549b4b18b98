"""Columns from files of named arrays.

The formats are HDF5, NetCDF, MATLAB v5 and v7.3, and npz.

Nothing here unpickles, follows a path out of the file or relies on a declared size: a file is data, never code.

The libraries of the containers are imported where they are used: they cost 40 MB that most sessions do not need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.cures import Give
from kapitza.base.units import conversion
from kapitza.base.unpacking import MOST_ARRAYS, Unpacking, npz_arrays
from kapitza.data.columns import (
    INTERVAL_NAMES,
    METADATA,
    OTHER_TIME_NAMES,
    RATE_NAMES,
    SEGMENT_NAMES,
    TIME_NAMES,
    Channels,
    Columns,
    Facts,
    Key,
    Wanted,
    listed,
    numeric,
    parse_metadata,
)
from kapitza.data.contents import Contents, Variable, stored_text, unit_text, units_among
from kapitza.data.formats.hdf5 import hdf5_contents
from kapitza.data.formats.matlab5 import check_structure
from kapitza.errors import DataError, KapitzaError, nearest_name

Found = TypeVar("Found")


def read_variables(path: str | Path) -> dict[str, Variable]:
    """Return the numeric arrays of a file by name.

    The file is .mat, .h5, .hdf5, .nc or .npz. A MATLAB cell array is a list of arrays.

    Members of structures and groups are named with dots and slashes: "run.t", "run1/t".
    """
    return read_contents(Path(path)).arrays


def read_contents(path: Path) -> Contents:
    suffix = path.suffix.lower()
    found = guarded(path, suffix, lambda: _contents(path, suffix))
    if not found.arrays:
        raise DataError(f"{path.name} holds no arrays of numbers.")
    return found


def guarded(path: Path, suffix: str, reading: Callable[[], Found]) -> Found:
    """Return the result of reading a file.

    The libraries raise exceptions of any kind on damaged files: all become one kind of message.
    """
    try:
        return reading()
    except KapitzaError:
        raise
    except MemoryError as problem:
        raise DataError(f"{path.name} does not fit into the memory.") from problem
    except Exception as problem:
        why = str(problem).strip().rstrip(".") or type(problem).__name__
        raise DataError(f"{path.name} cannot be read as {suffix}: {why[:200]}. It may be damaged.") from problem


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
    found = Contents()
    for name, array in npz_arrays(path).items():
        if name == METADATA:
            found.metadata = parse_metadata(stored_text(array))
        elif numeric(array) or array.dtype.kind in "mM":
            found.add(name, array, path)
    return found


def netcdf_contents(path: Path) -> Contents:
    """Return the contents of a classic NetCDF file.

    Version 4 is HDF5.
    """
    import scipy.io

    found, unpacking = Contents(), Unpacking(path)
    # Mapped: many variables may stand for the same bytes, and are only counted until they are copied.
    with scipy.io.netcdf_file(path, "r", mmap=True) as file:
        unpacking.add(sum(variable.data.nbytes for variable in file.variables.values()), pieces=len(file.variables))
        for name, variable in file.variables.items():
            if numeric(variable.data):
                found.add(name, variable.data.astype(variable.data.dtype.newbyteorder("=")), path)
                found.units[name] = unit_text(getattr(variable, "units", ""))
            # A view of a mapped file that lives on keeps it open.
            variable.data = None
    return found


def matlab_contents(path: Path) -> Contents:
    import scipy.io

    found = Contents()

    def collect(name: str, given: object) -> None:
        if not isinstance(given, np.ndarray):
            return
        value = cast(Numbers, given)
        if value.dtype.names and value.size == 1:
            for member in value.dtype.names:
                collect(f"{name}.{member}" if name else member, value[member].ravel()[0])
        elif value.dtype == object:
            cells: list[object] = list(value.ravel(order="F"))
            pieces = [cast(Numbers, cell) for cell in cells if isinstance(cell, np.ndarray)]
            pieces = [piece for piece in pieces if numeric(piece)]
            if pieces:
                found.add(name, pieces, path)
        elif value.dtype.kind == "U" and value.size == 1:
            texts[name] = str(value.ravel()[0])
        elif numeric(value):
            found.add(name, value, path)

    texts: dict[str, str] = {}
    unpacking = Unpacking(path)
    if scipy.io.matlab.matfile_version(path)[0] == 1:
        check_structure(path, unpacking)
    else:
        unpacking.add(sum(16 * math.prod(map(int, shape)) for _, shape, _ in scipy.io.whosmat(path)))
    for name, value in scipy.io.loadmat(path).items():
        if not name.startswith("__"):
            collect(name, value)
    found.metadata = parse_metadata(texts.pop(METADATA, ""))
    found.units = units_among(texts, found.arrays)
    return found


def read_container(path: Path, wanted: Wanted) -> tuple[Columns, Wanted]:
    """Return columns from named arrays, and the request.

    The request is expressed in these columns.

    The time variable sets the number of samples; arrays of other lengths are left out unless requested. An array with
    several columns (or rows) becomes several columns NAME_0, NAME_1, … or those named: channels={"Y": ["phi", "v"]}.
    """
    time, channels, segment = wanted.time, wanted.channels, wanted.segment
    contents = read_contents(path)
    variables, about = original_names(contents), contents.metadata
    named = (channels,) if isinstance(channels, str | int) else channels or ()
    variables |= single_columns(variables, (time, segment, *named))
    if time is None and wanted.interval is None and not usual_names(variables, (*TIME_NAMES, *OTHER_TIME_NAMES)):
        wanted = replace(wanted, interval=stated_interval(variables, contents.units))
    segment_name = usual_name(variables, SEGMENT_NAMES) if segment is None else known_variable(variables, segment, path)
    time_name = time_variable(variables, wanted, about.found, path)
    if time is not None and wanted.interval is not None:
        raise DataError("Give the time column or the sampling interval, not both.")
    lengths = piece_lengths(variables, time_name, channels, path)
    chosen = dict.fromkeys(variables, cast("object", None))
    if channels is not None:
        chosen = chosen_variables(variables, channels, path)
    helpers = {name: None for name in (time_name, segment_name) if name is not None and name not in chosen}
    names: list[str] = []
    values: list[Numbers] = []
    asked: dict[Key, str] = {}
    facts: dict[str, Facts] = {}
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
    sections = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths) if len(lengths) > 1 else None
    columns = Columns(tuple(names), tuple(values), sections, facts, about.attributes, about.found)
    return columns, replace(wanted, channels=None if channels is None else asked, time=time_name, segment=segment_name)


def original_names(contents: Contents) -> dict[str, Variable]:
    """Return the arrays under their original names.

    The names and the order are those that they had when `write` stored them.
    """
    original = {stored: name for name, stored in contents.metadata.stored.items()}
    variables = {original.get(name, name): value for name, value in contents.arrays.items()}
    contents.units = {original.get(name, name): unit for name, unit in contents.units.items()}
    place = {name: number for number, name in enumerate(contents.metadata.names)}
    return dict(sorted(variables.items(), key=lambda pair: place.get(pair[0], -1)))


def single_columns(variables: Mapping[str, Variable], keys: Iterable[object]) -> dict[str, Variable]:
    """Return the columns NAME_0, NAME_1, … of arrays that are asked for by these names."""
    made: dict[str, Variable] = {}
    for key in keys:
        name, _, number = key.rpartition("_") if isinstance(key, str) else ("", "", "")
        if key in variables or name not in variables or not number.isdecimal():
            continue
        array, place = variables[name], int(number)
        pieces = array if isinstance(array, list) else [array]
        # The shorter axis counts the columns, as in `stack`.
        if all(piece.ndim == 2 and place < min(piece.shape) for piece in pieces):
            columns = [p[:, place] if p.shape[0] >= p.shape[1] else p[place] for p in pieces]
            made[str(key)] = columns if isinstance(array, list) else columns[0]
    return made


def time_variable(variables: Mapping[str, Variable], wanted: Wanted, own: bool, path: Path) -> str | None:
    if wanted.time is not None:
        return known_variable(variables, wanted.time, path)
    if wanted.interval is not None:
        return None
    found = ["time"] if own and "time" in variables else usual_names(variables, TIME_NAMES)
    found = found or usual_names(variables, OTHER_TIME_NAMES)[:1]
    if len(found) > 1:
        raise DataError(f"{path.name}: several look like the time, {listed(found)}: say which with {Give(time='...')}.")
    if not found:
        raise DataError(
            f"{path.name}: none of {listed(list(variables))} is called time: name it with {Give(time='...')}, or "
            f"give the sampling interval in seconds, {Give(interval=...)}"
        )
    return found[0]


def stated_interval(variables: Mapping[str, Variable], units: Mapping[str, str]) -> float | None:
    """Return the sampling interval [s] stated in a file.

    A number beside the arrays is a rate called Fs [Hz], or an interval called dt [s].
    """
    for usual, unit, power in ((RATE_NAMES, "Hz", -1), (INTERVAL_NAMES, "s", 1)):
        for name in usual_names(variables, usual):
            value = variables[name]
            if isinstance(value, np.ndarray) and value.size == 1 and float(value.ravel()[0]) > 0:
                number = conversion(units.get(name) or unit, unit, f'"{name}"')(np.array([float(value.ravel()[0])]))
                return float(number[0] ** power)
    return None


def usual_names(variables: Mapping[str, Variable], usual: Sequence[str]) -> list[str]:
    """Return all variables with usual names.

    Names of groups are ignored.
    """
    return [name for name in variables if name.replace("/", ".").rpartition(".")[2].lower() in usual]


def usual_name(variables: Mapping[str, Variable], usual: Sequence[str]) -> str | None:
    """Return the first variable with a usual name.

    Names of groups are ignored.
    """
    last = {name.replace("/", ".").rpartition(".")[2].lower(): name for name in reversed(list(variables))}
    return next((last[name] for name in usual if name in last), None)


def known_variable(variables: Mapping[str, Variable], key: Key, path: Path) -> str:
    if not isinstance(key, str):
        raise DataError(f"{path.name} holds named arrays: choose by name ({listed(list(variables))}), not by {key!r}.")
    if key not in variables:
        hint = nearest_name(key, variables)
        raise DataError(f'{path.name} has no variable "{key}"; it has {listed(list(variables))}.{hint}')
    return key


def chosen_variables(variables: Mapping[str, Variable], channels: Channels, path: Path) -> dict[str, object]:
    if isinstance(channels, str | int):
        raise DataError(f"channels is a list of names: {Give(channels=[channels])}.")
    if isinstance(channels, Mapping):
        return {known_variable(variables, key, path): new for key, new in channels.items()}
    return {known_variable(variables, key, path): None for key in channels}


def piece_lengths(
    variables: Mapping[str, Variable], time_name: str | None, channels: Channels | None, path: Path
) -> list[int]:
    """Return the number of samples of each piece.

    It is that of the time, else of the (first) requested variable, else of the longest.
    """
    if time_name is not None:
        times = variables[time_name]
        return [piece.size for piece in (times if isinstance(times, list) else [times])]
    if channels:
        leading = variables[next(iter(chosen_variables(variables, channels, path)))]
    else:
        leading = max(variables.values(), key=lambda v: sum(p.size for p in v) if isinstance(v, list) else v.size)
    return [max(piece.shape, default=1) for piece in (leading if isinstance(leading, list) else [leading])]


def stack(name: str, value: Variable, lengths: Sequence[int], path: Path, required: bool) -> Numbers | None:
    """Return the pieces stacked along the first axis.

    Samples are along the first axis. None when the lengths do not fit.
    """
    pieces = value if isinstance(value, list) else [value]
    matrices = [piece.reshape(-1, 1) if piece.ndim < 2 or piece.size in piece.shape else piece for piece in pieces]
    turned = [m if m.shape[0] == n else m.T for m, n in zip(matrices, lengths, strict=False)]
    fits = len(pieces) == len(lengths) and all(
        m.ndim == 2 and m.shape[0] == n and m.shape[1] == turned[0].shape[1]
        for m, n in zip(turned, lengths, strict=True)
    )
    if fits and turned and turned[0].shape[1] <= MOST_ARRAYS:
        return np.concatenate(turned) if len(turned) > 1 else turned[0]
    if not required:
        return None
    shapes = ", ".join(str(piece.shape) for piece in pieces[:3]) + (", …" if len(pieces) > 3 else "")
    raise DataError(
        f'{path.name}: "{name}" ({len(pieces)} piece{"s" if len(pieces) > 1 else ""} of shape {shapes}) does not fit '
        f"the time, which has {len(lengths)} of {', '.join(map(str, lengths[:3]))}{', …' if len(lengths) > 3 else ''} "
        "samples: choose the time that belongs to it."
    )


def column_names(name: str, count: int, new: object) -> list[str]:
    if new is None:
        return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    entries = [new] if isinstance(new, str) else cast("Sequence[object]", new) if isinstance(new, list | tuple) else []
    given = [entry for entry in entries if isinstance(entry, str)]
    if len(given) != count or len(given) != len(entries):
        raise DataError(f'"{name}" has {count} columns: give {count} names for it, not {len(entries)}.')
    return given
