"""The fitted model carried on beyond the data, with bands from the errors of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kapitza.errors import FlowError, KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.study.draws import parameter_draws
from kapitza.study.motions import last_state
from kapitza.study.outcome import Outcome
from kapitza.study.running import prepared
from kapitza.study.study import Study

Array = NDArray[np.float64]


def predicted_table(
    study: Study, outcome: Outcome, times: Array, x0: Array | None, settings: Mapping[str, float]
) -> pd.DataFrame:
    """Time, and for each state its value and 95 % band, over `times` (N,) counted from the start; units in the names.

    Without x0 the motion goes on from the end of the first recording, and time is that of the recording. The band
    holds the spread that the errors of the parameters give: for chaotic motion it widens until it says nothing.
    """
    candidate = next(c for c in study.candidates if c.name == outcome.candidate)
    recording = study.fitted[0]
    if recording.signals:
        names = ", ".join(signal.name for signal in recording.signals)
        raise KapitzaError(f"{names} was measured and ends with the recording: nothing drives the model beyond it.")
    fitted = {name: outcome.values[name] for name in outcome.names if name in candidate.model.names}
    model = candidate.model.with_values(**{**fitted, **recording.values, **settings})
    begin = 0.0
    if x0 is None:
        base = candidate.model.with_values(**{**fitted, **recording.values})
        record = prepared(recording.record, candidate)
        x0, begin = last_state(base, record, recording.measures)
    instants = begin + times
    flow = Flow(model)
    middle = flow.trajectory(x0, instants, model.vector)
    draws = parameter_draws(outcome, [n for n in outcome.names if n not in settings], study.seed)
    paths = []
    for values in draws:
        try:
            paths.append(flow.trajectory(x0, instants, _vector(model, values)))
        except FlowError:
            continue
    columns: dict[str, Array] = {"time [s]": instants if begin == 0.0 else times + float(recording.record.time[-1])}
    for i, state in enumerate(model.states):
        unit = f" [{model.units[state]}]" if model.units.get(state) else ""
        columns[f"{state}{unit}"] = middle[:, i]
        if len(paths) > 10:
            low, high = np.quantile([path[:, i] for path in paths], [0.025, 0.975], axis=0, method="median_unbiased")
            columns[f"{state} low{unit}"], columns[f"{state} high{unit}"] = low, high
    return pd.DataFrame(columns)


def _vector(model: Model, values: Mapping[str, float]) -> Array:
    return model.with_values(**{n: v for n, v in values.items() if n in model.names}).vector
