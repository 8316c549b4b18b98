"""Limit on the size to which files unpack.

One check in bytes, made before anything is unpacked, for every format.

A file is data from anywhere. A few kilobytes can declare gigabytes (a changed shape, a packed run of zeros, one text
repeated in every row), so every reader adds up what it is about to unpack, and stops where that is beyond the limit.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import DataError

FLOOR = 64_000_000
"""Bytes to which every file may unpack, however small it is."""

RATIO = 200
"""Times its own size that a file may unpack to: measured recordings pack by less than 20."""

PIECE = 4096
"""Bytes that a chunk counts at least: a library spends some 100 µs on it, also where it holds nothing."""

MOST_ARRAYS = 10_000
"""Arrays or columns of a recording."""

MOST_ADVISED = 1e12
"""Bytes of a limit that is advised where the memory of the computer is not known."""

VARIABLE = "KAPITZA_UNPACK_LIMIT"
"""Environment variable that sets the limit, in bytes."""

INFLATION = 1032
"""Largest ratio of deflated data."""


class Unpacking:
    """The size to which a file unpacks.

    stored: bytes on the disk that are read, default: the size of the file.
    """

    def __init__(self, path: Path, stored: int | None = None):
        self.path = path
        self.stored = path.stat().st_size if stored is None else stored
        self.total = 0
        self.limit, self.reason = _limit(self.stored)

    @property
    def left(self) -> int:
        return max(self.limit - self.total, 0)

    def add(self, size: int, pieces: int = 0) -> None:
        """Count bytes that are about to be unpacked.

        pieces: their number. Bytes beyond the limit are refused.
        """
        self.total += max(int(size), PIECE * int(pieces))
        if self.total > self.limit:
            self.refuse(f"to {_shown(self.total)} or more")

    def refuse(self, size: str) -> None:
        # How much is still to come is not known: what this computer can hold, so that one try is enough.
        enough = max(1.1 * self.total, 1.1 * self.limit, min(0.5 * _memory(), MOST_ADVISED))
        raise DataError(
            f"{self.path.name} ({_shown(self.stored)}) would unpack {size}; the limit is {_shown(self.limit)} "
            f"({self.reason}). It is damaged, or made to fill the memory. If it is right, raise the limit: set the "
            f"environment variable {VARIABLE}={enough:.1e} (bytes)."
        )


def _limit(stored: int) -> tuple[int, str]:
    """Return how many bytes may be unpacked, and why."""
    given = os.environ.get(VARIABLE, "").strip()
    if given:
        try:
            limit = float(given)
        except ValueError:
            limit = 0.0
        if not 0.0 < limit < 1e18:
            raise DataError(f'The environment variable {VARIABLE} is "{given}": give a number of bytes, such as 4e9.')
        return int(limit), f"set by {VARIABLE}"
    allowed = max(FLOOR, RATIO * stored)
    memory = _memory()
    if allowed > memory:
        return memory, "the memory of this computer"
    return allowed, f"{RATIO} times the file, and at least {_shown(FLOOR)}"


def _memory() -> int:
    """Return the memory of this computer in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 1 << 62


def _shown(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} bytes"


def inflate(packed: bytes | memoryview, unpacking: Unpacking, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Return deflated data, unpacked within the limit.

    wbits: of zlib, 31 for gzip.
    """
    content = zlib.decompressobj(wbits).decompress(packed, unpacking.left + 1)
    if len(content) > unpacking.left:
        unpacking.refuse(f"to more than {_shown(unpacking.limit)}")
    return content


def npz_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz archive.

    They are read by name, without pickles, within the limit.
    """
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path.name} is not an npz archive: it may be damaged, or another format.")
    try:
        return _npz_arrays(path)
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError) as problem:
        raise DataError(f"{path.name} cannot be read as .npz: {str(problem)[:200]}. It may be damaged.") from None


def _npz_arrays(path: Path) -> dict[str, NDArray[Any]]:
    unpacking, found = Unpacking(path), {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise DataError(f"{path.name} holds {len(members)} arrays, more than {MOST_ARRAYS}: it is not a recording.")
        for member in members:
            # The other methods of zip reserve the memory that the file states (LZMA: 4 GB).
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"{path.name}: {member.filename} is packed in a way that NumPy does not write.")
            with archive.open(member) as stream:
                shape, dtype = array_header(stream, path)
            size = dtype.itemsize
            for length in shape:
                size *= int(length)
            if size > member.file_size:
                raise DataError(f"{path.name}: {member.filename} declares {shape} numbers and holds fewer: damaged.")
            unpacking.add(size)
            with archive.open(member) as stream:
                found[member.filename.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def array_header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type that a stored array declares."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{path.name} holds arrays in version {version} of the npy format: save them again as 1.0.")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise DataError(f"{path.name} cannot be read: it holds pickled objects, which are code, not data.")
    return shape, dtype
