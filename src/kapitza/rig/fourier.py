"""Periodic signals as Fourier series.

Their coefficients are found from samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import CHECKED_INSIDE, Index, Positive, Reals
from kapitza.errors import RigError

Array = NDArray[Any]

SHARP = 1e-12
"""Largest excess of a stated peak, as a share of the moving part of the signal."""

MOST_MULTIPLE = 1000
"""Largest ratio of commensurate base frequencies: a signal is written with the lower one where both are needed."""

DIVISIONS, PIECES, MOST_INTERVALS = 12, 8, 100_000
"""Intervals that may hold a peak: how often they are divided, into how many, and how many there may be."""


@dataclass(frozen=True, eq=False)
class FourierSeries:
    """Periodic signal as a Fourier series.

    f(t) = a_0 + Σ_k a_k cos(k ω t) + b_k sin(k ω t).
    frequency: ω in rad/s. coefficients: (2 q + 1,) in the order a_0, a_1, b_1, a_2, b_2, …

    >>> FourierSeries(2.0, [0.0, 1.0, 0.0])(0.0)
    array(1.)
    """

    frequency: Annotated[float, CHECKED_INSIDE]
    coefficients: Array

    def __post_init__(self):
        values = checks.array("The coefficients of a Fourier series", self.coefficients, error=RigError)
        if values.ndim != 1 or values.size % 2 == 0:
            raise RigError(f"A Fourier series has 2 q + 1 coefficients (a0, a1, b1, …), not shape {values.shape}.")
        if not np.isfinite(values).all():
            raise RigError("A Fourier coefficient is not finite; a rig can only be given finite demands.")
        checks.number("The frequency of a Fourier series (in rad/s)", self.frequency, above=0, error=RigError)
        values.setflags(write=False)
        object.__setattr__(self, "coefficients", values)
        object.__setattr__(self, "frequency", float(self.frequency))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FourierSeries)
            and self.frequency == other.frequency
            and np.array_equal(self.coefficients, other.coefficients)
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @classmethod
    def zero(cls, frequency: float, modes: Index = 1) -> FourierSeries:
        return cls(frequency, np.zeros(2 * modes + 1))

    @property
    def modes(self) -> int:
        return self.coefficients.size // 2

    @property
    def period(self) -> float:
        return 2 * np.pi / self.frequency

    @property
    def rms(self) -> float:
        """Return the root mean square, mean included."""
        return float(np.sqrt(self.coefficients[0] ** 2 + 0.5 * np.sum(self.coefficients[1:] ** 2)))

    def __call__(self, times: Any, derivative: int = 0) -> Array:
        """Evaluate the signal or a time derivative.

        times may have any shape.
        """
        times = np.asarray(times, float)
        rates = self.frequency * np.arange(1, self.modes + 1)
        phase = np.multiply.outer(times, rates) + derivative * np.pi / 2
        scale = rates**derivative
        moving = np.cos(phase) @ (scale * self.coefficients[1::2]) + np.sin(phase) @ (scale * self.coefficients[2::2])
        return moving + (0.0 if derivative else self.coefficients[0])

    def derivative(self, order: Index = 1) -> FourierSeries:
        pairs = self.coefficients[1::2] - 1j * self.coefficients[2::2]
        turned = pairs * (1j * self.frequency * np.arange(1, self.modes + 1)) ** order
        return FourierSeries(self.frequency, _packed(0.0, turned))

    def shifted(self, delay: float) -> FourierSeries:
        """Return the signal f(t - delay)."""
        pairs = self.coefficients[1::2] - 1j * self.coefficients[2::2]
        turned = pairs * np.exp(-1j * self.frequency * delay * np.arange(1, self.modes + 1))
        return FourierSeries(self.frequency, _packed(self.coefficients[0], turned))

    def with_modes(self, modes: Index) -> FourierSeries:
        """Return the signal with other modes.

        Further modes are zero; modes above `modes` are cut off.
        """
        values = np.zeros(2 * modes + 1)
        count = min(values.size, self.coefficients.size)
        values[:count] = self.coefficients[:count]
        return FourierSeries(self.frequency, values)

    def at_base(self, frequency: Positive) -> FourierSeries:
        """Write the signal with a lower base frequency.

        Its own frequency is a whole multiple of it.
        """
        if frequency > self.frequency * (1 + 1e-9) or not commensurate(self.frequency, frequency):
            raise RigError(
                f"frequency = {frequency:g} rad/s; give one of which {self.frequency:g}, that of the series, is a "
                f"whole multiple, at most {MOST_MULTIPLE} times."
            )
        ratio = round(self.frequency / frequency)
        if ratio == 1:
            return self
        pairs = np.zeros((self.modes * ratio, 2))
        pairs[ratio - 1 :: ratio] = self.coefficients[1:].reshape(-1, 2)
        return FourierSeries(frequency, np.concatenate([self.coefficients[:1], pairs.ravel()]))

    def peak(self, derivative: Index = 0) -> float:
        """Return a proven bound of the peak.

        It bounds |value| (or |derivative|) over a period from above and is at most the share SHARP too high.
        Between two points a distance h apart a signal stays below the larger of both by h²/8 times a bound of its
        second derivative. That bound is Bernstein's, (q ω)² times the largest |moving part|, for which the grid of 32
        points per mode gives 1/cos(π/32) of its own maximum (M. Riesz). Intervals that could hold the peak are divided
        until the bound is sharp: a grid alone is up to half a per cent low, which limits must not allow. A signal
        that overflows has the peak infinity.
        """
        known: dict[int, float] = self.__dict__.setdefault("_peaks", {})  # every sender needs it again
        if derivative not in known:
            known[derivative] = self._peak(derivative)
        return known[derivative]

    def _peak(self, derivative: int) -> float:
        if not self.modes or not np.any(self.coefficients[1:]):
            return 0.0 if derivative else abs(float(self.coefficients[0]))
        # 32 points per mode: the bound 1/cos(π/32) is 0.5 % above the largest sample.
        count = 32 * self.modes
        width = self.period / count
        left = width * np.arange(count)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self(left, derivative)
            offset = 0.0 if derivative else float(self.coefficients[0])
            largest = float(np.abs(values - offset).max()) / math.cos(np.pi / 32)
        if not math.isfinite(largest):
            return math.inf
        step = np.pi / 16  # of the fastest mode, in rad: seconds overflow where frequencies are extreme
        ends = np.abs(np.stack([values, np.roll(values, -1)]))
        lowest = float(ends.max())
        for _ in range(DIVISIONS):
            bounds = ends.max(axis=0) + largest * step**2 / 8
            highest = float(bounds.max())
            lowest = max(lowest, float(ends.max()))
            if highest <= lowest + SHARP * largest or left.size > MOST_INTERVALS:
                return highest
            width, step = width / PIECES, step / PIECES
            left = (left[bounds >= lowest][:, None] + width * np.arange(PIECES)).ravel()
            # Neighbours are evaluated twice; that costs less than keeping track of them.
            ends = np.abs(self(np.stack([left, left + width]), derivative))
        return float((ends.max(axis=0) + largest * step**2 / 8).max())

    def taylor(self, times: Reals, degree: Index) -> Array:
        """Return Taylor coefficients about each time.

        The coefficients are (N, degree + 1), in ascending order.
        """
        times = np.atleast_1d(times)
        rates = self.frequency * np.arange(1, self.modes + 1)
        pairs = (self.coefficients[1::2] - 1j * self.coefficients[2::2]) * np.exp(1j * np.multiply.outer(times, rates))
        powers = np.ones((self.modes, degree + 1), complex)
        for k in range(1, degree + 1):
            powers[:, k] = powers[:, k - 1] * 1j * rates / k
        result = (pairs @ powers).real
        result[:, 0] += self.coefficients[0]
        return result


def commensurate(first: float, second: float) -> bool:
    """Return whether two base frequencies share a period.

    One is a whole multiple of the other (at most MOST_MULTIPLE).
    """
    ratio = max(first, second) / min(first, second)
    return ratio < MOST_MULTIPLE and abs(ratio - round(ratio)) <= 1e-9 * ratio


def _packed(mean: float, pairs: NDArray[np.complex128]) -> Array:
    """Pack coefficients from mean and a_k - i b_k."""
    values = np.empty(2 * pairs.size + 1)
    values[0], values[1::2], values[2::2] = mean, pairs.real, -pairs.imag
    return values


def columns(phases: Array, modes: int) -> Array:
    """Return values of 1, cos kφ, sin kφ.

    The columns are (N, 2 modes + 1), at the phases φ.
    """
    angles = np.multiply.outer(np.asarray(phases, np.float64), np.arange(1, modes + 1))
    turned = np.asarray(np.exp(1j * angles), np.complex128)
    result = np.empty((len(phases), 2 * modes + 1))
    result[:, 0], result[:, 1::2], result[:, 2::2] = 1.0, turned.real, turned.imag
    return result


@lru_cache(maxsize=64)
def _prepared(step: float, samples: int, modes: int) -> tuple[Array, Array]:
    """Return columns and their inverse Gram matrix.

    The window starts at phase 0.
    """
    matrix = columns(step * np.arange(samples), modes)
    return matrix, np.linalg.inv(matrix.T @ matrix)


def rotated(coefficients: Array, phase: float) -> Array:
    """Refer coefficients to phase 0.

    The coefficients (..., 2 q + 1) are those of a window that starts at `phase`.
    """
    modes = coefficients.shape[-1] // 2
    pairs = coefficients[..., 1::2] - 1j * coefficients[..., 2::2]
    pairs = pairs * np.exp(-1j * phase * np.arange(1, modes + 1))
    result = np.empty_like(coefficients)
    result[..., 0], result[..., 1::2], result[..., 2::2] = coefficients[..., 0], pairs.real, -pairs.imag
    return result


def project(values: Array, phase: float, step: float, modes: int, lost: NDArray[np.bool_] | None = None) -> Array:
    """Fit Fourier coefficients by least squares.

    The coefficients are (channels, 2 modes + 1), from samples (N, channels).
    phase: of the first sample, step: phase per sample (rad of the base frequency). A period is rarely a whole number
    of samples, so a discrete Fourier transform would mix the modes. lost: samples to leave out.
    """
    matrix, inverse = _prepared(float(step), len(values), int(modes))
    right = matrix.T
    if lost is not None and lost.any():
        kept = ~lost
        if kept.sum() < 2 * matrix.shape[1]:
            raise RigError(
                f"{int(lost.sum())} of {len(values)} samples of a period were lost; too few are left for {modes} modes."
            )
        # The Gram matrix of the kept samples is that of all minus that of the lost ones.
        gone = matrix[lost]
        inverse = np.linalg.inv(np.linalg.inv(inverse) - gone.T @ gone)
        values, right = values[kept], matrix[kept].T
    return rotated((inverse @ (right @ values)).T, phase)


def stacked(series: Sequence[FourierSeries]) -> Array:
    """Return coefficients of several series in one vector."""
    return np.concatenate([s.coefficients for s in series])
