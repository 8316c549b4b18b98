"""From the nodes of a walk to the arrays of a branch; and which points are images of the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import difference
from kapitza.continuation.branch import Branch
from kapitza.continuation.criteria import readings
from kapitza.continuation.nouns import Bifurcation, End
from kapitza.continuation.path import Node
from kapitza.continuation.symmetry import linear_symmetries

Array = NDArray[np.float64]

Endings = tuple[tuple[End, str], tuple[End, str]]


def orbit_branch(
    nodes: Sequence[Node], lengths: Array, marks: tuple[Bifurcation, ...], ends: Endings, method: str
) -> Branch:
    family = nodes[0].family
    half = family.closing is not None
    multipliers = np.array([readings(n).multipliers for n in nodes])
    whole = multipliers**2 if half else multipliers
    points, fractions, counts = [], [], []
    for node in nodes:
        share, rows = whole_orbit_nodes(node)
        points.append(rows)
        fractions.append(share)
        counts.append(len(rows))
    sequences = tuple(readings(n).sequence for n in nodes)
    return Branch(
        model=family.model,
        parameters=family.free,
        values=np.array([n.z[-len(family.free) :] for n in nodes]),
        points=np.array([rows[0] for rows in points]),
        periods=np.array([n.family.full_period(n.z) for n in nodes]),
        multipliers=whole,
        repeats=family.full_repeats,
        arclength=lengths,
        bifurcations=marks,
        ends=(ends[0][0], ends[1][0]),
        end_messages=(ends[0][1], ends[1][1]),
        sequences=sequences if any(sequences) else (),
        nodes=np.concatenate(points),
        fractions=np.concatenate(fractions),
        counts=np.array(counts),
        method=method,
    )


def whole_orbit_nodes(node: Node) -> tuple[Array, Array]:
    """Fractions (J,) and states (J, n) of the whole orbit, from t = 0 on, the mirrored half of a half map included."""
    family = node.family
    if not hasattr(node.at, "nodes"):
        return np.zeros(1), family.start(node.z)[None]
    share, rows = family.fractions, family.equations.unpack(node.z)[0]
    if family.offset:
        share, rows = np.zeros(1), family.section_point(node.z)[None]
    if family.closing is None:
        return share, rows
    if rows.shape[0] == 1:
        return share, rows
    return np.concatenate([share / 2, 0.5 + share / 2]), np.concatenate([rows, rows @ family.closing.T])


def images_of(start: Node) -> Callable[[Node], bool]:
    """A test whether a node is the start again: the same orbit up to shifts by a period and symmetries of the model."""
    family = start.family
    if family.autonomous:
        return _same_curve(start)
    copies = _copies(start)

    def same(node: Node) -> bool:
        point = node.family.section_point(node.z)
        gaps = np.array([difference(point, copy, family.problem.angles) for copy in copies])
        return bool((np.abs(gaps / node.family.sizes).max(axis=1) < 1e-5).any())

    return same


def _copies(start: Node) -> list[Array]:
    family = start.family
    vector, point = family.values(start.z), family.section_point(start.z)
    period = float(family.flow.period(vector) or 1.0)
    visits = [point]
    for k in range(1, family.full_repeats or 1):
        begin = (k - 1) * period
        visits.append(family.flow.propagate(visits[-1], begin, begin + period, vector, tangents=False).state)
    copies = list(visits)
    for symmetry in linear_symmetries(family.model):
        for visit in visits:
            moved = visit
            if symmetry.shift:
                moved = family.flow.propagate(visit, 0.0, symmetry.shift * period, vector, tangents=False).state
            copies.append(symmetry.matrix @ moved)
    return copies


def _same_curve(start: Node) -> Callable[[Node], bool]:
    """Autonomous orbits have no clock: the start must lie on the curve, and the periods must agree."""
    family = start.family
    begun, period = family.start(start.z), family.full_period(start.z)
    mirrored = [begun, *(s.matrix @ begun for s in linear_symmetries(family.model))]

    def same(node: Node) -> bool:
        other: Any = node.family
        if abs(other.full_period(node.z) / period - 1) > 1e-6:
            return False
        return any(distance_from(node, copy) < 1e-5 for copy in mirrored)

    return same


def distance_from(node: Node, state: Array) -> float:
    """Distance of a state from an autonomous orbit, over the sizes: nearest sample, then Newton in time."""
    family: Any = node.family
    loop, sizes = family.loop(node.z, node.at), family.sizes
    grid = np.linspace(0, 1, 1000, endpoint=False)
    path = loop(grid)
    # Neighbouring samples are far apart where the orbit is fast: the nearest ones of several stretches are refined.
    gaps = np.linalg.norm((path - state) / sizes, axis=1)
    best = float(gaps.min())
    for place in np.argsort(gaps, kind="stable")[:3]:
        fraction = grid[place]
        for _ in range(6):
            here = loop(np.array([fraction % 1.0]))[0]
            rates = family.problem.field.rates(here[None], np.zeros(1), node.at.vector)[0] / sizes
            move = float((state - here) / sizes @ rates) / float(rates @ rates) / node.at.period
            fraction += float(np.clip(move, -2e-3, 2e-3))
            best = min(best, float(np.linalg.norm((state - here) / sizes)))
    return best
