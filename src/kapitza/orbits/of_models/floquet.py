"""Floquet multipliers from the propagators of segments.

Their defects bound how far the multipliers can be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import mpmath
import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.orbits import Certificate
from kapitza.solve import eigenvectors, ordered

PLAIN_GROWTH = 1e3
"""Below this ratio between the largest and the smallest action of the segments a product in doubles loses nothing."""


@dataclass(frozen=True)
class Monodromy:
    """Multipliers (n,) with eigenvectors.

    The largest modulus comes first; right and left eigenvectors are those at the first node (columns).
    Eigenvectors are scaled so that leftᴴ right = I; they are NaN where two multipliers coincide.
    """

    multipliers: Complex
    right: Complex
    left: Complex


def monodromy(segments: Array) -> Monodromy:
    """Return multipliers from segment propagators (J, n, n).

    They are the eigenvalues of the product G_{J-1} … G_1 G_0.
    Forming the product in doubles loses every multiplier smaller than the largest one times the rounding unit. When
    growth is large enough for that, the product of several is formed in multiple precision, with as many digits as
    their condition numbers require: its eigenvalues are then exactly those of the given factors, the same backward
    error that a periodic Schur decomposition has, and singular factors (stick, lasting contact) do no harm.
    """
    segments = np.asarray(segments, float)
    if not np.isfinite(segments).all():
        n = segments.shape[1]
        nan = np.full((n, n), np.nan, complex)
        return Monodromy(np.full(n, np.nan, complex), nan, nan)
    segments = _merged(segments)
    spread = np.linalg.svd(segments, compute_uv=False)
    with np.errstate(divide="ignore"):
        low = np.log10(np.maximum(spread[:, -1], 1e-300)).clip(-30).sum()
        high = np.log10(np.maximum(spread[:, 0], 1e-300)).sum()
    if len(segments) == 1:
        return _refined(segments[0], _plain(segments[0]))
    if high - low < np.log10(PLAIN_GROWTH) or segments.shape[1] == 1:
        return _plain(np.linalg.multi_dot(list(segments[::-1])))
    values, right = _precise_eigen(segments, int(high - low) + 40)
    return _with_left(*ordered(values, right))


def _plain(matrix: Array) -> Monodromy:
    return _with_left(*eigenvectors(matrix))


def _refined(matrix: Array, found: Monodromy) -> Monodromy:
    """Refine multipliers of one factor by Rayleigh quotients.

    The two-sided Rayleigh quotient yᴴ M x, whose error is that of the vectors squared.
    In long doubles, so that a multiplier far below the largest one has the digits that the factor itself holds.
    """
    right, left = found.right.astype(np.clongdouble), found.left.astype(np.clongdouble)
    values = np.einsum("ij,ik,kj->j", left.conj(), matrix.astype(np.longdouble), right).astype(complex)
    norms = np.einsum("ij,ij->j", left.conj(), right).astype(complex)
    if not (np.isfinite(values).all() and (np.abs(norms) > 0.5).all()):
        return found
    values = values / norms
    above = np.flatnonzero(found.multipliers.imag > 0)
    values[above + 1] = values[above].conj()
    return replace(found, multipliers=_without_stray_parts(values))


def _merged(segments: Array) -> Array:
    """Multiply neighbouring factors in pairs.

    Wherever the product stays well conditioned.
    """
    while len(segments) > 1:
        pairs = len(segments) // 2
        product = segments[1 : 2 * pairs : 2] @ segments[0 : 2 * pairs : 2]
        spread = np.linalg.svd(product, compute_uv=False)
        # A product of condition number below 1e4 keeps 12 digits of every action.
        fine = spread[:, 0] <= 1e4 * spread[:, -1]
        # Further passes would merge few pairs and cost a decomposition each.
        if fine.sum() < max(1, pairs // 8):
            break
        both = np.stack([segments[0 : 2 * pairs : 2], segments[1 : 2 * pairs : 2]], axis=1)
        both[fine, 0] = product[fine]
        kept = np.stack([np.ones(pairs, bool), ~fine], axis=1).ravel()
        segments = np.concatenate([both.reshape(-1, *segments.shape[1:])[kept], segments[2 * pairs :]])
    return segments


def _precise_eigen(segments: Array, digits: int) -> tuple[Complex, Complex]:
    with mpmath.workdps(digits):
        product = mpmath.matrix(segments[0].tolist())
        for factor in segments[1:]:
            product = mpmath.matrix(factor.tolist()) * product
        values, right = mpmath.eig(product)  # any sign: ordered by the caller
        n = segments.shape[1]
        vectors = np.array([[complex(right[i, j]) for j in range(n)] for i in range(n)])
        return _without_stray_parts(np.array([complex(v) for v in values])), vectors


def _with_left(values: Complex, right: Complex) -> Monodromy:
    values = _without_stray_parts(values)
    try:
        left = np.asarray(np.linalg.inv(right).conj().T, np.complex128)
    except np.linalg.LinAlgError:
        left = np.full_like(right, np.nan)
    return Monodromy(values, right, left)


def _without_stray_parts(values: Complex) -> Complex:
    """Remove imaginary parts from rounding.

    Multipliers of real matrices come in conjugate pairs.
    """
    return np.where(np.abs(values.imag) <= 1e-14 * np.abs(values), values.real, values)


def log_determinant(segments: Array) -> float:
    """Return Σ log|det G_j|.

    The determinant of the product would lose digits.
    """
    spread = np.linalg.svd(segments, compute_uv=False)
    if (spread[:, -1] <= 1e-14 * spread[:, 0]).any():
        # Contracted below rounding: the determinant holds no digit to compare.
        return float("nan")
    return float(np.linalg.slogdet(segments)[1].sum())


def certificate(
    multipliers: Complex, log_det: float, trace_integral: float, trivial: bool, agreement: float = float("nan")
) -> Certificate:
    """Return the defects of the multipliers.

    They are the distance of the trivial one from 1, and Σ log|det| against ∫ trace f_x dt.
    """
    from_one = float(np.abs(multipliers - 1).min()) if trivial and np.isfinite(multipliers).all() else float("nan")
    gap = abs(log_det - trace_integral) / max(1.0, abs(trace_integral))
    determinant = gap if np.isfinite(gap) else float("nan")
    return Certificate(from_one, determinant, agreement)


def stability(multipliers: Complex, defect: float, trivial: bool) -> str:
    """Classify stability by the multipliers.

    "stable", "unstable", or "unknown" when the largest non-trivial multiplier is within the defect of the unit circle.
    """
    if not np.isfinite(multipliers).all():
        return "unknown"
    remaining = np.delete(multipliers, np.argmin(np.abs(multipliers - 1))) if trivial else multipliers
    if remaining.size == 0:
        return "unknown"
    largest = float(np.abs(remaining).max())
    # Within the defect the side of the unit circle is not known.
    margin = max(defect if np.isfinite(defect) else 0.0, 1e-9) * max(largest, 1.0)
    if abs(largest - 1) <= margin:
        return "unknown"
    return "stable" if largest < 1 else "unstable"


def match(first: Complex, second: Complex) -> float:
    """Return the largest distance between sets of multipliers.

    Relative, for the pairing that makes it small.
    """
    from scipy.optimize import linear_sum_assignment

    scale = np.maximum(np.maximum(np.abs(first)[:, None], np.abs(second)[None, :]), 1e-8)
    cost = np.abs(first[:, None] - second[None, :]) / scale
    # Sorting by modulus would mispair multipliers of equal modulus.
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].max())
