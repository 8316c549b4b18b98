"""Types of periodic orbits, shared by data and models.

The functions `distance` and `minimal_period` compare orbits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.display import Shown
from kapitza.base.lazy_fields import as_computed, deferrable
from kapitza.base.part_fields import Inside, with_parts
from kapitza.errors import Status

if TYPE_CHECKING:
    import pandas as pd


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
    """Relative defects that bound the trust in multipliers.

    Each entry is a relative defect; NaN where the check does not apply.
    """

    trivial: float = float("nan")
    determinant: float = float("nan")
    agreement: float = float("nan")

    @property
    def defect(self) -> float:
        known = [x for x in (self.trivial, self.determinant, self.agreement) if np.isfinite(x)]
        return max(known, default=float("nan"))


@runtime_checkable
class Loop(Protocol):
    """Closed curve in state space with continuous angles.

    x(s + 1) = x(s) + 2π·winding.
    period: T; winding: (n,) turns per period; call it with fractions s (M,) in [0, 1] for states (M, n).
    """

    @property
    def period(self) -> float: ...

    @property
    def winding(self) -> Array: ...

    def __call__(self, fractions: Array) -> Array: ...


@runtime_checkable
class Influence(Protocol):
    """Effect of single noisy samples on an orbit.

    Orbits that share samples have correlated errors.
    """

    def physical_root(self) -> tuple[NDArray[np.intp], Array]:
        """Return the samples and a root of the covariance.

        They are samples (S,) and the root (p n + n, S, n) of the covariance of points and |multipliers| that their
        noise causes.
        """
        ...


@dataclass(frozen=True)
class Stretch:
    """Where a record follows an orbit for one period.

    first, last: rows of the record, `last` being the first one after the period. start: time of the first row after
    the excitation began [s], where the profile keeps that time; 0 where the profile begins on the section.
    scatter: of the images about the local maps, as a share of the attractor; neighbours: record points near each point.
    together: samples for which the return holds; chance: share of such returns that unrelated stretches give.
    """

    first: int
    last: int
    start: float = 0.0
    scatter: float = float("nan")
    neighbours: tuple[int, ...] = ()
    together: int = 0
    chance: float = float("nan")


@dataclass(frozen=True)
class Crossings:
    """Recorded channels along an orbit of a free motion.

    The section of a free motion has separate coordinates.
    channels: c names. values: (p, c) at the crossings of the section, at times (p,), the first at 0 [s]. covariance:
    (p c + 1, p c + 1) of the values at these times, row-major, and of the period.
    path_times (M,), path_values (M, c): the whole cycle, each instant averaged over neighbouring stretches.
    """

    channels: tuple[str, ...]
    values: Array
    times: Array
    covariance: Array
    path_times: Array
    path_values: Array


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives by the parameters `names` (k).

    points: (p, n, k) of the section points (PERIODIC 5.9 for the discretised methods, 5.15 for shooting); period: (k,);
    multipliers: (n, k), complex, NaN where two multipliers coincide.
    """

    names: tuple[str, ...]
    points: Array
    period: Array | None
    multipliers: NDArray[np.complex128] | None


@dataclass(frozen=True)
class SolverReport:
    """How a solver came to an orbit.

    size: segments, elements, grid points or harmonics of the discretisation. history: one row per Newton iteration.
    gap: largest gap between the segments, in units of the states; change: of the orbit, relative, when the
    discretisation was last refined; tail: share of the highest harmonics (NaN where they do not apply).
    switching_times: (s,) fractions of the period; events: what the flow located on the way; stiff: the contraction over
    an element is too strong for the sum of determinants to be checked.
    """

    size: int = 0
    history: tuple[Any, ...] = ()
    gap: float = float("nan")
    change: float = float("nan")
    tail: float = float("nan")
    switching_times: Array | None = None
    events: tuple[Any, ...] = ()
    stiff: bool = False

    @property
    def iterations(self) -> int:
        return len(self.history)


@dataclass(frozen=True)
class OrbitMeasurement:
    """Measured properties of an orbit.

    covariance: (p n, p n) of the points, row-major; multiplier_deviation: standard deviation of |multipliers|.
    joint_covariance: (p n + n, p n + n) of the points, row-major, and the moduli of the multipliers.
    visits: how many close returns of the record support it (0 for orbits of a model).
    period_deviation: standard deviation of the period [s], None where it is known or not estimated.
    section_phase: time within the excitation period at which the points lie [s], None where it is not given (0).
    stretch: of the record it was found in; crossings: channels along an orbit of a free motion; influence: of single
    samples on it.
    """

    covariance: Array | None = None
    multiplier_deviation: Array | None = None
    visits: int = 0
    period_deviation: float | None = None
    joint_covariance: Array | None = None
    section_phase: float | None = None
    stretch: Stretch | None = None
    crossings: Crossings | None = None
    influence: Influence | None = field(default=None, repr=False)


