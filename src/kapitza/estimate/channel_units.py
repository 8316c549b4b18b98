"""Conversion of channels to the units of the model.

Every channel is brought to the unit of the state that it measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapitza.base.cures import Do
from kapitza.base.units import Conversion, conversion, is_unit, to_si
from kapitza.data import BY_NAME, Part, Record
from kapitza.errors import DataError
from kapitza.estimate.method import Estimator
from kapitza.estimate.sensors import Sensor
from kapitza.model import Model
from kapitza.orbits import OrbitSet


def in_model_units(model: Model, parts: Sequence[Part], method: Estimator | None = None) -> tuple[Part, ...]:
    """Return the parts with records in model units.

    A channel with the name of a state is brought to that state's unit, others to SI; orbits stay as they are. Refused:
    a unit of another kind, and noise, or numbers of a sensor, given with the method for a channel that is converted,
    because their unit would be ambiguous.
    """
    for part in parts:
        # Orbits were computed from samples, so they cannot be converted afterwards.
        if isinstance(part.source, OrbitSet) and part.record is not None:
            refuse_other_units(model, part.record)
    return tuple(part.change(lambda record: record_in_model_units(model, record, method)) for part in parts)


def wanted_units(model: Model, record: Record) -> dict[str, str]:
    """Return the unit in which each channel is fitted.

    It is the unit of the state of the same name, else SI. Channels without a unit are not listed.
    """
    states = model.units
    return {
        name: states.get(name) or (to_si(unit)[0] if is_unit(unit) else unit)
        for name, unit in record.units.items()
        if unit
    }


def record_in_model_units(model: Model, record: Record, method: Estimator | None = None) -> Record:
    """Return the record in the units of the model.

    See `in_model_units`.
    """
    wanted = wanted_units(model, record)
    changes = {name: change_of(model, record, name, unit) for name, unit in wanted.items()}
    changed = {name: wanted[name] for name, change in changes.items() if not change.identity}
    for name in changed:
        given = _given_with(method, name)
        if given:
            raise DataError(
                f'Channel "{name}" is in "{record.units[name]}" and is fitted in "{changed[name]}": is the {given} of '
                f"the method in the one or the other? Convert first, {_conversion(name, changed[name])}."
            )
    return record.in_units(changed) if changed else record


def _given_with(method: Estimator | None, name: str) -> str:
    """Return which number with a unit the method states.

    It is "noise", a sensor error or "range" for this channel, "" for none.
    """
    noise = None if method is None else method.noise
    if noise is not None and (not isinstance(noise, Mapping) or name in noise):
        return "noise"
    sensor = None if method is None else method.outputs.get(name)
    if not isinstance(sensor, Sensor):
        return ""
    known = [name for name in sensor.stated if BY_NAME[name].unit != "s"]
    return known[0] if known else "range" if sensor.limits else ""


def change_of(model: Model, record: Record, name: str, unit: str) -> Conversion:
    what = f'Channel "{name}"' + (f', a state of model "{model.name}",' if name in model.states else "")
    return conversion(record.units[name], unit, what)


def refuse_other_units(model: Model, record: Record) -> None:
    """Refuse orbits found in other units than the model's."""
    for name, unit in wanted_units(model, record).items():
        if not change_of(model, record, name, unit).identity:
            raise DataError(
                f'The orbits were found in a record whose channel "{name}" is in "{record.units[name]}", the model has '
                f'"{unit}": find them in {_conversion(name, unit)}.'
            )


def _conversion(channel: str, unit: str) -> str:
    """Return the cure for a channel in another unit."""
    return Do(f'record.in_units({{"{channel}": "{unit}"}})', "the unit of the model (coordinates.NAME.unit in [model])")
