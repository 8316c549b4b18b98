"""Frequency response of a forced model.

The backbone runs between its branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import wrap_states
from kapitza.base.argument_checks import Anything, Index
from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor, watch
from kapitza.continuation.branch import Branch
from kapitza.continuation.conservative import backbone, linear_mode
from kapitza.continuation.follow import follow
from kapitza.continuation.trace import Stepping
from kapitza.continuation.unfolding import undamped
from kapitza.continuation.walker import Bounds
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, Status
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import Guess, solve_orbit

SAME = 1e-4
"""Distance of two motions, relative to the largest state of a response, below which they are one."""


@dataclass(frozen=True)
class FrequencyResponse:
    """Forced responses and their backbone.

    The responses belong to one or several force amplitudes: `forces[i]` is that of `branches[i]`. A level has a second
    branch where the one from the lowest frequency does not lead to the response at the highest.
    status: INTERRUPTED when it was stopped; the responses that were begun are there.
    """

    branches: tuple[Branch, ...]
    forces: tuple[float, ...]
    force: str
    backbone: Branch | None
    status: Status = Status.CONVERGED

    def plot(self, **settings: Any) -> Any:
        from kapitza.report import plot_frequency_response

        return plot_frequency_response(self, **settings)


def frequency_response(
    model: Model,
    frequency: str,
    bounds: Bounds,
    *,
    force: str,
    damping: str | Sequence[str] | None = None,
    levels: Sequence[float] | None = None,
    start: Guess = None,
    mode: Index = 0,
    period: int | None = None,
    method: Anything = None,
    half_map: bool = False,
    detect: bool = True,
    stepping: Stepping | None = None,
    posterior: Anything = None,
    monitor: Monitor | None = None,
) -> FrequencyResponse:
    """Follow the response to harmonic forcing.

    There is one branch over the frequency for each level of the force, and the backbone where damping is named.

    Parameters
    ----------
    model : Model
        A forced one, whose period is 2π over its excitation frequency.
    frequency : str
        Name of the excitation frequency [rad/s].
    bounds : (float, float)
        Range of the frequency; each response begins at its lower end, and once more at its upper end where the first
        branch leads to another response there: a resonance that leaves the range.
    force : str
        Name of the amplitude of the force.
    damping : str or list of str, optional
        Set to zero for the backbone; without it there is none.
    levels : list of float, optional
        Amplitudes of the force; by default the model's own.
    start : optional
        From where the motion settles at the lower end; the model's start by default.
    mode : int
        Of the backbone.
    period, method, half_map, detect, stepping, posterior : optional
        Of each response, as in `follow`.
    monitor : Monitor, optional
        Progress; when it is stopped, the finished responses are returned with the status INTERRUPTED.

    Returns
    -------
    FrequencyResponse
        One or two branches for each level, and the backbone; `.plot()` draws them.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(
    ...     "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    ... )
    >>> response = kz.frequency_response(model, "omega", (0.9, 1.2), force="B", levels=[0.1, 0.3])
    >>> response.forces  # at 0.1 a second response, up to the resonance beyond 1.2
    (0.1, 0.1, 0.3)
    """
    model.check(force)
    given = [model.values[force]] if levels is None else checks.items("levels", levels, error=KapitzaError)
    chosen = tuple(checks.number("A level of the force", level, error=KapitzaError) for level in given)
    if not chosen:
        raise KapitzaError(f"levels is empty: give amplitudes of {force}, such as {Give(levels=[0.1, 0.2])}.")
    low, high = checks.span("bounds", sorted(checks.array("bounds", bounds, shape=(2,), error=KapitzaError).tolist()))
    branches: list[Branch] = []
    forces: list[float] = []
    spine = None
    walking: dict[str, Anything] = {
        "period": period, "method": method, "half_map": half_map, "detect": detect, "stepping": stepping,
        "posterior": posterior,
    }  # fmt: skip
    with watch(monitor, f"responses of {model.name}", len(chosen) + (damping is not None)) as task:
        for level in chosen:
            at = model.with_values(**{force: level, frequency: low})
            # Each response begins at the lower bound: the other direction would leave the range.
            branch = follow(at, start, frequency, bounds, direction=1, **walking)
            other = None if task.interrupted else _response_above(branch, start, frequency, high, period, method)
            found = [branch] if other is None else [branch, follow(branch.model.with_values(**{frequency: high}), other,
                     frequency, bounds, direction=-1, **walking)]  # fmt: skip
            branches += found
            forces += [level] * len(found)
            task.advance(1, f"{force} = {level:.6g}")
        if damping is not None:
            free, _ = undamped(model, frequency, force, damping)
            # The curve begins at the natural frequency, which may be outside of the range of the responses.
            _, omega = linear_mode(free, mode, free.state(dict.fromkeys(free.states, 0.0)))
            reach = (min(low, 0.99 * omega), max(high, 1.01 * omega))
            spine = backbone(model, frequency, force=force, damping=damping, bounds=reach, mode=mode)
            task.advance(1)
    return FrequencyResponse(tuple(branches), tuple(forces), force, spine, task.status)


def _response_above(
    branch: Branch, start: Guess, frequency: str, high: float, period: int | None, method: Anything
) -> PeriodicOrbit | None:
    """Return the settled response at the highest frequency.

    None where the branch leads there, or none is found.
    """
    try:
        orbit = solve_orbit(branch.model.with_values(**{frequency: high}), start, period, method, profile=False)
    except (ConvergenceError, FlowError):
        return None
    ends = np.abs(branch.values[:, 0] / high - 1) < 1e-9
    size = np.abs(branch.points).max()
    apart = np.abs(wrap_states(branch.points[ends] - orbit.points[0], branch.model.angles))
    return None if (apart.max(axis=1) < SAME * size).any() else orbit
