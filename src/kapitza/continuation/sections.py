"""Moves of the section of an orbit.

The section moves away from events, onto the fast part, or across the direction of growth.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.continuation.events import GAP_SAMPLES, TOO_NEAR
from kapitza.continuation.family import Node
from kapitza.continuation.motion import ShootingPoint
from kapitza.continuation.path import corrected_at, null_direction
from kapitza.errors import FlowError

SLOW_SECTION = 0.5
"""Share of the largest speed on the orbit: a section at a slower place is moved when it turns."""

SMALL = 0.5
"""Motion of an orbit, relative to the largest sizes of its family, below which its section is kept radial."""

OBLIQUE = 0.2
"""Cosine between the flow at the section and the direction from the middle, above which a section is not radial."""


ROUND = 4.0
"""Largest speed of a state over that of a harmonic motion of its amplitude, above which the orbit jumps."""

ROUND_SAMPLES = 512
"""Samples of the speed: jumps may last less than a hundredth of the period."""


def better_section(node: Node, turning: bool, extent: float) -> tuple[Node | None, float]:
    """Return the node at a better section.

    Its extent is returned too.
    turning: the flow at the section turned within the last steps; extent: of the orbit before (see `_radial`). Only
    orbits by shooting have a section that can be moved; None where it stays.
    """
    point = node.at
    if not isinstance(point, ShootingPoint):
        return None, extent
    point = point.orbit(node.z)
    moved = _apart_from_events(node, point)
    if moved is None and turning:
        moved = _fastest(node, point)
    return _radial(node, point, extent) if moved is None else (moved, extent)


def _apart_from_events(node: Node, point: ShootingPoint) -> Node | None:
    """Return the node cut apart from events.

    The section moves to the middle of the longest event-free arc, if an event is near.
    """
    if not point.events or len(point.family.fractions) != 1 or point.closing is not None:
        return None
    # An event at the section stops single shooting: an impact at t = 0 flips the velocity of the start.
    period, begin = point.period, point.begin
    times = np.array(sorted((e.time - begin) / period for e in point.events))
    if times[0] > TOO_NEAR and 1 - times[-1] > TOO_NEAR:
        return None
    ordered = sorted(point.events, key=lambda e: e.time)
    best, middle = 0.0, None
    for i, event in enumerate(ordered):
        following = times[(i + 1) % times.size] + (1.0 if i + 1 == times.size else 0.0)
        gap = following - times[i]
        # During stick or contact the state does not determine its past, so the section is not moved there.
        if event.kind not in ("stick", "contact") and gap > best:
            best, middle = gap, times[i] + gap / 2
    # The middle of a short arc is not far enough from its events.
    if middle is None or best < 4 * TOO_NEAR:
        return None
    return _cut_at(node, point, float(middle % 1.0))


def _fastest(node: Node, point: ShootingPoint) -> Node | None:
    """Return the node cut where the orbit is fastest.

    On the slow part of a relaxation oscillation small changes turn the rates, and the section becomes tangent; on its
    fast part they keep their direction.
    """
    frame = point.frame
    if point.closing is not None or not frame.autonomous:
        return None
    if point.family.fractions.size > 1:
        return _rolled(node, point)
    grid = np.arange(GAP_SAMPLES) / GAP_SAMPLES
    try:
        states = point.loop()(grid)
    except FlowError:
        return None
    speed = np.linalg.norm(frame.rates(states, grid * point.period, point.vector) / frame.sizes, axis=1)
    best = int(np.argmax(speed))
    return None if speed[0] > SLOW_SECTION * speed[best] else _cut_at(node, point, float(grid[best]))


def _radial(node: Node, point: ShootingPoint, before: float) -> tuple[Node | None, float]:
    """Return a small orbit cut farthest from its middle.

    There the plane at right angles to the flow holds the middle, through which the branch leads at a Hopf point: the
    start of the orbit becomes a coordinate of its amplitude that changes its sign there. before: extent of the orbit
    before; on a growing orbit the farthest point may be slow, and would cost many steps for nothing.
    """
    frame = point.frame
    if point.closing is not None or not frame.autonomous or point.family.fractions.size > 1:
        return None, 0.0
    if point.vigour() > SMALL:
        return None, 0.0
    try:
        dense = point.loop()(np.arange(ROUND_SAMPLES) / ROUND_SAMPLES)
    except FlowError:
        return None, 0.0
    states = dense[:: ROUND_SAMPLES // 64]
    away = (states - states.mean(axis=0)) / frame.sizes
    distance = np.linalg.norm(away, axis=1)
    best = int(np.argmax(distance))
    speeds = np.abs(frame.rates(dense, np.zeros(ROUND_SAMPLES), point.vector)).max(axis=0)
    if (speeds * point.period / np.pi > ROUND * np.ptp(dense, axis=0)).any():
        return None, 0.0  # a relaxation oscillation, whose section would be moved onto its slow part
    rates = frame.rates(states[:1], np.zeros(1), point.vector)[0] / frame.sizes
    cosine = float(away[0] @ rates) / max(float(distance[0] * np.linalg.norm(rates)), 1e-300)
    if distance[best] >= before or abs(cosine) < OBLIQUE or best == 0:
        return None, float(distance[best])
    return _cut_at(node, point, best / 64), float(distance[best])


def _rolled(node: Node, point: ShootingPoint) -> Node | None:
    """Return the same nodes, beginning with the fastest one."""
    motion, family, n = point.motion(), point.family, point.frame.size
    if motion is None:
        return None
    speed = np.linalg.norm(motion, axis=1)
    j = int(np.argmax(speed))
    if speed[0] > SLOW_SECTION * speed[j]:
        return None
    fractions = np.sort((family.fractions - family.fractions[j]) % 1.0)
    rates = motion[j] * point.frame.sizes
    other = replace(family, fractions=fractions).at_section(reference=np.stack([point.nodes[j], rates]))
    count = family.fractions.size
    z, ahead = (
        np.concatenate([np.roll(v[: count * n].reshape(count, n), -j, 0).ravel(), v[count * n :]])
        for v in (node.z, node.tangent)
    )
    fresh = other.linearise(z)
    tangent = null_direction(other, fresh, (ahead * other.metric)[None])
    sign = 1.0 if float((tangent * other.metric) @ ahead) >= 0 else -1.0
    return replace(node, family=other, z=z, at=fresh, tangent=sign * tangent, solver=None)


def _cut_at(node: Node, point: ShootingPoint, fraction: float) -> Node | None:
    """Return the node cut a `fraction` later."""
    frame, family, begin = point.frame, point.family, point.begin
    try:
        there = frame.flow.propagate(
            point.nodes[0], begin, begin + fraction * point.period, point.vector, tangents=False
        )
    except FlowError:
        return None
    if frame.autonomous:
        rates = frame.rates(there.state[None], np.zeros(1), point.vector)[0]
        other = family.at_section(offset=0.0, reference=np.stack([there.state, rates]))
    else:
        other = family.at_section(offset=(point.offset + fraction * point.span) % point.span)
    z = node.z.copy()
    z[: frame.size] = there.state
    row = np.zeros(z.size)
    row[-1] = 1.0
    found = corrected_at(other, z, row[None], z[-1:].copy())
    if found.point is None:
        return None
    tangent = found.point.tangent
    # Next to a fold in the parameter the period shows which direction is ahead.
    tail = slice(-2, None) if frame.autonomous else slice(-1, None)
    if float((tangent * other.metric)[tail] @ node.tangent[tail]) < 0:
        tangent = -tangent
    return replace(found.point, tangent=tangent, arclength=node.arclength, effort=node.effort)
