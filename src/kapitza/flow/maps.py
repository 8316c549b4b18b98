"""Discrete maps x -> F(x, θ).

They are iterated with tangents, or in extended precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.errors import FlowError, ModelError, shown
from kapitza.flow import arguments
from kapitza.flow.arguments import ArgumentError, Parameters, State
from kapitza.flow.core import Filled
from kapitza.model import Evaluator, Model, compile_expressions, symbol

QUAD_DIGITS = 34
"""Decimal digits of quadruple precision (IEEE 754 binary128)."""

UNROLLED = 16
"""Steps inside one compiled call."""

STEPS_PER_LOOK = 4096 * UNROLLED
"""Steps between two reports of how far the iteration is."""


class Map:
    """Iterate a map model.

    Jacobians by state and sensitivities by the parameters in `wrt` are available.

    Parameters as for `Flow`: None, a mapping of changes, or a vector in the order of `model.names`.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_map({"x": "a*x*(1 - x)"}, parameters={"a": 4.0})
    >>> kz.Map(model).iterate([0.75], 3)[:, 0]
    array([0.75, 0.75, 0.75, 0.75])
    >>> kz.Map(model).jacobian([0.75])
    array([[-2.]])
    """

    def __init__(self, model: Model, wrt: Sequence[str] = ()):
        if not model.is_map:
            raise ModelError(f'Model "{model.name}" is a flow; use Flow(model).')
        self.model, self.wrt = model, (wrt,) if isinstance(wrt, str) else tuple(wrt)
        for name in self.wrt:
            model.check(name)
        self.size = len(model.states)

    def iterate(
        self,
        x: Anything,
        steps: int,
        parameters: Anything = None,
        precision: str | int = "double",
        after: Filled | None = None,
    ) -> Array:
        """Return the states (steps + 1, n) as floats.

        The first state is x.

        precision: "double", "quad" (34 digits) or a number of decimal digits to iterate with before rounding. The start
        and the parameters may then be decimal strings or mpmath numbers, which keep all their digits.
        after: see `core.Filled`; in double precision.
        """
        steps = arguments.whole("steps", steps, 0)
        if precision != "double":
            return self._iterate_precisely(x, steps, parameters, precision)
        vector = arguments.parameter_vector(self.model, parameters)
        result = np.empty((steps + 1, self.size))
        result[0] = arguments.state_vector(self.model, x)
        for first in range(0, steps, UNROLLED):
            ahead = self._unrolled(result[first], vector).reshape(UNROLLED, self.size)
            last = min(first + UNROLLED, steps)
            result[first + 1 : last + 1] = ahead[: last - first]
            if after is not None and first % STEPS_PER_LOOK == 0:
                after(result, last + 1)
        self._require_finite(result)
        return result

    def jacobian(self, x: State, steps: int = 1, parameters: Parameters = None) -> Array:
        """Return ∂x_steps/∂x_0, (n, n)."""
        return self._tangents(x, steps, parameters)[:, : self.size]

    def sensitivity(self, x: State, steps: int = 1, parameters: Parameters = None) -> Array:
        """Return ∂x_steps/∂θ, (n, k).

        θ are the parameters named in `wrt`.
        """
        return self._tangents(x, steps, parameters)[:, self.size :]

    def _tangents(self, x: State, steps: int, parameters: Parameters) -> Array:
        """Return [J S] of several steps.

        It is the product of the matrices [[J_i, B_i], [0, 1]] of single steps, multiplied pairwise.
        """
        steps = arguments.whole("steps", steps, 0)
        n, k = self.size, len(self.wrt)
        vector = arguments.parameter_vector(self.model, parameters)
        states = self.iterate(x, steps, vector)[:-1]
        matrices = np.tile(np.eye(n + k), (max(steps, 1), 1, 1))
        if steps:
            matrices[:, :n] = self._derivatives(np.ascontiguousarray(states.T), vector).T.reshape(-1, n, n + k)
        # Pairwise products take log2(steps) array operations instead of a Python loop over the steps.
        while len(matrices) > 1:
            if len(matrices) % 2:
                matrices = np.concatenate((matrices, np.eye(n + k)[None]))
            matrices = matrices[1::2] @ matrices[::2]
        return matrices[0, :n]

    @cached_property
    def _symbols(self) -> list[sp.Symbol]:
        return [symbol(s) for s in self.model.states]

    @cached_property
    def _unrolled(self) -> _Unrolled:
        """The next UNROLLED states at once."""
        return _Unrolled(self.model)

    @cached_property
    def _derivatives(self) -> Evaluator:
        by = [*self._symbols, *(symbol(name) for name in self.wrt)]
        entries = [sp.diff(f, s) for f in self.model.structure.rates for s in by]
        return compile_expressions(entries, self.model.states, self.model.names)

    def _require_finite(self, states: Array) -> None:
        bad = np.flatnonzero(~np.isfinite(states).all(axis=1))
        if bad.size:
            before = ", ".join(
                f"{s} = {v:.6g}" for s, v in zip(self.model.states, states[max(bad[0] - 1, 0)], strict=True)
            )
            raise FlowError(
                f"The iteration left the finite numbers at step {bad[0]}, after {before}; "
                "check the start and the parameters."
            )

    def _iterate_precisely(self, x: Anything, steps: int, parameters: Anything, precision: str | int) -> Array:
        if precision == "quad":
            digits = QUAD_DIGITS
        elif isinstance(precision, int) and precision >= 1:
            digits = precision
        else:
            raise ArgumentError(f'precision = {precision!r}; choose "double", "quad" or a number of decimal digits.')
        names = self.model.names
        with mpmath.workdps(digits):
            given = parameters if isinstance(parameters, Mapping) else {}
            for name in given:
                self.model.check(name)
            if parameters is None or isinstance(parameters, Mapping):
                vector = _precise("parameters", [given.get(name, self.model.values[name]) for name in names])
            else:
                vector = _precise("parameters", parameters)
            if isinstance(x, Mapping):
                arguments.state_vector(self.model, dict.fromkeys(x, 0.0))
                x = [x[name] for name in self.model.states]
            state = _precise("x", x)
            arguments.state_vector(self.model, [float(v) for v in state])
            arguments.parameter_vector(self.model, [float(v) for v in vector])
            step = sp.lambdify([*self._symbols, *map(symbol, names)], list(self.model.structure.rates), "mpmath")
            result = np.empty((steps + 1, self.size))
            result[0] = [float(v) for v in state]
            for i in range(steps):
                state = step(*state, *vector)
                result[i + 1] = [float(v) for v in state]
        self._require_finite(result)
        return result


def _precise(name: str, values: Anything) -> list[Any]:
    """Return numbers with all their digits.

    values: numbers, decimal strings or mpmath numbers.
    """
    try:
        if isinstance(values, str):
            raise TypeError("one text")
        return [mpmath.mpf(value) for value in values]
    except (TypeError, ValueError) as problem:
        raise ArgumentError(
            f"{name} = {shown(values)}: give one number, or decimal string, for each value ({problem})."
        ) from problem


class _Unrolled:
    """UNROLLED steps of a map in one compiled call.

    (n,) -> (UNROLLED * n,).
    """

    def __init__(self, model: Model):
        import heyoka as hy

        from kapitza.model import to_heyoka

        names = [*model.states, *model.names]
        inputs = [hy.expression(f"x{i}") for i in range(len(names))]
        fixed = dict(zip((symbol(n) for n in model.names), inputs[len(model.states) :], strict=True))
        now, outputs = inputs[: len(model.states)], list[hy.expression]()
        for _ in range(UNROLLED):
            table = {**dict(zip((symbol(s) for s in model.states), now, strict=True)), **fixed}
            now = [to_heyoka(f, table) for f in model.structure.rates]
            outputs += now
        self.function = hy.cfunc(outputs, vars=inputs)

    def __call__(self, state: Array, vector: Array) -> Array:
        return self.function(np.concatenate((state, vector)))
