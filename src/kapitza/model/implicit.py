"""Derivatives of the highest derivatives by implicit differentiation.

With R(x, w) = M(x) w + h(x) = 0 the derivative of w by any variable is the solution of M dw = -∂R, w held, by the
factors of the elimination. This takes a third of the code and of the time of differentiating the steps themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import heyoka as hy
import sympy as sp

from kapitza.model.elimination import Elimination
from kapitza.model.symbols import Expression

Table = Mapping[sp.Symbol, hy.expression]


def top_slopes(elimination: Elimination, table: Table, by: Sequence[hy.expression]) -> list[list[hy.expression]]:
    """Return ∂w_j/∂s of the highest derivatives.

    Rows: highest derivatives j; columns: each s of `by`.

    table: where the symbols of the steps are in compiled code; `by` are variables or run-time parameters of it.
    """
    held = [hy.expression(f"top:{j}") for j in range(len(elimination.tops))]

    def value(entry: Expression) -> hy.expression:
        return table[entry] if isinstance(entry, sp.Symbol) else hy.expression(float(entry))

    residuals = [
        hy.sum([value(h), *(value(m) * w for m, w in zip(row, held, strict=True) if m != 0)])
        for row, h in zip(elimination.mass, elimination.rest, strict=True)
    ]
    tensors = hy.diff_tensors(residuals, diff_args=list(by), diff_order=1)
    solved = {w: value(top) for w, top in zip(held, elimination.tops, strict=True)}
    columns: list[list[hy.expression]] = [[hy.expression(0.0)] * len(residuals) for _ in by]
    places, slopes = zip(*tensors.get_derivatives(1), strict=True)
    for place, slope in zip(places, hy.subs(list(slopes), solved), strict=True):
        columns[place[1:].index(1)][place[0]] = slope
    found = [elimination.solve([-r for r in column], value, lambda e: e) for column in columns]
    return [list(row) for row in zip(*found, strict=True)]
