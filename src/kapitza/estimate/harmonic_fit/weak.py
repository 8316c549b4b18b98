"""Weak form on whole records.

Regressors are integrated against test functions, and weighted by their own noise.

For every window w and test function φ the equation of motion gives one row, linear in θ:

    ∫ φ g0 dt + Σ_j θ_j ∫ φ c_j dt = 0.

White noise n on the channels enters a row through the adjoint of the linearised equation,

    δr = ∫ [φ (g_u - ġ_u' + g̈_u'') + φ' (2 ġ_u'' - g_u') + φ'' g_u''] n dt,

so the covariance of the rows is known up to θ, and its banded Cholesky factor whitens them. To second order a row holds
½ nᵀ g_uu n as well, whose mean is subtracted from the regressors and whose variance is added to the covariance. The
partial derivatives are taken along smoothed states: weights that follow the noise of their own row would bias the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cholesky_banded, get_lapack_funcs

from kapitza.base.arrays import Indices, Numbers
from kapitza.base.cures import Fit
from kapitza.errors import DataError
from kapitza.estimate.harmonic_fit.measured import Measured
from kapitza.estimate.harmonic_fit.regressors import Bends, Regressors, Slopes, Smoothed
from kapitza.estimate.harmonic_fit.windows import Windows

if TYPE_CHECKING:
    from kapitza.estimate.harmonic_fit.problem import WeakProblem

LARGEST_RESPONSE = 4_000_000
"""Most numbers of the noise responses of windows that are held in memory at a time."""


@dataclass(frozen=True)
class Rows:
    """Rows of one uninterrupted piece.

    matrix (windows, equations x functions, parameters), rest (windows, ...).
    """

    matrix: Numbers
    rest: Numbers

    def residual(self, theta: Numbers) -> Numbers:
        return self.rest + self.matrix @ theta


def assemble(problem: WeakProblem) -> list[Rows]:
    """Return the rows of every piece long enough.

    A piece must hold at least one window.
    """
    regressors, windows, rows = problem.regressors, problem.windows, []
    for state in problem.states:
        if windows.count(len(state.times)) == 0:
            continue
        coefficients, rest = regressors.bent(state, problem.values, problem.noise)
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
        longest = max((len(s.times) for s in problem.states), default=0)
        raise DataError(
            f"No stretch is long enough: the longest has {longest} usable samples, a test function spans "
            f"{windows.width}. Use a longer record, or pass a shorter {Fit('harmonic', width=...)}."
        )
    return rows


def _time_derivative(series: Numbers, step: float) -> Numbers:
    result = np.gradient(series, step, axis=-1)
    inner = 8 * (series[..., 3:-1] - series[..., 1:-3]) - series[..., 4:] + series[..., :-4]
    # Fourth-order differences inside, second-order ones at the ends.
    result[..., 2:-2] = inner / (12 * step)
    return result


def adjoint_series(regressors: Regressors, measured: Measured, slopes: Slopes) -> Numbers:
    """Return the adjoint series of channel noise.

    They are (3, equations, channels, n): what multiplies φ, φ', φ'' in the response of a row to channel noise.
    """
    result = np.zeros((3, regressors.equations, len(measured.channels), slopes.series.shape[-1]))
    for channel, series in _channel_series(regressors, measured, slopes).items():
        for number, own in series.items():
            result[:, number, channel] = own
    return result


Responses = dict[int, Numbers]
"""Responses to one source of noise, by equation: (3, n), what multiplies φ, φ', φ'' in the response of its rows."""


