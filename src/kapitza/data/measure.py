"""Simulation of sensors.

A clean record becomes the record that sensors would have measured.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import wrap_upper
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.data.record import Record
from kapitza.data.sampling import between_samples
from kapitza.data.sensor_errors import DAMAGE, FITTED, SATURATION
from kapitza.data.time_table import Column
from kapitza.errors import DataError, refuse_unknown

LARGEST = 1e150
"""Of noise and quantum: their squares are formed."""

PerChannel = float | Mapping[str, float]
Limits = tuple[float, float]


def measure(
    record: Record,
    noise: PerChannel = 0.0,
    quantum: PerChannel | None = None,
    jitter: float = 0.0,
    drop: float = 0.0,
    seed: int | np.random.Generator | None = None,
    *,
    relative_noise: PerChannel = 0.0,
    gain: PerChannel = 1.0,
    offset: PerChannel = 0.0,
    drift: PerChannel = 0.0,
    delay: PerChannel = 0.0,
    limits: Limits | Mapping[str, Limits] | None = None,
    spikes: PerChannel = 0.0,
    dropouts: PerChannel = 0.0,
    **errors: PerChannel,
) -> Record:
    """Measure a clean record by sensors with errors.

    Errors come in the order of a sensor: delay, gain, offset, drift, noise, saturation, rounding, spikes, dropouts.

    Numbers apply to every channel, mappings to the channels they name.

    Parameters
    ----------
    record : Record
        What a perfect sensor would give.
    noise : float or mapping
        Standard deviation of Gaussian noise in units of the channel.
    quantum : float or mapping, optional
        Resolution, to which values are rounded: 2π/1024 for an encoder of 1024 counts.
    jitter : float
        Standard deviation [s] of the sampling instants; the time stamps stay as they were.
    drop : float
        Fraction of samples lost at random; the record is cut into segments there.
    seed : int, optional
        Makes it repeatable.
    relative_noise : float or mapping
        Noise as a fraction of the channel's mean modulus, mean |x| (angles brought into (-π, π] before averaging).
    gain, offset, drift, delay : float or mapping
        y = gain · h(t - delay) + offset + drift · t, as in `Sensor`; t counts from the start of the excitation.
    limits : pair of floats or mapping, optional
        Range of the sensor, at whose ends it saturates.
    spikes, dropouts : float or mapping
        Share of samples that are far off, and of samples in runs of ten that stay at the value before.
    **errors : float or mapping
        Sizes of further errors of `kapitza.data.sensor_errors`, by name.

    Returns
    -------
    Record
        The channels' "noise" attribute becomes sqrt(noise² + quantum²/12 + what it was before squared).

    Examples
    --------
    >>> import kapitza as kz
    >>> clean = kz.simulate(kz.library.duffing(), periods=100)
    >>> kz.measure(clean, noise=0.02, drop=0.1, seed=1).noise["x"]
    0.02
    """
    given = {"delay": delay, "gain": gain, "offset": offset, "drift": drift} | errors
    given |= {"quantum": 0.0 if quantum is None else quantum, "spikes": spikes, "dropouts": dropouts}
    sized = _sizes(record, given)
    ranges = {name: limits.get(name) if isinstance(limits, Mapping) else limits for name in record.channels}
    noise, relative_noise = per_channel(record, noise, "noise"), per_channel(record, relative_noise, "relative_noise")
    jitter = checks.number("jitter, a standard deviation in seconds,", jitter, low=0.0, error=DataError)
    drop = checks.number("drop, the fraction of samples lost,", drop, low=0.0, high=1.0, error=DataError)
    if drop == 1:
        raise DataError("drop = 1 loses every sample: give less.")
    random = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(checks.seed(seed))
    values = jittered(record, jitter, random) if jitter else record.values()
    mean_modulus = {
        name: float(np.abs(wrap_upper(column) if angle else column).mean())
        for name, column, angle in zip(record.channels, record.values().T, record.angles, strict=True)
    }
    since = record.time - record.excitation_start
    measured: dict[str, Column] = {}
    for i, name in enumerate(record.channels):
        deviation = np.hypot(noise[name], relative_noise[name] * mean_modulus[name])
        step = sized["quantum"][name]
        column = values[:, i]
        for error in FITTED:
            if sized[error.name][name] != error.ideal and error.apply is not None:
                column = error.apply(column, sized[error.name][name], since, partial(_later, record))
        column = column + (deviation * random.standard_normal(record.size) if deviation else 0.0)
        for error in DAMAGE:
            amount = ranges[name] if error is SATURATION else sized[error.name][name]
            if amount and error.damage is not None:
                column = error.damage(column, amount, random)
        attrs = dict(record.content.channels[name].attrs)
        total = np.sqrt(deviation**2 + step**2 / 12 + attrs.get("noise", 0.0) ** 2)
        measured[name] = Column(column, attrs | ({"noise": float(total)} if total else {}))
    result = record.from_content(record.content.with_channels(measured))
    if drop:
        result = result.samples(random.random(record.size) >= drop)
    result.check()
    return result


def _sizes(record: Record, given: Mapping[str, PerChannel]) -> dict[str, dict[str, float]]:
    """Return the size of each error in each channel.

    given: by argument; errors that are not given have their ideal size.
    """
    # The range of a sensor is a pair: it is not a size.
    listed = {error.argument or error.name: error for error in (*FITTED, *DAMAGE) if error is not SATURATION}
    arguments = list(inspect.signature(measure).parameters)[:-1]
    refuse_unknown("measure", given, dict.fromkeys([*arguments, *listed]))
    return {
        error.name: per_channel(
            record, given.get(name, error.ideal), name, error.ideal, 0.0 if error in DAMAGE else -LARGEST
        )
        for name, error in listed.items()
    }


def _later(record: Record, values: Array, delay: float) -> Array:
    """Return the values of a channel, delayed.

    They are interpolated by splines; before the record they equal the first value.
    """
    blocks = [
        between_samples(record.time[p], values[p, None], np.clip(record.time[p] - delay, *record.time[p][[0, -1]]))
        for p in record.segments()
    ]
    return np.concatenate(blocks)[:, 0]


def per_channel(
    record: Record, amount: PerChannel, what: str, default: float = 0.0, low: float = 0.0
) -> dict[str, float]:
    """Return the amount for every channel, checked."""
    if isinstance(amount, Mapping):
        for name in amount:
            record[name]  # names the nearest channel when there is none
    amounts = {
        name: checks.number(
            f'{what} of channel "{name}"',
            amount.get(name, default) if isinstance(amount, Mapping) else amount,
            low=low,
            high=LARGEST,
            error=DataError,
        )
        for name in record.channels
    }
    return amounts


def jittered(record: Record, jitter: float, random: np.random.Generator) -> Array:
    """Return the values at slightly wrong instants.

    They come from splines through the samples (at the ends: inside the record).
    """
    interval = record.sampling().interval
    if record.period is not None and interval > record.period / 4:
        raise DataError(
            f"Jitter needs the motion between samples, but the record has one every {interval:.4g} s at an "
            f"excitation period of {record.period:.4g} s: simulate with {Give(samples_per_period=20)} or more, "
            "measure, then strobe."
        )
    smooth = record.unwrapped().values()
    instants = record.time + jitter * random.standard_normal(record.size)
    blocks = [
        between_samples(record.time[p], smooth[p], np.clip(instants[p], record.time[p][0], record.time[p][-1]))
        for p in record.segments()
    ]
    return np.concatenate(blocks)
