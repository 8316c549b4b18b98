"""Periodic orbits as a family in a parameter, by shooting: what `follow` walks along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from kapitza.continuation.symmetry import linear_symmetries
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits.of_models import (
    FlowLoop,
    LinearisedShooting,
    Monodromy,
    PhaseRow,
    Problem,
    ShootingEquations,
    monodromy,
    place_nodes,
)
from kapitza.solve import Solver

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

(_geev,) = cast(Sequence[Any], get_lapack_funcs(("geev",), dtype=np.float64))

SINGLE_NODE = 1e3
"""Growth up to which one node serves: beyond, Newton's tolerance times the growth would show in the multipliers."""

FEW_NODES = 30.0
"""Growth over the whole orbit below which several nodes are given up for one."""

STRAINED = 1e6
"""Change of a single node's image by a parameter, both over their sizes, beyond which it gets several nodes.

Tangents that shrink along one part of an orbit hide that they grow along another; sensitivities begin anywhere.
"""

MANY_NODES = 16
"""Number of nodes up to which the growth over all parts of an orbit is computed."""

NODE_GROWTH = 10.0
"""Growth of tangents between two nodes."""

MOVED_NODES = 5e-3
"""Of the period: a mesh whose nodes would all move by less than this is kept."""

PLAIN_PRODUCT = 1e6
"""Beyond this growth a product in doubles would move the smaller multipliers, which decide, by 1e-10 and more."""


OUTGROWN = 1.1
"""States that have grown beyond this many times their size get a new one, and the steps with them."""


FLOW_TOLERANCE = 1e-13
"""Of the steps along smooth motions: at 1e-15 they take half as long again and bring no digit of a branch."""


def branch_flow(model: Model, names: tuple[str, ...]) -> Flow:
    """The flow of a family with sensitivities by its free parameters; events are located as sharply as they can be."""
    if model.structure.switches or model.impacts:
        return Flow(model, wrt=names)
    return Flow(model, wrt=names, tolerance=FLOW_TOLERANCE)


