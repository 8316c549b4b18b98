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
from kapitza.estimate.harmonic_fit.windows import FEW_PRODUCTS, Windows

if TYPE_CHECKING:
    from kapitza.estimate.harmonic_fit.problem import WeakProblem

CHUNK = 200_000
"""Numbers of the products of noise responses that are made at a time: they stay in the cache."""


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
        count, size = windows.count(len(state.times)), len(state.times)
        if count == 0:
            continue
        values = state.values(regressors.parameters, problem.values)
        columns = regressors.columns(state, values, problem.noise, unbiased=True)
        terms = np.empty((regressors.equations, 1 + len(regressors.linear), count, windows.functions))
        for part, samples in windows.blocks(size):
            terms[:, :, part] = windows.integrate(regressors.bent_at(columns[:, samples], values, problem.noise))
        for place, (coordinate, order) in enumerate(regressors.noisy):
            factors = regressors.straight[:, :, place]
            if factors.any():
                moved = windows.integrate(state.derivatives[0, :, coordinate], order)
                for equation, term in np.argwhere(factors):
                    terms[equation, term] += factors[equation, term] * moved
        terms = np.ascontiguousarray(terms.transpose(2, 0, 3, 1)).reshape(count, -1, 1 + len(regressors.linear))
        rows.append(Rows(np.ascontiguousarray(terms[..., 1:]), np.ascontiguousarray(terms[..., 0])))
    if not rows:
        longest = max((len(s.times) for s in problem.states), default=0)
        raise DataError(
            f"No stretch is long enough: the longest has {longest} usable samples, a test function spans "
            f"{windows.width}. Use a longer record, or pass a shorter {Fit('harmonic', width=...)}."
        )
    return rows


def _time_derivative(series: Numbers, step: float) -> Numbers:
    # Fourth-order differences inside, second-order ones at the ends.
    result = np.empty_like(series)
    inner = result[..., 2:-2]
    np.subtract(series[..., 3:-1], series[..., 1:-3], out=inner)
    inner *= 8.0
    inner -= series[..., 4:]
    inner += series[..., :-4]
    inner /= 12 * step
    result[..., :2] = np.gradient(series[..., :3], step, axis=-1)[..., :2]
    result[..., -2:] = np.gradient(series[..., -3:], step, axis=-1)[..., -2:]
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

Densities = dict[tuple[int, int], Numbers]
"""Covariance densities (n,) of white noise, by pairs of equations, the smaller number first."""


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