@dataclass(frozen=True)
class OrbitSolution:
    """Properties of an orbit that a solver computes.

    loop: the curve it found; certificate: how far the multipliers can be trusted; sensitivity: derivatives by
    parameters; solver: how it came to the orbit.
    """

    loop: Loop | None = field(default=None, repr=False)
    certificate: Certificate | None = deferrable(None)
    sensitivity: Sensitivity | None = deferrable(None)
    solver: SolverReport | None = deferrable(None)

    def __getstate__(self) -> dict[str, Any]:
        return as_computed(self)


@dataclass(frozen=True)
class PeriodicOrbit(Shown):
    """A periodic orbit of a model or of data.

    states: names of the state variables, such as ("phi", "phi'").
    points: (p, n) points on the section, one per excitation period (one row for autonomous models, the start).
    period: the time T after which the motion repeats; for forced models `repeats` excitation periods.
    winding: turns per period, one integer per state (0 where the state is not an angle).
    multipliers: Floquet multipliers, largest modulus first; None when not computed.
    closure: |x(T) - x(0)| with angles on the circle, relative to the size of the orbit.
    parameters: the parameter values at which it is an orbit (empty for orbits found in data).
    partner: position in its set of its image under the symmetry of the states; None where there is none.
    code: letters of the points where the model has a partition; stability: "stable", "unstable", "unknown"; profile:
    the motion over one period; method, status, notes: how it was found, how that ended, and what else is worth knowing.

    Two parts: measured (`OrbitMeasurement`: covariance, visits, stretch of the record, ...) and solution
    (`OrbitSolution`: loop, certificate, sensitivity, solver). Their fields are attributes of the orbit too, and may be
    given by name when it is made or changed: ``orbit.with_(covariance=...)``.

    Of an orbit that `solve_orbit` found, winding, multipliers, closure, code, stability, profile, certificate,
    sensitivity and solver are computed when one of them is first used, and kept; saved and pickled orbits have
    them.

    Examples
    --------
    >>> import kapitza as kz
    >>> orbit = kz.solve_orbit(kz.library.duffing())
    >>> orbit.stability, orbit.repeats, bool(orbit.closure < 1e-12)
    ('stable', 1, True)
    """

    states: tuple[str, ...]
    points: Array
    period: float
    repeats: int | None = None
    winding: tuple[int, ...] = deferrable(())
    multipliers: NDArray[np.complex128] | None = deferrable(None)
    closure: float = deferrable(float("nan"))
    code: str = deferrable("")
    stability: str = deferrable("unknown")
    status: Status = Status.CONVERGED
    profile: Profile | None = deferrable(None)
    parameters: Mapping[str, float] = field(default_factory=dict)
    method: str = ""
    notes: tuple[str, ...] = ()
    partner: int | None = None
    measured: OrbitMeasurement = field(default_factory=OrbitMeasurement)
    solution: OrbitSolution = field(default_factory=OrbitSolution)

    covariance = Inside["Array | None"]("measured")
    multiplier_deviation = Inside["Array | None"]("measured")
    visits = Inside[int]("measured")
    period_deviation = Inside["float | None"]("measured")
    joint_covariance = Inside["Array | None"]("measured")
    section_phase = Inside["float | None"]("measured")
    stretch = Inside["Stretch | None"]("measured")
    crossings = Inside["Crossings | None"]("measured")
    influence = Inside["Influence | None"]("measured")
    loop = Inside["Loop | None"]("solution")
    certificate = Inside["Certificate | None"]("solution")
    sensitivity = Inside["Sensitivity | None"]("solution")
    solver = Inside["SolverReport | None"]("solution")

    def with_(self, **changes: Anything) -> PeriodicOrbit:
        """Return the orbit with other values of fields."""
        return with_parts(self, changes)

    def __getstate__(self) -> dict[str, Any]:
        # Deferred fields refer to compiled code, which cannot leave its process: compute them before pickling.
        as_computed(self.solution)
        return as_computed(self)

    def plot(self, **settings: Anything) -> Any:
        from kapitza.report import plot_orbit

        return plot_orbit(self, **settings)


def distance(first: PeriodicOrbit, second: PeriodicOrbit, angles: Sequence[bool], scale: Array | float = 1.0) -> float:
    """Return the largest distance between section points of orbits.

    Minimised over cyclic shifts; infinite when the number of points differs. `scale` divides each state first.
    """
    if first.points.shape != second.points.shape:
        return float("inf")
    # The first point of a cycle is arbitrary, so the shift that fits best counts.
    shifts = [
        np.linalg.norm(difference(np.roll(second.points, k, axis=0), first.points, angles) / scale, axis=1).max()
        for k in range(len(first.points))
    ]
    return float(min(shifts))


def minimal_period(points: Array, angles: Sequence[bool], tolerance: float) -> int:
    """Return the minimal period of a cycle of points.

    It is the smallest divisor q of p with points[i + q] = points[i] within the tolerance.
    """
    count = len(points)
    for q in range(1, count):
        # A shorter period must divide the number of points.
        if count % q == 0:
            gap = difference(np.roll(points, -q, axis=0), points, angles)
            if np.abs(gap).max() <= tolerance:
                return q
    return count


