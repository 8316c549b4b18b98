"""Search structures over the points of a section."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Indices

if TYPE_CHECKING:
    from scipy.spatial import KDTree

MANY_NEIGHBOURS = 20_000  # points times neighbours from which on a search is shared by threads

MANY_PLACES = 1000  # places from which on counting is shared by threads

LEAF = 32
"""Points in a leaf of the search tree."""

MANY_POINTS = 100_000
"""Points from which searches near few places look at the points of the cells around these places only."""

FEW_PLACES = 16
"""Places whose distances to the points of the cells around them are computed directly."""

CELLS = {1: 128, 2: 128, 3: 32}
"""Cells per unit of length, by dimension; a power of two."""

MOST_OF_ALL = 1 / 4
"""Share of all points from which a tree of them costs little more than one of the points around the places."""

BLOCK = 1 << 14
"""Points whose cells are computed at once: they stay in the cache."""


class SearchIndex:
    """Search structures over the points of a section.

    They are made when first needed and shared by copies with other noise.
    unit: (N, n) scaled points; follows: (N,) whether a point has an image; circle: (n,) which columns are angles.
    """

    def __init__(self, unit: Array, follows: NDArray[np.bool_], circle: NDArray[np.bool_]):
        self._unit, self._follows, self._circle = unit, follows, circle
        self._parts: dict[tuple[int, int], tuple[NDArray[np.bool_], SearchIndex]] = {}
        self._patch: Patch | None = None

    def belongs_to(self, unit: Array, follows: NDArray[np.bool_]) -> bool:
        """Return whether the index fits these arrays.

        A changed copy of a section must not search the old points.
        """
        return self._unit is unit and self._follows is follows

    @cached_property
    def starts(self) -> Indices:
        return np.flatnonzero(self._follows)

    @cached_property
    def run(self) -> Indices:
        ends = np.flatnonzero(~self._follows)
        return np.repeat(ends, np.diff(ends, prepend=-1)) - np.arange(len(self._unit))

    def thinned(self, most: int, seed: int) -> tuple[NDArray[np.bool_], SearchIndex]:
        """Return `most` of the starts, drawn at random, and their index.

        The starts are given as (N,) flags. A second request for the same draw shares its tree.
        """
        if (most, seed) not in self._parts:
            follows = np.zeros(len(self._unit), bool)
            follows[np.random.default_rng(seed).choice(self.starts, most, replace=False)] = True
            self._parts[most, seed] = follows, SearchIndex(self._unit, follows, self._circle)
        return self._parts[most, seed]

    def nearest(self, centres: Array, count: int) -> tuple[Array, Indices]:
        """Return distances (C, K) and rows (C, K) of the nearest starts.

        centres (C, n) with angles in [0, 1).
        """
        # Threads cost more than a search for few points.
        workers = -1 if len(centres) * count > MANY_NEIGHBOURS else 1
        patch = self._patch_around(centres)
        if patch is not None:
            distance, place = _queried(patch.tree, centres, count, workers)
            if np.all(distance <= patch.cells.size):
                return distance, patch.rows[place]
        distance, place = _queried(self._tree, centres, count, workers)
        return distance, self.starts[place]

    def within(self, centre: Array, radius: float) -> Indices:
        """Return the starts within a radius of one point (n,)."""
        if self._by_cells(1, radius):
            rows = self._cells.rows_near(centre[None], radius)
            return rows[self._distance(rows, centre) <= radius]
        return self.starts[np.asarray(self._tree.query_ball_point(centre, radius), np.intp)]

    def count_within(self, centres: Array, radius: float) -> Indices:
        """Return how many starts are within a radius of points (C, n)."""
        if self._by_cells(len(centres), radius):
            rows = self._cells.rows_near(centres, radius)
            return np.array([np.count_nonzero(self._distance(rows, centre) <= radius) for centre in centres])
        workers = -1 if len(centres) > MANY_PLACES else 1
        return np.asarray(self._tree.query_ball_point(centres, radius, return_length=True, workers=workers), np.intp)

    def _distance(self, rows: Indices, centre: Array) -> Array:
        gap = self._unit[rows] - centre
        for column in np.flatnonzero(self._circle):
            gap[:, column] -= np.round(gap[:, column])
        return np.sqrt(np.einsum("ij,ij->i", gap, gap))

    def _by_cells(self, places: int, radius: float) -> bool:
        return "_tree" not in self.__dict__ and self._many and places <= FEW_PLACES and radius < self._cells.farthest

    @property
    def _many(self) -> bool:
        return len(self.starts) >= MANY_POINTS and self._unit.shape[1] in CELLS

    def _patch_around(self, places: Array) -> Patch | None:
        """Return the tree of the points around these places and those before; None where the whole tree is better."""
        if "_tree" in self.__dict__ or not self._many:
            return None
        patch = self._patch or Patch(self._cells)
        if not patch.holds(places):
            patch = self._patch = patch.extended(places)
        return patch if len(patch.rows) <= MOST_OF_ALL * len(self.starts) else None

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self._unit, self._follows, self._circle)

    @cached_property
    def _tree(self) -> KDTree:
        return _tree_of(self._unit[self.starts], self._circle)


def _queried(tree: KDTree, centres: Array, count: int, workers: int) -> tuple[Array, Indices]:
    # k = 1 would drop the axis of the neighbours.
    distance, place = tree.query(centres, k=max(count, 2), workers=workers)
    return np.asarray(distance, float)[:, :count], np.asarray(place, np.intp)[:, :count]


def _tree_of(points: Array, circle: NDArray[np.bool_]) -> KDTree:
    from scipy.spatial import KDTree

    box = np.where(circle, 1.0, 0.0) if circle.any() else None
    # Uniform cuts and larger leaves (10 by default) build in half the time; queries are as fast on these data.
    return KDTree(points, LEAF, boxsize=box, balanced_tree=False, compact_nodes=False)


class Cells:
    """Points of a section, sorted into cells of width 1/M.

    Cells are numbered modulo M in each coordinate, so angles need no care. Points that are whole units apart share a
    cell: it may hold more points than asked for, never fewer.
    """

    def __init__(self, unit: Array, follows: NDArray[np.bool_], circle: NDArray[np.bool_]):
        self.unit, self.circle = unit, circle
        self._side = CELLS[unit.shape[1]]
        self.count = self._side ** unit.shape[1]
        # Points without an image get a number beyond the last cell.
        number = np.full(len(unit), self.count, np.uint16)
        for first in range(0, len(unit), BLOCK):
            part = slice(first, first + BLOCK)
            np.copyto(number[part], self.numbers(self._place(unit[part])), "unsafe", where=follows[part])
        # NumPy sorts numbers of 16 bits by counting, in 10 ms per million.
        self._order = np.argsort(number, kind="stable")
        self._first = np.append(0, np.cumsum(np.bincount(number, minlength=self.count + 1)))

    @property
    def size(self) -> float:
        return 1.0 / self._side

    @property
    def farthest(self) -> float:
        """Radius from which the cells around a place meet at the other side."""
        return (self._side // 2 - 1) * self.size

    def around(self, places: Array, ring: int = 1) -> NDArray[np.bool_]:
        """Flag the cells of places (K, n) and those up to `ring` cells away."""
        n = self.unit.shape[1]
        steps = np.stack(np.meshgrid(*[np.arange(-ring, ring + 1)] * n, indexing="ij"), axis=-1).reshape(-1, n)
        flags = np.zeros(self.count + 1, bool)
        flags[self.numbers((self.own(places)[:, None] + steps).reshape(-1, n) & (self._side - 1))] = True
        return flags

    def own(self, places: Array) -> NDArray[np.int64]:
        """Return the cells (K, n) of places."""
        # Every finite number has a cell: it is brought near zero first.
        return self._place(np.mod(places, 1.0))

    def rows_near(self, places: Array, radius: float) -> Indices:
        """Return all rows within a radius of any of the places, and some more."""
        return self.rows(self.around(places, int(np.ceil(radius * self._side)) or 1))

    def rows(self, flags: NDArray[np.bool_]) -> Indices:
        parts = [self._order[self._first[cell] : self._first[cell + 1]] for cell in np.flatnonzero(flags)]
        return np.concatenate(parts) if parts else np.empty(0, np.intp)

    def numbers(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each cell (K, n)."""
        number = cells[:, 0]
        for column in range(1, cells.shape[1]):
            number = number + self._side**column * cells[:, column]
        return number

    def _place(self, unit: Array) -> NDArray[np.int64]:
        return np.floor(unit * self._side).astype(np.int64) & (self._side - 1)


class Patch:
    """Tree over the points of some cells and all that touch them.

    Every point within one cell's width of a place in one of the cells is in the tree.
    """

    def __init__(self, cells: Cells, centres: NDArray[np.bool_] | None = None, filled: NDArray[np.bool_] | None = None):
        self.cells = cells
        none = np.zeros(cells.count + 1, bool)
        self._centres, self._filled = (none if centres is None else centres), (none if filled is None else filled)

    def holds(self, places: Array) -> bool:
        return bool(self._centres[self.cells.numbers(self.cells.own(places))].all())

    def extended(self, places: Array) -> Patch:
        """Return the patch around these places too."""
        centres = self._centres.copy()
        centres[self.cells.numbers(self.cells.own(places))] = True
        return Patch(self.cells, centres, self._filled | self.cells.around(places))

    @cached_property
    def rows(self) -> Indices:
        return self.cells.rows(self._filled)

    @cached_property
    def tree(self) -> KDTree:
        return _tree_of(self.cells.unit[self.rows], self.cells.circle)
