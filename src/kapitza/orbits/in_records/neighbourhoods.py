"""Starts of the search for cycles, and the points from which the maps around them are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.base.monitor import Task
from kapitza.orbits.in_records.bookkeeping import cycle_gaps
from kapitza.orbits.in_records.calibration import REACH
from kapitza.orbits.in_records.locate import refine_cycles
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.section import Section

if TYPE_CHECKING:
    from kapitza.orbits.in_records.find import SectionSearch

MOST_NEIGHBOURS = 768
"""Neighbours that a map of the search looks at."""

COARSE, DENSE = 40_000, 2
"""Points whose maps bring starts close to cycles, in sections of more than DENSE times as many."""

SAME = 0.1
"""Distance of two solutions, as a share of the tolerance, below which they are one cycle."""


@dataclass(frozen=True)
class Neighbourhoods:
    """Cycles that take their neighbours from the same points.

    cycles: (C,) their numbers; search: how many of the offered points each looks at.
    """

    cycles: NDArray[np.intp]
    offered: Section
    search: int


def filled_windows(
    section: Section, settings: SectionSearch, cycles: Array, neighbours: int, most: int = MOST_NEIGHBOURS
) -> list[Neighbourhoods]:
    """Choose the points that fill noise-wide windows about cycles.

    Windows are as wide as the noise requires, about the points of every cycle (C, p, n).
    Where more than `most` points are in such a window, fewer points are offered: the nearest `most` of all would make
    it narrower than the noise, and then the true positions of its points cannot be estimated. The density differs from
    place to place (a record that ends at rest has most of its points there), so it is counted at the cycles
    themselves; the sparsest point of each keeps its neighbours.
    """
    count, period, n = cycles.shape
    reach = REACH * settings.noise_widths * float(np.max(section.noise))
    inside = np.maximum(section.count_within(cycles.reshape(-1, n), reach).reshape(count, period), 1)
    wanted = 1.5 * np.median(inside, axis=1)
    share = np.minimum(np.maximum(most / wanted, 2.0 * neighbours / inside.min(axis=1)), 1.0)
    halvings = np.ceil(-np.log2(share)).astype(int) if most > neighbours else np.zeros(count, int)
    found = []
    for times in np.unique(halvings):
        members = np.flatnonzero(halvings == times)
        offered = section.thinned(max(len(section.starts) >> int(times), most)) if times else section
        enough = float(np.median(wanted[members])) / 2.0**times
        search = int(min(max(neighbours, enough), max(most, neighbours), len(offered.starts)))
        found.append(Neighbourhoods(members, offered, search))
    return found


def approached(
    section: Section, starts: Array, settings: SectionSearch, neighbours: int, task: Task
) -> tuple[Array, NDArray[np.intp]]:
    """Move starts (C, p, n) close to cycles with maps of a part of the points.

    Newton's steps are limited by the windows of the maps. Those of 64 among a million points without noise are so
    narrow that a start further from its cycle than a few tenths of the tolerance does not arrive.
    Starts that settle on the same cycle are one: the distinct ones (G, p, n) and the number of each start's (C,) are
    returned. A start that does not settle stays where it is; all stay where the windows are wide.
    """
    everyone = np.arange(len(starts))
    if section.size <= DENSE * COARSE:
        return starts, everyone
    part = section.thinned(COARSE)
    wide = REACH * settings.noise_widths * float(np.max(section.noise))
    if np.median(part.count_within(starts[:, 0], wide)) > neighbours:
        return starts, everyone
    distinct: list[Array] = []
    group = np.empty(len(starts), np.intp)
    batch = batch_size(neighbours, starts, settings.degree)
    for first in range(0, len(starts), batch):
        task.check()
        chosen = everyone[first : first + batch]
        cycles = refine_cycles(
            part, starts[chosen], degree=settings.degree, neighbours=neighbours, search=neighbours,
            noise_widths=settings.noise_widths, reach=3.0 * settings.tolerance,
        )  # fmt: skip
        for k, settled in zip(chosen, cycles.settled, strict=True):
            points = cycles.points[k - first] if settled else starts[k]
            same = cycle_gaps(section, distinct, points) < SAME * settings.tolerance
            group[k] = int(np.argmax(same)) if settled and same.any() else len(distinct)
            if group[k] == len(distinct):
                distinct.append(points)
    return np.array(distinct), group


def batch_size(search: int, starts: Array, degree: int) -> int:
    """Return how many of the starts (C, p, n) are fitted at once.

    It bounds the memory of one batch of fits: rows × neighbours × terms.
    """
    return max(1, 4_000_000 // (starts.shape[1] * search * term_count(starts.shape[2], degree)))
