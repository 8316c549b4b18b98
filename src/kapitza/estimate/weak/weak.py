"""The weak form on whole records: regressors integrated against test functions, weighted by their own noise.

For every window w and test function φ the equation of motion gives one row, linear in θ:

    ∫ φ g0 dt + Σ_j θ_j ∫ φ c_j dt = 0.

White noise n on the channels enters a row through the adjoint of the linearised equation,

    δr = ∫ [φ (g_u - ġ_u' + g̈_u'') + φ' (2 ġ_u'' - g_u') + φ'' g_u''] n dt,

so the covariance of the rows is known up to θ, and its banded Cholesky factor whitens them. The partial derivatives g_u
are taken at states that were smoothed once more: weights that follow the noise of their own row would bias the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky_banded, get_lapack_funcs

from kapitza.errors import DataError
from kapitza.estimate.weak.measured import Measured, Piece
from kapitza.estimate.weak.regressors import Regressors, Smoothed
from kapitza.estimate.weak.windows import Windows

Array = NDArray[Any]
Smoother = Callable[[Measured, Piece], Smoothed]

CHUNK = 256
"""Windows whose noise responses are held in memory at a time."""


@dataclass(frozen=True)
class Rows:
    """Rows of one uninterrupted piece: matrix (windows, equations x functions, parameters), rest (windows, ...)."""

    matrix: Array
    rest: Array

    def residual(self, theta: Array) -> Array:
        return self.rest + self.matrix @ theta


def assemble(
    regressors: Regressors, states: list[Smoothed], windows: Windows, values: Array, noise: Array | None
) -> list[Rows]:
    """Rows of every piece that is long enough for one window."""
    rows = []
    for state in states:
        if windows.count(len(state.times)) == 0:
            continue
        coefficients, rest = regressors.bent(state, values, noise)
        matrix = windows.integrate(coefficients)  # (equations, parameters, windows, functions)
        vector = windows.integrate(rest)
        for place, (coordinate, order) in enumerate(regressors.noisy):
            factors = regressors.straight[:, :, place]
            if factors.any():
                moved = windows.integrate(state.derivatives[0, :, coordinate], order)
                matrix += factors[:, 1:, None, None] * moved
                vector += factors[:, 0, None, None] * moved
        count = vector.shape[1]
        rows.append(
            Rows(
                np.ascontiguousarray(matrix.transpose(2, 0, 3, 1)).reshape(count, -1, len(regressors.linear)),
                np.ascontiguousarray(vector.transpose(1, 0, 2)).reshape(count, -1),
            )
        )
    if not rows:
        longest = max((len(s.times) for s in states), default=0)
        raise DataError(
            f"No stretch is long enough: the longest has {longest} usable samples, a test function spans "
            f"{windows.width}. Use a longer record, or pass a shorter HarmonicFit(width=...)."
        )
    return rows


def _time_derivative(series: Array, step: float) -> Array:
    result = np.gradient(series, step, axis=-1)
    inner = 8 * (series[..., 3:-1] - series[..., 1:-3]) - series[..., 4:] + series[..., :-4]
    result[..., 2:-2] = inner / (12 * step)
    return result


def adjoint_series(regressors: Regressors, measured: Measured, gradients: Array) -> Array:
    """(3, equations, channels, n): what multiplies φ, φ', φ'' in the response of a row to channel noise."""
    size = len(measured.channels)
    result = np.zeros((3, regressors.equations, size, gradients.shape[-1]))
    for number, (coordinate, order) in enumerate(regressors.noisy):
        g = gradients[:, number]
        if not g.any():
            continue
        first = _time_derivative(g, measured.step) if order else g
        second = _time_derivative(first, measured.step) if order == 2 else first
        for channel in np.flatnonzero(measured.mixing[coordinate]):
            weight = measured.mixing[coordinate, channel] * measured.noise[channel]
            if order == 0:
                result[0, :, channel] += weight * g
            elif order == 1:
                result[0, :, channel] -= weight * first
                result[1, :, channel] -= weight * g
            else:
                result[0, :, channel] += weight * second
                result[1, :, channel] += 2 * weight * first
                result[2, :, channel] += weight * g
    return result


