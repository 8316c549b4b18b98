# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
"""LAPACK routines for float64, with types.

scipy has no types.
np.linalg takes about three times as long for the few unknowns of an orbit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, get_lapack_funcs

from kapitza.base.arrays import Array

Pivots = NDArray[np.int32]
_Routine = Callable[..., Any]

_NAMES = ("gesv", "geev", "getrf", "getrs", "gbtrf", "gbtrs", "tbtrs")
_found = cast(Sequence[_Routine], cast(_Routine, get_lapack_funcs)(_NAMES, dtype=np.float64))

gesv = cast(Callable[[Array, Array], tuple[Array, Pivots, Array, int]], _found[0])
geev = cast(Callable[..., tuple[Array, Array, Array, Array, int]], _found[1])
getrf = cast(Callable[..., tuple[Array, Pivots, int]], _found[2])
getrs = cast(Callable[..., tuple[Array, int]], _found[3])
gbtrf = cast(Callable[..., tuple[Array, Pivots, int]], _found[4])
gbtrs = cast(Callable[..., tuple[Array, int]], _found[5])
tbtrs = cast(Callable[..., tuple[Array, int]], _found[6])


def metric_eigenvectors(matrix: Array, metric: Array) -> tuple[Array, Array]:
    """Return λ (n,) ascending and V (n, n).

    They satisfy A V = B V diag(λ) with the metric B.
    """
    # any sign: `factors.symmetric_eigenvectors` fixes it.
    return cast(tuple[Array, Array], cast(_Routine, eigh)(matrix, metric))


def bounded_least_squares(matrix: Array, right: Array, low: Array, high: Array) -> tuple[Array, NDArray[np.int64]]:
    """Minimise |A x - b| within limits.

    Returns x (k,), and the limit that each is at (-1, 0, 1).
    """
    from scipy.optimize import lsq_linear  # a tenth of a second that few fits need

    found = cast(_Routine, lsq_linear)(matrix, right, (low, high), method="bvls")
    return found.x, found.active_mask


def quantile(probability: float, dof: float) -> float:
    """Return a quantile of Student's t.

    For infinite dof it is that of the normal distribution.
    """
    from scipy import special

    student, normal = cast(_Routine, special.stdtrit), cast(_Routine, special.ndtri)
    return float(student(dof, probability) if np.isfinite(dof) else normal(probability))
