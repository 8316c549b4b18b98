"""Low-level orbit solver for sweeps.

It solves many orbits of one compiled model, without checks around them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import Status
from kapitza.flow import Parameters, parameter_vector
from kapitza.model import Model
from kapitza.orbits.of_models.field import VectorField
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.orbits.of_models.problem import Problem, pose
from kapitza.orbits.of_models.shooting import LinearisedShooting, ShootingEquations
from kapitza.solve import NewtonSettings, eigenvalues, newton


@dataclass(frozen=True)
class ClosedOrbit:
    """Result of the low-level solver.

    point (n,), monodromy (n, n) and multipliers (n,) belong to the orbit; gap is |x(T) - x(0)|, status is how Newton
    ended.
    """

    point: Array
    period: float
    monodromy: Array
    multipliers: NDArray[np.complex128]
    gap: float
    status: Status
    iterations: int


class OrbitSolver:
    """Single shooting with compiled, reusable parts.

    Use `solve_orbit` unless you sweep.
    model: gives the structure and default values; period: excitation periods, or an approximate time when autonomous.
    Parameters are values of the call: a sweep compiles once.
    """

    def __init__(self, model: Model, period: float = 1, tolerance: float = 1e-11, max_iterations: int = 30):
        self.problem: Problem = pose(model, None, period, None, ())
        self.settings = NewtonSettings(tolerance, max_iterations)
        self._flow, self._field = self.problem.flow, VectorField(model)
        self._start = np.zeros(1)

    def solve(self, point: Array, period: float | None = None, parameters: Parameters = None) -> ClosedOrbit:
        """Solve for the orbit near `point` (n,).

        period: a guess for autonomous models.
        parameters: None (those of the model), a mapping of changes, or a vector in the order of `model.names`.
        """
        point = np.asarray(point, float)
        problem, phase = self._posed(parameters), None
        scale = problem.sizes_at(point)
        start = point
        if problem.autonomous:
            direction = self._field.rates(point[None], self._start, problem.parameters)
            # The phase condition holds the point in the plane across the flow.
            direction = direction / np.linalg.norm(direction)
            phase = PhaseRow(direction, float(direction[0] @ point))
            start = np.append(point, problem.period if period is None else period)
            scale = np.append(scale, start[-1])
        equations = ShootingEquations(problem, self._start, phase, self._flow)
        result = newton(equations, start, self.settings, scale)
        nodes, length = equations.unpack(result.x)
        size = point.size
        at = result.linearised
        if not isinstance(at, LinearisedShooting):
            nothing = np.full((size, size), np.nan)
            return ClosedOrbit(nodes[0], length, nothing, nothing[0].astype(complex), np.inf, result.status, 0)
        # The last Newton step is below the tolerance: the Jacobian before it serves.
        matrix = at.segments[0]
        gap = float(np.abs(at.residual[:size]).max())
        return ClosedOrbit(nodes[0], length, matrix, eigenvalues(matrix), gap, result.status, result.iterations)

    def _posed(self, parameters: Parameters) -> Problem:
        if parameters is None:
            return self.problem
        vector = parameter_vector(self.problem.model, parameters)
        period = self.problem.period
        if not self.problem.autonomous:
            period = (self.problem.repeats or 1) * float(self._flow.period(vector) or period)
        return self.problem.at(vector, period)
