"""Location of bifurcations between two nodes.

A bifurcation is found by the sign of a test function, located in arclength, tested and labelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

import numpy as np

from kapitza.continuation.criteria import side_of_one
from kapitza.continuation.family import Node, Readings
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import ChordNewton, along_tangent, between

ACCEPTED = 1e-8
"""A critical multiplier this close to the circle is on it, when its own defect is smaller."""

SAME_PLACE = 1e-4
"""Arclength within which a fold and a branching are one point: both are located through a nearly singular matrix."""

ROOT = 1e-12
"""Share of the larger value at the ends of a stretch below which a test function is zero."""

BRANCHING = 1e-8
"""That share for branch points, where the matrix of the corrector is singular."""

NOISY = 1e-3
"""That share below which a test function that no longer falls has reached its noise."""

STILL = 1e-12
"""Share of the parameter in a tangent that is rounding: on a canard it stands still, and its sign says nothing."""

PRECISE = ChordNewton(chords=8, nearness=1e-11, tolerance=1e-10, turn=0.0)
"""Chord steps reach rounding, so that the one linearisation is that of the solution."""


class _LostError(Exception):
    """A point on the way could not be corrected."""


@dataclass
class Stretch:
    """Branch between two nodes, computed on demand.

    Points are in hyperplanes across the first node's tangent.
    """

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
        # The corrector starts from the nearer of the two known points.
        near, there = (low, below) if s - below <= above - s else (high, above)
        guess, _ = between(low, high, self.first.metric, (s - below) / (above - below))
        across = along_tangent(self.first, s, guess)
        outcome = PRECISE(replace(across, node=near, length=s - there))
        if outcome.point is None:
            raise _LostError(outcome.message)
        node = outcome.point
        self.known[s] = node
        return node

    def zero(
        self, function: Callable[[Readings], float], apart: Sequence[float] = (), exact: float = ROOT
    ) -> Node | None:
        """Locate a sign change of a test function.

        It is located to rounding; None where it is at one of the places `apart`.
        Secants within a bracket, the value at an end that stays being lowered (Anderson and Björck, BIT 13 (1973)
        253). Next to a singular matrix the function is noise: the search ends where it is smallest.
        """
        found = {s: function(node.readings) for s, node in self.known.items() if not _near(s, apart, SAME_PLACE)}
        if len(found) < 2:
            return None  # the whole stretch is next to one of the other places
        bracket = self._bracket(found)
        if bracket is None:
            return None
        low, high = bracket
        below, above = found[low], found[high]
        largest = max(map(abs, found.values()))
        if below == above:
            return None
        best, vain = min(found, key=lambda s: abs(found[s])), 0
        try:
            while abs(found[best]) > exact * largest and vain < 2 and abs(high - low) > 1e-14:
                # The value at an end that stays is lowered repeatedly: rounding may lead beyond that end.
                s = min(max((low * above - high * below) / (above - below), min(low, high)), max(low, high))
                if abs(high - low) < 100 * SAME_PLACE and _near(s, apart, SAME_PLACE):
                    return None
                if s in found:
                    break
                aside = False
                try:
                    node = self.at(s)
                except _LostError:
                    # Next to a branch point the matrix is singular: a little off it is not.
                    aside = True
                    s += 0.05 * ((low if abs(s - low) > abs(s - high) else high) - s)
                    node = self.at(s)
                value = found[s] = function(node.readings)
                if not isfinite(value):
                    return None  # it is not defined inside of the stretch
                near = abs(found[best]) < NOISY * largest and not aside
                vain = vain + 1 if near and abs(value) >= abs(found[best]) else 0
                best = s if abs(value) < abs(found[best]) else best
                if value * above < 0:
                    low, below, high, above = high, above, s, value
                    continue
                # Anderson-Björck: the kept end is lowered by how much the last step gained.
                factor = 1 - value / above
                high, above, below = s, value, below * (factor if factor > 0 else 0.5)
        except _LostError:
            return self.bisected(lambda r: function(r) > 0)
        return None if _near(best, apart, SAME_PLACE) else self.at(best)

    @staticmethod
    def _bracket(found: dict[float, float]) -> tuple[float, float] | None:
        """Return places that bracket a sign change.

        They are two of those computed; None where there is no change.
        """
        places = sorted(found)
        pairs = [(a, b) for a, b in pairwise(places) if found[a] * found[b] <= 0]
        ends = places[0], places[-1]
        if len(pairs) > 1 and found[ends[0]] * found[ends[1]] <= 0:
            return ends
        # Places next to another bifurcation are left out, so that the ends that remain may have the same sign.
        return pairs[0] if pairs else None

    def bisected(self, side: Callable[[Readings], object], tolerance: float = 1e-9) -> Node:
        """Locate the change of a property by bisection.

        The result is the last point before the change, as near to it as points can be corrected.
        """
        before = side(self.first.readings)
        # An earlier search on the same stretch may have left points close to the change.
        places = sorted(self.known)
        high = next((s for s in places if side(self.known[s].readings) != before), self.length)
        low = max(s for s in places if s < high)
        while high - low > tolerance * self.length:
            middle = 0.5 * (low + high)
            try:
                same = side(self.at(middle).readings) == before
            except _LostError:
                # Next to a branch point the matrix is singular: a little off it is not.
                middle = low + 0.37 * (high - low)
                try:
                    same = side(self.at(middle).readings) == before
                except _LostError:
                    break
            low, high = (middle, high) if same else (low, middle)
        return self.at(low) if low > 0 else self.first


def _on_one_side(first: Node, last: Node, folds: bool) -> list[Bifurcation]:
    same = first.readings.sequence == last.readings.sequence
    return bifurcations_between(first, last, folds) if same and first is not last else []


def _changes(before: float, after: float) -> bool:
    """Return whether the sign changes.

    Zero counts as positive, so that a node at a bifurcation belongs to one step only.
    """
    return (before < 0) != (after < 0) and isfinite(before) and isfinite(after)


def _near(place: float, places: Sequence[float], distance: float) -> bool:
    return any(abs(place - other) < distance for other in places)


def heading(node: Node) -> int:
    """Return the direction of the parameter along the branch.

    0 where the parameter stands still to rounding, as inside a canard explosion.
    """
    slope = node.readings.tests.get(Kind.FOLD, 1.0)
    return 0 if abs(slope) < STILL else int(np.sign(slope))


def fold_between(first: Node, last: Node, by_multiplier: bool) -> Bifurcation | None:
    """Return the fold of a step in which the parameter may stand still.

    by_multiplier: on a canard the sign of the parameter's slope is rounding, but the multiplier passes 1 at the fold
    within a small part of the explosion.
    """
    autonomous = first.at.motion() is not None

    def side(readings: Readings) -> float:
        return side_of_one(readings.multipliers, autonomous) if by_multiplier else readings.tests[Kind.FOLD]

    if not _changes(side(first.readings), side(last.readings)):
        return None
    node = Stretch(first, last).zero(side)
    return None if node is None else node.at.judged(Kind.FOLD, node, first, last)


def bifurcations_between(first: Node, last: Node, folds: bool = True) -> list[Bifurcation]:
    """Return the bifurcations between two nodes.

    Both nodes are on one mesh; the order is that of arclength. folds: whether folds are searched for.
    """
    before, after, at = first.readings, last.readings, first.at
    if before.sequence != after.sequence:
        stretch = Stretch(first, last)
        marks = at.sequence_change(stretch, before, after)
        # Bifurcations are searched for on either side of the change; nothing is compared across it.
        places = sorted(stretch.known)
        high = next(s for s in places if stretch.known[s].readings.sequence != before.sequence)
        low = max(s for s in places if s < high)
        return [
            *_on_one_side(first, stretch.known[low], folds), *marks, *_on_one_side(stretch.known[high], last, folds),
        ]  # fmt: skip
    found: list[tuple[float, Bifurcation]] = []
    branchings: list[float] = []
    tests = [test for test in at.tests if folds or test[0] is not Kind.FOLD]
    changed = [test for test in tests if _changes(test[1](before), test[1](after))]
    stretch = Stretch(first, last) if changed else None
    several = at.several(before, after)
    if several:
        changed = [test for test in changed if test[0] not in {each[0] for each in several}]
        stretch = stretch or Stretch(first, last)
        for kind, function, rank in several:
            node = stretch.zero(function, exact=BRANCHING if kind is Kind.BRANCH_POINT else ROOT)
            label = None if node is None else node.at.judged(kind, node, first, last, rank)
            if node is None or label is None:
                continue
            # Pairs that cross together are as many points; real values that do so make one, with several directions.
            again = kind in (Kind.BRANCH_POINT, Kind.DOUBLING) and _near(
                node.arclength, [s for s, other in found if other.kind is label.kind], SAME_PLACE
            )
            if not again:
                found.append((node.arclength, label))
    for kind, function in changed:
        assert stretch is not None
        # A branch that turns round where it was born has the parameter's extreme there: no fold as well.
        if kind is Kind.BRANCH_POINT:
            node = stretch.zero(function, exact=BRANCHING)
        else:
            node = stretch.zero(function, branchings if kind is Kind.FOLD else ())
        label = None if node is None else node.at.judged(kind, node, first, last)
        if node is None or label is None:
            continue
        found.append((node.arclength, label))
        if label.kind in (Kind.BRANCH_POINT, Kind.PITCHFORK):
            branchings.append(node.arclength - first.arclength)
    return [label for _, label in sorted(found, key=lambda pair: pair[0])]
