"""Preparation of records for a section.

It checks names, cuts at gaps, requires even sampling, names dead sensors, and finds the noise per channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import RECORD, RESAMPLE, Give, Message
from kapitza.data import Record
from kapitza.errors import DataError, nearest_name
from kapitza.signal import forced_delay, mutual_information

UNEVEN = 0.05  # rms deviation of the steps from their median beyond which equal steps cannot be assumed
TORN = 0.2  # share of steps that are gaps beyond which a record has no sampling interval at all


def chosen_channels(record: Record, channels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the channels to use, all by default.

    Unknown and dead channels are refused by name.
    """
    if not isinstance(record, Record):
        raise DataError(f"A Record is needed, not {type(record).__name__}: {RECORD}.")
    names = (channels,) if isinstance(channels, str) else tuple(channels or record.channels)
    for name in names:
        if np.ptp(record[name]) == 0:
            raise DataError(
                f'"{name}" does not change over {len(record)} samples: leave it out with {Give(channels=...)}, or '
                "check the sensor. (One sample per period of a response with the period of the drive does not change "
                "either: record more samples per period.)"
            )
    return names


def without_gaps(record: Record) -> tuple[Record, str]:
    """Cut the record at missing samples.

    Wherever samples are missing inside a segment; with a sentence on the gaps ("" if there are none).
    """
    sampling = record.sampling()
    if not sampling.gaps:
        return record, ""
    missing = sum(gap.missing for gap in sampling.gaps)
    if len(sampling.gaps) > TORN * len(record):
        raise DataError(
            f"The record is not sampled regularly: {len(sampling.gaps)} of its {len(record)} steps are longer than "
            f"1.5 times the median of {sampling.interval:.6g} s. Bring it onto a regular grid first: {RESAMPLE}."
        )
    return record.split_at_gaps(), Message(
        f"The record was cut at {len(sampling.gaps)} gaps ({missing} samples missing); short gaps of dense records "
        f"can be bridged by {RESAMPLE}."
    )


def require_even(record: Record) -> None:
    """Refuse steps too unequal for one sampling interval.

    Gaps are not counted.
    """
    inside = np.diff(record.content.segment) == 0
    steps = np.diff(record.time)[inside]
    interval = float(np.median(steps)) if steps.size else 1.0
    usual = steps[steps <= 1.5 * interval] / interval - 1.0
    spread = float(np.sqrt(np.mean(usual**2))) if usual.size else 0.0
    if spread > UNEVEN:
        raise DataError(
            f"The record is not sampled regularly: its steps deviate from {interval:.6g} s by {100 * spread:.2g} % "
            f"(rms). Bring it onto a regular grid first: {RESAMPLE}."
        )


def channel_noise(record: Record, names: tuple[str, ...], noise: Any) -> Array | None:
    """Return the noise of each channel (c,).

    It is a standard deviation in the unit of the channel: given, else known by the record, else None.
    noise: one number, one per channel, or a mapping from channels to numbers.
    """
    if noise is None:
        known = record.noise
        return np.array([known[name] for name in names]) if all(name in known for name in names) else None
    if isinstance(noise, Mapping):
        for name in noise:
            if name not in names:
                raise DataError(f'Noise of "{name}" is given, the channels are {names}.{nearest_name(name, names)}')
        noise = {**record.noise, **noise}
        absent = [name for name in names if name not in noise]
        if absent:
            raise DataError(f'No noise for channel "{absent[0]}": name every channel, or give none.')
        noise = [noise[name] for name in names]
    try:
        levels = np.asarray(noise, float)
    except (TypeError, ValueError):
        raise DataError(f"noise = {noise!r}: give standard deviations, one number or one per channel.") from None
    if levels.shape not in ((), (1,), (len(names),)):
        raise DataError(f"{levels.size} values of noise for {len(names)} channels {names}: give one, or one for each.")
    if not (np.isfinite(levels).all() and (levels >= 0).all()):
        raise DataError(f"noise = {noise!r}: standard deviations are finite and not negative.")
    return np.array(np.broadcast_to(levels, (len(names),)), float)


def require_count(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse values that are not counts in range.

    A count is a whole number of at least `least` (and at most `most`).
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        range_said = f"at least {least}" if most is None else f"between {least} and {most}"
        raise DataError(f"{name} = {value!r}: it counts and must be a whole number, {range_said}.")


def record_delay(record: Record, names: tuple[str, ...], rate: float) -> int:
    """Return the embedding delay of a dense forced record.

    The delay counts samples and follows from the mutual information of the channels.
    """
    segments = record.segments()
    longest = min(round(rate), max(piece.stop - piece.start for piece in segments) // 4)
    chosen = record.select(names).unwrapped()
    curves = [
        mutual_information(chosen[name], max(longest, 1), segments=segments, angle=angle)
        for name, angle in zip(names, chosen.angles, strict=True)
    ]
    return forced_delay(curves, rate)


def better_period(record: Record, names: tuple[str, ...]) -> tuple[float, float] | None:
    """Return the period of the strongest nearby line.

    It returns the period [s] near the excitation's and the drift of the phase over the record in periods, or None.
    A forced response has a line at the frequency of its drive: |mean of z exp(-iωt)| is far above the continuous
    spectrum there. z is each channel (angles as cosine and sine) and its square, where a symmetry removes the line.
    None when the given period is within half a turn over the longest segment, or no line stands out.
    """
    from scipy.signal import zoom_fft

    period = float(record.period or 0.0)
    piece = max(record.segments(), key=lambda p: p.stop - p.start)
    time = record.time[piece]
    span = float(time[-1] - time[0])
    if len(time) < 200 or span < 20 * period:
        return None
    # One bin is a turn of phase over the record; lines up to 2 % away are looked for, four points to a bin.
    reach = int(np.ceil(0.02 * span / period))
    bins = np.arange(-4 * reach, 4 * reach + 1) / 4.0
    interval = span / (len(time) - 1)
    band = [(1.0 / period + edge / span) * interval for edge in (bins[0], bins[-1])]
    power = np.zeros(len(bins))
    for name, angle in zip(names, record.select(names).angles, strict=True):
        x = record[name][piece]
        for z in (np.cos(x), np.sin(x)) if angle else (x, (x - x.mean()) ** 2):
            # The window keeps the side lobes of strong lines below the continuous spectrum.
            windowed = (z - z.mean()) * np.hanning(len(z))
            line = zoom_fft(windowed, band, len(bins), fs=1, endpoint=True)
            power += np.abs(line) ** 2 / max(float(windowed @ windowed), 1e-300)
    best = int(np.argmax(power))
    if power[best] < 20.0 * float(np.median(power)) or abs(bins[best]) < 0.5:
        return None
    return float(1.0 / (1.0 / period + bins[best] / span)), float(abs(bins[best]))
