"""From the channels of a record to the coordinates of a model, piece by piece, with their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.circle import unwrap_states
from kapitza.data import Record
from kapitza.errors import DataError, ModelError, nearest_name
from kapitza.model import Model, Signal, symbol
from kapitza.orbit import OrbitSet, PeriodicOrbit
from kapitza.signal.filters import noise_level

Array = NDArray[Any]

UNEVEN = 1e-3
"""Largest deviation of a sampling interval from the mean one, relative to it."""


@dataclass(frozen=True)
class Piece:
    """An uninterrupted stretch. times: (n,) of the model; channels: (n, m) measured; inputs: (n, s) of excitation."""

    times: Array
    channels: Array
    inputs: Array


@dataclass(frozen=True)
class Measured:
    """Pieces with one sampling step, and how coordinates follow from channels: u = mixing @ channels + offset.

    noise: (m,) standard deviation of each channel; noise_known: whether it was given or read off the spectrum.
    input_noise: (s,) of each measured excitation, zero where the model itself states the signal.
    """

    pieces: tuple[Piece, ...]
    step: float
    channels: tuple[str, ...]
    mixing: Array
    offset: Array
    noise: Array
    noise_known: bool
    input_noise: Array

    @property
    def size(self) -> int:
        return sum(len(p.times) for p in self.pieces)

    @property
    def coordinate_covariance(self) -> Array:
        return self.mixing @ np.diag(self.noise**2) @ self.mixing.T

    def coordinates(self, piece: Piece) -> Array:
        """(n, c) coordinates of a piece, angles continuous."""
        return piece.channels @ self.mixing.T + self.offset

    def shaken(self, generator: np.random.Generator) -> Measured:
        """The same measurement with fresh white noise of the known size on top."""
        pieces = tuple(
            replace(p, channels=p.channels + self.noise * generator.standard_normal(p.channels.shape))
            for p in self.pieces
        )
        return replace(self, pieces=pieces)


def measured_from(model: Model, data: Any, noise: float | Mapping[str, float] | None = None) -> Measured:
    """Bring a Record, several of them, or the profiles of an OrbitSet into the coordinates of the model."""
    if isinstance(data, OrbitSet):
        return _from_orbits(model, data, noise)
    records = [data] if isinstance(data, Record) else list(data)
    if not records or not all(isinstance(r, Record) for r in records):
        raise DataError("HarmonicFit works on a Record, several Records, or an OrbitSet.")
    for record in records:
        record.check()
    channels, mixing, offset = _coordinate_map(model, records[0].channels)
    pieces: list[Piece] = []
    for record in records:
        pieces += _pieces(record, channels, input_signals(model))
    step = _common_step(pieces)
    _check_noise_names(noise, (*channels, *(signal.name for signal in input_signals(model))))
    attributes = records[0].noise if noise is None else noise
    measured = _with_noise(tuple(pieces), step, channels, mixing, offset, attributes)
    return replace(measured, input_noise=_input_noise(model, records[0], measured.pieces, attributes))


def _input_noise(model: Model, record: Record, pieces: Sequence[Piece], given: Any) -> Array:
    """Noise of excitations that were recorded: as given, else read off the spectrum."""
    signals = input_signals(model)
    result = np.zeros(len(signals))
    longest = max(pieces, key=lambda p: len(p.times))
    for column, signal in enumerate(signals):
        if signal.name in record.channels:
            stated = given.get(signal.name) if isinstance(given, Mapping) else None
            own = noise_level(longest.inputs[:, column : column + 1])[0] if stated is None else stated
            result[column] = float(own)
    return result


def _coordinate_map(model: Model, available: tuple[str, ...]) -> tuple[tuple[str, ...], Array, Array]:
    """Channels to use and the linear map from them to the coordinates.

    A coordinate is a channel of its own name, or follows from outputs of the model that are linear in coordinates
    (an encoder that measures the angle between two arms).
    """
    names = [c.name for c in model.coordinates]
    expressions = {n: symbol(n) for n in names if n in available}
    values = {symbol(k): v for k, v in model.values.items()}
    for name, expression in model.outputs.items():
        if name in available and name not in expressions:
            expressions[name] = expression.xreplace(values)
    used, rows, constants = [], [], []
    for name, expression in expressions.items():
        gradient = [sp.diff(expression, symbol(n)) for n in names]
        rest = expression.xreplace({symbol(n): sp.Integer(0) for n in names})
        if all(g.is_number for g in gradient) and rest.is_number:
            used.append(name)
            rows.append([float(g) for g in gradient])
            constants.append(float(rest))
    matrix = np.array(rows).reshape(len(used), len(names))
    missing = [n for i, n in enumerate(names) if not used or not np.abs(matrix[:, i]).any()]
    if missing or np.linalg.matrix_rank(matrix) < len(names):
        lost = missing or names
        raise DataError(
            f"The record has the channels {', '.join(available)}, which do not give the coordinate "
            f"{', '.join(lost)}: the harmonic and weak forms need every coordinate. Rename a channel, add "
            "an output to the model that is linear in the coordinates, or use a fit by shooting, which works with part "
            f"of the states.{nearest_name(lost[0], available)}"
        )
    inverse = np.linalg.pinv(matrix)
    return tuple(used), inverse, -inverse @ np.array(constants)


def input_signals(model: Model) -> tuple[Signal, ...]:
    """Measured excitations that appear in the equations under their names."""
    return () if model.excitation is None else model.excitation.signals


def _pieces(record: Record, channels: tuple[str, ...], signals: tuple[Signal, ...]) -> list[Piece]:
    times, values, inputs = _continuous(record, channels, signals)
    return [Piece(times[part], values[part], inputs[part]) for part in record.segments()]


def _continuous(record: Record, channels: tuple[str, ...], signals: tuple[Signal, ...]) -> tuple[Array, Array, Array]:
    """Model time (n,), channels (n, m) with angles continuous within segments, and excitations (n, s).

    An excitation recorded as a channel goes before the signal stored in the model.
    """
    angle = dict(zip(record.channels, record.angles, strict=True))
    times = record.time - record.excitation_start
    values = record.values(channels)
    inputs = np.empty((record.size, len(signals)))
    for column, signal in enumerate(signals):
        inputs[:, column] = record[signal.name] if signal.name in record.channels else signal(times)
    turning = np.array([angle[name] for name in channels], bool)
    for part in record.segments():
        values[part] = unwrap_states(values[part], turning)
    return times, values, inputs


def _common_step(pieces: list[Piece]) -> float:
    long = [p for p in pieces if len(p.times) > 1]
    if not long:
        raise DataError("Every segment of the record holds a single sample: the weak form needs stretches of them.")
    steps = np.array([(p.times[-1] - p.times[0]) / (len(p.times) - 1) for p in long])
    step = float(np.median(steps))
    for piece, own in zip(long, steps, strict=True):
        worst = float(np.abs(np.diff(piece.times) - step).max())
        if worst > UNEVEN * step:
            raise DataError(
                f"The samples are not evenly spaced (mean interval {own:.6g}, one differs by {worst:.3g} from the "
                f"common {step:.6g}): resample the record on an even grid, or split it into segments at the gaps."
            )
    return step


def _check_noise_names(noise: Any, known: tuple[str, ...]) -> None:
    """Refuse noise stated for a channel that is not used: it would be ignored without a word."""
    for name in noise if isinstance(noise, Mapping) else ():
        if name not in known:
            raise DataError(
                f'Noise was given for "{name}", which is not among the channels used ({", ".join(known)}).'
                f"{nearest_name(name, known)}"
            )


def _with_noise(pieces, step, channels, mixing, offset, given) -> Measured:
    """Attach the noise: as given, else read off the spectrum of the longest piece, channel by channel."""
    if isinstance(given, (int, float)):
        given = dict.fromkeys(channels, float(given))
    wrong = [f"{name} = {value:g}" for name, value in given.items() if not value >= 0]
    if wrong:
        raise DataError(f"Noise is a standard deviation, 0 or positive, not {', '.join(wrong)}.")
    known = all(name in given for name in channels)
    longest = max(pieces, key=lambda p: len(p.times))
    own = np.zeros(len(channels)) if known else noise_level(longest.channels)
    noise = np.array([float(given.get(name, level)) for name, level in zip(channels, own, strict=True)])
    inputs = pieces[0].inputs.shape[1]
    return Measured(pieces, step, tuple(channels), mixing, offset, noise, known, np.zeros(inputs))


def check_period(model: Model, data: Any, free: Sequence[str]) -> None:
    """Refuse data whose excitation period is not the model's: then their time is in other units."""
    if model.excitation is None or {s.name for s in model.excitation.period.free_symbols} & set(free):
        return
    sources = [data] if isinstance(data, (Record, OrbitSet)) else list(data)
    for source in sources:
        record = source.source if isinstance(source, OrbitSet) else source
        period = record.period if isinstance(record, Record) else None
        if period is None or model.period is None or input_signals(model):
            continue
        if abs(period / model.period - 1.0) > 1e-3:
            raise DataError(
                f"The excitation period of the record is {period:.6g}, that of the model {model.period:.6g}: bring "
                f"them to the same unit of time (scale the times of the record by {model.period / period:.6g}), or "
                "correct the period of the record."
            )


