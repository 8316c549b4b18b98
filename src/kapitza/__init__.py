"""Kapitza: parameters of nonlinear dynamical systems from periodic and chaotic measurements."""

from kapitza import library
from kapitza.data import Record, measure, read, write
from kapitza.errors import KapitzaError, Status
from kapitza.estimate import (
    Differenced,
    Estimate,
    HarmonicFit,
    InvariantFit,
    OrbitFit,
    ShootingFit,
    advise,
    cramer_rao,
    find_invariant,
    identify,
    posterior,
    profile_interval,
)
from kapitza.flow import Flow, Map, simulate
from kapitza.model import (
    Coordinate,
    Excitation,
    Impact,
    Model,
    Parameter,
    Prior,
    Signal,
    Symmetry,
    read_model,
    write_model,
)
from kapitza.orbit import OrbitSet, PeriodicOrbit, find_orbits
from kapitza.orbits import GlobalMap, Inspection, LocalMap, ReturnSearch, SectionSearch, inspect
from kapitza.periodic import (
    Collocation,
    Differences,
    HarmonicBalance,
    Homotopy,
    MultipleShooting,
    Shooting,
    certify,
    solve_orbit,
)

__version__ = "0.1.0"

__all__ = [
    "Collocation",
    "Coordinate",
    "Differenced",
    "Differences",
    "Estimate",
    "Excitation",
    "Flow",
    "GlobalMap",
    "HarmonicBalance",
    "HarmonicFit",
    "Homotopy",
    "Impact",
    "Inspection",
    "InvariantFit",
    "KapitzaError",
    "LocalMap",
    "Map",
    "Model",
    "MultipleShooting",
    "OrbitFit",
    "OrbitSet",
    "Parameter",
    "PeriodicOrbit",
    "Prior",
    "Record",
    "ReturnSearch",
    "SectionSearch",
    "Shooting",
    "ShootingFit",
    "Signal",
    "Status",
    "Symmetry",
    "advise",
    "certify",
    "cramer_rao",
    "find_invariant",
    "find_orbits",
    "identify",
    "inspect",
    "library",
    "measure",
    "posterior",
    "profile_interval",
    "read",
    "read_model",
    "simulate",
    "solve_orbit",
    "write",
    "write_model",
]
