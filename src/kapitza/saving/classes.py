"""Classes that files hold, and their versions.

Plain values are not listed. Files of earlier versions are read.

A class is named in files by its name here, with its version. Rules for a later release:

- A class that moves changes its home in CLASSES. One that gets another name is also entered in RENAMED.
- A new field has a default: files without it are read as they are.
- A field that is renamed, removed or means something else: one more in VERSIONS, and the change in CHANGES.

tests/saving/corpus holds files of every release; all of them must be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from importlib import import_module
from typing import Any

CLASSES = {
    "kapitza.orbits.orbit": (
        "PeriodicOrbit", "OrbitMeasurement", "OrbitSolution", "OrbitSet", "Profile",
        "Certificate", "Stretch", "Crossings", "Sensitivity", "SolverReport",
    ),
    "kapitza.orbits.in_records.influence": ("Influence",),
    "kapitza.orbits.in_records": ("GlobalMap", "Inspection", "LocalMap", "ReturnSearch", "SectionSearch"),
    "kapitza.orbits.in_records.character": ("Character",),
    "kapitza.signal": ("DelayCurve", "DimensionCurve", "Lyapunov", "Spectrum"),
    "kapitza.orbits.of_models": (
        "CensusReport", "FlowLoop", "FourierSeries", "PiecewiseLoop", "SampledLoop", "Collocation", "Differences",
        "FixedState", "HarmonicBalance", "Homotopy", "IntegralPhase", "MultipleShooting", "OrthogonalPhase", "Shooting",
        "Basins", "LyapunovSpectrum",
    ),
    "kapitza.orbits.of_models.basins": ("Attractor",),
    "kapitza.orbits.of_models.census_sections": ("SectionReport",),
    "kapitza.solve.newton": ("NewtonRow",),
    "kapitza.flow.engine": ("Event",),
    "kapitza.data": ("MeasuredBranch", "Record"),
    "kapitza.estimate": (
        "Estimate", "Automatic", "BranchFit", "Coverage", "DifferenceQuotient", "HarmonicFit", "InvariantFit",
        "OrbitFit", "Sensor", "ShootingFit", "Validation", "PredictionTest", "SectionTest",
    ),
    "kapitza.estimate.validation": ("Exponents", "Frequency", "OrbitCheck"),
    "kapitza.estimate.identifiability": ("Identifiability",),
    "kapitza.estimate.misfit": ("Misfit",),
    "kapitza.estimate.faults": ("Fault", "Leverage"),
    "kapitza.estimate.parts": (
        "Likelihood", "NoiseAlone", "OrbitMatches", "Prediction", "FittedMotion", "WeakRows", "Exclusion",
        "HarmonicRows", "LevelSets", "Question", "Agreement", "Course", "Combined",
    ),
    "kapitza.estimate.profile": ("ProfileCurve",),
    "kapitza.estimate.missing.suggest": ("MissingTerm", "Shift", "Suggestion"),
    "kapitza.estimate.missing": ("ModelTest",),
    "kapitza.base.ensembles": ("Ensemble", "Failure"),
    "kapitza.planning": (
        "Campaign", "Choice", "Contest", "Ending", "Entry", "Expected", "ItemSet", "Outcome", "Plan", "PlanMap",
        "RivalPlan", "Search", "SetPlan",
    ),
    "kapitza.planning.knowledge": ("Knowledge",),
    "kapitza.planning.criteria": ("Wanted",),
    "kapitza.planning.result": ("Tried",),
    "kapitza.planning.space": ("Axis", "Space"),
    "kapitza.estimate.invariant_fit.conserved.found": ("FoundInvariant", "InvariantSearch"),
    "kapitza.model": ("ModalReduction", "Prior"),
    "kapitza.continuation.branch": ("Branch",),
    "kapitza.continuation.response": ("FrequencyResponse",),
    "kapitza.continuation.diagram": ("Diagram",),
    "kapitza.continuation.nouns": ("Bifurcation", "Critical", "Proof", "ReturnMap", "Kind", "End"),
    "kapitza.continuation.tori.nouns": ("Torus", "TorusBranch"),
    "kapitza.continuation.tori.tongues": ("Tongue",),
}  # fmt: skip
"""Home and names of the classes; a name that is not listed is never looked up."""

HOMES = {name: home for home, names in CLASSES.items() for name in names}

LEFT_OUT = {"Estimate": ("workings",)}
"""Fields that are made again when they are needed."""


@dataclass(frozen=True)
class Change:
    """A change of the fields of a class.

    It leads from one version to the next.

    renamed: old name → new name; dropped: fields that are gone; convert: anything else, from fields to fields.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    convert: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __call__(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        kept = {self.renamed.get(name, name): value for name, value in fields.items() if name not in self.dropped}
        return kept if self.convert is None else self.convert(kept)


RENAMED: dict[str, str] = {"Differenced": "DifferenceQuotient"}
"""Name of a class in earlier files → its name now."""

VERSIONS: dict[str, int] = {
    "Estimate": 2,
    "PeriodicOrbit": 2,
    "Bifurcation": 2,
    "Automatic": 2,
    "OrbitFit": 2,
    "GlobalMap": 2,
}
"""Version of a class, 1 where it is not listed."""


def _parts(**homes: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change that puts fields into parts.

    The fields were side by side before; homes: the class of each part.
    """

    def convert(fields: dict[str, Any]) -> dict[str, Any]:
        kept = dict(fields)
        for home, name in homes.items():
            kind = getattr(import_module(HOMES[name]), name)
            kept[home] = kind(**{f.name: kept.pop(f.name) for f in dataclass_fields(kind) if f.name in kept})
        return kept

    return convert


def _estimate_of_parts(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an estimate as parts.

    Version 1 had them side by side.
    """
    kept = _parts(question="Question", agreement="Agreement", course="Course", combined="Combined")(fields)
    found = [kept.pop(name) for name in ("matches", "motion", "rows", "level_sets") if name in kept]
    kept["findings"] = next((one for one in found if one is not None), None)
    return kept


CHANGES: dict[tuple[str, int], Change] = {
    ("Automatic", 1): Change(renamed={"starts": "start_from"}),
    ("GlobalMap", 1): Change(renamed={"held_out": "hold_back"}),
    ("OrbitFit", 1): Change(renamed={"starts": "start_orbits"}),
    ("Estimate", 1): Change(convert=_estimate_of_parts),
    ("PeriodicOrbit", 1): Change(convert=_parts(measured="OrbitMeasurement", solution="OrbitSolution")),
    ("Bifurcation", 1): Change(convert=_parts(crossing="Critical", proof="Proof", map="ReturnMap")),
}
"""By class (its name now) and version: the change from this version to the next."""


def version_of(name: str) -> int:
    return VERSIONS.get(name, 1)
