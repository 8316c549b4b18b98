"""Periodic orbits as close returns of a densely sampled, periodically forced record (HARMONIC, equation 24).

Where the state has too many dimensions for local maps, the closest return is itself the orbit: each channel comes back
within its own tolerance after k excitation periods and stays there for a delay, so that its rate returns as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbit import OrbitSet, PeriodicOrbit, Profile
from kapitza.orbits.from_record import samples_per_period
from kapitza.signal import forced_delay, mutual_information

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class ReturnSearch:
    """Orbits from the returns of dense forced records, without maps.

    tolerance: share of each channel's range (of a full turn for angles), one number or one per channel as a mapping.
    delay, dimension: the return must hold for (dimension - 1) delays; the delay is in samples, by default from the
    mutual information of the channels. candidates: returns looked at per period, closest first.
    """

    tolerance: float | Mapping[str, float] = 0.05
    delay: int | None = None
    dimension: int = 2
    candidates: int = 400

    def search(self, record: Record, max_period: int, channels: Sequence[str] | None = None) -> OrbitSet:
        return search_returns(record, max_period, self, channels)


@dataclass(frozen=True)
class DenseSignal:
    """Channels on a common regular grid: values (N, c) with continuous angles, size (c,), circle (c,) bool."""

    values: Array
    size: Array
    circle: NDArray[np.bool_]
    tolerance: Array
    segments: list[slice]
    delay: int
    dimension: int


def search_returns(
    record: Record, max_period: int, settings: ReturnSearch, channels: Sequence[str] | None = None
) -> OrbitSet:
    """All distinct orbits of up to `max_period` excitation periods, closest returns first within each period."""
    names = tuple(channels or record.channels)
    rate = samples_per_period(record)
    if rate < 4:
        raise DataError(
            f"{rate:.3g} samples per excitation period are too few to compare profiles: use SectionSearch on the "
            "strobed record instead."
        )
    signal = dense_signal(record, names, settings, rate)
    kept: list[PeriodicOrbit] = []
    profiles: list[Array] = []
    for count in range(1, max_period + 1):
        lag = round(count * rate)
        rows, worst = best_returns(signal, lag)
        order = np.argsort(worst, kind="stable")[: settings.candidates]
        for row, error in zip(rows[order], worst[order], strict=True):
            if repeats_within(signal, int(row), count, rate):
                continue
            shape = sampled_profile(signal, int(row), lag, count)
            if any(same_profile(signal, shape, other, count) for other in profiles if len(other) == len(shape)):
                continue
            profiles.append(shape)
            kept.append(return_orbit(record, names, signal, int(row), count, rate, float(error)))
    message = (
        f"{len(kept)} orbits of up to {max_period} excitation periods return within tolerance in {len(record)} samples "
        f"(delay {signal.delay} samples)."
    )
    return OrbitSet(tuple(kept), tuple(bool(c) for c in signal.circle), (), message, record)


def dense_signal(record: Record, names: tuple[str, ...], settings: ReturnSearch, rate: float) -> DenseSignal:
    """Channels with continuous angles, their sizes and tolerances, and the delay."""
    segments = record.segments()
    values = record.select(names).unwrapped().values()
    circle = np.array([bool(record.dataset[name].attrs.get("angle", False)) for name in names])
    size = np.where(circle, 2 * np.pi, np.ptp(values, axis=0))
    if isinstance(settings.tolerance, Mapping):
        missing = [name for name in names if name not in settings.tolerance]
        if missing:
            raise DataError(f'No tolerance for channel "{missing[0]}": name every channel, or give one number.')
        tolerance = np.array([float(settings.tolerance[name]) for name in names])
    else:
        tolerance = np.full(len(names), float(settings.tolerance))
    delay = settings.delay
    if delay is None:
        longest = min(round(rate), max(piece.stop - piece.start for piece in segments) // 4)
        curves = [
            mutual_information(values[:, k], longest, segments=segments, angle=bool(circle[k]))
            for k in range(len(names))
        ]
        delay = forced_delay(curves, rate)
    return DenseSignal(values, size, circle, tolerance, segments, delay, settings.dimension)


def gap(signal: DenseSignal, first: Array, second: Array) -> Array:
    """Differences in units of each channel's tolerance, angles on the circle."""
    difference = (second - first) / signal.size
    difference[..., signal.circle] -= np.round(difference[..., signal.circle])
    return difference / signal.tolerance


