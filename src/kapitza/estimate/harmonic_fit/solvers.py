"""Solvers of the linear rows.

They are least squares, robust, errors in variables, and exclusion by residues.
Rows come in groups (windows, or sub-harmonics of one orbit) whose errors are independent of each other after whitening;
the covariance of the estimate is taken over groups, so it does not depend on the noise being exactly as assumed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Numbers
from kapitza.errors import IdentifiabilityError
from kapitza.estimate.identifiability import analyse
from kapitza.estimate.judge import huber_weights, robust_scale
from kapitza.estimate.parts import Exclusion
from kapitza.solve import symmetric_eigenvectors

GROUPS_PER_PARAMETER = 8
"""Fewest groups per parameter for the covariance over groups; with fewer that of the weights is used."""


@dataclass(frozen=True)
class System:
    """Whitened rows in groups.

    The rows satisfy matrix @ θ + rest = noise of unit variance.
    matrix: (n, k); rest: (n,); groups: (n,) increasing labels; instruments: (n, k) regressors with other noise.
    noise_matrix: (k + 1, k + 1) expected noise in [matrix rest]ᵀ[matrix rest], when known.
    """

    matrix: Numbers
    rest: Numbers
    groups: NDArray[np.integer]
    instruments: Numbers | None = None
    noise_matrix: Numbers | None = None


@dataclass(frozen=True)
class RowSolution:
    """Solution of the rows.

    theta: (k,); covariance: (k, k); residual: (n,); weights: (n,) in 0 … 1; chi2 over degrees of freedom `dof`.
    information: (k, k) of the weighted rows; condition: of the rows with columns scaled to unit length; matrix (n, k)
    and groups (n,): of the system that was solved; left (n, k): what its rows were multiplied by.
    """

    theta: Numbers
    covariance: Numbers
    residual: Numbers
    weights: Numbers
    chi2: float
    dof: float
    information: Numbers
    condition: float
    matrix: Numbers
    left: Numbers
    groups: NDArray[np.integer]


def check_columns(system: System, names: tuple[str, ...]) -> float:
    """Return the condition number of the rows.

    Columns are scaled to unit length; dependent columns are refused with the combination named.
    """
    length = np.linalg.norm(system.matrix, axis=0)
    idle = [n for n, l in zip(names, length, strict=True) if l == 0]
    if idle:
        raise IdentifiabilityError(
            f"The regressor of {', '.join(idle)} vanishes on these data, so they do not determine it: fix it, or "
            "use data in which its term is active."
        )
    squares = (system.matrix.T @ system.matrix) / np.outer(length, length)
    eigenvalues = np.linalg.eigvalsh(squares)
    condition = float(np.sqrt(eigenvalues[-1] / max(eigenvalues[0], np.finfo(float).tiny)))
    # Near 1/√ε: the columns are dependent to rounding of their products.
    if condition > 1e7:
        found = analyse(squares, names, np.ones(len(names)), tolerance=1e-7)
        raise IdentifiabilityError(found.message())
    return condition


def solve(system: System, names: tuple[str, ...], kind: str = "least squares") -> RowSolution:
    """Solve the rows for the parameters.

    kind: "least squares", "robust", "total" (errors in variables), "instruments".
    """
    condition = check_columns(system, names)
    weights = np.ones(len(system.rest))
    left = system.matrix
    if kind == "instruments" and system.instruments is not None:
        left = system.instruments
        # Instruments with independent noise remove the bias of noisy regressors.
        theta = np.linalg.solve(left.T @ system.matrix, -left.T @ system.rest)
    elif kind == "total" and system.noise_matrix is not None:
        theta = _total(system)
    else:
        theta = _least_squares(system, condition)
    if kind == "robust":
        theta, weights = _robust(system, theta)
    residual = system.rest + system.matrix @ theta
    weighted = left * weights[:, None]
    information = weighted.T @ system.matrix
    if kind == "total" and system.noise_matrix is not None:
        # The part of AᵀA that is noise carries no information.
        information = information - system.noise_matrix[:-1, :-1]
    dof = max(len(system.rest) - len(theta), 1)
    chi2 = float(weights @ residual**2)
    covariance, groups = _covariance(weighted, system.matrix, residual, information, system.groups, chi2 / dof)
    return RowSolution(
        theta, covariance, residual, weights, chi2, groups, information, condition, system.matrix, weighted,
        system.groups,
    )  # fmt: skip


def _least_squares(system: System, condition: float) -> Numbers:
    """Solve by least squares.

    Normal equations are used where the rows allow it (there are usually many and they are well conditioned), else
    an SVD.
    """
    # Normal equations square the condition number: above 1e4 they would lose half of the digits.
    if condition > 1e4:
        return np.linalg.lstsq(system.matrix, -system.rest, rcond=None)[0]
    length = np.linalg.norm(system.matrix, axis=0)
    squares = (system.matrix.T @ system.matrix) / np.outer(length, length)
    return np.linalg.solve(squares, -(system.matrix.T @ system.rest) / length) / length


def _covariance(
    left: Numbers, matrix: Numbers, residual: Numbers, information: Numbers, groups: NDArray[np.integer], level: float
) -> tuple[Numbers, float]:
    """Return the jackknife covariance over groups.

    Its degrees of freedom are returned as well.
    """
    own, scores = by_group(left, matrix, residual, groups)
    count, size = len(scores), len(information)
    # Too few groups: the model-based covariance, scaled by the residuals.
    if count < GROUPS_PER_PARAMETER * size:
        inverse = np.linalg.inv(information)
        return (inverse + inverse.T) / 2 * level, float(max(len(residual) - size, 1))
    moves = without_each(information, own, scores)
    return moves.T @ moves * (count - 1) / count, float(count - size)


def by_group(left: Numbers, matrix: Numbers, residual: Numbers, groups: NDArray[np.integer]) -> tuple[Numbers, Numbers]:
    """Return information and score of every group.

    They are J_g (G, k, k) and s_g (G, k).
    """
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    parts = [slice(a, b) for a, b in itertools.pairwise([*starts.tolist(), len(residual)])]
    return np.array([left[p].T @ matrix[p] for p in parts]), np.array([left[p].T @ residual[p] for p in parts])


def without_each(information: Numbers, own: Numbers, scores: Numbers) -> Numbers:
    """Return the moves (G, k) without each group.

    They are (J - J_g)⁻¹ s_g. J⁻¹ s_g would be too small where few groups hold much of the information (slow passages of
    a chaotic motion).
    """
    return np.linalg.solve(information - own, scores[..., None])[..., 0]


def _robust(system: System, theta: Numbers) -> tuple[Numbers, Numbers]:
    """Solve with Huber's weights by iteration.

    The scale follows from the median residual.
    """
    weights = np.ones(len(system.rest))
    for _ in range(30):
        residual = system.rest + system.matrix @ theta
        weights = huber_weights(residual, robust_scale(residual))
        root = np.sqrt(weights)
        update = np.linalg.lstsq(system.matrix * root[:, None], -system.rest * root, rcond=None)[0]
        done = np.abs(update - theta).max() <= 1e-10 * np.abs(update).max()
        theta = update
        if done:
            break
    return theta, weights


def _total(system: System) -> Numbers:
    """Return Koopmans' estimate: errors in variables.

    It is the direction of [A b] that noise alone explains best. λ is the smallest one with [A b]ᵀ[A b] v = λ N v for
    the noise matrix N; θ = v_A / v_b.
    """
    full = np.column_stack([system.matrix, system.rest])
    noise = system.noise_matrix
    assert noise is not None
    scale = np.linalg.norm(full, axis=0)
    moment = (full.T @ full) / np.outer(scale, scale)
    noise = noise / np.outer(scale, scale)
    # The inverse problem N v = μ M v: columns without noise make N singular, while the moments M are regular.
    _, vectors = symmetric_eigenvectors((noise + noise.T) / 2, moment)
    direction = vectors[:, -1] / scale
    return direction[:-1] / direction[-1]


def identification_error(matrix: Numbers, rest: Numbers, theta: Numbers) -> float:
    """Return the identification error ε (HARMONIC 5.5.3).

    It is ε = max|e| / max|q̂|, the largest residue over the largest predicted right-hand side.
    """
    predicted = matrix @ theta
    return float(np.abs(predicted + rest).max() / np.abs(predicted).max())


def exclude_by_residue(
    matrix: Numbers,
    rest: Numbers,
    units: NDArray[np.integer],
    share: float = 0.05,
    limit: float = 0.1,
    rounds: int = 50,
) -> tuple[Numbers, Exclusion]:
    """Drop the sub-harmonics with the largest residues.

    Those whose residue exceeds (1 - β) of the largest are dropped, until ε < limit (HARMONIC 5.5.3). units: (n,)
    label of the sub-harmonic a row belongs to (its cosine and sine rows go together).
    """
    used = np.ones(len(rest), bool)
    theta = np.linalg.lstsq(matrix, -rest, rcond=None)[0]
    before = after = identification_error(matrix, rest, theta)
    done = 0
    # At least twice as many rows as parameters are kept.
    while after >= limit and done < rounds and used.sum() > 2 * matrix.shape[1]:
        residue = np.abs(matrix @ theta + rest)
        worst = np.unique(units[used & (residue > (1.0 - share) * residue[used].max())])
        used &= ~np.isin(units, worst)
        theta = np.linalg.lstsq(matrix[used], -rest[used], rcond=None)[0]
        after = identification_error(matrix[used], rest[used], theta)
        done += 1
    dropped = len(np.unique(units)) - len(np.unique(units[used]))
    return theta, Exclusion(before, after, dropped, done, used)
