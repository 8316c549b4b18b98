"""Intervals that hold when residuals are correlated and when pieces of a record disagree.

Noise alone gives a covariance V. Two things widen it. Correlated residuals: the scores (pulls on the parameters) of
successive stretches are summed with their own long-run variance, V_s = F⁻¹ S F⁻¹. A model that is a little wrong: each
piece of the record prefers values of its own, θ_p = θ + τ e; then no interval is narrower than τ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.arrays import Array

DISAGREE = 0.01
"""Probability of a larger disagreement by noise alone below which pieces are said to disagree."""

SURELY_CORRELATED = 2.5
"""Standard deviations by which a variance from blocks must exceed that of the noise before it counts."""

PIECES = (8, 6, 4, 3, 2)
"""Into how many pieces a record is cut to see whether they agree: as many as leave each enough readings."""

FEWEST_BLOCKS = 20
"""Blocks from which their scores say something about their variance."""


@dataclass(frozen=True)
class Widening:
    """Factors (k,) on the standard errors of the noise, and the degrees of freedom left (infinite where none is lost).

    correlated: part of it from correlated residuals; spread: (k,) deviation of the parameters between pieces, τ;
    chance: probability that noise alone makes pieces disagree as much; pieces: how many were compared.
    """

    factor: Array
    freedom: float
    correlated: Array
    spread: Array
    chance: float
    pieces: int

    def of(self, covariance: Array) -> Array:
        """The covariance (k, k) of the noise, widened."""
        return covariance * np.outer(self.factor, self.factor)


def long_run(scores: Array) -> tuple[Array, float]:
    """Long-run second moment (k, k) of successive scores (B, k), and how many of them count as independent.

    Bartlett's weights with the bandwidth of D. W. K. Andrews (1991), from the lag-one correlation of each score.
    """
    count = len(scores)
    power = (scores**2).sum(axis=0)
    first = (scores[1:] * scores[:-1]).sum(axis=0) / np.maximum(power, np.finfo(float).tiny)
    first = np.clip(first, -0.97, 0.97)
    strength = np.max(4 * first**2 / ((1 - first) ** 2 * (1 + first) ** 2), initial=0.0)
    reach = int(min(np.ceil(1.1447 * (strength * count) ** (1 / 3)), count // 4))
    total = scores.T @ scores
    for lag in range(1, reach + 1):
        part = (1 - lag / (reach + 1)) * scores[lag:].T @ scores[:-lag]
        total += part + part.T
    return total, count / (1 + 4 * reach / 3)


def pieces_disagree(steps: Array, covariances: Array) -> tuple[Array, float]:
    """Deviation τ (k,) of each parameter between pieces, and the probability of as much by noise alone.

    steps (P, k): estimates of the pieces less a common value, covariances (P, k, k) by noise alone. DerSimonian and
    Laird's moment estimate, parameter by parameter; the smallest probability is corrected for their number.
    """
    free = steps.shape[1]
    spread, chances = np.zeros(free), np.ones(free)
    for i in range(free):
        variance = covariances[:, i, i]
        known = np.isfinite(variance) & (variance > 0) & np.isfinite(steps[:, i])
        if known.sum() < 2:
            continue
        weight, step = 1.0 / variance[known], steps[known, i]
        mean = float(weight @ step / weight.sum())
        excess = float(weight @ (step - mean) ** 2)
        freedom = int(known.sum()) - 1
        chances[i] = float(special.chdtrc(freedom, excess))
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
) -> Widening:
    """What blocks and pieces make of the covariance (k, k) by noise alone.

    scores (B, k): of successive blocks, None where there are too few; steps (P, k), covariances (P, k, k): of pieces;
    white: whether the residuals pass for noise: then blocks must differ from it surely before they count; freedom: of
    the covariance by noise alone; level: mean square of the residuals in units of its noise.
    """
    own = np.clip(np.diag(covariance), 0.0, None)
    usable = own > 0
    correlated = np.full(own.size, 1.0 if white else max(level, 1.0))
    blocks = freedom
    if scores is not None and len(scores) >= FEWEST_BLOCKS and usable.any():
        middle, independent = long_run(scores)
        ratio = np.divide(np.diag(covariance @ middle @ covariance), own, out=np.ones_like(own), where=usable)
        least = 1.0 + SURELY_CORRELATED * np.sqrt(2.0 / independent) if white else 1.0
        correlated = np.where(ratio > least, np.maximum(ratio, correlated), correlated)
        if (correlated > 1).any():
            blocks = min(freedom, max(independent - 1.0, 2.0))
    spread, chance, count = np.zeros(own.size), 1.0, 0
    if steps is not None and covariances is not None and len(steps) > 1:
        count = len(steps)
        # Noise that hangs together makes pieces differ by itself; of a model that is wrong each difference counts.
        spread, chance = pieces_disagree(steps, covariances * (correlated.max(initial=1.0) if white else 1.0))
        spread = spread if chance < DISAGREE else np.zeros_like(spread)
    base = own * correlated
    total = base + spread**2
    factor = np.sqrt(np.divide(total, own, out=np.ones_like(own), where=usable))
    left = np.inf
    if usable.any():
        parts = (base**2 / blocks if np.isfinite(blocks) else 0.0) + spread**4 / max(count - 1, 1)
        known = usable & (parts > 0)
        left = float((total[known] ** 2 / parts[known]).min(initial=np.inf))
    return Widening(factor, left, np.sqrt(correlated), spread, chance, count)
