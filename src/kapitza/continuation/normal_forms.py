"""Coefficients of normal forms, whose sign says to which side the new motions leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.motion import OrbitFamily
from kapitza.solve import eigenvectors

Array = NDArray[np.float64]

CUBIC_STEP = 1e-2
"""Of the sizes of the states: step of the third differences in the cubic coefficient of a doubling."""

JACOBIAN_STEP = 2e-3
"""Of the sizes of the states: step of the differences of f_x in the Lyapunov coefficient, of fourth order."""


AGREEMENT = 1e-3
"""Of the terms of the Lyapunov coefficient: largest difference between two steps that agree."""


def lyapunov_coefficient(family: Any, own: Array, square: float) -> float:
    """First Lyapunov coefficient l₁ of a Hopf point with ω² = square: negative where it is supercritical.

    l₁ = Re[p̄·C(q, q, q̄) - 2 p̄·B(q, f_x⁻¹B(q, q̄)) + p̄·B(q̄, (2iω - f_x)⁻¹B(q, q))]/2ω with f_x q = iωq,
    f_xᵀp = -iωp, p̄·q = 1 and |q| = 1 in units of the sizes of the states (Kuznetsov, Elements of Applied Bifurcation
    Theory, 5.62). B and C come from differences of f_x, with steps that are shortened until two agree: states may be
    far smaller than their sizes. NaN where none do. family: of equilibria; own: its unknowns.
    """
    before, _ = _coefficient(family, own, square, JACOBIAN_STEP)
    for factor in (0.1, 1e-2, 1e-3):
        found, size = _coefficient(family, own, square, factor * JACOBIAN_STEP)
        if not np.isfinite(before) or abs(found - before) <= AGREEMENT * size:
            return before
        before = found
    return float("nan")


def _coefficient(family: Any, own: Array, square: float, step: float) -> tuple[float, float]:
    """l₁ by differences of one step, and the sum of the sizes of its terms."""
    n, omega = family.size, float(np.sqrt(square))
    matrix = _slopes(family, own, np.zeros((1, n)))[0]
    values, left, right = _pair(matrix, omega)
    if values is None:
        return float("nan"), 0.0
    q = right / np.linalg.norm(right)
    p = left / np.conj(np.vdot(left, q))
    one = np.eye(n)

    def along(direction: Array) -> tuple[Array, Array]:
        """First and second derivative (n, n) of f_x along a real direction in units of the sizes."""
        grid = np.array([-2.0, -1.0, 1.0, 2.0])[:, None] * step * direction
        a, b, c, d = _slopes(family, own, grid)
        first = (a - 8 * b + 8 * c - d) / (12 * step)
        return first, (-a + 16 * b - 30 * matrix + 16 * c - d) / (12 * step**2)

    (b_real, c_real), (b_imaginary, c_imaginary) = along(q.real.copy()), along(q.imag.copy())
    b_q = b_real + 1j * b_imaginary  # B(q, ·)
    try:
        h_11 = np.linalg.solve(matrix, b_q @ np.conj(q))
        h_20 = np.linalg.solve(2j * omega * one - matrix, b_q @ q)
    except np.linalg.LinAlgError:
        return float("nan"), 0.0
    cubic = (c_real + c_imaginary) @ q  # C(q, q, q̄) = C(a, a, q) + C(b, b, q) for q = a + ib
    terms = np.array([np.vdot(p, cubic), -2 * np.vdot(p, b_q @ h_11), np.vdot(p, np.conj(b_q) @ h_20)])
    return float(terms.sum().real / (2 * omega)), float(np.abs(terms).sum() / (2 * omega))


def _slopes(family: Any, own: Array, moves: Array) -> Array:
    """f_x (K, n, n) in units of the sizes at the point moved by each row of `moves` (K, n), in units of the sizes."""
    n, sizes = family.size, family.sizes
    states = own[:n] + moves * sizes
    found = family.field.derivatives(states, np.zeros(len(states)), family.values(own))
    return found.by_state * sizes / sizes[:, None]


def _pair(matrix: Array, omega: float) -> tuple[Any, Any, Any]:
    """The eigenvalue nearest to iω with its left and right eigenvectors."""
    values, right = eigenvectors(matrix)
    place = int(np.argmin(np.abs(values - 1j * omega)))
    turned, left = eigenvectors(matrix.T)
    other = int(np.argmin(np.abs(turned + 1j * omega)))
    if values[place].imag <= 0:
        return None, None, None
    return values[place], left[:, other], right[:, place]


def cubic_coefficient(inner: OrbitFamily, own: Array, at: Any, v: Array, w: Array) -> float:
    """w·[C(v, v, v) + 3 B(v, (1 - M)⁻¹ B(v, v))]/6 of the return map at a doubling: its sign tells on which side the
    doubled orbits live (Kuznetsov, Elements of Applied Bifurcation Theory, 5.4.2). The return map of an autonomous
    orbit is that to the plane of the phase condition."""
    n, step = inner.size, CUBIC_STEP
    section = return_map(inner, own)
    matrix = inner.matrix(at)
    if inner.autonomous:
        normal, rates = _section(inner, own)
        # On the plane the trivial multiplier is 0; v moves along the flow into it, w is unchanged on it.
        matrix = matrix - np.outer(rates, normal @ matrix) / (normal @ rates)
        v = v[:n] - rates * (normal @ v[:n]) / (normal @ rates)
        size = np.linalg.norm(v / inner.sizes)
        v = v / size
        w = w[:n] - normal * (w[:n] @ rates) / (normal @ rates)

    def image(direction: Array, amount: float) -> Array:
        return section(own[:n] + amount * direction)

    def pairs(direction: Array, most: int) -> tuple[list[Array], list[Array]]:
        """Even and odd parts (twice) of the map at 1, 2, … steps along a direction."""
        there = [(image(direction, k * step), image(direction, -k * step)) for k in range(1, most + 1)]
        return [a + b for a, b in there], [a - b for a, b in there]

    def second(even: list[Array]) -> Array:
        return (16 * even[0] - even[1] - 30 * centre) / (12 * step**2)

    centre = image(v, 0.0)
    even, odd = pairs(v, 3)
    # Both differences are of fourth order: next to the zero of the cubic term the fifth derivative is what is left.
    cubic = (8 * odd[1] - 13 * odd[0] - odd[2]) / (8 * step**3)
    shift = np.linalg.solve(np.eye(n) - matrix, second(even))
    size = float(np.linalg.norm(shift / inner.sizes))
    mixed = np.zeros(n)
    if size > 0:
        u = shift / size
        mixed = size * (second(pairs((v + u) / 2, 2)[0]) - second(pairs((v - u) / 2, 2)[0]))
    return float(w[:n] @ (cubic + 3 * mixed)) / 6


def _section(inner: OrbitFamily, own: Array) -> tuple[Array, Array]:
    """Normal of the plane of the phase condition, and the rates at the start."""
    assert inner.reference is not None
    normal = inner.reference[1] / inner.sizes**2
    normal = normal / np.linalg.norm(normal)
    return normal, inner.problem.field.rates(inner.start(own)[None], np.zeros(1), inner.values(own))[0]


def return_map(inner: OrbitFamily, own: Array) -> Any:
    """x → the state when the orbit closes, at its own time where it is autonomous: on the plane through its start."""
    n = inner.size
    if inner.model.is_map:
        steps, values = float(inner.repeats or 1), inner.values(own)
        return lambda x: inner.flow.propagate(x, 0.0, steps, values, tangents=False).state
    if not inner.autonomous:

        def strobed(x: Array) -> Array:
            moved = own.copy()
            moved[:n] = x
            return inner.residual(moved)[:n] + x

        return strobed
    normal, _ = _section(inner, own)
    period, vector, begin = inner.time(own), inner.values(own), inner.start(own)
    closing = np.eye(n) if inner.closing is None else inner.closing

    def returned(x: Array) -> Array:
        state = inner.flow.propagate(x, 0.0, period, vector, tangents=False).state
        for _ in range(4):
            mapped = closing @ state
            rates = inner.problem.field.rates(mapped[None], np.zeros(1), vector)[0]
            late = float(normal @ (mapped - begin)) / float(normal @ rates)
            if abs(late) < 1e-14 * period:
                break
            state = _moved(inner, state, -late, vector)
        return closing @ state

    return returned


def _moved(inner: OrbitFamily, state: Array, time: float, vector: Array) -> Array:
    return inner.flow.propagate(state, 0.0, time, vector, tangents=False).state
