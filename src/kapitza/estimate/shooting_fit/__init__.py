"""Fits to raw series by multiple shooting."""

from kapitza.estimate.shooting_fit.bent import of_bent_errors
from kapitza.estimate.shooting_fit.closing import fault_columns, faults_of, leverages
from kapitza.estimate.shooting_fit.design import cramer_rao
from kapitza.estimate.shooting_fit.fit import ShootingFit
from kapitza.estimate.shooting_fit.held import HeldMotion, MotionDensity, MotionProfile
from kapitza.estimate.shooting_fit.misfit import own_noise
from kapitza.estimate.shooting_fit.result import MotionWorkings, noise_of
from kapitza.estimate.shooting_fit.solver import MotionSolution
from kapitza.estimate.shooting_fit.task import MotionTask
