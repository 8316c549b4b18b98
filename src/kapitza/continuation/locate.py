"""Bifurcations between two nodes: found by the sign of a test function, located in arclength, judged, labelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from kapitza.continuation.criteria import Readings, readings
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import ChordNewton, Node, along_tangent

Array = NDArray[np.float64]

ACCEPTED = 1e-8
"""A critical multiplier this close to the circle is on it, when its own defect is smaller."""

SAME_PLACE = 1e-4
"""Arclength within which a fold and a branching are one point: both are located through a nearly singular matrix."""

PRECISE = ChordNewton(chords=8, nearness=1e-11, tolerance=1e-10, turn=0.0)
"""Chord steps reach rounding, so that the one linearisation is that of the solution."""


class _LostError(Exception):
    """A point on the way could not be corrected."""


@dataclass
class Stretch:
    """The branch between two nodes, point by point on demand: hyperplanes across the first node's tangent."""

    first: Node
    last: Node

    def __post_init__(self):
        row = self.first.tangent * self.first.metric
        self.length = float(row @ (self.last.z - self.first.z))
        self.known: dict[float, Node] = {0.0: self.first, self.length: self.last}

    def at(self, s: float) -> Node:
        found = self.known.get(s)
        if found is not None:
            return found
        below = max(k for k in self.known if k < s)
        above = min(k for k in self.known if k > s)
        low, high = self.known[below], self.known[above]
        near, there = (low, below) if s - below <= above - s else (high, above)
        across = along_tangent(self.first, s, self._between(low, high, (s - below) / (above - below)))
        outcome = PRECISE(replace(across, node=near, length=s - there))
        if outcome.point is None:
            raise _LostError(outcome.message)
        node = outcome.point
        self.known[s] = node
        return node

    def _between(self, low: Node, high: Node, share: float) -> Array:
        """Hermite's cubic through two nodes, along the tangents at both; a line where their meshes differ."""
        chord = high.z - low.z
        if not (np.isfinite(low.tangent).all() and np.isfinite(high.tangent).all()):
            return low.z + share * chord
        gap = float(np.sqrt((chord**2 * self.first.metric).sum()))
        first, last = low.tangent * gap, high.tangent * gap
        # Tangents that look back, as on a walk through a corner, belong to another curve.
        if (
            float((first * chord * self.first.metric).sum()) <= 0
            or float((last * chord * self.first.metric).sum()) <= 0
        ):
            return low.z + share * chord
        bend = share * (1 - share)
        return low.z + share * chord + bend * ((1 - share) * (first - chord) + share * (chord - last))

    def zero(self, function: Callable[[Readings], float]) -> Node:
        """Where a test function changes its sign, to rounding."""
        try:
            place, _ = brentq(
                lambda s: function(readings(self.at(s))), 0.0, self.length,
                xtol=1e-14, rtol=np.float64(1e-13), full_output=True,
            )  # fmt: skip
            return self.at(float(place))
        except (_LostError, ValueError):
            return self.bisected(lambda r: function(r) > 0)

    def bisected(self, side: Callable[[Readings], Any], tolerance: float = 1e-9) -> Node:
        """Where a property changes, as near as points can be corrected; the last point before the change."""
        before = side(readings(self.first))
        # What was looked for earlier on the same stretch may have left points close to the change.
        places = sorted(self.known)
        high = next((s for s in places if side(readings(self.known[s])) != before), self.length)
        low = max(s for s in places if s < high)
        while high - low > tolerance * self.length:
            middle = 0.5 * (low + high)
            try:
                same = side(readings(self.at(middle))) == before
            except _LostError:
                # Next to a branch point the matrix is singular: a little off it is not.
                middle = low + 0.37 * (high - low)
                try:
                    same = side(readings(self.at(middle))) == before
                except _LostError:
                    break
            low, high = (middle, high) if same else (low, middle)
        return self.at(low) if low > 0 else self.first


def bifurcations_between(first: Node, last: Node) -> list[Bifurcation]:
    """What happens between two nodes of one mesh, in the order of arclength."""
    before, after = readings(first), readings(last)
    stretch = Stretch(first, last)
    family = first.family
    if before.sequence != after.sequence:
        return family.sequence_change(stretch, before, after)
    found: list[tuple[float, Bifurcation]] = []
    for kind, function in family.test_functions():
        low, high = function(before), function(after)
        if not (np.isfinite(low) and np.isfinite(high)) or low * high >= 0:
            continue
        node = stretch.zero(function) if kind is not Kind.BRANCH_POINT else stretch.bisected(function)
        label = family.judged(kind, node, first, last)
        if label is not None:
            found.append((node.arclength, label))
    branchings = [place for place, label in found if label.kind in (Kind.BRANCH_POINT, Kind.PITCHFORK)]
    kept = [
        (place, label)
        for place, label in found
        # A branch that turns round where it was born has the parameter's extreme there: no fold besides.
        if label.kind is not Kind.FOLD or all(abs(place - other) > SAME_PLACE for other in branchings)
    ]
    return [label for _, label in sorted(kept, key=lambda pair: pair[0])]


def orbit_tests() -> tuple[tuple[Kind, Callable[[Readings], float]], ...]:
    return (
        (Kind.FOLD, lambda r: r.fold),
        (Kind.DOUBLING, lambda r: r.doubling),
        (Kind.NEIMARK_SACKER, lambda r: r.torus),
        (Kind.BRANCH_POINT, lambda r: r.branch),
    )
