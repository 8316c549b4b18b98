"""Coefficients of normal forms.

Their sign decides to which side the new motions leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.motion import ShootingPoint
from kapitza.orbits.of_models import VectorField
from kapitza.solve import eigenvectors

CUBIC_STEP = 1e-2
"""Step of the third differences in the cubic coefficient of a doubling, relative to the sizes of the states."""

JACOBIAN_STEP = 2e-3
"""Step of the fourth-order differences of f_x in the Lyapunov coefficient, relative to the sizes of the states."""


AGREEMENT = 1e-3
"""Largest difference between two steps that agree, relative to the terms of the Lyapunov coefficient."""


class Rates(Protocol):
    """Equilibria whose rates can be differentiated.

    sizes (n,) are those of the states; values of all parameters are taken at z.
    """

    @property
    def size(self) -> int: ...

    @property
    def sizes(self) -> Array: ...

    @property
    def vector_field(self) -> VectorField: ...

    def values(self, z: Array) -> Array: ...


def lyapunov_coefficient(family: Rates, own: Array, square: float) -> float:
    """Return the first Lyapunov coefficient of a Hopf point.

    l₁ for ω² = square: negative where it is supercritical.
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


def _coefficient(family: Rates, own: Array, square: float, step: float) -> tuple[float, float]:
    """Return l₁ by differences of one step.

    The sum of the sizes of its terms is returned too.
    """
    n, omega = family.size, float(np.sqrt(square))
    matrix = _slopes(family, own, np.zeros((1, n)))[0]
    pair = _pair(matrix, omega)
    if pair is None:
        return float("nan"), 0.0
    left, right = pair
    # |q| = 1 fixes the size of the coefficient; its sign does not depend on it.
    q = right / np.linalg.norm(right)
    p = left / np.conj(np.vdot(left, q))
    one = np.eye(n)

    def along(direction: Array) -> tuple[Array, Array]:
        """Differentiate f_x along a real direction.

        Both derivatives, first and second, are (n, n) in units of the sizes.
        """
        grid = np.array([-2.0, -1.0, 1.0, 2.0])[:, None] * step * direction
        a, b, c, d = _slopes(family, own, grid)
        # Five-point formulas: the error is of fourth order in the step.
        first = (a - 8 * b + 8 * c - d) / (12 * step)
        return first, (-a + 16 * b - 30 * matrix + 16 * c - d) / (12 * step**2)

    (b_real, c_real), (b_imaginary, c_imaginary) = along(q.real.copy()), along(q.imag.copy())
    b_q = b_real + 1j * b_imaginary  # B(q, ·)
    try:
        h_11 = np.linalg.solve(off_pole(matrix), b_q @ np.conj(q))
        h_20 = np.linalg.solve(off_pole(2j * omega * one - matrix), b_q @ q)
    except np.linalg.LinAlgError:
        return float("nan"), 0.0
    cubic = (c_real + c_imaginary) @ q  # C(q, q, q̄) = C(a, a, q) + C(b, b, q) for q = a + ib
    terms = np.array([np.vdot(p, cubic), -2 * np.vdot(p, b_q @ h_11), np.vdot(p, np.conj(b_q) @ h_20)])
    return float(terms.sum().real / (2 * omega)), float(np.abs(terms).sum() / (2 * omega))


def _slopes(family: Rates, own: Array, moves: Array) -> Array:
    """Return f_x at moved points.

    The result is (K, n, n), at the point moved by each row of `moves` (K, n); both are in units of the sizes.
    """
    n, sizes = family.size, family.sizes
    states = own[:n] + moves * sizes
    found = family.vector_field.derivatives(states, np.zeros(len(states)), family.values(own))
    return found.by_state * sizes / sizes[:, None]


def _pair(matrix: Array, omega: float) -> tuple[Complex, Complex] | None:
    """Return left and right eigenvectors at iω.

    The eigenvalue is the one nearest to iω; None if it is real.
    """
    values, right = eigenvectors(matrix)
    place = int(np.argmin(np.abs(values - 1j * omega)))
    turned, left = eigenvectors(matrix.T)
    other = int(np.argmin(np.abs(turned + 1j * omega)))
    if values[place].imag <= 0:
        return None
    return left[:, other], right[:, place]


