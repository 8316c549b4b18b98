"""Collocation equations of an orbit, arc by arc.

Their linearisation costs O(number of elements).

The orbit is cut at boundaries 0 = b_0 < b_1 < … < b_E = T. A boundary is fixed (a knot of a measured signal), free
with an event (a switching function vanishes, or a wall is met and the state is reset), or the unknown end of an
autonomous orbit. Arcs between boundaries are divided into elements; on each the orbit is a polynomial whose slope K
satisfies the equations at Gauss points:

    K_ji = f(x_j + h_j Σ_l a_il K_jl, t_ji, θ),   y_j = x_j + h_j Σ_i b_i K_ji,   x_{j+1} = P_j(y_j),
    s_e(y_{j(e)}, b_e, θ) = 0 for every event e,

P_j being the identity or the reset of a wall.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.errors import FlowError
from kapitza.orbits.of_models.field import Rates, VectorField
from kapitza.orbits.of_models.gauss import GaussRule
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.solve import CyclicSystem, MarchedChain, closed_chain

_NO_CONDITIONS = np.zeros(0)


@dataclass(frozen=True)
class Crossing:
    """Event at a boundary.

    surface: switches first, then walls; wall: the one whose reset applies, if any.
    """

    surface: int
    wall: int | None = None


@dataclass(frozen=True)
class Layout:
    """Boundaries, events and mesh.

    boundaries: (E + 1,) times; crossings: for each boundary an event or None (the first and last have none).
    arc: (J,) arc of each element, low and high: (J,) its ends as fractions of the arc; modes: (E, switches) per arc.
    free_end: True when the period is unknown.
    """

    boundaries: Array
    crossings: tuple[Crossing | None, ...]
    arc: Indices
    low: Array
    high: Array
    modes: Array
    free_end: bool

    @cached_property
    def unknown(self) -> Indices:
        """Indices of the boundaries that are unknown."""
        free = [i for i, crossing in enumerate(self.crossings) if crossing is not None]
        return np.array([*free, *([len(self.boundaries) - 1] if self.free_end else [])], np.intp)

    @cached_property
    def events(self) -> list[tuple[int, Crossing]]:
        return [(i, c) for i, c in enumerate(self.crossings) if c is not None]

    def times(self, boundaries: Array) -> tuple[Array, Array]:
        """Return start and length of each element."""
        start = boundaries[self.arc]
        length = boundaries[self.arc + 1] - start
        return start + self.low * length, (self.high - self.low) * length

    def last_element(self, boundary: int) -> int:
        """Return the element that ends at a boundary."""
        return int(np.flatnonzero(self.arc == boundary - 1)[-1])


@dataclass(frozen=True)
class Unknowns:
    """Unknowns of the collocation equations.

    nodes (J, n), slopes (J, m, n), boundaries (E + 1,), values (npar,) of the parameters (None: the given ones).
    """

    nodes: Array
    slopes: Array
    boundaries: Array
    values: Array | None = None


class CollocationEquations:
    """Collocation equations as a `kapitza.solve.newton` system.

    Unknowns are packed as nodes, slopes, free boundaries.
    free: parameters among the unknowns, packed last; they are those of field.wrt. law: the excitation period as a
    function of the parameters with its slopes by `free`, for boundaries that move with it; span: how many of them.
    """

    def __init__(
        self,
        field: VectorField,
        layout: Layout,
        rule: GaussRule,
        winding: Array,
        parameters: Array,
        phase: PhaseRow | None = None,
        free: tuple[str, ...] = (),
        law: Any = None,
        span: int = 1,
    ):
        self.field, self.layout, self.rule, self.phase = field, layout, rule, phase
        self.winding, self.parameters = winding, parameters
        self.free, self.law, self.span = free, law, span
        self._places = [field.model.names.index(name) for name in free]
        self.elements, self.size = layout.arc.size, field.size
        self._modes = np.repeat(layout.modes[layout.arc], rule.degree, axis=0)
        # Boundaries that are unknown, or that follow a period with the free parameters in it.
        self.moves = bool(layout.unknown.size) or (bool(free) and law is not None and law.varies)
        self._kept: tuple[Array, Array, Array] = (np.empty(0), np.empty(0), np.empty(0))

    def pack(self, unknowns: Unknowns) -> Array:
        free = unknowns.boundaries[self.layout.unknown]
        values = self.parameters if unknowns.values is None else unknowns.values
        return np.concatenate([unknowns.nodes.ravel(), unknowns.slopes.ravel(), free, values[self._places]])

    def values(self, u: Unknowns) -> Array:
        return self.parameters if u.values is None else u.values

    @property
    def unknowns(self) -> int:
        return self.elements * self.size * (self.rule.degree + 1) + self.layout.unknown.size + len(self.free)

    def unpack(self, x: Array) -> Unknowns:
        j, n, m = self.elements, self.size, self.rule.degree
        boundaries, values, inner = self.layout.boundaries, None, x[j * n * (m + 1) :]
        if self.free:
            values = self.parameters.copy()
            values[self._places] = inner[-len(self.free) :]
            inner = inner[: -len(self.free)]
        if self.moves:
            boundaries = boundaries.copy()
            if self.law is not None and values is not None:
                boundaries *= self.span * self.law(values) / boundaries[-1]
            boundaries[self.layout.unknown] = inner
            if (np.diff(boundaries) <= 0).any():
                raise FlowError("An arc between two events has shrunk to nothing.")
        return Unknowns(x[: j * n].reshape(j, n), x[j * n : j * n * (m + 1)].reshape(j, m, n), boundaries, values)

    def stages(self, u: Unknowns) -> tuple[Array, Array, Array]:
        """Return the stage states, their times, element lengths.

        The states are (J m, n), the times (J m,), the lengths (J,).
        """
        times, length = self._cut(u.boundaries)
        states = u.nodes[:, None, :] + length[:, None, None] * (self.rule.matrix @ u.slopes)
        return states.reshape(-1, self.size), times, length

    def _cut(self, boundaries: Array) -> tuple[Array, Array]:
        """Return stage times (J m,) and element lengths (J,).

        Cached while the boundaries stay.
        """
        if boundaries is self._kept[0]:
            return self._kept[1:]
        start, length = self.layout.times(boundaries)
        times = (start[:, None] + length[:, None] * self.rule.points).ravel()
        self._kept = boundaries, times, length
        return times, length

    def ends(self, u: Unknowns) -> Array:
        """Return the ends y_j of elements, (J, n)."""
        length = self._cut(u.boundaries)[1]
        return u.nodes + length[:, None] * (self.rule.weights @ u.slopes)

    def residual(self, x: Array) -> Array:
        u = self.unpack(x)
        states, times, _ = self.stages(u)
        rates = self.field.rates(states, times, self.values(u), self._modes if self.field.switches else None)
        stage = u.slopes - rates.reshape(u.slopes.shape)
        arrivals, conditions = self._arrivals(u, self.ends(u))
        return self._flatten(u, stage, arrivals, conditions)

    def _flatten(self, u: Unknowns, stage: Array, arrivals: Array, conditions: Array) -> Array:
        gaps = arrivals.copy()
        gaps[:-1] -= u.nodes[1:]
        gaps[-1] -= u.nodes[0] + 2 * np.pi * self.winding
        tail = [] if self.phase is None else [self.phase.value(u.nodes)]
        residual = np.concatenate([gaps.ravel(), stage.ravel(), conditions, tail])
        if not np.isfinite(residual).all():
            raise FlowError("The collocation equations are not finite at this iterate.")
        return residual

    def _arrivals(self, u: Unknowns, ends: Array) -> tuple[Array, Array]:
        """Return states after resets and event conditions.

        The states are (J, n), the conditions (events,).
        """
        if not self.layout.events:
            return ends, _NO_CONDITIONS
        arrivals, conditions = ends.copy(), []
        for boundary, crossing in self.layout.events:
            j = self.layout.last_element(boundary)
            here, time = ends[j : j + 1], u.boundaries[boundary : boundary + 1]
            conditions.append(self.field.surface(crossing.surface, here, time, self.values(u)).value[0])
            if crossing.wall is not None:
                arrivals[j] = self.field.reset(crossing.wall, here, time, self.values(u)).rates[0]
        return arrivals, np.array(conditions)

    def linearise(self, x: Array) -> LinearisedElements:
        return LinearisedElements(self, self.unpack(x))


@dataclass
class _Joint:
    """Derivatives of one event's condition and reset."""

    element: int
    boundary: int
    by_state: Array
    by_time: float
    by_parameter: Array
    reset: Rates | None = None


