"""Events along a branch.

The sequence changes, a surface is grazed, the section meets an event.
"""

from __future__ import annotations

import numpy as np

from kapitza.continuation.family import Node, Orbit, Readings
from kapitza.continuation.locate import Stretch
from kapitza.continuation.nouns import Bifurcation, Critical, End, Kind, Proof, ReturnMap
from kapitza.errors import FlowError

TOO_NEAR = 0.02
"""Share of the period: a section closer than this to an event is moved away."""

SHRUNK = 1e-2
"""Motion, relative to its size and to the largest on the branch, below which it dies out."""

SLOW = 0.02
"""Normal speed, relative to the largest on the orbit, below which a collapse of the step is put down to grazing."""

CLOSE = 0.02
"""Gap to a surface that is approached and not met, relative to the largest distance, that is put down to grazing."""

GAP_SAMPLES = 2048
"""Instants per orbit at which the distance from a surface is taken; its minima are those of parabolas between them."""

ONE_GRAZE = 1e-2
"""Distance, relative to the size of the parameter, beyond which a graze did not stop the continuation."""


def sequence_change(stretch: Stretch, before: Readings, after: Readings) -> list[Bifurcation]:
    """Return the bracketed change of the event sequence.

    Test functions are not compared across it.
    """
    node = stretch.bisected(lambda r: r.sequence, 1e-7)
    # Stick that begins or ends changes the dimension of the motion; other changes are crossings.
    sticks = [word.count("S") for word in (before.sequence, after.sequence)]
    hits = [word.count("i") for word in (before.sequence, after.sequence)]
    kind = Kind.STICK if (sticks[0] == 0) != (sticks[1] == 0) else Kind.SEQUENCE
    touched = any(letter.startswith("g") for word in (before.sequence, after.sequence) for letter in word.split())
    if hits[0] != hits[1] or touched:
        # An impact can only appear or vanish where the wall is touched at no speed.
        kind = Kind.GRAZING
    note = f"events {before.sequence or 'none'} → {after.sequence or 'none'}"
    value = graze_between(stretch.first, node) if kind is Kind.GRAZING else None
    orbit = node.orbit
    return [] if orbit is None else [eventful(orbit, kind, node, note, value)]


def smallest_gap(orbit: Orbit) -> float:
    """Return the smallest gap to a surface not met.

    Relative to its largest distance from it; NaN where there is none. Negative where a touch is passed over.
    """
    field = orbit.frame.problem.field
    grid = np.arange(GAP_SAMPLES + 1) / GAP_SAMPLES
    begin, period, vector = orbit.begin, orbit.period, orbit.vector
    try:
        states = orbit.loop()(grid)
    except FlowError:
        return float("nan")
    switches = len(field.switches)
    gaps: list[float] = []
    for index in range(switches + len(orbit.frame.model.impacts)):
        kinds = ("cross", "stick", "release") if index < switches else ("impact", "contact", "detach")
        own = [e for e in orbit.events if e.kind in kinds and e.index + (index >= switches) * switches == index]
        distance = field.surface(index, states, begin + grid * period, vector).value
        if index < switches:
            distance = np.abs(distance)
        # Walls may be written with either sign: the motion is on the positive side.
        elif np.median(distance) < 0:
            distance = -distance
        free = np.ones(GAP_SAMPLES - 1, bool)
        for event in own:
            place = (event.time - begin) / period * GAP_SAMPLES
            # Minima next to an event are the event itself.
            free &= np.abs(np.arange(1, GAP_SAMPLES) - place) > 1.5
        left, middle, right = distance[:-2], distance[1:-1], distance[2:]
        lowest = np.flatnonzero(free & (middle <= left) & (middle < right))
        bend = left[lowest] - 2 * middle[lowest] + right[lowest]
        bottom = middle[lowest] - (right[lowest] - left[lowest]) ** 2 / (8 * bend)
        gaps += (bottom / np.abs(distance).max()).tolist()
    return min(gaps, default=float("nan"))


