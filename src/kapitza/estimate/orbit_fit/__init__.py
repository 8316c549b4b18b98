"""Fits to periodic orbits."""

from kapitza.estimate.orbit_fit.advice import advise
from kapitza.estimate.orbit_fit.fit import OrbitFit
from kapitza.estimate.orbit_fit.intervals import OrbitProfile, expand, log_posterior
from kapitza.estimate.orbit_fit.missing import missing_orbits
from kapitza.estimate.orbit_fit.result import slopes_at
