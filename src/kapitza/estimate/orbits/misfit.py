"""How well the model's orbits follow the measured ones, and what that makes of the intervals."""

from __future__ import annotations

import numpy as np
from scipy import special

from kapitza.arrays import Array
from kapitza.estimate.disagreement import FEWEST_BLOCKS, Widening, widening
from kapitza.estimate.misfit import Misfit, floor_of, structure, worst
from kapitza.estimate.orbits.judge import Outcome, residual_pattern, sampled_residuals
from kapitza.estimate.orbits.readings import Target
from kapitza.estimate.orbits.task import OrbitTask
from kapitza.orbit import PeriodicOrbit

FOUND = 2.0
"""Variance over the stated one that orbits found in a record may have: it is an estimate from few visits."""

BLOCKS = 40
"""Blocks of neighbouring readings whose pulls are compared."""


def misfit_of(task: OrbitTask, outcome: Outcome) -> Misfit | None:
    """χ² beside the covariances where these are known, correlated residuals of sampled motions where they are not."""
    if not outcome.freedom > 0:
        return None
    return _stated(outcome) if task.noise_known else _sampled(outcome)


def _stated(outcome: Outcome) -> Misfit:
    """Residuals beside the errors of the orbits."""
    found = any(_was_found(target) for target in outcome.problem.targets)
    scatter = outcome.chi2 / outcome.dof
    chance = float(special.chdtrc(outcome.dof, outcome.chi2 / (FOUND if found else 1.0)))
    beyond = np.sqrt(max(scatter - 1.0, 0.0))
    share = outcome.misfit * beyond / np.sqrt(max(scatter, 1e-300))
    per_orbit = [float((r.residual**2).mean()) for r in outcome.solution.reduced]
    loudest = int(np.argmax(per_orbit))
    where = f"orbit {outcome.problem.targets[loudest].label}" if len(per_orbit) > 1 else ""
    noise = "the errors of the orbits" if found else "the noise stated"
    return Misfit(float(beyond), float(share), chance, "the orbits", where, noise)


def _was_found(target: Target) -> bool:
    source = target.source
    return isinstance(source, PeriodicOrbit) and (source.influence is not None or bool(source.visits))


def _sampled(outcome: Outcome) -> Misfit | None:
    """Residuals of sampled motions beside their own white part."""
    patterns, judged = residual_pattern(outcome), []
    channels = outcome.problem.channels.names
    for c, channel in enumerate(channels):
        left = np.concatenate(sampled_residuals(outcome, c) or [np.empty(0)])
        scale = float(outcome.problem.channel_scale[c])
        if left.size < 16 or float(left @ left) <= 1e-18 * left.size * scale**2:
            continue
        # What a fit of few numbers to few readings leaves is correlated by itself, at most by their share.
        chance = min(1.0, 2 * structure(left))
        if channel in patterns:
            chance = min(chance, patterns[channel])
        floor = floor_of(left)
        beyond = np.sqrt(max(float(np.mean(left**2)) - floor**2, 0.0))
        where = f'"{channel}"' if len(channels) > 1 else ""
        size = beyond / max(floor, 1e-300)
        judged.append(Misfit(size, beyond / scale, chance, "the orbits", where, "scatter of the readings"))
    return worst(judged)


def widening_of(outcome: Outcome, covariance: Array, freedom: float, white: bool) -> Widening | None:
    """What blocks of neighbouring readings and single orbits make of the intervals; None where they are too few."""
    inside = ~outcome.solution.at_bound
    if not inside.all() or not np.isfinite(covariance).all():
        return None
    pulls, steps, covariances = [], [], []
    for target, reduced in zip(outcome.problem.targets, outcome.solution.reduced, strict=True):
        slope, residual = reduced.slope[: target.times.size], reduced.residual[: target.times.size]
        order = np.argsort(target.times, kind="stable")
        pulls.append(slope[order] * residual[order, None])
        information = slope.T @ slope
        if np.linalg.cond(information) < 1e10:
            inverse = np.linalg.inv(information)
            steps.append(-inverse @ (slope.T @ residual))
            covariances.append(inverse)
    every = np.concatenate(pulls)
    blocks = min(BLOCKS, len(every) // 4)
    scores = None
    if blocks >= FEWEST_BLOCKS:
        edges = np.linspace(0, len(every), blocks + 1).astype(int)
        scores = np.add.reduceat(every, edges[:-1], axis=0)
    several = len(steps) >= 3
    return widening(
        covariance, scores, np.array(steps) if several else None, np.array(covariances) if several else None, white,
        freedom,
    )  # fmt: skip
