"""Pseudo-arclength steps on a family.

The predictors and the corrector can be replaced separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Protocol, cast, runtime_checkable

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.family import Family, FamilyPoint, Node
from kapitza.errors import FlowError, Status
from kapitza.solve import (
    Bordered,
    BorderedLinearised,
    DenseLinearised,
    Linearised,
    NewtonSettings,
    Outcome,
    Solver,
    Update,
    newton,
)


def between(low: Node, high: Node, metric: Array, share: float) -> tuple[Array, Array]:
    """Return point and direction between two nodes.

    Hermite's cubic along the tangents at both is evaluated at a share of the distance.
    A straight line where the meshes differ or a tangent points backwards, as after a corner of the branch.
    """
    chord = high.z - low.z
    gap = float(np.sqrt((chord**2 * metric).sum()))
    first, last = low.tangent * gap, high.tangent * gap
    line = low.z + share * chord
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        return line, chord
    if float((first * chord * metric).sum()) <= 0 or float((last * chord * metric).sum()) <= 0:
        return line, chord
    begin, end, rest = first - chord, chord - last, 1 - share
    point = line + share * rest * (rest * begin + share * end)
    return point, chord + rest * (1 - 3 * share) * begin + share * (2 - 3 * share) * end


def tangent_through(first: Node, last: Node, node: Node) -> Array:
    """Return the unit tangent at a branch point.

    The null space of the Jacobian at the point itself has two dimensions, and rounding chooses a direction in it.
    """
    row = first.tangent * first.metric
    share = float(row @ (node.z - first.z)) / float(row @ (last.z - first.z))
    _, direction = between(first, last, first.metric, share)
    return direction / float(np.sqrt((direction**2 * first.metric).sum()))


@dataclass(frozen=True)
class Guess:
    """Where the corrector begins.

    Its solution must satisfy row·z = target.

    before, ratio: an earlier node in the same coordinates and the step over the distance to it, where there is one:
    the change of the Jacobian between the two nodes goes on.
    """

    node: Node
    z: Array
    row: Array
    target: float
    length: float
    before: Node | None = None
    ratio: float = 0.0


@runtime_checkable
class Predictor(Protocol):
    """A guess `length` ahead of the last node."""

    def __call__(self, nodes: Sequence[Node], length: float) -> Guess: ...


@dataclass(frozen=True)
class Tangent:
    """Predict z + length · tangent."""

    def __call__(self, nodes: Sequence[Node], length: float) -> Guess:
        return along_tangent(nodes[-1], length)


@dataclass(frozen=True)
class Cubic:
    """Predict by the cubic through two nodes.

    The correction is at right angles to the tangent.

    Its error is of fourth order in the step, so that most corrections are cheap ones. Where there is no earlier node,
    or one on another mesh or much nearer than the step, the tangent serves.
    """

    reach: float = 3.0

    def __call__(self, nodes: Sequence[Node], length: float) -> Guess:
        node = nodes[-1]
        if len(nodes) < 2 or nodes[-2].z.size != node.z.size:
            return along_tangent(node, length)
        before = nodes[-2]
        chord = node.z - before.z
        gap = sqrt(float((chord * node.metric) @ chord))
        # A cubic extrapolated far beyond its nodes is worse than the tangent.
        if gap * self.reach < length:
            return along_tangent(node, length)
        # Hermite's cubic on [-1, 0] in units of the gap, at u = length/gap.
        u = length / gap
        first, last = before.tangent * gap, node.tangent * gap
        straight = (u * u) * (u + 1) * (first + last - 2 * chord) + u * u * (last - chord) + u * last
        row = node.tangent * node.metric
        # The cubic is moved into the plane of the corrector, `length` along the tangent.
        straight += (length - float(row @ straight)) * node.tangent
        return Guess(node, node.z + straight, row, float(row @ node.z) + length, length, before, u)


@dataclass(frozen=True)
class Secant:
    """Predict along the direction from the node before.

    The first step goes along the tangent.
    """

    def __call__(self, nodes: Sequence[Node], length: float) -> Guess:
        node = nodes[-1]
        if len(nodes) < 2 or nodes[-2].z.size != node.z.size:
            return along_tangent(node, length)
        chord = node.z - nodes[-2].z
        size = float(np.sqrt((chord**2 * node.metric).sum()))
        if size == 0.0:
            return along_tangent(node, length)
        direction = chord / size
        row = direction * node.metric
        return Guess(node, node.z + length * direction, row, float(row @ node.z) + length, length)


@dataclass(frozen=True)
class Natural:
    """Move the parameter and hold it.

    Fails at folds, and cannot jump to another branch elsewhere.
    """

    def __call__(self, nodes: Sequence[Node], length: float) -> Guess:
        node = nodes[-1]
        place = -len(node.family.free)
        move = length * node.family.scale[place] * np.sign(node.tangent[place] or 1.0)
        slope = node.tangent / node.tangent[place] if node.tangent[place] else np.zeros_like(node.z)
        row = np.zeros_like(node.z)
        row[place] = 1.0
        return Guess(node, node.z + move * slope, row, float(node.z[place] + move), length)


def along_tangent(node: Node, length: float, start: Array | None = None) -> Guess:
    """Return a guess `length` ahead across the tangent.

    start: a better guess than the tangent's.
    """
    row = node.tangent * node.metric
    z = node.z + length * node.tangent if start is None else start
    return Guess(node, z, row, float(row @ node.z) + length, length)


AT_ROUNDING = 1e-9
"""Longest scaled Newton step that may be left where rounding keeps the steps from shrinking on."""


EXTRA_EFFORT = 4
"""Iterations that a step of a family on several nodes may take more than one of a single node."""

NOT_SOLVED = 1e-7
"""Longest scaled Newton step after the last one, whose error is its squared length where equations are smooth."""


@runtime_checkable
class Corrector(Protocol):
    """Makes a node of a guess, or explains failure."""

    def __call__(self, guess: Guess) -> Outcome[Node]: ...


@dataclass(frozen=True)
class ChordNewton:
    """Correct by chord steps, then Newton.

    Chord steps use the matrix of the node before, on residuals without tangents.

    Where the matrix is small it is continued from the last two nodes and updated on the way (Broyden), which saves a
    third of the chord steps. chords: most chord steps (0: none). nearness: scaled step at which they end. tolerance: of
    the last Newton step, whose own error is its square. turn: a tangent that turns by more than this cosine allows is a
    jump to another branch, or a step too long: refused (below `short` it is a corner, and taken), and so is a
    correction longer than the step. 0: neither is looked at.
    """

    chords: int = 6
    nearness: float = 1e-6
    tolerance: float = 1e-6
    max_iterations: int = 6
    turn: float = 0.5
    short: float = 1e-5

    def __call__(self, guess: Guess) -> Outcome[Node]:
        family = guess.node.family
        system = Bordered(family, guess.row[None], np.array([guess.target]))
        z, effort = guess.z, 0
        if self.chords:
            # Residuals without tangents cost about a quarter of those with them (0.07 against 0.32 ms on HYBRID).
            begin, update = self._matrix(guess, system)
            if begin is not None:
                rough = newton(system, z, self._rough[update], family.scale, begin)
                effort += rough.iterations
                if rough.status in (Status.CONVERGED, Status.ITERATION_LIMIT):
                    z = rough.x
        delicate = family.delicate
        found = newton(system, z, self._fine[delicate], family.scale)
        # Iterations that only the tighter tolerance of a delicate family requires do not count for the step length.
        effort += 2 * max(found.iterations - 2 * delicate, 1) - 1
        if delicate:
            # Multipliers of several nodes cost more than the steps that bring a long prediction onto the branch.
            effort = max(effort - EXTRA_EFFORT, 1)
        at = _bordered(found.linearised)
        if not found.status.ok or at is None:
            return Outcome(None, effort, found.message or found.status.value)
        if found.message and _size(family, at) > AT_ROUNDING:
            # Newton may stop where its steps no longer shrink: next to a graze that is not a solution.
            return Outcome(None, effort, found.message)
        return self._node(guess, found.x, at, effort, found.iterations)

    @cached_property
    def _rough(self) -> dict[Update, NewtonSettings]:
        """Settings of the chord steps.

        The matrix is kept or updated.
        """
        kinds: tuple[Update, ...] = ("chord", "broyden")
        return {kind: NewtonSettings(self.nearness, self.chords, update=kind, foresight=0.1) for kind in kinds}

    @cached_property
    def _fine(self) -> dict[bool, NewtonSettings]:
        """Newton settings by sensitivity of the family."""
        tolerances = {True: 1e-11, False: self.tolerance}
        return {kind: NewtonSettings(each, self.max_iterations, damping=0.25) for kind, each in tolerances.items()}

    def _matrix(self, guess: Guess, system: Bordered[FamilyPoint]) -> tuple[Linearised | None, Update]:
        """Return the first matrix of the chord steps.

        How it is kept is returned too.
        """
        at = guess.node.at
        small = at.small_matrix()
        if small is None:
            if guess.node.solver is not None:
                turned = _OtherBorder(guess.node.solver, guess.node.tangent, guess.row)
                return BorderedLinearised(np.zeros(0), turned, at), "chord"
            try:
                return system.beside(at), "chord"
            except np.linalg.LinAlgError:
                return None, "chord"
        square, n = np.concatenate((small.matrix, guess.row[None])), small.rows
        earlier = None if guess.before is None else guess.before.at.small_matrix()
        if earlier is not None:
            # Rows after the n of the flow are phase conditions, which are renewed from node to node.
            square[:n] += guess.ratio * (small.matrix[:n] - earlier.matrix[:n])
        return DenseLinearised(np.zeros(0), square), "broyden"

    def _node(self, guess: Guess, z: Array, at: _Bordered, effort: int, newtons: int) -> Outcome[Node]:
        node, family = guess.node, guess.node.family
        if not family.allowed(z):
            return Outcome(None, effort, "The unknowns left the region where the model makes sense.")
        orbit = at.family.orbit(z)
        if family.delicate or (orbit is not None and orbit.events):
            # Growth multiplies the last step, which may also have crossed a graze: linearise where it ended, and check
            # the residual there.
            try:
                fresh = family.linearise(z)
                border = guess.row @ z - guess.target
                at = _Bordered(np.append(fresh.residual, border), fresh.bordered(guess.row[None]), fresh)
                left = _size(family, at)
            except (FlowError, np.linalg.LinAlgError) as problem:
                return Outcome(None, effort, str(problem))
            if not left < NOT_SOLVED:
                return Outcome(None, effort, f"The last Newton step left {left:.1e} of the next one.")
        tangent = next_tangent(family, at, node.tangent)
        if tangent is None:
            return Outcome(None, effort, "The tangent is not unique: a branch point is near.")
        step, change = guess.z - node.z, z - guess.z
        metric, floor = node.metric, self.short**2
        if self.turn and (change * metric) @ change > max(float((step * metric) @ step), floor):
            return Outcome(None, effort, "The correction is longer than the step: it leads to another branch.")
        turn = float((tangent * metric) @ node.tangent)
        if abs(turn) < self.turn and guess.length > self.short:
            return Outcome(None, effort, f"The tangent turns by {np.degrees(np.arccos(min(abs(turn), 1.0))):.0f}°.")
        made = Node(family, z, tangent, at.family, node.arclength + guess.length, effort, newtons, at.solver)
        return Outcome(made, effort)


_Bordered = BorderedLinearised[FamilyPoint]


def _bordered(found: Linearised | None) -> _Bordered | None:
    """Return the bordered point that Newton linearised."""
    return cast(_Bordered, found) if isinstance(found, BorderedLinearised) else None


@dataclass(frozen=True)
class _OtherBorder:
    """Solves with factors made for another border.

    [J; row] x = (f, g): J has one null direction, the tangent.
    """

    solver: Solver
    tangent: Array
    row: Array

    def solve(self, right: Array) -> Array:
        known = right.copy()
        known[-1] = 0.0
        found = self.solver.solve(known)
        return found + self.tangent * ((right[-1] - self.row @ found) / (self.row @ self.tangent))


def _size(family: Family, at: _Bordered) -> float:
    """Return the scaled length of the next step."""
    return float(np.abs(at.solve(at.residual) / family.scale).max())


def next_tangent(family: Family, at: BorderedLinearised[FamilyPoint], before: Array) -> Array | None:
    """Return the unit null vector, direction kept."""
    right = np.zeros(before.size)
    right[-1] = 1.0
    try:
        tangent = at.solver.solve(right)
    except np.linalg.LinAlgError:
        return None
    weighted = tangent * family.metric
    length = sqrt(float(weighted @ tangent))
    if not 0 < length < inf:
        return None
    return tangent / (length if float(weighted @ before) >= 0 else -length)


def first_node(family: Family, z: Array, direction: float, tolerance: float = 1e-11) -> Outcome[Node]:
    """Return the node where a branch begins."""
    row = np.zeros(z.size)
    row[-1] = 1.0
    outcome = corrected_at(family, z, row[None], np.array([z[-1]]), tolerance)
    if outcome.point is None:
        return outcome
    node = outcome.point
    # At a fold the tangent has no component along the parameter, and any direction is as good.
    sign = np.sign(node.tangent[-1]) or 1.0
    tangent = node.tangent * sign * (1.0 if direction >= 0 else -1.0)
    return Outcome(Node(node.family, node.z, tangent, node.at), outcome.effort)


def corrected_at(
    family: Family, z: Array, rows: Array, targets: Array, tolerance: float = 1e-11, iterations: int = 25
) -> Outcome[Node]:
    """Correct a point to border rows by damped Newton."""
    settings = NewtonSettings(tolerance, iterations, update="reuse")
    found = newton(Bordered(family, rows, targets), z, settings, family.scale)
    if not found.status.ok or _bordered(found.linearised) is None:
        return Outcome(None, found.iterations, found.message or found.status.value)
    try:
        at = family.linearise(found.x)
        null = null_direction(family, at, rows)
    except (FlowError, np.linalg.LinAlgError) as problem:
        return Outcome(None, found.iterations, str(problem))
    return Outcome(Node(family, found.x, null, at, 0.0, found.iterations), found.iterations)


def null_direction(family: Family, at: FamilyPoint, rows: Array) -> Array:
    """Return the unit null vector of the Jacobian.

    rows: border with which it is solved.
    """
    right = np.zeros(family.scale.size)
    right[-1] = 1.0
    try:
        tangent = at.bordered(rows).solve(right)
    except np.linalg.LinAlgError:
        tangent = np.full(right.size, np.nan)
    if not np.isfinite(tangent).all() or np.abs(tangent).max() > 1e12:
        # The border is along the curve: any other row serves.
        other = np.sqrt(family.metric)[None]
        tangent = at.bordered(other).solve(right)
    return tangent / float(np.sqrt((tangent**2 * family.metric).sum()))
