"""Reader of ROS bags by rosbags.

It reads bags of ROS 1 and ROS 2: .bag, .db3, .mcap.

Only message types that ROS itself defines are read: for others rosbags would build classes from text in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group
from kapitza.errors import DataError

MOST_FIELDS = 200
"""Numbers in one message: longer arrays are images and clouds of points, not channels."""


def read_bag(path: Path) -> list[Group]:
    """Return one group per topic of numbers.

    Times are those of measurement where the messages state them, else of receipt.
    """
    from rosbags.rosbag1 import Reader as Reader1
    from rosbags.rosbag2 import Reader as Reader2
    from rosbags.typesys import Stores, get_typestore

    first = path.suffix.lower() == ".bag"
    store = get_typestore(Stores.ROS1_NOETIC if first else Stores.ROS2_HUMBLE)
    unpacked = store.deserialize_ros1 if first else store.deserialize_cdr
    unpacking = Unpacking(path)
    with Reader1(path) if first else Reader2(path) as reader:
        connections = [each for each in reader.connections if each.msgtype in store.fielddefs]
        foreign = sorted({each.msgtype for each in reader.connections} - {each.msgtype for each in connections})
        if not connections:
            raise DataError(
                f"{path.name} holds only messages of types that ROS itself does not define ({', '.join(foreign[:5])}): "
                "export the numbers as csv."
            )
        topics: dict[str, _Topic] = {}
        stated, found = sum(each.msgcount for each in connections), 0
        for connection, receipt, raw in reader.messages(connections=connections):
            unpacking.add(len(raw))
            found += 1
            topic = topics.setdefault(connection.topic, _Topic(connection.topic))
            topic.add(unpacked(raw, connection.msgtype), receipt)
    # A lost block of the disk ends a chunk early, and rosbags returns what came before it without an error.
    if stated and found != stated:
        raise DataError(f"{path.name} is damaged: it states {stated} messages and holds {found}.")
    return [topic.group() for topic in topics.values() if topic.rows]


@dataclass
class _Topic:
    """The numbers of one topic, message by message."""

    name: str
    receipts: list[int] = field(default_factory=list[int])
    stamps: list[int] = field(default_factory=list[int])
    rows: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def add(self, message: Any, receipt: int) -> None:
        numbers = dict(_numbers(message, ""))
        if not numbers:
            return
        stamp = _member(_member(message, "header"), "stamp")
        self.receipts.append(receipt)
        self.stamps.append(0 if stamp is None else int(stamp.sec) * 10**9 + int(stamp.nanosec))
        self.rows.append(numbers)

    def group(self) -> Group:
        # A stamp that is not set is 0, and so is the first one of a simulated clock.
        given = [stamp for stamp in self.stamps if stamp]
        unset = len(self.stamps) - len(given)
        starts_at_zero = unset == 1 and len(given) > 1 and min(given) <= max(given) - min(given)
        stamps = self.stamps if not unset or starts_at_zero else self.receipts
        found = Group(self.name)
        if stamps is self.receipts:
            lacking = "the messages" if unset == len(self.stamps) else f"{unset} of {len(self.stamps)} messages"
            found.notes.append(f"times are those of receipt: {lacking} carry no stamps")
        order = np.argsort(stamps, kind="stable")
        nanoseconds = np.array(stamps, np.int64)[order]
        found.time = (nanoseconds - nanoseconds[0]) / 1e9
        found.begins = str(np.datetime64(int(nanoseconds[0]), "ns"))
        for name in dict.fromkeys(name for row in self.rows for name in row):
            values = np.array([row.get(name, np.nan) for row in self.rows])
            found.add(name, values[order])
        return found


def _member(message: Any, name: str) -> Any:
    """Return a field of a message.

    None where its type has no field of this name.
    """
    known = {each.name for each in fields(message)} if is_dataclass(message) else set[str]()
    return getattr(message, name) if name in known else None


def _numbers(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Return all numbers in a message by name.

    Names are position.x, or position[hip] where the message names its joints.
    """
    if isinstance(value, bool | int | float | np.integer | np.floating):
        yield name, float(cast("float", value))
    elif isinstance(value, np.ndarray):
        array = cast(Numbers, value)
        if array.ndim == 1 and array.dtype.kind in "fiub" and array.size <= MOST_FIELDS:
            yield from ((f"{name}[{place}]", float(number)) for place, number in enumerate(array))
    elif is_dataclass(value):
        named = _member(value, "name")
        labels = cast("list[object]", named) if isinstance(named, list) else []
        for key in (each.name for each in fields(value)):
            if key in ("header", "layout") or key.startswith("__"):
                continue
            member: object = getattr(value, key)
            below = f"{name}.{key}" if name else key
            array = cast(Numbers, member) if isinstance(member, np.ndarray) else None
            if labels and array is not None and array.size == len(labels):
                yield from ((f"{below}[{label}]", float(x)) for label, x in zip(labels, array, strict=True))
            else:
                yield from _numbers(cast("object", member), below)
