"""Bad settings and bad data, refused before any work with what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kapitza import gate
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.orbits.readings import Target
from kapitza.orbit import PeriodicOrbit

if TYPE_CHECKING:
    from kapitza.estimate.orbits.fit import OrbitFit

Array = NDArray[np.float64]

ESTIMATORS = ("auto", "least squares", "weighted", "maximum likelihood", "bayes")
FORMULATIONS = ("all-at-once", "nested")


def check_settings(settings: OrbitFit) -> None:
    gate.choice("estimator", settings.estimator, ESTIMATORS)
    gate.choice("formulation", settings.formulation, FORMULATIONS)
    if settings.method is not None and settings.formulation != "nested":
        raise KapitzaError(
            f"method = {settings.method!r} solves single orbits, which only the nested form does: add "
            'formulation="nested", or leave method out.'
        )
    if settings.method is not None and not hasattr(settings.method, "solve"):
        raise KapitzaError(f"{settings.method!r} is not a periodic solver: pass Shooting() or Collocation().")
    for name, least in (("nodes", 1), ("restarts", 0), ("max_iterations", 1)):
        gate.whole(name, getattr(settings, name), least=least)
    for name in ("spread", "tolerance"):
        gate.number(name, getattr(settings, name), above=0)
    for name in ("multipliers", "set_aside", "throw"):
        gate.flag(name, getattr(settings, name))
    if settings.period is not None:
        gate.whole("period, in excitation periods,", settings.period, least=1)


def check_orbit(orbit: PeriodicOrbit, label: str, profile: bool) -> None:
    """Finite readings, and a covariance that can be one."""
    if not (np.isfinite(orbit.period) and orbit.period > 0):
        raise DataError(f"Orbit {label} has the period {orbit.period} s: give a positive number.")
    values, what = orbit.points, "point"
    if profile and orbit.profile is not None:
        values, what = orbit.profile.states, "sample"
        check_profile_times(orbit.profile.times, len(values), orbit.period, label)
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f'Orbit {label} has no number at {what} {row} of "{orbit.states[column]}": leave the orbit out, or clean '
            "the record."
        )
    if orbit.covariance is not None and not profile:
        check_covariance(np.asarray(orbit.covariance, float), orbit.points.size, label)


def check_profile_times(times: Array, count: int, period: float, label: str) -> None:
    if len(times) != count:
        raise DataError(f"The profile of orbit {label} has {len(times)} times for {count} samples: give one each.")
    if not (np.diff(times) > 0).all():
        raise DataError(f"The times in the profile of orbit {label} must increase: sort them, each with its sample.")
    if times[0] < 0 or not times[-1] < period * (1 + 1e-9):
        raise DataError(
            f"The times in the profile of orbit {label} run from {times[0]:.6g} to {times[-1]:.6g} s; they count from "
            f"0 up to the period of {period:.6g} s."
        )


def check_covariance(covariance: Array, size: int, label: str) -> None:
    if covariance.shape != (size, size):
        raise DataError(
            f"The covariance of orbit {label} has the shape {covariance.shape}; its points have {size} entries, so "
            f"({size}, {size}) is expected."
        )
    diagonal = np.diag(covariance)
    cure = "give the standard errors of its points, or with_(covariance=None) and noise={channel: deviation}"
    if not np.isfinite(covariance).all() or (diagonal < 0).any() or not (diagonal > 0).any():
        raise DataError(
            f"The covariance of orbit {label} is not one (variances from {diagonal.min():.3g} to "
            f"{diagonal.max():.3g}): {cure}."
        )
    size_ = np.sqrt(np.outer(diagonal, diagonal)) + 1e-300
    if (np.abs(covariance) > 1.001 * size_).any() or not np.allclose(covariance, covariance.T, atol=1e-6 * size_.max()):
        raise DataError(f"The covariance of orbit {label} is not symmetric with correlations within ± 1: {cure}.")


def check_freedom(targets: Sequence[Target], names: Sequence[str], noise_known: bool, autonomous: bool) -> None:
    """With unknown noise the residuals must have degrees of freedom left to estimate it from."""
    count = sum(t.times.size for t in targets)
    used = len(names) + (2 * len(targets) if autonomous else 0)
    if not noise_known and count <= used:
        raise DataError(
            f"{count} readings are to determine {used} unknowns ({', '.join(names)}"
            f"{', period and phase of each orbit' if autonomous else ''}) and the noise: give more data, or the noise "
            "by noise={channel: deviation}."
        )
