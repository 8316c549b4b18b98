"""Ends of families of orbits.

A family ends at a Hopf point, in a homoclinic orbit, or on the branch that it left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array, Complex
from kapitza.continuation.curve_family import CurveFamily
from kapitza.continuation.equilibria import EquilibriumFamily, resting_family
from kapitza.continuation.family import Node, Orbit
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import corrected_at
from kapitza.errors import FlowError
from kapitza.orbits.of_models import FlowLoop
from kapitza.solve import Bordered, NewtonSettings, eigenvectors, newton

STILL = 1e-6
"""Share of the motion before below which an orbit is an equilibrium, at which every period is a solution."""

NEAR_PERIOD = 0.2
"""Largest relative distance of the period from 2π/ω at an orbit that shrinks to a Hopf point."""

NEAR_SQUARE = 0.2
"""Largest relative change of (p - p_H)/a² between two nodes whose amplitudes a shrink to a Hopf point."""

IN_PLANE = 0.9
"""Least share of such an orbit that lies in the plane of the critical eigenvectors around the equilibrium."""

NEAR_SADDLE = 2e-2
"""Distance of an orbit from a saddle, relative to its size, below which the saddle holds it up."""

NEAR_LAW = 0.2
"""Largest relative deviation from the law by which the period grows."""

AT_LIMIT = 1e-7
"""Distance from the homoclinic orbit, relative to the size of the parameter, at which the family ends."""

AT_SADDLE = 5e-3
"""Distance of an orbit from a saddle, relative to its size, below which a family may end at its loop.

