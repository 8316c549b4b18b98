"""The certificate rule: a point is labelled only where its multipliers can be trusted to say so."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.criteria import REAL, readings, upper_pairs, without_trivial
from kapitza.continuation.cycles import rounding_defect
from kapitza.continuation.locate import ACCEPTED
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import Node, tangent_through
from kapitza.errors import KapitzaError
from kapitza.orbits.of_models import Monodromy, certificate, log_determinant, volume_change

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

FAR = 0.3
"""Distance beyond which the critical multiplier at a zero of a test function has nothing to do with it."""

NEAR_BRANCHING = 1e-4
"""Distance of a multiplier from 1 at a branch point, which is bracketed only."""


def judged_orbit(
    family: Any, kind: Kind, node: Node, first: Node, last: Node, rank: int | None = None
) -> Bifurcation | None:
    """The bifurcation at a located node, or None where the zero of the test function means something else.

    rank: which of the pairs, ordered by modulus, crosses the circle.
    """
    exact = family.certified(node.at)
    spectra = [readings(end).multipliers for end in (first, last)]
    if not all(_orientation_kept(each, node, family) for each in (*spectra, exact.multipliers)):
        return None
    critical = _critical(kind, exact.multipliers, family.autonomous)
    if rank is not None:
        pair = upper_pairs(exact.multipliers)[rank]
        critical = int(np.argmin(np.abs(exact.multipliers - pair))), 0j
    if critical is None:
        return None
    index, target = critical
    value = complex(exact.multipliers[index])
    distance = abs(abs(value) - 1) if kind is Kind.NEIMARK_SACKER else abs(value - target)
    if distance > (1e-2 if kind is Kind.BRANCH_POINT else FAR):
        return None
    defect = multiplier_defect(family, node, exact)
    allowed = max(10 * defect, NEAR_BRANCHING if kind is Kind.BRANCH_POINT else ACCEPTED)
    clear = all(_ends_clear(kind, end, family.autonomous, defect) for end in (first, last))
    verified = bool(np.isfinite(defect) and distance <= allowed and clear)
    vector = exact.right[:, index]
    label, half = _label(family, kind, node, vector)
    angle = float(abs(np.angle(value))) if kind is Kind.NEIMARK_SACKER else float("nan")
    multipliers = exact.multipliers**2 if half else exact.multipliers
    return Bifurcation(
        kind=label,
        model=family.model,
        parameter=family.free[0],
        value=node.value,
        point=family.section_point(node.z),
        period=family.full_period(node.z),
        repeats=family.full_repeats,
        multipliers=multipliers,
        critical=value,
        verified=verified,
        defect=defect,
        distance=float(distance),
        vector=np.asarray(vector.real if abs(value.imag) < REAL else vector),
        frequency=angle,
        half=half,
        span=family.span,
        offset=family.offset,
        values=family.values(node.z),
        note="" if verified else _doubt(defect, distance, allowed, clear),
        tangent=tangent_through(first, last, node) if kind is Kind.BRANCH_POINT else None,
    )


def _orientation_kept(multipliers: Complex, node: Node, family: Any) -> bool:
    """Is the product of the multipliers positive, as that of every smooth flow? Elsewhere they are rounding errors."""
    sizes = np.abs(multipliers)
    # A multiplier far below the largest one has no sign of its own.
    if family.model.is_map or node.at.events or family.closing is not None or sizes.min() < 1e-8 * sizes.max():
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
    """Index and target of the multiplier that a label is about; None when there is none."""
    if not np.isfinite(multipliers).all():
        return None
    places = np.arange(multipliers.size)
    if autonomous:
        trivial = int(np.argmin(np.abs(multipliers - 1)))
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
    """Is the multiplier at an end of the step further from the circle than its defect?"""
    multipliers = readings(node).multipliers
    rest = without_trivial(multipliers) if autonomous else multipliers
    if not rest.size or not np.isfinite(defect):
        return True
    if kind is Kind.NEIMARK_SACKER:
        away = np.abs(np.abs(rest) - 1).min()
    else:
        away = np.abs(rest - (-1.0 if kind is Kind.DOUBLING else 1.0)).min()
    return bool(away > defect)


def multiplier_defect(family: Any, node: Node, exact: Monodromy) -> float:
    """Relative defect of the multipliers at a node: trivial multiplier, and determinant against ∫ trace."""
    at = node.at
    if family.model.is_map:
        return rounding_defect(at.segments)
    try:
        loop = family.loop(node.z, at)
        problem = family.problem.at(at.vector, at.period)
        change = volume_change(problem, loop, at.events)
    except KapitzaError:
        return float("nan")
    trust = certificate(exact.multipliers, log_determinant(at.segments), change, family.autonomous)
    return trust.defect


def _label(family: Any, kind: Kind, node: Node, vector: Complex) -> tuple[Kind, bool]:
    """The name that users know: -1 of a half map is a pitchfork of the whole one."""
    half = family.closing is not None
    if half and kind is Kind.DOUBLING:
        return Kind.PITCHFORK, True
    if kind is Kind.BRANCH_POINT and family.breaks_symmetry(node, vector):
        return Kind.PITCHFORK, half
    return kind, half
