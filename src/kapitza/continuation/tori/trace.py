"""One direction of a family of tori.

The trace chooses steps and meshes, and finds the reason it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.family import Node
from kapitza.continuation.nouns import End
from kapitza.continuation.path import Guess, corrected_at, null_direction
from kapitza.continuation.tori.circle import resampled, tail
from kapitza.continuation.tori.family import TorusFamily
from kapitza.continuation.trace import Stepping
from kapitza.errors import FlowError
from kapitza.solve import Outcome, StepCollapse, walk

SMOOTH = 1e-8
"""Relative size of the last modes above which the circle gets more phases."""

SPARE = 1e-13
"""Relative size of the last modes below which the circle gets fewer phases."""

DEFECT = 1e-6
"""Largest error of invariance between the phases, relative to the circle's radius, of a torus that is accepted."""

FEWEST = 17
"""Phases of the smallest mesh."""

LOCKED = 12
"""Largest denominator of a ratio that is named as the reason why a family ends."""

Range = tuple[float, float]


@dataclass
class TorusTrace:
    """One direction of a family of tori.

    Iterate to trace; then `nodes`, `end` and `message` are complete.
    ranges: of the free parameters; most: phases of the finest mesh allowed.
    """

    start: Node
    ranges: tuple[Range, ...]
    stepping: Stepping
    most: int
    nodes: list[Node] = field(default_factory=list[Node])
    end: End = End.POINTS
    message: str = ""
    _leaps: int = 0

    def __iter__(self) -> Iterator[Node]:
        self.nodes = [self.start]
        step, steps = None, None
        while len(self.nodes) < self.stepping.max_points:
            last = self.nodes[-1]
            if steps is None:
                steps = walk(self._known(), self.stepping.predictor, self._correct, self.stepping.rule, step)
            try:
                stride = next(steps)
            except StepCollapse as collapse:
                node, step = self._across() or self._finer(last), None
                if node is None:
                    self._collapsed(collapse)
                    return
            else:
                node, step = stride.point, stride.following
            steps = None
            bound = self._passed(node)
            if bound is not None:
                node = self._at_bound(last, node, *bound)
                self.end, self.message = End.BOUND, f"{self.start.family.free[bound[0]]} = {bound[1]:.8g}"
                if node is not None:
                    self.nodes.append(node)
                    yield node
                return
            if node is not last and self._shrunk(last, node):
                return
            node = self._refreshed(node)
            if node.z.size == last.z.size and node is last:
                return
            self.nodes.append(node)
            yield node
        self.end, self.message = End.POINTS, f"{self.stepping.max_points} points"

    def _known(self) -> list[Node]:
        return [n for n in self.nodes[-2:] if n.z.size == self.nodes[-1].z.size]

    def _correct(self, guess: Guess) -> Outcome[Node]:
        """Correct a guess to an invariant circle.

        A circle that is not invariant between its phases is not a torus.
        """
        try:
            outcome = self.stepping.corrector(guess)
            if outcome.point is None:
                return outcome
            node = outcome.point
            family = torus_family(node)
            while family.between(node.z) > DEFECT:
                finer = self._on_mesh(node, 2 * family.count - 1)
                if finer is None:
                    return Outcome(None, outcome.effort, "The circle is not invariant between its phases.")
                node, family = finer, torus_family(finer)
        except FlowError as problem:
            return Outcome(None, 1, str(problem))
        return Outcome(node, outcome.effort)

    def _on_mesh(self, node: Node, count: int) -> Node | None:
        return on_other_mesh(node, count) if FEWEST <= count <= self.most else None

    def _refreshed(self, node: Node) -> Node:
        """Return the node on the mesh it needs.

        The modes decide the mesh; its circle is the reference of the next node.
        """
        family = torus_family(node)
        circle = family.unpack(node.z)[0]
        size = tail(circle, family.sizes)
        count = family.count
        if size > SMOOTH:
            node = self._on_mesh(node, 2 * count - 1) or node
        # Fewer phases only where the coarser circle would be resolved as well, or meshes would alternate.
        elif size < SPARE and tail(resampled(circle, (count + 1) // 2), family.sizes) < SPARE:
            node = self._on_mesh(node, (count + 1) // 2) or node
        renewed = node.at.renewed(node.z)
        assert renewed is not None
        family, at = renewed
        row = node.tangent * family.metric
        tangent = null_direction(family, at, row[None])
        if float(row @ tangent) < 0:
            tangent = -tangent
        return Node(family, node.z, tangent, at, node.arclength, node.effort, node.effort_newton)

    def _finer(self, node: Node) -> Node | None:
        """Return the last node with more phases.

        It is used where steps from the node fail.
        """
        finer = self._on_mesh(node, 2 * torus_family(node).count - 1)
        return None if finer is None or self._leaps > 40 else self._counted(finer)

    def _counted(self, node: Node) -> Node:
        self._leaps += 1
        return node

    def _across(self) -> Node | None:
        """Return a torus beyond a locked interval.

        Beyond the ratio p/q that the rotation number comes near, where steps across it fail.
        Around p/q the motion is locked in an interval of the parameter; the torus is looked for at rotation numbers
        beyond it.
        """
        last = self.nodes[-1]
        family = torus_family(last)
        place = -len(family.free) - 1
        ratio = nearest_ratio(float(last.z[place]))
        if family.rotation is not None or ratio is None or self._leaps > 40:
            return None
        gap = float(ratio) - float(last.z[place])
        slope = last.tangent[place]
        if not slope or np.sign(slope) != np.sign(gap):
            return None
        row = np.zeros(last.z.size)
        row[place] = 1.0
        # Twice the gap is as far beyond p/q as the last torus is before it.
        for share in (2.0, 3.0, 5.0):
            guess = last.z + last.tangent * (share * gap / slope)
            guess[: family.reference.size] = last.z[: family.reference.size]
            found = corrected_at(family, guess, row[None], np.array([last.z[place] + share * gap])).point
            if found is None or family.between(found.z) > DEFECT:
                continue
            tangent = found.tangent * (np.sign(found.tangent[place] * slope) or 1.0)
            step = float(np.sqrt(((found.z - last.z) ** 2 * family.metric).sum()))
            return self._counted(replace(found, tangent=tangent, arclength=last.arclength + step))
        return None

    def _collapsed(self, collapse: StepCollapse) -> None:
        last = self.nodes[-1]
        rotation = float(last.z[-len(last.family.free) - 1])
        ratio = nearest_ratio(rotation)
        family = torus_family(last)
        if 2 * family.count - 1 > self.most and tail(family.unpack(last.z)[0], family.sizes) > SMOOTH:
            self.end = End.ROUGH
            self.message = (
                f"{family.count} phases do not resolve it at {family.free[0]} = {last.value:.8g}, rotation "
                f"number {rotation:.6g}"
            )
        elif ratio is not None:
            self.end = End.LOCKED
            self.message = f"rotation number {rotation:.8g} next to {ratio.numerator}/{ratio.denominator}"
        else:
            self.end, self.message = End.STEP, str(collapse)

    def _passed(self, node: Node) -> tuple[int, float] | None:
        """Return the parameter that left its range.

        It returns the parameter's number and the bound, or None.
        """
        first = node.z.size - len(node.family.free)
        for i, (low, high) in enumerate(self.ranges):
            value = float(node.z[first + i])
            if not low <= value <= high:
                return i, low if value < low else high
        return None

    def _at_bound(self, before: Node, node: Node, number: int, bound: float) -> Node | None:
        family = torus_family(before)
        if node.z.size != before.z.size:
            family = torus_family(node)
            before = replace(before, z=torus_family(before).on_mesh(before.z, family.count)[1])
        place = node.z.size - len(family.free) + number
        share = (bound - before.z[place]) / ((node.z[place] - before.z[place]) or 1.0)
        row = np.zeros(node.z.size)
        row[place] = 1.0
        guess = before.z + share * (node.z - before.z)
        found = corrected_at(family, guess, row[None], np.array([bound])).point
        if found is None or family.between(found.z) > DEFECT:
            return None
        return replace(found, arclength=before.arclength + share * (node.arclength - before.arclength))

    def _shrunk(self, before: Node, node: Node) -> bool:
        """Return whether the circle passed through a point.

        If so, the family ends there, in a Neimark-Sacker bifurcation.
        """
        first, last = (_deviation(n) for n in (before, node))
        if len(first) != len(last) or float((first * last).sum()) > 0:
            return False
        radii = np.array([np.linalg.norm(each) for each in (first, last)]) * [1, -1]
        # The parameter is an even function of the radius: p = p₀ + c r².
        values = [float(n.z[-len(n.family.free)]) for n in (before, node)]
        squares = radii**2
        value = values[0] - squares[0] * (values[1] - values[0]) / ((squares[1] - squares[0]) or np.inf)
        self.end = End.NEIMARK_SACKER
        self.message = f"near {node.family.free[0]} = {value:.6g}"
        return True


def on_other_mesh(node: Node, count: int) -> Node | None:
    """Return the same torus with other phases.

    The number of phases changes, the place along the family does not.
    """
    family, z = torus_family(node).on_mesh(node.z, count)
    ahead = _remeshed(node, family)
    row = ahead * family.metric
    found = corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-10).point
    if found is None:
        return None
    tangent = found.tangent if float(row @ found.tangent) >= 0 else -found.tangent
    return replace(found, tangent=tangent, arclength=node.arclength, effort=node.effort)


def _deviation(node: Node) -> Array:
    """Return the circle minus its mean.

    The deviation is (M, n), in units of the sizes.
    """
    family = torus_family(node)
    circle = family.unpack(node.z)[0]
    return (circle - circle.mean(axis=0)) / family.sizes


def torus_family(node: Node) -> TorusFamily:
    """Return the family of tori of a node."""
    assert isinstance(node.family, TorusFamily)
    return node.family


def _remeshed(node: Node, family: TorusFamily) -> Array:
    """Return the tangent with other phases."""
    old = torus_family(node)
    size = old.reference.size
    circle = resampled(node.tangent[:size].reshape(old.reference.shape), family.count)
    return np.concatenate([circle.ravel(), node.tangent[size:]])


def nearest_ratio(rotation: float, near: float = 1e-2) -> Fraction | None:
    """Return a ratio near a rotation number.

    p/q with q ≤ 12, within `near`/q of the rotation number; None if there is none.
    """
    found = [
        Fraction(round(rotation * q), q)
        for q in range(1, LOCKED + 1)
        if abs(rotation - round(rotation * q) / q) < near / q
    ]
    return min(found, key=lambda ratio: ratio.denominator) if found else None
