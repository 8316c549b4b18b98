"""Setup of the weak form.

It reads data, derives regressors, chooses smoothing and windows, and weights rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Fit, Give
from kapitza.errors import DataError, ModelError
from kapitza.estimate.harmonic_fit.measured import Measured, known_values, measured_from
from kapitza.estimate.harmonic_fit.regressors import Regressors, Smoothed, regressors_of
from kapitza.estimate.harmonic_fit.solvers import System
from kapitza.estimate.harmonic_fit.weak import RowCovariance, Rows, Whitener, assemble, row_covariance, whitener
from kapitza.estimate.harmonic_fit.windows import Windows
from kapitza.estimate.redundancy import refuse_redundant
from kapitza.estimate.request import Request, Task
from kapitza.model import Model, symbol
from kapitza.signal import (
    Kernels,
    convolved,
    cutoff_half_width,
    five_point,
    local_polynomial,
    signal_band,
    smoothing_spline,
)

if TYPE_CHECKING:
    from kapitza.estimate.harmonic_fit.settings import HarmonicFit

SHORTEST_WINDOW = 32
"""Fewest samples of a test function for which sums approximate integrals."""

GROUPS_WANTED = 10
"""Groups of rows per parameter: with fewer the scatter of the rows is poorly known."""

LONGEST_GROUP = 8
"""Longest group of rows over which the covariance is taken, in window lengths."""


@dataclass(frozen=True)
class WeakProblem(Task):
    """Data, regressors and windows of a weak fit.

    Everything that stays the same while the parameters are solved for.
    """

    settings: HarmonicFit
    measured: Measured
    regressors: Regressors
    smoothing: Kernels
    kernels: Kernels
    windows: Windows
    states: list[Smoothed]
    calm: list[Smoothed]
    noise: Array | None
    values: Array

    def full_values(self, theta: Array) -> Array:
        """Return all parameter values, the linear ones at θ."""
        return self.regressors.placed(self.values, self.regressors.linear, theta)

    def rows(self) -> list[Rows]:
        """Return the rows of every piece long enough.

        A piece must hold at least one window.
        """
        return assemble(self)


def pose(settings: HarmonicFit, request: Request) -> WeakProblem:
    """Set up the weak form of a request.

    It reads the data, derives the regressors, and chooses smoothing and windows.
    """
    model = request.model
    if model.is_map:
        raise ModelError(f'Model "{model.name}" is a map: the harmonic and weak forms need a flow.')
    refuse_redundant(request, [symbol(c.name) for c in model.coordinates])
    measured = measured_from(request)
    inputs = tuple(s.name for s in model.signals)
    regressors = regressors_of(model, request.names, inputs, separate=settings.nonlinear != "refuse")
    # Free parameters may be unknown: they are solved for, not iterated from.
    values = known_values(request, request.names)
    smoothing = choose_kernels(settings, measured)
    kernels = with_raw_values(smoothing)
    states = smooth(measured, kernels)
    windows = choose_windows(settings, model, measured, states)
    noise = noise_covariance(regressors, measured, kernels) if settings.correct_bias else None
    calm = calmed(states, smoothing, measured) if settings.correct_bias else states
    return WeakProblem(
        request, settings, measured, regressors, smoothing, kernels, windows, states, calm, noise, values
    )


def choose_kernels(settings: HarmonicFit, measured: Measured) -> Kernels:
    """Return the smoothing rule.

    The rule is as set, or as narrow as the band of the signal requires.
    """
    if settings.derivatives == "five-point":
        return five_point()
    if settings.half_width is not None and settings.derivatives == "local polynomial":
        return local_polynomial(settings.half_width, settings.degree)
    longest = max(measured.pieces, key=lambda p: len(p.times))
    if len(longest.times) < 64:
        raise DataError(
            f"The longest stretch has {len(longest.times)} samples: too few to separate motion from noise. Give "
            f"{Fit('harmonic', half_width=...)} or a longer record."
        )
    band = float(signal_band(longest.channels, measured.noise).max())
    if settings.derivatives == "spline":
        return smoothing_spline(band)
    half_width = cutoff_half_width(band, settings.degree)
    # At most an eighth of the stretch on either side, or too few samples would be left inside.
    return local_polynomial(min(half_width, (len(longest.times) - 1) // 8), settings.degree)


def with_raw_values(kernels: Kernels) -> Kernels:
    """Return kernels that smooth the rates only.

    The test functions average functions of the coordinates themselves well enough.
    """
    weights = kernels.weights.copy()
    weights[0] = 0.0
    # The identity kernel: values are not smoothed.
    weights[0, kernels.half_width] = 1.0
    return replace(kernels, weights=weights)


def smooth(measured: Measured, kernels: Kernels) -> list[Smoothed]:
    """Return coordinates with first and second derivatives.

    At the interior samples of every piece that is long enough.
    """
    m = kernels.half_width
    states = []
    for piece in measured.pieces:
        # A few samples beyond the kernel are needed inside.
        if len(piece.times) <= 2 * m + 8:
            continue
        inner = slice(m, len(piece.times) - m)
        derivatives = kernels.apply(measured.coordinates(piece), measured.step)
        states.append(
            Smoothed(piece.times[inner], derivatives, piece.inputs[inner], measured.step, piece.own, piece.run)
        )
    if not states:
        raise DataError(
            f"No stretch of the record is longer than the {2 * m + 9} samples that the derivatives need: use a "
            f"longer record or a smaller {Fit('harmonic', half_width=...)}."
        )
    return states


def calmed(states: list[Smoothed], kernels: Kernels, measured: Measured) -> list[Smoothed]:
    """Return the path along which weights are evaluated.

    Values are smoothed like the rates, by kernels that follow the motion. A stiffer rule would deviate from the motion
    by many noise deviations, and rows whose noise nearly cancels at the wrong place would be trusted most; raw values
    would let the weights follow the noise of their own row, which is a bias.
    """
    if kernels.weights[0].max() < 1.0:
        return smooth(measured, kernels)
    # The kernels leave the values as they are (five-point rule, for example), so a separate smoothing is needed.
    again = local_polynomial(max(2 * kernels.half_width, 6), 5).weights[0]
    wide = (len(again) - 1) // 2
    result = []
    for state in states:
        if len(state.times) <= 2 * wide:
            result.append(state)
            continue
        padded = np.pad(state.derivatives, ((0, 0), (wide, wide), (0, 0)), mode="reflect", reflect_type="odd")
        result.append(replace(state, derivatives=convolved(padded, again, axis=1)))
    return result


def choose_windows(settings: HarmonicFit, model: Model, measured: Measured, states: list[Smoothed]) -> Windows:
    """Return the test functions.

    Their width is two excitation periods or two typical oscillations, 2π rms(u')/rms(u''), but not more than the data
    hold.
    """
    longest = max(len(s.times) for s in states)
    width = settings.width
    if width is None:
        typical = typical_period(states)
        # A measured excitation repeats only after the whole record: then the motion itself sets the scale.
        forced = model.period is not None and model.period < 4.0 * typical
        width = 2.0 * (model.period if forced and model.period else typical)
    stride = max(2, round(width / measured.step / settings.overlap))
    if settings.width is None:
        stride = max(2, min(max(stride, -(-SHORTEST_WINDOW // settings.overlap)), longest // (settings.overlap + 1)))
    elif stride * settings.overlap < SHORTEST_WINDOW // 2:
        raise DataError(
            f"A test function of width {width:.3g} spans {width / measured.step:.2g} samples: sums over fewer than "
            f"{SHORTEST_WINDOW // 2} are not integrals. Pass at least "
            f"{Give(width=Code(format(SHORTEST_WINDOW // 2 * measured.step, '.3g')))}."
        )
    return Windows(stride, settings.overlap, settings.modulation, measured.step)


def typical_period(states: list[Smoothed]) -> float:
    rates = np.concatenate([s.derivatives[1] for s in states])
    accelerations = np.concatenate([s.derivatives[2] for s in states])
    moving = accelerations.std(axis=0) > 0
    if not moving.any():
        raise DataError("Nothing moves in this record: every channel is constant or a straight line.")
    # Exact for a harmonic motion, and independent of a mean or a rotation.
    return float(2.0 * np.pi * np.mean(rates.std(axis=0)[moving] / accelerations.std(axis=0)[moving]))


def noise_covariance(regressors: Regressors, measured: Measured, kernels: Kernels) -> Array:
    """Return the covariance (z, z) of the smoothed variables.

    It is the covariance of the coordinates times the gain of the kernels.
    """
    gain, spread = kernels.noise_gain(measured.step), measured.coordinate_covariance
    i = np.array([place for place, _ in regressors.noisy])
    order = np.array([o for _, o in regressors.noisy])
    # Noise is white in time: the covariance of derivatives is that of the kernels.
    return spread[np.ix_(i, i)] * gain[np.ix_(order, order)]


LONG = 8000
"""Windows of a record from which a part of it tells whether weights have converged."""

PART, STRETCHES = 20, 8
"""Such a part is one window of so many, in so many stretches of every piece: a record may begin at rest."""

LIKE = 3.0
"""Ratio of the variances of values from a part, relative to those expected of its size, up to which it stands for the
whole record."""


@dataclass(frozen=True)
class SpreadPart:
    """Stretches of windows of a long record, evenly spread over every piece, with their rows.

    share: of the windows.
    """

    problem: WeakProblem
    rows: list[Rows]
    share: float

    def change_of_weights(self, first: Array, second: Array) -> float:
        """Return the mean relative change of the rows' variances between two values (p,) of all parameters."""
        one, other = (np.concatenate([c.band[0] for c in covariances(self.problem, v)]) for v in (first, second))
        return float(np.mean(np.abs(other / one - 1.0)))

    def stands_for(self, whole: Array, own: Array) -> bool:
        """Return whether its information (k, k) on the values is what its size lets expect from that of the whole."""
        ratio = np.diag(np.linalg.inv(own)) / np.diag(np.linalg.inv(whole))
        return bool((ratio * self.share <= LIKE).all())


def spread_part(problem: WeakProblem, rows: list[Rows]) -> SpreadPart | None:
    """Return stretches of a long record; None where the record is short."""
    count = sum(len(r.rest) for r in rows)
    if count < LONG:
        return None
    windows = problem.windows
    long = [state for state in problem.calm if windows.count(len(state.times))]
    calm, few = [], []
    for state, own in zip(long, rows, strict=True):
        size = len(own.rest)
        each = -(-size // (PART * STRETCHES))
        # Pieces that hold few windows have fewer stretches.
        for first in np.linspace(0, size - each, min(STRETCHES, size)).astype(int).tolist():
            calm.append(state.part(slice(first * windows.stride, (first + each + windows.parts - 1) * windows.stride)))
            few.append(Rows(own.matrix[first : first + each], own.rest[first : first + each]))
    return SpreadPart(replace(problem, calm=calm), few, sum(len(r.rest) for r in few) / count)


def weigh(problem: WeakProblem, values: Array) -> list[Whitener]:
    """Return the whitening at the present parameter values."""
    return [whitener(covariance) for covariance in covariances(problem, values)]


def covariances(problem: WeakProblem, values: Array) -> Iterator[RowCovariance]:
    """Yield the covariance of the rows of every piece at parameter values (p,).

    It follows from the noise of the channels; without noise, from noise of one size everywhere.
    """
    measured = problem.measured
    if not (measured.noise > 0).all():
        size = np.concatenate([p.channels.std(axis=0, keepdims=True) for p in measured.pieces]).mean(axis=0)
        # Exact channels get a tiny noise in proportion to their spread: the whitening needs a positive covariance.
        measured = replace(measured, noise=np.where(measured.noise > 0, measured.noise, 1e-9 * size))
        problem = replace(problem, measured=measured)
    gain = problem.kernels.weights[1]
    memory = np.abs(np.correlate(gain, gain, "full")).sum() / max(gain @ gain, np.finfo(float).tiny)
    # Split samples have fewer windows; their factor is the leading part of the whole one, in window order.
    whole = problem.settings.solver == "instruments"
    long = [state for state in problem.calm if problem.windows.count(len(state.times))]
    return (row_covariance(problem, state, values, memory, whole) for state in long)


def stack(rows: list[Rows], parts: int) -> System:
    """Stack all rows, with labels of groups.

    A group is a run of neighbouring windows, much longer than one, within one piece.
    """
    size = rows[0].matrix.shape[2]
    matrix = np.concatenate([r.matrix.reshape(-1, size) for r in rows])
    rest = np.concatenate([r.rest.ravel() for r in rows])
    total = sum(len(r.rest) for r in rows)
    # At least one window length, because overlapping windows share their noise.
    run = int(np.clip(total // (GROUPS_WANTED * max(size, 1)), parts, LONGEST_GROUP * parts))
    labels, base = [], 0
    for r in rows:
        own = base + np.arange(len(r.rest)) // run
        labels.append(np.repeat(own, r.rest.shape[1]))
        base = int(own[-1]) + 1
    return System(matrix, rest, np.concatenate(labels))


def whiten(rows: list[Rows], factors: list[Whitener]) -> list[Rows]:
    return [factor(r) for factor, r in zip(factors, rows, strict=True)]
