"""Shooting from one node or from many.

The orbit is a fixed point of the flow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import difference, turns
from kapitza.base.argument_checks import Count, Positive
from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import Later, to_come
from kapitza.errors import FlowError, KapitzaError, ModelError, Status
from kapitza.flow import Event, Flow
from kapitza.orbits import Loop, SolverReport
from kapitza.orbits.of_models.loop import FlowLoop
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.orbits.of_models.problem import FreeParameters, Problem, Solution
from kapitza.solve import CyclicSystem, DenseSolver, NewtonResult, NewtonSettings, Solver, newton


class ShootingEquations:
    """Shooting equations around the orbit.

    Φ(x_j; t_j → t_{j+1}) - x_{j+1} = 0, plus a phase condition when T is unknown.
    Unknowns: nodes (J, n), then T for autonomous models, then the parameters named in `free`, whose sensitivities the
    flow must carry (flow.wrt == free). Node j is at t_j = (offset + s_j) T with s_j = fractions[j]; T is `span`
    excitation periods (problem.repeats by default) for forced models, and moves with the parameters in its law.
    Gaps of angles are taken on the circle, so that the winding need not be known. closing: (n, n) matrix S of a
    symmetry; the orbit then closes as S x(T) = x(0): a half map, whose fixed points are symmetric orbits of twice T.
    """

    def __init__(
        self,
        problem: Problem,
        fractions: Array,
        phase: PhaseRow | None,
        flow: Flow,
        free: tuple[str, ...] = (),
        closing: Array | None = None,
        span: float | None = None,
        offset: float = 0.0,
    ):
        self.problem, self.fractions, self.phase, self.flow = problem, fractions, phase, flow
        self.free, self.closing, self.offset = FreeParameters(problem, free), closing, offset
        self.span = float(problem.repeats or 1) if span is None else span
        self.count, self.size = fractions.size, len(problem.model.states)
        self.shares = np.diff(np.append(fractions, 1.0))
        self.unit = np.eye(self.size)
        self._unit_wide = np.eye(self.size, self.size + len(free))
        self._turning = np.flatnonzero(problem.angles).tolist()
        self._fixed_period: float | None = None

    @property
    def unknowns(self) -> int:
        return self.count * self.size + (self.phase is not None) + len(self.free)

    def values(self, x: Array) -> Array:
        """Return the parameter vector.

        The free parameters are taken from the unknowns.
        """
        return self.free.vector(x)

    def pack(self, nodes: Array, period: float, values: Array | None = None) -> Array:
        tail = [] if self.phase is None else [period]
        given = self.problem.parameters[self.free.places] if values is None else values
        return np.concatenate([np.asarray(nodes, float).ravel(), tail, given])

    def unpack(self, x: Array) -> tuple[Array, float]:
        nodes = x[: self.count * self.size].reshape(self.count, self.size)
        if self.phase is not None:
            return nodes, float(x[self.count * self.size])
        if not self.free and self.span == (self.problem.repeats or 1):
            return nodes, self.problem.period
        if self.flow.core.period_law.varies:
            return nodes, self._forced_period(self.values(x))
        if self._fixed_period is None:
            self._fixed_period = self._forced_period(self.problem.parameters)
        return nodes, self._fixed_period

    def _forced_period(self, vector: Array) -> float:
        try:
            return self.span * float(self.flow.core.period_law(vector) or self.problem.period)
        except ModelError as problem:
            # A trial step may lead to a frequency below zero: it is shortened.
            raise FlowError(str(problem)) from problem

    def _usable(self, x: Array) -> tuple[Array, float]:
        """Return nodes and period of a usable iterate.

        Refuses an iterate that cannot be propagated.
        """
        nodes, period = self.unpack(x)
        if not (isfinite(x @ x) and period > 0):
            raise FlowError(f"The iterate is not usable: period {period}.")
        return nodes, period

    def _run(self, x: Array, tangents: bool):
        nodes, period = self._usable(x)
        vector = self.values(x)
        if self.count == 1:
            begin, end = self.offset * period, (self.offset + 1.0) * period
            run = self.flow.core.advance(nodes[0], begin, end, vector, tangents)
            jacobian = None if run.jacobian is None else run.jacobian[None]
            sensitivity = None if run.sensitivity is None else run.sensitivity[None]
            return nodes, period, vector, run.state[None], jacobian, sensitivity, tuple(run.events)
        begins, ends = self.times(period)
        run = self.flow.propagate_many(nodes, begins, ends, vector, tangents)
        events = tuple(e for part in run.events for e in part)
        return nodes, period, vector, run.state, run.jacobian, run.sensitivity, events

    def times(self, period: float) -> tuple[Array, Array]:
        """Return begin and end of each segment."""
        if self.count == 1:
            return np.array([self.offset * period]), np.array([(self.offset + 1.0) * period])
        begins = (self.offset + self.fractions) * period
        return begins, np.append(begins[1:], (self.offset + 1.0) * period)

    def gaps(self, nodes: Array, arrivals: Array) -> Array:
        """Return the residual of the nodes.

        The segments of the nodes (J, n) end at arrivals (J, n).
        """
        if self.closing is not None:
            arrivals = arrivals.copy()
            arrivals[-1] = self.closing @ arrivals[-1]
        following = nodes if self.count == 1 else np.roll(nodes, -1, axis=0)
        gaps = arrivals - following
        if self._turning and np.abs(gaps[:, self._turning]).max() >= np.pi:
            gaps = difference(arrivals, following, self.problem.angles)
        if self.phase is None:
            return gaps.ravel()
        return np.append(gaps.ravel(), self.phase.value(nodes))

    @cached_property
    def _shots(self) -> Any:
        """Prepared map of a single forced node.

        Prepared for the values of `free`; None where it cannot be.
        """
        if self.count > 1 or self.phase is not None or not self.free or self.flow.wrt != self.free.names:
            return None

        # A period that depends on the free parameters would change the ends of the prepared run.
        if self.flow.core.period_law.varies:
            return None
        period = self._forced_period(self.problem.parameters)
        return self.flow.core.shots(self.problem.parameters, self.offset * period, (self.offset + 1.0) * period)

    def _gap(self, start: Array, end: Array) -> Array:
        """Return the gap of a single node's segment.

        How far its end (n,) is from the start.
        """
        gap = (end if self.closing is None else self.closing @ end) - start
        for i in self._turning:
            if abs(gap[i]) >= pi:
                return difference(gap, 0.0, self.problem.angles)
        return gap

    def residual(self, x: Array) -> Array:
        shots = self._shots
        if shots is not None and isfinite(x @ x):
            start = x[: self.size]
            return self._gap(start, shots.arrive(start, x[self.size :]))
        if self.count > 1 or self.phase is not None:
            nodes, _, _, arrivals, *_ = self._run(x, tangents=False)
            return self.gaps(nodes, arrivals)
        nodes, period = self._usable(x)
        begin, end = self.offset * period, (self.offset + 1.0) * period
        return self.gaps(nodes, self.flow.core.arrive(nodes[0], begin, end, self.values(x))[None])

    def linearise(self, x: Array) -> LinearisedShooting:
        shots, n = self._shots, self.size
        if shots is not None and isfinite(x @ x):
            start, vector = x[:n], self.problem.parameters.copy()
            vector[self.free.places] = x[n:]
            end, tangents = shots.carry(start, x[n:])
            closed = tangents if self.closing is None else self.closing @ tangents
            jacobian = closed - self._unit_wide
            jacobian.flags.writeable = False
            return LinearisedShooting(
                self, self._gap(start, end), start[None], self.unpack(x)[1], vector, end[None], tangents[None, :, :n],
                tangents[None, :, n:], (), _jacobian=jacobian, _mirrored=closed[None, :, :n],
            )  # fmt: skip
        nodes, period, vector, arrivals, jacobians, sensitivities, events = self._run(x, tangents=True)
        residual = self.gaps(nodes, arrivals)
        assert jacobians is not None
        assert sensitivities is not None
        return LinearisedShooting(
            self, residual, nodes, period, vector, arrivals, jacobians, sensitivities, tuple(events)
        )


@dataclass
class LinearisedShooting:
    """Gaps with the propagators (J, n, n) of segments.

    The symmetry of `closing` is not applied to them.
    """

    equations: ShootingEquations
    residual: Array
    nodes: Array
    period: float
    vector: Array
    arrivals: Array
    segments: Array
    sensitivities: Array
    events: tuple[Event, ...]
    _closed: Solver | None = field(default=None, repr=False)
    _jacobian: Array | None = field(default=None, repr=False)
    _mirrored: Array | None = field(default=None, repr=False)

    def seen_by(self, equations: ShootingEquations) -> LinearisedShooting:
        """Return the linearisation for other equations.

        They describe the same orbit on the same nodes, with another phase condition.
        """
        return replace(self, equations=equations, _closed=None, _jacobian=None, _mirrored=None)

    def closed_segments(self) -> Array:
        """Return propagators with the symmetry applied.

        It is applied at the end, so that their product is the linearised (half) map.
        """
        if self.equations.closing is None:
            return self.segments
        if self._mirrored is None:
            self._mirrored = self.segments.copy()
            self._mirrored[-1] = self.equations.closing @ self.segments[-1]
        return self._mirrored

    def by_period(self) -> Array:
        """Return the derivative (J, n) of gaps by T.

        With fractions held it is f(end) s_{j+1} - Φ_x f(start) s_j for forced models.
        """
        eq = self.equations
        rates = eq.problem.field.rates
        if eq.problem.autonomous:
            columns = rates(self.arrivals, np.zeros(eq.count), self.vector) * eq.shares[:, None]
        else:
            begins, ends = eq.times(self.period)
            first, last = rates(self.nodes, begins, self.vector), rates(self.arrivals, ends, self.vector)
            begun = np.einsum("jpq,jq->jp", self.segments, first) * (begins / self.period)[:, None]
            columns = last * (ends / self.period)[:, None] - begun
        if eq.closing is not None:
            columns[-1] = eq.closing @ columns[-1]
        return columns

    def by_parameter(self) -> Array:
        """Return the derivative (J, n, k) by the parameters.

        The gaps are differentiated by the parameters of the flow; the law of a forced period is included.
        """
        eq = self.equations
        chain = self.sensitivities
        if eq.closing is not None:
            chain = chain.copy()
            chain[-1] = eq.closing @ chain[-1]
        law = eq.flow.core.period_law
        if eq.problem.autonomous or not law.varies:
            return chain
        return chain + self.by_period()[:, :, None] * (law.slopes(self.vector) * eq.span)

    def jacobian(self) -> Array:
        """Return the Jacobian of a single node.

        It is (n [+ 1], n [+ 1] + k): M - I, bordered by the flow, the phase and the parameters.
        """
        if self._jacobian is not None:
            return self._jacobian
        eq, n = self.equations, self.equations.size
        tail = eq.phase is not None
        matrix = np.zeros((n + tail, eq.unknowns))
        np.subtract(self.closed_segments()[0], eq.unit, out=matrix[:n, :n])
        if eq.phase is not None:
            matrix[:n, n], matrix[n, :n] = self.by_period()[0], eq.phase.weights[0]
        if eq.free:
            matrix[:n, n + tail :] = self.by_parameter()[0]
        # Steps, test functions and the predictor's matrix share it, so it must not be changed.
        matrix.flags.writeable = False
        self._jacobian = matrix
        return matrix

    def bordered(self, rows: Array) -> Solver:
        """Factorise the square system with border rows.

        There is one border row per free parameter.
        """
        eq = self.equations
        if eq.count == 1:
            return DenseSolver(np.concatenate((self.jacobian(), rows)))
        tail = eq.phase is not None
        size = eq.count * eq.size
        columns = [self.by_period()[:, :, None]] if tail else []
        if eq.free:
            columns.append(self.by_parameter())
        border = np.concatenate(columns, axis=2) if columns else None
        chain_rows = rows[:, :size].reshape(-1, eq.count, eq.size)
        corner = rows[:, size:]
        if eq.phase is not None:
            chain_rows = np.concatenate([eq.phase.weights[None], chain_rows])
            corner = np.concatenate([np.zeros((1, corner.shape[1])), corner])
        right = np.broadcast_to(-np.eye(eq.size), self.segments.shape)
        return ChainSolver(CyclicSystem(self.closed_segments(), right, border, chain_rows, corner))

    def _square(self) -> Solver:
        if self._closed is None:
            eq = self.equations
            if eq.free:
                raise ValueError(f"{len(eq.free)} free parameters need as many border rows: use bordered(rows).")
            self._closed = self.bordered(np.zeros((0, eq.unknowns)))
        return self._closed

    def solve(self, residual: Array) -> Array:
        return self._square().solve(residual)

    def sensitivity(self) -> tuple[Array, Array]:
        """Return derivatives of the nodes and the period.

        Those of the nodes are (J, n, k), those of the period (k,), by the parameters of the flow.
        With fixed fractions s_j and T(θ): Φ_x δx_j + Φ_θ + (f(end) s_{j+1} - Φ_x f(start) s_j) T_θ = δx_{j+1}.
        """
        eq, problem = self.equations, self.equations.problem
        chain = self.by_parameter()
        count = chain.shape[2]
        right = -chain.reshape(-1, count)
        if eq.phase is not None:
            right = np.vstack([right, np.zeros((1, count))])
        found = self._square().solve(right)
        nodes = found[: eq.count * eq.size].reshape(eq.count, eq.size, count)
        if problem.autonomous:
            return nodes, found[-1]
        return nodes, eq.flow.core.period_law.slopes(self.vector) * eq.span


@dataclass(frozen=True)
class ChainSolver:
    """Solver of a cyclic chain with its border.

    Right-hand side and solution are single vectors: the chain first, then the border.
    """

    system: CyclicSystem

    def solve(self, right: Array) -> Array:
        count, n = self.system.count, self.system.size
        size = count * n
        chain, border = self.system.solve(right[:size].reshape(count, n, *right.shape[1:]), right[size:])
        return np.concatenate([chain.reshape(size, *right.shape[1:]), border])

    def signed_log_determinant(self) -> tuple[float, float]:
        return self.system.signed_log_determinant()


def total_winding(nodes: Array, arrivals: Array, angles: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return continuous nodes and turns per period.

    Angles are continuous along the flow.
    """
    if not angles.any():
        return nodes, np.zeros(nodes.shape[1])
    gaps = difference(np.roll(nodes, -1, axis=0), arrivals, angles)
    steps = arrivals - nodes + gaps
    continuous = nodes[0] + np.vstack([np.zeros(nodes.shape[1]), np.cumsum(steps, axis=0)])
    winding = turns(continuous[-1] - continuous[0], angles)
    return continuous[:-1], winding


