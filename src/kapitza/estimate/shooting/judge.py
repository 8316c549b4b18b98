"""After a fit: what to warn of, how far it predicts, and in plain words why it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kapitza.errors import FlowError, Status
from kapitza.estimate.identifiability import Identifiability, analyse
from kapitza.estimate.shooting.post_mortem import explain
from kapitza.estimate.shooting.solver import Solution
from kapitza.flow import Flow

if TYPE_CHECKING:
    from kapitza.estimate.shooting.fit import Task

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Test on samples that were held back: the motion is carried on from the last fitted state.

    error: (N, c) predicted minus measured in standard deviations; horizon [s]: how long it stays within
    four standard deviations.
    """

    time: Array
    error: Array
    horizon: float


@dataclass(frozen=True)
class Judgement:
    """Warnings in plain words, whiteness (p-value per channel), identifiability, prediction, post-mortem."""

    warnings: tuple[str, ...]
    whiteness: Mapping[str, float]
    identifiability: Identifiability
    prediction: Prediction | None
    post_mortem: str
    log_likelihood: float
    details: Mapping[str, float] = field(default_factory=dict)


def judge(task: Task, solution: Solution, deviations: Array) -> Judgement:
    names = task.names
    identifiability = analyse(solution.information, names, _sizes(solution))
    whiteness = whiteness_of(task, solution)
    weighted = solution.sweep.residual / deviations
    likelihood = -0.5 * float((weighted**2).sum()) - float(
        (np.log(deviations * np.sqrt(2 * np.pi)) * len(weighted)).sum()
    )
    post_mortem = "" if solution.status is Status.CONVERGED else explain(task, solution, identifiability)
    return Judgement(
        tuple(_warnings(task, solution, whiteness, identifiability)),
        whiteness,
        identifiability,
        predict(task, solution, deviations),
        post_mortem,
        likelihood,
    )


def _sizes(solution: Solution) -> Array:
    """Size of each parameter: its value, or what the data could resolve were the others known, if that is larger."""
    power = np.diag(solution.information)
    resolved = np.where(power > 0, 1 / np.sqrt(np.where(power > 0, power, 1.0)), 0.0)
    size = np.maximum(np.abs(solution.theta), resolved)
    return np.where(size > 0, size, 1.0)


def _warnings(
    task: Task, solution: Solution, whiteness: Mapping[str, float], identifiability: Identifiability
) -> list[str]:
    found = []
    deviation = np.sqrt(np.clip(np.diag(solution.covariance), 0, None))
    for i, name in enumerate(task.names):
        value, low = solution.theta[i], task.model.parameter(name).bounds[0]
        if solution.at_bound[i]:
            side = "lower" if value <= low else "upper"
            found.append(
                f"{name} sits at its {side} bound {value:.6g}: its interval is not meaningful; widen the bound."
            )
        elif value == task.model.values[name]:
            found.append(f"{name} did not move from its start {value:.6g}: the data may not depend on it.")
        elif deviation[i] > abs(value):
            found.append(f"{name} is smaller than its own standard error: the data hardly determine it.")
    if not identifiability.complete:
        found.append(identifiability.message())
    for channel, chance in whiteness.items():
        if chance < 1e-3:
            found.append(
                f'residuals of "{channel}" are not white (p = {chance:.1e}): the model misses something, or the noise '
                "is correlated; the intervals are then too narrow."
            )
    return found + _shared_noise(task, solution)


def _shared_noise(task: Task, solution: Solution) -> list[str]:
    """Channels whose residuals agree: the same sensor counted twice."""
    residual, channels = solution.sweep.residual, task.observation.channels
    size = np.sqrt((residual**2).mean(axis=0))
    found = []
    for i, first in enumerate(channels):
        for j in range(i + 1, len(channels)):
            power = size[i] * size[j]
            if power > 0 and abs(float((residual[:, i] * residual[:, j]).mean())) > 0.95 * power:
                found.append(
                    f'residuals of "{first}" and "{channels[j]}" are the same: if one is a copy of the other, drop it, '
                    "the intervals are too narrow."
                )
    return found


def whiteness_of(task: Task, solution: Solution) -> dict[str, float]:
    """Ljung-Box p-value of the residuals of each channel, lags up to 10, within pieces."""
    samples = task.problem.samples
    result = {}
    for c, channel in enumerate(task.observation.channels):
        residual = solution.sweep.residual[:, c] - solution.sweep.residual[:, c].mean()
        power, count = float((residual**2).sum()), residual.size
        lags = min(10, count // 5)
        if power <= 0 or lags < 1:
            continue
        total, apart = 0.0, np.ones(count, bool)
        for lag in range(1, lags + 1):
            apart = apart[: count - lag] & samples.joined[lag - 1 : count - 1]
            correlation = float((residual[lag:] * residual[:-lag])[apart].sum()) / power
            total += correlation**2 / max(count - lag, 1)
        result[channel] = float(special.chdtrc(lags, count * (count + 2) * total))
    return result


def predict(task: Task, solution: Solution, deviations: Array) -> Prediction | None:
    """Carry the last state on over the samples that were held back."""
    held = task.held_back
    if held is None or not task.problem.samples.joined[-2]:
        return None
    first = int(np.flatnonzero(~held.joined)[0]) + 1
    start = task.problem.samples.time[-1]
    times = held.time[:first]
    if times.size == 0 or times[0] <= start:
        return None
    vector = task.problem.parameters(solution.theta, np.array([task.problem.samples.size - 1]))[0]
    try:
        # A flow of its own: this one may take as many steps as the held-back stretch needs.
        states = Flow(task.model).trajectory(solution.states[-1], np.concatenate([[start], times]), vector)[1:]
    except FlowError:
        return None
    value = task.observation.value(states, times, np.broadcast_to(vector, (times.size, vector.size)))
    error = task.observation.residual(value, held.values[:first]) / deviations
    wrong = np.flatnonzero((np.abs(error) > 4).any(axis=1))
    horizon = float((times[wrong[0]] if wrong.size else times[-1]) - start)
    return Prediction(times, error, horizon)
