"""Recognise driving channels by names and units."""

from __future__ import annotations

import re

from kapitza.base.units import dimension
from kapitza.data.record import Record

WORDS = frozenset(
    "force drive driver input excitation shaker base ground command torque voltage effort kraft anregung".split()  # noqa: SIM905
)
"""Words of a channel name that mean an input."""

SUPPLIES = frozenset("battery batt bat supply vcc vdd vbat".split())  # noqa: SIM905
"""Words of a channel name that mean the power of the logger."""

INPUT_UNITS = ("N", "N m", "V", "A")
"""Units of what drives: forces, torques, voltages, currents."""


def recognised_drives(record: Record) -> tuple[str, ...]:
    """Return the channels that drive.

    They are at most all but one.
    A channel drives whose name has one of the words, or whose unit is that of a force, torque, voltage or current
    while another channel has a unit of motion. A voltage beside voltages is a sensor; that of a battery drives nothing.
    """
    words = {c: words_of_name(c) for c in record.channels}
    channels = [c for c in record.channels if not SUPPLIES & words[c]]
    named = [c for c in channels if WORDS & words[c]]
    inputs = [dimension(u) for u in INPUT_UNITS]
    by_unit = [c for c in channels if record.units.get(c) and dimension(record.units[c]) in inputs]
    moving = [c for c in channels if record.units.get(c) and c not in by_unit]
    found = [c for c in channels if c in named or (c in by_unit and moving)]
    return tuple(found) if len(found) < len(channels) else ()


def drives_by_name(record: Record) -> tuple[str, ...]:
    """Return the driving channels whose names say so."""
    return tuple(c for c in recognised_drives(record) if WORDS & words_of_name(c))


def words_of_name(channel: str) -> set[str]:
    """Return the words of a channel name, in lower case."""
    return set(re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", channel).lower()))
