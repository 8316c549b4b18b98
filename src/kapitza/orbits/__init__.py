"""Periodic orbits: types, orbits in records, orbits of models.

The types are here; `in_records` and `of_models` hold the orbits found in records and those of models.
`find_orbits` is loaded from its module when it is first used: it needs both folders, and both need the noun.
"""

from __future__ import annotations

from kapitza.orbits.orbit import (
    Certificate,
    Crossings,
    Loop,
    OrbitMeasurement,
    OrbitSet,
    OrbitSolution,
    PeriodicOrbit,
    Profile,
    Sensitivity,
    SolverReport,
    Stretch,
    distance,
    minimal_period,
)
