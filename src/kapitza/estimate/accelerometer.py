"""Starting values from accelerometers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.estimate.observation import Output, observe
from kapitza.model import Model, compile_expressions, derived_in_base, rate, symbol, time

SLOW_SHARE = 0.002
"""Share of the power of an acceleration below its slowest motion."""

BELOW = 0.5
"""Corner of the high pass over the frequency of the slowest motion: lower ones let the drift of the integrals pass."""

FEWEST = 64
"""Samples of a segment that is integrated; the high pass needs some periods."""


def measured_accelerations(model: Model, record: Record, outputs: Mapping[str, Output]) -> dict[str, str]:
    """Return the channels that measure x'': coordinate → channel.

    An offset and a drift of the sensor may be added. Empty unless every coordinate of the model has such a channel.
    """
    written = {c: output for c, output in outputs.items() if c in record.channels}
    if model.is_map or not written or model.structure.steps or any(c.order != 2 for c in model.coordinates):
        return {}
    seen = observe(model, [record.select(list(written))], written, ())
    moving = {symbol(name) for name in model.states}
    found: dict[str, str] = {}
    for channel, expression in zip(seen.channels, seen.expressions, strict=True):
        for coordinate in model.coordinates:
            rest = sp.expand(expression - model.structure.accelerations[rate(coordinate.name, 2)])
            if rest.free_symbols.isdisjoint(moving):
                found.setdefault(coordinate.name, channel)
    return found if len(found) == len(model.coordinates) else {}


def values_from_accelerations(
    model: Model, record: Record, channels: Mapping[str, str], names: Sequence[str]
) -> dict[str, float]:
    """Return parameters by linear regression of the equations.

    In g(x, x', x'', t) = g0 + Σ θ_i g_i the rates are integrals of the measured x'', and a high pass takes the drift of
    the integrals out of x, x' and all columns. Slow motion is lost with it: the values are where a fit starts. Empty
    where the equations are not linear in the parameters, or do not hold them.
    """
    derived = derived_in_base(model)
    written = [sp.expand(e.xreplace(derived)) for e in model.equations]
    unknown = [n for n in names if any(symbol(n) in e.free_symbols for e in written)]
    slopes = [[sp.diff(e, symbol(n)) for n in unknown] for e in written]
    if not unknown or any({symbol(n) for n in unknown} & s.free_symbols for row in slopes for s in row):
        return {}
    known = [e.xreplace({symbol(n): sp.Integer(0) for n in unknown}) for e in written]
    moving = [rate(c.name, order) for c in model.coordinates for order in range(3)]
    inputs = [*moving, time, *(symbol(s.name) for s in model.signals)]
    evaluate = compile_expressions([e for row in (known, *slopes) for e in row], inputs, model.names)
    vector = model.with_values(**dict.fromkeys(unknown, 1.0)).vector
    rows: list[Array] = []
    for piece in record.segments():
        if piece.stop - piece.start < FEWEST:
            continue
        part = record.samples(piece)
        high_pass, ends = _high_pass(part, list(channels.values()))
        step = _step(part)
        motion: list[Array] = []
        for coordinate in model.coordinates:
            acceleration = part[channels[coordinate.name]]
            velocity = high_pass(_integral(acceleration, step))
            position = high_pass(_integral(velocity, step))
            # Two passes for all of them: terms that are linear in the motion then keep their balance.
            motion += [position, high_pass(velocity), high_pass(high_pass(acceleration))]
        times = part.time - record.excitation_start
        signals = (high_pass(high_pass(s(times))) for s in model.signals)
        columns = evaluate(np.vstack([*motion, times, *signals]), vector)
        filtered = np.array([high_pass(column) for column in columns])[:, ends]
        left, right = filtered[: len(known)], filtered[len(known) :].reshape(len(known), len(unknown), -1)
        rows.append(np.vstack([np.column_stack([g.T, -b]) for g, b in zip(right, left, strict=True)]))
    table = np.vstack(rows) if rows else np.empty((0, len(unknown) + 1))
    scale = np.linalg.norm(table[:, :-1], axis=0)
    if len(table) <= len(unknown) or not np.isfinite(table).all() or not scale.all():
        return {}
    found = np.linalg.lstsq(table[:, :-1] / scale, table[:, -1], rcond=None)[0] / scale
    return {n: float(value) for n, value in zip(unknown, found, strict=True)}


def _step(record: Record) -> float:
    return float(record.time[-1] - record.time[0]) / (record.size - 1)


def _integral(values: Array, step: float) -> Array:
    return np.concatenate([[0.0], np.cumsum(0.5 * step * (values[1:] + values[:-1]))])


def _high_pass(record: Record, channels: Sequence[str]) -> tuple[Callable[[Array], Array], slice]:
    """Return a high pass without phase, and the samples away from its ends."""
    from scipy.signal import butter, sosfiltfilt

    step = _step(record)
    frequency = np.fft.rfftfreq(record.size, step)
    slowest = np.inf
    for channel in channels:
        values = record[channel]
        power = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(values.size))) ** 2
        share = np.cumsum(power) / max(float(power.sum()), 1e-300)
        slowest = min(slowest, float(frequency[np.searchsorted(share, SLOW_SHARE)]))
    # Two periods in the segment at least, and well below half the sampling frequency.
    corner = float(np.clip(BELOW * slowest, 2 / (record.size * step), 0.1 / step))
    sections = butter(2, corner, "highpass", fs=1 / step, output="sos")
    margin = min(round(1 / (corner * step)), record.size // 4)
    return lambda values: np.asarray(sosfiltfilt(sections, values), float), slice(margin, record.size - margin)
