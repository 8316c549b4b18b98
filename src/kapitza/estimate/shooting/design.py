"""What a measurement can give at best: the Cramér-Rao bound, and intervals by profile likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from kapitza.data import Record
from kapitza.errors import DataError, KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit import OrbitFit, orbit_profile_interval
from kapitza.estimate.shooting.checks import free_names
from kapitza.estimate.shooting.fit import ShootingFit
from kapitza.estimate.shooting.pieces import Part, place_nodes
from kapitza.estimate.shooting.solver import Fitter, Iterate, SolverSettings
from kapitza.estimate.shooting.sweep import sweep
from kapitza.model import Model

Array = NDArray[np.float64]


def cramer_rao(
    model: Model,
    states: Part,
    noise: Mapping[str, float],
    free: Sequence[str],
    method: ShootingFit | None = None,
) -> pd.DataFrame:
    """Smallest covariance (k, k) that any unbiased estimator can have from this measurement.

    states: a record of every state of the model, without noise (from `simulate`), at the model's parameters.
    noise: standard deviation of each channel that the sensors would give; channels not named are not measured. The
    initial state of every piece counts as unknown.
    """
    method = method or ShootingFit()
    record = states[0] if isinstance(states, tuple) else states
    missing = [name for name in model.states if name not in record.channels]
    if missing:
        raise DataError(f"The bound needs every state; the record lacks {', '.join(missing)}: simulate it.")
    # The information does not depend on the readings, so sensors that the record lacks may read zero.
    readings = {name: record[name] if name in record.channels else np.zeros(record.size) for name in noise}
    segment = record.dataset["segment"].values
    phase = record.dataset.attrs.get("phase")
    seen = Record.from_arrays(record.time, readings, segment=segment, period=record.period, phase=phase)
    full = replace(method, noise=dict(noise), hold_back=0.0)
    task = full.prepare(model, (seen, states[1]) if isinstance(states, tuple) else seen, free_names(model, free))
    nodes = place_nodes(task.problem.samples, 1)
    true = record.values(model.states)[_kept(task.problem.samples.size, record.size)]
    theta = np.array([model.values[name] for name in task.names])
    weights = np.broadcast_to(task.deviations**-2.0, task.problem.samples.values.shape)
    fitter = Fitter(
        task.problem, SolverSettings(), task.scale, task.deviations, -np.inf + 0 * theta, np.inf + 0 * theta
    )
    at_truth = Iterate(theta, true, nodes, sweep(task.problem, nodes, true, theta, weights), weights)
    covariance = np.linalg.inv(fitter.information(at_truth))
    return pd.DataFrame(covariance, index=list(task.names), columns=list(task.names))


def _kept(kept: int, size: int) -> slice:
    if kept != size:
        raise DataError(f"{size - kept} samples of the record stand alone between gaps: remove them first.")
    return slice(None)


def profile_interval(estimate: Estimate, name: str, level: float = 0.95) -> tuple[float, float]:
    """Interval of one parameter by profile likelihood: all others are fitted again at each value tried.

    Ends where twice the drop of the log-likelihood reaches the χ² quantile with one degree of freedom.
    """
    method, model = estimate.details.get("settings"), estimate.model
    if isinstance(method, OrbitFit):
        return orbit_profile_interval(estimate, name, level)
    if not isinstance(method, ShootingFit):
        raise KapitzaError("Profile likelihood needs an estimate made by ShootingFit or OrbitFit.")
    if name not in estimate.names:
        raise KapitzaError(f'"{name}" was not free in this fit; free were {", ".join(estimate.names)}.')
    others = tuple(n for n in estimate.names if n != name)
    known = replace(method, noise=dict(estimate.noise), softness=1e-3, throw=False)
    threshold = float(stats.chi2.ppf(level, 1))

    def excess(value: float) -> float:
        moved = model.with_values(**{name: value})
        again = known.fit_named(moved, estimate.data, others)
        if again.status is not Status.CONVERGED:
            raise KapitzaError(f"The profile of {name} could not be followed to {value:.6g}: {again.status.value}.")
        return again.chi2 - estimate.chi2 - threshold

    centre, deviation = estimate.values[name], estimate.deviations[name]
    ends = []
    for side in (-1.0, 1.0):
        reach = side * deviation * np.sqrt(threshold)
        factor = 1.0
        while excess(centre + factor * reach) < 0 and factor < 16:
            factor *= 1.5
        found = optimize.root_scalar(
            excess, bracket=(centre + 0.2 * reach, centre + factor * reach), xtol=1e-3 * deviation
        )
        ends.append(float(found.root))
    return ends[0], ends[1]
