"""Coordinates of a family of orbits.

A frame holds the model, the free parameters, sizes, and the compiled equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.nouns import Bifurcation
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits.of_models import Compiled, Problem

OUTGROWN = 1.1
"""States that have grown beyond this many times their size get a new one, and the steps with them."""

FLOW_TOLERANCE = 1e-13
"""Tolerance of steps along smooth motions: 1e-15 takes half as long again and adds no digit to a branch."""


def branch_flow(model: Model, names: tuple[str, ...]) -> Flow:
    """Return the flow with sensitivities by free parameters.

    Events are located as sharply as they can be.
    """
    if model.structure.switches or model.impacts:
        return Flow(model, wrt=names)
    return Flow(model, wrt=names, tolerance=FLOW_TOLERANCE)


@dataclass(frozen=True)
class Dynamics:
    """Compiled equations of a family and their posed problem.

    is_map: one step of a map takes the place of one excitation period.
    """

    flow: Flow
    problem: Problem
    is_map: bool = False


def flow_dynamics(model: Model, free: tuple[str, ...], repeats: int | None, flow: Flow | None = None) -> Dynamics:
    """Compile the flow, unless given, and pose the problem."""
    flow = branch_flow(model, free) if flow is None else flow
    compiled = Compiled(model, free, flow)
    return Dynamics(flow, Problem(model, repeats, 1.0, wrt=free, compiled=compiled))


@dataclass(frozen=True)
class Frame:
    """Coordinates in which orbits of a model are described.

    repeats: excitation periods after which they close (None: after an unknown time).
    free: the parameters among the unknowns, last in z; vector: values of all, the free ones as they were at the start.
    sizes: (n,) of the states, period, parameter_sizes: the lengths that count as one step; reach: largest sizes that
    the parameters may grow to along the branch.
    """

    model: Model
    free: tuple[str, ...]
    repeats: int | None
    vector: Array
    sizes: Array
    period: float
    parameter_sizes: tuple[float, ...]
    dynamics: Dynamics = field(repr=False)
    reach: tuple[float, ...] = ()

    @property
    def flow(self) -> Flow:
        return self.dynamics.flow

    @cached_property
    def problem(self) -> Problem:
        return self.dynamics.problem.at(self.vector, self.period)

    @cached_property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Bounds of the free parameters, from the model."""
        return tuple(self.model.parameter(name).bounds for name in self.free)

    @property
    def autonomous(self) -> bool:
        return self.repeats is None

    @property
    def size(self) -> int:
        return len(self.model.states)

    @property
    def tail(self) -> Array:
        """Sizes of the last unknowns, [T] and the parameters."""
        return np.array([*([self.period] if self.autonomous else []), *self.parameter_sizes], float)

    def parameters(self, z: Array) -> Array:
        """Return the free parameters (k,) among the unknowns."""
        return z[-len(self.free) :]

    def with_sizes(self, sizes: Array, parameter_sizes: tuple[float, ...], period: float | None = None) -> Frame:
        """Return the frame with other step sizes."""
        return replace(
            self, sizes=sizes, parameter_sizes=parameter_sizes, period=self.period if period is None else period
        )

    def rates(self, states: Array, times: Array, vector: Array) -> Array:
        """Return f (M, n) at states (M, n)."""
        return self.problem.field.rates(states, times, vector)

    def allowed(self, z: Array) -> bool:
        """Return whether parameters and period are allowed."""
        for (low, high), value in zip(self.bounds, self.parameters(z).tolist(), strict=True):
            if not low <= value <= high:
                return False
        return not self.autonomous or bool(z[-len(self.free) - 1] > 0)


@dataclass(frozen=True)
class FreeParameter:
    """Parameters that are followed, with their step sizes."""

    names: tuple[str, ...]
    sizes: tuple[float, ...]
    reach: tuple[float, ...] = ()


def free_parameters(model: Model, names: tuple[str, ...], ranges: Sequence[tuple[float, float]]) -> FreeParameter:
    """Return parameters followed within ranges, with sizes."""
    sizes = tuple(parameter_size(model.values[n], r) for n, r in zip(names, ranges, strict=True))
    return FreeParameter(names, sizes, tuple(0.5 * (high - low) for low, high in ranges))


def parameter_size(value: float, limits: tuple[float, float]) -> float:
    """Return the step that counts as one.

    It is the value itself, or half of the range if that is smaller.
    """
    # A parameter that starts at zero takes a thousandth of its range.
    return min(max(abs(value), 1e-3 * (limits[1] - limits[0])), 0.5 * (limits[1] - limits[0]))


def orbit_frame(
    model: Model,
    free: FreeParameter,
    repeats: int | None,
    sizes: Array,
    period: float,
    compiled: Flow | Dynamics | None = None,
) -> Frame:
    """Return the frame of orbits at the model's values."""
    if not isinstance(compiled, Dynamics):
        compiled = flow_dynamics(model, free.names, repeats, compiled)
    return Frame(model, free.names, repeats, model.vector, sizes, period, free.sizes, compiled, free.reach)


def grown(sizes: tuple[float, ...], values: Array, reach: tuple[float, ...]) -> tuple[float, ...]:
    """Return parameter sizes, raised where values outgrew them.

    A parameter that starts at 0 has no size at first.
    """
    found = zip(sizes, values.tolist(), reach, strict=False)
    return tuple(s if abs(v) <= OUTGROWN * s else max(s, min(abs(v), r)) for s, v, r in found) if reach else sizes


def cycle_sizes(model: Model, nodes: Array) -> Array:
    """Return sizes of the states on a cycle."""
    size = np.abs(nodes).max(axis=0)
    size = np.maximum(size, max(1e-2 * float(size.max()), 1e-3))
    size[np.array(model.angles, bool)] = 1.0
    return size


AT_ORIGIN = 1e-2
"""Least sizes of the states at a bifurcation, as a share of those along its branch: there they may be rounding."""


def sizes_at(model: Model, bifurcation: Bifurcation, rates: Array, period: float) -> Array:
    """Return sizes of the states (n,) at a bifurcation."""
    own = state_sizes(model, bifurcation.point[None], rates[None], period)
    return own if bifurcation.sizes is None else np.maximum(own, AT_ORIGIN * bifurcation.sizes)


def state_sizes(model: Model, nodes: Array, rates: Array, period: float, before: Array | None = None) -> Array:
    """Return sizes of the states on an orbit.

    A state counts with its value or with the amplitude that its rate stands for, |f| T/2π; an angle at least as one.
    A size is never zero and never smaller than before.
    """
    size = np.maximum(np.abs(nodes).max(axis=0), np.abs(rates).max(axis=0) * period / (2 * np.pi))
    angles = np.array(model.angles, bool)
    size[angles] = 1.0
    if not size.any():
        # At rest at the origin no state has a size: take one for the coordinates.
        size[: len(model.coordinates)] = 1.0
    coordinates = [c.order for c in model.coordinates]
    second = [i for i, order in enumerate(coordinates) if order == 2]
    for place, i in enumerate(second):
        # A speed counts at least as that of a vibration of its coordinate.
        speed = len(coordinates) + place
        size[speed] = max(size[speed], size[i] * 2 * np.pi / period)
        if not angles[i]:
            size[i] = max(size[i], size[speed] * period / (2 * np.pi))
    size = np.maximum(size, 1e-3 * size.max())
    return size if before is None else np.maximum(size, before)
