"""Motion that is really kicked: the size of the kicks and the parameters that make the data most likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import ModelError, Status
from kapitza.estimate.series.marginal import Marginal, with_states_integrated_out
from kapitza.estimate.series.solver import Fitter, MotionSolution
from kapitza.estimate.series.task import MotionTask

Array = NDArray[np.float64]

FIRST_SIZE = 0.01
"""Kicks to begin with, in units of each state's size."""

SIZES = tuple(0.3 * 3.0 ** -np.arange(10))
"""Sizes tried before the likeliest one is sought, from soft links to rigid ones."""

CLEARLY_WORSE = 20.0
"""Rise of -log p at which still smaller sizes are not tried any more."""


def first_kicks(task: MotionTask) -> Array | None:
    """Deviations (n,) of the kicks to begin with: those given, or a hundredth of each state's size."""
    wanted, states = task.settings.process_noise, task.model.states
    if isinstance(wanted, Mapping):
        for name in wanted:
            if name not in states:
                raise ModelError(f'process_noise names "{name}", not a state of {task.model.name}.')
        return np.array([wanted.get(name, 0.0) for name in states], float)
    # Soft from the start: with kicks in the data rigid links would not close. A force kicks the rate of a coordinate,
    # not the coordinate.
    pushed = np.array([f"{name}'" not in states for name in states])
    return FIRST_SIZE * np.where(pushed, task.scale, 0.0) if wanted else None


def with_likeliest_kicks(task: MotionTask, fitter: Fitter, first: MotionSolution) -> MotionSolution:
    """Parameters, and the common relative size of the kicks unless it is given, that make the data most likely.

    Links soften from sample to sample, so the nodes stay at the samples.
    """
    kicks = first_kicks(task)
    assert kicks is not None
    if isinstance(task.settings.process_noise, Mapping):
        return with_states_integrated_out(task, fitter, first, kicks, 1.0, sought=False)
    pattern, best, current = kicks / FIRST_SIZE, (np.inf, FIRST_SIZE, first), first
    for size in SIZES:
        fitter.settings = replace(fitter.settings, process_noise=size * pattern)
        joint = fitter.resume(current)
        if joint.status is Status.CONVERGED:
            marginal = Marginal(fitter, joint, pattern, size, sought=True)
            value, current = marginal(marginal.start), joint
            if value > best[0] + CLEARLY_WORSE:
                break
            best = min(best, (value, size, joint), key=lambda found: found[0])
    return with_states_integrated_out(task, fitter, best[2], pattern, best[1], sought=True)
