"""Conserved quantities: form, constancy on data, and search."""

from kapitza.estimate.invariant_fit.conserved.covariance import (
    inverse_by_units,
    leverage_left,
    long_run,
    variance_covariance,
)
from kapitza.estimate.invariant_fit.conserved.expression import Form, declared_invariant, make_form
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
from kapitza.estimate.invariant_fit.conserved.terms import polynomials, trigonometric
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
