"""Required and optional parts of a family of motions.

A family is m equations F(z) = 0 for N > m unknowns, parameters last. `linearise` returns a `FamilyPoint`: the Jacobian
at z and all other properties of the motion there. A family must give its equations, the readings of a node and
its row in the branch; it may give an orbit, another mesh, test functions, a small matrix (`PlainPoint` gives none).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.frame import Frame
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.flow import Event
from kapitza.model import Model
from kapitza.orbits import Loop
from kapitza.orbits.of_models import Monodromy
from kapitza.solve import LinearisedFamily, Solver

if TYPE_CHECKING:
    from kapitza.continuation.locate import Stretch


@dataclass(frozen=True)
class Readings:
    """Test functions and multipliers at one node.

    multipliers: largest first (eigenvalues for equilibria). sequence: the events of an orbit as a word that does not
    depend on the section; speed: the smallest normal speed at a surface, relative to the largest (NaN without events).
    square, slope: κ or k of the critical pair on a curve, and its slope along the curve. traces: μ + 1/μ of the pairs
    of a conservative orbit.
    """

    multipliers: Complex
    tests: Mapping[Kind, float] = field(default_factory=dict[Kind, float])
    sequence: str = ""
    speed: float = float("nan")
    square: float = float("nan")
    slope: float = float("nan")
    traces: Complex = field(default_factory=lambda: np.zeros(0, complex))


Test = tuple[Kind, Callable[[Readings], float]]
"""A kind of point, and the function of the readings that changes its sign there."""

RankedTest = tuple[Kind, Callable[[Readings], float], int]
"""Test of one of several pairs, with its rank among them."""


def test_of(kind: Kind) -> Test:
    """Return the test function of a kind."""
    return kind, lambda r: r.tests[kind]


@dataclass(frozen=True)
class Sample:
    """One row of a branch.

    values: (k,) of the parameters; point: (n,) state; period; multipliers of the whole orbit.

    nodes: fractions (J,) and states (J, n) from which the orbit can be computed again; None where one state serves.
    """

    values: Array
    point: Array
    period: float
    multipliers: Complex
    nodes: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class Subject:
    """What a branch is a branch of.

    method: empty where it is the requested one; counted: whether the branch stores how many nodes a point has.
    """

    name: str
    repeats: int | None = None
    method: str = ""
    notes: tuple[str, ...] = ()
    counted: bool = True


@dataclass(frozen=True)
class SmallMatrix:
    """A dense Jacobian that chord steps may update.

    rows: of the flow; the others are renewed from node to node.
    """

    matrix: Array
    rows: int


class Orbit(Protocol):
    """A periodic orbit, whatever its discretisation.

    period: after which the (half) map closes; begin: time at which it begins; vector: values of all parameters.
    closing: matrix of the symmetry of a half map; span, offset: excitation periods of the map, and of its section
    after t = 0. segments: (J, n, n) propagators between nodes.
    """

    @property
    def frame(self) -> Frame: ...

    @property
    def z(self) -> Array: ...

    @property
    def period(self) -> float: ...

    @property
    def begin(self) -> float: ...

    @property
    def vector(self) -> Array: ...

    @property
    def values(self) -> Array: ...

    @property
    def closing(self) -> Array | None: ...

    @property
    def span(self) -> float: ...

    @property
    def offset(self) -> float: ...

    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def segments(self) -> Array: ...

    @property
    def full_period(self) -> float: ...

    @property
    def full_repeats(self) -> int | None: ...

    def start(self) -> Array:
        """Return the state (n,) at the section."""
        ...

    def section_point(self) -> Array:
        """Return the state (n,) at t = 0."""
        ...

    def loop(self) -> Loop:
        """Return the stretch that the (half) map covers."""
        ...

    def matrix(self) -> Array:
        """Return the linearised (half) map in doubles."""
        ...

    def multipliers(self) -> Complex:
        """Return the multipliers of the (half) map, largest first."""
        ...

    def certified(self) -> Monodromy:
        """Return multipliers with the digits that growth requires."""
        ...

    def defect(self, exact: Monodromy) -> float:
        """Return the relative defect of the multipliers."""
        ...

    def vigour(self) -> float:
        """Return the motion |f| T/2π over the sizes."""
        ...

    def resting(self, point: Array, period: float, value: float) -> Array | None:
        """Return unknowns of an orbit at rest, if any."""
        ...

    def heading(self, tangent: Array) -> Array: ...


class FamilyPoint(LinearisedFamily, Protocol):
    """F, its Jacobian, and the motion at a point.

    The first three must be given; the others are parts that a family may give, and are inherited from `PlainPoint`
    where it does not. z in the arguments: the unknowns of the node, which the last Newton step may have moved from the
    linearisation.
    """

    @property
    def family(self) -> Family: ...

    def readings(self, node: Node) -> Readings:
        """Return test functions and multipliers at a node."""
        ...

    def sample(self, z: Array, readings: Readings) -> Sample:
        """Return this motion's row of the branch."""
        ...

    def small_matrix(self) -> SmallMatrix | None:
        """Return the Jacobian where it is small and dense."""
        ...

    def renewed(self, z: Array) -> tuple[Family, FamilyPoint] | None:
        """Return family and point with fresh sizes, if new."""
        ...

    def remeshed(self, z: Array) -> tuple[FamilyPoint, Array] | None:
        """Return point and unknowns on a better mesh."""
        ...

    def finer(self, z: Array) -> tuple[FamilyPoint, Array] | None:
        """Return point and unknowns on closer nodes."""
        ...

    def heading(self, tangent: Array) -> Array:
        """Return the mesh-independent parts of a tangent."""
        ...

    def orbit(self, z: Array) -> Orbit | None:
        """Return the periodic orbit that this point is."""
        ...

    def inner_orbit(self, z: Array) -> Orbit | None:
        """Return the orbit itself, or the bifurcating one."""
        ...

    def motion(self) -> Array | None:
        """Return f T/2π at the nodes, over the sizes."""
        ...

    def images(self, z: Array) -> Callable[[Node], bool] | None:
        """Return a test for shifted or mirrored copies."""
        ...

    @property
    def tests(self) -> tuple[Test, ...]:
        """Test functions, in the order of the search."""
        ...

    def several(self, before: Readings, after: Readings) -> list[RankedTest]:
        """Return tests for pairs that cross together."""
        ...

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        """Return the bifurcation at a zero, if any."""
        ...

    def sequence_change(self, stretch: Stretch, before: Readings, after: Readings) -> list[Bifurcation]:
        """Return the label of a changed event sequence."""
        ...


