"""Detection of control signals in a record.

Tells whether control held the motion while it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.data import Record
from kapitza.errors import DataError, nearest_name

SMALL = 1e-3
"""Control, as a share of the acceleration of the motion, below which the motion counts as free. Control that only
answers sensor noise of 0.3 % is above it."""

NAME = re.compile(r"(^|[_ .])control(led|ler)?($|[_ .\d])", re.IGNORECASE)
"""Names of channels that are taken for control signals by default."""


@dataclass(frozen=True)
class Control:
    """Control signals of a record.

    channels: their names; held: whether they hold the motion; words: a sentence on their size.
    """

    channels: tuple[str, ...] = ()
    held: bool = False
    words: str = ""


def control_of(record: Record, channels: Sequence[str] | None, controlled: bool | str | None) -> Control:
    """Return the control in a record.

    The user may state it (True, False, name of the channel); else channels with such a name are taken.
    The signal is compared with the acceleration a ω² of the first other channel, ω that of the drive, or of the
    strongest line where there is none.
    """
    if isinstance(controlled, bool):
        return Control(held=controlled)
    if controlled is not None and controlled not in record.channels:
        raise DataError(
            f'controlled = "{controlled}" is not a channel.{nearest_name(controlled, record.channels)} '
            f"The record has: {', '.join(record.channels)}. (True and False say whether control held the motion.)"
        )
    found = (controlled,) if controlled is not None else tuple(n for n in record.channels if NAME.search(n))
    found = tuple(n for n in found if channels is None or controlled is not None or n not in channels)
    others = [n for n in (channels or record.channels) if n not in found]
    if not found or not others:
        return Control()
    size = max(float(np.sqrt(np.nanmean(np.square(record[name])))) for name in found)
    motion = np.asarray(record[others[0]], float)
    # Control is a force per mass: it is compared with a ω², the acceleration of a sine.
    acceleration = float(np.nanstd(motion)) * _frequency(record, motion) ** 2
    share = size / acceleration if acceleration > 0 else np.inf
    named = ", ".join(f'"{name}"' for name in found)
    if share > SMALL:
        words = f'The control signal {named} is {share:.2g} of the acceleration of "{others[0]}": it held the motion.'
        return Control(found, True, words)
    return Control(
        found, False, f'The control signal {named} is below {SMALL:g} of the acceleration of "{others[0]}": orbits are '
        "classified as those of a free motion.",
    )  # fmt: skip


def _frequency(record: Record, motion: np.ndarray) -> float:
    """Return the frequency of the motion in rad/s.

    It is that of the drive, or of the strongest line of the motion.
    """
    if record.period is not None:
        return 2 * np.pi / record.period
    step = record.sampling().interval
    power = np.abs(np.fft.rfft(np.nan_to_num(motion - np.nanmean(motion)))) ** 2
    return 2 * np.pi * max(int(power[1:].argmax()) + 1, 1) / (motion.size * step)
