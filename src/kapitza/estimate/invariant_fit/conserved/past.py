"""Test whether residuals of an invariant are noise.

Otherwise they follow the motion.

With ε the noise of a sample and L = Σ_j v_j ∂²/∂z_j², φ̃ = exp(-L/2) φ has the mean φ(z°) of the clean state. If
I = Σ_k c_k φ_k is conserved, its residual h_i = c·φ̃(z_i) - E depends on the noise of sample i alone, so that it is
uncorrelated with every function ψ of earlier samples, however close they are, and with time itself:

    mean of ψ(z_{i-1}) h_i = 0     (instrumental variables).

The least weighted square of these means over c is χ² distributed, with as many degrees of freedom as there are ψ beyond
the free c (test of overidentifying restrictions, Sargan 1958, Hansen 1982). A function that is only nearly constant
along the trajectory is predictable from its past and fails. The noise level enters through φ̃ only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.estimate.invariant_fit.conserved.moments import level_sums, noise_symbols
from kapitza.estimate.invariant_fit.conserved.points import Points
from kapitza.estimate.invariant_fit.conserved.terms import complexity
from kapitza.model import compile_expressions, symbol
from kapitza.solve import first_largest, oriented, singular_vectors

WIDTHS = ((1, 4), (2, 8))
"""Numbers of earlier samples over which instruments are averaged, for one test and for another."""
CHANCE = 1e-3
"""Probability below which a residual is not taken for noise."""
TESTS = 5
"""Tests of one candidate: both widths, forwards and backwards, and drift; the smallest probability counts."""
ENOUGH = 3
"""Fewest samples per instrument; short records have fewer instruments, the simplest."""
MOST_INSTRUMENTS = 80
"""Most functions of which instruments are made, simplest first."""


def clean_means(terms: Sequence[sp.Expr], variables: Sequence[str]) -> list[sp.Expr]:
    """Return φ̃ = φ - Lφ/2 + L²φ/8.

    Exact for polynomials up to degree five; the variances are the noise symbols.
    """
    state, v = [symbol(n) for n in variables], noise_symbols(tuple(variables))

    def laplace(f: sp.Expr) -> sp.Expr:
        return sp.Add(*(v[j] * sp.diff(f, s, 2) for j, s in enumerate(state)))

    first = [laplace(t) for t in terms]
    return [t - a / 2 + laplace(a) / 8 for t, a in zip(terms, first, strict=True)]


def independent_lag(points: Points) -> int:
    """Return the lag at which no measured number repeats.

    It is the smallest such distance in samples; numbers repeat where channels are delays.
    """
    dimension = len(points.variables)
    for lag in range(1, 2 * dimension + 1):
        early, late = points.values[:, :-lag], points.values[:, lag:]
        repeats = (np.mean(early[j] == late[k]) for j in range(dimension) for k in range(dimension))
        if max(repeats) < 0.5:
            return lag
    return 2 * dimension + 1


def richer(library: Sequence[sp.Expr], channels: Sequence[str], angles: Sequence[bool]) -> list[sp.Expr]:
    """Return the library and products with every channel.

    For angles cos and sin are included: functions that a false invariant leaves out.
    """
    factors: list[sp.Expr] = []
    for name, angle in zip(channels, angles, strict=True):
        factors += [sp.cos(symbol(name)), sp.sin(symbol(name))] if angle else [symbol(name)]
    products = {f * t for t in library for f in factors} - set(library)
    return [*library, *sorted(products, key=complexity)][: max(MOST_INSTRUMENTS, len(library))]


class PastTest:
    """Test of a library against earlier samples.

    φ̃ (K, M) of the library about its level means, and orthonormal instruments (M, L) from earlier samples.
    past: functions that the instruments are made of. widths: samples averaged. backwards: later samples instead.
    """

    def __init__(
        self,
        library: Sequence[sp.Expr],
        points: Points,
        past: Sequence[sp.Expr],
        widths: Sequence[int] = WIDTHS[0],
        backwards: bool = False,
    ):
        # A residual that follows the motion is also predictable from later samples.
        if backwards:
            points = points.take(np.arange(points.count)[::-1])
        names = [*points.variables, *(s.name for s in noise_symbols(points.variables))]
        states = np.vstack([points.values, points.variance])
        features = _centred(compile_expressions(clean_means(library, points.variables), names)(states), points)
        most = max(1, points.count // (ENOUGH * len(widths)))
        early = _centred(compile_expressions(past[:most], names)(states), points)
        early = early / np.std(early, axis=1)[:, None]
        self.size = np.std(features, axis=1)
        lag, index = independent_lag(points), np.arange(points.count)
        total = np.concatenate([np.zeros((len(early), 1)), np.cumsum(early, axis=1)], axis=1)
        reach = index - lag - max(widths) + 1
        usable = (reach >= 0) & (points.run[np.maximum(reach, 0)] == points.run)
        end = np.maximum(index - lag + 1, 0)
        means = np.vstack([(total[:, end] - total[:, np.maximum(end - w, 0)]) / w for w in widths])[:, usable].T
        self.features, self.count = features[:, usable] / self.size[:, None], int(usable.sum())
        self.instruments = np.zeros((self.count, 0))
        if self.count > means.shape[1]:
            left, values, _ = np.linalg.svd(means, full_matrices=False)  # any sign: as a space
            # Orthonormal instruments; dependent functions of the past are dropped.
            self.instruments = left[:, values > 1e-8 * values[0]] * np.sqrt(self.count)

    def able(self, terms: int) -> bool:
        """Return whether there are enough instruments.

        The number needed grows with the number of terms.
        """
        # More instruments than coefficients, or nothing is left to test.
        return self.instruments.shape[1] > terms + terms // 4

    def least_predictable(self, support: NDArray[np.intp], vectors: Array) -> Array:
        """Return the least predictable combination (k,).

        It is the vector in the span of vectors (k, r) with the smallest canonical correlation with the past.
        """
        rows = (vectors.T * self.size[support]) @ self.features[support]
        left, values, turn = singular_vectors(rows, full=False)
        axes, _, _ = singular_vectors(turn @ self.instruments)
        return oriented(vectors @ (left / np.maximum(values, 1e-300)) @ axes[:, -1:])[:, 0]

    def fit(self, support: NDArray[np.intp], coefficients: Array) -> tuple[Array, Array, float, int]:
        """Fit coefficients (k,) least correlated with the past.

        Standard errors, the statistic and its degrees of freedom are returned as well. The term of largest weight gets
        the coefficient 1; the given ones weight the means by their noise.
        """
        shares, features = coefficients * self.size[support], self.features[support]
        lead = int(first_largest(np.abs(shares)))
        rest = np.delete(np.arange(support.size), lead)
        residual = shares / shares[lead] @ features
        weighted = self.instruments * residual[:, None]
        # Covariance of the means, which allows for noise that differs from sample to sample.
        spread = weighted.T @ weighted / self.count
        root = np.linalg.cholesky(spread + 1e-10 * np.trace(spread) / len(spread) * np.eye(len(spread)))
        slopes = np.linalg.solve(root, self.instruments.T @ features.T / self.count)
        unknown = slopes[:, rest]
        change = np.linalg.lstsq(unknown, -slopes[:, lead], rcond=None)[0]
        left = slopes[:, lead] + unknown @ change
        covariance = np.linalg.pinv(unknown.T @ unknown) / self.count
        errors = np.insert(np.sqrt(np.clip(np.diag(covariance), 0, None)), lead, 0.0)
        units = self.size[support[lead]] / self.size[support]
        return (
            np.insert(change, lead, 1.0) * units,
            errors * units,
            float(self.count * left @ left),
            max(1, self.instruments.shape[1] - rest.size),
        )


def drift_statistic(terms: Sequence[sp.Expr], coefficients: Array, points: Points) -> float:
    """Return χ² of a slow loss or gain.

    It has two degrees of freedom: the residual against time and its square. The part of either that the terms with free
    coefficients explain is removed, so that errors of these make no drift.
    """
    names = [*points.variables, *(s.name for s in noise_symbols(points.variables))]
    states = np.vstack([points.values, points.variance])
    features = _centred(compile_expressions(clean_means(terms, points.variables), names)(states), points)
    first, last = (np.full(points.levels, sign * np.inf) for sign in (1, -1))
    np.minimum.at(first, points.level, points.times)
    np.maximum.at(last, points.level, points.times)
    along = (points.times - first[points.level]) / np.maximum(last - first, 1e-300)[points.level]
    slow = _centred(np.array([along, (2 * along - 1) ** 2]), points).T
    size = np.std(features, axis=1)
    scaled = np.delete(features / size[:, None], np.argmax(np.abs(coefficients) * size), axis=0).T
    # Errors of the free coefficients would otherwise look like a drift.
    slow = slow - scaled @ np.linalg.lstsq(scaled, slow, rcond=1e-10)[0]
    rows = slow * (coefficients @ features)[:, None]
    total = rows.sum(axis=0)
    return float(total @ np.linalg.pinv(rows.T @ rows) @ total)


def _centred(values: Array, points: Points) -> Array:
    means = level_sums(values, np.ones(points.count), points.level, points.levels) / np.bincount(points.level)
    return values - means[:, points.level]


def predicted_share(
    terms: Sequence[sp.Expr], coefficients: Array, points: Points, past: Sequence[sp.Expr]
) -> tuple[float, float]:
    """Return p-value and share of predictable variation.

    The probability that noise is as predictable, and the share of the variation of Σ c φ that other samples predict.
    """
    from scipy.stats import chi2

    least, largest, support = 1.0, 0.0, np.arange(len(terms))
    for widths in WIDTHS:
        for backwards in (False, True):
            test = PastTest(terms, points, past, widths, backwards)
            if test.able(len(terms)):
                _, _, statistic, dof = test.fit(support, coefficients)
                # Bonferroni's correction for the five tests.
                least = min(least, TESTS * float(chi2.sf(statistic, dof)))
                largest = max(largest, (statistic - dof) / test.count)
    statistic = drift_statistic(terms, coefficients, points)
    return min(least, TESTS * float(chi2.sf(statistic, 2))), max(largest, (statistic - 2) / points.count)
