"""Monomials of local coordinates, their derivatives, and their expectations under Gaussian errors."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@lru_cache
def exponents(n: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Coordinates multiplied in each term, lowest degree first: (), (0,), (1,), (0, 0), (0, 1), …"""
    return tuple(c for d in range(degree + 1) for c in itertools.combinations_with_replacement(range(n), d))


def term_count(n: int, degree: int) -> int:
    return len(exponents(n, degree))


def monomials(u: Array, degree: int) -> Array:
    """Terms 1, u_a, u_a u_b, … of (..., n) → (..., q)."""
    return np.stack([_product(u, term) for term in exponents(u.shape[-1], degree)], axis=-1)


def monomial_slopes(u: Array, degree: int) -> Array:
    """∂/∂u of `monomials`, (..., n) → (..., q, n)."""
    terms = exponents(u.shape[-1], degree)
    slopes = np.zeros((*u.shape[:-1], len(terms), u.shape[-1]))
    for q, term in enumerate(terms):
        for a in set(term):
            place = term.index(a)
            slopes[..., q, a] = term.count(a) * _product(u, term[:place] + term[place + 1 :])
    return slopes


def monomial_curvatures(u: Array, degree: int) -> Array:
    """∂²/∂u∂u of `monomials`, (..., n) → (..., q, n, n)."""
    n = u.shape[-1]
    terms = exponents(n, degree)
    curvature = np.zeros((*u.shape[:-1], len(terms), n, n))
    for q, term in enumerate(terms):
        for i, j in itertools.permutations(range(len(term)), 2):
            rest = tuple(a for k, a in enumerate(term) if k not in (i, j))
            curvature[..., q, term[i], term[j]] += _product(u, rest)
    return curvature


def expected_monomials(u: Array, blur: Array, degree: int) -> Array:
    """E of `monomials` of a Gaussian with means u (C, K, n) and covariances blur (C, 1 or K, n, n)."""
    if not np.any(blur):
        return monomials(u, degree)
    return np.stack([_expected_product(u, blur, term) for term in exponents(u.shape[-1], degree)], axis=-1)


def _expected_product(u: Array, blur: Array, term: tuple[int, ...]) -> Array:
    """E[x_a x_b …] = u_a E[x_b …] + Σ_b Cov(x_a, x_b) E[the rest] (Isserlis)."""
    if not term:
        return np.ones(u.shape[:-1])
    first, rest = term[0], term[1:]
    result = u[..., first] * _expected_product(u, blur, rest)
    for place, other in enumerate(rest):
        left = _expected_product(u, blur, rest[:place] + rest[place + 1 :])
        result = result + blur[..., first, other] * left
    return result


def _product(u: Array, term: tuple[int, ...]) -> Array:
    result = np.ones(u.shape[:-1])
    for a in term:
        result = result * u[..., a]
    return result
