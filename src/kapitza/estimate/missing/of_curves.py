"""Columns of candidate terms for fits to orbits and branches.

Their residuals are not samples along one motion. The terms are added to the equations with the coefficient 0, and the
method linearises its residuals by these coefficients as by its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.data import as_parts
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.branch_fit import BranchFit, term_columns
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing.dictionary import Term, candidate_terms
from kapitza.estimate.missing.score import Products
from kapitza.estimate.orbit_fit import OrbitFit, slopes_at
from kapitza.estimate.request import Request, make_request
from kapitza.model import Model, Parameter, parse_expression

ROUGH = (sp.Abs, sp.sign, sp.Max, sp.Min, sp.Piecewise, sp.Heaviside)
"""Laws with switches, which are left out: with the coefficient 0 they would give every orbit events."""

OWN = 1e-4
"""Smallest share of a column outside those of the parameters: below, differences along a branch do not resolve it."""


def curve_products(fit: Estimate) -> tuple[Products, list[Term]]:
    """Return products of the columns of a fit by `OrbitFit` or `BranchFit`, and its candidate terms."""
    terms = _smooth_terms(fit.model)
    if not terms:
        raise KapitzaError("No candidate term suits these equations: nothing to test.")
    names, k = tuple(f"missing_{i}" for i in range(len(terms))), len(fit.names)
    model = _with_terms(fit.model.with_values(**dict(fit.start)), terms, names)
    request = make_request(model, as_parts(fit.data), (*fit.names, *names), fit.settings)
    theta = np.array([*(fit.values[n] for n in fit.names), *np.zeros(len(terms))])
    try:
        slopes, residual = _columns(fit, request, theta)
    except FlowError as problem:
        raise KapitzaError(f"The terms cannot be tried along these orbits: {problem}") from None
    free, tried = slopes[:, :k], slopes[:, k:]
    own = tried - free @ np.linalg.lstsq(free, tried, rcond=None)[0]
    tried[:, (own**2).sum(axis=0) < OWN * (tried**2).sum(axis=0)] = 0.0
    # Measured minus predicted, as along a motion.
    block = np.column_stack([free, tried, -residual])
    return Products(block.T @ block, (tried**2).sum(axis=0), len(block)), terms


def _columns(fit: Estimate, request: Request, theta: Array) -> tuple[Array, Array]:
    if isinstance(fit.settings, OrbitFit):
        return slopes_at(fit, request, theta)
    assert isinstance(fit.settings, BranchFit)
    return term_columns(fit.settings, request, theta, len(fit.names))


def _smooth_terms(model: Model) -> list[Term]:
    found = candidate_terms(model, np.ones(len(model.states)))
    return [term for term in found if not _law(model, term, "c").has(*ROUGH)]


def _law(model: Model, term: Term, coefficient: str) -> sp.Expr:
    return parse_expression(term.notation.format(c=coefficient), {*model.states, *model.names, coefficient})


def _with_terms(model: Model, terms: Sequence[Term], names: Sequence[str]) -> Model:
    """Return the model with the terms on the left side of their equations, with coefficients 0."""
    equations = list(model.equations)
    rows = [coordinate.name for coordinate in model.coordinates]
    for term, name in zip(terms, names, strict=True):
        row = rows.index(model.states[term.state].rstrip("'"))
        equations[row] = equations[row] + _law(model, term, name)
    parameters = (*model.parameters, *(Parameter(name, 0.0) for name in names))
    return replace(model, equations=tuple(equations), parameters=parameters)
