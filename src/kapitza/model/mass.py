"""The mass matrix in numbers: is it singular, is it definite?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import ModelError
from kapitza.model.compiled import compile_expressions
from kapitza.model.elimination import Block
from kapitza.model.symbols import Expression, symbol

Array = NDArray[np.float64]

LOOKS = 5
"""Random states at which a mass matrix is looked at."""

SINGULAR = 1e14
"""Condition number, after scaling the rows, beyond which a matrix counts as singular."""


class MassFunction:
    """M at a few random states and instants, for given values of the parameters: (LOOKS, n, n).

    used: names of the parameters that occur in it. Entries that occur several times are compiled once.
    """

    def __init__(self, mass: Expression, variables: Sequence[str], parameters: Sequence[str]):
        flat = mass.flat()
        distinct = dict.fromkeys(flat)
        place = {entry: k for k, entry in enumerate(distinct)}
        self._where = np.array([place[entry] for entry in flat], int).reshape(mass.shape)
        self._evaluate = compile_expressions(tuple(distinct), variables, parameters)
        self._points = np.random.default_rng(0).uniform(-1.0, 1.0, (len(variables), LOOKS))
        present = {s.name for s in mass.free_symbols}
        self.used = tuple(name for name in parameters if name in present)

    def __call__(self, values: Array) -> Array:
        return self._evaluate(self._points, values).T[:, self._where]


def is_definite(matrices: Array, blocks: Sequence[Block]) -> bool:
    """Is every symmetric block of the matrices (N, n, n) definite, positive or negative, in all of them?

    An eigenvalue changes its sign only where the matrix is singular: what is definite somewhere stays so on every
    motion along which the accelerations are determined.
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


def refuse_singular(mass: Expression, blocks: Sequence[Block], tops: Sequence[sp.Symbol]) -> None:
    """Refuse a mass matrix with a block that is singular whatever the values."""
    names = sorted(s.name for s in mass.free_symbols)
    random = np.random.default_rng(1).uniform(0.5, 1.5, (len(names), LOOKS))
    flat: Any = mass.flat()
    distinct = list(dict.fromkeys(flat))
    values = compile_expressions(distinct, [symbol(n) for n in names])(random)
    where = np.array([distinct.index(entry) for entry in flat], int).reshape(mass.shape)
    matrices = values.T[:, where]
    for block in blocks:
        part = matrices[:, block.rows][:, :, block.columns]
        if not np.isfinite(part).all():
            continue
        scale = np.abs(part).max(axis=2, keepdims=True)
        if (np.linalg.cond(part / np.where(scale > 0, scale, 1.0)) > SINGULAR).all():
            raise singular([tops[j].name for j in block.columns])


def singular(names: Sequence[str]) -> ModelError:
    """The error of equations that do not determine these highest derivatives."""
    return ModelError(
        f"The mass matrix is singular: the equations for {', '.join(names)} hold the same "
        "combination of highest derivatives. Replace one of them by an independent equation."
    )
