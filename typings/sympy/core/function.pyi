from sympy import Expr, Function

class _Named(type):
    __name__: str

class AppliedUndef(Function):
    """A function that is only named, applied to its arguments: x(t)."""

    @property
    def args(self) -> tuple[Expr, ...]: ...
    @property
    def func(self) -> type[AppliedUndef]: ...
