"""Cycles of maps as a family in a parameter: fixed points and cycles x_{j+1} = f(x_j, p), x_q = x_0.

Every point of the cycle is an unknown, so no derivative grows over more than one step, and the certificates, test
functions, curves and switches are those of orbits: one step of the map takes the place of one excitation period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.continuation.motion import OUTGROWN, OrbitFamily, grown
from kapitza.errors import ConvergenceError, FlowError, KapitzaError
from kapitza.flow import Map
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import Problem, VectorField, as_point
from kapitza.solve import NewtonSettings, newton

Array = NDArray[np.float64]

SETTLING = 1000
"""Steps after which a motion counts as settled where no start is given."""

LONGEST = 1000
"""Steps of a cycle: its matrices are dense for curves in two parameters."""

SAME_POINT = 1e-6
"""Of the size of the states: points of a cycle at this distance are one point, and the cycle is a shorter one."""


@dataclass(frozen=True)
class _Unit:
    """The law of the period of a map: one step, whatever the parameters."""

    varies: bool = False

    def __call__(self, vector: Array) -> float:
        return 1.0


@dataclass(frozen=True)
class Run:
    """What a flow returns, for one step of a map: states, Jacobians and sensitivities; there are no events."""

    state: Array
    jacobian: Array | None = None
    sensitivity: Array | None = None
    events: tuple = ()


class Steps:
    """A map in the place of a flow: from t to t + k are k steps.

    wrt: names of the parameters whose sensitivities are carried.
    """

    def __init__(self, model: Model, wrt: tuple[str, ...] = ()):
        self.model, self.wrt = model, wrt
        self.field = VectorField(model, wrt)
        self.period_law = _Unit()

    @property
    def core(self) -> Steps:
        return self

    def period(self, vector: Array | None = None) -> float:
        return 1.0

    def shots(self, *_: Any) -> None:
        """A step of a map needs no preparation."""
        return None

    def arrive(self, x: Array, begin: float, end: float, vector: Array) -> Array:
        return self.propagate(x, begin, end, vector, tangents=False).state

    def advance(self, x: Array, begin: float, end: float, vector: Array, tangents: bool) -> Run:
        return self.propagate(x, begin, end, vector, tangents)

    def propagate(self, x: Array, begin: float, end: float, vector: Array | None = None, tangents: bool = True) -> Run:
        """One run of round(end - begin) steps."""
        vector = self.model.vector if vector is None else vector
        jacobian, sensitivity = np.eye(len(x)), np.zeros((len(x), len(self.wrt)))
        state = np.asarray(x, float)
        for _ in range(round(end - begin)):
            run = self.propagate_many(state[None], begin, end, vector, tangents)
            if run.jacobian is not None and run.sensitivity is not None:
                jacobian = run.jacobian[0] @ jacobian
                sensitivity = run.jacobian[0] @ sensitivity + run.sensitivity[0]
            state = run.state[0]
        return Run(state, jacobian, sensitivity) if tangents else Run(state)

    def propagate_many(self, x: Array, begins: Any, ends: Any, vector: Array, tangents: bool = False) -> Run:
        """One step from each row of x (J, n)."""
        times = np.zeros(len(x))
        with np.errstate(all="ignore"):
            if tangents:
                at = self.field.derivatives(x, times, vector)
                run = Run(at.rates, at.by_state, at.by_parameter)
            else:
                run = Run(self.field.rates(x, times, vector))
        if not np.isfinite(run.state).all():
            raise FlowError("The map left the finite numbers.")
        return run


@dataclass(frozen=True)
class CycleFamily(OrbitFamily):
    """F(z) = f(x_j, p) - x_{j+1} = 0 for z = (x_0 … x_{q-1}, p...): cycles of q = `repeats` steps of a map."""

    @cached_property
    def flow(self) -> Any:
        return Steps(self.model, self.free)

    @cached_property
    def problem(self) -> Problem:
        base = Problem(self.model, self.repeats, self.period, wrt=self.free)
        base.__dict__.update(flow=self.flow, field=self.flow.field, law=self.flow.period_law)
        return base.at(self.vector, self.period)

    def renewed(self, z: Array, at: Any) -> CycleFamily:
        """The family with sizes of states and parameters that have grown."""
        parameters = grown(self.parameter_sizes, z[-len(self.free) :], self.reach)
        seen = cycle_sizes(self.model, at.nodes)
        if parameters == self.parameter_sizes and (seen <= OUTGROWN * self.sizes).all():
            return self
        other = replace(self, sizes=np.maximum(seen, self.sizes), parameter_sizes=parameters)
        other.__dict__.update(flow=self.flow, problem=self.problem)
        return other

    def remeshed(self, z: Array, at: Any, always: bool = False) -> None:
        """Every point of the cycle is a node already."""
        return None

    def vigour(self, z: Array, at: Any) -> float:
        """A cycle of a map does not come to rest."""
        return 1.0

    def readings(self, node: Any) -> Any:
        """Test functions, with the sides of the switches on which the points lie as a word."""
        from kapitza.continuation.criteria import canonical, orbit_readings

        found = orbit_readings(node)
        if not self.model.structure.switches:
            return found
        at = node.at
        modes = self.flow.field.modes(at.nodes, np.zeros(len(at.nodes)), at.vector)
        letters = ["".join("-0+"[int(np.sign(m)) + 1] for m in row) for row in modes]
        return replace(found, sequence=canonical(" ".join(letters)))


def rounding_defect(segments: Array) -> float:
    """Relative error of the multipliers of a cycle by rounding: its derivatives are exact ones."""
    count, n = segments.shape[:2]
    return 1e-15 * count * n


def cycle_sizes(model: Model, nodes: Array) -> Array:
    """Sizes of the states on a cycle (q, n), never zero."""
    size = np.abs(nodes).max(axis=0)
    size = np.maximum(size, max(1e-2 * float(size.max()), 1e-3))
    size[np.array(model.angles, bool)] = 1.0
    return size


def cycle_family(
    model: Model,
    nodes: Array,
    names: tuple[str, ...],
    parameter_sizes: tuple[float, ...],
    reach: tuple[float, ...] = (),
) -> tuple[CycleFamily, Array]:
    """The family through the cycle with points `nodes` (q, n), and its unknowns there."""
    count = len(nodes)
    family = CycleFamily(
        model, names, count, model.vector, cycle_sizes(model, nodes), np.arange(count) / count, float(count),
        period=float(count), parameter_sizes=parameter_sizes, reach=reach,
    )  # fmt: skip
    return family, family.equations.pack(nodes, float(count), np.array([model.values[name] for name in names]))


def along_cycle(model: Model, point: Array, vector: Array, steps: int) -> tuple[Array, Array]:
    """Points (steps, n) of a cycle from one of them on, and a tangent (n,) carried along (steps, n)."""
    nodes, tangents, run = [point], [np.asarray(vector, float)], Steps(model)
    for _ in range(steps - 1):
        step = run.propagate_many(nodes[-1][None], 0.0, 1.0, model.vector, tangents=True)
        assert step.jacobian is not None
        nodes.append(step.state[0])
        tangents.append(step.jacobian[0] @ tangents[-1])
    return np.array(nodes), np.array(tangents)


def cycle_at(model: Model, start: Any, period: float | None) -> Array:
    """The points (q, n) of the cycle near a start: an orbit, a state, the points themselves, or nothing."""
    if isinstance(start, PeriodicOrbit):
        guess = np.asarray(start.points, float)
        period = float(len(guess)) if period is None else period
    else:
        guess = _first(model, start)
    count = len(guess) if period is None else checks.number("period", period, error=KapitzaError)
    if count != int(count) or not 1 <= count <= LONGEST:
        raise KapitzaError(f'"{model.name}" is a map: period counts its steps (1, 2, 3, … {LONGEST}), not {period}.')
    count = int(count)
    if len(guess) != count:
        guess = Map(model).iterate(guess[0], count - 1)
    family, z = cycle_family(model, guess, (), ())
    found = newton(family.equations, z, NewtonSettings(1e-13, 60), family.scale)
    if not found.status.ok:
        raise ConvergenceError(
            f'No cycle of {count} steps of "{model.name}" near '
            f"{dict(zip(model.states, guess[0].tolist(), strict=True))}: {found.message or found.status.value} "
            "Start nearer, or take one that find_orbits(model, period=...) finds."
        )
    nodes = found.x.reshape(count, -1)
    _require_shortest(model, nodes)
    return nodes


def _first(model: Model, start: Any) -> Array:
    """The start as points (q, n); settled from the model's own start where there is none."""
    if start is None:
        return Map(model).iterate(model.state(), SETTLING)[-1:]
    given = as_point(model.states, start) if isinstance(start, dict) else start
    points = np.atleast_2d(checks.array("The start", given, error=KapitzaError))
    if points.shape[1] != len(model.states) or not np.isfinite(points).all():
        raise KapitzaError(
            f"The start of a cycle of {', '.join(model.states)} is one state or its points (q, n), not "
            f"{checks.shown(start)}."
        )
    return points


def _require_shortest(model: Model, nodes: Array) -> None:
    """Refuse a cycle that closes earlier than it was asked to: its multipliers would be powers of the true ones."""
    count, size = len(nodes), cycle_sizes(model, nodes)
    for shorter in range(1, count):
        if count % shorter == 0 and np.abs((np.roll(nodes, -shorter, axis=0) - nodes) / size).max() < SAME_POINT:
            raise KapitzaError(
                f"The cycle of {count} steps that was found closes after {shorter} already: give period={shorter}, or "
                "start nearer to the longer one."
            )


def cycle_arrays(cycles: Sequence[Array]) -> dict[str, Array]:
    """Nodes, fractions and counts of a branch from the points (q, n) of its cycles."""
    counts = np.array([len(nodes) for nodes in cycles])
    fractions = [np.arange(count) / count for count in counts]
    return {"nodes": np.concatenate(cycles), "fractions": np.concatenate(fractions), "counts": counts}