def graze_between(first: Node, last: Node) -> float:
    """Return where a surface is touched at no speed.

    The gap before it, or the slowest speed, is continued to zero by a line.
    """
    if last.value != first.value:
        for measure in (_gap_of, _speed_of):
            far, near = measure(first), measure(last)
            if near < min(far, CLOSE):
                return last.value + (last.value - first.value) * near / (far - near)
    return last.value


def _gap_of(node: Node) -> float:
    return float("nan") if node.orbit is None else smallest_gap(node.orbit)


def _speed_of(node: Node) -> float:
    return node.readings.speed


def eventful(orbit: Orbit, kind: Kind, node: Node, note: str, value: float | None = None) -> Bifurcation:
    """Return a point named after an event.

    No multiplier is on the circle, and none has to be.
    """
    nan, frame = float("nan"), orbit.frame
    return Bifurcation(
        kind, frame.model, frame.free[0], node.value if value is None else value, orbit.section_point(),
        orbit.full_period, orbit.full_repeats, node.readings.multipliers, Critical(complex(nan), np.zeros(frame.size)),
        Proof(True, nan, nan, note), ReturnMap(False, orbit.span, orbit.offset), values=orbit.values,
    )  # fmt: skip


def extent_of_events(orbit: Orbit) -> float:
    """Return the extent of the states at events."""
    states = np.array([orbit.start(), *(e.state for e in orbit.events if e.state is not None)])
    return float((np.ptp(states, axis=0) / orbit.frame.sizes).max())


def cause_of_collapse(nodes: list[Node], message: str) -> tuple[End, str, Bifurcation | None]:
    """Return why the step collapsed.

    A graze, an event at the section, the end of the motion, or a step that is too small.
    """
    node, orbit = nodes[-1], nodes[-1].orbit
    if orbit is None:
        return End.STEP, message, None
    speed, events, name = node.readings.speed, orbit.events, orbit.frame.free[0]
    if np.isfinite(speed) and speed < SLOW:
        value = graze_between(_earlier(nodes), node)
        text = f"normal speed {speed:.2g} of the largest, 0 at {name} = {value:.8g}"
        return End.GRAZING, text, eventful(orbit, Kind.GRAZING, node, text, value)
    gap = smallest_gap(orbit) if events else float("nan")
    if gap < CLOSE:
        value = graze_between(_earlier(nodes), node)
        if abs(value - node.value) < ONE_GRAZE * node.family.scale[-1]:
            text = f"a gap of {gap:.2g} of the largest closes at {name} = {value:.8g}"
            return End.GRAZING, text, eventful(orbit, Kind.GRAZING, node, text, value)
    if events:
        times = np.array([(e.time - orbit.begin) / orbit.period for e in events])
        nearest = float(np.minimum(times % 1.0, 1 - times % 1.0).min())
        if nearest < TOO_NEAR:
            return End.SECTION, f"an event is {nearest:.2g} of a period from the section", None
    moving = orbit.vigour()
    if moving < SHRUNK and _has_shrunk(nodes):
        return End.EXTINCT, f"the motion has shrunk to {moving:.2g} of its size", None
    return End.STEP, message, None


def _has_shrunk(nodes: list[Node]) -> bool:
    """Return whether the last orbit is small beside others of the branch.

    The rates at its nodes alone do not tell: between two jumps a relaxation oscillation hardly moves.
    """
    chosen = [*nodes[:: max(1, len(nodes) // 8)], nodes[-1]]
    try:
        loops = [node.orbit.loop()(np.arange(64) / 64) for node in chosen if node.orbit is not None]
    except FlowError:
        return False
    extents = np.array([np.ptp(states, axis=0) for states in loops])
    return bool((extents[-1] < SHRUNK * extents.max(axis=0)).all())


def _earlier(nodes: list[Node]) -> Node:
    """Return an earlier node of the same sequence."""
    last = nodes[-1]
    for node in reversed(nodes[:-1]):
        if node.readings.sequence != last.readings.sequence:
            break
        if abs(node.value - last.value) > 1e-9 * last.family.scale[-1]:
            return node
    return last