def cubic_coefficient(inner: ShootingPoint, v: Array, w: Array) -> float:
    """Return the cubic coefficient of a doubling.

    w·[C(v, v, v) + 3 B(v, (1 - M)⁻¹ B(v, v))]/6 of the return map: its sign decides on which side the doubled orbits
    are (Kuznetsov, Elements of Applied Bifurcation Theory, 5.4.2). The return map of an autonomous orbit is that to the
    plane of the phase condition.
    """
    n, step, sizes, start = inner.frame.size, CUBIC_STEP, inner.frame.sizes, inner.start()
    section = return_map(inner)
    matrix = inner.matrix()
    if inner.frame.autonomous:
        normal, rates = _section(inner)
        # On the plane the trivial multiplier is 0; v moves along the flow into it, w is unchanged on it.
        matrix = matrix - np.outer(rates, normal @ matrix) / (normal @ rates)
        v = v[:n] - rates * (normal @ v[:n]) / (normal @ rates)
        size = np.linalg.norm(v / sizes)
        v = v / size
        w = w[:n] - normal * (w[:n] @ rates) / (normal @ rates)

    def image(direction: Array, amount: float) -> Array:
        return section(start + amount * direction)

    def pairs(direction: Array, most: int) -> tuple[list[Array], list[Array]]:
        """Return even and odd parts of the map.

        Both are twice the parts, at 1, 2, …, most steps along the direction.
        """
        there = [(image(direction, k * step), image(direction, -k * step)) for k in range(1, most + 1)]
        return [a + b for a, b in there], [a - b for a, b in there]

    def second(even: list[Array]) -> Array:
        return (16 * even[0] - even[1] - 30 * centre) / (12 * step**2)

    centre = image(v, 0.0)
    even, odd = pairs(v, 3)
    # Both differences are of fourth order: next to the zero of the cubic term the fifth derivative dominates.
    cubic = (8 * odd[1] - 13 * odd[0] - odd[2]) / (8 * step**3)
    shift = np.linalg.solve(off_pole(np.eye(n) - matrix), second(even))
    size = float(np.linalg.norm(shift / sizes))
    mixed = np.zeros(n)
    if size > 0:
        u = shift / size
        mixed = size * (second(pairs((v + u) / 2, 2)[0]) - second(pairs((v - u) / 2, 2)[0]))
    return float(w[:n] @ (cubic + 3 * mixed)) / 6


def _section(inner: ShootingPoint) -> tuple[Array, Array]:
    """Return normal and rates of the phase plane.

    The normal is that of the plane of the phase condition; the rates are those at the start.
    """
    reference = inner.family.section.reference
    assert reference is not None
    normal = reference[1] / inner.frame.sizes**2
    normal = normal / np.linalg.norm(normal)
    return normal, inner.frame.rates(inner.start()[None], np.zeros(1), inner.values)[0]


def return_map(inner: ShootingPoint) -> Callable[[Array], Array]:
    """Return the map x → state at closure.

    An autonomous orbit closes at its own time, on the plane through its start.
    """
    frame, own, vector = inner.frame, inner.z, inner.values
    n, flow = frame.size, frame.flow
    if frame.model.is_map:
        steps = float(frame.repeats or 1)
        return lambda x: flow.propagate(x, 0.0, steps, vector, tangents=False).state
    if not frame.autonomous:

        def strobed(x: Array) -> Array:
            moved = own.copy()
            moved[:n] = x
            return inner.family.residual(moved)[:n] + x

        return strobed
    normal, _ = _section(inner)
    period, begin = inner.family.equations.unpack(own)[1], inner.start()
    closing = np.eye(n) if inner.closing is None else inner.closing

    def returned(x: Array) -> Array:
        state = flow.propagate(x, 0.0, period, vector, tangents=False).state
        # Newton on the time of return: the correction of the first order leaves the square of it.
        for _ in range(4):
            mapped = closing @ state
            rates = frame.rates(mapped[None], np.zeros(1), vector)[0]
            late = float(normal @ (mapped - begin)) / float(normal @ rates)
            if abs(late) < 1e-14 * period:
                break
            state = flow.propagate(state, 0.0, -late, vector, tangents=False).state
        return closing @ state

    return returned


Matrix = TypeVar("Matrix", Array, Complex)


def off_pole(matrix: Matrix) -> Matrix:
    """Shift an exactly singular matrix off its pole.

    Returns a matrix (n, n) that can be solved with, for a coefficient with a pole where it is singular.
    At a fold-flip or a zero-Hopf point the matrix is singular: whether its last pivot is exactly 0 or a rounding error
    differs between processors. A shift of the diagonal by one rounding makes the coefficient large in both cases.
    """
    if np.linalg.slogdet(matrix)[0] != 0:
        return matrix
    shift = np.finfo(float).eps * max(float(np.abs(matrix).max()), 1.0)
    return matrix + shift * np.eye(len(matrix))
