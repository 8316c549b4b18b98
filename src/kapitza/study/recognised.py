"""Recognise rates and clocks among channels."""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.units import dimension, rate_unit
from kapitza.data import Record

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
    """Return times and values of long enough segments."""
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
