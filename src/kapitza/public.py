"""List the public names once.

Where each is defined, and under which title the reference shows it.
`python -m harness` writes the type stub and docs/api.md from it; the attributes of the package are loaded by it.
"""

from __future__ import annotations

PUBLIC: dict[str, dict[str, tuple[str, ...]]] = {
    "Models": {
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
            "with_added",
            "with_clock",
            "with_control",
            "with_drives",
            "with_laws",
            "write_model",
        ),
    },
    "Data": {
        "kapitza.data": (
            "MeasuredBranch",
            "Record",
            "StoredRecord",
            "measure",
            "open_record",
            "read",
            "write",
        ),
        "kapitza.orbits.in_records": (
            "Inspection",
            "inspect",
        ),
    },
    "Simulation": {
        "kapitza.flow": (
            "Flow",
            "Map",
            "Unit",
            "open_unit",
            "simulate",
        ),
        "kapitza.orbits.of_models": (
            "Basins",
            "LyapunovSpectrum",
            "basins",
            "exponents",
        ),
        "kapitza.base.ensembles": (
            "Ensemble",
            "ensemble",
        ),
    },
    "Periodic orbits of models": {
        "kapitza.orbits.orbit": (
            "OrbitSet",
            "PeriodicOrbit",
        ),
        "kapitza.orbits.of_models": (
            "Collocation",
            "Differences",
            "HarmonicBalance",
            "Homotopy",
            "MultipleShooting",
            "Shooting",
            "certify",
            "solve_orbit",
        ),
    },
    "Periodic orbits in data": {
        "kapitza.orbits.find_orbits": ("find_orbits",),
        "kapitza.orbits.in_records": (
            "GlobalMap",
            "LocalMap",
            "ReturnSearch",
            "SectionSearch",
        ),
    },
    "Families of orbits": {
        "kapitza.solve": ("ByEffort",),
        "kapitza.continuation": (
            "Bifurcation",
            "Branch",
            "Diagram",
            "Stepping",
            "Tongue",
            "Torus",
            "TorusBranch",
            "backbone",
            "diagram",
            "follow",
            "follow_torus",
            "frequency_response",
            "other_orbits",
            "switch_branch",
            "tongues",
            "tori",
        ),
    },
    "Identification": {
        "kapitza.estimate": (
            "Automatic",
            "BranchFit",
            "DifferenceQuotient",
            "Estimate",
            "HarmonicFit",
            "InvariantFit",
            "OrbitFit",
            "Sensor",
            "ShootingFit",
            "identify",
        ),
        "kapitza.estimate.invariant_fit.conserved": ("find_invariant",),
    },
    "How sure an estimate is": {
        "kapitza.estimate": (
            "Coverage",
            "Validation",
            "advise",
            "compare_fits",
            "coverage",
            "cramer_rao",
            "identifiability",
            "missing_orbits",
            "posterior",
            "profile_curve",
            "profile_interval",
            "suggest",
            "validate",
            "with_drive_noise",
        ),
    },
    "The next experiment": {
        "kapitza.planning": (
            "Campaign",
            "Choice",
            "Expected",
            "Plan",
            "Reading",
            "RivalPlan",
            "Search",
            "SetPlan",
            "best_set",
            "experiment",
            "information",
            "orbit_information",
            "plan",
            "read_sheet",
            "tell_apart",
        ),
    },
    "Studies": {
        "kapitza.study": (
            "Study",
            "StudyError",
            "StudyResult",
            "read_results",
            "read_study",
        ),
    },
    "Saving, progress, errors": {
        "kapitza.exports": (
            "Exported",
            "export",
        ),
        "kapitza.saving": (
            "load",
            "save",
        ),
        "kapitza.base.monitor": (
            "Bar",
            "Monitor",
            "Progress",
            "Silent",
        ),
        "kapitza.errors": (
            "KapitzaError",
            "Status",
        ),
    },
}
"""Title in the reference → module → names."""

RENAMED = {"Differenced": "DifferenceQuotient"}
"""Former public names → names; they work with a DeprecationWarning until the release after the next."""

RENAMED_ARGUMENTS = {
    "Automatic": {"starts": "start_from"},
    "Flow.section": {"longest": "max_time"},
    "GlobalMap": {"held_out": "hold_back"},
    "OrbitFit": {"starts": "start_orbits"},
    "basins": {"longest": "max_period"},
    "find_invariant": {"held_back": "hold_back"},
}
"""The same for arguments: function → former name → name."""

FOLDERS = (
    "base",
    "continuation",
    "data",
    "errors",
    "estimate",
    "exports",
    "flow",
    "library",
    "model",
    "orbits",
    "planning",
    "report",
    "saving",
    "rig",
    "signal",
    "solve",
    "study",
)
"""Parts of the package that are loaded when first used as kapitza.PART."""

NAMESPACES = ("library", "report", "rig")
"""Those of them whose own names users call; each puts the check of arguments in front of them (`check_names`)."""

RESULTS = (
    "Basins",
    "Bifurcation",
    "Branch",
    "Campaign",
    "Coverage",
    "Diagram",
    "Ensemble",
    "Estimate",
    "Inspection",
    "LyapunovSpectrum",
    "ModalReduction",
    "Expected",
    "OrbitSet",
    "PeriodicOrbit",
    "Plan",
    "RivalPlan",
    "SetPlan",
    "StudyResult",
    "Validation",
)
"""Nouns that verbs return: their numbers may be missing (NaN) or infinite."""

HOMES = {name: home for homes in PUBLIC.values() for home, names in homes.items() for name in names}
"""Name → the module where it lives."""
