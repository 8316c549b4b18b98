"""Places where the motion of a long record was cut.

`kapitza.solve.ChainProgram.torn` says where and why: no motion of nearby parameters passes there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kapitza.estimate.shooting_fit.search import Found
from kapitza.estimate.shooting_fit.task import MotionTask


def as_torn(task: MotionTask, found: Found) -> MotionTask:
    """Return the task with its samples in the pieces of the solution."""
    nodes, samples = found.solution.nodes, task.problem.samples
    joined = samples.joined.copy()
    joined[nodes.index[~nodes.linked]] = False
    if (joined == samples.joined).all():
        return task
    return replace(task, problem=replace(task.problem, samples=replace(samples, joined=joined)))


def torn_warnings(task: MotionTask) -> Iterator[str]:
    """Yield a warning for each place where the motion was cut and the record was not."""
    samples, following = task.problem.samples, np.diff(task.positions, append=task.everything.size + 1) == 1
    for last in np.flatnonzero(task.everything.joined[task.positions] & following & ~samples.joined):
        number = int(samples.record[last])
        record = task.request.records[number][0]
        head = f"record {number}: " if len(task.request.records) > 1 else ""
        yield (
            f"{head}the motion is cut after {samples.time[last] + record.excitation_start:.6g} s, and begins anew with "
            "states of its own: over so long a chaotic motion the links contradict each other there for all but one "
            "value of the parameters, to more digits than numbers have. The parameters lose nothing of note by it."
        )
