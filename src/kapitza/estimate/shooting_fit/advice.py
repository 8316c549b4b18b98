"""Warnings of a converged fit, and diagnosis of failures.

What is suspicious, why a fit failed, and what to try next.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from kapitza.base.angles import mean
from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import By, Give
from kapitza.errors import Status
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.judge import doubtful_parameters, robust_scale
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.priors import surprising_priors
from kapitza.estimate.shooting_fit.noise import power_of
from kapitza.estimate.shooting_fit.residuals import LARGEST_MISFIT, misfit
from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.solver import MotionSolution
from kapitza.estimate.shooting_fit.sweep import sizes_of
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.solve import largest_first, symmetric_eigenvectors

WRONG_NOISE = 1.2
"""Warn when residuals differ from the stated noise by more than this factor (and by more than chance allows)."""

FLAT = 0.2
"""A motion with less than this fraction of the data's spread counts as a flat line."""

RAN_AWAY = 1e4
"""Growth of a parameter from its start from which it is reported."""

SLOPPY = 1e6
"""Ratio of the largest to the smallest relative standard error from which parameters count as exchangeable."""


def warnings_of(
    task: MotionTask, found: Found, misfit: Misfit | None, identifiability: Identifiability, covariance: Array
) -> list[str]:
    solution = found.solution
    texts = list(doubtful_parameters(task.request, solution.theta, covariance, solution.at_bound))
    if not identifiability.complete:
        texts.append(identifiability.message())
    if misfit is not None and solution.status is Status.CONVERGED:
        texts += [text + task.doubtful_bridges for text in misfit.warnings()]
    texts += _disagreeing_starts(task, found) + _second_minimum(task, found)
    priors = list(surprising_priors(task.model, task.names, solution.theta, solution.covariance, solution.at_bound))
    return texts + _wrong_noise(task, found, misfit) + priors + _shared_noise(task, solution)


def _disagreeing_starts(task: MotionTask, found: Found) -> list[str]:
    """Warn of another solution from another start."""
    if not found.rivals:
        return []
    place = ", ".join(f"{name} = {value:.4g}" for name, value in zip(task.names, found.rivals[0], strict=True))
    return [
        f"From another start the fit converged to {place}, where the residuals are larger: starting values matter "
        f"here; try others, or {Give(method='auto')}."
    ]


def _second_minimum(task: MotionTask, found: Found) -> list[str]:
    """Report another minimum that is nearly as likely."""
    if found.second is None:
        return []
    theta, excess = found.second
    place = ", ".join(f"{name} = {value:.4g}" for name, value in zip(task.names, theta, strict=True))
    return [
        f"{place} follows the data nearly as well (-2 log L is larger by {excess:.2g}): the intervals are those of the "
        "values given and leave this minimum out. A known initial state, a prior or one more channel would tell them "
        "apart."
    ]


def _wrong_noise(task: MotionTask, found: Found, misfit: Misfit | None) -> list[str]:
    """Warn of sensors whose residuals contradict the stated noise.

    Smaller residuals than the noise, or larger ones where no misfit is reported.
    """
    samples, sensors, robust = task.problem.samples, found.sensors, task.settings.robust
    power, count = power_of(samples, found.solution.sweep.residual, sensors.deviations, None)
    texts = []
    for s in np.flatnonzero(sensors.known & (count > 0)):
        free = max(count[s] * (1 - task.fitted / max(samples.readings, 1)), 1.0)
        chance = min(special.chdtrc(free, power[s]), special.chdtr(free, power[s]))
        ratio = np.sqrt(power[s] / free)
        c = int(sensors.channel[s])
        if robust:
            own = found.solution.sweep.residual[samples.sensor[:, c] == s, c]
            ratio = robust_scale(own) / sensors.deviations[s]
        # Kicks absorb a part of the residuals: then only residuals that are too large count.
        low = 0.0 if task.settings.process_noise else 1 / WRONG_NOISE
        high = WRONG_NOISE if misfit is None or misfit.to_the_noise else np.inf
        # A rare event and a large factor: long records make any small difference significant.
        if chance < 1e-6 and not low <= ratio <= high:
            where = "" if sensors.record.max() == 0 else f" in record {sensors.record[s]}"
            fault = (
                "it would make the intervals too narrow, they follow the residuals"
                if ratio > 1
                else ("the intervals are too wide")
            )
            texts.append(
                f'residuals of "{task.observation.channels[c]}"{where} are {ratio:.2g} times the noise given '
                f"({sensors.deviations[s]:.3g}): {fault}. Leave the noise out and it is estimated, or the model misses "
                "something."
            )
    return texts


def _shared_noise(task: MotionTask, solution: MotionSolution) -> list[str]:
    """Warn of channels with the same residuals.

    They are the same sensor counted twice.
    """
    residual, channels = solution.sweep.residual, task.observation.channels
    size = np.sqrt((residual**2).mean(axis=0))
    texts = []
    for i, first in enumerate(channels):
        for j in range(i + 1, len(channels)):
            power = size[i] * size[j]
            if power > 0 and abs(float((residual[:, i] * residual[:, j]).mean())) > 0.95 * power:
                texts.append(
                    f'residuals of "{first}" and "{channels[j]}" are the same: if one is a copy of the other, drop it, '
                    "the intervals are too narrow."
                )
    return texts


