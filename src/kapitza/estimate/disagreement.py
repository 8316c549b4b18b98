"""Intervals for correlated residuals and pieces that disagree.

Noise alone gives a covariance V. Where residuals are not white, what the model misses (a term, coloured noise) is a
process with a correlation time, and the scatter of the estimate under it is that of the delete-block jackknife: without
block b of P the estimate would be θ_b, and

    var θ = (P - 1)/P Σ (θ_b - mean)²,   P - 1 degrees of freedom.

90 % intervals from it hold 88-93 % for autoregressive noise up to 0.99, at 1.1-1.3 times the width of a known one; sums
of scores with lag weights hold 79-88 %. Pieces of the record that prefer separate values, θ_p = θ + τ e, by more
than the correlation of their scores explains (F⁻¹ S F⁻¹ with the long-run moment S) show a model that is wrong in
another way in each of them: then no interval is narrower than τ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Indices
from kapitza.base.rounded import p_text

DISAGREE, WHITE_DISAGREE = 0.01, 1e-3
"""Probability of a larger disagreement by noise alone below which pieces disagree; the second where residuals are
white. It is as small as that of a misfit, because single pieces determine parameters so badly that a chance
disagreement would widen intervals twenty times (measured: one right model in 100)."""

REPORTED = 2.0
"""Factor on a standard error from which disagreeing pieces are reported."""

UNEXPLAINED = 1.35
"""The same where no misfit is reported. Chosen on 200 joint fits of a right model, and evaluated on 1,000 others: of 14
whose standard errors were more than 1.5 times those of noise, 9 have this warning or that of disagreeing pieces, 4 a
misfit, and 1 none; of the 986 others 2 have the warning."""

SURELY_CORRELATED = 2.5
"""Standard deviations by which a variance from blocks must exceed that of the noise before it counts."""

PIECES = (8, 6, 4, 3, 2)
"""Numbers of pieces into which a record is cut to test whether they agree; the first that leaves each enough samples is
taken."""

DELETED, FEW_DELETED, MANY_READINGS = 12, 8, 400
"""Blocks of the jackknife, and fewer below MANY_READINGS samples. Intervals from 16 blocks cover 2 % less at strong
correlation; those from 8 are wider."""

RUNS = 4
"""Number of recordings from which each recording is a block: they show how the parameters scatter between motions."""

COLOURED = 8.0
"""Residuals beyond the noise, in units of its white part, up to which they may be coloured noise; autoregressive noise
of 0.99 has 7. Larger residuals come from the model: releases of one pendulum that miss by 20 and more differ by far
more than blocks of one release."""

FEWEST_BLOCKS = 20
"""Fewest blocks whose scores determine their variance."""


PREFER, DIFFER = "pieces of the data prefer different values", "parts of the data differ"


def of_widening(text: str) -> bool:
    """Return whether a warning is of widened intervals."""
    return PREFER in text or DIFFER in text


@dataclass(frozen=True)
class Widening:
    """Widening factors (k,) of standard errors.

    factor: on the standard errors by noise alone; freedom: degrees of freedom left, infinite where none is lost.
    correlated: part of the factor from correlated residuals; spread: (k,) deviation of the parameters between pieces,
    τ; chance: probability that noise alone makes pieces disagree as much; pieces: how many were compared.
    """

    factor: Array
    freedom: float
    correlated: Array
    spread: Array
    chance: float
    pieces: int

    def warnings(self, explained: bool = True) -> Iterator[str]:
        """Yield a warning where disagreeing parts widen the intervals.

        The warning is given from a factor of REPORTED on the standard errors, or of UNEXPLAINED where no misfit is
        reported (explained False).
        """
        if self.spread.any() and self.factor.max() >= REPORTED:
            yield (
                f"{self.pieces} {PREFER} ({p_text(self.chance, 1)}): the intervals are "
                f"up to {self.factor.max():.2g} times as wide as noise alone makes them. The model or the rig changes "
                "along the record."
            )
        elif not explained and self.factor.max() >= UNEXPLAINED:
            yield (
                f"the intervals are up to {self.factor.max():.2g} times as wide as noise alone makes them, because "
                f"{DIFFER} by a little more than noise, too little for a misfit. Of right models 1 in "
                "100 does so by chance; more data show which it is."
            )

    def of(self, covariance: Array) -> Array:
        """Return the covariance (k, k) of the noise, widened."""
        return covariance * np.outer(self.factor, self.factor)


@dataclass(frozen=True)
class Deleted:
    """Steps (P, k) of the delete-block jackknife.

    One row per block: the step that the estimate takes without it. noise_alone: True where coloured noise may explain
    all residuals of one recording; pieces then differ by its correlation alone.
    """

    steps: Array
    noise_alone: bool


def long_run(scores: Array) -> tuple[Array, float]:
    """Return the long-run second moment of successive scores.

    scores (B, k); S (k, k) = Σ_lag w(lag) Σ_b s_b s_{b+lag}ᵀ with Bartlett's weights and the bandwidth of D. W. K.
    Andrews (1991), from the lag-one correlation of each score. The second value is the number of scores that count as
    independent.
    """
    count = len(scores)
    power = (scores**2).sum(axis=0)
    first = (scores[1:] * scores[:-1]).sum(axis=0) / np.maximum(power, np.finfo(float).tiny)
    # Andrews' formula diverges for a unit root.
    first = np.clip(first, -0.97, 0.97)
    # α(1) of Andrews for an autoregression of first order; the most correlated parameter decides.
    strength = np.max(4 * first**2 / ((1 - first) ** 2 * (1 + first) ** 2), initial=0.0)
    # Andrews' bandwidth for Bartlett's kernel: 1.1447 (α N)^(1/3).
    reach = int(min(np.ceil(1.1447 * (strength * count) ** (1 / 3)), count // 4))
    total = scores.T @ scores
    for lag in range(1, reach + 1):
        part = (1 - lag / (reach + 1)) * scores[lag:].T @ scores[:-lag]
        total += part + part.T
    return total, count / (1 + 4 * reach / 3)


def jackknife(steps: Array) -> Array:
    """Return the delete-block jackknife variances (k,).

    steps (P, k): of the estimate when each of P blocks is left out; see the head of this module.
    """
    return (len(steps) - 1) / len(steps) * ((steps - steps.mean(axis=0)) ** 2).sum(axis=0)


def block_edges(count: int, readings: int) -> Indices:
    """Return the edges (P + 1,) of successive blocks.

    count: nodes, rows or groups to divide; P is at most half of them.
    """
    # The jackknife needs blocks that are longer than the correlation between neighbours.
    blocks = min(DELETED if readings >= MANY_READINGS else FEW_DELETED, count // 2)
    return np.linspace(0, count, blocks + 1).astype(np.intp)


def trend_chance(steps: Array, covariances: Array) -> float:
    """Return the p-value of a trend along the pieces.

    The null hypothesis is a stationary process. steps (P, k), covariances (P, k, k) as in `pieces_disagree`. A straight
    line is fitted to the P values of each parameter and compared with their scatter about it, whatever its cause; 0
    below five pieces. A decaying motion passes through amplitudes at which a wrong law has other best values; noise,
    even coloured, has no trend.
    """
    pieces, free = steps.shape
    # A line through fewer points leaves too few degrees of freedom for its scatter.
    if pieces < 5:
        return 0.0
    place, chances = np.arange(pieces) - (pieces - 1) / 2, [1.0]
    for i in range(free):
        # Pieces that determine the parameter better count more.
        weight = 1.0 / np.sqrt(np.clip(covariances[:, i, i], np.finfo(float).tiny, None))
        columns = np.stack([np.ones(pieces), place], axis=1) * weight[:, None]
        value, inverse = steps[:, i] * weight, np.linalg.pinv(columns.T @ columns)
        line = inverse @ columns.T @ value
        scatter = float(((value - columns @ line) ** 2).sum()) / (pieces - 2)
        size = abs(line[1]) / max(np.sqrt(inverse[1, 1] * scatter), np.finfo(float).tiny)
        chances.append(2.0 * float(special.stdtr(pieces - 2, -size)))
    # Bonferroni's correction: the smallest of `free` probabilities.
    return min(1.0, min(chances) * free)


def pieces_disagree(steps: Array, covariances: Array) -> tuple[Array, float]:
    """Return the deviation τ (k,) of parameters between pieces.

    The second value is the probability of as much by noise alone. steps (P, k): estimates of the pieces less a common
    value, covariances (P, k, k) by noise alone. DerSimonian and Laird's moment estimate, parameter by parameter; the
    smallest probability is corrected for their number.
    """
    free = steps.shape[1]
    spread, chances = np.zeros(free), np.ones(free)
    for i in range(free):
        variance = covariances[:, i, i]
        known = np.isfinite(variance) & (variance > 0) & np.isfinite(steps[:, i])
        # One piece alone cannot disagree.
        if known.sum() < 2:
            continue
        weight, step = 1.0 / variance[known], steps[known, i]
        mean = float(weight @ step / weight.sum())
        excess = float(weight @ (step - mean) ** 2)
        freedom = int(known.sum()) - 1
        chances[i] = float(special.chdtrc(freedom, excess))
        # Expected excess per unit of τ² (DerSimonian and Laird).
        room = float(weight.sum() - (weight**2).sum() / weight.sum())
        spread[i] = np.sqrt(max(excess - freedom, 0.0) / room)
    return spread, float(min(1.0, chances.min(initial=1.0) * free))


def widening(
    covariance: Array,
    scores: Array | None,
    steps: Array | None,
    covariances: Array | None,
    white: bool,
    freedom: float,
    level: float = 1.0,
    deleted: Deleted | None = None,
) -> Widening:
    """Return the widening of a covariance (k, k).

    covariance: by noise alone. scores (B, k): of successive blocks, None where there are too few; steps (P, k),
    covariances (P, k, k): of pieces; white: whether the residuals pass for white noise: then blocks must differ from it
    significantly before they count; freedom: of the covariance by noise alone; level: mean square of the residuals in
    units of its noise; deleted: the estimate without each of several blocks, which decides where the residuals are not
    white.
    """
    own = np.clip(np.diag(covariance), 0.0, None)
    usable = own > 0
    # Residuals that are not white count at least with their own size.
    least = np.full(own.size, 1.0 if white else max(level, 1.0))
    correlated, blocks = least, freedom
    if scores is not None and len(scores) >= FEWEST_BLOCKS and usable.any():
        middle, independent = long_run(scores)
        ratio = np.divide(np.diag(covariance @ middle @ covariance), own, out=np.ones_like(own), where=usable)
        # A variance from n independent scores has the relative error √(2/n).
        beyond = 1.0 + SURELY_CORRELATED * np.sqrt(2.0 / independent) if white else 1.0
        correlated = np.where(ratio > beyond, np.maximum(ratio, correlated), correlated)
        if (correlated > 1).any():
            blocks = min(freedom, max(independent - 1.0, 2.0))
    spread, chance, count = np.zeros(own.size), 1.0, 0
    if steps is not None and covariances is not None and len(steps) > 1:
        count = len(steps)
        # Correlated noise alone makes pieces differ, so their covariances are scaled by it. With a wrong model every
        # difference counts.
        stationary = deleted is not None and deleted.noise_alone and trend_chance(steps, covariances) >= DISAGREE
        scale = correlated if stationary and not white else np.full(own.size, correlated.max() if white else 1.0)
        spread, chance = pieces_disagree(steps, covariances * np.sqrt(np.outer(scale, scale)))
        spread = spread if chance < (WHITE_DISAGREE if white else DISAGREE) else np.zeros_like(spread)
    if deleted is not None and not white:
        ratio = np.divide(jackknife(deleted.steps), own, out=np.ones_like(own), where=usable)
        # The jackknife replaces the sum of lagged scores, which covers less (see the head of this module).
        correlated, blocks = np.maximum(ratio, least), min(freedom, len(deleted.steps) - 1.0)
    # Independent contributions add: correlated noise, and the spread between pieces.
    base = own * correlated
    total = base + spread**2
    factor = np.sqrt(np.divide(total, own, out=np.ones_like(own), where=usable))
    left = np.inf
    # Welch and Satterthwaite: degrees of freedom of a sum of two estimated variances.
    if usable.any():
        parts = (base**2 / blocks if np.isfinite(blocks) else 0.0) + spread**4 / max(count - 1, 1)
        known = usable & (parts > 0)
        left = float((total[known] ** 2 / parts[known]).min(initial=np.inf))
    return Widening(factor, left, np.sqrt(correlated), spread, chance, count)
