"""Columns from Parquet files.

The footer of a file says how many rows it has, but not how large its pages and texts become: the headers of all pages
are read first, and what they declare is added up. Where the pages are is read here too: the accessor of pyarrow
(`RowGroupMetaData.column`, 26.0) ends the process where a damaged footer contradicts itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.unpacking import MOST_ARRAYS, Unpacking
from kapitza.data.columns import METADATA, Columns, Facts, listed, parse_metadata
from kapitza.data.contents import unit_text
from kapitza.errors import DataError

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, DataType, Table
    from pyarrow.parquet import FileMetaData

TEXT = "BYTE_ARRAY"
BYTES = 6
"""The same as a code in the file."""

PREFIXED = 7
"""Code of the encoding DELTA_BYTE_ARRAY: a text may repeat the whole one before it."""

HEADER = 1 << 16
"""Bytes of a page header at most; it may hold the smallest and the largest text of the page."""

FIXED = {1: 1, 2: 1, 3: 1, 7: 8}
"""Bytes of the fields of Thrift's compact protocol that have a fixed size: true, false, byte, double."""

MALFORMED = (IndexError, KeyError, AttributeError, TypeError, ValueError, RecursionError)
"""What reading a damaged structure raises."""


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a row group."""

    begin: int
    end: int
    texts: bool


@dataclass(frozen=True)
class ParquetColumns:
    """The flat columns of a Parquet file.

    They are read within the limit. Nested columns (lists, structures) are left out.
    """

    path: Path
    metadata: FileMetaData
    names: tuple[str, ...]
    """Flat columns in order."""

    places: tuple[int, ...]
    """Their numbers among the leaves of the schema."""

    inode: int
    """Number of the file."""

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> Table:
        """Return a table of columns.

        names: all by default. group: one row group, by default all.
        """
        import pyarrow.parquet as pq

        chosen = self.names if names is None else tuple(names)
        groups = range(self.metadata.num_row_groups) if group is None else (group,)
        schema = self.metadata.schema
        texts = [name for name in chosen if schema.column(self._place(name)).physical_type == TEXT]
        self._count(chosen, groups)
        # Texts that repeat stay one text, and a number in each row.
        with (
            self.path.open("rb") as stream,
            pq.ParquetFile(stream, metadata=self.metadata, read_dictionary=texts) as file,
        ):
            self._require_same(stream)
            columns = None if names is None and len(self.names) == len(schema) else list(chosen)
            return file.read(columns) if group is None else file.read_row_group(group, columns)

    def _require_same(self, stream: IO[bytes]) -> None:
        """Refuse a file that was replaced.

        Its footer was read from another file.
        """
        if os.fstat(stream.fileno()).st_ino != self.inode:
            raise DataError(f"{self.path.name} has been replaced since it was opened: open it again.")

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise DataError(f'{self.path.name} has no flat column "{name}".')
        return self.places[self.names.index(name)]

    def _count(self, names: Sequence[str], groups: Sequence[int]) -> None:
        places = [self._place(name) for name in names]
        unpacking = Unpacking(self.path)
        for group in groups:
            for place in places:
                column = self.metadata.schema.column(place)
                width = max(8, column.length or 0) if column.physical_type != TEXT else 8
                unpacking.add(self.metadata.row_group(group).num_rows * width)
        with self.path.open("rb") as stream:
            self._require_same(stream)
            for group in groups:
                for place in places:
                    for size, repeats in pages(stream, self._chunks[group][place], self.path):
                        unpacking.add(size * repeats, pieces=1)

    @cached_property
    def _chunks(self) -> list[list[Chunk]]:
        """Return where the columns of every row group are."""
        with self.path.open("rb") as stream:
            self._require_same(stream)
            found = chunks(stream, self.path)
        if [len(group) for group in found] != [self.metadata.num_columns] * self.metadata.num_row_groups:
            raise DataError(f"{self.path.name} cannot be read as .parquet: a row group lacks columns. It is damaged.")
        return found


def parquet_columns(path: Path) -> ParquetColumns:
    """Return the columns of a file, not yet read."""
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(f"{path.name} is not a file.")
    with path.open("rb") as stream:
        metadata, inode = pq.read_metadata(stream), os.fstat(stream.fileno()).st_ino
    if metadata.num_columns > MOST_ARRAYS:
        raise DataError(f"{path.name} has {metadata.num_columns} columns, more than a recording has.")
    leaves = [metadata.schema.column(k) for k in range(metadata.num_columns)]
    flat = [k for k, leaf in enumerate(leaves) if leaf.path == leaf.name and leaf.max_repetition_level == 0]
    return ParquetColumns(path, metadata, tuple(leaves[k].name for k in flat), tuple(flat), inode)


def chunks(stream: IO[bytes], path: Path) -> list[list[Chunk]]:
    """Return where the columns of every row group are, by the footer."""
    try:
        stream.seek(-8, os.SEEK_END)
        size = int.from_bytes(stream.read(4), "little")
        stream.seek(-8 - size, os.SEEK_END)
        footer = compact_struct(stream.read(size), 0)[0]
        # FileMetaData 4: row groups; RowGroup 1: columns; ColumnChunk 3: ColumnMetaData.
        return [[_chunk(column[3]) for column in group[1]] for group in footer[4]]
    except (*MALFORMED, OSError) as problem:
        raise DataError(
            f"{path.name} cannot be read as .parquet: its footer does not list its columns. It is damaged."
        ) from problem


def _chunk(fields: dict[int, Any]) -> Chunk:
    """Return a chunk from the fields of a ColumnMetaData."""
    data, dictionary = int(fields[9]), int(fields.get(11, 0))  # offsets of the first pages
    begin = min(data, dictionary) if dictionary > 0 else data
    return Chunk(begin, begin + int(fields[7]), fields[1] == BYTES)


def pages(stream: IO[bytes], chunk: Chunk, path: Path) -> Iterator[tuple[int, int]]:
    """Return the unpacked size of each page.

    Pairs of bytes that a page of the column chunk unpacks to, and how often they may appear in the values.
    """
    begin = chunk.begin
    while begin < chunk.end:
        stream.seek(begin)
        head = stream.read(HEADER)
        try:
            fields, length = compact_struct(head, 0)
            unpacked, packed = int(fields[2]), int(fields[3])
            # Header of a data page: 5 and its encoding 2; of version 2: 8 and its encoding 4. Both count values in 1.
            place = 2 if 5 in fields else 4
            own: dict[int, Any] = fields[5] if 5 in fields else fields.get(8) or {}
            repeats = int(own.get(1, 1)) if own.get(place) == PREFIXED and chunk.texts else 1
        except MALFORMED as problem:
            raise DataError(
                f"{path.name} cannot be read as .parquet: a page has no header. It is damaged."
            ) from problem
        if unpacked < 0 or packed < 0 or repeats < 0:
            raise DataError(f"{path.name} cannot be read as .parquet: a page of {unpacked} bytes. It is damaged.")
        yield unpacked, max(repeats, 1)
        begin += length + packed


def compact_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a Thrift structure by number.

    The structure is in the compact protocol. The place where it ends is returned too. Texts are passed over.
    """
    fields: dict[int, Any] = {}
    number = 0
    if depth > 8:
        raise RecursionError
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = varint(data, at)
            number = (number >> 1) ^ -(number & 1)
        fields[number], at = compact_value(data, at, kind, depth)


