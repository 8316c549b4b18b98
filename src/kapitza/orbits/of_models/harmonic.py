"""Harmonic balance with a Fourier series.

Nonlinear terms are evaluated in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from kapitza.base.argument_checks import Count, Positive
from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import to_come
from kapitza.errors import KapitzaError, Status
from kapitza.orbits import Loop, SolverReport
from kapitza.orbits.of_models.coordinates import CoordinateForm, CoordinateRates, tangent_segments
from kapitza.orbits.of_models.loop import FourierSeries, fourier_series
from kapitza.orbits.of_models.phase import PhaseRow
from kapitza.orbits.of_models.problem import FreeParameters, Problem, Solution
from kapitza.solve import DenseSolver, NewtonResult, NewtonSettings, newton

OVERSAMPLING = 4
"""Time samples per Fourier coefficient: products of a few factors are free of aliasing."""


class HarmonicEquations:
    """Fourier coefficients of the residual.

    The residual is sampled in time and projected back (alternating frequency/time).
    Unknowns: coefficients (2H + 1, c) of u in the order mean, cosines, sines, then T for autonomous models, then the
    parameters named in `free` (those of problem.wrt).
    """

    def __init__(
        self,
        problem: Problem,
        harmonics: int,
        winding: Array,
        phase: PhaseRow | None,
        free: tuple[str, ...] = (),
    ):
        self.problem, self.form, self.harmonics, self.phase = problem, CoordinateForm(problem), harmonics, phase
        self.free = FreeParameters(problem, free)
        self.winding = winding[: self.form.count]
        count = OVERSAMPLING * (2 * harmonics + 1)
        self.fractions = np.arange(count) / count
        order = 2 * np.pi * np.arange(1, harmonics + 1)
        angle = np.multiply.outer(self.fractions, order)
        cosine, sine = np.cos(angle), np.sin(angle)
        one = np.ones((count, 1))
        self.values = np.hstack([one, cosine, sine])
        self.slopes = np.hstack([0 * one, -order * sine, order * cosine])
        self.curves = np.hstack([0 * one, -(order**2) * cosine, -(order**2) * sine])
        weights = np.full(2 * harmonics + 1, 2.0 / count)
        # The mean of cos² is 1/2, that of the constant 1.
        weights[0] = 1.0 / count
        self.project = weights[:, None] * self.values.T

    def unpack(self, x: Array) -> tuple[Array, float]:
        size = (2 * self.harmonics + 1) * self.form.count
        coefficients = x[:size].reshape(-1, self.form.count)
        if self.phase is not None:
            return coefficients, float(x[size])
        return coefficients, self.free.forced_period(x)

    @property
    def unknowns(self) -> int:
        return (2 * self.harmonics + 1) * self.form.count + (self.phase is not None) + len(self.free)

    def form_at(self, x: Array, period: float) -> CoordinateForm:
        return self.form if not self.free else CoordinateForm(self.problem.at(self.free.vector(x), period))

    def motion(self, coefficients: Array) -> tuple[Array, Array, Array]:
        turning = 2 * np.pi * self.winding
        u = self.values @ coefficients + np.multiply.outer(self.fractions, turning)
        return u, self.slopes @ coefficients + turning, self.curves @ coefficients

    def _tail(self, u: Array) -> list[float]:
        return [] if self.phase is None else [self.phase.value(u)]

    def residual(self, x: Array) -> Array:
        coefficients, period = self.unpack(x)
        u, slope, curve = self.motion(coefficients)
        residual = self.form_at(x, period).residual(self.fractions, u, slope, curve, period)
        return np.concatenate([(self.project @ residual).ravel(), self._tail(u)])

    def linearise(self, x: Array) -> LinearisedHarmonics:
        coefficients, period = self.unpack(x)
        u, slope, curve = self.motion(coefficients)
        rates = self.form_at(x, period).linearised(self.fractions, u, slope, curve, period)
        residual = np.concatenate([(self.project @ rates.residual).ravel(), self._tail(u)])
        return LinearisedHarmonics(self, rates, residual, period, self.free.vector(x))


@dataclass
class LinearisedHarmonics:
    """The dense Jacobian of the coefficients, factorised once."""

    equations: HarmonicEquations
    rates: CoordinateRates
    residual: Array
    period: float
    vector: Array
    _lu: tuple | None = field(default=None, repr=False)

    def _factorised(self) -> tuple:
        if self._lu is None:
            if self.equations.free:
                raise ValueError(f"{len(self.equations.free)} free parameters need as many border rows.")
            self._lu = lu_factor(self.jacobian())
        return self._lu

    def bordered(self, rows: Array) -> DenseSolver:
        """Factorise the square system with border rows.

        There is one border row per free parameter.
        """
        return DenseSolver(np.vstack([self.jacobian(), rows]))

    def by_parameter(self) -> Array:
        """Return the derivative by the parameters.

        The derivative ((2H + 1) c, k) of the projected residual includes the law of a forced period.
        """
        eq = self.equations
        samples = -self.rates.by_parameter
        if eq.phase is None and eq.problem.law.varies:
            slopes = (eq.problem.repeats or 1) * eq.problem.law.slopes(self.vector)
            samples = samples + self.rates.by_period[:, :, None] * slopes
        return np.einsum("hq,qck->hck", eq.project, samples).reshape(-1, len(eq.problem.wrt))

    def jacobian(self) -> Array:
        """Return the Jacobian of the projected residual.

        Its columns belong to the coefficients, then T for autonomous models, then the free parameters.
        """
        eq, c = self.equations, self.equations.form.count
        size = 2 * eq.harmonics + 1
        matrix = np.empty((size, c, size, c))
        for i in range(c):
            for j in range(c):
                inner = -self.rates.by_position[:, i, j, None] * eq.values
                inner -= self.rates.by_rate[:, i, j, None] * eq.slopes / self.period
                if i == j:
                    inner += eq.curves / self.period**2 if eq.form.second[i] else eq.slopes / self.period
                matrix[:, i, :, j] = eq.project @ inner
        square = matrix.reshape(size * c, size * c)
        if eq.phase is not None:
            column = (eq.project @ self.rates.by_period).reshape(-1, 1)
            row = (eq.values.T @ eq.phase.weights).reshape(1, -1)
            square = np.block([[square, column], [row, np.zeros((1, 1))]])
        if eq.free:
            tail = np.zeros((square.shape[0], len(eq.free)))
            tail[: size * c] = self.by_parameter()
            square = np.hstack([square, tail])
        return square

    def solve(self, residual: Array) -> Array:
        return lu_solve(self._factorised(), residual)

    def sensitivity(self) -> tuple[Array, Array]:
        """Return derivatives of coefficients and period.

        Those of the coefficients are (2H + 1, c, k), those of the period (k,).
        """
        eq = self.equations
        given = eq.form.period_slope() if eq.phase is None else np.zeros(len(eq.problem.wrt))
        samples = -self.rates.by_parameter + self.rates.by_period[:, :, None] * given
        right = np.einsum("hq,qck->hck", eq.project, samples).reshape(-1, given.size)
        if eq.phase is not None:
            right = np.concatenate([right, np.zeros((1, given.size))])
        x = -self.solve(right)
        size = (2 * eq.harmonics + 1) * eq.form.count
        return x[:size].reshape(-1, eq.form.count, given.size), given if eq.phase is None else x[size]


def telling_harmonics(harmonics: int, repeats: int | None) -> int:
    """Return how many last harmonics decide convergence.

    It is an eighth of them, or more where the orbit repeats.
    Few of them must not be those that vanish anyway: symmetric orbits have no even harmonics, and next to a doubling
    hardly any but multiples of the period's number.
    """
    return max(1, harmonics // 8, min(3 * (repeats or 1), harmonics // 2))


@dataclass(frozen=True)
class HarmonicBalance:
    """Solve by a Fourier series.

    The series has `harmonics` terms per excitation period and a winding part.

    harmonics: None doubles the number until the last eighth of the coefficients is below `tolerance` of the motion. A
    given number is kept, and the orbit is reported as unresolved when its last harmonics exceed the tolerance.
    max_harmonics: where doubling ends; max_iterations: of Newton at each number.

    Examples
    --------
    >>> import kapitza as kz
    >>> bool(kz.solve_orbit(kz.library.duffing(), method=kz.HarmonicBalance()).closure < 1e-8)
    True
    """

    harmonics: int | None = None
    tolerance: Positive = 1e-12
    max_harmonics: Count = 256
    max_iterations: Count = 40

    def __post_init__(self):
        if self.harmonics is not None and self.harmonics < 1:
            raise KapitzaError(f"HarmonicBalance needs at least one harmonic, not {self.harmonics}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        repeats = problem.repeats or 1
        harmonics = (self.harmonics or 16) * repeats
        equations, result = self._with(problem, guess, harmonics)
        while self.harmonics is None and result.status.ok and self._tail(equations, result) > self.tolerance:
            if 2 * harmonics > self.max_harmonics * repeats:
                break
            harmonics *= 2
            equations, result = self._with(problem, self._series(equations, result), harmonics)
        return self._finish(problem, equations, result)

    def _with(self, problem: Problem, guess: Loop, harmonics: int) -> tuple[HarmonicEquations, NewtonResult]:
        form = CoordinateForm(problem)
        count = max(OVERSAMPLING * (2 * harmonics + 1), 256)
        samples = guess(np.arange(count) / count)[:, : form.count]
        series = fourier_series(samples, guess.period, guess.winding[: form.count], harmonics).resized(harmonics)
        phase = form.phase(guess, np.arange(OVERSAMPLING * (2 * harmonics + 1)) / (OVERSAMPLING * (2 * harmonics + 1)))
        equations = HarmonicEquations(problem, harmonics, guess.winding, phase)
        start = np.vstack([series.cosines, series.sines]).ravel()
        scale = np.tile(problem.scale(guess)[: form.count], 2 * harmonics + 1)
        if problem.autonomous:
            start, scale = np.append(start, guess.period), np.append(scale, guess.period)
        return equations, newton(equations, start, NewtonSettings(1e-13, self.max_iterations), scale)

    def _coefficients(self, equations: HarmonicEquations, result: NewtonResult) -> tuple[Array, Array]:
        coefficients, _ = equations.unpack(result.x)
        h = equations.harmonics
        return coefficients[: h + 1], coefficients[h + 1 :]

    def _series(self, equations: HarmonicEquations, result: NewtonResult) -> FourierSeries:
        return self.series(equations, result.x)

    def series(self, equations: HarmonicEquations, x: Array) -> FourierSeries:
        """Return the Fourier series of all states.

        The rates are the exact derivatives of their coordinates.
        """
        coefficients, period = equations.unpack(x)
        cosines, sines = coefficients[: equations.harmonics + 1], coefficients[equations.harmonics + 1 :]
        order = 2 * np.pi * np.arange(1, equations.harmonics + 1)[:, None] / period
        second = equations.form.second
        mean = (2 * np.pi * equations.winding / period)[None, second]
        rate_cosines = np.vstack([mean, (order * sines)[:, second]])
        rate_sines = (-order * cosines[1:])[:, second]
        winding = np.zeros(cosines.shape[1] + int(second.sum()))
        winding[: cosines.shape[1]] = equations.winding
        return FourierSeries(np.hstack([cosines, rate_cosines]), np.hstack([sines, rate_sines]), period, winding)

    def _tail(self, equations: HarmonicEquations, result: NewtonResult) -> float:
        """Return the relative size of the last harmonics."""
        cosines, sines = self._coefficients(equations, result)
        size = np.hypot(cosines[1:], sines).max(axis=1)
        last = telling_harmonics(equations.harmonics, equations.problem.repeats)
        whole = max(float(size.max()), float(np.abs(cosines[0]).max()), float(np.abs(equations.winding).max()), 1e-6)
        return float(size[-last:].max() / whole)

    def _finish(self, problem: Problem, equations: HarmonicEquations, result: NewtonResult) -> Solution:
        series, status, message = self._series(equations, result), result.status, result.message
        tail = self._tail(equations, result)
        # Rounding leaves 1e-13 or so in every coefficient.
        if status.ok and tail > max(self.tolerance, 1e-11):
            status = Status.UNRESOLVED
            message = (
                f"Too few harmonics: the last of {equations.harmonics} still carry {tail:.1e} of the motion. "
                "Raise harmonics (or the tolerance, if that is accurate enough)."
            )
        n = len(problem.model.states)
        segments = np.full((1, n, n), np.nan)
        sensitivity = period_sensitivity = None
        if status.ok:
            segments = to_come(lambda: tangent_segments(problem, series, 120 * (problem.repeats or 1)))
            if problem.wrt:
                sensitivity, period_sensitivity = self._sensitivity(problem, equations, result)
        report = SolverReport(equations.harmonics, result.history, tail=tail)
        return Solution(series, status, result, segments, message, sensitivity, period_sensitivity, (), report)

    def _sensitivity(self, problem: Problem, equations: HarmonicEquations, result: NewtonResult) -> tuple[Array, Array]:
        coefficients, period = equations.unpack(result.x)
        moved, by_period = equations.linearise(result.x).sensitivity()
        h = equations.harmonics
        angle = 2 * np.pi * np.multiply.outer(problem.section_fractions, np.arange(1, h + 1))
        order = 2 * np.pi * np.arange(1, h + 1)
        values = np.hstack([np.ones((angle.shape[0], 1)), np.cos(angle), np.sin(angle)])
        slopes = np.hstack([np.zeros((angle.shape[0], 1)), -order * np.sin(angle), order * np.cos(angle)])
        positions = np.einsum("ph,hck->pck", values, moved)
        speed = (slopes @ coefficients + 2 * np.pi * equations.winding)[:, :, None]
        rates = np.einsum("ph,hck->pck", slopes, moved) / period - speed * by_period / period**2
        return np.concatenate([positions, rates[:, equations.form.second]], axis=1), by_period
