"""Cycles of maps as a family in a parameter.

Fixed points and cycles solve x_{j+1} = f(x_j, p), x_q = x_0.
Every point of the cycle is an unknown, so no derivative grows over more than one step, and the certificates, test
functions, curves and switches are those of orbits: one step of the map takes the place of one excitation period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.continuation.frame import Dynamics, FreeParameter, cycle_sizes, orbit_frame
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.errors import ConvergenceError, FlowError, KapitzaError
from kapitza.flow import Event, Flow, Map
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import Compiled, Problem, VectorField, as_point
from kapitza.solve import NewtonSettings, newton

SETTLING = 1000
"""Steps after which a motion counts as settled where no start is given."""

LONGEST = 1000
"""Steps of a cycle: its matrices are dense for curves in two parameters."""

SAME_POINT = 1e-6
"""Distance, relative to the states, below which points of a cycle are one, and the cycle is a shorter one."""


@dataclass(frozen=True)
class _Unit:
    """Law of the period of a map.

    The period is one step, whatever the parameters.
    """

    varies: bool = False

    def __call__(self, vector: Array) -> float:
        return 1.0


@dataclass(frozen=True)
class Run:
    """Result of one step of a map.

    As a flow returns it: states, Jacobians and sensitivities; there are no events.
    """

    state: Array
    jacobian: Array | None = None
    sensitivity: Array | None = None
    events: tuple[Event, ...] = ()


class Steps:
    """Map with the interface of a flow.

    From t to t + k are k steps.
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

    def shots(self, *_: object) -> None:
        """Return None: a map step needs no preparation."""
        return None

    def arrive(self, x: Array, begin: float, end: float, vector: Array) -> Array:
        return self.propagate(x, begin, end, vector, tangents=False).state

    def advance(self, x: Array, begin: float, end: float, vector: Array, tangents: bool) -> Run:
        return self.propagate(x, begin, end, vector, tangents)

    def propagate(self, x: Array, begin: float, end: float, vector: Array | None = None, tangents: bool = True) -> Run:
        """Run round(end - begin) steps."""
        vector = self.model.vector if vector is None else vector
        jacobian, sensitivity = np.eye(len(x)), np.zeros((len(x), len(self.wrt)))
        state = np.asarray(x, float)
        for _ in range(round(end - begin)):
            run = self.propagate_many(state[None], begin, end, vector, tangents)
            if run.jacobian is not None and run.sensitivity is not None:
                jacobian = run.jacobian[0] @ jacobian
                # Chain rule over the steps: d x_{k+1}/dp = f_x dx_k/dp + f_p.
                sensitivity = run.jacobian[0] @ sensitivity + run.sensitivity[0]
            state = run.state[0]
        return Run(state, jacobian, sensitivity) if tangents else Run(state)

    def propagate_many(
        self, x: Array, begins: Array | float, ends: Array | float, vector: Array, tangents: bool = False
    ) -> Run:
        """Step once from each row of x (J, n)."""
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


def map_dynamics(model: Model, names: tuple[str, ...], steps: int) -> Dynamics:
    """Return a map in the place of a flow.

    Its cycles have a given number of steps.
    """
    # Steps has those methods of a flow that shooting calls; one step lasts one unit of time.
    runs = Steps(model, names)
    flow = cast(Flow, runs)
    return Dynamics(
        flow, Problem(model, steps, float(steps), wrt=names, compiled=Compiled(model, names, flow, runs.field)), True
    )


def cycle_family(model: Model, nodes: Array, free: FreeParameter) -> tuple[ShootingFamily, Array]:
    """Return the family through a cycle.

    It also returns the unknowns at the cycle with points `nodes` (q, n).
    F(z) = f(x_j, p) - x_{j+1} = 0 for z = (x_0 … x_{q-1}, p...).
    """
    count = len(nodes)
    dynamics = map_dynamics(model, free.names, count)
    frame = orbit_frame(model, free, count, cycle_sizes(model, nodes), float(count), dynamics)
    family = ShootingFamily(frame, np.arange(count) / count, Section(float(count)))
    return family, family.pack(nodes, float(count), np.array([model.values[name] for name in free.names]))


def along_cycle(model: Model, point: Array, vector: Array, steps: int) -> tuple[Array, Array]:
    """Return points and tangents along a cycle.

    The points (steps, n) begin at `point`; the tangent (n,) is carried along, (steps, n).
    """
    nodes, tangents, run = [point], [np.asarray(vector, float)], Steps(model)
    for _ in range(steps - 1):
        step = run.propagate_many(nodes[-1][None], 0.0, 1.0, model.vector, tangents=True)
        assert step.jacobian is not None
        nodes.append(step.state[0])
        tangents.append(step.jacobian[0] @ tangents[-1])
    return np.array(nodes), np.array(tangents)


def cycle_at(model: Model, start: Anything, period: float | None) -> Array:
    """Return the points (q, n) of a cycle.

    The start is an orbit, a state, the points themselves, or nothing.
    """
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
    family, z = cycle_family(model, guess, FreeParameter((), ()))
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


def _first(model: Model, start: Anything) -> Array:
    """Return the start as points (q, n).

    Settled from the model's own start where there is none.
    """
    if start is None:
        return Map(model).iterate(model.state(), SETTLING)[-1:]
    given = as_point(model.states, cast(Mapping[str, float], start)) if isinstance(start, Mapping) else start
    points = np.atleast_2d(checks.array("The start", given, error=KapitzaError))
    if points.shape[1] != len(model.states) or not np.isfinite(points).all():
        raise KapitzaError(
            f"The start of a cycle of {', '.join(model.states)} is one state or its points (q, n), not "
            f"{checks.shown(start)}."
        )
    return points


def _require_shortest(model: Model, nodes: Array) -> None:
    """Refuse a cycle that closes early.

    Its multipliers would be powers of the true ones.
    """
    count, size = len(nodes), cycle_sizes(model, nodes)
    for shorter in range(1, count):
        # A cycle that closes early does so after a divisor of its length.
        if count % shorter == 0 and np.abs((np.roll(nodes, -shorter, axis=0) - nodes) / size).max() < SAME_POINT:
            raise KapitzaError(
                f"The cycle of {count} steps that was found closes after {shorter} already: give "
                f"{Give(period=Code(shorter))}, or start nearer to the longer one."
            )
