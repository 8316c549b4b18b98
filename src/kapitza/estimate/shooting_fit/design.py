"""Cramér-Rao bound of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.data import Record, one_part
from kapitza.errors import DataError, IdentifiabilityError
from kapitza.estimate.channel_units import in_model_units
from kapitza.estimate.redundancy import identifiable
from kapitza.estimate.request import make_request
from kapitza.estimate.shooting_fit.fit import ShootingFit
from kapitza.estimate.shooting_fit.pieces import place_nodes
from kapitza.estimate.shooting_fit.solver import Fitter, SolverSettings
from kapitza.estimate.shooting_fit.task import prepare
from kapitza.model import Model

if TYPE_CHECKING:
    import pandas as pd


def cramer_rao(
    model: Model,
    states: Anything,
    noise: Mapping[str, float],
    free: Sequence[str],
    method: ShootingFit | None = None,
) -> pd.DataFrame:
    """Return the smallest covariance (k, k) of unbiased estimators.

    Parameters
    ----------
    model : Model
        At the true values of its parameters.
    states : Record, or (Record, {name: value})
        Every state of the model, without noise (from `simulate`).
    noise : mapping
        Standard deviation of each channel that the sensors would give; channels not named are not measured.
    free : list of str
        The parameters; the initial state of every piece counts as unknown too.
    method : ShootingFit, optional
        Settings: outputs, gaps, known initial states.

    Returns
    -------
    pandas.DataFrame
        The covariance, rows and columns by name.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.lorenz()
    >>> run = kz.simulate(model, x0=[1, 1, 20], t=np.arange(500) * 0.01)
    >>> one, three = (kz.cramer_rao(model, run, dict.fromkeys(c, 0.1), free=["rho"]) for c in ("x", "xyz"))
    >>> bool(three.loc["rho", "rho"] < one.loc["rho", "rho"])
    True
    """
    import pandas as pd

    method = method or ShootingFit()
    if not isinstance(noise, Mapping):
        raise DataError(f"Name the channels that are measured, with their noise: {{{model.states[0]!r}: {noise}}}.")
    (part,) = in_model_units(model, [one_part(states, "cramer_rao")], replace(method, noise=dict(noise)))
    record = part.source
    assert isinstance(record, Record)
    missing = [name for name in model.states if name not in record.channels]
    if missing:
        raise DataError(f"The bound needs every state; the record lacks {', '.join(missing)}: simulate it.")
    # The information does not depend on the measured values, so channels that the record lacks may be zero.
    readings = {name: record[name] if name in record.channels else np.zeros(record.size) for name in noise}
    segment = record.content.segment
    phase = record.content.attrs.get("phase")
    seen = Record.from_arrays(record.time, readings, segment=segment, period=record.period, phase=phase)
    full = replace(method, noise=dict(noise), hold_back=0.0)
    task = prepare(full, make_request(model, [replace(part, source=seen)], free, full))
    # The true states are known at every sample, so the sweep is exact with a node at each.
    nodes = place_nodes(task.problem.samples, 1)
    alone = record.size - task.everything.size
    if alone:
        raise DataError(f"{alone} samples of the record are isolated between gaps: remove them first.")
    true = record.values(model.states)[task.positions[nodes.index]]
    theta = task.request.start
    weights = task.problem.samples.at_readings(task.sensors.deviations) ** -2.0
    fitter = Fitter(task.problem, SolverSettings(), task.scale, task.sensors, *task.request.bounds)
    information = fitter.information(fitter.swept(theta, true, nodes, weights))
    size = np.where(theta != 0, theta, 1.0)
    found = identifiable(task.request, theta, information, size, task.observation.expressions)
    if not found.complete:
        raise IdentifiabilityError("The bound is infinite. " + found.message())
    covariance = np.linalg.inv(information)
    return pd.DataFrame(covariance, index=list(task.names), columns=list(task.names))