@dataclass(frozen=True)
class OrbitFamily:
    """F(z) = 0 for z = (nodes, [T], p...): orbits of `model` that close after `span` excitation periods, or after T.

    free: the parameters among the unknowns, last in z. fractions: (J,) of the nodes. closing: matrix of a symmetry for
    half maps. offset: where the section is, in excitation periods after t = 0. weights: (n,) sizes of the states, for
    the length of steps. reference: (2, n) point and rates that fix the phase of autonomous orbits.
    vector: values of all parameters, the free ones as they were at the start. reach: largest sizes that the parameters
    may grow to along the branch.
    """

    model: Model
    free: tuple[str, ...]
    repeats: int | None
    vector: Array
    sizes: Array
    fractions: Array
    span: float = 1.0
    closing: Array | None = None
    offset: float = 0.0
    reference: Array | None = None
    period: float = 1.0
    parameter_sizes: tuple[float, ...] = (1.0,)
    reach: tuple[float, ...] = ()

    @cached_property
    def flow(self) -> Flow:
        return branch_flow(self.model, self.free)

    @cached_property
    def problem(self) -> Problem:
        base = Problem(self.model, self.repeats, self.period, wrt=self.free)
        base.__dict__.update(flow=self.flow, law=self.flow.core.period_law)
        return base.at(self.vector, self.period)

    @property
    def autonomous(self) -> bool:
        return self.repeats is None

    @property
    def delicate(self) -> bool:
        """Do segments grow so much that they must be taken at the solution itself?"""
        return self.fractions.size > 1

    @property
    def size(self) -> int:
        return len(self.model.states)

    @cached_property
    def equations(self) -> ShootingEquations:
        phase = None
        if self.reference is not None:
            weights = np.zeros((self.fractions.size, self.size))
            # At right angles to the flow in units of the sizes: states may have different units.
            weights[0] = self.reference[1] / self.sizes**2
            weights[0] /= np.linalg.norm(weights[0])
            phase = PhaseRow(weights, float(weights[0] @ self.reference[0]))
        offset = self.offset / self.span
        return ShootingEquations(
            self.problem, self.fractions, phase, self.flow, self.free, self.closing, self.span, offset
        )

    @cached_property
    def scale(self) -> Array:
        nodes = np.tile(self.sizes, self.fractions.size) * np.sqrt(self.fractions.size)
        tail = [self.period] if self.autonomous else []
        return np.concatenate([nodes, tail, self.parameter_sizes])

    @cached_property
    def metric(self) -> Array:
        """(N,) weights of the squared components in the length of a step."""
        return 1.0 / self.scale**2

    def residual(self, z: Array) -> Array:
        return self.equations.residual(z)

    def linearise(self, z: Array) -> LinearisedShooting:
        return self.equations.linearise(z)

    def values(self, z: Array) -> Array:
        return self.equations.values(z)

    def start(self, z: Array) -> Array:
        """The first node (n,)."""
        return z[: self.size]

    def time(self, z: Array) -> float:
        """The time after which the (half) map closes."""
        return self.equations.unpack(z)[1]

    def full_period(self, z: Array) -> float:
        return self.time(z) * (2 if self.closing is not None else 1)

    def matrix(self, at: LinearisedShooting) -> Array:
        """The linearised (half) map in doubles."""
        # np.linalg.multi_dot looks for the best order of J factors in J³ steps; all are of one size here.
        return reduce(lambda product, segment: segment @ product, at.closed_segments())

    def multipliers(self, at: LinearisedShooting) -> Complex:
        """Of the (half) map, largest first, in doubles as far as they reach."""
        if self.size == 2 and self.autonomous and self.closing is None and self.delicate:
            # One multiplier is 1, so the other is the determinant, which no growth takes digits from.
            signs, sizes = np.linalg.slogdet(at.segments)
            other = float(np.prod(signs) * np.exp(np.clip(sizes.sum(), -700.0, 700.0)))
            return np.array(sorted((1.0, other), key=abs, reverse=True), complex)
        matrix = self.matrix(at)
        if self.fractions.size > 1 and np.abs(matrix).max() > PLAIN_PRODUCT:
            return self.certified(at).multipliers
        return eigenvalues_by_size(matrix)

    def certified(self, at: LinearisedShooting) -> Monodromy:
        """The same in as many digits as the growth calls for, with eigenvectors at the first node."""
        return monodromy(at.closed_segments())

    def dense(self, at: LinearisedShooting) -> Array | None:
        """The Jacobian where it is small, for chord steps that update it; None on several nodes."""
        return at.jacobian() if self.fractions.size == 1 else None

    def condensed(self, at: LinearisedShooting) -> Array:
        """The Jacobian (n [+ 1], n [+ 1] + k) with the inner nodes eliminated."""
        if len(self.fractions) == 1:
            return at.jacobian()
        eq, n = self.equations, self.size
        tail = eq.phase is not None
        segments, columns = at.closed_segments(), [at.by_parameter()]
        if tail:
            columns.insert(0, at.by_period()[:, :, None])
        border = np.concatenate(columns, axis=2)
        product, collected = np.eye(n), np.zeros((n, border.shape[2]))
        for segment, column in zip(segments, border, strict=True):
            product, collected = segment @ product, segment @ collected + column
        matrix = np.zeros((n + tail, n + border.shape[2]))
        matrix[:n, :n], matrix[:n, n:] = product - np.eye(n), collected
        if eq.phase is not None:
            matrix[n, :n] = eq.phase.weights[0]
        return matrix

    def chain(self, at: LinearisedShooting, factor: complex = 1.0) -> Array | Complex:
        """(Jn, Jn) of tangents at all nodes that come back `factor` times themselves; M - factor on one node."""
        count, n = self.fractions.size, self.size
        matrix = np.zeros((count, n, count, n), complex if isinstance(factor, complex) else float)
        for j, segment in enumerate(at.closed_segments()):
            matrix[j, :, j] += segment
            matrix[j, :, (j + 1) % count] -= np.eye(n) * (factor if j == count - 1 else 1.0)
        return matrix.reshape(count * n, count * n)

    def full(self, at: LinearisedShooting) -> Array:
        """The Jacobian by all unknowns, dense."""
        if self.fractions.size == 1:
            return at.jacobian()
        size, border = self.fractions.size * self.size, [at.by_parameter()]
        phase = self.equations.phase
        if phase is not None:
            border.insert(0, at.by_period()[:, :, None])
        columns = np.concatenate(border, axis=2).reshape(size, -1)
        rows = np.hstack([np.asarray(self.chain(at), float), columns])
        if phase is None:
            return rows
        return np.vstack([rows, np.concatenate([phase.weights.ravel(), np.zeros(columns.shape[1])])])

    def condensed_tangent(self, tangent: Array) -> Array:
        """The parts of a tangent that belong to the first node, T and the parameters."""
        return np.concatenate([tangent[: self.size], tangent[self.fractions.size * self.size :]])

    def heading(self, tangent: Array) -> Array:
        """The parts of a tangent that mean the same on every mesh: start, [period] and parameters, over their sizes.

        Along a canard the start hardly moves, and only the period tells which direction is ahead.
        """
        own = len(self.free) + self.autonomous
        return np.concatenate([tangent[: self.size] / self.sizes, tangent[-own:] / self.scale[-own:]])

    def bordered(self, at: LinearisedShooting, rows: Array) -> Solver:
        return at.bordered(rows)

    def renewed(self, z: Array, at: LinearisedShooting) -> OrbitFamily:
        """The family as seen from a new point: phase condition through it, sizes that have grown."""
        parameters = grown(self.parameter_sizes, z[-len(self.free) :], self.reach)
        same = parameters == self.parameter_sizes
        if same and self.reference is None and (np.abs(at.nodes) <= OUTGROWN * self.sizes).all():
            return self
        rates = self.problem.field.rates(at.nodes, at.equations.times(at.period)[0], at.vector)
        sizes = state_sizes(self.model, at.nodes, rates, self.full_period(z), self.sizes)
        reference = None if self.reference is None else np.stack([at.nodes[0], rates[0]])
        period = max(self.period, at.period) if self.autonomous else self.period
        if same and reference is None and (sizes == self.sizes).all():
            return self
        other = replace(self, sizes=sizes, reference=reference, period=period, parameter_sizes=parameters)
        other.__dict__.update(flow=self.flow, problem=self.problem)
        return other

    def relinearised(self, at: LinearisedShooting) -> LinearisedShooting:
        """A linearisation of the same orbit as one of this family's equations."""
        return at.seen_by(self.equations)

    def motion(self, z: Array, at: LinearisedShooting) -> Array | None:
        """f T/2π at the nodes (J, n), over the sizes of the states: what turns round where an orbit shrinks to a point.

        None for forced orbits.
        """
        return self._motion(at) if self.autonomous else None

    def _motion(self, at: LinearisedShooting) -> Array:
        rates = self.problem.field.rates(at.nodes, at.equations.times(at.period)[0], at.vector)
        return rates * at.period / (2 * np.pi) / self.sizes

    def vigour(self, z: Array, at: LinearisedShooting) -> float:
        """How much the orbit moves at its nodes, |f| T/2π relative to the sizes of the states."""
        return float(np.abs(self._motion(at)).max())

    def resting(self, point: Array, period: float, value: float) -> Array | None:
        """Unknowns of an orbit through `point` that lasts `period`; None where its other nodes are not known."""
        if self.offset or self.closing is not None or (self.fractions.size > 1 and not self.autonomous):
            return None
        return self.equations.pack(np.tile(point, (self.fractions.size, 1)), period, np.array([value]))

    def extent_of_events(self, at: LinearisedShooting) -> float:
        """How far apart the states at the events and at the section lie, relative to the sizes of the states."""
        states = np.array([at.nodes[0], *(e.state for e in at.events if e.state is not None)])
        return float((np.ptp(states, axis=0) / self.sizes).max())

    def growth(self, at: LinearisedShooting) -> float:
        """Largest action of one segment."""
        return float(np.abs(at.segments).max())

    def _strained(self, at: LinearisedShooting) -> bool:
        """Does the orbit grow and shrink again between its ends? Then it depends strongly on the parameters."""
        by_parameter = np.abs(at.sensitivities) / self.sizes[:, None] * self.parameter_sizes
        return bool(by_parameter.max() > STRAINED)

    def total_growth(self, at: LinearisedShooting) -> float:
        """Largest action of every part of the map; on many nodes a bound of it."""
        if self.fractions.size <= MANY_NODES:
            # Norms of rotations between coordinates of different sizes multiply, the rotations do not.
            largest, parts = 1.0, np.zeros((0, self.size, self.size))
            for segment in at.segments:
                parts = segment @ np.concatenate([parts, np.eye(self.size)[None]])
                largest = max(largest, float(np.abs(parts).max()))
            return largest
        return float(np.prod([max(1.0, float(np.abs(segment).max())) for segment in at.segments]))

    def remeshed(self, z: Array, at: LinearisedShooting, always: bool = False) -> tuple[OrbitFamily, Array] | None:
        """The family with nodes where the tangents have grown, and z on them; None where one mesh is as good.

        always: a new mesh wherever there are several nodes.
        """
        if always:
            if self.fractions.size == 1:
                return None
            problem = self.problem.at(at.vector, at.period)
            return self.on(place_nodes(problem, self.loop(z, at), 0.3 * NODE_GROWTH), z, at)
        count, grown, crowded = self.fractions.size, self.growth(at) >= SINGLE_NODE, False
        if count == 1 and not grown and not self._strained(at):
            return None
        if count > 1 and not grown:
            total = self.total_growth(at)
            if total < FEW_NODES:
                return self.on(np.zeros(1), z, at)
            # Nodes that growth no longer calls for lie where the orbit moves fast, and keep the steps short.
            crowded = count > 2 * np.log10(total) / np.log10(NODE_GROWTH) + 2
            if not crowded:
                return None
        loop = self.loop(z, at)
        problem = self.problem.at(at.vector, at.period)
        fractions = place_nodes(problem, loop, NODE_GROWTH)
        if crowded and fractions.size > 0.75 * count:
            return None
        # A mesh with as many nodes serves only where they move: growth wanders along an orbit as the family goes on.
        if fractions.size <= self.fractions.size and _near(fractions, self.fractions) < MOVED_NODES:
            return None
        return self.on(fractions, z, at)

    def on(self, fractions: Array, z: Array, at: LinearisedShooting) -> tuple[OrbitFamily, Array]:
        """The family with nodes at other fractions, and z there."""
        nodes = self.loop(z, at)(fractions)
        other = replace(self, fractions=fractions)
        other.__dict__.update(flow=self.flow, problem=self.problem)
        return other, other.equations.pack(nodes, at.period, z[-len(self.free) :])

    def loop(self, z: Array, at: LinearisedShooting) -> FlowLoop:
        """The stretch that the (half) map covers as a loop from the section on; angles continuous along it."""
        from kapitza.orbits.of_models import total_winding

        nodes, winding = total_winding(at.nodes, at.arrivals, self.problem.angles)
        return FlowLoop(_Shifted(self.flow, self._offset_time(z)), self.fractions, nodes, at.period, at.vector, winding)

    def _offset_time(self, z: Array) -> float:
        return 0.0 if self.autonomous else self.offset / self.span * self.time(z)

    def section_point(self, z: Array) -> Array:
        """The state (n,) at t = 0 of the excitation."""
        offset = self._offset_time(z)
        if offset == 0.0:
            return self.start(z).copy()
        vector = self.values(z)
        period = float(self.flow.period(vector) or 1.0)
        ahead = np.ceil(offset / period - 1e-12) * period
        return self.flow.propagate(self.start(z), offset, ahead, vector, tangents=False).state

    @property
    def full_repeats(self) -> int | None:
        """Excitation periods of the whole orbit, half maps counted twice."""
        if self.repeats is None:
            return None
        return round(self.span * (2 if self.closing is not None else 1))

    @cached_property
    def _bounds(self) -> tuple[tuple[float, float], ...]:
        return tuple(self.model.parameter(name).bounds for name in self.free)

    def allowed(self, z: Array) -> bool:
        """Within the bounds that the model gives its parameters, and at a period that is positive."""
        for (low, high), value in zip(self._bounds, z[-len(self.free) :].tolist(), strict=True):
            if not low <= value <= high:
                return False
        return not self.autonomous or z[-len(self.free) - 1] > 0

    def readings(self, node: Any) -> Any:
        from kapitza.continuation.criteria import orbit_readings

        return orbit_readings(node)

    def test_functions(self) -> Any:
        from kapitza.continuation.locate import orbit_tests

        return orbit_tests()

    def several(self, before: Any, after: Any) -> Any:
        from kapitza.continuation.criteria import several_pairs

        return several_pairs(before, after)

    def judged(self, kind: Any, node: Any, first: Any, last: Any, rank: int | None = None) -> Any:
        from kapitza.continuation.judge import judged_orbit

        return judged_orbit(self, kind, node, first, last, rank)

    def sequence_change(self, stretch: Any, before: Any, after: Any) -> Any:
        from kapitza.continuation.events import sequence_change

        return sequence_change(self, stretch, before, after)

    def breaks_symmetry(self, node: Any, vector: Complex) -> bool:
        """Is the critical direction turned round by a symmetry under which the orbit itself stays where it is?"""
        for symmetry in linear_symmetries(self.model):
            if symmetry.shift:
                continue
            point, moved = self.start(node.z), symmetry.matrix @ self.start(node.z)
            direction = np.real(vector)
            unchanged = np.abs((moved - point) / self.sizes).max() < 1e-6
            turned = np.abs(symmetry.matrix @ direction + direction).max() < 1e-4 * np.abs(direction).max()
            if unchanged and turned:
                return True
        return False

    def images(self, start: Any) -> Any:
        from kapitza.continuation.collect import images_of

        return images_of(start)

    def branch(self, nodes: Any, lengths: Array, marks: Any, ends: Any, method: str) -> Any:
        from kapitza.continuation.collect import orbit_branch

        return orbit_branch(nodes, lengths, marks, ends, method)

    def with_(self, **changes: Any) -> OrbitFamily:
        other = replace(self, **changes)
        if not set(changes) & {"model", "free"}:
            other.__dict__["flow"] = self.flow
        return other