def _channel_series(regressors: Regressors, measured: Measured, slopes: Slopes) -> dict[int, Responses]:
    """Return the responses to the noise of every channel.

    Equations that a channel does not reach are left out.
    """
    found: dict[int, Responses] = {}
    for equation, variable, g in zip(slopes.equation, slopes.variable, slopes.series, strict=True):
        if variable >= len(regressors.noisy) or not g.any():
            continue
        coordinate, order = regressors.noisy[variable]
        # Integration by parts moves derivatives of the noise onto φ g.
        first = _time_derivative(g, measured.step) if order else g
        second = _time_derivative(first, measured.step) if order == 2 else first
        for channel in np.flatnonzero(measured.mixing[coordinate]):
            weight = measured.mixing[coordinate, channel] * measured.noise[channel]
            own = found.setdefault(int(channel), {})
            series = own.setdefault(int(equation), np.zeros((3, g.size)))
            if order == 0:
                series[0] += weight * g
            elif order == 1:
                series[0] -= weight * first
                series[1] -= weight * g
            else:
                series[0] += weight * second
                series[1] += 2 * weight * first
                series[2] += weight * g
    return found


def _sources(problem: WeakProblem, state: Smoothed, values: Numbers, memory: float) -> list[Responses]:
    """Return the responses to every independent noise source.

    Channels, measured inputs, signs that noise makes uncertain.
    """
    regressors, measured, noise = problem.regressors, problem.measured, problem.noise
    values = state.values(regressors.parameters, values)
    columns = regressors.columns(state, values, noise)
    slopes = regressors.slopes_at(columns, values)
    states, inputs = len(regressors.noisy), len(regressors.inputs)
    of_states = slopes.variable < states
    channels = Slopes(slopes.equation[of_states], slopes.variable[of_states], slopes.series[of_states])
    sources = list(_channel_series(regressors, measured, channels).values())
    noisy = noise is not None and bool(np.any(noise))
    doubt = None
    if regressors.switches and noisy:
        modes = columns[-len(regressors.switches) :]
        # A sign with mean m has the variance 1 - m², correlated over `memory` samples.
        doubt = np.sqrt(np.clip(1.0 - modes**2, 0.0, None) * memory)
        # Where a switching function vanishes for a while, its sign is exactly zero and not uncertain.
        doubt[(modes == 0.0) & np.array([[s.can_vanish] for s in regressors.switches])] = 0.0
    further: dict[int, Responses] = {}
    for equation, variable, g in zip(slopes.equation, slopes.variable, slopes.series, strict=True):
        if variable < states:
            continue
        number = variable - states
        if number < inputs:
            weighted = g * measured.input_noise[number]
        elif doubt is not None:
            weighted = g * doubt[number - inputs]
        else:
            continue
        if weighted.any():
            nothing = np.zeros_like(g)
            further.setdefault(int(variable), {})[int(equation)] = np.stack([weighted, nothing, nothing])
    sources += further.values()
    if noise is not None and noisy:
        bends = regressors.bends_at(columns, values)
        sources += _quadratic_sources(regressors, channels, bends, noise, memory)
    return sources


NEGLIGIBLE = 1e-8
"""Variance of the quadratic noise relative to that of the linear noise below which it is left out."""

MOST_TOGETHER = 6
"""Most equations whose quadratic noise is correlated between them; with more, each is treated separately."""


