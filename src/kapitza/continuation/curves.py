"""Curves of bifurcations in two parameters, by minimally extended systems.

The scalar g of the bordered system [[A, b], [cᵀ, 0]] [v; g] = [0; 1] vanishes where A is singular; A is M - I with the
phase condition for folds, M + I for doublings, M - e^{iφ}I for Neimark-Sacker points, f_x - iω for Hopf points. By the
symmetry of second derivatives its gradient by everything is g_z = -wᵀ d/dε F_z(x + εv), w from the transpose: two
linearisations for all components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza import gate
from kapitza.continuation.branch import Branch
from kapitza.continuation.criteria import readings
from kapitza.continuation.equilibria import EquilibriumFamily
from kapitza.continuation.motion import OrbitFamily, state_sizes
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import ChordNewton, Node, corrected_at
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Walker, assembled, checked_bounds, parameter_size, require_effect, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.solve import ByEffort, DensePoint

if TYPE_CHECKING:
    from kapitza.continuation.codimension_two import CurveReadings

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

CURVES = (Kind.FOLD, Kind.DOUBLING, Kind.PITCHFORK, Kind.NEIMARK_SACKER, Kind.HOPF)

DIFFERENCE = 1e-5
"""Step of the differences along v, relative to the sizes of the states; only the gradient of g is differenced."""


@dataclass(frozen=True)
class CurveFamily:
    """Orbit (or equilibrium) equations and g = 0 for z = (x, [T], [φ or ω], p, q).

    inner: the family with both parameters free (or more, whose derivatives are wanted), on one node or several; kind:
    what vanishes; b, c: borders, renewed from point to point.
    """

    inner: Any
    kind: Kind
    b: Complex
    c: Complex

    @property
    def free(self) -> tuple[str, ...]:
        return self.inner.free

    @property
    def model(self) -> Any:
        return self.inner.model

    @property
    def angle(self) -> bool:
        """Is the angle (or frequency) of a pair among the unknowns?"""
        return self.kind in (Kind.NEIMARK_SACKER, Kind.HOPF)

    @property
    def base(self) -> int:
        """Unknowns of the orbit: nodes and T."""
        return self.inner.scale.size - len(self.free)

    @cached_property
    def scale(self) -> Array:
        own = self.inner.scale
        angle = [1.0] if self.kind is Kind.NEIMARK_SACKER else [self._frequency_size] if self.kind is Kind.HOPF else []
        return np.concatenate([own[: self.base], angle, own[self.base :]])

    @cached_property
    def metric(self) -> Array:
        """(N,) weights of the squared components in the length of a step."""
        return 1.0 / self.scale**2

    @property
    def _frequency_size(self) -> float:
        return float(np.abs(self.inner.matrix(self.inner.linearise(self._reference)).ravel()).max())

    @cached_property
    def _reference(self) -> Array:
        return np.concatenate([self.inner.sizes, [self.inner.vector[self.model.names.index(n)] for n in self.free]])

    def split(self, z: Array) -> tuple[Array, float]:
        """The unknowns of the inner family, and the angle."""
        if not self.angle:
            return z, 0.0
        return np.delete(z, self.base), float(z[self.base])

    def matrix(self, at: Any, angle: float) -> Array | Complex:
        """A, square: what is singular on the curve."""
        inner = self.inner
        if not isinstance(inner, OrbitFamily):
            matrix = inner.matrix(at)
            return matrix - 1j * angle * np.eye(matrix.shape[0]) if self.kind is Kind.HOPF else matrix
        if self.kind is Kind.FOLD:
            return inner.full(at)[:, : self.base]
        return inner.chain(at, -1.0 if self.kind in (Kind.DOUBLING, Kind.PITCHFORK) else complex(np.exp(1j * angle)))

    def null_vectors(self, at: Any, angle: float) -> tuple[Any, Any, Any]:
        """v, w and g of the bordered matrix."""
        a = self.matrix(at, angle)
        size = a.shape[0]
        real = not self.angle
        square = np.zeros((size + 1, size + 1), float if real else complex)
        square[:size, :size] = a
        square[:size, size], square[size, :size] = (self.b.real, self.c.real) if real else (self.b, self.c.conj())
        right = np.zeros(size + 1)
        right[-1] = 1.0
        v = np.linalg.solve(square, right)
        w = np.linalg.solve(square.T, right)
        return v[:size], w[:size], v[size]

    def residual(self, z: Array) -> Array:
        own, angle = self.split(z)
        at = self.inner.linearise(own)
        return self._extended(at, self.null_vectors(at, angle)[2])

    def _extended(self, at: Any, g: Any) -> Array:
        return np.concatenate([at.residual, [g.real, g.imag] if self.angle else [float(g)]])

    def linearise(self, z: Array) -> _CurvePoint:
        own, angle = self.split(z)
        at = self.inner.linearise(own)
        v, w, g = self.null_vectors(at, angle)
        residual = self._extended(at, g)
        base = self.inner.full(at)
        gradient = -(w @ self._second(own, v))
        rows = [gradient.real, gradient.imag] if self.angle else [gradient]
        jacobian = np.vstack([base, *rows])
        if self.angle:
            turn = 1j * (np.exp(1j * angle) if self.kind is Kind.NEIMARK_SACKER else 1.0)
            # dA/dφ = -i e^{iφ} where the last segment meets the first node, so g_φ = -wᵀ (dA/dφ) v.
            n = self.inner.size
            slope = turn * (w[-n:] @ v[:n])
            column = np.concatenate([np.zeros(base.shape[0]), [slope.real, slope.imag]])
            jacobian = np.insert(jacobian, self.base, column, axis=1)
        return _CurvePoint(residual, jacobian, at, v, w, angle)

    def _second(self, own: Array, v: Any) -> Any:
        """d/dε of the Jacobian's rows along v, (rows of A, N): two linearisations for each real direction."""
        if np.iscomplexobj(v):
            return self._second(own, v.real) + 1j * self._second(own, v.imag)
        rows = v.size
        direction = np.zeros(own.size)
        direction[:rows] = v
        size = float(np.abs(direction / self.inner.scale).max())
        if size == 0.0:
            return np.zeros((rows, own.size))
        step = DIFFERENCE / size
        ahead = self.inner.full(self.inner.linearise(own + step * direction))
        behind = self.inner.full(self.inner.linearise(own - step * direction))
        return (ahead - behind)[:rows] / (2 * step)

    def allowed(self, z: Array) -> bool:
        return self.inner.allowed(self.split(z)[0])

    def renewed(self, z: Array, at: Any) -> CurveFamily:
        """Borders from the null vectors here, so that the bordered matrix stays far from singular."""
        own, _ = self.split(z)
        point = at if isinstance(at, _CurvePoint) else self.linearise(z)
        inner = self.inner.renewed(own, point.inner)
        b = np.conj(point.w) / np.linalg.norm(point.w)
        c = point.v / np.linalg.norm(point.v)
        return replace(self, inner=inner, b=np.asarray(b, complex), c=np.asarray(c, complex))

    def relinearised(self, at: Any) -> Any:
        # On the curve other borders scale the gradient of g and nothing else: the null vector stays.
        return at

    def remeshed(self, z: Array, at: Any) -> None:
        return None

    def condensed_tangent(self, tangent: Array) -> Array:
        return tangent

    def readings(self, node: Node) -> CurveReadings:
        """Test functions of codimension two: where the curve itself changes character."""
        from kapitza.continuation.codimension_two import curve_readings

        return curve_readings(node)

    def test_functions(self) -> Any:
        from kapitza.continuation.codimension_two import curve_tests

        return curve_tests(self.kind)

    def judged(self, kind: Kind, node: Node, first: Node, last: Node) -> Bifurcation | None:
        from kapitza.continuation.codimension_two import judged_on_curve

        return judged_on_curve(self, kind, node)

    def sequence_change(self, stretch: Any, before: CurveReadings, after: CurveReadings) -> list[Bifurcation]:
        return []

    def branch(self, nodes: Sequence[Node], lengths: Array, marks: Any, ends: Any, method: str) -> Branch:
        pure = [n.family.split(n.z)[0] for n in nodes]
        orbit = isinstance(self.inner, OrbitFamily)
        inner = [n.family.inner for n in nodes]
        half = orbit and self.inner.closing is not None
        multipliers = np.array([readings(n).multipliers for n in nodes])
        return Branch(
            model=self.model,
            parameters=self.free,
            values=np.array([z[-2:] for z in pure]),
            points=np.array([f.section_point(z) if orbit else z[: f.size] for f, z in zip(inner, pure, strict=True)]),
            periods=np.array([f.full_period(z) if orbit else 0.0 for f, z in zip(inner, pure, strict=True)]),
            multipliers=multipliers**2 if half else multipliers,
            repeats=self.inner.full_repeats if orbit else None,
            arclength=lengths,
            bifurcations=marks,
            ends=(ends[0][0], ends[1][0]),
            end_messages=(ends[0][1], ends[1][1]),
            counts=np.ones(len(nodes), np.int64),
            subject=self.kind.value,
            method=method,
        )


