"""Alternatives against which weak rows are tested.

Terms that an equation may lack, and faults of the measurement.
Every alternative is a column of the rows. Terms are integrated along the smoothed path. A fault changes what is put
into the equations g(u, u', u'', t): a gain of a channel every derivative of it, a clock that is fast by e

    u' → u'/(1 + e),   u'' → u''/(1 + e)²,   t → (1 + e) t,   so that   ∂g/∂e = t g_t - u' g_u' - 2 u'' g_u''.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from kapitza.base.arrays import Numbers
from kapitza.estimate.faults import Candidate, candidates
from kapitza.estimate.harmonic_fit.problem import WeakProblem
from kapitza.estimate.harmonic_fit.regressors import Regressors, Smoothed
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener
from kapitza.model import rate, symbol

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
            for number, law in enumerate(self.laws):
                here = slice(law.equation * functions, (law.equation + 1) * functions)
                # A term acts in one equation; its rows in the others stay zero.
                matrix[:, here, number] = problem.windows.integrate(law.series(state))
            if self.faults:
                moved = problem.windows.integrate(self._moved(problem, state))
                matrix[:, :, len(self.laws) :] = moved.transpose(2, 1, 3, 0).reshape(count, -1, len(self.faults))
            made.append(matrix)
        return made

    def _moved(self, problem: WeakProblem, state: Smoothed) -> Numbers:
        """Return the effect of a unit of each fault.

        The effects (m, equations, n) are added to the equations.
        """
        regressors, measured = problem.regressors, problem.measured
        slopes = regressors.slopes(state, self.values, problem.noise)
        known = slopes.variable < len(regressors.noisy)
        by = list(zip(slopes.equation[known], slopes.variable[known], slopes.series[known], strict=True))
        # Channels from coordinates: a gain acts on a channel, the equations hold coordinates.
        readings = np.linalg.pinv(measured.mixing)
        later = self._by_time(problem, state)
        made = np.zeros((len(self.faults), regressors.equations, len(state.times)))
        for number, fault in enumerate(self.faults):
            if fault.kind in ("clock", "phase"):
                made[number] += later * (state.times if fault.kind == "clock" else 1.0)
                if fault.kind == "phase":
                    continue
            for equation, variable, series in by:
                coordinate, order = regressors.noisy[variable]
                if fault.kind == "clock":
                    made[number, equation] -= order * series * state.derivatives[order, :, coordinate]
                    continue
                channel = measured.channels.index(fault.channel)
                share = measured.mixing[coordinate, channel]
                if fault.kind == "offset":
                    made[number, equation] += share * series if order == 0 else 0.0
                elif share:
                    here = state.derivatives[order] - (measured.offset if order == 0 else 0.0)
                    made[number, equation] += share * series * (here @ readings[channel])
        return made

    def _by_time(self, problem: WeakProblem, state: Smoothed) -> Numbers:
        """Return ∂g/∂t (equations, n) at fixed motion."""
        regressors, period = problem.regressors, problem.model.period
        if period is None:
            return np.zeros((regressors.equations, len(state.times)))
        theta, step = linear_values(regressors, self.values), EARLIER * period / (2 * np.pi)
        sides, moved = [], [replace(state, times=state.times + shift) for shift in (step, -step)]
        for side in moved:
            # Modes do not depend on time then: those of the first side are reused.
            if not regressors.switches_move_with_time:
                side.modes.update(moved[0].modes)
            terms, rest = regressors.terms(side, self.values, None)
            sides.append(rest + np.einsum("ekn,k->en", terms, theta))
        return (sides[0] - sides[1]) / (2 * step)


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
    return Alternatives(tuple(_laws(problem)), tuple(candidates(channels, turning, driven)), values)


def _laws(problem: WeakProblem) -> list[Law]:
    """Return the candidate laws of every equation.

    There are as many as can be whitened at little cost; none where the equations are many.
    """
    model = problem.model
    powers: list[Callable[[Numbers], Numbers]] = [lambda z: z, lambda z: z**2, lambda z: z * np.abs(z), lambda z: z**3]
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
