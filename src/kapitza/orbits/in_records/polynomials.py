"""Monomials of local coordinates and their derivatives.

The module also gives their expectations under Gaussian errors.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from kapitza.base.arrays import Array


@lru_cache
def exponents(n: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return the coordinates multiplied in each term.

    The lowest degree comes first: (), (0,), (1,), (0, 0), (0, 1), …
    """
    return tuple(c for d in range(degree + 1) for c in itertools.combinations_with_replacement(range(n), d))


def term_count(n: int, degree: int) -> int:
    return len(exponents(n, degree))


def monomials(u: Array, degree: int) -> Array:
    """Return the terms 1, u_a, u_a u_b, ….

    (..., n) → (..., q).
    """
    products = _products(u, degree)
    return np.stack([products[term] for term in exponents(u.shape[-1], degree)], axis=-1)


def monomial_slopes(u: Array, degree: int) -> Array:
    """Return ∂/∂u of `monomials`, shape (..., q, n)."""
    terms, products = exponents(u.shape[-1], degree), _products(u, degree - 1)
    slopes = np.zeros((*u.shape[:-1], len(terms), u.shape[-1]))
    for q, term in enumerate(terms):
        for a in set(term):
            place = term.index(a)
            slopes[..., q, a] = term.count(a) * products[term[:place] + term[place + 1 :]]
    return slopes


def monomial_curvatures(u: Array, degree: int) -> Array:
    """Return ∂²/∂u∂u of `monomials`.

    (..., n) → (..., q, n, n).
    """
    n = u.shape[-1]
    terms, products = exponents(n, degree), _products(u, degree - 2)
    curvature = np.zeros((*u.shape[:-1], len(terms), n, n))
    for q, term in enumerate(terms):
        for i, j in itertools.permutations(range(len(term)), 2):
            rest = tuple(a for k, a in enumerate(term) if k not in (i, j))
            curvature[..., q, term[i], term[j]] += products[rest]
    return curvature


def expected_monomials(u: Array, blur: Array, degree: int) -> Array:
    """Return E of `monomials` of a Gaussian.

    The Gaussian has means u (C, K, n) and covariances blur (C, 1 or K, n, n).
    """
    if not np.any(blur):
        return monomials(u, degree)
    # E[x_a x_b …] = u_a E[x_b …] + Σ_b Cov(x_a, x_b) E[the rest] (Isserlis); terms come lowest degree first.
    expected: dict[tuple[int, ...], Array] = {(): np.ones(u.shape[:-1])}
    for first, *rest in exponents(u.shape[-1], degree)[1:]:
        result = u[..., first] * expected[tuple(rest)]
        for place, other in enumerate(rest):
            left = expected[tuple(rest[:place] + rest[place + 1 :])]
            result = result + blur[..., first, other] * left
        expected[(first, *rest)] = result
    return np.stack(list(expected.values()), axis=-1)


def _products(u: Array, degree: int) -> dict[tuple[int, ...], Array]:
    """Return the terms of `monomials` by their coordinates.

    Each is a product of one of lower degree with a coordinate.
    """
    found: dict[tuple[int, ...], Array] = {(): np.ones(u.shape[:-1])}
    for term in exponents(u.shape[-1], max(degree, 0))[1:]:
        found[term] = found[term[:-1]] * u[..., term[-1]]
    return found
