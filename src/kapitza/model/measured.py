"""Measured signals.

A signal is a piecewise polynomial between knots, or a Fourier series.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.symbols import time as time_symbol

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

KINDS = ("polynomial", "fourier")
DEGREES = (0, 1, 3, 5)
"""Degrees of the polynomials: hold, linear, and splines of odd degree, whose knots are the samples."""

NEAR = 1e-9
"""Share of its length by which a time may lie beyond the ends of a signal without a period: rounding."""


@dataclass(frozen=True, eq=False)
class Signal:
    """A measured signal in the equations, under its name.

    times: (N,) from 0 within one period, or, without a period, any rising times of the model; values: (N,). period:
    None where the signal does not repeat: it is then known from its first sample to its last, and nothing is computed
    beyond them. kind "polynomial" (piecewise, `degree`, breakpoints at the samples, which the integrator respects; 0
    holds each sample) or "fourier" (`harmonics`; it has a period). unit: of the values.

    With degree 1 a time may occur twice in succession: the signal jumps there from the first value to the second.
    Degrees 3 and 5 are splines (two and four continuous derivatives), periodic where the signal is.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> t = np.arange(100) * 0.01
    >>> drive = kz.Signal("a", t, np.sin(2 * np.pi * t), period=1.0)
    >>> bool(abs(drive(0.255) - np.sin(0.51 * np.pi)) < 1e-3)
    True
    """

    name: str
    times: Array
    values: Array
    period: float | None = None
    kind: str = "polynomial"
    degree: int = 1
    harmonics: int | None = None
    unit: str = ""

    def __post_init__(self):
        object.__setattr__(self, "name", checks.name("A signal", self.name, error=ModelError))
        for key in ("times", "values"):
            numbers = checks.array(f'Signal "{self.name}": {key}', getattr(self, key), error=ModelError)
            object.__setattr__(self, key, numbers)
        if self.period is not None:
            period = checks.number(f'Signal "{self.name}": period', self.period, finite=False, error=ModelError)
            object.__setattr__(self, "period", period)
        if self.harmonics is not None:
            harmonics = checks.whole(f'Signal "{self.name}": harmonics', self.harmonics, error=ModelError)
            object.__setattr__(self, "harmonics", harmonics)
        self.times.setflags(write=False)
        self.values.setflags(write=False)
        self._check()

    def _check(self) -> None:
        def refuse(reason: str):
            raise ModelError(f'Signal "{self.name}": {reason}')

        if self.times.ndim != 1 or self.times.shape != self.values.shape or self.times.size < 2:
            refuse(f"times {self.times.shape} and values {self.values.shape}; give two or more samples, one per time.")
        if self.period is not None and not (np.isfinite(self.period) and self.period > 0):
            refuse(f"period {self.period:g}; it must be positive and finite, or None if it does not repeat.")
        bad = np.flatnonzero(~(np.isfinite(self.times) & np.isfinite(self.values)))
        if bad.size:
            refuse(f"{bad.size} samples are not finite, the first is number {bad[0]}; interpolate or drop them.")
        steps = np.diff(self.times)
        if self.period is None:
            if (steps < 0).any() or not self.times[-1] > self.times[0]:
                refuse("times must rise; sort them.")
        elif self.times[0] < 0 or self.times[-1] > self.period or (steps < 0).any():
            refuse(f"times must rise from 0 or later to at most one period, {self.period:g}; sort and shift them.")
        if self.kind not in KINDS:
            refuse(f'kind "{self.kind}"; choose "polynomial" or "fourier".')
        if self.kind == "fourier" and self.period is None:
            refuse('kind "fourier" needs a period; give it, or kind "polynomial" if it does not repeat.')
        if self.kind == "polynomial" and self.degree not in DEGREES:
            refuse(f"degree {self.degree}; choose 0 (hold), 1 (linear), 3 or 5 (splines).")
        repeated = (steps == 0).any()
        if repeated and not (self.kind == "polynomial" and self.degree == 1):
            refuse("a time occurs twice; jumps need kind polynomial and degree 1.")
        if repeated and ((steps[:-1] == 0) & (steps[1:] == 0)).any():
            refuse("a time occurs three times; a jump has two values.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        settings = (self.name, self.period, self.kind, self.degree, self.harmonics, self.unit)
        return (*settings, self.times.tobytes(), self.values.tobytes())

    @property
    def reach(self) -> tuple[float, float]:
        """Return the span [s] of the signal.

        It is (first time, last time) at which the signal is known, infinite where it repeats.
        """
        return (float(self.times[0]), float(self.times[-1])) if self.period is None else (-np.inf, np.inf)

    def inside(self, times: Array | float) -> Array:
        """Return the times; refuse those outside the signal.

        Rounding is removed at its ends.
        """
        times = np.asarray(times, float)
        low, high = self.reach
        near = NEAR * (high - low) if self.period is None else 0.0
        far = times[(times < low - near) | (times > high + near)]
        if far.size:
            raise ModelError(
                f'Signal "{self.name}" is known from {low:.6g} to {high:.6g} s, not at {float(far.flat[0]):.6g} s, and '
                "it has no period: keep to these times, give a longer signal, or its period if it repeats."
            )
        return np.clip(times, low, high)

    @cached_property
    def polynomials(self) -> PPoly:
        """Return the piecewise polynomial of the signal.

        It covers [0, period], or the span from the first sample to the last.

        `.x` are the knots, `.c[k, i]` multiplies (t - x_i)^(degree-k).
        """
        if self.degree <= 1:
            return self._broken_line()
        if self.period is None:
            return self._open_spline()
        # The last sample may repeat the first one a period later, up to rounding of the times.
        closed = np.isclose(self.times[-1] - self.times[0], self.period, rtol=1e-12)
        times = self.times if closed else np.append(self.times, self.times[0] + self.period)
        values = np.append(self.values[:-1] if closed else self.values, self.values[0])
        if times.size <= self.degree + 1:
            raise ModelError(
                f'Signal "{self.name}": {times.size - 1} samples are too few for degree {self.degree}; '
                f"give at least {self.degree + 1} or lower the degree."
            )
        from scipy.interpolate import PPoly, make_interp_spline

        spline = PPoly.from_spline(make_interp_spline(times, values, k=self.degree, bc_type="periodic"))
        # A periodic spline carries `degree` knots beyond either end of the period.
        inner = slice(self.degree, -self.degree)
        return self._from_zero(spline.x[inner], spline.c[:, inner])

    def _open_spline(self) -> PPoly:
        from scipy.interpolate import PPoly, make_interp_spline

        if self.times.size <= self.degree:
            raise ModelError(
                f'Signal "{self.name}": {self.times.size} samples are too few for degree {self.degree}; '
                f"give at least {self.degree + 1} or lower the degree."
            )
        spline = PPoly.from_spline(make_interp_spline(self.times, self.values, k=self.degree))
        # The spline carries `degree` copies of the first and of the last knot.
        inner = slice(self.degree, -self.degree)
        return PPoly(spline.c[:, inner], spline.x[inner])

    def _broken_line(self) -> PPoly:
        times, values = self.times, self.values
        if self.period is not None and times[-1] - times[0] < self.period:
            times, values = np.append(times, times[0] + self.period), np.append(values, values[0])
        steps = np.diff(times)
        inside = steps > 0
        start = values[:-1][inside]
        slope = np.diff(values)[inside] / steps[inside]
        coefficients = start[None, :] if self.degree == 0 else np.stack([slope, start])
        knots = np.append(times[:-1][inside], times[-1])
        if self.period is None:
            from scipy.interpolate import PPoly

            return PPoly(coefficients, knots)
        return self._from_zero(knots, coefficients)

    def _from_zero(self, knots: Array, coefficients: Array) -> PPoly:
        """Cut the polynomials so that they cover [0, period].

        They are given over one period from the first sample on.
        """
        from scipy.interpolate import PPoly

        assert self.period is not None
        if knots[0] == 0:
            return PPoly(coefficients, np.append(knots[:-1], self.period))
        whole = PPoly(coefficients, knots)
        last = int(np.searchsorted(knots, self.period, side="right")) - 1
        last = min(last, knots.size - 2)
        shift = self.period - knots[last]
        head = PPoly(coefficients[:, last : last + 1], np.array([-shift, knots[last + 1] - self.period]))
        order = coefficients.shape[0]
        derivatives = np.array([head.derivative(n)(0.0) if n else head(0.0) for n in range(order)])
        factorials = np.cumprod([1.0, *range(1, order)])
        first = (derivatives / factorials)[::-1, None]
        end = last + 1 if shift > 0 else last
        starts = np.concatenate([[0.0], whole.x[:end], [self.period]])
        return PPoly(np.concatenate([first, coefficients[:, :end]], axis=1), starts)

    @property
    def knots(self) -> Array:
        """Return the breakpoints (K+1,) of the polynomials.

        The integrator stops at each.
        """
        return self.polynomials.x

    @property
    def coefficients(self) -> Array:
        """Return the coefficients (K, degree+1) of the polynomials.

        They ascend: on knot interval i the signal is Σ_k coefficients[i, k] (t - knots[i])^k.
        """
        return np.ascontiguousarray(self.polynomials.c[::-1].T)

    @cached_property
    def fourier(self) -> tuple[float, Array, Array]:
        """Return the Fourier coefficients of the signal.

        They are mean, cosine (H,) and sine (H,) coefficients by least squares on the samples (exact on an even grid).
        """
        assert self.period is not None
        count = self.times.size - int(np.isclose(self.times[-1] - self.times[0], self.period, rtol=1e-12))
        most = (count - 1) // 2
        harmonics = most if self.harmonics is None else int(self.harmonics)
        if not 1 <= harmonics <= most:
            raise ModelError(
                f'Signal "{self.name}": {harmonics} harmonics from {count} samples; choose between 1 and {most}.'
            )
        phase = 2 * np.pi / self.period * np.outer(self.times[:count], np.arange(1, harmonics + 1))
        columns = np.concatenate([np.ones((count, 1)), np.cos(phase), np.sin(phase)], axis=1)
        solution = np.linalg.lstsq(columns, self.values[:count], rcond=None)[0]
        solution = np.asarray(solution, np.float64)
        return float(solution[0]), solution[1 : harmonics + 1], solution[harmonics + 1 :]

    def __call__(self, times: Array | float, derivative: int = 0) -> Array:
        """Return the signal or its time derivative at times.

        The signal repeats after its period; without a period, times beyond its ends are refused.
        """
        times = np.asarray(times, float)
        if self.period is None:
            return self.polynomials(self.inside(times), nu=derivative)
        if self.kind == "polynomial":
            return self.polynomials(np.mod(times, self.period), nu=derivative)
        mean, cosines, sines = self.fourier
        rates = 2 * np.pi / self.period * np.arange(1, cosines.size + 1)
        phase = np.multiply.outer(times, rates) + derivative * np.pi / 2
        factor = rates**derivative
        return np.cos(phase) @ (factor * cosines) + np.sin(phase) @ (factor * sines) + (0.0 if derivative else mean)

    @property
    def expression(self) -> sp.Expr:
        """Return the Fourier series as an expression in t."""
        assert self.period is not None
        mean, cosines, sines = self.fourier
        angle = sp.Float(2 * np.pi / self.period) * time_symbol
        terms = [
            sp.Float(c) * sp.cos(k * angle) + sp.Float(s) * sp.sin(k * angle)
            for k, (c, s) in enumerate(zip(cosines, sines, strict=True), start=1)
        ]
        return sp.Add(sp.Float(mean), *terms)
