"""Conservative families (backbones) by unfolding.

The families are nonlinear normal modes; the frequency response is computed around them.

Without damping and forcing periodic orbits are not isolated: each belongs to a family in its own energy. A damping
parameter d set free unfolds the family: orbits exist at d = 0 only, and (x, d) at frequency ω, with the phase fixed,
is a regular curve (F. J. Muñoz-Almaraz et al., Physica D 181 (2003) 1). d stays at zero to rounding, which is checked.
An autonomous model gets both from us: a damping d x' (or d ∇H) that is not in it, and a clock of period 2π/ω.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Index, Positive
from kapitza.base.arrays import Array, Complex
from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor
from kapitza.continuation.branch import Branch
from kapitza.continuation.criteria import ORBIT_TESTS, unknown_spectrum
from kapitza.continuation.family import Node, PlainPoint, Readings, Sample, Subject, Test
from kapitza.continuation.frame import FreeParameter, orbit_frame, parameter_size, state_sizes
from kapitza.continuation.images import same_curve
from kapitza.continuation.motion import Section, ShootingFamily, ShootingPoint
from kapitza.continuation.nouns import Bifurcation, Critical, End, Kind, Proof
from kapitza.continuation.path import corrected_at, tangent_through
from kapitza.continuation.trace import Stepping, Trace, as_stepping
from kapitza.continuation.unfolding import undamped
from kapitza.continuation.walker import Bounds, Walker, checked_bounds, walked
from kapitza.errors import ConvergenceError, FlowError, KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits.of_models import VectorField
from kapitza.solve import (
    ByEffort,
    DensePoint,
    eigenvalues,
    eigenvectors,
    first_largest,
    largest_first,
    singular_vectors,
)

NEAR_PAIR = 1e-6
"""Distance of the trace of a pair of multipliers from ±2 where it is on the border of the circle."""

ROUNDING = 1e2
"""Multiple of CONSERVED: damping that growing rounding errors may cause along strongly unstable orbits."""

LOST_PAIR = 1e15
"""Condition of a monodromy matrix beyond which multipliers no longer come in pairs."""

CONSERVED = 1e-7
"""Damping, relative to the frequency, below which a family is conservative."""


@dataclass(frozen=True)
class BackboneFamily:
    """Free vibrations of the unforced model.

    They solve x(T) = x, f(x₀)·(x - x₀) = 0 for z = (x, d, ω), at the period T = 2π/ω of the excitation.
    """

    inner: ShootingFamily
    origin: Array
    direction: Array

    @property
    def free(self) -> tuple[str, ...]:
        return self.inner.free[1:]

    @property
    def model(self) -> Model:
        return self.inner.model

    @property
    def size(self) -> int:
        return self.inner.frame.size

    @property
    def state_sizes(self) -> Array:
        return self.inner.frame.sizes

    @property
    def delicate(self) -> bool:
        return False

    @property
    def scale(self) -> Array:
        return self.inner.scale

    @property
    def metric(self) -> Array:
        return self._metric

    @cached_property
    def _metric(self) -> Array:
        weights = 1.0 / self.scale**2
        weights[-2] = 0.0  # d stays where it is and has no part in the length of steps
        return weights

    def _require_frequency(self, z: Array) -> None:
        """Refuse a frequency that is not positive.

        It has no period; Newton's step is shortened.
        """
        if not z[-1] > 0:
            raise FlowError(f"{self.free[0]} = {z[-1]:.3g} is not a frequency of a free vibration.")

    def residual(self, z: Array) -> Array:
        self._require_frequency(z)
        return np.append(self.inner.residual(z), self.direction @ (z[: self.size] - self.origin))

    def linearise(self, z: Array) -> BackbonePoint:
        self._require_frequency(z)
        at = self.inner.linearise(z)
        row = np.zeros(z.size)
        row[: self.size] = self.direction
        residual = np.append(at.residual, self.direction @ (z[: self.size] - self.origin))
        return BackbonePoint(residual, np.vstack([at.full(), row]), self, at)

    def allowed(self, z: Array) -> bool:
        low, high = self.model.parameter(self.free[0]).bounds
        return low <= z[-1] <= high

    def subject(self, nodes: Sequence[Node]) -> Subject:
        unfolded = max(abs(float(n.z[-2])) for n in nodes)
        note = f"unfolded by the damping {self.inner.free[0]}, which stayed within {unfolded:.1e} of zero"
        return Subject("backbone", self.inner.full_repeats, notes=(note,))


@dataclass(frozen=True)
class BackbonePoint(DensePoint, PlainPoint):
    """One free vibration of a family.

    It holds the orbit and the Jacobian with the phase condition.
    """

    family: BackboneFamily
    inner: ShootingPoint

    def readings(self, node: Node) -> Readings:
        """Return the test functions of a free vibration.

        They are Π(τ + 2) and Π(τ - 2) over the pairs τ = μ + 1/μ except the pair 1, 1, and the fold.
        """
        traces = pair_traces(self.inner.matrix())
        doubling = branch = float("nan")
        if np.isfinite(traces).all():
            doubling, branch = (float(np.prod((traces + s) / (2 + np.abs(traces))).real) for s in (2.0, -2.0))
        tests = {
            Kind.BRANCH_POINT: branch,
            Kind.FOLD: float(node.tangent[-1] / self.family.scale[-1]),
            Kind.DOUBLING: doubling,
        }
        return Readings(self.inner.multipliers(), tests, traces=traces)

    @property
    def tests(self) -> tuple[Test, ...]:
        return ORBIT_TESTS[:3]

    def judged(self, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None) -> Bifurcation | None:
        """Return the bifurcation at a zero, if any.

        Multipliers of free vibrations come in pairs μ, 1/μ, one of them 1, 1: the label is about another.
        """
        matrix, traces, family = self.inner.matrix(), node.readings.traces, self.family
        multipliers, vectors = eigenvectors(matrix)
        target = -1.0 if kind is Kind.DOUBLING else 1.0
        if kind is not Kind.FOLD and not traces.size:
            return None
        # A pair leaves the circle as the square root of its trace: the trace is what is at its place to rounding.
        distance = abs(float(node.tangent[-1])) / family.scale[-1]
        if kind is not Kind.FOLD:
            distance = float(np.abs(traces - 2 * target).min())
            if not all(_away(end, 2 * target) for end in (first, last)):
                return None  # a symmetry holds the pair at its place along the whole family
        order = np.argsort(np.abs(multipliers - target), kind="stable")
        # Two at 1 are the trivial ones, whose directions are the flow and the family itself.
        index = int(order[2]) if kind is Kind.BRANCH_POINT else int(order[0])
        # The map of a conservative system keeps volume: its determinant is 1.
        defect = float(np.abs(np.abs(np.linalg.det(matrix)) - 1))
        verified = distance <= max(10 * defect, NEAR_PAIR)
        orbit = self.inner.orbit(node.z)
        return Bifurcation(
            kind, family.model, family.free[0], node.value, node.z[: family.size].copy(), orbit.full_period,
            orbit.full_repeats, multipliers,
            Critical(
                complex(multipliers[index]), np.real(vectors[:, index]),
                tangent=None if kind is Kind.FOLD else tangent_through(first, last, node),
            ),
            Proof(
                bool(verified), defect, distance,
                "" if verified else f"The trace of the pair is {distance:.1e} from its place.",
            ),
            values=orbit.values, unfolding=family.inner.free[0],
        )  # fmt: skip

    def renewed(self, z: Array) -> tuple[BackboneFamily, BackbonePoint]:
        """Return the family with a fresh phase condition.

        The plane of the condition goes through this vibration.
        """
        family = self.family
        rates = family.inner.frame.flow.rates(z[: family.size], 0.0, self.inner.orbit(z).values)
        renewed = self.inner.renewed(z)
        inner, point = (family.inner, self.inner) if renewed is None else renewed
        other = BackboneFamily(inner, z[: family.size].copy(), rates / np.linalg.norm(rates))
        jacobian = self.jacobian.copy()
        jacobian[-1, : family.size] = other.direction
        return other, BackbonePoint(self.residual, jacobian, other, point)

    def inner_orbit(self, z: Array) -> ShootingPoint:
        return self.inner.orbit(z)

    def images(self, z: Array) -> Callable[[Node], bool]:
        # Without force and damping nothing depends on the clock.
        return same_curve(self.inner.orbit(z), lambda node: node.at.inner_orbit(node.z))

    def sample(self, z: Array, readings: Readings) -> Sample:
        period = self.inner.orbit(z).full_period
        return Sample(z[-1:], z[: self.family.size], period, readings.multipliers)


def _away(node: Node, target: float) -> bool:
    """Return whether all pairs are off the target.

    Further than their traces are exact.
    """
    return bool(np.abs(node.readings.traces - target).min(initial=np.inf) > NEAR_PAIR)


def pair_traces(matrix: Array) -> Complex:
    """Return μ + 1/μ of the multiplier pairs.

    The orbit is conservative; the trivial pair 1, 1 is left out.
    They are the eigenvalues of M + M⁻¹, each twice; M⁻¹ is as exact as M, whose determinant is 1.
    """
    if matrix.shape[0] % 2:
        return np.zeros(0, complex)
    if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > LOST_PAIR:
        # The small multiplier of a pair is below rounding of the large one: the trace is unknown.
        return unknown_spectrum(matrix.shape[0] // 2 - 1)
    found = eigenvalues(matrix + np.linalg.inv(matrix))
    # Sorted, the two copies of each trace are neighbours.
    found = found[np.lexsort((np.imag(found), np.real(found)))]
    pairs = 0.5 * (found[::2] + found[1::2])
    return np.asarray(np.delete(pairs, int(np.argmin(np.abs(pairs - 2)))), np.complex128)


def backbone(
    model: Model,
    frequency: str = "omega",
    *,
    force: str | Sequence[str] = (),
    damping: str | Sequence[str] = (),
    bounds: Bounds | None = None,
    mode: Index = 0,
    amplitude: Positive = 1e-2,
    rest: Mapping[str, float] | None = None,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> Branch:
    """Follow the backbone of a model.

    The backbone is a nonlinear normal mode: free vibrations without damping, by amplitude and frequency.

    Parameters
    ----------
    model : Model
        A forced one, whose period is 2π over its excitation frequency, or an autonomous one. Equations of first order
        without excitation need their energy among the model's invariants.
    frequency : str
        Name of the excitation frequency [rad/s]; for an autonomous model the name under which the branch carries the
        frequency of the free vibration, not used in the model.
    force, damping : str or list of str
        The parameters that are set to zero; the first damping of a forced model unfolds the family. An autonomous one
        has no force, and is unfolded by a damping that is added.
    bounds : (float, float), optional
        Of the frequency.
    mode : int
        Which linear mode the curve leaves from, in the order of the natural frequencies.
    amplitude : float
        Of the first orbit, relative to 1 (rad, m, ...).
    rest : mapping, optional
        The equilibrium that it leaves from; states left out are zero.
    stepping : Stepping, optional
        Settings of the continuation.
    monitor : Monitor, optional
        May stop the continuation.

    Returns
    -------
    Branch
        Over the frequency; `branch.amplitude("x")` gives the curve.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(
    ...     "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    ... )
    >>> curve = kz.backbone(model, "omega", force="B", damping="c", bounds=(0.9, 1.3))
    >>> bool(abs(curve.values[-1, 0] - 1.3) < 1e-6)  # it hardens
    True
    >>> spine = kz.backbone(kz.Model.from_equations("x'' + x + x**3 = 0"), bounds=(0.9, 1.2))
    >>> round(float(spine.amplitude("x")[-1]), 2)
    0.77
    """
    checks.number("amplitude", amplitude, above=0, error=KapitzaError)
    checks.whole("mode", mode, least=0, error=KapitzaError)
    free, dampings = undamped(model, frequency, force, damping)
    origin = free.state(dict.fromkeys(free.states, 0.0) | dict(rest or {}))
    shape, omega = linear_mode(free, mode, origin)
    free = free.with_values(**{frequency: omega})
    if abs(float(free.period or 0) * omega / (2 * np.pi) - 1) > 1e-9:
        raise KapitzaError(f"The excitation period is not 2π/{frequency}: the backbone cannot be laid over it.")
    limits = checked_bounds(free, frequency, bounds)
    trace = _first_trace(free, (dampings[0], frequency), origin, amplitude * shape, limits, stepping)
    walker = Walker(trace)
    branch = walked(walker, monitor)
    doubtful = [i for i, node in enumerate(trace.nodes) if _unfolding(node.z) > CONSERVED]
    if not doubtful:
        return branch
    for node in trace.nodes:
        _require_conservative(model, node.z, ROUNDING * CONSERVED)
    # Growth lifts rounding into the damping: the family ends where its orbits are no longer known.
    kept = doubtful[0]
    trace.nodes, trace.bifurcations = trace.nodes[:kept], [b for b in trace.bifurcations if b[0] < kept - 1]
    trace.end, trace.message = End.STEP, f"beyond {frequency} = {trace.nodes[-1].value:.8g} orbits grow beyond rounding"
    return walker.branch.with_(status=branch.status)


def _first_trace(
    free: Model, names: tuple[str, str], origin: Array, shape: Array, limits: Bounds, stepping: Stepping | None
) -> Trace:
    """Return the trace from a small orbit.

    It leads along the family, from around the equilibrium `origin`.
    """
    omega = free.values[names[1]]
    point = origin + shape
    rates = Flow(free).rates(point, 0.0)
    period = 2 * np.pi / omega
    sizes = state_sizes(free, point[None], rates[None], period)
    unknowns = FreeParameter(names, (1.0, parameter_size(omega, limits)))
    inner = ShootingFamily(orbit_frame(free, unknowns, 1, sizes, period))
    family = BackboneFamily(inner, point, rates / np.linalg.norm(rates))
    z = np.concatenate([point, [0.0, omega]])
    row = np.zeros(z.size)
    # The amplitude along the mode is held, so that Newton does not fall back to rest.
    row[: sizes.size] = shape / sizes**2
    outcome = corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-11)
    if outcome.point is None:
        raise ConvergenceError(f"No free vibration near the linear mode at {omega:.6g} rad/s: {outcome.message}")
    node = outcome.point
    _require_conservative(free, node.z)
    tangent = node.tangent if float(row @ node.tangent) >= 0 else -node.tangent
    stepping = as_stepping(stepping, ByEffort(0.05, 1e-7, 0.2, wanted=6))
    return Trace(Node(family, node.z, tangent, node.at), limits, stepping, node.at.images(node.z))


def other_vibration(model: Model, point: Bifurcation, limits: Bounds, amplitude: float, side: int) -> Node:
    """Return the first vibration of a crossing family.

    It leaves at a branch point or a doubling of a backbone.
    The Jacobian there, over twice the period at a doubling, has two null vectors: one is the tangent of the known
    family, and the step goes along the one at right angles to it.
    """
    repeats = (point.repeats or 1) * (2 if point.kind is Kind.DOUBLING else 1)
    omega, start = point.value, point.point
    rates = Flow(model).rates(start, 0.0)
    period = repeats * 2 * np.pi / omega
    sizes = state_sizes(model, start[None], rates[None], period)
    unknowns = FreeParameter((point.unfolding, point.parameter), (1.0, parameter_size(omega, limits)))
    frame = orbit_frame(model, unknowns, repeats, sizes, period)
    inner = ShootingFamily(frame, section=Section(float(repeats)))
    family = BackboneFamily(inner, start, rates / np.linalg.norm(rates))
    z = np.concatenate([start, [model.values[point.unfolding], omega]])
    assert point.tangent is not None
    # Steps have no length along the damping, which stays zero: it is left out of the null vectors too.
    kept = np.flatnonzero(family.metric > 0)
    plane = singular_vectors(family.linearise(z).jacobian[:, kept] * family.scale[kept])[2][-2:]
    # Components of the known tangent in the plane of the two null vectors.
    shares = plane @ (point.tangent[kept] / family.scale[kept])
    across = np.array([-shares[1], shares[0]]) @ plane
    across /= np.linalg.norm(across)
    if float(across[: start.size] @ (point.vector / sizes)) < 0:
        across = -across
    ahead = np.zeros(z.size)
    ahead[kept] = side * across * family.scale[kept]
    row = ahead * family.metric
    for factor in (1.0, 10.0, 30.0, 100.0):
        step = amplitude * factor
        found = corrected_at(family, z + step * ahead, row[None], np.array([float(row @ z) + step]), 1e-10).point
        if found is None or abs(found.value - omega) > 0.5 * family.scale[-1]:
            continue
        tangent = found.tangent if float(row @ found.tangent) >= 0 else -found.tangent
        return Node(family, found.z, tangent, found.at)
    raise ConvergenceError(
        f"No other free vibrations were reached at {point}: try another amplitude than {amplitude:g}."
    )


def _unfolding(z: Array) -> float:
    """Return the damping relative to the frequency."""
    return abs(float(z[-2])) / abs(float(z[-1]))


def _require_conservative(model: Model, z: Array, allowed: float = CONSERVED) -> None:
    """Refuse a model that is not conservative.

    Orbits exist at d = 0 only, or the model gains or loses energy by itself.
    """
    if _unfolding(z) > allowed:
        raise KapitzaError(
            f'"{model.name}" is not conservative: a vibration at {z[-1]:.6g} rad/s closes only with a further '
            f"damping of {z[-2]:.3g}. Name all of its damping parameters in {Give('damping')}."
        )


def linear_mode(model: Model, mode: int, origin: Array) -> tuple[Array, float]:
    """Return shape and frequency of an undamped mode.

    The shape (n,) is the state at largest displacement, for a mode of the rest state.
    """
    field = VectorField(model)
    rest = origin[None]
    moving = float(np.abs(field.rates(rest, np.zeros(1))).max())
    if moving > 1e-9:
        where = ", ".join(f"{name} = {value:g}" for name, value in zip(model.states, origin, strict=True))
        raise KapitzaError(
            f"{where} is not an equilibrium without the force, its rates reach {moving:.2g}: pass {Give('rest')}, such "
            "as model.equilibrium()."
        )
    values, vectors = eigenvectors(field.derivatives(rest, np.zeros(1)).by_state[0])
    # Lowest frequency first; modes of equal frequency keep the order of `eigenvectors`.
    upper = np.flatnonzero(values.imag > 1e-9)
    upper = upper[largest_first(1 / values[upper].imag)]
    if mode not in range(len(upper)):
        raise KapitzaError(f"The rest state has {len(upper)} oscillating modes; mode = {mode} is not among them.")
    index = upper[mode]
    if abs(values[index].real) > CONSERVED * values[index].imag:
        raise KapitzaError(
            f'"{model.name}" is not conservative: small vibrations at {values[index].imag:.6g} rad/s grow by '
            f"exp({values[index].real:.3g} t). Name all of its damping parameters in {Give('damping')}."
        )
    vector = vectors[:, index]
    # Turned so that coordinates are at their largest and speeds vanish.
    coordinates = len(model.coordinates)
    largest = int(first_largest(np.abs(vector[:coordinates])))
    shape = np.real(vector / vector[largest])
    return shape / np.abs(shape[:coordinates]).max(), float(values[index].imag)
