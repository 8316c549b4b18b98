"""How well the motion follows the data: residuals beside the noise of the sensors themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kapitza.circle import unwrap
from kapitza.estimate.judge import robust_scale
from kapitza.estimate.misfit import ALARM, Misfit, floor_of, place_of, structure, worst
from kapitza.estimate.series.noise import SensorNoise
from kapitza.estimate.series.pieces import Samples
from kapitza.estimate.series.residuals import ROUNDING, predicted_rates
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.task import MotionTask
from kapitza.signal import scatter

Array = NDArray[np.float64]

EVEN = 1e-3
"""Largest deviation of a sampling step, relative to it, up to which a stretch has a spectrum."""

SHORTEST = 64
"""Samples of a stretch whose spectrum is looked at."""


def own_noise(task: MotionTask, found: Found) -> SensorNoise:
    """The sensors with their own noise: as stated, else from the record itself, and no more than the residuals hold.

    The white part of the residuals is one more bound: what the motion leaves at high frequencies.
    """
    samples, sensors = task.problem.samples, found.sensors
    deviations = sensors.deviations.copy()
    for s in np.flatnonzero(~sensors.known):
        c = int(sensors.channel[s])
        mine = samples.sensor[:, c] == s
        left = found.solution.sweep.residual[mine, c]
        bounds = [float(deviations[s]), floor_of(np.clip(left, *_sane(left)))]
        seen = _scatter(task, samples, mine, c)
        bounds += [seen] if np.isfinite(seen) else []
        least = 1e-13 * samples.spread[c]
        deviations[s] = max(min(bounds), least)
    return replace(sensors, deviations=deviations)


def _sane(left: Array) -> tuple[float, float]:
    limit = 5.0 * robust_scale(left) or np.inf
    return -limit, limit


def _scatter(task: MotionTask, samples: Samples, mine: NDArray[np.bool_], c: int) -> float:
    """Noise of one sensor from its longest even stretch; NaN where there is none."""
    longest, best = None, SHORTEST - 1
    for piece in samples.pieces:
        if piece.stop - piece.start > best and mine[piece].all():
            longest, best = piece, piece.stop - piece.start
    if longest is None:
        return float("nan")
    steps = np.diff(samples.time[longest])
    step = float(np.median(steps))
    if np.abs(steps - step).max() > EVEN * step:
        return float("nan")
    values = samples.values[longest, c]
    values = unwrap(values) if task.observation.angles[c] else values
    period = task.model.period
    return float(scatter(values[:, None], None if period is None else period / step).level[0])


def misfit_of(task: MotionTask, found: Found, near: Sequence[float], own: SensorNoise) -> Misfit | None:
    """The worst of all channels; near: chances that white noise is as correlated as the residuals of each."""
    samples, residual = task.problem.samples, found.solution.sweep.residual
    spared = max(1.0 - task.fitted / max(samples.readings, 1), 1e-6)
    sizes, deviations = samples.at_readings(own.deviations), samples.at_readings(found.sensors.deviations)
    several, judged = len(task.observation.channels) > 1, []
    for c, channel in enumerate(task.observation.channels):
        read = samples.sensor[:, c] >= 0
        if not read.any():
            continue
        left, noise = residual[read, c], sizes[read, c]
        level, white = float(np.mean((left / noise) ** 2)) / spared, left / deviations[read, c]
        if samples.outliers:
            # Wild readings would hide any band; their sign still tells.
            level, white = robust_scale(left / noise) ** 2, np.clip(white, -3.0, 3.0)
        rounding = float(np.sqrt(np.mean(left**2))) <= ROUNDING * samples.spread[c]
        chance = min(1.0, 2 * min(near[c], 1.0 if rounding else structure(white)))
        beyond = np.sqrt(max(level - 1.0, 0.0))
        share = beyond * float(np.sqrt(np.mean(noise**2))) / samples.spread[c]
        where = _place(task, found, c) if chance < ALARM else ""
        where = f'"{channel}" {where}'.strip() if several or not where else where
        known = bool(own.known[own.channel == c].all())
        source = "the noise stated" if known else "scatter of the readings"
        judged.append(Misfit(float(beyond), float(share), chance, "the motion", where, source))
    return worst(judged)


def _place(task: MotionTask, found: Found, c: int) -> str:
    """At which states the residuals of a channel are largest."""
    read, predicted = task.problem.samples.sensor[:, c] >= 0, found.solution.sweep.predicted
    signals, rates = {}, predicted_rates(task, found.solution)
    for i, channel in enumerate(task.observation.channels):
        if not task.observation.angles[i]:
            signals[channel] = (predicted[:, i] - np.median(predicted[:, i]))[read]
        if f"{channel}'" not in task.observation.channels:
            signals[f"{channel}'"] = rates[read, i]
    return place_of(found.solution.sweep.residual[read, c] ** 2, signals)
