"""The fitted model carried on beyond the data, with bands from the errors of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate import Estimate
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.study.draws import parameter_draws
from kapitza.study.fits import StudyFit, fitted_settings
from kapitza.study.motions import last_state

Array = NDArray[np.float64]


def last_data(fit: StudyFit | Estimate) -> tuple[Record, Mapping[str, float]]:
    """The end of the first recording of a fit, held-back data included, and the values that are its own."""
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    if not found:
        raise KapitzaError("The fit holds no recording to go on from: give the initial state, --start NAME=VALUE.")
    record, own = found[0]
    check = None if isinstance(fit, Estimate) or fit.validation is None else fit.validation.record
    later = check is not None and check.time[0] > record.time[-1] and set(check.channels) == set(record.channels)
    return (check if check is not None and later else record), own


def predicted_table(
    fit: StudyFit | Estimate, times: Array, x0: Array | None, settings: Mapping[str, float], seed: int = 0
) -> pd.DataFrame:
    """Time, and for each state its value and 95 % band, over `times` (N,) counted from the start; units in the names.

    Without x0 the motion goes on from the end of the first recording, and time is that of the recording. The band
    holds the spread that the errors of the parameters give: for chaotic motion it widens until it says nothing.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    if estimate.model.signals:
        names = ", ".join(signal.name for signal in estimate.model.signals)
        raise KapitzaError(f"{names} was measured and ends with the recording: nothing drives the model beyond it.")
    own = fitted_settings(estimate)[0][1] if fitted_settings(estimate) else {}
    model = estimate.model.with_values(**{**own, **settings})
    begin, end = 0.0, 0.0
    if x0 is None:
        record, own = last_data(fit)
        x0, begin = last_state(estimate.model.with_values(**own), record, estimate.sensors)
        end = float(record.time[-1])
    instants = begin + times
    flow = Flow(model)
    middle = flow.trajectory(x0, instants, model.vector)
    draws = parameter_draws(estimate, [n for n in estimate.names if n not in settings], seed)
    paths = []
    for values in draws:
        try:
            paths.append(flow.trajectory(x0, instants, _vector(model, values)))
        except FlowError:
            continue
    columns: dict[str, Array] = {"time [s]": end + times}
    for i, state in enumerate(model.states):
        unit = f" [{model.units[state]}]" if model.units.get(state) else ""
        columns[f"{state}{unit}"] = middle[:, i]
        if len(paths) > 10:
            low, high = np.quantile([path[:, i] for path in paths], [0.025, 0.975], axis=0, method="median_unbiased")
            columns[f"{state} low{unit}"], columns[f"{state} high{unit}"] = low, high
    return pd.DataFrame(columns)


def _vector(model: Model, values: Mapping[str, float]) -> Array:
    return model.with_values(**{n: v for n, v in values.items() if n in model.names}).vector
