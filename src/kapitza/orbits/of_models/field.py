"""Right-hand sides and derivatives on arrays of points.

Methods that discretise an orbit use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.model import FLAT, Model, compile_derivatives, compile_expressions, derivative, in_base, symbol, time


@dataclass(frozen=True)
class Rates:
    """Rates and derivatives at N points.

    rates (N, n), by_state (N, n, n), by_time (N, n), by_parameter (N, n, k).
    """

    rates: Array
    by_state: Array
    by_time: Array
    by_parameter: Array


@dataclass(frozen=True)
class Surface:
    """Switching function or wall at N points.

    value (N,), by_state (N, n), by_time (N,), by_parameter (N, k).
    """

    value: Array
    by_state: Array
    by_time: Array
    by_parameter: Array


class VectorField:
    """x' = f(x, t, θ) with first derivatives.

    It is evaluated at many points at once, from the structure of a model.
    Jumps (sign, Abs, …) are modes m_i = sign s_i(x, t), see `kapitza.model.switches`. They are taken from the points,
    or given per point when a method knows on which side an arc runs (NaN: taken from the point).
    wrt: names of the parameters by which to differentiate.
    """

    def __init__(self, model: Model, wrt: Sequence[str] = ()):
        structure = model.structure
        self.model, self.wrt = model, tuple(wrt)
        for name in self.wrt:
            model.check(name)
        self.size, self.switches = len(model.states), structure.switches
        self.signals = model.signals
        walls = [(i.surface, tuple(i.reset.get(s, symbol(s)) for s in model.states)) for i in structure.impacts]
        self._code = _code(
            structure.smooth_steps,
            structure.elimination,
            structure.smooth_rates,
            tuple((s.function, s.mode) for s in self.switches),
            tuple(walls),
            model.states,
            tuple(s.name for s in self.signals),
            model.names,
            self.wrt,
        )

    def values(self, parameters: Array | None) -> Array:
        return self.model.vector if parameters is None else np.asarray(parameters, float)

    def _inputs(self, states: Array, times: Array) -> Array:
        times = np.broadcast_to(np.asarray(times, float), states.shape[:1])
        rows = [states.T, times[None]]
        if self.signals:
            rows += [np.stack([s(times) for s in self.signals]), np.stack([s(times, 1) for s in self.signals])]
        return np.concatenate(rows)

    def modes(self, states: Array, times: Array, parameters: Array | None = None) -> Array:
        """Return the signs of the switching functions.

        (N, number of switches), +1 at zero, 0 for those that may vanish there.
        """
        inputs, count = self._inputs(states, times), len(self.switches)
        result = np.ones((states.shape[0], count))
        for i, surface in enumerate(self._code.switches):
            value = surface(np.concatenate([inputs, result.T]), self.values(parameters))[0]
            result[:, i] = np.where(value >= 0, 1.0, -1.0)
            if self.switches[i].can_vanish:
                result[np.abs(value) <= FLAT * (1.0 + np.abs(states).max(axis=1)), i] = 0.0
        return result

    def _with_modes(self, states: Array, times: Array, parameters: Array | None, modes: Array | None) -> Array:
        if self.switches and modes is None:
            modes = self.modes(states, times, parameters)
        elif modes is not None and np.isnan(modes).any():
            modes = np.where(np.isnan(modes), self.modes(states, times, parameters), modes)
        inputs = self._inputs(states, times)
        if modes is None or not self.switches:
            return inputs
        return np.concatenate([inputs, np.broadcast_to(modes, (states.shape[0], len(self.switches))).T])

    def rates(self, states: Array, times: Array, parameters: Array | None = None, modes: Array | None = None) -> Array:
        """Return f (N, n) at states and times (N,)."""
        return self._code.rates(self._with_modes(states, times, parameters, modes), self.values(parameters)).T

    def derivatives(
        self, states: Array, times: Array, parameters: Array | None = None, modes: Array | None = None
    ) -> Rates:
        """Return f, f_x, f_t, f_θ at states and times."""
        inputs = self._with_modes(states, times, parameters, modes)
        return self._unpack(self._code.derivatives(inputs, self.values(parameters)).T, inputs, self.size)

    def _unpack(self, flat: Array, inputs: Array, count: int) -> Rates:
        """Split the flat array of values and derivatives.

        They are (N, count · (1 + n + 1 + signals + k)) as the compiled code returns them.
        """
        n, signals = self.size, len(self.signals)
        table = flat[:, count:].reshape(len(flat), count, n + 1 + signals + len(self.wrt))
        by_time = table[:, :, n]
        if signals:
            # Time acts through the signals too.
            slopes = inputs[n + 1 + signals : n + 1 + 2 * signals]
            by_time = by_time + np.einsum("pis,sp->pi", table[:, :, n + 1 : n + 1 + signals], slopes)
        return Rates(flat[:, :count], table[:, :, :n], by_time, table[:, :, n + 1 + signals :])

    def trace(self, states: Array, times: Array, parameters: Array | None = None, modes: Array | None = None) -> Array:
        """Return div f at each point, (N,)."""
        inputs = self._with_modes(states, times, parameters, modes)
        if self._code.elimination is None:
            return self._code.divergence(inputs, self.values(parameters))[0]
        return np.trace(self.derivatives(states, times, parameters, modes).by_state, axis1=1, axis2=2)

    def surface(self, index: int, states: Array, times: Array, parameters: Array | None = None) -> Surface:
        """Evaluate switching function `index` with derivatives.

        Indices count the switches first, then the walls.
        """
        inputs = self._with_modes(states, times, parameters, None)
        found = self._unpack(self._code.surfaces[index](inputs, self.values(parameters)).T, inputs, 1)
        return Surface(found.rates[:, 0], found.by_state[:, 0], found.by_time[:, 0], found.by_parameter[:, 0])

    def reset(self, wall: int, states: Array, times: Array, parameters: Array | None = None) -> Rates:
        """Evaluate the reset map of a wall.

        Derivatives are returned in the same layout as those of the rates.
        """
        inputs = self._with_modes(states, times, parameters, None)
        return self._unpack(self._code.resets[wall](inputs, self.values(parameters)).T, inputs, self.size)


@dataclass(frozen=True)
class _Code:
    """Compiled functions of one structure.

    Each is made when it is first needed.
    The rates of signals are extra inputs because time acts through them too. wrt: names of parameters.
    """

    steps: tuple[Any, ...]
    elimination: Any
    rhs: tuple[sp.Expr, ...]
    functions: tuple[tuple[sp.Expr, sp.Symbol], ...]
    walls: tuple[tuple[sp.Expr, tuple[sp.Expr, ...]], ...]
    states: tuple[str, ...]
    signals: tuple[str, ...]
    names: tuple[str, ...]
    wrt: tuple[str, ...]

    @property
    def _inputs(self) -> list[sp.Symbol]:
        slopes = [symbol(name + " slope") for name in self.signals]
        moving = [symbol(s) for s in (*self.states, time.name, *self.signals)]
        return [*moving, *slopes, *(mode for _, mode in self.functions)]

    def _with_derivatives(self, expressions: Sequence[sp.Expr], stepped: bool = False) -> Any:
        by = (*self.states, time.name, *self.signals, *self.wrt)
        steps, elimination = (self.steps, self.elimination) if stepped else ((), None)
        return compile_derivatives(expressions, by, self._inputs, self.names, steps, elimination)

    @cached_property
    def rates(self) -> Any:
        return compile_expressions(self.rhs, self._inputs, self.names, self.steps)

    @cached_property
    def derivatives(self) -> Any:
        return self._with_derivatives(self.rhs, stepped=True)

    @cached_property
    def divergence(self) -> Any:
        """Compile Σ ∂f_i/∂x_i of explicit rates.

        The other derivatives are not needed for it.
        """
        own = [derivative(f, symbol(s)) for f, s in zip(self.rhs, self.states, strict=True) if f.has(symbol(s))]
        return compile_expressions([sp.Add(*own)], self._inputs, self.names, self.steps)

    @cached_property
    def switches(self) -> tuple[Any, ...]:
        return tuple(compile_expressions([f], self._inputs, self.names) for f, _ in self.functions)

    @cached_property
    def surfaces(self) -> tuple[Any, ...]:
        """Switching functions, then walls."""
        return tuple(self._with_derivatives([f]) for f, _ in (*self.functions, *self.walls))

    @cached_property
    def resets(self) -> tuple[Any, ...]:
        return tuple(self._with_derivatives(reset) for _, reset in self.walls)


@lru_cache(maxsize=64)
def _code(*parts: Any) -> _Code:
    return _Code(*parts)


def period_gradient(model: Model, names: Sequence[str]) -> Array:
    """Return d(excitation period)/dθ, (k,).

    θ are the named parameters; the result is zero for autonomous models.
    """
    if model.excitation is None or model.excitation.period is None:
        return np.zeros(len(names))
    expression = in_base(model, model.excitation.period)
    known = {symbol(name): value for name, value in model.values.items()}
    slopes = [sp.N(sp.diff(expression, symbol(name)).xreplace(known)) for name in names]
    return np.array(slopes, float)
