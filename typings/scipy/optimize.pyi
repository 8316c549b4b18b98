"""Types of the solvers of SciPy that Kapitza calls; SciPy ships none."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]

class OptimizeResult:
    def __init__(self, **entries: Any) -> None: ...
    x: _Array
    success: bool
    status: int
    message: str
    fun: Any
    jac: _Array
    cost: float
    nfev: int
    njev: int
    active_mask: NDArray[np.int_]
    optimality: float
    grad: _Array

def root(
    fun: Callable[[_Array], ArrayLike],
    x0: ArrayLike,
    args: tuple[Any, ...] = ...,
    method: str = ...,
    jac: Callable[[_Array], ArrayLike] | bool | None = ...,
    tol: float | None = ...,
) -> OptimizeResult: ...
def least_squares(
    fun: Callable[..., ArrayLike], x0: ArrayLike, jac: Any = ..., bounds: Any = ..., **settings: Any
) -> OptimizeResult: ...
def lsq_linear(A: Any, b: ArrayLike, bounds: Any = ..., **settings: Any) -> OptimizeResult: ...
def minimize(fun: Callable[..., Any], x0: ArrayLike, **settings: Any) -> OptimizeResult: ...
def nnls(A: ArrayLike, b: ArrayLike, **settings: Any) -> tuple[_Array, float]: ...
def linear_sum_assignment(cost_matrix: ArrayLike, maximize: bool = ...) -> tuple[_Indices, _Indices]: ...
def brentq(f: Callable[..., float], a: float, b: float, **settings: Any) -> Any: ...
