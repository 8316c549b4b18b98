"""Crossings of a loop with switching surfaces.

The module also finds grazing, and the change of volume along the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.orbits import Loop
from kapitza.orbits.of_models.gauss import gauss_rule
from kapitza.orbits.of_models.loop import FlowLoop, PiecewiseLoop
from kapitza.orbits.of_models.problem import Problem

GRID = 400
"""Samples per excitation period (or per autonomous period) among which crossings are looked for."""

SIDES = np.arange(64) / 64
"""Fractions at which the rates on both sides of a switch are compared."""

BESIDE = 1e-7
"""Distance from a crossing, as a fraction of the loop, at which the modes on both sides are evaluated."""

TOUCHING = 1e-7
"""A switching function whose extremum is this close to zero, relative to its range, is grazing."""


@dataclass(frozen=True)
class LoopCrossing:
    """Sign change of one switch on a loop.

    Switch `index` changes its sign at `fraction`, in the direction of `sign`.
    """

    fraction: float
    index: int
    sign: int


def crossings(problem: Problem, loop: Loop, events: Sequence[Any] | None = None) -> list[LoopCrossing]:
    """Locate sign changes of the switching functions.

    They are located along the loop to rounding, in the order of time.
    events: those that the flow has met along the loop, where they are known.
    """
    field = problem.field
    if not field.switches:
        return []
    grid = _search_grid(problem, loop, events)
    signs = _without_single_zeros(field.modes(loop(grid), grid * loop.period, problem.parameters))
    # A mode turns 0, or leaves 0, where a mode inside it changes; that crossing is found itself.
    place, index = np.nonzero(signs[1:] * signs[:-1] < 0)
    if place.size == 0:
        return []
    before = signs[place, index]
    fractions = _locate(problem, loop, grid[place], grid[place + 1], index)
    found = [LoopCrossing(float(s), int(i), int(-b)) for s, i, b in zip(fractions, index, before, strict=True)]
    return sorted(found, key=lambda c: c.fraction)


def _without_single_zeros(signs: Array) -> Array:
    """Replace signs that are zero at one sample.

    Signs (N, switches): one that is 0 at a single sample, on the way through zero, becomes the next one.
    """
    padded = np.concatenate([signs[1:2], signs, signs[-2:-1]])
    alone = (signs == 0) & (padded[:-2] != 0) & (padded[2:] != 0)
    return np.where(alone, padded[2:], signs)


def grids(problem: Problem, loop: Loop) -> Array:
    """Return all fractions at which a loop is evaluated.

    The functions of this module evaluate it there, whatever the loop meets.
    """
    looked_at = [_quadrature(_quadrature_edges(problem, loop, []))]
    if problem.field.switches:
        looked_at += [_even(problem), SIDES]
    if problem.model.impacts or any(not s.continuous for s in problem.field.switches):
        looked_at += [_fine(problem)]
    return np.concatenate(looked_at)


def _even(problem: Problem) -> Array:
    count = GRID * (problem.repeats or 1)
    return np.arange(count + 1) / count


def _fine(problem: Problem) -> Array:
    count = 4 * GRID * (problem.repeats or 1)
    return np.arange(count) / count


def _search_grid(problem: Problem, loop: Loop, events: Sequence[Any] | None) -> Array:
    """Return fractions that separate the crossings.

    Even ones, and more where the loop itself has short arcs.
    """
    even = _even(problem)
    if isinstance(loop, PiecewiseLoop):
        inner = loop.mesh[:-1, None] + np.diff(loop.mesh)[:, None] * np.array([1e-6, 0.25, 0.5, 0.75, 1 - 1e-6])
        return np.unique(np.concatenate([even, inner.ravel()]))
    if isinstance(loop, FlowLoop) and any(not s.continuous for s in problem.field.switches):
        if events is None:
            begins, ends = loop.fractions * loop.period, np.append(loop.fractions[1:], 1.0) * loop.period
            try:
                met = loop.flow.propagate_many(loop.nodes, begins, ends, loop.parameters).events
            except FlowError:
                return even
            events = [event for part in met for event in part]
        times = np.array(sorted(e.time for e in events)) / loop.period
        # A sample between two events separates crossings that are closer than the even grid.
        between = 0.5 * (np.append(0.0, times) + np.append(times, 1.0))
        return np.unique(np.clip(np.concatenate([even, between]), 0.0, 1.0))
    return even


def _locate(problem: Problem, loop: Loop, low: Array, high: Array, index: NDArray[np.intp]) -> Array:
    """Locate zeros of the switching functions.

    Each is between two fractions; all are located at once by the Illinois rule.
    """

    def height(fractions: Array) -> Array:
        order = np.argsort(fractions, kind="stable")
        states = np.empty((fractions.size, len(problem.model.states)))
        states[order] = loop(fractions[order])
        times, result = fractions * loop.period, np.empty(fractions.size)
        for i in np.unique(index):
            rows = np.flatnonzero(index == i)
            result[rows] = problem.field.surface(int(i), states[rows], times[rows], problem.parameters).value
        return result

    left, right = height(low), height(high)
    side = np.zeros(low.size)
    middle = high
    for _ in range(40):
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.where(right == left, 0.5 * (low + high), (low * right - high * left) / (right - left))
        middle = np.clip(middle, low, high)
        value = height(middle)
        same = np.sign(value) == np.sign(right)
        # The end that stays twice has its value halved, so that both ends close in.
        left = np.where(same, np.where(side == 1, left / 2, left), value)
        right = np.where(same, value, np.where(side == -1, right / 2, right))
        low, high = np.where(same, low, middle), np.where(same, middle, high)
        side = np.where(same, 1.0, -1.0)
        if ((high - low < 1e-15) | (value == 0) | (np.abs(value) < 1e-15)).all():
            break
    return middle


def volume_change(problem: Problem, loop: Loop, events: Sequence[Any] | None = None) -> float:
    """Return log|det| of the linearised return map.

    It is ∫ trace f_x dt plus the jumps at switches; NaN with impacts or stick.
    """
    if problem.model.impacts or any(getattr(e, "kind", "") in ("stick", "contact") for e in events or ()):
        return float("nan")
    field, parameters = problem.field, problem.parameters
    met = crossings(problem, loop, events)
    edges, rule = _quadrature_edges(problem, loop, [c.fraction for c in met]), gauss_rule(7)
    fractions = _quadrature(edges)
    trace = field.trace(loop(fractions), fractions * loop.period, parameters)
    total = float((np.diff(edges)[:, None] * rule.weights * trace.reshape(-1, 7)).sum() * loop.period)
    jumping = [c for c in met if not field.switches[c.index].continuous]
    return total + sum(_log_jump(problem, loop, c) for c in jumping)


def _quadrature_edges(problem: Problem, loop: Loop, met: list[float]) -> Array:
    even = np.linspace(0, 1, 24 * (problem.repeats or 1) + 1)
    return np.unique(np.concatenate([even, signal_knots(problem, loop), met]))


def _quadrature(edges: Array) -> Array:
    return (edges[:-1, None] + np.diff(edges)[:, None] * gauss_rule(7).points).ravel()


def signal_knots(problem: Problem, loop: Loop) -> Array:
    """Return breakpoints of measured signals as fractions."""
    pieces = [s for s in problem.field.signals if s.kind == "polynomial"]
    if not pieces:
        return np.zeros(0)
    # A drive without a period has no orbits (`pose`), so that every signal repeats here.
    repeated = [(s.knots, s.period) for s in pieces if s.period is not None]
    times = [knots[None, :-1] + every * np.arange(round(loop.period / every))[:, None] for knots, every in repeated]
    fractions = np.concatenate([t.ravel() for t in times]) / loop.period
    return fractions[(fractions > 0) & (fractions < 1)]


def _log_jump(problem: Problem, loop: Loop, crossing: LoopCrossing) -> float:
    """Return log|det| of the saltation matrix.

    The ratio of the speeds with which the surface is left and reached.
    """
    field, at = problem.field, np.array([crossing.fraction])
    state, time = loop(at), at * loop.period
    surface = field.surface(crossing.index, state, time, problem.parameters)
    speeds = []
    for sign, beside in ((-crossing.sign, -BESIDE), (crossing.sign, BESIDE)):
        # With the crossed mode those of the switches around it may change: all are read beside the surface.
        there = np.mod(at + beside, 1.0)
        modes = field.modes(loop(there), there * loop.period, problem.parameters)
        modes[:, crossing.index] = sign
        rates = field.rates(state, time, problem.parameters, modes)
        speeds.append(float((surface.by_state * rates).sum() + surface.by_time[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log(np.abs(np.divide(speeds[1], speeds[0]))))


def grazing_note(problem: Problem, loop: Loop) -> str:
    """Report a grazing contact, if any.

    A sentence when the loop touches a surface, across which the rates may jump, without crossing it.
    """
    if problem.smooth:
        return ""
    field = problem.field
    surfaces = [i for i, s in enumerate(field.switches) if not s.continuous and _matters(problem, loop, i)]
    names = [f"the switch at {field.switches[i].function} = 0" for i in surfaces]
    walls = problem.model.structure.impacts
    surfaces += [len(field.switches) + i for i in range(len(walls))]
    names += [wall.name or f"the wall at {wall.surface} = 0" for wall in walls]
    if not surfaces:
        return ""
    grid = _fine(problem)
    states, times = loop(grid), grid * loop.period
    touched = []
    for index, name in zip(surfaces, names, strict=True):
        value = field.surface(index, states, times, problem.parameters).value
        low = _lowest_extremum(value)
        # A constant switching function has no extremum to touch with.
        if low <= TOUCHING * max(np.ptp(value), 1e-300) and np.ptp(value) > 0:
            touched.append(name)
    if not touched:
        return ""
    return f"The orbit grazes {' and '.join(touched)}: it touches without crossing, and has no linearisation there."


def _matters(problem: Problem, loop: Loop, index: int) -> bool:
    """Return whether the rates depend on the side.

    They do not for a friction coefficient of zero, for example.
    """
    states, times = loop(SIDES), SIDES * loop.period
    modes = problem.field.modes(states, times, problem.parameters)
    modes[:, index] = 1.0
    one = problem.field.rates(states, times, problem.parameters, modes)
    modes[:, index] = -1.0
    return bool((one != problem.field.rates(states, times, problem.parameters, modes)).any())


def _lowest_extremum(value: Array) -> float:
    """Return the smallest |s| at an extremum.

    The extrema of s are those turned away from zero, by parabolas through three samples.
    """
    before, after = np.roll(value, 1), np.roll(value, -1)
    sign = np.sign(value)
    turning = (sign * (before - value) >= 0) & (sign * (after - value) >= 0)
    same_side = (np.sign(before) == sign) & (np.sign(after) == sign)
    curvature = before - 2 * value + after
    with np.errstate(divide="ignore", invalid="ignore"):
        summit = value - (after - before) ** 2 / (8 * curvature)
    inside = turning & same_side & (curvature != 0)
    # A minimum of |s| between two samples on one side, or a touch that the samples straddle.
    touching = np.abs(summit[inside])
    peaks = (np.abs(before) > np.abs(value)) & (np.abs(after) > np.abs(value)) & ~same_side & (curvature != 0)
    return float(min(touching.min(initial=np.inf), np.abs(summit[peaks]).min(initial=np.inf)))
