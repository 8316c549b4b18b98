"""Reader and writer of UFF by pyuff.

UFF and UNV are files of modal analysis; data set 58 is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group, even_times, round_interval
from kapitza.data.record import Record
from kapitza.errors import DataError

TIME_RESPONSE = 1
"""Function type of data set 58: a measured time series."""

INTERVAL = "interval [s] = "
"""Begin of a line of text that `write` leaves: the step in full, of which the format keeps six digits."""

AXES = {
    1: "x",
    -1: "-x",
    2: "y",
    -2: "-y",
    3: "z",
    -3: "-z",
    4: "rx",
    -4: "-rx",
    5: "ry",
    -5: "-ry",
    6: "rz",
    -6: "-rz",
}


def read_uff(path: Path) -> list[Group]:
    """Return the time series of a file, by clock.

    Each group has one clock.
    """
    import pyuff

    # Text of 5 to 13 characters a number: the arrays are never larger than twice the file.
    Unpacking(path).add(2 * path.stat().st_size)
    text = path.read_bytes()
    if text.count(b"    -1") % 2:
        raise DataError(f"{path.name} is cut: its last data set has no end.")
    with _left_open():
        file = pyuff.UFF(str(path))
        kinds = [int(kind) for kind in file.get_set_types()]
        sets: list[Any] = [file.read_sets(place) for place, kind in enumerate(kinds) if kind == 58]
    series = [one for one in sets if int(one.get("func_type", 0)) == TIME_RESPONSE]
    if sets and not series:
        raise DataError(
            f"{path.name} holds {len(sets)} spectra or frequency responses and no time series: "
            "export the recorded signals themselves."
        )
    groups: dict[tuple[int, float, float], Group] = {}
    for number, one in enumerate(series):
        _add(groups, one, number, path)
    if len(groups) > 1:
        for (count, begin, last), group in groups.items():
            group.name = f"{count} samples from {begin:g} to {last:g} s"
    return list(groups.values())


def _add(groups: dict[tuple[int, float, float], Group], one: dict[str, Any], number: int, path: Path) -> None:
    values = np.asarray(one["data"])
    if np.iscomplexobj(values):
        raise DataError(f"{path.name}: time series {number + 1} is complex: export the recorded signals themselves.")
    if int(one.get("num_pts", values.size)) != values.size:
        raise DataError(f"{path.name} is cut: time series {number + 1} has {values.size} of {one['num_pts']} samples.")
    time, note = np.asarray(one["x"], np.float64), ""
    if int(one.get("abscissa_spacing", 0)) == 1 and float(one["abscissa_inc"]) > 0:
        own = _text(one, "id3")
        if own.startswith(INTERVAL):
            interval = float(own[len(INTERVAL) :])
        else:
            interval, note = round_interval(float(one["abscissa_inc"]))
        time = even_times(values.size, interval, float(one.get("abscissa_min", 0.0)))
    key = (values.size, float(time[0]), float(time[-1])) if values.size else (0, 0.0, 0.0)
    group = groups.setdefault(key, Group("time series", time=time))
    if note and note not in group.notes:
        group.notes.append(note)
    group.add(_name(one, number), values.astype(np.float64), _text(one, "ordinate_axis_units_lab"))


def write_uff(record: Record, path: Path) -> None:
    """Write an evenly sampled record as UFF.

    The time series are data sets 58, in binary numbers of 64 bits.
    """
    if find_spec("pyuff") is None:
        raise DataError("To write a universal file install pyuff, pip install 'kapitza[formats]'.")
    import pyuff

    if len(record.segments()) > 1:
        raise DataError(
            "A universal file holds one segment, the record has several: write each piece into a file of its own."
        )
    interval = record.require_regular().interval
    for number, name in enumerate(record.channels):
        one = pyuff.prepare_58(
            binary=1, func_type=TIME_RESPONSE, id1=name[:80], id3=f"{INTERVAL}{interval!r}", rsp_node=number + 1,
            rsp_dir=1, ref_node=1, ref_dir=1, data=record[name], x=record.time, abscissa_spacing=1,
            abscissa_spec_data_type=17, ordinate_spec_data_type=0, ordinate_axis_units_lab=record.units[name] or "NONE",
            abscissa_axis_units_lab="s",
        )  # fmt: skip
        one.update(ordinate_axis_lab=name[:20], ord_data_type=4, orddenom_spec_data_type=0, z_axis_spec_data_type=0)
        with _left_open():
            pyuff.UFF(str(path)).write_sets(one, "add")


@contextmanager
def _left_open() -> Generator[None]:
    """Suppress warnings about files that pyuff leaves open.

    They are closed with their last reference.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def _text(one: dict[str, Any], key: str) -> str:
    text = str(one.get(key) or "").strip()
    return "" if text.upper() == "NONE" else text


def _name(one: dict[str, Any], number: int) -> str:
    """Return the name of a time series.

    It is the label of the axis, the name of the response, or its node and direction.
    """
    for key in ("ordinate_axis_lab", "rsp_ent_name"):
        if _text(one, key):
            return _text(one, key)
    node, direction = one.get("rsp_node"), int(one.get("rsp_dir") or 0)
    if node:
        return f"node {int(node)} {AXES.get(direction, direction)}"
    return _text(one, "id1") or f"channel {number + 1}"