def explain(task: MotionTask, solution: MotionSolution, identifiability: Identifiability) -> str:
    """Return one line for every likely cause of failure."""
    lines = [f"{By('shooting')} did not converge: {solution.status.value}."]
    # A fit that starts far from the data can end in a motion at rest.
    flat = solution.sweep.predicted.std(axis=0) < FLAT * task.problem.samples.spread
    lines += _open_gaps(task, solution) + _undeclared_turns(task)
    if flat.any():
        lines.append(
            "The fitted motion is a flat line compared with the data: the start is too far off; start from "
            f"{By('harmonic')} or {By('invariant')}, or give better starting values."
        )
    else:
        lines += _out_of_step(task, solution)
    unseen = [name for name, known in zip(task.model.states, task.known, strict=True) if not known]
    if unseen:
        lines.append(
            f"No sensor sees {', '.join(unseen)} directly: a prior, a known initial state or one more channel would "
            "help."
        )
    if not identifiability.complete or identifiability.condition > SLOPPY:
        lines.append(
            f"Parameters are nearly exchangeable (condition {identifiability.condition:.1e}). "
            + (_weakest(task.names, solution) if identifiability.complete else identifiability.message())
        )
    begun = np.array([task.model.values[name] for name in task.names])
    for i in np.flatnonzero((begun != 0) & (np.abs(solution.theta) > RAN_AWAY * np.abs(begun))):
        lines.append(
            f"{task.names[i]} ran away from {begun[i]:.3g} to {solution.theta[i]:.3g}: bound it, or start nearer."
        )
    if solution.at_bound.any():
        stuck = ", ".join(n for n, at in zip(task.names, solution.at_bound, strict=True) if at)
        lines.append(f"At a bound: {stuck}.")
    return " ".join(lines) + task.doubtful_bridges


def _open_gaps(task: MotionTask, solution: MotionSolution) -> list[str]:
    """Describe links that do not close."""
    defect = np.sqrt((solution.sweep.defect**2).mean(axis=0)) / task.scale
    # The links are practically closed: the failure has another cause.
    if solution.softness <= 1e-4 and defect.max() <= 1e-3:
        return []
    worst = int(np.argmax(defect))
    node = int(np.argmax(np.abs(solution.sweep.defect[:, worst])))
    where = task.problem.samples.time[solution.nodes.index[node]]
    return [
        f"The model cannot follow the data: the gaps between shooting intervals do not close (in "
        f"{task.model.states[worst]} still {defect[worst]:.1e} of its spread, worst near t = {where:.6g} s). "
        "Check the equations, units and sign conventions"
        + (
            ", or free the initial states by more channels."
            if task.settings.process_noise
            else f", or allow {Give(process_noise=True)}."
        )
    ]


def _undeclared_turns(task: MotionTask) -> list[str]:
    """Describe channels that jump by a turn.

    They are not declared as angles.
    """
    samples, lines = task.problem.samples, []
    for c in np.flatnonzero(~task.observation.angles):
        steps = np.abs(np.diff(samples.values[:, c]))[samples.joined[:-1]]
        jumps = steps > np.pi
        if jumps.any() and np.ptp(samples.values[:, c]) < 2 * np.pi + 0.5 and steps[~jumps].max(initial=0.0) < 2.0:
            lines.append(
                f'"{task.observation.channels[c]}" jumps by about a turn {int(jumps.sum())} times: if it is an '
                f"angle, say so ({Give('angles')} of the record, or the coordinate of the model)."
            )
    return lines


def _out_of_step(task: MotionTask, solution: MotionSolution) -> list[str]:
    """Describe a motion out of step with the data.

    It is as large as the data; counts of the oscillations show by how many periods it slips.
    """
    samples = task.problem.samples
    size = misfit(samples, solution)
    if size <= LARGEST_MISFIT:
        return []
    words = f"The fitted motion runs out of step with the data (residuals {100 * size:.0f} % of their spread)"
    for c, channel in enumerate(task.observation.channels):
        angle = bool(task.observation.angles[c])
        seen = _oscillations(samples.values[:, c], samples.joined, angle)
        fitted = _oscillations(solution.sweep.predicted[:, c], samples.joined, angle)
        slip = abs(seen - fitted)
        if slip >= 1:
            periods = f"{slip} periods" if slip > 1 else "a period"
            words += f': a slip by {periods} (the data make {seen} oscillations in "{channel}", the fit {fitted})'
            break
    return [words + "; check the excitation's period and phase, or fit a shorter window first."]


def _oscillations(values: Array, joined: Flags, angle: bool) -> int:
    """Count the oscillations of a signal.

    How often it goes from its upper to its lower third and back, over all pieces. Angles count by their sine about the
    mean direction, so that turns count too.
    """
    if angle:
        centre = mean(values)
        values = np.sin(values - centre)
    away = values - np.median(values)
    # Hysteresis, so that noise about the middle does not count as oscillations.
    limit = 0.5 * away.std()
    side = np.where(away > limit, 1, np.where(away < -limit, -1, 0))
    piece = np.cumsum(np.concatenate([[0], ~joined[:-1]]))
    marked = np.flatnonzero(side)
    change = (np.diff(side[marked]) != 0) & (np.diff(piece[marked]) == 0)
    return int(change.sum()) // 2


def _weakest(names: tuple[str, ...], solution: MotionSolution) -> str:
    """Describe the combination that the data determine worst.

    Its largest members are named.
    """
    if not names:
        return ""
    size = sizes_of(solution.theta)
    _, vectors = symmetric_eigenvectors(solution.information * np.outer(size, size))
    weak = vectors[:, 0]
    order = largest_first(np.abs(weak))
    members = [names[i] for i in order if abs(weak[i]) > 0.2]
    changes = ", ".join(f"{n} by {100 * weak[names.index(n)] / abs(weak[order[0]]):+.0f} %" for n in members)
    return f"Changing {changes} together hardly changes the motion: fix {members[-1]}, or give it a prior."
