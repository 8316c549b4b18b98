"""Translation of SymPy to heyoka, and evaluation on arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import heyoka as hy
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray
from sympy.logic.boolalg import Boolean

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.code_store import keep_code_apart
from kapitza.model.elimination import Elimination
from kapitza.model.implicit import top_slopes
from kapitza.model.symbols import Expression, derivative, symbol

keep_code_apart()

LARGEST_PRODUCT = 64
"""Integer powers up to this one become products: the Taylor recurrence of a general power breaks at zero."""

LARGEST_UNROLLED = 20_000
"""Nodes of the expressions, shared ones counted again, up to which a function on arrays compiles without loops."""

CHUNK = 8192
"""Evaluations per compiled call: the inputs of one chunk stay in cache."""

FUNCTIONS: dict[type[sp.Basic], Callable[..., hy.expression]] = {
    sp.sin: hy.sin,
    sp.cos: hy.cos,
    sp.tan: hy.tan,
    sp.asin: hy.asin,
    sp.acos: hy.acos,
    sp.atan: hy.atan,
    sp.atan2: hy.atan2,
    sp.sinh: hy.sinh,
    sp.cosh: hy.cosh,
    sp.tanh: hy.tanh,
    sp.asinh: hy.asinh,
    sp.acosh: hy.acosh,
    sp.atanh: hy.atanh,
    sp.exp: hy.exp,
    sp.log: hy.log,
    sp.erf: hy.erf,
}

COMPARISONS: dict[type[sp.Basic], Callable[..., hy.expression]] = {
    sp.StrictGreaterThan: hy.gt,
    sp.GreaterThan: hy.gte,
    sp.StrictLessThan: hy.lt,
    sp.LessThan: hy.lte,
    sp.Equality: hy.eq,
    sp.Unequality: hy.neq,
}


def to_heyoka(expression: Expression, mapping: Mapping[sp.Symbol, hy.expression] | None = None) -> hy.expression:
    """Translate a SymPy expression to heyoka.

    Symbols are looked up in `mapping`; a symbol that is not in it becomes a variable of the same name.

    Integer powers become products and half-integer ones products with a square root. sign, Abs, Heaviside, Max, Min and
    Piecewise become comparisons with `select`; for integration replace them by mode symbols first
    (`structure.smooth_rates`).
    """
    return _Translation({} if mapping is None else {**mapping})(_as_sympy(expression))


def _as_sympy(expression: Expression | float) -> Expression:
    return expression if isinstance(expression, sp.Basic) else checks.expression("An expression", expression)


def translate_steps(
    steps: Iterable[tuple[sp.Symbol, Expression]], table: Mapping[sp.Symbol, hy.expression]
) -> dict[sp.Symbol, hy.expression]:
    """Return the table with every named step added.

    Each step is translated once and shared by the expressions that use it.
    """
    translate = _Translation({**table})
    for name, expression in steps:
        translate.known[name] = translate(expression)
    return translate.symbols()


class _Translation:
    """A translation that remembers shared subexpressions.

    A subexpression that occurs several times is translated once.
    """

    def __init__(self, known: dict[sp.Basic, hy.expression]):
        self.known = known

    def symbols(self) -> dict[sp.Symbol, hy.expression]:
        """Return the translations of the symbols alone."""
        return {s: e for s, e in self.known.items() if isinstance(s, sp.Symbol)}

    def __call__(self, node: sp.Basic) -> hy.expression:
        found = self.known.get(node)
        if found is None:
            found = self.known[node] = self.translate(node)
        return found

    def translate(self, node: sp.Basic) -> hy.expression:
        if isinstance(node, sp.Symbol):
            return hy.expression(node.name)
        if isinstance(node, sp.Expr) and node.is_number and not node.has(sp.Symbol):
            return hy.expression(_number(node))
        if isinstance(node, sp.Add):
            return hy.sum([self(a) for a in node.args])
        if isinstance(node, sp.Mul):
            return self.product(node)
        if isinstance(node, sp.Pow):
            return self.power(node.base, node.exp)
        if type(node) in FUNCTIONS:
            return FUNCTIONS[type(node)](*[self(a) for a in node.args])
        if isinstance(node, (sp.Rel, Boolean)):
            return self.condition(node)
        return self.nonsmooth(node)

    def product(self, node: sp.Mul) -> hy.expression:
        above: list[hy.expression] = []
        below: list[hy.expression] = []
        for factor in node.args:
            base, exponent = factor.as_base_exp()
            negative = exponent.is_number and exponent.is_negative
            (below if negative else above).append(self.power(base, -exponent) if negative else self(factor))
        top = hy.prod(above) if above else hy.expression(1.0)
        return top / hy.prod(below) if below else top

    def power(self, base: Expression, exponent: Expression) -> hy.expression:
        if base is sp.E:
            return hy.exp(self(exponent))
        twice = 2 * exponent
        if not (
            isinstance(twice, (sp.Integer, sp.Float)) and twice == int(twice) and abs(twice) <= 2 * LARGEST_PRODUCT
        ):
            return self(base) ** self(exponent)
        whole, half = divmod(abs(int(twice)), 2)
        root = [hy.sqrt(self(base))] if half else []
        result = _product_power(self(base), whole, root)
        return 1.0 / result if int(twice) < 0 else result

    def condition(self, node: sp.Basic) -> hy.expression:
        if node in (sp.true, sp.false):
            return hy.expression(1.0 if node == sp.true else 0.0)
        if type(node) in COMPARISONS:
            return COMPARISONS[type(node)](*[self(a) for a in node.args])
        if isinstance(node, sp.And):
            return hy.logical_and([self(a) for a in node.args])
        if isinstance(node, sp.Or):
            return hy.logical_or([self(a) for a in node.args])
        if isinstance(node, sp.Not):
            return 1.0 - self(node.args[0])
        if isinstance(node, sp.ITE):
            return hy.select(*[self(a) for a in node.args])
        raise ModelError(f"The condition {node} cannot be compiled; write it with <, <=, >, >=, and, or.")

    def nonsmooth(self, node: sp.Basic) -> hy.expression:
        one, zero = hy.expression(1.0), hy.expression(0.0)
        if isinstance(node, sp.Piecewise):
            result = hy.expression(np.nan)
            for case in reversed(node.args):
                value, condition = self(case.expr), case.cond
                result = value if condition == sp.true else hy.select(self(condition), value, result)
            return result
        arguments = [self(a) for a in node.args]
        first = arguments[0] if arguments else zero
        if isinstance(node, sp.Abs):
            return hy.select(hy.gte(first, zero), first, -first)
        if isinstance(node, sp.sign):
            return hy.select(hy.gt(first, zero), one, hy.select(hy.lt(first, zero), -one, zero))
        if isinstance(node, sp.Heaviside):
            return hy.select(hy.gt(first, zero), one, hy.select(hy.lt(first, zero), zero, arguments[1]))
        if isinstance(node, (sp.Max, sp.Min)):
            better = hy.gt if isinstance(node, sp.Max) else hy.lt
            for other in arguments[1:]:
                first = hy.select(better(first, other), first, other)
            return first
        raise ModelError(
            f"{node.func.__name__} cannot be compiled; use powers, sin, cos, tan, their inverses and hyperbolic kin, "
            "exp, log, erf, sign, Abs, Heaviside, Max, Min, Piecewise."
        )


def _number(node: Expression) -> float:
    if isinstance(node, sp.Rational):
        return int(node.p) / int(node.q)
    value = complex(node.evalf(20))
    if value.imag or not np.isfinite(value.real):
        raise ModelError(f"The constant {node} is not a finite real number.")
    return value.real


def _product_power(base: hy.expression, exponent: int, factors: list[hy.expression]) -> hy.expression:
    """Return base**exponent times the factors, by repeated squaring."""
    while exponent:
        if exponent % 2:
            factors.append(base)
        exponent //= 2
        if exponent:
            base = base * base
    return hy.prod(factors) if factors else hy.expression(1.0)


Evaluator = Callable[..., Array]


Steps = Iterable[tuple[sp.Symbol, Expression]]


def compile_expressions(
    expressions: Iterable[Expression],
    variables: Sequence[str | sp.Symbol],
    parameters: Sequence[str | sp.Symbol] = (),
    steps: Steps = (),
) -> Evaluator:
    """Compile expressions to a function on arrays.

    The expressions are written in `variables`, `parameters` and named `steps`.

    Returns f(values, parameters=()) -> (nexpr, N) with values (nvars, N) and parameters (npars,), or (npars, N) for
    one set per column; values (nvars,) give (nexpr,). Compilation happens once per process for the same arguments.
    """
    inputs = tuple(symbol(s) if isinstance(s, str) else s for s in (*variables, *parameters))
    return _compile(tuple(_as_sympy(e) for e in expressions), inputs, len(variables), tuple(steps))


def compile_derivatives(
    expressions: Iterable[Expression],
    by: Sequence[str | sp.Symbol],
    variables: Sequence[str | sp.Symbol],
    parameters: Sequence[str | sp.Symbol] = (),
    steps: Steps = (),
    elimination: Elimination | None = None,
) -> Evaluator:
    """Compile expressions and their derivatives.

    The rows are the expressions, then the derivatives of each expression by each of `by`. The arguments of the function
    are those of `compile_expressions`.

    Derivatives are taken through the steps, implicitly where the elimination that they carry out is given; then no
    expression may hold other steps than its solution. Derivatives that vanish identically cost nothing.
    """
    inputs = tuple(symbol(s) if isinstance(s, str) else s for s in (*variables, *parameters))
    chosen = tuple(symbol(s) if isinstance(s, str) else s for s in by)
    wanted = tuple(_as_sympy(e) for e in expressions)
    return _compile_derivatives(wanted, chosen, inputs, len(variables), tuple(steps), elimination)


@lru_cache(maxsize=256)
def _compile(
    expressions: tuple[Expression, ...],
    inputs: tuple[sp.Symbol, ...],
    nvars: int,
    steps: tuple[tuple[sp.Symbol, Expression], ...],
) -> Evaluator:
    translate, handles = _translation(expressions, inputs, steps)
    return _ArrayFunction(_built([translate(e) for e in expressions], handles), len(expressions), nvars, len(inputs))


@lru_cache(maxsize=256)
def _compile_derivatives(
    expressions: tuple[Expression, ...],
    by: tuple[sp.Symbol, ...],
    inputs: tuple[sp.Symbol, ...],
    nvars: int,
    steps: tuple[tuple[sp.Symbol, Expression], ...],
    elimination: Elimination | None,
) -> Evaluator:
    translate, handles = _translation(expressions, inputs, steps)
    values = [translate(e) for e in expressions]
    if elimination is not None:
        slopes = _implicit_slopes(expressions, by, translate, elimination)
    elif steps:
        slopes = _slopes(values, [translate(s) for s in by])
    else:
        # SymPy differentiates inside the branches of a Piecewise, which heyoka would weight by zero.
        present = [(i, e, e.free_symbols) for i, e in enumerate(expressions)]
        written = {
            i * len(by) + k: _away_from_switches(derivative(e, s))
            for i, e, symbols in present
            for k, s in enumerate(by)
            if s in symbols
        }
        slopes = {place: translate(slope) for place, slope in written.items() if slope != 0}
    rows = np.concatenate([np.arange(len(values)), len(values) + np.array(list(slopes), int)])
    total = len(values) * (1 + len(by))
    return _ArrayFunction(_built([*values, *slopes.values()], handles), total, nvars, len(inputs), rows)


def _away_from_switches(slope: Expression) -> Expression:
    """Return a derivative without the pulses of sign() at single instants."""
    return slope.replace(sp.DiracDelta, lambda *_: sp.Integer(0)) if slope.has(sp.DiracDelta) else slope


def _translation(
    expressions: tuple[Expression, ...],
    inputs: tuple[sp.Symbol, ...],
    steps: tuple[tuple[sp.Symbol, Expression], ...],
) -> tuple[_Translation, list[hy.expression]]:
    """Return a translation with the steps, and its inputs.

    The inputs are the variables of compiled code that represent the given symbols.
    """
    every = (*expressions, *(e for _, e in steps))
    unknown = {s for e in every for s in e.free_symbols} - set(inputs) - {s for s, _ in steps}
    if unknown:
        names = ", ".join(sorted(str(s) for s in unknown))
        raise ModelError(f"The expressions contain {names}, neither a variable nor a parameter; add them to one list.")
    handles = [hy.expression(f"x{i}") for i in range(len(inputs))]
    return _Translation({**translate_steps(steps, dict(zip(inputs, handles, strict=True)))}), handles


def _built(outputs: list[hy.expression], handles: list[hy.expression]) -> hy.cfunc_dbl | None:
    # Code without loops is faster to run, and takes minutes to compile where it is long.
    compact = sum(map(len, outputs)) > LARGEST_UNROLLED
    return hy.cfunc(outputs, vars=handles, compact_mode=compact) if outputs else None


def _implicit_slopes(
    expressions: tuple[Expression, ...], by: tuple[sp.Symbol, ...], translate: _Translation, elimination: Elimination
) -> dict[int, hy.expression]:
    """Return the derivatives by implicit differentiation.

    The chain rule adds the direct derivative and those through the highest derivatives that an expression holds. Keys
    are places in the row-major (expressions, by) table.
    """
    through = dict(
        zip(elimination.tops, top_slopes(elimination, translate.symbols(), [translate(s) for s in by]), strict=True)
    )
    nothing = hy.expression(0.0)
    found: dict[int, hy.expression] = {}
    for i, expression in enumerate(expressions):
        tops = [(translate(derivative(expression, top)), through[top]) for top in through if expression.has(top)]
        for k, s in enumerate(by):
            slope = hy.sum([translate(derivative(expression, s)), *(weight * row[k] for weight, row in tops)])
            if slope != nothing:
                found[i * len(by) + k] = slope
    return found


def _slopes(outputs: list[hy.expression], by: list[hy.expression]) -> dict[int, hy.expression]:
    """Return the derivatives that are not identically zero.

    Keys are their places in the row-major (outputs, by) table.
    """
    if not outputs or not by:
        return {}
    nothing = hy.expression(0.0)
    tensors = hy.diff_tensors(outputs, diff_args=by, diff_order=1)
    slopes = ((place[0] * len(by) + place[1:].index(1), slope) for place, slope in tensors.get_derivatives(1))
    return {place: slope for place, slope in slopes if slope != nothing}


class _ArrayFunction:
    """A compiled function of columns, fed chunk by chunk."""

    def __init__(
        self, compiled: hy.cfunc_dbl | None, nexpr: int, nvars: int, ninputs: int, rows: NDArray[np.intp] | None = None
    ):
        self.compiled, self.nexpr, self.nvars, self.npars = compiled, nexpr, nvars, ninputs - nvars
        self.rows = rows
        # One function serves all threads, and heyoka evaluates without the interpreter's lock.
        self._alone = threading.Lock()

    def __call__(self, values: ArrayLike, parameters: ArrayLike = ()) -> Array:
        values = np.asarray(values, float)
        if values.shape == (self.nvars,) and not self.npars and self.rows is None and self.compiled is not None:
            # Events are evaluated point by point: no chunks and no copy of the parameters.
            with self._alone:
                return self.compiled(values)
        parameters = np.asarray(parameters, float)
        single = values.ndim == 1
        if single:
            values = values[:, None]
        if values.shape[0] != self.nvars or parameters.shape[:1] != (self.npars,):
            raise ModelError(
                f"A compiled function of {self.nvars} variables and {self.npars} parameters was given "
                f"{values.shape[0]} and {parameters.shape[0] if parameters.ndim else 0}."
            )
        result = (np.empty if self.rows is None else np.zeros)((self.nexpr, values.shape[1]))
        if self.compiled is not None and values.shape[1]:
            self._fill(self.compiled, values, parameters, result)
        return result[:, 0] if single else result

    def _fill(self, compiled: hy.cfunc_dbl, values: Array, parameters: Array, result: Array) -> None:
        count = values.shape[1]
        buffer = np.empty((self.nvars + self.npars, min(count, CHUNK)))
        constant = parameters.ndim == 1
        if constant:
            buffer[self.nvars :] = parameters[:, None]
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            part = buffer if stop - start == buffer.shape[1] else np.ascontiguousarray(buffer[:, : stop - start])
            part[: self.nvars] = values[:, start:stop]
            if not constant:
                part[self.nvars :] = parameters[:, start:stop]
            with self._alone:
                found = compiled(part)
            if self.rows is None:
                result[:, start:stop] = found
            else:
                result[self.rows, start:stop] = found
