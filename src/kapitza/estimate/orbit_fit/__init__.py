"""Parameters from periodic orbits."""

from kapitza.estimate.orbit_fit.advice import advise
from kapitza.estimate.orbit_fit.fit import OrbitFit
from kapitza.estimate.orbit_fit.intervals import log_posterior, orbit_profile_interval, posterior
from kapitza.estimate.orbit_fit.missing import missing_orbits
from kapitza.estimate.orbit_fit.readings import Differenced

__all__ = [
    "Differenced",
    "OrbitFit",
    "advise",
    "log_posterior",
    "missing_orbits",
    "orbit_profile_interval",
    "posterior",
]