def compact_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # true and false stand in the type itself
        return kind == 1, at
    if kind in FIXED:
        return None, at + FIXED[kind]
    if kind in (4, 5, 6):
        value, at = varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 8:
        size, at = varint(data, at)
        return None, at + size
    if kind == 12:
        return compact_struct(data, at, depth + 1)
    if kind in (9, 10):
        return compact_list(data, at, depth)
    raise KeyError(kind)  # maps do not occur in a footer or page header


def compact_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    """Return the elements of a Thrift list or set."""
    head, at = data[at], at + 1
    kind, size = head & 15, head >> 4
    if size == 15:
        size, at = varint(data, at)
    if size > len(data) - at:  # an element takes a byte at least
        raise IndexError
    kind = 3 if kind in (1, 2) else kind  # within a list, true and false take a byte
    elements: list[Any] = []
    for _ in range(size):
        element, at = compact_value(data, at, kind, depth)
        elements.append(element)
    return elements, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise IndexError


def read_parquet(path: Path) -> Columns:
    """Return all flat columns of a file."""
    table = parquet_columns(path).read()
    described = table.schema.metadata
    stored = b"" if described is None else described.get(METADATA.encode(), b"")
    about = parse_metadata(stored.decode("utf-8", "replace"))
    original = {stored: name for name, stored in about.stored.items()}
    names = tuple(original.get(name, name) for name in map(str, table.column_names))
    if len(set(names)) < len(names):
        raise DataError(f"{path.name} has several columns of one name: {listed(sorted(names))}.")
    texts = Unpacking(path)
    values = tuple(column_values(column, texts) for column in table.columns)
    facts: dict[str, Facts] = {name: dict(facts) for name, facts in about.facts.items()}
    for name, column in zip(names, table.schema, strict=True):
        own = column.metadata
        unit = b"" if own is None else own.get(b"unit", own.get(b"units", b""))
        if unit and name not in facts:
            facts[name] = {"unit": unit_text(unit)}
    return Columns(names, values, facts=facts, attributes=about.attributes, own=about.found)


LONGEST_TEXT = 100
"""Characters of a text that is a number, a date or a label; longer ones are notes, of which the beginning is kept."""


def column_values(column: ChunkedArray, unpacking: Unpacking) -> Numbers:
    """Return the values of a column.

    They are numbers, durations or dates (in UTC). Whole numbers with nulls become floats; texts are objects.
    """
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not pa.types.is_dictionary(column.type):
        return column.to_numpy()
    if not _is_text(column.type.value_type):  # categories of numbers
        return column.cast(column.type.value_type).to_numpy()
    pieces: list[Numbers] = []
    for chunk in column.chunks:
        words = chunk.dictionary.to_pylist()
        short = [w if len(w or "") <= LONGEST_TEXT else _shortened(str(w)) for w in words]
        # Each row may become a text of its own further on.
        unpacking.add(len(chunk) * max((len(w or "") for w in short), default=0))
        table = np.array([*short, None], object)
        pieces.append(table[chunk.indices.fill_null(len(short)).to_numpy(zero_copy_only=False)])
    return np.concatenate(pieces) if pieces else np.empty(0, object)


def _is_text(kind: DataType) -> bool:
    import pyarrow.types as types

    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))


def _shortened(text: str) -> str:
    """Return a long text, shortened.

    It is the beginning and a checksum of all of it: notes that begin alike stay different labels.
    """
    return f"{text[:LONGEST_TEXT]}… {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
