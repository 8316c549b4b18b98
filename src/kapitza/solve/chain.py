"""Quadratic programs on chains of nodes with shared parameters: the linear core of multiple-shooting fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.solve.structured import BorderedBand, fold, scatter_blocks

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChainStep:
    """Minimiser of a chain program: node steps x (J, n), parameter step p (k,), multipliers (J, n) of the links.

    covariance: (k, k) inverse of the reduced Hessian of the parameters, nodes eliminated.
    """

    nodes: Array
    parameters: Array
    multipliers: Array
    covariance: Array


def solve_chain(
    hessian: Array,
    gradient: Array,
    propagators: Array,
    gaps: Array,
    *,
    mixed: Array | None = None,
    influence: Array | None = None,
    parameter_hessian: Array | None = None,
    parameter_gradient: Array | None = None,
    linked: NDArray[np.bool_] | None = None,
) -> ChainStep:
    """Minimise ½ Σ x_iᵀH_i x_i + Σ x_iᵀ(g_i + M_i p) + ½ pᵀK p + pᵀh subject to G_i x_i + B_i p - x_{i+1} = c_i.

    hessian H (J, n, n), gradient g (J, n), propagators G (J, n, n), gaps c (J, n), mixed M (J, n, k),
    influence B (J, n, k), parameter_hessian K (k, k), parameter_gradient h (k,).
    Link i joins node i to node i + 1, the last one to node 0: `linked` (J,) says which links exist (all: a closed
    orbit; all but the last: a record; further gaps: several segments or several orbits laid end to end).

    States and multipliers are interleaved node by node in one band with pivoting and the parameters are its border.
    The propagators are not multiplied up: over a long chaotic record their product exceeds 1e12 and the parameter
    step it gives is wrong in the first digit.
    """
    count, n = gradient.shape
    border = 0 if influence is None else influence.shape[2]
    influence = np.zeros((count, n, border)) if influence is None else influence
    mixed = np.zeros((count, n, border)) if mixed is None else mixed
    linked = np.arange(count) < count - 1 if linked is None else np.asarray(linked, bool)
    closed = bool(linked[-1])
    place = (fold(count) if closed else np.arange(count)) * 2 * n
    width = (6 * n if closed else 3 * n) - 1
    width = min(width, 2 * n * count - 1)
    band = np.zeros((2 * width + 1, 2 * n * count))
    chained = np.flatnonzero(linked)
    here, following = place[chained], place[(chained + 1) % count]
    identity = np.broadcast_to(np.eye(n), (chained.size, n, n))
    scatter_blocks(band, width, hessian, place, place)
    scatter_blocks(band, width, propagators[chained], here + n, here)
    scatter_blocks(band, width, np.swapaxes(propagators[chained], 1, 2), here, here + n)
    scatter_blocks(band, width, -identity, here + n, following)
    scatter_blocks(band, width, -identity, following, here + n)
    free = np.flatnonzero(~linked)
    scatter_blocks(band, width, np.broadcast_to(np.eye(n), (free.size, n, n)), place[free] + n, place[free] + n)
    state_index = (place[:, None] + np.arange(n)).ravel()
    link_index = state_index + n
    columns = np.zeros((2 * n * count, border))
    columns[state_index] = mixed.reshape(-1, border)
    columns[link_index] = np.where(linked[:, None, None], influence, 0.0).reshape(-1, border)
    right = np.zeros(2 * n * count)
    right[state_index] = -gradient.ravel()
    right[link_index] = np.where(linked[:, None], gaps, 0.0).ravel()
    corner = np.zeros((border, border)) if parameter_hessian is None else parameter_hessian
    pull = np.zeros(border) if parameter_gradient is None else -parameter_gradient
    system = BorderedBand(band, width, width, columns, columns.T, corner)
    x, p = system.solve(right, pull)
    covariance = np.linalg.inv(system.schur) if border else np.zeros((0, 0))
    return ChainStep(x[state_index].reshape(count, n), p, x[link_index].reshape(count, n), covariance)
