"""Periodic orbits of recordings beyond memory.

Searched part by part; the same orbit of several parts is made one.
Forced flows are first brought to one point per excitation period, a part at a time: 10^8 samples of 100 per period are
10^6 points. Of an orbit that several parts visit, the points are the mean weighted by their inverse covariances. What
a part's covariance holds that more points do not reduce (`Influence.common`) stays in that of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.base.cures import Give, marked
from kapitza.base.monitor import Monitor, watch
from kapitza.data import PART, Record, StoredRecord
from kapitza.errors import DataError, Status
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.in_records.from_record import samples_per_period, strobe_record
from kapitza.orbits.in_records.influence import Influence
from kapitza.orbits.in_records.inspection import Inspection, inspect
from kapitza.orbits.in_records.record_orbits import find_orbits_in_record

SECTION_PART = 2**22
"""Points of a section that are searched at a time: about 1.5 GB."""

SAME = 1e-3
"""Orbits of two parts this close, as a share of the attractor, are one, or within `WIDTHS` of their deviations."""

WIDTHS = 5.0
"""Five standard deviations: of some hundred orbits none is then split by chance."""

ROUNDING = 1e-12
"""Share of a variance that is lost in a difference of two."""


def find_orbits_in_parts(
    stored: StoredRecord,
    max_period: int = 6,
    *,
    part: int = SECTION_PART,
    phase: float | None = None,
    channels: Sequence[str] | None = None,
    monitor: Monitor | None = None,
    **settings: Any,
) -> OrbitSet:
    """Find orbits of a stored recording.

    `part` points of the section are searched at a time, with `settings` as in `find_orbits_in_record`.
    """
    dense = stored.period is not None and samples_per_period(stored.rows(0, min(part, stored.size))) > 1.5
    if dense and any(settings.get(name) is not None for name in ("delay", "dimension", "method")):
        raise DataError(
            f"{Give('delay')}, {Give('dimension')} and {Give('method')} of a flow beyond memory are not supported: "
            "it is strobed once per period and searched on its section. Take a stretch, stored.rows(0, 1000000), for "
            "these."
        )
    pieces = _strobed(stored, part, phase, channels) if dense else stored.parts(part)
    kept: list[list[Seen]] = []
    first: OrbitSet | None = None
    failures: list[str] = []
    searched = points = 0
    with watch(monitor, "looking for orbits, part by part", None if dense else stored.size) as task:
        scale = None
        for record in pieces:
            chosen = record if channels is None or dense else record.select(list(channels))
            searched, before, points = searched + 1, points, points + record.size
            task.advance(record.size)
            try:
                found = find_orbits_in_record(chosen, max_period, phase=None if dense else phase, **settings)
            except DataError as problem:
                failures.append(f"part {searched}: {marked(problem)}")
                continue
            first = found if first is None else first
            scale = _scale(found, scale)
            for orbit in found:
                _sort_in(kept, _seen(orbit, None if dense else before), found.angles, scale)
    if first is None:
        raise DataError(f"No part of {stored.path.name} can be searched. {failures[0] if failures else ''}".rstrip())
    orbits = sorted((_joined(group, first.angles) for group in kept), key=lambda o: (len(o.points), -o.visits))
    message = (
        f"{searched} parts of {points} points on the section were searched; an orbit found in several counts once."
    )
    if failures:
        message += f" {len(failures)} parts were left out; {failures[0]}"
    return replace(
        first, orbits=tuple(orbits), message=message, source=stored,
        status=task.status if searched else Status.INTERRUPTED,
    )  # fmt: skip


def _strobed(stored: StoredRecord, part: int, phase: float | None, channels: Sequence[str] | None) -> Iterator[Record]:
    """Strobe a dense recording part by part.

    It yields records of one sample per period, of about `part` points each.
    """
    gathered: list[tuple[Array, NDArray[np.bool_]]] = []
    example = None
    for record in stored.parts(part):
        section = strobe_record(record, channels, phase=phase, noise=0.0)
        gathered.append((section.physical(section.unit), section.follows))
        example = section
        if sum(len(points) for points, _ in gathered) >= part:
            yield _record_of(gathered, example, stored)
            gathered = []
    if gathered and example is not None:
        yield _record_of(gathered, example, stored)


def _record_of(gathered: list[tuple[Array, NDArray[np.bool_]]], example: Any, stored: StoredRecord) -> Record:
    points = np.concatenate([p for p, _ in gathered])
    follows = np.concatenate([f for _, f in gathered])
    segment = np.concatenate(([0], np.cumsum(~follows[:-1])))
    period = float(stored.period or 1.0)
    names = [name for name, angle in zip(example.states, example.angles, strict=True) if angle]
    return Record.from_arrays(
        np.arange(len(points), dtype=np.float64) * period,
        dict(zip(example.states, points.T, strict=True)),
        angles=names,
        segment=segment,
        period=period,
        phase=0.0,
    )


@dataclass(frozen=True)
class Seen:
    """An orbit as one part shows it.

    common: (p n, p n) what every part has of its covariance, None without noise; of_multipliers: (n,) the same of the
    variances of |μ|.
    """

    orbit: PeriodicOrbit
    common: Array | None
    of_multipliers: Array | None = None


def _seen(orbit: PeriodicOrbit, rows: int | None) -> Seen:
    """Return the orbit with rows of the whole recording.

    The rows of its stretch count from the start of the recording; they are unknown in strobed flows.
    """
    influence = orbit.influence
    common = of_multipliers = None
    if isinstance(influence, Influence):
        common, of_multipliers = influence.physical_common(), influence.common_of_multipliers()
    stretch = orbit.stretch
    if stretch is not None:
        stretch = None if rows is None else replace(stretch, first=stretch.first + rows, last=stretch.last + rows)
    alone = orbit.with_(stretch=stretch, influence=None, joint_covariance=None, partner=None)
    return Seen(alone, common, of_multipliers)


def _scale(found: OrbitSet, known: Array | None) -> Array | None:
    if known is not None or found.section_points is None:
        return known
    size = np.ptp(found.section_points, axis=0)
    return np.where(np.asarray(found.angles, bool), 2 * np.pi, np.where(size > 0, size, 1.0))


def _sort_in(kept: list[list[Seen]], seen: Seen, angles: Sequence[bool], scale: Array | None) -> None:
    """Add an orbit to the group it equals.

    Its points are rotated into the order of the group.
    """
    orbit = seen.orbit
    size = np.ones(orbit.points.shape[1]) if scale is None else scale
    best, place, turned = np.inf, None, 0
    for number, group in enumerate(kept):
        other = group[0].orbit
        if other.points.shape != orbit.points.shape:
            continue
        for shift in range(len(orbit.points)):
            gap = difference(np.roll(orbit.points, shift, axis=0), other.points, angles) / size
            allowed = np.maximum(SAME, WIDTHS * (_deviation(other, 0) + _deviation(orbit, shift)) / size)
            excess = float(np.abs(gap / allowed).max())
            if excess < best:
                best, place, turned = excess, number, shift
    if place is not None and best < 1.0:
        kept[place].append(_rolled(seen, turned))
    else:
        kept.append([seen])


def _deviation(orbit: PeriodicOrbit, shift: int) -> Array:
    """Return standard deviations (p, n) of the points."""
    if orbit.covariance is None:
        return np.zeros_like(orbit.points)
    spread = np.sqrt(np.clip(np.diag(orbit.covariance), 0.0, None)).reshape(orbit.points.shape)
    return np.roll(spread, shift, axis=0)


def _rolled(seen: Seen, shift: int) -> Seen:
    orbit = seen.orbit
    p, n = orbit.points.shape

    def turned(matrix: Array | None) -> Array | None:
        if matrix is None:
            return None
        blocks = np.roll(matrix.reshape(p, n, p, n), (shift, shift), axis=(0, 2))
        return blocks.reshape(p * n, p * n)

    code = orbit.code[p - shift :] + orbit.code[: p - shift] if len(orbit.code) == p else orbit.code
    points = np.roll(orbit.points, shift, axis=0)
    moved = orbit.with_(points=points, covariance=turned(orbit.covariance), code=code)
    return replace(seen, orbit=moved, common=turned(seen.common))


def _joined(seen: list[Seen], angles: Sequence[bool]) -> PeriodicOrbit:
    """Join the orbits of several parts into one.

    Its covariance is widened by their disagreement beyond it.
    """
    group = [s.orbit for s in seen]
    first = max(group, key=lambda orbit: orbit.visits)
    visits = sum(orbit.visits for orbit in group)
    if len(group) == 1:
        return first
    gaps = [difference(orbit.points, first.points, angles).ravel() for orbit in group]
    weights = _weights(seen)
    total = np.linalg.inv(sum(weights))
    mean = total @ sum(w @ g for w, g in zip(weights, gaps, strict=True))
    spread = sum(float((g - mean) @ w @ (g - mean)) for w, g in zip(weights, gaps, strict=True))
    freedom = (len(group) - 1) * mean.size
    covariance = None
    if first.covariance is not None:
        common = [s.common for s in seen if s.common is not None]
        # A chi-squared above its degrees of freedom: the parts disagree beyond their covariances.
        covariance = total * max(1.0, spread / freedom) + (np.mean(common, axis=0) if common else 0.0)
    shares = np.array([max(orbit.visits, 1) for orbit in group], float)
    multipliers = first.multipliers
    if multipliers is not None and all(o.multipliers is not None for o in group):
        multipliers = np.average([np.asarray(o.multipliers) for o in group], axis=0, weights=shares)
    return first.with_(
        points=first.points + mean.reshape(first.points.shape),
        covariance=covariance,
        visits=visits,
        multipliers=multipliers,
        multiplier_deviation=_multiplier_deviation(seen),
        notes=(*first.notes, f"seen in {len(group)} parts of the recording"),
    )


def _multiplier_deviation(seen: list[Seen]) -> Array | None:
    """Return deviations (n,) of |μ| from all parts.

    Independent parts of the variances are averaged, the common part stays.
    """
    known = [s for s in seen if s.orbit.multiplier_deviation is not None]
    if not known:
        return None
    variances = np.array([s.orbit.multiplier_deviation for s in known]) ** 2
    common = np.array([np.zeros_like(v) if s.of_multipliers is None else s.of_multipliers
                       for s, v in zip(known, variances, strict=True)])  # fmt: skip
    # Rounding may make the difference negative.
    own = np.maximum(variances - common, ROUNDING * variances)
    return np.sqrt(1.0 / (1.0 / own).sum(axis=0) + common.mean(axis=0))


def _weights(seen: list[Seen]) -> list[NDArray[Any]]:
    """Return inverse covariances without the common part.

    Numbers of visits where a covariance is missing or singular.
    """
    size = seen[0].orbit.points.size
    try:
        return [
            np.linalg.inv(
                np.asarray(s.orbit.covariance, float).reshape(size, size) - (0.0 if s.common is None else s.common)
            )
            for s in seen
        ]
    except (np.linalg.LinAlgError, ValueError, TypeError):
        return [max(s.orbit.visits, 1) * np.eye(size) for s in seen]


def inspect_stored(
    stored: StoredRecord, channels: Sequence[str] | None, max_period: int, monitor: Monitor | None, part: int = PART
) -> Inspection:
    """Inspect a stored recording.

    The first part is inspected in full; gaps, interruptions and constant channels are found over all parts.
    """
    found = inspect(stored.rows(0, min(part, stored.size)), channels, max_period, monitor)
    segments, low, high = 0, {}, {}
    last = None
    for record in stored.parts(part):
        labels = record.content.segment
        segments += len(record.segments()) - (last is not None and labels[0] == last)
        last = labels[-1]
        for name in record.channels:
            low[name] = min(low.get(name, np.inf), float(record[name].min()))
            high[name] = max(high.get(name, -np.inf), float(record[name].max()))
    ranges = ", ".join(f"{name} {low[name]:.4g} to {high[name]:.4g}" for name in low)
    note = (
        f"Looked at in full: the first {min(part, stored.size)} of {stored.size} samples. "
        f"The whole recording has {segments} segment{'s' if segments != 1 else ''}; ranges: {ranges}."
    )
    return replace(found, notes=(note, *found.notes))
