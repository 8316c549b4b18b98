"""Steps that are too long because a Taylor series has gaps.

A Taylor step is as long as its last two coefficients allow. The series of x'' = -x⁷ from x = 0 has the orders 0, 1, 8,
9, 16 and 17: the orders 18 and 19 vanish, and near x = 0 they are small. So it is wherever the equations are unchanged
when time and states turn by parts of a circle in the complex plane: for powers and products near zero, and for a
pendulum that is released at 90°.

Damping and linear stiffness fill the gaps. Where they are weak, the steps of a finished run are compared: the radius of
convergence changes by at most one step within a step, so steps of one run are similar, and one that is much longer
passed a gap. Of few steps the coefficients of lower orders are looked at. A run that fails is made again by the
stepper in C, which looks at them in every step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property

import heyoka as hy
import numpy as np
import sympy as sp

from kapitza.base.arrays import Array, Flags
from kapitza.flow.engine import System
from kapitza.model import compile_expressions, derivative, time

WEAK = 0.01
"""Rate that fills gaps, times the mean step, from which on no series has them. At 0.01 a coefficient that is filled by
one use of a linear term is 1 % of its neighbour: the step grows by 27 %."""

LONG, FEW = 2.0, 5
"""Longest step over the mean one that no gap explains, and number of steps from which on they are compared. A step of
twice the length leaves an error of 1e-11."""

MOST_PAIRS = 500
"""Pairs of a rate and a state in it up to which the filling terms are looked for: it takes 0.3 s. The steps of
larger systems, and of those with an eliminated mass matrix, are always compared."""

REMEMBERED = 256
"""Vectors of parameters whose rates are kept."""

WAVES = (sp.sin, sp.cos, sp.tan, sp.exp, sp.tanh, sp.sinh, sp.cosh, sp.erf, sp.atan)
"""Functions of a drive that have all orders, even and odd ones, at nearly all times."""


class Gaps:
    """Rates of the terms that fill gaps in the series of a system."""

    def __init__(self, system: System):
        self.system = system
        self.moving = frozenset((time, *system.states))
        self._known: dict[bytes, float] = {}

    def filling_rate(self, parameters: Array) -> float:
        """Return the smallest rate, over the states, of the terms that fill their gaps.

        It is infinite where no series of the system has gaps, and 0 where nothing fills them.
        """
        if self._rates is None:
            return math.inf
        key = parameters.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = float(self._rates(parameters[None])[0])
        return found

    def filling_rates(self, parameters: Array) -> Array | None:
        """Return `filling_rate` (B,) of rows of parameters; None where all are infinite."""
        if self._rates is None:
            return None
        if (parameters == parameters[0]).all():
            return np.full(len(parameters), self.filling_rate(parameters[0]))
        return self._rates(parameters)

    @cached_property
    def _rates(self) -> Callable[[Array], Array] | None:
        """Function of the rates by the parameters (B, npar); None where no series has gaps."""
        system = self.system
        if system.smooth_steps or sum(len(f.free_symbols) for f in system.smooth_rates) > MOST_PAIRS:
            return lambda parameters: np.zeros(len(parameters))
        bent = {i for i, f in enumerate(system.smooth_rates) if not self._is_linear(f)}
        after = [i for i in range(len(system.states)) if not bent.isdisjoint(self._before(i))]
        if not after:
            return None
        terms = self._terms()
        evaluate = compile_expressions([term for _, term in terms], system.parameters)
        rows, columns = np.array([place for place, _ in terms], int).reshape(-1, 2).T
        alike = [(i, system.states.index(f)) for i, f in enumerate(system.smooth_rates) if f in system.states]

        def rates(parameters: Array) -> Array:
            count = len(system.states)
            factors = np.zeros((count, count, len(parameters)))
            np.add.at(factors, (rows, columns), np.abs(evaluate(parameters.T[: len(system.parameters)])))
            own = np.sqrt(factors * factors.swapaxes(0, 1)).max(axis=1)
            for i, j in alike:
                factors[i, j] = np.inf  # x of x' = v has the gaps of v
            before = np.zeros_like(own)
            while (own > before).any():
                # What fills the gaps of one state fills those of others as far as it enters them.
                before, own = own, np.maximum(own, np.minimum(factors, own).max(axis=1))
            return own[after].min(axis=0)

        return rates

    def _before(self, state: int) -> set[int]:
        """Return the states on which a state depends, with itself."""
        rates, states = self.system.smooth_rates, self.system.states
        found, new = {state}, [state]
        while new:
            symbols = rates[new.pop()].free_symbols
            new += [j for j, s in enumerate(states) if s in symbols and j not in found]
            found.update(new)
        return found

    def _is_linear(self, rate: sp.Expr) -> bool:
        return all(derivative(rate, s).free_symbols.isdisjoint(self.moving) for s in rate.free_symbols & self.moving)

    def _terms(self) -> list[tuple[tuple[int, int], sp.Expr]]:
        """Return the terms that fill gaps: constant factors a of x' = a y, and drives of x at (x, x).

        A drive counts by its amplitude, or by its amplitude times its frequency where that is smaller: slow ones are
        polynomials of low order. States have the size 1, below which errors are absolute.
        """
        system, found = self.system, []
        for i, rate in enumerate(system.smooth_rates):
            for j in (j for j, s in enumerate(system.states) if s in rate.free_symbols):
                found.append(((i, j), self._factor(i, j)))
            for wave in rate.atoms(*WAVES):
                pace = derivative(wave.args[0], time)
                if wave.has(time) and pace.free_symbols.isdisjoint(self.moving):
                    amplitude = sp.expand(rate).coeff(wave).as_independent(*self.moving, as_Add=True)[0]
                    found.append(((i, i), amplitude * sp.Min(1, sp.Abs(pace))))
        return [(place, term) for place, term in found if term != 0]

    def _factor(self, row: int, column: int) -> sp.Expr:
        """Return the constant part of the derivative of a rate by a state."""
        # Powers are not expanded: that of (x - 1)³ has no constant part, as it vanishes at x = 1.
        slope = sp.expand(derivative(self.system.smooth_rates[row], self.system.states[column]), multinomial=False)
        return slope.as_independent(*self.moving, as_Add=True)[0]


def may_take_few(rate: float, length: float) -> bool:
    """Return whether a run of this length may need the coefficients of its last step: of few steps, and weak terms."""
    return rate * abs(length) < WEAK * FEW


def longest_step(length: float, longest: float, steps: int, last: float) -> float:
    """Return the longest step of a run.

    longest: of the steps that were not cut by the end of the run, as heyoka counts them. last: the step that was cut,
    or 0 where it is not known; then it has at least the length that the others leave.
    """
    return max(longest, abs(last), abs(length) - longest * (steps - 1))


def has_long_step(rate: float, length: float, longest: float, steps: int) -> bool:
    """Return whether a run may have passed a gap.

    rate: of `Gaps`; length: of the run; longest: its longest step; steps: their number. Of few steps the coefficients
    of the last one decide, see `outruns_series`.
    """
    mean = abs(length) / max(steps, 1)
    return rate * mean < WEAK and (steps < FEW or longest > LONG * mean)


def outruns_series(coefficients: Array, longest: Array) -> Flags:
    """Return whether the longest of a few steps is too long for the series of the last one.

    coefficients: (n, order + 1, ...) of the last step; longest: (...). The radius of convergence changes by less than
    its half in so few steps. In half a step times exp(2), which is about the radius, no term may exceed the states;
    those of half the order or less belong to polynomials. A series without others says nothing: that of x'' = -x¹³
    from x = 0 begins to bend with the order 14.
    """
    sizes = np.abs(coefficients).max(axis=0)
    count = len(sizes)
    orders = np.arange(count // 2 + 1, count).reshape(-1, *[1] * longest.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = sizes[count // 2 + 1 :] * (np.exp(2.0) / LONG * longest) ** orders
    return ~(terms <= np.maximum(1.0, sizes[0])).all(axis=0) | ~sizes[count // 2 + 1 :].any(axis=0)


def keeps(rates: Array, lengths: Array) -> bool:
    """Return whether the coefficients of the last step of a batch may be needed."""
    return any(itertools.starmap(may_take_few, zip(rates.tolist(), lengths.tolist(), strict=True)))


def long_steps(integrator: hy.taylor_adaptive_batch_dbl, size: int, rates: Array, lengths: Array) -> list[bool] | Flags:
    """Return which members of a batch may have passed a gap in their series.

    size: number of states.
    """
    # Numbers: for so few of them array operations take longer.
    members = integrator.propagate_res
    counts = [done[3] for done in members]
    if max(counts) == 1:
        lengths = np.abs(lengths)
        weak = rates * lengths < WEAK
        # In most fits the terms are not weak, and nothing has to be compared.
        return outruns_series(integrator.tc[:size], lengths) & weak if weak.any() else weak
    # A member that ended before others made steps of no length since then.
    lasts, spans = integrator.last_h.tolist(), lengths.tolist()
    longest = [
        longest_step(length, done[2], done[3], last) for length, done, last in zip(spans, members, lasts, strict=True)
    ]
    found = [has_long_step(*one) for one in zip(rates.tolist(), spans, longest, counts, strict=True)]
    if not any(long and count < FEW for long, count in zip(found, counts, strict=True)):
        return found
    outrun = outruns_series(integrator.tc[:size], np.array(longest))
    return np.array(found) & (outrun | (np.array(counts) >= FEW))
