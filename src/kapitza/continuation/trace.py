"""One direction of a branch.

It holds its nodes, the bifurcations found along it, and the reason it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Protocol

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.continuation.ends import Ending, cosine_of_motion, endless, hopf_end, merged
from kapitza.continuation.events import cause_of_collapse, extent_of_events
from kapitza.continuation.family import Family, FamilyPoint, Node
from kapitza.continuation.locate import bifurcations_between, fold_between, heading
from kapitza.continuation.motion import ShootingPoint
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import (
    ChordNewton,
    Corrector,
    Cubic,
    Guess,
    Predictor,
    along_tangent,
    between,
    corrected_at,
    null_direction,
)
from kapitza.continuation.sections import better_section
from kapitza.errors import KapitzaError
from kapitza.solve import ByEffort, Outcome, StepCollapse, StepRule, Stride, walk

TURNED = 0.5
"""Least cosine between the rates at the section of two neighbouring orbits: below, the section is nearly tangent."""

MOST_LEAPS = 8
"""Grazes that one trace passes by searching for the other event sequence beyond."""

SAME_GRAZE = 1e-3
"""Distance in the parameter, relative to its size, within which two grazes are one."""

STRAIGHT = 0.95
"""Least cosine between the tangents of a step across a branch point."""

ACROSS_CHANGE = 3e-3
"""Longest step, in units of the sizes of the unknowns, that may change the event sequence."""

ROUNDED = 1e-6
"""Shortest step, in units of the sizes of the unknowns, whose tangents are compared at a tip."""

EXTINCT = 1e-4
"""An orbit that moves less than this, relative to the largest on the branch, has come to rest."""


FIRST_RULE = ByEffort(0.05, 1e-7, 0.2, wanted=4)
"""Steps of branches in one parameter: longer ones miss bifurcations that lie close together."""


@dataclass(frozen=True)
class Stepping:
    """How a branch is followed.

    Parameters
    ----------
    predictor, corrector
        Where the next point is expected, and what brings it onto the branch.
    rule : StepRule
        Lengths of the steps, in units of the sizes of the unknowns: 0.1 is a tenth of the orbit or of the parameter.
    max_points : int
        After which the continuation ends.

    Examples
    --------
    >>> import kapitza as kz
    >>> short = kz.Stepping(max_points=5)
    >>> branch = kz.follow(kz.library.duffing(), {"x": -0.2, "x'": 0.0}, "B", (0.1, 0.4), stepping=short, direction=1)
    >>> branch.ends[1].name
    'POINTS'
    """

    predictor: Predictor = field(default_factory=Cubic)
    corrector: Corrector = field(default_factory=ChordNewton)
    rule: StepRule = FIRST_RULE
    max_points: int = 2000

    def __post_init__(self):
        checks.whole("max_points", self.max_points, least=1, error=KapitzaError)
        for name in ("predictor", "corrector"):
            if not callable(getattr(self, name)):
                raise KapitzaError(f"{name} = {checks.shown(getattr(self, name))}; give one such as Secant().")
        checks.instance("rule", self.rule, StepRule, "one such as ByEffort(first=0.05)")


def as_stepping(given: object, rule: StepRule | None = None, corrector: Corrector | None = None) -> Stepping:
    """Return the stepping, or one with a default rule."""
    if given is None:
        return Stepping(corrector=corrector or ChordNewton(), rule=rule or FIRST_RULE)
    return checks.instance("stepping", given, Stepping, "a Stepping(...)")


class _EndReachedError(Exception):
    """A step leads across the end of the branch."""

    def __init__(self, ending: Ending):
        super().__init__(ending.message)
        self.ending = ending


class EndRule(Protocol):
    """Where a branch ends by itself.

    Called for each step, before and after its node is kept.
    """

    def within(self, before: Node, node: Node) -> Ending | None:
        """Return an end of the branch between two nodes."""
        ...

    def after(self, trace: Trace, node: Node) -> Ending | None:
        """Return the end at the last node, if any."""
        ...

    def shrunk(self, node: Node) -> Ending | None:
        """Return the end at an equilibrium, if any."""
        ...


@dataclass(frozen=True)
class OrbitEnds:
    """Ends of branches in one parameter.

    Branches end as closed loops, where the period grows without limit, or where the motion dies out.
    """

    def within(self, before: Node, node: Node) -> Ending | None:
        return None

    def after(self, trace: Trace, node: Node) -> Ending | None:
        closed = trace.closed(node)
        if closed is not None:
            return closed
        if node.motion is not None:
            return endless(trace.nodes) if len(trace.nodes) > 5 and not node.events else None
        if node.orbit is not None and node.events and extent_of_events(node.orbit) < EXTINCT:
            return Ending(node, End.EXTINCT, f"nothing moves at {node.family.free[0]} = {node.value:.8g}")
        return None

    def shrunk(self, node: Node) -> Ending | None:
        return hopf_end(node)


@dataclass
class Trace:
    """One direction of a branch.

    Iterate to follow; then `nodes`, `bifurcations` (with the index of the node before) and `end` are complete.

    bounds: of the first parameter; second: of the second one, where two are free. ending: where it ends by itself.
    """

    start: Node
    bounds: tuple[float, float]
    stepping: Stepping
    images: Callable[[Node], bool] | None = None
    detect: bool = True
    second: tuple[float, float] | None = None
    ending: EndRule = field(default_factory=OrbitEnds)
    nodes: list[Node] = field(default_factory=list[Node])
    bifurcations: list[tuple[int, Bifurcation]] = field(default_factory=list[tuple[int, Bifurcation]])
    end: End = End.POINTS
    message: str = ""
    _leaps: int = 0
    _turned: int = 0
    _refined: int = 0
    _extent: float = 0.0
    _turn: tuple[int, Bifurcation | None] | None = None
    _came: int = 0
    _still: list[tuple[int, Node, Node]] = field(default_factory=list[tuple[int, Node, Node]])

    def __iter__(self) -> Iterator[Node]:
        self.nodes = [self.start]
        for place, name, (low, high) in self._ranges(self.start):
            ahead, value = float(self.start.tangent[place]), float(self.start.z[place])
            if (ahead < 0 and value <= low) or (ahead > 0 and value >= high):
                self.end, self.message = End.BOUND, f"{name} = {value:.8g}"
                return
        steps: Iterator[Stride[Node]] | None = None
        node, step = self.start, None
        while len(self.nodes) < self.stepping.max_points:
            if steps is None:
                steps = walk(self._known(node), self.stepping.predictor, self._correct, self.stepping.rule, step)
            try:
                stride = next(steps)
            except _EndReachedError as reached:
                self._end_at(reached.ending)
                yield self.nodes[-1]
                return
            except StepCollapse as collapse:
                ending = self._shrinking()
                if ending is not None:
                    self._end_at(ending)
                    yield self.nodes[-1]
                    return
                other = self._other_nodes()
                if other is not None:
                    self.nodes[-1] = node = other
                    steps, step = None, None
                    continue
                again = self._collapsed(collapse)
                beyond = self._beyond() if self.end is End.GRAZING and not again else None
                if beyond is None:
                    return
                self.nodes.append(beyond)
                self.end, self.message = End.POINTS, ""
                node, steps, step = beyond, None, None
                yield beyond
                continue
            node, step = stride.point, stride.following
            bound = self._passed(node)
            last = node if bound is None else self._clipped(node, *bound)
            if last is None:
                return
            ending = self.ending.within(self.nodes[-1], last)
            if ending is not None:
                self._detect(self.nodes[-1], ending.node)
                self._end_at(ending)
                yield self.nodes[-1]
                return
            self._detect(self.nodes[-1], last)
            self.nodes.append(last)
            if self._merged():
                return
            yield last
            if bound is not None:
                closed = self.closed(last)
                if closed is not None:
                    self._end_at(closed)
                    return
                self.end, self.message = End.BOUND, f"{bound[1]} = {bound[2]:.8g}"
                return
            ending = self.ending.after(self, last)
            if ending is not None:
                self._end_at(ending)
                return
            changed = self._refreshed(last)
            if changed is not last:
                # Continue from the same point in other coordinates.
                self.nodes[-1] = node = changed
                steps = None
        self.end, self.message = End.POINTS, f"{self.stepping.max_points} points"

    def _detect(self, before: Node, last: Node) -> None:
        """Append bifurcations between two nodes; note turns."""
        place = len(self.nodes) - 1
        clear = not self._still and heading(before) != 0 and heading(last) != 0
        found = bifurcations_between(before, last, folds=clear) if self.detect else []
        kept = [each for each in found if not self._same_graze(each, last)]
        self.bifurcations += [(place, each) for each in kept]
        turned = clear and heading(before) != heading(last)
        if not clear:
            place, fold = self._through_still(place, before, last)
            turned = place >= 0
            kept += [] if fold is None else [fold]
        if self.images is not None and turned:
            turning = [b for b in kept if b.kind in (Kind.FOLD, Kind.BRANCH_POINT, Kind.PITCHFORK)]
            self._turn = (place, turning[0] if turning else None)
        self._came = heading(last) or self._came

    def _through_still(self, place: int, before: Node, last: Node) -> tuple[int, Bifurcation | None]:
        """Return place and label of a fold where the parameter stands still.

        There is one fold where the parameter leaves in the direction opposite to that in which it came, and none
        otherwise: in between its direction is rounding. Place -1: no turn, or not known yet.
        """
        came = self._came if self._still else heading(before) or self._came
        self._still.append((place, before, last))
        if heading(last) == 0:
            self._came = came
            return -1, None
        steps, self._still = self._still, []
        if came in (0, heading(last)):
            return -1, None
        long = any(heading(first) == heading(node) == 0 for _, first, node in steps)
        ways = [False] if before.orbit is None else [long, not long]
        chosen = None
        for by_multiplier, (where, first, node) in product(ways if self.detect else [], steps):
            label = fold_between(first, node, by_multiplier)
            if label is not None and (chosen is None or label.proof.verified):
                chosen = where, label
                if label.proof.verified:
                    break
        if chosen is None:
            return steps[0][0], None
        self.bifurcations.append(chosen)
        return chosen

    def _merged(self) -> bool:
        """Return whether the branch turned round at its end.

        If so, the nodes after the turn are left out.
        """
        if self._turn is None:
            return False
        place, label = self._turn
        before, node, value = self.nodes[-2], self.nodes[-1], self.nodes[place].value
        if len(self.nodes) - 2 <= place or (before.value - value) * (node.value - value) > 0:
            return False
        self._turn = None
        ending = merged(self.nodes, place, label)
        if ending is None:
            return False
        del self.nodes[place + 1 :]
        self.bifurcations = [(i, b) for i, b in self.bifurcations if i < place or (i == place and b is not label)]
        self._end_at(ending)
        return True

    def _end_at(self, ending: Ending) -> None:
        self.end, self.message = ending.end, ending.message
        if ending.label is not None:
            self.bifurcations.append((len(self.nodes) - 1, ending.label))
        if ending.node is not self.nodes[-1]:
            self.nodes.append(ending.node)

    def _shrinking(self) -> Ending | None:
        """Return the Hopf point near the last node.

        Steps fail there because every period is a solution.
        """
        last = self.nodes[-1]
        return self.ending.shrunk(last) if last.motion is not None else None

    def _other_nodes(self) -> Node | None:
        """Return the last node on closer shooting nodes.

        Once, for a family on several nodes: growth may have exceeded what they resolve.
        """
        last = self.nodes[-1]
        # Closer nodes once per node: a second collapse there has another cause.
        if len(self.nodes) == self._refined:
            return None
        self._refined = len(self.nodes)
        finer = last.at.finer(last.z)
        return None if finer is None else _on_other_mesh(last, *finer)

    def _correct(self, guess: Guess) -> Outcome[Node]:
        """Correct a guess, with limits on the step.

        Steps are held short where the event sequence changes or the section turns.
        A long step would pass over bifurcations on either side of a change, as test functions are not compared across
        it. A step across which the motion at the section turns round leads past a Hopf point, where the branch ends.
        """
        outcome = self.stepping.corrector(guess)
        if outcome.point is None:
            return outcome
        if min(cosine_of_motion(guess.node, outcome.point), _cosine_at_section(guess.node, outcome.point)) < TURNED:
            self._turned += 1
            ending = self.ending.shrunk(guess.node)
            if ending is not None:
                raise _EndReachedError(ending)
            return Outcome(None, outcome.effort, "The section turns within the step.")
        if not self.detect:
            return outcome
        across = outcome.point.readings.sequence != guess.node.readings.sequence
        if across:
            short = guess.length <= ACROSS_CHANGE
            return outcome if short else Outcome(None, outcome.effort, "The event sequence changes within the step.")
        if guess.length > ROUNDED and _turned_round(guess.node, outcome.point):
            return Outcome(None, outcome.effort, "The step leads round a tip, and the tangent back.")
        return outcome

    def _known(self, node: Node) -> list[Node]:
        """Return the nodes in the same coordinates.

        The node and the one before it, where that has the same coordinates.
        """
        before = self.nodes[-2] if len(self.nodes) > 1 and self.nodes[-1] is node else None
        if before is None or before.z.size != node.z.size or _section(before) != _section(node):
            return [node]
        return [before, node]

    def _ranges(self, node: Node) -> list[tuple[int, str, tuple[float, float]]]:
        """Return places, names and bounds of parameters.

        Places among the unknowns, of the parameters that have bounds.
        """
        names, first = node.family.free, node.z.size - len(node.family.free)
        ranges = [(first, names[0], self.bounds)]
        return ranges if self.second is None else [*ranges, (first + 1, names[1], self.second)]

    def _passed(self, node: Node) -> tuple[int, str, float] | None:
        """Return the parameter that left its range first.

        It returns place, name and bound, or None; the bound is the first one passed on the way to this node.
        """
        found: list[tuple[float, int, str, float]] = []
        for place, name, (low, high) in self._ranges(node):
            value, begun = float(node.z[place]), float(self.nodes[-1].z[place])
            if not low <= value <= high:
                bound = low if value < low else high
                found.append(((bound - begun) / (value - begun) if value != begun else 0.0, place, name, bound))
        if not found:
            return None
        _, place, name, bound = min(found)
        return place, name, bound

    def _clipped(self, node: Node, place: int, name: str, bound: float) -> Node | None:
        """Return the node at a passed bound.

        If there is none, the branch ends at the node before.
        """
        before = self.nodes[-1]
        share = (bound - before.z[place]) / ((node.z[place] - before.z[place]) or 1.0)
        guess = before.z + share * (node.z - before.z)
        row = np.zeros(node.z.size)
        row[place] = 1.0
        outcome = corrected_at(before.family, guess, row[None], np.array([bound]))
        if outcome.point is None:
            self.end, self.message = End.BOUND, f"{name} = {bound:.8g} is within the next step"
            return None
        found = outcome.point
        sign = np.sign((found.tangent * before.tangent * before.metric).sum()) or 1.0
        length = before.arclength + float(((found.z - before.z) * before.tangent * before.metric).sum())
        return replace(found, tangent=found.tangent * sign, arclength=length)

    def closed(self, node: Node) -> Ending | None:
        """Return the end of a branch that closed."""
        if self.images is None or len(self.nodes) <= 4:
            return None
        before, place = self.nodes[-2], -len(node.family.free)
        began = self.start.z[place]
        if before.z.size != node.z.size:
            return None
        row = np.zeros(node.z.size)
        row[place] = 1.0
        guesses = _passing(before, node, place, float(began))
        corrected = (corrected_at(before.family, z, row[None], np.array([began])).point for z in guesses)
        found = next((point for point in corrected if point is not None and self.images(point)), None)
        if found is None:
            return None
        self._forget_repeated(node)
        # The number of nodes may have changed along the loop: compare the first states of both motions.
        here, first = (n.at.sample(n.z, n.readings).point for n in (found, self.start))
        sizes = found.family.state_sizes
        gap = np.abs(difference(here, first, found.family.model.angles) / sizes).max()
        end = End.CLOSED if gap < 1e-5 else End.RETURNED
        return Ending(node, end, f"back at {node.family.free[0]} = {began:.8g}")

    def _forget_repeated(self, node: Node) -> None:
        """Drop bifurcations found twice on a closed branch.

        Those of the last step that are behind the start, where they were found at first.
        """
        last, size = len(self.nodes) - 2, 1e-8 * float(node.family.scale[-len(node.family.free)])
        known = [(b.kind, b.value) for i, b in self.bifurcations if i < last]
        self.bifurcations = [
            (i, b)
            for i, b in self.bifurcations
            if i < last or not any(b.kind is kind and abs(b.value - value) < size for kind, value in known)
        ]

    def _refreshed(self, node: Node) -> Node:
        """Return the node with fresh section, mesh, phase, sizes."""
        moved, self._extent = better_section(node, self._turned > 1, self._extent)
        self._turned = 0
        if moved is not None:
            return moved
        other = node.at.remeshed(node.z)
        if other is not None:
            return _on_other_mesh(node, *other)
        renewed = node.at.renewed(node.z)
        return node if renewed is None else _rebased(node, *renewed)

    def _beyond(self) -> Node | None:
        """Return an orbit just past a graze.

        It has another event sequence, and the continuation goes on from it; None where none is found.
        The other sequence may live on either side of the graze: both are tried, further and further away.
        """
        if self._leaps >= MOST_LEAPS:
            return None
        self._leaps += 1
        last = self.nodes[-1]
        known = last.readings.sequence
        corrector = ChordNewton(chords=0, turn=0.0, max_iterations=12)
        # How far beyond the graze the other sequence begins is not known.
        for length in (1e-4, 1e-3, 1e-2, 3e-2):
            ahead = along_tangent(last, length)
            row = np.zeros(last.z.size)
            row[-1] = 1.0
            back = replace(ahead, row=row, target=float(2 * last.z[-1] - ahead.z[-1]))
            for guess in (ahead, back):
                outcome = corrector(guess)
                if outcome.point is not None and outcome.point.readings.sequence != known:
                    return outcome.point
        return None

    def _same_graze(self, found: Bifurcation, node: Node) -> bool:
        """Return whether a graze was just passed.

        Near a grazing point the corrector converges on either side in turn, so the same graze is found again.
        """
        if found.kind is not Kind.GRAZING:
            return False
        return any(self._at_graze(found.value, node, earlier) for _, earlier in self.bifurcations[-4:])

    def _at_graze(self, value: float, node: Node, earlier: Bifurcation) -> bool:
        return earlier.kind is Kind.GRAZING and abs(value - earlier.value) < SAME_GRAZE * node.family.scale[-1]

    def _collapsed(self, collapse: StepCollapse) -> bool:
        """Name the end after a step collapse.

        True at a graze that has its label already, to which the branch has come back.
        """
        self.end, self.message, found = cause_of_collapse(self.nodes, str(collapse))
        last = self.nodes[-1]
        passed = [b for _, b in self.bifurcations if self._at_graze(last.value, last, b)]
        if passed and self.end is End.STEP:
            # The last point is as near to the graze as points can be corrected.
            self.end, self.message = End.GRAZING, f"at {passed[-1].parameter} = {passed[-1].value:.8g}"
        elif found is not None and not passed:
            self.bifurcations.append((len(self.nodes) - 1, found))
        return bool(passed)


def _cosine_at_section(before: Node, node: Node) -> float:
    """Return the cosine between the flows at a fixed section.

    An orbit that crosses the section backwards is on the family as well, but its tangent leads back.
    """
    first, last = before.motion, node.motion
    if not isinstance(node.at, ShootingPoint) or first is None or last is None:
        return 1.0
    size = float(np.linalg.norm(first[0]) * np.linalg.norm(last[0]))
    return float(first[0] @ last[0]) / size if size else 1.0


def _turned_round(before: Node, node: Node) -> bool:
    """Return whether a step crosses a sharp tip.

    Beyond it the tangent chosen by its direction points backwards.
    The determinant bordered by the tangent keeps its sign along a branch, whatever its turns, and changes it with the
    tangent's; it changes at branch points too, but there the tangent does not turn.
    """
    if before.z.size != node.z.size:
        return False
    signs = [n.readings.tests.get(Kind.BRANCH_POINT, 0.0) for n in (before, node)]
    return signs[0] * signs[1] < 0 and float((before.tangent * before.metric) @ node.tangent) < STRAIGHT


def _passing(before: Node, node: Node, place: int, value: float) -> list[Array]:
    """Return unknowns where one takes a value.

    They are between two nodes, by the cubic through both.
    A step round a fold passes a value beyond both of its ends twice: a start next to a fold is passed so.
    """
    first, last = before.z[place] - value, node.z[place] - value
    turned = before.tangent[place] * node.tangent[place] < 0
    if first * last > 0 and not turned:
        return []
    if not turned:
        share = first / (first - last) if first != last else 0.0
        return [before.z + share * (node.z - before.z)]
    path = [between(before, node, before.metric, share)[0] for share in np.linspace(0, 1, 33).tolist()]
    heights = [float(z[place]) - value for z in path]
    found: list[Array] = []
    for k, (low, high) in enumerate(pairwise(heights)):
        if low * high <= 0 and low != high:
            share = low / (low - high)
            found.append(path[k] + share * (path[k + 1] - path[k]))
    return found


def _section(node: Node) -> float:
    return 0.0 if node.orbit is None else node.orbit.offset


def _rebased(node: Node, family: Family, at: FamilyPoint) -> Node:
    """Return the node in a family on one mesh."""
    row = (node.tangent * family.metric)[None]
    tangent = null_direction(family, at, row)
    # Another phase condition adds a multiple of the flow to the tangent; period and parameters keep their ratio.
    tail = slice(-1 - len(family.free), None) if at.motion() is not None else slice(None)
    if float((tangent * row[0])[tail].sum()) < 0:
        tangent = -tangent
    return Node(family, node.z, tangent, at, node.arclength, node.effort, node.effort_newton)


def _on_other_mesh(node: Node, at: FamilyPoint, z: Array) -> Node:
    """Return the node on another mesh.

    Start of the orbit and parameter show which direction is ahead.
    """
    family, row = at.family, np.zeros((1, z.size))
    # Along a canard the parameter is constant to rounding, and only the period shows where the family goes.
    own = len(node.family.free) + (node.motion is not None)
    row[0, -own + int(np.argmax(np.abs(node.tangent[-own:] / node.family.scale[-own:])))] = 1.0
    tangent = null_direction(family, at, row)
    if float(at.heading(tangent) @ node.at.heading(node.tangent)) < 0:
        tangent = -tangent
    return Node(family, z, tangent, at, node.arclength, node.effort, node.effort_newton)
