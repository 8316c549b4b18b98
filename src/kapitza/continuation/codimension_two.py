"""Codimension-two points on curves of bifurcations.

Each is named by the spectrum that defines it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.criteria import doubling_function, torus_function
from kapitza.continuation.equilibria import EquilibriumPoint
from kapitza.continuation.family import Node, Readings, Test, test_of
from kapitza.continuation.motion import ShootingFamily, ShootingPoint
from kapitza.continuation.normal_forms import cubic_coefficient, lyapunov_coefficient
from kapitza.continuation.nouns import Bifurcation, Critical, Kind, Proof

if TYPE_CHECKING:
    from kapitza.continuation.curve_family import CurveFamily, CurvePoint

ON_PLACE = 1e-5
"""Distance of symmetric functions of critical multipliers from their values, within which a point is verified.

Double multipliers split by the square root of their error; their sum and product do not.
"""

ON_AXIS = 1e-6
"""Distance of eigenvalues from their places, relative to the largest, within which a point is verified."""

POLE = 1e-3
"""Share of the larger value at the ends of the step: a test function above this has a pole and not a zero."""

NORMAL_FORMS = (Kind.GENERALISED_HOPF, Kind.GENERALISED_DOUBLING, Kind.CUSP)
"""Points where a coefficient vanishes while the spectrum stays what it is."""

SLOW = 1e-6
"""Share of the squared rate below which ω² makes a pair a double zero."""

DOUBLE = 1e-5
"""Two critical values at this distance are one double value."""


def curve_readings(at: CurvePoint, node: Node) -> Readings:
    """Return the test functions at a curve point.

    They are stored by the kind of point where they vanish.
    """
    family, (own, square) = at.family, at.family.split(node.z)
    if isinstance(at.inner, EquilibriumPoint):
        return _resting(at, at.inner, node, square)
    inner = at.inner.orbit(own)
    values = inner.multipliers()
    rest = without(values, critical_multipliers(family, square))
    if family.kind is Kind.NEIMARK_SACKER:
        tests = {
            Kind.RESONANCE_1_1: 1.0 - square,
            Kind.RESONANCE_1_2: 1.0 + square,
            Kind.RESONANCE_1_3: 0.5 + square,
            Kind.RESONANCE_1_4: square,
            Kind.FOLD_NEIMARK_SACKER: _fold_function(rest),
            Kind.FLIP_NEIMARK_SACKER: doubling_function(rest),
            Kind.DOUBLE_NEIMARK_SACKER: torus_function(rest),
        }
        return Readings(values, tests, square=square, slope=float(node.tangent[family.base]))
    v, w, product = _null_vectors(at)
    n = inner.frame.size
    if family.kind is Kind.FOLD:
        tests = {
            Kind.CUSP: float(w @ (family.second(own, v)[:, : v.size] @ v)),
            Kind.RESONANCE_1_1: product,
            Kind.FOLD_FLIP: doubling_function(rest),
            Kind.FOLD_NEIMARK_SACKER: torus_function(rest),
        }
    else:
        tests = {
            Kind.RESONANCE_1_2: product,
            Kind.GENERALISED_DOUBLING: cubic_coefficient(inner, v[:n], w[-n:]),
            Kind.FOLD_FLIP: _fold_function(rest),
            Kind.FLIP_NEIMARK_SACKER: torus_function(rest),
        }
    return Readings(values, tests)


def _resting(at: CurvePoint, inner: EquilibriumPoint, node: Node, square: float) -> Readings:
    """Return the test functions on curves of equilibria."""
    family, values, own = at.family, inner.eigenvalues(), at.family.split(node.z)[0]
    rest = without(values, critical_eigenvalues(family, square))
    sums = hopf_function(rest)
    if family.kind is Kind.HOPF:
        tests = {
            Kind.BOGDANOV_TAKENS: square / family.rate**2,
            Kind.ZERO_HOPF: float(np.prod(rest / family.rate).real) if rest.size else 1.0,
            Kind.DOUBLE_HOPF: sums,
            # Next to a double zero the coefficient has a pole, and at the point itself it is rounding.
            Kind.GENERALISED_HOPF: (
                lyapunov_coefficient(inner.family, own, square) if square > SLOW * family.rate**2 else float("nan")
            ),
        }
        return Readings(values, tests, square=square, slope=float(node.tangent[family.base]))
    v, w, product = _null_vectors(at)
    quadratic = float(w @ (family.second(own, v)[:, : v.size] @ v))
    return Readings(values, {Kind.CUSP: quadratic, Kind.BOGDANOV_TAKENS: product, Kind.ZERO_HOPF: sums})


def _null_vectors(at: CurvePoint) -> tuple[Array, Array, float]:
    """Return unit null vectors and their product.

    v and w are the right and left null vectors of A; the product is w·v of their states.
    """
    family, sizes, n = at.family, at.family.state_sizes, at.family.state_sizes.size
    # The borders of the family fix the signs: those of a node may come from the family before.
    v, w = at.v * np.sign(family.c[:, 0] @ at.v), at.w[:, 0] * np.sign(family.b[:, 0] @ at.w[:, 0])
    # Left null vectors of a chain of segments have the left eigenvector of the whole map at their last segment.
    last = slice(0, n)
    if isinstance(at.inner, ShootingPoint):
        last = slice((at.inner.family.fractions.size - 1) * n, None)
    v = v / np.linalg.norm(v[:n] / sizes)
    w = w / np.linalg.norm(w[last][:n] * sizes)
    return v, w, float(w[last][:n] @ v[:n])


def hopf_function(values: Complex) -> float:
    """Return Π(λ_i + λ_j) over pairs, scaled.

    Each factor over its size; 1 where there are no pairs.
    """
    result = 1.0 + 0j
    for first, second in combinations(values.tolist(), 2):
        result *= (first + second) / (abs(first) + abs(second) + 1e-300)
    return result.real


def _fold_function(values: Complex) -> float:
    """Return Π(μ - 1) over 1 + |μ|."""
    return float(np.prod((values - 1) / (1 + np.abs(values))).real) if values.size else 1.0


def without(values: Complex, critical: list[complex]) -> Complex:
    """Remove the values nearest to critical ones."""
    rest = values
    for target in critical:
        rest = np.delete(rest, int(np.argmin(np.abs(rest - target)))) if rest.size else rest
    return rest


def critical_multipliers(family: CurveFamily, square: float) -> list[complex]:
    """Return the critical multipliers of a curve of orbits.

    Those that every point of the curve has.
    """
    trivial = _trivial(family)
    if family.kind is Kind.FOLD:
        return [*trivial, 1.0 + 0j]
    if family.kind is Kind.NEIMARK_SACKER:
        root = np.emath.sqrt(square**2 - 1)
        return [*trivial, complex(square + root), complex(square - root)]
    return [*trivial, -1.0 + 0j]


def _trivial(family: CurveFamily) -> list[complex]:
    """Return the multiplier 1 that every autonomous orbit has."""
    autonomous = isinstance(family.inner, ShootingFamily) and family.inner.frame.autonomous
    return [1.0 + 0j] if autonomous else []


def critical_eigenvalues(family: CurveFamily, square: float) -> list[complex]:
    root = complex(np.emath.sqrt(-square))
    return [root, -root] if family.kind is Kind.HOPF else [0j]


ENDS = {
    Kind.NEIMARK_SACKER: (Kind.RESONANCE_1_1, Kind.RESONANCE_1_2),
    Kind.HOPF: (Kind.BOGDANOV_TAKENS,),
}
"""Points at which a curve ends: beyond them the pair is real, and the points are neutral saddles."""

ON_ORBITS = {
    Kind.FOLD: (Kind.CUSP, Kind.RESONANCE_1_1, Kind.FOLD_FLIP, Kind.FOLD_NEIMARK_SACKER),
    Kind.DOUBLING: (Kind.RESONANCE_1_2, Kind.GENERALISED_DOUBLING, Kind.FOLD_FLIP, Kind.FLIP_NEIMARK_SACKER),
    Kind.NEIMARK_SACKER: (
        Kind.RESONANCE_1_3, Kind.RESONANCE_1_4, Kind.FOLD_NEIMARK_SACKER, Kind.FLIP_NEIMARK_SACKER,
        Kind.DOUBLE_NEIMARK_SACKER,
    ),
}  # fmt: skip

RESONANT = {
    Kind.RESONANCE_1_1: 1.0 + 0j,
    Kind.RESONANCE_1_2: -1.0 + 0j,
    Kind.RESONANCE_1_3: complex(-0.5, 0.75**0.5),
    Kind.RESONANCE_1_4: 1j,
}
"""Critical multiplier of each strong resonance."""

AT_REST = {
    Kind.FOLD: (Kind.CUSP, Kind.BOGDANOV_TAKENS, Kind.ZERO_HOPF),
    Kind.HOPF: (Kind.ZERO_HOPF, Kind.DOUBLE_HOPF, Kind.GENERALISED_HOPF),
}


def curve_tests(curve: Kind, of_orbits: bool) -> tuple[Test, ...]:
    """Return the codimension-two points a curve can pass."""
    kind = Kind.DOUBLING if curve is Kind.PITCHFORK else curve
    return tuple(test_of(each) for each in (ON_ORBITS if of_orbits else AT_REST)[kind])


def end_tests(curve: Kind) -> tuple[Test, ...]:
    """Return the codimension-two points that end a curve."""
    return tuple(test_of(each) for each in ENDS.get(curve, ()))


def touching_tests(curve: Kind) -> tuple[Test, ...]:
    """Return the points where a curve may turn back.

    No test function changes its sign there. In symmetric models a pair may meet and stay critical: κ touches 1 where M
    is the identity (or its negative), ω² touches 0 where the equilibria meet their mirror images. Beyond such points
    lies the mirror image of the curve.
    """
    return tuple((each, lambda r: r.slope) for each in ENDS.get(curve, ())[:1])


def judged_on_curve(at: CurvePoint, kind: Kind, node: Node, first: Node, last: Node) -> Bifurcation | None:
    """Return the codimension-two point at a zero.

    The zero is that of its test; None if the spectrum differs.
    """
    family, found = at.family, node.readings
    values = found.multipliers
    ends = [abs(end.readings.tests[kind]) for end in (first, last)]
    if abs(found.tests[kind]) > POLE * max(ends) and kind in NORMAL_FORMS:
        return None  # a coefficient of a normal form changes its sign at poles too
    if kind is Kind.RESONANCE_1_1 and found.square < 0:
        kind = Kind.RESONANCE_1_2
    targets = _targets(family, kind, found)
    if targets is None:
        return None
    size = 1.0 if family.of_orbits else family.rate
    distance = _distance(values / size, [target / size for target in targets])
    # A zero of the test far from the defining spectrum is another point, or a pole.
    if distance > 1e2 * (ON_PLACE if family.of_orbits else ON_AXIS):
        return None
    if kind is Kind.CUSP:
        # A quadratic term also vanishes where the critical value is double, and where the orbit shrinks to a point.
        rest = without(values / size, [t / size for t in targets])
        if np.abs(rest - targets[-1] / size).min(initial=np.inf) < DOUBLE:
            return None
    return _point(at, kind, node, complex(targets[-1]), distance)


def _point(at: CurvePoint, kind: Kind, node: Node, critical: complex, distance: float) -> Bifurcation:
    family, (own, _) = at.family, at.family.split(node.z)
    n, orbit = family.state_sizes.size, at.inner_orbit(node.z)
    verified = distance <= (ON_AXIS if orbit is None else ON_PLACE)
    where = f"{family.free[1]} = {own[-1]:.10g}"
    doubt = f"; its critical values are {distance:.1e} from their places"
    values = at.inner.family.values(own) if isinstance(at.inner, EquilibriumPoint) else at.inner.orbit(own).values
    return Bifurcation(
        kind, family.model, family.free[0], float(own[-2]),
        own[:n].copy() if orbit is None else orbit.section_point(),
        0.0 if orbit is None else orbit.full_period, None if orbit is None else orbit.full_repeats,
        node.readings.multipliers, Critical(critical, np.real(at.v[:n])),
        Proof(verified, float("nan"), distance, where if verified else where + doubt), values=values,
        sizes=family.state_sizes,
    )  # fmt: skip


def _targets(family: CurveFamily, kind: Kind, found: Readings) -> list[complex] | None:
    """Return the places of all critical values.

    The new ones last; None where the new pair is real.
    """
    if not family.of_orbits:
        own = critical_eigenvalues(family, max(found.square, 0.0))
        rest = without(found.multipliers, own)
        if kind in (Kind.CUSP, Kind.GENERALISED_HOPF):
            return own
        if kind is Kind.BOGDANOV_TAKENS:
            return [0j, 0j]
        if kind is Kind.ZERO_HOPF and family.kind is Kind.HOPF:
            return [*own, 0j]
        pair = _upper(rest, lambda x: abs(x.real))
        return None if pair is None else [*own, complex(0, pair.imag), complex(0, -pair.imag)]
    own = critical_multipliers(family, float(np.clip(found.square, -1, 1)))
    rest = without(found.multipliers, own)
    if kind in (Kind.CUSP, Kind.GENERALISED_DOUBLING):
        return own
    if kind in RESONANT:
        return [*_trivial(family), RESONANT[kind], RESONANT[kind].conjugate()]
    if kind is Kind.FOLD_FLIP:
        return [*own, (-1.0 if family.kind is Kind.FOLD else 1.0) + 0j]
    if family.kind is Kind.NEIMARK_SACKER and kind is not Kind.DOUBLE_NEIMARK_SACKER:
        return [*own, (1.0 if kind is Kind.FOLD_NEIMARK_SACKER else -1.0) + 0j]
    pair = _upper(rest, lambda x: abs(abs(x) - 1))
    return None if pair is None else [*own, pair / abs(pair), pair.conjugate() / abs(pair)]


def _upper(values: Complex, away: Callable[[complex], float]) -> complex | None:
    """Return the critical value in the upper half plane.

    The one nearest to the circle or axis; None where all are real.
    """
    # Rounding gives real values imaginary parts relative to the largest.
    size = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    pairs = [complex(x) for x in values if x.imag > 1e-7 * size]
    return min(pairs, key=away) if pairs else None


def _distance(values: Complex, targets: list[complex]) -> float:
    """Return the distance of values from their targets.

    The largest distance of the symmetric functions of the nearest values, in groups of equal targets.
    """
    rest, worst = values, 0.0
    groups: dict[complex, int] = {}
    for target in targets:
        near = next((g for g in groups if abs(g - target) < 1e-6), target)
        groups[near] = groups.get(near, 0) + 1
    for target, count in groups.items():
        order = np.argsort(np.abs(rest - target), kind="stable")
        if order.size < count:
            return float("inf")
        gaps = rest[order[:count]] - target
        rest = np.delete(rest, order[:count])
        worst = max([worst, *(abs(c) for c in np.poly(gaps)[1:])])
    return float(worst)
