"""Closed curves as values at equidistant phases.

The module interpolates, shifts and transforms them.

A curve u(s), s in [0, 1), is held by its values at s_j = j/M, M = 2K + 1, and stands for the trigonometric polynomial

    u(s) = Σ_l u_l D(s - s_l),   D(s) = (1 + 2 Σ_{k=1..K} cos 2πks) / M.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array


def shift_matrix(rotation: float, count: int, derivative: int = 0) -> Array:
    """Return the matrix of a shift.

    It is R with (R u)_j = u(s_j + rotation), or du/ds there: a circulant matrix (count, count).
    """
    column = np.fft.irfft(_turned(count, rotation, derivative), count)
    place = np.arange(count)
    return column[(place[:, None] - place[None, :]) % count]


def shifted(values: Array, rotation: float, derivative: int = 0) -> Array:
    """Return u(s_j + rotation) (M, n), or du/ds there."""
    factors = _turned(len(values), rotation, derivative)
    return np.fft.irfft(np.fft.rfft(values, axis=0) * factors[:, None], len(values), axis=0)


def _turned(count: int, rotation: float, derivative: int) -> NDArray[np.complex128]:
    """Return the shift factors of modes 0 … K."""
    modes = 2j * np.pi * np.arange(count // 2 + 1)
    factors = np.exp(modes * rotation)
    return np.asarray(factors * modes if derivative else factors, np.complex128)


def evaluated(values: Array, phases: Array, derivative: int = 0) -> Array:
    """Evaluate u, or du/ds, at phases.

    The curve has the values (M, n); the phases have shape (Q,).
    """
    count = len(values)
    modes = np.arange(count // 2 + 1)
    coefficients = np.fft.rfft(values, axis=0) / count
    coefficients[1:] *= 2
    waves = np.exp(2j * np.pi * np.outer(phases, modes))
    if derivative:
        waves = waves * (2j * np.pi * modes)
    return (waves @ coefficients).real


def resampled(values: Array, count: int) -> Array:
    """Resample a curve at other phases.

    The number of phases is odd; modes beyond the new ones are cut off.
    """
    coefficients = np.fft.rfft(values, axis=0) * (count / len(values))
    return np.fft.irfft(coefficients[: count // 2 + 1], count, axis=0)


def spectrum(values: Array, sizes: Array) -> Array:
    """Return the largest coefficient of each mode.

    The moduli are (K + 1,), in units of the sizes (n,).
    """
    return np.abs(np.fft.rfft(values, axis=0) / len(values) / sizes).max(axis=1)


def tail(values: Array, sizes: Array) -> float:
    """Return the relative size of the last modes.

    The last fifth is compared with the largest mode but the mean.
    """
    moduli = spectrum(values, sizes)
    count = len(moduli) - 1
    largest = float(moduli[1:].max(initial=0.0))
    return float(moduli[max(count - max(count // 5, 1), 1) :].max(initial=0.0)) / largest if largest else 0.0
