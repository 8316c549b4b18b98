"""Families by collocation, harmonic balance or differences: cross-checks of shooting, and the way for stiff layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.criteria import Readings
from kapitza.continuation.motion import OrbitFamily, eigenvalues_by_size
from kapitza.continuation.path import corrected_at
from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import (
    Arcs,
    Collocation,
    CollocationEquations,
    CoordinateForm,
    Differences,
    FourierSeries,
    HarmonicBalance,
    HarmonicEquations,
    IntegralPhase,
    Layout,
    Monodromy,
    PiecewiseLoop,
    Problem,
    SampledLoop,
    Unknowns,
    distribute,
    element_defects,
    fourier_series,
    gauss_rule,
    mesh_density,
    monodromy,
    tangent_segments,
    telling_harmonics,
)

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

DEFECT = 1e-5
"""Defect of an element, relative to the orbit, above which a mesh gets finer: at the nodes the error is its square."""

UNEVEN = 2.5
"""A mesh is laid anew when one element needs this many times what they need on the average."""

TANGENT_ELEMENTS = 60
"""Elements per excitation period on which the tangents of a Fourier series are integrated."""


@dataclass(frozen=True)
class DiscretisedFamily(OrbitFamily, ABC):
    """A family whose unknowns are those of a discretisation: nodes and slopes, coefficients, or samples.

    scheme: the equations, which give residual, linearise, unpack. Multipliers come from tangents along the loop.
    """

    scheme: Any = None
    method: Any = None

    @property
    def delicate(self) -> bool:
        return False

    @cached_property
    def scale(self) -> Array:
        return self.scheme_scale()

    @abstractmethod
    def scheme_scale(self) -> Array:
        """(N,) sizes of the unknowns."""

    def dense(self, at: Any) -> None:
        return None

    def residual(self, z: Array) -> Array:
        return self.scheme.residual(z)

    def linearise(self, z: Array) -> Any:
        at = self.scheme.linearise(z)
        return _At(at, self.values(z), self.time(z), z.copy())

    def start(self, z: Array) -> Array:
        return self.curve(z)(np.zeros(1))[0]

    @abstractmethod
    def curve(self, z: Array) -> Any:
        """The loop that the unknowns stand for."""

    def segments(self, at: Any) -> Array:
        problem = self.problem.at(at.vector, at.period)
        return tangent_segments(problem, self.curve(at.z), TANGENT_ELEMENTS * (self.repeats or 1))

    def matrix(self, at: Any) -> Array:
        return np.linalg.multi_dot([np.eye(self.size), *list(self.known_segments(at)[::-1])])

    def known_segments(self, at: Any) -> Array:
        if at.segments_known is None:
            at.segments_known = self.segments(at)
        return at.segments_known

    def multipliers(self, at: Any) -> Complex:
        return eigenvalues_by_size(self.matrix(at))

    def certified(self, at: Any) -> Monodromy:
        return monodromy(self.known_segments(at))

    def loop(self, z: Array, at: Any) -> Any:
        return self.curve(z)

    def section_point(self, z: Array) -> Array:
        return self.start(z)

    def _motion(self, at: Any) -> Array:
        grid = np.arange(16) / 16
        rates = self.problem.field.rates(self.curve(at.z)(grid), grid * at.period, at.vector)
        return rates * at.period / (2 * np.pi) / self.sizes

    def resting(self, point: Array, period: float, value: float) -> None:
        return None

    def renewed(self, z: Array, at: Any) -> OrbitFamily:
        return self

    def remeshed(self, z: Array, at: Any) -> None:
        return None

    def readings(self, node: Any) -> Readings:
        from kapitza.continuation.criteria import doubling_function, torus_function, without_trivial

        multipliers = self.multipliers(node.at)
        rest = without_trivial(multipliers) if self.autonomous else multipliers
        # Branch points: Π(μ - 1) changes its sign there and at folds, the tangent at folds only.
        product = float(np.prod((rest - 1) / (1 + np.abs(rest))).real) if rest.size else 1.0
        fold = float(node.tangent[-1] / self.scale[-1])
        return Readings(fold, doubling_function(rest), torus_function(rest), product * fold, multipliers)


@dataclass
class _At:
    """A linearisation of the scheme with what shooting's carry as well: vector, period, and (lazily) segments."""

    inner: Any
    vector: Array
    period: float
    z: Array
    segments_known: Array | None = None

    @property
    def residual(self) -> Array:
        return self.inner.residual

    @property
    def segments(self) -> Array:
        assert self.segments_known is not None
        return self.segments_known

    @property
    def events(self) -> tuple:
        return ()

    def bordered(self, rows: Array) -> Any:
        return self.inner.bordered(rows)


