"""Curves of homoclinic orbits in two parameters, by orbits of one long period.

The distance of such an orbit from the homoclinic one falls as e^{-λT}, λ the smaller leading eigenvalue of the saddle,
or as T⁻² at a saddle-node on an invariant circle: the curve of orbits of one long period T stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.branch import Branch
from kapitza.continuation.motion import OrbitFamily, state_sizes
from kapitza.continuation.nouns import End
from kapitza.continuation.path import Node, corrected_at, null_direction
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Bounds, Walker, assembled, parameter_size, walked
from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.solve import ByEffort, DensePoint

Array = NDArray[np.float64]

LONG = (End.HOMOCLINIC, End.HETEROCLINIC, End.SADDLE_NODE)
"""Ends of branches whose period grows without limit."""


@dataclass(frozen=True)
class _Readings:
    """What is kept of a node: its multipliers. Nothing is looked for along the curve."""

    multipliers: NDArray[np.complex128]
    sequence: str = ""


@dataclass(frozen=True)
class _LongPoint(DensePoint):
    inner: Any


@dataclass(frozen=True)
class LongFamily:
    """Orbits of the fixed period `period` for z = (nodes, T, p, q): the equations of orbits and T = period."""

    inner: OrbitFamily
    period: float

    @property
    def free(self) -> tuple[str, ...]:
        return self.inner.free

    @property
    def model(self) -> Any:
        return self.inner.model

    @property
    def scale(self) -> Array:
        return self.inner.scale

    @cached_property
    def metric(self) -> Array:
        """(N,) weights of the squared components in the length of a step."""
        return self.inner.metric

    def residual(self, z: Array) -> Array:
        return np.append(self.inner.residual(z), z[-3] / self.period - 1)

    def linearise(self, z: Array) -> _LongPoint:
        at = self.inner.linearise(z)
        row = np.zeros(z.size)
        row[-3] = 1 / self.period
        residual = np.append(at.residual, z[-3] / self.period - 1)
        return _LongPoint(residual, np.vstack([self.inner.full(at), row]), at)

    def allowed(self, z: Array) -> bool:
        return self.inner.allowed(z)

    def motion(self, z: Array, at: _LongPoint) -> None:
        return None

    def remeshed(self, z: Array, at: _LongPoint) -> tuple[LongFamily, Array] | None:
        other = self.inner.remeshed(z, at.inner)
        return None if other is None else (replace(self, inner=other[0]), other[1])

    def renewed(self, z: Array, at: _LongPoint) -> LongFamily:
        return replace(self, inner=self.inner.renewed(z, at.inner))

    def relinearised(self, at: _LongPoint) -> _LongPoint:
        inner = self.inner.relinearised(at.inner)
        jacobian = np.vstack([self.inner.full(inner), at.jacobian[-1]])
        return _LongPoint(at.residual, jacobian, inner)

    def heading(self, tangent: Array) -> Array:
        return self.inner.heading(tangent)

    def readings(self, node: Node) -> _Readings:
        return _Readings(self.inner.multipliers(node.at.inner))

    def branch(self, nodes: Sequence[Node], lengths: Array, marks: Any, ends: Any, method: str) -> Branch:
        from kapitza.continuation.criteria import readings

        rows = [n.family.inner.equations.unpack(n.z)[0] for n in nodes]
        return Branch(
            model=self.model,
            parameters=self.free,
            values=np.array([n.z[-2:] for n in nodes]),
            points=np.array([own[0] for own in rows]),
            periods=np.full(len(nodes), self.period),
            multipliers=np.array([readings(n).multipliers for n in nodes]),
            repeats=None,
            arclength=lengths,
            bifurcations=marks,
            ends=(ends[0][0], ends[1][0]),
            end_messages=(ends[0][1], ends[1][1]),
            nodes=np.concatenate(rows),
            fractions=np.concatenate([n.family.inner.fractions for n in nodes]),
            counts=np.array([len(own) for own in rows]),
            subject="long period",
            method=method,
            notes=(f"orbits of the period {self.period:.6g} in the place of homoclinic ones",),
        )


def follow_long(
    branch: Branch, names: tuple[str, str], ranges: Sequence[Bounds], direction: int, stepping: Stepping | None,
    monitor: Any,
) -> Branch:  # fmt: skip
    """The curve of orbits with the period of the last one of a branch that ends in a homoclinic orbit."""
    if branch.ends[1] not in LONG or branch.model.is_map:
        raise KapitzaError(
            f"A branch is followed in two parameters where it ends in a homoclinic orbit or a saddle-node on a circle; "
            f"this one ends so: {branch.ends[1].value}. Curves of bifurcations: follow(bifurcation, names)."
        )
    model = branch.model.with_values(**{branch.parameter: float(branch.values[-1, 0])})
    period, point = float(branch.periods[-1]), branch.points[-1]
    rates = Flow(model).rates(point, 0.0)
    fractions, nodes = branch.nodes_of(-1)
    sizes = tuple(parameter_size(model.values[n], r) for n, r in zip(names, ranges, strict=True))
    inner = OrbitFamily(
        model, names, None, model.vector, state_sizes(model, nodes, rates[None], period), fractions, 1.0, None, 0.0,
        np.stack([point, rates]), period, sizes, tuple(0.5 * (high - low) for low, high in ranges),
    )  # fmt: skip
    family = LongFamily(inner, period)
    z = inner.equations.pack(nodes, period, np.array([model.values[name] for name in names]))
    row = np.zeros((1, z.size))
    row[0, -1] = 1.0
    found = corrected_at(family, z, row, z[-1:].copy(), 1e-10).point
    if found is None:
        raise KapitzaError(f"The curve could not be started at {names[1]} = {z[-1]:.6g}, period {period:.6g}.")
    tangent = null_direction(family, found.at, row)
    stepping = stepping or Stepping(rule=ByEffort(0.02, 1e-7, 0.15, wanted=5))
    ahead = np.sign(tangent[-2]) or np.sign(tangent[-1]) or 1.0
    traces = []
    for sign in (1, -1) if direction == 0 else (direction,):
        start = Node(family, found.z, tangent * ahead * sign, found.at)
        traces.append(Trace(start, ranges[0], stepping, detect=False, second=ranges[1]))
    walker = Walker(traces[0], traces[1] if len(traces) > 1 else None, lambda w: assembled(w, "Shooting"))
    return walked(walker, monitor)
