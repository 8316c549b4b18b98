"""What the sensors of a fit read, as expressions of the model.

y = gain · h(x(t - delay)) + offset + drift · t, with the fitted errors as parameters.
"""

from __future__ import annotations

import sympy as sp

from kapitza.data import as_parts
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.outputs import in_states, output_names
from kapitza.estimate.sensors import Sensor, with_sensor_errors
from kapitza.model import Expression, Model, parse_expression, symbol, time


def sensor_readings(estimate: Estimate, by_states: bool = True, since: float = 0.0) -> dict[str, Expression]:
    """Return what each channel with a sensor or an output of its own reads.

    They are in states, time, signals and parameters. A channel that other channels of the record are added to is left
    out: nothing of them is known beyond the record.

    by_states: highest derivatives, x'' of an accelerometer, are written out; otherwise they stand under their names.
    since: time [s] of the sensors' clock where t = 0: the drift of a sensor goes on where the motion starts anew.
    """
    model = estimate.model
    if not isinstance(model, Model):
        return {}
    channels = _channels(estimate)
    known = {symbol(n) for n in output_names(model)} | {name for name, _ in model.structure.steps}
    found: dict[str, Expression] = {}
    for channel, given in estimate.sensors.items():
        text = given.output if isinstance(given, Sensor) else given
        if isinstance(text, str):
            expression = parse_expression(text, {*output_names(model), *channels})
        elif isinstance(text, sp.Expr):
            expression = text
        else:
            continue
        delayed = isinstance(given, Sensor) and ("delay" in given.unknown or given.delay)
        if by_states or delayed:
            expression = in_states(expression, model)
        if isinstance(given, Sensor):
            own = sp.Symbol("clock of the motion", real=True)
            expression = expression.xreplace({time: own}) if since else expression
            expression = with_sensor_errors(expression, given, channel, model).xreplace({time: time + since})
            expression = expression.xreplace({own: time})
        if expression.free_symbols <= known:
            found[channel] = expression
    return found


def _channels(estimate: Estimate) -> tuple[str, ...]:
    """Return the channels of all records of a fit."""
    parts = as_parts(estimate.data) if estimate.data is not None else ()
    return tuple(dict.fromkeys(c for part in parts if part.record is not None for c in part.record.channels))