def _quadratic_sources(
    regressors: Regressors, slopes: Slopes, bends: Bends, noise: Numbers, memory: float
) -> list[Responses]:
    """Return the sources of quadratic noise.

    They have the variance of ½ nᵀ H n; at most one for every equation, each white.
    n_p n_q of two variables has the variance Σ_pp Σ_qq + Σ_pq², ½ n_p² half of Σ_pp²; with a raw value in it the
    product is white, that of two smoothed rates is correlated over about `memory` samples. The density D(t) (e, e) of
    all products is split into its Cholesky factor, whose columns are the sources. slopes: by the noisy variables alone.
    """
    if not bends.equation.size:
        return []
    own = np.diag(noise)
    rates = np.array([order > 0 for _, order in regressors.noisy])
    variance = own[bends.first] * own[bends.second] + noise[bends.first, bends.second] ** 2
    # ½ n² has a quarter of the variance of n².
    variance = np.where(bends.first == bends.second, 0.25 * variance, variance)
    variance = variance * np.where(rates[bends.first] & rates[bends.second], memory, 1.0)
    count, length = regressors.equations, bends.series.shape[1]
    power = np.bincount(bends.equation, variance * _squares(bends.series), minlength=count)
    linear = own[slopes.variable] * _squares(slopes.series)
    live = np.flatnonzero(power > NEGLIGIBLE * np.bincount(slopes.equation, linear, minlength=count))
    if not live.size:
        return []
    nothing = np.zeros(length)
    weighted = bends.series * np.sqrt(variance)[:, None]
    if live.size > MOST_TOGETHER:
        roots = {int(e): np.sqrt((weighted[bends.equation == e] ** 2).sum(axis=0)) for e in live}
        return [{e: np.stack([root, nothing, nothing])} for e, root in roots.items()]
    place = np.full(count, -1)
    place[live] = np.arange(live.size)
    density = np.zeros((live.size, live.size, length))
    products = np.stack([bends.first, bends.second])
    for one, other in np.argwhere((products[:, :, None] == products[:, None]).all(axis=0)):
        row, column = place[bends.equation[one]], place[bends.equation[other]]
        if row >= column >= 0:
            density[row, column] += weighted[one] * weighted[other]
    root = _cholesky(density)
    return [
        {int(live[e]): np.stack([root[e, column], nothing, nothing]) for e in range(column, live.size)}
        for column in range(live.size)
    ]


def _squares(series: Numbers) -> Numbers:
    """Return the sum of squares of every row."""
    return np.einsum("kn,kn->k", series, series)


def _cholesky(density: Numbers) -> Numbers:
    """Return the lower Cholesky factors of n matrices.

    (e, e, n), whose lower halves are given; a small ridge keeps them definite.
    """
    size = len(density)
    root = np.zeros_like(density)
    ridge = 1e-9 * np.einsum("eet->t", density) + np.finfo(float).tiny
    for column in range(size):
        for row in range(column, size):
            left = density[row, column] - sum(root[row, k] * root[column, k] for k in range(column))
            if row == column:
                root[row, row] = np.sqrt(np.maximum(left + ridge, ridge))
            else:
                root[row, column] = left / root[column, column]
    return root


@dataclass(frozen=True)
class RowCovariance:
    """Banded covariance of all rows of one piece.

    band is in lower band storage, for rows in `order` (None: window by window).
    """

    band: Numbers
    order: Indices | None = None


