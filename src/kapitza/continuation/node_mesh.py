"""Number and places of shooting nodes.

The growth of tangents along the orbit decides both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kapitza.base.arrays import Array

SINGLE_NODE = 1e3
"""Growth up to which one node serves: beyond, Newton's tolerance times the growth would show in the multipliers."""

FEW_NODES = 30.0
"""Growth over the whole orbit below which several nodes are given up for one."""

STRAINED = 1e6
"""Change of a single node's image by a parameter, both over their sizes, beyond which it gets several nodes.

Tangents that shrink along one part of an orbit hide that they grow along another; sensitivities begin anywhere.
"""

MANY_NODES = 16
"""Number of nodes up to which the growth over all parts of an orbit is computed."""

NODE_GROWTH = 10.0
"""Growth of tangents between two nodes."""

MOVED_NODES = 5e-3
"""Share of the period: a mesh whose nodes would all move by less than this is kept."""


def total_growth(segments: Array) -> float:
    """Return the largest growth of tangents over any part.

    The growth of a part is the largest entry of its propagator; for many nodes the product of the segments' growths
    bounds it.
    segments: (J, n, n) propagators between nodes.
    """
    n = segments.shape[1]
    if len(segments) <= MANY_NODES:
        # Norms of rotations between coordinates of different sizes multiply, the rotations do not.
        largest, parts = 1.0, np.zeros((0, n, n))
        for segment in segments:
            parts = segment @ np.concatenate([parts, np.eye(n)[None]])
            largest = max(largest, float(np.abs(parts).max()))
        return largest
    level = float(np.log(np.maximum(np.abs(segments).max(axis=(1, 2)), 1.0)).sum())
    return float(np.exp(min(level, 700.0)))  # exp overflows beyond 709


def better_mesh(
    segments: Array, fractions: Array, strained: Callable[[], bool], placed: Callable[[], Array]
) -> Array | None:
    """Return the fractions of better nodes, if any.

    strained: whether a single node depends strongly on the parameters; placed: fractions between which tangents grow
    alike. Both are called when they are needed.
    """
    count, grown, crowded = fractions.size, float(np.abs(segments).max()) >= SINGLE_NODE, False
    if count == 1 and not grown and not strained():
        return None
    if count > 1 and not grown:
        total = total_growth(segments)
        if total < FEW_NODES:
            return np.zeros(1)
        # Nodes that growth no longer requires are where the orbit moves fast, and keep the steps short.
        crowded = count > 2 * np.log10(total) / np.log10(NODE_GROWTH) + 2
        if not crowded:
            return None
    wanted = placed()
    if crowded and wanted.size > 0.75 * count:
        return None
    # A mesh with as many nodes helps only where they move: the place of growth shifts along the family.
    if wanted.size <= count and _near(wanted, fractions) < MOVED_NODES:
        return None
    return wanted


def _near(fractions: Array, others: Array) -> float:
    """Return the largest distance between two meshes."""
    gaps = np.abs(fractions[:, None] - others)
    return float(np.minimum(gaps, 1 - gaps).min(axis=1).max())
