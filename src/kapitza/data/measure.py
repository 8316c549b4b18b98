"""measure: what a sensor would have given of a clean record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.angles import wrap_upper
from kapitza.data.record import Record
from kapitza.data.sampling import between_samples
from kapitza.data.time_table import Column
from kapitza.errors import DataError

Array = NDArray[np.float64]
LARGEST = 1e150
"""Of noise and quantum: their squares are formed."""

PerChannel = float | Mapping[str, float]


def measure(
    record: Record,
    noise: PerChannel = 0.0,
    quantum: PerChannel | None = None,
    jitter: float = 0.0,
    drop: float = 0.0,
    seed: int | np.random.Generator | None = None,
    *,
    relative_noise: PerChannel = 0.0,
) -> Record:
    """A clean record with the faults of a measurement, in the order in which a sensor adds them.

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
    amounts = {
        "noise": per_channel(record, noise, "noise"),
        "relative_noise": per_channel(record, relative_noise, "relative_noise"),
        "quantum": per_channel(record, 0.0 if quantum is None else quantum, "quantum"),
    }
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
    measured: dict[str, Column] = {}
    for i, name in enumerate(record.channels):
        deviation = np.hypot(amounts["noise"][name], amounts["relative_noise"][name] * mean_modulus[name])
        step = amounts["quantum"][name]
        column = values[:, i] + (deviation * random.standard_normal(record.size) if deviation else 0.0)
        column = step * np.rint(column / step) if step else column
        attrs = dict(record.content.channels[name].attrs)
        total = np.sqrt(deviation**2 + step**2 / 12 + attrs.get("noise", 0.0) ** 2)
        measured[name] = Column(column, attrs | ({"noise": float(total)} if total else {}))
    result = record.from_content(record.content.with_channels(measured))
    if drop:
        result = result.samples(random.random(record.size) >= drop)
    result.check()
    return result


def per_channel(record: Record, amount: PerChannel, what: str) -> dict[str, float]:
    """The amount for every channel, checked."""
    if isinstance(amount, Mapping):
        for name in amount:
            record[name]  # names the nearest channel when there is none
    amounts = {
        name: checks.number(
            f'{what} of channel "{name}"',
            amount.get(name, 0.0) if isinstance(amount, Mapping) else amount,
            low=0.0,
            high=LARGEST,
            error=DataError,
        )
        for name in record.channels
    }
    return amounts


def jittered(record: Record, jitter: float, random: np.random.Generator) -> Array:
    """Values at slightly wrong instants, from splines through the samples (at the ends: inside the record)."""
    interval = record.sampling().interval
    if record.period is not None and interval > record.period / 4:
        raise DataError(
            f"Jitter needs the motion between samples, but the record has one every {interval:.4g} s at an excitation "
            f"period of {record.period:.4g} s: simulate with samples_per_period=20 or more, measure, then strobe."
        )
    smooth = record.unwrapped().values()
    instants = record.time + jitter * random.standard_normal(record.size)
    blocks = [
        between_samples(record.time[p], smooth[p], np.clip(instants[p], record.time[p][0], record.time[p][-1]))
        for p in record.segments()
    ]
    return np.concatenate(blocks)
