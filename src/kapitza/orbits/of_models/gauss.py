"""Gauss-Legendre collocation on [0, 1].

The rule consists of points, integration weights, and the Runge-Kutta matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kapitza.base.arrays import Array


@dataclass(frozen=True)
class GaussRule:
    """Gauss rule with m points.

    Points c (m,), weights b (m,), matrix a (m, m): X_i = x + h Σ_l a_il K_l, y = x + h Σ_i b_i K_i (order 2m).
    ends: (m,) extrapolates K to the end of the element.
    """

    points: Array
    weights: Array
    matrix: Array
    ends: Array

    @property
    def degree(self) -> int:
        return self.points.size


@lru_cache(maxsize=16)
def gauss_rule(degree: int) -> GaussRule:
    """Return the Gauss-Legendre rule on [0, 1].

    It holds the weights and the integrals of the Lagrange polynomials.
    """
    points, weights = np.polynomial.legendre.leggauss(degree)
    points, weights = (points + 1) / 2, weights / 2
    # Columns of `basis` are the Lagrange polynomials in powers; their integrals give the matrix.
    powers = np.arange(degree)
    basis = np.linalg.inv(points[:, None] ** powers)
    integral = points[:, None] ** (powers + 1) / (powers + 1)
    return GaussRule(points, weights, integral @ basis, basis.sum(axis=0))


@lru_cache(maxsize=16)
def integrated_basis(degree: int, count: int) -> tuple[Array, Array]:
    """Return knots and the matrix of integrals.

    It returns knots (count,) from 0 to 1 and the matrix (count, m) with x(knots) = x + h · matrix K.
    """
    rule = gauss_rule(degree)
    # Chebyshev points: interpolation on them stays well conditioned.
    knots = 0.5 * (1 - np.cos(np.pi * np.arange(count) / (count - 1)))
    powers = np.arange(degree)
    basis = np.linalg.inv(rule.points[:, None] ** powers)
    return knots, (knots[:, None] ** (powers + 1) / (powers + 1)) @ basis