def known_values(model: Model, linear: Sequence[str]) -> Array:
    """Values of all parameters; those to be solved for may be unknown (NaN), and are then set to 0."""
    values = np.array([model.values[n] for n in model.names])
    needed = [n for n, v in zip(model.names, values, strict=True) if n not in linear and not np.isfinite(v)]
    if needed:
        raise ModelError(
            f"No value for {', '.join(needed)}: give it by model.with_values({needed[0]}=...), or make it free."
        )
    return np.where(np.isfinite(values), values, 0.0)


def _from_orbits(model: Model, orbits: OrbitSet, noise: Any) -> Measured:
    """Orbits as pieces: the raw stretch of the record where there is one, else the profile.

    A stretch ends where the next period begins, so nothing is assumed periodic.
    """
    if not len(orbits):
        raise DataError("The orbit set is empty: find orbits with a larger tolerance or a longer record first.")
    states = orbits[0].states
    channels, mixing, offset = _coordinate_map(model, states)
    record = orbits.source if isinstance(orbits.source, Record) else None
    raw = None if record is None else Piece(*_continuous(record, channels, input_signals(model)))
    pieces = []
    for number, orbit in enumerate(orbits):
        stretch = stretch_of(orbits, number)
        if raw is not None and stretch is not None:
            pieces.append(Piece(raw.times[stretch], raw.channels[stretch], raw.inputs[stretch]))
        else:
            pieces.append(_profile_piece(model, orbit, number, channels))
    _check_noise_names(noise, (*channels, *(signal.name for signal in input_signals(model))))
    attributes = record.noise if noise is None and record is not None else (noise or {})
    measured = _with_noise(tuple(pieces), _common_step(pieces), channels, mixing, offset, attributes)
    if record is not None:
        measured = replace(measured, input_noise=_input_noise(model, record, pieces, attributes))
    return measured


def stretch_of(orbits: OrbitSet, number: int) -> slice | None:
    """Samples of the source record that an orbit was read from; None for an orbit that was computed."""
    orbit, record = orbits[number], orbits.source
    first = orbit.details.get("sample")
    last = orbit.details.get("last_sample")
    if not isinstance(record, Record) or first is None or last is None or not 0 <= first < last <= record.size:
        return None
    return slice(int(first), int(last))


def _profile_piece(model: Model, orbit: PeriodicOrbit, number: int, channels: tuple[str, ...]) -> Piece:
    if orbit.profile is None:
        raise DataError(
            f"Orbit {number} (period {orbit.period:.6g}) has no profile, only section points: the harmonic and "
            "weak forms need samples within the period."
        )
    columns = [orbit.states.index(name) for name in channels]
    times = orbit.profile.times + float(orbit.details.get("start_time", 0.0))
    extra = [signal(times) for signal in input_signals(model)]
    inputs = np.column_stack(extra) if extra else np.empty((len(times), 0))
    return Piece(times, orbit.profile.states[:, columns], inputs)
