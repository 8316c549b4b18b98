"""Test functions along a branch.

Scalars that vanish where the branch changes character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.family import Node, Orbit, RankedTest, Readings, Test, test_of
from kapitza.continuation.nouns import Kind
from kapitza.flow import Event
from kapitza.solve import geev

REAL = 1e-7
"""A pair of multipliers whose imaginary part is below this is a neutral saddle, not a torus."""

# Branch points come first: folds that are found at the same place are part of them.
ORBIT_TESTS: tuple[Test, ...] = tuple(
    test_of(kind) for kind in (Kind.BRANCH_POINT, Kind.FOLD, Kind.DOUBLING, Kind.NEIMARK_SACKER)
)


def orbit_readings(
    orbit: Orbit, node: Node, branch: float, sequence: str = "", speed: float = float("nan")
) -> Readings:
    """Return the readings of a periodic orbit.

    The test of a fold is the component of the unit tangent along the parameter, of a doubling Π(μ + 1), of a torus
    Π_{i<j}(μ_i μ_j - 1) without the trivial multiplier, each over its own size. branch: a function that vanishes at
    branch points.
    """
    multipliers = orbit.multipliers()
    rest = without_trivial(multipliers) if orbit.frame.autonomous else multipliers
    tests = {
        Kind.BRANCH_POINT: branch,
        Kind.FOLD: float(node.tangent[-1] / node.family.scale[-1]),
        Kind.DOUBLING: doubling_function(rest),
        Kind.NEIMARK_SACKER: torus_function(rest),
    }
    return Readings(multipliers, tests, sequence, speed)


def unknown_spectrum(count: int) -> Complex:
    """Return multipliers that could not be computed: NaN."""
    found: Complex = np.empty(count, np.complex128)
    found.fill(complex(np.nan, np.nan))
    return found


def eigenvalues_by_size(matrix: Array) -> Complex:
    """Return eigenvalues of a small matrix, largest first.

    NaN where they do not converge.
    """
    real, imaginary, _, _, info = geev(matrix, compute_vl=0, compute_vr=0)
    if info:
        return unknown_spectrum(matrix.shape[0])
    found = sorted(map(complex, real.tolist(), imaginary.tolist()), key=abs, reverse=True)
    return np.array(found)


def several_real(
    before: Readings, after: Readings, kind: Kind, target: float, watched: Sequence[Kind]
) -> list[RankedTest]:
    """Return tests for real values that cross together.

    They cross a target in one step.
    In a model with symmetries two or more may do so at once, and the products keep their sign. watched: tests that
    change their sign where single values cross.
    """
    if any((before.tests[each] < 0) != (after.tests[each] < 0) for each in watched):
        return []
    real = [real_values(r.multipliers, target) for r in (before, after)]
    if real[0].size != real[1].size:
        return []
    least = [REAL * _size(r.multipliers, target) for r in (before, after)]
    beyond = [int((r > low).sum()) for r, low in zip(real, least, strict=True)]
    # A single value that crosses changes the sign of the product, and is found by it.
    if abs(beyond[0] - beyond[1]) < 2:
        return []
    return [(kind, _beyond_target(rank, target), rank) for rank in range(min(beyond), max(beyond))]


def real_values(values: Complex, target: float) -> Array:
    """Return how far real values exceed a target.

    The differences are sorted, largest first; for a target below zero they are target - value.
    """
    real = values.real[np.abs(values.imag) <= REAL * _size(values, target)]
    return np.sort(target - real if target < 0 else real - target)[::-1]


def _size(values: Complex, target: float) -> float:
    """Return the size that values are compared with.

    The largest eigenvalue; multipliers are compared with 1.
    """
    return 1.0 if target else float(np.abs(values).max(initial=0.0))


def _beyond_target(rank: int, target: float) -> Callable[[Readings], float]:
    def away(r: Readings) -> float:
        found = real_values(r.multipliers, target)
        return float(found[rank]) if rank < found.size else float("nan")

    return away


def several_pairs(before: Readings, after: Readings) -> list[RankedTest]:
    """Return tests for multipliers that cross together.

    The products over multipliers keep their sign within such a step.
    """
    together = several_real(before, after, Kind.DOUBLING, -1.0, (Kind.DOUBLING,))
    return (
        together
        + several_real(before, after, Kind.BRANCH_POINT, 1.0, (Kind.BRANCH_POINT, Kind.FOLD))
        + _pairs(before, after)
    )


def _pairs(before: Readings, after: Readings) -> list[RankedTest]:
    """Return tests for complex pairs that cross together.

    The test is made where at least two pairs cross the unit circle within one step.
    """
    counts = [int((np.abs(r.multipliers) > 1 + REAL).sum()) for r in (before, after)]
    if abs(counts[1] - counts[0]) < 4:
        return []
    pairs = [upper_pairs(r.multipliers) for r in (before, after)]
    ahead = [int((np.abs(p) > 1 + REAL).sum()) for p in pairs]
    if pairs[0].size != pairs[1].size:
        return []
    return [(Kind.NEIMARK_SACKER, _beyond_circle(rank), rank) for rank in range(min(ahead), max(ahead))]


def upper_pairs(multipliers: Complex) -> Complex:
    """Return upper-half-plane multipliers, largest first."""
    upper = multipliers[multipliers.imag > REAL]
    return upper[np.argsort(-np.abs(upper), kind="stable")]


def _beyond_circle(rank: int) -> Callable[[Readings], float]:
    return lambda r: float(abs(upper_pairs(r.multipliers)[rank]) - 1)


def without_trivial(multipliers: Complex) -> Complex:
    """Return multipliers without the one nearest to 1."""
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


def canonical(word: str) -> str:
    """Return the first rotation of a cyclic word.

    It is the same for every section.
    """
    letters = word.split()
    return min((" ".join(letters[k:] + letters[:k]) for k in range(len(letters))), default="")


def sequence_of(events: Sequence[Event]) -> str:
    """Return the events as a word.

    It lists kind, index and direction of each event, in the order of time.
    """
    letters = {"cross": "c", "stick": "S", "release": "R", "impact": "i", "contact": "C", "detach": "D", "graze": "g"}
    marks = {1: "+", -1: "-", 0: ""}
    ordered = sorted(events, key=lambda event: event.time)
    return " ".join(f"{letters.get(e.kind, e.kind)}{e.index}{marks[int(np.sign(e.direction))]}" for e in ordered)


def smallest_speed(orbit: Orbit) -> float:
    """Return the smallest normal speed at a surface.

    It is |ds/dt| over the largest, and 0 where the orbit grazes.
    """
    field, vector = orbit.frame.problem.field, orbit.vector
    speeds: list[tuple[int, float]] = []
    for event in orbit.events:
        if event.kind not in ("cross", "impact") or event.state is None:
            continue
        index = event.index + (len(field.switches) if event.kind == "impact" else 0)
        state, time = np.asarray(event.state, float)[None], np.array([event.time])
        surface = field.surface(index, state, time, vector)
        rates = field.rates(state, time, vector)
        speeds.append((index, abs(float((surface.by_state * rates).sum() + surface.by_time[0]))))
    if not speeds:
        return float("nan")
    largest = max(speed for _, speed in speeds)
    return min(speed for _, speed in speeds) / largest if largest > 0 else 0.0


def side_of_one(multipliers: Complex, autonomous: bool) -> float:
    """Return the signed distance of an orbit's multipliers from 1.

    It is the least |log μ| over the real positive multipliers but for the trivial one, with a sign that changes
    where one of them passes 1.
    """
    rest = without_trivial(multipliers) if autonomous else multipliers
    real = rest.real[(np.abs(rest.imag) < REAL) & (rest.real > 0)]
    if not real.size:
        return float("nan")
    logs = np.log(real)
    return float(np.prod(np.sign(logs)) * np.abs(logs).min())
