"""Intervals by profile likelihood.

All other unknowns are fitted again at each value tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import By
from kapitza.base.monitor import Monitor, checkpoint, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.counted_likelihood import CountedProfile, counts_drives
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.intervals import half_width
from kapitza.estimate.orbit_fit import OrbitProfile
from kapitza.estimate.result import likelihood_of
from kapitza.estimate.shooting_fit import MotionProfile

FARTHEST = 12
"""Steps, each longer by GROWTH, after which the data are reported not to bound a parameter."""

GROWTH = 1.6
"""Factor between successive steps; twelve of them reach nearly three hundred times the first."""


class Profile(Protocol):
    """Profile of a fit over one parameter.

    width: its standard error where the cost is a parabola. widening: factor by which its variance was widened.
    """

    width: float
    widening: float

    def rise(self, value: float) -> float:
        """Return the rise of the cost at a value.

        Twice the drop of the logarithm of what was maximised, with the other parameters at their best.
        """
        ...


def profile_interval(
    estimate: Estimate,
    name: str,
    level: float = 0.95,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
) -> tuple[float, float]:
    """Return the profile-likelihood interval of one parameter.

    It ends where twice the drop of the logarithm of what was maximised (likelihood or robust loss, with the priors; for
    orbits χ², multipliers included where they were fitted) reaches the squared quantile of Student's t (of the Gaussian
    where the noise was known), times the factor by which the fit widened the variance of the parameter, or at a bound
    that is met before. Noise and kicks are held at their estimates. A fit that counts the noise of its drives has the
    likelihood under both noises.

    Parameters
    ----------
    estimate : Estimate
        Made by `OrbitFit`, `ShootingFit` or ``"auto"``.
    name : str
        A parameter that was free.
    level : float
        Probability that the interval holds the true value.
    executor : optional
        Works on both ends at once: anything with ``submit``, as in concurrent.futures.
    monitor : Monitor, optional
        Shown the progress. Cancelled, or after Ctrl-C, an end that was not reached comes back as NaN.

    Returns
    -------
    low, high : float
        In the unit of the parameter.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(model, t=np.arange(200) * 0.1), noise=0.01, seed=1)
    >>> fit = kz.identify(model, record, free=["c"], method=kz.ShootingFit())
    >>> low, high = kz.profile_interval(fit, "c")
    >>> low < fit["c"] < high
    True
    """
    _require_profile(estimate, name)
    factor = half_width(level, estimate.dof)
    threshold = factor**2 * _profile(estimate, name).widening
    ends = [float("nan"), float("nan")]
    with watch(monitor, f"profile of {name}", 2) as task:
        shared = Shared(estimate)
        # The two ends are independent and may run on two workers.
        jobs = [(shared, name, side, threshold) for side in (-1.0, 1.0)]
        for number, found in enumerate(in_order(executor, _profile_end, jobs)):
            ends[number] = found
            task.advance(1, f"{'lower' if number == 0 else 'upper'} end {found:.6g}")
    return ends[0], ends[1]


@dataclass(frozen=True)
class ProfileCurve:
    """Profile likelihood of one parameter.

    values (P,) in the unit of the parameter; rise (P,): twice the drop of the logarithm of what was maximised, widened
    as the fit was; NaN where the model could not be followed. threshold: the rise at the ends of the interval.
    """

    name: str
    values: Array
    rise: Array
    threshold: float
    level: float


def profile_curve(
    estimate: Estimate,
    name: str,
    points: int = 11,
    reach: float = 2.5,
    level: float = 0.95,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
) -> ProfileCurve:
    """Return the profile likelihood of one parameter.

    It covers `reach` standard errors to either side, within the bounds.

    A parabola where the interval is Gaussian; flat where the data do not determine the parameter. Noise is held at its
    estimate.

    Parameters
    ----------
    estimate: the fit whose parameter is moved while all others are fitted again.
    name: a free parameter of it.
    points: how many values are tried; the estimate is among them if odd.
    reach: standard errors to either side.
    level: probability of the interval that the curve cuts out.
    executor: works on both sides at once: anything with ``submit``, as in concurrent.futures.
    monitor: progress; a curve that is stopped keeps the values that are finished.

    Returns
    -------
    ProfileCurve
        Values of the parameter (in its unit) and the rise of the cost over its minimum at each.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(model, t=np.arange(200) * 0.1), noise=0.01, seed=1)
    >>> fit = kz.identify(model, record, free=["c"], method=kz.ShootingFit())
    >>> curve = kz.profile_curve(fit, "c", points=5)
    >>> int(np.argmin(curve.rise))
    2
    """
    _require_profile(estimate, name)
    centre, bounds = estimate.values[name], estimate.model.parameter(name).bounds
    profile = _profile(estimate, name)
    steps = np.linspace(-reach, reach, points) * profile.width
    # Values beyond a bound fall on it and are evaluated once.
    values = np.unique(np.clip(centre + steps, *bounds))
    rise = np.full(values.size, np.nan)
    with watch(monitor, f"profile of {name}", values.size) as task:
        # Outwards from the estimate on either side: each fit starts from the solution at the value before.
        middle = int(np.argmin(np.abs(values - centre)))
        sides = [np.arange(middle, values.size), np.arange(middle - 1, -1, -1)]
        if executor is None:
            for side in sides:
                for i, found in zip(side, _rises(Shared(estimate), name, values[side]), strict=False):
                    rise[i] = found
                    task.advance(1)
        else:
            shared = Shared(estimate)
            jobs = [(shared, name, values[side]) for side in sides]
            for side, found in zip(sides, in_order(executor, _all_rises, jobs), strict=True):
                rise[side[: len(found)]] = found
                task.advance(side.size)
    return ProfileCurve(name, values, rise, half_width(level, estimate.dof) ** 2, level)


def _motion_profile(estimate: Estimate, name: str) -> Profile:
    """Return the profile of a motion, by the likelihood that was maximised."""
    return CountedProfile(estimate, name) if counts_drives(estimate) else MotionProfile(estimate, name)


PROFILES: dict[str, Callable[[Estimate, str], Profile]] = {"orbits": OrbitProfile, "motion": _motion_profile}
"""Profiles by the likelihood that they run."""


def _require_profile(estimate: Estimate, name: str) -> None:
    if likelihood_of(estimate) not in PROFILES:
        raise KapitzaError(f"Profile likelihood needs an estimate made by {By('shooting')} or {By('orbits')}.")
    if name not in estimate.names:
        raise KapitzaError(f'"{name}" was not free in this fit; free were {", ".join(estimate.names)}.')
    if np.isinf(estimate.deviations[name]):
        raise KapitzaError(f"{name} is not determined by these data: its interval has no ends.")
    if not estimate.status.ok:
        raise KapitzaError(f"There is no profile of a fit that did not converge: {estimate.status.value}.")


def _profile(estimate: Estimate, name: str) -> Profile:
    return PROFILES[likelihood_of(estimate)](estimate, name)


def _rises(estimate: Shared[Estimate], name: str, values: Array) -> Iterator[float]:
    """Yield the rise at successive values.

    It ends where the model cannot be followed.
    """
    profile = _profile(estimate.value, name)
    for value in values.tolist():
        try:
            yield profile.rise(value) / profile.widening
        except (KapitzaError, FlowError):
            return


def _all_rises(estimate: Shared[Estimate], name: str, values: Array) -> list[float]:
    return list(_rises(estimate, name, values))


def _profile_end(estimate: Shared[Estimate], name: str, side: float, threshold: float) -> float:
    """Return one end of the interval.

    Each side has its own profile, so that the values tried on one side do not change the other.
    """
    return _end(_profile(estimate.value, name), estimate.value, name, side, threshold)


def _end(profile: Profile, estimate: Estimate, name: str, side: float, threshold: float) -> float:
    """Return where the rise exceeds the threshold.

    The search is on one side, at most up to the bound.
    """
    centre, bounds = estimate.values[name], estimate.model.parameter(name).bounds
    bound = bounds[0] if side < 0 else bounds[1]
    # The end of the interval if the profile were a parabola.
    reach = side * profile.width * np.sqrt(threshold)
    inner, outer = centre, centre
    for _ in range(FARTHEST):
        outer = centre + reach if np.isinf(bound) else side * min(side * (centre + reach), side * bound)
        if outer == centre:
            return centre
        checkpoint(text=f"{name} = {outer:.6g}")
        if profile.rise(outer) >= threshold:
            return _crossing(profile, inner, outer, centre, threshold)
        if outer == bound:
            return float(bound)
        inner, reach = outer, GROWTH * reach
    raise KapitzaError(
        f"The data do not bound {name} from {'below' if side < 0 else 'above'}: at {outer:.6g} the fit is still as "
        "good as the level allows."
    )


def _crossing(profile: Profile, inner: float, outer: float, centre: float, threshold: float) -> float:
    from scipy import optimize

    found = optimize.root_scalar(
        lambda value: (0.0 if value == centre else profile.rise(value)) - threshold,
        bracket=(inner, outer),
        # A thousandth of the bracket is far below what an interval is reported with.
        xtol=1e-3 * abs(outer - inner),
    )
    return float(found.root)
