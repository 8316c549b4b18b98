"""Angles on the circle [rad].

Wrapping, differences, whole turns and means are computed here only.

Functions with an argument `angles` take states (..., n) of which only the marked entries of the last axis are angles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kapitza.base.arrays import Array

Flags = Sequence[bool] | NDArray[np.bool_]
TURN = 2 * np.pi

PART = 2**20
"""States that are wrapped at a time: Ctrl-C is heard between two calls of NumPy, and 10^8 states take 20 s."""


def wrap(angle: ArrayLike) -> Array:
    """Return the angle in [-π, π).

    >>> wrap([0.5, np.pi, 7.0]).round(3).tolist()
    [0.5, -3.142, 0.717]
    """
    wrapped = np.remainder(np.asarray(angle, float) + np.pi, TURN) - np.pi
    # a remainder just below a turn rounds up to the turn itself, which would give +π
    return np.where(wrapped >= np.pi, -np.pi, wrapped)


def wrap_upper(angle: ArrayLike) -> Array:
    """Return the angle in (-π, π].

    Averages of |angle| are taken over this range.
    """
    return -wrap(-np.asarray(angle, float))


def wrap_states(states: ArrayLike, angles: Flags) -> Array:
    """Return the states with angles in [-π, π).

    A copy of the states (..., n); the marked entries are angles.
    """
    states, marked = np.asarray(states, float), np.asarray(angles, bool)
    if states.ndim == 2 and len(states) > PART:
        wrapped = np.empty(states.shape)
        for first in range(0, len(states), PART):
            wrapped[first : first + PART] = wrap_states(states[first : first + PART], marked)
        return wrapped
    wrapped = states.copy()
    wrapped[..., marked] = wrap(wrapped[..., marked])
    return wrapped


def difference(a: ArrayLike, b: ArrayLike, angles: Flags) -> Array:
    """Return a - b, angles by the shorter path.

    The marked entries of the last axis are angles; their differences are in [-π, π).

    >>> difference([3.1, 1.0], [-3.1, 0.0], (True, False)).round(4).tolist()
    [-0.0832, 1.0]
    """
    return wrap_states(np.asarray(a, float) - np.asarray(b, float), angles)


def turns(change: ArrayLike, angles: Flags | None = None) -> Array:
    """Return the whole turns nearest to an angle change.

    They are floats; 0 for entries that are not marked in `angles`.

    >>> turns([6.2, 0.3, -12.0]).tolist()
    [1.0, 0.0, -2.0]
    """
    whole = np.round(np.asarray(change, float) / TURN)
    return whole if angles is None else np.where(angles, whole, 0.0)


def split_turns(states: Array, angles: Flags) -> tuple[Array, NDArray[np.int32]]:
    """Return wrapped states and their whole turns.

    The marked entries of the states are in [-π, π); the turns are those that were subtracted.
    """
    marked = np.asarray(angles, bool)
    whole = np.where(marked, np.floor((states + np.pi) / TURN), 0.0)
    inside = states - TURN * whole
    # Rounding can put an angle just below -π on π itself.
    over = marked & (inside >= np.pi)
    return np.where(over, inside - TURN, inside), (whole + over).astype(np.int32)


def unwrap(angle: ArrayLike, axis: int = -1) -> Array:
    """Return a continuous angle.

    Jumps of more than half a turn between neighbours along `axis` are removed.

    It is right as long as the angle moves by less than half a turn from sample to sample.
    """
    return np.unwrap(np.asarray(angle, float), period=TURN, axis=axis)


def unwrap_states(states: ArrayLike, angles: Flags) -> Array:
    """Return the samples (N, n) with continuous angles.

    A copy; the marked columns are continuous along the samples.
    """
    continuous = np.array(states, float)
    marked = np.asarray(angles, bool)
    continuous[:, marked] = unwrap(continuous[:, marked], axis=0)
    return continuous


def mean(angle: ArrayLike) -> float:
    """Return the mean direction in (-π, π].

    It is the direction of the mean of exp(i angle), without meaning where the angles fill the circle evenly.

    >>> round(mean([3.0, -3.0]), 4)
    3.1416
    """
    return float(np.angle(np.exp(1j * np.asarray(angle, float)).mean()))
