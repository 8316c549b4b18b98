"""Marks of bad samples.

They are coordinates of a record along time, one per channel, and stay with it when it is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.data.sensor_errors import MARKED
from kapitza.data.time_table import Column

if TYPE_CHECKING:
    from kapitza.data.record import Record

KINDS = tuple(error.mark for error in MARKED)
"""Kinds of bad samples; a mark is 1 + the number of the kind, 0 for a good sample."""

KEEP = "bad_samples"
"""Attribute of a record that is "keep" where no sample is to be taken for a bad one."""


def mark_name(channel: str) -> str:
    """Return the coordinate name of a channel's marks."""
    return f"bad {channel}"


def marks_of(record: Record, channel: str) -> NDArray[np.int8]:
    """Return the marks (N,) of a channel.

    They are 0 for good samples, else 1 + the number of the kind.
    """
    name = mark_name(channel)
    coords = record.content.coords
    return coords[name].values if name in coords else np.zeros(record.size, np.int8)


def with_marks(record: Record, channel: str, marks: NDArray[np.int8], filled: NDArray[np.float64]) -> Record:
    """Return the record with marks (N,) of a channel.

    Marked samples are replaced by the values filled (N,).
    """
    table = record.content
    table = table.with_channels({channel: Column(filled, table.channels[channel].attrs)})
    return record.from_content(table.with_coords({mark_name(channel): marks}))
