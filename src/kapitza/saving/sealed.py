"""Files in NetCDF-4 with a checksum.

The facts are JSON, sealed by the checksum.

The last line holds a SHA-256 of all before it: a damaged file is refused as a whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.files import replacing
from kapitza.base.unpacking import MOST_ARRAYS, Unpacking
from kapitza.errors import DataError

SEAL = b"\nkapitza sha256 "
SEALED = len(SEAL) + 64
BLOCK = 1 << 20
DIMENSION = re.compile(r"n\d+")


def write_sealed(path: Path, facts: str, arrays: Mapping[str, NDArray[Any]], noun: str) -> None:
    """Write facts and arrays as one file.

    It replaces an old one when it is complete.
    """
    with replacing(path) as draft:
        _write(draft, facts, arrays, noun)
        seal = SEAL + _digest(draft, draft.stat().st_size).encode()
        with draft.open("ab") as stream:
            stream.write(seal)


def read_sealed(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return facts and arrays of a file.

    Its checksum must be right.
    """
    size = path.stat().st_size - SEALED
    with path.open("rb") as stream:
        stream.seek(max(size, 0))
        seal = stream.read(SEALED)
    if size <= 0 or not seal.startswith(SEAL):
        raise DataError(f'"{path}" does not end as kz.save ends a file: it was cut short, or is another file.')
    if seal[len(SEAL) :] != _digest(path, size).encode():
        raise DataError(f'"{path}" is damaged: its content does not match its checksum. Take a copy, or save again.')
    return _read(path, size)


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0:
            block = stream.read(min(BLOCK, size))
            if not block:
                break
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _write(path: Path, facts: str, arrays: Mapping[str, NDArray[Any]], noun: str) -> None:
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        file.attrs["title"] = f"Kapitza {noun}"
        # A dataset, not an attribute: those are limited to 64 kB.
        text = np.frombuffer(facts.encode("utf-8"), np.uint8)
        for name, values in {"facts": text, **arrays}.items():
            for size in values.shape:
                if f"n{size}" not in file.dimensions:
                    file.dimensions[f"n{size}"] = size
            file.create_variable(name, tuple(f"n{size}" for size in values.shape), values.dtype, data=values)


def _read(path: Path, size: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the datasets of a file, by h5py.

    The search for their dimensions would not end in files made for that.
    """
    import h5py

    with h5py.File(path, "r") as file:
        found = {}
        if len(file) > MOST_ARRAYS:
            raise DataError(f"It holds {len(file)} arrays, more than {MOST_ARRAYS}.")
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise DataError(f'"{name}" is a link to another place, which is not followed.')
            item = file[name]
            if not isinstance(item, h5py.Dataset) or item.dtype.kind not in "fiu" or item.shape is None:
                raise DataError(f'"{name}" is not an array of numbers.')
            if item.external or item.is_virtual:
                raise DataError(f'The numbers of "{name}" lie in another file, which is not followed.')
            if item.chunks is not None:
                raise DataError(f'"{name}" is stored in chunks, which kz.save does not write.')
            # The dimensions of NetCDF are datasets without numbers.
            if not (DIMENSION.fullmatch(str(name)) and item.id.get_storage_size() == 0):
                found[name] = item
        declared = sum(math.prod(v.shape) * v.dtype.itemsize for v in found.values())
        Unpacking(path).add(declared)
        if declared > size:
            raise DataError(f"{declared} bytes of arrays are declared in a file of {size} bytes.")
        arrays = {name: np.asarray(v[()]) for name, v in found.items()}
    return json.loads(arrays.pop("facts").tobytes().decode("utf-8")), arrays
