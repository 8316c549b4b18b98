"""Recordings on disk that are read in parts.

These are Zarr and Parquet folders, and Parquet files beyond memory.

Queries on the whole recording are answered from its parts, which fit into memory; the callers combine the answers
(`find_orbits`, `identify`, `inspect`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Numbers
from kapitza.base.files import identity, reading
from kapitza.base.suffixes import FOLDERS
from kapitza.base.unpacking import Unpacking
from kapitza.data.columns import METADATA, Columns, Metadata, Wanted, make_record, parse_metadata
from kapitza.data.containers import guarded
from kapitza.data.formats.parquet import ParquetColumns, column_values, parquet_columns
from kapitza.data.formats.zarr_arrays import ZarrArrays
from kapitza.data.record import Record
from kapitza.errors import DataError

PART = 2**20
"""Samples of a part by default: some ten MB per channel while a part is processed."""


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a Parquet folder, or one file.

    They are in the order of their names.
    """

    path: Path

    @cached_property
    def files(self) -> tuple[Path, ...]:
        if not self.path.is_dir():
            return (self.path,)
        found = tuple(parts_of(self.path))
        numbers = [int(f.stem[5:]) for f in found if f.stem.startswith("part-") and f.stem[5:].isdigit()]
        lacking = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
        if lacking:
            # The phase of the excitation counts from the first part, and segments would be joined over the gap.
            raise DataError(
                f"{self.path.name} lacks part-{lacking[0]:06d}.parquet"
                f"{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}, while later parts are there: it is "
                "damaged. Put the part back, or read the others one by one."
            )
        return found

    @cached_property
    def columns(self) -> tuple[ParquetColumns, ...]:
        return tuple(parquet_columns(path) for path in self.files)

    @cached_property
    def groups(self) -> tuple[tuple[ParquetColumns, int, int, int], ...]:
        """Return the row groups of all files.

        Each has file, row group, first row and the row after its last.
        """
        found: list[tuple[ParquetColumns, int, int, int]] = []
        first, named = 0, None
        for file in self.columns:
            facts, path = file.metadata, file.path
            about = _channels_of(facts.metadata)
            named = about if named is None else named
            if about != named:
                # One description holds for all parts; a part put in by hand may be of other units.
                raise DataError(
                    f"{path.name} in {self.path.name} has other channels, units or angles than the first part."
                )
            for number in range(facts.num_row_groups):
                rows = facts.row_group(number).num_rows
                found.append((file, number, first, first + rows))
                first += rows
        return tuple(found)

    @property
    def about(self) -> str:
        return _stored_text(self.columns[0].metadata.metadata) if self.files else ""

    @property
    def size(self) -> int:
        return self.groups[-1][3] if self.groups else 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns[0].names if self.files else ()

    def read(self, name: str, first: int, last: int) -> Numbers:
        pieces: list[Numbers] = []
        for file, number, begin, end in self.groups:
            if begin >= last or end <= first:
                continue
            values = column_values(file.read([name], number).column(0), Unpacking(file.path))
            pieces.append(values[max(first - begin, 0) : last - begin])
        return np.concatenate(pieces)


def parts_of(folder: Path) -> list[Path]:
    """Return the parts of a Parquet folder.

    They are in the order of their names; names with a dot are drafts of a writer.
    """
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def _stored_text(metadata: Mapping[bytes, bytes] | None) -> str:
    stored = b"" if metadata is None else metadata.get(METADATA.encode(), b"")
    return stored.decode("utf-8", "replace")


def _channels_of(metadata: Mapping[bytes, bytes] | None) -> list[tuple[str, object, object]]:
    """Return names, units and angles of the channels.

    They are as a part of a Parquet folder states them.
    """
    about = parse_metadata(_stored_text(metadata))
    return [(name, facts.get("unit"), facts.get("angle")) for name, facts in about.facts.items()]


