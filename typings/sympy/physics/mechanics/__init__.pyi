from collections.abc import Sequence

from sympy import Expr, Matrix
from sympy.core.function import AppliedUndef

class LagrangesMethod:
    q: Sequence[AppliedUndef]
    coneqs: Sequence[Expr]
    def form_lagranges_equations(self) -> Matrix: ...

class KanesMethod:
    q: Sequence[AppliedUndef]
    u: Sequence[AppliedUndef]
    _qdep: Sequence[AppliedUndef]
    _udep: Sequence[AppliedUndef]
    @property
    def mass_matrix(self) -> Matrix: ...
    @property
    def forcing(self) -> Matrix: ...
    def kindiffdict(self) -> dict[Expr, Expr]: ...
