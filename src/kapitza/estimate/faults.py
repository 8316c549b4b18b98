"""Faults of a measurement: TESTED of the sensor errors.

No equation of the model holds them. Each fault is one direction in the space of the samples, known from the fitted
motion: a column of `data/sensor_errors.py`.

D is the part of a column that the free parameters and states cannot reproduce. Residuals r pull at it by u = Dᵀr, which
is normal with the variance I = DᵀD under noise alone. A test of one direction detects a fault whose share of the
residuals is far too small for a test of all of them, and u/I is its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Flags
from kapitza.base.rounded import two_digits
from kapitza.data import BY_NAME, TESTED

FAULT = 0.01
"""Probability, corrected for the number of faults tried, below which the strongest is reported."""

NOTHING_OWN = 1e-7
"""Share of a column outside the fitted directions, below which the fault is in the model already."""

MOST_CHANNELS = 10
"""Most channels whose errors are tried; with more only errors of the record (clock, phase) are."""

MOST_OF_IT = 0.5
"""Share of a large misfit that a fault must explain before it is named."""


@dataclass(frozen=True)
class Fault:
    """Fault of the measurement that the residuals indicate.

    kind: name of an error of TESTED; channel: "" where it concerns all of them. size, error: in the unit of that error
    (gain, clock: relative; offset: as the channel; phase: seconds); chance: probability of such a pull by noise alone,
    corrected for the number of faults that were tried. moves: the largest shift that it causes in a parameter, in
    standard errors by noise alone; None where that is not known.
    """

    kind: str
    channel: str
    size: float
    error: float
    chance: float
    moves: float | None = None

    def __str__(self) -> str:
        return BY_NAME[self.kind].found(self.channel, self.size, self.error)


@dataclass(frozen=True)
class Leverage:
    """Effect of a small undetected fault on a parameter.

    kind, channel, size: as in `Fault`; name: the parameter that moves most; bias: by how much; errors: the same in
    standard errors.

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
        moved = f"{two_digits(100 * self.relative)} %" if np.isfinite(self.relative) else f"{self.bias:.2g}"
        return f"{what} would move {self.name} by {moved} ({two_digits(self.errors)} standard errors)"


LARGEST_SHARE = 0.3
"""Largest gain or rate of the clock, as a share, that a column of first order describes."""


@dataclass(frozen=True)
class Candidate:
    """Fault to be tried."""

    kind: str
    channel: str = ""


def candidates(channels: Sequence[str], angles: Sequence[bool], driven: bool) -> list[Candidate]:
    """List the faults to try for these channels.

    None per channel where there are more than MOST_CHANNELS. An angle has no gain, because its turns are counted.
    """
    if len(channels) > MOST_CHANNELS:
        # Every channel adds candidates, for which the probability is corrected: with many nothing would be
        # significant.
        channels, angles = (), ()
    pairs = list(zip(channels, angles, strict=True))
    tried: list[Candidate] = []
    for error in TESTED:
        if error.of_record:
            tried += [Candidate(error.name)] if driven or not error.of_drive else []
        else:
            tried += [Candidate(error.name, channel) for channel, angle in pairs if error.angles or not angle]
    return tried


@dataclass(frozen=True)
class Scores:
    """Scores (m,) of columns outside the fit.

    pull: u of the head of this module; own: I, the squared norm of the part of a column outside the fitted directions;
    whole: the squared norm of the column; variance: of the pull by noise alone.
    """

    pull: Array
    own: Array
    whole: Array
    variance: Array

    @property
    def live(self) -> Flags:
        """Return which columns are not yet in the model."""
        # A column that the fit reproduces would divide rounding by rounding.
        return self.own > NOTHING_OWN * np.maximum(self.whole, np.finfo(float).tiny)

    @property
    def gains(self) -> Array:
        """Return the drop of χ² per column.

        This is the drop of the sum of squares, in variances of the noise.
        """
        return np.where(self.live, self.pull**2 / np.where(self.live, self.variance, 1.0), 0.0)

    @property
    def chances(self) -> Array:
        """Return the p-value of the pull at each column.

        It is 1 for a column that is in the model already.
        """
        return np.asarray(special.chdtrc(1, self.gains), float)

    def of(self, chosen: slice) -> Scores:
        return Scores(self.pull[chosen], self.own[chosen], self.whole[chosen], self.variance[chosen])


def strongest(tried: Sequence[Candidate], scores: Scores) -> Fault | None:
    """Return the fault that explains most of the residuals.

    The result is None where noise alone pulls as much.
    """
    live = int(np.count_nonzero(scores.live))
    if not live:
        return None
    shares = np.array([BY_NAME[one.kind].unit == "" for one in tried])
    sizes = np.abs(scores.pull) / np.where(scores.live, scores.own, np.inf)
    # In equations that are homogeneous in a channel the column of its gain, or of the clock, is the residual itself: it
    # would explain any misfit, by a gain that is 100 % off.
    best = int(np.argmax(np.where(shares & (sizes > LARGEST_SHARE), 0.0, scores.gains)))
    if shares[best] and sizes[best] > LARGEST_SHARE:
        return None
    # Bonferroni's correction for the faults that can be tested at all.
    chance = float(min(1.0, scores.chances[best] * live))
    if chance >= FAULT:
        return None
    own = float(scores.own[best])
    error = float(np.sqrt(scores.variance[best])) / own
    return Fault(tried[best].kind, tried[best].channel, float(scores.pull[best]) / own, error, chance)
