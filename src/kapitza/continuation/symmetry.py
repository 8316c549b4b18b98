"""Symmetries of a model as matrices.

Half maps close with them, and they distinguish copies of an orbit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model, symbol


@dataclass(frozen=True)
class LinearSymmetry:
    """Linear symmetry of the solutions of a model.

    x(t) -> S x(t + shift·T) takes solutions to solutions, T the excitation period; matrix S: (n, n), S² = 1.
    """

    matrix: Array
    shift: float

    def spans(self) -> tuple[float, ...]:
        """Return the excitation periods of a half orbit.

        An orbit can meet its mirror image after the shift itself, or after one period for none.
        """
        return (self.shift,) if self.shift else (1.0,)


def linear_symmetries(model: Model) -> tuple[LinearSymmetry, ...]:
    """Return declared symmetries that are linear involutions.

    Linear and their own inverse; others do not define a half map.
    """
    declared = tuple((tuple(s.map.items()), float(s.shift)) for s in model.symmetries)
    return _linear(tuple(model.states), declared)


@lru_cache
def _linear(
    states: tuple[str, ...], declared: tuple[tuple[tuple[tuple[str, sp.Expr], ...], float], ...]
) -> tuple[LinearSymmetry, ...]:
    """Return linear symmetries, cached per model.

    Differentiating the maps takes longer than a dozen steps along a branch.
    """
    found: list[LinearSymmetry] = []
    names = [symbol(name) for name in states]
    for items, shift in declared:
        given = dict(items)
        rows = [given.get(name, symbol(name)) for name in states]
        matrix = sp.Matrix([[sp.diff(row, name) for name in names] for row in rows])
        # Only a constant linear map can close a half map by a matrix.
        if matrix.free_symbols or sp.Matrix(rows) != matrix * sp.Matrix(names):
            continue
        numbers = np.array(matrix, float)
        if np.allclose(numbers @ numbers, np.eye(len(names))):
            found.append(LinearSymmetry(numbers, shift))
    return tuple(found)


def symmetry_of(
    flow: Flow, point: Array, period: float, repeats: int | None, tolerance: float = 1e-6
) -> LinearSymmetry | None:
    """Return the symmetry of an orbit, or None.

    The symmetry under which the orbit through `point` (n,) is its own image half a period later.
    """
    model = flow.model
    angles = np.array(model.angles, bool)
    for symmetry in linear_symmetries(model):
        if repeats is None:
            half = period / 2
        else:
            excitation = period / repeats
            half = (repeats / 2) * excitation
            # Half of an odd number of periods must be what the symmetry shifts by, modulo whole periods.
            if abs((repeats / 2 - symmetry.shift) % 1.0) > 1e-9:
                continue
        there = symmetry.matrix @ flow.propagate(point, 0.0, half, tangents=False).state
        gap = difference(there, point, angles)
        if np.abs(gap).max() <= tolerance * max(1.0, np.abs(point).max()):
            return symmetry
    return None


def required_symmetry(model: Model) -> LinearSymmetry:
    found = linear_symmetries(model)
    if not found:
        raise KapitzaError(
            f'"{model.name}" declares no linear symmetry, so there is no half map: pass '
            f"{Give(symmetries=[{'map': ...}])} when the model is made, or follow the whole orbit."
        )
    return found[0]
