"""Reader of TDMS by npTDMS.

TDMS are the files of LabVIEW and of National Instruments' loggers.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group, even_times
from kapitza.errors import DataError

if TYPE_CHECKING:
    from nptdms import TdmsGroup


def read_tdms(path: Path) -> list[Group]:
    """Return the groups of a TDMS file.

    Damage that npTDMS only logs is refused.
    """
    from nptdms import TdmsFile

    damage = _Kept()
    with damage.instead_of_handlers(), path.open("rb") as stream, TdmsFile.open(stream) as file:
        unpacking = Unpacking(path)
        groups = [_group(group, unpacking) for group in file.groups()]
    if damage.messages:
        raise DataError(f"{path.name} is damaged: {damage.messages[0].strip()[:200]}.")
    return [group for group in groups if group is not None]


class _Kept(logging.Handler):
    """A handler that keeps warnings and errors.

    They are those of a library that goes on after them.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    @contextmanager
    def instead_of_handlers(self) -> Generator[None]:
        """Replace the handlers of the library.

        Its modules print with them.
        """
        named = logging.root.manager.loggerDict
        loggers = [logging.getLogger(name) for name in named if name.partition(".")[0] == "nptdms"]
        before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
        for logger in loggers:
            logger.handlers, logger.propagate = [self], False
        try:
            yield
        finally:
            for logger, handlers, propagate in before:
                logger.handlers, logger.propagate = handlers, propagate

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage().rstrip("."))


def sensitivity_notes(channel: str, properties: Mapping[str, object]) -> list[str]:
    """Return a note of the sensitivity that a channel states.

    It is not applied: what its number divides differs between programs.
    """
    known = {str(key).lower().replace(" ", "_"): value for key, value in properties.items()}
    value = known.get("sensitivity")
    if not isinstance(value, float | int):
        return []
    unit = next((str(known[key]) for key in ("sensitivity_unit", "sensitivity_units") if known.get(key)), "")
    stated = f"a Sensitivity of {value:.6g} {unit}".rstrip()
    return [f'the file states {stated} for "{channel}", which is applied only where units state it']


def _group(group: TdmsGroup, unpacking: Unpacking) -> Group | None:
    found = Group(str(group.name))
    clocks: set[tuple[float, float, str]] = set()
    for channel in group.channels():
        unpacking.add(len(channel) * max(8 if channel.dtype is None else np.dtype(channel.dtype).itemsize, 1))
        if channel.dtype is None or np.dtype(channel.dtype).kind not in "fiubM":
            continue
        properties = channel.properties
        stated = properties.get("wf_samples")
        if isinstance(stated, int) and stated > len(channel) > 1:
            raise DataError(f'Channel "{channel.name}" has {len(channel)} of {stated} samples: the file is cut.')
        found.add(str(channel.name), np.asarray(channel[:]), str(properties.get("unit_string", "") or ""))
        found.notes += sensitivity_notes(str(channel.name), properties)
        step = properties.get("wf_increment")
        if isinstance(step, float | int) and step > 0:
            begin = properties.get("wf_start_offset", 0.0)
            clocks.add(
                (float(step), float(cast("float", begin or 0.0)), str(properties.get("wf_start_time", "") or ""))
            )
    if not found.names:
        return None
    if len(clocks) > 1:
        rates = ", ".join(f"{1 / step:.6g} Hz" for step, _, _ in sorted(clocks))
        raise DataError(f'The channels of group "{found.name}" have separate clocks ({rates}): save them apart.')
    if clocks:
        step, begin, found.begins = next(iter(clocks))
        found.time = even_times(found.size, step, begin)
    return found
