"""Angles on the circle. All angles are in rad."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
TURN = 2 * np.pi


def wrap(angle: ArrayLike) -> Array:
    """The angle brought into [-π, π)."""
    wrapped = np.remainder(np.asarray(angle, float) + np.pi, TURN) - np.pi
    # a remainder just below a turn rounds up to the turn itself, which would give +π
    return np.where(wrapped >= np.pi, -np.pi, wrapped)


def wrap_upper(angle: ArrayLike) -> Array:
    """The angle brought into (-π, π]: what averages of |angle| are taken over."""
    return -wrap(-np.asarray(angle, float))


def unwrap(angle: ArrayLike) -> Array:
    """A continuous angle: jumps of more than half a turn between neighbours (last axis) are taken back.

    It is right as long as the angle moves by less than half a turn from sample to sample.
    """
    return np.unwrap(np.asarray(angle, float), period=TURN)
