"""Motion that is really kicked: the size of the kicks and the parameters that make the data most likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from kapitza.errors import ModelError
from kapitza.estimate.shooting.solver import Fitter, Solution

if TYPE_CHECKING:
    from kapitza.estimate.shooting.task import Task

Array = NDArray[np.float64]


def first_kicks(task: Task) -> Array | None:
    """Deviations (n,) of the kicks to begin with: those given, or a hundredth of each state's size."""
    wanted, states = task.settings.process_noise, task.model.states
    if isinstance(wanted, Mapping):
        for name in wanted:
            if name not in states:
                raise ModelError(f'process_noise names "{name}", not a state of {task.model.name}.')
        return np.array([wanted.get(name, 0.0) for name in states], float)
    # Soft from the start: with kicks in the data rigid links would not close.
    return 0.01 * task.scale if wanted else None


def with_likeliest_kicks(task: Task, fitter: Fitter, first: Solution) -> Solution:
    """The common relative size of kicks that makes the data most likely, the noise of the sensors taken as known.

    Links soften from sample to sample, so the nodes stay at the samples.
    """
    found: dict[float, tuple[float, Solution]] = {}
    current = first
    if isinstance(task.settings.process_noise, Mapping):
        return first

    def unlikely(log_size: float) -> float:
        nonlocal current
        fitter.settings = replace(fitter.settings, process_noise=np.exp(log_size) * task.scale)
        current = fitter.resume(current)
        found[log_size] = fitter.evidence(current), current
        return found[log_size][0]

    coarse = np.log(np.geomspace(3e-2, 1e-5, 8))
    values = [unlikely(x) for x in coarse]
    best = int(np.argmin(values))
    ends = sorted((coarse[max(best - 1, 0)], coarse[min(best + 1, coarse.size - 1)]))
    current = found[coarse[best]][1]
    optimize.minimize_scalar(unlikely, bounds=ends, method="bounded", options={"xatol": 0.05})
    size = min(found, key=lambda x: found[x][0])
    return replace(found[size][1], kicks=np.exp(size) * task.scale)
