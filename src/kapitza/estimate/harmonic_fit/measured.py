"""Coordinates of the model and their noise, from channels.

Each piece of a record is treated separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp

from kapitza.base.angles import unwrap_states
from kapitza.base.arrays import Numbers
from kapitza.base.cures import Set
from kapitza.data import Record
from kapitza.errors import DataError, ModelError, nearest_name
from kapitza.estimate.harmonic_fit.even_clock import even_step, on_even_grid
from kapitza.estimate.observation import Output, observe_channels
from kapitza.estimate.request import Request
from kapitza.model import Expression, Model, Signal, symbol
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.signal import noise_level, scatter

UNEVEN = 1e-3
"""Largest relative deviation of a sampling interval from the mean one on an even clock."""


@dataclass(frozen=True)
class Piece:
    """Uninterrupted stretch of the data.

    times: (n,) of the model; channels: (n, m) measured; inputs: (n, s) of excitation.
    own: parameter values that hold for this stretch alone; run: number of the record, or of the orbit.
    """

    times: Numbers
    channels: Numbers
    inputs: Numbers
    own: Mapping[str, float] = field(default_factory=dict)
    run: int = 0


@dataclass(frozen=True)
class Measured:
    """Pieces with one sampling step.

    Coordinates follow from channels by u = mixing @ channels + offset.
    noise: (m,) standard deviation of each channel; noise_known: whether it was given or estimated from the record;
    noise_source: how it was estimated; noise_freedom: degrees of freedom of that estimate, infinite where it was given.
    input_noise: (s,) of each measured excitation, zero where the model itself states the signal.
    """

    pieces: tuple[Piece, ...]
    step: float
    channels: tuple[str, ...]
    mixing: Numbers
    offset: Numbers
    noise: Numbers
    noise_known: bool
    input_noise: Numbers
    noise_source: str = "the noise stated"
    noise_freedom: float = float("inf")

    @property
    def size(self) -> int:
        return sum(len(p.times) for p in self.pieces)

    @property
    def coordinate_covariance(self) -> Numbers:
        return self.mixing @ np.diag(self.noise**2) @ self.mixing.T

    def coordinates(self, piece: Piece) -> Numbers:
        """Return the coordinates (n, c), angles continuous."""
        return piece.channels @ self.mixing.T + self.offset

    def shaken(self, generator: np.random.Generator) -> Measured:
        """Return the measurement with fresh white noise added.

        The noise has the known size.
        """
        pieces = tuple(
            replace(p, channels=p.channels + self.noise * generator.standard_normal(p.channels.shape))
            for p in self.pieces
        )
        return replace(self, pieces=pieces)


def measured_from(request: Request) -> Measured:
    """Return the data in the coordinates of the model.

    The data are records, or the profiles of a set of orbits.
    """
    orbits = orbit_set(request)
    if orbits is not None:
        return _from_orbits(request, orbits)
    model = request.model
    records = request.whole_records
    for record, _ in records:
        record.check()
    # All records are stacked into one linear system, so they need one map.
    channels, mixing, offset = _common_map(request, [record.channels for record, _ in records])
    pieces: list[Piece] = []
    for run, (record, part) in enumerate(records):
        pieces += [replace(piece, run=run) for piece in _pieces(record, channels, model.signals, part.values)]
    return _with_noise(request, pieces, channels, mixing, offset, records[0][0])


def orbit_set(request: Request) -> OrbitSet | None:
    """Return the set of orbits to fit.

    None where the data are records.
    """
    source = request.parts[0].source
    return source if isinstance(source, OrbitSet) else None


def _common_map(request: Request, channels: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], Numbers, Numbers]:
    """Return the map from channels to coordinates.

    It must be the same for all of the data.
    """
    found = [
        _coordinate_map(request.setting(part), names, request.outputs)
        for part, names in zip(request.parts, channels, strict=True)
    ]
    for part, one in zip(request.parts, found, strict=True):
        if one[0] != found[0][0] or not all(np.allclose(a, b) for a, b in zip(one[1:], found[0][1:], strict=True)):
            raise DataError(
                f"The coordinates follow from other channels in {part.label} than in the first one: give all records "
                "the same channels, and outputs that do not depend on values of single records."
            )
    return found[0]


def _input_noise(model: Model, record: Record, pieces: Sequence[Piece], given: Mapping[str, float]) -> Numbers:
    """Return the noise of recorded excitations.

    The noise is as given, else estimated from the spectrum.
    """
    signals = model.signals
    result = np.zeros(len(signals))
    longest = max(pieces, key=lambda p: len(p.times))
    for column, signal in enumerate(signals):
        if signal.name in record.channels:
            stated = given.get(signal.name)
            own = noise_level(longest.inputs[:, column : column + 1])[0] if stated is None else stated
            result[column] = float(own)
    return result


def _coordinate_map(
    model: Model, available: tuple[str, ...], outputs: Mapping[str, Output]
) -> tuple[tuple[str, ...], Numbers, Numbers]:
    """Return the channels and their map to coordinates.

    The map is linear. A coordinate is a channel of its own name, or follows from outputs of the model that are linear
    in coordinates (an encoder that measures the angle between two arms).
    """
    names = [c.name for c in model.coordinates]
    expressions: dict[str, Expression] = {n: symbol(n) for n in names if n in available}
    values = {symbol(k): v for k, v in model.values.items()}
    for name, expression in {**model.outputs, **_parsed(model, outputs, available)}.items():
        if name in available and (name in outputs or name not in expressions):
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
    # Least squares where more channels than coordinates are measured.
    inverse = np.linalg.pinv(matrix)
    return tuple(used), inverse, -inverse @ np.array(constants)


def _parsed(model: Model, outputs: Mapping[str, Output], available: Sequence[str]) -> dict[str, sp.Expr]:
    """Return the outputs of the settings as expressions.

    The expressions are in states and parameters.
    """
    if not outputs:
        return {}
    angles = [False] * len(available)
    seen = observe_channels(model, available, angles, outputs, ())
    return {channel: e for channel, e in zip(seen.channels, seen.expressions, strict=True) if channel in outputs}


def _pieces(
    record: Record, channels: tuple[str, ...], signals: tuple[Signal, ...], own: Mapping[str, float]
) -> list[Piece]:
    times, values, inputs = _continuous(record, channels, signals)
    return [Piece(times[part], values[part], inputs[part], own) for part in record.segments()]


def _continuous(
    record: Record, channels: tuple[str, ...], signals: tuple[Signal, ...]
) -> tuple[Numbers, Numbers, Numbers]:
    """Return times, channels and excitations of a record.

    It returns model time (n,), channels (n, m) with angles continuous within segments, and excitations (n, s). An
    excitation recorded as a channel replaces the signal stored in the model.
    """
    angle = dict(zip(record.channels, record.angles, strict=True))
    times = record.time - record.excitation_start
    values = record.values(channels)
    inputs = np.empty((record.size, len(signals)))
    for column, signal in enumerate(signals):
        if signal.name in record.channels:
            inputs[:, column] = record[signal.name]
            if _is_held(signal):
                for part in record.segments():
                    inputs[part, column] = _acting(np.repeat(inputs[part, column, None], MIDDLES.size, axis=1))
        else:
            inputs[:, column] = _taken(signal, times)
    turning = np.array([angle[name] for name in channels], bool)
    for part in record.segments():
        values[part] = unwrap_states(values[part], turning)
    return times, values, inputs


def _is_held(signal: Signal) -> bool:
    return signal.kind == "polynomial" and signal.degree == 0


MIDDLES = (np.arange(8) + 0.5) / 8
"""Instants within a sampling step at which a held drive is taken."""

CUBIC = np.stack([
    -MIDDLES * (MIDDLES - 1) * (MIDDLES - 2) / 6,
    (MIDDLES + 1) * (MIDDLES - 1) * (MIDDLES - 2) / 2,
    -(MIDDLES + 1) * MIDDLES * (MIDDLES - 2) / 2,
    (MIDDLES + 1) * MIDDLES * (MIDDLES - 1) / 6,
])  # fmt: skip
"""Weights of the samples at -1, 0, 1, 2 steps in a cubic through them, at these instants."""


def _acting(between: Numbers) -> Numbers:
    """Return a held drive (N,) as it acts on each sample.

    between (N, 8): the drive at MIDDLES of the step after each sample. The weak form weights the drive with smooth
    functions φ that are known at the samples. With φ between them by cubics L_k through four samples,

        ∫ φ u dt = h Σ_n φ_n Σ_k <L_k u>_(n-k),

    which for a drive held at u_i is (-u_(n+1) + 13 u_n + 13 u_(n-1) - u_(n-2))/24: half a step late, and weaker by
    (ω h)²/24.
    """
    pieces = between @ CUBIC.T / MIDDLES.size
    # Beyond the ends the drive stays at its first and last values.
    padded = np.concatenate([pieces[:1], pieces[:1], pieces, pieces[-1:]])
    count = len(pieces)
    # <L_k u> of the interval n - k, k = -1, 0, 1, 2.
    return np.sum([padded[2 - k : 2 - k + count, k + 1] for k in (-1, 0, 1, 2)], axis=0)


def _taken(signal: Signal, times: Numbers) -> Numbers:
    """Return a stored drive (N,) at the samples, see `_acting`."""
    if not _is_held(signal) or times.size < 4:
        return signal(times)
    step = float(np.median(np.diff(times)))
    low, high = (-np.inf, np.inf) if signal.period is not None else signal.reach
    return _acting(signal(np.clip(times[:, None] + step * MIDDLES, low, high).ravel()).reshape(-1, MIDDLES.size))


def _evened(pieces: list[Piece]) -> tuple[list[Piece], float]:
    """Return the pieces on one even grid.

    The step of the grid is returned as well; samples of an uneven clock are moved onto it.
    """
    long = [p for p in pieces if len(p.times) > 1]
    if not long:
        raise DataError("Every segment of the record holds a single sample: the weak form needs stretches of them.")
    step = float(np.median([(p.times[-1] - p.times[0]) / (len(p.times) - 1) for p in long]))
    if all(np.abs(np.diff(p.times) - step).max() <= UNEVEN * step for p in long):
        return pieces, step
    step, made = even_step([p.times for p in long]), []
    for piece in long:
        # Convolutions and test functions need equal steps.
        for times, values in zip(*on_even_grid(piece.times, piece.channels, step), strict=True):
            inputs = [np.interp(times, piece.times, column) for column in piece.inputs.T]
            columns = np.stack(inputs, axis=1) if inputs else np.empty((times.size, 0))
            made.append(replace(piece, times=times, channels=values, inputs=columns))
    if not made:
        raise DataError("No segment of this unevenly sampled record is long enough for the weak form.")
    return made, step


def _with_noise(
    request: Request,
    pieces: list[Piece],
    channels: tuple[str, ...],
    mixing: Numbers,
    offset: Numbers,
    record: Record | None,
) -> Measured:
    """Return the pieces with the noise of each channel.

    The noise is as stated, as the record knows it, or else estimated from the longest piece.
    """
    model = request.model
    pieces, step = _evened(pieces)
    given = request.parts[0].noise
    known = all(name in given for name in channels)
    noise = np.array([float(given.get(name, np.nan)) for name in channels])
    # A signal stored in the model counts as exact.
    inputs = np.zeros(len(model.signals)) if record is None else _input_noise(model, record, pieces, given)
    source, freedom = "the noise stated", float("inf")
    if not known:
        longest = max(pieces, key=lambda p: len(p.times))
        seen = scatter(longest.channels, None if model.period is None else model.period / step)
        read = np.flatnonzero(~np.isfinite(noise))
        # Too short a stretch for `scatter` may still be long enough for its differences.
        noise[read] = (seen.level if np.isfinite(seen.level).all() else noise_level(longest.channels))[read]
        source = ", ".join(dict.fromkeys(seen.source[i] for i in read))
        freedom = float(seen.freedom[read].min())
    return Measured(tuple(pieces), step, channels, mixing, offset, noise, known, inputs, source, freedom)


def known_values(request: Request, linear: Sequence[str]) -> Numbers:
    """Return the values of all parameters.

    Those to be solved for may be unknown (NaN), and are then set to 0.
    """
    model = request.model
    values = np.array([model.values[n] for n in model.names])
    # A parameter needs no common value if every recording states its own.
    given = set.intersection(*(set(part.values) for part in request.parts))
    needed = [n for n in model.names if n not in linear and n not in given and not np.isfinite(model.values[n])]
    if needed:
        raise ModelError(
            f"No value for {', '.join(needed)}: give it by {Set('values', **{needed[0]: ...})}, or make it free."
        )
    return np.where(np.isfinite(values), values, 0.0)


def _from_orbits(request: Request, orbits: OrbitSet) -> Measured:
    """Return orbits as pieces.

    The raw stretch of the record where there is one, else the profile. A stretch ends where the next period begins, so
    nothing is assumed periodic.
    """
    model, own = request.model, request.parts[0].values
    channels, mixing, offset = _common_map(request, [orbits[0].states])
    record = orbits.source if isinstance(orbits.source, Record) else None
    raw = None if record is None else Piece(*_continuous(record, channels, model.signals))
    pieces = []
    for number, orbit in enumerate(orbits):
        stretch = stretch_of(orbits, number)
        if raw is not None and stretch is not None:
            pieces.append(Piece(raw.times[stretch], raw.channels[stretch], raw.inputs[stretch], own))
        else:
            pieces.append(replace(_profile_piece(model, orbit, number, channels), own=own))
    return _with_noise(request, pieces, channels, mixing, offset, record)


def stretch_of(orbits: OrbitSet, number: int) -> slice | None:
    """Return the samples of the record behind an orbit.

    None for an orbit that was computed.
    """
    orbit, record = orbits[number], orbits.source
    found = orbit.stretch
    if not isinstance(record, Record) or found is None or not 0 <= found.first < found.last <= record.size:
        return None
    return slice(found.first, found.last)


def _profile_piece(model: Model, orbit: PeriodicOrbit, number: int, channels: tuple[str, ...]) -> Piece:
    if orbit.profile is None:
        raise DataError(
            f"Orbit {number} (period {orbit.period:.6g}) has no profile, only section points: the harmonic and "
            "weak forms need samples within the period."
        )
    columns = [orbit.states.index(name) for name in channels]
    times = orbit.profile.times + (orbit.stretch.start if orbit.stretch else 0.0)
    extra = [_taken(signal, times) for signal in model.signals]
    inputs = np.column_stack(extra) if extra else np.empty((len(times), 0))
    return Piece(times, orbit.profile.states[:, columns], inputs)
