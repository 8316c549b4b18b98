"""From named columns to a record: which is the time, which the segment, which the channels, under what names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kapitza.data.record import Record
from kapitza.data.sampling import cut_segments
from kapitza.errors import DataError, nearest_name

Array = NDArray[np.float64]
Key = str | int

METADATA = "kapitza"
TIME_NAMES = ("t", "time", "times", "time_s", "seconds")
SEGMENT_NAMES = ("segment", "trial")


@dataclass(frozen=True)
class Columns:
    """Columns of a file in order, each (N,), with what the file itself says about them.

    sections: (N,) number of the piece each row came from, when the file holds pieces.
    facts: per column "unit", "angle", "noise"; attributes: of the whole record ("period", "phase", ...).
    """

    names: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    sections: NDArray[np.int32] | None = None
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def name(self, key: Key) -> str:
        """The name meant by a name or by a position."""
        if isinstance(key, int):
            if not -len(self.names) <= key < len(self.names):
                raise DataError(f"There is no column {key}: the file has {len(self.names)}, numbered from 0.")
            return self.names[key]
        if key not in self.names:
            hint = nearest_name(key, self.names)
            raise DataError(f'There is no column "{key}"; the file has {", ".join(self.names)}.{hint}')
        return key

    def column(self, key: Key) -> NDArray[Any]:
        return self.values[self.names.index(self.name(key))]

    def guess(self, usual: Iterable[str]) -> str | None:
        """The first column with one of the usual names, whatever its case."""
        lower = {name.lower(): name for name in reversed(self.names)}
        return next((lower[name] for name in usual if name in lower), None)


def parse_metadata(text: str) -> dict[str, dict[str, Any]]:
    """What `write` left in a file as JSON: "channels", "attributes", "variables"; {} for anything else.

    The file may come from anywhere, so only the keys and types that `write` uses are taken over.
    """
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(found, dict) or not all(isinstance(part, dict) for part in found.values()):
        return {}
    channels = {name: facts for name, facts in found.get("channels", {}).items() if isinstance(facts, dict)}
    attributes = {k: v for k, v in found.get("attributes", {}).items() if isinstance(v, str | float | int)}
    for name in ("period", "phase"):
        if not isinstance(attributes.get(name, 0.0), float | int):
            del attributes[name]
    allowed = {"time", "channels", "units", "angles", "segment", "noise"}.isdisjoint
    attributes = {key: value for key, value in attributes.items() if allowed({key})}
    variables = {k: v for k, v in found.get("variables", {}).items() if isinstance(v, str)}
    return {"channels": channels, "attributes": attributes, "variables": variables}


@dataclass(frozen=True)
class Wanted:
    """What the caller of `read` asked for; see there."""

    time: Key | None = None
    channels: Sequence[Key] | Mapping[Key, str] | None = None
    segment: Key | None = None
    interval: float | None = None
    units: Mapping[str, str] | None = None
    angles: Iterable[str] | None = None
    period: float | None = None
    phase: float | None = None
    missing: str = "refuse"


def make_record(columns: Columns, wanted: Wanted, source: str, line: Any = None) -> Record:
    """The record asked for. `line`: names a row in messages, given its number (None: "row 7")."""
    time_name = time_column(columns, wanted)
    segment_name = columns.guess(SEGMENT_NAMES) if wanted.segment is None else columns.name(wanted.segment)
    chosen = channel_names(columns, wanted, {time_name, segment_name})
    needed = [name for name in (*chosen, time_name, segment_name) if name is not None]
    numbers = {name: as_numbers(columns.column(name)) for name in needed}
    keep = usable_rows(numbers, wanted.missing, source, line or (lambda row: f"row {row}"))
    if not keep.any():
        raise DataError(f"{source} holds no rows of numbers: check the file and the columns asked for.")
    rows = np.flatnonzero(keep)
    time = numbers[time_name][keep] if time_name else (wanted.interval or 1.0) * rows.astype(np.float64)
    label = segment_labels(columns, numbers.get(segment_name or ""), keep)
    dropped = np.flatnonzero(np.diff(rows) > 1)
    facts = {new: dict(columns.facts.get(old, {})) for old, new in chosen.items()}
    new_names = list(chosen.values())
    declared = declared_names(wanted.angles, new_names)
    angles = [n for n in new_names if n in declared or (wanted.angles is None and facts[n].get("angle"))]
    declared_names(wanted.units, new_names)
    attributes = {"source": source, **columns.attributes}
    attributes |= {k: v for k, v in (("period", wanted.period), ("phase", wanted.phase)) if v is not None}
    return Record.from_arrays(
        time,
        {new: numbers[old][keep] for old, new in chosen.items()},
        units={n: str(facts[n].get("unit", "")) for n in new_names} | dict(wanted.units or {}),
        angles=angles,
        segment=cut_segments(label, dropped),
        noise={n: facts[n]["noise"] for n in new_names if isinstance(facts[n].get("noise"), float | int)},
        **attributes,
    )


def time_column(columns: Columns, wanted: Wanted) -> str | None:
    """Name of the time column; None when the times are made from the sampling interval."""
    if wanted.interval is not None:
        if not (np.isfinite(wanted.interval) and wanted.interval > 0):
            raise DataError(f"The sampling interval is {wanted.interval} s: give a positive number.")
        if wanted.time is not None:
            raise DataError("Give the time column or the sampling interval, not both.")
        return None
    if wanted.time is not None:
        return columns.name(wanted.time)
    guess = columns.guess(TIME_NAMES)
    if guess is None:
        raise DataError(
            f'None of the columns {", ".join(columns.names)} is called time: name it with time="..." '
            "(or by its position, time=0), or give the sampling interval in seconds, interval=..."
        )
    return guess


def channel_names(columns: Columns, wanted: Wanted, taken: set[str | None]) -> dict[str, str]:
    """Channels as old name → new name; all numeric columns that are neither time nor segment by default."""
    if wanted.channels is None:
        pairs = [
            (n, n) for n, v in zip(columns.names, columns.values, strict=True) if n not in taken and mostly_numbers(v)
        ]
    elif isinstance(wanted.channels, Mapping):
        pairs = [(columns.name(key), new) for key, new in wanted.channels.items()]
    elif isinstance(wanted.channels, str):
        raise DataError(f'channels is a list of names: channels=["{wanted.channels}"].')
    else:
        chosen = [columns.name(key) for key in wanted.channels]
        pairs = list(zip(chosen, chosen, strict=True))
    if not pairs:
        raise DataError(f"No channels: besides the time the file has no numeric columns ({', '.join(columns.names)}).")
    new = [name for _, name in pairs]
    twice = sorted({name for name in new if new.count(name) > 1})
    if twice:
        raise DataError(f"Two channels would be called {', '.join(twice)}: give each its own name.")
    return dict(pairs)


def declared_names(names: Iterable[str] | Mapping[str, str] | None, channels: Sequence[str]) -> set[str]:
    """Names that the caller gave angles or units for; each must be a channel."""
    given = {names} if isinstance(names, str) else set(names or ())
    for name in sorted(given - set(channels)):
        raise DataError(
            f'"{name}" is declared but is no channel; there are {", ".join(channels)}.{nearest_name(name, channels)}'
        )
    return given


def numeric(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "fiub"


def mostly_numbers(values: NDArray[Any]) -> bool:
    """A column of numbers, even if some entries are damaged; a column of words is none."""
    return numeric(values) or 2 * int(np.isfinite(as_numbers(values[:1000])).sum()) >= min(1000, values.size)


def as_numbers(values: NDArray[Any]) -> Array:
    """Floats; what is not a number becomes NaN and is dealt with as missing."""
    if numeric(values):
        return values.astype(np.float64)
    return pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(np.float64)


def usable_rows(numbers: Mapping[str, Array], missing: str, source: str, line: Any) -> NDArray[np.bool_]:
    """Rows in which every chosen column is a finite number; refused or dropped otherwise."""
    if missing not in ("refuse", "drop"):
        raise DataError(f'missing is "refuse" or "drop", not "{missing}".')
    keep = np.logical_and.reduce([np.isfinite(values) for values in numbers.values()])
    if missing == "refuse" and not keep.all():
        row = int(np.flatnonzero(~keep)[0])
        column = next(name for name, values in numbers.items() if not np.isfinite(values[row]))
        raise DataError(
            f'{source}: {line(row)}: "{column}" is missing, not finite or not a number '
            f"({int((~keep).sum())} such rows). "
            'Repair the file, or read it with missing="drop": the record is then cut there.'
        )
    return keep


def segment_labels(columns: Columns, labels: Array | None, keep: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Segments from a column of labels and from the pieces of the file."""
    cut = np.zeros(int(keep.sum()), bool)
    for source in (labels, columns.sections):
        if source is not None:
            cut[1:] |= np.diff(source[keep]) != 0
    return np.cumsum(cut).astype(np.int32)
