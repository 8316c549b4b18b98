"""Roots of characteristic functions with delays.

All roots right of a line are found; the argument principle verifies their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kapitza.base.arrays import Complex
from kapitza.errors import ConvergenceError

NEWTON_STEPS = 60
"""Newton steps, of limited length; starts that have not converged then are left out."""


@dataclass(frozen=True)
class Characteristic:
    """Analytic function h(λ) with its derivative.

    Both take arrays.
    """

    value: Callable[[Complex], Complex]
    slope: Callable[[Complex], Complex]


def refine(function: Characteristic, starts: Complex) -> Complex:
    """Refine roots by Newton's method.

    Starts that do not converge are left out.
    """
    roots = np.array(starts, complex).ravel()
    done = np.zeros(roots.size, bool)
    with np.errstate(all="ignore"):
        for _ in range(NEWTON_STEPS):
            moving = np.flatnonzero(~done & np.isfinite(roots))
            if not moving.size:
                break
            here = roots[moving]
            step = function.value(here) / function.slope(here)
            size, longest = np.abs(step), 0.3 * (np.abs(here) + 1.0)
            # Near a zero of the slope a full Newton step would leave the region.
            step = np.where(size > longest, step * (longest / np.where(size > 0, size, 1.0)), step)
            roots[moving] = here - step
            done[moving] = np.abs(step) <= 1e-10 * (1.0 + np.abs(here))
    return roots[done & np.isfinite(roots)]


def distinct(roots: Complex) -> Complex:
    """Return each root once, rightmost first.

    Of a complex pair the root in the upper half plane is returned.
    """
    upper = np.where(roots.imag < 0, roots.conj(), roots)
    # Most duplicates go at once; the loop below compares the few that remain.
    upper = upper[np.unique(np.round(upper, 6), return_index=True)[1]]
    upper = upper[np.argsort(-np.real(upper), kind="stable")]
    found: list[complex] = []
    for root in upper:
        if not any(abs(root - other) <= 1e-6 * (1.0 + abs(root)) for other in found):
            found.append(complex(root))
    return np.array(found, complex)


def count_roots(function: Characteristic, left: float, right: float, top: float) -> int:
    """Count roots in a rectangle.

    It counts roots with left < Re λ < right and |Im λ| < top by the winding of h along the border of the rectangle.
    The border is refined where h turns by more than one radian between neighbours. h is real on the real axis, so the
    upper half of the border is enough.
    """
    corners = np.array([right + 0j, right + 1j * top, left + 1j * top, left + 0j])
    share = np.linspace(0.0, 1.0, 200)
    path = np.concatenate([a + (b - a) * share[:-1] for a, b in pairwise(corners)])
    path = np.append(path, corners[-1])
    values = function.value(path)
    for _ in range(40):
        turns = np.angle(values[1:] / values[:-1])
        rough = np.flatnonzero(np.abs(turns) > 1.0)
        if not rough.size:
            break
        middle = np.asarray(0.5 * (path[rough] + path[rough + 1]), np.complex128)
        path = np.insert(path, rough + 1, middle)
        values = np.insert(values, rough + 1, function.value(middle))
    turned = float(turns.sum() / np.pi)
    if not np.isfinite(turned):
        raise ConvergenceError("The numbers span too many powers of ten to find roots: are they in SI units?")
    return round(turned)


def rightmost(
    function: Characteristic, chains: Complex, left: float, right: float, top: float, real_top: float
) -> Complex:
    """Return all roots right of `left`.

    |Im λ| < top; the rightmost comes first (upper half plane).
    chains: guesses for the infinite chains of roots; further starts cover the rectangle up to `real_top`. The number
    of roots found is checked against the argument principle.
    """
    grid = np.linspace(left, right, 12)[:, None] + 1j * np.linspace(0.0, real_top, 40)[None, :]
    for density in (1, 3):
        starts = np.concatenate([np.asarray(chains, complex), grid.ravel()])
        if density > 1:
            finer = np.linspace(left, right, 16)[:, None] + 1j * np.linspace(0.0, top, 200)[None, :]
            starts = np.concatenate([starts, finer.ravel()])
        roots = distinct(refine(function, starts))
        # Keep clear of roots on the border of the rectangle.
        inside = roots[(roots.real > left) & (roots.real < right) & (roots.imag < top)]
        wanted = count_roots(function, left, right, top)
        found = int(np.sum(np.where(np.abs(inside.imag) > 1e-9, 2, 1)))
        if found == wanted:
            return inside
    raise ConvergenceError(
        f"{found} characteristic roots were found between Re λ = {left:g} and {right:g}, |Im λ| < {top:g}; the "
        f"argument principle gives {wanted}."
    )
