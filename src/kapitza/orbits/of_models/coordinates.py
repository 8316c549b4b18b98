"""Equations of the coordinates at sampled times.

u'' = f or u' = f, for methods whose unknowns are the coordinates alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.orbits import Loop
from kapitza.orbits.of_models.field import period_gradient
from kapitza.orbits.of_models.gauss import gauss_rule
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.orbits.of_models.problem import Problem


@dataclass(frozen=True)
class CoordinateRates:
    """Residual and its derivatives at N times.

    residual: (N, c). Derivatives: by u (N, c, c), by u' (N, c, c), by T (N, c), by θ (N, c, k).
    """

    residual: Array
    by_position: Array
    by_rate: Array
    by_period: Array
    by_parameter: Array


class CoordinateForm:
    """Residuals of the coordinates at fractions s (N,).

    They are r_i = u_i'' - f_i (second-order coordinates) or u_i' - f_i (first-order).
    Derivatives by time are those by s over T: u' = U_s/T, u'' = U_ss/T².
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        coordinates = problem.model.coordinates
        self.count = len(coordinates)
        self.second = np.array([c.order == 2 for c in coordinates])
        # Row of the state whose rate is the equation of coordinate i.
        place = np.cumsum(self.second) - 1
        self.rows = np.where(self.second, self.count + place, np.arange(self.count))

    def states(self, u: Array, slope: Array, period: float) -> Array:
        """Return states (N, n) from coordinates and slopes."""
        return np.concatenate([u, slope[:, self.second] / period], axis=1)

    def residual(self, fractions: Array, u: Array, slope: Array, curve: Array, period: float) -> Array:
        states = self.states(u, slope, period)
        rates = self.problem.field.rates(states, fractions * period, self.problem.parameters)[:, self.rows]
        return np.where(self.second, curve / period**2, slope / period) - rates

    def linearised(self, fractions: Array, u: Array, slope: Array, curve: Array, period: float) -> CoordinateRates:
        """Return the residual with derivatives.

        The derivatives of u'' and u' themselves are left to the method.
        """
        states = self.states(u, slope, period)
        rates = self.problem.field.derivatives(states, fractions * period, self.problem.parameters)
        residual = np.where(self.second, curve / period**2, slope / period) - rates.rates[:, self.rows]
        by_state = rates.by_state[:, self.rows]
        by_rate = np.zeros((u.shape[0], self.count, self.count))
        by_rate[:, :, self.second] = by_state[:, :, self.count :]
        moved = np.where(self.second, -2 * curve / period**3, -slope / period**2)
        by_period = moved + np.einsum("qij,qj->qi", by_rate, slope) / period**2
        by_period -= rates.by_time[:, self.rows] * fractions[:, None]
        return CoordinateRates(
            residual, by_state[:, :, : self.count], by_rate, by_period, rates.by_parameter[:, self.rows]
        )

    def phase(self, reference: Loop, fractions: Array) -> PhaseRow | None:
        """Return the phase condition on the coordinates.

        It is the part of the problem's phase condition that concerns them, or None for forced models.
        """
        problem = self.problem
        if not problem.autonomous:
            return None
        row = problem.phase.row(reference, problem.field, fractions)
        rates_part = float((row.weights[:, self.count :] * reference(fractions)[:, self.count :]).sum())
        weights = row.weights[:, : self.count]
        return PhaseRow(weights, row.target - rates_part)

    def period_slope(self) -> Array:
        """Return dT/dθ (k,) of a given period."""
        return period_gradient(self.problem.model, self.problem.wrt) * (self.problem.repeats or 1)


def tangent_segments(problem: Problem, loop: Loop, elements: int, degree: int = 5) -> Array:
    """Return propagators (J, n, n) along a loop.

    The linearised equations are solved by Gauss collocation on equal elements.
    """
    rule = gauss_rule(degree)
    n, length = len(problem.model.states), loop.period / elements
    fractions = ((np.arange(elements)[:, None] + rule.points) / elements).ravel()
    states = loop(fractions)
    by_state = problem.field.derivatives(states, fractions * loop.period, problem.parameters).by_state
    by_state = by_state.reshape(elements, degree, n, n)
    matrix = -length * np.einsum("il,jipq->jiplq", rule.matrix, by_state).reshape(elements, degree * n, degree * n)
    # K - h a f_x K = f_x for the slopes K of all stages at once.
    matrix += np.eye(degree * n)
    slopes = np.linalg.solve(matrix, by_state.reshape(elements, degree * n, n)).reshape(elements, degree, n, n)
    return np.eye(n) + length * np.einsum("i,jipq->jpq", rule.weights, slopes)
