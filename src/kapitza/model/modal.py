"""Modes of the linear part of a structure.

They show what a model loses when it keeps a few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import ModelError
from kapitza.solve import symmetric_eigenvectors


@dataclass(frozen=True)
class ModalReduction:
    """Hold the lowest modes of a structure.

    They solve K φ = ω² M φ, mass-normalised: φᵀ M φ = 1.

    shapes: Φ (n, r); frequencies: (r,) ω in rad/s of those kept; left_out: (n - r,) of the others.
    flexibility: (n,) static displacement K⁻¹_ii under a unit force at each coordinate; missing: (n,) the share of it
    that the modes left out would have carried, between 0 and 1 (NaN for a structure that can move freely).

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> stiffness = np.array([[2.0, -1.0], [-1.0, 2.0]])
    >>> reduced = kz.modal_reduction(np.eye(2), stiffness, 1)
    >>> reduced.shapes.shape, round(float(reduced.frequencies[0]), 6)
    ((2, 1), 1.0)
    """

    shapes: Array
    frequencies: Array
    left_out: Array
    flexibility: Array
    missing: Array

    def about(self, loaded: Sequence[str] = (), names: Sequence[str] = ()) -> str:
        """Describe the modes that are kept and left out.

        Where forces act, the text says what the modes left out cost.
        """
        kept, total = self.frequencies.size, self.frequencies.size + self.left_out.size
        hertz = self.frequencies / (2 * np.pi)
        text = f"{kept} of {total} modes are kept, {hertz[0]:.4g} to {hertz[-1]:.4g} Hz."
        if not self.left_out.size:
            return text
        text += f" Left out: {self.left_out.size} modes from {self.left_out[0] / (2 * np.pi):.4g} Hz on."
        for place in loaded:
            if place not in names or len(names) != self.missing.size:
                raise ModelError(
                    f'A force acts on "{place}", and the names of the {self.missing.size} coordinates are '
                    f"{', '.join(names) or 'not given'}: give {Give('names')}, one per coordinate."
                )
        shares = [(self.missing[list(names).index(p)], p) for p in loaded if np.isfinite(self.missing).all()]
        if shares:
            worst, place = max(shares)
            text += (
                f" Of the static displacement under a force where forces act, up to {100 * worst:.2g} % is missing "
                f"(at {place})."
            )
        elif loaded:
            text += " The structure can move freely: what static displacement is missing is not defined."
        return text

    def __str__(self) -> str:
        return self.about()


def modal_reduction(M: Anything, K: Anything, modes: int) -> ModalReduction:
    """Return the lowest modes of a structure.

    `modes` of M x'' + K x = 0, and what is lost by leaving out the others.

    A rule: keep modes up to twice the highest frequency that acts or that nonlinear terms make of it, and look at
    `missing`.

    Parameters
    ----------
    M, K : (n, n)
        Symmetric numbers (arrays or scipy.sparse), M positive definite.
    modes : int
        How many to keep.

    Returns
    -------
    ModalReduction
        Shapes and frequencies [rad/s], and what is left out.

    Examples
    --------
    >>> import kapitza as kz
    >>> print(kz.modal_reduction([[1, 0], [0, 1]], [[2, -1], [-1, 2]], 1))
    1 of 2 modes are kept, 0.1592 to 0.1592 Hz. Left out: 1 modes from 0.2757 Hz on.
    """
    mass, stiffness = (_symmetric(matrix, name) for matrix, name in ((M, "M"), (K, "K")))
    if mass.shape != stiffness.shape:
        raise ModelError(f"M has the shape {mass.shape}, K {stiffness.shape}; both belong to the same coordinates.")
    size = len(mass)
    count = checks.whole("modes", modes, least=1, most=size, error=ModelError)
    try:
        squares, shapes = symmetric_eigenvectors(stiffness, mass)
    except np.linalg.LinAlgError:
        raise ModelError(
            "Modes need a positive definite mass matrix; eliminate massless coordinates first (static condensation)."
        ) from None
    # Squared frequencies of rigid-body modes are zero up to rounding, relative to the largest one.
    tiny = 1e-12 * np.abs(squares).max(initial=0.0)
    if (squares < -tiny).any():
        raise ModelError(
            f"K is not positive: the structure buckles in {int((squares < -tiny).sum())} modes, which grow without "
            f"bound in the linear part. Keep all coordinates ({Give(modes=None)})."
        )
    frequencies = np.sqrt(np.maximum(squares, 0.0))
    free = squares <= tiny
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(free, np.nan, shapes**2 / np.where(free, 1.0, squares))
        flexibility = shares.sum(axis=1)
        missing = shares[:, count:].sum(axis=1) / flexibility
    return ModalReduction(shapes[:, :count], frequencies[:count], frequencies[count:], flexibility, missing)


def _symmetric(matrix: object, name: str) -> Array:
    from scipy.sparse import issparse

    dense = matrix.toarray() if issparse(matrix) else matrix
    array = checks.array(name, dense, error=ModelError)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ModelError(f"{name} has the shape {array.shape}; give a square matrix.")
    # Asymmetry by the rounding of exported numbers is averaged below.
    if np.abs(array - array.T).max() > 1e-9 * np.abs(array).max():
        raise ModelError(f"{name} is not symmetric; modes of rotating or follower-loaded structures are not supported.")
    return (array + array.T) / 2
