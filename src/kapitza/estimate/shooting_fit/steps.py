"""Steps of a sensor: its offset jumps and stays.

In a record alone a step and an impact look the same. A motion of the model is continuous where the model is, so a step
stays in the residuals. With lines through WIDTH residuals on either side of a sample, extrapolated to it,

    J = line from the right - line from the left

is the jump. A step shows it between two neighbouring samples too; a spike does not, and a misfit is smooth. The sizes
of the steps are estimated with states and parameters, and their uncertainty enters the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import Set
from kapitza.data import KEEP
from kapitza.errors import FlowError, Status
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.estimate.shooting_fit.search import Found, finish, fitter_for, search
from kapitza.estimate.shooting_fit.sweep import chain_of, sweep
from kapitza.estimate.shooting_fit.task import MotionTask, Step
from kapitza.model import symbol
from kapitza.signal import MEDIAN_TO_DEVIATION, record_steps
from kapitza.solve import scaled_inverse

WIDTH = 8
"""Residuals on either side through which a line is fitted."""

LEAST = 7.0
"""Smallest J of a step, in robust deviations."""

AGREE = 0.4
"""Largest deviation of the difference of the two samples from the jump, as a share of it."""

FEWEST = 80
"""Fewest samples of a sensor that determine the scatter of J."""

MOST = 4
"""Most steps of a sensor that count as its faults; more belong to the motion."""

ROUNDS, REFINED = 3, 2
"""Searches for steps (small ones become visible when large ones are removed), and Newton steps of their sizes."""

UNDETERMINED = 1e-12
"""Relative information of a direction below which it counts as undetermined and is not moved."""


def without_steps(task: MotionTask, found: Found) -> tuple[MotionTask, Found]:
    """Fit again with the steps subtracted.

    Unchanged where there are none. A step as large as the motion keeps the fit from its end; then those that the record
    shows by itself are subtracted first.
    """
    if task.settings.robust or task.settings.process_noise or task.model.impacts:
        return task, found
    if found.solution.status is not Status.CONVERGED and (steps := _recorded(task)):
        fewer = _taken_off(task, steps)
        again = search(fewer)
        if again.solution.status is Status.CONVERGED:
            task, found = fewer, again
    for _ in range(ROUNDS):
        steps = _steps(task, found)
        if not steps:
            break
        fewer = _taken_off(task, steps)
        again = search(fewer)
        if again.solution.status is not Status.CONVERGED:
            break
        task, found = fewer, again
    return task, found


def with_step_sizes(task: MotionTask, found: Found) -> tuple[MotionTask, Found]:
    """Estimate the sizes of the steps.

    They are estimated with states and parameters; their uncertainty enters the covariance.
    """
    if not task.steps or found.solution.status is not Status.CONVERGED:
        return task, found
    for _ in range(REFINED):
        joint = _joint(task, found)
        if joint is None:
            return task, found
        moved = tuple(replace(step, size=float(d)) for step, d in zip(task.steps, joint.move, strict=True))
        task = _taken_off(replace(task, steps=()), moved, task.steps)
        fitter = fitter_for(task, task.settings.softness)
        fitter.sensors = found.sensors
        solution = found.solution
        again = fitter.go_on(solution.theta, solution.states, solution.nodes, solution.sweep.residual)
        if again.status is not Status.CONVERGED:
            return task, found
        found = replace(finish(task, fitter, again), rivals=found.rivals)
    joint = _joint(task, found)
    if joint is None:
        return task, found
    # Marginal covariance: sizes of steps are unknowns beside the parameters.
    covariance = found.solution.covariance + joint.response @ np.linalg.solve(joint.own, joint.response.T)
    errors = np.sqrt(np.diag(np.linalg.inv(joint.own)))
    steps = tuple(replace(step, error=float(e)) for step, e in zip(task.steps, errors, strict=True))
    return replace(task, steps=steps), replace(found, solution=replace(found.solution, covariance=covariance))


def step_warnings(task: MotionTask) -> Iterator[str]:
    """Yield a warning for each step."""
    records = [record for record, _ in task.request.records]
    for step in task.steps:
        head = f"record {step.record}: " if len(records) > 1 else ""
        yield (
            f'{head}"{task.observation.channels[step.channel]}" jumps by {step.size:.3g} (± {step.error:.2g}) at '
            f"{step.time + records[step.record].excitation_start:.6g} s and stays there: the offset of the sensor "
            "changes. The step is fitted with the parameters and taken off. If it is real, keep it by "
            f"{Set('data', bad_samples='keep')}."
        )


@dataclass(frozen=True)
class _Joint:
    """Newton step (m,) of the step sizes.

    own: their information (m, m); response: change (k, m) of the parameters by a unit of each.
    """

    move: Array
    own: Array
    response: Array


def _joint(task: MotionTask, found: Found) -> _Joint | None:
    solution = found.solution
    columns = np.stack([_column(task.problem.samples, step) for step in task.steps], axis=2)
    try:
        part = sweep(task.problem, solution.nodes, solution.states, solution.theta, solution.weights, False, columns)
        program = chain_of(part, solution.nodes.linked, task.scale)
    except (FlowError, np.linalg.LinAlgError):
        return None
    k, free = solution.theta.size, np.flatnonzero(~solution.at_bound)
    information, pull = program.information, program.pull
    inverse = np.zeros((k, k))
    if free.size:
        inverse[np.ix_(free, free)] = scaled_inverse(information[np.ix_(free, free)], UNDETERMINED)
    across = information[:k, k:]
    # Information on the steps with states and parameters eliminated.
    own = information[k:, k:] - across.T @ inverse @ across
    if not (np.linalg.eigvalsh(own) > UNDETERMINED * np.diag(information)[k:].max()).all():
        return None
    move = np.asarray(np.linalg.solve(own, pull[k:] - across.T @ inverse @ pull[:k]), float)
    return _Joint(move, own, inverse @ across)


def _column(samples: Samples, step: Step) -> Array:
    """Return the effect (N, c) of a unit step."""
    made = np.zeros(samples.values.shape)
    later = (samples.record == step.record) & (samples.time >= step.time)
    made[later & (samples.sensor[:, step.channel] >= 0), step.channel] = 1.0
    return made


def _taken_off(task: MotionTask, steps: tuple[Step, ...], known: tuple[Step, ...] | None = None) -> MotionTask:
    """Return the task with steps subtracted.

    They are subtracted from its samples; known: steps already subtracted, to whose sizes these are additions.
    """
    samples, everything = task.problem.samples, task.everything
    values, whole = samples.values.copy(), everything.values.copy()
    for step in steps:
        for target, where in ((values, samples), (whole, everything)):
            later = (where.record == step.record) & (where.time >= step.time)
            target[later, step.channel] -= step.size
    # A large step may be subtracted only in part at first, and is then found again at the same place.
    there = {(step.channel, step.record, step.time): step for step in task.steps}
    for step in steps:
        place = step.channel, step.record, step.time
        there[place] = replace(step, size=step.size + there[place].size) if place in there else step
    kept = tuple(there.values())
    if known is not None:
        kept = tuple(replace(old, size=old.size + new.size) for old, new in zip(known, steps, strict=True))
    states = task.states
    if known is None:
        states = _states_without(task, steps)
    problem = replace(task.problem, samples=replace(samples, values=values))
    return replace(task, problem=problem, states=states, everything=replace(everything, values=whole), steps=kept)


def _states_without(task: MotionTask, steps: tuple[Step, ...]) -> Array:
    """Return first states (N, n) with steps subtracted.

    A step is subtracted where a channel measures a state.
    """
    states, samples, names = task.states.copy(), task.problem.samples, list(task.model.states)
    for step in steps:
        expression = task.observation.expressions[step.channel]
        for i, name in enumerate(names):
            if expression == symbol(name):
                later = (samples.record == step.record) & (samples.time >= step.time)
                states[later, i] -= step.size
    return states


def _steps(task: MotionTask, found: Found) -> tuple[Step, ...]:
    """Return the steps that the residuals show.

    Only the sharpest of each sensor count.
    """
    from scipy.ndimage import maximum_filter1d

    samples, part = task.problem.samples, found.solution.sweep
    kept = [record.content.attrs.get(KEEP) == "keep" for record, _ in task.request.records]
    rates = {symbol(f"{c.name}'") for c in task.model.coordinates if c.order == 2}
    made: list[Step] = []
    for s, c in enumerate(found.sensors.channel):
        number = int(found.sensors.record[s])
        mine = np.flatnonzero(samples.sensor[:, c] == s)
        # A velocity may jump by an impact that the model lacks.
        if mine.size < FEWEST or kept[number] or task.observation.expressions[c].free_symbols & rates:
            continue
        whole = samples.joined[mine[:-1]] & (np.diff(mine) == 1)
        jumps = _jumps(part.residual[mine, c], whole)
        sharp = maximum_filter1d(np.abs(np.pad(np.diff(part.predicted[mine, c], 2), 1)), 5)
        at = [i for i in np.flatnonzero(jumps) if abs(jumps[i]) > 2 * sharp[i]]
        # Steps of earlier rounds count towards the limit.
        before = sum(1 for step in task.steps if step.channel == c and step.record == number)
        if len(at) + before <= MOST:
            made += [Step(int(c), number, float(samples.time[mine[i]]), -float(jumps[i])) for i in at]
    return tuple(made)


def _recorded(task: MotionTask) -> tuple[Step, ...]:
    """Return the steps that the records show without a model, in channels that do not measure a rate."""
    made: list[Step] = []
    samples, channels = task.problem.samples, task.observation.channels
    rates = {symbol(f"{c.name}'") for c in task.model.coordinates if c.order == 2}
    for number, (record, _) in enumerate(task.request.records):
        times = samples.time[samples.record == number]
        for channel, pieces in record_steps(record):
            if channel not in channels or task.observation.expressions[channels.index(channel)].free_symbols & rates:
                continue
            for piece, at, sizes in pieces:
                # Times count from the start of the excitation.
                after = record.time[piece][at] - record.excitation_start
                first = np.searchsorted(times, after - 0.5 * np.diff(record.time[piece]).min())
                made += [
                    Step(channels.index(channel), number, float(times[i]), float(size))
                    for i, size in zip(first.tolist(), sizes.tolist(), strict=True)
                    if i < times.size
                ]
    return tuple(made)


def _jumps(residual: Array, joined: Flags) -> Array:
    """Return the jump (N,) of residuals at steps.

    0 elsewhere; joined: (N - 1,) whether neighbours follow.
    """
    from scipy.ndimage import maximum_filter1d

    line = _end_weights()
    ahead = np.correlate(residual, line[::-1], "valid")
    behind = np.correlate(residual, line, "valid")
    count = residual.size - 2 * WIDTH + 1
    at: Indices = np.arange(WIDTH, WIDTH + count)
    # Lines from both sides, extrapolated to the middle between two samples.
    jump = ahead[at] - behind[at - WIDTH]
    scale = float(np.median(np.abs(jump))) * MEDIAN_TO_DEVIATION
    gap = residual[at] - residual[at - 1]
    large = np.abs(jump)
    whole = np.lib.stride_tricks.sliding_window_view(joined, 2 * WIDTH - 1).all(axis=1)
    # A smooth misfit has J without a jump between neighbours, a spike has the jump without J.
    good = (large > LEAST * scale) & (np.abs(gap - jump) < AGREE * large) & whole
    # Only the largest in its neighbourhood counts, among those that agree with the difference of the two samples.
    height = np.where(good, large, 0.0)
    good &= height == maximum_filter1d(height, 2 * WIDTH + 1)
    made = np.zeros(residual.size)
    made[at[good]] = jump[good]
    return made


def _end_weights() -> Array:
    """Return the weights (WIDTH,) of a line's end value.

    They weight samples at -WIDTH … -1 in the value of their line at -1/2.
    """
    x = np.arange(-WIDTH, 0) + 0.5
    return np.asarray(np.linalg.pinv(np.stack([np.ones(WIDTH), x], axis=1))[0], float)
