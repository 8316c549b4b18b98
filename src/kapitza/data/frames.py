"""Tables of pandas and datasets of xarray as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.data.columns import Channels, Columns, Facts, Key, Wanted, make_record
from kapitza.data.contents import unit_text
from kapitza.data.formats.text import name_and_unit
from kapitza.data.record import Record
from kapitza.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def from_frame(
    frame: pd.DataFrame | xr.Dataset,
    time: Key | None = None,
    channels: Channels | None = None,
    *,
    segment: Key | None = None,
    interval: float | None = None,
    units: Mapping[str, str] | None = None,
    angles: Iterable[str] | None = None,
    period: float | None = None,
    phase: float | None = None,
    missing: str = "refuse",
) -> Record:
    """Return a record from a DataFrame or Dataset.

    The arguments are those of `kapitza.read`.

    Times: the column, index or coordinate called t or time, whatever its type (seconds, durations, dates). Units: those
    of headers like "phi [deg]", of `frame.attrs["units"]` ({column: unit}), or of the attributes "units" or "unit" of a
    variable. Channels come in SI, as from a file.

    >>> import numpy as np, pandas as pd, kapitza as kz
    >>> frame = pd.DataFrame({"phi [deg]": [0.0, 90.0, 180.0]}, index=pd.Index([0.0, 0.1, 0.2], name="t"))
    >>> kz.Record.from_frame(frame)["phi"].round(4)
    array([0.    , 1.5708, 3.1416])
    """
    import xarray as xr

    if isinstance(frame, xr.Dataset) and _is_record(frame):
        record = Record(frame)
        record.check()
        return record
    columns, source = _columns(frame)
    wanted = Wanted(time, channels, segment, interval, units, angles, period, phase, missing)
    return make_record(columns, wanted, source)


def _is_record(dataset: xr.Dataset) -> bool:
    """Return whether a dataset is that of a record."""
    labelled = "segment" in dataset.coords and "time" in dataset.coords
    return labelled and all(_own(v) for v in dataset.data_vars.values())


def _columns(frame: object) -> tuple[Columns, str]:
    """Return the columns of a table or dataset.

    It also returns its name for messages.
    """
    import pandas as pd
    import xarray as xr

    if isinstance(frame, xr.Dataset):
        return _of_dataset(frame), "the dataset"
    if isinstance(frame, pd.DataFrame):
        return _of_table(frame), "the table"
    raise DataError(f"A DataFrame or a Dataset is needed, not {type(frame).__name__}.")


def _own(variable: xr.DataArray) -> bool:
    """Return whether a variable is a channel of Kapitza."""
    return {"unit", "angle"} <= set(variable.attrs) and variable.dims == ("time",)


def _of_table(frame: pd.DataFrame) -> Columns:
    import pandas as pd

    if frame.columns.nlevels > 1:
        raise DataError("The table has columns of several levels: join their names first.")
    stated = frame.attrs.get("units", {})
    names: list[str] = []
    values: list[Numbers] = []
    facts: dict[str, Facts] = {}
    if frame.index.name is not None or not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names=frame.index.name if frame.index.name is not None else "time")
    for title in frame.columns:
        name, unit = name_and_unit(str(title))
        unit = unit or str(stated.get(title, stated.get(name, "")))
        column = frame[title]
        if isinstance(column, pd.DataFrame):
            raise DataError(f'The table has several columns called "{title}": give each its own name.')
        names.append(name)
        values.append(column.to_numpy())
        facts |= {name: {"unit": unit}} if unit else {}
    return Columns(tuple(names), tuple(values), facts=facts)


def _of_dataset(dataset: xr.Dataset) -> Columns:
    names: list[str] = []
    values: list[Numbers] = []
    facts: dict[str, Facts] = {}
    for name, variable in {**dataset.coords, **dataset.data_vars}.items():
        if variable.ndim != 1:
            raise DataError(
                f'"{name}" of the dataset has the dimensions {variable.dims}: give one variable per channel and time.'
            )
        unit = unit_text(variable.attrs.get("units", variable.attrs.get("unit", "")))
        names.append(str(name))
        values.append(variable.to_numpy())
        own = {"unit": unit} if unit else {}
        own |= {key: variable.attrs[key] for key in ("angle", "noise") if key in variable.attrs}
        facts |= {str(name): own} if own else {}
    sizes = {np.size(v) for v in values}
    if len(sizes) > 1:
        raise DataError("The variables of the dataset have different lengths: select those along the time first.")
    known = {k: v for k, v in dataset.attrs.items() if k in ("period", "phase") and isinstance(v, float | int)}
    return Columns(tuple(names), tuple(values), facts=facts, attributes=known)


def is_frame(data: object) -> bool:
    """Return whether the data are a DataFrame or Dataset."""
    import pandas as pd
    import xarray as xr

    return isinstance(data, pd.DataFrame | xr.Dataset)
