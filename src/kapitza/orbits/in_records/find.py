"""find_orbits for records: returns, local maps, checks, bookkeeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, Task, watch
from kapitza.errors import DataError
from kapitza.orbits import OrbitMeasurement, OrbitSet, PeriodicOrbit, Stretch
from kapitza.orbits.in_records.bookkeeping import (
    Partition,
    cycle_gaps,
    default_partition,
    repeats_shorter,
    symbolic_code,
    winding_numbers,
    with_partners,
)
from kapitza.orbits.in_records.character import Character, describe_section
from kapitza.orbits.in_records.credible import credible
from kapitza.orbits.in_records.crossings import crossings_of
from kapitza.orbits.in_records.local_fit import LocalFits
from kapitza.orbits.in_records.locate import Cycles, Uncertainty, cycle_time, propagate, refine_cycles
from kapitza.orbits.in_records.neighbourhoods import (
    MOST_NEIGHBOURS,
    SAME,
    approached,
    batch_size,
    filled_windows,
)
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.preparation import require_count
from kapitza.orbits.in_records.resample import widen_by_bootstrap
from kapitza.orbits.in_records.returns import close_returns, count_visits, cycle_starts, representatives
from kapitza.orbits.in_records.section import Section
from kapitza.orbits.in_records.stable import stable_orbit

FINE_NEIGHBOURS = 2**14
"""Neighbours of the maps that locate a cycle in the end, where their memory allows."""

FINE_MEMORY = 40_000_000
"""Numbers that the maps of one cycle hold at most."""

TOLERANCE, WINDOW = 0.01, 0.02
"""Usual settings of the search, as shares of the attractor."""

WIDER = 3.0
"""Factor on both where they give no orbit in three dimensions and more: 4,000 points of a forced system of four states
have hardly any return within 1 %; within 3 % its orbits are found, within 6 % false ones beside them."""

WIDE_FROM = 3
"""Coordinates from which the search is repeated with the wider settings."""

KEEP_REJECTED = 200
"""Cycles refused that are kept with their reason: a report stays readable."""


@dataclass(frozen=True)
class SectionSearch:
    """Find orbits from close returns on a section.

    Local maps are fitted around the returns (ORBITS section 3.2).

    tolerance: a return is close when it is within this share of the attractor.
    degree, neighbours: of the local maps; neighbours is the least number a window holds.
    window, support: a point of a cycle counts as supported by `support` record points within `window` (fewer in records
    of less than 250 times as many points). Where the usual tolerance and window give no orbit on a section of three or
    more coordinates, the search is repeated with both three times as wide, and the message states it.
    noise_widths: windows are at least this many noise deviations wide. starts: returns per period that are corrected.
    partition: function from points (p, n) to p symbols; symmetry: signs of the states under the model's symmetry.

    Examples
    --------
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.parametric_pendulum(), periods=8000)
    >>> orbits = kz.find_orbits(record, max_period=2, method=kz.SectionSearch(tolerance=0.02))
    >>> len(orbits) > 0
    True
    """

    tolerance: float = TOLERANCE
    degree: int = 3
    neighbours: int = 64
    window: float = WINDOW
    support: int = 32
    noise_widths: float = 2.5
    starts: int = 4000
    partition: Partition | None = None
    symmetry: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 0.5:
            raise DataError(f"tolerance = {self.tolerance} must lie between 0 and 0.5: it is a share of the attractor.")
        if self.degree not in (1, 2, 3):
            raise DataError(f"degree = {self.degree}: local maps are linear (1), quadratic (2) or cubic (3).")
        for name, least in (("neighbours", 4), ("support", 1), ("starts", 1)):
            require_count(name, getattr(self, name), least)
        if not 0 < self.window < 1:
            raise DataError(f"window = {self.window} must lie between 0 and 1: it is a share of the attractor.")
        if not 0 <= self.noise_widths < 100:
            raise DataError(f"noise_widths = {self.noise_widths}: it counts noise deviations, 2.5 is usual.")
        if self.partition is not None and not callable(self.partition):
            raise DataError(
                f"partition = {self.partition!r}: pass a function from points (p, n) to p symbols, or leave it out."
            )

    def search(
        self, section: Section, max_period: int, monitor: Monitor | None = None, character: Character | None = None
    ) -> OrbitSet:
        return search_section(section, max_period, self, monitor, character)


@dataclass
class Ledger:
    """Orbits kept and refused so far, in scaled units."""

    kept: list[tuple[Array, PeriodicOrbit]] = field(default_factory=list)
    refused: list[tuple[PeriodicOrbit, str]] = field(default_factory=list)
    count: int = 0

    def refuse(self, orbit: PeriodicOrbit, reason: str) -> None:
        self.count += 1
        if len(self.refused) < KEEP_REJECTED:
            self.refused.append((orbit, reason))


def search_section(
    section: Section, max_period: int, settings: SectionSearch, monitor: Monitor | None = None,
    character: Character | None = None,
) -> OrbitSet:  # fmt: skip
    """Find all cycles that the section visits.

    Periods 1 … max_period are searched. character: of the section, where it is known.
    """
    require_count("max_period", max_period, 1)
    if settings.symmetry is not None and len(settings.symmetry) != section.dimension:
        raise DataError(
            f"symmetry has {len(settings.symmetry)} signs, the section {section.dimension} coordinates "
            f"({', '.join(section.states)}): give one for each."
        )
    character = character or describe_section(section, max_period, settings.tolerance)
    if character.kind == "periodic":
        return OrbitSet(
            (stable_orbit(section, character.period, settings.partition),), section.angles, message=character.sentence
        )
    if character.kind != "deterministic":
        return OrbitSet((), section.angles, message=character.sentence)
    ledger = Ledger()
    finished: list[PeriodicOrbit] = []
    others: list[tuple[PeriodicOrbit, str]] = []
    # Longer cycles take longer, in proportion to their points at the least.
    with watch(monitor, "orbits in the record", max_period * (max_period + 1) / 2) as task:
        for period in range(1, max_period + 1):
            _search_period(section, period, settings, ledger, task)
            _polish(section, period, settings, ledger, task)
            good, others = credible(section, ledger.kept)
            finished = [orbit for _, orbit in good]
            task.advance(period, f"{len(finished)} of up to {period} steps")
    for orbit, reason in others:
        ledger.refuse(orbit, reason)
    usual = (settings.tolerance, settings.window) == (TOLERANCE, WINDOW)
    if usual and not finished and section.dimension >= WIDE_FROM and not task.interrupted:
        wide = replace(settings, tolerance=WIDER * TOLERANCE, window=WIDER * WINDOW)
        found = search_section(section, max_period, wide, monitor, character)
        told = f"No orbit returns within {100 * TOLERANCE:g} % of the attractor: returns within "
        return replace(found, message=f"{told}{100 * wide.tolerance:g} % were used. {found.message}")
    orbits = finished
    symmetry = settings.symmetry if settings.symmetry is not None else (-1.0,) * section.dimension
    orbits = with_partners(orbits, section.angles, symmetry, 0.5 * settings.tolerance * section.scale)
    message = "Interrupted. " if task.interrupted else ""
    message += (
        f"{len(orbits)} orbits of up to {max_period} steps in {section.size} points; "
        f"{ledger.count} candidates refused; noise {said_noise(section)}."
    )
    return OrbitSet(tuple(orbits), section.angles, tuple(ledger.refused), message, status=task.status)


def said_noise(section: Section) -> str:
    if section.noise_source == "not estimated":
        return "not estimated (too few points)"
    return ", ".join(f"{100 * s:.2g} % of {name}" for s, name in zip(section.noise, section.states, strict=True))


def _search_period(section: Section, period: int, settings: SectionSearch, ledger: Ledger, task: Task) -> None:
    returns = close_returns(section, period, settings.tolerance)
    # Starts closer than the noise lead to the same cycle.
    cell = max(0.5 * settings.tolerance, 2.0 * float(np.max(section.noise)))
    rows = representatives(section, returns, cell, settings.starts)
    if not len(rows):
        return
    terms = term_count(section.dimension, settings.degree)
    # In short records windows of the usual count would span too much of the attractor for a polynomial.
    neighbours = min(max(settings.neighbours, 6 * terms), max(3 * terms, section.size // 30))
    starts = cycle_starts(section, rows, period)
    near, group = approached(section, starts, settings, neighbours, task)
    left = starts[~_located(section, near, settings, neighbours, ledger, task)[group]]
    if near is not starts:
        left = left[~_located(section, left, settings, neighbours, ledger, task)]
    for points in left:
        ledger.refuse(_bare_orbit(section, points), "the Newton iteration on the fitted maps left the neighbourhood")


def _located(
    section: Section, starts: Array, settings: SectionSearch, neighbours: int, ledger: Ledger, task: Task
) -> NDArray[np.bool_]:
    """Locate the cycles near starts (C, p, n) and enter them in the ledger.

    It returns which starts (C,) settled on a cycle.
    """
    settled = np.zeros(len(starts), bool)
    for around in filled_windows(section, settings, starts, neighbours):
        batch = batch_size(around.search, starts, settings.degree)
        for first in range(0, len(around.cycles), batch):
            task.check()
            left = around.cycles[first : first + batch]
            # Where a cubic map does not converge (thin clouds of noisy points), one of lower degree may.
            for degree in range(settings.degree, 0, -1):
                cycles = refine_cycles(
                    around.offered, starts[left], degree=degree, neighbours=neighbours, search=around.search,
                    noise_widths=settings.noise_widths, reach=3.0 * settings.tolerance,
                )  # fmt: skip
                for index in np.flatnonzero(cycles.settled):
                    _judge(section, cycles, int(index), settings, ledger, not fine_maps(section, settings))
                settled[left] = cycles.settled
                left = left[~cycles.settled]
                if not len(left):
                    break
    return settled


def fine_maps(section: Section, settings: SectionSearch) -> int:
    """Return the number of neighbours for finer maps.

    Finer: one degree higher than the search's; 0 where there is no noise or the record is too short.
    """
    neighbours = max(2 * settings.neighbours, 8 * term_count(section.dimension, settings.degree + 1))
    return neighbours if np.any(section.noise > 0) and neighbours <= section.size // 30 else 0


def _polish(section: Section, period: int, settings: SectionSearch, ledger: Ledger, task: Task) -> None:
    """Relocate the kept cycles of one period.

    The maps are one degree higher, and the model of the density is better.
    The search needs robust maps; the result needs unbiased ones. In windows as wide as the noise requires, the terms
    that a cubic map and a Gaussian density leave out can each shift a cycle by more than its standard deviation. Where
    the higher maps do not settle, the lower ones stay, and their uncertainty holds all that one degree changes.
    """
    fine = fine_maps(section, settings)
    left = np.array([points for points, _ in ledger.kept if len(points) == period])
    if not len(left) or not fine:
        return
    terms = term_count(section.dimension, settings.degree + 1)
    ledger.kept = [entry for entry in ledger.kept if len(entry[0]) != period]
    # Cycles that the higher degree does not settle are tried with the lower one, at full doubt.
    for degree, neighbours, doubt in ((settings.degree + 1, fine, 0.0), (settings.degree, fine // 2, 1.0)):
        n = section.dimension
        most = max(MOST_NEIGHBOURS, min(FINE_NEIGHBOURS, FINE_MEMORY // (period * terms * (1 + n + n * n))))
        unsettled = np.ones(len(left), bool)
        for around in filled_windows(section, settings, left, neighbours, most):
            batch = max(1, 1_000_000 // (period * around.search * terms))
            for first in range(0, len(around.cycles), batch):
                task.check()
                chosen = around.cycles[first : first + batch]
                cycles = refine_cycles(
                    around.offered,
                    left[chosen],
                    degree=degree,
                    neighbours=neighbours,
                    search=around.search,
                    noise_widths=settings.noise_widths,
                    iterations=6,
                    density=4,
                )
                for index in np.flatnonzero(cycles.settled):
                    _judge(section, cycles, int(index), settings, ledger, True, doubt)
                unsettled[chosen] = ~cycles.settled
        left = left[unsettled]
        if not len(left):
            return
    for points in left:
        ledger.refuse(_bare_orbit(section, points), "its place depends on the window: the finer maps do not settle")


def _judge(
    section: Section, cycles: Cycles, index: int, settings: SectionSearch, ledger: Ledger, final: bool,
    doubt: float = 0.0,
) -> None:  # fmt: skip
    """Keep a candidate or refuse it with a reason.

    Cheap tests come first. `final`: no finer maps follow; `doubt`: see `propagate`.
    """
    points = cycles.points[index]
    # Solutions of one cycle from different starts agree far better than its returns.
    close = SAME * settings.tolerance
    gaps = cycle_gaps(section, [other for other, _ in ledger.kept], points)
    if (gaps < close).any():
        return
    shorter = repeats_shorter(section, points, close)
    if shorter:
        ledger.refuse(_bare_orbit(section, points), f"repeats an orbit of period {shorter}")
        return
    support = section.count_within(points, settings.window)
    # The full number is required of long records; short ones do not reach it even where they visit a cycle often.
    needed = min(settings.support, max(6, section.size // 250))
    if np.min(support) < needed:
        k = int(np.argmin(support))
        ledger.refuse(
            _bare_orbit(section, points),
            f"point {k} of the cycle has {support[k]} record points within {100 * settings.window:.3g} %, "
            f"{needed} are needed",
        )
        return
    fits = cycles.fits_of(index)
    uncertainty = propagate(section, fits, points, cycles.jacobians[index], doubt)
    if final:
        uncertainty = widen_by_bootstrap(section, fits, points, uncertainty)
    deviation = np.sqrt(np.diag(uncertainty.points)).reshape(points.shape)
    # The maps of the search are robust, not precise: where finer ones follow, those give the uncertainty.
    if final and not np.all(deviation < settings.tolerance):
        ledger.refuse(
            _bare_orbit(section, points),
            f"the position is known to {100 * np.max(deviation):.2g} % only, "
            f"{100 * settings.tolerance:.2g} % is needed",
        )
        return
    known = min(float(np.max(deviation)), settings.tolerance)
    blurred = repeats_shorter(section, points, 4.0 * known)
    if blurred:
        ledger.refuse(_bare_orbit(section, points), f"within its uncertainty it may be an orbit of period {blurred}")
        return
    # The visit is compared with noisy samples, so their deviations add to the tolerance.
    reach = settings.tolerance + 3.0 * float(np.linalg.norm(section.noise))
    visits, row = count_visits(section, points, reach)
    if visits == 0:
        ledger.refuse(_bare_orbit(section, points), "the record never follows the cycle for a whole period")
        return
    # Cycles closer than their uncertainty, or than the windows their maps average over, are one.
    apart = max(4.0 * known, 2.0 * float(np.max(fits.width)))
    twin = next(iter(np.flatnonzero(gaps < apart)), None)
    orbit = make_orbit(section, points, fits, uncertainty, settings, visits, row, support)
    if twin is None:
        ledger.kept.append((points, orbit))
    elif _size(orbit) < _size(ledger.kept[twin][1]):
        ledger.kept[twin] = (points, orbit)


def _size(orbit: PeriodicOrbit) -> float:
    return float(np.trace(orbit.covariance)) if orbit.covariance is not None else np.inf


def _bare_orbit(section: Section, points: Array) -> PeriodicOrbit:
    period = len(points)
    return PeriodicOrbit(section.states, section.physical(points), period * section.step, repeats=period)


def make_orbit(
    section: Section, points: Array, fits: LocalFits, uncertainty: Uncertainty, settings: SectionSearch,
    visits: int, row: int, support: NDArray[np.intp],
) -> PeriodicOrbit:  # fmt: skip
    """Make a `PeriodicOrbit` from a located cycle.

    The cycle (p, n) starts at the point whose code comes first.
    """
    period, n = points.shape
    physical = section.physical(points)
    scale = np.tile(section.scale, period)
    covariance = uncertainty.points * np.outer(scale, scale)
    deviation = np.sqrt(np.diag(covariance)).reshape(period, n)
    units = np.concatenate([scale, np.ones(n)])
    partition = settings.partition or default_partition(section)
    code = symbolic_code(physical, partition, deviation)
    winding, note = winding_numbers(section, points, row)
    # The closure is that of the best visit of the record, not of the fitted cycle.
    gap = section.wrap(section.unit[row + period] - section.unit[row])
    time, time_deviation = cycle_time(section, fits, points, uncertainty.points)
    return PeriodicOrbit(
        states=section.states,
        points=physical,
        period=time,
        repeats=period,
        winding=winding,
        multipliers=uncertainty.multipliers,
        closure=float(np.linalg.norm(gap)),
        code=code,
        stability=judge_stability(uncertainty.multipliers, uncertainty.deviation),
        method="local maps",
        notes=(note,) if note else (),
        measured=OrbitMeasurement(
            covariance, uncertainty.deviation, visits, time_deviation, uncertainty.joint * np.outer(units, units),
            stretch=Stretch(
                int(section.sample[row]), int(section.sample[row + period]), scatter=float(np.max(fits.spread)),
                neighbours=tuple(int(s) for s in np.atleast_1d(support)),
            ),
            crossings=crossings_of(section, fits, uncertainty, points),
            influence=uncertainty.influence,
        ),
    )  # fmt: skip


def judge_stability(multipliers: NDArray[np.complex128], deviation: Array) -> str:
    """Classify stability by the largest multiplier.

    "unstable" or "stable" when it is off the unit circle by two deviations, else "unknown".
    """
    largest = float(np.abs(multipliers[0]))
    if largest - 2 * deviation[0] > 1:
        return "unstable"
    return "stable" if largest + 2 * deviation[0] < 1 else "unknown"