p - p∞ falls at most as the square of the distance, so that it is about 3e-4 where p is known to AT_LIMIT.
"""

NEARING = 0.3
"""Least share of the rate with which a saddle loop is neared: samples of an orbit miss its nearest point."""

BESIDE = 0.1
"""Distance of an orbit from a saddle, relative to its size, within which it is on one passage of it."""

SAMPLES = 512
"""Places of an orbit at which its speed is taken."""


@dataclass(frozen=True)
class Ending:
    """End of a branch.

    The last node, why it ends there, and the bifurcation at which it does, where there is one.
    """

    node: Node
    end: End
    message: str
    label: Bifurcation | None = None


def cosine_of_motion(before: Node, node: Node) -> float:
    """Return the cosine between rates of neighbouring orbits.

    Rates are taken at the nodes; -1 where the second orbit has come to rest.
    It turns negative where a step leads across a Hopf point, beyond which the same orbits follow half a period later,
    and falls to zero where the plane of the phase condition becomes tangent to the orbit.
    """
    first, last = before.motion, node.motion
    if first is None or last is None or first.shape != last.shape:
        return 1.0
    sizes = float(np.linalg.norm(first)), float(np.linalg.norm(last))
    if sizes[1] < STILL * sizes[0]:
        return -1.0
    return float((first * last).sum()) / (sizes[0] * sizes[1])


def _orbit_of(node: Node) -> Orbit:
    """Return the orbit of a node.

    On a curve of bifurcations it is the orbit that bifurcates.
    """
    orbit = node.at.inner_orbit(node.z)
    assert orbit is not None
    return orbit


def _samples(orbit: Orbit) -> tuple[Array, Array] | None:
    """Return states and rates along an orbit.

    States and rates are (K, n). None is returned where the orbit cannot be integrated.
    """
    grid = np.arange(SAMPLES) / SAMPLES
    try:
        states = orbit.loop()(grid)
    except FlowError:
        return None
    return states, orbit.frame.rates(states, grid * orbit.period, orbit.vector)


def _equilibria(orbit: Orbit, point: Array, place: int = 0) -> tuple[EquilibriumFamily, Array]:
    """Return the equilibria near a state.

    One parameter of the branch is free, by default the first.
    """
    frame = orbit.frame
    model = frame.model.with_values(**dict(zip(frame.model.names, orbit.vector.tolist(), strict=True)))
    one = slice(place, place + 1)
    resting = resting_family(model, frame.free[one], point, frame.parameter_sizes[one])
    resting = replace(resting, sizes=np.maximum(frame.sizes, 1e-12))
    value = orbit.z[place - len(frame.free)]
    return resting, np.append(point, value)


def _solved(family: CurveFamily, z: Array) -> Array | None:
    """Solve a square extended system near z."""
    none = Bordered(family, np.zeros((0, z.size)), np.zeros(0))
    found = newton(none, z, NewtonSettings(1e-11, 30), family.scale)
    return found.x if found.status.ok and np.isfinite(found.x).all() else None


def hopf_end(node: Node, before: Node | None = None) -> Ending | None:
    """Return the Hopf point of a shrinking orbit.

    None where the orbit does not shrink. before: the node before it, given where the branch is known to have turned
    round after `node`.
    """
    orbit = _orbit_of(node)
    sampled = None if orbit.events else _samples(orbit)
    label = None if sampled is None else _hopf_near(orbit, sampled[0])
    if sampled is None or label is None:
        return None
    # The tangent of a node next to the turn may already be that of the other side.
    towards = _towards(node, orbit, np.append(label.point, label.value))
    if not towards and (before is None or not _by_square(node, before, label)):
        return None
    return Ending(_at_rest(node, orbit, label), End.HOPF, str(label), label)


def _by_square(node: Node, before: Node, hopf: Bifurcation) -> bool:
    """Return whether p - p_H follows the squared amplitude.

    Both are compared at two nodes.
    """
    ratios: list[float] = []
    for each in (before, node):
        orbit = _orbit_of(each)
        sampled = _samples(orbit)
        if sampled is None:
            return False
        ratios.append((each.value - hopf.value) / float((((sampled[0] - hopf.point) / orbit.frame.sizes) ** 2).mean()))
    return ratios[1] != 0.0 and abs(ratios[0] / ratios[1] - 1) < NEAR_SQUARE


def hopf_on_curve(node: Node) -> Bifurcation | None:
    """Return the Hopf point of a shrinking orbit.

    The orbit is that of a node on a curve in two parameters.
    """
    orbit = _orbit_of(node)
    sampled = None if orbit.events else _samples(orbit)
    if sampled is None:
        return None
    # One of the two parameters may leave the equilibrium as it is.
    labels = (_hopf_near(orbit, sampled[0], place) for place in range(2))
    return next((each for each in labels if each is not None), None)


def _hopf_near(orbit: Orbit, states: Array, place: int = 0) -> Bifurcation | None:
    """Return the Hopf point inside an orbit.

    The orbit with these states is around it, with its period and in its plane.
    """
    resting, guess = _equilibria(orbit, states.mean(axis=0), place)
    n, rate, sizes = orbit.frame.size, 2 * np.pi / orbit.full_period, orbit.frame.sizes
    curve = CurveFamily(resting, Kind.HOPF, np.zeros((0, 0)), np.zeros((0, 0)), rate)
    try:
        curve = curve.with_borders(resting.linearise(guess), rate**2)
        found = _solved(curve, np.insert(guess, n, rate**2))
    except np.linalg.LinAlgError:
        return None
    if found is None or found[n] <= 0 or abs(np.sqrt(found[n]) / rate - 1) > NEAR_PERIOD:
        return None
    # Unknown number n is ω², which is not part of the equilibrium.
    hopf = np.delete(found, n)
    at = resting.linearise(hopf)
    away = (states - hopf[:n]) / sizes
    values, vectors = eigenvectors(at.matrix())
    vector = vectors[:, int(np.argmin(np.abs(values - 1j * np.sqrt(found[n]))))] / sizes
    plane = np.linalg.qr(np.stack([vector.real, vector.imag], axis=1))[0]  # any sign: projection
    if np.linalg.norm(away @ plane) < IN_PLANE * np.linalg.norm(away):
        return None
    rest = Node(resting, hopf, np.zeros(n + 1), at)
    return at.judged(Kind.HOPF, rest, rest, rest)


def _towards(node: Node, orbit: Orbit, hopf: Array) -> bool:
    """Return whether the branch leads to a Hopf point.

    At a Hopf point (x, p), p - p_H is half of the slope dp/da times the amplitude a.
    """
    family, n = node.family, orbit.frame.size
    start, move = orbit.start(), orbit.heading(node.tangent)[:n]
    away = (start - hopf[:n]) / orbit.frame.sizes
    amplitude = float(np.linalg.norm(away))
    inward = float(move @ away) / amplitude
    gap = (node.value - float(hopf[-1])) / family.scale[-1]
    if inward >= 0:
        return False
    expected = 0.5 * amplitude * float(node.tangent[-1]) / family.scale[-1] / inward
    return abs(gap - expected) < 0.5 * abs(gap) + 1e-9


def _at_rest(node: Node, orbit: Orbit, label: Bifurcation) -> Node:
    """Return the last node of the family.

    The equilibrium itself, with the period 2π/ω; the node where it has no such form.
    """
    z = orbit.resting(label.point, label.period, label.value)
    return node if z is None else _moved_to(node, z)


def _moved_to(node: Node, z: Array) -> Node:
    """Return the node at other unknowns.

    The unknowns are of its family, further along the branch.
    """
    length = float(np.sqrt((((z - node.z) ** 2) * node.metric).sum()))
    return replace(node, z=z, at=node.family.linearise(z), arclength=node.arclength + length, solver=None)


def endless(nodes: Sequence[Node]) -> Ending | None:
    """Return the limit of an endlessly growing period.

    The homoclinic or heteroclinic orbit, or the saddle-node; None where none is met.
    At a saddle loop p - p∞ falls as e^{-λT}, λ the smaller of its leading eigenvalues; at a saddle-node on a circle
    as T⁻². A growing period alone is not enough: at a canard explosion it grows and stops.
    """
    node, earlier = nodes[-1], nodes[-4]
    orbit = _orbit_of(node)
    period, sizes = orbit.full_period, orbit.frame.sizes
    grown = period / _orbit_of(earlier).full_period - 1
    moved = abs(node.value - earlier.value) / node.family.scale[-1]
    # Towards a loop the period grows while the parameter stands still.
    if grown < 0.01 or moved > 0.05 * grown:
        return None
    sampled = _samples(orbit)
    if sampled is None:
        return None
    states, rates = sampled
    speed = np.linalg.norm(rates / sizes, axis=1) * period
    size = float(np.ptp(states / sizes, axis=0).max())
    # An orbit near a saddle loop is slowest next to the saddle.
    slow = np.flatnonzero((speed < np.roll(speed, 1)) & (speed <= np.roll(speed, -1)) & (speed < 0.1 * speed.max()))
    near = [found for place in slow if (found := _saddle_near(orbit, states, int(place), size)) is not None]
    distinct: list[tuple[Array, Complex]] = []
    for saddle in near:
        gaps = (difference(saddle[0], other[0], orbit.frame.model.angles) / sizes for other in distinct)
        if all(np.abs(gap).max() > 1e-3 * size for gap in gaps):
            distinct.append(saddle)
    if distinct:
        gaps = difference(states, distinct[0][0], orbit.frame.model.angles) / sizes
        beside = np.linalg.norm(gaps, axis=1) < BESIDE * size
        passages = max(int((beside & ~np.roll(beside, 1)).sum()), 1)
        return _at_saddles(nodes, distinct, moved, grown, period, passages)
    return _at_saddle_node(nodes, states[int(np.argmin(speed))], size)


def _saddle_near(orbit: Orbit, states: Array, place: int, size: float) -> tuple[Array, Complex] | None:
    """Return the saddle near a slow place.

    Its eigenvalues are returned too.
    """
    resting, guess = _equilibria(orbit, states[place])
    row = np.zeros((1, guess.size))
    row[0, -1] = 1.0
    found = corrected_at(resting, guess, row, guess[-1:].copy()).point
    if found is None:
        return None
    point = found.z[:-1]
    if np.abs((states - point) / resting.sizes).max(axis=1).min() > NEAR_SADDLE * size:
        return None
    values = resting.linearise(found.z).eigenvalues()
    return (point, values) if values.real.max() > 0 > values.real.min() else None


def _at_saddles(
    nodes: Sequence[Node],
    saddles: list[tuple[Array, Complex]],
    moved: float,
    grown: float,
    period: float,
    passages: int,
) -> Ending | None:
    """Return the end at saddles, if any.

    passages: how often the orbit passes a single one in a period; each takes its share of the period.
    """
    node = nodes[-1]
    family = node.family
    name, value = family.free[0], node.value
    # The parameter has converged to rounding while the period still grows.
    stopped = moved < 1e-5 * grown
    if len(saddles) > 1:
        text = f"{name} → {value:.8g}, between {len(saddles)} saddles, the period has reached {period:.4g}"
        return Ending(node, End.HETEROCLINIC, text) if stopped else None
    point, values = saddles[0]
    growing, falling = values[values.real > 0], values[values.real < 0]
    # A constant parameter also occurs at canards, and their slope may fall by chance as at a loop.
    if not _nears(nodes, point, float(growing.real.min()) / passages, float(-falling.real.max()) / passages):
        return None
    leading = [growing[np.argmin(growing.real)], falling[np.argmax(falling.real)]]
    leader = min(leading, key=lambda x: abs(x.real))
    where = ", ".join(f"{n} = {x:.5g}" for n, x in zip(family.model.states, point, strict=True))
    if abs(leader.imag) > 1e-9 * abs(leader):
        text = f"{name} → {value:.8g}, saddle-focus at {where}, the period has reached {period:.4g}"
        return Ending(node, End.HOMOCLINIC, text) if stopped else None
    rate = abs(float(leader.real)) / passages
    slope, before = _by_period(node), _by_period(nodes[-2])
    lapse = period - _orbit_of(nodes[-2]).full_period
    if slope * before <= 0 or lapse <= 0:
        return None
    seen = -np.log(slope / before) / lapse
    # A node of a family that is not sensitive to its parameter shows rounding where its slope should fall on.
    if abs(seen / rate - 1) > NEAR_LAW and not stopped:
        return None
    # p - p∞ falls as e^{-λT}: the remaining distance is the slope over the rate.
    limit = value + slope / rate
    if abs(limit - value) > AT_LIMIT * family.scale[-1] and not stopped:
        return None
    text = f"{name} → {limit:.9g}, saddle at {where}, the period has reached {period:.4g}"
    return Ending(node, End.HOMOCLINIC, text)


def _nears(nodes: Sequence[Node], saddle: Array, growth: float, decay: float) -> bool:
    """Return whether the orbit approaches a saddle loop.

    There the distance from the saddle is e^{-λT} with 1/λ = 1/a + 1/b.
    a, b: leading rates of growth and decay at the saddle. Orbits that pass a saddle at a distance, such as canards,
    keep it while their period grows.
    """
    earlier, orbit = _orbit_of(nodes[-4]), _orbit_of(nodes[-1])
    distances: list[float] = []
    sizes, size = orbit.frame.sizes, 1.0
    for each in (earlier, orbit):
        sampled = _samples(each)
        if sampled is None:
            return False
        size = float(np.ptp(sampled[0] / sizes, axis=0).max())
        distances.append(float(np.linalg.norm((sampled[0] - saddle) / sizes, axis=1).min()))
    lapse = orbit.full_period - earlier.full_period
    expected = growth * decay / (growth + decay) * lapse
    return bool(distances[1] < AT_SADDLE * size and np.log(distances[0] / distances[1]) > NEARING * expected)


def _by_period(node: Node) -> float:
    """Return dp/dT along the branch."""
    return float(node.tangent[-1] / node.tangent[-2]) if node.tangent[-2] else float("inf")


def _at_saddle_node(nodes: Sequence[Node], slow: Array, size: float) -> Ending | None:
    """Return the end at a saddle-node, if any.

    The slowest place is the remainder of a fold of equilibria, and the period grows as T = C/√(p - p∞).
    """
    node = nodes[-1]
    resting, guess = _equilibria(_orbit_of(node), slow)
    curve = CurveFamily(resting, Kind.FOLD, np.zeros((0, 0)), np.zeros((0, 0)))
    try:
        found = _solved(curve.with_borders(resting.linearise(guess), 0.0), guess)
    except np.linalg.LinAlgError:
        return None
    if found is None or np.abs((found[:-1] - slow) / resting.sizes).max() > 0.1 * size:
        return None
    limit = float(found[-1])
    ages: list[tuple[float, float]] = []
    for each in (nodes[-2], node):
        slope = _by_period(each)
        # The law is p - p∞ = (C/τ)², so that dp/dT = -2 (p - p∞)/τ with the age τ = T + constant.
        ages.append((-2 * (each.value - limit) / slope, _orbit_of(each).full_period) if slope else (np.nan, 0.0))
    (first, begin), (last, end) = ages
    if not (first > 0 and last > first and abs((last - first) / (end - begin) - 1) < NEAR_LAW):
        return None
    if abs(node.value - limit) > 1e-3 * node.family.scale[-1]:
        return None
    name = node.family.free[0]
    text = f"{name} → {limit:.9g}, a fold of equilibria, the period has reached {end:.4g}"
    return Ending(node, End.SADDLE_NODE, text)


def merged(nodes: Sequence[Node], turn: int, label: Bifurcation | None) -> Ending | None:
    """Return the end of a branch that turned round.

    After node `turn` it came back on the same orbits, shifted or mirrored.
    A doubled orbit does so where it was born, and an orbit that broke a symmetry where it regains it.
    """
    first, before, node = nodes[turn], nodes[-2], nodes[-1]
    place, value = -len(node.family.free), first.value
    if before.z.size != node.z.size or before.z.size != first.z.size:
        return None
    gap = node.z[place] - before.z[place]
    share = 0.0 if gap == 0 else (value - before.z[place]) / gap
    row = np.zeros(node.z.size)
    row[place] = 1.0
    outcome = corrected_at(before.family, before.z + share * (node.z - before.z), row[None], np.array([value]))
    if outcome.point is None or np.abs((outcome.point.z - first.z) / first.family.scale).max() < 1e-7:
        return None
    images, orbit = first.at.images(first.z), first.orbit
    if images is None or not images(outcome.point):
        return None
    name = node.family.free[0]
    shrunk = hopf_end(first, nodes[turn - 1] if turn else None) if first.motion is not None else None
    if shrunk is not None:
        return shrunk
    if label is None:
        return Ending(first, End.MERGED, f"beyond {name} = {value:.8g}")
    if orbit is None:
        return Ending(first, End.MERGED, str(label), label)
    named = _named(orbit, label)
    last = orbit.resting(named.point, label.period, named.value)
    return Ending(first if last is None else _moved_to(first, last), End.MERGED, str(named), named)


def _named(orbit: Orbit, label: Bifurcation) -> Bifurcation:
    """Return the bifurcation of the other branch.

    This branch ends at it: at one of the half orbit, or of the symmetric one.
    """
    half = label.period / 2
    if label.repeats is not None and label.repeats % 2:
        return replace(label, kind=Kind.PITCHFORK if label.kind is Kind.PITCHFORK else Kind.BRANCH_POINT)
    try:
        run = orbit.frame.flow.propagate(label.point, 0.0, half, np.asarray(label.values))
    except FlowError:
        return label
    gap = np.abs((run.state - label.point) / orbit.frame.sizes).max()
    size = float(np.abs(_extent(orbit)).max())
    if run.jacobian is None or gap > 1e-3 * size:
        return replace(label, kind=Kind.PITCHFORK if label.kind is Kind.PITCHFORK else Kind.BRANCH_POINT)
    values, vectors = eigenvectors(run.jacobian)
    place = int(np.argmin(np.abs(values + 1)))
    distance = float(abs(values[place] + 1))
    return replace(
        label, kind=Kind.DOUBLING, period=half, repeats=None if label.repeats is None else label.repeats // 2,
        multipliers=values, map=replace(label.map, span=label.span / 2),
        crossing=replace(
            label.crossing, critical=complex(values[place]), vector=np.real(vectors[:, place]), tangent=None
        ),
        proof=replace(label.proof, verified=distance < 1e-4, distance=distance, note=""),
    )  # fmt: skip


def _extent(orbit: Orbit) -> Array:
    loop = orbit.loop()
    # Every point of a cycle of a map is a node.
    states = loop.nodes if isinstance(loop, FlowLoop) and orbit.frame.dynamics.is_map else loop(np.arange(64) / 64)
    return np.asarray(np.ptp(states / orbit.frame.sizes, axis=0), np.float64)
