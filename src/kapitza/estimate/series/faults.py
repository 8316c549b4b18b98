"""Faults of the measurement that the residuals of a motion ask for."""

from __future__ import annotations

import numpy as np

from kapitza.estimate.faults import Fault, Scores, strongest
from kapitza.estimate.series.closing import ClosingSweep
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.task import MotionTask
from kapitza.solve import scaled_inverse

UNDETERMINED = 1e-12
"""Relative information of a free parameter below which it is left as it is."""


def fault_of(task: MotionTask, found: Found, closing: ClosingSweep) -> Fault | None:
    """The fault that explains most of the residuals, states and free parameters following it; None without one."""
    solution, samples, part, tried = found.solution, task.problem.samples, closing.part, closing.tried
    if not tried:
        return None
    k = solution.theta.size
    free = np.flatnonzero(~solution.at_bound)
    new = k + np.arange(len(tried))
    information, pull = closing.program.information, closing.program.pull
    across = information[np.ix_(new, free)]
    inner = across @ scaled_inverse(information[np.ix_(free, free)], UNDETERMINED) if free.size else across
    own = np.diag(information)[new] - (inner * across).sum(axis=1)
    # Weights of a robust loss are smaller where a reading is wild: so is the variance of its pull.
    square = float((solution.weights**2 * part.residual**2).sum() / max(solution.weights.sum(), 1e-300))
    level = max(square * samples.readings / max(samples.readings - task.fitted, 1), 1e-300)
    whole = np.diag(part.parameter_hessian)[new]
    return strongest(tried, Scores(pull[new] - inner @ pull[free], own, whole, level * own))
