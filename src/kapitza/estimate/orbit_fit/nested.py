"""The nested formulation: every orbit is solved at every trial of the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError
from kapitza.estimate.orbit_fit.problem import Block, Problem
from kapitza.estimate.orbit_fit.solver import Iterate, Solution, Solver
from kapitza.orbit import PeriodicOrbit
from kapitza.periodic import solve_orbit
from kapitza.solve import LeastSquaresSettings, gauss_newton

Array = NDArray[np.float64]

CLOSED = 1e-10
"""Largest gap, in units of the spread, of an orbit that counts as solved."""


class NestedFit:
    """min_θ Σ |W r(z(θ), θ)|² where z(θ) solves c(z, θ) = 0; dz/dθ by implicit differentiation.

    method: a periodic solver (Shooting(), Collocation(), …) for the inner problem; None: Newton on all nodes at once.
    """

    def __init__(self, solver: Solver, method: Any = None):
        self.solver, self.problem, self.method = solver, solver.problem, method

    def solve(self, theta: Array, unknowns: list[Array], tolerance: float, max_iterations: int) -> Solution:
        self.unknowns, self.last = unknowns, theta
        self.follow = [np.zeros((z.size, theta.size)) for z in unknowns]
        self.known: dict[int, PeriodicOrbit] = {}
        self.lowest = np.inf
        settings = LeastSquaresSettings(step_tolerance=tolerance, max_iterations=max_iterations)
        found = gauss_newton(self._evaluate, theta, self.solver.low, self.solver.high, settings=settings)
        self._evaluate(found.x)
        now = Iterate(found.x, self.unknowns, self.problem.evaluate(self.unknowns, found.x))
        return self.solver._finish(now, self.solver.reduce(now), found.status)

    def _evaluate(self, theta: Array) -> tuple[Array, Array]:
        unknowns, blocks = self._orbits(theta)
        reduced = self.solver.reduce(Iterate(theta, unknowns, blocks))
        if self.problem.autonomous:
            # The phase of a free motion is not set by its closure: the readings set it.
            for _ in range(2):
                moved = [z + r.shift for z, r in zip(unknowns, reduced, strict=True)]
                unknowns, blocks = close_orbits(self.problem, moved, theta)
                reduced = self.solver.reduce(Iterate(theta, unknowns, blocks))
        self.unknowns, self.last, self.follow = unknowns, theta, [r.follow for r in reduced]
        root = np.sqrt(self.problem.prior_weight)
        residual = np.concatenate([*(r.residual for r in reduced), root * (theta - self.problem.prior_mean)])
        cost = 0.5 * float(residual @ residual)
        if cost < self.lowest:
            # Only steps that lower the cost are accepted: these are the iterations.
            self.lowest = cost
            self.solver.note(0.0, cost, Iterate(theta, unknowns, blocks))
        return residual, np.vstack([*(r.slope for r in reduced), np.diag(root)])

    def _orbits(self, theta: Array) -> tuple[list[Array], list[Block]]:
        """Every orbit at these parameters, from the nearest one known and its slope."""
        near = [z + f @ (theta - self.last) for z, f in zip(self.unknowns, self.follow, strict=True)]
        if self.method is None:
            return close_orbits(self.problem, near, theta)
        near = [self._by_method(i, z, theta) for i, z in enumerate(near)]
        return near, self.problem.evaluate(near, theta)

    def _by_method(self, index: int, z: Array, theta: Array) -> Array:
        target, model = self.problem.targets[index], self.problem.model
        vector = target.vector.copy()
        vector[self.problem.columns] = theta
        setting = model.with_values(**dict(zip(model.names, vector.tolist(), strict=True)))
        nodes = z[: target.nodes.size].reshape(target.nodes.shape)
        period = z[-1] if self.problem.autonomous else target.repeats
        # Nodes are too few for a method that wants a curve: the first time shooting draws one through them.
        near = self.known.get(index)
        if near is None:
            near = solve_orbit(setting, nodes if len(nodes) > 1 else nodes[0], period, throw=False)
        orbit = solve_orbit(setting, near, period, self.method, throw=False)
        if not orbit.status.ok:
            raise FlowError(f"Orbit {target.label}: {orbit.status.value}.")
        self.known[index] = orbit
        states = orbit.details["loop"](target.node_times / orbit.period)
        return np.append(states.ravel(), orbit.period) if self.problem.autonomous else states.ravel()


def close_orbits(
    problem: Problem, unknowns: list[Array], theta: Array, max_iterations: int = 25, throw: bool = True
) -> tuple[list[Array], list[Block]]:
    """Newton on the closure of every orbit at fixed parameters, steps cut at a quarter of the spread."""
    blocks = problem.evaluate(unknowns, theta)
    for _ in range(max_iterations):
        gap = np.array([np.abs(b.gap.reshape(-1, problem.scale.size) / problem.scale).max() for b in blocks])
        if (gap <= CLOSED).all():
            return unknowns, blocks
        moved = []
        for z, block, target in zip(unknowns, blocks, problem.targets, strict=True):
            step = -np.linalg.lstsq(block.gap_by_state, block.gap, rcond=1e-14)[0]
            size = np.abs(step[: target.nodes.size].reshape(-1, problem.scale.size) / problem.scale).max()
            moved.append(z + step * min(1.0, 0.25 / max(float(size), 1e-300)))
        unknowns = moved
        blocks = problem.evaluate(unknowns, theta)
    if throw:
        raise FlowError(f"Not all of the {len(blocks)} orbits close at these parameters.")
    return unknowns, blocks
