"""Analytic form of x/(exp(x) - 1).

The quotient is 0/0 at a regular point.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import permutations

import sympy as sp

TERMS = 15
"""Terms of sinh(w)/w in w². The error of the whole expression is largest near w = 11, where it is 1e-15."""

SAME = 1e-14
"""Rounding of products of decimal numbers, over which 0.1*(25 - V) and 2.5 - 0.1*V count as proportional."""


@lru_cache(maxsize=4096)
def without_removable_poles(expression: sp.Expr) -> sp.Expr:
    """Return the expression without removable poles.

    u/(exp(u) - 1) gets a form without a pole.

    The rates of ion channels contain this quotient. It is regular at u = 0 but evaluates to 0/0 there, and the
    recurrence for Taylor coefficients of a quotient divides by exp(u) - 1 once per order: rounding errors near u = 0
    grow with the power of the order, and the steps shrink to nothing. With w = u/2 and w² coth² w = w² + (w/sinh w)²,

        u/(exp(u) - 1) = w coth w - w = √(w² + 1/P(w)²) - w,    P(w) = Σ w²ⁿ/(2n + 1)! = sinh(w)/w.

    The series for P may end early for all w: where P is not accurate, 1/P² is small beside w². The error is below
    3e-15 times max(1, |u|) for every u.
    """
    if not expression.has(sp.exp):
        return expression
    return expression.replace(_may_have_pole, _rewritten)


def _may_have_pole(node: sp.Basic) -> bool:
    return isinstance(node, sp.Mul) and any(isinstance(f, sp.Pow) and f.exp.is_negative for f in node.args)


def _rewritten(product: sp.Expr) -> sp.Expr:
    """Return a product with each such quotient replaced."""
    powers = [factor.as_base_exp() for factor in product.args]
    for i, j in permutations(range(len(powers)), 2):
        (difference, p), (numerator, q) = powers[i], powers[j]
        if not (p.is_Integer and q.is_Integer and p < 0 < q):
            continue
        found = _quotient(difference, numerator)
        if found is None:
            continue
        count = min(-p, q)
        ratio, exponent = found
        powers[i], powers[j] = (difference, p + count), (numerator, q - count)
        return sp.Mul((ratio * _without_pole(exponent)) ** count, _rewritten_rest(powers))
    return product


def _rewritten_rest(powers: list[tuple[sp.Expr, sp.Expr]]) -> sp.Expr:
    rest = sp.Mul(*(base**exponent for base, exponent in powers))
    return _rewritten(rest) if _may_have_pole(rest) else rest


def _quotient(difference: sp.Expr, numerator: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """Return r and u of a quotient.

    They satisfy numerator/difference = r u/(exp(u) - 1); None is returned for other quotients.
    """
    if not (isinstance(difference, sp.Add) and len(difference.args) == 2):
        return None
    for constant, term in permutations(difference.args):
        factor, exponential = term.as_independent(sp.exp, as_Add=False)
        if not isinstance(exponential, sp.exp) or constant.has(sp.exp):
            continue
        # difference = factor exp(a) + constant vanishes at exp(a) = -constant/factor = exp(a₀).
        level = sp.cancel(-constant / factor)
        if not level.is_positive:
            continue
        exponent = sp.expand(exponential.args[0] - sp.log(level))
        ratio = _proportional(numerator, exponent)
        if ratio is not None:
            return sp.cancel(-ratio / constant), exponent
    return None


def _proportional(numerator: sp.Expr, exponent: sp.Expr) -> sp.Expr | None:
    """Return the ratio r of two proportional expressions.

    It satisfies numerator = r exponent for all values of the symbols; None is returned otherwise.
    """
    for x in sorted(numerator.free_symbols & exponent.free_symbols, key=str):
        slope = sp.diff(exponent, x)
        if slope.is_zero or slope.has(x):
            continue
        ratio = sp.cancel(sp.diff(numerator, x) / slope)
        if ratio.has(x):
            continue
        rest = sp.expand(numerator - ratio * exponent).as_coefficients_dict()
        size = max(abs(float(c)) for c in sp.expand(numerator).as_coefficients_dict().values())
        if all(abs(float(c)) <= SAME * size for c in rest.values()):
            return ratio
    return None


def _without_pole(u: sp.Expr) -> sp.Expr:
    """Return u/(exp(u) - 1) without a pole.

    The form is √(w² + 1/P(w)²) - w with w = u/2.
    """
    w = u / 2
    # Nested products cost one multiplication of Taylor series each.
    series = reduce(lambda value, n: 1 / sp.factorial(2 * n + 1) + w**2 * value, range(TERMS, -1, -1), sp.Integer(0))
    return sp.sqrt(w**2 + series**-2) - w
