"""Families by collocation, harmonic balance or differences.

Cross-checks of shooting, and the method for stiff layers.
One family serves all three: a `Scheme` defines how unknowns represent a loop, and how its mesh adapts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.criteria import (
    ORBIT_TESTS,
    eigenvalues_by_size,
    orbit_readings,
    several_pairs,
    without_trivial,
)
from kapitza.continuation.family import Node, PlainPoint, RankedTest, Readings, Sample, Subject, Test
from kapitza.continuation.frame import OUTGROWN, Frame, grown, state_sizes
from kapitza.continuation.images import images_of
from kapitza.continuation.judge import certified_defect, judged_orbit
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.flow import Event
from kapitza.model import Model
from kapitza.orbits import Loop
from kapitza.orbits.of_models import Monodromy, monodromy, tangent_segments
from kapitza.solve import LinearisedFamily, Solver

TANGENT_ELEMENTS = 60
"""Elements per excitation period on which the tangents of a Fourier series are integrated."""


class Scheme(Protocol):
    """A discretisation of orbits."""

    @property
    def scale(self) -> Array:
        """(N,) sizes of the unknowns."""
        ...

    @property
    def metric(self) -> Array:
        """(N,) weights in the squared length of steps."""
        ...

    def residual(self, z: Array) -> Array: ...

    def linearise(self, z: Array) -> LinearisedFamily: ...

    def values(self, z: Array) -> Array:
        """Return all parameters of the model."""
        ...

    def time(self, z: Array) -> float:
        """Return the period."""
        ...

    def curve(self, z: Array) -> Loop:
        """Return the loop that the unknowns stand for."""
        ...

    def start(self, z: Array) -> Array:
        """Return the state (n,) at t = 0."""
        ...

    def segments(self, z: Array, at: LinearisedFamily) -> Array | None:
        """Return the propagators that the linearisation holds."""
        ...

    def heading(self, tangent: Array) -> Array:
        """Return the mesh-independent parts of a tangent."""
        ...

    def in_frame(self, frame: Frame) -> Scheme:
        """Return the scheme with other sizes."""
        ...

    def remeshed(self, z: Array) -> tuple[Scheme, Array] | None:
        """Return scheme and unknowns on a better mesh."""
        ...


@dataclass(frozen=True)
class DiscretisedFamily:
    """A family of orbits by a discretisation.

    Its unknowns are nodes and slopes, coefficients, or samples.
    """

    frame: Frame
    scheme: Scheme

    @property
    def model(self) -> Model:
        return self.frame.model

    @property
    def free(self) -> tuple[str, ...]:
        return self.frame.free

    @property
    def state_sizes(self) -> Array:
        return self.frame.sizes

    @property
    def delicate(self) -> bool:
        return False

    @property
    def scale(self) -> Array:
        return self._scale

    @cached_property
    def _scale(self) -> Array:
        return self.scheme.scale

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        return self.scheme.metric

    def residual(self, z: Array) -> Array:
        return self.scheme.residual(z)

    def linearise(self, z: Array) -> DiscretisedPoint:
        at = self.scheme.linearise(z)
        vector, period = self.scheme.values(z), self.scheme.time(z)
        return DiscretisedPoint(self, at, vector, period, _Tangents(self, at, z.copy(), vector, period), z)

    def allowed(self, z: Array) -> bool:
        return self.frame.allowed(z)

    def subject(self, nodes: Sequence[Node]) -> Subject:
        return Subject("orbit", self.frame.repeats)


class _Tangents:
    """Propagators along the orbit, integrated on demand."""

    def __init__(self, family: DiscretisedFamily, at: LinearisedFamily, z: Array, vector: Array, period: float):
        self.family, self.at, self.z, self.vector, self.period = family, at, z, vector, period

    @cached_property
    def curve(self) -> Loop:
        return self.family.scheme.curve(self.z)

    @cached_property
    def segments(self) -> Array:
        known = self.family.scheme.segments(self.z, self.at)
        if known is not None:
            return known
        frame = self.family.frame
        problem = frame.problem.at(self.vector, self.period)
        return tangent_segments(problem, self.curve, TANGENT_ELEMENTS * (frame.repeats or 1))

    @cached_property
    def matrix(self) -> Array:
        # Neighbours are multiplied in pairs: for hundreds of segments one product after the other takes longer.
        segments = self.segments
        while len(segments) > 1:
            pairs = len(segments) // 2
            product = segments[1 : 2 * pairs : 2] @ segments[0 : 2 * pairs : 2]
            segments = np.concatenate([product, segments[2 * pairs :]])
        return segments[0]


@dataclass(frozen=True, eq=False)
class DiscretisedPoint(PlainPoint):
    """One orbit of a discretised family."""

    family: DiscretisedFamily
    inner: LinearisedFamily
    vector: Array
    period: float
    tangents: _Tangents = field(repr=False)
    z: Array

    @property
    def residual(self) -> Array:
        return self.inner.residual

    def bordered(self, rows: Array) -> Solver:
        return self.inner.bordered(rows)

    def orbit(self, z: Array) -> DiscretisedPoint:
        return self if z is self.z else replace(self, z=z)

    @property
    def frame(self) -> Frame:
        return self.family.frame

    @property
    def begin(self) -> float:
        return 0.0

    @property
    def closing(self) -> Array | None:
        return None

    @property
    def span(self) -> float:
        return float(self.frame.repeats or 1)

    @property
    def offset(self) -> float:
        return 0.0

    @property
    def events(self) -> tuple[Event, ...]:
        return ()

    @property
    def values(self) -> Array:
        return self.family.scheme.values(self.z)

    @property
    def segments(self) -> Array:
        return self.tangents.segments

    @property
    def full_period(self) -> float:
        return self.family.scheme.time(self.z)

    @property
    def full_repeats(self) -> int | None:
        return self.frame.repeats

    def start(self) -> Array:
        return self.family.scheme.start(self.z)

    def section_point(self) -> Array:
        return self.start()

    def loop(self) -> Loop:
        return self.family.scheme.curve(self.z)

    def matrix(self) -> Array:
        return self.tangents.matrix

    def multipliers(self) -> Complex:
        return eigenvalues_by_size(self.matrix())

    def certified(self) -> Monodromy:
        return monodromy(self.segments)

    def defect(self, exact: Monodromy) -> float:
        return certified_defect(self, exact)

    def _samples(self) -> tuple[Array, Array]:
        """Return states and rates at sixteen instants."""
        # Sixteen samples: only the direction and size of the motion are compared.
        grid = np.arange(16) / 16
        states = self.tangents.curve(grid)
        return states, self.frame.rates(states, grid * self.period, self.vector)

    def _motion(self) -> Array:
        return self._samples()[1] * self.period / (2 * np.pi) / self.frame.sizes

    def motion(self) -> Array | None:
        return self._motion() if self.frame.autonomous else None

    def vigour(self) -> float:
        return float(np.abs(self._motion()).max())

    def resting(self, point: Array, period: float, value: float) -> Array | None:
        return None

    def heading(self, tangent: Array) -> Array:
        return self.family.scheme.heading(tangent)

    def renewed(self, z: Array) -> tuple[DiscretisedFamily, DiscretisedPoint] | None:
        """Return the family with sizes that have grown."""
        frame, (states, rates) = self.frame, self._samples()
        parameters = grown(frame.parameter_sizes, frame.parameters(z), frame.reach)
        sizes = state_sizes(frame.model, states, rates, self.period, frame.sizes)
        if parameters == frame.parameter_sizes and (sizes <= OUTGROWN * frame.sizes).all():
            return None
        frame = frame.with_sizes(sizes, parameters)
        family = DiscretisedFamily(frame, self.family.scheme.in_frame(frame))
        return family, replace(self, family=family, z=z)

    def remeshed(self, z: Array) -> tuple[DiscretisedPoint, Array] | None:
        other = self.family.scheme.remeshed(z)
        if other is None:
            return None
        family = replace(self.family, scheme=other[0])
        return family.linearise(other[1]), other[1]

    def readings(self, node: Node) -> Readings:
        multipliers = self.multipliers()
        rest = without_trivial(multipliers) if self.frame.autonomous else multipliers
        # Branch points: Π(μ - 1) changes its sign there and at folds, the tangent at folds only.
        # Each factor is scaled, so that one large multiplier does not hide a zero.
        product = float(np.prod((rest - 1) / (1 + np.abs(rest))).real) if rest.size else 1.0
        return orbit_readings(self, node, product * float(node.tangent[-1] / self.family.scale[-1]))

    @property
    def tests(self) -> tuple[Test, ...]:
        return ORBIT_TESTS

    def several(self, before: Readings, after: Readings) -> list[RankedTest]:
        return several_pairs(before, after)

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        return judged_orbit(self.orbit(node.z), kind, node, first, last, rank)

    def images(self, z: Array) -> Callable[[Node], bool]:
        return images_of(self.orbit(z))

    def sample(self, z: Array, readings: Readings) -> Sample:
        orbit = self.orbit(z)
        start = orbit.start()
        nodes = (np.zeros(1), start[None])
        return Sample(self.frame.parameters(z), start, orbit.full_period, readings.multipliers, nodes)
