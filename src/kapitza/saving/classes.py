"""What a file may hold besides plain values."""

from __future__ import annotations

CLASSES = {
    "kapitza.orbit": (
        "PeriodicOrbit", "OrbitSet", "Profile", "Certificate", "Stretch", "Crossings", "Sensitivity", "SolverReport",
    ),
    "kapitza.orbits_in_data.influence": ("Influence",),
    "kapitza.orbits_in_data": ("GlobalMap", "Inspection", "LocalMap", "ReturnSearch", "SectionSearch"),
    "kapitza.orbits_in_data.character": ("Character",),
    "kapitza.signal": ("DelayCurve", "DimensionCurve", "Lyapunov", "Spectrum"),
    "kapitza.orbits_of_models": (
        "CensusReport", "FlowLoop", "FourierSeries", "PiecewiseLoop", "SampledLoop", "Collocation", "Differences",
        "FixedState", "HarmonicBalance", "Homotopy", "IntegralPhase", "MultipleShooting", "OrthogonalPhase", "Shooting",
        "Basins",
    ),
    "kapitza.orbits_of_models.basins": ("Attractor",),
    "kapitza.orbits_of_models.census_sections": ("SectionReport",),
    "kapitza.solve.newton": ("NewtonRow",),
    "kapitza.flow.engine": ("Event",),
    "kapitza.data": ("Record",),
    "kapitza.estimate": (
        "Estimate", "Automatic", "BranchFit", "Coverage", "Differenced", "HarmonicFit", "InvariantFit", "OrbitFit",
        "Sensor", "ShootingFit", "Validation", "PredictionTest", "SectionTest",
    ),
    "kapitza.estimate.validation": ("Exponents", "Frequency", "OrbitCheck"),
    "kapitza.estimate.identifiability": ("Identifiability",),
    "kapitza.estimate.misfit": ("Misfit",),
    "kapitza.estimate.faults": ("Fault",),
    "kapitza.estimate.parts": (
        "Likelihood", "NoiseAlone", "OrbitMatches", "Prediction", "FittedMotion", "WeakRows", "Exclusion",
        "HarmonicRows", "LevelSets",
    ),
    "kapitza.estimate.profile": ("ProfileCurve",),
    "kapitza.estimate.missing.suggest": ("MissingTerm", "Suggestion"),
    "kapitza.ensembles": ("Ensemble", "Failure"),
    "kapitza.invariants.found": ("FoundInvariant", "InvariantSearch"),
    "kapitza.model": ("ModalReduction", "Prior"),
    "kapitza.continuation.branch": ("Branch",),
    "kapitza.continuation.measured": ("MeasuredBranch",),
    "kapitza.continuation.conservative": ("FrequencyResponse",),
    "kapitza.continuation.diagram": ("Diagram",),
    "kapitza.continuation.nouns": ("Bifurcation", "Kind", "End"),
}  # fmt: skip
"""Home and names of the classes; a name that is not listed is never looked up."""

HOMES = {name: home for home, names in CLASSES.items() for name in names}

LEFT_OUT = {"Estimate": ("workings",)}
"""Fields that are made again when they are needed."""
