"""Sensors: output, errors of the vocabulary, and limits.

Each error of a sensor may be known or unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import sympy as sp

from kapitza.base import checks
from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import Do, Fit
from kapitza.data import BY_NAME, FITTED, PHASE, Part, Record, SensorError, is_number, marks_of
from kapitza.errors import DataError, refuse_unknown
from kapitza.estimate.method import Estimator
from kapitza.estimate.outputs import output_names, read_output
from kapitza.estimate.sensor_delay import delayed
from kapitza.model import CLOCK, Expression, Model, Parameter, Prior, compile_expressions, symbol, time

ERRORS = tuple(error.name for error in FITTED)
"""Names of the sensor errors that may be unknown; see `kapitza.data.sensor_errors`."""


@dataclass(frozen=True)
class Sensor:
    """Describe a channel with errors.

    It reads y = gain · h(x(t - delay)) + offset + drift · t, and nothing beyond its limits.

    What is `unknown` becomes a parameter of the fit with the name of the channel before it: "laser_offset". h may
    contain signals of the model and, added to the rest, other channels of the record: a laser on a shaken table reads
    ``Sensor("x' + vb")``.

    Parameters
    ----------
    output : str
        h, in states, highest derivatives, time, parameters, signals and other channels.
    priors : mapping
        Standard deviations of errors by name, as the pairs give them.
    unknown : str or list of str
        Some of "gain", "offset", "drift", "delay" and names in errors: as text, "offset drift", or as a list.
    gain, offset, drift, delay : float or (float, float)
        Known values (offset in units of the channel, drift per second, delay in seconds), or where to start. A pair is
        a value with its standard deviation: it is fitted with this prior, and its uncertainty enters all intervals.
    limits : pair of floats, optional
        The range of the sensor. Samples at its ends or beyond carry no information and are left out.
    errors : mapping
        Errors by name, likewise numbers or pairs, also further ones of FITTED in `kapitza.data.sensor_errors`.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0})
    >>> time = np.arange(600) * 0.05
    >>> clean = kz.simulate(model, x0=[1.0, 0.0], t=time)["x"]
    >>> volt = 2.0 + clean + 0.01 * np.random.default_rng(1).normal(size=600)
    >>> record = kz.Record.from_arrays(time, {"volt": volt})
    >>> method = kz.ShootingFit(outputs={"volt": kz.Sensor("x", "offset")})
    >>> fit = kz.identify(model, record, free=["c", "k"], method=method)
    >>> round(fit["volt_offset"], 1)
    2.0
    """

    output: str
    unknown: str | Sequence[str] = ()
    gain: float | tuple[float, float] = 1.0
    offset: float | tuple[float, float] = 0.0
    drift: float | tuple[float, float] = 0.0
    delay: float | tuple[float, float] = 0.0
    limits: tuple[float, float] | None = None
    priors: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = checks.texts("unknown", self.unknown, error=DataError)
        words = re.split(r"[\s,]+", given[0].strip()) if isinstance(self.unknown, str) else given
        words = [word for word in words if word]
        refuse_unknown("A sensor", words, ERRORS, "unknown")
        refuse_unknown("A sensor", self.errors, ERRORS, "error")
        priors, own = dict(self.priors), {one.name for one in fields(self)}
        further: dict[str, Any] = {}
        for error in FITTED:
            name = error.name
            value = self.errors.get(name, getattr(self, name) if name in own else error.ideal)
            if isinstance(value, tuple | list):
                pair = value
                value, deviation = checks.array(f"Sensor({name}=...)", pair, shape=(2,), error=DataError).tolist()
                if not deviation > 0:
                    raise DataError(f"Sensor, {name} = {pair!r}: give a value and its standard deviation, above 0.")
                priors[name] = deviation
            if not is_number(value):
                raise DataError(f"Sensor, {name} = {value!r}: give a finite number.")
            if name in own:
                object.__setattr__(self, name, value)
            else:
                further[name] = value
        object.__setattr__(self, "priors", priors)
        object.__setattr__(self, "errors", further)
        object.__setattr__(self, "unknown", tuple(dict.fromkeys([*words, *priors])))
        if self.gain == 0:
            raise DataError("A Sensor with gain = 0 reads nothing: give its gain, or where to start.")
        if self.limits is not None:
            object.__setattr__(self, "limits", checks.span("The limits of a sensor", self.limits, error=DataError))

    def value(self, name: str) -> float:
        """Return the known or first value of an error."""
        refuse_unknown("A sensor", [name], ERRORS, "error")
        value: Any = self.errors[name] if name in self.errors else getattr(self, name)
        return float(value)

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the errors whose value is not ideal."""
        return tuple(error.name for error in FITTED if self.value(error.name) != error.ideal)


