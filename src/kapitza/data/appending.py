"""Writers of recordings that grow.

A logger appends to a Zarr folder, or to a folder of Parquet parts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.files import is_own, locked, replacing, replacing_folder, settle
from kapitza.data.columns import METADATA
from kapitza.data.formats.zarr_arrays import zarr_library
from kapitza.data.record import Record
from kapitza.data.stored import StoredRecord, open_record, parts_of
from kapitza.errors import DataError

CHUNK = 2**18
"""Samples of a chunk of a Zarr array: 2 MB before compression."""

DESCRIPTION = "zarr.json"
"""File that has the length of an array."""

PATIENCE = 60.0
"""Seconds that a logger waits for another one that writes the same recording."""

CONTINUES = 1.5
"""Sampling intervals within which an appended record goes on where the recording ended; its own differ less, too."""

SAME_PHASE = 1e-3
"""Periods of the excitation by which the clocks of record and recording may differ."""


def append_parquet(record: Record, path: Path, write: Callable[[Record, Path], None]) -> None:
    """Add one part to a Parquet folder.

    write(record, file) writes the part.
    """
    if path.is_file():
        raise DataError(f"{path.name} is a file, not a folder of parts: choose another name to append to.")
    with _writing(path):
        before = open_record(path) if path.is_dir() and parts_of(path) else None
        if not path.exists():
            # The folder appears with its first part: a reader never sees it empty.
            with replacing_folder(path, _require_recording) as folder:
                write(record, folder / "part-000000.parquet")
            return
        number = 0
        if before is not None:
            record = continued(record, before)
            number = 1 + max((int(f.stem[5:]) for f in parts_of(path) if f.stem[5:].isdigit()), default=-1)
        with replacing(path / f"part-{number:06d}.parquet") as draft:
            write(record, draft)


def write_zarr(record: Record, path: Path, append: bool, about: str, arrays: dict[str, Numbers]) -> None:
    """Make, replace or extend a Zarr folder.

    arrays: by their stored names.
    """
    with _writing(path):
        if append and path.exists():
            _append_zarr(record, path, arrays)
            return
        with replacing_folder(path, _require_recording) as draft:
            group = zarr_library().open_group(str(draft), mode="w", zarr_format=3)
            for name, values in arrays.items():
                values = np.asarray(values)
                # A chunk that gets lost must not read as zeros.
                empty = np.nan if values.dtype.kind == "f" else lost_value(values.dtype)
                made = {"shape": values.shape, "chunks": (CHUNK,), "dtype": values.dtype, "fill_value": empty}
                group.create_array(name, compressors=zarr_library().codecs.ZstdCodec(), **made)[:] = values
            group.attrs[METADATA] = about


def _append_zarr(record: Record, path: Path, arrays: dict[str, Numbers]) -> None:
    """Extend the arrays of a Zarr folder in place.

    Each file is replaced as a whole: first the chunks, in which samples beyond the old length are not read, then the
    descriptions with the new lengths. That of the times comes last: it says how far all arrays are valid.
    """
    before = open_record(path)
    record = continued(record, before)
    arrays = {**arrays, "segment": record.content.segment}
    described = dict[str, bytes]()
    store = _atomic_store(path, described)
    group = zarr_library().open_group(store, mode="r+", zarr_format=3, use_consolidated=False)
    for name, values in arrays.items():
        array = group[name]
        # What an interrupted append left behind goes.
        if array.shape != (before.size,):
            array.resize((before.size,))
        array.append(np.asarray(values))
    for key in sorted(described, key=lambda key: key == f"time/{DESCRIPTION}"):
        with replacing(path / key) as draft:
            draft.write_bytes(described[key])


def _atomic_store(path: Path, described: dict[str, bytes]) -> Any:
    """Return a Zarr store that replaces whole files; descriptions of arrays are put into `described` instead.

    Zarr writes the new length before the samples: a reader would find none there.
    """
    zarr_library()
    from zarr.storage import LocalStore

    class AtomicStore(LocalStore):
        async def _set(self, key: str, value: Any, exclusive: bool = False) -> None:
            if exclusive and (self.root / key).exists():
                raise FileExistsError(key)
            self.set_sync(key, value)

        def set_sync(self, key: str, value: Any) -> None:
            if key.endswith(f"/{DESCRIPTION}"):
                described[key] = value.to_bytes()
                return
            with replacing(self.root / key) as draft:
                draft.write_bytes(value.to_bytes())

    return AtomicStore(path)


@contextmanager
def _writing(path: Path) -> Generator[None]:
    """Hold the lock of a recording.

    Two loggers take turns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, wait=PATIENCE):
        settle(path)
        yield


