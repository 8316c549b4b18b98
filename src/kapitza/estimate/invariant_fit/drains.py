"""Usual losses that an open energy balance may lack.

Each is tried in addition to the fitted terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import orth

from kapitza.base.arrays import Array
from kapitza.estimate.invariant_fit.conserved import Points

DRAINS = ((1, "dry friction"), (2, "viscous damping"), (3, "drag, a force with the square of the rate"))
"""Powers of the modulus of a rate that drain energy, and the names of such forces."""

EXPLAINS = 0.5
"""Smallest share of the misfit that a drain must explain to be named."""


@dataclass(frozen=True)
class Drain:
    """Loss |rate|**power with its strength.

    share: of the balance's misfit that it explains.
    """

    rate: str
    power: int
    called: str
    strength: float
    share: float

    @property
    def law(self) -> str:
        """Power that the loss takes out of the motion."""
        return {1: f"abs({self.rate})", 2: f"{self.rate}**2", 3: f"abs({self.rate})**3"}[self.power]


def likely_drain(points: Points, integrate: Any, residual: Array, slopes: Array, weight: Array) -> Drain | None:
    """Return the loss that explains most of the misfit.

    None unless it explains half of it and takes energy out.
    integrate: (W, N) windows, sparse; residual: (W,) of the balance; slopes: (W, k) of it by the free parameters.
    weight: (W,).
    """
    root = np.sqrt(weight)
    basis = np.zeros((root.size, 0))
    if slopes.shape[1]:
        basis = orth(
            slopes * root[:, None] / np.linalg.norm(slopes * root[:, None], axis=0).clip(1e-300)
        )  # any sign: Q Qᵀ

    def beside(column: Array) -> Array:
        return column - basis @ (basis.T @ column)

    left = beside(residual * root)
    found: list[Drain] = []
    for j, name in enumerate(points.variables):
        if not name.endswith("'"):
            continue
        for power, called in DRAINS:
            own = beside((integrate @ np.abs(points.values[j]) ** power) * root)
            size = float(own @ own)
            if size <= 1e-12 * float(left @ left) * 1e-12:
                continue
            strength = float(own @ left) / size
            # Share of the sum of squares that the loss explains.
            share = strength * float(own @ left) / max(float(left @ left), 1e-300)
            found.append(Drain(name, power, called, strength, share))
    # The balance is ∫ w' H + ∫ w P = 0 with P = -strength |rate|^power, so a missing loss leaves a positive residual.
    likely = [drain for drain in found if drain.strength > 0 and drain.share > EXPLAINS]
    return max(likely, key=lambda drain: drain.share, default=None)
