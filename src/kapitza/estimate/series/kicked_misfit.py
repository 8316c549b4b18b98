"""How well a motion with kicks follows the data: readings and kicks together beside white noise.

States that may jump follow the noise, so what they leave of it is not white on a right model. The standardised
residuals and kicks r = (1 - P) n are what is left of white noise n when the states have taken their part P n, P the
projector on their columns. Fresh white noise z put through the same states gives P z, and

    r + P z

is white exactly where the model is linear and right, in readings and kicks alike. What the model misses stays in it:
the kicks that stand in for a missing force hang together, or follow the drive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kapitza.estimate.judge import whiteness
from kapitza.estimate.misfit import Misfit, floor_of, structure, worst
from kapitza.estimate.series.pieces import kicks_between
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.sweep import FEEBLE
from kapitza.estimate.series.task import MotionTask
from kapitza.solve import ChainProgram

Array = NDArray[np.float64]

LAGS = 10


def misfit_of_kicked(task: MotionTask, found: Found) -> Misfit | None:
    """The worst of all channels and of the kicks of all states; None where nodes are not at the samples."""
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
    """Readings (N, c) and kicks (N, n), white on a right model; NaN where nothing was read or nothing kicks."""
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
    moved = program.solve_given(np.empty(0)).nodes
    following = np.concatenate([moved[1:], moved[:1]])
    stretched = np.einsum("inm,im->in", part.propagators, moved) - following
    readings = weight * part.residual - np.einsum("icn,in->ic", to_state, moved)
    with np.errstate(divide="ignore", invalid="ignore"):
        kicks = (part.defect - stretched) / root
    return np.where(samples.sensor >= 0, readings, np.nan), np.where(soft, kicks, np.nan)


def _chance(series: Array, joined: NDArray[np.bool_], fitted: float) -> float:
    """Probability that white noise hangs together as much, at near lags or in any band."""
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
            # Noise that was stated may be too small as well.
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
    """What hangs together, in units of what does not."""
    floor = floor_of(own)
    return float(np.sqrt(max(float(np.mean(own**2)) - floor**2, 0.0)) / max(floor, np.finfo(float).tiny))
