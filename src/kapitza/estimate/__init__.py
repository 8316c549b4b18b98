"""Parameters from data, with intervals."""

from kapitza.estimate.estimate import Estimate, Estimator
from kapitza.estimate.harmonic import HarmonicFit
from kapitza.estimate.identify import identify
from kapitza.estimate.invariant import InvariantFit
from kapitza.estimate.shooting import ShootingFit, cramer_rao, profile_interval

__all__ = [
    "Estimate",
    "Estimator",
    "HarmonicFit",
    "InvariantFit",
    "ShootingFit",
    "cramer_rao",
    "identify",
    "profile_interval",
]
