"""Anderson mixing of a fixed-point iteration.

The steps are corrected by how the last ones changed from point to point.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array

WILD = 50.0
"""Length of a mixed step over that of the plain one from which it is not trusted."""


class AndersonMixing:
    """Memory of the last points and steps.

    The points are x_i, the steps taken there f_i. depth: how many differences of them count.

    The mixed step is f - Σ γ_i (Δx_i + Δf_i) with the γ that make |f - Σ γ_i Δf_i| least (D. G. Anderson, J. ACM 12
    (1965) 547): on a linear iteration it leads to the fixed point once all directions have occurred.
    """

    def __init__(self, depth: int = 3):
        self.depth = depth
        self.points: list[Array] = []
        self.steps: list[Array] = []

    def improve(self, point: Array, step: Array) -> Array:
        """Return the step (m,) from a point (m,), corrected.

        The last steps correct it; it is returned as it is while these are few, or where the correction is too long.

        A point of another length, such as a motion with fewer nodes, begins a new memory.
        """
        if self.points and self.points[-1].shape != point.shape:
            self.points, self.steps = [], []
        self.points.append(point)
        self.steps.append(step)
        del self.points[: -self.depth - 1], self.steps[: -self.depth - 1]
        if len(self.steps) < 3:
            return step
        changes = np.diff(np.array(self.steps), axis=0)
        moves = np.diff(np.array(self.points), axis=0)
        mix = np.linalg.lstsq(changes.T, step, rcond=1e-10)[0]
        better = step - mix @ (moves + changes)
        if not np.isfinite(better).all() or np.linalg.norm(better) > WILD * np.linalg.norm(step):
            return step
        return better
