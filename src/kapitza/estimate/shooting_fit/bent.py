"""Intervals by profiles where the likelihood is not parabolic.

With rise(p) = min over the other parameters of -2 log L, less its least value, the signed root

    z(p) = sign(p - p̂) √rise(p)

is standard normal at the true p to second order, whatever the shape of the likelihood (for a parabola it is the error
over the standard error). Each parameter whose secants fail (`secants`) is profiled; draws of z with the correlations of
the fit, transformed by p(z), are draws of all parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.estimate.derived import derived_parameters
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit.held import MotionProfile
from kapitza.estimate.shooting_fit.result import MotionWorkings
from kapitza.estimate.shooting_fit.secants import STRAIGHT

TOGETHER = 0.95
"""Correlation above which one profile serves two parameters: they move along the same valley."""

DISTANCES = (0.8, 1.645, 2.6, 4.0, 6.0, 9.0, 13.0, 20.0, 32.0, 50.0, 80.0, 130.0)
"""Distances in standard errors at which a profile is evaluated, until it is high.

A profile that is a parabola near its minimum may level off soon: that of two masses in steady motion stayed below 7
from 4 to 130 standard errors."""

STEEP, NEARER = 2.0, (0.15, 0.35, 0.65)
"""Rise at the first distance above which these shares of it are evaluated too, because the side is steep."""

HALVINGS = 3
"""Most halvings of a step that the fit of the other parameters cannot follow."""

HIGH = 9.0
"""Rise at which a side of the profile ends."""

OPEN = 3.84
"""Rise that a side must reach for a 95 % interval to end there."""

BETTER = 0.5
"""Drop of -2 log L below that of the fit from which the fit is not the best one."""

DRAWS = 4000
"""Draws of the parameters; with 4000 the ends of 95 % intervals scatter by 4 % of the standard error."""


@dataclass(frozen=True)
class _Point:
    """One point of a profile.

    It holds the value of p, the rise, and the values of the other parameters.
    """

    value: float
    rise: float
    others: Array


@dataclass(frozen=True)
class _Curve:
    """Values of a parameter by signed roots z.

    Both increase; low, high: ends that do not bound the parameter.
    """

    roots: Array
    values: Array
    low: bool
    high: bool

    def at(self, z: Array) -> Array:
        """Return values (S,) at signed roots (S,).

        The curve is continued by straight lines beyond the ends.
        """
        from scipy.interpolate import PchipInterpolator

        curve = PchipInterpolator(self.roots, self.values)
        inside = np.clip(z, self.roots[0], self.roots[-1])
        slopes = np.where(z > 0, *(_slope(self, end) for end in (-1, 0)))
        return curve(inside) + slopes * (z - inside)


@dataclass(frozen=True)
class Better:
    """Point with a higher likelihood than the fit.

    Parameters (k,), states (J, n).
    """

    theta: Array
    states: Array


def with_bent_errors(estimate: Estimate) -> Estimate | Better:
    """Return the estimate with draws by profiles.

    For parameters whose likelihood is not a parabola; or a better point from which to continue the fit.
    """
    names = workings_of(estimate, MotionWorkings).curved
    curves: dict[str, _Curve] = {}
    # The profile of one parameter also serves those correlated with it, which are then skipped.
    for name in sorted(names, key=lambda n: -abs(estimate.values[n])):
        if name in curves:
            continue
        found = _profile(estimate, name)
        if isinstance(found, Better):
            return found
        if found is not None and not _is_parabola(estimate, name, found):
            curves |= _curves(estimate, name, found, names)
    if not curves:
        return estimate
    draws = _draws(estimate, curves)
    centre = np.array([estimate.values[n] for n in estimate.names])
    # About the estimate, not about the mean of the draws: a skewed distribution has another mean.
    covariance = (draws - centre).T @ (draws - centre) / len(draws)
    rows = derived_parameters(estimate.model, estimate.names, covariance, None)
    return estimate.with_(
        draws=draws,
        covariance=covariance,
        derived={name: error for name, _, error in rows},
        warnings=(*estimate.warnings, _warning(estimate, curves, draws)),
    )


NO_PARABOLA = "is not a parabola: the intervals follow its profile"


def of_bent_errors(text: str) -> bool:
    """Return whether a warning is of `with_bent_errors`."""
    return NO_PARABOLA in text


def _warning(estimate: Estimate, curves: dict[str, _Curve], draws: Array) -> str:
    ends = []
    for name in curves:
        low, high = np.quantile(draws[:, estimate.names.index(name)], [0.025, 0.975])
        ends.append(f"{name} between {_shown(low, high - low)} and {_shown(high, high - low)}")
    # Parameters that move together are named together.
    tied = sorted({m for n in curves for m in _correlated_with(estimate, n)}, key=estimate.names.index)
    traded = f"{', '.join(tied)} can be traded for each other over a wide range: a" if len(tied) > 1 else "A"
    text = (
        f"the likelihood of {', '.join(curves)} {NO_PARABOLA} "
        f"({'; '.join(ends)}), ± is the spread. {traded}nother motion (another force or start) would narrow them."
    )
    for name, curve in curves.items():
        if curve.low or curve.high:
            side = "either side" if curve.low and curve.high else "smaller values" if curve.low else "larger values"
            width = float(np.ptp(curve.values))
            open_ends = ((curve.values[0], curve.low), (curve.values[-1], curve.high))
            edges = [_shown(v, width) for v, here in open_ends if here]
            text += (
                f" Towards {side} nothing bounds {name}: its likelihood could be followed to "
                f"{' and '.join(edges)} and is not low there; beyond, the interval is extrapolated."
                if not (curve.low and curve.high)
                else f" Nothing bounds {name}: its likelihood could be followed from {edges[0]} to {edges[1]} and is "
                "not low there; beyond, the interval is extrapolated."
            )
    return text


def _shown(value: float, width: float) -> str:
    """Return a value with enough digits for an interval.

    Two digits more than an interval of this width leaves equal.
    """
    if not (width > 0 and value != 0):
        return f"{value:.3g}"
    return f"{value:.{max(3, int(np.ceil(np.log10(abs(value) / width))) + 2)}g}"


def _profile(estimate: Estimate, name: str) -> list[_Point] | Better | None:
    """Return the points of a profile, ordered by value.

    None where neither side can be followed; a better point where the profile falls below the fit.
    """
    sides = []
    for sign in (-1.0, 1.0):
        profile = MotionProfile(estimate, name)
        points = _along(profile, estimate.values[name], sign * estimate.deviations[name], estimate)
        if points and points[-1].rise < -BETTER:
            others = dict(zip(profile.others, points[-1].others.tolist(), strict=True))
            values = {**others, name: points[-1].value}
            return Better(np.array([values[n] for n in estimate.names]), profile.states)
        sides.append(points)
    others = np.array([estimate.values[n] for n in estimate.names if n != name])
    found = [*sides[0][::-1], _Point(estimate.values[name], 0.0, others), *sides[1]]
    return found if len(found) > 1 else None


def _is_parabola(estimate: Estimate, name: str, points: list[_Point]) -> bool:
    """Return whether a profile rises as its curvature predicts.

    Both sides are tested: the single linear step of the secants may have been misleading.
    """
    value, width = estimate.values[name], estimate.deviations[name]
    far = np.array([(p.value - value) / width for p in points])
    ratio = np.array([p.rise for p in points])[far != 0] / far[far != 0] ** 2
    whole = min(points[0].rise, points[-1].rise) > OPEN
    return whole and bool(((ratio > 1 / STRAIGHT) & (ratio < STRAIGHT)).all())


def _along(profile: MotionProfile, value: float, width: float, estimate: Estimate) -> list[_Point]:
    """Return the points of one side, outwards.

    It ends where the profile is high, below the fit, or cannot be followed.
    """
    low, high = estimate.model.parameter(profile.name).bounds
    points: list[_Point] = []
    ahead, reached, failures = list(DISTANCES), 0.0, 0
    while ahead and failures < HALVINGS:
        far = ahead[0]
        place = value + far * width
        if not low <= place <= high:
            break
        try:
            point = _at(profile, place)
        except (KapitzaError, np.linalg.LinAlgError):
            ahead, failures = [(reached + far) / 2, *ahead], failures + 1
            continue
        if not points and point.rise > STEEP:
            # The side is much steeper than its curvature: its first part needs more points.
            fresh = MotionProfile(estimate, profile.name)
            points += [_at(fresh, value + share * far * width) for share in NEARER]
        points.append(point)
        reached, ahead = far, ahead[1:]
        if point.rise > HIGH or point.rise < -BETTER:
            break
    return points


def _at(profile: MotionProfile, value: float) -> _Point:
    rise = profile.rise(value) / profile.widening
    return _Point(value, rise, profile.theta.copy())


def _curves(estimate: Estimate, name: str, points: list[_Point], names: Sequence[str]) -> dict[str, _Curve]:
    """Return the curves of a parameter and correlated ones.

    The profile of one parameter also determines those that move with it.
    """
    value, place = estimate.values[name], estimate.names.index(name)
    side = np.array([np.sign(p.value - value) for p in points])
    # Signed root of the likelihood ratio, normal to second order.
    root = side * np.sqrt([max(p.rise, 0.0) for p in points])
    low, high = points[0].rise < OPEN, points[-1].rise < OPEN
    made: dict[str, _Curve | None] = {name: _curve(root, np.array([p.value for p in points]), low, high)}
    others = [n for n in estimate.names if n != name]
    for i, other in enumerate(others):
        tied = float(estimate.correlation[place, estimate.names.index(other)])
        if other in names and abs(tied) > TOGETHER:
            # Where the profile of p rises by z², that of a parameter with the correlation ρ to it rises by ρ² z².
            path = np.array([p.others[i] for p in points])
            ends = (low, high) if tied > 0 else (high, low)
            made[other] = _curve(tied * root, path, *ends)
    return {n: c for n, c in made.items() if c is not None}


def _curve(roots: Array, values: Array, low: bool, high: bool) -> _Curve | None:
    """Return the monotone curve through the points.

    Points at which it turns back are dropped; None where fewer than two are left.
    """
    order = np.argsort(roots, kind="stable")
    roots, values = roots[order], values[order]
    middle = int(np.argmin(np.abs(roots)))
    kept = [middle]
    for i in range(middle + 1, roots.size):
        if roots[i] > roots[kept[-1]] + 1e-6 and values[i] > values[kept[-1]]:
            kept.append(i)
    for i in range(middle - 1, -1, -1):
        if roots[i] < roots[kept[0]] - 1e-6 and values[i] < values[kept[0]]:
            kept.insert(0, i)
    return _Curve(roots[kept], values[kept], low, high) if len(kept) > 1 else None


def _slope(curve: _Curve, end: int) -> float:
    first, second = (0, 1) if end == 0 else (-2, -1)
    return float((curve.values[second] - curve.values[first]) / (curve.roots[second] - curve.roots[first]))


def _draws(estimate: Estimate, curves: dict[str, _Curve]) -> Array:
    """Draw all parameters (DRAWS, k).

    The draws are normal (Student's) scores with the correlations of the fit, each transformed by its own curve.
    """
    rng = np.random.default_rng(0)
    count = len(estimate.names)
    z = rng.multivariate_normal(np.zeros(count), estimate.correlation, DRAWS, check_valid="ignore")
    if np.isfinite(estimate.dof):
        # Student's t where the noise was estimated.
        z *= np.sqrt(estimate.dof / rng.chisquare(estimate.dof, DRAWS))[:, None]
    made = np.empty((DRAWS, count))
    for i, name in enumerate(estimate.names):
        low, high = estimate.model.parameter(name).bounds
        straight = estimate.values[name] + estimate.deviations[name] * z[:, i]
        made[:, i] = np.clip(curves[name].at(z[:, i]) if name in curves else straight, low, high)
    return made


def _correlated_with(estimate: Estimate, name: str) -> list[str]:
    """Return the parameters strongly correlated with one, itself included."""
    close = np.abs(estimate.correlation[estimate.names.index(name)]) > TOGETHER
    return [n for n, near in zip(estimate.names, close, strict=True) if near]