@dataclass(frozen=True)
class _Shifted:
    """A flow whose clock is ahead by `offset`, for loops that begin at a moved section."""

    flow: Flow
    offset: float

    def dense(self, x: Array, begin: float, end: float, parameters: Array) -> Any:
        inner = self.flow.dense(x, begin + self.offset, end + self.offset, parameters)
        return lambda times: inner(np.asarray(times) + self.offset)

    def trajectory(self, x: Array, times: Array, parameters: Array) -> Array:
        return self.flow.trajectory(x, times + self.offset, parameters)

    def propagate_many(self, X: Array, t0: Any, t1: Any, parameters: Any = None) -> Any:
        return self.flow.propagate_many(X, np.asarray(t0) + self.offset, np.asarray(t1) + self.offset, parameters)


def _near(fractions: Array, others: Array) -> float:
    """Largest distance of a node from the nearest one of another mesh, round the orbit."""
    gaps = np.abs(fractions[:, None] - others)
    return float(np.minimum(gaps, 1 - gaps).min(axis=1).max())


def eigenvalues_by_size(matrix: Array) -> Complex:
    """Eigenvalues of a small real matrix, largest first; NaN where they do not converge."""
    # np.linalg.eigvals takes three times as long for the few states of an orbit.
    real, imaginary, _, _, info = _geev(matrix, compute_vl=0, compute_vr=0)
    if info:
        return np.full(matrix.shape[0], complex(np.nan, np.nan))
    found = sorted(map(complex, real.tolist(), imaginary.tolist()), key=abs, reverse=True)
    return np.array(found)


