"""Nested formulation: every orbit is solved at every trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.estimate.orbit_fit.block import Block
from kapitza.estimate.orbit_fit.matching import SOLVED
from kapitza.estimate.orbit_fit.problem import OrbitProblem
from kapitza.estimate.orbit_fit.solver import OrbitIterate, OrbitSolution, Reduced, Solver, whiten
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import FlowLoop, MultipleShooting, Shooting, loop_of, solve_orbit
from kapitza.solve import LeastSquaresSettings, gauss_newton, slopes_by_differences


class NestedFit:
    """Fit with the orbits solved at every trial.

    min_θ Σ |W r(z(θ), θ)|² where z(θ) solves c(z, θ) = 0; dz/dθ by implicit differentiation.
    method: a periodic solver (Shooting(), Collocation(), …) for the inner problem; None: Newton on all nodes at once.
    For a solver that discretises the equations (Collocation, Differences, HarmonicBalance) of a forced motion,
    samples come from its own curve and slopes from differences of its own curves, so that nothing
    of the flow enters the minimum.
    """

    def __init__(self, solver: Solver, method: Any = None):
        self.solver, self.problem, self.method = solver, solver.problem, method

    def solve(self, theta: Array, unknowns: list[Array]) -> OrbitSolution:
        self.unknowns, self.last = unknowns, theta
        self.follow = [np.zeros((z.size, theta.size)) for z in unknowns]
        self.known: dict[int, PeriodicOrbit] = {}
        self.lowest = np.inf
        settings = LeastSquaresSettings(self.solver.tolerance, max_iterations=self.solver.max_iterations)
        found = gauss_newton(self._evaluate, theta, self.solver.low, self.solver.high, settings=settings)
        # The last trial may have been a rejected one.
        if not np.array_equal(self.last, found.x):
            self._evaluate(found.x)
        now = OrbitIterate(found.x, self.unknowns, self.problem.evaluate(self.unknowns, found.x))
        if not self.discretised:
            return self.solver._finish(now, self.solver.reduce(now), found.status)
        own = [replace(b, residual=r, gap=np.zeros_like(b.gap)) for b, r in zip(now.blocks, self.readings, strict=True)]
        return self.solver._finish(replace(now, blocks=own), self.own, found.status)

    @property
    def discretised(self) -> bool:
        plain = isinstance(self.method, Shooting | MultipleShooting)
        return self.method is not None and not plain and not self.problem.autonomous and self.solver.extra is None

    def _evaluate(self, theta: Array) -> tuple[Array, Array]:
        unknowns, blocks = self._orbits(theta)
        reduced = self._by_own_curves(theta) if self.discretised else self.solver.reduce(
            OrbitIterate(theta, unknowns, blocks)
        )  # fmt: skip
        if self.problem.autonomous:
            # The closure leaves the phase of a free motion open: the samples determine it.
            for _ in range(2):
                moved = [z + r.shift for z, r in zip(unknowns, reduced, strict=True)]
                unknowns, blocks = close_orbits(self.problem, moved, theta)
                reduced = self.solver.reduce(OrbitIterate(theta, unknowns, blocks))
        self.unknowns, self.last, self.follow = unknowns, theta, [r.follow for r in reduced]
        root = np.sqrt(self.problem.priors.weight)
        residual = np.concatenate([*(r.residual for r in reduced), root * (theta - self.problem.priors.mean)])
        cost = 0.5 * float(residual @ residual)
        if cost < self.lowest:
            # Only accepted steps lower the cost, and only these count as iterations.
            self.lowest = cost
            self.solver.note(0.0, cost, OrbitIterate(theta, unknowns, blocks))
        return residual, np.vstack([*(r.slope for r in reduced), np.diag(root)])

    def _orbits(self, theta: Array) -> tuple[list[Array], list[Block]]:
        """Solve every orbit at these parameters.

        Each starts from the nearest solution known and its slope.
        """
        near = [z + f @ (theta - self.last) for z, f in zip(self.unknowns, self.follow, strict=True)]
        if self.method is None:
            return close_orbits(self.problem, near, theta)
        near = [self._by_method(i, z, theta) for i, z in enumerate(near)]
        return near, self.problem.evaluate(near, theta)

    def _by_own_curves(self, theta: Array) -> list[Reduced]:
        """Return residuals and slopes from the method's own curves.

        Slopes are central differences.
        """
        here = [self.known[i] for i in range(len(self.problem.targets))]
        parts = self._read(here, theta)
        self.readings = parts[: len(here)]

        def moved(trial: Array) -> Array:
            return np.concatenate(self._read([self._solved(i, orbit, trial) for i, orbit in enumerate(here)], trial))

        # Large enough for the tolerance of the periodic solver, whose error would be divided by the step.
        steps = 1e-4 * np.maximum(np.abs(theta), np.maximum(1e-3 * self.solver.typical, 1e-12))
        slopes = np.split(slopes_by_differences(moved, theta, steps), np.cumsum([p.size for p in parts])[:-1])
        self.own = [
            Reduced(whiten(w, r), whiten(w, s), np.zeros(len(f)), f)
            for w, r, s, f in zip(
                self.solver.weights, self.readings, slopes[: len(here)], slopes[len(here) :], strict=True
            )
        ]
        return self.own

    def _read(self, orbits: list[PeriodicOrbit], theta: Array) -> list[Array]:
        """Return residuals and node states of these orbits.

        They are evaluated on the curves of the orbits.
        """
        curves = [_curve(orbit) for orbit in orbits]
        nodes = [c(t.node_times).ravel() for c, t in zip(curves, self.problem.targets, strict=True)]
        return [*self.problem.read_along(curves, theta), *nodes]

    def _setting(self, index: int, theta: Array) -> Model:
        vector, model = self.problem.targets[index].vector.copy(), self.problem.model
        vector[self.problem.columns] = theta
        return model.with_values(**dict(zip(model.names, vector.tolist(), strict=True)))

    def _solved(self, index: int, near: object, theta: Array, period: float | None = None) -> PeriodicOrbit:
        target = self.problem.targets[index]
        wanted = target.repeats if period is None else period
        orbit = solve_orbit(self._setting(index, theta), near, wanted, self.method, throw=False)
        if not orbit.status.ok:
            raise FlowError(f"orbit {target.label} by {orbit.method}: {orbit.status.value}")
        return orbit

    def _by_method(self, index: int, z: Array, theta: Array) -> Array:
        target, setting = self.problem.targets[index], self._setting(index, theta)
        nodes = z[: target.nodes.size].reshape(target.nodes.shape)
        period = z[-1] if self.problem.autonomous else target.repeats
        # A few nodes are not a curve, which the method needs as a guess: the first time shooting computes one.
        near = self.known.get(index)
        if near is None and self.problem.autonomous and not any(setting.angles):
            # Interpolation of few nodes is poor for an unstable free motion; trajectories between them are not.
            flow, fractions = self.problem.flow, target.node_times / target.period
            near = FlowLoop(flow, fractions, nodes, float(z[-1]), setting.vector, np.zeros(len(setting.states)))
        elif near is None:
            near = solve_orbit(setting, nodes if len(nodes) > 1 else nodes[0], period, throw=False)
        orbit = self.known[index] = self._solved(index, near, theta, period)
        states = loop_of(orbit)(target.node_times / orbit.period)
        return np.append(states.ravel(), orbit.period) if self.problem.autonomous else states.ravel()


def _curve(orbit: PeriodicOrbit) -> Callable[[Array], Array]:
    """Return the closed curve of a periodic solver.

    It is a function of the times.
    """
    loop = loop_of(orbit)
    return lambda times: loop(times / orbit.period)


def close_orbits(
    problem: OrbitProblem, unknowns: list[Array], theta: Array, max_iterations: int = 25
) -> tuple[list[Array], list[Block]]:
    """Close every orbit by Newton's method at fixed parameters.

    Steps are cut at a quarter of the spread.
    """
    blocks = problem.evaluate(unknowns, theta)
    for _ in range(max_iterations):
        if all(problem.gaps(b).max() <= SOLVED for b in blocks):
            return unknowns, blocks
        moved = []
        for z, block, target in zip(unknowns, blocks, problem.targets, strict=True):
            step = block.closing_step()
            size = np.abs(step[: target.nodes.size].reshape(-1, problem.scale.size) / problem.scale).max()
            # Far from closure a full Newton step may leave the neighbourhood of the orbit.
            moved.append(z + step * min(1.0, 0.25 / max(float(size), 1e-300)))
        unknowns = moved
        blocks = problem.evaluate(unknowns, theta)
    raise FlowError(f"Not all of the {len(blocks)} orbits close at these parameters.")
