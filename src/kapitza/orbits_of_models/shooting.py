"""Shooting: the orbit as a fixed point of the flow, from one node or from many."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError, KapitzaError, Status
from kapitza.flow import Flow
from kapitza.orbit import circle_difference
from kapitza.orbits_of_models.field import period_gradient
from kapitza.orbits_of_models.loop import FlowLoop, Loop
from kapitza.orbits_of_models.phase import PhaseRow
from kapitza.orbits_of_models.problem import Problem, Solution
from kapitza.solve import CyclicSystem, NewtonResult, NewtonSettings, newton

Array = NDArray[np.float64]


class ShootingEquations:
    """Φ(x_j; s_jT → s_{j+1}T) - x_{j+1} = 0 around the orbit, plus a phase condition when T is unknown.

    Unknowns: nodes (J, n), then T for autonomous models. Gaps of angles are taken on the circle, so that the winding
    need not be known.
    """

    def __init__(self, problem: Problem, fractions: Array, phase: PhaseRow | None, flow: Flow):
        self.problem, self.fractions, self.phase, self.flow = problem, fractions, phase, flow
        self.count, self.size = fractions.size, len(problem.model.states)
        self.shares = np.diff(np.append(fractions, 1.0))

    def unpack(self, x: Array) -> tuple[Array, float]:
        nodes = x[: self.count * self.size].reshape(self.count, self.size)
        return nodes, float(x[-1]) if self.phase is not None else self.problem.period

    def _run(self, x: Array, tangents: bool):
        nodes, period = self.unpack(x)
        if not (np.isfinite(x).all() and period > 0):
            raise FlowError(f"The iterate is not usable: period {period}.")
        begins, ends = self.fractions * period, np.append(self.fractions[1:], 1.0) * period
        if self.count == 1:
            run = self.flow.propagate(nodes[0], 0.0, period, self.problem.parameters, tangents)
            jacobian = None if run.jacobian is None else run.jacobian[None]
            sensitivity = None if run.sensitivity is None else run.sensitivity[None]
            return nodes, period, run.state[None], jacobian, sensitivity, run.events
        run = self.flow.propagate_many(nodes, begins, ends, self.problem.parameters, tangents)
        return nodes, period, run.state, run.jacobian, run.sensitivity, tuple(e for part in run.events for e in part)

    def _flatten(self, nodes: Array, arrivals: Array) -> Array:
        gaps = circle_difference(arrivals, np.roll(nodes, -1, axis=0), self.problem.angles)
        tail = [] if self.phase is None else [self.phase.value(nodes)]
        return np.concatenate([gaps.ravel(), tail])

    def residual(self, x: Array) -> Array:
        nodes, _, arrivals, *_ = self._run(x, tangents=False)
        return self._flatten(nodes, arrivals)

    def linearise(self, x: Array) -> LinearisedShooting:
        nodes, period, arrivals, jacobians, sensitivities, events = self._run(x, tangents=True)
        rates = np.zeros_like(arrivals)
        if self.phase is not None:
            rates = self.problem.field.rates(arrivals, np.zeros(self.count), self.problem.parameters)
        residual = self._flatten(nodes, arrivals)
        assert jacobians is not None
        assert sensitivities is not None
        return LinearisedShooting(self, residual, nodes, period, arrivals, jacobians, sensitivities, rates, events)


@dataclass
class LinearisedShooting:
    """Gaps with the propagators (J, n, n) of the segments."""

    equations: ShootingEquations
    residual: Array
    nodes: Array
    period: float
    arrivals: Array
    segments: Array
    sensitivities: Array
    rates: Array
    events: tuple
    _system: CyclicSystem | None = field(default=None, repr=False)

    def _factorised(self) -> CyclicSystem:
        if self._system is None:
            eq = self.equations
            right = np.broadcast_to(-np.eye(eq.size), self.segments.shape)
            if eq.phase is None:
                self._system = CyclicSystem(self.segments, right)
            else:
                columns = (self.rates * eq.shares[:, None])[:, :, None]
                self._system = CyclicSystem(self.segments, right, columns, eq.phase.weights[None], np.zeros((1, 1)))
        return self._system

    def solve(self, residual: Array) -> Array:
        eq = self.equations
        if eq.count == 1:
            return np.asarray(np.linalg.solve(self._dense(), residual), np.float64)
        chain = residual[: eq.count * eq.size].reshape(eq.count, eq.size)
        nodes, tail = self._factorised().solve(chain, residual[eq.count * eq.size :])
        return np.concatenate([nodes.ravel(), tail])

    def _dense(self) -> Array:
        """A single node needs no chain: M - I, bordered by the flow and the phase condition."""
        n = self.equations.size
        matrix = self.segments[0] - np.eye(n)
        if self.equations.phase is None:
            return matrix
        square = np.zeros((n + 1, n + 1))
        square[:n, :n], square[:n, n], square[n, :n] = matrix, self.rates[0], self.equations.phase.weights[0]
        return square

    def sensitivity(self) -> tuple[Array, Array]:
        """Derivatives of the nodes (J, n, k) and the period (k,) by the parameters of the flow.

        With fixed fractions s_j and T(θ): Φ_x δx_j + Φ_θ + (f(end) s_{j+1} - Φ_x f(start) s_j) T_θ = δx_{j+1}.
        """
        eq, problem = self.equations, self.equations.problem
        chain = self.sensitivities.copy()
        given = np.zeros(chain.shape[2])
        if not problem.autonomous:
            given = period_gradient(problem.model, eq.flow.wrt) * (problem.repeats or 1)
            begins, ends = eq.fractions, np.append(eq.fractions[1:], 1.0)
            first = problem.field.rates(self.nodes, begins * self.period, problem.parameters)
            last = problem.field.rates(self.arrivals, ends * self.period, problem.parameters)
            moved = last * ends[:, None] - np.einsum("jpq,jq->jp", self.segments, first) * begins[:, None]
            chain = chain + moved[:, :, None] * given
        nodes, tail = self._factorised().solve(-chain, np.zeros((self._factorised().border, given.size)))
        return nodes, tail[0] if problem.autonomous else given


def _total_winding(nodes: Array, arrivals: Array, angles: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Nodes with angles continuous along the flow, and the turns per period."""
    gaps = circle_difference(np.roll(nodes, -1, axis=0), arrivals, angles)
    steps = arrivals - nodes + gaps
    continuous = nodes[0] + np.vstack([np.zeros(nodes.shape[1]), np.cumsum(steps, axis=0)])
    winding = np.where(angles, np.round((continuous[-1] - continuous[0]) / (2 * np.pi)), 0.0)
    return continuous[:-1], winding


