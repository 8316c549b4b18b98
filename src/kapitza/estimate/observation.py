"""Channels as functions of states, time and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import sympy as sp

from kapitza.base.angles import difference
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import By, Give
from kapitza.data import Record
from kapitza.errors import DataError, nearest_name
from kapitza.estimate.outputs import read_output
from kapitza.estimate.sensors import Sensor
from kapitza.model import Model, Signal, compile_derivatives, derived_in_base, symbol, time


@dataclass(frozen=True)
class DifferenceQuotient:
    """Read an output as a difference quotient.

    The output is y(t) = [h(x(t + step)) - h(x(t))] / step, with h in plain notation.

    So a velocity that comes from two samples of an angle 15.08 ms apart is `DifferenceQuotient("phi", 0.01508)`.

    Parameters
    ----------
    output : str
        Quantity that is sampled twice, an expression of states, time and parameters.
    step : float
        Time between the two samples [s].

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.OrbitFit(outputs={"phi'": kz.DifferenceQuotient("phi", 0.01508)}).outputs["phi'"].step
    0.01508
    """

    output: str
    step: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.step) and self.step > 0):
            raise DataError(f"DifferenceQuotient: step = {self.step} s; give the time between two samples, above 0.")


Output = str | sp.Expr | DifferenceQuotient
"""What a channel measures."""


@dataclass(frozen=True)
class Observation:
    """Measurement equation of a record.

    Its channels are y = h(x, t, θ). matrix: (c, n) when every channel is a constant linear combination of states, else
    None; picked: (c,) the indices of the states that the channels measure, where every channel is a state. angles: (c,)
    which channels live on a circle. signals: measured excitations that the channels measure.
    """

    channels: tuple[str, ...]
    expressions: tuple[sp.Expr, ...]
    angles: Flags
    matrix: Array | None
    states: int
    free: int
    evaluate: Callable[..., Array] | None
    picked: Indices | None = None
    signals: tuple[Signal, ...] = ()

    def value(self, states: Array, times: Array, parameters: Array) -> Array:
        """Return h (N, c) at states (N, n).

        times (N,), parameters (N, npar) or (npar,).
        """
        if self.matrix is not None:
            return states @ self.matrix.T
        return self._all(states, times, parameters)[: len(self.channels)].T

    def linearise(self, states: Array, times: Array, parameters: Array) -> tuple[Array, Array, Array]:
        """Return the outputs and their Jacobians.

        They are h (N, c), ∂h/∂x (N, c, n) and ∂h/∂θ (N, c, k).
        """
        count, outputs = len(states), len(self.channels)
        if self.matrix is not None:
            by_state = np.broadcast_to(self.matrix, (count, *self.matrix.shape))
            return states @ self.matrix.T, by_state, np.zeros((count, outputs, self.free))
        every = self._all(states, times, parameters)
        slopes = np.moveaxis(every[outputs:].reshape(outputs, self.states + self.free, count), 2, 0)
        return every[:outputs].T, slopes[..., : self.states], slopes[..., self.states :]

    def along(
        self, states: Array, times: Array, parameters: Array, tangents: tuple[Array, Array] | None
    ) -> tuple[Array, Array]:
        """Return the outputs and their slopes.

        h (N, c) and its derivatives (N, c, n + k) by the state at the start of an interval and by the free parameters.
        tangents: derivatives (..., n, n) and (..., n, k) of `states` by these, N in all; None where the interval starts
        at the sample itself.
        """
        value, to_state, direct = self.linearise(states, times, parameters)
        count, n, k = len(states), self.states, self.free
        slopes = np.empty((count, len(self.channels), n + k))
        if tangents is None:
            slopes[..., :n], slopes[..., n:] = to_state, 0.0
        elif self.picked is not None:
            # A slice selects neighbouring states without a copy: tangents of many states are large.
            first, last = int(self.picked[0]), int(self.picked[-1]) + 1
            run = np.array_equal(self.picked, np.arange(first, last))
            seen = slice(first, last) if run else self.picked
            every = slopes.reshape(*tangents[0].shape[:-2], len(self.channels), n + k)
            every[..., :n], every[..., n:] = tangents[0][..., seen, :], tangents[1][..., seen, :]
        else:
            slopes[..., :n] = to_state @ tangents[0].reshape(count, n, n)
            slopes[..., n:] = to_state @ tangents[1].reshape(count, n, k)
        if self.matrix is None:
            slopes[..., n:] += direct
        return value, slopes

    def _all(self, states: Array, times: Array, parameters: Array) -> Array:
        assert self.evaluate is not None
        seen = [signal(times) for signal in self.signals]
        return self.evaluate(np.vstack([states.T, times[None], *seen]), np.asarray(parameters).T)

    def residual(self, predicted: Array, measured: Array) -> Array:
        """Return predicted - measured, on the circle for angles."""
        return difference(predicted, measured, self.angles)


def observe(model: Model, records: Sequence[Record], outputs: Mapping[str, Output], free: Sequence[str]) -> Observation:
    """Match the channels of all records to the model.

    `outputs` are used first, then outputs of the model, then states.
    """
    circles: dict[str, bool] = {}
    for record in records:
        for channel, angle in zip(record.channels, record.angles, strict=True):
            circles[channel] = circles.get(channel, False) or angle
    return observe_channels(model, tuple(circles), tuple(circles.values()), outputs, free)


def observe_channels(
    model: Model,
    available: Sequence[str],
    on_circle: Sequence[bool],
    outputs: Mapping[str, Output],
    free: Sequence[str],
) -> Observation:
    """Match channels given by name to the model.

    on_circle: whether each of the channels lives on a circle.
    """
    if not available:
        raise DataError(f'No measured channel is named: give one at least, such as "{model.states[0]}".')
    expressions, channels = [], []
    for channel in available:
        # Outputs of the settings override those of the model, which override states of the same name.
        expression = outputs.get(channel, model.structure.outputs.get(channel))
        if isinstance(expression, DifferenceQuotient):
            raise DataError(f'"{channel}" is read as a difference quotient: only {By("orbits")} takes these.')
        if isinstance(expression, Sensor):
            raise DataError(
                f'"{channel}" is a Sensor, which identify and validate take; here write out what it reads, such as '
                f'"2.0*{model.states[0]} + 0.1".'
            )
        if isinstance(expression, str):
            expression = read_output(expression, model)
        if expression is not None and not (isinstance(expression, sp.Expr) and expression.free_symbols):
            raise DataError(
                f'The output "{channel}" = {expression} depends on nothing: say which states it measures, e.g. '
                f"{Give(outputs={channel: f'2*{model.states[0]}'})}."
            )
        if expression is None and channel in model.states:
            expression = symbol(channel)
        if expression is not None:
            channels.append(channel)
            expressions.append(expression)
    for channel in outputs:
        if channel not in available:
            raise DataError(
                f'No channel "{channel}"; the record has {", ".join(available)}.' + nearest_name(channel, available)
            )
    if not channels:
        raise DataError(
            f"None of the channels {', '.join(available)} is a state ({', '.join(model.states)}) or an output of "
            f"{model.name}: say what they measure, e.g. {Give(outputs={available[0]: model.states[0]})}."
        )
    angle = dict(zip(available, on_circle, strict=True))
    circular = [_on_circle(expression, model) for expression in expressions]
    angles = np.array([angle[channel] or circle for channel, circle in zip(channels, circular, strict=True)])
    return _compile(model, tuple(channels), tuple(expressions), angles, tuple(free))


def _on_circle(expression: sp.Expr, model: Model) -> bool:
    """Return whether an output counts modulo one turn.

    It does if it is an integer combination of angles alone, declared as an angle or not.
    """
    turning = [symbol(name) for name, angle in zip(model.states, model.angles, strict=True) if angle]
    slopes = [sp.diff(expression, angle) for angle in turning]
    rest = sp.expand(expression - sum(slope * angle for slope, angle in zip(slopes, turning, strict=True)))
    return any(slope != 0 for slope in slopes) and all(slope.is_integer for slope in slopes) and rest == 0


def _compile(
    model: Model,
    channels: tuple[str, ...],
    expressions: tuple[sp.Expr, ...],
    angles: Flags,
    free: tuple[str, ...],
) -> Observation:
    derived = derived_in_base(model)
    expressions = tuple(cast(sp.Expr, e.xreplace(derived)) for e in expressions)
    states = [symbol(name) for name in model.states]
    structure = model.structure
    # An accelerometer on a large linkage measures a step of its elimination, not an expression in the states.
    solved = {name for name, _ in structure.steps}
    used = tuple(s for s in model.signals if any(symbol(s.name) in e.free_symbols for e in expressions))
    known = {*states, time, *(symbol(name) for name in model.names), *solved, *(symbol(s.name) for s in used)}
    for channel, expression in zip(channels, expressions, strict=True):
        unknown = sorted(str(s) for s in expression.free_symbols - known)
        if unknown:
            raise DataError(
                f'The output "{channel}" = {expression} uses {", ".join(unknown)}, unknown to {model.name}.'
            )
    rows = None if any(solved & e.free_symbols for e in expressions) else _constant_rows(expressions, tuple(states))
    matrix, evaluate, picked = None, None, None
    if rows is not None:
        matrix = np.array(rows, float)
        # Every channel is a state with gain one: the tangents can be sliced instead of multiplied.
        if ((matrix != 0).sum(axis=1) == 1).all() and (matrix.sum(axis=1) == 1).all():
            picked = matrix.argmax(axis=1)
    else:
        by = [*states, *(symbol(name) for name in free)]
        inputs = [*states, time, *(symbol(s.name) for s in used)]
        evaluate = compile_derivatives(expressions, by, inputs, model.names, structure.steps, structure.elimination)
    return Observation(channels, expressions, angles, matrix, len(states), len(free), evaluate, picked, used)


@lru_cache(maxsize=64)
def _constant_rows(
    expressions: tuple[sp.Expr, ...], states: tuple[sp.Symbol, ...]
) -> tuple[tuple[sp.Expr, ...], ...] | None:
    """Return the gains (c, n) of outputs that are constant combinations of states.

    None for others. SymPy takes 2 ms for three states, as long as a short record is swept: fits with the same outputs
    share the answer.
    """
    rows = tuple(tuple(sp.diff(e, x) for x in states) for e in expressions)
    if not all(entry.is_number for row in rows for entry in row):
        return None
    for e, row in zip(expressions, rows, strict=True):
        if sp.simplify(e - sum(entry * x for entry, x in zip(row, states, strict=True))) != 0:
            return None
    return rows


def linear_rows(model: Model, observation: Observation) -> tuple[Flags, Array]:
    """Return the channels linear in the states, and gains.

    The flags are (c,), the constant gains (c, n) at the model's values. Their offset is `Observation.value` at the zero
    state; it may depend on time.
    """
    count = len(observation.channels)
    if observation.matrix is not None:
        return np.ones(count, bool), observation.matrix
    states = [symbol(name) for name in model.states]
    values = {symbol(name): value for name, value in model.values.items()}
    linear, gains = np.zeros(count, bool), np.zeros((count, len(states)))
    for i, expression in enumerate(observation.expressions):
        slopes = [sp.diff(expression, x) for x in states]
        rest = sp.expand(expression - sum(slope * x for slope, x in zip(slopes, states, strict=True)))
        # Nonlinear in the states, or a gain that depends on time or signals.
        if rest.free_symbols & set(states) or not {s for e in slopes for s in e.free_symbols} <= values.keys():
            continue
        row = [complex(sp.N(e.xreplace(values))) for e in slopes]
        if np.isfinite(row).all() and not np.iscomplex(row).any():
            linear[i], gains[i] = True, np.real(row)
    return linear, gains
