"""What an export holds of a fit beside its model: outputs of the sensors and the fitted start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kapitza.base.units import rate_unit
from kapitza.data import as_parts
from kapitza.estimate import Estimate, sensor_readings
from kapitza.exports.names import identifier
from kapitza.exports.program import Program
from kapitza.model import Model


def with_readings(fit: Estimate) -> tuple[Model, dict[str, str]]:
    """Return the fitted model with the readings of its sensors as outputs, and the channel of each.

    An output has the name of its channel; where the model has that name already, "_sensor" follows it.
    """
    model: Model = fit.model
    taken = {*model.states, *model.outputs, *model.names, *(s.name for s in model.signals)}
    outputs, channels = {}, {}
    for channel, expression in sensor_readings(fit, by_states=False).items():
        name = identifier(channel)
        name = f"{name}_sensor" if channel in taken or name in taken else name
        outputs[name], channels[name] = expression, channel
        taken.add(name)
    return (replace(model, outputs={**model.outputs, **outputs}) if outputs else model), channels


def fitted_model(fit: Estimate) -> Model:
    """Return the model of a fit with the fitted start and the readings of its sensors as outputs."""
    model = with_readings(fit)[0]
    if fit.motion is None or not len(fit.motion.states):
        return model
    return replace(model, start=dict(zip(model.states, fit.motion.states[0].tolist(), strict=True)))


def with_start(program: Program, fit: Estimate, channels: Mapping[str, str]) -> Program:
    """Return the program with the start and the units that the fit knows.

    channels: of the outputs that are readings of sensors.
    """
    units = _units(fit)
    outputs = tuple(
        replace(q, unit=units.get(channels[q.name], ""), description=f"what the sensor of {channels[q.name]} reads")
        if q.name in channels
        else q
        for q in program.outputs
    )
    states = tuple(replace(q, unit=q.unit or units.get(q.name, "")) for q in program.states)
    notes = [f"The output {name} is what the sensor of {channel} reads." for name, channel in channels.items()]
    begin, fitted_at = program.begin, None
    if fit.motion is not None and len(fit.motion.states):
        begin, values = float(fit.motion.times[0]), fit.motion.states[0].tolist()
        states = tuple(replace(q, value=value) for q, value in zip(states, values, strict=True))
        notes.append(f"The start is the fitted state at t = {begin:.9g} s.")
        # A motion without drives is the same at all times.
        fitted_at = None if fit.model.structure.is_autonomous else begin
    elif not any(q.value for q in states):
        notes.append("No start was fitted: give one.")
    description = " ".join(text for text in (program.description, *notes) if text)
    return replace(program, states=states, outputs=outputs, begin=begin, fitted_at=fitted_at, description=description)


def _units(fit: Estimate) -> dict[str, str]:
    """Return the units of the channels, and of the rates of those that are coordinates."""
    parts = as_parts(fit.data) if fit.data is not None else ()
    units = next((dict(part.record.units) for part in parts if part.record is not None), {})
    return {f"{channel}'": rate_unit(unit) for channel, unit in units.items()} | units
