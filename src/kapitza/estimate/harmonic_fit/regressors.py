"""Regressors of a model and their noise.

A residual that is linear in the free parameters θ reads g = g0(z) + Σ_j θ_j c_j(z) with z = (u, u', u'', t, inputs).
Nonsmooth terms are written with modes m (see `kapitza.model.switches`), averaged over the sampling cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from scipy.sparse import csr_array
from scipy.special import erf

from kapitza.base.arrays import Indices, Numbers
from kapitza.base.cures import Fit, Give, marked
from kapitza.errors import ModelError
from kapitza.estimate.harmonic_fit.windows import BLOCK
from kapitza.model import (
    FLAT,
    Model,
    Switch,
    compile_expressions,
    derivative,
    derived_in_base,
    rate,
    split_switches,
    symbol,
    time,
)

SUBCELLS = 16
"""Points per sampling interval at which a switching function is evaluated between the samples."""


KEPT_MODES = 2
"""Sets of modes that are cached with a piece."""


@dataclass(frozen=True)
class Smoothed:
    """Coordinates and derivatives along one piece.

    derivatives: (3, n, c); inputs: (n, s); times: (n,).
    own: parameter values that hold for this piece alone; run: number of the record.
    """

    times: Numbers
    derivatives: Numbers
    inputs: Numbers
    step: float
    own: Mapping[str, float] = field(default_factory=dict)
    run: int = 0
    modes: dict[tuple[object, ...], Numbers] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Modes of switches that were computed along this piece, the last few."""

    def part(self, samples: slice) -> Smoothed:
        """Return a part of the piece."""
        return replace(
            self, times=self.times[samples], derivatives=self.derivatives[:, samples], inputs=self.inputs[samples]
        )

    def values(self, names: Sequence[str], common: Numbers) -> Numbers:
        """Return parameter values (p,) along this piece.

        They are those that all pieces share, replaced by its own.
        """
        if not self.own:
            return common
        return np.array([self.own.get(name, value) for name, value in zip(names, common, strict=True)])


@dataclass(frozen=True)
class Slopes:
    """Derivatives ∂g/∂z that are not identically zero.

    equation: (k,); variable: (k,); series: (k, n).
    """

    equation: Indices
    variable: Indices
    series: Numbers


@dataclass(frozen=True)
class Bends:
    """Second derivatives ∂²g/∂z_p∂z_q, p <= q, without zeros.

    Those that are identically zero are left out: equation (k,), first (k,), second (k,), series (k, n).
    """

    equation: Indices
    first: Indices
    second: Indices
    series: Numbers


@dataclass(frozen=True)
class _Curvature:
    """Second-order bias of the curved terms.

    rows: numbers of these terms; function: of the covariances at (first, second).
    """

    rows: Indices
    first: Indices
    second: Indices
    function: Any


