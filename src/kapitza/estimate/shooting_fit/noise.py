"""Noise of the sensors.

The noise is given, guessed before the fit, or estimated from its residuals. A sensor is one channel in one record: the
noise of each may differ and be known or not. After the fit `misfit.own_noise` bounds it without the error of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from kapitza.base.angles import wrap
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.estimate.observation import Observation
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.signal import difference_noise

MANY_READINGS = 100
"""Fewest samples of a sensor for a separate noise estimate; sensors of a channel with fewer share one."""

FEW_DEGREES = 5.0
"""Degrees of freedom below which the noise of a sensor is not estimated separately."""


@dataclass(frozen=True)
class SensorNoise:
    """Standard deviations (S,) of the sensors.

    known: which of them are known; channel (S,) and record (S,) of each.
    """

    deviations: Array
    known: Flags
    channel: Indices
    record: Indices

    @property
    def all_known(self) -> bool:
        return bool(self.known.all())


def noise_of_sensors(
    samples: Samples, observation: Observation, given: Sequence[Mapping[str, float]]
) -> tuple[Samples, SensorNoise]:
    """Number the sensors and return their noise.

    Returns the samples with their sensors numbered as well.
    given: noise by channel of each record, stated or known (`Part.noise`); else it is guessed. Sensors of unknown
    noise and few samples are joined with the others of their channel.
    """
    count = len(observation.channels)
    slots = count * len(given)
    readings = np.bincount(samples.sensor[samples.sensor >= 0].ravel(), minlength=slots)
    # The extra last entry maps the index -1, no sample, onto itself.
    number = np.full(slots + 1, -1, np.intp)
    shared: dict[int, int] = {}
    deviations, known, channels, owners = [], [], [], []
    for slot in np.flatnonzero(readings):
        owner, c = divmod(int(slot), count)
        channel = observation.channels[c]
        noise = given[owner].get(channel, np.nan)
        # A noise of zero would give an infinite weight: the small scatter of an exact sensor is estimated.
        unknown = not (np.isfinite(noise) and noise > 0)
        few = unknown and readings[slot] < MANY_READINGS
        if few and c in shared:
            number[slot] = shared[c]
            continue
        number[slot] = len(deviations)
        if few:
            shared[c] = len(deviations)
        deviations.append(noise)
        known.append(not unknown)
        channels.append(c)
        owners.append(owner)
    samples = replace(samples, sensor=number[samples.sensor])
    guess = noise_guess(samples, observation, np.array(channels, np.intp))
    held = np.array(known, bool)
    sensors = SensorNoise(
        np.where(held, np.array(deviations, float), guess), held, np.array(channels, np.intp), np.array(owners, np.intp)
    )
    return samples, sensors


def noise_guess(samples: Samples, observation: Observation, channel: Indices) -> Array:
    """Guess the noise (S,) of each sensor.

    It follows from third differences, and is at least 1e-6 of its channel's spread. Third differences of a smooth,
    densely sampled motion are small, those of white noise have 20 times its variance. Only the ratios between
    sensors matter before the fit; the residuals give the final values.
    """
    guess = np.empty(channel.size)
    step = np.diff(samples.time)
    # Steps over lost samples are not small.
    near = samples.joined[:-1] & (step < 1.5 * np.median(step))
    whole = near[:-2] & near[1:-1] & near[2:]
    for c in range(len(observation.channels)):
        steps = np.diff(samples.values[:, c])
        if observation.angles[c]:
            steps = wrap(steps)
        third, owner, spread = np.diff(steps, 2)[whole], samples.sensor[:-3, c][whole], samples.spread[c]
        for s in np.flatnonzero(channel == c):
            own = third[owner == s] if channel.size > len(observation.channels) else third
            size = difference_noise(own, 3, samples.outliers) or difference_noise(own, 3)
            # A record too coarse to be smooth, such as a strobed one, does not determine the noise: 1 % is assumed.
            smooth = own.size and size < 0.2 * spread
            guess[s] = max(size, 1e-6 * spread) if smooth else 0.01 * spread
    return guess


def noise_found(samples: Samples, residual: Array, sensors: SensorNoise, fitted: int, huber: float | None) -> Array:
    """Return standard deviations (S,) from residuals (N, c).

    Known deviations stay as given; the others are each charged their share of the `fitted` numbers. With Huber's
    loss the residuals count up to its threshold, and the variance is divided by what Gaussian noise would give then
    (P. J. Huber, Robust Statistics, 1981, proposal 2).
    """
    power, count = power_of(samples, residual, sensors.deviations, huber)
    consistent = 1.0 if huber is None else clipped_power(huber)
    # Degrees of freedom, the fitted numbers charged in proportion to the samples of each sensor.
    free = count * max(1.0 - fitted / max(samples.readings, 1), 1e-6)
    few = ~sensors.known & (free < FEW_DEGREES)
    if few.any():
        # Too few samples for separate estimates: the ratios stay as guessed, and one factor serves all sensors.
        power, free = np.where(few, power[few].sum(), power), np.where(few, free[few].sum(), free)
    variance = power / np.maximum(free, 1.0) / consistent * sensors.deviations**2
    # Exact data leave residuals of rounding only, and a weight must stay finite.
    least = 1e-13 * samples.spread[sensors.channel]
    return np.where(sensors.known | (count == 0), sensors.deviations, np.sqrt(np.maximum(variance, least**2)))


def power_of(samples: Samples, residual: Array, deviations: Array, huber: float | None) -> tuple[Array, Array]:
    """Return Σ z² (S,) of the residuals, and counts.

    Residuals z are in standard deviations, clipped at the threshold of Huber's loss.
    """
    z = residual / samples.at_readings(deviations)
    if huber is not None:
        z = np.clip(z, -huber, huber)
    return per_sensor(samples, z**2, deviations.size), per_sensor(samples, np.ones_like(z), deviations.size)


def per_sensor(samples: Samples, amounts: Array, count: int) -> Array:
    """Return sums (S,) of amounts (N, c) per sensor.

    Each sum is over the samples of one sensor; sensor -1 (no sample) is left out.
    """
    if samples.complete and count == samples.values.shape[1]:
        return amounts.sum(axis=0)
    return np.bincount((samples.sensor + 1).ravel(), amounts.ravel(), count + 1)[1:].astype(float)


def clipped_power(threshold: float) -> float:
    """Return E[min(z², c²)] of a standard Gaussian z."""
    inside = special.ndtr(threshold) - special.ndtr(-threshold)
    density = np.exp(-(threshold**2) / 2) / np.sqrt(2 * np.pi)
    return float(inside - 2 * threshold * density + threshold**2 * (1 - inside))


def robust_deviations(samples: Samples, residual: Array, deviations: Array, fitted: int, threshold: float) -> Array:
    """Return deviations (S,) equivalent to Huber's estimate.

    With them the plain information is that of Huber's estimate.
    The covariance of an M-estimate is σ² E[ψ²]/E[ψ']² (JᵀJ)⁻¹ with ψ the clipped residual; both means are those of each
    sensor's own residuals, so outliers count with their real effect.
    """
    power, count = power_of(samples, residual, deviations, threshold)
    inside = np.abs(residual / samples.at_readings(deviations)) <= threshold
    central = per_sensor(samples, inside.astype(float), deviations.size) / np.maximum(count, 1)
    free = np.maximum(count - fitted * count / max(samples.readings, 1), 1.0)
    factor = np.sqrt(power / free) / np.maximum(central, 1e-3)
    return np.where(count > 0, factor, 1.0) * deviations
