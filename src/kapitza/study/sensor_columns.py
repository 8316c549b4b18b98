"""Columns of a prediction: what the sensors read, in the units of the recording, and the other states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.units import Conversion, conversion, is_unit, rate_unit
from kapitza.data import RECORDED, Record
from kapitza.estimate import Estimate, Observation, Sensor, observe_channels, sensor_readings
from kapitza.model import Expression, Model, Signal, symbol
from kapitza.study.fits import fitted_settings


@dataclass(frozen=True)
class Column:
    """Describe one quantity of a prediction.

    name: of a channel that is read, or of a state; unit: "" where none is known; change: from the unit of the model;
    hidden: a channel of this name reads something else than the state.
    """

    name: str
    read: bool
    unit: str
    change: Conversion
    hidden: bool = False

    def title(self, side: str = "") -> str:
        """Return the heading, such as "phi low [°]"."""
        return f"{self.name}{' (state)' if self.hidden else ''}{side}{f' [{self.unit}]' if self.unit else ''}"


@dataclass(frozen=True)
class Sensors:
    """What the channels of a record read of a motion.

    channels: those of the sensors and of outputs of the model, and states that are measured; units: of each channel and
    state with the conversion from the unit of the model; errors: the channels whose sensor has errors.
    """

    channels: tuple[str, ...]
    observation: Observation | None
    units: Mapping[str, tuple[str, Conversion]]
    errors: tuple[str, ...]

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        record: Record | None,
        model: Model,
        drives: Mapping[str, Signal | Expression],
        since: float,
    ) -> Sensors:
        """Return the sensors of a fit; those of `drives` that are formulas are written out in what they read."""
        if record is None:
            return cls((), None, {n: (unit, Conversion()) for n, unit in model.units.items()}, ())
        written = {symbol(n): given for n, given in drives.items() if not isinstance(given, Signal)}
        readings = {c: e.xreplace(written) for c, e in sensor_readings(estimate, since=since).items()}
        plain = [c for c in (*model.states, *model.outputs) if c not in estimate.sensors]
        channels = tuple(c for c in record.channels if c in readings or c in plain)
        observation = observe_channels(model, channels, [False] * len(channels), readings, ()) if channels else None
        errors = tuple(c for c in readings if c in model.states and readings[c] != symbol(c))
        return cls(channels, observation, _units(estimate, record, model), errors)

    def read(self, states: Array, times: Array, vector: Array) -> Array:
        """Return what the channels read (N, c) at states (N, n) and times (N,)."""
        if self.observation is None:
            return np.empty((len(states), 0))
        return self.observation.value(states, times, vector)

    def columns(self, states: Sequence[str]) -> list[Column]:
        """Return the columns: states in their order, read where a sensor does so, then other channels and states."""
        named = [Column(n, n in self.channels, *self.units.get(n, ("", Conversion()))) for n in states]
        others = [c for c in self.channels if c not in states]
        named += [Column(c, True, *self.units.get(c, ("", Conversion()))) for c in others]
        return named + [
            Column(n, False, *self.units.get(f"{n} (state)", ("", Conversion())), True) for n in self.errors
        ]


def state_units(estimate: Estimate) -> dict[str, tuple[str, str]]:
    """Return the unit of each state in the model, and in the recording; "" where none is known."""
    found = fitted_settings(estimate)
    if not found:
        return {name: (unit, "") for name, unit in estimate.model.units.items()}
    record, model = found[0][0], estimate.model
    units = _units(estimate, record, model)
    known = {}
    for state in model.states:
        unit, change = units.get(f"{state} (state)", ("", Conversion()))
        base = state.rstrip("'")
        own = model.units.get(state, "") or rate_unit(record.units.get(base, ""), len(state) - len(base))
        known[state] = (unit if change.identity else own, unit)
    return known


def recorded_range(estimate: Estimate, state: str) -> tuple[float, float] | None:
    """Return the least and largest value of a state over the fitted motion.

    Of a fit without a motion, that of the channel itself; None where the state is not recorded.
    """
    if estimate.motion is not None and len(estimate.motion.states):
        values = estimate.motion.states[:, list(estimate.model.states).index(state)]
    else:
        found = fitted_settings(estimate)
        if not found or state not in found[0][0].channels or state in estimate.sensors:
            return None
        values = found[0][0][state]
    return float(np.nanmin(values)), float(np.nanmax(values))


def _units(estimate: Estimate, record: Record, model: Model) -> dict[str, tuple[str, Conversion]]:
    """Return the unit of each channel and state of a table, with the conversion to it.

    That of a channel is the unit of the recording. A rate follows its coordinate: mm/s beside mm.
    """
    found: dict[str, tuple[str, Conversion]] = {}
    for channel, column in record.content.channels.items():
        own, unit = record.units.get(channel, ""), str(column.attrs.get(RECORDED, ""))
        found[channel] = _to(own, unit)
    for state in model.states:
        given, base = model.units.get(state, ""), state.rstrip("'")
        sensor = estimate.sensors.get(base)
        # A sensor with a gain reads another quantity than the state.
        scaled = not (sensor is None or (isinstance(sensor, Sensor) and sensor.output == base))
        scaled = scaled or (isinstance(sensor, Sensor) and ("gain" in sensor.unknown or sensor.gain != 1.0))
        unit = (given, Conversion())
        if base in record.channels and not scaled:
            order = len(state) - len(base)
            recorded, change = found[base]
            own = given or rate_unit(record.units.get(base, ""), order)
            unit = _to(own, rate_unit(recorded, order)) if not change.offset else (own, Conversion())
        if state not in record.channels:
            found[state] = unit
        found[f"{state} (state)"] = unit
    return found


def _to(own: str, unit: str) -> tuple[str, Conversion]:
    """Return a unit and the conversion to it; the own unit where the other is not known."""
    if own and unit and own != unit and is_unit(unit) and is_unit(own):
        return unit, conversion(own, unit)
    return own, Conversion()