@dataclass(frozen=True, eq=False)
class Regressors:
    """Compiled regressors of one model.

    linear: names of the parameters that are solved for; nonlinear: names iterated on; fixed: the rest.
    noisy: (coordinate index, derivative order) of each variable that carries noise.
    factors: what multiplies the regressors where it is not a single parameter but a combination such as m*l**2.
    """

    linear: tuple[str, ...]
    nonlinear: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    noisy: tuple[tuple[int, int], ...]
    variables: tuple[sp.Symbol, ...]
    rest: tuple[sp.Expr, ...]
    coefficients: tuple[tuple[sp.Expr, ...], ...]
    switches: tuple[Switch, ...]
    factors: tuple[sp.Expr, ...] | None = None

    def placed(self, values: Numbers, names: Sequence[str], theta: Numbers) -> Numbers:
        """Return values (p,) with the named ones at theta."""
        result = values.copy()
        result[[self.parameters.index(name) for name in names]] = theta
        return result

    @property
    def equations(self) -> int:
        return len(self.rest)

    @cached_property
    def straight(self) -> Numbers:
        """Return constant factors of u, u', u'' in every regressor.

        They are (equations, 1 + parameters, z), those of g0 first. These terms need no derivative of the data:
        integration by parts moves it onto the test function.
        """
        return np.array([[_constant_factors(e, self._noisy) for e in row] for row in self._rows], float)

    @cached_property
    def _straight_rows(self) -> csr_array:
        """Constant factors as a sparse matrix.

        It is (equations x (1 + parameters), z); an equation contains few of many coordinates.
        """
        return csr_array(self.straight.reshape(-1, len(self.noisy)))

    @property
    def _noisy(self) -> tuple[sp.Symbol, ...]:
        return self.variables[: len(self.noisy)]

    @cached_property
    def _rows(self) -> list[tuple[sp.Expr, ...]]:
        return [(r, *c) for r, c in zip(self.rest, self.coefficients, strict=True)]

    def bent_at(self, columns: Numbers, values: Numbers, noise: Numbers | None = None) -> Numbers:
        """Return the terms at known `columns` without the straight ones.

        They are (equations, 1 + parameters, n), g0 first; see `terms` and `straight`. values: of the piece.
        """
        terms = self._terms_at(columns, values, noise)
        lines = self._straight_rows @ columns[: len(self.noisy)]
        terms -= lines.reshape(terms.shape)
        return terms

    def terms(self, state: Smoothed, values: Numbers, noise: Numbers | None = None) -> tuple[Numbers, Numbers]:
        """Return regressors and rest at the smoothed states.

        They are c (equations, parameters, n) and g0 (equations, n).
        values: (p,) of `parameters`. noise: (z, z) covariance of the noisy variables; then the second-order bias
        ½ Σ_pq Σ_pq ∂²c/∂z_p∂z_q, which noise adds to a curved regressor on average, is subtracted.
        """
        values = state.values(self.parameters, values)
        found = self._terms_at(self.columns(state, values, noise, unbiased=True), values, noise)
        return found[:, 1:], found[:, 0]

    def _terms_at(self, columns: Numbers, values: Numbers, noise: Numbers | None) -> Numbers:
        """Return rest and regressors (equations, 1 + parameters, n) at known `columns`."""
        flat = _terms(self)(columns, values)
        if noise is not None and np.any(noise):
            bent = _curvature(self)
            if bent.rows.size:
                upper = noise[bent.first, bent.second]
                flat[bent.rows] -= bent.function(columns, np.concatenate([values, upper]))
        return flat.reshape(self.equations, len(self.linear) + 1, -1)

    def slopes(self, state: Smoothed, values: Numbers, noise: Numbers | None = None) -> Slopes:
        """Return the slopes ∂g/∂z of the equations.

        Variables are the noisy ones, then inputs, then modes. Those that are identically zero are left out: in a chain
        of masses an equation holds few coordinates.
        """
        return self.slopes_at(self.columns(state, values, noise), state.values(self.parameters, values))

    def slopes_at(self, columns: Numbers, values: Numbers) -> Slopes:
        """Return the slopes at known `columns`.

        values: of the piece they are from.
        """
        places, function = _gradients(self)
        equation, variable = places.T
        return Slopes(equation, variable, function(columns, values))

    def clock_slopes_at(self, columns: Numbers, values: Numbers) -> Numbers:
        """Return ∂g/∂t (equations, n) at known `columns`.

        Motion, inputs and modes are held fixed.
        """
        return _clock_slopes(self)(columns, values)

    def bends_at(self, columns: Numbers, values: Numbers) -> Bends:
        """Return second derivatives by the noisy variables.

        Of every equation, without those that are identically zero.
        """
        places, function = _bends(self)
        equation, first, second = places.T
        if not len(places):
            return Bends(equation, first, second, np.empty((0, columns.shape[1])))
        return Bends(equation, first, second, function(columns, values))

    def columns(self, state: Smoothed, values: Numbers, noise: Numbers | None, unbiased: bool = False) -> Numbers:
        """Return the variables as rows (nvars, n).

        The variables are coordinates, rates, accelerations, t, inputs and modes.
        A mode is the expected sign given the measurement, or (unbiased) one whose mean over the noise is the sign.
        """
        values = state.values(self.parameters, values)
        parts = [state.derivatives[order, :, i] for i, order in self.noisy]
        parts += [state.times, *state.inputs.T]
        columns = np.empty((len(parts) + len(self.switches), len(state.times)))
        columns[: len(parts)] = parts
        for row, switch in enumerate(self.switches, start=len(parts)):
            columns[row] = self._known_mode(switch, columns[:row], values, state, noise, unbiased)
        return columns

    def _known_mode(
        self, switch: Switch, known: Numbers, values: Numbers, state: Smoothed, noise: Numbers | None, unbiased: bool
    ) -> Numbers:
        """Return the mode, cached with the piece.

        Every weighting evaluates the modes of the same motion.
        """
        # Only parameters inside switching functions change a mode.
        used = values[self._switching].tobytes()
        key = (self.variables, switch, used, None if noise is None else noise.tobytes(), unbiased)
        found = state.modes.get(key)
        if found is None:
            if len(state.modes) >= KEPT_MODES * len(self.switches):
                state.modes.clear()
            found = state.modes[key] = self._mode(switch, known, values, state.step, noise, unbiased)
        return found

    @cached_property
    def switches_move_with_time(self) -> bool:
        """Whether time occurs explicitly in a switching function."""
        return any(switch.function.has(time) for switch in self.switches)

    @cached_property
    def _switching(self) -> list[int]:
        """Positions of the parameters that occur in switching functions."""
        names = {s.name for switch in self.switches for s in switch.function.free_symbols}
        return [k for k, name in enumerate(self.parameters) if name in names]

    def _mode(
        self, switch: Switch, known: Numbers, values: Numbers, step: float, noise: Numbers | None, unbiased: bool
    ):
        """Return the sign of the switching function, averaged.

        The average is over the sampling cell. Between samples s is a cubic through its values and rates. With noise of
        deviation σ on s, the expected sign given the measurement is e = erf(s / √2 σ). A test function averages over
        the noise: sgn s is blurred by the variance σ², e by 2 σ², and 2 sgn s - e not at all in this order. For |s| = s
        sgn s, s e is free of it.
        """
        variables = self.variables[: len(known)]
        function = compile_expressions((switch.function,), variables, self.parameters)
        s = function(known, values)[0]
        moving = self._rate_of(switch.function)
        if moving is None:
            # The rate of s needs a derivative that is not among the variables.
            slope = np.gradient(s) / step
        else:
            slope = compile_expressions((moving,), variables, self.parameters)(known, values)[0]
        if switch.can_vanish:
            # Rounding must not decide the sign of a function that vanishes for a while.
            tiny = FLAT * (1.0 + np.abs(known).max(axis=0))
            flat = (np.abs(s) <= tiny) & (np.abs(slope * step) <= tiny)
            # The sign of an exact zero is zero, which switches the term off.
            s, slope = np.where(flat, 0.0, s), np.where(flat, 0.0, slope)
        deviation = np.zeros_like(s)
        if noise is not None and np.any(noise):
            gradient = tuple(derivative(switch.function, v) for v in self.variables[: len(self.noisy)])
            g = compile_expressions(gradient, variables, self.parameters)(known, values)
            deviation = np.sqrt(np.clip(np.einsum("pn,pq,qn->n", g, noise, g), 0.0, None))
        return _cell_average(s, slope * step, deviation, unbiased and not switch.continuous)

    def _rate_of(self, expression: sp.Expr) -> sp.Expr | None:
        """Return ds/dt along the motion.

        None where it needs derivatives that are not available.
        """
        result = derivative(expression, time)
        names = dict(zip(self.noisy, self.variables, strict=False))
        for (i, order), variable in names.items():
            partial = derivative(expression, variable)
            if partial == 0:
                continue
            if (i, order + 1) not in names:
                return None
            result += partial * names[i, order + 1]
        return result