@dataclass(frozen=True)
class OrbitSet(Shown, Sequence[PeriodicOrbit]):
    """Orbits sorted by period, with the rejected candidates.

    status: INTERRUPTED when the search was stopped; the orbits are those found by then. angles: which states live on
    a circle; message: a summary of the search; source: the record, or the report of a census.
    section_points: (M, n) points of the record on the section, thinned, for pictures.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    >>> orbits = kz.find_orbits(model, max_period=3, region={"x": (-2, 2)}, starts=256)
    >>> len(orbits), len(orbits.select(period=3))
    (5, 2)
    >>> list(orbits.table()["period"])
    [1, 1, 2, 3, 3]
    """

    orbits: tuple[PeriodicOrbit, ...]
    angles: tuple[bool, ...] = ()
    rejected: tuple[tuple[PeriodicOrbit, str], ...] = ()
    message: str = ""
    source: Anything = field(default=None, repr=False, compare=False)
    section_points: Array | None = field(default=None, repr=False, compare=False)
    status: Status = Status.CONVERGED

    def __len__(self) -> int:
        return len(self.orbits)

    @overload
    def __getitem__(self, index: int) -> PeriodicOrbit: ...
    @overload
    def __getitem__(self, index: slice) -> OrbitSet: ...
    def __getitem__(self, index: int | slice) -> PeriodicOrbit | OrbitSet:
        if isinstance(index, slice):
            return self._chosen(range(len(self.orbits))[index])
        return self.orbits[index]

    def __iter__(self) -> Iterator[PeriodicOrbit]:
        return iter(self.orbits)

    def select(
        self,
        *,
        period: int | Sequence[int] | None = None,
        code: str | Sequence[str] | None = None,
        positions: Sequence[int] | None = None,
    ) -> OrbitSet:
        """Select orbits by period, code and position.

        Periods count points; a code matches in any rotation; positions are those in the set.
        """
        periods = None if period is None else {int(p) for p in np.atleast_1d(np.asarray(period))}
        codes = None if code is None else {code} if isinstance(code, str) else set(code)
        turned = None if codes is None else {c[k:] + c[:k] for c in codes for k in range(max(len(c), 1))}
        return self._chosen(
            k
            for k, orbit in enumerate(self.orbits)
            if (periods is None or len(orbit.points) in periods)
            and (turned is None or orbit.code in turned)
            and (positions is None or k in positions)
        )

    def _chosen(self, positions: Iterable[int]) -> OrbitSet:
        """Return the orbits at these positions.

        Partners, stored as positions, are renumbered; a partner that was left out becomes None.
        """
        place = {old: new for new, old in enumerate(positions)}
        orbits = []
        for old in place:
            orbit = self.orbits[old]
            if orbit.partner is not None:
                orbit = orbit.with_(partner=place.get(orbit.partner))
            orbits.append(orbit)
        return replace(self, orbits=tuple(orbits))

    def table(self) -> pd.DataFrame:
        """Return a table with one row per orbit.

        The columns are period, code, winding, first point, multipliers, deviations, visits and partner.
        """
        import pandas as pd

        # Columns of an empty set are those of a table with rows.
        empty = {"period": [], "time [s]": [], "code": [], "stability": [], "closure": [], "visits": []}
        table = pd.DataFrame([_table_row(orbit) for orbit in self.orbits] or empty)
        if any(orbit.partner is not None for orbit in self.orbits):
            table["partner"] = pd.array([orbit.partner for orbit in self.orbits], dtype="Int64")
        return table

    def plot(self, **settings: Anything) -> Any:
        from kapitza.report import plot_orbits

        return plot_orbits(self, **settings)


def _table_row(orbit: PeriodicOrbit) -> dict[str, Any]:
    row: dict[str, Any] = {"period": len(orbit.points), "time [s]": orbit.period, "code": orbit.code}
    for name, turns in zip(orbit.states, orbit.winding, strict=False):
        if turns:
            row[f"turns of {name}"] = turns
    deviation = None if orbit.covariance is None else np.sqrt(np.maximum(np.diag(orbit.covariance), 0.0))
    for i, name in enumerate(orbit.states):
        row[name] = orbit.points[0, i]
        if deviation is not None:
            row[f"sd {name}"] = deviation[i]
    if orbit.multipliers is not None:
        for i, multiplier in enumerate(orbit.multipliers):
            # Rounding leaves imaginary parts in real multipliers.
            real = abs(multiplier.imag) <= 1e-12 * max(1.0, abs(multiplier))
            row[f"multiplier {i + 1}"] = float(multiplier.real) if real else complex(multiplier)
            if orbit.multiplier_deviation is not None:
                row[f"sd |multiplier {i + 1}|"] = orbit.multiplier_deviation[i]
    row |= {"stability": orbit.stability, "closure": orbit.closure, "visits": orbit.visits}
    return row
