"""What is suspicious about a fit, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.judge import doubtful_parameters
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.orbits.judge import LEAST_MATCHED, SURE, Outcome
from kapitza.estimate.orbits.matching import multiplier_mismatch
from kapitza.estimate.orbits.task import OrbitTask
from kapitza.estimate.priors import surprising_priors

Array = NDArray[np.float64]


def warnings_of(
    task: OrbitTask, outcome: Outcome, known: Identifiability, covariance: Array, misfit: Misfit | None
) -> Iterator[str]:
    if not known.complete:
        yield known.message()
    yield from _about_parameters(task, outcome, covariance)
    yield from _about_orbits(task, outcome)
    if misfit is not None:
        yield from misfit.warnings()
    yield from _about_the_minimum(task, outcome)


def _about_parameters(task: OrbitTask, outcome: Outcome, covariance: Array) -> Iterator[str]:
    solution = outcome.solution
    yield from doubtful_parameters(task.request, solution.theta, covariance, solution.at_bound)
    for i, name in enumerate(task.names):
        if task.model.parameter(name).prior is not None and not task.problem.prior_weight[i]:
            yield f'the prior of {name} was not used: estimator="auto" or "bayes" uses it.'
    if task.problem.prior_weight.any():
        yield from surprising_priors(task.request, task.names, solution.theta, covariance, solution.at_bound)


def _about_orbits(task: OrbitTask, outcome: Outcome) -> Iterator[str]:
    for index, reason in outcome.reasons.items():
        yield f"orbit {task.problem.targets[index].label} was not matched: {reason}."
    for i, index in enumerate(outcome.matched):
        target = task.problem.targets[index]
        _, text = multiplier_mismatch(target, outcome.solution.blocks[i])
        if text:
            yield f"orbit {target.label} is matched, but its multipliers are not: {text}."
    total = len(task.problem.targets)
    if len(outcome.matched) < LEAST_MATCHED * total:
        yield f"only {len(outcome.matched)} of {total} orbits are matched; the answer rests on those alone."
    loud = outcome.inflation > 10
    if loud.any():
        yield (
            f"{int(loud.sum())} of {loud.size} orbits fit worse than their covariance allows and count less; see "
            "fit.matches.table."
        )


def _about_the_minimum(task: OrbitTask, outcome: Outcome) -> Iterator[str]:
    if outcome.attempts > 1:
        yield f"the given start led to a false minimum; start number {outcome.attempts} ({outcome.begun}) led here."
    for other in outcome.alternatives:
        place = ", ".join(f"{name} = {value:.6g}" for name, value in zip(task.names, other, strict=True))
        yield f"{place} explains the data as well: add an orbit, a profile or a prior to decide."
    if outcome.freedom < SURE:
        yield (
            f"{outcome.count} readings for {len(task.names)} parameters leave {max(outcome.freedom, 0)} degrees of "
            "freedom: χ² cannot tell whether the model is right."
        )
