"""Census of all periodic orbits in a region.

Newton iterations from many starts find the orbits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference, wrap_states
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.base.monitor import Monitor, Task, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import DataError, KapitzaError
from kapitza.model import Model, compile_expressions
from kapitza.orbits import OrbitSet, PeriodicOrbit, minimal_period
from kapitza.orbits.of_models.batched_newton import batched_newton, cycles_from
from kapitza.orbits.of_models.catalogue import Catalogue
from kapitza.orbits.of_models.census_sections import autonomous_census
from kapitza.orbits.of_models.polishing import polished_cycles
from kapitza.orbits.of_models.returns import Return, iterate, return_map

LONGEST_PERIOD = 1000
"""More likely a typing error than a target: the number of orbits grows exponentially with the period."""

MOST_STARTS = 10**8

CHAOS = 4000
"""Returns of the trajectory whose close returns serve as starts."""

PART = 64
"""Starts that are sent to a worker together."""

SHAKEN = 0.05
"""Share of the region by which points of known orbits are moved to be starts: long orbits pass near short ones."""

SAME_POINT = 1e-5
"""Distance, as a share of the region, below which two points of a cycle are one: the cycle repeats."""

WIDENED = 0.25
"""Share by which the region that trajectories visit is widened: unstable orbits may lie around it."""

CYCLES = 8
"""Cycles that are sent to a worker together to be polished."""


@dataclass(frozen=True)
class CensusReport:
    """Growth of the count of orbits.

    For each period it holds the number of starts and of distinct orbits after each round.
    """

    starts: Mapping[int, tuple[int, ...]]
    counts: Mapping[int, tuple[int, ...]]
    region: Mapping[str, tuple[float, float]]
    seed: int
    interrupted: bool = False

    def level(self, period: int) -> bool:
        """Return whether the last three rounds added nothing."""
        counts = self.counts.get(period, ())
        return len(counts) > 3 and counts[-1] == counts[-4]


def find_orbits_of_model(
    model: Model,
    max_period: int = 6,
    *,
    region: Mapping[str, tuple[float, float]] | None = None,
    starts: int = 2048,
    rounds: int = 8,
    seed: int = 0,
    min_period: int = 1,
    section: str | None = None,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
    details: bool = True,
) -> OrbitSet:
    """Find all periodic orbits of a model.

    Periods min_period … max_period are searched, each from `starts` starts.
    For forced models and maps the period counts returns. A third of the starts are spread evenly over `region` (by
    state name; by default the box that a few trajectories visit, widened), the others are the closest returns of a long
    trajectory and neighbours of orbits already found. Each start is a cycle of p nodes corrected by a batched Newton
    iteration. Cycles that converge are reduced to their primitive period, compared with known ones by `orbit.distance`,
    completed by the model's symmetries, polished, and given multipliers, certificate and code. For autonomous models
    the period counts crossings of `section` (an expression in the states; by default the last state at its mean) from
    below to above, and codes have one letter per crossing where the model has a partition.

    executor: shares the starts among its workers, with the same result. details=False skips profiles and certificates.
    The OrbitSet's `source` is a CensusReport with the saturation of the counts. Cancelled or stopped by Ctrl-C, it
    returns what was found, with Status.INTERRUPTED.
    """
    seed = checks.whole("seed", seed, least=0, most=checks.LARGEST_SEED)
    max_period = checks.whole("max_period", max_period, least=1, most=LONGEST_PERIOD, error=KapitzaError)
    min_period = checks.whole("min_period", min_period, least=1, error=KapitzaError)
    starts = checks.whole("starts", starts, least=1, most=MOST_STARTS, error=KapitzaError)
    rounds = checks.whole("rounds", rounds, least=1, most=MOST_STARTS, error=KapitzaError)
    if not 1 <= min_period <= max_period:
        raise KapitzaError(f"Periods from {min_period} to {max_period}: give 1 ≤ min_period ≤ max_period.")
    model.needs_period("periodic orbits")
    if not model.is_map and model.period is None:
        return autonomous_census(model, max_period, min_period, section, starts, seed, executor, monitor)
    _check_region(model, region)
    found: list[PeriodicOrbit] = []
    rejected: list[tuple[PeriodicOrbit, str]] = []
    box: Array | None = None
    search: _Search | None = None
    with watch(monitor, f"orbits of {model.name}", (max_period - min_period + 1) * rounds + rounds) as task:
        box = _region(model, region)
        search = _Search(model, box, seed, max(1, starts // rounds), rounds, executor)
        search.run_all(range(min_period, max_period + 1), task)
        cycles = [c for p in sorted(search.catalogue.cycles) if p >= min_period for c in search.catalogue.cycles[p]]
        shared = Shared(model)
        parts = [(shared, cycles[i : i + CYCLES], details) for i in range(0, len(cycles), CYCLES)]
        for polished in in_order(executor, polished_cycles, parts):
            found += [orbit for orbit, reason in polished if not reason]
            rejected += [(orbit, reason) for orbit, reason in polished if reason]
            task.advance(rounds / len(parts), f"{len(found)} of {len(cycles)} orbits polished")
    report = CensusReport(
        {p: tuple(s) for p, s in search.starts.items()} if search else {},
        {p: tuple(c) for p, c in search.counts.items()} if search else {},
        {} if box is None else {name: (float(a), float(b)) for name, (a, b) in zip(model.states, box, strict=True)},
        seed,
        task.interrupted,
    )
    return OrbitSet(_ordered(found), model.angles, tuple(rejected), _message(report), report, status=task.status)


def _ordered(orbits: list[PeriodicOrbit]) -> tuple[PeriodicOrbit, ...]:
    def key(orbit: PeriodicOrbit) -> tuple[int, float]:
        size = 0.0 if orbit.multipliers is None else float(np.abs(orbit.multipliers[0]))
        return orbit.repeats or 0, size

    return tuple(sorted(orbits, key=key))


def _message(report: CensusReport) -> str:
    parts = []
    for period, counts in report.counts.items():
        state = "level" if report.level(period) else "still growing"
        reached = counts[-1] if counts else 0
        parts.append(f"period {period}: {reached} ({state} after {sum(report.starts[period])} starts)")
    return ("Interrupted. " if report.interrupted else "") + "; ".join(parts)


def _check_region(model: Model, region: Mapping[str, tuple[float, float]] | None) -> None:
    region = {} if region is None else checks.table("region", region, error=DataError)
    unknown = set(region) - set(model.states)
    if unknown:
        raise DataError(f"The region names {', '.join(sorted(unknown))}; the states are {', '.join(model.states)}.")
    for name, ends in region.items():
        checks.span(f'The region of "{name}"', ends, error=DataError)


def _region(model: Model, region: Mapping[str, tuple[float, float]] | None) -> Array:
    """Return the box (n, 2); angles get the circle."""
    known = dict(region or {})
    box = np.array([(-np.pi, np.pi) if angle else (np.nan, np.nan) for angle in model.angles])
    for index, name in enumerate(model.states):
        if name in known:
            box[index] = known[name]
    missing = np.isnan(box[:, 0])
    if missing.any():
        box[missing] = _visited(model)[missing]
    return box


def _visited(model: Model) -> Array:
    """Return the box that a few trajectories visit.

    They start around the model's start; transients are included, and the box is widened by a quarter.
    """
    start = np.array([float(model.start.get(name, 0.0)) for name in model.states])
    rng = np.random.default_rng(0)
    spread = start + rng.normal(size=(64, start.size)) * np.maximum(np.abs(start), 1.0)
    path = iterate(return_map(model), spread, 60)
    stays = np.isfinite(path[-1]).all(axis=1)
    # A motion that escapes passes through numbers as large as 1e300 before it ends: a box around them holds no orbit.
    path = path[:, stays].reshape(-1, start.size)
    if path.size == 0:
        raise DataError(
            f'Every trajectory of "{model.name}" from around its start escapes or fails: give '
            f"{Give(region=Code('{…}'))}."
        )
    low, high = path.min(axis=0), path.max(axis=0)
    margin = WIDENED * (high - low) + 1e-3
    return np.column_stack([low - margin, high + margin])


class _Search:
    """State of a census.

    It holds the known cycles and the source of starts.
    """

    def __init__(self, model: Model, box: Array, seed: int, batch: int, rounds: int, executor: Executor | None):
        self.model, self.box, self.batch, self.rounds, self.executor = model, box, batch, rounds, executor
        self.step = return_map(model)
        self._shared = Shared(self.step)
        self.scale = np.maximum(0.5 * (box[:, 1] - box[:, 0]), 1e-12)
        self.rng = np.random.default_rng(seed)
        self.catalogue = Catalogue(np.array(model.angles, bool), self.scale)
        self.starts: dict[int, list[int]] = {}
        self.counts: dict[int, list[int]] = {}
        self._chaos = self._trajectory()

    def _trajectory(self) -> Array:
        """Return settled segments of 64 trajectories.

        The result is (returns, members, n).
        """
        members = 64
        # Members start all over the region, so that several attractors are covered.
        first = self.rng.uniform(self.box[:, 0], self.box[:, 1], (members, self.step.size))
        path = iterate(self.step, first, 20 + CHAOS // members)
        return path[20:]

    def run_all(self, periods: range, task: Task) -> None:
        """Search period after period."""
        for period in periods:
            self.run(period, task)

    def run(self, period: int, task: Task) -> None:
        self.starts[period], self.counts[period] = [], []
        returns = self._closest_returns(period, self.rounds * self.batch // 3 + 1)
        for number in range(self.rounds):
            if self._level(period):
                task.advance(self.rounds - number, f"period {period}: {self.counts[period][-1]} orbits")
                break
            share = returns[number :: self.rounds]
            cycles = [share, cycles_from(self.step, self._scattered(self.batch - 2 * len(share)), period)]
            cycles.append(self._neighbours(period, len(share)))
            starts = np.concatenate([c for c in cycles if len(c)])
            self._note(self._solve(starts))
            self.starts[period].append(len(starts))
            self.counts[period].append(len(self.catalogue.cycles.get(period, [])))
            task.advance(1, f"period {period}: {self.counts[period][-1]} orbits")

    def _level(self, period: int) -> bool:
        """Return whether the count has stopped growing.

        Half of the rounds, and at least three, have added nothing.
        """
        counts, patience = self.counts[period], max(3, self.rounds // 2)
        return len(counts) > patience and counts[-1] == counts[-1 - patience]

    def _scattered(self, count: int) -> Array:
        return self.rng.uniform(self.box[:, 0], self.box[:, 1], (max(count, 1), self.step.size))

    def _closest_returns(self, period: int, count: int) -> Array:
        """Return the stretches that come back closest.

        Stretches (count, period, n) return after `period` returns.
        """
        path = self._chaos
        gap = difference(path[period:], path[:-period], self.step.angles)
        size = np.linalg.norm(gap / self.scale, axis=2)
        size = np.where(np.isfinite(size), size, np.inf).ravel()
        best = np.argsort(size, kind="stable")[:count]
        best = best[np.isfinite(size[best])]
        when, who = np.unravel_index(best, gap.shape[:2])
        stretches = path[when[:, None] + np.arange(period), who[:, None]]
        return self.rng.permutation(stretches)

    def _neighbours(self, period: int, count: int) -> Array:
        """Return starts near points of known orbits.

        Long orbits shadow short ones.
        """
        known = [point for cycles in self.catalogue.cycles.values() for cycle in cycles for point in cycle]
        if not known or count < 1:
            return np.zeros((0, period, self.step.size))
        chosen = np.array(known)[self.rng.integers(len(known), size=count)]
        shaken = chosen + SHAKEN * self.scale * self.rng.normal(size=chosen.shape)
        return cycles_from(self.step, wrap_states(shaken, self.step.angles), period)

    def _solve(self, starts: Array) -> Array:
        # The same parts for every executor: the order of the cycles found decides the next starts.
        parts = [(self._shared, starts[i : i + PART], self.scale) for i in range(0, len(starts), PART)]
        return np.concatenate(list(in_order(self.executor, _solve_there, parts)))

    def _note(self, cycles: Array) -> None:
        for cycle in cycles:
            # A search for period p also finds orbits whose period divides p.
            least = minimal_period(cycle, self.model.angles, SAME_POINT * float(self.scale.max()))
            if self.catalogue.add(cycle[:least]):
                for partner in self._partners(cycle[:least]):
                    self.catalogue.add(partner)

    def _partners(self, cycle: Array) -> list[Array]:
        """Return images under the model's symmetries.

        Corrected so that they are orbits to full accuracy.
        """
        images = [symmetry_image(self.model, self.step, cycle, symmetry) for symmetry in self.model.symmetries]
        corrected = [batched_newton(self.step, image[None], self.scale) for image in images if image is not None]
        return [c[0] for c in corrected if len(c)]


def symmetry_image(model: Model, step: Return, cycle: Array, symmetry: Any) -> Array | None:
    """Return the symmetric image of a cycle.

    S x(t + shift·period) on the section: rows (p, n), or None when the shift is not resolved by a map.
    """
    points = cycle
    if symmetry.shift and not model.is_map:
        from kapitza.flow import Flow

        ends = np.full(len(cycle), symmetry.shift * float(model.period or 0.0))
        points = Flow(model).propagate_many(cycle, np.zeros(len(cycle)), ends, model.vector).state
        # A shift by s in time: the image passes the section where the original is s further on.
    elif symmetry.shift:
        return None
    expressions = [symmetry.map.get(name, None) for name in model.states]
    values = points.T.copy()
    given = [(i, e) for i, e in enumerate(expressions) if e is not None]
    evaluate = compile_expressions([e for _, e in given], model.states, model.names)
    values[[i for i, _ in given]] = evaluate(np.ascontiguousarray(points.T), model.vector)
    return wrap_states(values.T, step.angles)


def _solve_there(step: Shared[Return], starts: Array, scale: Array) -> Array:
    return batched_newton(step.value, starts, scale)
