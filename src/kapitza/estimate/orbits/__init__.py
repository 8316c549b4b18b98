"""Parameters from periodic orbits."""

from kapitza.estimate.orbits.advice import advise
from kapitza.estimate.orbits.fit import OrbitFit
from kapitza.estimate.orbits.intervals import log_posterior, orbit_profile_interval, posterior
from kapitza.estimate.orbits.missing import missing_orbits

__all__ = [
    "OrbitFit",
    "advise",
    "log_posterior",
    "missing_orbits",
    "orbit_profile_interval",
    "posterior",
]
