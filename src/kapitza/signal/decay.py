"""Free decays, evaluated half cycle by half cycle.

The results are amplitude, frequency and damping of a vibration that dies out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array

FEWEST = 8
"""Fewest half cycles that are evaluated."""


PRECISE = 0.005
"""Relative error of a frequency, from noise, up to which two cycles are enough for it."""

EXCURSION = 4.0
"""Standard deviations of the noise that a half cycle exceeds: of 100 samples near a crossing one in 300 would."""


@dataclass(frozen=True)
class Decay:
    """Half cycles of a vibration about its rest position.

    time (H,): middle of each [s]; amplitude (H,): largest deviation; frequency (H,) [Hz] of the cycle around it;
    damping (H,): ratio to critical, from the slope of log amplitude over five half cycles.
    """

    time: Array
    amplitude: Array
    frequency: Array
    damping: Array

    @property
    def dies_out(self) -> bool:
        """Return whether the amplitude falls steadily.

        It must fall to less than 80 %, or to 90 % where nearly every half cycle is smaller than the one before.
        """
        from scipy import stats

        order, _ = np.asarray(stats.spearmanr(self.time, self.amplitude))
        left = self.amplitude[-3:].mean() / self.amplitude[:3].mean()
        return bool((order < -0.9 and left < 0.8) or (self.time.size >= 10 and order < -0.98 and left < 0.9))

    def sentence(self, unit: str = "", noise: float = 0.0) -> str:
        """Describe frequency and damping at two amplitudes.

        These are the largest and the smallest amplitude. Each is averaged over as many half cycles K as the noise
        requires: crossings scatter by noise/(2π f A), so the relative error of the frequency is √2 noise/(π A K).
        """
        # Whole cycles: the two halves of one last differently where the force is not symmetric about the rest.
        parts, counts = [], np.arange(4, max(4, self.time.size // 2) + 1, 2)
        for name, turn in (("large", 1), ("small", -1)):
            amplitude, frequency, damping = (v[::turn] for v in (self.amplitude, self.frequency, self.damping))
            error = np.sqrt(2.0) * noise / (np.pi * np.minimum.accumulate(amplitude)[counts - 1] * counts)
            good = np.flatnonzero(error <= PRECISE)
            k = int(counts[good[0]] if good.size else counts[np.argmin(error)])
            rate = k / float(np.sum(1.0 / frequency[:k]))
            size, ratio = float(np.median(amplitude[:k])), float(np.median(damping[:k]))
            parts.append(
                f"{rate:.4g} Hz and {100 * ratio:.2g} % of critical damping at {name} amplitude ({size:.3g} {unit})"
            )
        return "; ".join(parts).replace(" )", ")")


def half_cycles(time: Array, values: Array, rest: float | None = None, noise: float = 0.0) -> Decay | None:
    """Return the half cycles of `values` (N,).

    They are between crossings of the rest position.
    rest: by default the mean under a Hann window, in which whole oscillations cancel.

    Crossings count only after an excursion beyond a twentieth of the largest one that is left, and beyond four standard
    deviations of the noise: noise at the crossing adds none. None where there are fewer than eight half cycles.
    """
    if rest is None:
        weight = np.hanning(values.size + 2)[1:-1]
        rest = float(weight @ values / weight.sum())
    x = values - rest
    crossing = np.flatnonzero(np.signbit(x[1:]) != np.signbit(x[:-1])) + 1
    edges = np.concatenate([[0], crossing, [x.size]])
    if edges.size < FEWEST:
        return None
    peak = np.maximum.reduceat(np.abs(x), edges[:-1])
    ahead = np.maximum.accumulate(peak[::-1])[::-1]
    real = peak > np.maximum(0.05 * ahead, EXCURSION * noise)
    # noise crossings are joined to the half cycle before them: a half cycle begins where a real one of other sign does
    sign = np.sign(np.add.reduceat(x, edges[:-1]))
    starts = np.flatnonzero(real)
    if not starts.size:
        return None
    starts = starts[np.concatenate([[True], np.diff(sign[starts]) != 0])]
    bounds = np.append(edges[starts], x.size)
    if bounds.size < FEWEST + 2:
        return None
    # the first and the last half cycle are cut by the ends of the recording
    begin, end = bounds[1:-2], bounds[2:-1]
    size = np.abs(x[bounds[1] : bounds[-2]])
    amplitude = np.maximum.reduceat(size, begin - bounds[1])
    cycle = np.repeat(np.arange(begin.size), end - begin)
    top = np.flatnonzero(size == amplitude[cycle])
    # The first of several samples at the maximum.
    at = bounds[1] + top[np.flatnonzero(np.diff(cycle[top], prepend=-1))]
    middle = time[at]
    edge = _crossing_times(time, x, bounds[1:-1])
    frequency = 1.0 / _periods(np.diff(edge))
    return Decay(middle, amplitude, frequency, _damping(middle, amplitude, frequency))


def _periods(halves: Array) -> Array:
    """Return the periods (H,) of the cycles around half cycles of durations h (H,).

    P_k = h_{k-1}/2 + h_k + h_{k+1}/2, extrapolated at both ends. A rest position that is off, or a force that is not
    symmetric, makes every second half cycle longer; this cancels in P.
    """
    periods = halves.copy()
    periods[1:-1] += (halves[:-2] + halves[2:]) / 2
    # The line through h_0 + h_1, half a step inside, and P_1.
    periods[0] = 1.5 * halves[0] + halves[1] - 0.5 * halves[2]
    periods[-1] = 1.5 * halves[-1] + halves[-2] - 0.5 * halves[-3]
    return periods


BLOCKS, ABOVE_NOISE = 50, 3.0
"""Blocks of a record whose size is compared with the noise, and how many times larger a motion must be."""


def motion_end(values: Array, noise: float) -> int:
    """Return the number of samples before the motion ends.

    The motion of `values` (N,) has died out into the noise there; N where it has not.

    Block by block from the end, the deviation from the mean of the last block is compared with the noise. Without this
    cut the half cycles of the noise that follows a decay hide it.
    """
    if not noise > 0 or values.size < 4 * BLOCKS:
        return values.size
    size = values.size // BLOCKS
    blocks = values[values.size - size * BLOCKS :].reshape(BLOCKS, size)
    loud = np.sqrt(np.mean((blocks - blocks[-1].mean()) ** 2, axis=1)) > ABOVE_NOISE * noise
    if loud[-1] or not loud.any():
        return values.size
    return values.size - size * (BLOCKS - 1 - int(np.flatnonzero(loud)[-1]))


@dataclass(frozen=True)
class Mode:
    """One mode of a decay.

    It is A exp(-2π f d t) cos(2π f √(1 - d²) t + p).

    frequency: undamped [Hz]; damping: ratio to critical; share: of the energy of the decay.
    """

    frequency: float
    damping: float
    share: float

    def __str__(self) -> str:
        return (
            f"{self.frequency:.4g} Hz and {100 * self.damping:.2g} % of critical damping "
            f"({100 * self.share:.{0 if self.share > 0.1 else 2}{'f' if self.share > 0.1 else 'g'}} % of the energy)"
        )


MOST_MODES, LARGEST_HANKEL = 5, 500
"""Modes that are sought at most; samples of the Hankel matrix, to which longer decays are thinned."""

LEAST_SHARE, EXPLAINED = 0.02, 0.95
"""Share of the energy of a mode that counts, and of all of them together in a decay that is a sum of modes."""

DISTINCT = 1.15
"""Ratio of two frequencies from which they are two modes: that of a nonlinear decay drifts."""


TO_THE_NOISE, CLEAR = 1.15, 25.0
"""Residual over the noise up to which a sum of modes follows a decay, and energy of a mode over that of the noise in as
many samples as it has unknowns, from which it counts."""

BESIDE = 1.01
"""Ratio of two frequencies that a sum of modes may have where it follows the decay to the noise."""


def linear_modes(time: Array, values: Array, noise: float) -> list[Mode]:
    """Return the fewest modes that follow a decay.

    They follow it to the noise. The list is empty where no sum of up to five resolved ones does: the decay is
    nonlinear, or not one. Strongest first; `values` (N,) evenly sampled, noise: standard deviation of a sample. Poles
    as in `decay_modes`, of signal spaces of growing dimension.
    """
    made = _block_means(time, values)
    if made is None or not noise > 0:
        return []
    x, step, every = made
    space = _signal_space(x)
    for count in range(1, MOST_MODES + 1):
        rates, parts, left = _sum_of_modes(x, step, space[:, : 2 * count + 1])
        size = np.sqrt(left / max(x.size - 4 * count - 1, 1))
        if size > TO_THE_NOISE * noise / np.sqrt(every):
            continue
        energy, shares = _energies(x, parts)
        found: list[Mode] = []
        for j in np.argsort(-energy, kind="stable"):
            frequency = float(abs(rates[j])) / (2 * np.pi)
            clear = energy[j] > CLEAR * 4 * noise**2 / every
            if clear and rates[j].real < 0 and all(_beside(frequency, mode.frequency) for mode in found):
                found.append(Mode(frequency, float(-rates[j].real / abs(rates[j])), float(shares[j])))
        # A nonlinear decay drifts within the width of its line, and a sum of strongly damped modes there imitates it.
        resolved = all(_resolved(one, other) for one, other in itertools.combinations(found, 2))
        return found if resolved else []
    return []


def _resolved(one: Mode, other: Mode) -> bool:
    """Return whether two modes are resolved.

    Their frequencies differ by more than their half widths f d.
    """
    return abs(one.frequency - other.frequency) > one.frequency * one.damping + other.frequency * other.damping


def all_decay(modes: Sequence[Mode], duration: float) -> bool:
    """Return whether every mode decays within a time.

    It falls to less than half in `duration` [s].
    """
    return bool(modes) and all(2 * np.pi * m.frequency * m.damping * duration > np.log(2.0) for m in modes)


def close_modes(modes: Sequence[Mode]) -> bool:
    """Return whether two modes are close.

    They are as near as the drift of a nonlinear one.
    """
    pairs = itertools.combinations([mode.frequency for mode in modes], 2)
    return any(max(one / other, other / one) <= DISTINCT for one, other in pairs)


def _beside(frequency: float, stronger: float) -> bool:
    """Return whether a frequency is new.

    It is neither the same as the stronger one nor a harmonic of it.
    """
    ratio = frequency / stronger
    harmonic = abs(ratio - round(ratio)) < 0.05 and 2 <= round(ratio) <= 5
    return not harmonic and max(ratio, 1 / ratio) > BESIDE


def _block_means(time: Array, values: Array) -> tuple[Array, float, int] | None:
    """Return a decay thinned to means of blocks.

    It also returns its step and the length of the blocks.

    Frequencies above half the rate of the blocks are damped by the means, and would alias otherwise.
    """
    every = max(1, int(np.ceil(values.size / LARGEST_HANKEL)))
    count = values.size // every
    if count < 4 * MOST_MODES or np.ptp(values) == 0:
        return None
    x = values[: count * every].reshape(count, every).mean(axis=1)
    return x, float(np.median(np.diff(time))) * every, every


def _signal_space(x: Array) -> Array:
    """Return right singular vectors of the Hankel matrix.

    They are (L, 2 MOST_MODES + 1), strongest first.
    """
    hankel = np.lib.stride_tricks.sliding_window_view(x, x.size // 3)
    return np.linalg.svd(hankel, full_matrices=False)[2][: 2 * MOST_MODES + 1].T  # any sign: its span


def _sum_of_modes(x: Array, step: float, space: Array) -> tuple[NDArray[np.complex128], Array, float]:
    """Fit x_i = Σ c z^i to a decay.

    It has as many poles z as the space (L, K) has columns.

    Returns the rates log z/step (M,) of positive frequency, their parts of x (N, M), and the sum of squared residuals.
    """
    count = x.size
    poles = np.linalg.eigvals(np.linalg.lstsq(space[:-1], space[1:], rcond=None)[0])  # any sign: a sum over all
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = (np.log(poles) / step).astype(np.complex128)
    rates = rates[np.isfinite(rates) & (rates.real < 1.0 / (step * count))]
    powers = np.exp(np.outer(np.arange(count) * step, rates))
    weights = np.linalg.lstsq(powers, x.astype(complex), rcond=None)[0]
    left = float((np.abs(x - (powers @ weights).real) ** 2).sum())
    above = np.flatnonzero(rates.imag > 0)
    return rates[above], 2 * (powers[:, above] * weights[above]).real, left


def _energies(x: Array, parts: Array) -> tuple[Array, Array]:
    """Return the energies (M,) of parts (N, M) of a decay, and their shares.

    Parts of nearly one frequency cancel in part, and have more energy than their sum: shares are of the sum of energies
    then, so that none exceeds 1.
    """
    energy = (parts**2).sum(axis=0)
    return energy, energy / max(float(((x - x.mean()) ** 2).sum()), float(energy.sum()), 1e-300)


def decay_modes(time: Array, values: Array) -> list[Mode]:
    """Return the modes of a free decay, strongest first.

    The decay (N,) is evenly sampled; the list is empty where it is not a sum of modes.

    Poles z of x_i = Σ c z^i from the shift of the signal space of a Hankel matrix (R. Roy, T. Kailath, ESPRIT, 1989).
    Multiples of a stronger frequency are harmonics of a nonlinear motion, not modes.
    """
    made = _block_means(time, values)
    if made is None:
        return []
    x, step, _ = made
    rates, parts, left = _sum_of_modes(x, step, _signal_space(x))
    total = float(((x - x.mean()) ** 2).sum())
    if left > (1 - EXPLAINED) * total:
        return []
    found: list[Mode] = []
    shares = _energies(x, parts)[1]
    for j in np.argsort(-shares, kind="stable"):
        rate, share = rates[j], float(shares[j])
        frequency = float(abs(rate)) / (2 * np.pi)
        if share >= LEAST_SHARE and rate.real < 0 and all(_apart(frequency, mode.frequency) for mode in found):
            found.append(Mode(frequency, float(-rate.real / abs(rate)), share))
    return found


def _apart(frequency: float, stronger: float) -> bool:
    """Return whether a frequency belongs to another mode.

    It is neither a drift nor a harmonic of a stronger one.
    """
    ratio = frequency / stronger
    harmonic = abs(ratio - round(ratio)) < 0.05 and 2 <= round(ratio) <= 5
    return not harmonic and max(ratio, 1 / ratio) > DISTINCT


def _crossing_times(time: Array, x: Array, index: NDArray[np.intp]) -> Array:
    """Interpolate the times of crossings before these samples."""
    before, after = x[index - 1], x[index]
    share = np.where(after != before, before / np.where(after != before, before - after, 1.0), 0.0)
    return time[index - 1] + np.clip(share, 0.0, 1.0) * (time[index] - time[index - 1])


def _damping(time: Array, amplitude: Array, frequency: Array, width: int = 5) -> Array:
    """Return the damping ratios of the half cycles.

    They are -d log A/dt over 2π f, the slope by least squares over `width` neighbouring half cycles.
    """
    width = min(width, time.size)
    first = np.clip(np.arange(time.size) - width // 2, 0, time.size - width)
    rows = first[:, None] + np.arange(width)
    t = time[rows] - time[rows].mean(axis=1, keepdims=True)
    slope = (t * np.log(np.maximum(amplitude[rows], 1e-300))).sum(axis=1) / (t**2).sum(axis=1)
    return -slope / (2 * np.pi * frequency)
