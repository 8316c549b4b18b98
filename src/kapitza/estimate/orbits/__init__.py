"""Parameters from periodic orbits."""

from kapitza.estimate.orbits.advice import advise
from kapitza.estimate.orbits.fit import OrbitFit
from kapitza.estimate.orbits.intervals import OrbitProfile, log_posterior, sampled_orbits
from kapitza.estimate.orbits.missing import missing_orbits

__all__ = [
    "OrbitFit",
    "OrbitProfile",
    "advise",
    "log_posterior",
    "missing_orbits",
    "sampled_orbits",
]