@dataclass(frozen=True)
class CollocationFamily(DiscretisedFamily):
    """Nodes, slopes, [T], p; steps are measured by the nodes. The mesh is redistributed when the orbit has moved."""

    def values(self, z: Array) -> Array:
        return self.scheme.values(self.scheme.unpack(z))

    def time(self, z: Array) -> float:
        return float(self.scheme.unpack(z).boundaries[-1])

    def linearise(self, z: Array) -> Any:
        at = self.scheme.linearise(z)
        return _At(at, self.scheme.values(at.unknowns), float(at.unknowns.boundaries[-1]), z.copy())

    def scheme_scale(self) -> Array:
        j, m = self.scheme.elements, self.scheme.rule.degree
        nodes = np.tile(self.sizes, j) * np.sqrt(j)
        slopes = np.tile(self.sizes * 2 * np.pi / self.period, j * m) * 10
        tail = [self.period] if self.autonomous else []
        return np.concatenate([nodes, slopes, tail, self.parameter_sizes])

    @cached_property
    def metric(self) -> Array:
        weights = 1.0 / self.scale**2
        j, n, m = self.scheme.elements, self.size, self.scheme.rule.degree
        weights[j * n : j * n * (m + 1)] = 0.0
        return weights

    def curve(self, z: Array) -> PiecewiseLoop:
        from kapitza.orbits.of_models import integrated_basis

        u, degree, layout = self.scheme.unpack(z), self.scheme.rule.degree, self.scheme.layout
        start, length = layout.times(u.boundaries)
        period = float(u.boundaries[-1])
        knots, basis = integrated_basis(degree, degree + 1)
        values = u.nodes[:, None, :] + length[:, None, None] * np.einsum("kl,jln->jkn", basis, u.slopes)
        return PiecewiseLoop(np.append(start, period) / period, knots, values, period, self.scheme.winding)

    def segments(self, at: Any) -> Array:
        return at.inner.segments()

    def start(self, z: Array) -> Array:
        return z[: self.size]

    def known_segments(self, at: Any) -> Array:
        if at.segments_known is None:
            at.segments_known = at.inner.segments()
        return at.segments_known

    def matrix(self, at: Any) -> Array:
        segments = self.known_segments(at)
        while len(segments) > 1:
            pairs = len(segments) // 2
            product = segments[1 : 2 * pairs : 2] @ segments[0 : 2 * pairs : 2]
            segments = np.concatenate([product, segments[2 * pairs :]])
        return segments[0]

    def remeshed(self, z: Array, at: Any) -> tuple[CollocationFamily, Array, Any] | None:
        """The mesh laid where the orbit is steep now: finer where the defect has grown, else with as many elements."""
        if not self.method.adapt:
            return None
        u = self.scheme.unpack(z)
        defect, length = element_defects(self.scheme, u, self.sizes)
        shares = (defect + 1e-16) ** (1 / (self.scheme.rule.degree + 1))
        coarse = bool(defect.max() > DEFECT)
        if not coarse and shares.max() < UNEVEN * shares.mean():
            return None
        count = self.scheme.elements
        if coarse:
            factor = float((defect.max() / DEFECT) ** (1 / (self.scheme.rule.degree + 1)))
            count = int(np.ceil(count * min(2.0, max(1.1, 0.5 * (1 + factor)))))
        if count > self.method.max_elements:
            return None
        layout = self.scheme.layout
        arcs = Arcs(u.boundaries, layout.crossings, layout.modes)
        problem = self.problem.at(self.values(z), self.time(z))
        finer = distribute(problem, arcs, mesh_density(self.scheme, defect, length), count)
        if not coarse and np.abs(finer.low - layout.low[: finer.low.size]).max() < 0.1 / count:
            return None
        base = {name: getattr(self, name) for name in OrbitFamily.__dataclass_fields__}
        other, guess = _on_layout(base, problem, self.curve(z), self.method, finer)
        vars(other).update(flow=self.flow, problem=problem)
        found = corrected_at(other, guess, _last_row(guess), guess[-1:].copy())
        return None if found.point is None else (other, found.point.z, found.point.at)