def _sources(
    problem: WeakProblem, state: Smoothed, values: Numbers, memory: float
) -> tuple[list[Responses], Densities]:
    """Return the responses to every independent noise source.

    Channels, measured inputs, signs that noise makes uncertain; then the densities of quadratic noise.
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
    if noise is None or not noisy:
        return sources, {}
    return sources, _quadratic_noise(regressors, channels, regressors.bends_at(columns, values), noise, memory)


NEGLIGIBLE = 1e-8
"""Variance of the quadratic noise relative to that of the linear noise below which it is left out."""

MOST_TOGETHER = 6
"""Most equations whose quadratic noise is correlated between them; with more, each is treated separately."""


def _quadratic_noise(regressors: Regressors, slopes: Slopes, bends: Bends, noise: Numbers, memory: float) -> Densities:
    """Return the densities of quadratic noise ½ nᵀ H n.

    n_p n_q of two variables has the variance Σ_pp Σ_qq + Σ_pq², ½ n_p² half of Σ_pp²; with a raw value in it the
    product is white, that of two smoothed rates is correlated over about `memory` samples. slopes: by the noisy
    variables alone.
    """
    if not bends.equation.size:
        return {}
    own = np.diag(noise)
    rates = np.array([order > 0 for _, order in regressors.noisy])
    variance = own[bends.first] * own[bends.second] + noise[bends.first, bends.second] ** 2
    # ½ n² has a quarter of the variance of n².
    variance = np.where(bends.first == bends.second, 0.25 * variance, variance)
    variance = variance * np.where(rates[bends.first] & rates[bends.second], memory, 1.0)
    count = regressors.equations
    power = np.bincount(bends.equation, variance * _squares(bends.series), minlength=count)
    linear = own[slopes.variable] * _squares(slopes.series)
    live = power > NEGLIGIBLE * np.bincount(slopes.equation, linear, minlength=count)
    apart = np.count_nonzero(live) > MOST_TOGETHER
    result: Densities = {}
    products = np.stack([bends.first, bends.second])
    for one, other in np.argwhere((products[:, :, None] == products[:, None]).all(axis=0)):
        pair = int(bends.equation[one]), int(bends.equation[other])
        if pair[0] > pair[1] or not (live[pair[0]] and live[pair[1]]) or (apart and pair[0] != pair[1]):
            continue
        # An equation has each product once, so that one and other have the same variance.
        product = bends.series[one] * bends.series[other]
        product *= variance[one]
        if pair in result:
            result[pair] += product
        else:
            result[pair] = product
    return result


def _squares(series: Numbers) -> Numbers:
    """Return the sum of squares of every row."""
    return np.einsum("kn,kn->k", series, series)


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
    sources, quadratic = _sources(problem, state, values, memory)
    products = _Products(sources, quadratic)
    places = np.arange(count * size).reshape(count, size)
    width, order = windows.parts * size, None
    # The cost of the Cholesky factor grows with the square of the band width.
    if not by_window and (narrow := (products.reach * count + windows.parts) * functions) < width:
        order = places.reshape(count, -1, functions).transpose(1, 0, 2).ravel()
        width, places = narrow, np.empty_like(order)
        places[order] = np.arange(order.size)
        places = places.reshape(count, size)
    band = np.zeros((width, count * size))
    overlaps = _Overlaps(windows)
    chunk = max(1, min(CHUNK // (overlaps.size + 9 * windows.stride), FEW_PRODUCTS // (overlaps.size * windows.stride)))
    for first in range(0, count, chunk):
        here = min(chunk, count - first)
        samples = slice(first * windows.stride, (first + here + windows.parts - 1) * windows.stride)
        for pair in products.pairs:
            found = products.blocks(pair, samples, windows.stride)
            for late, early in (pair,) if pair[0] == pair[1] else (pair, pair[::-1]):
                sums = overlaps.sums(found, late == early, late > early)
                for lag in range(int(late > early), windows.parts):
                    some = min(here, count - first - lag)
                    if some <= 0:
                        break
                    rows = places[first + lag : first + lag + some, late * functions : (late + 1) * functions]
                    columns = places[first : first + some, early * functions : (early + 1) * functions]
                    block = overlaps.covariance(sums, lag, some)
                    _add(band, block, rows, columns, late == early and lag == 0)
    return RowCovariance(band, order)


def _add(band: Numbers, block: Numbers, rows: Indices, columns: Indices, within: bool) -> None:
    """Add covariances (windows, functions, functions) to the band.

    rows, columns: numbers (windows, functions) of the rows in the order of the band. within: both are the same rows.
    """
    later, earlier = _pairs(rows.shape[1], within)
    one, other = rows[:, later], columns[:, earlier]
    band[np.abs(one - other), np.minimum(one, other)] += block[:, later, earlier]


class _Products:
    """Covariance densities of the noise of all rows.

    Two rows with responses Σ_o a_o φ_o and Σ_o b_o ψ_o to a white source have the covariance Σ_t Σ_op a_o b_p φ_o ψ_p:
    the products a_o b_p, summed over the sources, are all that is needed of them.
    """

    def __init__(self, sources: list[Responses], quadratic: Densities):
        self._sources = [
            [(equation, k, series[k]) for equation, series in source.items() for k in range(3) if series[k].any()]
            for source in sources
        ]
        self._quadratic = quadratic
        linear = {(a, b) for source in self._sources for a, _, _ in source for b, _, _ in source if a <= b}
        self.pairs = sorted(linear | set(quadratic))
        """Pairs of equations whose rows have common noise, the smaller number first."""
        self.reach = max((b - a for a, b in self.pairs), default=0)

    def blocks(self, pair: tuple[int, int], samples: slice, stride: int) -> dict[tuple[int, int], Numbers]:
        """Return the products of a pair of equations.

        They are by the orders of φ and ψ, each (blocks, stride).
        """
        found: dict[tuple[int, int], Numbers] = {}
        for source in self._sources:
            for one, order, series in source:
                if one != pair[0]:
                    continue
                for other, second, beside in source:
                    if other != pair[1] or (one == other and second < order):
                        continue
                    # Of one equation a_o b_p and a_p b_o are the same number.
                    product = series[samples] * beside[samples]
                    key = order, second
                    if key in found:
                        found[key] += product
                    else:
                        found[key] = product
        if pair in self._quadratic:
            product = self._quadratic[pair][samples]
            found[0, 0] = found[0, 0] + product if (0, 0) in found else product
        return {key: product.reshape(-1, stride) for key, product in found.items()}


class _Overlaps:
    """Products of the test functions of overlapping windows.

    One window starts `lag` strides after the other: they share `parts` - lag strides. Sums over one stride are made
    once, as one matrix product for all lags.
    """

    def __init__(self, windows: Windows):
        self._functions, parts, stride = windows.functions, windows.parts, windows.stride
        self._borders = np.concatenate([[0], np.cumsum(np.arange(parts, 0, -1))])
        phi = windows.values.reshape(3, windows.functions, parts, stride)
        weights = [
            # Stride number k of the late window is number lag + k of the early one.
            phi[:, None, :, None, : parts - lag] * phi[None, :, None, :, lag:]
            for lag in range(parts)
        ]
        # (order, order, functions, functions, strides of all lags, stride) -> (order, order, stride, ...)
        whole = windows.step**2 * np.concatenate(weights, axis=4)
        self.size = whole[0, 0, ..., 0].size
        """Sums of one stride."""
        self._weights = np.ascontiguousarray(whole.transpose(0, 1, 5, 4, 2, 3)).reshape(3, 3, stride, self.size)

    def sums(self, found: dict[tuple[int, int], Numbers], same: bool, turned: bool) -> Numbers:
        """Return the sums over strides (blocks, strides of all lags, functions²).

        found: products by the orders at the first and the second equation. same: both are one equation, so that a
        product stands for both orders. turned: the second equation is that of the late window.
        """
        total = 0.0
        for (first, second), blocks in found.items():
            weights = self._weights[(second, first) if turned else (first, second)]
            if same and first != second:
                weights = weights + self._weights[second, first]
            total = total + blocks @ weights
        return np.asarray(total).reshape(-1, self._borders[-1], self._functions**2)

    def covariance(self, sums: Numbers, lag: int, count: int) -> Numbers:
        """Return the covariances (count, functions, functions) of windows `lag` strides apart."""
        first, last = self._borders[lag], self._borders[lag + 1]
        total = np.zeros((count, self._functions**2))
        for part, place in enumerate(range(first, last)):
            total += sums[lag + part : lag + part + count, place]
        return total.reshape(count, self._functions, self._functions)


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
