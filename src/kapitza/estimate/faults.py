"""Faults of a measurement that no equation holds: a gain, an offset, the clock, the moment at which the drive begins.

Each is one direction in the space of the samples, known from the fitted motion: a column of `data/sensor_errors.py`.

Of a column counts what the free parameters and states cannot do themselves, D; residuals r pull at it by u = Dᵀr, which
noise alone makes normal with the variance I = DᵀD: a test of one direction sees a fault whose share of the residuals is
far too small for a test of all of them, and u/I is its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Flags
from kapitza.data import BY_NAME, TESTED

FAULT = 0.01
"""Probability, of all faults that are tried together, below which the strongest is told."""

NOTHING_OWN = 1e-7
"""Share of a column that nothing fitted can do, below which the fault is in the model already."""

MOST_CHANNELS = 10
"""Channels whose gains and offsets are tried; of more the clock and the phase are."""

MOST_OF_IT = 0.5
"""Share of a large misfit that a fault must explain before it is named."""


@dataclass(frozen=True)
class Fault:
    """A fault that the residuals ask for. kind: "gain", "offset", "clock" or "phase"; channel: "" where it is all.

    size, error: relative (gain, clock), in units of the channel (offset), or in seconds (phase); chance: probability of
    such a pull by noise alone, corrected for the number of faults that were tried.
    """

    kind: str
    channel: str
    size: float
    error: float
    chance: float

    def __str__(self) -> str:
        return BY_NAME[self.kind].found(self.channel, self.size, self.error)


@dataclass(frozen=True)
class Leverage:
    """How far a small fault of the measurement, too small to be seen, would move a parameter.

    kind, channel: as in `Fault`; size: of the fault, relative (gain, clock), in units of the channel (offset) or in
    seconds (phase); name: the parameter that moves most; bias: by how much; errors: the same in standard errors.

    Examples
    --------
    >>> from kapitza.estimate.faults import Leverage
    >>> print(Leverage("phase", "", 1e-3, "k", 0.3, 0.03, 30.0))
    a delay of 0.001 s between the drive and the record would move k by 3 % (30 standard errors)
    """

    kind: str
    channel: str
    size: float
    name: str
    bias: float
    relative: float
    errors: float

    def __str__(self) -> str:
        what = BY_NAME[self.kind].assumed(self.channel, self.size)
        moved = f"{100 * self.relative:.2g} %" if np.isfinite(self.relative) else f"{self.bias:.2g}"
        return f"{what} would move {self.name} by {moved} ({self.errors:.2g} standard errors)"


@dataclass(frozen=True)
class Candidate:
    """A fault that is tried."""

    kind: str
    channel: str = ""


def candidates(channels: Sequence[str], angles: Sequence[bool], driven: bool) -> list[Candidate]:
    """Faults of these channels, of few enough; an angle has no gain, its turns are counted."""
    if len(channels) > MOST_CHANNELS:
        channels, angles = (), ()
    pairs = list(zip(channels, angles, strict=True))
    tried: list[Candidate] = []
    for error in TESTED:
        if error.of_record:
            tried += [Candidate(error.name)] if driven or error.name != "phase" else []
        else:
            tried += [Candidate(error.name, channel) for channel, angle in pairs if error.angles or not angle]
    return tried


@dataclass(frozen=True)
class Scores:
    """How residuals pull at columns that a fit does not hold, all (m,).

    pull: u of the head of this module; own: I, the square of what the fit cannot do of a column; whole: the square of
    all of it; variance: of the pull by noise alone.
    """

    pull: Array
    own: Array
    whole: Array
    variance: Array

    @property
    def live(self) -> Flags:
        """Which columns are not in the model already."""
        return self.own > NOTHING_OWN * np.maximum(self.whole, np.finfo(float).tiny)

    @property
    def gains(self) -> Array:
        """By how much the sum of squares falls, in variances of the noise."""
        return np.where(self.live, self.pull**2 / np.where(self.live, self.variance, 1.0), 0.0)

    @property
    def chances(self) -> Array:
        """Probability that noise alone pulls as much at each column; 1 at one that is in the model already."""
        return np.asarray(special.chdtrc(1, self.gains), float)

    def of(self, chosen: slice) -> Scores:
        return Scores(self.pull[chosen], self.own[chosen], self.whole[chosen], self.variance[chosen])


def strongest(tried: Sequence[Candidate], scores: Scores) -> Fault | None:
    """The fault that explains most of the residuals, None where noise alone pulls as much."""
    live = int(np.count_nonzero(scores.live))
    if not live:
        return None
    best = int(np.argmax(scores.gains))
    chance = float(min(1.0, scores.chances[best] * live))
    if chance >= FAULT:
        return None
    own = float(scores.own[best])
    error = float(np.sqrt(scores.variance[best])) / own
    return Fault(tried[best].kind, tried[best].channel, float(scores.pull[best]) / own, error, chance)
