"""Read the recordings of a study.

They are read, cut and given their excitation, before any fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.data import FITTED, Record, read
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate import Sensor, best_degree
from kapitza.model import Model, Signal
from kapitza.signal import without_bad_samples
from kapitza.study.problems import Notebook
from kapitza.study.problems import Path as Place

READ_KEYS = (
    "time",
    "interval",
    "names",
    "angles",
    "segment",
    "missing",
    "group",
    "separator",
    "decimal",
    "period",
    "phase",
)


@dataclass(frozen=True)
class Recording:
    """Hold one file of a study.

    Its record, its own values, what drove it, and its use ("fit" or "check").
    measures: channel → expression in the states, where a channel is not a state. sensors: channel → its errors.
    signals: measured drives by name. held_back: spans [s] that are predicted, not fitted. place: where the study
    speaks of it. notes: spans of the study that reach beyond the recording.
    """

    path: Path
    record: Record
    values: Mapping[str, float] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)
    signals: tuple[Signal, ...] = ()
    use: str = "fit"
    place: Place = ()
    sensors: Mapping[str, Sensor] = field(default_factory=dict)
    held_back: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outputs(self) -> dict[str, str | Sensor]:
        """Return outputs of channels that are not states.

        Each is an expression, or one with the errors of its sensor.
        """
        return {**self.measures, **self.sensors}

    def held(self, record: Record) -> NDArray[np.bool_]:
        """Return which samples (N,) are held back."""
        return np.any([(record.time >= a) & (record.time < b) for a, b in self.held_back], axis=0)

    def needed(self, model: Model) -> set[str]:
        """Return the channels that a fit uses.

        They are states, outputs, measured expressions, and the columns in them.
        """
        read = {*model.states, *model.outputs, *self.outputs}
        for text in self.measures.values():
            read |= set(re.findall(r"[A-Za-z_]\w*'*", text)) & set(self.record.channels)
        return read

    @property
    def name(self) -> str:
        return self.path.name


MOST_KEPT = 4
"""Records of a study that are kept between two checks."""


@dataclass
class KeptRecords:
    """Keep records that were read.

    The keys are file and settings; a file that has changed since is read again. others: records of the same files
    that are held elsewhere; columns equal to theirs take no memory of their own.
    """

    found: dict[str, Record] = field(default_factory=dict)
    others: list[Record] = field(default_factory=list)

    def read(self, path: Path, **settings: Any) -> Record:
        """Read a file with bad samples marked.

        A record that is kept is returned instead.
        """
        if not path.is_file():
            # A folder (.zarr) can change inside without a change of its own.
            return read_marked(path, **settings)
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        key = repr((str(path), stamp, sorted(settings.items())))
        record = self.found.pop(key, None)
        if record is None:
            # Before bad samples are looked for: the temporary arrays of both would add up.
            record = read_marked(path, others=self.others, **settings)
        self.found[key] = record
        while len(self.found) > MOST_KEPT:
            del self.found[next(iter(self.found))]
        return record


def sharing(record: Record, others: Sequence[Record]) -> Record:
    """Return the record with columns that others hold too.

    Equal columns become the same array.
    """
    known = [
        column.values
        for other in others
        if other.size == record.size
        for column in (*other.content.channels.values(), *other.content.coords.values())
    ]

    def held(values: NDArray[Any]) -> NDArray[Any]:
        same = (one for one in known if one.dtype == values.dtype and np.array_equal(one, values))
        return next(same, values)

    content = record.content
    content = content.with_channels({n: replace(c, values=held(c.values)) for n, c in content.channels.items()})
    return Record.from_content(content.with_coords({n: held(c.values) for n, c in content.coords.items()}))


def read_marked(path: Path, keep_bad: bool = False, others: Sequence[Record] = (), **settings: Any) -> Record:
    """Read a file with bad samples marked.

    keep_bad: they are taken as they are. others: see `KeptRecords`.
    """
    record = sharing(read(path, **settings), others)
    if keep_bad:
        record = record.with_attributes(bad_samples="keep")
    # Before anything is made from the channels: a spike in the drive would be part of the model.
    return without_bad_samples(record)


def read_recordings(
    content: Mapping[str, Any], folder: Path, place: Place, notes: Notebook, kept: KeptRecords | None = None
) -> list[Recording]:
    """Read all files of one [data] table.

    Files that cannot be used go into the notes.
    """
    files = content.get("files", [content["file"]] if "file" in content else [])
    if not files or ("file" in content and "files" in content):
        notes.add(place, 'give one recording by file = "run.csv", or several by files = ["a.csv", "b.csv"].')
        return []
    made = []
    for name in files:
        key = (*place, "files" if "files" in content else "file")
        try:
            made.append(one_recording(content, folder / name, place, kept))
        except (KapitzaError, OSError) as error:
            notes.add(_blamed(content, key, place, str(error)), error)
    return made


def _blamed(content: Mapping[str, Any], key: Place, place: Place, message: str) -> Place:
    """Return the key that a message is about.

    The file where none is named.
    """
    # "hold_back = [[3, 1]]: ..." names its key itself; a wrong unit is quoted beside its column.
    stated = next((name for name in content if message.startswith(f"{name} = ")), "")
    if stated:
        return (*place, stated)
    units = content.get("units")
    if isinstance(units, dict) and any(f'the unit "{unit}"' in message for unit in units.values()):
        return (*place, "units")
    for name in (
        "channels",
        "time",
        "segment",
        "units",
        "angles",
        "names",
        "phase_channel",
        "drive",
        "measures",
        "sensors",
        "ignore",
    ):
        said = content.get(name)
        words = [said] if isinstance(said, str) else list(said or ()) if isinstance(said, list | dict) else []
        if any(f'"{word}"' in message for word in words):
            return (*place, name)
    return key


def one_recording(
    content: Mapping[str, Any], path: Path, place: Place = (), store: KeptRecords | None = None
) -> Recording:
    """Read a file as a [data] table says."""
    settings = {name: content[name] for name in READ_KEYS if name in content}
    drives, marker = list(content.get("drive", ())), content.get("phase_channel")
    settings |= {"channels": _channels(content, drives, marker), "units": content.get("units")}
    reader = read_marked if store is None else store.read
    record = reader(path, keep_bad=content.get("bad_samples") == "keep", **settings)
    if marker is not None:
        record = strobe_marks(record, str(marker))
    signals = tuple(drive_signal(record, name, content.get("drive_degree")) for name in drives)
    if signals and "phase" not in record.content.attrs:
        record = record.with_attributes(phase=0.0)
    for name in content.get("ignore", ()):
        record[name]  # an unknown channel is refused with the nearest one
    left_out = {*content.get("ignore", ()), *(() if marker is None else (str(marker),))}
    channels = [name for name in record.channels if name not in left_out]
    if not channels:
        raise DataError(f"Every channel of {path.name} is left out: use at least one.")
    record = record.select(channels) if len(channels) < len(record.channels) else record
    if content.get("gaps") == "split":
        record = record.split_at_gaps()
    notes: tuple[str, ...] = ()
    if not {"from", "to", "hold_back"}.isdisjoint(content):
        begin, end = float(record.time.min()), float(record.time.max())
        # The mean step: to look through 10^7 samples for the usual one takes half a second.
        notes = spans_beyond(content, begin, end, (end - begin) / max(record.size - 1, 1))
    record = _cut(record, content)
    if signals and record.sampling().gaps:
        names = ", ".join(f'"{signal.name}"' for signal in signals)
        raise DataError(
            f"{path.name} has gaps, {record.sampling()}: what {names} did there is not known, and it drives the model. "
            'Cut it there: gaps = "split".'
        )
    record = _with_noise(record, content.get("noise", {}))
    # A channel called x'' measures the acceleration: no state has that name.
    measures = {name: name for name in record.channels if name.endswith("''")} | dict(content.get("measures", {}))
    sensors = content.get("sensors", {})
    for channel in (*measures, *sensors):
        record[channel]  # an unknown channel is refused with the nearest one
    return Recording(
        path,
        record,
        dict(content.get("values", {})),
        measures,
        signals,
        content.get("use", "fit"),
        place,
        {channel: _sensor(channel, errors, measures.get(channel, channel)) for channel, errors in sensors.items()},
        tuple(_span(record, *span) for span in content.get("hold_back", ())),
        notes,
    )


def _sensor(channel: str, errors: Mapping[str, Any], output: str) -> Sensor:
    """Return the sensor described in a study."""
    known = ("unknown", *(error.name for error in FITTED), "limits")
    for name in errors:
        if name not in known:
            raise DataError(f'The sensor of "{channel}" has no "{name}"; give {", ".join(known)}.')
    # A list [value, deviation] of a file is the pair of Python.
    pairs = {name: tuple(value) if isinstance(value, list) else value for name, value in errors.items()}
    sizes = {name: value for name, value in pairs.items() if name not in ("unknown", "limits")}
    return Sensor(output, errors.get("unknown", ()), limits=pairs.get("limits"), errors=sizes)


def spans_beyond(content: Mapping[str, Any], begin: float, end: float, step: float) -> tuple[str, ...]:
    """Return a sentence for each span of a [data] table that reaches beyond the recording.

    begin, end: the first and last time of the recording [s]; step: its sampling interval [s]. Spans are open at their
    end: one that takes the last sample in ends up to a step behind it.
    """
    # Round numbers beside the last sample, such as 40 s of 39.998 s, are meant as the end.
    room = max(1.5 * step, 0.005 * (end - begin))
    given = [(f"from = {content['from']:g}", (content["from"],))] if "from" in content else []
    given += [(f"to = {content['to']:g}", (content["to"],))] if "to" in content else []
    given += [(f"hold_back = [[{a:g}, {b:g}]]", (a, b)) for a, b in content.get("hold_back", ())]
    return tuple(
        f"{stated} reaches beyond the recording, which spans {begin:.6g} to {end:.6g} s: give times inside of it."
        for stated, times in given
        if any(math.isfinite(t) and not begin - room <= t <= end + room for t in times)
    )


def _span(record: Record, start: float, stop: float) -> tuple[float, float]:
    """Return a held-back span that holds samples."""
    if not start < stop:
        raise DataError(f"hold_back = [[{start:g}, {stop:g}]]: give the earlier time first.")
    if not ((record.time >= start) & (record.time < stop)).any():
        reach = f"{record.time[0]:.6g} to {record.time[-1]:.6g} s"
        raise DataError(f"hold_back = [[{start:g}, {stop:g}]]: the recording spans {reach}; give times inside of it.")
    return float(start), float(stop)


def _channels(content: Mapping[str, Any], drives: list[str], marker: Any) -> Any:
    """Return the columns to read.

    They are those requested, and those that drive the model or mark its phase.
    """
    asked = content.get("channels")
    if asked is None:
        return None
    if isinstance(asked, list):
        more = [name for name in (*drives, marker) if name is not None and name not in asked]
        return [*asked, *more]
    named = {int(key) if key.isdigit() else key: new for key, new in asked.items()}
    new = {one for value in named.values() for one in ([value] if isinstance(value, str) else value)}
    return named | {name: str(name) for name in (*drives, marker) if name is not None and str(name) not in new}


def _cut(record: Record, content: Mapping[str, Any]) -> Record:
    """Return the requested span of the record.

    It has every n-th sample of each segment.
    """
    if "from" in content or "to" in content:
        stated = ", ".join(f"{key} = {content[key]:g}" for key in ("from", "to") if key in content)
        try:
            record = record.between(content.get("from", -np.inf), content.get("to", np.inf))
        except DataError as error:
            raise DataError(f"{stated}: {error} Give times inside of it.") from None
    every = int(content.get("every", 1))
    if every < 1:
        raise DataError(f"every = {every}: use every sample (1), every second (2), and so on.")
    return thinned(record, every)


def thinned(record: Record, every: int) -> Record:
    """Return every n-th sample of each segment."""
    if every == 1:
        return record
    pieces = [record.samples(slice(piece.start, piece.stop, every)) for piece in record.segments()]
    return pieces[0] if len(pieces) == 1 else _joined(record, pieces)


def _joined(record: Record, pieces: list[Record]) -> Record:
    """Join thinned segments into one record.

    It has the clock and the labels of the whole.
    """
    time = np.concatenate([piece.time for piece in pieces])
    label = np.concatenate([np.full(piece.size, number, np.int32) for number, piece in enumerate(pieces)])
    angles = [name for name, angle in zip(record.channels, record.angles, strict=True) if angle]
    attributes = {str(key): value for key, value in record.content.attrs.items()}
    if "phase" in attributes:
        attributes["phase"] += float(time[0] - record.time[0])
    return Record.from_arrays(
        time,
        {name: np.concatenate([piece[name] for piece in pieces]) for name in record.channels},
        units=record.units,
        angles=angles,
        segment=label,
        noise=record.noise,
        **attributes,
    )


def _with_noise(record: Record, noise: float | Mapping[str, float]) -> Record:
    given = noise if isinstance(noise, Mapping) else dict.fromkeys(record.channels, noise)
    for channel, deviation in given.items():
        if not deviation > 0:
            raise DataError(f'The noise of "{channel}" is {deviation}: give a positive standard deviation.')
        angle = record.angles[record.channels.index(channel)] if channel in record.channels else False
        values, unit = record[channel], record.units[channel]
        record = record.with_channel(channel, values, unit, angle, float(deviation))
    return record


def drive_signal(record: Record, channel: str, degree: int | None = None) -> Signal:
    """Return a measured drive as a model's signal.

    t = 0 at the first sample; it is known up to the last. degree: by default the one that follows its samples best.
    """
    if len(record.segments()) > 1:
        raise DataError(
            f'"{channel}" drives the model, but the recording has {len(record.segments())} segments: give each piece '
            "as a file of its own, or cut one out by from and to."
        )
    time = record.time - record.time[0]
    degree = best_degree(time, record[channel]) if degree is None else int(degree)
    return Signal(channel, time, record[channel], degree=degree)


def strobe_marks(record: Record, channel: str) -> Record:
    """Find the excitation's period and phase by edges.

    The edges are rising edges of a channel: a trigger, or the drive itself.
    Edges t_k through the middle of the channel's range, interpolated between samples, are fitted by t_k = t_0 + k T.
    """
    values, time = record[channel], record.time
    middle = 0.5 * (float(values.min()) + float(values.max()))
    rising = np.flatnonzero((values[:-1] < middle) & (values[1:] >= middle))
    if rising.size < 3:
        raise DataError(
            f'The phase channel "{channel}" rises through {middle:.4g} only {rising.size} times: at least 3 rising '
            "edges are needed to tell the period. Name the column of the trigger or of the drive."
        )
    share = (middle - values[rising]) / (values[rising + 1] - values[rising])
    edges = time[rising] + share * (time[rising + 1] - time[rising])
    typical = float(np.median(np.diff(edges)))
    # Edges may be missed: the number of periods between two is rounded, not counted.
    number = np.concatenate([[0], np.cumsum(np.round(np.diff(edges) / typical))])
    period, start = np.polyfit(number, edges, 1)
    scatter = float(np.std(edges - (start + period * number)))
    if scatter > 0.05 * period:
        raise DataError(
            f'The rising edges of "{channel}" scatter by {100 * scatter / period:.0f} % of their period '
            f"({period:.6g} s): it does not mark a steady excitation. Smooth it, or give period and phase."
        )
    return record.with_attributes(period=float(period), phase=float((time[0] - start) % period))
