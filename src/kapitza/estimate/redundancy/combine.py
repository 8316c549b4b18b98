"""Combinations of parameters that symmetries leave unchanged, as formulas.

A function p(θ) is determined where ∂p/∂θ ξ = 0 for every symmetry ξ. Symmetries that scale the parameters leave
products of powers unchanged, those that shift them sums, and both together products of sums; the remaining ones are
sought among sums of products with few factors, whose coefficients follow from a linear system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.estimate.redundancy.symmetries import Sampled
from kapitza.model import Expression, symbol

SAME = 1e-7
"""Relative difference below which two numbers that follow from the equations are the same."""

LARGEST_BANK = 420
"""Products of powers among which sums are sought."""


@dataclass(frozen=True)
class Combined:
    """Formulas that the symmetries leave unchanged.

    missing: number of further combinations for which no formula was found.
    """

    formulas: tuple[Expression, ...]
    missing: int


@dataclass(frozen=True)
class _Variables:
    """Expressions of the parameters, and their changes by symmetries.

    values: (J, q). directions: (J, q, d), changes relative to the values.
    """

    expressions: tuple[Expression, ...]
    values: Array
    directions: Array

    @property
    def count(self) -> int:
        return self.directions.shape[2]

    @property
    def changes(self) -> Array:
        """Changes by symmetries in absolute numbers."""
        return self.directions * self.values[:, :, None]


def combine(sampled: Sampled, names: Sequence[str]) -> Combined:
    """Return independent formulas that are determined.

    There are as many as parameters less symmetries, where they can be found.
    """
    names = tuple(names)
    found: list[Expression] = []
    constants: list[tuple[Expression, Array]] = []
    hard: list[_Variables] = []
    for members in _components(sampled):
        symbols = tuple(symbol(names[i]) for i in members)
        own = _reduce(_Variables(symbols, sampled.theta[:, members], _reduced(sampled.directions[:, members])))
        if own.count:
            hard.append(own)
            continue
        found += own.expressions
        constants += zip(own.expressions, own.values.T, strict=True)
    missing = 0
    for own in hard:
        wanted = len(own.expressions) - own.count
        more = _sums_of_products(own, wanted, constants)
        missing += wanted - len(more)
        found += more
    order = {symbol(name): i for i, name in enumerate(names)}
    # In the order of the parameters, so that the result does not depend on the order of the groups.
    found.sort(key=lambda f: max(order[s] for s in f.free_symbols))
    return Combined(tuple(-f if str(f).startswith("-") else f for f in found), missing)


def _components(sampled: Sampled) -> Iterator[list[int]]:
    """Yield groups of parameters that no symmetry couples."""
    projector = np.abs(np.einsum("jkd,jld->jkl", sampled.directions, sampled.directions)).max(axis=0)
    left = set(range(projector.shape[0]))
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {i for i in left - group if any(projector[i, g] > SAME for g in group)}
        left -= group
        yield sorted(group)


def _reduced(directions: Array) -> Array:
    """Return orthonormal bases of columns (J, q, d).

    All have the least dimension among the spaces that the columns span.
    """
    if not directions.size:
        return directions[:, :, :0]
    left, size, _ = np.linalg.svd(directions, full_matrices=False)  # any sign: as a space
    rank = int((size > SAME).sum(axis=1).min())
    return left[:, :, :rank]


def _reduce(own: _Variables) -> _Variables:
    """Replace variables by invariant sums and products.

    This is repeated until no symmetry shifts or scales the remaining variables.
    """
    while own.count:
        smaller = _sums(own) or _products(own)
        if smaller is None:
            break
        own = smaller
    return own


def _common(directions: Array) -> Array:
    """Return the directions common to all spaces.

    They are (q, m) for spaces (J, q, d).
    """
    count, size, _ = directions.shape
    outside = np.eye(size) - np.einsum("jkd,jld->jkl", directions, directions)
    # A direction in all spaces has no part outside any of them.
    _, values, right = np.linalg.svd(outside.reshape(count * size, size))  # any sign: its echelon form is used
    return right[values < SAME * np.sqrt(count)].T


def _sums(own: _Variables) -> _Variables | None:
    """Return sums that shifts leave unchanged.

    The result is None where no symmetry shifts the variables.
    """
    shifts = _common(_reduced(own.changes))
    rows = _null_rows(shifts.T) if shifts.shape[1] else None
    if rows is None:
        return None
    weights = np.array([[float(c) for c in row] for row in rows]).reshape(len(rows), len(own.expressions))
    values = own.values @ weights.T
    if not (np.abs(values) > 1e-9 * np.abs(own.values).max()).all():
        return None  # a sum that vanishes has no relative change; chance makes none this small
    terms = [sp.Add(*[sp.Rational(c) * e for c, e in zip(row, own.expressions, strict=True)]) for row in rows]
    moved = np.einsum("sk,jkd->jsd", weights, own.changes) / values[:, :, None]
    return _Variables(tuple(terms), values, _reduced(moved))


def _products(own: _Variables) -> _Variables | None:
    """Return products of powers that scalings leave unchanged.

    The result is None where no symmetry scales the variables.
    """
    scaling = _common(own.directions)
    rows = _rational_echelon(scaling.T) if scaling.shape[1] else None
    if rows is None:
        return None
    pivots = [next(i for i, entry in enumerate(row) if entry) for row in rows]
    powers, size = [], len(own.expressions)
    for i in range(size):
        if i not in pivots:
            exact = {i: Fraction(1), **{p: -row[i] for p, row in zip(pivots, rows, strict=True) if row[i]}}
            # Integer exponents: powers of roots are avoided.
            whole = lcm(*(f.denominator for f in exact.values()))
            powers.append([int(exact.get(c, Fraction(0)) * whole) for c in range(size)])
    exponents = np.array(powers, int).reshape(len(powers), size)
    terms = [sp.Mul(*[e**n for e, n in zip(own.expressions, row, strict=True)]) for row in powers]
    moved = np.einsum("mk,jkd->jmd", exponents, own.directions)
    return _Variables(tuple(terms), _powers(own.values, exponents), _reduced(moved))


def _powers(values: Array, exponents: NDArray[np.integer]) -> Array:
    """Return products (J, m) of powers with their signs.

    values: (J, q).
    """
    size = np.exp(np.log(np.abs(values)) @ exponents.T)
    odd = (exponents % 2).astype(bool)
    return size * np.prod(np.where((values < 0)[:, None, :] & odd, -1.0, 1.0), axis=2)


def _sums_of_products(own: _Variables, wanted: int, constants: Sequence[tuple[Expression, Array]]) -> list[Expression]:
    """Return sums Σ q m(θ) that no symmetry changes.

    m are products with few factors; the sums are independent, the simplest first. constants: other expressions that are
    determined, with their values (J,); they may occur as factors.
    """
    found: list[Expression] = []
    slopes = np.zeros((len(own.values), 0, len(own.expressions)))
    constants = sorted(constants, key=lambda pair: sp.count_ops(pair[0]))
    # Banks in the order of their size: the first formula found is the simplest.
    for most, lowest, extra in ((1, 0, 0), (2, 0, 4), (2, -2, 2), (3, 0, 4), (3, -3, 2), (4, 0, 2)):
        more = constants[:extra]
        expressions = (*own.expressions, *(e for e, _ in more))
        values = np.column_stack([own.values, *(v for _, v in more)])
        bank = np.array(_bank(len(expressions), most, lowest))
        if len(bank) > min(LARGEST_BANK, len(values) * own.count - 5):
            continue
        size = len(own.expressions)
        terms = _powers(values, bank)
        along = np.einsum("jm,mk,jkd->jdm", terms, bank[:, :size], own.directions)
        typical = np.sqrt((terms**2).mean(axis=0))
        for coefficients in _null_combinations(along.reshape(-1, len(bank)) / typical, typical):
            weights = np.array([float(coefficients.get(i, 0)) for i in range(len(bank))])
            slope = np.einsum("m,jm,mk->jk", weights, terms, bank[:, :size])[:, None]
            if _rank(np.concatenate([slopes, slope], axis=1)) == slopes.shape[1]:
                continue
            slopes = np.concatenate([slopes, slope], axis=1)
            parts = [
                sp.Rational(c) * sp.Mul(*[e**n for e, n in zip(expressions, bank[i].tolist(), strict=True)])
                for i, c in coefficients.items()
            ]
            found.append(sp.Add(*parts))
            if len(found) == wanted:
                return found
    return found


def _bank(size: int, most: int, lowest: int) -> list[tuple[int, ...]]:
    """Return exponents of products with at most `most` factors.

    None below `lowest`; few and positive exponents come first. Above nine variables the bank is returned too large, so
    that it is skipped.
    """
    if size > 9:
        return [(1,) * size] * (LARGEST_BANK + 1)
    found: list[tuple[int, ...]] = [()]
    for _ in range(size):
        found = [(*e, n) for e in found for n in range(lowest, most + 1) if sum(map(abs, e)) + abs(n) <= most]
    every = [e for e in found if any(e)]
    return sorted(every, key=lambda e: (sum(map(abs, e)), sum(n < 0 for n in e), [-n for n in e]))


def _null_combinations(matrix: Array, size: Array) -> Iterator[dict[int, Fraction]]:
    """Yield combinations of columns (N, m) that vanish.

    Each has few columns; exact coefficients of m / size.
    """
    kept: list[int] = []
    basis = np.zeros((matrix.shape[0], 0))
    scale = np.linalg.norm(matrix, axis=0).max(initial=1e-300)
    for i in range(matrix.shape[1]):
        column = matrix[:, i]
        inside = basis @ (basis.T @ column)
        rest = column - inside
        rest -= basis @ (basis.T @ rest)
        if np.linalg.norm(rest) > SAME * scale:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            kept.append(i)
            continue
        weights = np.linalg.lstsq(matrix[:, kept], column, rcond=None)[0] if kept else np.zeros(0)
        raw = np.append(-weights / size[kept], 1.0 / size[i]) * size[i]
        exact = [_fraction(w) for w in raw]
        if all(f is not None for f in exact):
            yield _whole({k: f for k, f in zip([*kept, i], exact, strict=True) if f})


def _whole(coefficients: dict[int, Fraction]) -> dict[int, Fraction]:
    """Return the combination in small whole numbers.

    The first one is positive.
    """
    multiple = lcm(*(f.denominator for f in coefficients.values()))
    numbers = {i: int(f * multiple) for i, f in coefficients.items()}
    common = gcd(*numbers.values()) * (1 if next(iter(numbers.values())) > 0 else -1)
    return {i: Fraction(n, common) for i, n in numbers.items()}


def _rank(slopes: Array) -> int:
    """Return the largest rank of gradients (J, r, k)."""
    length = np.linalg.norm(slopes, axis=2, keepdims=True)
    values = np.linalg.svd(slopes / np.where(length > 0, length, 1.0), compute_uv=False)
    return int((values > 1e-6).sum(axis=1).max(initial=0))


def _fraction(value: float) -> Fraction | None:
    """Return the small fraction equal to a number.

    Its denominator is at most 24; None where there is none.
    """
    near = Fraction(float(value)).limit_denominator(24)
    return near if abs(float(near) - value) <= 1e-6 * max(1.0, abs(value)) else None


def _rational_echelon(rows: Array) -> list[list[Fraction]] | None:
    """Return the reduced row echelon form in fractions.

    None where the entries are not small fractions; pivots from the left.
    """
    matrix, first, reduced = rows.copy(), 0, []
    for column in range(matrix.shape[1]):
        if first == len(matrix):
            break
        # Partial pivoting.
        best = first + int(np.argmax(np.abs(matrix[first:, column])))
        if abs(matrix[best, column]) < 1e-6:
            continue
        matrix[[first, best]] = matrix[[best, first]]
        matrix[first] /= matrix[first, column]
        others = np.arange(len(matrix)) != first
        matrix[others] -= np.outer(matrix[others, column], matrix[first])
        first += 1
    for row in matrix[:first]:
        exact = [_fraction(v) for v in row]
        if any(f is None for f in exact):
            return None
        reduced.append([f for f in exact if f is not None])
    return reduced


def _null_rows(rows: Array) -> list[list[Fraction]] | None:
    """Return rational rows orthogonal to the given ones.

    rows: (s, k). Each row found has few entries.
    """
    reduced = _rational_echelon(rows)
    if reduced is None:
        return None
    size = rows.shape[1]
    pivots = [next(i for i, entry in enumerate(row) if entry) for row in reduced]
    found = []
    for i in range(size):
        if i in pivots:
            continue
        row = {i: Fraction(1), **{p: -r[i] for p, r in zip(pivots, reduced, strict=True) if r[i]}}
        whole = _whole(dict(sorted(row.items())))
        found.append([whole.get(c, Fraction(0)) for c in range(size)])
    return found
