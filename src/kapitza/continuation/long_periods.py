"""Curves of homoclinic orbits in two parameters.

Orbits of one long period approximate them.
The distance of such an orbit from the homoclinic one falls as e^{-λT}, λ the smaller leading eigenvalue of the saddle,
or as T⁻² at a saddle-node on an invariant circle: the curve of orbits of one long period T approximates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor
from kapitza.continuation.branch import Branch
from kapitza.continuation.family import Node, PlainPoint, Readings, Sample, Subject
from kapitza.continuation.frame import free_parameters, orbit_frame, state_sizes
from kapitza.continuation.motion import Section, ShootingFamily, ShootingPoint
from kapitza.continuation.nouns import End
from kapitza.continuation.path import corrected_at, null_direction
from kapitza.continuation.trace import Stepping, Trace, as_stepping
from kapitza.continuation.walker import Bounds, Walker, signs, walked
from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.solve import ByEffort, DensePoint

LONG = (End.HOMOCLINIC, End.HETEROCLINIC, End.SADDLE_NODE)
"""Ends of branches whose period grows without limit."""


@dataclass(frozen=True)
class LongFamily:
    """Orbits of one fixed, long period.

    The unknowns z = (nodes, T, p, q) satisfy the equations of orbits and T = period.
    """

    inner: ShootingFamily
    period: float

    @property
    def free(self) -> tuple[str, ...]:
        return self.inner.free

    @property
    def model(self) -> Model:
        return self.inner.model

    @property
    def scale(self) -> Array:
        return self.inner.scale

    @property
    def metric(self) -> Array:
        return self.inner.metric

    @property
    def state_sizes(self) -> Array:
        return self.inner.frame.sizes

    @property
    def delicate(self) -> bool:
        return False

    def residual(self, z: Array) -> Array:
        return np.append(self.inner.residual(z), z[-3] / self.period - 1)

    def linearise(self, z: Array) -> LongPoint:
        return self.around(self.inner.linearise(z), z)

    def around(self, at: ShootingPoint, z: Array) -> LongPoint:
        """Return the point whose orbit is linearised already."""
        row = np.zeros(z.size)
        row[-3] = 1 / self.period
        residual = np.append(at.residual, z[-3] / self.period - 1)
        return LongPoint(residual, np.vstack([at.full(), row]), self, at)

    def allowed(self, z: Array) -> bool:
        return self.inner.allowed(z)

    def subject(self, nodes: Sequence[Node]) -> Subject:
        note = f"orbits of the period {self.period:.6g} in the place of homoclinic ones"
        return Subject("long period", notes=(note,))


@dataclass(frozen=True)
class LongPoint(DensePoint, PlainPoint):
    """One orbit of a long period.

    Its Jacobian has a row for the period. No bifurcations are searched for along the curve.
    """

    family: LongFamily
    inner: ShootingPoint

    def remeshed(self, z: Array) -> tuple[LongPoint, Array] | None:
        other = self.inner.remeshed(z)
        if other is None:
            return None
        at, moved = other
        return replace(self.family, inner=at.family).around(at, moved), moved

    def renewed(self, z: Array) -> tuple[LongFamily, LongPoint] | None:
        renewed = self.inner.renewed(z)
        if renewed is None:
            return None
        family = replace(self.family, inner=renewed[0])
        jacobian = np.vstack([renewed[1].full(), self.jacobian[-1]])
        return family, LongPoint(self.residual, jacobian, family, renewed[1])

    def heading(self, tangent: Array) -> Array:
        return self.inner.heading(tangent)

    def readings(self, node: Node) -> Readings:
        return Readings(self.inner.multipliers())

    def sample(self, z: Array, readings: Readings) -> Sample:
        rows = self.family.inner.equations.unpack(z)[0]
        nodes = (self.family.inner.fractions, rows)
        return Sample(z[-2:], rows[0], self.family.period, readings.multipliers, nodes)


def follow_long(
    branch: Branch, names: tuple[str, str], ranges: Sequence[Bounds], direction: int, stepping: Stepping | None,
    monitor: Monitor | None,
) -> Branch:  # fmt: skip
    """Trace the curve of long-period orbits.

    The period is that of the last orbit of a branch that ends in a homoclinic orbit.
    """
    if branch.ends[1] not in LONG or branch.model.is_map:
        raise KapitzaError(
            f"A branch is followed in two parameters where it ends in a homoclinic orbit or a saddle-node on a circle; "
            f"this one ends so: {branch.ends[1].value}. Curves of bifurcations: follow(bifurcation, names)."
        )
    model = branch.model.with_values(**{branch.parameter: float(branch.values[-1, 0])})
    period, point = float(branch.periods[-1]), branch.points[-1]
    rates = Flow(model).rates(point, 0.0)
    fractions, nodes = branch.nodes_of(-1)
    sizes = state_sizes(model, nodes, rates[None], period)
    frame = orbit_frame(model, free_parameters(model, names, ranges), None, sizes, period)
    inner = ShootingFamily(frame, fractions, Section(reference=np.stack([point, rates])))
    family = LongFamily(inner, period)
    z = inner.pack(nodes, period, np.array([model.values[name] for name in names]))
    row = np.zeros((1, z.size))
    row[0, -1] = 1.0
    found = corrected_at(family, z, row, z[-1:].copy(), 1e-10).point
    if found is None:
        raise KapitzaError(f"The curve could not be started at {names[1]} = {z[-1]:.6g}, period {period:.6g}.")
    tangent = null_direction(family, found.at, row)
    stepping = as_stepping(stepping, ByEffort(0.02, 1e-7, 0.15, wanted=5))
    ahead = np.sign(tangent[-2]) or np.sign(tangent[-1]) or 1.0
    traces: list[Trace] = []
    for sign in signs(direction):
        start = Node(family, found.z, tangent * ahead * sign, found.at)
        traces.append(Trace(start, ranges[0], stepping, detect=False, second=ranges[1]))
    return walked(Walker(traces[0], traces[1] if len(traces) > 1 else None), monitor)
