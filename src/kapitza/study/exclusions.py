"""Name the orbits of a recording.

A study excludes orbits by these names.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapitza.errors import DataError
from kapitza.orbits import OrbitSet

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def orbit_labels(orbits: OrbitSet) -> list[str]:
    """Return the name of each orbit.

    It is its period and a letter, "1a", "2a", "3a", "3b" in the order of the set.
    """
    count: dict[int, int] = {}
    labels = []
    for orbit in orbits:
        period = len(orbit.points)
        number = count[period] = count.get(period, -1) + 1
        letter = ""
        while number >= 0:
            letter = LETTERS[number % 26] + letter
            number = number // 26 - 1
        labels.append(f"{period}{letter}")
    return labels


def without_excluded(orbits: OrbitSet, exclude: Sequence[str]) -> OrbitSet:
    """Return the orbits that a study fits.

    Unknown names are refused.
    """
    labels = orbit_labels(orbits)
    unknown = [name for name in exclude if name not in labels]
    if unknown:
        raise DataError(f'exclude names "{unknown[0]}", and the orbits found are {", ".join(labels) or "none"}.')
    return orbits.select(positions=[number for number, label in enumerate(labels) if label not in exclude])
