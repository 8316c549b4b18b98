"""Misfit of the motion, relative to sensor noise.

States that may jump follow the noise, so their residuals are not white on a right model. The standardised
residuals and kicks r = (1 - P) n are what is left of white noise n when the states have absorbed the part P n, P the
projector on their columns. Fresh white noise z put through the same states gives P z, and

    r + P z

is white exactly where the model is linear and right, in samples and kicks alike. What the model misses stays in it:
the kicks that stand in for a missing force are correlated, or follow the drive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from kapitza.base.angles import unwrap
from kapitza.base.arrays import Array, Flags
from kapitza.estimate.judge import robust_scale, whiteness
from kapitza.estimate.misfit import ALARM, Misfit, floor_of, place_of, structure, worst
from kapitza.estimate.shooting_fit.noise import SensorNoise
from kapitza.estimate.shooting_fit.pieces import Samples, kicks_between
from kapitza.estimate.shooting_fit.residuals import ROUNDING, predicted_rates
from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.sweep import FEEBLE
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.signal import scatter
from kapitza.solve import ChainProgram

EVEN = 1e-3
"""Largest relative deviation of a sampling step for which a spectrum is computed."""

MOSTLY = 0.9
"""Smallest share of valid samples in a stretch; bad samples are bridged."""

SHORTEST = 64
"""Fewest samples of a stretch whose spectrum is used."""


def own_noise(task: MotionTask, found: Found) -> SensorNoise:
    """Return the sensors with their own noise.

    The noise is as stated, else from the record itself, and not more than the residuals contain. The white part of
    the residuals is one more bound: what the motion leaves at high frequencies.
    """
    samples, sensors = task.problem.samples, found.sensors
    deviations = sensors.deviations.copy()
    for s in np.flatnonzero(~sensors.known):
        c = int(sensors.channel[s])
        mine = samples.sensor[:, c] == s
        left = found.solution.sweep.residual[mine, c]
        bounds = [float(deviations[s]), floor_of(np.clip(left, *_clip_limits(left)))]
        seen = _scatter(task, samples, mine, c)
        bounds += [seen] if np.isfinite(seen) else []
        least = 1e-13 * samples.spread[c]
        # The smallest of several upper bounds: each may contain motion, none is below the noise.
        deviations[s] = max(min(bounds), least)
    return replace(sensors, deviations=deviations)


def _clip_limits(left: Array) -> tuple[float, float]:
    # Outliers would raise the floor of the spectrum.
    limit = 5.0 * robust_scale(left) or np.inf
    return -limit, limit


def _scatter(task: MotionTask, samples: Samples, mine: Flags, c: int) -> float:
    """Return the noise of one sensor.

    It is that of its longest even stretch; NaN where there is none.
    """
    longest, best = None, SHORTEST - 1
    for piece in samples.pieces:
        if piece.stop - piece.start > best and mine[piece].mean() >= MOSTLY:
            longest, best = piece, piece.stop - piece.start
    if longest is None:
        return float("nan")
    steps = np.diff(samples.time[longest])
    step = float(np.median(steps))
    # The noise floor is taken from a spectrum, which needs equal steps.
    if np.abs(steps - step).max() > EVEN * step:
        return float("nan")
    values = samples.values[longest, c]
    values = unwrap(values) if task.observation.angles[c] else values
    period = task.model.period
    return float(scatter(values[:, None], None if period is None else period / step).level[0])


def misfit_of(task: MotionTask, found: Found, near: Sequence[float], own: SensorNoise) -> Misfit | None:
    """Return the worst misfit of all channels.

    near: probabilities that white noise is as correlated as the residuals of each.
    """
    samples, residual = task.problem.samples, found.solution.sweep.residual
    # Fitted numbers reduce the mean square of the residuals.
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
            # Outliers would hide any band; clipped residuals keep their sign.
            level, white = robust_scale(left / noise) ** 2, np.clip(white, -3.0, 3.0)
        rounding = float(np.sqrt(np.mean(left**2))) <= ROUNDING * samples.spread[c]
        # Two tests; rounding has structure that is not a misfit.
        chance = min(1.0, 2 * min(near[c], 1.0 if rounding else structure(white)))
        beyond = np.sqrt(max(level - 1.0, 0.0))
        share = beyond * float(np.sqrt(np.mean(noise**2))) / samples.spread[c]
        where = _place(task, found, c) if chance < ALARM else ""
        where = f'"{channel}" {where}'.strip() if several or not where else where
        known = bool(own.known[own.channel == c].all())
        source = "the noise stated" if known else "scatter of the samples"
        judged.append(Misfit(float(beyond), float(share), chance, "the motion", where, source))
    return worst(judged)


def _place(task: MotionTask, found: Found, c: int) -> str:
    """Return the states at which residuals are largest.

    The residuals are those of one channel.
    """
    read, predicted = task.problem.samples.sensor[:, c] >= 0, found.solution.sweep.predicted
    signals, rates = {}, predicted_rates(task, found.solution)
    for i, channel in enumerate(task.observation.channels):
        if not task.observation.angles[i]:
            signals[channel] = (predicted[:, i] - np.median(predicted[:, i]))[read]
        if f"{channel}'" not in task.observation.channels:
            signals[f"{channel}'"] = rates[read, i]
    return place_of(found.solution.sweep.residual[read, c] ** 2, signals)


LAGS = 10
"""Lags at which kicks are tested for correlation."""


def misfit_of_kicked(task: MotionTask, found: Found) -> Misfit | None:
    """Return the worst misfit of channels and kicks.

    The kicks of all states are tested; None where nodes are not at the samples.
    """
    solution, samples = found.solution, task.problem.samples
    if solution.kicks is None or solution.nodes.size != samples.size:
        return None
    try:
        readings, kicks = _whitened(task, found, solution.kicks)
    except np.linalg.LinAlgError:
        return None
    judged = [*_of_channels(task, found, readings), *_of_kicks(task, found, kicks)]
    return worst(judged)


def _whitened(task: MotionTask, found: Found, size: Array) -> tuple[Array, Array]:
    """Return residuals (N, c) and kicks (N, n), whitened.

    White on a right model; NaN where there is no sample or no kick.
    """
    solution, samples = found.solution, task.problem.samples
    part, nodes, rng = solution.sweep, solution.nodes, np.random.default_rng(0)
    slack = size**2 * kicks_between(samples, nodes)[:, None]
    soft = (slack > 0) & nodes.linked[:, None]
    root, weight = np.sqrt(slack), np.sqrt(solution.weights)
    vectors = task.problem.parameters(solution.theta, nodes.index)
    _, slopes = task.observation.along(solution.states, samples.time, vectors, None)
    to_state = slopes[..., : size.size] * weight[..., None]
    read, kick = rng.standard_normal(weight.shape) * (weight > 0), rng.standard_normal(slack.shape) * soft
    program = ChainProgram(
        part.hessian + np.diag(FEEBLE / task.scale**2),
        np.einsum("icn,ic->in", to_state, read),
        part.propagators,
        -root * kick,
        linked=nodes.linked,
        slack=slack,
    )
    # P z: how the states follow fresh noise.
    moved = program.solve_given(np.empty(0)).nodes
    following = np.concatenate([moved[1:], moved[:1]])
    stretched = np.einsum("inm,im->in", part.propagators, moved) - following
    readings = weight * part.residual - np.einsum("icn,in->ic", to_state, moved)
    with np.errstate(divide="ignore", invalid="ignore"):
        kicks = (part.defect - stretched) / root
    return np.where(samples.sensor >= 0, readings, np.nan), np.where(soft, kicks, np.nan)


def _chance(series: Array, joined: Flags, fitted: float) -> float:
    """Return the p-value of correlation or a band.

    The probability that white noise is as correlated at near lags, or has as strong a band.
    """
    known = np.isfinite(series)
    count = int(known.sum())
    if count < 16:
        return 1.0
    mean = float(series[known].mean())
    near = whiteness(np.where(known, series - mean, 0.0), joined, count, min(LAGS, count // 5), fitted / count)[0]
    return min(1.0, 2 * min(near, structure(series[known])))


def _of_channels(task: MotionTask, found: Found, readings: Array) -> Sequence[Misfit]:
    samples, sensors, judged = task.problem.samples, found.sensors, []
    for c, channel in enumerate(task.observation.channels):
        own = readings[:, c][np.isfinite(readings[:, c])]
        if not own.size:
            continue
        chance, level = _chance(readings[:, c], samples.joined, task.fitted), float(np.mean(own**2))
        known = bool(sensors.known[sensors.channel == c].all())
        if known:
            # A stated noise may be too small, which only the level of the residuals shows.
            chance = min(1.0, 2 * min(chance, float(special.chdtrc(own.size, own.size * level))))
        beyond = float(np.sqrt(max(level - 1.0, 0.0))) if known else _beyond(own)
        noise = float(np.sqrt(np.mean(sensors.deviations[sensors.channel == c] ** 2)))
        source = "the noise stated" if known else "the likeliest noise"
        share = beyond * noise / float(samples.spread[c])
        judged.append(Misfit(beyond, share, chance, "the motion", f'"{channel}"', source))
    return judged


def _of_kicks(task: MotionTask, found: Found, kicks: Array) -> Sequence[Misfit]:
    size, judged = found.solution.kicks, []
    assert size is not None
    for i, state in enumerate(task.model.states):
        own = kicks[:, i][np.isfinite(kicks[:, i])]
        if not own.size:
            continue
        chance, beyond = _chance(kicks[:, i], task.problem.samples.joined, task.fitted), _beyond(own)
        share = beyond * float(size[i]) / float(task.scale[i])
        judged.append(Misfit(beyond, share, chance, "the motion", f"the kicks of {state}", "the likeliest kicks"))
    return judged


def _beyond(own: Array) -> float:
    """Return the correlated part relative to the white part."""
    floor = floor_of(own)
    return float(np.sqrt(max(float(np.mean(own**2)) - floor**2, 0.0)) / max(floor, np.finfo(float).tiny))
