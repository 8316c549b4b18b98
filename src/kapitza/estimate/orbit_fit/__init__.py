"""Parameters from periodic orbits."""

from kapitza.estimate.orbit_fit.fit import OrbitFit
from kapitza.estimate.orbit_fit.readings import Differenced

__all__ = ["Differenced", "OrbitFit"]
