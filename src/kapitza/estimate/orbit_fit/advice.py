"""Advice on the next measurement.

Which orbit or sensor would narrow the intervals most.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit.judge import Outcome
from kapitza.estimate.orbit_fit.nested import close_orbits
from kapitza.estimate.orbit_fit.result import OrbitWorkings
from kapitza.estimate.orbit_fit.solver import covariance_of, deviations_of, reduce_block
from kapitza.estimate.orbit_fit.targets import Item, Reader, whitening
from kapitza.estimate.orbit_fit.task import OrbitTask
from kapitza.estimate.result import workings_of
from kapitza.orbits import PeriodicOrbit

if TYPE_CHECKING:
    import pandas as pd

ELSEWHERE = 0.3
"""Largest distance, as a share of the spread, between an orbit as given and as closed; beyond it is another orbit."""


def advise(estimate: Estimate, orbits: Iterable[PeriodicOrbit] = ()) -> pd.DataFrame:
    """Rank orbits and sensors by their information.

    The measure is how much each would narrow the intervals of the free parameters.

    Adding samples with information F₁ to F turns the covariance F⁻¹ into (F + F₁)⁻¹. Tried are: each orbit of the fit
    located once more, as well as before; each of `orbits` with the typical accuracy of the others; each channel with
    half its noise; each state without a sensor, at the nodes.

    Parameters
    ----------
    estimate : Estimate
        Made by `OrbitFit`.
    orbits : iterable of PeriodicOrbit
        Further ones of the model, from ``find_orbits(model)``.

    Returns
    -------
    pandas.DataFrame
        Columns what, which, one per parameter (its interval narrower by so many per cent), mean; the best first.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.duffing()
    >>> orbit = kz.solve_orbit(model, profile=False).with_(covariance=1e-6 * np.eye(2))
    >>> ranking = kz.advise(kz.identify(model, [orbit], free=["k"]))
    >>> float(ranking.set_index("what").loc["orbit located once more", "k"].round(1))  # 1 - 1/√2
    29.3
    """
    import pandas as pd

    workings = workings_of(estimate, OrbitWorkings)
    task, outcome = workings.task, workings.outcome
    if not np.isfinite(estimate.covariance).all():
        raise KapitzaError(
            f"Some of {', '.join(estimate.names)} are not determined by these data, and more of the same does not "
            f"change that: free only {', '.join(estimate.identifiable)}."
        )
    problem, solution = outcome.problem, outcome.solution
    rows: list[dict[str, Any]] = []

    def consider(what: str, which: str, information: Array) -> None:
        before, after = (np.sqrt(np.diag(covariance_of(f))) for f in (solution.information, information))
        gain = 100 * (1 - after / before)
        rows.append({"what": what, "which": which, **dict(zip(task.names, gain, strict=True)), "mean": gain.mean()})

    for target, reduced in zip(problem.targets, solution.reduced, strict=True):
        # The information of the orbit counts twice.
        again = solution.information + reduced.slope.T @ reduced.slope
        consider("orbit located once more", target.label, again)
    for orbit in orbits:
        label = f"period {len(orbit.points)} {orbit.code}".strip()
        further = _further(task, outcome, estimate, orbit)
        if further is None:
            rows.append({"what": "further orbit (does not close here)", "which": label})
        else:
            consider("further orbit", label, solution.information + further)
    for channel, name in enumerate(problem.channels.names):
        consider("half the noise", name, _quieter(outcome, channel))
    for index, name in enumerate(task.model.states):
        if name not in problem.channels.names:
            consider("new sensor", name, solution.information + _sensor(outcome, index))
    return pd.DataFrame(rows).sort_values("mean", ascending=False, ignore_index=True, kind="stable")


def _typical_noise(outcome: Outcome) -> Array:
    """Return the median noise of a sample per channel."""
    problem, spread = outcome.problem, []
    for target, weight in zip(problem.targets, outcome.solution.weights, strict=True):
        spread.append(deviations_of(weight)[: target.times.size])
    values = np.concatenate(spread)
    return np.array([np.median(values[problem.channel == c]) for c in range(len(problem.channels.names))])


def _further(task: OrbitTask, outcome: Outcome, estimate: Estimate, orbit: PeriodicOrbit) -> Array | None:
    """Return the information that an orbit would add.

    None where the model has no such orbit.
    """
    problem = outcome.problem
    noise = dict(zip(problem.channels.names, _typical_noise(outcome), strict=True))
    # The accuracy of a future measurement is that of the present ones, not of the computed orbit.
    item = Item(orbit.with_(covariance=None), {}, task.model.angles)
    reader = Reader(estimate.model, problem.channels, task.names, nodes=1, profiles=False, noise=noise)
    targets = reader.targets([item])
    extra = problem.of(targets)
    try:
        unknowns, blocks = close_orbits(extra, extra.starts(), outcome.solution.theta)
    except FlowError:
        return None
    found = extra.nodes(unknowns)[0]
    if np.abs(difference(found, targets[0].nodes, task.model.angles) / problem.scale).max() > ELSEWHERE:
        return None
    covariance = targets[0].covariance
    assert covariance is not None
    rows = len(covariance)
    slope = reduce_block(blocks[0], np.eye(len(blocks[0].residual))).slope[:rows]
    # Slopes of the first rows only: the period of a computed orbit is not a measurement.
    weighted = whitening(covariance) @ slope
    return weighted.T @ weighted


def _quieter(outcome: Outcome, channel: int) -> Array:
    """Return the information with less noise on one channel.

    The channel has half its noise.
    """
    solution = outcome.solution
    total = solution.information
    for target, block, weight in zip(outcome.problem.targets, solution.blocks, solution.weights, strict=True):
        factor = np.ones(len(block.residual))
        # Half the noise doubles the weight of whitened rows.
        factor[: target.times.size][target.channel == channel] = 2.0
        sharper = weight * factor if weight.ndim == 1 else weight * factor[None, :]
        now, before = (reduce_block(block, w).slope for w in (sharper, weight))
        total = total + now.T @ now - before.T @ before
    return total


def _sensor(outcome: Outcome, state: int) -> Array:
    """Return the information that a new sensor would add.

    It samples one state at every node, with the typical relative noise.
    """
    problem = outcome.problem
    relative = float(np.median(_typical_noise(outcome) / problem.channel_scale))
    n, total = problem.scale.size, 0.0
    for target, reduced in zip(problem.targets, outcome.solution.reduced, strict=True):
        slope = reduced.follow[: target.nodes.size].reshape(target.count, n, -1)[:, state]
        slope = slope / (relative * problem.scale[state])
        total = total + slope.T @ slope
    return np.asarray(total)
