"""Traces in both directions from a start.

The module sets the ranges they keep to, and makes the branch that results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Set
from kapitza.base.monitor import Monitor, watch
from kapitza.continuation.branch import Branch
from kapitza.continuation.family import Family, Node
from kapitza.continuation.nouns import Bifurcation, End
from kapitza.continuation.path import first_node
from kapitza.continuation.trace import Stepping, Trace
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.model import Model, in_base, symbol

Bounds = tuple[float, float]

NARROW = 1e-9
"""Relative width of a range below which its points differ by rounding only."""


@dataclass
class Walker:
    """A branch being followed.

    Iterate to follow it, points come as they are found; `branch` returns those found so far.

    forward, backward: the two directions from the start; backward is None when only one is wanted. method: of the
    corrector, as the branch names it.
    """

    forward: Trace
    backward: Trace | None = None
    method: str = "Shooting"

    def __iter__(self) -> Iterator[Node]:
        yield from self.forward
        if self.backward is None:
            return
        if self.forward.end is End.CLOSED:
            # Traced in the other direction the loop would show each of its points a second time.
            self.backward.end, self.backward.message = End.CLOSED, self.forward.message
            return
        yield from self.backward

    @property
    def branch(self) -> Branch:
        return assembled(self.forward, self.backward, self.method)


def walked(walker: Walker, monitor: Monitor | None) -> Branch:
    """Return the branch, followed to its ends.

    After Ctrl-C or a stop by the monitor it holds the points so far, with its status.
    """
    family = walker.forward.start.family
    with watch(monitor, f"following {family.model.name}") as task:
        for node in walker:
            point = node.at.sample(node.z, node.readings).point
            task.note("", {family.free[0]: float(node.value), family.model.states[0]: float(point[0])}, None)
            task.advance(1, f"{family.free[0]} = {node.value:.6g}")
    if task.interrupted:
        for trace in (walker.forward, walker.backward):
            if trace is not None and trace.end is End.POINTS and not trace.message:
                trace.end = End.INTERRUPTED
    return walker.branch.with_(status=task.status)


def walker_from(
    family: Family, z: Array, limits: Bounds, stepping: Stepping, direction: int, method: str, detect: bool = True
) -> Walker:
    """Return a walker that begins at a solution."""
    traces: list[Trace] = []
    for sign in signs(direction):
        outcome = first_node(family, z, sign)
        if outcome.point is None:
            raise ConvergenceError(
                f"The start is not a solution at {family.free[0]} = {z[-1]:.6g}: {outcome.message} "
                "Solve the orbit first (solve_orbit) and begin there."
            )
        images = outcome.point.at.images(outcome.point.z)
        traces.append(Trace(outcome.point, limits, stepping, images, detect))
    return Walker(traces[0], traces[1] if len(traces) > 1 else None, method)


def signs(direction: int) -> tuple[int, ...]:
    """Return the directions to follow: both for 0."""
    return (1, -1) if direction == 0 else (direction,)


def assembled(forward: Trace, backward: Trace | None, method: str) -> Branch:
    """Return the branch from the nodes of both directions.

    Backward nodes are reversed.
    """
    behind = list(reversed(backward.nodes[1:])) if backward is not None else []
    ahead = forward.nodes or [forward.start]
    nodes: list[Node] = [*behind, *ahead]
    shift = len(behind)
    found: list[tuple[int, Bifurcation]] = [(shift + i, b) for i, b in forward.bifurcations]
    if backward is not None:
        # Between nodes i and i + 1 of the reversed trace is the gap before place shift - i.
        found += [(max(shift - i - 1, 0), b) for i, b in backward.bifurcations]
    # Several bifurcations of one step are sorted by their value.
    order = sorted(range(len(found)), key=lambda k: (found[k][0], found[k][1].value))
    first = (backward.end, backward.message) if backward is not None else (End.START, "")
    subject = nodes[0].family.subject(nodes)
    samples = [n.at.sample(n.z, n.readings) for n in nodes]
    sequences = tuple(n.readings.sequence for n in nodes)
    kept = [each.nodes for each in samples if each.nodes is not None]
    counts = [len(states) for _, states in kept] if kept else [1] * len(nodes) * subject.counted
    return Branch(
        model=nodes[0].family.model,
        parameters=nodes[0].family.free,
        values=np.array([each.values for each in samples]),
        points=np.array([each.point for each in samples]),
        periods=np.array([each.period for each in samples]),
        multipliers=np.array([each.multipliers for each in samples]),
        repeats=subject.repeats,
        arclength=np.array([-n.arclength for n in behind] + [n.arclength for n in ahead]),
        bifurcations=tuple(replace(found[k][1], position=found[k][0]) for k in order),
        ends=(first[0], forward.end),
        end_messages=(first[1], forward.message),
        sequences=sequences if any(sequences) else (),
        nodes=np.concatenate([states for _, states in kept]) if kept else np.zeros((0, 0)),
        fractions=np.concatenate([fractions for fractions, _ in kept]) if kept else np.zeros(0),
        counts=np.array(counts, np.int64),
        subject=subject.name,
        method=subject.method or method,
        notes=subject.notes,
    )


def reach_of(value: float, other: float = 0.0) -> float:
    """Return the size of a parameter.

    It serves for ranges that are not given.
    other: another value of it, for one that is zero to rounding.
    """
    return abs(value) if abs(value) > NARROW * abs(other) else abs(other) or 1.0


def checked_bounds(model: Model, parameter: object, bounds: Bounds | None, other: float = 0.0) -> Bounds:
    """Return the range of a parameter, or refuse it.

    other: where the branch began that led to a bifurcation, whose own value may be zero to rounding.
    """
    if not isinstance(parameter, str):
        raise KapitzaError(f'Name the parameter to follow, such as "omega"; {parameter!r} is not a name.')
    model.check(parameter)
    value = model.values[parameter]
    low, high = model.parameter(parameter).bounds
    if bounds is None:
        reach = reach_of(value, other)
        # From a tenth of a positive value to ten times it.
        bounds = (max(low, value - 0.9 * reach), min(high, value + 9 * reach))
    # The branch is traced in both directions: (14, 5) means the same as (5, 14).
    first, last = sorted(checks.array("bounds", bounds, shape=(2,), error=KapitzaError).tolist())
    if not (np.isfinite(first) and np.isfinite(last) and first < last):
        raise KapitzaError(f"bounds = {checks.shown(bounds)} is not a range for {parameter}: give (low, high).")
    if last - first < NARROW * max(abs(first), abs(last)):
        raise KapitzaError(
            f"bounds = ({first:.15g}, {last:.15g}) of {parameter} are {last - first:.1e} apart: orbits that near "
            "differ by rounding only. Give a wider range, or solve_orbit at one value."
        )
    if not first <= value <= last:
        raise KapitzaError(
            f"The branch starts at {parameter} = {value:g}, outside of bounds = ({first:g}, {last:g}): pass "
            f"{Set('values', **{parameter: ...})} or wider bounds."
        )
    return max(first, low), min(last, high)


def require_effect(model: Model, parameter: str) -> None:
    """Refuse a parameter that is in no equation.

    Every point of its branch would be the same.
    """
    structure = model.structure
    written = [*structure.rates, *(e for _, e in structure.steps)]
    for impact in structure.impacts:
        written += [impact.surface, *impact.reset.values()]
    if model.excitation is not None and model.excitation.period is not None:
        written.append(in_base(model, model.excitation.period))
    if not any(symbol(parameter) in e.free_symbols for e in written):
        raise KapitzaError(f'"{parameter}" is in no equation of "{model.name}": nothing changes along it.')
