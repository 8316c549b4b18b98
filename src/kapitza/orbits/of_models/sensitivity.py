"""Derivatives of multipliers by the parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.orbits import Loop
from kapitza.orbits.of_models.floquet import Monodromy, monodromy
from kapitza.orbits.of_models.problem import Problem, Solution


def multiplier_sensitivity(
    problem: Problem, loop: Loop, floquet: Monodromy, solution: Solution
) -> NDArray[np.complex128]:
    """Return dμ/dθ (n, k) along the orbit family.

    Multipliers are differenced centrally.
    The orbit's own shift dx/dθ and dT/dθ are exact; only the second derivatives of the flow are differenced.
    """
    assert solution.sensitivity is not None
    count, names = problem.section_fractions.size, problem.wrt
    starts = loop(problem.section_fractions)
    result = np.full((floquet.multipliers.size, len(names)), np.nan, complex)
    for column, name in enumerate(names):
        value = problem.model.values[name]
        # The truncation error of central differences is of the order of the squared relative step, 1e-8.
        step = 1e-4 * max(abs(value), 1e-2)
        matrices = []
        for sign in (1.0, -1.0):
            changed = problem.model.with_values(**{name: value + sign * step})
            moved = starts + sign * step * _columns(solution, count)[:, :, column]
            period = loop.period
            if solution.period_sensitivity is not None:
                period = loop.period + sign * step * float(solution.period_sensitivity[column])
            begins = np.arange(count) * period / count
            run = problem.flow.propagate_many(moved, begins, begins + period / count, changed.vector, tangents=True)
            assert run.jacobian is not None
            matrices.append(monodromy(run.jacobian).multipliers)
        result[:, column] = _paired_difference(floquet.multipliers, *matrices) / (2 * step)
    return result


def _columns(solution: Solution, count: int) -> Array:
    assert solution.sensitivity is not None
    if solution.sensitivity.shape[0] == count:
        return solution.sensitivity
    return np.repeat(solution.sensitivity, count, axis=0)


def _paired_difference(centre: NDArray, above: NDArray, below: NDArray) -> NDArray:
    """Return the difference of paired multipliers.

    above - below, each multiplier paired with the nearest one at the centre; NaN where that is not one to one.
    """
    first = np.abs(centre[:, None] - above[None, :]).argmin(axis=1)
    second = np.abs(centre[:, None] - below[None, :]).argmin(axis=1)
    unique = np.array([np.sum(first == first[i]) == 1 and np.sum(second == second[i]) == 1 for i in range(centre.size)])
    return np.where(unique, above[first] - below[second], np.nan)