def row_covariance(
    problem: WeakProblem, state: Smoothed, values: Numbers, memory: float, by_window: bool = False
) -> RowCovariance:
    """Return the covariance of all rows of one piece.

    It is evaluated at values (p,) of all parameters. memory: samples over which the noise of the smoothed states
    stays correlated; a sign that noise makes uncertain adds variance (∂g/∂m)² (1 - m²) over that length. Rows are
    taken window by window, where parts x rows make up the band, or equation by equation where noise links few of
    many equations, as in a long chain, and the band is narrower so; by_window: never the latter.
    """
    windows = problem.windows
    count, functions = windows.count(len(state.times)), windows.functions
    size = problem.regressors.equations * functions
    sources = _sources(problem, state, values, memory)
    reach = max((max(source) - min(source) for source in sources), default=0)
    places = np.arange(count * size).reshape(count, size)
    width, order = windows.parts * size, None
    # The cost of the Cholesky factor grows with the square of the band width.
    if not by_window and (narrow := (reach * count + windows.parts) * functions) < width:
        order = places.reshape(count, -1, functions).transpose(1, 0, 2).ravel()
        width, places = narrow, np.empty_like(order)
        places[order] = np.arange(order.size)
        places = places.reshape(count, size)
    band = np.zeros((width, count * size))
    for reached_by, together in _by_equations(sources).items():
        own = np.add.outer(np.array(reached_by) * functions, np.arange(functions)).ravel()
        chunk = max(1, LARGEST_RESPONSE // (own.size * windows.width * len(together)))
        for first in range(0, count, chunk):
            here = min(chunk, count - first)
            reached = min(here + windows.parts - 1, count - first)
            responses = [windows.respond(series, first, reached) for series in together]
            _fill_band(band, responses, places[first : first + reached][:, own], here, windows)
    return RowCovariance(band, order)


def _by_equations(sources: list[Responses]) -> dict[tuple[int, ...], list[Numbers]]:
    """Group the sources that reach the same equations.

    Each source has series (3, equations, n).
    """
    result: dict[tuple[int, ...], list[Numbers]] = {}
    for source in sources:
        result.setdefault(tuple(source), []).append(np.stack(list(source.values()), axis=1))
    return result


def _fill_band(band: Numbers, responses: list[Numbers], places: Indices, here: int, windows: Windows) -> None:
    """Add products of overlapping responses to the band.

    places (windows, rows) are the rows' numbers in the order of the band.
    """
    reached, rows = places.shape
    for lag in range(windows.parts):
        count = min(here, reached - lag)
        if count <= 0:
            break
        shift = lag * windows.stride
        block = np.zeros((count, rows, rows))
        for response in responses:
            early, late = response[:count, :, shift:], response[lag : lag + count, :, : windows.width - shift]
            block += late @ early.transpose(0, 2, 1)
        later, earlier = _pairs(rows, lag == 0)
        one, other = places[lag : lag + count][:, later], places[:count][:, earlier]
        band[np.abs(one - other), np.minimum(one, other)] += block[:, later, earlier]


@lru_cache(maxsize=64)
def _pairs(rows: int, within: bool) -> tuple[Indices, Indices]:
    """Return every pair of rows once.

    The rows are those of two windows, or of one.
    """
    return np.tril_indices(rows) if within else np.divmod(np.arange(rows**2), rows)


@dataclass(frozen=True)
class Whitener:
    """Cholesky factor of the banded covariance of rows.

    It covers all rows of one piece; their variances (rows,) are kept as well. order: of the rows in the factor,
    None where it is theirs.
    """

    factor: Numbers
    variances: Numbers
    order: Indices | None = None

    def __call__(self, piece: Rows) -> Rows:
        count, size, parameters = piece.matrix.shape
        columns = np.empty((count * size, parameters + 1), order="F")
        columns[:, :parameters] = piece.matrix.reshape(-1, parameters)
        columns[:, parameters] = piece.rest.reshape(-1)
        factor = self.factor
        if self.order is not None:
            columns = np.asfortranarray(columns[self.order])
        elif len(columns) != factor.shape[1]:
            # Rows from wider kernels may be fewer: the factor of the first rows is the leading part of the factor.
            factor = np.asfortranarray(factor[:, : len(columns)])
        (solve_triangular_band,) = get_lapack_funcs(("tbtrs",), (factor,))
        solved, _ = solve_triangular_band(factor, columns, uplo="L", overwrite_b=True)
        if self.order is not None:
            back = np.empty_like(solved)
            back[self.order] = solved
            solved = back
        return Rows(solved[:, :parameters].reshape(count, size, parameters), solved[:, parameters].reshape(count, size))


def whitener(covariance: RowCovariance) -> Whitener:
    """Factor a banded covariance.

    A small ridge keeps it definite where test functions nearly repeat each other.
    """
    band, order = covariance.band, covariance.order
    if not (band[0] > 0).all():
        raise DataError(
            "A row of the weak form does not depend on any measured channel, so it has no noise to weigh it by: "
            "check that the equations contain the measured coordinates."
        )
    variances = band[0].copy()
    if order is not None:
        variances[order] = band[0]
    # The smallest ridge that makes the factorisation succeed.
    for ridge in (1e-10, 1e-7, 1e-4):
        trial = np.array(band, order="F")
        trial[0] *= 1.0 + ridge
        try:
            factor = cholesky_banded(trial, overwrite_ab=True, lower=True, check_finite=True)
        except LinAlgError:
            continue
        return Whitener(factor, variances, order)
    raise DataError(
        f"The covariance of the weak rows is not positive definite: lower {Fit('harmonic', modulation=...)} or overlap."
    )
