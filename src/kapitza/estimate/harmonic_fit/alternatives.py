"""Alternatives against which weak rows are tested.

Terms that an equation may lack, and faults of the measurement.
Every alternative is a column of the rows. Terms are integrated along the smoothed path. A fault changes what is put
into the equations g(u, u', u'', t): an error s of a channel y adds s ∂y/∂s to it, and the rates of that to its rates; a
clock that is fast by e

    u' → u'/(1 + e),   u'' → u''/(1 + e)²,   t → (1 + e) t,   so that   ∂g/∂e = t g_t - u' g_u' - 2 u'' g_u''.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from kapitza.base.arrays import Numbers
from kapitza.data import BY_NAME, SensorError
from kapitza.estimate.faults import Candidate, candidates
from kapitza.estimate.harmonic_fit.problem import WeakProblem
from kapitza.estimate.harmonic_fit.regressors import Regressors, Smoothed
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener
from kapitza.model import Evaluator, compile_expressions, rate, symbol, time

MOST_TERMS = 60
"""Most terms that are tried; where the equations have more candidates, none is tried."""

EARLIER = 1e-3
"""Shift of the time, in radians of the drive, of the central difference for ∂g/∂t."""


@dataclass(frozen=True)
class Law:
    """Term that an equation may lack.

    It is f(z) of one variable in equation number `equation`, or a drive (variable None).
    """

    equation: int
    variable: tuple[int, int] | None
    shape: Callable[[Numbers], Numbers]
    place: str

    def series(self, state: Smoothed) -> Numbers:
        if self.variable is None:
            return self.shape(state.times)
        coordinate, order = self.variable
        return self.shape(state.derivatives[order, :, coordinate])


@dataclass(frozen=True)
class Alternatives:
    """Terms and faults to try.

    values: (p,) of all parameters.
    """

    laws: tuple[Law, ...]
    faults: tuple[Candidate, ...]
    values: Numbers

    @property
    def count(self) -> int:
        return len(self.laws) + len(self.faults)

    def labels(self, several: bool) -> tuple[str, ...]:
        """Return where each of the terms acts."""
        return tuple(f"equation {law.equation + 1} {law.place}" if several else law.place for law in self.laws)

    def columns(self, problem: WeakProblem) -> list[Numbers]:
        """Return the columns of every piece.

        They are (windows, rows, m), along the path of `problem`.
        """
        made = []
        for state in problem.calm:
            count = problem.windows.count(len(state.times))
            if not count:
                continue
            functions = problem.windows.functions
            matrix = np.zeros((count, problem.regressors.equations * functions, self.count))
            known = self._known(problem, state) if self.faults else None
            for part, samples in problem.windows.blocks(len(state.times)):
                inside = state.part(samples)
                for number, law in enumerate(self.laws):
                    here = slice(law.equation * functions, (law.equation + 1) * functions)
                    # A term acts in one equation; its rows in the others stay zero.
                    matrix[part, here, number] = problem.windows.integrate(law.series(inside))
                if known is not None:
                    columns, later = known
                    moved = self._moved(
                        problem, inside, columns[:, samples], None if later is None else later[:, samples]
                    )
                    moved = problem.windows.integrate(moved).transpose(2, 1, 3, 0)
                    matrix[part, :, len(self.laws) :] = moved.reshape(len(moved), -1, len(self.faults))
            made.append(matrix)
        return made

    def _known(self, problem: WeakProblem, state: Smoothed) -> tuple[Numbers, Numbers | None]:
        """Return the columns along a piece, and ∂g/∂t where it does not follow from them."""
        columns = problem.regressors.columns(state, self.values, problem.noise)
        return columns, self._by_time(problem, state) if problem.regressors.switches_move_with_time else None

    def _moved(self, problem: WeakProblem, state: Smoothed, columns: Numbers, later: Numbers | None) -> Numbers:
        """Return the effect of a unit of each fault.

        The effects (m, equations, n) are added to the equations. later: ∂g/∂t (equations, n) where it is known.
        """
        regressors, measured = problem.regressors, problem.measured
        values = state.values(regressors.parameters, self.values)
        slopes = regressors.slopes_at(columns, values)
        known = slopes.variable < len(regressors.noisy)
        by = list(zip(slopes.equation[known], slopes.variable[known], slopes.series[known], strict=True))
        # Channels from coordinates: a gain acts on a channel, the equations hold coordinates.
        readings = np.linalg.pinv(measured.mixing)
        if later is None:
            later = regressors.clock_slopes_at(columns, values)
        path = [state.derivatives[0] - measured.offset, *state.derivatives[1:]]
        made = np.zeros((len(self.faults), regressors.equations, len(state.times)))
        for number, fault in enumerate(self.faults):
            error = BY_NAME[fault.kind]
            if error.of_record:
                assert error.column is not None
                # The column -(a + b t) h' of a shift of the time at h' = -1, along the path and at t = 0 and 1.
                shift, ends = (error.column(0.0 * t, 0.0 * t - 1.0, t) for t in (state.times, np.array([0.0, 1.0])))
                made[number] += later * shift
                for equation, variable, series in by:
                    coordinate, order = regressors.noisy[variable]
                    stretched = (ends[1] - ends[0]) * order
                    made[number, equation] -= stretched * series * state.derivatives[order, :, coordinate]
                continue
            channel = measured.channels.index(fault.channel)
            seen = np.array([*(one @ readings[channel] for one in path), state.times])
            moved = _reading_rates(error)(seen)
            for equation, variable, series in by:
                coordinate, order = regressors.noisy[variable]
                if share := measured.mixing[coordinate, channel]:
                    made[number, equation] += share * series * moved[order]
        return made

    def _by_time(self, problem: WeakProblem, state: Smoothed) -> Numbers:
        """Return ∂g/∂t (equations, n) at fixed motion.

        Modes of switches that move with time change too: the derivative is a difference.
        """
        regressors, period = problem.regressors, problem.model.period
        if period is None:
            return np.zeros((regressors.equations, len(state.times)))
        theta, step = linear_values(regressors, self.values), EARLIER * period / (2 * np.pi)
        sides = []
        for shift in (step, -step):
            terms, rest = regressors.terms(replace(state, times=state.times + shift), self.values, None)
            sides.append(rest + np.einsum("ekn,k->en", terms, theta))
        return (sides[0] - sides[1]) / (2 * step)


@lru_cache
def _reading_rates(error: SensorError) -> Evaluator:
    """Return ∂y/∂s of an error s, and two rates.

    The function takes h, h', h'' and t (4, n) and returns ∂y/∂s, its first and its second time derivative (3, n).
    """
    assert error.apply is not None
    h, size = sp.Function("h")(time), sp.Dummy()
    column = sp.diff(error.apply(h, size, time, lambda signal, late: signal), size).subs(size, error.ideal)
    names = {sp.diff(h, time, order): symbol(f"h{order}") for order in range(3)}
    rates = [sp.diff(column, time, order).xreplace(names) for order in range(3)]
    return compile_expressions(rates, [*names.values(), time])


def whitened(columns: list[Numbers], factors: list[Whitener]) -> Numbers:
    """Return the columns of all pieces, whitened.

    The result is (n, m), with all pieces under each other.
    """
    parts = [
        factor(Rows(matrix, np.zeros(matrix.shape[:2]))).matrix.reshape(-1, matrix.shape[2])
        for factor, matrix in zip(factors, columns, strict=True)
    ]
    return np.concatenate(parts)


def linear_values(regressors: Regressors, values: Numbers) -> Numbers:
    """Return the factors of the regressors at values (p,).

    These are the linear parameters, or combinations of them.
    """
    if regressors.factors is None:
        return values[[regressors.parameters.index(n) for n in regressors.linear]]
    at = {symbol(n): v for n, v in zip(regressors.parameters, values.tolist(), strict=True)}
    return np.array([complex(sp.N(f.xreplace(at))).real for f in regressors.factors])


def alternatives_of(problem: WeakProblem, values: Numbers) -> Alternatives:
    """Return the alternatives for the rows of a problem."""
    model = problem.model
    signals = bool(model.signals)
    driven = model.period is not None and not signals
    angle = {c.name: bool(c.angle) for c in model.coordinates}
    channels = problem.measured.channels
    turning = [angle.get(name, False) for name in channels]
    # Where every coordinate is an angle, an offset is a phase of gravity; it is tried like any other offset.
    tried = [(one, BY_NAME[one.kind]) for one in candidates(channels, turning, driven)]
    # The second rate of a delay needs the third rate of h, which a smoothed path does not have.
    faults = tuple(one for one, error in tried if error.of_record or not error.delays)
    return Alternatives(tuple(_laws(problem)), faults, values)


def _laws(problem: WeakProblem) -> list[Law]:
    """Return the candidate laws of every equation.

    There are as many as can be whitened at little cost; none where the equations are many.
    """
    model = problem.model
    # z * z * z, because NumPy takes the logarithm for z**3.
    powers: list[Callable[[Numbers], Numbers]] = [
        lambda z: z, lambda z: z**2, lambda z: z * np.abs(z), lambda z: z * z * z
    ]  # fmt: skip
    found: list[Law] = []
    for e, equation in enumerate(model.equations):
        if len(found) > MOST_TERMS:
            return []
        present = equation.free_symbols
        for c, coordinate in enumerate(model.coordinates):
            for order in range(coordinate.order):
                # Only coordinates that occur in the equation, or whose highest derivative does, are tried in it.
                if present.isdisjoint((rate(coordinate.name, order), rate(coordinate.name, coordinate.order))):
                    continue
                place = f"at large |{coordinate.name}{chr(39) * order}|"
                if coordinate.angle and order == 0:
                    found += [Law(e, (c, 0), wave, place) for wave in (np.sin, np.cos)]
                    continue
                found += [Law(e, (c, order), shape, place) for shape in powers]
        if model.period is not None and not model.signals:
            omega = 2 * np.pi / model.period
            found += [
                Law(e, None, lambda t, wave=wave, speed=n * omega: wave(speed * t), "in step with the drive")
                for n in (1, 2)
                for wave in (np.cos, np.sin)
            ]
    return found if len(found) <= MOST_TERMS else []
