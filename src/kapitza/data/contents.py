"""Contents of a file of named arrays.

They are the same for all formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.unpacking import MOST_ARRAYS
from kapitza.data.columns import Metadata
from kapitza.errors import DataError

Variable = Numbers | list[Numbers]


@dataclass
class Contents:
    """The contents of a container.

    Arrays by name, units that it states, metadata that `write` stored.
    """

    arrays: dict[str, Variable] = field(default_factory=dict[str, Variable])
    units: dict[str, str] = field(default_factory=dict[str, str])
    metadata: Metadata = field(default_factory=Metadata)

    def add(self, name: str, value: Variable, path: Path) -> None:
        if len(self.arrays) >= MOST_ARRAYS:
            raise DataError(f"{path.name} holds more than {MOST_ARRAYS} arrays: it is not a recording.")
        self.arrays[name] = value


def stored_text(value: object) -> str:
    """Return metadata as text.

    They are stored as bytes, or as text.
    """
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return array.tobytes().decode("ascii", "replace")
    return str(array.ravel()[0]) if array.size == 1 else ""


def unit_text(value: object) -> str:
    """Return a unit stored as an attribute.

    "seconds since 2020-01-01" is in seconds.
    """
    if isinstance(value, np.ndarray):
        array = cast(Numbers, value)
        return unit_text(array.ravel()[0]) if array.size == 1 else ""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return str(text).partition(" since ")[0].strip() if isinstance(text, str) else ""


def units_among(texts: Mapping[str, str], arrays: Mapping[str, object]) -> dict[str, str]:
    """Return units from fields of text.

    They are units.t beside t, or run.units.t beside run.t.
    """
    units: dict[str, str] = {}
    for name in arrays:
        group, _, own = name.rpartition(".")
        places = [f"{group}.{key}.{own}".lstrip(".") for key in ("units", "unit")]
        text = next((texts[place] for place in places if place in texts), "")
        if text:
            units[name] = text.strip()
    return units
