"""Codes, duplicates and symmetry partners of cycles.

The module also finds repetitions of shorter cycles, and winding numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.in_records.section import Section

Partition = Callable[[Array], Sequence[str]]


def quadrants(points: Array) -> list[str]:
    """Return the symbols of points by quadrants.

    The points (p, 2) are (angle, velocity).
    A | B above velocity zero, C | D below; A and C where the angle taken in [0, 2π) is below π (ORBITS section 3.2).
    """
    right = np.mod(points[:, 0], 2 * np.pi) >= np.pi
    below = points[:, 1] < 0
    return ["ABCD"[2 * int(b) + int(r)] for r, b in zip(right, below, strict=True)]


def signs(points: Array) -> list[str]:
    """Return symbols by the sign of the first coordinate.

    A where it is positive, B where it is negative.
    """
    return ["B" if x < 0 else "A" for x in points[:, 0]]


@dataclass(frozen=True)
class Threshold:
    """Partition of the first coordinate at one value.

    The symbol is A below `value`, B from it on.
    """

    value: float

    def __call__(self, points: Array) -> list[str]:
        return ["A" if x < self.value else "B" for x in points[:, 0]]


def turning_value(section: Section, bins: int = 40) -> float:
    """Return the border of a one-humped map.

    It is the first coordinate at which its image turns from rising to falling.
    From medians of the images in equally filled bins of the first coordinate; NaN when they have no inner extreme.
    """
    first = section.unit[section.starts, 0]
    image = section.unit[section.starts + 1, 0]
    order = np.argsort(first, kind="stable")
    # At least eight points per bin, so that a median is meaningful.
    parts = np.array_split(order, min(bins, max(len(order) // 8, 1)))
    middle = np.array([np.median(first[part]) for part in parts])
    level = np.array([np.median(image[part]) for part in parts])
    for extreme in (int(np.argmax(level)), int(np.argmin(level))):
        # An extreme in the outer two bins is the edge of the attractor, not a hump.
        if 2 <= extreme < len(level) - 2:
            return float(middle[extreme] * section.scale[0])
    return float("nan")


def default_partition(section: Section) -> Partition:
    """Choose a partition from the section.

    Quadrants on a plane of angle × velocity; signs where the first coordinate takes both; else the hump of its map.
    """
    if section.angles == (True, False):
        return quadrants
    first = section.unit[:, 0]
    # At least 5 % on each side: a few noisy points beyond zero do not make two symbols.
    if np.mean(first < 0) > 0.05 and np.mean(first > 0) > 0.05:
        return signs
    border = turning_value(section)
    return Threshold(border) if np.isfinite(border) else signs


def symbols_of(points: Array, partition: Partition) -> list[str]:
    """Return one symbol per point, with a length check."""
    symbols = [str(symbol) for symbol in partition(points)]
    if len(symbols) != len(points):
        raise DataError(f"The partition gave {len(symbols)} symbols for {len(points)} points: give one per point.")
    return symbols


def symbolic_code(points: Array, partition: Partition, deviation: Array | None) -> str:
    """Return the code of a cycle in alphabetical rotation.

    A point whose symbol changes within its own uncertainty gets "*": it lies on a border of the partition.
    """
    symbols = symbols_of(points, partition)
    if deviation is not None:
        # Three deviations; the floor keeps points exactly on a border marked when the deviation is zero.
        reach = np.maximum(3.0 * deviation, 1e-9 * np.maximum(np.ptp(points, axis=0), np.abs(points).max(axis=0)))
        for column in range(points.shape[1]):
            for sign in (-1.0, 1.0):
                moved = points.copy()
                moved[:, column] += sign * reach[:, column]
                for k, other in enumerate(symbols_of(moved, partition)):
                    if other != symbols[k] and symbols[k] != "*":
                        symbols[k] = "*"
    text = "".join(symbols) if all(len(s) == 1 for s in symbols) else "-".join(symbols)
    return smallest_rotation(text) if "-" not in text else text


def smallest_rotation(code: str) -> str:
    """Return the alphabetically first rotation of a code.

    Codes of one cycle then compare equal.
    """
    return min((code[k:] + code[:k] for k in range(len(code))), default=code)


def cycle_gaps(section: Section, cycles: Sequence[Array], points: Array) -> Array:
    """Return the distance of a cycle to each other.

    It is the largest distance between the points of a scaled cycle (p, n) and those of each of `cycles` (p, n),
    minimised over cyclic shifts; it is infinite for cycles of another period.
    """
    gaps = np.full(len(cycles), np.inf)
    # Only cycles of one period can be stacked and compared in one array operation.
    same = [k for k, cycle in enumerate(cycles) if len(cycle) == len(points)]
    if same:
        place = np.arange(len(points))
        shifted = points[(place - place[:, None]) % len(points)]
        apart = section.wrap(shifted - np.array([cycles[k] for k in same])[:, None])
        gaps[same] = np.linalg.norm(apart, axis=-1).max(axis=-1).min(axis=-1)
    return gaps


def repeats_shorter(section: Section, points: Array, tolerance: float) -> int:
    """Return the shorter period of a repeated cycle.

    It is the smallest q < p after which a scaled cycle (p, n) already repeats within the tolerance, or 0.
    """
    p = len(points)
    for q in range(1, p):
        gap = section.wrap(np.roll(points, -q, axis=0) - points)
        if p % q == 0 and np.linalg.norm(gap, axis=1).max() <= tolerance:
            return q
    return 0


def with_partners(
    orbits: Sequence[PeriodicOrbit], angles: Sequence[bool], symmetry: Sequence[float], tolerance: Array
) -> list[PeriodicOrbit]:
    """Store the symmetry partner of each orbit.

    `partner` is the index of the image under x → symmetry · x.
    An orbit that is its own image is noted with its own index. `tolerance` (n,) is in the units of the states.
    """
    noted = []
    for orbit in orbits:
        image = orbit.points * np.asarray(symmetry, float)
        partner = None
        for index, other in enumerate(orbits):
            if other.points.shape == image.shape:
                gaps = [
                    np.abs(difference(np.roll(other.points, k, axis=0), image, angles) / tolerance).max()
                    for k in range(len(image))
                ]
                if min(gaps) <= 1.0:
                    partner = index
                    break
        noted.append(orbit.with_(partner=partner))
    return noted


def winding_numbers(section: Section, points: Array, row: int) -> tuple[tuple[int, ...], str]:
    """Return the turns of each angle over one period.

    The cycle has shape (p, n); a note explains turns that are unknown.
    Turns that the record shows are summed along the visit that starts at `row`. One sample per period of an angle
    modulo 2π does not show them (the rate at one phase is not a mean rate): the winding is then empty, not a guess.
    """
    if not section.circle.any():
        return (0,) * section.dimension, ""
    if section.turns is None or row < 0:
        return (), "winding unknown: the record holds the angle only modulo 2π, once per period"
    total = section.turns[row : row + len(points)].sum(axis=0)
    return tuple(round(float(t)) if c else 0 for t, c in zip(total, section.circle, strict=True)), ""
