"""Parameters from data, with intervals."""

from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identify import Estimator, identify

__all__ = ["Estimate", "Estimator", "identify"]