def _solution(problem: Problem, equations: ShootingEquations, result: NewtonResult, notes: tuple[str, ...]) -> Solution:
    nodes, period = equations.unpack(result.x)
    at = result.linearised
    if not isinstance(at, LinearisedShooting):
        loop = FlowLoop(problem.flow, equations.fractions, nodes, period, np.zeros(nodes.shape[1]), problem.parameters)
        segments = np.full((equations.count, nodes.shape[1], nodes.shape[1]), np.nan)
        return Solution(loop, segments, result.status, result, result.message, notes=notes)
    if result.status.ok:
        # The last step moved the nodes: multipliers and sensitivities are taken where it ended.
        at = equations.linearise(result.x)
    continuous, winding = _total_winding(nodes, at.arrivals, problem.angles)
    loop = FlowLoop(problem.flow, equations.fractions, continuous, period, winding, problem.parameters)
    sensitivity = period_sensitivity = None
    if problem.wrt and result.status.ok:
        at_nodes, period_sensitivity = at.sensitivity()
        marks = np.searchsorted(equations.fractions, problem.section_fractions - 1e-12)
        on_nodes = np.abs(equations.fractions[np.minimum(marks, equations.count - 1)] - problem.section_fractions)
        sensitivity = at_nodes[marks] if (on_nodes < 1e-9).all() else at_nodes[:1]
    gaps = circle_difference(at.arrivals, np.roll(nodes, -1, axis=0), problem.angles)
    details = {"gap": float(np.abs(gaps).max()), "events": at.events, "nodes": equations.count}
    return Solution(
        loop, at.segments, result.status, result, result.message, sensitivity, period_sensitivity, notes, details
    )


