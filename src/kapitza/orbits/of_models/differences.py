"""Finite differences on an equidistant grid.

They are the time discretisation of the source document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.argument_checks import Count, Positive
from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import to_come
from kapitza.errors import KapitzaError, Status
from kapitza.orbits import Loop, SolverReport
from kapitza.orbits.of_models.coordinates import CoordinateForm, CoordinateRates, tangent_segments
from kapitza.orbits.of_models.loop import SampledLoop
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.orbits.of_models.problem import FreeParameters, Problem, Solution
from kapitza.solve import BorderedBand, NewtonResult, NewtonSettings, fold, newton, scatter_blocks

FIRST = {2: np.array([-0.5, 0.0, 0.5]), 4: np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12}
SECOND = {2: np.array([1.0, -2.0, 1.0]), 4: np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12}


class DifferenceEquations:
    """Residuals by central differences on a circle.

    The residuals are taken at N grid points, with u' and u'' by central differences of order 2 or 4.
    Unknowns: u (N, c), then T for autonomous models, then the parameters named in `free` (those of problem.wrt). The
    closed stencil becomes a band by folding the circle.
    """

    def __init__(
        self,
        problem: Problem,
        points: int,
        order: int,
        winding: Array,
        phase: PhaseRow | None,
        pin: int,
        free: tuple[str, ...] = (),
    ):
        self.free = FreeParameters(problem, free)
        self.form, self.points, self.order, self.phase, self.pin = CoordinateForm(problem), points, order, phase, pin
        self.problem, self.reach = problem, order // 2
        self.fractions = np.arange(points) / points
        self.winding = winding[: self.form.count]

    def derivatives(self, u: Array) -> tuple[Array, Array]:
        """Return u_s and u_ss on the grid.

        The linear growth of winding angles is differenced exactly.
        """
        # Winding angles are not periodic: the stencil wraps around only without their linear part.
        straight = u - 2 * np.pi * np.multiply.outer(self.fractions, self.winding)
        first, second = np.zeros_like(u), np.zeros_like(u)
        for offset in range(-self.reach, self.reach + 1):
            shifted = np.roll(straight, -offset, axis=0)
            first += FIRST[self.order][offset + self.reach] * shifted
            second += SECOND[self.order][offset + self.reach] * shifted
        return first * self.points + 2 * np.pi * self.winding, second * self.points**2

    def unpack(self, x: Array) -> tuple[Array, float]:
        size = self.points * self.form.count
        u = x[:size].reshape(self.points, self.form.count)
        if self.phase is not None:
            return u, float(x[size])
        return u, self.free.forced_period(x)

    @property
    def unknowns(self) -> int:
        return self.points * self.form.count + (self.phase is not None) + len(self.free)

    def form_at(self, x: Array, period: float) -> CoordinateForm:
        return self.form if not self.free else CoordinateForm(self.problem.at(self.free.vector(x), period))

    def _tail(self, u: Array) -> list[float]:
        return [] if self.phase is None else [self.phase.value(u)]

    def residual(self, x: Array) -> Array:
        u, period = self.unpack(x)
        residual = self.form_at(x, period).residual(self.fractions, u, *self.derivatives(u), period)
        return np.concatenate([residual.ravel(), self._tail(u)])

    def linearise(self, x: Array) -> LinearisedDifferences:
        u, period = self.unpack(x)
        rates = self.form_at(x, period).linearised(self.fractions, u, *self.derivatives(u), period)
        residual = np.concatenate([rates.residual.ravel(), self._tail(u)])
        return LinearisedDifferences(self, rates, residual, period, self.free.vector(x))


class LinearisedDifferences:
    """Band matrix of the folded circle.

    For autonomous orbits one equation and one unknown move to the border.
    The band alone is singular there (the phase is free); without one row and column it is regular.
    """

    def __init__(
        self, equations: DifferenceEquations, rates: CoordinateRates, residual: Array, period: float, vector: Array
    ):
        self.equations, self.rates, self.residual, self.period = equations, rates, residual, period
        self.vector = vector
        c, count = equations.form.count, equations.points
        self.place = fold(count) * c
        self.order = (self.place[:, None] + np.arange(c)).ravel()
        self._system: BorderedBand | _PinnedBand | None = None

    def _band(self) -> tuple[Array, int]:
        eq, c = self.equations, self.equations.form.count
        width = min((2 * eq.reach + 1) * c - 1, eq.points * c - 1)
        band = np.zeros((2 * width + 1, eq.points * c))
        for offset in range(-eq.reach, eq.reach + 1):
            first = FIRST[eq.order][offset + eq.reach] * eq.points / self.period
            second = SECOND[eq.order][offset + eq.reach] * eq.points**2 / self.period**2
            blocks = np.diag(np.where(eq.form.second, second, first)) - first * self.rates.by_rate
            if offset == 0:
                blocks = blocks - self.rates.by_position
            scatter_blocks(band, width, blocks, self.place, np.roll(self.place, -offset))
        return band, width

    def by_parameter(self) -> Array:
        """Return the derivative by the parameters, (N c, k).

        The law of a forced period is included.
        """
        eq = self.equations
        samples = -self.rates.by_parameter
        if eq.phase is None and eq.problem.law.varies:
            slopes = (eq.problem.repeats or 1) * eq.problem.law.slopes(self.vector)
            samples = samples + self.rates.by_period[:, :, None] * slopes
        return samples.reshape(-1, len(eq.problem.wrt))

    def bordered(self, rows: Array) -> _PinnedBand:
        """Factorise the square system with border rows.

        There is one border row per free parameter.
        """
        eq = self.equations
        size = eq.points * eq.form.count
        columns, border, corner = [], [], np.zeros((0, eq.unknowns - size))
        if eq.phase is not None:
            columns.append(self.rates.by_period.reshape(-1, 1))
            border.append(eq.phase.weights.reshape(1, -1))
            corner = np.zeros((1, eq.unknowns - size))
        if eq.free:
            columns.append(self.by_parameter())
        border.append(rows[:, :size])
        return _PinnedBand(self, np.hstack(columns), np.vstack(border), np.vstack([corner, rows[:, size:]]))

    def _factorised(self) -> BorderedBand | _PinnedBand:
        if self._system is None:
            eq = self.equations
            if eq.free:
                raise ValueError(f"{len(eq.free)} free parameters want as many border rows: use bordered(rows).")
            if eq.phase is None:
                band, width = self._band()
                self._system = BorderedBand(band, width, width)
            else:
                self._system = self.bordered(np.zeros((0, eq.unknowns)))
        return self._system

    def solve(self, residual: Array) -> Array:
        system = self._factorised()
        if isinstance(system, _PinnedBand):
            return system.solve(residual)
        right = residual[:, None] if residual.ndim == 1 else residual
        folded = np.zeros_like(right)
        folded[self.order] = right
        x = system.solve(folded)[0][self.order]
        return x[:, 0] if residual.ndim == 1 else x

    def sensitivity(self) -> tuple[Array, Array]:
        """Return du/dθ (N, c, k), dT/dθ (k,): PERIODIC (5.9)."""
        eq = self.equations
        given = eq.form.period_slope() if eq.phase is None else np.zeros(len(eq.problem.wrt))
        right = -self.rates.by_parameter + self.rates.by_period[:, :, None] * given
        flat = right.reshape(-1, given.size)
        if eq.phase is not None:
            flat = np.concatenate([flat, np.zeros((1, given.size))])
        x = -self.solve(flat)
        size = eq.points * eq.form.count
        return x[:size].reshape(eq.points, -1, given.size), given if eq.phase is None else x[size]


class _PinnedBand:
    """Bordered band with one pinned unknown.

    One of its own equations and unknowns moves to the border, so that the remaining band is regular.
    columns: (N c, k), rows: (k, N c) and corner: (k, k) in the order of the unknowns.
    """

    def __init__(self, at: LinearisedDifferences, columns: Array, rows: Array, corner: Array):
        band, width = at._band()
        self.at, size, count = at, band.shape[1], columns.shape[1]
        self.pin = pin = int(at.order[at.equations.pin])
        near = np.arange(max(0, pin - width), min(size, pin + width + 1))
        wide, tall = np.zeros((size, count + 1)), np.zeros((count + 1, size))
        wide[at.order, :count], tall[:count, at.order] = columns, rows
        wide[near, count] = band[width + near - pin, pin]
        tall[count, near] = band[width + pin - near, near]
        edge = np.zeros((count + 1, count + 1))
        edge[:count, :count], edge[:count, count] = corner, tall[:count, pin]
        edge[count] = wide[pin]
        band[width + near - pin, pin] = 0.0
        band[width + pin - near, near] = 0.0
        band[width, pin] = 1.0
        wide[pin], tall[:, pin] = 0.0, 0.0
        self.system = BorderedBand(band, width, width, wide, tall, edge)

    def solve(self, residual: Array) -> Array:
        right = residual[:, None] if residual.ndim == 1 else residual
        size = self.at.order.size
        folded = np.zeros((size, right.shape[1]))
        folded[self.at.order] = right[:size]
        border = np.vstack([right[size:], folded[self.pin][None]])
        folded[self.pin] = 0.0
        solution, tail = self.system.solve(folded, border)
        solution[self.pin] = tail[-1]
        x = np.concatenate([solution[self.at.order], tail[:-1]])
        return x[:, 0] if residual.ndim == 1 else x


def extrapolated(coarse: SampledLoop, fine: SampledLoop, order: int) -> SampledLoop:
    """Remove the leading error by Richardson extrapolation.

    Comparison with the coarse loop removes the error h^order of the fine one.
    """
    many, few = fine.fractions.size, coarse.fractions.size
    straight = coarse.states - 2 * np.pi * np.multiply.outer(coarse.fractions, coarse.winding)
    spectrum = np.fft.rfft(straight, axis=0)
    resampled = np.fft.irfft(spectrum, many, axis=0) * (many / few)
    resampled += 2 * np.pi * np.multiply.outer(fine.fractions, coarse.winding)
    factor = 1 / ((many / few) ** order - 1)
    period = fine.period + factor * (fine.period - coarse.period)
    return SampledLoop(fine.fractions, fine.states + factor * (fine.states - resampled), period, fine.winding)


@dataclass(frozen=True)
class Differences:
    """Solve by central differences on an equidistant grid.

    The order is 2 or 4; this is PERIODIC's time discretisation.

    points: grid points per period of the orbit; None doubles the grid, extrapolates each pair of grids to zero step
    (Richardson), and ends when the section points change by less than `tolerance` of the orbit, or at max_points.
    max_iterations: of Newton on each grid.
    For smooth orbits without layers: jumps and stiff walls are smeared over the grid and stop it, as they did in the
    source document.

    Examples
    --------
    >>> import kapitza as kz
    >>> bool(kz.solve_orbit(kz.library.duffing(), method=kz.Differences(order=4)).closure < 1e-6)
    True
    """

    order: int = 4
    points: int | None = None
    tolerance: Positive = 1e-11
    max_points: Count = 2**13
    max_iterations: Count = 40

    def __post_init__(self):
        if self.order not in (2, 4):
            raise KapitzaError(f"Differences has order 2 or 4, not {self.order}.")
        if self.points is not None and self.points < 5:
            raise KapitzaError(f"Differences needs at least 5 points, not {self.points}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        repeats = problem.repeats or 1
        if self.points is not None:
            return self._finish(problem, *self._on_grid(problem, guess, self._odd(self.points, repeats)))
        points = self._odd(64 * repeats, repeats)
        equations, result = self._on_grid(problem, guess, points)
        loop, change = self._loop(equations, result), np.inf
        best = loop
        while result.status.ok and 2 * points <= self.max_points * repeats:
            points = self._odd(2 * points, repeats)
            equations, result = self._on_grid(problem, loop, points)
            finer = self._loop(equations, result)
            better, at = extrapolated(loop, finer, self.order), problem.section_fractions
            before, change = change, float((np.abs(better(at) - best(at)) / problem.scale(finer)).max())
            loop = finer
            if before < 1e-9 and change > before:
                # Differences of close points lose digits to rounding: the coarser pair was better.
                change = before
                break
            best = better
            if change <= self.tolerance:
                break
        return self._finish(problem, equations, result, change, best)

    def _odd(self, points: int, repeats: int) -> int:
        """Return an odd number of points per excitation period.

        On even grids a sawtooth solves first-order equations.
        """
        share = -(-points // repeats)
        return (share + 1 - share % 2) * repeats

    def _on_grid(self, problem: Problem, guess: Loop, points: int) -> tuple[DifferenceEquations, NewtonResult]:
        form = CoordinateForm(problem)
        fractions = np.arange(points) / points
        states = guess(fractions)
        rates = problem.field.rates(states, fractions * guess.period, problem.parameters)[:, : form.count]
        # The unknown that moves fastest determines the phase best.
        pin = int(np.argmax(np.abs(rates / problem.scale(guess)[: form.count])))
        phase = form.phase(guess, fractions)
        equations = DifferenceEquations(problem, points, self.order, guess.winding, phase, pin)
        size = problem.scale(guess)[: form.count]
        start, scale = states[:, : form.count].ravel(), np.tile(size, points)
        if problem.autonomous:
            start, scale = np.append(start, guess.period), np.append(scale, guess.period)
        return equations, newton(equations, start, NewtonSettings(1e-11, self.max_iterations), scale)

    def _loop(self, equations: DifferenceEquations, result: NewtonResult) -> SampledLoop:
        u, period = equations.unpack(result.x)
        slope, _ = equations.derivatives(u)
        states = equations.form.states(u, slope, period)
        winding = np.zeros(states.shape[1])
        winding[: equations.form.count] = equations.winding
        return SampledLoop(equations.fractions, states, period, winding)

    def _finish(
        self,
        problem: Problem,
        equations: DifferenceEquations,
        result: NewtonResult,
        change: float = float("nan"),
        loop: SampledLoop | None = None,
    ) -> Solution:
        loop = loop or self._loop(equations, result)
        status, message = result.status, result.message
        if status.ok and change > 1e4 * self.tolerance:
            status = Status.UNRESOLVED
            message = f"{equations.points} points still change the orbit by {change:.1e}."
        n = len(problem.model.states)
        segments = np.full((1, n, n), np.nan)
        sensitivity = period_sensitivity = None
        if status.ok:
            segments = to_come(lambda: tangent_segments(problem, loop, 120 * (problem.repeats or 1)))
            if problem.wrt:
                sensitivity, period_sensitivity = self._sensitivity(problem, equations, result)
        report = SolverReport(equations.points, result.history, change=change)
        return Solution(loop, status, result, segments, message, sensitivity, period_sensitivity, (), report)

    def _sensitivity(
        self, problem: Problem, equations: DifferenceEquations, result: NewtonResult
    ) -> tuple[Array, Array]:
        at = equations.linearise(result.x)
        u, period = equations.unpack(result.x)
        moved, by_period = at.sensitivity()
        slope, _ = equations.derivatives(u)
        columns = []
        for k in range(len(problem.wrt)):
            turning = equations.derivatives(
                moved[:, :, k] + 2 * np.pi * np.outer(equations.fractions, equations.winding)
            )
            rate = (turning[0] - 2 * np.pi * equations.winding) / period - slope * by_period[k] / period**2
            columns.append(np.concatenate([moved[:, :, k], rate[:, equations.form.second]], axis=1))
        rows = np.round(problem.section_fractions * equations.points).astype(int)
        return np.stack(columns, axis=2)[rows], by_period
