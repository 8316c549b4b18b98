"""Writing recordings that grow: Zarr folders, and folders of Parquet parts, to which a logger appends."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.data.columns import METADATA
from kapitza.data.record import Record
from kapitza.data.stored import StoredRecord, lost_value, open_record, zarr_library
from kapitza.errors import DataError
from kapitza.files import replacing

CHUNK = 2**18
"""Samples of a chunk of a Zarr array: 2 MB before compression."""

CONTINUES = 1.5
"""Sampling intervals within which an appended record goes on where the recording ended; its own differ less, too."""

SAME_PHASE = 1e-3
"""Periods of the excitation by which the clocks of record and recording may differ."""


def append_parquet(record: Record, path: Path, write: Any) -> None:
    """One more part in the folder; write(record, file) writes a part."""
    if path.is_file():
        raise DataError(f"{path.name} is a file, not a folder of parts: choose another name to append to.")
    before = open_record(path) if path.is_dir() and any(path.glob("*.parquet")) else None
    number = 0
    if before is not None:
        record = continued(record, before)
        number = 1 + max(int(f.stem.split("-")[-1]) for f in path.glob("part-*.parquet"))
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / f"part-{number:06d}.parquet") as draft:
        write(record, draft)


def write_zarr(record: Record, path: Path, append: bool, about: str, arrays: dict[str, NDArray[Any]]) -> None:
    """A Zarr folder made, replaced, or made longer; arrays: by their stored names."""
    zarr = zarr_library()
    if append and path.exists():
        before = open_record(path)
        record = continued(record, before)
        arrays = {**arrays, "segment": record.dataset["segment"].values}
        group = zarr.open_group(str(path), mode="a")
        for name in (*(n for n in arrays if n != "time"), "time"):
            # What an interrupted append left behind goes; the times come last, and say how far the recording is valid.
            group[name].resize((before.size,))
            group[name].append(np.asarray(arrays[name]))
        return
    if path.exists():
        if not (path / "zarr.json").is_file():
            raise DataError(f"{path} is no Zarr folder and is not replaced: choose another name.")
        open_record(path)
    draft = path.with_name(f".{path.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        group = zarr.open_group(str(draft), mode="w")
        for name, values in arrays.items():
            values = np.asarray(values)
            # A chunk that gets lost must not read as zeros.
            empty = np.nan if values.dtype.kind == "f" else lost_value(values.dtype)
            stored = group.create_array(name, shape=values.shape, chunks=(CHUNK,), dtype=values.dtype, fill_value=empty)
            stored[:] = values
        group.attrs[METADATA] = about
        shutil.rmtree(path, ignore_errors=True)
        draft.replace(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def continued(record: Record, before: StoredRecord) -> Record:
    """The record with segment labels that go on from those stored; what does not belong behind them is refused."""
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
    labels = record.dataset["segment"].values
    goes_on = 0.0 < step <= CONTINUES * interval and 1 / CONTINUES <= own / interval <= CONTINUES
    shifted = labels - labels[0] + last + (0 if goes_on else 1)
    return Record(record.dataset.assign_coords(segment=("time", shifted.astype(np.int32))))


def _require_alike(record: Record, stored: Record) -> None:
    """Refuse a record whose channels or excitation are not those of the recording: one description holds for all."""
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
        # Whole periods between the two starts change nothing; what rounding of time stamps leaves is no other phase.
        apart = (record.excitation_start - stored.excitation_start) / record.period
        if abs(apart - round(apart)) > SAME_PHASE:
            raise DataError(
                f"The excitation of the record starts at {record.excitation_start:.9g} s, that of the recording at "
                f"{stored.excitation_start:.9g} s, {abs(apart - round(apart)):.3g} periods apart: give the record time "
                "stamps of the recording's clock, or a recording of its own."
            )