@dataclass(frozen=True)
class StoredRecord:
    """A recording on disk, read in parts.

    Only parts are read into memory; `kapitza.open_record` opens it.

    path: the folder. size: samples, when it was opened. about: names, units and attributes as they are stored; source:
    the arrays or files that hold the samples. channels: names in order; period: of the excitation [s].
    `rows` and `parts` give Records; `find_orbits`, `inspect` and `identify` (by HarmonicFit and InvariantFit) take it
    as it is and work part by part, in bounded memory.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "long.parquet"
    >>> model = kz.library.parametric_pendulum()
    >>> for seed in range(3):
    ...     path = kz.write(kz.simulate(model, periods=100, seed=seed), path, append=True)
    >>> stored = kz.open_record(path)
    >>> stored.size, [len(part) for part in stored.parts(200)]
    (303, [151, 152])
    """

    path: Path
    size: int
    about: Metadata = field(repr=False)
    source: ZarrArrays | ParquetFiles = field(repr=False)

    @property
    def channels(self) -> tuple[str, ...]:
        return self.about.names

    @property
    def period(self) -> float | None:
        return self.about.attributes.get("period")

    @property
    def angles(self) -> tuple[bool, ...]:
        return tuple(self.about.facts[name].get("angle") is True for name in self.channels)

    def __len__(self) -> int:
        return self.size

    def __str__(self) -> str:
        return f"{self.path.name}: {self.size} samples of {', '.join(self.channels)} on disk"

    def rows(self, first: int, last: int) -> Record:
        """Return the samples of a range of rows.

        The range runs from row first up to, not including, row last.

        Parameters
        ----------
        first, last : int
            Rows, counted from 0.

        Returns
        -------
        Record
            With the phase of the excitation at its own first sample.
        """
        first = checks.whole("first", first, least=0, error=DataError)
        last = min(checks.whole("last", last, least=1, error=DataError), self.size)
        if first >= last:
            raise DataError(f"Rows {first} to {last} of {self.path.name}, which has {self.size}: there is none.")
        columns = guarded(self.path, self.path.suffix, lambda: self.columns(first, last))
        record = make_record(columns, Wanted(), self.path.name)
        if "phase" not in self.about.attributes:
            return record
        begin = float(self.source.read("time", 0, 1)[0]) - float(self.about.attributes["phase"])
        return record.with_attributes(phase=float(record.time[0]) - begin)

    def columns(self, first: int, last: int) -> Columns:
        names = ("time", "segment", *self.channels)
        stored = {"time": "time", "segment": "segment", **self.about.stored}
        values = tuple(self.source.read(stored.get(name, name), first, last) for name in names)
        return Columns(names, values, facts=self.about.facts, attributes=self.about.attributes, own=True)

    def parts(self, samples: int = PART) -> Iterator[Record]:
        """Return the recording in parts, one after another.

        They have equal length.

        Parameters
        ----------
        samples : int
            Of a part, at most.

        Returns
        -------
        iterator of Record
            Neighbouring parts share no sample.
        """
        samples = checks.whole("samples", samples, least=1, error=DataError)
        count = -(-self.size // samples)
        edges = [k * self.size // count for k in range(count + 1)]
        return (self.rows(first, last) for first, last in itertools.pairwise(edges))


def open_record(path: str | Path) -> StoredRecord:
    """Open a recording to read part by part.

    The recording was made by `write`: a .zarr folder, a folder of Parquet parts, or one file.

    Parameters
    ----------
    path : path
        The folder, or a Parquet file too large for the memory.

    Returns
    -------
    StoredRecord
        Nothing but its description is read yet.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> record = kz.simulate(kz.library.duffing(), periods=10, samples_per_period=20)
    >>> path = kz.write(record, pathlib.Path(tempfile.mkdtemp()) / "run.parquet")
    >>> kz.open_record(path).channels
    ('x', "x'")
    """
    path = checks.path("The recording", path, error=DataError)
    return reading(path, lambda: _opened(path))


def _opened(path: Path) -> StoredRecord:
    suffix = path.suffix.lower()
    if suffix not in FOLDERS:
        raise DataError(f'{path.name}: a recording that is read in parts ends with .zarr or .parquet, not "{suffix}".')
    if not path.exists() or (suffix == ".zarr" and not path.is_dir()):
        raise DataError(f"There is no recording {path}.")
    source = ZarrArrays(path, identity(path)) if suffix == ".zarr" else ParquetFiles(path)
    about = guarded(path, suffix, lambda: parse_metadata(source.about))
    if not about.found:
        raise DataError(
            f"{path.name} was not written by Kapitza, or holds nothing: names and units of its channels are not "
            "known. Read its files one by one and append them to a recording of ours."
        )
    held = guarded(path, suffix, lambda: set(source.names))
    lacking = {"time", "segment", *(about.stored.get(n, n) for n in about.names)} - held
    if lacking:
        raise DataError(f"{path.name} lacks {', '.join(sorted(lacking))}: it is damaged, or was changed.")
    size = guarded(path, suffix, lambda: source.size)
    if not size:
        raise DataError(f"{path.name} is empty: the recording has no samples yet.")
    return StoredRecord(path, size, about, source)
