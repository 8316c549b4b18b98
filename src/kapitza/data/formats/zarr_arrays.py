"""Arrays of a Zarr folder that `write` made.

Their description is checked before Zarr reads it.

Zarr decodes by whatever codecs the folder names, pickle among them, and makes arrays and chunks of whatever size it
declares. So only format 3, codecs from a list and chunks of the declared size are handed to it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.files import identity
from kapitza.base.unpacking import MOST_ARRAYS, Unpacking, inflate
from kapitza.data.columns import METADATA, parse_metadata
from kapitza.errors import DataError

CODECS = ("bytes", "zstd", "gzip", "blosc", "crc32c")
"""Codecs that are decoded; of those that pack an array may have one."""

TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
LONGEST_DESCRIPTION = 10_000_000  # bytes
ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class ZarrArray:
    """The description of a Zarr array.

    size: samples; chunk: samples of a chunk; packing: the codec that packs it (None: not packed); checksum: whether
    each chunk ends with one.
    """

    size: int
    chunk: int
    dtype: np.dtype[Any]
    packing: str | None
    checksum: bool


@dataclass(frozen=True)
class ZarrArrays:
    """The arrays of a Zarr folder.

    While a logger appends, some arrays are longer than others.
    """

    path: Path
    identity: tuple[int, ...]
    """Of the folder when it was opened: one that took its place has other samples."""

    @property
    def about(self) -> str:
        attributes: object = self._described(self.path, "group").get("attributes")
        return str(cast("Mapping[str, object]", attributes).get(METADATA, "")) if isinstance(attributes, dict) else ""

    @property
    def size(self) -> int:
        about = parse_metadata(self.about)
        names = ("time", "segment", *(about.stored.get(name, name) for name in about.names))
        return min(self.array(name).size for name in names)

    @property
    def names(self) -> tuple[str, ...]:
        with os.scandir(self.path) as found:
            return tuple(sorted(item.name for item in found if item.is_dir()))[:MOST_ARRAYS]

    def array(self, name: str) -> ZarrArray:
        """Return the description of an array, checked."""
        if "/" in name or "\\" in name or name.startswith("."):
            raise DataError(f'{self.path.name}: "{name}" is not the name of an array.')
        facts = self._described(self.path / name, "array")
        try:
            found = _array(facts)
        except (KeyError, TypeError, ValueError) as problem:
            raise DataError(f'{self.path.name}: the array "{name}" is not as `write` makes it ({problem}).') from None
        return found

    def read(self, name: str, first: int, last: int) -> Numbers:
        array = self.array(name)
        self._check_chunks(name, array, first, last)
        stored = zarr_library().open_array(store=str(self.path / name), mode="r", zarr_format=3)
        values = np.asarray(stored[first:last])
        if identity(self.path) != self.identity:
            raise DataError(f"{self.path.name} has been replaced since it was opened: open it again.")
        if values.shape != (last - first,):
            raise DataError(f'{self.path.name}: "{name}" has fewer than {last} samples: it is damaged.')
        return values

    def _check_chunks(self, name: str, array: ZarrArray, first: int, last: int) -> None:
        """Refuse lost chunks and those of wrong size.

        A chunk must unpack to its declared size.
        """
        numbers = range(first // array.chunk, -(-last // array.chunk))
        folder = self.path / name / "c"
        with os.scandir(folder) as found:
            sizes = {item.name: item.stat().st_size for item in found if item.is_file()}
        if len(numbers) > len(sizes) or any(str(k) not in sizes for k in numbers):
            raise DataError(f'{self.path.name}: samples of "{name}" from {first} to {last} are lost: it is damaged.')
        unpacking = Unpacking(self.path, sum(sizes[str(k)] for k in numbers))
        size = array.chunk * array.dtype.itemsize
        unpacking.add(len(numbers) * size, pieces=len(numbers))
        for number in numbers:
            declared = declared_size(folder / str(number), array, unpacking)
            if declared != size:
                raise DataError(
                    f'{self.path.name}: chunk {number} of "{name}" holds {declared} bytes instead of {size}: it is '
                    "damaged."
                )

    def _described(self, folder: Path, kind: str) -> dict[str, Any]:
        """Return the description of a group or array.

        Only format 3 is read.
        """
        place = folder / "zarr.json"
        if not place.is_file():
            old = " It is of format 2, which is not read: write it again." if (folder / f".z{kind}").exists() else ""
            raise DataError(f'{self.path.name} cannot be read as .zarr: "{folder.name}" has no zarr.json.{old}')
        if place.stat().st_size > LONGEST_DESCRIPTION:
            raise DataError(f"{self.path.name} has a description of {place.stat().st_size} bytes: it is damaged.")
        found: object = json.loads(place.read_bytes())
        facts = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if facts.get("zarr_format") != 3 or facts.get("node_type") != kind:
            raise DataError(f'{self.path.name}: "{folder.name}" is not a {kind} of Zarr format 3.')
        return facts


def _array(facts: Mapping[str, Any]) -> ZarrArray:
    """Return the facts of an array.

    ValueError says why an array is not decoded.
    """
    (size,), grid = facts["shape"], facts["chunk_grid"]
    (chunk,) = grid["configuration"]["chunk_shape"]
    keys: dict[str, Any] = facts.get("chunk_key_encoding") or {}
    settings: dict[str, Any] = keys.get("configuration") or {}
    if grid["name"] != "regular" or keys.get("name") != "default":
        raise ValueError("its chunks are laid out in another way")
    if settings.get("separator", "/") != "/" or facts.get("storage_transformers"):
        raise ValueError("its chunks are stored in another way")
    if type(size) is not int or type(chunk) is not int or size < 0 or chunk < 1:
        raise ValueError(f"its shape is {size!r} in chunks of {chunk!r}")
    if facts["data_type"] not in TYPES:
        raise ValueError(f"its type is {facts['data_type']!r}, not a number")
    codecs: list[Any] = facts["codecs"]
    names: list[Any] = [codec["name"] if isinstance(codec, dict) else codec for codec in codecs]
    unknown = [str(name) for name in names if name not in CODECS]
    if unknown:
        raise ValueError(f"the codec {unknown[0]!r:.60} is not decoded, only {', '.join(CODECS)}")
    packing = next((name for name in names if name not in ("bytes", "crc32c")), None)
    checksum = "crc32c" in names
    if names != ["bytes", *([packing] if packing else []), *(["crc32c"] if checksum else [])]:
        raise ValueError(f"its codecs are {', '.join(names)}")
    return ZarrArray(size, chunk, np.dtype(facts["data_type"]), packing, checksum)


def declared_size(path: Path, array: ZarrArray, unpacking: Unpacking) -> int | None:
    """Return the bytes to which a chunk unpacks.

    The number is that of its own header; None where the header states none.
    """
    with path.open("rb") as stream:
        if array.packing == "gzip":
            try:
                return len(inflate(stream.read(), unpacking, 16 + zlib.MAX_WBITS))
            except zlib.error as problem:
                raise DataError(f"{unpacking.path.name}: a chunk is damaged ({problem}).") from problem
        head = stream.read(18)
    if array.packing is None:
        return path.stat().st_size - (4 if array.checksum else 0)
    if array.packing == "blosc":
        return int.from_bytes(head[4:8], "little") if len(head) >= 16 else None
    return _zstd_size(head)


def _zstd_size(head: bytes) -> int | None:
    """Return the content size of a Zstandard frame.

    It is the size that the frame declares (RFC 8878).
    """
    if len(head) < 6 or head[:4] != ZSTD:
        return None
    flags = head[4]
    single = bool(flags & 0x20)
    width = {0: int(single), 1: 2, 2: 4, 3: 8}[flags >> 6]
    # Before it: the window, unless the frame is one segment, and the number of a dictionary.
    begin = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    if not width or len(head) < begin + width:
        return None
    return int.from_bytes(head[begin : begin + width], "little") + (256 if width == 2 else 0)


def zarr_library() -> Any:
    """Return the library zarr.

    It belongs to the extra [dask].
    """
    try:
        import zarr
    except ImportError as problem:
        raise DataError('Zarr folders need the library zarr: pip install "kapitza[dask]".') from problem
    return zarr
