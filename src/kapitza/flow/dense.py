"""Dense output: states at any time of a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.flow.arguments import ArgumentError
from kapitza.flow.core import Core

CHECKPOINTS = 256
"""Parts of a run; a time is reached from the beginning of its part."""


@dataclass(frozen=True)
class Dense:
    """A trajectory as a function of time.

    f(times) gives states (N, n), f(t) gives (n,); angles are continuous.
    Kept are states at checkpoints (K,); a call integrates from the checkpoint before each time, so values are as
    accurate as the trajectory itself.
    """

    core: Core
    times: Array
    states: Array
    vector: Array

    @classmethod
    def record(cls, core: Core, state: Array, t0: float, t1: float, vector: Array) -> Dense:
        if not t1 > t0:
            raise ArgumentError(f"Dense output runs forwards; t0 = {t0:g} must be before t1 = {t1:g}.")
        times = np.linspace(t0, t1, CHECKPOINTS + 1)
        return cls(core, times, core.sample(state, times, vector, tangents=False)[0], vector)

    def __call__(self, times: Reals) -> Array:
        wanted = np.atleast_1d(np.asarray(times, float))
        first, last = self.times[0], self.times[-1]
        if not ((wanted >= first) & (wanted <= last)).all():
            raise ArgumentError(f"This dense output covers t from {first:g} to {last:g}; ask for times inside.")
        unique, place = np.unique(wanted, return_inverse=True)
        result = np.empty((unique.size, self.core.size))
        box = np.minimum(np.searchsorted(self.times, unique, side="right") - 1, self.times.size - 2)
        edges = np.flatnonzero(np.diff(box, prepend=-1, append=self.times.size))
        for begin, end in pairwise(edges):
            start = self.times[box[begin]]
            grid = unique[begin:end]
            offset = int(grid[0] != start)
            points = np.concatenate(([start], grid)) if offset else grid
            result[begin:end] = self.core.sample(self.states[box[begin]], points, self.vector, False)[0][offset:]
        states = result[place]
        return states[0] if np.ndim(times) == 0 else states
