"""Columns along time.

They are the plain content of a record, without the labels of xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Numbers
from kapitza.base.lazy_fields import Later

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Column:
    """Values (N,) along time with their attributes."""

    values: Numbers
    attrs: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class TimeTable:
    """Channels and coordinates of a record, every one (N,).

    xarray takes 0.5 to 1 s to load with what it loads itself (pandas, dask, pint), which a simulation and a fit do not
    need: they work on this table, and `to_dataset` labels it when a user reads the dataset.
    """

    channels: Mapping[str, Column]
    coords: Mapping[str, Column]
    attrs: Mapping[str, Any]

    def __post_init__(self) -> None:
        # Times are shared by records cut from one another: a change in place would reach all of them.
        self.time.flags.writeable = False

    @classmethod
    def of(cls, dataset: xr.Dataset) -> TimeTable:
        """Return the table of a dataset.

        Arrays are shared; attributes are those of the dataset now.
        """
        variables = dataset.variables
        # Attributes are copied: records made from this table must not follow later changes of the dataset.
        channels = {str(n): Column(variables[n].values, dict(variables[n].attrs)) for n in dataset.data_vars}
        coords = {str(n): Column(variables[n].values, dict(variables[n].attrs)) for n in dataset.coords}
        return cls(channels, coords, {str(key): value for key, value in dataset.attrs.items()})

    def to_dataset(self) -> xr.Dataset:
        """Return the table as a dataset along "time"."""
        import xarray as xr

        def variables(columns: Mapping[str, Column]) -> dict[str, Any]:
            return {name: ("time", column.values, dict(column.attrs)) for name, column in columns.items()}

        return xr.Dataset(variables(self.channels), coords=variables(self.coords), attrs=dict(self.attrs))

    @property
    def time(self) -> NDArray[np.float64]:
        return self.coords["time"].values

    @property
    def segment(self) -> NDArray[np.int32]:
        """Labels (N,) of the uninterrupted pieces."""
        return self.coords["segment"].values

    def taken(self, index: Any) -> TimeTable:
        """Return the samples at these positions."""

        def chosen(columns: Mapping[str, Column]) -> dict[str, Column]:
            return {name: Column(column.values[index], column.attrs) for name, column in columns.items()}

        return replace(self, channels=chosen(self.channels), coords=chosen(self.coords))

    def selected(self, names: Sequence[str]) -> TimeTable:
        """Return these channels, in this order; coordinates stay."""
        return replace(self, channels={name: self.channels[name] for name in names})

    def with_coords(self, values: Mapping[str, Numbers]) -> TimeTable:
        """Return the table with coordinates added or replaced.

        Attributes are kept.
        """
        known = {name: column.attrs for name, column in self.coords.items()}
        new = {name: Column(column, known.get(name, {})) for name, column in values.items()}
        return replace(self, coords={**self.coords, **new})

    def with_channels(self, columns: Mapping[str, Column]) -> TimeTable:
        """Return the table with channels added or replaced."""
        return replace(self, channels={**self.channels, **columns})

    def with_attrs(self, attrs: Mapping[str, Any]) -> TimeTable:
        """Return the table with attributes added or replaced."""
        return replace(self, attrs={**self.attrs, **attrs})

    def renamed(self, names: Mapping[str, str]) -> TimeTable:
        """Return the table under new names, old → new.

        Channels and coordinates are renamed.
        """

        def under_new(columns: Mapping[str, Column]) -> dict[str, Column]:
            return {names.get(name, name): column for name, column in columns.items()}

        return replace(self, channels=under_new(self.channels), coords=under_new(self.coords))


class Unlabelled(Later["xr.Dataset"]):
    """A dataset that is made later from a table."""

    def __init__(self, table: TimeTable):
        super().__init__(table.to_dataset)
        self.table = table
