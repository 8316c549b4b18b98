"""Sequence of arcs of an orbit, and its mesh.

Where the orbit switches or hits, and how its mesh is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.orbits import Loop
from kapitza.orbits.of_models.elements import Crossing, Layout
from kapitza.orbits.of_models.gauss import gauss_rule
from kapitza.orbits.of_models.loop import FlowLoop, lagrange_weights
from kapitza.orbits.of_models.problem import Problem
from kapitza.orbits.of_models.surfaces import crossings, signal_knots

SILENT = 1e-9
"""A switching function that stays below this, relative to the state, is left out: the orbit lies in its surface."""


@dataclass(frozen=True)
class Arcs:
    """Arcs of an orbit between events.

    boundaries (E + 1,) times with their events, modes (E, switches) of the arcs between.
    """

    boundaries: Array
    crossings: tuple[Crossing | None, ...]
    modes: Array


def find_arcs(problem: Problem, loop: Loop, kinks: bool = True) -> Arcs:
    """Cut a loop into arcs.

    Cuts are at its switches and impacts, at the knots of measured signals and at the section points.
    kinks=False leaves out the switches across which the rates are continuous: first iterates cross them at random.
    """
    followed = [kinks or not switch.continuous for switch in problem.field.switches]
    located = crossings(problem, loop) if any(followed) else []
    met = [c for c in located if followed[c.index] and not _silent(problem, loop, c.index)]
    switches = [(c.fraction, Crossing(c.index)) for c in met]
    hits = _impacts(problem, loop)
    fixed = np.concatenate([problem.section_fractions, signal_knots(problem, loop)])
    marks = [(float(s), None) for s in np.unique(fixed) if 0 < s < 1]
    inner = sorted([*switches, *hits, *marks], key=lambda mark: mark[0])
    kept: list[tuple[float, Crossing | None]] = []
    for fraction, event in inner:
        # A signal knot within rounding of an event would make an arc without length.
        if kept and fraction - kept[-1][0] < 1e-10:
            if event is not None and kept[-1][1] is None:
                kept[-1] = (fraction, event)
            continue
        if 1e-10 < fraction < 1 - 1e-10:
            kept.append((fraction, event))
    edges = np.array([0.0, *(f for f, _ in kept), 1.0])
    events = (None, *(e for _, e in kept), None)
    middle = 0.5 * (edges[1:] + edges[:-1])
    modes = np.full((middle.size, len(followed)), np.nan)
    if any(followed):
        signs = problem.field.modes(loop(middle), middle * loop.period, problem.parameters)
        modes = np.where(followed, signs, np.nan)
    return Arcs(edges * loop.period, events, modes)


def flow_through(problem: Problem, loop: Loop) -> FlowLoop:
    """Return trajectories from the section points of a loop."""
    fractions = problem.section_fractions
    return FlowLoop(problem.flow, fractions, loop(fractions), loop.period, problem.parameters, loop.winding)


def _silent(problem: Problem, loop: Loop, index: int) -> bool:
    grid = np.arange(100) / 100
    states = loop(grid)
    value = problem.field.surface(index, states, grid * loop.period, problem.parameters).value
    return bool(np.abs(value).max() <= SILENT * (1 + np.abs(states).max()))


def _impacts(problem: Problem, loop: Loop) -> list[tuple[float, Crossing]]:
    """Return the impacts along the flow.

    It starts on the loop; times are fractions of its period.
    """
    if not problem.model.impacts:
        return []
    start = loop.nodes if isinstance(loop, FlowLoop) else loop(np.zeros(1))
    fractions = loop.fractions if isinstance(loop, FlowLoop) else np.zeros(1)
    begins, ends = fractions * loop.period, np.append(fractions[1:], 1.0) * loop.period
    try:
        run = problem.flow.propagate_many(start, begins, ends, problem.parameters)
    except FlowError:
        return []
    first_wall = len(problem.field.switches)
    found = [e for part in run.events for e in part if e.kind == "impact"]
    return [(e.time / loop.period, Crossing(first_wall + e.index, e.index)) for e in found]


def lay_out(problem: Problem, arcs: Arcs, loop: Loop, elements: int, degree: int) -> Layout:
    """Lay out a mesh that resolves the loop.

    It has at least `elements` elements, on which the loop's slope is a polynomial to about 1e-3.
    Elements that are too coarse are halved until they are not (or are 2⁻²⁴ of their arc): layers a million times
    thinner than the period are found in a few passes when the guess has them.
    """
    layout = even_mesh(problem, arcs, elements)
    rule = gauss_rule(degree)
    size = problem.scale(loop)
    settled = np.zeros(layout.arc.size, bool)
    for _ in range(24):
        start, length = layout.times(layout.boundaries)
        rough = np.flatnonzero(~settled)
        # A guess with noise would be refined everywhere.
        if rough.size == 0 or layout.arc.size > 3000:
            break
        # The polynomial through the Gauss points is compared between and beyond them, where it is not fitted.
        points = np.append(rule.points, [1e-6, 0.5, 1 - 1e-6])
        times = start[rough, None] + length[rough, None] * points
        modes = np.repeat(layout.modes[layout.arc[rough]], points.size, axis=0) if problem.field.switches else None
        order = np.argsort(times.ravel(), kind="stable")
        states = np.empty((times.size, size.size))
        states[order] = loop(times.ravel()[order] / loop.period)
        rates = problem.field.rates(states, times.ravel(), problem.parameters, modes).reshape(*times.shape, -1)
        drawn = lagrange_weights(rule.points, points[rule.degree :]) @ rates[:, : rule.degree]
        error = np.abs((drawn - rates[:, rule.degree :]) / size).max(axis=(1, 2)) * length[rough]
        coarse = np.zeros(layout.arc.size, bool)
        coarse[rough] = error > 1e-3
        settled = ~coarse
        layout, settled = _halved(layout, coarse, settled)
    return layout


def _halved(layout: Layout, coarse: NDArray[np.bool_], settled: NDArray[np.bool_]) -> tuple[Layout, NDArray[np.bool_]]:
    middle = 0.5 * (layout.low + layout.high)
    arc = np.concatenate([layout.arc, layout.arc[coarse]])
    low = np.concatenate([layout.low, middle[coarse]])
    high = np.concatenate([np.where(coarse, middle, layout.high), layout.high[coarse]])
    done = np.concatenate([settled, np.zeros(int(coarse.sum()), bool)])
    order = np.lexsort((low, arc))
    return replace(layout, arc=arc[order], low=low[order], high=high[order]), done[order]


def even_mesh(problem: Problem, arcs: Arcs, elements: int) -> Layout:
    """Lay out elements of nearly equal length.

    An arc that ends in an event gets at least two elements.
    """
    unit = np.array([0.0, 1.0])
    return distribute(problem, arcs, [(unit, np.ones(1))] * (arcs.boundaries.size - 1), elements)


def distribute(problem: Problem, arcs: Arcs, density: list[tuple[Array, Array]], elements: int) -> Layout:
    """Distribute elements in proportion to a density.

    The density is given per arc on cells, edges (c + 1,) and values (c,), and is integrated.
    """
    lengths = np.diff(arcs.boundaries)
    mass = np.array([(np.diff(edges) * values).sum() for edges, values in density]) * lengths
    event = np.array([crossing is not None for crossing in arcs.crossings])
    eventful = event[:-1] | event[1:]
    counts = np.maximum(np.ceil(elements * mass / mass.sum()), np.where(eventful, 2, 1)).astype(int)
    arc, low, high = [], [], []
    for i, count in enumerate(counts):
        cells, values = density[i]
        level = np.append(0.0, np.cumsum(np.diff(cells) * values))
        edges = np.interp(np.arange(count + 1) / count * level[-1], level, cells)
        arc.append(np.full(count, i))
        low.append(edges[:-1])
        high.append(edges[1:])
    return Layout(
        arcs.boundaries,
        arcs.crossings,
        np.concatenate(arc),
        np.concatenate(low),
        np.concatenate(high),
        arcs.modes,
        problem.autonomous,
    )