def best_returns(signal: DenseSignal, lag: int) -> tuple[Index, Array]:
    """Rows at which the return after `lag` samples is closest within each stretch of returns, and how close (≤ 1)."""
    rows, errors = [], []
    reach = signal.delay * (signal.dimension - 1)
    for piece in signal.segments:
        values = signal.values[piece]
        if len(values) <= lag + reach:
            continue
        worst = np.abs(gap(signal, values[:-lag], values[lag:])).max(axis=1)
        # The return must hold all the way to the last delay: the running maximum of the next `reach` samples.
        later = maximum_filter1d(worst, reach + 1, origin=-((reach + 1) // 2))[: len(worst) - reach]
        close = np.flatnonzero(later <= 1.0)
        if not close.size:
            continue
        runs = np.split(close, np.flatnonzero(np.diff(close) > 1) + 1)
        best = np.array([run[np.argmin(later[run])] for run in runs])
        rows.append(best + piece.start)
        errors.append(later[best])
    if not rows:
        return np.empty(0, np.intp), np.empty(0)
    return np.concatenate(rows), np.concatenate(errors)


def repeats_within(signal: DenseSignal, row: int, count: int, rate: float) -> bool:
    """Whether the stretch already returns after a divisor of `count` periods, along most of its length."""
    stop = row + round(count * rate)
    for part in range(1, count):
        if count % part == 0:
            lag = round(part * rate)
            path = gap(signal, signal.values[row : stop - lag], signal.values[row + lag : stop])
            if np.sqrt(np.mean(path**2)) <= 1.0:
                return True
    return False


def sampled_profile(signal: DenseSignal, row: int, lag: int, count: int, per_period: int = 24) -> Array:
    """The stretch (count · per_period, c) sampled at fixed phases, starting with the record's own phase zero."""
    samples = row + np.round(np.arange(count * per_period) * lag / (count * per_period)).astype(np.intp)
    start = next(piece.start for piece in signal.segments if piece.start <= row < piece.stop)
    phase = ((row - start) * count * per_period / lag) % (count * per_period)
    return np.roll(signal.values[samples], round(phase), axis=0)


def same_profile(signal: DenseSignal, first: Array, second: Array, count: int) -> bool:
    """Whether two profiles agree within the tolerance (rms over a period), at any shift by whole excitation periods."""
    step = len(first) // count
    return any(
        np.sqrt(np.mean(gap(signal, first, np.roll(second, k * step, axis=0)) ** 2)) <= 1.0 for k in range(count)
    )


def return_orbit(
    record: Record, names: tuple[str, ...], signal: DenseSignal, row: int, count: int, rate: float, error: float
) -> PeriodicOrbit:
    """The stretch as an orbit whose profile starts at excitation phase zero; its closure lies inside the profile."""
    period = float(record.period or 0.0)
    lag = round(count * rate)
    stretch = signal.values[row : row + lag]
    turns = np.round((signal.values[row + lag] - signal.values[row]) / (2 * np.pi)) * signal.circle
    interval = float(period / rate)
    piece = next(p for p in signal.segments if p.start <= row < p.stop)
    phase = (float(record.time[row]) - record.excitation_start) % period
    first = round(((period - phase) % period) / interval) % lag
    states = np.concatenate([stretch[first:], stretch[:first] + 2 * np.pi * turns])
    states[:, signal.circle] -= 2 * np.pi * np.round(states[0, signal.circle] / (2 * np.pi))
    strobes = np.round(np.arange(count) * rate).astype(np.intp)
    points = states[strobes].copy()
    points[:, signal.circle] = (points[:, signal.circle] + np.pi) % (2 * np.pi) - np.pi
    return PeriodicOrbit(
        states=names,
        points=points,
        period=count * period,
        repeats=count,
        winding=tuple(int(t) for t in turns),
        closure=float(error * np.max(signal.tolerance)),
        visits=1,
        method="close return",
        profile=Profile(np.asarray(np.arange(lag) * interval, float), states),
        details={"sample": row, "last_sample": row + lag, "segment_start": piece.start, "phase": phase},
    )
