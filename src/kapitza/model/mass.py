"""Numerical tests of the mass matrix.

They decide whether it is singular or definite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.compiled import compile_expressions
from kapitza.model.elimination import Block

LOOKS = 5
"""Random states at which a mass matrix is looked at."""

SINGULAR = 1e14
"""Condition number, after scaling the rows, beyond which a matrix counts as singular."""


class _Entries:
    """A matrix of expressions that is evaluated on arrays.

    Entries that occur several times are compiled once, constants are not compiled.
    """

    def __init__(self, matrix: sp.ImmutableMatrix, variables: Sequence[str], parameters: Sequence[str] = ()):
        flat = matrix.flat()
        place = {entry: k for k, entry in enumerate(dict.fromkeys(flat))}
        self._where = np.array([place[entry] for entry in flat], int).reshape(matrix.shape)
        self._values = np.array([float(e) if e.is_number else np.nan for e in place])
        self._moving = np.array([not e.is_number for e in place], bool)
        self._evaluate = compile_expressions([e for e in place if not e.is_number], variables, parameters)

    def __call__(self, points: Array, parameters: Array) -> Array:
        """Return the matrices (N, n, n) at points.

        points: (variables, N).
        """
        values = np.tile(self._values[:, None], points.shape[1])
        values[self._moving] = self._evaluate(points, parameters)
        return values.T[:, self._where]


class MassFunction:
    """The mass matrix at a few random states.

    For given values of the parameters it returns M (LOOKS, n, n) at random states and instants.

    used: names of the parameters that occur in it.
    """

    def __init__(self, mass: sp.ImmutableMatrix, variables: Sequence[str], parameters: Sequence[str]):
        self._entries = _Entries(mass, variables, parameters)
        self._points = np.random.default_rng(0).uniform(-1.0, 1.0, (len(variables), LOOKS))
        present = {s.name for s in mass.free_symbols}
        self.used = tuple(name for name in parameters if name in present)

    def __call__(self, values: Array) -> Array:
        return self._entries(self._points, values)


def is_definite(matrices: Array, blocks: Sequence[Block]) -> bool:
    """Return whether every symmetric block is definite.

    A block of the matrices (N, n, n) must be positive definite in all of them, or negative definite in all of them.

    An eigenvalue changes its sign only where the matrix is singular. A block that is definite at one state is definite
    on every motion along which the accelerations are determined.
    """
    if not np.isfinite(matrices).all():
        return False
    for block in blocks:
        if block.symmetric and len(block.rows) > 1:
            part = matrices[:, block.rows][:, :, block.columns] * np.array(block.signs)[:, None]
            eigenvalues = np.linalg.eigvalsh((part + part.transpose(0, 2, 1)) / 2)
            if not ((eigenvalues > 0).all() or (eigenvalues < 0).all()):
                return False
    return True


def refuse_singular(mass: sp.ImmutableMatrix, blocks: Sequence[Block], tops: Sequence[sp.Symbol]) -> None:
    """Refuse a mass matrix with a singular block.

    A block is refused when it is singular at all of the random values.
    """
    names = sorted(s.name for s in mass.free_symbols)
    random = np.random.default_rng(1).uniform(0.5, 1.5, (len(names), LOOKS))
    matrices = _Entries(mass, names)(random, np.empty(0))
    for block in blocks:
        part = matrices[:, block.rows][:, :, block.columns]
        if not np.isfinite(part).all():
            continue
        scale = np.abs(part).max(axis=2, keepdims=True)
        if (np.linalg.cond(part / np.where(scale > 0, scale, 1.0)) > SINGULAR).all():
            raise singular([tops[j].name for j in block.columns])


def singular(names: Sequence[str]) -> ModelError:
    """Return the error of a singular mass matrix.

    The equations do not determine the highest derivatives of these names.
    """
    return ModelError(
        f"The mass matrix is singular: the equations for {', '.join(names)} hold the same "
        "combination of highest derivatives. Replace one of them by an independent equation."
    )
