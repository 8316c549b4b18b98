"""Fits to raw series by multiple shooting."""

from kapitza.estimate.shooting_fit.design import cramer_rao
from kapitza.estimate.shooting_fit.fit import ShootingFit
from kapitza.estimate.shooting_fit.held import MotionDensity, MotionProfile
from kapitza.estimate.shooting_fit.result import MotionWorkings
