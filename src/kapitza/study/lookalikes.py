"""Detect numbers that look like another unit.

Examples are degrees, milliseconds, and rates of another scale. A wrong unit gives wrong parameters with small
intervals. The unit that a file states is used for the conversion. It is then compared with the motion: angles that
swing through whole turns, times at which nothing moves as the model says, rates that are not those of their positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import sympy as sp

from kapitza.base.angles import TURN
from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.model import Model, symbol
from kapitza.study.drive import line_near

SCALES = {
    180 / math.pi: "deg",
    1000.0: "milli",
    60 / TURN: "rpm",
    TURN: "rev",
    1e6: "micro",
    60.0: "min",
    100.0: "centi",
}
"""Ratios by which a forgotten conversion shows."""

CLOCKS = {1e-3: "ms", 1e-6: "us", 60.0: "min", 3600.0: "h"}
"""Factors to seconds of units that clocks count in."""

APART = 100.0
"""Times that the frequency of a recording may differ from all those of the model before it is talked about."""

SAMPLES = 4
"""Samples per excitation period below which a motion cannot be recognised."""

FEWEST = 16
"""Samples below which nothing is said."""


def lookalike_warnings(model: Model, record: Record) -> Iterator[str]:
    """Yield warnings of channels in doubtful units.

    Doubtful times are reported too; none where all is plausible.
    """
    yield from degree_warnings(model, record)
    yield from rate_warnings(model, record)
    said = clock_warning(model, record)
    if said:
        yield said


def is_angle(model: Model, name: str) -> bool:
    """Return whether a coordinate is an angle.

    It is declared as one, or found inside a sine or cosine of the equations.
    """
    coordinate = next((c for c in model.coordinates if c.name == name), None)
    if coordinate is None:
        return False
    own = symbol(name)
    return coordinate.angle or any(
        own in function.free_symbols for e in model.equations for function in e.atoms(sp.sin, sp.cos, sp.tan)
    )


def degree_warnings(model: Model, record: Record) -> Iterator[str]:
    """Yield warnings of angles that look like degrees.

    They swing to and fro through more than a turn, or fill the circle from -180 to 180 or 0 to 360.
    """
    for name in record.channels:
        if not is_angle(model, name):
            continue
        values = record[name]
        if values.size < FEWEST:
            continue
        low, high = float(values.min()), float(values.max())
        swing = _typical_swing(values)
        wrapped = (-180.5 <= low < -150 and 150 < high <= 180.5) or (-0.5 <= low < 30 and 330 < high <= 360.5)
        if wrapped or swing > TURN:
            seen = f"its values lie between {low:.4g} and {high:.4g}" if wrapped else f"its swings span {swing:.3g}"
            yield (
                f"{name} is an angle taken in rad, but {seen}: this looks like degrees. Say units = {{{_key(name)} = "
                f'"deg"}}; if it does turn so far, nothing needs to change.'
            )


def _typical_swing(values: Array) -> float:
    """Return the median distance between turning points.

    The turning points are neighbours; 0 where there are fewer than four. Swings of the size of the noise are left out:
    a noisy record turns many times at each extreme.
    """
    steps = np.diff(values)
    moving = np.flatnonzero(steps)
    turns = moving[1:][np.signbit(steps[moving[1:]]) != np.signbit(steps[moving[:-1]])]
    swings = np.abs(np.diff(values[turns]))
    # White noise of deviation s gives second differences of s √6, whose median size is 0.6745 of that.
    noise = float(np.median(np.abs(np.diff(steps)))) / (0.6745 * math.sqrt(6))
    swings = swings[swings > 4 * noise]
    return float(np.median(swings)) if swings.size >= 3 else 0.0


def rate_warnings(model: Model, record: Record) -> Iterator[str]:
    """Yield warnings of channels that are not rates.

    Channels x' that are not the rate of their channel x: by a factor, or not at all.
    Increments of x over about an eighth of a cycle are compared with integrals of x' over it, which noise hardly
    touches: slope b and correlation of the one against the other; b = 1 where all is right.
    """
    continuous = record.unwrapped()
    for name in record.channels:
        rate = f"{name}'"
        if name not in model.states or rate not in record.channels:
            continue
        moved, turned = _increments(record, continuous[name], record[rate])
        if moved.size < FEWEST or not (moved @ moved and turned @ turned):
            continue
        slope = float(moved @ turned / (moved @ moved))
        agreement = float(moved @ turned / math.sqrt((moved @ moved) * (turned @ turned)))
        if abs(agreement) < 0.5:
            yield (
                f"{rate} is not the rate of {name} (correlation {agreement:.2f}): look whether the columns are the "
                f"right ones, and not exchanged."
            )
        elif agreement < -0.8:
            # In a nearly harmonic motion the rate of x' is -ω² x: exchanged columns give a factor -1/ω².
            meaning = _turned(record, name, rate)
            yield f"{rate} is {slope:.4g} times the rate of {name}, and no unit is negative: {meaning}."
        elif agreement > 0.8 and not 0.8 < slope < 1.25:
            yield (
                f"{rate} is {slope:.4g} times the rate of {name}: one of them is in another unit than it is taken in"
                f"{_named_scale(slope)}. Say it by units = {{{_key(name)} = ..., {_key(rate)} = ...}}."
            )


def _turned(record: Record, name: str, rate: str) -> str:
    """Return what a negative factor means: exchanged columns, or a sign."""
    moved, turned = _increments(record, record[rate], record.unwrapped()[name])
    slope = float(moved @ turned / (moved @ moved)) if moved.size and moved @ moved else 0.0
    if 0.8 < slope < 1.25:
        return f"the column {name} is the rate of the column {rate}, so the two are exchanged"
    return "one of them has the wrong sign, or the columns are exchanged"


def _increments(record: Record, values: Array, rates: Array) -> tuple[Array, Array]:
    """Return increments of values and integrals of rates.

    Both are over the same short spans, of all segments.
    """
    moved, turned = [], []
    for piece in record.segments():
        x, v, t = values[piece], rates[piece], record.time[piece]
        if x.size < FEWEST:
            continue
        crossings = max(int(np.count_nonzero(np.diff(np.signbit(v - v.mean())))), 1)
        if 2 * x.size / crossings < 8:
            continue
        span = int(np.clip(x.size / crossings / 4, 1, x.size - 1))
        path = np.concatenate([[0.0], np.cumsum(0.5 * (v[1:] + v[:-1]) * np.diff(t))])
        moved.append(x[span:] - x[:-span])
        turned.append(path[span:] - path[:-span])
    return (np.concatenate(moved), np.concatenate(turned)) if moved else (np.empty(0), np.empty(0))


def _named_scale(slope: float) -> str:
    for ratio, name in SCALES.items():
        for factor in (ratio, 1 / ratio):
            if abs(abs(slope) / factor - 1) < 0.1:
                return f" ({factor:.4g} is the factor of {name})"
    return ""


def clock_warning(model: Model, record: Record) -> str:
    """Warn of times that look like another unit.

    An example are milliseconds. The times are compared with the excitation or the model.
    """
    if model.is_map or record.size < FEWEST:
        return ""
    step = float(np.median(np.diff(record.time)))
    if model.excitation is not None:
        return "" if model.excitation.signals or model.period is None else _against_drive(model.period, step, record)
    return _against_frequencies(model, record)


def _against_drive(period: float, step: float, record: Record) -> str:
    ratio = step / period
    whole = round(ratio)
    strobed = whole >= 1 and abs(ratio - whole) < 0.02 * ratio
    # One sample every few whole periods is a strobed recording, not a wrong unit.
    if strobed and whole <= 20:
        return ""
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    time = record.time[piece] - record.time[piece][0]
    values = record.unwrapped()[record.channels[0]][piece]
    duration = float(time[-1])
    if ratio < 1 / SAMPLES and duration > period:
        return ""
    shown = (
        f"one sample every {ratio:.3g} excitation periods"
        if ratio >= 1 / SAMPLES
        else f"{duration / period:.2g} periods"
    )
    said = f"The recording has {shown} ({period:.4g} s): its times look like another unit than s."
    for factor, name in CLOCKS.items():
        for scale, words in ((factor, f'Say units = {{t = "{name}"}} (of the time column).'),
                             (1 / factor, f"It states {name}, and would fit in s.")):  # fmt: skip
            if strobed and abs(ratio * scale - round(ratio * scale)) < 0.02 and 1 <= round(ratio * scale) <= 2:
                return f"{said} {words}"
            if 0.002 < ratio * scale < 0.4 and duration * scale > 5 * period:
                found = line_near(time * scale, values - values.mean(), 1 / period)
                if found is not None:
                    return f"{said} {words}"
    if ratio >= 1 / SAMPLES:
        return f"{said} At least four samples per period are needed, or whole periods between them."
    return said


def _against_frequencies(model: Model, record: Record) -> str:
    """Compare the main frequency with the model's.

    The model's frequencies are those of small motions at the present values.
    """
    try:
        rates = np.abs(model.linearise().eigenvalues) / TURN
    except (KapitzaError, ArithmeticError, ValueError):
        return ""
    rates = rates[np.isfinite(rates) & (rates > 0)]
    found = _main_frequency(record)
    if not rates.size or not found:
        return ""
    low, high = float(rates.min()), float(rates.max())
    if low / APART < found < APART * high:
        return ""
    wanted = low if found < low else high
    scale = found / wanted
    name = next((n for f, n in CLOCKS.items() if 0.2 < scale / f < 5 or 0.2 < scale * f < 5), "")
    cure = f'If they are in {name}: units = {{t = "{name}"}}. ' if name and scale < 1 else ""
    return (
        f"The recording moves at about {found:.3g} Hz by its times, the model with its starting values at "
        f"{wanted:.3g} Hz: are the times in s? {cure}Otherwise start from values nearer to the rig."
    )


def _main_frequency(record: Record) -> float:
    """Return the main frequency of the record [Hz].

    It is half the rate of crossings of the mean by the first channel's longest segment; 0 where it does not move.
    """
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    values, time = record.unwrapped()[record.channels[0]][piece], record.time[piece]
    if values.size < FEWEST or time[-1] == time[0]:
        return 0.0
    centred = values - values.mean()
    # Noise adds crossings near the mean: samples close to it are left out.
    beyond = centred[np.abs(centred) > 0.2 * np.abs(centred).max()]
    crossings = int(np.count_nonzero(np.diff(np.signbit(beyond))))
    return crossings / 2 / float(time[-1] - time[0]) if crossings >= 4 else 0.0


def _key(name: str) -> str:
    """Return a key of TOML, quoted where needed."""
    return name if name.replace("_", "").isalnum() and name.isascii() else f'"{name}"'
