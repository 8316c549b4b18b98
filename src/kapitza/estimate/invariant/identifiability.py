"""Which parameters an invariant can tell apart, said in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kapitza.arrays import Array
from kapitza.errors import IdentifiabilityError
from kapitza.estimate.identifiability import analyse
from kapitza.invariants import Bounds

SINGULAR = 1e-9
"""Relative size below which a direction of the sensitivities counts as none."""


def generic_point(theta: Array, size: Array, bounds: Bounds) -> Array:
    """A parameter set near θ, away from accidental zeros; size (k,): what counts as a change where θ is small."""
    turn = 0.1 + 0.1 * np.mod(np.arange(1, theta.size + 1) * 0.6180339887, 1.0)
    change, low, high = turn * np.maximum(np.abs(theta), size), bounds.low, bounds.high
    return np.where(theta + change < high, np.maximum(theta + change, low), np.clip(theta - change, low, high))


def scale_direction(invariant: Array, sensitivities: Array) -> Array | None:
    """Parameter change δ (k,) that multiplies the invariant by a factor, if there is one.

    invariant: (M,) and sensitivities: (M, k), both without their level means (or in coefficients).
    """
    if sensitivities.shape[1] == 0:
        return None
    size = np.linalg.norm(sensitivities, axis=0)
    size = np.where(size > 0, size, 1.0)
    change = np.linalg.lstsq(sensitivities / size, invariant, rcond=SINGULAR)[0] / size
    rest = np.linalg.norm(invariant - sensitivities @ change)
    return change if rest <= 1e-7 * np.linalg.norm(invariant) else None


def words(names: Sequence[str], direction: Array, theta: Array) -> str:
    """A parameter change in per cent, for example: m1 -1 %, omega1 +0.5 %."""
    relative = direction / np.where(theta == 0, 1.0, theta)
    lead = relative / relative[np.argmax(np.abs(relative))]
    return ", ".join(f"{n} {v:+.3g} %" for n, v in zip(names, lead, strict=True) if abs(v) > 1e-6)


def refuse_dependent(sensitivities: Array, names: Sequence[str], theta: Array) -> None:
    """Raise when parameter changes exist that leave the invariant on these data as it is; sensitivities (M, k)."""
    size = np.where(theta == 0, 1.0, theta)
    result = analyse(sensitivities.T @ sensitivities, names, size)
    if not result.complete:
        raise IdentifiabilityError(result.message())
