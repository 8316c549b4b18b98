"""Parameters from periodic orbits."""

from kapitza.estimate.orbits.advice import advise
from kapitza.estimate.orbits.fit import OrbitFit
from kapitza.estimate.orbits.intervals import OrbitProfile, expand, log_posterior
from kapitza.estimate.orbits.missing import missing_orbits

__all__ = [
    "OrbitFit",
    "OrbitProfile",
    "advise",
    "expand",
    "log_posterior",
    "missing_orbits",
]
