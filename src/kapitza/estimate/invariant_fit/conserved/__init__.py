"""Conserved quantities: their form, how constant they are on data, and the search for them."""

from kapitza.estimate.invariant_fit.conserved.covariance import (
    inverse_by_units,
    leverage_left,
    long_run,
    variance_covariance,
)
from kapitza.estimate.invariant_fit.conserved.expression import Form, declared_invariant, make_form
from kapitza.estimate.invariant_fit.conserved.found import FoundInvariant, InvariantSearch
from kapitza.estimate.invariant_fit.conserved.moments import FeatureTable, Moments, scores, second_moments, triangle
from kapitza.estimate.invariant_fit.conserved.points import (
    ASSUMED_NOISE,
    ENOUGH,
    Points,
    collect,
    reconstruction,
    scrambled,
)
from kapitza.estimate.invariant_fit.conserved.search import find_invariant
from kapitza.estimate.invariant_fit.conserved.terms import logarithms, polynomials, products, trigonometric
from kapitza.estimate.invariant_fit.conserved.variance import (
    CLEAN,
    Bounds,
    VarianceProblem,
    VarianceSolution,
    linear_starts,
    minimise_corrected,
    minimise_raw,
    precise_least_squares,
    smallest_root,
)

__all__ = [
    "ASSUMED_NOISE",
    "CLEAN",
    "ENOUGH",
    "Bounds",
    "FeatureTable",
    "Form",
    "FoundInvariant",
    "InvariantSearch",
    "Moments",
    "Points",
    "VarianceProblem",
    "VarianceSolution",
    "collect",
    "declared_invariant",
    "find_invariant",
    "inverse_by_units",
    "leverage_left",
    "linear_starts",
    "logarithms",
    "long_run",
    "make_form",
    "minimise_corrected",
    "minimise_raw",
    "polynomials",
    "precise_least_squares",
    "products",
    "reconstruction",
    "scores",
    "scrambled",
    "second_moments",
    "smallest_root",
    "triangle",
    "trigonometric",
    "variance_covariance",
]
