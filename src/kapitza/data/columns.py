"""Records made from named columns.

The time, the segment and the channels are found among the columns and named.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.arrays import Array, Numbers
from kapitza.base.cures import Give
from kapitza.base.units import REFUSED, conversion, dimension, is_unit, meant_by, require_unit
from kapitza.data.channels import RESERVED, channel, samples
from kapitza.data.noise import is_number
from kapitza.data.record import Record
from kapitza.data.sampling import cut_segments
from kapitza.data.sensitivity import Sensitivity, sensitivity
from kapitza.data.time_table import Column, TimeTable
from kapitza.errors import DataError, nearest_name

if TYPE_CHECKING:
    import pandas as pd

Key = str | int

METADATA = "kapitza"
TIME_NAMES = ("t", "time", "times", "time_s", "seconds", "timestamp", "time stamp", "datetime", "date time")
OTHER_TIME_NAMES = (
    "elapsed time", "elapsed", "clock", "clock time", "zeit", "uhrzeit", "temps", "tiempo", "tempo", "tijd", "tid",
    "czas", "čas", "aika", "время", "时间", "時間",
)  # fmt: skip
"""Names of a time column where none of the usual ones is there: of files with decimal commas, mostly."""
RATE_NAMES = ("fs", "rate", "sample_rate", "samplerate", "sampling_rate", "samplingrate", "fsample", "f_s")
INTERVAL_NAMES = ("dt", "ts", "interval", "sampling_interval", "delta_t")
EPOCH = 1e11
"""Seconds beyond which a number is not a time in seconds: 3000 years. Computers count ms, µs or ns from 1970."""
SEGMENT_NAMES = ("segment", "trial")
"""Names by which the time, a rate, an interval and the segment are recognised, in lower case."""

Facts = Mapping[str, object]
"""Facts that a file states about a column: "unit", "angle", "noise"."""

Channels = Key | Sequence[Key] | Mapping[Key, str]
"""Columns to read: one, several, or {column: name of the channel}."""

NameRow = Callable[[int], str]
"""Names a row in messages, given its number."""


RECORDED = "recorded_unit"
"""Attribute of a channel: the unit of the file, where it is not that of the record."""


COLUMN = "column"
"""Attribute of the time: the column of the file that it was read from."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file in order, each (N,).

    They carry the facts that the file itself states about them.

    sections: (N,) number of the piece each row came from, when the file holds pieces.
    facts: per column "unit", "angle", "noise"; attributes: of the whole record ("period", "phase", ...).
    own: the file was written by `write`, so that its names and units are certain.
    """

    names: tuple[str, ...]
    values: tuple[Numbers, ...]
    sections: NDArray[np.int32] | None = None
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    own: bool = False

    def name(self, key: Key) -> str:
        """Return the name meant by a name or position."""
        if isinstance(key, int) and not isinstance(key, bool):
            if not -len(self.names) <= key < len(self.names):
                raise DataError(f"There is no column {key}: the file has {len(self.names)}, numbered from 0.")
            return self.names[key]
        if key not in self.names:
            hint = nearest_name(str(key), self.names)
            raise DataError(f'There is no column "{key}"; the file has {listed(self.names)}.{hint}')
        return key

    def column(self, key: Key) -> Numbers:
        return self.values[self.names.index(self.name(key))]

    def guess(self, usual: Iterable[str]) -> str | None:
        """Return the first column with a usual name.

        Its case does not matter.
        """
        return next(iter(self.guesses(usual)), None)

    def guesses(self, usual: Iterable[str]) -> list[str]:
        """Return all columns with usual names.

        The most usual name comes first.
        """
        lower = {name.lower(): name for name in reversed(self.names)}
        return [lower[name] for name in usual if name in lower]


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names for a message.

    At most `most` are listed.
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True)
class Metadata:
    """What `write` left in a file about its record.

    names: the channels in order; stored: channel → name in the file where it had to be another one.
    """

    names: tuple[str, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def found(self) -> bool:
        return bool(self.facts)


def parse_metadata(text: str) -> Metadata:
    """Return the metadata that `write` stored as JSON.

    They are empty for any other text.

    The file may come from anywhere, so only the keys and types that `write` uses are taken over.
    """
    try:
        found: object = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return Metadata()
    if not isinstance(found, dict):
        return Metadata()
    parts = cast("dict[str, object]", found)

    def part(key: str) -> dict[str, object]:
        held = parts.get(key)
        return cast("dict[str, object]", held) if isinstance(held, dict) else {}

    facts = {name: cast("Facts", facts) for name, facts in part("channels").items() if isinstance(facts, dict)}
    attributes = {k: v for k, v in part("attributes").items() if isinstance(v, str | float | int)}
    for name in ("period", "phase"):
        if not isinstance(attributes.get(name, 0.0), float | int):
            del attributes[name]
    reserved = {"time", "channels", "units", "angles", "segment", "noise", "self", "cls"}
    attributes = {key: value for key, value in attributes.items() if key not in reserved}
    stored = {k: v for k, v in part("variables").items() if isinstance(v, str)}
    names = tuple(facts)
    return Metadata(names, stored, facts, attributes)


@dataclass(frozen=True)
class Wanted:
    """The request of a caller of `read`; see there."""

    time: Key | None = None
    channels: Channels | None = None
    segment: Key | None = None
    interval: float | None = None
    units: Mapping[str, str] | None = None
    angles: Iterable[str] | None = None
    period: float | None = None
    phase: float | None = None
    missing: str = "refuse"


def make_record(columns: Columns, wanted: Wanted, source: str, line: NameRow | None = None) -> Record:
    """Return the record that was requested.

    line: names a row in messages, given its number (None: "row 7").
    """
    time_name = time_column(columns, wanted)
    segment_name = columns.guess(SEGMENT_NAMES) if wanted.segment is None else columns.name(wanted.segment)
    chosen = channel_names(columns, wanted, {time_name, segment_name})
    wanted, scales = without_sensitivities(columns, wanted, chosen)
    units = stated_units(columns, wanted, chosen, time_name)
    numbers = {name: as_numbers(columns.column(name)) for name in chosen}
    numbers |= {name: scale.factor * numbers[name] for name, scale in scales.items()}
    attributes: dict[str, Any] = {"source": source, **columns.attributes}
    by_name = [f"{old} is in {units[old]}, by its name" for old in units if _decided(columns, wanted, old, units[old])]
    clock = "" if time_name is None else clock_by_name(columns, wanted, time_name)
    by_name += [f"the time {time_name} is in {clock}, by its name"] if clock else []
    by_name += [f"{scale.sentence}, as stated" for scale in scales.values()]
    if by_name:
        attributes["read_as"] = "; ".join([*filter(None, [attributes.get("read_as")]), *by_name])
    index = index_column(columns)
    if wanted.channels is None and index not in (None, time_name, segment_name):
        attributes["left_out"] = f'the column "{index}", which numbers the rows'
    if time_name is not None:
        numbers[time_name], begins = seconds(columns.column(time_name), units[time_name], time_name)
        attributes |= begins
    if segment_name is not None:
        numbers[segment_name] = as_labels(columns.column(segment_name))
    keep = usable_rows(numbers, wanted.missing, source, line or _row)
    if not keep.any():
        raise DataError(f"{source} holds no rows of numbers: check the file and the requested columns.")
    rows = None if keep.all() else np.flatnonzero(keep)
    kept = slice(None) if rows is None else keep
    if time_name is not None:
        time = numbers[time_name][kept]
    else:
        time = (wanted.interval or 1.0) * (np.arange(keep.size) if rows is None else rows).astype(np.float64)
    label = segment_labels(columns, None if segment_name is None else numbers[segment_name], kept, int(keep.sum()))
    dropped = np.empty(0, np.intp) if rows is None else np.flatnonzero(np.diff(rows) > 1)
    facts = {new: _scaled(columns.facts.get(old, {}), scales.get(old)) for old, new in chosen.items()}
    declared = declared_names(wanted.angles, facts)
    angles = [n for n in facts if n in declared or (wanted.angles is None and facts[n].get("angle") is True)]
    attributes |= {k: v for k, v in (("period", wanted.period), ("phase", wanted.phase)) if v is not None}
    noise = {n: sigma for n, own in facts.items() if isinstance(sigma := own.get("noise"), float | int)}
    channels = {
        new: channel(new, samples(new, _owned(numbers[old][kept])), units[old], new in angles, noise.get(new))
        for old, new in chosen.items()
    }
    # Nobody else holds these arrays: `Record.from_arrays` would copy times and labels of 10^7 samples.
    labels = cut_segments(label, dropped) if dropped.size else label
    # The page shows where the time comes from.
    origin = {} if time_name is None or columns.own else {COLUMN: time_name, RECORDED: units[time_name] or "s"}
    coords = {"time": Column(_owned(samples("Time", time)), origin), "segment": Column(labels, {})}
    record = Record.from_content(TimeTable(channels, coords, attributes))
    record.check()
    # What Kapitza wrote comes back as it was; what others wrote comes in SI.
    return record if columns.own else _in_si(record, {new: units[old] for old, new in chosen.items()})


def _owned(values: Array) -> Array:
    """Return samples that keep no larger array in memory.

    A column of a table is a view of all columns; a whole array is taken without a copy.
    """
    # The base of an array may be any buffer, such as a mapped file.
    owner: Any = values if values.base is None else values.base
    alone = isinstance(owner, np.ndarray) and owner.nbytes == values.nbytes
    return values if alone and values.flags.c_contiguous else values.copy()


def without_sensitivities(
    columns: Columns, wanted: Wanted, chosen: Mapping[str, str]
) -> tuple[Wanted, dict[str, Sensitivity]]:
    """Return the request with plain units, and the sensitivities it stated.

    The sensitivities are listed by column.
    """
    given, found = dict(wanted.units or {}), dict[str, Sensitivity]()
    for old, new in chosen.items():
        key = next((name for name in (old, new) if isinstance(given.get(name), str)), None)
        stated = str(columns.facts.get(old, {}).get("unit", ""))
        scale = None if key is None else sensitivity(given[key], stated, old)
        if key is not None and scale is not None:
            found[old], given[key] = scale, scale.unit
    return (replace(wanted, units=given) if found else wanted), found


def _scaled(facts: Facts, scale: Sensitivity | None) -> Facts:
    """Return facts of a column whose values were multiplied by its sensitivity."""
    noise = facts.get("noise")
    if scale is None or not isinstance(noise, float | int):
        return facts
    return {**facts, "noise": abs(scale.factor) * noise}


def _row(number: int) -> str:
    return f"row {number}"


def _in_si(record: Record, stated: Mapping[str, str]) -> Record:
    """Return the record in SI.

    Channels that were recorded in another unit keep its name, for reports.
    """
    table = record.in_si().content
    changed = {
        name: replace(column, attrs={**column.attrs, RECORDED: stated[name]})
        for name, column in table.channels.items()
        if stated.get(name) and stated[name] != column.attrs.get("unit")
    }
    return record.from_content(table.with_channels(changed))


def _not_text(values: Iterable[object]) -> object:
    """Return the first value that is not text.

    None where all are texts.
    """
    return next((value for value in values if not isinstance(value, str)), None)


def stated_units(columns: Columns, wanted: Wanted, chosen: Mapping[str, str], time_name: str | None) -> dict[str, str]:
    """Return the unit of every chosen column.

    The unit of the time is included. Each comes from the caller or from the file and is a known unit, or "".

    The caller names a column as in the file or as the channel will be called.
    """
    given = dict(wanted.units or {})
    wrong = _not_text(given.values())
    if wrong is not None:
        raise DataError(f"Units are text, such as {Give(units={'phi': 'deg'})}, not {wrong!r}.")
    names = {**{old: {old, new} for old, new in chosen.items()}, **({time_name: {time_name}} if time_name else {})}
    declared_names(given, [*chosen.values(), *chosen, *([time_name] if time_name else [])])
    units: dict[str, str] = {}
    in_names: dict[str, str] = {}
    for old, known_as in names.items():
        what = f'Column "{old}"'
        by_caller = [given[name] for name in known_as if name in given]
        unit = by_caller[0] if by_caller else str(columns.facts.get(old, {}).get("unit", ""))
        if old == time_name and (clock := clock_by_name(columns, wanted, old)):
            units[old] = clock
            continue
        if not unit and not by_caller and not columns.own and (suffix := unit_in_name(old)):
            in_names[old] = suffix
            continue
        meant = "" if columns.own or by_caller else meant_by(old, unit)
        if unit in REFUSED and not columns.own:
            raise DataError(f'{what} is in "{unit}": {REFUSED[unit]}.')
        if meant:
            unit = meant
        elif not columns.own or by_caller:
            require_unit(unit, what)
        units[old] = unit
    if in_names:
        old, suffix = next(iter(in_names.items()))
        others = list(in_names)[1:]
        also = f" (likewise {listed(others)})" if others else ""
        raise DataError(
            f'The name of column "{old}" ends like the unit "{suffix}" or holds it, but the file states none{also}: '
            f'say {Give(units=in_names)}, or "" if it is none.'
        )
    return units


def _decided(columns: Columns, wanted: Wanted, name: str, unit: str) -> bool:
    """Return whether a unit was chosen by the name.

    Two units were possible for the column.
    """
    stated = str(columns.facts.get(name, {}).get("unit", ""))
    return not columns.own and unit == meant_by(name, stated) != "" and name not in (wanted.units or {})


TELLING = {
    "ms", "us", "ns", "µs", "μs", "msec", "min", "deg", "degrees", "mrad", "mm", "cm", "um", "µm", "μm", "km", "rpm",
    "mV", "mA", "kN", "kPa", "MPa", "kHz",
}  # fmt: skip
"""Begin of a unit that a name ends in: hardly a word of the name itself."""

RATIOS = {"1", "-", "L", "l", "h", "d", "H", "T"}
"""Units that stand below a stroke as letters too: x/L, y/h."""

BRACKETED = re.compile(r"[\[({<]\s*([^\[\](){}<>]+?)\s*[\])}>]")
GAP = re.compile(r"\s*[/:,]\s*|\s+in\s+|\s+|_")


def unit_in_name(name: str) -> str:
    """Return the unit in the name of a column.

    Names are like "phi_deg", "x / mm", "v, mm/s", "x in mm" or "pos [mm] filtered"; "" without a unit.
    """
    for part in BRACKETED.findall(name):
        first = re.split(r"[\s,;]", part)[0]  # of "(mm, filtered)" and "(m/s^2 rms)"
        if is_unit(part) and part not in RATIOS:
            return part
        if is_unit(first) and (first in TELLING or re.search(r"[/^]", first)):
            return first
    for gap in GAP.finditer(name):
        rest = name[gap.end() :].strip()
        first = re.match(r"[^\W\d_]*", rest)
        sure = gap[0].strip() in ("/", "in") and rest not in RATIOS
        if gap.start() and rest and (sure or (first and first[0] in TELLING)) and is_unit(rest):
            return rest
    return ""


CLOCKS = {
    **{name: name for name in ("ms", "us", "ns", "µs", "μs", "min")},
    "msec": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms", "usec": "us", "micros": "us",
    "microsecond": "us", "microseconds": "us", "nanos": "ns", "nanoseconds": "ns", "mins": "min", "minute": "min",
    "minutes": "min",
}  # fmt: skip
"""Names of a time column that are a unit of time other than the second."""


def clock_by_name(columns: Columns, wanted: Wanted, name: str) -> str:
    """Return the unit that the name of the time column states, "" where it states none.

    Names are like "ms", "time_ms" and "t [ms]". A unit that the caller or the file states comes first; dates and
    clock times have none.
    """
    stated = name in (wanted.units or {}) or columns.facts.get(name, {}).get("unit")
    if stated or columns.own or holds_instants(columns.column(name)):
        return ""
    unit = CLOCKS.get(name.strip().lower()) or unit_in_name(name)
    return unit if dimension(unit) == {"second": 1} and not conversion(unit, "s", "The time").identity else ""


def time_column(columns: Columns, wanted: Wanted) -> str | None:
    """Return the name of the time column.

    None when the times are made from the sampling interval.
    """
    if wanted.interval is not None:
        if not is_number(wanted.interval) or wanted.interval <= 0:
            raise DataError(f"The sampling interval is {checks.shown(wanted.interval)} s: give a positive number.")
        if wanted.time is not None:
            raise DataError("Give the time column or the sampling interval, not both.")
        return None
    if wanted.time is not None:
        return columns.name(wanted.time)
    guesses = ["time"] if columns.own and "time" in columns.names else columns.guesses(TIME_NAMES)
    guesses = guesses or columns.guesses(OTHER_TIME_NAMES)[:1]
    if len(guesses) > 1:
        # "T [degC]" beside "time [s]" is a temperature.
        kinds = {name: dimension(str(columns.facts.get(name, {}).get("unit", ""))) for name in guesses}
        guesses = [name for name in guesses if kinds[name] in (None, {"second": 1})]
    guesses = guesses or [name for name in columns.names if holds_instants(columns.column(name))]
    if len(guesses) > 1:
        raise DataError(f"Several columns look like the time, {', '.join(guesses)}: say which with {Give(time='...')}.")
    if not guesses:
        raise DataError(
            f"None of the columns {listed(columns.names)} is called time: name it with {Give(time='...')} (or by its "
            f"position, {Give(time=0)}), or give the sampling interval in seconds, {Give(interval=...)}"
        )
    return guesses[0]


def seconds(values: Numbers, unit: str, name: str) -> tuple[Array, dict[str, str]]:
    """Return times in seconds.

    They are given as numbers in their unit, durations, or dates. Dates count from the first, which is returned too.
    """
    what = f'The time column "{name}"'
    if values.dtype.kind == "M":
        refuse_clock_change(values, what)
    if values.dtype.kind not in "mM":
        if not numeric(values):
            values = instants(values, what)
        if numeric(values):
            times = as_numbers(values)
            if not unit and times.size and abs(times[0]) > EPOCH:
                raise DataError(
                    f"{what} begins at {times[0]:.6g}, which no clock counts in seconds: say its unit, "
                    f'{Give(units={name: "ms"})} (or "us", "ns").'
                )
            return conversion(unit, "s", what)(times), {}
    missing = np.isnat(values)
    if values.dtype.kind == "m":
        ticks = values - np.timedelta64(0, "ns")
        begins = {}
    else:
        first = values[~missing][0] if (~missing).any() else np.datetime64(0, "s")
        ticks, begins = values - first, {"begins": str(first)}
    return np.where(missing, np.nan, ticks.astype("timedelta64[ns]").astype(np.int64) / 1e9), begins


DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?\s*(Z|[-+]\d\d:?\d\d)?")
CLOCK = re.compile(r"\d+:\d\d:\d\d([.,]\d+)?")


def instants(values: Numbers, what: str) -> Numbers:
    """Return words as dates, clock times or numbers.

    The first word decides: ISO 8601, h:mm:ss, or a number. Words of another kind become missing.
    """
    import pandas as pd

    words = pd.Series(values).astype(str).str.strip()
    first = next((word for word in words.head(1000) if word and word.lower() not in ("nan", "none")), "")
    if DATE.fullmatch(first):
        zoned = have_zones(words)
        # ISO 8601 takes either decimal sign, pandas only the point.
        found = pd.to_datetime(words.str.replace(",", "."), format="ISO8601", utc=True, errors="coerce")
        dates = found.dt.tz_localize(None).to_numpy("datetime64[ns]")
        if not zoned:
            refuse_clock_change(dates, what)
        return dates
    if CLOCK.fullmatch(first):
        return pd.to_timedelta(words.str.replace(",", "."), errors="coerce").to_numpy("timedelta64[ns]")
    return as_numbers(values)


def holds_instants(values: Numbers) -> bool:
    """Return whether a column holds dates or clock times.

    The first cell that is not empty decides.
    """
    if values.dtype.kind in "mM":
        return True
    if values.dtype.kind not in "OUST":
        return False
    first = next((str(value).strip() for value in values[:1000] if value is not None and str(value).strip()), "")
    return bool(DATE.fullmatch(first) or CLOCK.fullmatch(first))


ZONED = r".*\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:[Zz]|[-+]\d{2}(?::?\d{2})?)"
"""A date and time that states its zone: 2024-03-31T02:30:00+01:00, …Z."""

HOUR = np.timedelta64(3600, "s")


def have_zones(words: pd.Series) -> bool:
    """Return whether dates state their zone.

    Dates of which only some state a zone are refused: the others could be of any zone.
    """
    dates = words[words.str.match(r"\d{4}-\d\d-\d\d")]
    zoned = dates.str.fullmatch(ZONED)
    if zoned.any() and not zoned.all():
        with_zone, without = dates[zoned].iloc[0], dates[~zoned].iloc[0]
        raise DataError(
            f'The dates mix zones: "{with_zone}" says its zone, "{without}" does not, so that the time between them is '
            "not known. Write the zone to every date, or give the time in seconds."
        )
    return bool(zoned.any())


def refuse_clock_change(dates: Numbers, what: str) -> None:
    """Refuse a clock that changes for summer time.

    It jumps by one hour at night, on a Sunday, in otherwise even steps.

    dates: without a zone; clocks of UTC do not jump.
    """
    dates = dates[~np.isnat(dates)]
    if dates.size < 3:
        return
    steps = np.diff(dates)
    usual = np.median(steps.astype("timedelta64[ns]").astype(np.int64))
    off = (steps.astype("timedelta64[ns]").astype(np.int64) - usual) / 3.6e12
    hour = (dates[:-1] - dates[:-1].astype("datetime64[D]")) // HOUR
    # 1970-01-01 was a Thursday.
    sunday = (dates[:-1].astype("datetime64[D]").astype(np.int64) + 4) % 7 == 0
    tolerance = max(1.5 * usual / 3.6e12, 1e-3) if usual > 0 else 1e-3
    jumps = np.flatnonzero((np.abs(np.abs(off) - 1.0) <= tolerance) & sunday & (hour < 4) & (usual < 0.2 * 3.6e12))
    if jumps.size:
        k = int(jumps[0])
        raise DataError(
            f"{what} jumps from {dates[k]} to {dates[k + 1]}, one hour beside its usual step of {usual / 1e9:.6g} s, "
            "in the night of a Sunday: the clock was changed to or from summer time. Write the zone to every date "
            "(2024-03-31T01:59:59+01:00), or give the time in seconds."
        )


def channel_names(columns: Columns, wanted: Wanted, taken: set[str | None]) -> dict[str, str]:
    """Return the channels as old name → new name.

    By default these are all numeric columns that are neither time nor segment.
    """
    if wanted.channels is None:
        taken = {*taken, *RESERVED, index_column(columns)}
        pairs = [
            (n, n) for n, v in zip(columns.names, columns.values, strict=True) if n not in taken and mostly_numbers(v)
        ]
    elif isinstance(wanted.channels, Mapping):
        pairs = [(columns.name(key), new) for key, new in wanted.channels.items()]
    elif isinstance(wanted.channels, str | int):
        raise DataError(f"channels is a list of names: {Give(channels=[wanted.channels])}.")
    else:
        chosen = [columns.name(key) for key in wanted.channels]
        pairs = list(zip(chosen, chosen, strict=True))
    if not pairs:
        raise DataError(f"No channels: apart from the time the file has no numeric columns ({listed(columns.names)}).")
    for old, new in pairs:
        if _not_text([new]) is not None or new in RESERVED:
            raise DataError(f'Column "{old}" cannot become a channel called {new!r}: give it another name, as text.')
        if columns.column(old).dtype.kind == "M":
            raise DataError(f'Column "{old}" holds dates: it can be the time, but not a channel.')
    twice = sorted(name for name, count in Counter(new for _, new in pairs).items() if count > 1)
    if twice:
        raise DataError(f"Two channels would be called {listed(twice)}: give each its own name.")
    return dict(pairs)


def index_column(columns: Columns) -> str | None:
    """Return a column that numbers the rows.

    pandas writes such a column without a name, also for a frame that was cut: the first of a table, the last of a
    Parquet file.

    It holds whole numbers from 0 on that rise from row to row. The record states that it was left out.
    """
    pairs = list(zip(columns.names, columns.values, strict=True))
    for name, values in (*pairs[:1], *pairs[-1:]):
        unnamed = name == "__index_level_0__" or (name == columns.names[0] and name in ("", "Unnamed: 0"))
        if not unnamed or not numeric(values):
            continue
        whole = np.asarray(values, float)
        counts = np.isfinite(whole).all() and (whole == np.floor(whole)).all() and (whole >= 0).all()
        if counts and (np.diff(whole) > 0).all():
            return name
    return None


def declared_names(names: Iterable[str] | None, channels: Iterable[str]) -> set[str]:
    """Return the names with declared angles or units.

    Each must be a channel.
    """
    by_name = cast("Mapping[str, object]", names) if isinstance(names, Mapping) else None
    given = set(by_name if by_name is not None else checks.texts("names", names or [], error=DataError))
    known = list(dict.fromkeys(channels))
    for name in sorted(map(str, given - set(known))):
        raise DataError(
            f'"{name}" is declared but is not a channel; there are {listed(known)}.{nearest_name(name, known)}'
        )
    return given


def numeric(values: Numbers) -> bool:
    return values.dtype.kind in "fiub"


def mostly_numbers(values: Numbers) -> bool:
    """Return whether a column holds numbers.

    Some entries may be damaged; a column of words does not hold numbers.
    """
    if values.dtype.kind in "mM":
        return False
    return numeric(values) or 2 * int(np.isfinite(as_numbers(values[:1000])).sum()) >= min(1000, values.size)


def as_numbers(values: Numbers) -> Array:
    """Return the values as floats.

    An entry that is not a number becomes NaN, that is missing.
    """
    import pandas as pd

    if numeric(values):
        # Not copied: the rows that are kept are copied later.
        return values.astype(np.float64, copy=False)
    if values.dtype.kind == "m":
        return values.astype("timedelta64[ns]").astype(np.int64) / 1e9
    try:
        return pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(np.float64)
    except (TypeError, ValueError, OverflowError):  # rows of lists, of tables, of numbers beyond any float
        return np.full(values.size, np.nan)


def as_labels(values: Numbers) -> Array:
    """Return numbers that change where the labels change.

    Labels may be words.
    """
    import pandas as pd

    if numeric(values):
        return values.astype(np.float64) if values.dtype.kind == "b" else values
    return pd.factorize(values)[0].astype(np.float64)


def usable_rows(numbers: Mapping[str, Array], missing: str, source: str, line: NameRow) -> NDArray[np.bool_]:
    """Return the rows with finite numbers only.

    Every chosen column must be finite; other rows are refused or dropped.
    """
    if missing not in ("refuse", "drop"):
        raise DataError(f'missing is "refuse" or "drop", not "{missing}".')
    keep = reduce(np.logical_and, (np.isfinite(values) for values in numbers.values()))
    if missing == "refuse" and not keep.all():
        row = int(np.flatnonzero(~keep)[0])
        column = next(name for name, values in numbers.items() if not np.isfinite(values[row]))
        raise DataError(
            f'{source}: {line(row)}: "{column}" is missing, not finite or not a number ({int((~keep).sum())} such '
            f"rows). Repair the file, or read it with {Give(missing='drop')}: the record is then cut there."
        )
    return keep


def segment_labels(
    columns: Columns, labels: Numbers | None, kept: slice | NDArray[np.bool_], count: int
) -> NDArray[np.int32]:
    """Return segments from labels and pieces of the file.

    labels are the values of a column, or None; count: of the rows that are kept.
    """
    sources = [source[kept] for source in (labels, columns.sections) if source is not None]
    label = np.zeros(count, np.int32)
    for here in sources:
        label[1:] |= here[1:] != here[:-1]
    return np.cumsum(label, out=label)
