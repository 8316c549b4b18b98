"""Orthogonal collocation with an adaptive mesh.

Switching times are unknowns.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.argument_checks import Count, Positive
from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError, Status
from kapitza.orbits import Loop, SolverReport
from kapitza.orbits.of_models.elements import CollocationEquations, Layout, LinearisedElements, Unknowns
from kapitza.orbits.of_models.field import period_gradient
from kapitza.orbits.of_models.gauss import gauss_rule, integrated_basis
from kapitza.orbits.of_models.loop import PiecewiseLoop
from kapitza.orbits.of_models.problem import Problem, Solution
from kapitza.orbits.of_models.sequence import Arcs, distribute, even_mesh, find_arcs, flow_through, lay_out
from kapitza.solve import NewtonSettings, newton


@dataclass(frozen=True)
class Collocation:
    """Solve by polynomials, exact at Gauss points.

    The equations hold at the Gauss points of each mesh element.

    degree: m = 2 … 7 points per element; the error is O(h^(m+1)) between the nodes and O(h^2m) at them.
    elements: first mesh, per excitation period. tolerance: of the section points, relative to the orbit, estimated by
    the change from one mesh to a finer one; adapt=False keeps the first mesh (equidistant in each arc).
    max_elements: per excitation period, where refining ends; max_iterations: of Newton on each mesh.
    Jumps in the equations and impacts become nodes whose times are unknowns; the sequence of events is checked after
    each solution and corrected where the orbit has come to touch a surface or has left it.

    Examples
    --------
    >>> import kapitza as kz
    >>> bool(kz.solve_orbit(kz.library.duffing(), method=kz.Collocation()).closure < 1e-8)
    True
    """

    degree: int = 4
    elements: int = 20
    tolerance: Positive = 1e-11
    adapt: bool = True
    max_elements: Count = 4000
    max_iterations: Count = 60

    def __post_init__(self):
        if not 2 <= self.degree <= 7:
            raise KapitzaError(f"Collocation takes a degree from 2 to 7, not {self.degree}.")
        if self.elements < 2:
            raise KapitzaError(f"Collocation needs at least 2 elements, not {self.elements}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        wanted = self.elements * (problem.repeats or 1)
        if not self.adapt:
            even = even_mesh(problem, find_arcs(problem, guess), wanted)
            return self._finish(self._on_mesh(problem, guess, even), float("nan"))
        state = self._first(problem, guess, wanted)
        change = float("inf")
        while state.result.status.ok:
            # The change from one mesh to a finer one estimates the error, so every refinement adds elements.
            wanted = int(1.6 * state.layout.arc.size)
            if wanted > self.max_elements:
                break
            arcs = Arcs(state.unknowns.boundaries, state.layout.crossings, state.layout.modes)
            refined = self._on_mesh(problem, state.loop, distribute(problem, arcs, state.density(), wanted))
            if not refined.result.status.ok:
                break
            points = problem.section_fractions
            change = float((np.abs(refined.loop(points) - state.loop(points)) / problem.scale(refined.loop)).max())
            change = max(change, abs(refined.loop.period / state.loop.period - 1))
            state = refined
            if change <= self.tolerance:
                break
        resolved = not state.result.status.ok or change <= 1e3 * self.tolerance
        return self._finish(state, change, resolved)

    def _first(self, problem: Problem, guess: Loop, wanted: int) -> _State:
        """Solve on a first mesh.

        Without kinks as nodes where there are any, then with them.
        """
        arcs = find_arcs(problem, guess, kinks=False)
        state = self._on_mesh(problem, guess, lay_out(problem, arcs, guess, wanted, self.degree), kinks=False)
        if not state.result.status.ok or not any(s.continuous for s in problem.field.switches):
            return state
        arcs = find_arcs(problem, state.loop)
        return self._on_mesh(problem, state.loop, lay_out(problem, arcs, state.loop, wanted, self.degree))

    def _on_mesh(self, problem: Problem, guess: Loop, layout: Layout, kinks: bool = True) -> _State:
        """Solve on one mesh with a consistent event sequence.

        The event sequence is changed until it agrees with the solution.
        """
        settings = NewtonSettings(1e-11, self.max_iterations, reuse=True)
        state, flown = _State(problem, self.degree, layout, guess), False
        for _ in range(12):
            state.run(settings)
            if not (problem.field.switches or problem.model.impacts) or not state.contradiction():
                return state
            touch = state.touching(not flown)
            if touch and not state.result.status.ok:
                state.result = replace(state.result, status=Status.GRAZING, message=touch)
                return state
            loop: Loop = state.loop
            arcs = find_arcs(problem, loop, kinks)
            same = arcs.crossings == state.layout.crossings and np.array_equal(arcs.modes, state.layout.modes, True)
            if same and not state.result.status.ok:
                if flown:
                    return state
                # An event may have left through t = 0: the flow from the section points knows the sequence.
                loop, flown = flow_through(problem, loop), True
                arcs = find_arcs(problem, loop, kinks)
            layout = lay_out(problem, arcs, loop, state.layout.arc.size, self.degree)
            state = _State(problem, self.degree, layout, loop)
        message = "The sequence of events does not settle: the orbit grazes a surface."
        state.result = replace(state.result, status=Status.GRAZING, message=message)
        return state

    def _finish(self, state: _State, change: float, resolved: bool = True) -> Solution:
        problem, result = state.problem, state.result
        status, message = result.status, result.message
        if status.ok and not resolved:
            status = Status.UNRESOLVED
            message = f"{state.layout.arc.size} elements still change the orbit by {change:.1e}."
        at = result.linearised
        n = len(problem.model.states)
        if not isinstance(at, LinearisedElements):
            return Solution(state.loop, status, result, np.full((1, n, n), np.nan), message)
        # The last Newton step moved the unknowns: propagators are taken at the solution.
        at = state.equations.linearise(result.x)
        sensitivity = period_sensitivity = None
        if problem.wrt and status.ok:
            sensitivity, period_sensitivity = state.sensitivity(at)
        report = SolverReport(
            state.layout.arc.size,
            result.history,
            change=change,
            switching_times=state.unknowns.boundaries[[i for i, _ in state.layout.events]],
            stiff=state.contraction_per_element() > 3.0,
        )
        return Solution(state.loop, status, result, at.segments(), message, sensitivity, period_sensitivity, (), report)


def element_defects(equations: CollocationEquations, u: Unknowns, size: Array) -> tuple[Array, Array]:
    """Return the defect and length of each element.

    The defect (J,) is that of the equations at the end of each element, h |K - f| over the sizes (n,); the lengths are
    (J,).
    """
    start, length = equations.layout.times(u.boundaries)
    modes = equations.layout.modes[equations.layout.arc] if equations.field.switches else None
    exact = equations.field.rates(equations.ends(u), start + length * (1 - 1e-12), equations.values(u), modes)
    drawn = np.einsum("i,jin->jn", equations.rule.ends, u.slopes)
    return np.abs((drawn - exact) / size).max(axis=1) * length, length


def mesh_density(equations: CollocationEquations, defect: Array, length: Array) -> list[tuple[Array, Array]]:
    """Return the mesh density of each arc.

    Each arc has the edges of its elements as fractions, and defect^(1/(m+1)) per length in each.
    """
    layout = equations.layout
    need = (defect + 1e-16) ** (1 / (equations.rule.degree + 1)) / length
    # No element may become much longer than the average, where the defect is zero by chance.
    need = np.maximum(need, 0.05 * (need * length).sum() / length.sum())
    result = []
    for i in range(layout.boundaries.size - 1):
        members = np.flatnonzero(layout.arc == i)
        result.append((np.append(layout.low[members], 1.0), need[members]))
    return result


class _State:
    """One mesh with equations, iterate and loop."""

    def __init__(self, problem: Problem, degree: int, layout: Layout, guess: Loop):
        self.problem, self.layout = problem, layout
        rule = gauss_rule(degree)
        start, length = layout.times(layout.boundaries)
        period = layout.boundaries[-1]
        fractions = start / period
        phase = problem.phase.row(guess, problem.field, fractions) if problem.autonomous else None
        self.equations = CollocationEquations(problem.field, layout, rule, guess.winding, problem.parameters, phase)
        # Just inside each element, so that a jump of the guess at its start is on the right side.
        nodes = guess(np.minimum(fractions + 1e-9 * length / period, 1.0))
        stages = guess(((start[:, None] + length[:, None] * rule.points) / period).ravel())
        times = (start[:, None] + length[:, None] * rule.points).ravel()
        modes = np.repeat(layout.modes[layout.arc], degree, axis=0) if problem.field.switches else None
        slopes = problem.field.rates(stages, times, problem.parameters, modes).reshape(-1, degree, nodes.shape[1])
        self.unknowns = Unknowns(nodes, slopes, layout.boundaries)
        size = problem.scale(guess)
        steep = np.maximum(np.abs(slopes).max(axis=(0, 1)), 2 * np.pi * size / period)
        self.scale = np.concatenate(
            [
                np.tile(size, nodes.shape[0]),
                np.tile(steep, nodes.shape[0] * degree),
                np.full(layout.unknown.size, period),
            ]
        )

    def run(self, settings: NewtonSettings) -> None:
        self.result = newton(self.equations, self.equations.pack(self.unknowns), settings, self.scale)
        x = self.result.x
        self.unknowns = self.equations.unpack(x)

    @property
    def loop(self) -> PiecewiseLoop:
        u, degree = self.unknowns, self.equations.rule.degree
        start, length = self.layout.times(u.boundaries)
        period = float(u.boundaries[-1])
        knots, basis = integrated_basis(degree, degree + 1)
        values = u.nodes[:, None, :] + length[:, None, None] * np.einsum("kl,jln->jkn", basis, u.slopes)
        return PiecewiseLoop(np.append(start, period) / period, knots, values, period, self.equations.winding)

    def density(self) -> list[tuple[Array, Array]]:
        """Return where elements are needed, per arc."""
        defect, length = element_defects(self.equations, self.unknowns, self.problem.scale(self.loop))
        return mesh_density(self.equations, defect, length)

    def contradiction(self) -> str:
        """Return why the event sequence is wrong, or ''."""
        if not self.result.status.ok:
            return self.result.status.value
        states, times, _ = self.equations.stages(self.unknowns)
        field, parameters = self.problem.field, self.problem.parameters
        given = np.repeat(self.layout.modes[self.layout.arc], self.equations.rule.degree, axis=0)
        for i, switch in enumerate(field.switches):
            value = field.surface(i, states, times, parameters).value
            # A stage next to an event may be on the wrong side by rounding.
            slack = 1e-9 * (np.abs(value).max() + 1e-3)
            if (given[:, i] * value < -slack).any():
                return f"{switch.function} has the wrong sign on an arc"
        for i, wall in enumerate(self.problem.model.structure.impacts):
            value = field.surface(len(field.switches) + i, states, times, parameters).value
            if (value < -1e-9 * (np.abs(value).max() + 1e-3)).any():
                return f"{wall.name or wall.surface} is penetrated"
        return ""

    def contraction_per_element(self) -> float:
        """Return the largest |trace|·h.

        Far above 1 the fastest decay is not resolved.
        """
        states, times, length = self.equations.stages(self.unknowns)
        degree = self.equations.rule.degree
        modes = np.repeat(self.layout.modes[self.layout.arc], degree, axis=0) if self.problem.field.switches else None
        trace = self.problem.field.trace(states, times, self.problem.parameters, modes)
        return float((np.abs(trace).reshape(-1, degree).max(axis=1) * length).max())

    def touching(self, inside: bool) -> str:
        """Report a grazing contact, if any.

        A sentence when two crossings of one surface have nearly met: the orbit only touches it.
        inside: leave out those near t = 0 and t = T, through which an event may be on its way out.
        """
        events, boundaries = self.layout.events, self.unknowns.boundaries
        margin = 0.01 * boundaries[-1] if inside else 0.0
        for (first, one), (second, other) in itertools.pairwise(events):
            apart = boundaries[second] - boundaries[first]
            within = margin <= boundaries[first] and boundaries[second] <= boundaries[-1] - margin
            if within and one.surface == other.surface and apart < 1e-3 * boundaries[-1]:
                when = f"t = {boundaries[first]:.6g} s"
                return f"The orbit grazes surface {one.surface} at {when}: it touches without crossing."
        return ""

    def sensitivity(self, at: LinearisedElements) -> tuple[Array, Array]:
        """Return derivatives of section points and period.

        The derivatives by the parameters are (p, n, k) and (k,) (PERIODIC 5.9).
        """
        problem, names = self.problem, self.problem.wrt
        count = problem.repeats or 1
        slope = np.zeros(len(names)) if problem.autonomous else count * period_gradient(problem.model, names)
        given = np.zeros((self.layout.boundaries.size, len(names)))
        marks = np.append(problem.section_fractions, 1.0)
        fractions = self.unknowns.boundaries / self.unknowns.boundaries[-1]
        for mark in marks:
            given[np.argmin(np.abs(fractions - mark))] = mark * slope
        nodes, boundaries = at.sensitivity(given)
        starts = self.layout.times(self.unknowns.boundaries)[0] / self.unknowns.boundaries[-1]
        rows = [int(np.argmin(np.abs(starts - mark))) for mark in problem.section_fractions]
        return nodes[rows], boundaries[-1]
