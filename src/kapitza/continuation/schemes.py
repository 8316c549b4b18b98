"""Discretisations that a family may use.

They are collocation, harmonic balance and finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.discretised import DiscretisedFamily, Scheme
from kapitza.continuation.frame import Dynamics, Frame
from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import Loop, PeriodicOrbit
from kapitza.orbits.of_models import (
    Arcs,
    Collocation,
    CollocationEquations,
    CoordinateForm,
    DifferenceEquations,
    Differences,
    FourierSeries,
    HarmonicBalance,
    HarmonicEquations,
    IntegralPhase,
    Layout,
    LinearisedElements,
    LinearisedHarmonics,
    PiecewiseLoop,
    Problem,
    SampledLoop,
    Unknowns,
    distribute,
    element_defects,
    even_mesh,
    find_arcs,
    fourier_series,
    gauss_rule,
    integrated_basis,
    mesh_density,
    telling_harmonics,
)
from kapitza.solve import Bordered, LinearisedFamily, NewtonSettings, newton

DEFECT = 1e-5
"""Defect of an element, relative to the orbit, above which a mesh gets finer: at the nodes the error is its square."""

UNEVEN = 2.5
"""A mesh is laid anew when one element needs this many times what they need on the average."""

SMALL_TAIL = 1e-9
"""Last harmonics, relative to the largest, above which a series gets twice as many."""


def _heading(frame: Frame, scale: Array, tangent: Array) -> Array:
    """Return start, [period], parameters over their sizes."""
    own = frame.tail.size
    return np.concatenate([tangent[: frame.size] / frame.sizes, tangent[-own:] / scale[-own:]])


@dataclass(frozen=True)
class CollocationScheme:
    """Collocation: nodes, slopes, [T], p.

    Steps are measured by the nodes; the mesh follows the orbit.
    """

    frame: Frame
    equations: CollocationEquations
    method: Collocation

    @property
    def scale(self) -> Array:
        j, m, frame = self.equations.elements, self.equations.rule.degree, self.frame
        # The root of the number of elements makes the length of a step independent of it.
        nodes = np.tile(frame.sizes, j) * np.sqrt(j)
        slopes = np.tile(frame.sizes * 2 * np.pi / frame.period, j * m) * 10
        return np.concatenate([nodes, slopes, frame.tail])

    @property
    def metric(self) -> Array:
        weights = 1.0 / self.scale**2
        j, n, m = self.equations.elements, self.frame.size, self.equations.rule.degree
        # Slopes follow from the nodes and would only add to the length of steps.
        weights[j * n : j * n * (m + 1)] = 0.0
        return weights

    def residual(self, z: Array) -> Array:
        return self.equations.residual(z)

    def linearise(self, z: Array) -> LinearisedElements:
        return self.equations.linearise(z)

    def values(self, z: Array) -> Array:
        return self.equations.values(self.equations.unpack(z))

    def time(self, z: Array) -> float:
        return float(self.equations.unpack(z).boundaries[-1])

    def curve(self, z: Array) -> PiecewiseLoop:
        u, degree, layout = self.equations.unpack(z), self.equations.rule.degree, self.equations.layout
        start, length = layout.times(u.boundaries)
        period = float(u.boundaries[-1])
        knots, basis = integrated_basis(degree, degree + 1)
        values = u.nodes[:, None, :] + length[:, None, None] * np.einsum("kl,jln->jkn", basis, u.slopes)
        return PiecewiseLoop(np.append(start, period) / period, knots, values, period, self.equations.winding)

    def start(self, z: Array) -> Array:
        return z[: self.frame.size]

    def segments(self, z: Array, at: LinearisedFamily) -> Array | None:
        return at.segments() if isinstance(at, LinearisedElements) else None

    def heading(self, tangent: Array) -> Array:
        return _heading(self.frame, self.scale, tangent)

    def in_frame(self, frame: Frame) -> CollocationScheme:
        return replace(self, frame=frame)

    def remeshed(self, z: Array) -> tuple[Scheme, Array] | None:
        """Return a mesh adapted to the orbit.

        Dense where the orbit is steep, finer where the defect has grown.
        """
        if not self.method.adapt:
            return None
        equations, u = self.equations, self.equations.unpack(z)
        defect, length = element_defects(equations, u, self.frame.sizes)
        shares = (defect + 1e-16) ** (1 / (equations.rule.degree + 1))
        coarse = bool(defect.max() > DEFECT)
        if not coarse and shares.max() < UNEVEN * shares.mean():
            return None
        count = equations.elements
        if coarse:
            factor = float((defect.max() / DEFECT) ** (1 / (equations.rule.degree + 1)))
            # The defect is of order m + 1; at least 10 % more elements, at most twice as many.
            count = int(np.ceil(count * min(2.0, max(1.1, 0.5 * (1 + factor)))))
        if count > self.method.max_elements:
            return None
        layout = equations.layout
        arcs = Arcs(u.boundaries, layout.crossings, layout.modes)
        problem = self.frame.problem.at(self.values(z), self.time(z))
        finer = distribute(problem, arcs, mesh_density(equations, defect, length), count)
        if not coarse and np.abs(finer.low - layout.low[: finer.low.size]).max() < 0.1 / count:
            return None
        return self._solved(*on_layout(self.frame, problem, self.curve(z), self.method, finer))

    @staticmethod
    def _solved(scheme: CollocationScheme, guess: Array) -> tuple[Scheme, Array] | None:
        """Return unknowns that solve the new mesh."""
        row = np.zeros((1, guess.size))
        row[0, -1] = 1.0
        system = Bordered(scheme, row, guess[-1:].copy())
        found = newton(system, guess, NewtonSettings(1e-11, 25, update="reuse"), scheme.scale)
        return (scheme, found.x) if found.status.ok else None


def _coordinate_scale(frame: Frame, count: int, copies: int) -> Array:
    """Return sizes of repeated coordinates, [T] and p."""
    return np.concatenate([np.tile(frame.sizes[:count], copies), frame.tail])


@dataclass(frozen=True)
class HarmonicScheme:
    """Fourier coefficients of the coordinates, [T], p."""

    frame: Frame
    equations: HarmonicEquations
    method: HarmonicBalance

    @property
    def scale(self) -> Array:
        return _coordinate_scale(self.frame, self.equations.form.count, 2 * self.equations.harmonics + 1)

    @property
    def metric(self) -> Array:
        return 1.0 / self.scale**2

    def residual(self, z: Array) -> Array:
        return self.equations.residual(z)

    def linearise(self, z: Array) -> LinearisedHarmonics:
        return self.equations.linearise(z)

    def values(self, z: Array) -> Array:
        return self.equations.free.vector(z)

    def time(self, z: Array) -> float:
        return self.equations.unpack(z)[1]

    def curve(self, z: Array) -> FourierSeries:
        return self.method.series(self.equations, z)

    def start(self, z: Array) -> Array:
        return self.curve(z)(np.zeros(1))[0]

    def segments(self, z: Array, at: LinearisedFamily) -> Array | None:
        return None

    def heading(self, tangent: Array) -> Array:
        h, count = self.equations.harmonics, self.equations.form.count
        coefficients = tangent[: (2 * h + 1) * count].reshape(2 * h + 1, count)
        place, speed = coefficients[: h + 1].sum(axis=0), np.arange(1, h + 1) @ coefficients[h + 1 :]
        sizes = self.frame.sizes[:count]
        return np.concatenate([place / sizes, speed / sizes, tangent[-1:] / self.scale[-1:]])

    def tail(self, z: Array) -> float:
        """Return the last harmonics relative to the largest."""
        coefficients, _ = self.equations.unpack(z)
        h = self.equations.harmonics
        size = np.hypot(coefficients[1 : h + 1], coefficients[h + 1 :]).max(axis=1)
        return float(
            size[-telling_harmonics(h, self.frame.repeats) :].max()
            / max(float(size.max()), float(np.abs(coefficients[0]).max()), 1e-6)
        )

    def in_frame(self, frame: Frame) -> HarmonicScheme:
        return replace(self, frame=frame)

    def remeshed(self, z: Array) -> tuple[Scheme, Array] | None:
        """Return a series with more harmonics.

        The number is raised where the last harmonics have grown.
        """
        frame, h = self.frame, self.equations.harmonics
        if self.tail(z) < SMALL_TAIL or 2 * h > self.method.max_harmonics * (frame.repeats or 1):
            return None
        coefficients, period = self.equations.unpack(z)
        wanted = 2 * h
        wider = np.zeros((2 * wanted + 1, coefficients.shape[1]))
        wider[: h + 1], wider[wanted + 1 : wanted + 1 + h] = coefficients[: h + 1], coefficients[h + 1 :]
        loop, count = self.curve(z), 4 * (2 * wanted + 1)
        phase = CoordinateForm(frame.problem).phase(loop, np.arange(count) / count)
        equations = HarmonicEquations(frame.problem, wanted, loop.winding, phase, frame.free)
        tail = [period] if frame.autonomous else []
        return replace(self, equations=equations), np.concatenate([wider.ravel(), tail, frame.parameters(z)])


@dataclass(frozen=True)
class DifferenceScheme:
    """Samples of the coordinates, [T], p."""

    frame: Frame
    equations: DifferenceEquations

    @property
    def scale(self) -> Array:
        points, count = self.equations.points, self.equations.form.count
        scale = _coordinate_scale(self.frame, count, points)
        # The length of a step does not depend on the number of points.
        scale[: count * points] *= np.sqrt(points)
        return scale

    @property
    def metric(self) -> Array:
        return 1.0 / self.scale**2

    def residual(self, z: Array) -> Array:
        return self.equations.residual(z)

    def linearise(self, z: Array) -> LinearisedFamily:
        return self.equations.linearise(z)

    def values(self, z: Array) -> Array:
        return self.equations.free.vector(z)

    def time(self, z: Array) -> float:
        return self.equations.unpack(z)[1]

    def curve(self, z: Array) -> SampledLoop:
        equations = self.equations
        u, period = equations.unpack(z)
        slope, _ = equations.derivatives(u)
        states = equations.form.states(u, slope, period)
        winding = np.zeros(states.shape[1])
        winding[: equations.form.count] = equations.winding
        return SampledLoop(equations.fractions, states, period, winding)

    def start(self, z: Array) -> Array:
        return self.curve(z)(np.zeros(1))[0]

    def segments(self, z: Array, at: LinearisedFamily) -> Array | None:
        return None

    def heading(self, tangent: Array) -> Array:
        return _heading(self.frame, self.scale, tangent)

    def in_frame(self, frame: Frame) -> DifferenceScheme:
        return replace(self, frame=frame)

    def remeshed(self, z: Array) -> tuple[Scheme, Array] | None:
        return None


def discretised_family(
    model: Model, orbit: PeriodicOrbit, frame: Frame, method: Any
) -> tuple[DiscretisedFamily, Array]:
    """Return a discretised family and its first unknowns."""
    # A friction coefficient of zero leaves a smooth model, as the flow knows.
    if not Flow(model).core.engine(model.vector).system.is_smooth:
        raise KapitzaError(
            f'{type(method).__name__} follows smooth models; "{model.name}" has switches or impacts: use Shooting().'
        )
    if orbit.loop is None:
        raise KapitzaError("The orbit has no curve between its points: solve it first, with solve_orbit.")
    problem = Problem(model, orbit.repeats, orbit.period, IntegralPhase(), frame.free).at(model.vector, orbit.period)
    frame = replace(frame, dynamics=Dynamics(frame.flow, problem))
    if isinstance(method, Collocation):
        scheme, z = _collocation(frame, problem, orbit.loop, method)
    elif isinstance(method, HarmonicBalance):
        scheme, z = _harmonic(frame, problem, orbit.loop, method)
    elif isinstance(method, Differences):
        scheme, z = _differences(frame, problem, orbit.loop, method)
    else:
        raise KapitzaError(
            f"{method!r} is not a method for branches: Shooting, Collocation, HarmonicBalance, Differences."
        )
    return DiscretisedFamily(frame, scheme), z


def _collocation(frame: Frame, problem: Problem, loop: Loop, method: Collocation) -> tuple[CollocationScheme, Array]:
    wanted = method.elements * (problem.repeats or 1)
    layout = even_mesh(problem, find_arcs(problem, loop, kinks=False), wanted)
    if layout.events:
        raise KapitzaError("The orbit crosses a switch of the model: follow it by Shooting().")
    return on_layout(frame, problem, loop, method, layout)


def on_layout(
    frame: Frame, problem: Problem, loop: Loop, method: Collocation, layout: Layout
) -> tuple[CollocationScheme, Array]:
    """Return the scheme on a mesh, and its unknowns."""
    rule = gauss_rule(method.degree)
    start, length = layout.times(layout.boundaries)
    period = float(layout.boundaries[-1])
    fractions = start / period
    phase = problem.phase.row(loop, problem.field, fractions) if problem.autonomous else None
    law = None if problem.autonomous else problem.law
    equations = CollocationEquations(
        problem.field, layout, rule, loop.winding, problem.parameters, phase, problem.wrt, law, problem.repeats or 1
    )
    nodes = loop(fractions)
    times = (start[:, None] + length[:, None] * rule.points).ravel()
    slopes = problem.field.rates(loop(times / period), times, problem.parameters)
    slopes = slopes.reshape(-1, method.degree, nodes.shape[1])
    scheme = CollocationScheme(frame, equations, method)
    return scheme, equations.pack(Unknowns(nodes, slopes, layout.boundaries, problem.parameters))


def _tail(problem: Problem, loop: Loop) -> Array:
    """Return the last unknowns: [T] and free parameters."""
    value = problem.parameters[[problem.model.names.index(name) for name in problem.wrt]]
    return np.append(loop.period, value) if problem.autonomous else value


def _harmonic(frame: Frame, problem: Problem, loop: Loop, method: HarmonicBalance) -> tuple[HarmonicScheme, Array]:
    form = CoordinateForm(problem)
    harmonics = (method.harmonics or 16) * (problem.repeats or 1)
    count = 4 * (2 * harmonics + 1)
    grid = np.arange(count) / count
    samples = loop(grid)[:, : form.count]
    series = fourier_series(samples, loop.period, loop.winding[: form.count], harmonics).resized(harmonics)
    equations = HarmonicEquations(problem, harmonics, loop.winding, form.phase(loop, grid), problem.wrt)
    coefficients = np.vstack([series.cosines, series.sines]).ravel()
    return HarmonicScheme(frame, equations, method), np.concatenate([coefficients, _tail(problem, loop)])


def _differences(frame: Frame, problem: Problem, loop: Loop, method: Differences) -> tuple[DifferenceScheme, Array]:
    form = CoordinateForm(problem)
    points = method.points or 401
    # An odd number per excitation period: on even grids a sawtooth solves first-order equations.
    points = (points + 1 - points % 2) * (problem.repeats or 1)
    fractions = np.arange(points) / points
    states = loop(fractions)
    rates = problem.field.rates(states, fractions * loop.period, problem.parameters)[:, : form.count]
    pin = int(np.argmax(np.abs(rates / problem.scale(loop)[: form.count])))
    phase = form.phase(loop, fractions)
    equations = DifferenceEquations(problem, points, method.order, loop.winding, phase, pin, problem.wrt)
    return DifferenceScheme(frame, equations), np.concatenate([states[:, : form.count].ravel(), _tail(problem, loop)])
