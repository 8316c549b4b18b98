"""Events along a branch: the sequence changes, a surface is grazed, the section meets an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.criteria import Readings, readings
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import Node
from kapitza.errors import FlowError

Array = NDArray[np.float64]

TOO_NEAR = 0.02
"""Of the period: an event this close to the section makes the section move away."""

SLOW = 0.02
"""Normal speed, relative to the largest on the orbit, below which a collapse of the step is put down to grazing."""

SLOW_SECTION = 0.5
"""Of the largest speed on the orbit: a section where the orbit is slower than this is moved when it turns."""

SMALL = 0.5
"""Motion of an orbit, relative to the largest sizes of its family, below which its section is kept radial."""

OBLIQUE = 0.2
"""Cosine between the flow at the section and the direction from the middle, above which a section is not radial."""

CLOSE = 0.02
"""The same for the gap to a surface that is approached and not met, relative to the largest distance from it."""

GAP_SAMPLES = 2048
"""Instants per orbit at which the distance from a surface is taken; its minima are those of parabolas between them."""

ONE_GRAZE = 1e-2
"""Of the size of the parameter: a graze that is further away than this is not what stopped the walk."""


def sequence_change(family: Any, stretch: Any, before: Readings, after: Readings) -> list[Bifurcation]:
    """The change of the event sequence between two nodes, bracketed: test functions are not compared across it."""
    node = stretch.bisected(lambda r: r.sequence, 1e-7)
    sticks = [word.count("S") for word in (before.sequence, after.sequence)]
    hits = [word.count("i") for word in (before.sequence, after.sequence)]
    kind = Kind.STICK if (sticks[0] == 0) != (sticks[1] == 0) else Kind.SEQUENCE
    touched = any(letter.startswith("g") for word in (before.sequence, after.sequence) for letter in word.split())
    if hits[0] != hits[1] or touched:
        # An impact can only appear or vanish where the wall is touched at no speed.
        kind = Kind.GRAZING
    note = f"events {before.sequence or 'none'} → {after.sequence or 'none'}"
    value = graze_between(stretch.first, node) if kind is Kind.GRAZING else None
    return [eventful(family, kind, node, note, value)]


def smallest_gap(node: Node) -> float:
    """The smallest distance from a wall or switching surface that the orbit nears and leaves again without meeting it,
    relative to its largest distance from it; NaN where there is none. Negative where a touch is passed over."""
    family, at = node.family, node.at
    field = family.problem.field
    grid = np.arange(GAP_SAMPLES + 1) / GAP_SAMPLES
    begin = at.equations.times(at.period)[0][0]
    try:
        states = family.loop(node.z, at)(grid)
    except FlowError:
        return float("nan")
    switches, gaps = len(field.switches), []
    for index in range(switches + len(family.model.impacts)):
        kinds = ("cross", "stick", "release") if index < switches else ("impact", "contact", "detach")
        own = [e for e in at.events if e.kind in kinds and e.index + (index >= switches) * switches == index]
        distance = field.surface(index, states, begin + grid * at.period, at.vector).value
        if index < switches:
            distance = np.abs(distance)
        elif np.median(distance) < 0:
            distance = -distance
        free = np.ones(GAP_SAMPLES - 1, bool)
        for event in own:
            place = (event.time - begin) / at.period * GAP_SAMPLES
            free &= np.abs(np.arange(1, GAP_SAMPLES) - place) > 1.5
        left, middle, right = distance[:-2], distance[1:-1], distance[2:]
        lowest = np.flatnonzero(free & (middle <= left) & (middle < right))
        bend = left[lowest] - 2 * middle[lowest] + right[lowest]
        bottom = middle[lowest] - (right[lowest] - left[lowest]) ** 2 / (8 * bend)
        gaps += (bottom / np.abs(distance).max()).tolist()
    return min(gaps, default=float("nan"))


def graze_between(first: Node, last: Node) -> float:
    """Where a surface is touched at no speed: the gap before it, or the slowest speed, continued to zero by a line."""
    if last.value != first.value:
        for measure in (smallest_gap, lambda node: readings(node).speed):
            far, near = measure(first), measure(last)
            if near < min(far, CLOSE):
                return last.value + (last.value - first.value) * near / (far - near)
    return last.value


def eventful(family: Any, kind: Kind, node: Node, note: str, value: float | None = None) -> Bifurcation:
    """A point named after an event: no multiplier is on the circle, and none has to be."""
    multipliers = readings(node).multipliers
    nan = float("nan")
    return Bifurcation(
        kind, family.model, family.free[0], node.value if value is None else value, family.section_point(node.z),
        family.full_period(node.z), family.full_repeats, multipliers, complex(nan), True, nan, nan,
        np.zeros(family.size), span=family.span, offset=family.offset, values=family.values(node.z), note=note,
    )  # fmt: skip


def moved_section(node: Node) -> Node | None:
    """The node with its section in the middle of the longest event-free arc, when an event is near; else None."""
    family, at = node.family, node.at
    if not at.events or len(family.fractions) != 1 or family.closing is not None:
        return None
    period = at.period
    begin = at.equations.times(period)[0][0]
    times = np.array(sorted((e.time - begin) / period for e in at.events))
    if times[0] > TOO_NEAR and 1 - times[-1] > TOO_NEAR:
        return None
    ordered = sorted(at.events, key=lambda e: e.time)
    best, middle = 0.0, None
    for i, event in enumerate(ordered):
        following = times[(i + 1) % times.size] + (1.0 if i + 1 == times.size else 0.0)
        gap = following - times[i]
        # While sticking or in contact the state does not know where it came from.
        if event.kind not in ("stick", "contact") and gap > best:
            best, middle = gap, times[i] + gap / 2
    if middle is None or best < 4 * TOO_NEAR:
        return None
    return with_section(node, middle % 1.0)


def fastest_section(node: Node) -> Node | None:
    """The node with its section where the orbit is fastest, when it is slow at its section; else None.

    On the slow part of a relaxation oscillation small changes turn the rates, and the section becomes tangent; on its
    fast part they keep their direction.
    """
    family, at = node.family, node.at
    if family.closing is not None or not family.autonomous:
        return None
    if family.fractions.size > 1:
        return _rolled(node)
    grid = np.arange(GAP_SAMPLES) / GAP_SAMPLES
    try:
        states = family.loop(node.z, at)(grid)
    except FlowError:
        return None
    speed = np.linalg.norm(family.problem.field.rates(states, grid * at.period, at.vector) / family.sizes, axis=1)
    best = int(np.argmax(speed))
    return None if speed[0] > SLOW_SECTION * speed[best] else with_section(node, float(grid[best]))


def radial_section(node: Node, before: float) -> tuple[Node | None, float]:
    """The node of a small, shrinking orbit with its section farthest from the middle, if it is elsewhere; the extent.

    There the plane at right angles to the flow holds the middle, through which the branch leads at a Hopf point: the
    start of the orbit becomes a coordinate of its amplitude that changes its sign there. before: extent of the orbit
    before; on a growing orbit the farthest point may be slow, and would cost many steps for nothing.
    """
    family, at = node.family, node.at
    if family.closing is not None or not family.autonomous or family.fractions.size > 1:
        return None, 0.0
    if family.vigour(node.z, at) > SMALL:
        return None, 0.0
    grid = np.arange(64) / 64
    try:
        states = family.loop(node.z, at)(grid)
    except FlowError:
        return None, 0.0
    away = (states - states.mean(axis=0)) / family.sizes
    distance = np.linalg.norm(away, axis=1)
    best = int(np.argmax(distance))
    rates = family.problem.field.rates(states[:1], np.zeros(1), at.vector)[0] / family.sizes
    cosine = float(away[0] @ rates) / max(float(distance[0] * np.linalg.norm(rates)), 1e-300)
    if distance[best] >= before or abs(cosine) < OBLIQUE or best == 0:
        return None, float(distance[best])
    return with_section(node, float(grid[best])), float(distance[best])


def _rolled(node: Node) -> Node | None:
    """The same nodes, beginning with the fastest one."""
    family, at, n = node.family, node.at, node.family.size
    motion = family.motion(node.z, at)
    speed = np.linalg.norm(motion, axis=1)
    j = int(np.argmax(speed))
    if speed[0] > SLOW_SECTION * speed[j]:
        return None
    fractions = np.sort((family.fractions - family.fractions[j]) % 1.0)
    rates = motion[j] * family.sizes
    other = family.with_(fractions=fractions, reference=np.stack([at.nodes[j], rates]))
    count = family.fractions.size
    turned = [np.concatenate([np.roll(v[: count * n].reshape(count, n), -j, 0).ravel(), v[count * n :]])
              for v in (node.z, node.tangent)]  # fmt: skip
    from kapitza.continuation.path import null_direction

    z, ahead = turned
    fresh = other.linearise(z)
    tangent = null_direction(other, fresh, (ahead * other.metric)[None])
    sign = 1.0 if float((tangent * other.metric) @ ahead) >= 0 else -1.0
    return replace(node, family=other, z=z, at=fresh, tangent=sign * tangent, solver=None, extras={})


def with_section(node: Node, fraction: float) -> Node | None:
    """The node as seen from a section `fraction` of the orbit later."""
    family, at = node.family, node.at
    begin = at.equations.times(at.period)[0][0]
    try:
        there = family.flow.propagate(at.nodes[0], begin, begin + fraction * at.period, at.vector, tangents=False)
    except FlowError:
        return None
    offset = 0.0
    if not family.autonomous:
        offset = (family.offset + fraction * family.span) % family.span
    other = family.with_(offset=offset)
    z = node.z.copy()
    z[: family.size] = there.state
    if family.autonomous:
        rates = family.problem.field.rates(there.state[None], np.zeros(1), at.vector)[0]
        other = other.with_(reference=np.stack([there.state, rates]))
    from kapitza.continuation.path import corrected_at

    row = np.zeros(z.size)
    row[-1] = 1.0
    found = corrected_at(other, z, row[None], z[-1:].copy())
    if found.point is None:
        return None
    tangent = found.point.tangent
    # Next to a fold in the parameter the period tells which direction is ahead.
    tail = slice(-2, None) if family.autonomous else slice(-1, None)
    if float((tangent * other.metric)[tail] @ node.tangent[tail]) < 0:
        tangent = -tangent
    return replace(found.point, tangent=tangent, arclength=node.arclength, effort=node.effort)


def cause_of_collapse(nodes: list[Node], message: str) -> tuple[End, str, Bifurcation | None]:
    """Why the step collapsed: a graze, an event at the section, the end of the motion, or a hopeless step."""
    node = nodes[-1]
    family = node.family
    if not hasattr(node.at, "events"):
        return End.STEP, message, None
    speed = readings(node).speed
    events = node.at.events
    if np.isfinite(speed) and speed < SLOW:
        value = graze_between(_earlier(nodes), node)
        text = f"normal speed {speed:.2g} of the largest, 0 at {family.free[0]} = {value:.8g}"
        return End.GRAZING, text, eventful(family, Kind.GRAZING, node, text, value)
    gap = smallest_gap(node) if events else float("nan")
    if gap < CLOSE:
        value = graze_between(_earlier(nodes), node)
        if abs(value - node.value) < ONE_GRAZE * family.scale[-1]:
            text = f"a gap of {gap:.2g} of the largest closes at {family.free[0]} = {value:.8g}"
            return End.GRAZING, text, eventful(family, Kind.GRAZING, node, text, value)
    if events:
        begin, period = node.at.equations.times(node.at.period)[0][0], node.at.period
        times = np.array([(e.time - begin) / period for e in events])
        nearest = float(np.minimum(times % 1.0, 1 - times % 1.0).min())
        if nearest < TOO_NEAR:
            return End.SECTION, f"an event is {nearest:.2g} of a period from the section", None
    moving = family.vigour(node.z, node.at)
    if moving < 1e-2:
        return End.EXTINCT, f"the motion has shrunk to {moving:.2g} of its size", None
    return End.STEP, message, None


def _earlier(nodes: list[Node]) -> Node:
    """The last node of the same sequence that is another point than the end, or that one itself."""
    last = nodes[-1]
    for node in reversed(nodes[:-1]):
        if readings(node).sequence != readings(last).sequence:
            break
        if abs(node.value - last.value) > 1e-9 * last.family.scale[-1]:
            return node
    return last