class PlainPoint:
    """A point that gives none of the optional parts."""

    def small_matrix(self) -> SmallMatrix | None:
        return None

    def renewed(self, z: Array) -> tuple[Family, FamilyPoint] | None:
        return None

    def remeshed(self, z: Array) -> tuple[FamilyPoint, Array] | None:
        return None

    def finer(self, z: Array) -> tuple[FamilyPoint, Array] | None:
        return None

    def heading(self, tangent: Array) -> Array:
        return tangent

    def orbit(self, z: Array) -> Orbit | None:
        return None

    def inner_orbit(self, z: Array) -> Orbit | None:
        return self.orbit(z)

    def motion(self) -> Array | None:
        return None

    def images(self, z: Array) -> Callable[[Node], bool] | None:
        return None

    @property
    def tests(self) -> tuple[Test, ...]:
        return ()

    def several(self, before: Readings, after: Readings) -> list[RankedTest]:
        return []

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        return None

    def sequence_change(self, stretch: Stretch, before: Readings, after: Readings) -> list[Bifurcation]:
        return []


class Family(Protocol):
    """Equations F(z) = 0 of a family of motions.

    free: names of the parameters of `model` that are the last unknowns.

    scale: (N,) sizes of the unknowns; metric: (N,) weights of the squared components in the length of a step.
    """

    @property
    def model(self) -> Model: ...

    @property
    def free(self) -> tuple[str, ...]: ...

    @property
    def scale(self) -> Array: ...

    @property
    def metric(self) -> Array: ...

    @property
    def state_sizes(self) -> Array:
        """(n,) sizes of the states."""
        ...

    def residual(self, z: Array) -> Array: ...

    def linearise(self, z: Array) -> FamilyPoint: ...

    def allowed(self, z: Array) -> bool:
        """Return whether parameters are within their bounds."""
        ...

    def subject(self, nodes: Sequence[Node]) -> Subject:
        """Return what a branch of these nodes shows."""
        ...

    @property
    def delicate(self) -> bool:
        """Whether segments must be taken at the solution itself."""
        ...


@dataclass(frozen=True)
class Node:
    """A corrected point of a family.

    z: (N,) unknowns; tangent: (N,) of length 1 in the metric of the family; at: the linearisation there; solver: its
    factors with some border, which serve every other border as well.
    """

    family: Family
    z: Array
    tangent: Array
    at: FamilyPoint
    arclength: float = 0.0
    effort: int = 0
    effort_newton: int = 0
    solver: Solver | None = field(default=None, repr=False, compare=False)

    @property
    def metric(self) -> Array:
        """(N,) weights of the squared components."""
        return self.family.metric

    @property
    def value(self) -> float:
        """The parameter (the first of them in two-parameter families)."""
        return float(self.z[-len(self.family.free)])

    # Computed at most once for each node: tests, ends and sections all use them.

    @cached_property
    def readings(self) -> Readings:
        return self.at.readings(self)

    @cached_property
    def motion(self) -> Array | None:
        return self.at.motion()

    @cached_property
    def orbit(self) -> Orbit | None:
        return self.at.orbit(self.z)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of an orbit; none for other motions."""
        return () if self.orbit is None else self.orbit.events
