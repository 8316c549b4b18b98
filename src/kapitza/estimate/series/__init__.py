"""Parameters from the raw series by multiple shooting."""

from kapitza.estimate.series.design import cramer_rao, profile_interval
from kapitza.estimate.series.fit import ShootingFit

__all__ = ["ShootingFit", "cramer_rao", "profile_interval"]
