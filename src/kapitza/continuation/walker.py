"""A walk in one or both directions from a start: the ranges it keeps to, and the branch that comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.monitor import Monitor, watch
from kapitza.continuation.branch import Branch
from kapitza.continuation.nouns import Bifurcation, End
from kapitza.continuation.path import Node, first_node
from kapitza.continuation.trace import Stepping, Trace
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.model import Model, in_base, symbol

Array = NDArray[np.float64]

Bounds = tuple[float, float]

NARROW = 1e-9
"""Relative width of a range below which its points are told apart by rounding only."""


@dataclass
class Walker:
    """A branch being followed: iterate to walk (points come as they are found), `branch` gives what there is.

    forward, backward: the two directions from the start; backward is empty when only one is wanted.
    """

    forward: Trace
    backward: Trace | None
    make: Any

    def __iter__(self) -> Iterator[Node]:
        yield from self.forward
        if self.backward is None:
            return
        if self.forward.end is End.CLOSED:
            # Walked the other way round the loop would show each of its points a second time.
            self.backward.end, self.backward.message = End.CLOSED, self.forward.message
            return
        yield from self.backward

    @property
    def branch(self) -> Branch:
        return self.make(self)


def walked(walker: Walker, monitor: Monitor | None) -> Branch:
    """The branch, walked to its ends; Ctrl-C or the monitor leave what there is, with its status."""
    family = walker.forward.start.family
    with watch(monitor, f"following {family.model.name}") as task:
        for node in walker:
            task.advance(1, f"{family.free[0]} = {node.value:.6g}")
    if task.interrupted:
        for trace in (walker.forward, walker.backward):
            if trace is not None and trace.end is End.POINTS and not trace.message:
                trace.end = End.INTERRUPTED
    return walker.branch.with_(status=task.status)


def walker_from(
    family: Any, z: Array, limits: Bounds, stepping: Stepping, direction: int, method: str, detect: bool = True
) -> Walker:
    """Walks in one or both directions from a point that is (nearly) a solution."""
    traces = []
    for sign in (1, -1) if direction == 0 else (direction,):
        outcome = first_node(family, z, sign)
        if outcome.point is None:
            raise ConvergenceError(
                f"The start is not a solution at {family.free[0]} = {z[-1]:.6g}: {outcome.message} "
                "Solve the orbit first (solve_orbit) and begin there."
            )
        images = family.images(outcome.point)
        traces.append(Trace(outcome.point, limits, stepping, images, detect))
    forward = traces[0]
    backward = traces[1] if len(traces) > 1 else None
    return Walker(forward, backward, lambda walker: assembled(walker, method))


def assembled(walker: Walker, method: str) -> Branch:
    """The nouns from the nodes of both directions: backward reversed, then forward."""
    forward, backward = walker.forward, walker.backward
    behind = list(reversed(backward.nodes[1:])) if backward is not None else []
    ahead = forward.nodes or [forward.start]
    nodes: list[Node] = [*behind, *ahead]
    family = nodes[0].family
    shift = len(behind)
    found: list[tuple[int, Bifurcation]] = [(shift + i, b) for i, b in forward.bifurcations]
    if backward is not None:
        # Between nodes i and i + 1 of the reversed walk lies the gap before place shift - i.
        found += [(max(shift - i - 1, 0), b) for i, b in backward.bifurcations]
    order = sorted(range(len(found)), key=lambda k: (found[k][0], found[k][1].value))
    marks = tuple(replace(found[k][1], position=found[k][0]) for k in order)
    lengths = np.array([-n.arclength for n in behind] + [n.arclength for n in ahead])
    first = (backward.end, backward.message) if backward is not None else (End.START, "")
    return family.branch(nodes, lengths, marks, (first, (forward.end, forward.message)), method)


def checked_bounds(model: Model, parameter: Any, bounds: Bounds | None) -> Bounds:
    """The range of a parameter, refusing one that is not in the model, is derived, or lies outside the range."""
    if not isinstance(parameter, str):
        raise KapitzaError(f'Name the parameter to follow, such as "omega"; {parameter!r} is no name.')
    model.check(parameter)
    value = model.values[parameter]
    low, high = model.parameter(parameter).bounds
    if bounds is None:
        reach = abs(value) if value else 1.0
        bounds = (max(low, value - 0.9 * reach), min(high, value + 9 * reach))
    # The walk goes both ways: (14, 5) says the same as (5, 14).
    first, last = sorted(checks.array("bounds", bounds, shape=(2,), error=KapitzaError).tolist())
    if not (np.isfinite(first) and np.isfinite(last) and first < last):
        raise KapitzaError(f"bounds = {checks.shown(bounds)} is no range for {parameter}: give (low, high).")
    if last - first < NARROW * max(abs(first), abs(last)):
        raise KapitzaError(
            f"bounds = ({first:.15g}, {last:.15g}) of {parameter} are {last - first:.1e} apart: orbits that near are "
            "told apart by rounding only. Give a wider range, or solve_orbit at one value."
        )
    if not first <= value <= last:
        raise KapitzaError(
            f"The branch starts at {parameter} = {value:g}, outside of bounds = ({first:g}, {last:g}): "
            f"pass model.with_values({parameter}=...) or wider bounds."
        )
    return max(first, low), min(last, high)


def require_effect(model: Model, parameter: str) -> None:
    """Refuse a parameter that is in no equation: every point of its branch would be the same."""
    structure = model.structure
    written = [*structure.rates, *(e for _, e in structure.steps)]
    for impact in structure.impacts:
        written += [impact.surface, *impact.reset.values()]
    if model.excitation is not None:
        written.append(in_base(model, model.excitation.period))
    if not any(symbol(parameter) in e.free_symbols for e in written):
        raise KapitzaError(f'"{parameter}" is in no equation of "{model.name}": nothing changes along it.')


def parameter_size(value: float, limits: Bounds) -> float:
    """What counts as much as the whole orbit: the value itself, or half of the range where that is smaller."""
    return min(max(abs(value), 1e-3 * (limits[1] - limits[0])), 0.5 * (limits[1] - limits[0]))