@dataclass(frozen=True)
class _CurvePoint(DensePoint):
    """The Jacobian of the extended system with what it was made of."""

    inner: Any
    v: Any
    w: Any
    angle: float


def follow_curve(
    bifurcation: Bifurcation,
    parameters: Sequence[str],
    bounds: Any = None,
    *,
    direction: int = 0,
    stepping: Stepping | None = None,
    monitor: Any = None,
    posterior: Any = None,
) -> Branch:
    """The curve of a bifurcation in two parameters.

    parameters: their names; the first is the one whose bounds are given as (low, high), or bounds is a mapping or a
    pair of ranges for both. Codimension-two points are marked on the way.
    """
    if posterior is not None:
        raise KapitzaError("Bands are drawn on branches in one parameter: follow the branch with posterior=.")
    if bifurcation.kind not in CURVES:
        raise KapitzaError(
            f"Curves of {bifurcation.kind.value} points are not followed: "
            f"only of {', '.join(kind.value for kind in CURVES)} points."
        )
    names = (parameters,) if isinstance(parameters, (str, type(None))) else tuple(parameters)
    if len(names) != 2 or names[0] == names[1] or not all(isinstance(name, str) for name in names):
        raise KapitzaError(
            f'A curve needs two parameters, follow(bifurcation, ("omega", "B")), not {gate.shown(parameters)}.'
        )
    direction = gate.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    if stepping is not None and not isinstance(stepping, Stepping):
        raise KapitzaError(f"stepping = {gate.shown(stepping)}; give a Stepping(...).")
    for name in names:
        bifurcation.model.check(name)
        require_effect(bifurcation.model, name)
    family, z = curve_family(bifurcation, names, bounds)
    limits, others = _ranges(family.model, names, bounds)
    stepping = stepping or Stepping(
        corrector=ChordNewton(chords=0, tolerance=1e-9, max_iterations=8), rule=ByEffort(0.02, 1e-7, 0.15, wanted=7)
    )
    row = np.zeros(z.size)
    row[-2] = 1.0
    traces = []
    for sign in (1, -1) if direction == 0 else (direction,):
        outcome = corrected_at(family, z, row[None], z[-2:-1].copy(), 1e-10)
        if outcome.point is None:
            row2 = np.zeros(z.size)
            row2[-1] = 1.0
            outcome = corrected_at(family, z, row2[None], z[-1:].copy(), 1e-10)
        if outcome.point is None:
            raise KapitzaError(f"The curve could not be started at {bifurcation}: {outcome.message}")
        node = outcome.point
        family = node.family
        along = np.sign(node.tangent[-2]) or np.sign(node.tangent[-1]) or 1.0
        node = Node(family, node.z, node.tangent * along * sign, node.at)
        traces.append(_Curve(node, limits, stepping, second=others))
    walker = Walker(traces[0], traces[1] if len(traces) > 1 else None, lambda w: assembled(w, "Shooting"))
    return walked(walker, monitor)


