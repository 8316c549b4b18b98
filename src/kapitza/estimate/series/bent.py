"""Errors where the likelihood is no parabola: the profile of the loosest parameter in place of its curvature.

Parameters that a motion hardly tells apart (mass, damping, stiffness and force of a nearly harmonic steady motion grow
together) lie in a long valley, and it is bent: errors from the curvature at its bottom are too small on one side. Along
the valley the profile of one parameter p gives the likelihood and the values of all others, so draws of p from

    exp(-½ rise(p)),   rise(p) = min over the others of -2 log L, less its least value,

with the others at their values there, and their own errors about these, are draws of all parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from kapitza.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.estimate.derived import derived_parameters
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.series.held import MotionProfile

TOGETHER, LOOSE = 0.95, 0.03
"""Correlation of two parameters, and relative error of one of them, from which their valley is looked at."""

BENT = 1.5
"""Ratio of the rise of the profile to that of a parabola, or of a parabola to it, from which it counts."""

NEAR, FAR = (0.8, 1.645, 2.6, 4.0), (6.0, 9.0, 13.0, 20.0, 32.0, 50.0, 80.0, 130.0)
"""Standard errors at which the profile is taken: to see whether it is a parabola, and then as far as it is low.

A parabola near its bottom may level off soon: of two masses in steady motion it stayed below 7 from 4 to 130 errors."""

HIGH = 9.0
"""Rise at which a side of the profile ends."""

LONGEST = 20_000
"""Samples up to which a dozen fits of the others are worth the time."""

DRAWS = 4000
"""Samples of a bent valley: ends of 95 % intervals then scatter by 4 % of the deviation."""


@dataclass(frozen=True)
class _Point:
    """One place of the profile: value of p, rise, values of the other parameters."""

    value: float
    rise: float
    others: Array


def with_bent_errors(estimate: Estimate) -> Estimate:
    """The estimate with draws in place of Gaussian errors, where these are no good; else as it is."""
    name = _loosest(estimate)
    points = None if name is None else _profile(estimate, name)
    if name is None or points is None:
        return estimate
    place = estimate.names.index(name)
    draws = _draws(estimate, place, points)
    centre = np.array([estimate.values[n] for n in estimate.names])
    covariance = (draws - centre).T @ (draws - centre) / len(draws)
    table = derived_parameters(estimate.model, estimate.names, covariance, None)
    low, high = np.quantile(draws[:, place], [0.025, 0.975])
    text = (
        f"{', '.join(_with(estimate, place))} can be traded for each other over a wide range, and the likelihood along "
        f"it is no parabola: the intervals follow its profile ({name} between {low:.3g} and {high:.3g}), ± is its "
        "spread. Another motion (another force or frequency) would tell them apart."
    )
    return replace(
        estimate,
        draws=draws,
        covariance=covariance,
        derived=dict(zip(table["name"], table["error"], strict=True)),
        warnings=(*estimate.warnings, text),
    )


def _profile(estimate: Estimate, name: str) -> list[_Point] | None:
    """Places of the profile from end to end, by the value of the parameter; None where it is a parabola."""
    sides, bent = [], False
    try:
        for sign in (-1.0, 1.0):
            profile, width = MotionProfile(estimate, name), sign * estimate.deviations[name]
            points = [_at(profile, estimate.values[name] + far * width) for far in NEAR]
            ratios = np.array([point.rise for point in points[1:]]) / np.array(NEAR[1:]) ** 2
            bent |= bool(((ratios < 1 / BENT) | (ratios > BENT)).any())
            sides.append((profile, width, points))
    except (KapitzaError, np.linalg.LinAlgError):
        return None
    if not bent:
        return None
    others = np.array([estimate.values[n] for n in sides[0][0].others])
    found = [_Point(estimate.values[name], 0.0, others)]
    for profile, width, points in sides:
        for far in FAR:
            if points[-1].rise > HIGH:
                break
            try:
                points.append(_at(profile, estimate.values[name] + far * width))
            except (KapitzaError, np.linalg.LinAlgError):
                break
        found += points
    return sorted(found, key=lambda point: point.value)


def _at(profile: MotionProfile, value: float) -> _Point:
    rise = profile.rise(value) / profile.widening
    return _Point(value, rise, profile.theta.copy())


def _draws(estimate: Estimate, place: int, points: list[_Point]) -> Array:
    """(DRAWS, k): p along its profile, the others at their values there with what is left of their own errors."""
    rng = np.random.default_rng(0)
    values = np.array([point.value for point in points])
    grid = np.linspace(values[0], values[-1], 2001)
    rise = PchipInterpolator(values, [point.rise for point in points])(grid)
    density = np.exp(-0.5 * (rise - rise.min()))
    total = np.cumsum(density)
    drawn = np.interp(rng.random(DRAWS), total / total[-1], grid)
    rest = [i for i in range(len(estimate.names)) if i != place]
    along = PchipInterpolator(values, np.array([point.others for point in points]))(drawn)
    covariance = estimate.covariance
    own = (
        covariance[np.ix_(rest, rest)]
        - np.outer(covariance[rest, place], covariance[place, rest]) / (covariance[place, place])
    )
    made = np.empty((DRAWS, len(estimate.names)))
    made[:, place] = drawn
    made[:, rest] = along + rng.multivariate_normal(np.zeros(len(rest)), own, DRAWS, check_valid="ignore")
    return made


def _loosest(estimate: Estimate) -> str | None:
    """The parameter with the largest relative error among those that go together; None where none does."""
    if not estimate.status.ok or len(estimate.names) < 2 or not np.isfinite(estimate.covariance).all():
        return None
    if estimate.motion is None or len(estimate.motion.sample_times) > LONGEST or estimate.motion.process_noise:
        return None
    loose = []
    for i, name in enumerate(estimate.names):
        size = abs(estimate.values[name])
        relative = estimate.deviations[name] / size if size > 0 else 0.0
        if relative > LOOSE and len(_with(estimate, i)) > 1:
            loose.append((estimate.values[name], relative, name))
    # Of those that grow together the largest is farthest from changing its sign.
    return max(loose, key=lambda one: abs(one[0]))[2] if loose else None


def _with(estimate: Estimate, place: int) -> list[str]:
    """Names of the parameters that go with one of them, itself included."""
    close = np.abs(estimate.correlation[place]) > TOGETHER
    return [n for n, near in zip(estimate.names, close, strict=True) if near]
