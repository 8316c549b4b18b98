"""Errors of sensors, one entry each.

An entry says how the error is simulated, fitted, tested, proposed and shown.

A sensor of h reads, in this order,

    y = gain · h(t - delay) + offset + drift · t + noise,

then its range cuts y off (saturation), its resolution rounds it (quantum), and single samples are wrong (spike) or stay
at one value (dropout). An error of small size s adds s times its column to the samples: h for a gain, 1 for an offset,
t for a drift, -h' for a delay. Two errors belong to the clock of a record, not to a channel: one that runs fast by s,
column -t h', and a start of the drive that is early by s, column -h'.

To add an error, write one entry here and put it into the tables at the end; nothing else is edited. Each table has one
user and needs some fields of its entries:

    FITTED    apply                         `measure` simulates it; `Sensor` and studies have it known or unknown
    TESTED    apply, column, small, words   residuals are tested for it, the effect of an undetected one is reported
    PROPOSED  column                        `suggest` weighs it against terms of the equations
    DAMAGE    damage                        `measure` spoils samples by it after the noise
    MARKED    mark                          its samples are found without a model, marked and left out

An error of FITTED is a function of h(t), h(t - delay) and t: it has no memory, so hysteresis or creep of a sensor
cannot be written here. What a method can do with it follows from `apply`: whether it delays, depends on the time, only
adds, or is linear in h. Errors that only add are last in FITTED: they can be subtracted from the samples. An error of
the record (no apply) shifts its time by a linear function of t, column -(a + b t) h'. A mark also needs the function
that finds it: its flags are a field of `BadSamples` in signal/bad_samples.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kapitza.base.arrays import Array

SPIKE_HEIGHT = 3.0
"""Height of a simulated spike, in ranges of its channel."""

DROPOUT_LENGTH = 10
"""Samples of a simulated dropout; runs below three samples are taken for spikes."""


@dataclass(frozen=True)
class SensorError:
    """Describe one error of a sensor or clock.

    ideal: value of a sensor without it. unit: of its size, "" for a share, else of "channel" and "s": "channel/s",
    "1/channel". argument: of `measure`, its name where it is "". apply: what it makes of a signal h,
    apply(h, value, t, shifted) with shifted(h, delay) the signal later; in arrays and in symbols. column: (h, h', t) →
    samples per unit of the error. damage: (samples, value, random) → samples of a sensor that is beyond its range,
    rounds or fails. small: size whose effect on estimates is reported, a share of its unit, with the spread of the
    channel and a sampling step for "channel" and "s". mark: name of the samples that it spoils. of_record: it belongs
    to the clock; of_drive: it exists against a drive only; angles: angles have it too. found, assumed: its words for a
    fitted size with its error, and for a size that nobody has seen.
    """

    name: str
    ideal: float = 0.0
    unit: str = ""
    argument: str = ""
    apply: Callable[[Any, Any, Any, Callable[[Any, Any], Any]], Any] | None = None
    column: Callable[[Array, Array, Array], Array] | None = None
    damage: Callable[[Array, Any, np.random.Generator], Array] | None = None
    small: float = 0.0
    mark: str = ""
    of_record: bool = False
    of_drive: bool = False
    angles: bool = True
    found: Callable[[str, float, float], str] = lambda channel, size, error: ""
    assumed: Callable[[str, float], str] = lambda channel, size: ""

    def _read(self, h: float, t: float = 0.0, late: float = 0.0) -> float:
        """Return the sample of a sensor with a unit of it.

        late: rate by which a delay lowers the signal.
        """
        assert self.apply is not None, self.name
        return float(self.apply(h, self.ideal + 1.0, t, lambda signal, delay: signal - late * delay))

    @property
    def delays(self) -> bool:
        """Whether it reads the signal of another time."""
        return self._read(0.5, late=1.0) != self._read(0.5)

    @property
    def timed(self) -> bool:
        """Whether it depends on the time: orbits lose their period."""
        return self._read(0.5, t=1.0) != self._read(0.5)

    @property
    def linear(self) -> bool:
        """Whether its samples are linear in h."""
        return math.isclose(self._read(-1.0, 1.0) + self._read(2.0, 1.0), 2 * self._read(0.5, 1.0), abs_tol=1e-9)

    @property
    def additive(self) -> bool:
        """Whether it adds the same to every signal."""
        added = self._read(2.0, 1.0) - self._read(-1.0, 1.0)
        return self.linear and not self.delays and math.isclose(added, 3.0)


def _percent(size: float, error: float) -> str:
    return f"{100 * abs(size):.2g} % (± {100 * error:.1g} %)"


def _with_spikes(samples: Array, share: float, random: np.random.Generator) -> Array:
    """Return the samples with spikes.

    A share of them is far off, to either side.
    """
    struck = random.random(samples.size) < share
    height = SPIKE_HEIGHT * float(np.ptp(samples)) * random.choice([-1.0, 1.0], samples.size)
    return np.where(struck, samples + height, samples)


def _with_dropouts(samples: Array, share: float, random: np.random.Generator) -> Array:
    """Return the samples with dropouts.

    A share of them is held at the value before, in runs of `DROPOUT_LENGTH`.
    """
    begins = np.flatnonzero(random.random(samples.size) < share / DROPOUT_LENGTH)
    held = np.arange(samples.size)
    rows = np.minimum(begins[:, None] + np.arange(1, DROPOUT_LENGTH + 1), samples.size - 1)
    held[rows] = begins[:, None]
    return samples[held]


DELAY = SensorError(
    "delay",
    unit="s",
    apply=lambda h, value, t, shifted: shifted(h, value),
    column=lambda h, rate, t: -rate,
)
GAIN = SensorError(
    "gain",
    ideal=1.0,
    apply=lambda h, value, t, shifted: value * h,
    column=lambda h, rate, t: h,
    small=0.01,
    angles=False,  # the turns of an angle are counted: it has no gain
    found=lambda channel, size, error: (
        f'a gain of "{channel}" that is {_percent(size, error)} too {"large" if size > 0 else "small"}'
    ),
    assumed=lambda channel, size: f'a gain of "{channel}" off by {100 * size:g} %',
)
OFFSET = SensorError(
    "offset",
    unit="channel",
    apply=lambda h, value, t, shifted: h + value,
    column=lambda h, rate, t: np.ones_like(h),
    small=0.01,
    found=lambda channel, size, error: f'an offset of {size:.2g} (± {error:.1g}) in "{channel}"',
    assumed=lambda channel, size: f'an offset of {size:.2g} in "{channel}"',
)
DRIFT = SensorError(
    "drift",
    unit="channel/s",
    apply=lambda h, value, t, shifted: h + value * t,
    column=lambda h, rate, t: np.broadcast_to(t, np.shape(h)),
)
CLOCK = SensorError(
    "clock",
    of_record=True,
    column=lambda h, rate, t: -rate * t,
    small=1e-3,
    found=lambda channel, size, error: (
        f"a clock of the record that is {_percent(size, error)} {'fast' if size > 0 else 'slow'}"
    ),
    assumed=lambda channel, size: f"a clock of the record off by {100 * size:g} %",
)
PHASE = SensorError(
    "phase",
    unit="s",
    of_record=True,
    of_drive=True,
    column=lambda h, rate, t: -rate * np.ones_like(t),
    small=0.1,
    found=lambda channel, size, error: (
        f"a record that is {abs(size):.2g} s (± {error:.1g} s) {'late' if size > 0 else 'early'} against the drive"
    ),
    assumed=lambda channel, size: f"a delay of {size:.2g} s between the drive and the record",
)
SATURATION = SensorError(
    "saturation",
    unit="channel",
    argument="limits",
    damage=lambda samples, limits, random: np.clip(samples, *limits),
    mark="saturated",
)
QUANTUM = SensorError(
    "quantum",
    unit="channel",
    damage=lambda samples, step, random: step * np.rint(samples / step),
)
SPIKE = SensorError("spike", argument="spikes", damage=_with_spikes, mark="spike")
DROPOUT = SensorError("dropout", argument="dropouts", damage=_with_dropouts, mark="dropout")

FITTED = (DELAY, GAIN, OFFSET, DRIFT)
"""Unknowns of a `Sensor`, in the order in which a sensor adds them."""

TESTED = (GAIN, OFFSET, CLOCK, PHASE)
"""Directions that every fit tests its residuals for, in this order."""

PROPOSED = (OFFSET, DRIFT, GAIN, DELAY)
"""Errors that `suggest` weighs against terms of the equations, in this order."""

DAMAGE = (SATURATION, QUANTUM, SPIKE, DROPOUT)
"""What happens to samples after the noise, in this order."""

MARKED = (SPIKE, DROPOUT, SATURATION)
"""Bad samples that are found without a model; a mark is 1 + the place in this list."""

BY_NAME = {error.name: error for error in (*FITTED, *TESTED, *PROPOSED, *DAMAGE, *MARKED)}
