"""The data of a verb, as parts.

Every verb takes data in the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard, cast

from kapitza.base import checks
from kapitza.base.cures import Do
from kapitza.data.frames import from_frame, is_frame
from kapitza.data.measured_branch import MeasuredBranch
from kapitza.data.noise import Noise, stated_noise
from kapitza.data.record import Record
from kapitza.data.stored import StoredRecord
from kapitza.errors import DataError
from kapitza.orbits import OrbitSet, PeriodicOrbit

MOST_DATA = 100_000
"""Records or orbits of a list; a series without an end stops here."""

Source = Record | StoredRecord | PeriodicOrbit | OrbitSet | MeasuredBranch

SOURCES: dict[type, str] = {
    Record: "a record",
    StoredRecord: "a recording on disk",
    PeriodicOrbit: "an orbit",
    OrbitSet: "a set of orbits",
    MeasuredBranch: "a measured branch",
}
"""Every kind of data, as messages name it."""


@dataclass(frozen=True)
class Part:
    """One recording, orbit, set of orbits or branch.

    values: parameters with a separate value in this recording. noise: standard deviation by channel, as stated with the
    method, else as the record has it; see `with_noise`. number: place among the data.
    """

    source: Source
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    noise: Mapping[str, float] = field(default_factory=dict[str, float])
    number: int = 0

    @property
    def label(self) -> str:
        return f"{described(self.source).split(' ', 1)[-1]} {self.number}"

    @property
    def record(self) -> Record | None:
        """Return the record of a part.

        It is the part itself, or the record in which a set of orbits was found.
        """
        source = self.source.source if isinstance(self.source, OrbitSet) else self.source
        return source if isinstance(source, Record) else None

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the names that may have noise."""
        source = self.source
        if isinstance(source, OrbitSet | PeriodicOrbit):
            orbits = [source] if isinstance(source, PeriodicOrbit) else source
            crossed = [c for orbit in orbits if orbit.crossings for c in orbit.crossings.channels]
            return tuple(dict.fromkeys([*(c for orbit in orbits for c in orbit.states), *crossed]))
        return () if isinstance(source, MeasuredBranch) else tuple(source.channels)

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of each channel, "" where none is stated."""
        return {} if self.record is None else self.record.units

    def change(self, function: Callable[[Record], Record]) -> Part:
        """Return the part with its record changed.

        Other kinds of data stay as they are.
        """
        return replace(self, source=function(self.source)) if isinstance(self.source, Record) else self

    def with_noise(self, stated: Mapping[str, float]) -> Part:
        """Return the part with its noise.

        It is as stated (see `noise_by_channel`), else as the record has it.
        """
        known = {} if self.record is None else self.record.noise
        return replace(self, noise={**known, **stated})


def as_parts(data: object, who: str = "identify") -> tuple[Part, ...]:
    """Return the data as parts.

    Data are records (also DataFrames and Datasets), recordings on disk, orbits, sets of orbits and measured branches,
    pairs (data, {parameter: value}), and any ordered series of these. Rounded time stamps are evened.
    """
    found = [replace(part, number=number) for number, part in enumerate(_flat(data, {}, who))]
    if not found:
        raise DataError(
            "There are no data to fit: pass a record, several of them, or the orbits found in one (find_orbits may "
            "have found none)."
        )
    return tuple(found)


def _flat(data: Any, values: Mapping[str, float], who: str) -> Iterator[Part]:
    if not isinstance(data, Record | Part) and is_frame(data):
        data = from_frame(data)
    if isinstance(data, Part):
        even = data.change(lambda record: record.without_rounding())
        yield replace(even, values={**values, **even.values}) if values else even
    elif isinstance(data, Record):
        yield Part(data.without_rounding(), values)
    elif isinstance(data, OrbitSet):
        if len(data):
            yield Part(data, values)
    elif isinstance(data, StoredRecord | PeriodicOrbit | MeasuredBranch):
        yield Part(data, values)
    elif _is_pair(data):
        yield from _flat(data[0], {**values, **data[1]}, who)
    elif isinstance(data, Mapping):
        raise DataError("The data are a table: pass its values, list(runs.values()), or pairs (run, {name: value}).")
    elif isinstance(data, set | frozenset):
        raise DataError("The data are a set, whose order may change from run to run: pass a list of them.")
    elif isinstance(data, str | bytes | Path) or not isinstance(data, Iterable):
        raise DataError(
            f"{who} works on records, orbits, sets of orbits, pairs of these with {{parameter: value}}, and lists, "
            f"not on {described(data)}: read, simulate or find one."
        )
    else:
        for item in checks.items("The data", data, most=MOST_DATA, error=DataError):
            yield from _flat(item, values, who)


def _is_pair(data: object) -> TypeGuard[tuple[object, Mapping[str, float]]]:
    """Return whether the data have parameter values.

    They are a pair (data, {parameter: value}).
    """
    if not isinstance(data, tuple):
        return False
    entries = cast("tuple[object, ...]", data)
    return len(entries) == 2 and isinstance(entries[1], Mapping)


def one_part(data: object, who: str) -> Part:
    """Return the only part of the data.

    It must be one record, with or without parameter values.
    """
    parts = as_parts(data, who)
    if len(parts) == 1 and isinstance(parts[0].source, Record):
        return parts[0]
    given = described(parts[0].source) if len(parts) == 1 else f"{len(parts)} recordings"
    raise DataError(f"{who} works on one record at a time, not on {given}: pass it, or (record, {{name: value}}).")


def records_of(data: object, who: str, *kinds: type) -> tuple[Any, ...]:
    """Return the records of the data.

    kinds: other kinds of data that are accepted. The records must not have parameter values.
    """
    parts = as_parts(data, who)
    for part in parts:
        if not isinstance(part.source, kinds or Record):
            raise DataError(
                f"{who} works on a Record, or on a list of them, not on {described(part.source)}: make one with "
                f"{Do('kapitza.read, kapitza.simulate or Record.from_arrays', 'a file, or `kapitza simulate`')}."
            )
        if part.values:
            raise DataError(f"{who} has no parameters: pass {part.label} without values of {', '.join(part.values)}.")
    return tuple(part.source for part in parts)


def one_record(data: object, who: str, *kinds: type) -> Any:
    """Return the only record of the data.

    kinds: other kinds of data that are accepted.
    """
    found = records_of(data, who, *kinds)
    if len(found) != 1:
        raise DataError(f"{who} works on one record at a time, not on {len(found)}: call it for each of them.")
    return found[0]


def noise_by_channel(parts: Sequence[Part], stated: Noise, signals: Sequence[str] = ()) -> dict[str, float]:
    """Return the stated noise by channel.

    A name that is neither a channel nor a signal is refused.
    """
    return stated_noise(stated, tuple(dict.fromkeys([*(c for part in parts for c in part.channels), *signals])))


def plain_data(parts: Sequence[Part]) -> Any:
    """Return the parts as a user would pass them.

    They are sources, and pairs where they have values.
    """
    plain = [(part.source, dict(part.values)) if part.values else part.source for part in parts]
    return plain[0] if len(plain) == 1 else plain


def described(data: object) -> str:
    """Return the name of a kind of data."""
    return next((words for kind, words in SOURCES.items() if isinstance(data, kind)), type(data).__name__)
