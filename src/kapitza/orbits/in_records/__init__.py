"""Periodic orbits found in data.

Returns, local maps, multipliers, codes, uncertainty.
"""

from __future__ import annotations

from kapitza.orbits.in_records.chunks import section_from_chunks
from kapitza.orbits.in_records.dense_returns import ReturnSearch
from kapitza.orbits.in_records.find import SectionSearch
from kapitza.orbits.in_records.from_record import strobe_record
from kapitza.orbits.in_records.influence import Influence
from kapitza.orbits.in_records.inspection import Inspection, inspect
from kapitza.orbits.in_records.predict import GlobalMap, LocalMap
from kapitza.orbits.in_records.record_orbits import find_orbits_in_record
from kapitza.orbits.in_records.returns import count_visits
from kapitza.orbits.in_records.section import Section
from kapitza.orbits.in_records.stored_orbits import find_orbits_in_parts
from kapitza.orbits.in_records.turning_points import turning_section
