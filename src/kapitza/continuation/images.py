"""Shifted and mirrored images of a branch's start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.continuation.family import Node, Orbit
from kapitza.continuation.symmetry import linear_symmetries


def images_of(start: Orbit) -> Callable[[Node], bool]:
    """Return a test for images of an orbit."""
    if start.frame.autonomous:
        return same_curve(start, lambda node: node.orbit)
    copies, angles = _copies(start), start.frame.problem.angles

    def same(node: Node) -> bool:
        if node.orbit is None:
            return False
        point = node.orbit.section_point()
        gaps = np.array([difference(point, copy, angles) for copy in copies])
        return bool((np.abs(gaps / node.orbit.frame.sizes).max(axis=1) < 1e-5).any())

    return same


def _copies(start: Orbit) -> list[Array]:
    """Return the first states of all copies."""
    flow, vector = start.frame.flow, start.values
    period = float(flow.period(vector) or 1.0)
    # A doubled branch followed through its birth returns on the same orbits one excitation period later.
    visits = [start.section_point()]
    for k in range(1, start.full_repeats or 1):
        begin = (k - 1) * period
        visits.append(flow.propagate(visits[-1], begin, begin + period, vector, tangents=False).state)
    copies = list(visits)
    for symmetry in linear_symmetries(start.frame.model):
        for visit in visits:
            moved = visit
            # A symmetry may include a shift in time, which the flow supplies.
            if symmetry.shift:
                moved = flow.propagate(visit, 0.0, symmetry.shift * period, vector, tangents=False).state
            copies.append(symmetry.matrix @ moved)
    return copies


def same_curve(start: Orbit, orbit_of: Callable[[Node], Orbit | None]) -> Callable[[Node], bool]:
    """Return a test for images of autonomous orbits.

    An orbit without a clock: its start is on their curve, and their periods agree.
    """
    begun, period = start.start(), start.full_period
    mirrored = [begun, *(s.matrix @ begun for s in linear_symmetries(start.frame.model))]

    def same(node: Node) -> bool:
        orbit = orbit_of(node)
        if orbit is None or abs(orbit.full_period / period - 1) > 1e-6:
            return False
        return any(distance_from(orbit, copy) < 1e-5 for copy in mirrored)

    return same


def distance_from(orbit: Orbit, state: Array) -> float:
    """Return the distance of a state from an orbit.

    From the nearest sample Newton steps in time are taken.
    """
    loop, frame, sizes = orbit.loop(), orbit.frame, orbit.frame.sizes
    grid = np.linspace(0, 1, 1000, endpoint=False)
    path = loop(grid)
    # Neighbouring samples are far apart where the orbit is fast: the nearest ones of several stretches are refined.
    gaps = np.linalg.norm((path - state) / sizes, axis=1)
    best = float(gaps.min())
    # Newton steps in time from one sample may end on another stretch of the orbit.
    for place in np.argsort(gaps, kind="stable")[:3]:
        fraction = grid[place]
        for _ in range(6):
            here = loop(np.array([fraction % 1.0]))[0]
            rates = frame.rates(here[None], np.zeros(1), orbit.vector)[0] / sizes
            move = float((state - here) / sizes @ rates) / float(rates @ rates) / orbit.period
            fraction += float(np.clip(move, -2e-3, 2e-3))
            best = min(best, float(np.linalg.norm((state - here) / sizes)))
    return best
