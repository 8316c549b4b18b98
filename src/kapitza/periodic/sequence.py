"""The sequence of arcs of an orbit: where it switches or hits, and how its mesh is laid out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError
from kapitza.periodic.elements import Crossing, Layout
from kapitza.periodic.loop import FlowLoop, Loop
from kapitza.periodic.problem import Problem
from kapitza.periodic.surfaces import crossings, signal_knots

Array = NDArray[np.float64]

SILENT = 1e-9
"""A switching function that stays below this, relative to the state, is not followed: the orbit lies in its surface."""


@dataclass(frozen=True)
class Arcs:
    """boundaries (E + 1,) times with their events, modes (E, switches) of the arcs between."""

    boundaries: Array
    crossings: tuple[Crossing | None, ...]
    modes: Array


def find_arcs(problem: Problem, loop: Loop) -> Arcs:
    """Cut a loop at its switches and impacts, at the knots of measured signals and at the section points."""
    switches = [
        (c.fraction, Crossing(c.index)) for c in crossings(problem, loop) if not _silent(problem, loop, c.index)
    ]
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
    modes = problem.field.modes(loop(middle), middle * loop.period, problem.parameters)
    return Arcs(edges * loop.period, events, modes)


def _silent(problem: Problem, loop: Loop, index: int) -> bool:
    grid = np.arange(100) / 100
    states = loop(grid)
    value = problem.field.surface(index, states, grid * loop.period, problem.parameters).value
    return bool(np.abs(value).max() <= SILENT * (1 + np.abs(states).max()))


def _impacts(problem: Problem, loop: Loop) -> list[tuple[float, Crossing]]:
    """Impacts along the flow that starts on the loop, as fractions of its period."""
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


def lay_out(problem: Problem, arcs: Arcs, loop: Loop, elements: int) -> Layout:
    """A mesh of about `elements` elements, dense where the loop bends, at least two to an arc that ends in an event."""
    edges = arcs.boundaries / arcs.boundaries[-1]
    lengths = np.diff(edges)
    fine = 32
    inside = (edges[:-1, None] + lengths[:, None] * (np.arange(fine + 1) / fine)).ravel()
    # Sampling strictly inside the arc keeps jumps at its ends out of the density.
    inside = np.clip(inside, np.repeat(edges[:-1], fine + 1) + 1e-12, np.repeat(edges[1:], fine + 1) - 1e-12)
    size = problem.scale(loop)
    path = (loop(inside) / size).reshape(lengths.size, fine + 1, -1)
    step = lengths[:, None, None] / fine
    slope = np.diff(path, axis=1) / step
    bend = np.abs(np.gradient(slope, axis=1) / step).max(axis=2)
    density = 1.0 + np.abs(slope).max(axis=2) / 4 + np.sqrt(bend)
    return distribute(problem, arcs, density, elements)


def distribute(problem: Problem, arcs: Arcs, density: Array, elements: int) -> Layout:
    """Elements in proportion to the integral of a density given on equal cells of each arc, (E, cells)."""
    lengths = np.diff(arcs.boundaries)
    cells = density.shape[1]
    mass = density.mean(axis=1) * lengths
    eventful = np.array(
        [arcs.crossings[i] is not None or arcs.crossings[i + 1] is not None for i in range(lengths.size)]
    )
    counts = np.maximum(np.ceil(elements * mass / mass.sum()), np.where(eventful, 2, 1)).astype(int)
    arc, low, high = [], [], []
    for i, count in enumerate(counts):
        level = np.append(0.0, np.cumsum(density[i]))
        edges = np.interp(np.arange(count + 1) / count * level[-1], level, np.arange(cells + 1) / cells)
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
