"""Certificate rule for labels of bifurcations.

A point is labelled only where its multipliers can be trusted.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array, Complex
from kapitza.continuation.criteria import REAL, upper_pairs, without_trivial
from kapitza.continuation.family import Node, Orbit
from kapitza.continuation.locate import ACCEPTED
from kapitza.continuation.nouns import Bifurcation, Critical, Kind, Proof, ReturnMap
from kapitza.continuation.path import tangent_through
from kapitza.continuation.symmetry import linear_symmetries
from kapitza.errors import KapitzaError
from kapitza.orbits.of_models import Monodromy, certificate, log_determinant, volume_change

FAR = 0.3
"""Distance beyond which the critical multiplier at a zero of a test function has nothing to do with it."""

NEAR_BRANCHING = 1e-4
"""Distance of a multiplier from 1 at a branch point, which is bracketed only."""


def judged_orbit(
    orbit: Orbit, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None
) -> Bifurcation | None:
    """Return the bifurcation at a located node, if any.

    rank: which of the pairs, ordered by modulus, crosses the circle.
    """
    exact, autonomous = orbit.certified(), orbit.frame.autonomous
    spectra = [end.readings.multipliers for end in (first, last)]
    if not all(_orientation_kept(each, orbit) for each in (*spectra, exact.multipliers)):
        return None
    critical = _critical(kind, exact.multipliers, autonomous)
    if rank is not None and kind is Kind.NEIMARK_SACKER:
        pair = upper_pairs(exact.multipliers)[rank]
        critical = int(np.argmin(np.abs(exact.multipliers - pair))), 0j
    if critical is None:
        return None
    index, target = critical
    value = complex(exact.multipliers[index])
    distance = abs(abs(value) - 1) if kind is Kind.NEIMARK_SACKER else abs(value - target)
    defect, far = orbit.defect(exact), 1e-2 if kind is Kind.BRANCH_POINT else FAR
    # A fold is where the parameter turns. Near a homoclinic orbit its multiplier changes by 1e9 within a step: the
    # parameter cannot be given precisely enough to confirm it.
    unresolved = kind is Kind.FOLD and distance <= 1e-6 * max(float(np.abs(each).max()) for each in spectra)
    if distance > far and not unresolved:
        return None
    allowed = max(10 * defect, NEAR_BRANCHING if kind is Kind.BRANCH_POINT else ACCEPTED)
    clear = all(_ends_clear(kind, end, autonomous, defect) for end in (first, last))
    verified = bool(np.isfinite(defect) and distance <= min(allowed, far) and clear)
    vector = exact.right[:, index]
    label, half = _label(orbit, kind, vector)
    angle = float(abs(np.angle(value))) if kind is Kind.NEIMARK_SACKER else float("nan")
    # The whole orbit is the half map twice.
    multipliers = exact.multipliers**2 if half else exact.multipliers
    return Bifurcation(
        kind=label,
        model=orbit.frame.model,
        parameter=orbit.frame.free[0],
        value=node.value,
        point=orbit.section_point(),
        period=orbit.full_period,
        repeats=orbit.full_repeats,
        multipliers=multipliers,
        crossing=Critical(
            value,
            np.asarray(vector.real if abs(value.imag) < REAL else vector),
            angle,
            tangent=tangent_through(first, last, node) if kind is Kind.BRANCH_POINT else None,
        ),
        proof=Proof(verified, defect, float(distance), "" if verified else _doubt(defect, distance, allowed, clear)),
        map=ReturnMap(half, orbit.span, orbit.offset),
        values=orbit.values,
        sizes=orbit.frame.sizes,
    )


def _orientation_kept(multipliers: Complex, orbit: Orbit) -> bool:
    """Return whether the product of multipliers is positive.

    Elsewhere they are rounding errors.
    """
    sizes = np.abs(multipliers)
    # The sign of a multiplier far below the largest one is rounding.
    if orbit.frame.model.is_map or orbit.events or orbit.closing is not None or sizes.min() < 1e-8 * sizes.max():
        return True
    # Pairs of complex ones have positive products.
    return bool(np.prod(np.sign(multipliers.real[multipliers.imag == 0])) > 0)


def _doubt(defect: float, distance: float, allowed: float, clear: bool) -> str:
    if not np.isfinite(defect):
        return "The multipliers carry no certificate here (impacts or stick): compare with another method."
    if distance > allowed:
        return f"The critical multiplier is {distance:.1e} away, more than its defect {defect:.1e} explains."
    return (
        f"The multipliers at the ends of the step are within their defect {defect:.1e} of the circle."
        if not clear
        else ""
    )


def _critical(kind: Kind, multipliers: Complex, autonomous: bool) -> tuple[int, complex] | None:
    """Return index and target of the critical multiplier."""
    if not np.isfinite(multipliers).all():
        return None
    places = np.arange(multipliers.size)
    if autonomous:
        trivial = int(np.argmin(np.abs(multipliers - 1)))
        # The trivial multiplier is always 1 and never critical.
        places = np.delete(places, trivial)
    if not places.size:
        return None
    if kind is Kind.NEIMARK_SACKER:
        pairs = [i for i in places if multipliers[i].imag > REAL]
        if not pairs:
            return None
        best = min(pairs, key=lambda i: abs(abs(multipliers[i]) - 1))
        return (int(best), 0j) if abs(abs(multipliers[best]) - 1) < 1e-3 else None
    target = -1.0 if kind is Kind.DOUBLING else 1.0
    best = int(min(places, key=lambda i: abs(multipliers[i] - target)))
    return best, complex(target)


def _ends_clear(kind: Kind, node: Node, autonomous: bool, defect: float) -> bool:
    """Return whether an end is clear of the circle."""
    multipliers = node.readings.multipliers
    rest = without_trivial(multipliers) if autonomous else multipliers
    if not rest.size or not np.isfinite(defect):
        return True
    if kind is Kind.NEIMARK_SACKER:
        away = np.abs(np.abs(rest) - 1).min()
    else:
        away = np.abs(rest - (-1.0 if kind is Kind.DOUBLING else 1.0)).min()
    return bool(away > defect)


def rounding_defect(segments: Array) -> float:
    """Return the rounding error of exact derivatives."""
    count, n = segments.shape[:2]
    return 1e-15 * count * n


def certified_defect(orbit: Orbit, exact: Monodromy) -> float:
    """Return the relative defect of multipliers.

    It is that of the trivial multiplier, and of det against ∫ trace.
    """
    try:
        problem = orbit.frame.problem.at(orbit.vector, orbit.period)
        change = volume_change(problem, orbit.loop(), orbit.events)
    except KapitzaError:
        return float("nan")
    return certificate(exact.multipliers, log_determinant(orbit.segments), change, orbit.frame.autonomous).defect


def _label(orbit: Orbit, kind: Kind, vector: Complex) -> tuple[Kind, bool]:
    """Return the name that users know.

    -1 of a half map is a pitchfork of the whole one.
    """
    half = orbit.closing is not None
    if half and kind is Kind.DOUBLING:
        return Kind.PITCHFORK, True
    if kind is Kind.BRANCH_POINT and _breaks_symmetry(orbit, vector):
        return Kind.PITCHFORK, half
    return kind, half


def _breaks_symmetry(orbit: Orbit, vector: Complex) -> bool:
    """Return whether the critical direction breaks a symmetry."""
    for symmetry in linear_symmetries(orbit.frame.model):
        if symmetry.shift:
            continue
        point, moved = orbit.start(), symmetry.matrix @ orbit.start()
        direction = np.real(vector)
        unchanged = np.abs((moved - point) / orbit.frame.sizes).max() < 1e-6
        turned = np.abs(symmetry.matrix @ direction + direction).max() < 1e-4 * np.abs(direction).max()
        if unchanged and turned:
            return True
    return False
