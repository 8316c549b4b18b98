"""Groups of channels with separate clocks.

Files of acquisition systems consist of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.arrays import Array, Numbers
from kapitza.base.cures import Give
from kapitza.base.unpacking import MOST_ARRAYS
from kapitza.data.columns import TIME_NAMES, Columns, listed
from kapitza.errors import DataError, nearest_name

ROUND_RATE = 1e-5
"""Relative distance below which a rate is taken as the round number next to it: UFF keeps six digits of the step."""


@dataclass
class Group:
    """Channels that were sampled together.

    time: (N,) seconds; None where a column of the group is the time, or no time is stated. begins: date and time of the
    first sample. notes: what had to be assumed.
    """

    name: str
    names: list[str] = field(default_factory=list[str])
    values: list[Numbers] = field(default_factory=list[Numbers])
    units: dict[str, str] = field(default_factory=dict[str, str])
    time: Array | None = None
    begins: str = ""
    notes: list[str] = field(default_factory=list[str])

    def add(self, name: str, values: Numbers, unit: str = "") -> None:
        """Append a channel to the group.

        A name that exists already gets a number.
        """
        if len(self.names) >= MOST_ARRAYS:
            raise DataError(f'The group "{self.name}" has more than {MOST_ARRAYS} channels: it is not a recording.')
        count = Counter(self.names)[name]
        label = name if not count else f"{name}_{count + 1}"
        while label in self.names:
            label += "_"
        self.names.append(label)
        self.values.append(values)
        if unit:
            self.units[label] = unit

    @property
    def size(self) -> int:
        return max((len(values) for values in self.values), default=0)


def even_times(count: int, interval: float, begin: float = 0.0) -> Array:
    """Return (count,) times [s] of even sampling."""
    return begin + interval * np.arange(count, dtype=np.float64)


def round_interval(interval: float) -> tuple[float, str]:
    """Return the interval [s] of the nearest round rate.

    Also a note where it is not the interval that the file states.
    """
    rate = 1.0 / interval
    digits = max(0, 3 - int(np.floor(np.log10(rate))))
    nearest = round(rate, digits)
    if nearest <= 0 or abs(rate / nearest - 1) > ROUND_RATE or 1.0 / nearest == interval:
        return interval, ""
    return (
        1.0 / nearest,
        f"taken as sampled at {nearest:.12g} Hz: the file keeps the step with six digits ({interval:g} s)",
    )


def chosen_columns(groups: Sequence[Group], wanted: str | None, path: Path) -> Columns:
    """Return the columns of the requested group.

    Without a request they are those of all groups, where these share one clock.
    """
    full = [group for group in groups if group.names]
    if not full:
        raise DataError(f"{path.name} holds no channels of numbers: it is empty, damaged, or of another kind.")
    if wanted is not None:
        names = [group.name for group in full]
        if wanted not in names:
            raise DataError(
                f'{path.name} has no group "{wanted}"; it has {listed(names)}.{nearest_name(wanted, names)}'
            )
        full = [group for group in full if group.name == wanted]
    elif len(full) > 1 and not _one_clock(full):
        shown = [f'"{group.name}" ({group.size} samples of {listed(group.names, 4)})' for group in full]
        raise DataError(f"{path.name} holds several groups: {listed(shown, 10)}. Say which with {Give(group='...')}.")
    return _columns(full, path)


def _one_clock(groups: Sequence[Group]) -> bool:
    """Return whether all groups have the same times.

    Groups without times are never combined.
    """
    first = groups[0]
    return all(
        group.time is not None
        and first.time is not None
        and group.begins == first.begins
        and np.array_equal(group.time, first.time)
        for group in groups
    )


def _columns(groups: Sequence[Group], path: Path) -> Columns:
    taken = Counter(name for group in groups for name in group.names)
    names: list[str] = []
    values: list[Numbers] = []
    facts: dict[str, dict[str, object]] = {}
    for group in groups:
        for name, column in zip(group.names, group.values, strict=True):
            label = f"{group.name}/{name}" if taken[name] > 1 else name
            names.append(label)
            values.append(np.asarray(column))
            if group.units.get(name):
                facts[label] = {"unit": group.units[name]}
    lengths = {name: len(column) for name, column in zip(names, values, strict=True)}
    first = groups[0]
    size = first.size if first.time is None else len(first.time)
    unequal = {name: count for name, count in lengths.items() if count != size}
    if unequal:
        name, count = next(iter(unequal.items()))
        raise DataError(
            f'{path.name}: channel "{name}" has {count} samples, others have {size}: the file is cut or damaged, or '
            f"its channels have separate rates; choose some of one rate with {Give(group='...')} or save them "
            "apart."
        )
    if first.time is not None:
        clock = "time" if "time" not in names else "time of the file"
        usual = [name for name in names if name.lower() in TIME_NAMES]
        if usual:
            # The clock of the acquisition comes first; a channel of that name stays a channel.
            facts = {**facts, clock: {"unit": "s"}}
        names.insert(0, clock)
        values.insert(0, first.time)
        facts[clock] = {"unit": "s"}
    notes = [note for group in groups for note in group.notes]
    attributes: dict[str, Any] = {"begins": first.begins} if first.begins else {}
    if notes:
        attributes["read_as"] = "; ".join(dict.fromkeys(notes))
    return Columns(tuple(names), tuple(values), None, facts, attributes)
