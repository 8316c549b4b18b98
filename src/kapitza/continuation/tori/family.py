"""Invariant circles of a stroboscopic map as a family.

The family varies in one or two parameters.
The torus of a forced motion cuts the instants t = 0, T, 2T, … in a closed curve u(s) on which the motion turns by the
rotation number ρ in each period:

    P(u(s), p) = u(s + ρ),   s in [0, 1),

with P the flow over one period (over `repeats` of them; one step of a map; for autonomous models the flow over a time
T that is unknown as well). It holds at M equidistant phases; where the curve begins is fixed by
Σ_j ⟨u⁰'(s_j), u(s_j) - u⁰(s_j)⟩ = 0 with the circle u⁰ before, and for autonomous models by the same with the rates
f(u⁰) (Schilder, Osinga, Vogt, SIAM J. Appl. Dyn. Syst. 4 (2005) 459).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.continuation.cycles import Steps
from kapitza.continuation.family import Node, PlainPoint, Readings, Sample, Subject
from kapitza.continuation.frame import grown
from kapitza.continuation.tori.circle import resampled, shift_matrix, shifted, spectrum
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits.of_models import VectorField
from kapitza.solve import DenseSolver

ROTATION_SIZE = 0.1
"""A change of the rotation number that counts as much as the whole torus does."""


@dataclass(frozen=True)
class Images:
    """Images of a circle after one period.

    states are (M, n); the others are their derivatives by state, time and parameters.
    """

    states: Array
    by_state: Array
    by_time: Array
    by_parameter: Array


class PeriodMap:
    """Map of a model over one period.

    Of its excitation, one step of a map, or an unknown time.
    free: names of the parameters by which it is differentiated; repeats: excitation periods (steps) in one period,
    None for autonomous models.
    """

    def __init__(self, model: Model, free: tuple[str, ...], repeats: int | None):
        self.model, self.free, self.repeats = model, free, repeats
        self.places = [model.names.index(name) for name in free]
        self.field = VectorField(model)

    @cached_property
    def _flow(self) -> Flow:
        return Flow(self.model, self.free)

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self.model, self.free)

    def vector(self, values: Array) -> Array:
        """Return all parameters of the model.

        The free ones have these values.
        """
        vector = self.model.vector.copy()
        vector[self.places] = values
        return vector

    def period(self, vector: Array) -> float:
        """Return the length of one period.

        The model has a period.
        """
        length = 1.0 if self.model.is_map else float(self._flow.period(vector) or 1.0)
        return (self.repeats or 1) * length

    def states(self, circle: Array, period: float, vector: Array) -> Array:
        if self.model.is_map:
            for _ in range(self.repeats or 1):
                circle = self._steps.propagate_many(circle, 0.0, 1.0, vector).state
            return circle
        return self._flow.propagate_many(circle, 0.0, period, vector).state

    def images(self, circle: Array, period: float, vector: Array) -> Images:
        if self.model.is_map:
            return self._after_steps(circle, vector)
        run = self._flow.propagate_many(circle, 0.0, period, vector, tangents=True)
        assert run.jacobian is not None
        assert run.sensitivity is not None
        rates = self.field.rates(run.state, np.full(len(circle), period), vector)
        slopes = run.sensitivity
        if self.repeats is not None:
            # The period itself may depend on a parameter, such as 2π/ω.
            law = self._flow.core.period_law
            slopes = slopes + rates[:, :, None] * (self.repeats * np.asarray(law.slopes(vector)))[None, None]
        return Images(run.state, run.jacobian, rates, slopes)

    def _after_steps(self, circle: Array, vector: Array) -> Images:
        n, k = circle.shape[1], len(self.free)
        by_state, by_parameter = np.tile(np.eye(n), (len(circle), 1, 1)), np.zeros((len(circle), n, k))
        for _ in range(self.repeats or 1):
            run = self._steps.propagate_many(circle, 0.0, 1.0, vector, tangents=True)
            assert run.jacobian is not None
            assert run.sensitivity is not None
            by_state, by_parameter = run.jacobian @ by_state, run.jacobian @ by_parameter + run.sensitivity
            circle = run.state
        return Images(circle, by_state, np.zeros_like(circle), by_parameter)


@dataclass(frozen=True)
class TorusPoint(PlainPoint):
    """Equations at one circle with Jacobian (m, N)."""

    family: TorusFamily
    residual: Array
    jacobian: Array

    def bordered(self, rows: Array) -> DenseSolver:
        return DenseSolver(np.vstack([self.jacobian, rows]))

    def readings(self, node: Node) -> Readings:
        """Return empty readings: nothing is tested."""
        return Readings(np.zeros(0, complex))

    def sample(self, z: Array, readings: Readings) -> Sample:
        circle, period, _, _ = self.family.unpack(z)
        return Sample(z[-len(self.family.free) :], circle[0], period, readings.multipliers)

    def renewed(self, z: Array) -> tuple[TorusFamily, TorusPoint]:
        """Return family and point with a new reference.

        The reference is the circle of z.
        """
        family = self.family.renewed(z)
        jacobian, first = self.jacobian.copy(), family.reference.size
        jacobian[first : first + len(family.phase_rows), :first] = family.phase_rows
        return family, TorusPoint(family, self.residual, jacobian)


@dataclass(frozen=True)
class TorusFamily:
    """Equations of a family of tori.

    The unknowns z = (u_0 … u_{M-1}, [T], ρ, p…) satisfy F(z) = 0.
    reference: the circle (M, n) whose phases the next one keeps; sizes: (n,) of the states; rotation: fixed where two
    parameters are free, None where the rotation number varies along the family.
    """

    map: PeriodMap
    reference: Array
    sizes: Array
    parameter_sizes: tuple[float, ...]
    period: float
    rotation: float | None = None
    vector: Array | None = None
    """All parameters at the reference, where its rates are needed."""
    reach: tuple[float, ...] = ()
    """Largest sizes that the parameters may grow to."""

    @property
    def free(self) -> tuple[str, ...]:
        return self.map.free

    @property
    def model(self) -> Model:
        return self.map.model

    @property
    def state_sizes(self) -> Array:
        return self.sizes

    @property
    def delicate(self) -> bool:
        return False

    def subject(self, nodes: Sequence[Node]) -> Subject:
        return Subject("torus", self.map.repeats)

    @property
    def autonomous(self) -> bool:
        return self.map.repeats is None

    @property
    def count(self) -> int:
        """Phases of the circle."""
        return len(self.reference)

    @property
    def scale(self) -> Array:
        return self._scale

    @cached_property
    def _scale(self) -> Array:
        times = [self.period] if self.autonomous else []
        return np.concatenate([np.tile(self.sizes, self.count), times, [ROTATION_SIZE], np.array(self.parameter_sizes)])

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        """Return the weights of squared components.

        They are (N,); the circle counts by its mean square.
        """
        weights = self.scale**-2.0
        # The length of a step does not depend on the number of phases.
        weights[: self.reference.size] /= self.count
        return weights

    @cached_property
    def phase_rows(self) -> Array:
        """Return rows that keep the phases of the reference.

        The rows are (1 or 2, M n); the second one belongs to autonomous models.
        """
        along = shifted(self.reference, 0.0, 1)
        rows = [along / self.sizes**2]
        if self.autonomous:
            assert self.vector is not None
            rows.append(self.map.field.rates(self.reference, np.zeros(self.count), self.vector) / self.sizes**2)
        return np.array([row.ravel() / np.linalg.norm(row) for row in rows])

    def pack(self, circle: Array, period: float, rotation: float, values: Array) -> Array:
        times = [period] if self.autonomous else []
        return np.concatenate([circle.ravel(), times, [rotation], values])

    def unpack(self, z: Array) -> tuple[Array, float, float, Array]:
        """Return circle, period, rotation number and parameters.

        The circle has shape (M, n); all parameters of the model are returned.
        """
        circle, rest = z[: self.reference.size].reshape(self.reference.shape), z[self.reference.size :]
        vector = self.map.vector(rest[-len(self.free) :])
        period = float(rest[0]) if self.autonomous else self.map.period(vector)
        return circle, period, float(rest[-len(self.free) - 1]), vector

    def residual(self, z: Array) -> Array:
        circle, period, rotation, vector = self.unpack(z)
        return self._equations(z, circle, rotation, self.map.states(circle, period, vector))

    def _equations(self, z: Array, circle: Array, rotation: float, states: Array) -> Array:
        ahead = shifted(circle, rotation)
        moved = difference(states, ahead, self.model.angles).ravel()
        phase = self.phase_rows @ (circle - self.reference).ravel()
        fixed = [] if self.rotation is None else [rotation - self.rotation]
        return np.concatenate([moved, phase, fixed])

    def linearise(self, z: Array) -> TorusPoint:
        circle, period, rotation, vector = self.unpack(z)
        images = self.map.images(circle, period, vector)
        count, n = circle.shape
        size, k = count * n, len(self.free)
        jacobian = np.zeros((size + len(self.phase_rows) + (self.rotation is not None), z.size))
        shift = shift_matrix(rotation, count)
        blocks = jacobian[:size, :size].reshape(count, n, count, n)
        blocks -= shift[:, None, :, None] * np.eye(n)[None, :, None, :]
        diagonal = np.arange(count, dtype=np.intp)
        blocks[diagonal, :, diagonal, :] += images.by_state
        if self.autonomous:
            jacobian[:size, size] = images.by_time.ravel()
        jacobian[:size, -k - 1] = -shifted(circle, rotation, 1).ravel()
        jacobian[:size, -k:] = images.by_parameter.reshape(size, k)
        jacobian[size : size + len(self.phase_rows), :size] = self.phase_rows
        if self.rotation is not None:
            jacobian[-1, -k - 1] = 1.0
        return TorusPoint(self, self._equations(z, circle, rotation, images.states), jacobian)

    def allowed(self, z: Array) -> bool:
        return bool(np.isfinite(z).all()) and (not self.autonomous or z[self.reference.size] > 0)

    def renewed(self, z: Array) -> TorusFamily:
        """Return the family with z's circle as reference.

        Sizes of states and parameters grow with z; period and vector are taken from it.
        """
        circle, period, _, vector = self.unpack(z)
        sizes = np.maximum(self.sizes, np.abs(circle).max(axis=0))
        parameters = grown(self.parameter_sizes, z[-len(self.free) :], self.reach)
        return replace(self, reference=circle, sizes=sizes, parameter_sizes=parameters, period=period, vector=vector)

    def on_mesh(self, z: Array, count: int) -> tuple[TorusFamily, Array]:
        """Return the family with other phases.

        The number of phases changes; z there is returned too.
        """
        circle, period, rotation, vector = self.unpack(z)
        other = replace(self, reference=resampled(circle, count), period=period, vector=vector)
        return other, other.pack(other.reference, period, rotation, z[-len(self.free) :])

    def between(self, z: Array) -> float:
        """Return the defect half way between phases.

        It is the largest |P(u) - u(s + ρ)|, in units of the circle's radius.
        """
        circle, period, rotation, vector = self.unpack(z)
        halfway = 0.5 / self.count
        states = self.map.states(shifted(circle, halfway), period, vector)
        gaps = difference(states, shifted(circle, halfway + rotation), self.model.angles)
        radius = float(spectrum(circle, self.sizes)[1:].max(initial=0.0))
        return float(np.abs(gaps / self.sizes).max()) / max(radius, 1e-300)