def _solution(problem: Problem, equations: ShootingEquations, result: NewtonResult, notes: tuple[str, ...]) -> Solution:
    nodes, period = equations.unpack(result.x)
    at = result.linearised
    if not isinstance(at, LinearisedShooting):
        loop = FlowLoop(problem.flow, equations.fractions, nodes, period, problem.parameters, np.zeros(nodes.shape[1]))
        segments = np.full((equations.count, nodes.shape[1], nodes.shape[1]), np.nan)
        return Solution(loop, result.status, result, segments, result.message, notes=notes)
    # The last step moved the nodes: multipliers and sensitivities are taken where it ended.
    end = Later(lambda: equations.linearise(result.x) if result.status.ok else at)
    if not problem.smooth:
        # With events the linearisation may fail, which must be reported here and not on first use.
        end()
    continuous, winding = nodes, to_come(lambda: total_winding(nodes, at.arrivals, problem.angles)[1])
    if equations.count > 1:
        continuous, winding = total_winding(nodes, at.arrivals, problem.angles)
    loop = FlowLoop(problem.flow, equations.fractions, continuous, period, problem.parameters, winding)
    sensitivity = period_sensitivity = None
    if problem.wrt and result.status.ok:
        at_nodes, period_sensitivity = end().sensitivity()
        # Nodes were rounded to twelve digits.
        marks = np.searchsorted(equations.fractions, problem.section_fractions - 1e-12)
        on_nodes = np.abs(equations.fractions[np.minimum(marks, equations.count - 1)] - problem.section_fractions)
        sensitivity = at_nodes[marks] if (on_nodes < 1e-9).all() else at_nodes[:1]

    def report() -> SolverReport:
        gaps = difference(end().arrivals, np.roll(nodes, -1, axis=0), problem.angles)
        return SolverReport(equations.count, result.history, gap=float(np.abs(gaps).max()), events=tuple(end().events))

    return Solution(
        loop,
        result.status,
        result,
        to_come(lambda: end().segments),
        result.message,
        sensitivity,
        period_sensitivity,
        notes,
        to_come(report),
    )


