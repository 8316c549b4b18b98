"""Measurement of a periodic motion on a rig.

Set the demand, wait until the motion repeats, take Fourier coefficients with their noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.argument_checks import Count, Index, NotNegative
from kapitza.base.monitor import checkpoint
from kapitza.errors import RigError, no_such
from kapitza.rig.fourier import FourierSeries, columns, project
from kapitza.rig.limits import limited
from kapitza.rig.protocol import Rig, sound_samples

Array = NDArray[Any]

PRIOR_WEIGHT = 2.0
"""Measurements that the white level of the samples counts for, against what differs from period to period."""


@dataclass
class NoiseLevel:
    """Variance of coefficients over one period.

    It is learnt from the measurements made so far.
    White noise of the sensors is estimated from the residuals of a fit; noise that the controller passes on to the
    motion is not white, and shows only from period to period.
    """

    variance: Array | None = None
    weight: float = 0.0

    def update(self, sets: Array, white: Array) -> Array:
        """Update the variances by settled periods.

        Settled sets (periods, channels, coefficients) and the white variances (channels, coefficients).
        """
        if np.ndim(sets) != 3 or np.shape(sets)[1:] != np.shape(white) or len(sets) < 2:
            raise RigError(
                f"sets has the shape {np.shape(sets)}, white {np.shape(white)}; give (periods, channels, coefficients) "
                "of two periods or more, and (channels, coefficients)."
            )
        # The difference of two periods has twice the variance of one.
        change = np.diff(sets, axis=0) ** 2 / 2
        variance = self.variance
        if variance is None or variance.shape != white.shape:
            # One difference is a poor estimate per coefficient: begin with its mean over the modes of a channel.
            level = np.broadcast_to(change.mean(axis=(0, 2))[:, None], white.shape)
            variance, self.weight = np.maximum(white, level), PRIOR_WEIGHT
        total = self.weight + len(change)
        variance = self.variance = (self.weight * variance + change.sum(axis=0)) / total
        # The weight is bounded, so that a noise level that changes is followed.
        self.weight = min(total, 200.0)
        return np.maximum(variance, white)


@dataclass(frozen=True)
class Measurement:
    """Fourier coefficients of every output of a rig.

    The rig is in a periodic state.
    frequency: base frequency in rad/s. outputs: names of the channels. coefficients: (channels, 2 Q + 1) in the order
    a0, a1, b1, …, Q the modes of the demand plus some beyond. deviations: their standard deviations.
    waited, averaged: periods before and in the mean; settled: did the motion repeat within its noise.
    control: (loops, 2 Q + 1) coefficients of the control that was applied; effort: rms of its periodic part, per loop.
    beyond: (channels,) rms of the modes beyond those of the demand. saturated: share of samples at a limit;
    lost: share of samples that did not arrive. samples: how many were taken in all. contraction: of the last steps
    towards the periodic state, NaN when it was there at once.
    """

    frequency: float
    modes: int
    outputs: tuple[str, ...]
    coefficients: Array
    deviations: Array
    waited: int
    averaged: int
    settled: bool
    control: Array
    effort: Array
    beyond: Array
    saturated: float
    lost: float
    samples: int
    contraction: float
    demands: Mapping[str, FourierSeries] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)

    def series(self, output: str) -> FourierSeries:
        """Return one output's motion, all modes."""
        if output not in self.outputs:
            raise RigError(no_such("The measurement", "output", output, self.outputs))
        return FourierSeries(self.frequency, self.coefficients[self.outputs.index(output)])

    def with_modes(self, modes: Index) -> Measurement:
        """Return the measurement with other modes.

        Further modes are zero; modes above `modes` are cut off.
        """
        if (size := 2 * modes + 1) == self.coefficients.shape[1]:
            return self
        tables = [np.zeros((len(self.outputs), size)) for _ in range(2)]
        kept = min(size, self.coefficients.shape[1])
        for table, values in zip(tables, (self.coefficients, self.deviations), strict=True):
            table[:, :kept] = values[:, :kept]
        return replace(self, coefficients=tables[0], deviations=tables[1])

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients.

        (channels · (2 Q + 1))²; different modes and channels are independent.
        """
        return np.diag(self.deviations.ravel() ** 2)


def settle_and_measure(
    rig: Rig,
    demands: Mapping[str, FourierSeries],
    parameters: Mapping[str, float] | None = None,
    modes: Count | None = None,
    *,
    extra: Index = 4,
    average: Count = 2,
    patience: Index = 1,
    longest: Count = 60,
    scales: Mapping[str, float] | None = None,
    resolution: NotNegative = 1e-4,
    noise: NoiseLevel | None = None,
) -> Measurement:
    """Measure the periodic motion under demands.

    It sets demands, lets the rig run until it repeats within its noise, and returns the mean of the last periods.
    Demands and parameters outside the limits of the rig are refused before anything is sent, whatever its class.

    Parameters
    ----------
    modes : int
        Modes of the demand (default: as many as the series have); `extra` more are measured.
    average : int
        Periods in the mean, 2 or more.
    patience : int
        Further periods to wait after two in succession agree: the rest of a transient is below the noise.
    longest : int
        Periods after which the rig is given up as not settled.
    scales, resolution
        A channel is taken to repeat when two periods differ by less than resolution · scale (default: the rms of the
        channel), however small its noise.
    noise : NoiseLevel
        Variances learnt from earlier measurements; it is updated.

    Raises
    ------
    RigError
        when a measured value is not a number although its sample arrived; the rig is stopped.
    """
    if average < 2:
        raise RigError(f"average = {average}; two periods are needed to see whether the motion repeats.")
    rig = limited(rig)
    rig.set(demands, **(parameters or {}))
    frequency = next(iter(demands.values())).frequency
    modes = max(s.modes for s in demands.values()) if modes is None else modes
    step = frequency * rig.sample_time
    count = math.ceil(2 * np.pi / step)
    total = modes + extra
    if 2 * total + 1 > count // 2:
        raise RigError(f"{count} samples in a period are too few for {total} modes: sample faster or take fewer modes.")
    noise = NoiseLevel() if noise is None else noise
    window = _Window(rig, step, total, scales or {}, resolution)
    settled = window.settle(count, noise, average, patience, longest)
    return window.measurement(settled, noise, average, dict(demands), dict(parameters or {}), modes)


class _Window:
    """Coefficients period by period."""

    def __init__(self, rig: Rig, step: float, modes: int, scales: Mapping[str, float], resolution: float):
        self.rig, self.step, self.modes, self.resolution = rig, step, modes, resolution
        self.scales = [scales.get(name, math.nan) for name in rig.outputs]
        self.sets: list[Array] = []
        self.leftover: list[Array] = []
        self.saturated: list[float] = []
        self.lost: list[float] = []
        self.changes: list[float] = []
        self.taken: list[int] = []

    def settle(self, count: int, noise: NoiseLevel, average: int, patience: int, longest: int) -> bool:
        """Take periods until the motion repeats.

        Two periods must agree and those of the mean be in; False when that never happens.
        """
        settled, changing = False, self.take(count)
        while len(self.taken) < longest and not settled:
            # A stop must not wait for sixty periods of a rig in real time.
            checkpoint()
            if changing and len(self.taken) <= longest - average:
                # A demand that is still changing moves so little per period that it would pass for settled.
                self.forget()
            changing = self.take(count)
            settled = not changing and len(self.sets) > 1 and self.repeats(noise)
        # A rig that is given up as not settled is not driven any longer than requested.
        for _ in range(max(patience + average - 2, 0) if settled else max(average - len(self.sets), 0)):
            self.take(count)
        return settled

    def forget(self) -> None:
        for values in (self.sets, self.leftover, self.saturated, self.lost, self.changes):
            values.clear()

    def measurement(
        self,
        settled: bool,
        noise: NoiseLevel,
        average: int,
        demands: dict[str, FourierSeries],
        parameters: dict[str, float],
        modes: int,
    ) -> Measurement:
        """Return the mean of the last periods."""
        last = np.array(self.sets[-average:])
        # Periods that are not settled differ by more than noise, and must not be learnt as noise.
        level = noise if settled else NoiseLevel(noise.variance, noise.weight)
        variances = level.update(last, self.white())
        coefficients = last.mean(axis=0)
        channels = len(self.rig.outputs)
        control = coefficients[channels:]
        return Measurement(
            frequency=next(iter(demands.values())).frequency,
            modes=modes,
            outputs=tuple(self.rig.outputs),
            coefficients=coefficients[:channels],
            deviations=np.sqrt(variances[:channels] / average),
            waited=len(self.taken) - average,
            averaged=average,
            settled=settled,
            control=control,
            effort=np.sqrt(control[:, 0] ** 2 + 0.5 * np.sum(control[:, 1:] ** 2, axis=1)),
            beyond=np.sqrt(0.5 * np.sum(coefficients[:channels, 2 * modes + 1 :] ** 2, axis=1)),
            saturated=float(np.mean(self.saturated[-average:])),
            lost=float(np.mean(self.lost[-average:])),
            samples=sum(self.taken),
            contraction=self.contraction(),
            demands=demands,
            parameters=parameters,
        )

    def take(self, count: int) -> bool:
        """Take one more period.

        Returns True while the demand is still changing.
        """
        samples = sound_samples(self.rig, count)
        self.taken.append(count)
        values = np.concatenate((samples.values, samples.control), axis=1)
        coefficients = project(values, float(samples.phases[0]), self.step, self.modes, samples.lost)
        kept = ~samples.lost
        fitted = columns(samples.phases, self.modes) @ coefficients.T
        left = np.mean((values - fitted)[kept] ** 2, axis=0)
        self.leftover.append(left / max(int(kept.sum()), 1))
        self.sets.append(coefficients)
        self.saturated.append(float(samples.saturated.mean()))
        self.lost.append(float(samples.lost.mean()))
        return samples.changing

    def white(self) -> Array:
        """Return the white variance of each coefficient.

        It holds for one period if all that the fit leaves over is white noise.
        """
        level = 2.0 * np.mean(self.leftover[-2:], axis=0)[:, None]
        factors = np.full(2 * self.modes + 1, 1.0)
        # The mean has half the variance of a cosine coefficient.
        factors[0] = 0.5
        return level * factors

    def repeats(self, noise: NoiseLevel) -> bool:
        """Return whether the last two periods agree.

        They differ by no more than noise and resolution allow.
        """
        change = self.sets[-1] - self.sets[-2]
        variance = self.white()
        if noise.variance is not None and noise.variance.shape == variance.shape:
            variance = np.maximum(variance, noise.variance)
        self.changes.append(float(np.sqrt(np.mean(change**2))))
        worst = 0.0
        for i, _ in enumerate(self.rig.outputs):
            size = self.scales[i]
            if math.isnan(size):
                size = float(np.sqrt(np.sum(self.sets[-1][i] ** 2)))
            allowed = np.hypot(np.sqrt(2 * variance[i]), self.resolution * size)
            worst = max(worst, float(np.sqrt(np.mean((change[i] / np.maximum(allowed, 1e-300)) ** 2))))
        # The rms of differences over their deviations is 1 for pure noise.
        return worst < 1.5

    def contraction(self) -> float:
        """Return the contraction from period to period.

        Factor by which the changes shrank, while they were well above the last.
        """
        changes = np.array(self.changes)
        if changes.size < 2 or not changes[-1] > 0:
            return float("nan")
        return float((changes[-1] / changes[0]) ** (1 / (changes.size - 1)))
