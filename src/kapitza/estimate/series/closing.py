"""One sweep at the solution, from which faults of the measurement and disagreeing stretches of the record are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kapitza.arrays import Array
from kapitza.errors import FlowError, Status
from kapitza.estimate.faults import Candidate, candidates
from kapitza.estimate.series.residuals import ROUNDING, misfit, predicted_rates
from kapitza.estimate.series.search import Found
from kapitza.estimate.series.solver import MotionSolution
from kapitza.estimate.series.sweep import Sweep, chain_of, sweep
from kapitza.estimate.series.task import MotionTask
from kapitza.solve import ChainProgram


@dataclass(frozen=True)
class ClosingSweep:
    """A sweep at a solution, by intervals, with its linear system; columns of the faults in `tried` come after the free
    parameters.
    """

    part: Sweep
    tried: tuple[Candidate, ...]
    program: ChainProgram

    @property
    def plain(self) -> Sweep:
        """The same of the free parameters alone."""
        k = self.part.parameter_gradient.size - len(self.tried)
        return replace(
            self.part,
            mixed=self.part.mixed[..., :k],
            influence=self.part.influence[..., :k],
            parameter_hessian=self.part.parameter_hessian[:k, :k],
            parameter_gradient=self.part.parameter_gradient[:k],
        )


def closing_sweep(task: MotionTask, found: Found) -> ClosingSweep | None:
    """Of a motion that converged and is not kicked, with a regular system; None otherwise.

    Without residuals no fault is tried.
    """
    solution, samples = found.solution, task.problem.samples
    if solution.status is not Status.CONVERGED or task.settings.process_noise:
        return None
    tried: tuple[Candidate, ...] = ()
    if misfit(samples, solution) > ROUNDING:
        driven = not task.model.structure.is_autonomous
        tried = tuple(candidates(task.observation.channels, task.observation.angles.tolist(), driven))
    columns = _columns(task, solution, tried) if tried else None
    try:
        part = sweep(
            task.problem, solution.nodes, solution.states, solution.theta, solution.weights, True, columns
        )  # fmt: skip
        program = chain_of(part, solution.nodes.linked, task.scale)
    except (FlowError, np.linalg.LinAlgError):
        return None
    return ClosingSweep(part, tried, program)


def _columns(task: MotionTask, solution: MotionSolution, tried: tuple[Candidate, ...]) -> Array:
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
