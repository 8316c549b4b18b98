"""Second moments of the features, corrected for noise.

With z = z° + ε, ε ~ N(0, diag v), and L = Σ_j v_j ∂²/∂z_j², the mean of a smooth f obeys E f(z) = exp(L/2) f(z°), so
exp(-L/2) f(z) is unbiased; the series is cut after the first or second power. Applied to the products of centred
features it gives the moment matrix that clean data would have had:

    S(τ) = S0 - τ S1 + τ² S2,      τ = (true / stated noise variance).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.estimate.invariant_fit.conserved.expression import Form
from kapitza.estimate.invariant_fit.conserved.points import Points
from kapitza.model import compile_expressions, symbol
from kapitza.solve import triangular_factor

BLOCK = 256
"""Rows of one block of a QR factorisation."""
CHUNK = 16384
"""Points evaluated at once; this limits memory for records of any length."""


@dataclass(frozen=True)
class Moments:
    """Moments of the features per unit of weight.

    They are S0, S1, S2 (K, K) as above; `root` (K, K) satisfies rootᵀ root = S0, from a QR factorisation.
    """

    root: Array
    noise: Array
    second: Array
    order: int

    @property
    def raw(self) -> Array:
        return self.root.T @ self.root

    def at(self, tau: float) -> Array:
        return self.raw - tau * self.noise + tau**2 * self.second


@dataclass(frozen=True)
class NoiseTerms:
    """Features and their derivatives at M points.

    f, Lf, L²f (K, M); ∂f, ∂Lf (K, d, M); ∂∂f (K, d, d, M).
    """

    value: Array
    laplace: Array
    twice: Array
    gradient: Array
    gradient_laplace: Array
    curvature: Array


def noise_symbols(variables: tuple[str, ...]) -> list[sp.Symbol]:
    return [symbol(f"{name}#") for name in variables]


@lru_cache(maxsize=128)
def _feature_rows(features: tuple[sp.Expr, ...], variables: tuple[str, ...], order: int) -> tuple[sp.Expr, ...]:
    """Return the features and the derivatives needed.

    Order 1 needs Lf and ∂f, order 2 also L²f, ∂Lf and ∂∂f; the variances v are symbols.
    """
    state, v = [symbol(n) for n in variables], noise_symbols(variables)

    def laplace(f: sp.Expr) -> sp.Expr:
        return sp.Add(*(v[j] * sp.diff(f, s, 2) for j, s in enumerate(state)))

    rows: list[sp.Expr] = list(features)
    if order >= 1:
        first = [laplace(f) for f in features]
        rows += [*first, *(sp.diff(f, s) for f in features for s in state)]
        if order >= 2:
            rows += [laplace(f) for f in first]
            rows += [sp.diff(f, s) for f in first for s in state]
            rows += [sp.diff(f, s, r) for f in features for s in state for r in state]
    # The second derivative of a kink in a friction law is a pulse at single states, where no sample is.
    smooth: list[Any] = [row.replace(sp.DiracDelta, lambda *_: sp.Integer(0)) for row in rows]
    return tuple(smooth)


class FeatureTable:
    """Compiled features of a form.

    It includes the derivatives that a correction of the given order needs.
    """

    def __init__(self, form: Form, order: int):
        self.form, self.order = form, order
        self.count, self.dimension = len(form.features), len(form.variables)
        rows = _feature_rows(form.features, form.variables, order)
        names = [*form.variables, *(s.name for s in noise_symbols(form.variables))]
        self._compiled = compile_expressions(rows, names, tuple(form.values))

    def evaluate(self, values: Array, variance: Array, theta: Array) -> NoiseTerms:
        rows = self._compiled(np.vstack([values, variance]), self.form.parameters(theta))
        k, d, m = self.count, self.dimension, values.shape[1]
        zero, zero_d = np.zeros((k, 1)), np.zeros((k, d, 1))
        if self.order == 0:
            return NoiseTerms(rows, zero, zero, zero_d, zero_d, np.zeros((k, d, d, 1)))
        value, laplace, gradient = rows[:k], rows[k : 2 * k], rows[2 * k : 2 * k + k * d].reshape(k, d, m)
        if self.order == 1:
            return NoiseTerms(value, laplace, zero, gradient, zero_d, np.zeros((k, d, d, 1)))
        rest = rows[2 * k + k * d :]
        twice, slope = rest[:k], rest[k : k + k * d].reshape(k, d, m)
        return NoiseTerms(value, laplace, twice, gradient, slope, rest[k + k * d :].reshape(k, d, d, m))


def level_sums(values: Array, weights: Array, level: NDArray[np.intp], levels: int) -> Array:
    """Return weighted sums (K, levels) per level set.

    Values (K, N) are summed over the points of each.
    """
    return np.array([np.bincount(level, row * weights, levels) for row in values], float)


def triangle(rows: Array) -> Array:
    """Return R of the QR factorisation of rows.

    R (at most K, K), rows (M, K); tall ones in blocks that stay in cache.
    """
    tall, width = rows.shape
    blocks = tall // BLOCK
    if blocks > 1 and width < BLOCK // 4:
        most = rows[: blocks * BLOCK].reshape(blocks, BLOCK, width)
        small = triangular_factor(most).reshape(-1, width)
        rows = np.vstack([small, rows[blocks * BLOCK :]])
    return triangular_factor(rows)


def second_moments(table: FeatureTable, points: Points, theta: Array, weights: Array) -> Moments:
    """Return the moments of the features.

    Moments are about the mean on each level set, with weights (N,) normalised to Σ w = 1.
    """
    weights = weights / weights.sum()
    k, levels = table.count, points.levels
    total = np.bincount(points.level, weights, levels)
    sums = np.zeros((2, k, levels))
    for part in _chunks(points):
        terms = table.evaluate(points.values[:, part], points.variance[:, part], theta)
        for i, rows in enumerate((terms.value, terms.laplace / 2)[: max(1, table.order)]):
            sums[i] += level_sums(rows, weights[part], points.level[part], levels)
    mean = sums[0] / total
    root, noise, second = np.zeros((0, k)), np.zeros((k, k)), np.zeros((k, k))
    for part in _chunks(points):
        w = weights[part]
        terms = table.evaluate(points.values[:, part], points.variance[:, part], theta)
        centred = terms.value - mean[:, points.level[part]]
        # Sequential QR: S0 itself would square the condition number, and the data need not fit into memory.
        root = triangle(np.vstack([root, (np.sqrt(w) * centred).T]))
        if table.order >= 1:
            noise += _first_order(terms, centred, points.variance[:, part], w)
        if table.order >= 2:
            second += _second_order(terms, centred, points.variance[:, part], w)
    if table.order >= 2:
        second -= (sums[1] / total) @ sums[1].T
    return Moments(root, noise, second, table.order)


def _chunks(points: Points) -> list[slice]:
    return [slice(a, min(a + CHUNK, points.count)) for a in range(0, points.count, CHUNK)]


def _first_order(terms: NoiseTerms, centred: Array, variance: Array, w: Array) -> Array:
    """Return the mean of L(ab)/2 over pairs of features.

    L(ab)/2 = (a Lb + b La)/2 + Γ(a, b), Γ(a, b) = Σ_j v_j ∂_j a ∂_j b.
    """
    cross = (centred * w) @ terms.laplace.T / 2
    slopes = (terms.gradient * np.sqrt(w * variance)).reshape(len(centred), -1)
    return cross + cross.T + slopes @ slopes.T


def _second_order(terms: NoiseTerms, centred: Array, variance: Array, w: Array) -> Array:
    """Return the mean of L²(ab)/8 over pairs of features.

    L²(ab)/8 = (a L²b + b L²a)/8 + La Lb/4 + Γ(a, Lb)/2 + Γ(La, b)/2 + Σ_jk v_j v_k ∂_jk a ∂_jk b / 2.
    """
    k = len(centred)
    cross = (centred * w) @ terms.twice.T / 8
    mixed = (terms.gradient * (w * variance)).reshape(k, -1) @ terms.gradient_laplace.reshape(k, -1).T / 2
    bend = (terms.curvature * np.sqrt(w * variance[:, None] * variance)).reshape(k, -1)
    square = (terms.laplace * w) @ terms.laplace.T / 4
    return cross + cross.T + mixed + mixed.T + square + bend @ bend.T / 2


@dataclass(frozen=True)
class Scores:
    """Contributions of each point to the estimating equations.

    They refer to coefficients c and their derivatives C (centred on the level set).

    invariant: c·φ (N,). slope: (k, N) derivative of half the corrected square, whose weighted sum vanishes at the
    estimate. excess: (N,) corrected square. added: (N,) what unit τ subtracts from the square; added_slope (k, N) its
    half derivative. gradient: (d, N) of c·φ in the state. centred: (k, N) derivatives of c·φ about their level means.
    """

    invariant: Array
    slope: Array
    excess: Array
    added: Array
    added_slope: Array
    gradient: Array
    centred: Array


def score_chunks(
    table: FeatureTable, points: Points, theta: Array, weights: Array, tau: float
) -> Iterator[tuple[slice, Scores]]:
    """Yield the scores of successive points.

    They are contributions to the estimating equations of the corrected variance, to first order in τ.
    """
    c, slopes = table.form.local(theta)
    every, plain = np.vstack([c, slopes.T]), FeatureTable(table.form, 0)
    sums = np.zeros((len(every), points.levels))
    for part in _chunks(points):
        values = every @ plain.evaluate(points.values[:, part], points.variance[:, part], theta).value
        sums += level_sums(values, weights[part], points.level[part], points.levels)
    means = sums / np.bincount(points.level, weights, points.levels)
    k, d = len(c), table.dimension
    for part in _chunks(points):
        terms, count = table.evaluate(points.values[:, part], points.variance[:, part], theta), part.stop - part.start
        values = every @ terms.value - means[:, points.level[part]]
        laplace = every @ np.broadcast_to(terms.laplace, (k, count))
        gradient = (every @ np.broadcast_to(terms.gradient, (k, d, count)).reshape(k, -1)).reshape(-1, d, count)
        noise = np.einsum("dn,cdn->cn", gradient[0] * points.variance[:, part], gradient)
        h, rest = values[0], values[1:]
        added = h * laplace[0] + noise[0]
        bend = (h * laplace[1:] + rest * laplace[0]) / 2 + noise[1:]
        yield part, Scores(h, h * rest - tau * bend, h**2 - tau * added, added, bend, gradient[0], rest)


def scores(table: FeatureTable, points: Points, theta: Array, weights: Array, tau: float) -> Scores:
    """Return the scores of all points."""
    parts = [found for _, found in score_chunks(table, points, theta, weights, tau)]
    return Scores(*(np.concatenate([getattr(p, f.name) for p in parts], axis=-1) for f in fields(Scores)))