@dataclass(frozen=True)
class Shooting:
    """One node: x(T; x_0) = x_0 by Newton with tangents. The fast path, whatever the stability, for moderate growth.

    tolerance: of the scaled Newton step. largest_step: limit of a step relative to the size of the orbit.
    """

    tolerance: float = 1e-11
    max_iterations: int = 40
    largest_step: float = float("inf")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        return _shoot(problem, guess, np.zeros(1), self.tolerance, self.max_iterations, self.largest_step)


@dataclass(frozen=True)
class MultipleShooting:
    """Many nodes, so that no segment grows much: for long and strongly unstable orbits, and for poor guesses.

    nodes: how many; None places them where the tangents have grown by `growth` (and at every excitation period).
    """

    nodes: int | None = None
    growth: float = 10.0
    tolerance: float = 1e-11
    max_iterations: int = 40
    largest_step: float = float("inf")

    def __post_init__(self):
        if self.nodes is not None and self.nodes < 1:
            raise KapitzaError(f"MultipleShooting needs at least one node, not {self.nodes}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        fractions = place_nodes(problem, guess, self.growth) if self.nodes is None else even_nodes(problem, self.nodes)
        return _shoot(problem, guess, fractions, self.tolerance, self.max_iterations, self.largest_step)


def even_nodes(problem: Problem, count: int) -> Array:
    """`count` equidistant fractions, the section points among them."""
    return np.unique(np.round(np.concatenate([np.arange(count) / count, problem.section_fractions]), 12))


def place_nodes(problem: Problem, guess: Loop, growth: float) -> Array:
    """Fractions between which the tangents of the guess grow by at most about `growth`."""
    pieces = 16 * (problem.repeats or 1)
    fine = np.arange(pieces) / pieces
    step = guess.period / pieces
    begins = fine * guess.period
    run = problem.flow.propagate_many(
        guess(fine), begins, begins + step, problem.parameters, tangents=True, throw=False
    )
    assert run.jacobian is not None
    safe = np.where(np.isfinite(run.jacobian), run.jacobian, np.eye(len(problem.model.states)))
    stretch = np.maximum(np.log(np.linalg.svd(safe, compute_uv=False)[:, 0]), 1e-3)
    level = np.append(0.0, np.cumsum(stretch)) / np.log(growth)
    marks = np.arange(1, int(np.ceil(level[-1])))
    inner = np.interp(marks * level[-1] / max(np.ceil(level[-1]), 1), level, np.append(fine, 1.0))
    merged = np.unique(np.round(np.concatenate([problem.section_fractions, inner]), 12))
    # A node that falls next to a section point adds a segment and no accuracy.
    wide = np.diff(np.append(merged, 1.0)) > 0.25 / pieces
    section = np.isin(merged, np.round(problem.section_fractions, 12))
    return merged[wide | section]


def _shoot(
    problem: Problem, guess: Loop, fractions: Array, tolerance: float, max_iterations: int, largest_step: float
) -> Solution:
    flow = Flow(problem.model, wrt=problem.wrt) if problem.wrt else problem.flow
    phase = problem.phase.row(guess, problem.field, fractions) if problem.autonomous else None
    equations = ShootingEquations(problem, fractions, phase, flow)
    size = problem.scale(guess)
    start, scale = guess(fractions).ravel(), np.tile(size, fractions.size)
    if problem.autonomous:
        start, scale = np.append(start, guess.period), np.append(scale, guess.period)
    settings = NewtonSettings(tolerance, max_iterations, largest_step=largest_step)
    result = newton(equations, start, settings, scale)
    notes: tuple[str, ...] = ()
    if result.status is Status.CONVERGED and result.message:
        notes = (result.message,)
    return _solution(problem, equations, result, notes)
