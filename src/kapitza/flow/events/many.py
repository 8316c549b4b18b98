"""Many switches on their surfaces at once.

All joints of a linkage at rest are an example. The module finds which stick and which slip.

With modes m in [-1, 1] between the sides, the rates of the switching functions are ds/dt = q + A m where the right-hand
side is linear in the modes. Sought are m with ds/dt = 0 where |m| < 1 (stick), and m = ±1 with m ds/dt ≥ 0 where not: a
linear complementarity problem with limits. Trying all 3^k answers is for few; here single switches change their answer
until none contradicts itself, as in principal pivoting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.flow.events.geometry import Geometry

REGULAR = 1e-10
"""Smallest eigenvalue of the symmetric part, relative to the largest entry, from which on a matrix is definite."""

ROUNDS_PER_SWITCH = 8
"""Of the pivoting rule, at most."""


def likely_modes(
    geometry: Geometry,
    state: Array,
    t: float,
    parameters: Array,
    modes: Array,
    open_: Sequence[int],
    unique: bool = False,
) -> Array | None:
    """Return the modes (k,) of the open switches.

    ±1 where they slip, 0 where they stick; None when no answer was found.

    unique: also None when there may be others.
    """
    chosen = list(open_)

    def field(values: Array) -> Array:
        trial = modes.copy()
        trial[chosen] = values
        return geometry.rates(geometry.point(state, t, parameters, trial))

    size = len(chosen)
    above = field(np.ones(size))
    # The field is linear in the modes: half of its jump by each mode is its slope.
    halves = np.array([(above - field(1.0 - 2.0 * np.eye(size)[k])) / 2 for k in range(size)])
    mean = above - halves.sum(axis=0)
    table = geometry.of_switches(geometry.point(state, t, parameters, modes))
    rows, drift = table.by_state[chosen], table.by_time[chosen]
    gain, free = rows @ halves.T, rows @ mean + drift
    return None if unique and not has_positive_minors(-gain) else complementary(gain, free)


def has_positive_minors(matrix: Array) -> bool:
    """Return whether the matrix is a P-matrix.

    Sliding and contact at once then have exactly one answer.
    """
    if not np.isfinite(matrix).all() or not (np.diag(matrix) > 0).all():
        return False
    if len(matrix) == 1:
        return True
    # With ones on the diagonal, minors have no units: a value above rounding is positive. Surfaces that depend on each
    # other, as x', y' and x' - y', have a minor of zero.
    roots = np.sqrt(np.diag(matrix))
    scaled = matrix / np.outer(roots, roots)
    if np.linalg.eigvalsh(scaled + scaled.T)[0] > REGULAR * np.abs(scaled).max():
        return True
    indices = range(len(scaled))
    subsets = chain.from_iterable(combinations(indices, size) for size in range(2, len(scaled) + 1))
    return all(np.linalg.det(scaled[np.ix_(chosen, chosen)]) > REGULAR for chosen in map(list, subsets))


def complementary(gain: Array, free: Array) -> Array | None:
    """Solve the linear complementarity problem.

    free + gain m = 0 where m is stuck (0 in the answer), and of one sign with m = ±1 where it is not.
    """
    size = len(free)
    answer = np.zeros(size)
    for round_ in range(ROUNDS_PER_SWITCH * size):
        stuck = answer == 0
        control = answer.copy()
        if stuck.any():
            inner = gain[np.ix_(stuck, stuck)]
            # Surfaces that depend on each other have no unique control.
            if np.linalg.matrix_rank(inner) < stuck.sum():
                return None
            control[stuck] = np.linalg.solve(inner, -(free + gain @ answer)[stuck])
        rates = free + gain @ control
        excess = np.where(stuck, np.abs(control) - 1.0, -answer * rates / np.maximum(np.abs(np.diag(gain)), 1e-300))
        wrong = np.flatnonzero(excess > 1e-12)
        if not wrong.size:
            return answer
        # All at once is quick; one at a time, the last one first, cannot go round in circles.
        change = wrong if round_ < size else wrong[-1:]
        answer[change] = np.where(stuck[change], np.sign(control[change]), 0.0)
    return None
