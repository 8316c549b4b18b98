"""Equilibria of autonomous models as a family.

The simplest case of `follow`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array, Complex, Numbers
from kapitza.base.cures import Give
from kapitza.continuation.criteria import several_real
from kapitza.continuation.family import Node, PlainPoint, RankedTest, Readings, Sample, Subject, Test, test_of
from kapitza.continuation.frame import FreeParameter, grown
from kapitza.continuation.normal_forms import lyapunov_coefficient
from kapitza.continuation.nouns import Bifurcation, Critical, Kind, Proof
from kapitza.continuation.path import tangent_through
from kapitza.continuation.symmetry import linear_symmetries
from kapitza.errors import KapitzaError
from kapitza.model import Model
from kapitza.orbits.of_models import VectorField, as_point
from kapitza.solve import (
    DenseLinearised,
    DensePoint,
    DenseSolver,
    NewtonSettings,
    eigenvalues,
    eigenvectors,
    newton,
)

REAL = 1e-9
"""Share of the largest eigenvalue below which an imaginary part is rounding: the eigenvalue is real."""


@dataclass(frozen=True)
class EquilibriumFamily:
    """Equations f(x, p) = 0 of equilibria.

    For z = (x, p...); the Jacobian is [f_x, f_p], stability is that of the eigenvalues of f_x.
    reach: largest sizes that the parameters may grow to along the branch.
    """

    model: Model
    free: tuple[str, ...]
    vector: Array
    sizes: Array
    parameter_sizes: tuple[float, ...]
    vector_field: VectorField = field(repr=False)
    reach: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return len(self.model.states)

    @property
    def state_sizes(self) -> Array:
        return self.sizes

    @property
    def delicate(self) -> bool:
        return False

    @property
    def scale(self) -> Array:
        return self._scale

    @cached_property
    def _scale(self) -> Array:
        return np.concatenate([self.sizes, self.parameter_sizes])

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        """Return the weights (N,) of squared components.

        The weights define the length of a step.
        """
        return 1.0 / self.scale**2

    def values(self, z: Array) -> Array:
        vector = self.vector.copy()
        for name, value in zip(self.free, z[-len(self.free) :], strict=True):
            vector[self.model.names.index(name)] = value
        return vector

    def residual(self, z: Array) -> Array:
        return self.vector_field.rates(z[None, : self.size], np.zeros(1), self.values(z))[0]

    def linearise(self, z: Array) -> EquilibriumPoint:
        found = self.vector_field.derivatives(z[None, : self.size], np.zeros(1), self.values(z))
        return EquilibriumPoint(found.rates[0], np.hstack([found.by_state[0], found.by_parameter[0]]), self)

    def allowed(self, z: Array) -> bool:
        bounds = [self.model.parameter(name).bounds for name in self.free]
        return all(low <= v <= high for v, (low, high) in zip(z[-len(self.free) :], bounds, strict=True))

    def subject(self, nodes: Sequence[Node]) -> Subject:
        return Subject("equilibrium", method="Newton", counted=False)


@dataclass(frozen=True)
class EquilibriumPoint(DensePoint, PlainPoint):
    """One equilibrium: f and its Jacobian [f_x, f_p] there."""

    family: EquilibriumFamily

    def matrix(self) -> Array:
        """Return f_x."""
        return self.jacobian[:, : self.family.size]

    def full(self) -> Array:
        """Return the Jacobian by all unknowns."""
        return self.jacobian

    def eigenvalues(self) -> Complex:
        """Return the eigenvalues of f_x, the fastest growing first."""
        found = eigenvalues(self.matrix())
        return found[np.argsort(-found.real, kind="stable")]

    def rate(self) -> float:
        """Return the size of f_x [1/s].

        The size is the largest modulus of an eigenvalue.
        Where all of them vanish, as at the fold of one state, the parameters set how fast states move.
        """
        scaled = np.abs(self.jacobian) * self.family.scale / self.family.sizes[:, None]
        largest, typical = float(np.abs(eigenvalues(self.matrix())).max()), float(scaled.max())
        return largest if largest > REAL**0.5 * typical else typical

    def readings(self, node: Node) -> Readings:
        values = self.eigenvalues()
        first, second = np.triu_indices(values.size, 1)
        sums, sizes = values[first] + values[second], np.abs(values[first]) + np.abs(values[second]) + 1e-300
        try:
            branch = DenseSolver(np.vstack([self.jacobian, node.tangent[None]])).determinant
        except np.linalg.LinAlgError:
            branch = 0.0
        tests = {
            Kind.BRANCH_POINT: branch,
            Kind.FOLD: float(node.tangent[-1] / self.family.scale[-1]),
            Kind.HOPF: float(np.prod(sums / sizes).real) if sums.size else 1.0,
        }
        return Readings(values, tests)

    def sample(self, z: Array, readings: Readings) -> Sample:
        n = self.family.size
        return Sample(z[-len(self.family.free) :], z[:n], 0.0, readings.multipliers)

    @property
    def tests(self) -> tuple[Test, ...]:
        return TESTS

    def several(self, before: Readings, after: Readings) -> list[RankedTest]:
        """Return tests for eigenvalues that cross together.

        They cross within one step, so that products over them keep their sign.
        """
        # A node may lie at the crossing itself, where the real parts are rounding errors.
        least = [REAL * float(np.abs(r.multipliers).max()) for r in (before, after)]
        counts = [int((r.multipliers.real > low).sum()) for r, low in zip((before, after), least, strict=True)]
        together = several_real(before, after, Kind.BRANCH_POINT, 0.0, (Kind.BRANCH_POINT, Kind.FOLD))
        if abs(counts[1] - counts[0]) < 4 or together:
            return together
        pairs = [_pairs(r.multipliers) for r in (before, after)]
        ahead = [int((p.real > low).sum()) for p, low in zip(pairs, least, strict=True)]
        if pairs[0].size != pairs[1].size:
            return []
        return [(Kind.HOPF, _real_part(rank), rank) for rank in range(min(ahead), max(ahead))]

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        """Return the bifurcation at a zero.

        The zero is that of a test function; rank: which of the pairs, ordered by real part, crosses.
        """
        family = self.family
        values, vectors = eigenvectors(self.matrix())
        # At a fold of one state, or where all eigenvalues vanish together, those beside the point give the scale.
        beside = (np.abs(end.readings.multipliers).max() for end in (first, last))
        size = float(max(np.abs(values).max(), *beside))
        if kind is Kind.HOPF:
            pairs = [i for i in np.argsort(-values.real, kind="stable") if values[i].imag > REAL * size]
            if not pairs:
                return None  # two real eigenvalues of opposite sign: a neutral saddle
            index = min(pairs, key=lambda i: abs(values[i].real)) if rank is None else pairs[rank]
            distance, frequency = abs(values[index].real), float(values[index].imag)
            if distance > 1e-4 * size:
                return None
        else:
            index = int(np.argmin(np.abs(values)))
            distance, frequency = abs(values[index]), float("nan")
        # Several zero eigenvalues mean several null directions, as symmetries cause them.
        zeros = int((np.abs(values) < 1e-6 * size).sum())
        defect = 1e-15 * size * values.size
        # A branch point is located through a nearly singular matrix, hence less exactly.
        allowed = max(10 * defect, (1e-4 if kind is Kind.BRANCH_POINT else 1e-8) * size)
        order = np.argsort(-np.real(values), kind="stable")
        vector: Numbers = vectors[:, index] if kind is Kind.HOPF else np.real(vectors[:, index])
        hopf = kind is Kind.HOPF
        return Bifurcation(
            self._label(kind, node, vector), family.model, family.free[0], node.value, node.z[: family.size].copy(),
            2 * np.pi / frequency if hopf else 0.0, None, values[order],
            Critical(
                complex(values[index]), vector, frequency,
                lyapunov_coefficient(family, node.z, frequency**2) if hopf else float("nan"),
                tangent_through(first, last, node) if kind is Kind.BRANCH_POINT else None,
            ),
            Proof(
                bool(distance <= allowed), defect, float(distance),
                f"{zeros} eigenvalues vanish together" if kind is Kind.BRANCH_POINT and zeros > 1 else "",
            ),
            values=family.values(node.z), sizes=family.sizes,
        )  # fmt: skip

    def _label(self, kind: Kind, node: Node, vector: Numbers) -> Kind:
        """Return the kind, with pitchforks recognised.

        A branch point that breaks a declared symmetry of the equilibrium is a pitchfork.
        """
        if kind is not Kind.BRANCH_POINT:
            return kind
        point = node.z[: self.family.size]
        for symmetry in linear_symmetries(self.family.model):
            kept = np.abs((symmetry.matrix @ point - point) / self.family.sizes).max() < 1e-6
            # The symmetry keeps the equilibrium and reverses the critical direction.
            turned = np.abs(symmetry.matrix @ vector + vector).max() < 1e-4 * np.abs(vector).max()
            if kept and turned:
                return Kind.PITCHFORK
        return kind

    def images(self, z: Array) -> Callable[[Node], bool]:
        """Return a test for the start.

        A node that is the start again closes the branch.
        """
        n, angles = self.family.size, self.family.model.angles
        first = z[:n].copy()

        def same(node: Node) -> bool:
            gap = difference(node.z[:n], first, angles)
            return bool(np.abs(gap / node.family.state_sizes).max() < 1e-5)

        return same

    def renewed(self, z: Array) -> tuple[EquilibriumFamily, EquilibriumPoint] | None:
        family = self.family
        sizes = np.maximum(family.sizes, np.abs(z[: family.size]))
        parameters = grown(family.parameter_sizes, z[-len(family.free) :], family.reach)
        if (sizes == family.sizes).all() and parameters == family.parameter_sizes:
            return None
        other = replace(family, sizes=sizes, parameter_sizes=parameters)
        return other, replace(self, family=other)


TESTS: tuple[Test, ...] = tuple(test_of(kind) for kind in (Kind.BRANCH_POINT, Kind.FOLD, Kind.HOPF))


def _pairs(values: Complex) -> Complex:
    """Return eigenvalues of the upper half plane.

    Those that grow fastest first.
    """
    upper = values[values.imag > REAL * np.abs(values).max()]
    return upper[np.argsort(-upper.real, kind="stable")]


def _real_part(rank: int) -> Callable[[Readings], float]:
    return lambda r: float(_pairs(r.multipliers)[rank].real)


def resting_family(
    model: Model, names: tuple[str, ...], point: Array, sizes: tuple[float, ...], reach: tuple[float, ...] = ()
) -> EquilibriumFamily:
    """Return the family of equilibria through a point.

    The sizes of its states are those at the point.
    """
    # A state at zero still needs a size for steps and tests.
    own = np.maximum(np.abs(point), max(1e-2 * float(np.abs(point).max()), 1e-1))
    own[np.array(model.angles, bool)] = 1.0
    return EquilibriumFamily(model, names, model.vector, own, sizes, VectorField(model, names), reach)


def equilibrium_family(model: Model, start: Anything, free: FreeParameter) -> tuple[EquilibriumFamily, Array]:
    """Return the family through an equilibrium.

    The equilibrium is the one near `start`; its unknowns are returned too.
    """
    model.needs_repetition("equilibria")
    if model.period is not None:
        raise KapitzaError(
            f'"{model.name}" is forced: it has no equilibria, its rest states are orbits of one excitation period. '
            f"Follow them with {Give(equilibrium=False)}."
        )
    if model.is_map:
        raise KapitzaError(
            f'"{model.name}" is a map: follow its fixed points with {Give(equilibrium=False)}, {Give(period=1)}.'
        )
    if model.delays:
        raise KapitzaError(f'"{model.name}" has delays: equilibria are followed of equations without delays.')
    if model.structure.switches or model.impacts:
        raise KapitzaError(
            f'"{model.name}" has switches or impacts: with dry friction its rest states fill a set, none is isolated, '
            "and next to a switch an equilibrium has no eigenvalues. Follow equilibria of smooth models."
        )
    given = start if start is not None else model.start
    known = as_point(model.states, cast(Mapping[str, float], given)) if isinstance(given, Mapping) else given
    point = checks.array("The start", known, error=KapitzaError)
    if point.shape != (len(model.states),):
        raise KapitzaError(f"An equilibrium of {', '.join(model.states)} is one state, not shape {point.shape}.")
    if not np.isfinite(point).all():
        raise KapitzaError(f"The start of an equilibrium is {checks.shown(point.tolist())}; give finite numbers.")
    family = resting_family(model, free.names, point, free.sizes, free.reach)
    value = np.array([model.values[name] for name in free.names])

    class AtValue:
        """The equations at the first value of the parameter."""

        def residual(self, x: Array) -> Array:
            return family.residual(np.concatenate([x, value]))

        def linearise(self, x: Array) -> DenseLinearised:
            at = family.linearise(np.concatenate([x, value]))
            return DenseLinearised(at.residual, at.matrix())

    found = newton(AtValue(), point, NewtonSettings(1e-12, 60), family.sizes)
    if not found.status.ok:
        raise KapitzaError(
            f'No equilibrium of "{model.name}" near {dict(zip(model.states, point.tolist(), strict=True))}: '
            f"{found.message or found.status.value} Start nearer."
        )
    return family, np.concatenate([found.x, value])
