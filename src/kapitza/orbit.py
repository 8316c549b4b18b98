"""Periodic orbits: the noun that data and models share, and what compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import DataError, Status

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Profile:
    """An orbit sampled over one period.

    times: (N,) increasing, from 0 up to but not including the period.
    states: (N, n), angles continuous (not wrapped), column order of `PeriodicOrbit.states`.
    """

    times: Array
    states: Array


@dataclass(frozen=True)
class Certificate:
    """How far the multipliers can be trusted: each entry is a relative defect, NaN when it does not apply."""

    trivial: float = float("nan")
    determinant: float = float("nan")
    agreement: float = float("nan")

    @property
    def defect(self) -> float:
        known = [x for x in (self.trivial, self.determinant, self.agreement) if np.isfinite(x)]
        return max(known, default=float("nan"))


@dataclass(frozen=True)
class PeriodicOrbit:
    """One periodic orbit of a model or found in data.

    states: names of the state variables, such as ("phi", "phi'").
    points: (p, n) points on the section, one per excitation period (one row for autonomous models, the start).
    period: the time T after which the motion repeats; for forced models `repeats` excitation periods.
    winding: turns per period, one integer per state (0 where the state is not an angle).
    multipliers: Floquet multipliers, largest modulus first; None when not computed.
    closure: |x(T) - x(0)| with angles on the circle, relative to the size of the orbit.
    covariance: (p n, p n) of the points, row-major; multiplier_deviation: standard deviation of |multipliers|.
    parameters: the parameter values at which it is an orbit (empty for orbits found in data).
    visits: how many close returns of the record support it (0 for orbits of a model).
    """

    states: tuple[str, ...]
    points: Array
    period: float
    repeats: int | None = None
    winding: tuple[int, ...] = ()
    multipliers: NDArray[np.complex128] | None = None
    closure: float = float("nan")
    code: str = ""
    stability: str = "unknown"
    status: Status = Status.CONVERGED
    profile: Profile | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    certificate: Certificate | None = None
    covariance: Array | None = None
    multiplier_deviation: Array | None = None
    visits: int = 0
    method: str = ""
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def with_(self, **changes: Any) -> PeriodicOrbit:
        return replace(self, **changes)

    def plot(self, **settings: Any) -> Any:
        from kapitza.report import plot_orbit

        return plot_orbit(self, **settings)


def circle_difference(a: Array, b: Array, angles: Sequence[bool] | NDArray[np.bool_]) -> Array:
    """a - b with the columns marked in `angles` brought into [-π, π)."""
    difference = np.asarray(a, float) - np.asarray(b, float)
    on_circle = np.asarray(angles, bool)
    difference[..., on_circle] = (difference[..., on_circle] + np.pi) % (2 * np.pi) - np.pi
    return difference


def distance(first: PeriodicOrbit, second: PeriodicOrbit, angles: Sequence[bool], scale: Array | float = 1.0) -> float:
    """Largest distance between the section points of two orbits, minimised over cyclic shifts.

    Infinite when the number of points differs. `scale` divides each state first.
    """
    if first.points.shape != second.points.shape:
        return float("inf")
    shifts = [
        np.linalg.norm(circle_difference(np.roll(second.points, k, axis=0), first.points, angles) / scale, axis=1).max()
        for k in range(len(first.points))
    ]
    return float(min(shifts))


def minimal_period(points: Array, angles: Sequence[bool], tolerance: float) -> int:
    """Smallest divisor q of p with points[i + q] = points[i] within the tolerance."""
    count = len(points)
    for q in range(1, count):
        if count % q == 0:
            gap = circle_difference(np.roll(points, -q, axis=0), points, angles)
            if np.abs(gap).max() <= tolerance:
                return q
    return count


@dataclass(frozen=True)
class OrbitSet(Sequence[PeriodicOrbit]):
    """Orbits in the order of their period, with what was rejected and why."""

    orbits: tuple[PeriodicOrbit, ...]
    angles: tuple[bool, ...] = ()
    rejected: tuple[tuple[PeriodicOrbit, str], ...] = ()
    message: str = ""
    source: Any = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.orbits)

    @overload
    def __getitem__(self, index: int) -> PeriodicOrbit: ...
    @overload
    def __getitem__(self, index: slice) -> OrbitSet: ...
    def __getitem__(self, index: int | slice) -> PeriodicOrbit | OrbitSet:
        if isinstance(index, slice):
            return replace(self, orbits=self.orbits[index])
        return self.orbits[index]

    def __iter__(self) -> Iterator[PeriodicOrbit]:
        return iter(self.orbits)

    def plot(self, **settings: Any) -> Any:
        from kapitza.report import plot_orbits

        return plot_orbits(self, **settings)


@singledispatch
def find_orbits(source: Any, max_period: int = 6, **settings: Any) -> OrbitSet:
    """All periodic orbits of a model in a region, or all that a record visited.

    Registered by `kapitza.periodic` for models (a census by Newton iterations from many starts) and by
    `kapitza.orbits` for records (close returns and local maps).
    """
    raise DataError(f"find_orbits works on a Model or a Record, not on {type(source).__name__}.")
