"""Delay embedding: state from a few channels.

The delay comes from mutual information, the dimension from false neighbours and from Cao's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Indices
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError
from kapitza.solve import orthogonal_factor

Segments = Sequence[slice]

LAGS_PER_CHECK = 32  # between two tests of whether the work was stopped
LARGEST_SAMPLE = 200_000  # points of a histogram of mutual information: more change no digit that is used
LONGEST_DIRECT = 256  # taps of a window that are summed directly; longer ones by transforms, whose import takes 1 s
CENTRES = 4000  # points whose neighbours tell the dimension


@dataclass(frozen=True)
class DelayCurve:
    """Mutual information I(lag) between x(t) and x(t + lag).

    The information is in bits.

    delay: its first minimum in samples; where it only falls (`has_minimum` False), the lag at 1/e of its start.
    """

    lags: NDArray[np.intp]
    information: Array
    delay: int
    has_minimum: bool


@dataclass(frozen=True)
class DimensionCurve:
    """Tests of embedding dimensions 1, 2, …

    false_share: share of nearest neighbours that part when a coordinate is added (Kennel, Brown, Abarbanel 1992).
    saturation: Cao's E1 (levels at 1 once the dimension suffices); randomness: Cao's E2 (1 everywhere for noise).
    """

    dimensions: NDArray[np.intp]
    false_share: Array
    saturation: Array
    randomness: Array
    by_false_neighbours: int
    by_cao: int


def whole_record(values: Array) -> list[slice]:
    return [slice(0, len(values))]


def lagged_rows(segments: Segments, reach: int) -> NDArray[np.intp]:
    """Return rows whose lagged row is available.

    Row i + reach must be in the same segment as row i.
    """
    parts = [np.arange(piece.start, piece.stop - reach) for piece in segments if piece.stop - piece.start > reach]
    return np.concatenate(parts) if parts else np.empty(0, np.intp)


def mutual_information(
    values: Array, longest: int, *, segments: Segments | None = None, bins: int | None = None, angle: bool = False
) -> DelayCurve:
    """Return the mutual information I(lag) of a channel.

    It is I(lag) = Σ p_ab log2(p_ab / (p_a p_b)) for lags 0 … `longest`, in equally filled bins (Fraser, Swinney 1986).

    The finite-sample excess (bins - 1)²/(2 N ln 2) is subtracted. Angles are binned on the circle.
    """
    values = np.asarray(values, float)
    segments = segments or whole_record(values)
    count = len(lagged_rows(segments, longest))
    if count < 50:
        raise DataError(
            f"Mutual information up to lag {longest} needs 50 samples beyond it, there are {count}: shorten the lags."
        )
    bins = bins or int(np.clip(round(count ** (1 / 3)), 8, 64))
    labels = _bin_labels(np.mod(values, 2 * np.pi) if angle else values, bins)
    lags = np.arange(longest + 1)
    information = np.empty(longest + 1)
    for lag in lags:  # over the lags, not over samples
        information[lag] = _information(labels, segments, int(lag), bins)
        if lag % LAGS_PER_CHECK == 0:
            checkpoint()
    minimum = first_minimum(information)
    if minimum:
        return DelayCurve(lags, information, minimum, True)
    below = np.flatnonzero(information <= information[0] / np.e)
    return DelayCurve(lags, information, int(below[0]) if below.size else longest, False)


def _bin_labels(values: Array, bins: int) -> NDArray[np.intp]:
    edges = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])
    return np.searchsorted(np.unique(edges), values, side="right")


def _information(labels: NDArray[np.intp], segments: Segments, lag: int, bins: int) -> float:
    now, later = _lagged(labels, segments, lag)
    count = len(now)
    joint = np.bincount(now * bins + later, minlength=bins * bins).reshape(bins, bins) / count
    independent = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
    filled = joint > 0
    raw = float(np.sum(joint[filled] * np.log2(joint[filled] / independent[filled])))
    return raw - (bins - 1) ** 2 / (2 * count * np.log(2))


def _lagged(values: NDArray[np.intp], segments: Segments, lag: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return values and their successors after `lag` samples.

    The values are thinned to about LARGEST_SAMPLE; the successors are in the same segment.
    """
    if len(segments) == 1:
        # Views cost a tenth of rows picked one by one.
        piece = segments[0]
        step = max(1, (piece.stop - lag - piece.start) // LARGEST_SAMPLE)
        return values[piece.start : piece.stop - lag : step], values[piece.start + lag : piece.stop : step]
    rows = lagged_rows(segments, lag)
    rows = rows[:: max(1, len(rows) // LARGEST_SAMPLE)]
    return values[rows], values[rows + lag]


def first_minimum(information: Array) -> int:
    """Return the first minimum of the information.

    The lag is below its neighbours after smoothing over three lags; 0 when the information only falls.
    """
    smooth = np.convolve(information, np.ones(3) / 3, mode="same")
    smooth[0], smooth[-1] = information[0], information[-1]
    # A dip must be deeper than the scatter of the curve to count.
    scatter = 1e-3 * max(float(information[0] - information.min()), 1e-12)
    for lag in range(1, len(smooth) - 3):
        window = max(3, lag // 4)
        around = smooth[max(lag - window, 0) : lag + window + 1]
        if smooth[lag] <= around.min() and around[-1] > smooth[lag] + scatter:
            return lag
    return 0


def forced_delay(curves: Sequence[DelayCurve], samples_per_period: float) -> int:
    """Return the delay of a forced record, in samples.

    It is the first minimum of the channels' summed information, where it comes within a third of the excitation period;
    else a quarter of the period, the delay of a sine.
    """
    total = np.sum([curve.information for curve in curves], axis=0)
    minimum = first_minimum(total)
    quarter = max(1, round(samples_per_period / 4))
    return minimum if 0 < minimum <= samples_per_period / 3 else quarter


def embed(
    values: Array, delay: int, dimension: int, segments: Segments | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """Return delay vectors and the rows they start at.

    The vectors (M, dimension · channels) are x(t), x(t + delay), …; the rows are those of `values` (N, c).
    """
    values = np.asarray(values, float)
    values = values[:, None] if values.ndim == 1 else values
    rows = lagged_rows(segments or whole_record(values), delay * (dimension - 1))
    return np.concatenate([values[rows + k * delay] for k in range(dimension)], axis=1), rows


def embedding_dimension(
    values: Array, delay: int, *, largest: int = 6, theiler: int | None = None, segments: Segments | None = None,
    angle: bool = False,
) -> DimensionCurve:  # fmt: skip
    """Estimate the smallest embedding dimension by two tests.

    Near points must be true neighbours in that dimension. Both tests use the same nearest neighbours.

    False neighbours: the new coordinate parts them by more than 15 distances, or by more than two attractor sizes.
    Cao (1997): E(d) = mean of |distance in d+1| / |distance in d| (largest coordinate), E1 = E(d+1)/E(d);
    E*(d) = mean |new coordinate difference|, E2 = E*(d+1)/E*(d). Angles enter as points on a circle.
    theiler: samples around a point that may not be its neighbours, by default the delay.
    """
    values = np.asarray(values, float)
    signal = np.column_stack([np.cos(values), np.sin(values)]) if angle else values[:, None]
    segments = segments or whole_record(values)
    theiler = delay if theiler is None else theiler
    usable = lagged_rows(segments, delay * (largest + 1))
    if len(usable) < 100:
        raise DataError(
            f"Testing {largest} dimensions at delay {delay} needs 100 delay vectors, there are {len(usable)}: "
            "shorten the delay or test fewer dimensions."
        )
    usable = usable[:: max(1, len(usable) // LARGEST_SAMPLE)]
    size = float(np.sqrt(np.sum(signal.var(axis=0))))
    # Neighbours that coincide must not divide by zero.
    floor = 1e-9 * size
    dimensions = np.arange(1, largest + 2)
    false, ratio, new = [], [], []
    for dimension in dimensions:
        vectors = np.concatenate([signal[usable + k * delay] for k in range(dimension)], axis=1)
        centre, near, distance = nearest_apart(vectors, usable, theiler)
        step = np.abs(signal[usable[centre] + dimension * delay] - signal[usable[near] + dimension * delay]).max(axis=1)
        apart = np.maximum(distance, floor)
        false.append(np.mean((step / apart > 15.0) | (step > 2.0 * size)))
        ratio.append(np.mean(np.maximum(step, apart) / apart))
        new.append(np.mean(step))
    saturation, randomness = np.array(ratio[1:]) / ratio[:-1], np.array(new[1:]) / np.maximum(new[:-1], floor)
    return DimensionCurve(
        dimensions[:-1], np.array(false[:-1]), saturation, randomness,
        first_below(np.array(false[:-1]), 0.01), first_level(saturation),
    )  # fmt: skip


def nearest_apart(vectors: Array, rows: NDArray[np.intp], theiler: int) -> tuple[Indices, Indices, Array]:
    """Return nearest neighbours that are apart in time.

    They are at least `theiler` samples apart. Returned are positions of centres and neighbours, and distances.

    Distances are the largest coordinate difference. Centres without a neighbour among their nearest 2 theiler/step + 8
    points are left out.
    """
    from scipy.spatial import KDTree

    centre = np.linspace(0, len(vectors) - 1, min(CENTRES, len(vectors))).astype(np.intp)
    spacing = max(1, int(np.median(np.diff(rows)))) if len(rows) > 1 else 1
    # At most 2 theiler / spacing points can be too close in time; a few more leave one that is not.
    count = min(len(vectors), 2 * (theiler // spacing) + 8)
    distance, position = KDTree(vectors, balanced_tree=False, compact_nodes=False).query(
        vectors[centre], k=max(count, 2), p=np.inf, workers=-1
    )
    position, distance = np.asarray(position, np.intp), np.asarray(distance, float)
    apart = np.abs(rows[position] - rows[centre][:, None]) > theiler
    found = apart.any(axis=1)
    first = np.argmax(apart, axis=1)[found]
    which = np.flatnonzero(found)
    return centre[found], position[which, first], distance[which, first]


def first_below(share: Array, limit: float) -> int:
    """Return the first dimension below the limit.

    It is the dimension of the smallest share where no share is below.
    """
    below = np.flatnonzero(share < limit)
    return int(below[0]) + 1 if below.size else int(np.argmin(share)) + 1


def first_level(saturation: Array, within: float = 0.08) -> int:
    """Return the first dimension with a level E1.

    From there on E1 stays within `within` of one.
    """
    level = np.abs(saturation - 1.0) < within
    for start in range(len(level)):
        if level[start:].all():
            return start + 1
    return len(level)


def smoothing_coordinates(values: Array, half_width: int, dimension: int) -> Array:
    """Return projections of a sliding window on polynomials.

    The polynomials are orthonormal: value, slope, curvature, … (N - 2 h, dimension).

    Delay coordinates of a densely sampled channel, with the noise averaged over the window (Gibson et al. 1992). The
    rows belong to samples h … N - h - 1; noise of deviation s per sample becomes s in each coordinate, uncorrelated.
    """
    grid = np.linspace(-1.0, 1.0, 2 * half_width + 1)
    basis, _ = orthogonal_factor(np.vander(grid, dimension, increasing=True))
    return np.column_stack([_slid(values, column[::-1]) for column in basis.T])


def _slid(values: Array, window: Array) -> Array:
    """Convolve with a window, full overlap only."""
    if window.size <= LONGEST_DIRECT:
        return np.convolve(values, window, mode="valid")
    from scipy.signal import oaconvolve

    return oaconvolve(values, window, mode="valid")