@dataclass
class _Curve(Trace):
    """A walk in two parameters, which ends where it began when it closes."""

    def _finished(self, node: Node) -> bool:
        if len(self.nodes) < 8:
            return False
        gap = np.abs((node.z - self.start.z) / self.start.family.scale)[-2:].max()
        step = np.abs((node.z - self.nodes[-2].z) / self.start.family.scale)[-2:].max()
        if gap < 0.5 * step and np.abs((node.z - self.start.z) / node.family.scale).max() < 2 * step:
            self.end, self.message = End.CLOSED, "back at the start of the curve"
            return True
        return False


def _ranges(model: Any, names: tuple[str, ...], bounds: Any) -> list[tuple[float, float]]:
    """The range of each parameter: as given, or three times its value to either side."""
    given: list[Any] = [None] * len(names)
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in names:
                raise KapitzaError(f"bounds names {gate.shown(name)}: the curve is one in {', '.join(names)}.")
        given = [bounds.get(name) for name in names]
    elif bounds is not None:
        pairs = gate.items("bounds", bounds, most=2, error=KapitzaError)
        numbers = [isinstance(each, (int, float, np.number)) for each in pairs]
        # (low, high) of the first one, or such a pair (or None) for each.
        given[: 1 if all(numbers) else len(pairs)] = [tuple(pairs)] if all(numbers) else pairs
    ranges = []
    for name, pair in zip(names, given, strict=True):
        value = model.values[name]
        reach = 3 * abs(value) if value else 3.0
        ranges.append(checked_bounds(model, name, (value - reach, value + reach) if pair is None else pair))
    return ranges


