"""Recognise drives, rates and clocks among channels."""

from __future__ import annotations

import re

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.units import dimension, rate_unit
from kapitza.data import Record

WORDS = frozenset(
    ["force", "drive", "driver", "input", "excitation", "shaker", "base", "ground", "command", "torque", "voltage"]
)
"""Words of a channel name that mean an input."""

INPUT_UNITS = ("N", "N m", "V", "A")
"""Units of what drives: forces, torques, voltages, currents."""


def recognised_drives(record: Record) -> tuple[str, ...]:
    """Return the channels that drive.

    They are at most all but one.
    A channel drives whose name has one of the words, or whose unit is that of a force, torque, voltage or current
    while another channel has a unit of motion. A voltage beside voltages is a sensor.
    """
    channels = record.channels
    named = [c for c in channels if WORDS & set(re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", c).lower()))]
    inputs = [dimension(u) for u in INPUT_UNITS]
    by_unit = [c for c in channels if record.units.get(c) and dimension(record.units[c]) in inputs]
    moving = [c for c in channels if record.units.get(c) and c not in by_unit]
    found = [c for c in channels if c in named or (c in by_unit and moving)]
    return tuple(found) if len(found) < len(channels) else ()


SAME_CLOCK = 1e-6
"""Largest deviation of a clock from a straight line, relative to its range."""

SAME_RATE = 0.02
"""Largest error of gain, and residual relative to the motion, of a channel that is the rate of another."""


def clocks(record: Record) -> tuple[str, ...]:
    """Return the channels that are a clock.

    A channel that is a straight line in time within each segment is a second time axis, not a motion.
    """
    found = [name for name in record.channels if all(_is_line(*piece) for piece in _pieces(record, name))]
    return tuple(found) if len(found) < len(record.channels) else ()


def rates(record: Record, channels: tuple[str, ...]) -> dict[str, str]:
    """Return which channels are rates: channel → channel.

    The integral of a rate v is its coordinate: x = a + b t + s ∫ v dt with s = 1, in each segment alike. Channels with
    units must agree in them; primed names (x') say themselves what they are.
    """
    plain = [name for name in channels if not name.endswith("'")]
    found: dict[str, str] = {}
    for rate in plain:
        for name in plain:
            if name != rate and name not in found and rate not in found.values() and _is_rate(record, rate, name):
                found[rate] = name
                break
    return found


def _pieces(record: Record, name: str) -> list[tuple[Array, Array]]:
    """Return times and values of the segments with enough samples."""
    values = record[name]
    return [(record.time[piece], values[piece]) for piece in record.segments() if piece.stop - piece.start > 8]


def _is_line(time: Array, values: Array) -> bool:
    reach = float(np.ptp(values))
    if not np.isfinite(values).all() or reach == 0:
        return False
    line = np.polynomial.Polynomial.fit(time, values, 1)
    return float(np.abs(values - line(time)).max()) < SAME_CLOCK * reach


def _is_rate(record: Record, rate: str, name: str) -> bool:
    units = record.units.get(rate, ""), record.units.get(name, "")
    if any(units) and (not all(units) or dimension(units[0]) != dimension(rate_unit(units[1]))):
        return False
    record = record.unwrapped()
    pieces = list(zip(_pieces(record, rate), _pieces(record, name), strict=True))
    return bool(pieces) and all(_integrates(time, v, x) for (time, v), (_, x) in pieces)


def _integrates(time: Array, rate: Array, values: Array) -> bool:
    if not (np.isfinite(rate).all() and np.isfinite(values).all()):
        return False
    integral = np.concatenate([[0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(time))])
    line = np.column_stack([np.ones_like(time), time - time.mean()])
    # Line removed from both: the gain is not found from a drift that both share.
    moved, motion = (v - line @ np.linalg.lstsq(line, v, rcond=None)[0] for v in (integral, values))
    power = float(moved @ moved)
    gain = float(moved @ motion) / power if power else 0.0
    left = np.linalg.norm(motion - gain * moved)
    return abs(gain - 1) < SAME_RATE and float(left) < SAME_RATE * float(np.linalg.norm(motion))