@dataclass(frozen=True)
class HarmonicFamily(DiscretisedFamily):
    """Fourier coefficients of the coordinates, [T], p."""

    def values(self, z: Array) -> Array:
        return self.scheme.free.vector(z)

    def time(self, z: Array) -> float:
        return self.scheme.unpack(z)[1]

    def scheme_scale(self) -> Array:
        coordinates = np.tile(self.sizes[: self.scheme.form.count], 2 * self.scheme.harmonics + 1)
        return np.concatenate([coordinates, [self.period] if self.autonomous else [], self.parameter_sizes])

    def curve(self, z: Array) -> FourierSeries:
        return self.method.series(self.scheme, z)

    def heading(self, tangent: Array) -> Array:
        h, count = self.scheme.harmonics, self.scheme.form.count
        coefficients = tangent[: (2 * h + 1) * count].reshape(2 * h + 1, count)
        place, speed = coefficients[: h + 1].sum(axis=0), np.arange(1, h + 1) @ coefficients[h + 1 :]
        sizes = self.sizes[:count]
        return np.concatenate([place / sizes, speed / sizes, tangent[-1:] / self.scale[-1:]])

    def tail(self, z: Array) -> float:
        """Largest of the last harmonics, relative to the largest: what is left out."""
        coefficients, _ = self.scheme.unpack(z)
        h = self.scheme.harmonics
        size = np.hypot(coefficients[1 : h + 1], coefficients[h + 1 :]).max(axis=1)
        return float(
            size[-telling_harmonics(h, self.repeats) :].max()
            / max(float(size.max()), float(np.abs(coefficients[0]).max()), 1e-6)
        )

    def remeshed(self, z: Array, at: Any) -> Any:
        """More harmonics where the last ones have grown."""
        if self.tail(z) < 1e-9 or 2 * self.scheme.harmonics > self.method.max_harmonics * (self.repeats or 1):
            return None
        coefficients, period = self.scheme.unpack(z)
        h, wanted = self.scheme.harmonics, 2 * self.scheme.harmonics
        wider = np.zeros((2 * wanted + 1, coefficients.shape[1]))
        wider[: h + 1], wider[wanted + 1 : wanted + 1 + h] = coefficients[: h + 1], coefficients[h + 1 :]
        other = self._with_harmonics(wanted, self.curve(z))
        tail = [period] if self.autonomous else []
        return other, np.concatenate([wider.ravel(), tail, z[-len(self.free) :]])

    def _with_harmonics(self, harmonics: int, loop: Any) -> HarmonicFamily:
        count = 4 * (2 * harmonics + 1)
        phase = CoordinateForm(self.problem).phase(loop, np.arange(count) / count)
        scheme = HarmonicEquations(self.problem, harmonics, loop.winding, phase, self.free)
        other = replace(self, scheme=scheme)
        vars(other).update(flow=self.flow, problem=self.problem)
        return other


@dataclass(frozen=True)
class DifferenceFamily(DiscretisedFamily):
    """Samples of the coordinates, [T], p."""

    def values(self, z: Array) -> Array:
        return self.scheme.free.vector(z)

    def time(self, z: Array) -> float:
        return self.scheme.unpack(z)[1]

    def scheme_scale(self) -> Array:
        points = self.scheme.points
        coordinates = np.tile(self.sizes[: self.scheme.form.count], points) * np.sqrt(points)
        return np.concatenate([coordinates, [self.period] if self.autonomous else [], self.parameter_sizes])

    def curve(self, z: Array) -> SampledLoop:
        u, period = self.scheme.unpack(z)
        slope, _ = self.scheme.derivatives(u)
        states = self.scheme.form.states(u, slope, period)
        winding = np.zeros(states.shape[1])
        winding[: self.scheme.form.count] = self.scheme.winding
        return SampledLoop(self.scheme.fractions, states, period, winding)


def discretised_family(
    model: Model, orbit: PeriodicOrbit, parameter: str, limits: tuple[float, float], method: Any, half_map: bool
) -> tuple[DiscretisedFamily, Array]:
    """The family of a discretisation through an orbit, and its unknowns there."""
    from kapitza.continuation.follow import shooting_family

    if half_map:
        raise KapitzaError("Half maps are followed by shooting: leave out method, or half_map.")
    # A friction coefficient of zero leaves a smooth model, as the flow knows.
    if not Flow(model).core.engine(model.vector).system.is_smooth:
        raise KapitzaError(
            f'{type(method).__name__} follows smooth models; "{model.name}" has switches or impacts: use Shooting().'
        )
    shooting, _ = shooting_family(model, orbit.points[0], orbit.period, orbit.repeats, parameter, limits)
    loop = orbit.loop
    base = {name: getattr(shooting, name) for name in shooting.__dataclass_fields__}
    problem = shooting.problem
    problem = Problem(model, orbit.repeats, orbit.period, IntegralPhase(), (parameter,)).at(model.vector, orbit.period)
    if isinstance(method, Collocation):
        family, z = _collocation(base, problem, loop, method)
    elif isinstance(method, HarmonicBalance):
        family, z = _harmonic(base, problem, loop, method)
    elif isinstance(method, Differences):
        family, z = _differences(base, problem, loop, method)
    else:
        raise KapitzaError(
            f"{method!r} is no method for branches: Shooting, Collocation, HarmonicBalance, Differences."
        )
    vars(family).update(flow=shooting.flow, problem=problem)
    return family, z