@dataclass(frozen=True)
class Rewritten:
    """Question with sensors written into model, outputs and records.

    late: by channel, what a sensor with a delay reads, and its known delay or the name of the parameter.
    """

    model: Model
    parts: tuple[Part, ...]
    free: list[str] | None
    method: Estimator
    late: Mapping[str, tuple[Expression, float | str]] = field(default_factory=dict)


def with_sensors(model: Model, parts: tuple[Part, ...], free: list[str] | None, method: Estimator) -> Rewritten:
    """Return the question with unknowns of sensors as parameters.

    Other channels in outputs are subtracted from the records, limits are marked in them.
    """
    outputs = dict(method.outputs)
    channels = tuple(dict.fromkeys(c for part in parts if isinstance(part.source, Record) for c in part.channels))
    if not any(
        isinstance(o, Sensor) or (isinstance(o, str) and _needs_writing(o, model, channels)) for o in outputs.values()
    ):
        return Rewritten(model, parts, free, method)
    parameters, change, limits, late = list(model.parameters), [], {}, {}
    series = method.accepts.lost_samples
    for channel, given in outputs.items():
        sensor = given if isinstance(given, Sensor) else Sensor(given) if isinstance(given, str) else None
        if sensor is None:
            continue
        _refuse_unsupported(sensor, channel, method, parts)
        expression = _parsed(sensor.output, model, channels, channel)
        kept, taken = _apart(expression, model, channels, channel, free)
        # Other channels are known numbers: their part is subtracted from the samples before the fit.
        if taken != 0:
            change.append(_taking(channel, taken, sensor.value("gain"), model, channels))
            # A known gain multiplies that part; any other error that does not only add would change it.
            acting = {*sensor.unknown, *(name for name in sensor.stated if name != "gain")}
            if not all(BY_NAME[name].additive for name in acting):
                raise DataError(
                    f'The output "{channel}" holds another channel, whose part cannot have an unknown gain, or a '
                    "delay: make that channel a Signal of the model."
                )
        # Weak forms take no time in an output, and a folded orbit has another one.
        undone = [name for name in sensor.stated if BY_NAME[name].timed and not series]
        change += [_without(channel, BY_NAME[name], sensor.value(name)) for name in undone]
        outputs[channel], new = _with_errors(kept, sensor, channel, model, undone)
        parameters += new
        if "delay" in sensor.unknown or sensor.delay:
            late[channel] = (
                sensor.value("gain") * kept,
                next((p.name for p in new if p.name.endswith("_delay")), sensor.delay),
            )
        # Limits are marked in the records after all outputs are known.
        if sensor.limits is not None:
            limits[channel] = sensor.limits
    added = [p.name for p in parameters[len(model.parameters) :]]
    known = {p.name for p in model.parameters}
    # A model that was fitted with these sensors before has their parameters already, with better values.
    fresh = [p for p in parameters if p.name not in known]
    model = replace(model, parameters=(*model.parameters, *fresh)) if fresh else model
    free = None if free is None else [*free, *(n for n in added if n not in free)]
    method = method.with_outputs(outputs)
    prepared = tuple(part.change(lambda r: _prepared(r, change, limits, series)) for part in parts)
    return Rewritten(model, prepared, free, method, late)