@dataclass
class LinearisedElements:
    """Linearised equations, condensed and factorised.

    The equations are linearised at one iterate and condensed element by element.
    """

    equations: CollocationEquations
    unknowns: Unknowns
    residual: Array = field(init=False)

    def __post_init__(self):
        eq, u = self.equations, self.unknowns
        states, times, length = eq.stages(u)
        modes = eq._modes if eq.field.switches else None
        rates = eq.field.derivatives(states, times, eq.values(u), modes)
        j, m, n = u.slopes.shape
        stage = u.slopes - rates.rates.reshape(j, m, n)
        ends = eq.ends(u)
        self._length, self._joints = length, self._find_joints(ends)
        arrivals, conditions = eq._arrivals(u, ends)
        self.residual = eq._flatten(u, stage, arrivals, conditions)
        self._condense(rates, times)
        self._system: CyclicSystem | MarchedChain | None = None

    def _find_joints(self, ends: Array) -> list[_Joint]:
        eq, joints = self.equations, []
        for boundary, crossing in eq.layout.events:
            j = eq.layout.last_element(boundary)
            here, time = ends[j : j + 1], self.unknowns.boundaries[boundary : boundary + 1]
            values = eq.values(self.unknowns)
            surface = eq.field.surface(crossing.surface, here, time, values)
            reset = None if crossing.wall is None else eq.field.reset(crossing.wall, here, time, values)
            joints.append(
                _Joint(j, boundary, surface.by_state[0], float(surface.by_time[0]), surface.by_parameter[0], reset)
            )
        return joints

    def _condense(self, rates: Rates, times: Array) -> None:
        """Eliminate the slopes of each element.

        The result is δK = by_node δx + by_left δb_l + by_right δb_r + by_parameter δθ - S⁻¹ r.
        """
        eq, u, rule = self.equations, self.unknowns, self.equations.rule
        j, m, n = u.slopes.shape
        by_state = rates.by_state.reshape(j, m, n, n)
        by_time = rates.by_time.reshape(j, m, n)
        scaled = by_state * -self._length[:, None, None, None]
        matrix = (scaled[:, :, :, None, :] * rule.matrix[:, None, :, None]).reshape(j, m * n, m * n)
        # Adds the identity to every matrix of the stack through its diagonal stride.
        matrix.reshape(j, -1)[:, :: m * n + 1] += 1.0
        self._inverse = np.linalg.inv(matrix)
        share = eq.layout.high - eq.layout.low
        within = eq.layout.low[:, None] + share[:, None] * rule.points
        reach = (by_state @ (rule.matrix @ u.slopes)[..., None])[..., 0] * share[:, None, None]
        given = np.empty((j, m, n, n + 2 + rates.by_parameter.shape[2]))
        given[..., :n] = by_state
        given[..., n] = by_time * (1 - within)[..., None] - reach
        given[..., n + 1] = by_time * within[..., None] + reach
        given[..., n + 2 :] = rates.by_parameter.reshape(j, m, n, -1)
        self._slopes_by = self._inverse @ given.reshape(j, m * n, -1)
        change = (rule.weights @ self._slopes_by.reshape(j, m, -1)).reshape(j, n, -1) * self._length[:, None, None]
        drift = (rule.weights @ u.slopes) * share[:, None]
        change.reshape(j, -1)[:, : n * change.shape[2] : change.shape[2] + 1] += 1.0
        change[:, :, n] -= drift
        change[:, :, n + 1] += drift
        self.ends_by = change

    @property
    def propagators(self) -> Array:
        """Return derivatives of elements' ends by their starts.

        They are (J, n, n) at fixed boundaries and do not include resets.
        """
        return self.ends_by[:, :, : self.equations.size]

    def _boundary_columns(self) -> Array:
        """Return derivatives of all arrivals by boundaries.

        The result is (J, n, E + 1).
        """
        eq, n = self.equations, self.equations.size
        columns = np.zeros((eq.elements, n, eq.layout.boundaries.size))
        elements = np.arange(eq.elements)
        columns[elements, :, eq.layout.arc] += self.ends_by[:, :, n]
        columns[elements, :, eq.layout.arc + 1] += self.ends_by[:, :, n + 1]
        return columns

    def _assemble(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Assemble the derivatives of arrivals and conditions.

        Derivatives of the arrivals are by nodes (J, n, n), boundaries (J, n, E+1) and parameters (J, n, k); those of
        the conditions follow in the same order.
        """
        eq, n = self.equations, self.equations.size
        left, columns = self.propagators.copy(), self._boundary_columns()
        by_parameter = self.ends_by[:, :, n + 2 :].copy()
        events = len(self._joints)
        rows = np.zeros((events, eq.elements, n))
        corner = np.zeros((events, eq.layout.boundaries.size))
        parameter_corner = np.zeros((events, by_parameter.shape[2]))
        for i, joint in enumerate(self._joints):
            j = joint.element
            rows[i, j] = joint.by_state @ self.propagators[j]
            corner[i] = joint.by_state @ columns[j]
            corner[i, joint.boundary] += joint.by_time
            parameter_corner[i] = joint.by_state @ by_parameter[j] + joint.by_parameter
        for joint in self._joints:
            if joint.reset is not None:
                j, jump = joint.element, joint.reset.by_state[0]
                left[j], columns[j], by_parameter[j] = jump @ left[j], jump @ columns[j], jump @ by_parameter[j]
                columns[j][:, joint.boundary] += joint.reset.by_time[0]
                by_parameter[j] += joint.reset.by_parameter[0]
        return left, columns, by_parameter, rows, corner, parameter_corner

    def _factorised(self) -> CyclicSystem | MarchedChain:
        if self._system is None:
            if self.equations.free:
                raise ValueError(f"{len(self.equations.free)} free parameters need as many border rows.")
            self._system = self._with_rows(np.zeros((0, self.equations.unknowns)))
        return self._system

    def _with_rows(self, given: Array) -> CyclicSystem | MarchedChain:
        """Border the chain by events, phase and given rows.

        The caller's rows must not touch the slopes.
        """
        eq = self.equations
        left, columns, self._by_parameter, rows, corner, self._corner_parameter = self._assemble()
        self._columns, self._corner = columns, corner
        unknown, count = eq.layout.unknown, eq.elements * eq.size
        border, corner = columns[:, :, unknown], corner[:, unknown]
        if eq.phase is not None:
            rows = np.concatenate([rows, eq.phase.weights[None]])
            corner = np.concatenate([corner, np.zeros((1, unknown.size))])
        if eq.free:
            moving = self.boundary_slopes()
            border = np.concatenate([border, self._by_parameter + columns @ moving], axis=2)
            own = self._corner_parameter + self._corner @ moving
            if eq.phase is not None:
                own = np.concatenate([own, np.zeros((1, own.shape[1]))])
            corner = np.concatenate([corner, own], axis=1)
        if len(given):
            if given[:, count : count * (eq.rule.degree + 1)].any():
                raise ValueError("Border rows on the slopes of a collocation are not supported: weigh nodes alone.")
            rows = np.concatenate([rows, given[:, :count].reshape(-1, eq.elements, eq.size)])
            corner = np.concatenate([corner, given[:, count * (eq.rule.degree + 1) :]])
        return closed_chain(left, border, rows, corner)

    def boundary_slopes(self) -> Array:
        """Return derivatives of the fixed boundaries.

        They are (E + 1, k), by the free parameters, and follow from the excitation period.
        """
        eq, u = self.equations, self.unknowns
        moving = np.zeros((u.boundaries.size, len(eq.free)))
        if eq.law is not None and eq.law.varies:
            slope = eq.span * eq.law.slopes(eq.values(u))
            moving = np.multiply.outer(u.boundaries / u.boundaries[-1], slope)
            moving[eq.layout.unknown] = 0.0
        return moving

    def bordered(self, rows: Array) -> _BorderedElements:
        """Factorise the square system with border rows.

        There is one border row per free parameter.
        """
        return _BorderedElements(self, self._with_rows(rows))

    def solve(self, residual: Array) -> Array:
        return self.solve_with(self._factorised(), residual)

    def solve_with(self, system: CyclicSystem | MarchedChain, residual: Array) -> Array:
        eq, u = self.equations, self.unknowns
        j, m, n = u.slopes.shape
        chain = residual[: j * n].reshape(j, n)
        stage = residual[j * n : j * n * (m + 1)].reshape(j, m * n, 1)
        tail = residual[j * n * (m + 1) :].copy()
        local = (self._inverse @ stage).reshape(j, m, n)
        shifted = (eq.rule.weights @ local) * self._length[:, None]
        arrived = shifted.copy()
        for i, joint in enumerate(self._joints):
            tail[i] -= joint.by_state @ shifted[joint.element]
            if joint.reset is not None:
                arrived[joint.element] = joint.reset.by_state[0] @ shifted[joint.element]
        nodes, free = system.solve(chain - arrived, tail)
        change = (self._slopes_by[:, :, :n] @ nodes[..., None])[..., 0]
        if eq.free:
            change += self._slopes_by[:, :, n + 2 :] @ free[eq.layout.unknown.size :]
        if eq.moves:
            boundaries = np.zeros(eq.layout.boundaries.size)
            boundaries[eq.layout.unknown] = free[: eq.layout.unknown.size]
            if eq.free:
                boundaries += self.boundary_slopes() @ free[eq.layout.unknown.size :]
            ends = np.stack([boundaries[eq.layout.arc], boundaries[eq.layout.arc + 1]], axis=1)
            change += (self._slopes_by[:, :, n : n + 2] @ ends[..., None])[..., 0]
        slopes = local + change.reshape(j, m, n)
        return np.concatenate([nodes.ravel(), slopes.ravel(), free])

    def sensitivity(self, given: Array) -> tuple[Array, Array]:
        """Return derivatives by the parameters.

        Derivatives of nodes have shape (J, n, k), of boundaries (E + 1, k).
        given: (E + 1, k) derivatives of the boundaries that are not unknown, such as those of an excitation period.
        """
        eq = self.equations
        system = self._factorised()
        boundaries = given.copy()
        boundaries[eq.layout.unknown] = 0.0
        chain = self._by_parameter + self._columns @ boundaries
        tail = self._corner_parameter + self._corner @ boundaries
        if eq.phase is not None:
            tail = np.concatenate([tail, np.zeros((1, given.shape[1]))])
        nodes, free = system.solve(-chain, -tail)
        boundaries[eq.layout.unknown] = free
        return nodes, boundaries

    def segments(self) -> Array:
        """Return propagators (J, n, n) with events moving freely.

        Resets and saltation are included.
        S = P_x + (f⁺ - P_x f⁻ - P_t) s_x / (s_x f⁻ + s_t).
        """
        eq, u = self.equations, self.unknowns
        segments = self.propagators.copy()
        ends = eq.ends(u)
        for joint in self._joints:
            j, time = joint.element, u.boundaries[joint.boundary : joint.boundary + 1]
            values = eq.values(u)
            before = eq.field.rates(ends[j : j + 1], time, values, eq.layout.modes[eq.layout.arc[j]][None])[0]
            following = (j + 1) % eq.elements
            arrival = ends[j] if joint.reset is None else joint.reset.rates[0]
            modes = eq.layout.modes[eq.layout.arc[following]][None]
            after = eq.field.rates(arrival[None], time, values, modes)[0]
            jump = np.eye(eq.size) if joint.reset is None else joint.reset.by_state[0]
            shift = np.zeros(eq.size) if joint.reset is None else joint.reset.by_time[0]
            speed = joint.by_state @ before + joint.by_time
            segments[j] = (jump + np.outer(after - jump @ before - shift, joint.by_state) / speed) @ segments[j]
        return segments


@dataclass(frozen=True)
class _BorderedElements:
    """Condensed system with the caller's rows.

    Right-hand side and solution are single vectors.
    """

    at: LinearisedElements
    system: CyclicSystem | MarchedChain

    def solve(self, right: Array) -> Array:
        return self.at.solve_with(self.system, right)