def _collocation(base: dict, problem: Problem, loop: Any, method: Collocation) -> tuple[CollocationFamily, Array]:
    from kapitza.orbits.of_models import even_mesh, find_arcs

    wanted = method.elements * (problem.repeats or 1)
    layout = even_mesh(problem, find_arcs(problem, loop, kinks=False), wanted)
    if layout.events:
        raise KapitzaError("The orbit crosses a switch of the model: follow it by Shooting().")
    return _on_layout(base, problem, loop, method, layout)


def _on_layout(
    base: dict, problem: Problem, loop: Any, method: Collocation, layout: Layout
) -> tuple[CollocationFamily, Array]:
    """The family on a mesh, and the unknowns that stand for a loop on it."""
    rule = gauss_rule(method.degree)
    start, length = layout.times(layout.boundaries)
    period = float(layout.boundaries[-1])
    fractions = start / period
    phase = problem.phase.row(loop, problem.field, fractions) if problem.autonomous else None
    law = None if problem.autonomous else problem.law
    scheme = CollocationEquations(
        problem.field, layout, rule, loop.winding, problem.parameters, phase, problem.wrt, law, problem.repeats or 1
    )
    nodes = loop(fractions)
    times = (start[:, None] + length[:, None] * rule.points).ravel()
    stages = loop(times / period)
    slopes = problem.field.rates(stages, times, problem.parameters).reshape(-1, method.degree, nodes.shape[1])
    family = CollocationFamily(**base, scheme=scheme, method=method)
    return family, scheme.pack(Unknowns(nodes, slopes, layout.boundaries, problem.parameters))


def _last_row(z: Array) -> Array:
    """The border that holds the parameter."""
    row = np.zeros((1, z.size))
    row[0, -1] = 1.0
    return row


def _harmonic(base: dict, problem: Problem, loop: Any, method: HarmonicBalance) -> tuple[HarmonicFamily, Array]:
    form = CoordinateForm(problem)
    harmonics = (method.harmonics or 16) * (problem.repeats or 1)
    count = 4 * (2 * harmonics + 1)
    grid = np.arange(count) / count
    samples = loop(grid)[:, : form.count]
    series = fourier_series(samples, loop.period, loop.winding[: form.count], harmonics).resized(harmonics)
    phase = form.phase(loop, grid)
    scheme = HarmonicEquations(problem, harmonics, loop.winding, phase, problem.wrt)
    family = HarmonicFamily(**base, scheme=scheme, method=method)
    tail = [loop.period] if problem.autonomous else []
    value = problem.parameters[[problem.model.names.index(name) for name in problem.wrt]]
    return family, np.concatenate([np.vstack([series.cosines, series.sines]).ravel(), tail, value])


def _differences(base: dict, problem: Problem, loop: Any, method: Differences) -> tuple[DifferenceFamily, Array]:
    from kapitza.orbits.of_models import DifferenceEquations

    form = CoordinateForm(problem)
    points = method.points or 401
    points = (points + 1 - points % 2) * (problem.repeats or 1)
    fractions = np.arange(points) / points
    states = loop(fractions)
    rates = problem.field.rates(states, fractions * loop.period, problem.parameters)[:, : form.count]
    pin = int(np.argmax(np.abs(rates / problem.scale(loop)[: form.count])))
    phase = form.phase(loop, fractions)
    scheme = DifferenceEquations(problem, points, method.order, loop.winding, phase, pin, problem.wrt)
    family = DifferenceFamily(**base, scheme=scheme, method=method)
    tail = [loop.period] if problem.autonomous else []
    value = problem.parameters[[problem.model.names.index(name) for name in problem.wrt]]
    return family, np.concatenate([states[:, : form.count].ravel(), tail, value])
