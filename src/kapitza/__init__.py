"""Kapitza: parameters of nonlinear dynamical systems from periodic and chaotic measurements.

Names are loaded when first used: a simulation should not pay the memory and the time of what only fits need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapitza import library
    from kapitza.continuation import (
        Bifurcation,
        Branch,
        Diagram,
        MeasuredBranch,
        Stepping,
        backbone,
        diagram,
        follow,
        frequency_response,
        other_orbits,
        switch_branch,
    )
    from kapitza.data import Record, StoredRecord, measure, open_record, read, write
    from kapitza.ensembles import Ensemble, ensemble
    from kapitza.errors import KapitzaError, Status
    from kapitza.estimate import (
        Automatic,
        BranchFit,
        Coverage,
        Differenced,
        Estimate,
        HarmonicFit,
        InvariantFit,
        OrbitFit,
        Sensor,
        ShootingFit,
        Validation,
        advise,
        compare_fits,
        coverage,
        cramer_rao,
        identifiability,
        identify,
        missing_orbits,
        posterior,
        profile_curve,
        profile_interval,
        suggest,
        validate,
    )
    from kapitza.flow import Flow, Map, simulate
    from kapitza.invariants import find_invariant
    from kapitza.model import (
        Coordinate,
        Excitation,
        Impact,
        ModalReduction,
        Model,
        Parameter,
        Prior,
        Signal,
        Symmetry,
        control_values,
        modal_reduction,
        read_model,
        with_clock,
        with_control,
        with_laws,
        write_model,
    )
    from kapitza.monitor import Bar, Monitor, Progress, Silent
    from kapitza.orbit import OrbitSet, PeriodicOrbit
    from kapitza.orbits import find_orbits
    from kapitza.orbits_in_data import GlobalMap, Inspection, LocalMap, ReturnSearch, SectionSearch, inspect
    from kapitza.orbits_of_models import (
        Basins,
        Collocation,
        Differences,
        HarmonicBalance,
        Homotopy,
        MultipleShooting,
        Shooting,
        basins,
        certify,
        solve_orbit,
    )
    from kapitza.saving import load, save
    from kapitza.study import Study, StudyError, StudyResult, read_results, read_study

__version__ = "0.1.0"

_HOMES = {
    "kapitza.continuation": (
        "Bifurcation",
        "Branch",
        "Diagram",
        "MeasuredBranch",
        "Stepping",
        "backbone",
        "diagram",
        "follow",
        "frequency_response",
        "other_orbits",
        "switch_branch",
    ),
    "kapitza.data": (
        "Record",
        "StoredRecord",
        "measure",
        "open_record",
        "read",
        "write",
    ),
    "kapitza.errors": (
        "KapitzaError",
        "Status",
    ),
    "kapitza.estimate": (
        "Automatic",
        "Coverage",
        "BranchFit",
        "Differenced",
        "Estimate",
        "HarmonicFit",
        "InvariantFit",
        "OrbitFit",
        "Sensor",
        "ShootingFit",
        "Validation",
        "advise",
        "compare_fits",
        "coverage",
        "cramer_rao",
        "identifiability",
        "identify",
        "missing_orbits",
        "posterior",
        "profile_curve",
        "profile_interval",
        "suggest",
        "validate",
    ),
    "kapitza.ensembles": (
        "Ensemble",
        "ensemble",
    ),
    "kapitza.flow": (
        "Flow",
        "Map",
        "simulate",
    ),
    "kapitza.invariants": ("find_invariant",),
    "kapitza.model": (
        "Coordinate",
        "Excitation",
        "Impact",
        "ModalReduction",
        "Model",
        "Parameter",
        "Prior",
        "Signal",
        "Symmetry",
        "control_values",
        "modal_reduction",
        "read_model",
        "with_clock",
        "with_control",
        "with_laws",
        "write_model",
    ),
    "kapitza.monitor": (
        "Bar",
        "Monitor",
        "Progress",
        "Silent",
    ),
    "kapitza.orbit": (
        "OrbitSet",
        "PeriodicOrbit",
    ),
    "kapitza.orbits": ("find_orbits",),
    "kapitza.orbits_in_data": (
        "GlobalMap",
        "Inspection",
        "LocalMap",
        "ReturnSearch",
        "SectionSearch",
        "inspect",
    ),
    "kapitza.orbits_of_models": (
        "Basins",
        "Collocation",
        "Differences",
        "HarmonicBalance",
        "Homotopy",
        "MultipleShooting",
        "Shooting",
        "basins",
        "certify",
        "solve_orbit",
    ),
    "kapitza.saving": (
        "load",
        "save",
    ),
    "kapitza.study": (
        "Study",
        "StudyError",
        "StudyResult",
        "read_results",
        "read_study",
    ),
}
"""Where each public name lives."""

_FOLDERS = (
    "circle",
    "continuation",
    "data",
    "errors",
    "estimate",
    "executor",
    "flow",
    "invariants",
    "library",
    "model",
    "monitor",
    "orbit",
    "orbits_in_data",
    "orbits_of_models",
    "report",
    "saving",
    "rig",
    "signal",
    "solve",
    "study",
)

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Automatic",
    "Bar",
    "Basins",
    "Bifurcation",
    "Branch",
    "BranchFit",
    "Collocation",
    "Coordinate",
    "Coverage",
    "Diagram",
    "Differenced",
    "Differences",
    "Ensemble",
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
    "MeasuredBranch",
    "ModalReduction",
    "Model",
    "Monitor",
    "MultipleShooting",
    "OrbitFit",
    "OrbitSet",
    "Parameter",
    "PeriodicOrbit",
    "Prior",
    "Progress",
    "Record",
    "ReturnSearch",
    "SectionSearch",
    "Sensor",
    "Shooting",
    "ShootingFit",
    "Signal",
    "Silent",
    "Status",
    "Stepping",
    "StoredRecord",
    "Study",
    "StudyError",
    "StudyResult",
    "Symmetry",
    "Validation",
    "advise",
    "backbone",
    "basins",
    "certify",
    "compare_fits",
    "control_values",
    "coverage",
    "cramer_rao",
    "diagram",
    "ensemble",
    "find_invariant",
    "find_orbits",
    "follow",
    "frequency_response",
    "identifiability",
    "identify",
    "inspect",
    "library",
    "load",
    "measure",
    "missing_orbits",
    "modal_reduction",
    "open_record",
    "other_orbits",
    "posterior",
    "profile_curve",
    "profile_interval",
    "read",
    "read_model",
    "read_results",
    "read_study",
    "save",
    "simulate",
    "solve_orbit",
    "suggest",
    "switch_branch",
    "validate",
    "with_clock",
    "with_control",
    "with_laws",
    "write",
    "write_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    elif name in _FOLDERS:
        value = import_module(f"kapitza.{name}")
    else:
        raise AttributeError(f"module 'kapitza' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
