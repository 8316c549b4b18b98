"""Columns of tangents that share one run.

They may share it where a change of one state does not spread far.
Over a short stretch of time t a change of one mass of a chain is felt by its neighbours alone: entries of the tangents
fall with the number d of equations between two states as (t |f_x|)^d / d!. Columns whose neighbourhoods do not meet are
integrated as one, their sum, and taken apart afterwards (A. R. Curtis, M. J. D. Powell, J. K. Reid, IMA J. Appl. Math.
13 (1974) 117). The width of the neighbourhoods is checked: one more column, a combination of all, is integrated beside
them, and the columns that were taken apart must give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from kapitza.base.arrays import Array, Indices


@dataclass(frozen=True)
class SharedColumns:
    """Which columns (n) of the tangents are integrated together.

    starts: (n, C + 1) sums of unit columns, and the combination `mix` (n,) of all as the last; rows, columns: (q,)
    entries that are in reach; owners: (q,) the sums that hold them.
    """

    starts: Array
    mix: Array
    rows: Indices
    columns: Indices
    owners: Indices

    def take_apart(self, sums: Array, limit: float, tangents: Array) -> bool:
        """Write the tangents from the sums of columns.

        The first n columns of tangents (..., n, n + k) must be zero before; the sums are (..., n, C + 1).
        False where the combination of all columns is off by more than `limit`, relative to the largest sum in its row.
        """
        n, count = self.starts.shape
        width = tangents.shape[-1]
        flat = tangents.reshape(*tangents.shape[:-2], n * width)
        flat[..., self.rows * width + self.columns] = sums.reshape(*sums.shape[:-2], n * count)[
            ..., self.rows * count + self.owners
        ]
        off = np.abs(tangents[..., :n] @ self.mix - sums[..., -1])
        return bool((off <= limit * np.abs(sums[..., :-1]).max(axis=-1)).all())


def distances(depends: NDArray[np.bool_]) -> Array:
    """Return the distances (n, n) between states.

    A distance is the number of equations from state j to state i. depends: (n, n) whether the rate of i holds j.
    """
    return shortest_path(csr_array(depends.T.astype(float)), method="D", unweighted=True).T


def share(distance: Array, most: int) -> SharedColumns | None:
    """Return the widest neighbourhoods with at most `most` sums.

    The result is None where even next neighbours need more.
    """
    found = None
    for radius in range(1, int(distance[np.isfinite(distance)].max(initial=0.0)) + 1):
        near = distance <= radius
        owner = _groups(near)
        if owner.max() + 1 > most:
            break
        found = near, owner
    if found is None:
        return None
    near, owner = found
    n, count = len(near), int(owner.max()) + 1
    mix = _mix(owner)
    starts = np.zeros((n, count + 1))
    starts[np.arange(n), owner] = 1.0
    starts[:, -1] = mix
    i, j = np.nonzero(near)
    return SharedColumns(starts, mix, i, j, owner[j])


def _mix(owner: Indices) -> Array:
    """Return the factors (n,) of the combination.

    No two factors of a sum are alike, and none is the mean of its neighbours. An entry that is taken for that of
    another column then shows, also where it comes from both sides.
    """
    rank = np.zeros(owner.size)
    for group in range(int(owner.max()) + 1):
        members = np.flatnonzero(owner == group)
        rank[members] = np.arange(members.size)
    return np.array([1.0, 2.5, -1.5])[rank.astype(int) % 3] + 0.2 * rank / (rank.max() + 1)


def _groups(near: NDArray[np.bool_]) -> Indices:
    """Return the sum (n,) that each column joins.

    It is the first sum that holds no column whose neighbourhood meets its own.
    """
    reach = near.astype(np.float64)
    meets = reach.T @ reach > 0
    owner = np.full(len(near), -1)
    for j in range(len(near)):
        taken = np.unique(owner[meets[j] & (owner >= 0)])
        free = np.flatnonzero(taken != np.arange(taken.size))
        owner[j] = free[0] if free.size else taken.size
    return owner
