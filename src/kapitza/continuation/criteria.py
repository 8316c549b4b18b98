"""Test functions: scalars along a branch that vanish where it changes character."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.motion import OrbitFamily, sequence_of
from kapitza.continuation.nouns import Kind
from kapitza.continuation.path import Node
from kapitza.solve import DenseSolver

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

REAL = 1e-7
"""A pair of multipliers whose imaginary part is below this is a neutral saddle, not a torus."""


CONDENSED = 1e6
"""Growth along an orbit beyond which inner nodes are not eliminated from determinants: rounding would change signs."""


@dataclass(frozen=True)
class Readings:
    """The test functions at one node.

    fold: component of the unit tangent along the parameter; doubling: Π(μ + 1), torus: Π_{i<j}(μ_i μ_j - 1) without the
    trivial multiplier, each over its own size; branch: determinant of the Jacobian bordered by the tangent.
    sequence: the events on the way, as a word that does not depend on where the section is; speed: the smallest normal
    speed with which a surface is crossed or hit (NaN without), relative to the largest along the orbit.
    """

    fold: float
    doubling: float
    torus: float
    branch: float
    multipliers: Complex
    sequence: str = ""
    speed: float = float("nan")


def readings(node: Node) -> Readings:
    """The test functions, computed once per node."""
    known = node.extras.get("readings")
    if known is None:
        known = node.extras["readings"] = node.family.readings(node)
    return known


def orbit_readings(node: Node) -> Readings:
    """Those of a periodic orbit."""
    family, at = node.family, node.at
    multipliers = family.multipliers(at)
    rest = without_trivial(multipliers) if family.autonomous else multipliers
    events = tuple(at.events)
    return Readings(
        fold=float(node.tangent[-1] / family.scale[-1]),
        doubling=doubling_function(rest),
        torus=torus_function(rest),
        branch=border_determinant(node),
        multipliers=multipliers,
        sequence=canonical(sequence_of(events)) if events else "",
        speed=smallest_speed(family, at) if events else float("nan"),
    )


def several_pairs(before: Readings, after: Readings) -> list[tuple[Kind, Callable[[Readings], float], int]]:
    """Tests for pairs that cross the circle within one step, so that the product over pairs keeps its sign."""
    counts = [int((np.abs(r.multipliers) > 1 + REAL).sum()) for r in (before, after)]
    if abs(counts[1] - counts[0]) < 4:
        return []
    pairs = [upper_pairs(r.multipliers) for r in (before, after)]
    ahead = [int((np.abs(p) > 1 + REAL).sum()) for p in pairs]
    if pairs[0].size != pairs[1].size:
        return []
    return [(Kind.NEIMARK_SACKER, _beyond_circle(rank), rank) for rank in range(min(ahead), max(ahead))]


def upper_pairs(multipliers: Complex) -> Complex:
    """Multipliers of the upper half plane, largest first."""
    upper = multipliers[multipliers.imag > REAL]
    return upper[np.argsort(-np.abs(upper), kind="stable")]


def _beyond_circle(rank: int) -> Callable[[Readings], float]:
    return lambda r: float(abs(upper_pairs(r.multipliers)[rank]) - 1)


def without_trivial(multipliers: Complex) -> Complex:
    """The multipliers of an autonomous orbit without the one nearest to 1."""
    return np.delete(multipliers, int(np.argmin(np.abs(multipliers - 1))))


def doubling_function(multipliers: Complex) -> float:
    # A handful of numbers at every point of a branch: array operations would take longer.
    result = 1.0 + 0j
    for value in multipliers.tolist():
        result *= (1 + value) / (1 + abs(value))
    return result.real


def torus_function(multipliers: Complex) -> float:
    result = 1.0 + 0j
    for first, second in combinations(multipliers.tolist(), 2):
        product = first * second
        result *= (product - 1) / (1 + abs(product))
    return result.real


def border_determinant(node: Node) -> float:
    """det [J; tangent], up to a positive factor: it vanishes at branch points and not at folds."""
    family, solver = node.family, node.solver
    if isinstance(solver, DenseSolver):
        # By Cramer's rule the border counts by its product with the tangent, and in no other way.
        row = solver.matrix[-1]
        return solver.determinant / float(row @ node.tangent)
    if isinstance(family, OrbitFamily) and family.total_growth(node.at) > CONDENSED:
        tangent, matrix = node.tangent, family.full(node.at)
    else:
        tangent, matrix = family.condensed_tangent(node.tangent), family.condensed(node.at)
    sign, size = np.linalg.slogdet(np.vstack([matrix, tangent]))
    return float(sign * np.exp(min(size, 700.0)) / (tangent @ tangent))


def canonical(word: str) -> str:
    """The rotation of a cyclic word that comes first in the alphabet: the same for every section."""
    letters = word.split()
    return min((" ".join(letters[k:] + letters[:k]) for k in range(len(letters))), default="")


def smallest_speed(family: Any, at: Any) -> float:
    """The smallest |ds/dt| at a crossing or an impact, over the largest: 0 where the orbit grazes."""
    field = family.problem.field
    speeds = []
    for event in at.events:
        if event.kind not in ("cross", "impact") or event.state is None:
            continue
        index = event.index + (len(field.switches) if event.kind == "impact" else 0)
        state, time = np.asarray(event.state, float)[None], np.array([event.time])
        surface = field.surface(index, state, time, at.vector)
        rates = field.rates(state, time, at.vector)
        speeds.append((index, abs(float((surface.by_state * rates).sum() + surface.by_time[0]))))
    if not speeds:
        return float("nan")
    largest = max(speed for _, speed in speeds)
    return min(speed for _, speed in speeds) / largest if largest > 0 else 0.0
