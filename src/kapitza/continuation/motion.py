"""Periodic orbits as a family, by shooting.

`follow` traces them in a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.criteria import (
    ORBIT_TESTS,
    canonical,
    eigenvalues_by_size,
    orbit_readings,
    sequence_of,
    several_pairs,
    smallest_speed,
)
from kapitza.continuation.events import sequence_change
from kapitza.continuation.family import (
    Node,
    PlainPoint,
    RankedTest,
    Readings,
    Sample,
    SmallMatrix,
    Subject,
    Test,
)
from kapitza.continuation.frame import OUTGROWN, Frame, cycle_sizes, grown, state_sizes
from kapitza.continuation.images import images_of
from kapitza.continuation.judge import certified_defect, judged_orbit, rounding_defect
from kapitza.continuation.locate import Stretch
from kapitza.continuation.node_mesh import NODE_GROWTH, STRAINED, better_mesh, total_growth
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.flow import Event, Flow
from kapitza.model import Model
from kapitza.orbits.of_models import (
    ChainSolver,
    FlowLoop,
    LinearisedShooting,
    Monodromy,
    PhaseRow,
    ShootingEquations,
    monodromy,
    place_nodes,
    total_winding,
)
from kapitza.solve import DenseSolver, Solver

CONDENSED = 1e6
"""Growth along an orbit beyond which inner nodes are not eliminated from determinants: rounding would change signs."""

SIZE_SAMPLES = 64
"""Samples of an orbit from which the sizes of its states are taken."""

PLAIN_PRODUCT = 1e6
"""Beyond this growth a product in doubles would move the smaller multipliers, which decide, by 1e-10 and more."""


@dataclass(frozen=True)
class Section:
    """Where an orbit is cut and closes.

    span: excitation periods of the map; closing: (n, n) matrix of a symmetry for half maps; offset: where the section
    is, in excitation periods after t = 0; reference: (2, n) point and rates that fix the phase of autonomous orbits.
    """

    span: float = 1.0
    closing: Array | None = None
    offset: float = 0.0
    reference: Array | None = None


@dataclass(frozen=True)
class ShootingFamily:
    """Family of orbits by shooting.

    The unknowns z = (nodes, [T], p...) satisfy F(z) = 0.
    They close after `section.span` excitation periods, or after T.

    fractions: (J,) of the nodes. A cycle of a map is an orbit whose every point is a node.
    """

    frame: Frame
    fractions: Array = field(default_factory=lambda: np.zeros(1))
    section: Section = field(default_factory=Section)

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
        return self.fractions.size > 1

    @cached_property
    def equations(self) -> ShootingEquations:
        frame, section, phase = self.frame, self.section, None
        if section.reference is not None:
            weights = np.zeros((self.fractions.size, frame.size))
            # At right angles to the flow in units of the sizes: states may have different units.
            weights[0] = section.reference[1] / frame.sizes**2
            weights[0] /= np.linalg.norm(weights[0])
            phase = PhaseRow(weights, float(weights[0] @ section.reference[0]))
        return ShootingEquations(
            frame.problem, self.fractions, phase, frame.flow, frame.free, section.closing, section.span,
            section.offset / section.span,
        )  # fmt: skip

    @property
    def scale(self) -> Array:
        return self._scale

    @cached_property
    def _scale(self) -> Array:
        count = self.fractions.size
        # The root of the number of nodes makes the length of a step independent of it.
        return np.concatenate([np.tile(self.frame.sizes, count) * np.sqrt(count), self.frame.tail])

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        """Return the weights (N,) of squared components.

        The weights define the length of a step.
        """
        return 1.0 / self.scale**2

    def residual(self, z: Array) -> Array:
        return self.equations.residual(z)

    def linearise(self, z: Array) -> ShootingPoint:
        return ShootingPoint(self, self.equations.linearise(z), z)

    def allowed(self, z: Array) -> bool:
        return self.frame.allowed(z)

    def pack(self, nodes: Array, period: float, values: Array | None = None) -> Array:
        """Return the unknowns of nodes (J, n) and period."""
        return self.equations.pack(nodes, period, values)

    @property
    def full_repeats(self) -> int | None:
        """Excitation periods of the whole orbit."""
        if self.frame.repeats is None:
            return None
        return round(self.section.span * (2 if self.section.closing is not None else 1))

    def subject(self, nodes: Sequence[Node]) -> Subject:
        return Subject("orbit", self.full_repeats)

    def at_section(self, **changes: float | Array) -> ShootingFamily:
        """Return the family with another section."""
        return replace(self, section=replace(self.section, **changes))


@dataclass(frozen=True, eq=False)
class ShootingPoint(PlainPoint):
    """One orbit of a family by shooting.

    inner is its linearisation, z holds the unknowns that the last Newton step led to.
    """

    family: ShootingFamily
    inner: LinearisedShooting
    z: Array

    @property
    def residual(self) -> Array:
        return self.inner.residual

    def bordered(self, rows: Array) -> Solver:
        return self.inner.bordered(rows)

    def orbit(self, z: Array) -> ShootingPoint:
        return self if z is self.z else ShootingPoint(self.family, self.inner, z)

    @property
    def frame(self) -> Frame:
        return self.family.frame

    @property
    def closing(self) -> Array | None:
        return self.family.section.closing

    @property
    def span(self) -> float:
        return self.family.section.span

    @property
    def offset(self) -> float:
        return self.family.section.offset

    @property
    def period(self) -> float:
        return self.inner.period

    @property
    def vector(self) -> Array:
        return self.inner.vector

    @property
    def values(self) -> Array:
        return self.family.equations.values(self.z)

    @property
    def events(self) -> tuple[Event, ...]:
        return self.inner.events

    @property
    def nodes(self) -> Array:
        return self.inner.nodes

    @property
    def segments(self) -> Array:
        return self.inner.segments

    @property
    def begin(self) -> float:
        return float(self.inner.equations.times(self.inner.period)[0][0])

    @property
    def full_period(self) -> float:
        return self.family.equations.unpack(self.z)[1] * (2 if self.closing is not None else 1)

    @property
    def full_repeats(self) -> int | None:
        return self.family.full_repeats

    def start(self) -> Array:
        return self.z[: self.frame.size]

    def _offset_time(self) -> float:
        if self.frame.autonomous:
            return 0.0
        return self.offset / self.span * self.family.equations.unpack(self.z)[1]

    def section_point(self) -> Array:
        offset, flow = self._offset_time(), self.frame.flow
        if offset == 0.0:
            return self.start().copy()
        vector = self.values
        period = float(flow.period(vector) or 1.0)
        ahead = np.ceil(offset / period - 1e-12) * period
        return flow.propagate(self.start(), offset, ahead, vector, tangents=False).state

    def loop(self) -> FlowLoop:
        """Return the stretch that the (half) map covers."""
        inner = self.inner
        nodes, winding = total_winding(inner.nodes, inner.arrivals, self.frame.problem.angles)
        clock = _Shifted(self.frame.flow, self._offset_time())
        return FlowLoop(clock, self.family.fractions, nodes, inner.period, inner.vector, winding)

    def whole_nodes(self) -> tuple[Array, Array]:
        """Return fractions and states of the whole orbit.

        The mirrored half of a half map is included.
        """
        share, rows = self.family.fractions, self.family.equations.unpack(self.z)[0]
        if self.offset:
            share, rows = np.zeros(1), self.section_point()[None]
        if self.closing is None or rows.shape[0] == 1:
            return share, rows
        return np.concatenate([share / 2, 0.5 + share / 2]), np.concatenate([rows, rows @ self.closing.T])

    # Tangents of the (half) map.

    def matrix(self) -> Array:
        # np.linalg.multi_dot looks for the best order of J factors in J³ steps; all are of one size here.
        segments = self.inner.closed_segments()
        product = segments[0]
        for segment in segments[1:]:
            product = segment @ product
        return product

    def multipliers(self) -> Complex:
        several = self.family.fractions.size > 1
        if several and self._planar():
            # One multiplier is 1, so the other is the determinant, which no growth takes digits from.
            signs, sizes = np.linalg.slogdet(self.segments)
            # exp overflows beyond 709.
            total = float(np.clip(sizes.sum(), -700.0, 700.0))
            other = (-1.0) ** int((signs < 0).sum()) * float(np.exp(total))
            return np.array(sorted((1.0, other), key=abs, reverse=True), complex)
        matrix = self.matrix()
        if several and np.abs(matrix).max() > PLAIN_PRODUCT:
            return self.certified().multipliers
        return eigenvalues_by_size(matrix)

    def _planar(self) -> bool:
        return self.frame.size == 2 and self.frame.autonomous and self.closing is None

    def certified(self) -> Monodromy:
        exact = monodromy(self.inner.closed_segments())
        if self._planar() and total_growth(self.segments) > CONDENSED:
            # Next to a fold both multipliers are 1, and rounding in the segments times their growth parts them by 0.1.
            return replace(exact, multipliers=self.multipliers())
        return exact

    def defect(self, exact: Monodromy) -> float:
        return rounding_defect(self.segments) if self.frame.dynamics.is_map else certified_defect(self, exact)

    def small_matrix(self) -> SmallMatrix | None:
        return SmallMatrix(self.inner.jacobian(), self.frame.size) if self.family.fractions.size == 1 else None

    def condensed(self) -> Array:
        """Return the Jacobian with the inner nodes eliminated.

        Its shape is (n [+ 1], n [+ 1] + k).
        """
        inner, n = self.inner, self.frame.size
        if self.family.fractions.size == 1:
            return inner.jacobian()
        border, phase = self._border(), inner.equations.phase
        product, collected = np.eye(n), np.zeros((n, border.shape[2]))
        for segment, column in zip(inner.closed_segments(), border, strict=True):
            product, collected = segment @ product, segment @ collected + column
        tail = phase is not None
        matrix = np.zeros((n + tail, n + border.shape[2]))
        matrix[:n, :n], matrix[:n, n:] = product - np.eye(n), collected
        if phase is not None:
            matrix[n, :n] = phase.weights[0]
        return matrix

    def condensed_tangent(self, tangent: Array) -> Array:
        """Return a tangent without the inner nodes."""
        n = self.frame.size
        return np.concatenate([tangent[:n], tangent[self.family.fractions.size * n :]])

    def chain(self, factor: float = 1.0) -> Array:
        """Return the matrix of tangents along all nodes.

        (Jn, Jn), for tangents that come back `factor` times themselves; M - factor on one node.
        """
        count, n = self.family.fractions.size, self.frame.size
        matrix = np.zeros((count, n, count, n))
        for j, segment in enumerate(self.inner.closed_segments()):
            matrix[j, :, j] += segment
            matrix[j, :, (j + 1) % count] -= np.eye(n) * (factor if j == count - 1 else 1.0)
        return matrix.reshape(count * n, count * n)

    def full(self) -> Array:
        """Return the Jacobian by all unknowns, dense."""
        if self.family.fractions.size == 1:
            return self.inner.jacobian()
        columns = self._border().reshape(self.family.fractions.size * self.frame.size, -1)
        rows, phase = np.hstack([self.chain(), columns]), self.inner.equations.phase
        if phase is None:
            return rows
        return np.vstack([rows, np.concatenate([phase.weights.ravel(), np.zeros(columns.shape[1])])])

    def _border(self) -> Array:
        """Return derivatives of the gaps by T and p.

        The result is (J, n, [1 +] k).
        """
        columns = [self.inner.by_parameter()]
        if self.inner.equations.phase is not None:
            columns.insert(0, self.inner.by_period()[:, :, None])
        return np.concatenate(columns, axis=2)

    def heading(self, tangent: Array) -> Array:
        """Return start, [period], parameters over their sizes.

        Along a canard the start hardly moves, and only the period shows which direction is ahead.
        """
        own = self.frame.tail.size
        return np.concatenate(
            [tangent[: self.frame.size] / self.frame.sizes, tangent[-own:] / self.family.scale[-own:]]
        )

    # What the orbit does.

    def _motion(self) -> Array:
        rates = self.frame.rates(self.nodes, self.inner.equations.times(self.period)[0], self.vector)
        return rates * self.period / (2 * np.pi) / self.frame.sizes

    def motion(self) -> Array | None:
        return self._motion() if self.frame.autonomous else None

    def vigour(self) -> float:
        # A cycle of a map does not come to rest.
        return 1.0 if self.frame.dynamics.is_map else float(np.abs(self._motion()).max())

    def resting(self, point: Array, period: float, value: float) -> Array | None:
        several = self.family.fractions.size > 1
        if self.offset or self.closing is not None or (several and not self.frame.autonomous):
            return None
        return self.family.pack(np.tile(point, (self.family.fractions.size, 1)), period, np.array([value]))

    # What is found along the branch.

    def readings(self, node: Node) -> Readings:
        word = self._sides() if self.frame.dynamics.is_map else ""
        if self.events:
            word = canonical(sequence_of(self.events))
        speed = smallest_speed(self) if self.events else float("nan")
        return orbit_readings(self, node, self._border_determinant(node), word, speed)

    def _border_determinant(self, node: Node) -> float:
        """Return det [J; tangent] up to a positive factor.

        It vanishes at branch points, not at folds.
        """
        if isinstance(node.solver, DenseSolver):
            # By Cramer's rule the border counts by its product with the tangent, and in no other way.
            row = node.solver.matrix[-1]
            return node.solver.determinant / float(row @ node.tangent)
        tangent, solver = node.tangent, None
        if total_growth(self.segments) > CONDENSED:
            # Products of the segments would lose all digits; the dense matrix takes J³ operations, the chain J.
            try:
                solver = self.bordered(tangent[None])
            except np.linalg.LinAlgError:
                return 0.0
        if isinstance(solver, ChainSolver):
            sign, size = solver.signed_log_determinant()
        else:
            tangent, matrix = self.condensed_tangent(tangent), self.condensed()
            sign, size = np.linalg.slogdet(np.vstack([matrix, tangent]))
        return float(sign * np.exp(min(size, 700.0)) / (tangent @ tangent))

    def _sides(self) -> str:
        """Return the switching sides of a cycle as word."""
        if not self.model.structure.switches:
            return ""
        modes = self.frame.problem.field.modes(self.nodes, np.zeros(len(self.nodes)), self.vector)
        letters = ["".join("-0+"[int(np.sign(m)) + 1] for m in row) for row in modes]
        return canonical(" ".join(letters))

    @property
    def model(self) -> Model:
        return self.frame.model

    @property
    def tests(self) -> tuple[Test, ...]:
        return ORBIT_TESTS

    def several(self, before: Readings, after: Readings) -> list[RankedTest]:
        return several_pairs(before, after)

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        return judged_orbit(self.orbit(node.z), kind, node, first, last, rank)

    def sequence_change(self, stretch: Stretch, before: Readings, after: Readings) -> list[Bifurcation]:
        return sequence_change(stretch, before, after)

    def images(self, z: Array) -> Callable[[Node], bool]:
        return images_of(self.orbit(z))

    def sample(self, z: Array, readings: Readings) -> Sample:
        orbit = self.orbit(z)
        fractions, rows = orbit.whole_nodes()
        whole = readings.multipliers if self.closing is None else readings.multipliers**2
        return Sample(self.frame.parameters(z), rows[0], orbit.full_period, whole, (fractions, rows))

    # The same orbit in fresh coordinates.

    def renewed(self, z: Array) -> tuple[ShootingFamily, ShootingPoint] | None:
        """Return the family with fresh phase and sizes."""
        frame, family, section = self.frame, self.family, self.family.section
        parameters = grown(frame.parameter_sizes, frame.parameters(z), frame.reach)
        same = parameters == frame.parameter_sizes
        if frame.dynamics.is_map:
            seen = cycle_sizes(frame.model, self.nodes)
            if same and (seen <= OUTGROWN * frame.sizes).all():
                return None
            return self._seen_by(replace(family, frame=frame.with_sizes(np.maximum(seen, frame.sizes), parameters)), z)
        if same and section.reference is None and (np.abs(self.nodes) <= OUTGROWN * frame.sizes).all():
            return None
        rates = frame.rates(self.nodes, self.inner.equations.times(self.period)[0], self.vector)
        sizes = state_sizes(frame.model, self.nodes, rates, self.orbit(z).full_period, frame.sizes)
        if frame.autonomous and (sizes > frame.sizes).any():
            # The rate of a jump stands for no amplitude: the orbit itself shows how far it goes.
            states = np.concatenate([self.orbit(z).loop()(np.arange(SIZE_SAMPLES) / SIZE_SAMPLES), self.nodes])
            sizes = np.minimum(sizes, np.maximum(np.abs(states).max(axis=0), frame.sizes))
        if section.reference is not None:
            section = replace(section, reference=np.stack([self.nodes[0], rates[0]]))
        elif same and (sizes == frame.sizes).all():
            return None
        period = max(frame.period, self.period) if frame.autonomous else frame.period
        return self._seen_by(replace(family, frame=frame.with_sizes(sizes, parameters, period), section=section), z)

    def _seen_by(self, family: ShootingFamily, z: Array) -> tuple[ShootingFamily, ShootingPoint]:
        return family, ShootingPoint(family, self.inner.seen_by(family.equations), z)

    def _strained(self) -> bool:
        """Return whether sensitivities grow along the orbit.

        Such an orbit depends strongly on the parameters.
        """
        by_parameter = np.abs(self.inner.sensitivities) / self.frame.sizes[:, None] * self.frame.parameter_sizes
        return bool(by_parameter.max() > STRAINED)

    def remeshed(self, z: Array) -> tuple[ShootingPoint, Array] | None:
        """Return the orbit on nodes where tangents grow."""
        if self.frame.dynamics.is_map:
            return None  # every point of the cycle is a node already
        mesh = better_mesh(self.segments, self.family.fractions, self._strained, lambda: self._placed(z, NODE_GROWTH))
        return None if mesh is None else self.on(mesh, z)

    def finer(self, z: Array) -> tuple[ShootingPoint, Array] | None:
        if self.frame.dynamics.is_map or self.family.fractions.size == 1:
            return None
        return self.on(self._placed(z, 0.3 * NODE_GROWTH), z)

    def _placed(self, z: Array, growth: float) -> Array:
        problem = self.frame.problem.at(self.vector, self.period)
        return place_nodes(problem, self.orbit(z).loop(), growth)

    def on(self, fractions: Array, z: Array) -> tuple[ShootingPoint, Array]:
        """Return the orbit with nodes at other fractions."""
        other = replace(self.family, fractions=fractions)
        moved = other.pack(self.orbit(z).loop()(fractions), self.period, self.frame.parameters(z))
        return other.linearise(moved), moved


@dataclass(frozen=True)
class _Shifted:
    """A flow whose clock is ahead by `offset`."""

    flow: Flow
    offset: float

    def dense(self, x: Array, begin: float, end: float, parameters: Array) -> Callable[[Array], Array]:
        inner = self.flow.dense(x, begin + self.offset, end + self.offset, parameters)
        return lambda times: inner(np.asarray(times) + self.offset)

    def trajectory(self, x: Array, times: Array, parameters: Array) -> Array:
        return self.flow.trajectory(x, times + self.offset, parameters)
