"""Record: what was measured, with its units, segments and sampling."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from kapitza.errors import DataError, nearest_name

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Record:
    """A measurement as an xarray Dataset along "time".

    Coordinates: "time" [s] and "segment" (an integer that changes where the recording was interrupted).
    Each data variable is a channel; its attributes: "unit", "angle" (True for angles in rad, continuous or wrapped),
    "noise" (standard deviation, when known). Dataset attributes: "period" (of the excitation, s), "phase" (of the first
    sample, s after the excitation's start, default 0), "name", "source".
    """

    dataset: xr.Dataset

    @classmethod
    def from_arrays(
        cls,
        time: Array,
        channels: Mapping[str, Array],
        *,
        units: Mapping[str, str] | None = None,
        angles: Iterable[str] = (),
        segment: NDArray[np.integer] | None = None,
        noise: Mapping[str, float] | None = None,
        period: float | None = None,
        **attributes: Any,
    ) -> Record:
        """A record from plain arrays: time (N,), one array (N,) per channel, `segment` (N,) when interrupted."""
        time = np.asarray(time, float)
        segment = np.zeros(time.size, np.int32) if segment is None else np.asarray(segment, np.int32)
        variables = {}
        for name, values in channels.items():
            values = np.asarray(values, float)
            if values.shape != time.shape:
                raise DataError(
                    f'Channel "{name}" has {values.shape} samples, time has {time.shape}: give one per time.'
                )
            attrs: dict[str, Any] = {"unit": (units or {}).get(name, ""), "angle": name in set(angles)}
            if noise and name in noise:
                attrs["noise"] = float(noise[name])
            variables[name] = ("time", values, attrs)
        attributes = {key: value for key, value in attributes.items() if value is not None}
        if period is not None:
            attributes["period"] = float(period)
        dataset = xr.Dataset(variables, coords={"time": time, "segment": ("time", segment)}, attrs=attributes)
        record = cls(dataset)
        record.check()
        return record

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.dataset.data_vars)

    @property
    def time(self) -> Array:
        return self.dataset["time"].values

    @property
    def size(self) -> int:
        return self.dataset.sizes["time"]

    @property
    def period(self) -> float | None:
        """Period of the excitation in seconds, when there is one."""
        return self.dataset.attrs.get("period")

    @property
    def angles(self) -> tuple[bool, ...]:
        return tuple(bool(self.dataset[name].attrs.get("angle", False)) for name in self.channels)

    @property
    def units(self) -> dict[str, str]:
        return {name: self.dataset[name].attrs.get("unit", "") for name in self.channels}

    @property
    def noise(self) -> dict[str, float]:
        """Known standard deviations of the noise; channels without one are left out."""
        return {
            name: float(self.dataset[name].attrs["noise"])
            for name in self.channels
            if "noise" in self.dataset[name].attrs
        }

    def __getitem__(self, channel: str) -> Array:
        if channel not in self.dataset.data_vars:
            known = ", ".join(self.channels)
            raise DataError(f'No channel "{channel}"; the record has {known}.{nearest_name(channel, self.channels)}')
        return self.dataset[channel].values

    def values(self, channels: Sequence[str] | None = None) -> Array:
        """Samples as (N, number of channels), columns in the order asked for."""
        return np.column_stack([self[name] for name in (channels or self.channels)])

    def segments(self) -> list[slice]:
        """Contiguous pieces, in order."""
        label = self.dataset["segment"].values
        cuts = np.flatnonzero(np.diff(label)) + 1
        edges = [0, *cuts.tolist(), label.size]
        return [slice(a, b) for a, b in itertools.pairwise(edges) if b > a]

    def __len__(self) -> int:
        return self.size

    def check(self) -> None:
        """Refuse what no method can use: no samples, NaN, time that does not increase within a segment."""
        if self.size == 0:
            raise DataError("The record holds no samples.")
        if not np.isfinite(self.time).all():
            raise DataError(f"Time is not finite at sample {int(np.flatnonzero(~np.isfinite(self.time))[0])}.")
        for name in self.channels:
            bad = np.flatnonzero(~np.isfinite(self.dataset[name].values))
            if bad.size:
                raise DataError(
                    f'Channel "{name}" is not finite at {bad.size} samples, first at sample {int(bad[0])}: '
                    "drop them (they become gaps between segments) before using the record."
                )
        for piece in self.segments():
            steps = np.diff(self.time[piece])
            wrong = np.flatnonzero(steps <= 0)
            if wrong.size:
                at = piece.start + int(wrong[0])
                kind = "repeats" if steps[wrong[0]] == 0 else "runs backwards"
                raise DataError(
                    f"Time {kind} after sample {at} (t = {self.time[at]:.9g} s, next {self.time[at + 1]:.9g} s): "
                    "sort the samples and remove duplicates, or mark the pieces as segments."
                )
