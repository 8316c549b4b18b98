"""Periodic orbits found in data: returns, local maps, multipliers, codes, uncertainty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kapitza.data import Record
from kapitza.orbit import OrbitSet, find_orbits
from kapitza.orbits.chunks import section_from_chunks
from kapitza.orbits.dense_returns import ReturnSearch
from kapitza.orbits.find import SectionSearch
from kapitza.orbits.from_record import section_phase, strobe_record
from kapitza.orbits.inspection import Inspection, inspect
from kapitza.orbits.predict import FittedMap, GlobalMap, LocalMap
from kapitza.orbits.profiles import with_profiles
from kapitza.orbits.section import Section, make_section
from kapitza.orbits.turning_points import turning_section

__all__ = [
    "FittedMap",
    "GlobalMap",
    "Inspection",
    "LocalMap",
    "ReturnSearch",
    "Section",
    "SectionSearch",
    "find_orbits_in_record",
    "inspect",
    "make_section",
    "section_from_chunks",
    "strobe_record",
    "turning_section",
]


@find_orbits.register(Record)
def find_orbits_in_record(
    record: Record,
    max_period: int = 6,
    *,
    channels: list[str] | None = None,
    method: SectionSearch | ReturnSearch | None = None,
    phase: float | None = None,
    delay: int | None = None,
    dimension: int | None = None,
    kind: str | None = None,
    noise: Any = None,
    **settings: Any,
) -> OrbitSet:
    """Unstable periodic orbits that a record visited, with their uncertainty.

    record: forced (it has a period), strobed once per excitation period or denser (then cut at `phase`, a share of the
    period; each orbit keeps it in seconds as details["section_phase"]); or autonomous (no period): the section is then
    where the first channel turns, see `turning_section`.
    channels: the state variables to use, all by default; delay, dimension: delay coordinates of each channel.
    noise: standard deviation per channel; known noise of the record, else estimated.
    method: `SectionSearch` (its fields may be given directly: tolerance=0.01, ...), or `ReturnSearch` for dense forced
    records whose state is too large for local maps.
    """
    if isinstance(method, ReturnSearch):
        return method.search(record, max_period, channels)
    if record.period is None:
        section = turning_section(record, channels, delay=delay, dimension=dimension or 3, kind=kind, noise=noise)
        # Turning points carry the noise of a whole window, and a smoothed section is never as sharp as a strobed one.
        settings = {"tolerance": 0.02, **settings}
    else:
        section = strobe_record(record, channels, phase=phase, delay=delay, dimension=dimension or 1, noise=noise)
    orbits = (method or SectionSearch(**settings)).search(section, max_period)
    if record.period is not None:
        when = section_phase(record, phase) * record.period
        noted = tuple(orbit.with_(details={**orbit.details, "section_phase": when}) for orbit in orbits)
        orbits = replace(orbits, orbits=noted)
    return with_profiles(replace(orbits, source=record), record, channels)
