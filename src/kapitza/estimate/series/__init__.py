"""Parameters from the raw series by multiple shooting."""

from kapitza.estimate.series.design import cramer_rao
from kapitza.estimate.series.fit import ShootingFit
from kapitza.estimate.series.held import MotionDensity, MotionProfile
from kapitza.estimate.series.result import MotionWorkings

__all__ = ["MotionDensity", "MotionProfile", "MotionWorkings", "ShootingFit", "cramer_rao"]