def grown(sizes: tuple[float, ...], values: Array, reach: tuple[float, ...]) -> tuple[float, ...]:
    """Sizes of parameters that have outgrown theirs, up to `reach`: a parameter that starts at 0 has none at first."""
    found = zip(sizes, values.tolist(), reach, strict=False)
    return tuple(s if abs(v) <= OUTGROWN * s else max(s, min(abs(v), r)) for s, v, r in found) if reach else sizes


def state_sizes(model: Model, nodes: Array, rates: Array, period: float, before: Array | None = None) -> Array:
    """Sizes of the states on an orbit, from its nodes and their rates; never zero, never smaller than before.

    A state counts with its value or with the amplitude that its rate stands for, |f| T/2π; an angle at least as one.
    """
    size = np.maximum(np.abs(nodes).max(axis=0), np.abs(rates).max(axis=0) * period / (2 * np.pi))
    angles = np.array(model.angles, bool)
    size[angles] = 1.0
    if not size.any():
        # At rest at the origin nothing has a size of its own.
        size[: len(model.coordinates)] = 1.0
    coordinates = [c.order for c in model.coordinates]
    second = [i for i, order in enumerate(coordinates) if order == 2]
    for place, i in enumerate(second):
        # A speed counts at least as that of a vibration of its coordinate.
        speed = len(coordinates) + place
        size[speed] = max(size[speed], size[i] * 2 * np.pi / period)
        if not angles[i]:
            size[i] = max(size[i], size[speed] * period / (2 * np.pi))
    size = np.maximum(size, 1e-3 * size.max())
    return size if before is None else np.maximum(size, before)


def sequence_of(events: Sequence[Any]) -> str:
    """What happened on the way, as a word: kind, index and direction of each event, in the order of time."""
    letters = {"cross": "c", "stick": "S", "release": "R", "impact": "i", "contact": "C", "detach": "D", "graze": "g"}
    marks = {1: "+", -1: "-", 0: ""}
    ordered = sorted(events, key=lambda event: event.time)
    return " ".join(f"{letters.get(e.kind, e.kind)}{e.index}{marks[int(np.sign(e.direction))]}" for e in ordered)
