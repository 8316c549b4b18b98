"""Domain of an invariant.

Samples that noise may carry out of it (log y near y = 0) are left out.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import Fit
from kapitza.errors import DataError
from kapitza.estimate.invariant_fit.conserved import Points
from kapitza.model import compile_expressions
from kapitza.signal import difference_noise

MARGIN = 4.0
"""Smallest distance of a point from the border of the domain, in standard deviations of the noise: nearer to it the
mean of log(y + ε) is not that of its expansion, and the sample itself may have no value."""

NEIGHBOURS = 3
"""Points left out before and after one that is too near. A stretch is then chosen by several samples: choosing each
point by itself would keep those whose noise happens to point inwards."""


def within_domain(points: Points, name: str, invariant: sp.Expr, values: dict[str, float]) -> tuple[Points, str]:
    """Return the points safely inside the domain.

    Noise cannot carry them out of it; with a warning ("" if no point is left out).
    """
    border = _bordered(invariant)
    if not border:
        return points, ""
    used = tuple(n for n in values if n not in points.variables)
    numbers = np.array([values[n] if np.isfinite(values[n]) else 1.0 for n in used])
    evaluate = compile_expressions(tuple(border), points.variables, used)
    reach = MARGIN * _deviations(points)
    near = np.zeros(points.count, bool)
    for j in range(len(points.variables)):
        for side in (-1.0, -0.5, 0.0, 0.5, 1.0):
            moved = points.values.copy()
            moved[j] += side * reach[j]
            near |= ~(evaluate(moved, numbers) > 0).all(axis=0)
    if not near.any():
        return points, ""
    left = ~_with_neighbours(near, points.run)
    where = ", ".join(str(e) for e in border)
    # Too few points for a fit of several parameters.
    if left.sum() < 20:
        raise DataError(
            f"{name} needs {where} > 0; all but {int(left.sum())} of the {points.count} points are within {MARGIN:g} "
            "standard deviations of the noise of that border. Use less noisy data, another invariant, or fit the "
            f"motion itself: {Fit('shooting')}."
        )
    return points.take(np.flatnonzero(left)), (
        f"{points.count - int(left.sum())} of {points.count} points are left out: noise may carry them to where "
        f"{name} has no value ({where} > 0 is needed); a fit of the motion, "
        f"{Fit('invariant', then=Fit('shooting'))}, uses them all"
    )


def _bordered(invariant: sp.Expr) -> list[sp.Expr]:
    """Return the expressions that must be positive.

    They are arguments of logarithms, and bases of roots and of other non-integer powers.
    """
    found = [node.args[0] for node in invariant.atoms(sp.log)]
    found += [node.base for node in invariant.atoms(sp.Pow) if not node.exp.is_integer and node.base.free_symbols]
    return sorted({e for e in found if not e.is_positive}, key=str)


def _deviations(points: Points) -> Array:
    """Return the standard deviations (d, N) of the noise.

    They are as known, else estimated from third differences of neighbours.
    """
    if points.known_noise:
        return np.sqrt(points.variance)
    joined = points.run[3:] == points.run[:-3]
    size = [difference_noise(thirds[joined], 3) for thirds in np.diff(points.values, 3, axis=1)]
    return np.maximum(np.sqrt(points.variance), np.array(size)[:, None])


def _with_neighbours(near: Flags, run: Indices) -> Flags:
    wide = near.copy()
    for step in range(1, NEIGHBOURS + 1):
        same = run[step:] == run[:-step]
        wide[step:] |= near[:-step] & same
        wide[:-step] |= near[step:] & same
    return wide