def moving_family(bifurcation: Bifurcation, names: tuple[str, ...]) -> tuple[CurveFamily, Array]:
    """The extended system with the parameter of the branch and others free, on nodes where the orbit wants them."""
    family, z = curve_family(bifurcation, (bifurcation.parameter, *names), None)
    inner = family.inner
    if not isinstance(inner, OrbitFamily):
        return family, z
    own, angle = family.split(z)
    other = inner.remeshed(own, inner.linearise(own))
    if other is None:
        return family, z
    finer, nodes = other
    base = nodes.size - len(finer.free)
    start = np.concatenate([nodes[:base], [angle] if family.angle else [], nodes[base:]])
    # Nodes that one shot reached are as far off as it grew: all but the parameter of the branch is held, and solved.
    held = np.eye(start.size)[-len(names) :]
    outcome = corrected_at(_bordered(replace(family, inner=finer), start), start, held, held @ start, 1e-10)
    if outcome.point is None:
        raise ConvergenceError(f"{bifurcation} was not found again on {finer.fractions.size} nodes: {outcome.message}")
    return outcome.point.family, outcome.point.z


def curve_family(bifurcation: Bifurcation, names: tuple[str, ...], bounds: Any) -> tuple[CurveFamily, Array]:
    """The extended system through a bifurcation, and its unknowns there."""
    for name in names:
        bifurcation.model.check(name)
    values = dict(zip(bifurcation.model.names, np.asarray(bifurcation.values).tolist(), strict=True))
    model = bifurcation.model.with_values(**values)
    ranges = _ranges(model, names, bounds)
    sizes = tuple(parameter_size(model.values[n], r) for n, r in zip(names, ranges, strict=True))
    at_values = np.array([model.values[n] for n in names])
    point = bifurcation.point
    if bifurcation.kind is Kind.HOPF:
        inner: Any = EquilibriumFamily(
            model, names, model.vector, np.maximum(np.abs(point), 0.1 * max(np.abs(point).max(), 1.0)), sizes
        )
        z = np.concatenate([point, [bifurcation.frequency], at_values])
    else:
        inner = _orbit_inner(bifurcation, model, names, sizes)
        own = inner.equations.pack(point[None], inner.period, at_values)
        angle = [bifurcation.frequency] if bifurcation.kind is Kind.NEIMARK_SACKER else []
        z = np.concatenate([own[: -len(names)], angle, own[-len(names) :]])
    none = np.zeros(0, complex)
    return _bordered(CurveFamily(inner, bifurcation.kind, none, none), z), z


def _bordered(family: CurveFamily, z: Array) -> CurveFamily:
    """With its first borders: singular vectors of A itself."""
    own, angle = family.split(z)
    left, _, right = np.linalg.svd(family.matrix(family.inner.linearise(own), angle))
    return replace(family, b=left[:, -1].astype(complex), c=right[-1].conj().astype(complex))


def _orbit_inner(bifurcation: Bifurcation, model: Any, names: tuple[str, ...], sizes: Any) -> OrbitFamily:
    point, repeats = bifurcation.point, bifurcation.repeats
    rates = Flow(model).rates(point, 0.0)
    period, span, closing = bifurcation.period, float(repeats or 1), None
    if bifurcation.half:
        from kapitza.continuation.symmetry import symmetry_of

        symmetry = symmetry_of(Flow(model), point, period, repeats)
        if symmetry is None:
            raise KapitzaError("The symmetric orbit of this pitchfork was not recognised as symmetric.")
        closing, period, span = symmetry.matrix, period / 2, span / 2
    elif bifurcation.kind is Kind.PITCHFORK:
        raise KapitzaError(
            "Curves of pitchforks are followed on the half map: find the point with follow(..., half_map=True)."
        )
    own = state_sizes(model, point[None], rates[None], bifurcation.period)
    reference = np.stack([point, rates]) if repeats is None else None
    return OrbitFamily(
        model, names, repeats, model.vector, own, np.zeros(1), span, closing, 0.0, reference, period, sizes
    )
