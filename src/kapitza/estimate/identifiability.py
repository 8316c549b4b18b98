"""Identifiability: which parameters or combinations the data determine.

The Fisher information in relative coordinates, F_ij = Σ (∂y/∂ log θ_i)(∂y/∂ log θ_j)/σ², has a direction of vanishing
curvature for every change of the parameters that leaves the outputs unchanged. A direction with rational entries is a
scaling law: with m, k2, k3 → c m, c k2, c k3 only k2/m and k3/m can be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.solve import basis_of, symmetric_eigenvectors


@dataclass(frozen=True)
class Identifiability:
    """Rank of the information, determined and undetermined combinations.

    determined: names or combinations such as "k2/m" and "ka + kb"; fewer than `rank` where some have no simple formula.
    undetermined: one line per free direction.
    directions: (k, k - rank) relative changes that leave the data unchanged. condition: of the relative information's
    square root (the largest over the smallest relative standard error).
    exact: the combinations follow from the equations themselves; otherwise they are found from the data at one point.
    equivalents: other values of the parameters with exactly the same outputs, such as exchanged rates.
    """

    names: tuple[str, ...]
    rank: int
    determined: tuple[str, ...]
    undetermined: tuple[str, ...]
    directions: Array
    condition: float
    exact: bool = False
    equivalents: tuple[Mapping[str, float], ...] = ()

    @property
    def complete(self) -> bool:
        return self.rank == len(self.names)

    def message(self) -> str:
        """Return a message on parameters that cannot be distinguished."""
        if self.complete and not self.equivalents:
            return "All free parameters are determined."
        if self.complete:
            return (
                "All free parameters are determined, but not uniquely: the same outputs arise with "
                f"{self.exchanges()}. Bounds or a prior select one of them."
            )
        free = "; ".join(self.undetermined)
        known = ", ".join(self.determined) or "none that has a simple formula"
        more = self.rank - len(self.determined)
        if more and self.determined:
            known += f" and {more} more without a simple formula"
        cure = f", or free only the combinations: {Give(free=list(self.determined))}" if not more and self.rank else ""
        return (
            f"The data determine {self.rank} combination{'' if self.rank == 1 else 's'} of the {len(self.names)} free "
            f"parameters ({', '.join(self.names)}): only {known}. Undetermined: {free}. "
            f"Fix {len(self.names) - self.rank} of them{cure}."
        )

    def exchanges(self) -> str:
        """Return the equivalent sets of values as text."""
        return "; or ".join(", ".join(f"{n} = {v:.6g}" for n, v in one.items()) for one in self.equivalents)


def determined(names: Sequence[str], condition: float = 1.0) -> Identifiability:
    """Return an `Identifiability` in which all parameters are determined."""
    names = tuple(names)
    return Identifiability(names, len(names), names, (), np.zeros((len(names), 0)), condition)


def analyse(information: Array, names: Sequence[str], scale: Array, tolerance: float = 1e-7) -> Identifiability:
    """Return the identifiability from an information matrix (k, k).

    information: in the parameters themselves. scale: (k,) the size of each parameter, with its sign (its value, or a
    typical one where that is zero). A parameter whose relative standard error, the others known, exceeds the best one
    by more than 1/tolerance counts as undetermined, and so does a direction in which the errors of the others raise
    the error by as much: use a tolerance near the square root of the relative precision of the information.
    """
    names = tuple(names)
    scale = np.asarray(scale, float)
    # Relative changes make the result independent of units, and turn scaling laws into rational directions.
    relative = np.asarray(information, float) * np.outer(scale, scale)
    relative = (relative + relative.T) / 2
    eigenvalues = np.clip(np.linalg.eigvalsh(relative), 0.0, None) if names else np.ones(1)
    condition = float(np.sqrt(eigenvalues[-1] / eigenvalues[0])) if eigenvalues[0] > 0 else float("inf")
    basis = echelon(_null_space(relative, tolerance))
    determined, undetermined = _describe(basis, names)
    return Identifiability(names, len(names) - basis.shape[1], determined, undetermined, basis, condition)


def _null_space(relative: Array, tolerance: float) -> Array:
    """Return the directions (k, d), orthonormal, that an information matrix does not determine.

    A parameter near zero has no size of its own. Beside one that is known to eight digits its share of the eigenvalues
    says nothing, so the rank is that of the correlations, which depend on no size.
    """
    # Diagonal entries of the information are inverse variances: a ratio of standard errors is squared.
    own = np.clip(np.diag(relative), 0.0, None)
    # What is known to its own size is determined, however well another is known.
    seen = own > min(tolerance**2 * own.max(initial=0.0), 0.5)
    directions = np.eye(own.size)[:, ~seen]
    if seen.any():
        errors = own[seen] ** -0.5
        eigenvalues, vectors = symmetric_eigenvectors(relative[np.ix_(seen, seen)] * np.outer(errors, errors))
        null = vectors[:, eigenvalues <= tolerance**2 * eigenvalues[-1]]
        back = np.zeros((own.size, null.shape[1]))
        back[seen] = null * errors[:, None]
        directions = np.hstack([directions, back])
    return np.asarray(np.linalg.qr(directions)[0], float)  # any sign: `echelon` depends on the space alone


def echelon(basis: Array) -> Array:
    """Return the reduced column echelon form of a basis.

    basis: (k, d) orthonormal. Each column has a 1 at its pivot row and 0 at the other pivots; pivots are taken at the
    largest entries. The result depends on the space alone, not on the basis that LAPACK chose.
    """
    basis = basis_of(basis)
    pivots: list[int] = []
    for column in range(basis.shape[1]):
        free = [row for row in range(basis.shape[0]) if row not in pivots]
        # Among rows nearly as large as the largest the first is taken, so the result does not depend on rounding.
        size = np.abs(basis[free, column])
        row = free[int(np.flatnonzero(size >= 0.5 * size.max())[0])]
        basis[:, column] /= basis[row, column]
        others = [c for c in range(basis.shape[1]) if c != column]
        basis[:, others] -= np.outer(basis[:, column], basis[row, others])
        pivots.append(row)
    # Rounding of the eigenvectors would appear as spurious members of a combination.
    basis[np.abs(basis) < 1e-6] = 0.0
    return basis


def _describe(basis: Array, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pivots = [
        int(np.flatnonzero(np.isclose(column, 1.0) & (np.abs(basis).sum(axis=1) == np.abs(column)))[0])
        for column in basis.T
    ]
    determined = []
    for row, name in enumerate(names):
        if row in pivots:
            continue
        text: str | None = name
        for pivot, exponent in zip(pivots, basis[row], strict=True):
            text = None if text is None else _times_power(text, names[pivot], -exponent)
        if text is not None:
            determined.append(text)
    undetermined = [
        "changing "
        + ", ".join(f"{names[i]} by {100 * c:+.3g} %" for i, c in enumerate(0.01 * column) if c)
        + " changes nothing"
        for column in basis.T
    ]
    return tuple(determined), tuple(undetermined)


def _times_power(text: str, name: str, exponent: float) -> str | None:
    """Return text * name**exponent.

    None where the exponent is not a small fraction, because the combination is then not a power law.
    """
    if exponent == 0:
        return text
    # Exponents of physical laws are small fractions; denominators up to 6 cover them.
    fraction = Fraction(abs(exponent)).limit_denominator(6)
    if not fraction or abs(float(fraction) - abs(exponent)) >= 1e-3:
        return None
    size = str(fraction)
    power = name if size == "1" else f"{name}**{size if '/' not in size else f'({size})'}"
    return f"{text}/{power}" if exponent < 0 else f"{text}*{power}"
