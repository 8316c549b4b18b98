"""Samples of a search for invariants, and their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np

from kapitza.base.angles import unwrap, wrap
from kapitza.base.arrays import Array
from kapitza.base.cures import SELECT
from kapitza.data import Noise, Part, Record, noise_by_channel
from kapitza.errors import DataError, KapitzaError, nearest_name
from kapitza.estimate.invariant_fit.conserved.points import ASSUMED_NOISE, Points, noise_of
from kapitza.estimate.invariant_fit.conserved.stencils import estimated_noise

STRETCH = 100
"""Neighbouring samples in one stretch of a thinned record."""
MOST_POINTS = 20000
"""Points used by a search; longer records are thinned evenly."""
PURE_NOISE = 1.5
"""Spread of a channel, in units of its noise, up to which it counts as constant."""


def fractions_of(tolerance: float | Mapping[str, float], channels: Sequence[str]) -> Array:
    """Return the tolerance of every channel (C,)."""
    table = tolerance if isinstance(tolerance, Mapping) else dict.fromkeys(channels, tolerance)
    lost = [c for c in channels if c not in table]
    if lost:
        raise KapitzaError(
            f"tolerance has no value for channel {', '.join(lost)}: name every channel, or give one number."
        )
    for name in table:
        if name not in channels:
            raise KapitzaError(
                f'tolerance was given for "{name}"; the channels are {", ".join(channels)}.'
                f"{nearest_name(name, channels)}"
            )
    if not all(isinstance(table[c], Real) and 0 < table[c] < np.inf for c in channels):
        raise KapitzaError(f"tolerance is a positive fraction of each channel's mean modulus, not {tolerance}.")
    return np.array([float(table[c]) for c in channels])


def search_points(records: Sequence[Record], noise: Noise, tolerance: Array | None) -> tuple[Points, str]:
    """Return all samples, and the kind of noise.

    The kind is "known", "estimated", "tolerance" or "rounding".
    """
    channels = records[0].channels
    if any(r.channels != channels for r in records):
        raise DataError("The records have different channels: give the same ones, in the same order.")
    values = np.hstack([r.values().T for r in records])
    sizes = [r.size for r in records]
    wrapped = np.where(np.array(records[0].angles)[:, None], wrap(values), values)
    modulus = np.mean(np.abs(wrapped), axis=1)
    # A tolerance relative to the mean modulus would be zero.
    if np.any(modulus == 0):
        raise DataError(f'Channel "{channels[int(np.argmin(modulus))]}" is zero throughout: leave it out.')
    still = [c for c in channels if all(np.ptp(r[c]) <= 1e-12 * np.max(np.abs(r[c])) for r in records)]
    if still:
        raise DataError(
            f'Channel "{still[0]}" is constant along every record, an invariant by itself: leave it out with {SELECT}.'
        )
    parts = [Part(record) for record in records]
    stated = noise_by_channel(parts, noise)
    tables = [noise_of(record, part.with_noise(stated).noise) for record, part in zip(records, parts, strict=True)]
    kind, deviation = "rounding", np.tile((ASSUMED_NOISE * modulus)[:, None], values.shape[1])
    if tolerance is not None:
        kind, deviation = "tolerance", np.tile((tolerance * modulus)[:, None], values.shape[1])
    elif all(sure for _, sure in tables):
        known = np.array([[table[c] for c in channels] for table, _ in tables]).T
        if np.all(known > 0):
            kind, deviation = "known", np.repeat(known, sizes, axis=1)
            _refuse_pure_noise(records, known)
    else:
        guess = _dense_noise(records)
        if guess is not None:
            kind, deviation = "estimated", np.tile(guess[:, None], values.shape[1])
    level = np.repeat(np.arange(len(records)), sizes)
    times = np.concatenate([r.time for r in records])
    return Points(channels, values, deviation**2, level, level, times), kind


def _refuse_pure_noise(records: Sequence[Record], deviation: Array) -> None:
    """Refuse a channel that only noise moves.

    Noise (C, R), while other channels move: its powers would hide what is conserved.
    """
    spread = np.array([[np.std(r[c]) for r in records] for c in records[0].channels])
    silent = np.all(spread <= PURE_NOISE * deviation, axis=1)
    if silent.any() and not silent.all():
        raise DataError(
            f'Channel "{records[0].channels[int(np.argmax(silent))]}" varies no more than its noise explains, so it is '
            f"constant within its noise: leave it out with {SELECT}."
        )


def _dense_noise(records: Sequence[Record]) -> Array | None:
    """Return the noise by channel from high differences.

    None where the sampling is too coarse to separate noise from motion.
    """
    result = []
    for j, channel in enumerate(records[0].channels):
        guesses, spread = [], 0.0
        for record in records:
            series = record[channel]
            spread = max(spread, float(np.std(series)))
            pieces = [unwrap(series[p]) if record.angles[j] else series[p] for p in record.segments()]
            guesses += [estimated_noise(p) for p in pieces if p.size >= 40]
        # Less is rounding; more may be motion that is sampled too coarsely.
        if not guesses or not 1e-9 * spread < np.median(guesses) < 0.03 * spread:
            return None
        result.append(float(np.median(guesses)))
    return np.array(result)


def split_off(points: Points, held_back: float) -> tuple[Points, Points]:
    last = np.zeros(points.count, bool)
    for level in range(points.levels):
        members = np.flatnonzero(points.level == level)
        last[members[int(np.ceil(members.size * (1 - held_back))) :]] = True
    return points.take(np.flatnonzero(~last)), points.take(np.flatnonzero(last))


def stretches(points: Points) -> Points:
    """Return the points that a search uses.

    They are all points, or of longer records stretches of neighbours spread evenly.
    """
    if points.count <= MOST_POINTS:
        return points
    number, length = MOST_POINTS // STRETCH, STRETCH
    first = np.linspace(0, points.count - length, number).astype(np.intp)
    index = (first[:, None] + np.arange(length)).ravel()
    run = points.run[index] + points.levels * np.repeat(np.arange(number), length)
    return points.take(index, run)
