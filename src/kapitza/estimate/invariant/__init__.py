"""Parameters from conserved quantities, and conserved quantities from data."""

from kapitza.estimate.invariant.fit import InvariantFit
from kapitza.estimate.invariant.found import FoundInvariant, InvariantSearch
from kapitza.estimate.invariant.search import find_invariant
from kapitza.estimate.invariant.terms import logarithms, polynomials, products, trigonometric

__all__ = [
    "FoundInvariant",
    "InvariantFit",
    "InvariantSearch",
    "find_invariant",
    "logarithms",
    "polynomials",
    "products",
    "trigonometric",
]