def without_zeros(warnings: Sequence[str], outputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Drop warnings about sensor errors that are nearly zero.

    An offset, a drift or a delay smaller than its standard error is normal: a good sensor has none.
    """
    words = [
        f"{_word(channel)}_{name} is smaller than its own standard error"
        for channel, sensor in outputs.items()
        if isinstance(sensor, Sensor)
        for name in sensor.unknown
        if BY_NAME[name].ideal == 0
    ]
    return tuple(text for text in warnings if not text.startswith(tuple(words)))


def fitted_by(kind: str, channel: str, names: Sequence[str]) -> bool:
    """Return whether parameters of the fit hold an error, so that the intervals do.

    A delay of any channel, or the clock of the excitation, holds the phase.
    """
    if BY_NAME[kind] is PHASE:
        return CLOCK in names or any(name.endswith("_delay") for name in names)
    return f"{_word(channel)}_{kind}" in names


def _word(channel: str) -> str:
    """Return a channel's name as part of a parameter's."""
    return re.sub(r"\W", "_", channel.replace("'", "_rate"))


def _refuse_unsupported(sensor: Sensor, channel: str, method: Estimator, parts: Sequence[Part]) -> None:
    """Refuse sensor errors that the method cannot treat.

    It can neither fit nor undo them.
    """
    for name in sensor.unknown:
        if name not in method.accepts.unknown:
            raise DataError(
                f'The {name} of "{channel}" is unknown, and {method.name} needs sensors that are known, {name} '
                f'included: use {Fit("shooting")} or "auto" on the record, or give the value.'
            )
    timed = [name for name in sensor.stated if BY_NAME[name].timed]
    for name in sensor.stated:
        undoable = method.accepts.lost_samples or name not in timed or BY_NAME[name].additive
        if name not in method.accepts.known or not undoable:
            raise DataError(
                f'"{channel}" has a {name} of {sensor.value(name):g}, which {method.name} cannot undo: correct the '
                f"channel, or use {Fit('shooting')}."
            )
    asked = timed[0] if timed else "limits" if sensor.limits is not None else ""
    if asked and not all(isinstance(part.source, Record) for part in parts):
        raise DataError(
            f'"{channel}": the {asked} of a sensor can be undone in a record, not in orbits that were found in one. '
            "Find the orbits in a record without, or fit the record."
        )


def _needs_writing(output: str, model: Model, channels: Sequence[str]) -> bool:
    """Return whether an output must be rewritten.

    True if it names a channel that the model does not know, or a highest derivative.
    """
    own, tops = output_names(model), {s.name for s in model.structure.accelerations}
    named = [c for c in (*channels, *tops) if re.search(rf"(?<![\w']){re.escape(c)}(?![\w'])", output)]
    return any(c not in own or c in tops for c in named)


def _parsed(output: str, model: Model, channels: Sequence[str], channel: str) -> Expression:
    expression = read_output(output, model, channels)
    if expression.free_symbols & {name for name, _ in model.structure.steps}:
        raise DataError(f'"{channel}": accelerations of large linkages are read as outputs of the model; put it there.')
    return expression


def _apart(
    expression: Expression, model: Model, channels: Sequence[str], channel: str, free: Sequence[str] | None
) -> tuple[Expression, Expression]:
    """Split an output into model and other channels.

    The second part is what other channels of the record add to it.
    """
    others = {symbol(c) for c in channels if c not in output_names(model)}
    terms: tuple[Expression, ...] = sp.Add.make_args(sp.expand(expression))
    taken = [term for term in terms if term.free_symbols & others]
    # Combinations may be free: "c/m" frees c and m.
    unknown = {symbol(word) for n in (model.names if free is None else free) for word in re.findall(r"\w+", n)}
    for term in taken:
        foreign = term.free_symbols - others
        if foreign & unknown or foreign - {symbol(p.name) for p in model.parameters}:
            raise DataError(
                f'The output "{channel}" holds {term}: another channel may be added with a known factor, no more. Make '
                f"it a Signal of the model, {Do('kz.Signal(name, times, values, period)', 'drive = [NAME]')}, and "
                "it may occur anywhere."
            )
    return sp.Add(*[term for term in terms if not term.free_symbols & others]), sp.Add(*taken)


def _taking(
    channel: str, taken: Expression, gain: float, model: Model, channels: Sequence[str]
) -> Callable[[Record], Record]:
    """Return a function that subtracts other channels."""
    used = [c for c in channels if symbol(c) in taken.free_symbols]
    names = [p.name for p in model.parameters]
    function = compile_expressions((taken,), used, names)
    slopes = [compile_expressions((sp.diff(taken, symbol(c)),), used, names) for c in used]

    def change(record: Record) -> Record:
        missing = [c for c in used if c not in record.channels]
        if channel not in record.channels:
            return record
        if missing:
            raise DataError(
                f'The output "{channel}" holds {", ".join(missing)}, and one of the records has no such channel: give '
                f'it one, or leave "{channel}" out of that record.'
            )
        values, parameters = record.values(used).T, np.array([model.values[n] for n in names])
        known = record.noise
        noise = known.get(channel)
        if noise is not None and all(c in known for c in used):
            parts = [
                float((s(values, parameters)[0] ** 2).mean()) * known[c] ** 2 for s, c in zip(slopes, used, strict=True)
            ]
            # Noise of the subtracted channels adds to that of the channel.
            noise = float(np.sqrt(noise**2 + gain**2 * sum(parts)))
        return _with_readings(record, channel, record[channel] - gain * function(values, parameters)[0], noise)

    return change


def _without(channel: str, error: SensorError, value: float) -> Callable[[Record], Record]:
    """Return a function that subtracts a known additive error."""
    apply = error.apply
    assert apply is not None

    def change(record: Record) -> Record:
        if channel not in record.channels:
            return record
        since = record.time - record.excitation_start
        added = apply(0.0 * since, value, since, lambda h, late: h)
        return _with_readings(record, channel, record[channel] - added, record.noise.get(channel))

    return change


def _with_readings(record: Record, channel: str, values: Array, noise: float | None) -> Record:
    attrs = record.content.channels[channel].attrs
    return record.with_channel(channel, values, str(attrs.get("unit", "")), bool(attrs.get("angle", False)), noise)


def _prior(sensor: Sensor, name: str) -> Prior | None:
    return Prior(sensor.value(name), sensor.priors[name]) if name in sensor.priors else None


def _with_errors(
    output: Expression, sensor: Sensor, channel: str, model: Model, undone: Sequence[str]
) -> tuple[Expression, list[Parameter]]:
    """Return the output with sensor errors as parameters.

    The output is gain · h(t - delay) + offset + drift · t, without errors that are undone in the records.
    """
    word = _word(channel)
    made = {
        name: Parameter(
            f"{word}_{name}",
            sensor.value(name),
            unit="" if "channel" in BY_NAME[name].unit else BY_NAME[name].unit,
            prior=_prior(sensor, name),
        )
        for name in sensor.unknown
    }
    # In the order of FITTED: the delay acts on h, gain, offset and drift on the delayed output.
    for error in FITTED:
        name = error.name
        if name in made or (name in sensor.stated and name not in undone):
            assert error.apply is not None
            value = symbol(made[name].name) if name in made else sp.Float(sensor.value(name))
            output = error.apply(output, value, time, lambda h, late: delayed(h, late, model, channel))
    return output, list(made.values())


def with_sensor_errors(output: Expression, sensor: Sensor, channel: str, model: Model) -> Expression:
    """Return an output with the errors of its sensor: unknown ones as parameters, known ones as numbers."""
    return _with_errors(output, sensor, channel, model, ())[0]


def _prepared(
    record: Record,
    changes: Sequence[Callable[[Record], Record]],
    limits: Mapping[str, tuple[float, float]],
    series: bool,
) -> Record:
    # The range is that of the sensor itself, before anything is subtracted from its samples.
    used = {c: range_ for c, range_ in limits.items() if c in record.channels}
    ends = {c: (record[c] <= low, record[c] >= high) for c, (low, high) in used.items()}
    raw = record
    for change in changes:
        record = change(record)
    if not used:
        return record
    if not series:
        # Methods that need whole samples drop a sample where any channel is at its limit.
        lost = np.any([below | above for below, above in ends.values()], axis=0)
        return record.samples(np.flatnonzero(~lost)).split_at_gaps() if lost.any() else record
    for channel, (below, above) in ends.items():  # single samples can be left out of a series
        low, high = used[channel]
        if not np.array_equal(record[channel], raw[channel]):
            record, low, high = _lost_outside(record, channel, below, above)
        table = record.content
        column = table.channels[channel]
        ranged = replace(column, attrs={**column.attrs, LIMITS: (float(low), float(high))})
        record = record.from_content(table.with_channels({channel: ranged}))
    return record


def _lost_outside(record: Record, channel: str, below: Flags, above: Flags) -> tuple[Record, float, float]:
    """Move lost samples of a channel to its limits.

    The new limits enclose the valid samples.
    """
    values = record[channel].copy()
    valid = values[~(below | above)]
    if not valid.size:
        raise DataError(f'All samples of "{channel}" are at the ends of its range and carry no information.')
    # Strictly outside the valid samples, so that these are not lost themselves.
    margin = 1e-6 * (float(np.ptp(valid)) or 1.0)
    low, high = float(valid.min()) - margin, float(valid.max()) + margin
    values[below], values[above] = low, high
    return _with_readings(record, channel, values, record.noise.get(channel)), low, high


LIMITS = "limits"
"""Attribute of a channel that holds the range of its sensor."""


def lost_readings(record: Record, channel: str) -> Flags:
    """Return samples (N,) outside the sensor's range or bad.

    Samples at the ends of the range count as outside.
    """
    range_, marked = record.content.channels[channel].attrs.get(LIMITS), marks_of(record, channel) > 0
    if range_ is None:
        return marked
    return marked | ~((record[channel] > range_[0]) & (record[channel] < range_[1]))


def within_limits(record: Record, channel: str, values: Array) -> Array:
    """Clip values (N,) to the range of the sensor."""
    range_ = record.content.channels[channel].attrs.get(LIMITS)
    return values if range_ is None else np.clip(values, range_[0], range_[1])