@dataclass(frozen=True)
class Shooting:
    """Solve by shooting from one node.

    Newton with tangents solves x(T; x_0) = x_0: the fast method for moderate growth, whatever the stability.

    tolerance: of the scaled Newton step, of which there are max_iterations at most. largest_step: limit of a step
    relative to the size of the orbit.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.solve_orbit(kz.library.duffing(), method=kz.Shooting(tolerance=1e-12)).status.name
    'CONVERGED'
    """

    tolerance: Positive = 1e-11
    max_iterations: Count = 40
    largest_step: Positive = float("inf")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        return _shoot(problem, guess, np.zeros(1), self.tolerance, self.max_iterations, self.largest_step)


@dataclass(frozen=True)
class MultipleShooting:
    """Solve by shooting from many nodes.

    No segment grows much: for long and strongly unstable orbits, and for poor guesses.

    nodes: how many; None places them where the tangents have grown by `growth` (and at every excitation period).
    tolerance, max_iterations, largest_step: as in `Shooting`.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.solve_orbit(kz.library.duffing(), method=kz.MultipleShooting(nodes=8)).solver.size
    8
    """

    nodes: int | None = None
    growth: Positive = 10.0
    tolerance: Positive = 1e-11
    max_iterations: Count = 40
    largest_step: Positive = float("inf")

    def __post_init__(self):
        if self.nodes is not None and self.nodes < 1:
            raise KapitzaError(f"MultipleShooting needs at least one node, not {self.nodes}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        fractions = place_nodes(problem, guess, self.growth) if self.nodes is None else even_nodes(problem, self.nodes)
        return _shoot(problem, guess, fractions, self.tolerance, self.max_iterations, self.largest_step)


FINEST_PIECES = 6
"""How often a piece of an orbit is halved to see where its tangents grow."""

MOST_PER_PIECE = 3.0
"""Growth of tangents over a piece, in nodes, above which the piece is halved."""


def even_nodes(problem: Problem, count: int) -> Array:
    """Return `count` equidistant fractions and section points."""
    return np.unique(np.round(np.concatenate([np.arange(count) / count, problem.section_fractions]), 12))


def place_nodes(problem: Problem, guess: Loop, growth: float) -> Array:
    """Place nodes by the growth of tangents.

    Fractions between which the tangents of the guess grow by at most about `growth`.
    """
    edges = np.linspace(0.0, 1.0, 16 * (problem.repeats or 1) + 1)
    stretch = _stretches(problem, guess, edges)
    for _ in range(FINEST_PIECES):
        # Growth within a piece is taken as even: pieces that grow more than this are divided.
        coarse = stretch > MOST_PER_PIECE * np.log(growth)
        if not coarse.any():
            break
        edges = np.sort(np.append(edges, 0.5 * (edges[:-1] + edges[1:])[coarse]))
        stretch = _stretches(problem, guess, edges)
    level = np.append(0.0, np.cumsum(stretch)) / np.log(growth)
    count = max(int(np.ceil(level[-1])), 1)
    marks = np.arange(1, count) * level[-1] / count
    # A node that falls next to a section point adds a segment and no accuracy.
    sections = np.interp(np.append(problem.section_fractions, 1.0), edges, level)
    apart = np.abs(marks[:, None] - sections).min(axis=1) > 0.25 * level[-1] / count
    inner = np.interp(marks[apart], level, edges)
    return np.unique(np.round(np.concatenate([problem.section_fractions, inner]), 12))


def _stretches(problem: Problem, guess: Loop, edges: Array) -> Array:
    """Return the logarithms of the growth of tangents between edges."""
    begins = edges[:-1] * guess.period
    run = problem.flow.propagate_many(
        guess(edges[:-1]), begins, edges[1:] * guess.period, problem.parameters, tangents=True, throw=False
    )
    assert run.jacobian is not None
    safe = np.where(np.isfinite(run.jacobian), run.jacobian, np.eye(len(problem.model.states)))
    # The floor keeps the level increasing where tangents shrink, so that it can be inverted.
    return np.maximum(np.log(np.linalg.svd(safe, compute_uv=False)[:, 0]), 1e-3)


def _solved(
    equations: ShootingEquations, nodes: Array, period: float, settings: NewtonSettings, size: Array
) -> NewtonResult:
    start, scale = nodes.ravel(), np.tile(size, len(nodes))
    if equations.phase is not None:
        start, scale = np.append(start, period), np.append(scale, period)
    return newton(equations, start, settings, scale)


def _shoot(
    problem: Problem, guess: Loop, fractions: Array, tolerance: float, max_iterations: int, largest_step: float
) -> Solution:
    flow = Flow(problem.model, wrt=problem.wrt) if problem.wrt else problem.flow
    phase = problem.phase.row(guess, problem.field, fractions) if problem.autonomous else None
    equations = ShootingEquations(problem, fractions, phase, flow)
    settings = NewtonSettings(tolerance, max_iterations, largest_step=largest_step)
    nodes = guess(fractions)
    result = None
    if fractions.size == 1 and isinstance(guess, FlowLoop) and not isfinite(largest_step):
        # Sizes along the guess cost a run along it, which is made where those of its start do not lead to an orbit.
        result = _solved(equations, nodes, guess.period, settings, problem.sizes_at(nodes[0]))
    if result is None or not result.status.ok or result.message:
        result = _solved(equations, nodes, guess.period, settings, problem.scale(guess))
    notes: tuple[str, ...] = ()
    if result.status is Status.CONVERGED and result.message:
        notes = (result.message,)
    return _solution(problem, equations, result, notes)
