"""Faults of the measurement that the residuals of a motion ask for, from one more sweep at the solution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError, Status
from kapitza.estimate.faults import Candidate, Fault, Scores, candidates, strongest
from kapitza.estimate.series.residuals import ROUNDING, misfit, predicted_rates
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.solver import MotionSolution
from kapitza.estimate.series.sweep import chain_of, sweep
from kapitza.estimate.series.task import MotionTask
from kapitza.solve import scaled_inverse

Array = NDArray[np.float64]

UNDETERMINED = 1e-12
"""Relative information of a free parameter below which it is left as it is."""


def fault_of(task: MotionTask, found: Found) -> Fault | None:
    """The fault that explains most of the residuals, states and free parameters following it; None without one."""
    solution, samples = found.solution, task.problem.samples
    if solution.status is not Status.CONVERGED or task.settings.process_noise:
        return None
    if misfit(samples, solution) <= ROUNDING:
        return None
    tried = candidates(
        task.observation.channels, task.observation.angles.tolist(), not task.model.structure.is_autonomous
    )
    columns = _columns(task, solution, tried)
    try:
        part = sweep(task.problem, solution.nodes, solution.states, solution.theta, solution.weights, beside=columns)
        program = chain_of(part, solution.nodes.linked, task.scale)
    except (FlowError, np.linalg.LinAlgError):
        return None
    k = solution.theta.size
    free = np.flatnonzero(~solution.at_bound)
    new = k + np.arange(len(tried))
    information, pull = program.information, program.pull
    across = information[np.ix_(new, free)]
    inner = across @ scaled_inverse(information[np.ix_(free, free)], UNDETERMINED) if free.size else across
    own = np.diag(information)[new] - (inner * across).sum(axis=1)
    # Weights of a robust loss are smaller where a reading is wild: so is the variance of its pull.
    square = float((solution.weights**2 * part.residual**2).sum() / max(solution.weights.sum(), 1e-300))
    level = max(square * samples.readings / max(samples.readings - task.fitted, 1), 1e-300)
    whole = np.diag(part.parameter_hessian)[new]
    return strongest(tried, Scores(pull[new] - inner @ pull[free], own, whole, level * own))


def _columns(task: MotionTask, solution: MotionSolution, tried: list[Candidate]) -> Array:
    """(N, c, m): what a unit of each fault adds to the readings."""
    samples, channels = task.problem.samples, list(task.observation.channels)
    predicted, moving = solution.sweep.predicted, predicted_rates(task, solution)
    made = np.zeros((*predicted.shape, len(tried)))
    for number, fault in enumerate(tried):
        if fault.kind == "gain":
            made[:, channels.index(fault.channel), number] = predicted[:, channels.index(fault.channel)]
        elif fault.kind == "offset":
            made[:, channels.index(fault.channel), number] = 1.0
        else:
            made[:, :, number] = -moving * (samples.time[:, None] if fault.kind == "clock" else 1.0)
    return made