def row_covariance(
    regressors: Regressors,
    measured: Measured,
    state: Smoothed,
    windows: Windows,
    values: Array,
    noise: Array | None,
    memory: float,
) -> Array:
    """Covariance of all rows of one piece in lower band storage (parts x rows, windows x rows).

    memory: samples over which the noise of the smoothed states stays correlated; a sign that noise makes uncertain adds
    variance (∂g/∂m)² (1 - m²) over that length.
    """
    gradients = regressors.gradients(state, values, noise)
    states, inputs = len(regressors.noisy), len(regressors.inputs)
    jumps = gradients[:, states + inputs :]
    series = adjoint_series(regressors, measured, gradients[:, :states])
    if measured.input_noise.any():
        shaken = gradients[:, states : states + inputs] * measured.input_noise[:, None]
        series = np.concatenate([series, np.concatenate([shaken[None], np.zeros((2, *shaken.shape))])], axis=2)
    if jumps.size and noise is not None and np.any(noise):
        modes = regressors.columns(state, values, noise)[-len(regressors.switches) :]
        doubt = jumps * np.sqrt(np.clip(1.0 - modes**2, 0.0, None) * memory)
        only_value = np.zeros((2, *doubt.shape))
        series = np.concatenate([series, np.concatenate([doubt[None], only_value])], axis=2)
    count, size = windows.count(len(state.times)), regressors.equations * windows.functions
    band = np.zeros((windows.parts * size, count * size))
    for first in range(0, count, CHUNK):
        here = min(CHUNK, count - first)
        reach = min(here + windows.parts - 1, count - first)
        cut = windows.cut(series, first, reach)
        response = np.einsum("pfk,pecwk->wefck", windows.values, cut, optimize=True) * windows.step
        _fill_band(band, response.reshape(reach, size, -1, windows.width), first, here, windows)
    return band


def _fill_band(band: Array, response: Array, first: int, here: int, windows: Windows) -> None:
    """Products of the responses of windows that overlap, written into the band."""
    size = response.shape[1]
    for lag in range(windows.parts):
        count = min(here, len(response) - lag)
        if count <= 0:
            break
        shift = lag * windows.stride
        early = response[:count, :, :, shift:].reshape(count, size, -1)
        late = response[lag : lag + count, :, :, : windows.width - shift].reshape(count, size, -1)
        block = late @ early.transpose(0, 2, 1)
        for i in range(size):
            for j in range(size):
                offset = lag * size + j - i
                if offset >= 0:
                    start = first * size + i
                    band[offset, start : start + count * size : size] = block[:, j, i]


@dataclass(frozen=True)
class Whitener:
    """Cholesky factor of the banded covariance of all rows of one piece."""

    factor: Array

    def __call__(self, piece: Rows) -> Rows:
        count, size, parameters = piece.matrix.shape
        columns = np.empty((count * size, parameters + 1), order="F")
        columns[:, :parameters] = piece.matrix.reshape(-1, parameters)
        columns[:, parameters] = piece.rest.reshape(-1)
        # Rows from wider kernels may be fewer: the factor of the first ones is the first part of the factor.
        factor = (
            self.factor if len(columns) == self.factor.shape[1] else np.asfortranarray(self.factor[:, : len(columns)])
        )
        (solve_triangular_band,) = get_lapack_funcs(("tbtrs",), (factor,))
        solved, _ = solve_triangular_band(factor, columns, uplo="L", overwrite_b=True)
        return Rows(solved[:, :parameters].reshape(count, size, parameters), solved[:, parameters].reshape(count, size))


def whitener(band: Array) -> Whitener:
    """Factor of a banded covariance; a small ridge keeps it definite where test functions nearly repeat each other."""
    if not (band[0] > 0).all():
        raise DataError(
            "A row of the weak form does not depend on any measured channel, so it has no noise to weigh it by: "
            "check that the equations contain the measured coordinates."
        )
    for ridge in (1e-10, 1e-7, 1e-4):
        trial = np.array(band, order="F")
        trial[0] *= 1.0 + ridge
        try:
            return Whitener(cholesky_banded(trial, overwrite_ab=True, lower=True, check_finite=True))
        except LinAlgError:
            continue
    raise DataError(
        "The covariance of the weak rows is not positive definite: lower HarmonicFit(modulation=...) or overlap."
    )
