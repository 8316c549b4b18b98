"""Spikes, dropouts and saturation, found without a model.

A sample is compared with the interpolation from both sides of it,

    e_i = x_i - Σ_k w_k x_{i+k},   k = ±1 … ±m,

w the weights of a least-squares polynomial without the sample itself. A large e_i alone is not a fault: impacts,
stick-slip and relaxation have them too. Without a spike the rest is smooth, and neither side alone leads to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.signal.filters import MEDIAN_TO_DEVIATION

FEWEST = 40
"""Samples of the shortest stretch that is searched: fewer do not show their own scale."""

PIECE = 1 << 16
"""Numbers that are tested at once: temporary arrays of 10^7 would take most of the memory."""

FEWEST_LEVELS = 8
"""Different values of a channel that are not rounded, at least."""

CANDIDATE, OFFSET, SMOOTH = 8.0, 4.8, 4.0
"""In robust deviations of e: limit of a candidate, least offset of a spike, limit of smoothness."""

RESTORED = 6.0
"""Roughness around a spike may also be this many times less than the spike."""

LONGEST = 2
"""Samples of the longest spike; longer faults must be exactly constant. Motions have pulses of three."""

MOST = 0.06
"""Share of samples from which "spikes" are the motion itself."""

ROUNDS = 8
"""Searches at most: spikes close to larger ones show when those are gone."""

NEAR, REACH, FILL, APART = 4, 5, 3, 3
"""Samples: around a spike that must be smooth; of the widest stencil; that fill a run; between spikes, at least."""

STAND_OUT, MISSED = 2.0, 0.15
"""A spike is this many times the largest residual; share of spikes that may be missed."""

PAIRS = 0.2
"""Spikes of two samples per spike of one up to which they are faults."""

SCALE_SAMPLES = 5000
"""Samples on which the stencil is chosen."""

STENCILS = ((1, 1), (2, 1), (2, 3), (3, 3), (3, 5), (5, 3), (5, 5))
"""Neighbours on either side, and degree of the polynomial through them."""

ALIKE = 1.3
"""Ratio of the noise by the stencils of degree 3 and 5 through three neighbours up to which it is noise."""

SIDES = ((2, 1), (3, 1), (3, 2), (5, 1), (5, 2), (4, 3), (7, 3))
"""Neighbours on one side, and degree, of extrapolations."""


@dataclass(frozen=True)
class BadSamples:
    """Bad samples (N,) of a channel by kind.

    spikes: at most two samples; dropouts: longer runs of one value, also held ones; saturated: runs of one value at
    an end of the range. filled: (N,) the samples with polynomials across the bad ones.
    """

    spikes: Flags
    dropouts: Flags
    saturated: Flags
    filled: Array

    @property
    def kinds(self) -> tuple[Flags, ...]:
        """Flags in the order of MARKED."""
        return self.spikes, self.dropouts, self.saturated

    @property
    def lost(self) -> Flags:
        """Flags of samples of any kind."""
        return np.any(self.kinds, axis=0)


def bad_samples(values: Array) -> BadSamples:
    """Find the bad samples of one evenly sampled stretch.

    values: (N,), angles continuous.
    """
    values = np.asarray(values, float)
    none = np.zeros(values.size, bool)
    if values.size < FEWEST or not np.ptp(values) > 0:
        return BadSamples(none, none, none, values)
    first, last = _moving_part(values)
    if last - first < values.size:
        return _with_stuck_ends(values, first, last)
    step = _grid(values)
    weights, scale, noise = _stencil(values, step)
    if not scale > 0:
        return BadSamples(none, none, none, values)
    dropouts, saturated = _constant_runs(values, noise, scale, step)
    lost = dropouts | saturated
    spikes, filled = _spikes(_bridged(values, lost) if lost.any() else values, lost, weights, scale)
    return BadSamples(spikes, dropouts, saturated, filled)


def _moving_part(values: Array) -> tuple[int, int]:
    """Return the part between long runs of one value at the ends."""
    changes = np.flatnonzero(np.diff(values))
    first, last = int(changes[0]) + 1, int(changes[-1]) + 1
    first = first if first >= HELD_END else 0
    last = last if values.size - last >= HELD_END else values.size
    return (first, last) if last - first >= FEWEST else (0, values.size)


def _with_stuck_ends(values: Array, first: int, last: int) -> BadSamples:
    """Find bad samples where an end of the stretch has one value.

    The end is a dropout where the rest shows noise that is hardly rounded: a system at rest would show it too.
    """
    inner = bad_samples(values[first:last])
    step = _grid(values[first:last])
    _, scale, noise = _stencil(values[first:last], step)
    stuck = np.ones(values.size, bool)
    stuck[first:last] = False
    if not (noise and scale > 0 and step <= FINE * scale):
        stuck[:] = False
    around = (first, values.size - last)
    spikes, dropouts, saturated = (np.pad(f, around) for f in (inner.spikes, inner.dropouts, inner.saturated))
    filled = values.copy()
    filled[first:last] = inner.filled
    return BadSamples(spikes, dropouts | stuck, saturated, filled)


def _grid(values: Array) -> float:
    """Return the step of the grid of rounding.

    Fine grids are found too; 0 for none.
    """
    levels = np.sort(values)
    least = 1e-9 * max(abs(levels[0]), abs(levels[-1]))
    steps = np.diff(levels)
    del levels
    # Equal samples have no step: the levels need not be made unique first.
    steps = steps[steps > least]
    if steps.size < FEWEST_LEVELS:
        return float(steps.min(initial=0.0))
    step = float(steps.min())
    # Piece by piece: where there is no grid the first piece shows it.
    counts = (steps[at : at + PIECE] / step for at in range(0, steps.size, PIECE))
    return step if all(np.abs(count - np.round(count)).max() < 0.05 for count in counts) else 0.0


@lru_cache(maxsize=64)
def _weights(at: tuple[int, ...], to: tuple[int, ...], degree: int) -> Array:
    """Return weights of a least-squares polynomial.

    The weights (len(to), len(at)) belong to the polynomial through `at` evaluated at `to`.
    """
    # Positions are scaled to ±1: powers of larger ones would be badly conditioned.
    size = float(max(map(abs, (*at, *to))))
    powers = np.arange(degree + 1)
    return (np.array(to)[:, None] / size) ** powers @ np.linalg.pinv((np.array(at)[:, None] / size) ** powers)


def _rough(values: Array, weights: Array) -> Array:
    """Return e along the last axis.

    It is 0 where the stencil does not fit.
    """
    half = weights.size // 2
    made = np.zeros(values.shape)
    inside = made[..., half : values.shape[-1] - half]
    if values.ndim == 1:
        for at in range(0, inside.size, PIECE):
            some = values[at : at + PIECE + 2 * half]
            np.negative(np.correlate(some, weights, "valid"), out=inside[at : at + PIECE])
        return made
    windows = np.lib.stride_tricks.sliding_window_view(values, 2 * half + 1, axis=-1)
    np.negative(windows @ weights, out=inside)
    return np.nan_to_num(made)


def _stencil(values: Array, step: float) -> tuple[Array, float, bool]:
    """Choose the stencil with the least scatter of e.

    Returns its weights, that scatter, and whether it is noise.
    """
    # A block in the middle would miss changes along the record: take several.
    blocks = [values] if values.size <= SCALE_SAMPLES else np.array_split(values, values.size // 1000)
    chosen = blocks[:: max(1, len(blocks) * 1000 // SCALE_SAMPLES)] if len(blocks) > 1 else blocks
    best, least, levels = np.zeros(3), np.inf, []
    for half, degree in STENCILS:
        around = tuple(k for k in range(-half, half + 1) if k)
        inner = _weights(around, (0,), degree)[0]
        whole = np.concatenate([inner[:half], [-1.0], inner[half:]])
        left = np.concatenate([np.correlate(block, whole, "valid") for block in chosen])
        scatter = float(np.median(np.abs(left))) * MEDIAN_TO_DEVIATION
        levels.append(scatter / float(np.linalg.norm(whole)))
        if scatter < least:
            best, least = whole, scatter
    # White noise is as large by every stencil that follows the motion, motion is not.
    noise = max(levels[3:5]) < ALIKE * min(levels[3:5])
    return best, max(least, step / 3.0), noise


def _side(values: Array) -> tuple[int, Array]:
    """Return how the next sample is predicted best.

    The result is the number of samples before it and their weights.
    """
    some = values[: 4 * SCALE_SAMPLES]
    best, found = np.inf, (2, np.array([-1.0, 2.0]))
    for count, degree in SIDES:
        weights = _weights(tuple(range(-count, 0)), (0,), degree)[0]
        ahead = np.lib.stride_tricks.sliding_window_view(some[:-1], count) @ weights
        scatter = float(np.median(np.abs(some[count:] - ahead)))
        if scatter < best:
            best, found = scatter, (count, weights)
    return found


def _spikes(values: Array, lost: Flags, weights: Array, scale: float) -> tuple[Flags, Array]:
    """Find spikes (N,) of at most two samples.

    Also returned are the values without them.
    """
    clean, spikes = values, np.zeros(values.size, bool)
    peaks = _peaks(values, weights, scale)
    if not peaks.size:
        return spikes, values
    side = _side(values)
    for _ in range(ROUNDS):
        peaks = peaks[~lost[peaks] & ~spikes[peaks]]
        taken = _take_off(clean, peaks, weights, scale, side) if peaks.size else spikes & False
        if not taken.any():
            break
        spikes |= taken
        clean = _bridged(values, spikes)
        peaks = _peaks(clean, weights, scale)
    # A motion with sharp events, or noise with long tails: a value little larger than those may be one of them.
    at = np.flatnonzero(spikes)
    offsets, rough = np.abs(values[at] - clean[at]), _roughness(clean, weights)
    # Of 10^7 samples each of these arrays takes 80 MB.
    del clean
    left = np.sort(rough[_highest(rough, np.flatnonzero(~(spikes | lost)))])[::-1]
    del rough
    stand_out = offsets > STAND_OUT * left[min(int(MISSED * at.size), left.size - 1)]
    spikes[at[~stand_out]] = False
    clean = _bridged(values, spikes)
    return (spikes & False, values) if spikes.mean() > MOST else (spikes, clean)


def _take_off(values: Array, peaks: Indices, weights: Array, scale: float, side: tuple[int, Array]) -> Flags:
    """Return which candidates are spikes, (N,).

    Each candidate is tested in its window, with the other candidates removed.
    """
    from scipy.ndimage import maximum_filter1d

    out = np.zeros(values.size, bool)
    out[peaks] = True
    # Two spikes within a stencil hide each other: the second one shows when the first is bridged.
    further = _peaks(_bridged(values, out), weights, scale)
    alone = np.asarray(maximum_filter1d(out, 2 * APART - 1), bool)
    peaks = np.union1d(peaks, further[~alone[further]])
    out[peaks] = True
    margin = REACH + NEAR + 2 * LONGEST + side[0]
    places = peaks[:, None] + np.arange(-margin, margin + 1)
    windows = _bridged(values, out)[np.clip(places, 0, values.size - 1)]
    windows[(places < 0) | (places >= values.size)] = np.nan
    windows[:, margin] = values[peaks]
    found = np.zeros(values.size, bool)
    single = _is_spike(windows, margin, 1, weights, scale, side)
    found[peaks[single]] = True
    rows = np.flatnonzero(~single)
    pairs = 0
    double = found.copy()
    for start in (-1, 0):
        good = _is_spike(windows[rows], margin + start, 2, weights, scale, side)
        double[peaks[rows[good]] + start] = double[peaks[rows[good]] + start + 1] = True
        pairs, rows = pairs + int(good.sum()), rows[~good]
    # Pulses of the motion, coarsely sampled, are two samples wide again and again; faults seldom are.
    return double if pairs <= max(1, PAIRS * single.sum()) else found


def _peaks(values: Array, weights: Array, scale: float) -> Indices:
    """Return the candidates.

    There |e| is large, and the largest around.
    """
    rough = _roughness(values, weights)
    return _highest(rough, np.flatnonzero(rough > CANDIDATE * scale))


def _roughness(values: Array, weights: Array) -> Array:
    """Return |e|, with one array of temporary memory: there may be 10^7 samples."""
    rough = _rough(values, weights)
    return np.abs(rough, out=rough)


def _highest(values: Array, at: Indices) -> Indices:
    """Return the positions, of those given, with the largest value within NEAR samples."""
    pieces = []
    for begin in range(0, at.size, PIECE):
        some = at[begin : begin + PIECE]
        for beside in (side for distance in range(1, NEAR + 1) for side in (-distance, distance)):
            some = some[values[some] >= values[np.clip(some + beside, 0, values.size - 1)]]
        pieces.append(some)
    return np.concatenate(pieces) if pieces else at


def _is_spike(windows: Array, first: int, length: int, weights: Array, scale: float, side: tuple[int, Array]) -> Flags:
    """Return whether a run of samples is a spike.

    The run has `length` samples from column `first` of each window (M, W).
    """
    stop = first + length
    near = (*range(-FILL, 0), *range(length, length + FILL))
    fill = windows[:, [first + k for k in near]] @ _weights(near, tuple(range(length)), 3).T
    offset = windows[:, first:stop] - fill
    filled = windows.copy()
    filled[:, first:stop] = fill
    rough = np.abs(_rough(filled, weights)[:, first - NEAR : stop + NEAR]).max(axis=1)
    ends = np.abs(offset[:, [0, -1]])
    smooth = (rough < SMOOTH * scale) | (rough < np.abs(offset).max(axis=1) / RESTORED)
    count, ahead = side
    left = windows[:, first] - windows[:, first - count : first] @ ahead
    right = windows[:, stop - 1] - windows[:, stop : stop + count][:, ::-1] @ ahead
    # At a jump or a corner one of the sides leads to the sample; at a spike neither does.
    alone = (left * np.sign(offset[:, 0]) > ends[:, 0] / 2) & (right * np.sign(offset[:, -1]) > ends[:, 1] / 2)
    return np.asarray(smooth & (ends > OFFSET * scale).all(axis=1) & alone & np.isfinite(fill).all(axis=1))


def _bridged(values: Array, lost: Flags) -> Array:
    """Fill each lost run by a cubic.

    The cubic goes through three good samples on either side.
    """
    made = values.copy()
    bad = np.flatnonzero(lost)
    good = values.size - bad.size
    if good < 2 * FILL or not bad.size:
        return made
    # Good samples before each bad one. The k-th good sample is at k plus the bad ones before it: no list of all good
    # samples is made.
    before = bad - np.arange(bad.size)
    place = np.clip(before, FILL, good - FILL)
    index = place[:, None] + np.arange(-FILL, FILL)
    index += np.searchsorted(before, index, "right")
    at = (index - bad[:, None]).astype(float)
    # Scaled to ±1 for the condition of the powers.
    size = np.abs(at).max(axis=1, keepdims=True)
    powers = (at / size)[..., None] ** np.arange(4)
    # The polynomial at 0 is its first coefficient.
    made[bad] = np.einsum("ij,ij->i", np.linalg.pinv(powers)[:, 0], values[index])
    return made


SHORTEST_RUN, LONGEST_RUN, OUTSIDE = 3, 20, 4
"""Equal samples of the shortest dropout; of the longest one on a grid; samples around that must lead across it."""

FEWEST_TIES = 5
"""Samples at an end of the range of a channel that saturates, at least."""

FINE = 3e-3
"""Step of a grid over the noise up to which three equal samples in a row have a chance below 1e-5 each."""

HELD, HELD_END = 8, 50
"""Equal samples in a row, within and at an end of a stretch, that noise which is hardly rounded does not give."""

FEW_HELD = 0.1
"""Share of held samples up to which they are faults: a channel that is often constant is so by its nature."""

ACROSS, PILED = 5.0, 4.0
"""Times the scatter by which a run misses the cubic across it; times as many samples at an end as on a level near."""


def _constant_runs(values: Array, noise: bool, scale: float, step: float) -> tuple[Flags, Flags]:
    """Find dropouts and saturation (N,).

    They are runs of exactly equal samples that the samples around lead past.

    Noise that is hardly rounded has no ties; rounded samples are equal by themselves where the motion is slow, and
    encoders at turning points. So a dropout either jumps at both ends in the same direction, to zero or to an end of
    the range, or (where noise is not rounded) is a value held in passing.
    """
    none = np.zeros(values.size, bool)
    if not (values[1:] == values[:-1]).any():
        return none, none
    runs = _Runs.of(values)
    extreme = (runs.level == values.max()) | (runs.level == values.min())
    size = max(scale, step)
    past = runs.miss > ACROSS * np.maximum(runs.scatter, size)
    jumps = (np.abs(runs.ends) > CANDIDATE * np.maximum(runs.steps, size)[:, None]).all(axis=1)
    turns = runs.ends[:, 0] * runs.ends[:, 1] > 0
    dropped = jumps & turns & (extreme | (runs.level == 0.0)) & (runs.length <= LONGEST_RUN)
    untied = noise and step <= FINE * scale
    if untied:
        dropped |= ~turns | (runs.level == 0.0)
    # Whatever leads past it: a long run of ties in such noise is a held value. An encoder with hysteresis repeats its
    # value where the motion turns, but does not jump there.
    held = untied & (runs.length >= HELD) & ~extreme & (~turns | jumps)
    edge = _held_near_ends(values, size) if untied else none
    few = int(runs.length[held].sum() + edge.sum()) <= FEW_HELD * values.size
    held, edge = held & few, edge & few
    # The samples come to the end of the range and leave it at speed.
    fast = (runs.speed > 2 * size) & (runs.speed > 0.6 * runs.steps)
    clipped = extreme & turns & ~jumps & fast & past
    saturated = np.zeros(values.size, bool)
    for end, sign in ((values.max(), 1), (values.min(), -1)):
        at = values == end
        here = clipped & (runs.level == end)
        begun = at & ~np.concatenate([[False], at[:-1]])
        # One long visit at speed is enough where noise is hardly rounded; encoders repeat their value where they turn.
        once = untied and runs.length[here].max(initial=0) >= HELD
        if begun.sum() < (1 if once else 2) or at.sum() < FEWEST_TIES or not _piled(values, size, sign):
            continue
        saturated |= at & (untied or here.any())
    return (runs.marked((held | (past & dropped)) & ~clipped) | edge) & ~saturated, saturated


def _held_near_ends(values: Array, size: float) -> Flags:
    """Return samples (N,) of held values near an end.

    Too few samples lie beyond them for a cubic across; on the other side the record must jump.
    """
    edges = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1, [values.size]])
    held, low, high = np.zeros(values.size, bool), values.min(), values.max()
    for run in np.flatnonzero(np.diff(edges) >= HELD):
        start, stop = int(edges[run]), int(edges[run + 1])
        early, late = start < OUTSIDE, stop > values.size - OUTSIDE
        if early == late or not low < values[start] < high:
            continue
        inner = values[stop : stop + OUTSIDE] if early else values[start - OUTSIDE : start][::-1]
        held[start:stop] = abs(inner[0] - values[start]) > CANDIDATE * max(np.abs(np.diff(inner)).max(), size)
    return held


def _piled(values: Array, size: float, end: int) -> bool:
    """Return whether samples pile up at an end.

    More samples are at that end of the range than a turning motion puts there.
    """
    level = np.ceil((values.max() - values if end > 0 else values - values.min()) / size - 1e-6)
    counts = np.bincount(level[level <= OUTSIDE].astype(int), minlength=OUTSIDE + 1)
    return bool(counts[0] > PILED * max(counts[1:].max(), 1))


@dataclass(frozen=True)
class _Runs:
    """Runs (M,) of equal samples.

    They have enough samples around them.

    miss: from the run to the cubic through the samples around; scatter: of these about it; steps: the largest between
    them; ends: (M, 2) from the samples beside the run to it; speed: the smaller of the last steps towards the run.
    """

    start: Indices
    stop: Indices
    size: int
    level: Array
    miss: Array
    scatter: Array
    steps: Array
    ends: Array
    speed: Array

    @classmethod
    def of(cls, values: Array) -> _Runs:
        edges = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1, [values.size]])
        start, stop = edges[:-1], edges[1:]
        long = (stop - start >= SHORTEST_RUN) & (start >= OUTSIDE) & (stop <= values.size - OUTSIDE)
        start, stop = start[long], stop[long]
        before, after = np.arange(-OUTSIDE, 0), np.arange(OUTSIDE)
        left, right = values[start[:, None] + before], values[stop[:, None] + after]
        length = (stop - start)[:, None].astype(float)
        place = np.concatenate([before - (length - 1) / 2, after + (length + 1) / 2], axis=1)
        powers = (place / np.abs(place).max(axis=1, keepdims=True))[..., None] ** np.arange(4)
        outside, level = np.concatenate([left, right], axis=1), values[start]
        cubic = np.einsum("mij,mj->mi", np.linalg.pinv(powers), outside)
        about = np.einsum("mij,mj->mi", powers, cubic) - outside
        steps = np.abs(np.concatenate([np.diff(left), np.diff(right)], axis=1))
        return cls(
            start, stop, values.size, level, np.abs(cubic[:, 0] - level),
            np.sqrt((about**2).sum(axis=1) / (2 * OUTSIDE - 4)), steps.max(axis=1),
            np.column_stack([level - left[:, -1], level - right[:, 0]]),
            np.minimum(np.abs(left[:, -1] - left[:, -2]), np.abs(right[:, 1] - right[:, 0])),
        )  # fmt: skip

    @property
    def length(self) -> Indices:
        return self.stop - self.start

    def marked(self, chosen: Flags) -> Flags:
        """Return the samples (N,) of the chosen runs."""
        mark = np.zeros(self.size + 1, int)
        np.add.at(mark, self.start[chosen], 1)
        np.add.at(mark, self.stop[chosen], -1)
        return np.asarray(np.cumsum(mark[:-1]) > 0)