def _cell_average(s: Numbers, change: Numbers, deviation: Numbers, unbiased: bool = False) -> Numbers:
    """Return the mean sign over t ± step/2.

    The mean is that of the expected sign, or (unbiased) of twice the sign less it; `change` is ds/dt times the
    step.
    """
    if s.size < 3:
        return np.sign(s)
    sign = np.sign(s)
    reach = np.abs(change) + 4.0 * deviation
    # Elsewhere the sign is certain over the whole cell, which saves most of the work.
    near = np.flatnonzero(np.abs(s) <= 2.0 * reach + np.abs(np.gradient(s)))
    if not near.size:
        return sign
    fraction = (np.arange(SUBCELLS // 2) + 0.5) / SUBCELLS
    # In blocks that stay in the cache.
    for here in np.split(near, range(BLOCK // SUBCELLS, near.size, BLOCK // SUBCELLS)):
        after, before = np.minimum(here + 1, s.size - 1), np.maximum(here - 1, 0)
        spread = deviation[here, None]
        total = np.zeros(here.size)
        for first, last, x in ((here, after, fraction), (before, here, 1.0 - fraction)):
            inside = _cubic(s[first], change[first], s[last], change[last], x)
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = np.where(spread > 0, erf(inside / (np.sqrt(2.0) * spread)), np.sign(inside))
            total += (2.0 * np.sign(inside) - expected if unbiased else expected).mean(axis=1)
        sign[here] = total / 2.0
    return sign


def _cubic(a: Numbers, da: Numbers, b: Numbers, db: Numbers, x: Numbers) -> Numbers:
    """Return the Hermite cubic between two values.

    a, b are values (k,), da, db slopes per unit (k,), x places (f,); the result is (k, f).
    """
    a, da, b, db = a[:, None], da[:, None], b[:, None], db[:, None]
    # Horner form of the Hermite cubic.
    return a + x * (da + x * (3 * (b - a) - 2 * da - db + x * (2 * (a - b) + da + db)))


def regressors_of(model: Model, free: Sequence[str], inputs: tuple[str, ...], separate: bool = False) -> Regressors:
    """Derive the regressors of `free` from the equations.

    separate: parameters that do not enter linearly are set apart for an outer iteration instead of being refused.
    """
    derived = derived_in_base(model)
    equations = tuple(e.xreplace(derived) for e in model.equations)
    signals = model.signals
    expressions = {symbol(s.name): s.expression for s in signals if s.name not in inputs and s.kind == "fourier"}
    equations = tuple(e.xreplace(expressions) for e in equations)
    noisy = [
        (i, order)
        for order in range(3)
        for i, c in enumerate(model.coordinates)
        if order <= c.order or any(e.has(rate(c.name, order)) for e in equations)
    ]
    variables = [rate(model.coordinates[i].name, order) for i, order in noisy] + [time, *map(symbol, inputs)]
    # Measured inputs may be constant for a while, where a switching function of them vanishes.
    switches, smooth = split_switches(equations, variables, tuple(map(symbol, inputs)))
    nonlinear = nonlinear_names(smooth, free)
    if nonlinear and not separate:
        _refuse_nonlinear(model, free)
    linear = tuple(name for name in free if name not in nonlinear)
    unknown = [symbol(n) for n in linear]
    coefficients = tuple(tuple(derivative(e, p) for p in unknown) for e in smooth)
    rest = tuple(e.xreplace(dict.fromkeys(unknown, sp.Integer(0))) for e in smooth)
    return Regressors(
        linear=linear,
        nonlinear=tuple(nonlinear),
        parameters=model.names,
        inputs=inputs,
        noisy=tuple(noisy),
        variables=(*variables, *(s.mode for s in switches)),
        rest=rest,
        coefficients=coefficients,
        switches=switches,
    )


def nonlinear_names(equations: Sequence[sp.Expr], free: Sequence[str]) -> list[str]:
    """Return the parameters that do not enter linearly.

    The equations are linear in all the others together.
    """
    found: list[str] = []
    for name in free:
        # Nonlinear in itself; products of two parameters are found below, where one of the two is set apart.
        if any(derivative(derivative(e, symbol(name)), symbol(name)) != 0 for e in equations):
            found.append(name)
    rest = [n for n in free if n not in found]
    for i, name in enumerate(rest):
        partners = [o for o in rest[i + 1 :] if o not in found]
        if any(derivative(derivative(e, symbol(name)), symbol(o)) != 0 for e in equations for o in partners):
            found.append(name)
    return found


def _refuse_nonlinear(model: Model, free: Sequence[str]) -> None:
    try:
        model.linear_terms(free)
    except ModelError as error:
        raise ModelError(
            f"{marked(error)} Or pass {Fit('harmonic', nonlinear='separate')}, with {Give(test='windows')}, to "
            "iterate on it."
        ) from None


def _constant_factors(expression: sp.Expr, variables: tuple[sp.Symbol, ...]) -> list[float]:
    """Return the constant factors a_p of the variables.

    expression = Σ a_p z_p + a rest whose own dependence on each such z_p is not a constant.
    """
    factors = []
    present = expression.free_symbols
    for variable in variables:
        constant = sp.Integer(0)
        slope: Any = derivative(expression, variable) if variable in present else constant
        if slope.is_number:
            constant = slope
        # The constant term of a polynomial is its value at zero, which avoids an expansion.
        elif slope.is_polynomial(*slope.free_symbols):
            constant = slope.xreplace(dict.fromkeys(slope.free_symbols, sp.Integer(0)))
        else:
            for term in sp.Add.make_args(sp.expand(slope)):
                constant += term if term.is_number else 0
        factors.append(float(constant))
    return factors


@lru_cache(maxsize=64)
def _terms(regressors: Regressors) -> Any:
    expressions = [e for row in regressors._rows for e in row]
    return compile_expressions(expressions, regressors.variables, regressors.parameters)


def _whole(regressors: Regressors) -> list[sp.Expr]:
    """Return every equation with its parameters."""
    names = [symbol(n) for n in regressors.linear] if regressors.factors is None else regressors.factors
    return [
        rest + sum(p * c for p, c in zip(names, coefficients, strict=True)) for rest, *coefficients in regressors._rows
    ]


def _curved(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> Iterator[tuple[int, int, sp.Expr]]:
    """Yield p, q and ∂²/∂z_p∂z_q of an expression.

    For p <= q, where the second derivative does not vanish.
    """
    present = expression.free_symbols
    inside = [(p, v) for p, v in enumerate(variables) if v in present]
    for number, (p, first) in enumerate(inside):
        slope = derivative(expression, first)
        left = slope.free_symbols
        bends = ((p, q, derivative(slope, v)) for q, v in inside[number:] if v in left)
        yield from (bend for bend in bends if bend[2] != 0)


@lru_cache(maxsize=64)
def _bends(regressors: Regressors) -> tuple[Indices, Any]:
    """Return the nonzero second derivatives of the equations.

    Places (k, 3), and the function that evaluates them.
    """
    found = [(i, *bend) for i, full in enumerate(_whole(regressors)) for bend in _curved(full, regressors._noisy)]
    places = np.array([bend[:3] for bend in found], int).reshape(-1, 3)
    expressions = [bend[3] for bend in found]
    return places, compile_expressions(expressions, regressors.variables, regressors.parameters) if found else None


@lru_cache(maxsize=64)
def _gradients(regressors: Regressors) -> tuple[Indices, Any]:
    """Return the nonzero derivatives of the equations.

    Places (k, 2), and the function that evaluates them.
    """
    modes = [s.mode for s in regressors.switches]
    by = (*regressors._noisy, *map(symbol, regressors.inputs), *modes)
    found = []
    for i, full in enumerate(_whole(regressors)):
        present = full.free_symbols
        slopes = ((i, k, derivative(full, v)) for k, v in enumerate(by) if v in present)
        found += [(i, k, slope) for i, k, slope in slopes if slope != 0]
    places = np.array([(i, k) for i, k, _ in found], int).reshape(-1, 2)
    return places, compile_expressions([e for _, _, e in found], regressors.variables, regressors.parameters)


@lru_cache(maxsize=64)
def _clock_slopes(regressors: Regressors) -> Any:
    """Return the function of the derivatives by time."""
    slopes = [derivative(full, time) for full in _whole(regressors)]
    return compile_expressions(slopes, regressors.variables, regressors.parameters)


@lru_cache(maxsize=64)
def _curvature(regressors: Regressors) -> _Curvature:
    """Return the second-order bias of curved terms.

    ½ Σ_pq Σ_pq ∂²c/∂z_p∂z_q of every term in which it does not vanish.
    """
    spread: dict[tuple[int, int], sp.Symbol] = {}
    rows, expressions = [], []
    for number, term in enumerate(e for row in regressors._rows for e in row):
        parts = []
        for i, j, bend in _curved(term, regressors._noisy):
            s = spread.setdefault((i, j), sp.Symbol(f"cov:{i}:{j}", real=True))
            # Off-diagonal pairs occur twice in the sum over p and q.
            parts.append(s * (sp.Rational(1, 2) if i == j else 1) * bend)
        if parts:
            rows.append(number)
            expressions.append(sp.Add(*parts))
    first, second = np.array(list(spread), int).reshape(-1, 2).T
    parameters: list[str | sp.Symbol] = [*regressors.parameters, *spread.values()]
    function = compile_expressions(expressions, regressors.variables, parameters)
    return _Curvature(np.array(rows, int), first, second, function)