def _require_recording(path: Path) -> None:
    """Refuse to replace a folder of other files.

    The folder must be a recording of Kapitza, without other files.
    """
    if not (path / "zarr.json").is_file():
        raise DataError(f"{path} is not a Zarr folder and is not replaced: choose another name.")
    about = open_record(path).about
    known = {"zarr.json", "time", "segment", *(about.stored.get(name, name) for name in about.names)}
    other = sorted(item.name for item in path.iterdir() if item.name not in known and not is_own(item.name))
    if other:
        raise DataError(f'{path} holds "{other[0]}", which is not of the recording, and is not replaced: move it away.')


def lost_value(dtype: np.dtype[Any]) -> int | None:
    """Return the value that marks a lost chunk.

    Whole numbers of a Zarr array read as this value there; None for other kinds of numbers.
    """
    return int(np.iinfo(dtype).min) if dtype.kind == "i" else None


def continued(record: Record, before: StoredRecord) -> Record:
    """Return the record with segment labels that continue.

    They continue the stored labels. A record that does not continue the recording is refused.
    """
    if record.channels != before.channels:
        raise DataError(
            f"{before.path.name} has the channels {', '.join(before.channels)}, the record has "
            f"{', '.join(record.channels)}: append records of the same channels."
        )
    tail = before.rows(max(before.size - 2, 0), before.size)
    _require_alike(record, tail)
    # A record numbers its segments anew; the labels on disk go on.
    last = int(before.source.read("segment", before.size - 1, before.size)[0])
    interval = float(np.diff(tail.time)[-1]) if tail.size > 1 else 0.0
    step = float(record.time[0] - tail.time[-1])
    own = float(np.median(np.diff(record.time))) if record.size > 1 else interval
    labels = record.content.segment
    goes_on = 0.0 < step <= CONTINUES * interval and 1 / CONTINUES <= own / interval <= CONTINUES
    shifted = labels - labels[0] + last + (0 if goes_on else 1)
    return record.from_content(record.content.with_coords({"segment": shifted.astype(np.int32)}))


def _require_alike(record: Record, stored: Record) -> None:
    """Refuse a record of other channels or excitation.

    One description holds for the whole recording.
    """
    for name in record.channels:
        if record.units[name] != stored.units[name]:
            raise DataError(
                f'"{name}" is stored in "{stored.units[name]}", the record has it in "{record.units[name]}".'
            )
        if record.noise.get(name) != stored.noise.get(name):
            raise DataError(
                f'The noise of "{name}" is stored as {stored.noise.get(name)}, that of the record is '
                f"{record.noise.get(name)}: append it to a recording of its own, or give it the stored one."
            )
    if record.angles != stored.angles:
        angles = [
            n for n, one, other in zip(record.channels, record.angles, stored.angles, strict=True) if one != other
        ]
        raise DataError(f'"{angles[0]}" is an angle in one of record and recording, and none in the other.')
    if record.period != stored.period:
        raise DataError(f"The stored excitation period is {stored.period} s, that of the record {record.period} s.")
    if record.period is not None:
        # Whole periods between the two starts change nothing; what rounding of time stamps leaves is not another phase.
        apart = (record.excitation_start - stored.excitation_start) / record.period
        if abs(apart - round(apart)) > SAME_PHASE:
            raise DataError(
                f"The excitation of the record starts at {record.excitation_start:.9g} s, that of the recording at "
                f"{stored.excitation_start:.9g} s, {abs(apart - round(apart)):.3g} periods apart: give the record time "
                "stamps of the recording's clock, or a recording of its own."
            )
