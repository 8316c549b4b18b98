"""Reader of MDF by asammdf.

MDF are measurement files of vehicle and control systems (.mf4, .mdf, .dat of version 3).
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group
from kapitza.errors import DataError

FORMULA = 3
"""Type of an algebraic conversion in version 4: text of the file that asammdf would hand to another library."""


def read_mdf(path: Path) -> list[Group]:
    """Return the groups of an MDF file.

    Each group has its own clock.
    """
    if _begin(path) != b"MDF":
        raise DataError(f"{path.name} is not an MDF file: it begins otherwise.")
    hook = sys.unraisablehook
    # On a damaged file the finalizer of the library fails too, and would print a traceback at any later time.
    sys.unraisablehook = lambda _: None
    try:
        groups, problem = _read(path)
        gc.collect()
    finally:
        sys.unraisablehook = hook
    if problem is not None:
        raise problem
    return groups


def _begin(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(3)


def _read(path: Path) -> tuple[list[Group], DataError | None]:
    """Return the groups, or an error.

    The error has no traceback, which would keep the half-made object of the library alive.
    """
    try:
        return _groups(path), None
    except DataError as problem:
        return [], DataError(str(problem))
    except Exception as problem:
        return [], DataError(f"{path.name} cannot be read as MDF: {str(problem)[:200]}. It may be damaged.")


def _groups(path: Path) -> list[Group]:
    from asammdf import MDF

    unpacking = Unpacking(path)
    with path.open("rb") as stream, MDF(stream) as file:
        begins = str(file.header.start_time.isoformat())
        groups: list[Group] = []
        for index, group in enumerate(file.groups):
            _check_size(group, unpacking)
            name = str(getattr(group.channel_group, "acq_name", "") or "") or f"group {index + 1}"
            groups.append(_group(file, index, name, begins, path))
    names = [group.name for group in groups]
    for number, group in enumerate(groups):
        if names.count(group.name) > 1:
            group.name = f"{group.name} {number + 1}"
    return groups


def _check_size(group: Any, unpacking: Unpacking) -> None:
    """Add the size to which a group unpacks.

    It counts its records, its packed blocks, and its channels with their declared widths.
    """
    cycles = int(group.channel_group.cycles_nr)
    record = int(getattr(group.channel_group, "samples_byte_nr", 0))
    widths = [max(int(getattr(channel, "bit_count", 0)) // 8, 8) for channel in group.channels]
    unpacking.add(cycles * max(record, sum(widths), 8))
    unpacking.add(sum(int(block.original_size) for block in group.get_data_blocks()))


def _group(file: Any, index: int, name: str, begins: str, path: Path) -> Group:
    found = Group(name, begins=begins)
    masters = getattr(file, "masters_db", {})
    for place, channel in enumerate(file.groups[index].channels):
        if place == masters.get(index):
            continue
        conversion = channel.conversion
        if conversion is not None and conversion.conversion_type == FORMULA:
            raise DataError(
                f'{path.name}: channel "{channel.name}" is defined by a formula in the file, which is not evaluated: '
                "export it with its physical values."
            )
        signal = file.get(group=index, index=place)
        values = np.asarray(signal.samples)
        cycles = int(file.groups[index].channel_group.cycles_nr)
        if len(values) < cycles:
            raise DataError(
                f'{path.name}: channel "{channel.name}" has {len(values)} of {cycles} samples: the file is cut.'
            )
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            continue
        if found.time is None:
            found.time = np.asarray(signal.timestamps, np.float64)
        found.add(str(channel.name), values, str(signal.unit or ""))
    return found
