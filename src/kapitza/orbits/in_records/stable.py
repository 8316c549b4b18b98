"""The stable orbit on which a periodic record stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.orbits import Crossings, OrbitMeasurement, PeriodicOrbit, Stretch
from kapitza.orbits.in_records.bookkeeping import default_partition, symbolic_code, winding_numbers
from kapitza.orbits.in_records.crossings import AMBIGUOUS, PARTS
from kapitza.orbits.in_records.section import Section
from kapitza.signal import MEDIAN_TO_DEVIATION

FEWEST_PASSES = 4
"""Passes of a free motion from which its channels have means with errors."""


def stable_orbit(section: Section, period: int, partition: Callable[..., Any] | None = None) -> PeriodicOrbit:
    """Return the orbit that a periodic record repeats.

    It closes after `period` steps and is the mean of its passes, with the covariance of the mean.
    The passes are those of the longest stretch without interruption, its second half where that holds ten passes, so
    that a transient dies out. Their scatter counts as the error of one pass, independent of the next.
    """
    longest = int(np.argmax(section.run))
    length = int(section.run[longest]) + 1
    count = length // period
    rows = longest + length - period * np.arange(count, 0, -1)
    rows = rows[count // 2 :] if count >= 20 else rows
    base = section.unit[rows[0] : rows[0] + period]
    path = section.wrap(section.unit[rows[:, None] + np.arange(period)] - base)
    passes = path.reshape(len(rows), -1)
    # Noise occasionally adds a false turning point: passes far from the others do not belong to this orbit.
    centre = np.median(passes, axis=0)
    width = MEDIAN_TO_DEVIATION * np.median(np.abs(passes - centre), axis=0)
    usual = np.all(np.abs(passes - centre) <= 6.0 * width + 1e-12, axis=1)
    rows, path, passes = rows[usual], path[usual], passes[usual]
    points = section.canonical(base + np.mean(path, axis=0))
    covariance = np.atleast_2d(np.cov(passes.T)) / len(rows) if len(rows) > 1 else None
    scale = np.tile(section.scale, period)
    physical = section.physical(points)
    time, deviation = period * section.step, None
    if section.duration is not None:
        # The last row of the stretch has no image, so no time to it either.
        times = section.duration[rows[:, None] + np.arange(period)].sum(axis=1)
        times = times[np.isfinite(times)]
        # No pass may have a time: the mean step of the section is taken then.
        if times.size:
            times = times[np.abs(times - np.median(times)) <= 0.1 * np.median(times)]
            time = float(np.mean(times))
            deviation = float(np.std(times) / np.sqrt(len(times)))
    gap = path[1:] - path[:-1]
    return PeriodicOrbit(
        states=section.states,
        points=physical,
        period=time,
        repeats=period,
        winding=winding_numbers(section, points, int(rows[0]) if len(rows) > 1 else -1)[0],
        closure=float(np.sqrt(np.mean(np.sum(gap**2, axis=2)))) if len(gap) else float("nan"),
        code=symbolic_code(physical, partition or default_partition(section), None),
        stability="stable",
        method="mean of a periodic record",
        measured=OrbitMeasurement(
            None if covariance is None else covariance * np.outer(scale, scale),
            visits=len(rows),
            period_deviation=deviation,
            stretch=Stretch(int(section.sample[rows[0]]), int(section.sample[min(rows[0] + period, section.size - 1)])),
            crossings=_crossings(section, rows, period),
        ),
    )


def _crossings(section: Section, rows: NDArray[np.intp], period: int) -> Crossings | None:
    """Return the channels along a free motion's orbit.

    They are means over its passes (R,), or None for forced records.
    """
    if section.paths is None or section.rates is None or section.duration is None:
        return None
    steps = rows[:, None] + np.arange(period)
    duration = section.duration[steps]
    whole = np.asarray(np.isfinite(duration).all(axis=1))
    total = duration.sum(axis=1)
    whole &= np.abs(total - np.median(total[whole])) <= 0.1 * np.median(total[whole]) if whole.any() else False
    if whole.sum() < FEWEST_PASSES:
        return None
    steps, duration, total = steps[whole], duration[whole], total[whole]
    values, rates = section.paths[steps], section.rates[steps].mean(axis=0)
    begin = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(duration, axis=1)[:, :-1]], axis=1)
    times, lengths = begin.mean(axis=0), duration.mean(axis=0)
    scatter = values[:, :, 0].std(axis=0).max(axis=0)
    used = np.flatnonzero(scatter <= AMBIGUOUS * np.ptp(section.paths.reshape(-1, values.shape[3]), axis=0))
    if not used.size:
        return None
    # Read at given times, a pass that is late by δt shows y - y' δt.
    late = (begin - times)[:, :, None]
    shown = (values[:, :, 0] - rates * late)[..., used].reshape(len(steps), -1)
    covariance = np.atleast_2d(np.cov(np.column_stack([shown, total]).T)) / len(steps)
    return Crossings(
        channels=tuple(section.channels[c] for c in used),
        values=values[:, :, 0, used].mean(axis=0),
        times=times,
        covariance=covariance,
        path_times=(times[:, None] + lengths[:, None] * np.arange(PARTS) / PARTS).ravel(),
        path_values=values[..., used].mean(axis=0).reshape(-1, used.size),
    )
