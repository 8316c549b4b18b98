"""Record: measured channels with units, segments and sampling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import unwrap, wrap
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array, Integers, Numbers
from kapitza.base.cures import RESAMPLE, SPLIT, Set
from kapitza.base.display import Shown
from kapitza.base.lazy_fields import as_given, deferrable
from kapitza.base.units import conversion, is_unit, to_si
from kapitza.data.channels import (
    RESERVED,
    channel,
    check_table,
    converted,
    is_table_of_texts,
    is_text,
    named_by_text,
    samples,
    segment_numbers,
)
from kapitza.data.grid import on_grid, rebuilt, with_phase_shifted
from kapitza.data.marks import mark_name
from kapitza.data.noise import is_number
from kapitza.data.sampling import (
    GAP,
    REGULAR,
    Sampling,
    cut_segments,
    even_clock,
    inspect_sampling,
)
from kapitza.data.time_table import Column, TimeTable, Unlabelled
from kapitza.errors import DataError, Status, nearest_name, printable

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from kapitza.data.columns import Key

SHOWN = 12
"""Channels that the printed record names."""


class _Chunked(Protocol):
    """A dataset whose arrays may be lazy."""

    def compute(self) -> xr.Dataset: ...


def _computed(dataset: _Chunked) -> xr.Dataset:
    return dataset.compute()


@dataclass(frozen=True, eq=False, repr=False)
class Record(Shown):
    """A measurement as an xarray Dataset, `dataset`, along "time".

    The dataset is made on first access; until then the record holds the arrays alone.

    Coordinates: "time" [s] and "segment" (an integer that changes where the recording was interrupted).
    Each data variable is a channel; its attributes: "unit", "angle" (True for angles, continuous or wrapped, always
    kept in rad), "noise" (standard deviation in that unit, when known). Dataset attributes: "period" (of the
    excitation, s), "phase" (of the first sample, s after the excitation's start; without it the time stamps count from
    that start), "name", "source", "left_out" (a column of the file that numbers its rows and is not a channel).

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> t = np.arange(1000) * 0.01
    >>> record = kz.Record.from_arrays(t, {"x": np.sin(t)}, units={"x": "m"}, noise={"x": 1e-3})
    >>> record.size, record.units["x"], record.noise["x"]
    (1000, 'm', 0.001)
    """

    dataset: xr.Dataset = deferrable()

    def __post_init__(self) -> None:
        if isinstance(as_given(self)["dataset"], Unlabelled):
            return
        variables = self.dataset.variables
        odd = [name for name in variables if not isinstance(name, str) or variables[name].dims != ("time",)]
        lost = [name for name in ("time", "segment") if name not in self.dataset.coords]
        if odd or lost:
            wrong = f"no {lost[0]}" if lost else f"{odd[0]!a} along {', '.join(map(str, variables[odd[0]].dims))}"
            raise DataError(
                f'The dataset of a record has {wrong}; give coordinates "time" and "segment" and channels along "time",'
                " named by texts."
            )
        if self.dataset.chunks:
            object.__setattr__(self, "dataset", _computed(self.dataset))

    @property
    def content(self) -> TimeTable:
        """Channels and coordinates as plain arrays."""
        # Once the dataset exists a user may have changed it: then the table is read off it.
        held = as_given(self)["dataset"]
        return held.table if isinstance(held, Unlabelled) else TimeTable.of(held)

    @classmethod
    def from_content(cls, table: TimeTable) -> Record:
        """Return the record of a table, without a check."""
        return cls(cast("xr.Dataset", Unlabelled(table)))

    def __reduce__(self) -> tuple[object, ...]:
        return self.from_content, (self.content,)

    @classmethod
    def from_arrays(
        cls,
        time: Array,
        channels: Mapping[str, Array],
        *,
        units: Mapping[str, str] | None = None,
        angles: Iterable[str] = (),
        segment: Integers | None = None,
        noise: Mapping[str, float] | None = None,
        period: float | None = None,
        **attributes: Anything,
    ) -> Record:
        """Return a record from plain arrays.

        time is (N,) [s], each channel an array (N,); `segment` (N,) labels interrupted recordings.

        units: of the channels, as text ("deg/s"); angles given in another unit than rad are converted to rad.
        """
        time = samples("Time", time)
        angles = set(checks.texts("angles", angles, error=DataError))
        for what, given in (("channels", channels), ("units", units or {}), ("noise", noise or {})):
            if not named_by_text(given):
                raise DataError(f"{what} is {checks.shown(given)}; give a table {{name: ...}} with the names as text.")
        if not channels:
            raise DataError("The record has no channels: give at least one array of samples.")
        for what, named in (("angle", angles), ("unit", units or ()), ("noise", noise or ())):
            for name in sorted(set(named) - set(channels)):
                raise DataError(
                    f'The {what} of "{name}" is given, but the channels are {", ".join(channels)}.'
                    f"{nearest_name(name, channels)}"
                )
        labels = np.zeros(time.size, np.int32) if segment is None else segment_numbers(segment, time)
        variables: dict[str, Column] = {}
        for name, values in channels.items():
            values = samples(f'Channel "{name}"', values)
            if values.shape != time.shape:
                raise DataError(
                    f'Channel "{name}" has {values.shape} samples, time has {time.shape}: give one per time.'
                )
            variables[name] = channel(
                name, values, str((units or {}).get(name, "")), name in angles, (noise or {}).get(name)
            )
        attributes = {key: value for key, value in attributes.items() if value is not None}
        if period is not None:
            attributes["period"] = checks.number("The excitation period [s]", period, finite=False, error=DataError)
        coords = {"time": Column(time.copy(), {}), "segment": Column(labels, {})}
        record = cls.from_content(TimeTable(variables, coords, attributes))
        record.check()
        return record

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame | xr.Dataset,
        time: Key | None = None,
        channels: Key | Sequence[Key] | Mapping[Anything, Anything] | None = None,
        **settings: Anything,
    ) -> Record:
        """Return a record from a DataFrame or Dataset.

        The table is of pandas or xarray.

        time, channels, segment, interval, units, angles, period, phase, missing as in `kapitza.read`; times may be the
        index. Units from headers ("phi [deg]"), `frame.attrs["units"]` or attributes of variables.
        """
        from kapitza.data.frames import from_frame

        return from_frame(frame, time, channels, **settings)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the channels.

        It has one column per channel and times [s] as the index; units are in `.attrs`.
        """
        frame = self.dataset[list(self.channels)].to_dataframe()[list(self.channels)]
        frame.attrs["units"] = {name: unit for name, unit in self.units.items() if unit}
        return frame

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self.content.channels)

    @property
    def time(self) -> Array:
        return self.content.time

    @property
    def size(self) -> int:
        return self.content.time.size

    @property
    def period(self) -> float | None:
        """Return the period of the excitation [s].

        None where there is no excitation.
        """
        return self.content.attrs.get("period")

    @property
    def phase(self) -> float:
        """Return the phase of the first sample [s].

        It is the time after the start of an excitation period: as given, or its time stamp.
        """
        phase = float(self.time[0]) - self.excitation_start
        if self.period is None:
            return phase
        # A strobe time is a sum of periods: rounding must not turn the start of a period into its end.
        return 0.0 if phase % self.period > (1 - 1e-9) * self.period else phase % self.period

    @property
    def excitation_start(self) -> float:
        """Return the start of the excitation [s].

        It is the time stamp of t = 0 of a forced model: 0 unless "phase" is stated.
        """
        given = self.content.attrs.get("phase")
        return 0.0 if given is None else float(self.time[0]) - float(given)

    @property
    def status(self) -> Status:
        """Return how the recording ended.

        INTERRUPTED when a simulation was stopped before its end, CONVERGED otherwise.
        """
        return Status.__members__.get(str(self.content.attrs.get("status")), Status.CONVERGED)

    @property
    def angles(self) -> tuple[bool, ...]:
        return tuple(bool(column.attrs.get("angle", False)) for column in self.content.channels.values())

    @property
    def units(self) -> dict[str, str]:
        return {name: column.attrs.get("unit", "") for name, column in self.content.channels.items()}

    @property
    def noise(self) -> dict[str, float]:
        """Return the known standard deviations of the noise.

        Channels without one are left out.
        """
        return {
            name: float(column.attrs["noise"])
            for name, column in self.content.channels.items()
            if "noise" in column.attrs
        }

    def __getitem__(self, channel: str) -> Array:
        columns = self.content.channels
        if not is_text(channel) or channel not in columns:
            channel = channel if is_text(channel) else checks.shown(channel)
            known = ", ".join(self.channels)
            raise DataError(f'No channel "{channel}"; the record has {known}.{nearest_name(channel, self.channels)}')
        return columns[channel].values

    def values(self, channels: Sequence[str] | None = None) -> Array:
        """Return the samples (N, number of channels).

        Columns are in the requested order.
        """
        return np.column_stack([self[name] for name in (channels or self.channels)])

    def segments(self) -> list[slice]:
        """Return the contiguous pieces, in order."""
        label = self.content.segment
        cuts = np.flatnonzero(np.diff(label)) + 1
        edges = [0, *cuts.tolist(), label.size]
        return [slice(a, b) for a, b in itertools.pairwise(edges) if b > a]

    def without_rounding(self) -> Record:
        """Return the record with rounded time stamps evened.

        The times are those of the even clock behind the stamps; the record itself where there is no such clock.

        Stamps such as 0.003, 0.007, 0.010 s of a clock of 300 Hz are not jitter: they become multiples of 1/300 s
        again, and the attribute "rounded" keeps the quantum to which they had been rounded [s].
        """
        if self.sampling().regular:
            return self
        clock = even_clock(self.time, self.content.segment)
        if clock is None:
            return self
        attributes = {"rounded": clock.quantum}
        if "phase" in self.content.attrs:
            attributes["phase"] = float(self.content.attrs["phase"]) + float(clock.time[0] - self.time[0])
        return self.from_content(self.content.with_coords({"time": clock.time}).with_attrs(attributes))

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        marks: list[str] = []
        columns = self.content.channels
        for name in self.channels[:SHOWN]:
            attrs = columns[name].attrs
            marks.append(
                f"{name} [{', '.join(filter(None, (attrs.get('unit', ''), 'angle' * bool(attrs.get('angle')))))}]"
            )
        marks = [mark.removesuffix(" []") for mark in marks]
        if len(self.channels) > SHOWN:
            marks.append(f"and {len(self.channels) - SHOWN} more")
        pieces = len(self.segments())
        named = printable(", ".join(marks))
        text = f"Record of {named}: {self.size} samples in {pieces} segment{'s' if pieces > 1 else ''}"
        text += f", {self.time.min():.6g} to {self.time.max():.6g} s"
        text += f", excitation period {self.period:.6g} s" if self.period else ""
        left_out, read_as = (self.content.attrs.get(key) for key in ("left_out", "read_as"))
        text += f"; left out: {printable(str(left_out)[:200])}" if left_out else ""
        return text + (f"; {printable(str(read_as)[:300])}" if read_as else "")

    def check(self) -> None:
        """Refuse a record that no method can use.

        It has no samples, NaN, or times that do not increase within a segment.
        """
        check_table(self.content)

    # -- selecting -----------------------------------------------------------------------------------------------

    def select(self, channels: Sequence[str]) -> Record:
        """Return only these channels, in this order."""
        names = checks.texts("channels", channels, error=DataError)
        if not names:
            raise DataError("No channels are selected: name at least one.")
        for name in names:
            self[name]  # names the nearest channel when there is none
        return self.from_content(self.content.selected(names))

    def samples(self, index: slice | Numbers) -> Record:
        """Return the samples chosen by position.

        index: a slice, indices in increasing order, or a mask.

        Samples left out between two chosen ones (more than a slice's step) cut the record into segments there.
        """
        try:
            # A slice of 10^7 samples needs no list of all positions.
            position = (
                np.arange(*index.indices(self.size))
                if isinstance(index, slice)
                else np.atleast_1d(np.arange(self.size)[index]).ravel()
            )
        except (IndexError, TypeError, ValueError, OverflowError):
            raise DataError(f"{checks.shown(index)} chooses no samples: give a slice, positions or a mask.") from None
        if not position.size:
            raise DataError(f"Nothing is left of the record's {self.size} samples by this selection.")
        chosen = self.content.taken(position)
        stride = abs(index.step or 1) if isinstance(index, slice) else 1
        skipped = np.flatnonzero(np.diff(position) > stride)
        labels = cut_segments(chosen.segment, skipped)
        record = self.from_content(chosen.with_coords({"segment": labels}))
        record.check()
        return with_phase_shifted(record, float(record.time[0]) - float(self.time[0]))

    def between(self, start: float = -np.inf, stop: float = np.inf) -> Record:
        """Return the samples in a span of time.

        They satisfy start <= t < stop [s].
        """
        start = checks.number("start", start, finite=False, error=DataError)
        stop = checks.number("stop", stop, finite=False, error=DataError)
        inside = (self.time >= start) & (self.time < stop)
        if not inside.any():
            span = f"{self.time.min():.6g} to {self.time.max():.6g} s"
            raise DataError(f"No samples from {start:.6g} s to {stop:.6g} s: the record spans {span}.")
        return self.samples(inside)

    def pieces(self) -> list[Record]:
        """Return each segment as a separate record."""
        return [self.samples(piece) for piece in self.segments()]

    # -- changing ------------------------------------------------------------------------------------------------

    def with_attributes(self, **attributes: Anything) -> Record:
        """Return the record with attributes added or replaced.

        Attributes are such as period, phase, name, source.
        """
        record = self.from_content(self.content.with_attrs(attributes))
        record.check()
        return record

    def with_channel(
        self, name: str, values: Array, unit: str = "", angle: bool = False, noise: float | None = None
    ) -> Record:
        """Return the record with a channel added or replaced.

        An example is an absolute angle formed from two encoders.
        """
        values = samples(f'Channel "{name}"', values)
        if values.shape != (self.size,):
            raise DataError(f'Channel "{name}" has shape {values.shape}, the record {self.size} samples: one per time.')
        record = self.from_content(self.content.with_channels({name: channel(name, values, unit, angle, noise)}))
        record.check()
        return record

    def renamed(self, names: Mapping[str, str]) -> Record:
        """Return the channels under new names, old → new."""
        if not is_table_of_texts(names):
            raise DataError(f"{checks.shown(names)} renames no channels: give a table {{old: new}}.")
        for name in names:
            self[name]
        new = [names.get(name, name) for name in self.channels]
        for name in new:
            if new.count(name) > 1 or name in RESERVED:
                raise DataError(f'A channel cannot be called "{name}": another one, or a coordinate, has that name.')
        marks = {mark_name(old): mark_name(name) for old, name in names.items()}
        marks = {old: name for old, name in marks.items() if old in self.content.coords}
        return self.from_content(self.content.renamed({**names, **marks}))

    def in_units(self, units: Mapping[str, str]) -> Record:
        """Return the record with channels in other units.

        The units are of the same kind, {"x": "mm", "phi'": "rpm"}; the noise is converted too.

        A channel whose unit is not stated takes the one given without a change of its values. Angles stay in rad.
        """
        if not is_table_of_texts(units):
            raise DataError(f'{checks.shown(units)} gives no units: give a table such as {{"x": "mm"}}.')
        changed: dict[str, Column] = {}
        for name, unit in units.items():
            values, attrs = self[name], dict(self.content.channels[name].attrs)
            change = conversion(attrs.get("unit", ""), unit, f'Channel "{name}"')
            if attrs.get("angle") and not conversion(unit, "rad", f'Channel "{name}"').identity:
                raise DataError(f'Channel "{name}" is declared an angle: these are kept in rad, not in "{unit}".')
            changed[name] = Column(change(values), converted(attrs, unit or attrs.get("unit", ""), change))
        return self.from_content(self.content.with_channels(changed))

    def in_si(self) -> Record:
        """Return the record in coherent SI units.

        For example mm becomes m and deg/s becomes rad/s. Units that are not known stay as they are.
        """
        return self.in_units({name: to_si(unit)[0] for name, unit in self.units.items() if is_unit(unit)})

    def _angles_changed(self, change: Callable[[Array], Array]) -> Record:
        table = self.content
        new = {n: Column(change(c.values), c.attrs) for n, c in table.channels.items() if c.attrs.get("angle")}
        return self.from_content(table.with_channels(new))

    def wrapped(self) -> Record:
        """Return the record with angles in [-π, π)."""
        return self._angles_changed(wrap)

    def unwrapped(self) -> Record:
        """Return the record with continuous angles.

        Angles are continuous inside each segment; they must move less than half a turn from sample to sample.
        """

        def continuous(values: Array) -> Array:
            return np.concatenate([unwrap(values[piece]) for piece in self.segments()])

        return self._angles_changed(continuous)

    @classmethod
    def concatenate(cls, records: Sequence[Record]) -> Record:
        """Join recordings of the same channels.

        Each piece becomes a separate segment (or more).

        With an excitation, later pieces are shifted in time by at most half a period so that one phase serves all.
        """
        if not records:
            raise DataError("Nothing to join: give at least one record.")
        first, labels = records[0], 0
        joined: list[tuple[Array, Integers, Array]] = []
        for number, record in enumerate(records):
            if set(record.channels) != set(first.channels):
                raise DataError(
                    f"Record {number} has the channels {', '.join(record.channels)}, the first "
                    f"{', '.join(first.channels)}: select or rename so that they agree."
                )
            if record.period != first.period:
                raise DataError(
                    f"Record {number} has the excitation period {record.period}, the first {first.period}: "
                    "records of different excitations are fitted as a list, not joined."
                )
            shift = 0.0
            if first.period is not None:
                lag = (record.phase - record.time[0]) - (first.phase - first.time[0])
                shift = float((lag + first.period / 2) % first.period - first.period / 2)
                # Rounding of sums of periods is not a shift.
                shift = 0.0 if abs(shift) < 1e-9 * first.period else shift
            own = cut_segments(record.content.segment, [])
            joined.append((record.time + shift, own + labels, record.values(first.channels)))
            labels += int(own[-1]) + 1
        times, segments, values = zip(*joined, strict=True)
        return rebuilt(first, np.concatenate(times), np.concatenate(segments), np.concatenate(values))

    # -- sampling ------------------------------------------------------------------------------------------------

    def sampling(self, tolerance: float = REGULAR, gap: float = GAP) -> Sampling:
        """Return interval, regularity and gaps.

        Print it for a report.
        """
        return inspect_sampling(self.time, self.content.segment, tolerance, gap)

    def require_regular(self, tolerance: float = REGULAR) -> Sampling:
        """Return the sampling; refuse an irregular one.

        The error says where it is not regular and what to do.
        """
        sampling = self.sampling(tolerance)
        if sampling.gaps:
            raise DataError(f"The record has gaps: {sampling}\nCut it there first: {SPLIT}.")
        if not sampling.regular:
            raise DataError(
                f"The record is not sampled regularly: {sampling} (allowed {100 * tolerance:.2g} %). Bring it onto a "
                f"regular grid first: {RESAMPLE}."
            )
        return sampling

    def split_at_gaps(self, gap: float = GAP) -> Record:
        """Cut the record into segments at gaps.

        A gap is a step longer than `gap` sampling intervals.
        """
        gap = checks.number("gap, in sampling intervals,", gap, above=1.0, finite=False, error=DataError)
        after = [g.after for g in self.sampling(gap=gap).gaps]
        labels = cut_segments(self.content.segment, after)
        return self.from_content(self.content.with_coords({"segment": labels}))

    def resampled(self, interval: float) -> Record:
        """Return the record on a regular grid.

        The grid has this interval [s] in each segment; values come from cubic splines; angles become continuous.

        Nothing is interpolated across gaps: the record is cut where grid points are in one. No filter is applied:
        remove frequencies above 1/(2·interval) Hz first.
        """
        if not is_number(interval) or interval <= 0:
            raise DataError(f"The sampling interval is {checks.shown(interval)} s: give a positive number.")
        return on_grid(self, [float(self.time[p][0]) for p in self.segments()], interval)

    def strobed(self, phase: float = 0.0) -> Record:
        """Return one sample per excitation period.

        It is taken `phase` seconds after the excitation's start; angles are in [-π, π).

        Samples on that phase are taken as they are; otherwise cubic splines through the samples are evaluated, but not
        across gaps: the record is cut where periods are lost in one.
        """
        if self.period is None:
            raise DataError(f"A record is strobed with its excitation: give it a period, {Set('data', period=...)}.")
        if not is_number(phase):
            raise DataError(f"The phase of a strobe is a finite time in seconds, not {checks.shown(phase)}.")
        origin = float(self.time[0]) - self.phase + phase
        pieces = self.segments()
        strobed = on_grid(self, [origin] * len(pieces), self.period)
        return strobed.with_attributes(phase=phase % self.period).wrapped()
