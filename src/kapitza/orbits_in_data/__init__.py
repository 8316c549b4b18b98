"""Periodic orbits found in data: returns, local maps, multipliers, codes, uncertainty."""

from __future__ import annotations

from kapitza.orbits_in_data.chunks import section_from_chunks
from kapitza.orbits_in_data.dense_returns import ReturnSearch
from kapitza.orbits_in_data.find import SectionSearch
from kapitza.orbits_in_data.from_record import strobe_record
from kapitza.orbits_in_data.influence import Influence
from kapitza.orbits_in_data.inspection import Inspection, inspect
from kapitza.orbits_in_data.predict import FittedMap, GlobalMap, LocalMap
from kapitza.orbits_in_data.record_orbits import find_orbits_in_record
from kapitza.orbits_in_data.returns import count_visits
from kapitza.orbits_in_data.section import Section, make_section
from kapitza.orbits_in_data.stored_orbits import find_orbits_in_parts
from kapitza.orbits_in_data.turning_points import turning_section

__all__ = [
    "FittedMap",
    "GlobalMap",
    "Influence",
    "Inspection",
    "LocalMap",
    "ReturnSearch",
    "Section",
    "SectionSearch",
    "count_visits",
    "find_orbits_in_parts",
    "find_orbits_in_record",
    "inspect",
    "make_section",
    "section_from_chunks",
    "strobe_record",
    "turning_section",
]
