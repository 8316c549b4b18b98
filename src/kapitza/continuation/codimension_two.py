"""Points on curves of bifurcations where these change character: cusps, strong resonances, degenerate doublings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.continuation.motion import OrbitFamily
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import Node

Array = NDArray[np.float64]

CUBIC_STEP = 1e-2
"""Of the sizes of the states: step of the third differences in the cubic coefficient of a doubling."""


@dataclass(frozen=True)
class CurveReadings:
    """Test functions on a curve.

    quadratic: w·F_uu v v on a curve of folds (0 at a cusp); product: w·v of the unit null vectors (0 where the critical
    multiplier is double: 1:1 on folds, 1:2 on doublings); cubic: coefficient of the normal form of a doubling; angle:
    sin φ of a Neimark-Sacker pair, or the frequency at Hopf points.
    """

    multipliers: NDArray[np.complex128]
    quadratic: float = float("nan")
    product: float = float("nan")
    cubic: float = float("nan")
    angle: float = float("nan")
    angle_value: float = float("nan")
    sequence: str = ""


def curve_readings(node: Node) -> CurveReadings:
    family, at = node.family, node.at
    inner = family.inner
    own, angle = family.split(node.z)
    point = at.inner
    multipliers = inner.multipliers(point) if isinstance(inner, OrbitFamily) else inner.eigenvalues(point)
    if family.kind is Kind.HOPF:
        return CurveReadings(multipliers, angle=angle, angle_value=angle)
    if family.kind is Kind.NEIMARK_SACKER:
        return CurveReadings(multipliers, angle=float(np.sin(angle)), angle_value=angle)
    n = inner.size
    v = at.v / np.linalg.norm(at.v[:n] / inner.sizes)
    w = at.w / np.linalg.norm(at.w[:n] * inner.sizes)
    product = float(w[:n] @ v[:n])
    if family.kind is Kind.FOLD:
        second = family._second(own, v)
        return CurveReadings(multipliers, quadratic=float(w @ (second[:, : v.size] @ v)), product=product)
    return CurveReadings(multipliers, product=product, cubic=cubic_coefficient(inner, own, point, v, w))


def cubic_coefficient(inner: OrbitFamily, own: Array, at: Any, v: Array, w: Array) -> float:
    """w·[C(v, v, v) + 3 B(v, (1 - M)⁻¹ B(v, v))]/6 of the return map at a doubling: its sign tells on which side the
    doubled orbits live (Kuznetsov, Elements of Applied Bifurcation Theory, 5.4.2); NaN for autonomous orbits."""
    if inner.autonomous:
        return float("nan")
    n, step = inner.size, CUBIC_STEP
    matrix = inner.matrix(at)

    def image(direction: Array, amount: float) -> Array:
        moved = own.copy()
        moved[:n] += amount * direction
        return inner.residual(moved) + moved[:n]

    def pairs(direction: Array, most: int) -> tuple[list[Array], list[Array]]:
        """Even and odd parts (twice) of the map at 1, 2, … steps along a direction."""
        there = [(image(direction, k * step), image(direction, -k * step)) for k in range(1, most + 1)]
        return [a + b for a, b in there], [a - b for a, b in there]

    def second(even: list[Array]) -> Array:
        return (16 * even[0] - even[1] - 30 * centre) / (12 * step**2)

    centre = image(v, 0.0)
    even, odd = pairs(v, 3)
    # Both differences are of fourth order: next to the zero of the cubic term the fifth derivative is what is left.
    cubic = (8 * odd[1] - 13 * odd[0] - odd[2]) / (8 * step**3)
    shift = np.linalg.solve(np.eye(n) - matrix, second(even))
    size = float(np.linalg.norm(shift / inner.sizes))
    mixed = np.zeros(n)
    if size > 0:
        u = shift / size
        mixed = size * (second(pairs((v + u) / 2, 2)[0]) - second(pairs((v - u) / 2, 2)[0]))
    return float(w @ (cubic + 3 * mixed)) / 6


def curve_tests(kind: Kind) -> tuple[tuple[Kind, Callable[[Any], float]], ...]:
    """Which codimension-two points a curve of this kind can have."""
    if kind is Kind.FOLD:
        return ((Kind.CUSP, lambda r: r.quadratic), (Kind.RESONANCE_1_1, lambda r: r.product))
    if kind in (Kind.DOUBLING, Kind.PITCHFORK):
        return ((Kind.RESONANCE_1_2, lambda r: r.product), (Kind.GENERALISED_DOUBLING, lambda r: r.cubic))
    if kind is Kind.NEIMARK_SACKER:
        return ((Kind.RESONANCE_1_1, lambda r: r.angle),)
    return ((Kind.BOGDANOV_TAKENS, lambda r: r.angle),)


def judged_on_curve(family: Any, kind: Kind, node: Node) -> Bifurcation | None:
    inner = family.inner
    own, _ = family.split(node.z)
    found = curve_readings(node)
    if family.kind is Kind.NEIMARK_SACKER and np.cos(found.angle_value) < 0:
        kind = Kind.RESONANCE_1_2
    orbit = isinstance(inner, OrbitFamily)
    critical = {Kind.FOLD: 1.0, Kind.DOUBLING: -1.0, Kind.PITCHFORK: -1.0}.get(family.kind)
    if critical is None:
        critical = np.exp(1j * found.angle_value) if orbit else 1j * found.angle_value
    target = found.multipliers - critical
    second = family.free[1]
    return Bifurcation(
        kind, family.model, family.free[0], float(own[-2]),
        inner.section_point(own) if orbit else own[: inner.size].copy(),
        inner.full_period(own) if orbit else 0.0, inner.full_repeats if orbit else None, found.multipliers,
        complex(critical), True, float("nan"), float(np.abs(target).min()), np.real(node.at.v[: inner.size]),
        values=inner.values(own), note=f"{second} = {own[-1]:.10g}",
    )  # fmt: skip
