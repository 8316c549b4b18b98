"""Parameters from data, with intervals."""

from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic import HarmonicFit
from kapitza.estimate.identify import Estimator, identify
from kapitza.estimate.invariant import InvariantFit

__all__ = ["Estimate", "Estimator", "HarmonicFit", "InvariantFit", "identify"]
