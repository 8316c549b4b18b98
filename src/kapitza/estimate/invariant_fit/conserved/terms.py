"""Libraries of candidate functions for invariants."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import sympy as sp

from kapitza.base import checks
from kapitza.errors import KapitzaError
from kapitza.model import parse_expression, symbol


def polynomials(names: Sequence[str], degree: int) -> tuple[sp.Expr, ...]:
    """Return products of powers of channels up to `degree`.

    The lowest degree comes first; the constant is left out.
    """
    if degree != int(degree):
        raise KapitzaError(f"The degree of polynomials is a whole number, not {degree}.")
    degree = int(degree)
    if degree < 1:
        raise KapitzaError(f"Polynomials of degree {degree} are constants; pass degree 1 or more.")
    chosen = [symbol(n) for n in names]
    return tuple(
        sp.Mul(*factors)
        for total in range(1, degree + 1)
        for factors in itertools.combinations_with_replacement(chosen, total)
    )


def trigonometric(names: Sequence[str], harmonics: int = 1) -> tuple[sp.Expr, ...]:
    """Return cos and sin of sums of angles.

    All sums Σ n_i φ_i with |n_i| ≤ harmonics are used, each sign pattern once.
    """
    result: list[sp.Expr] = []
    for numbers in itertools.product(range(-harmonics, harmonics + 1), repeat=len(names)):
        lead = next((n for n in numbers if n), 0)
        # cos and sin of -x are those of x up to the sign: one of each pair is enough.
        if lead > 0:
            argument = sp.Add(*(n * symbol(name) for n, name in zip(numbers, names, strict=True)))
            result += [sp.cos(argument), sp.sin(argument)]
    return tuple(sorted(result, key=complexity))


def logarithms(names: Sequence[str]) -> tuple[sp.Expr, ...]:
    """Return the logarithms of channels, which must be positive."""
    return tuple(sp.log(symbol(n)) for n in names)


def products(first: Iterable[sp.Expr], second: Iterable[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Return every product of one function with another."""
    second = tuple(second)
    return tuple(a * b for a in first for b in second)


def candidate_terms(
    channels: Sequence[str], angles: Sequence[bool], terms: Sequence[str | sp.Expr] | None, degree: int
) -> tuple[sp.Expr, ...]:
    """Return the candidate terms of a search.

    They are the user's terms, or polynomials of the channels and, for angles, trigonometric functions times
    polynomials.
    """
    if isinstance(terms, str):
        raise KapitzaError(f'terms is a list of expressions, such as ["x**2", "y**2"], not the text {terms!r}.')
    wrong = [t for t in terms or () if not isinstance(t, str | sp.Expr | int | float)]
    if wrong:
        raise KapitzaError(f'A term is a text such as "x**2" or a SymPy expression, not {wrong[0]!r}.')
    if terms is not None:
        return tuple(
            parse_expression(t, channels) if isinstance(t, str) else checks.expression("A term", t) for t in terms
        )
    plain = [c for c, a in zip(channels, angles, strict=True) if not a]
    round_ = [c for c, a in zip(channels, angles, strict=True) if a]
    powers = polynomials(plain, degree) if plain else ()
    if not round_:
        return powers
    waves = trigonometric(round_)
    return tuple(sorted((*powers, *waves, *products(powers, waves)), key=complexity))


def complexity(term: sp.Expr) -> tuple[int, int, str]:
    """Return a sort key by simplicity.

    It is the number of factors with powers counted out, then the number of operations, then the name.
    """
    powers = (factor.as_base_exp()[1] for factor in sp.Mul.make_args(term))
    weight = sum(int(p) if isinstance(p, sp.Integer) and p > 0 else 1 for p in powers)
    return weight, int(sp.count_ops(term)), str(term)
