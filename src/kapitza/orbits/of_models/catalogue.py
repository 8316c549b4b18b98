"""The cycles known so far, without doubles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array


class Catalogue:
    """Distinct cycles (p, n) by period.

    Two are the same when a cyclic shift brings them within `tolerance` of each other.
    Sums over the points of a cycle do not change when it is shifted: they sort the candidates, and only cycles with
    equal sums are compared point by point.
    """

    def __init__(self, angles: NDArray[np.bool_], scale: Array, tolerance: float = 1e-5):
        self.angles, self.scale, self.tolerance = angles, scale, tolerance
        self.cycles: dict[int, list[Array]] = {}
        self._sums: dict[int, list[Array]] = {}

    def _coordinates(self, cycle: Array) -> Array:
        """Return angles as points on the circle.

        No cut then separates neighbours.
        """
        flat = cycle[:, ~self.angles] / self.scale[~self.angles]
        turned = cycle[:, self.angles]
        return np.concatenate([flat, np.cos(turned), np.sin(turned)], axis=1)

    def add(self, cycle: Array) -> bool:
        """Add a cycle; return whether it was new."""
        period = len(cycle)
        known, sums = self.cycles.setdefault(period, []), self._sums.setdefault(period, [])
        points = self._coordinates(cycle)
        total = np.concatenate([points.sum(axis=0), (points**2).sum(axis=0)])
        if known:
            # Sums of p points that differ by at most the tolerance each, and of their squares, differ by a few p
            # times it.
            near = np.flatnonzero(np.abs(np.array(sums) - total).max(axis=1) < 4 * period * self.tolerance)
            if any(self._same(points, self._coordinates(known[i])) for i in near):
                return False
        known.append(cycle)
        sums.append(total)
        return True

    def _same(self, first: Array, second: Array) -> bool:
        shifts = [np.abs(np.roll(second, k, axis=0) - first).max() for k in range(len(first))]
        return min(shifts) < self.tolerance
