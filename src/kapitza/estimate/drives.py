"""Checks of measured drives against records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import By, Do
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.model import Excitation, Model, Signal

APART = 0.1
"""Root mean square difference, over the spread, beyond which a recorded drive is not the signal of the model."""

NEAR = 1e-9
"""Share of its length by which a record may pass the ends of a drive: rounding of its clock."""

CLEARLY = 0.8
"""Ratio of the errors at left-out samples below which a spline clearly follows a drive better than straight lines."""

ALIKE = 1.1
"""The same ratio for white noise is 1.08: a spline is no worse up to here."""

STEP = 30.0
"""Second difference, over their robust deviation, from which a drive has a step; smooth and noisy ones have 2 to 10."""

FEWEST = 16
"""Samples below which nothing is inferred from those left out."""


def best_degree(times: Array, values: Array) -> int:
    """Return the degree that follows a drive between samples.

    Every second sample is predicted from the others, by a cubic spline and by straight lines. The spline (3) is taken
    where it predicts clearly better, or no worse in a drive without steps; lines (1) otherwise, as a spline rings at
    steps. Straight lines through n samples per oscillation act as a gain of 1 - (π/n)²/3, which moves estimates by
    many standard errors where the noise is small.
    """
    times, values = longest_run(times, values)
    if times.size < FEWEST or not (np.diff(times) > 0).all():
        return 1
    missed = {degree: _missed(times, values, degree) for degree in (1, 3)}
    bends = np.abs(np.diff(values, 2))
    has_steps = bends.max() > STEP * 1.4826 * np.median(bends)
    return 3 if missed[3] <= (CLEARLY if has_steps else ALIKE) * missed[1] else 1


def longest_run(times: Array, values: Array) -> tuple[Array, Array]:
    """Return the longest stretch without a gap.

    A jump across a gap looks like noise, or like a step.
    """
    steps = np.diff(times)
    edges = np.concatenate([[0], np.flatnonzero(steps > 1.5 * np.median(steps)) + 1, [times.size]])
    first = int(np.argmax(np.diff(edges)))
    run = slice(int(edges[first]), int(edges[first + 1]))
    return times[run], values[run]


def _missed(times: Array, values: Array, degree: int) -> float:
    """Return the root mean square error at left-out samples."""
    others = Signal("u", times[::2], values[::2], degree=degree)
    left_out = slice(1, times.size - 1, 2)
    return float(np.sqrt(np.mean((others(times[left_out]) - values[left_out]) ** 2)))


def check_reach(model: Model, record: Record, label: str) -> None:
    """Refuse a record that outlasts a measured drive.

    This concerns drives without a period; a channel of the record with the name of the drive replaces it.
    """
    times = record.time - record.excitation_start
    for signal in model.signals:
        if signal.name not in record.channels and not _covers(signal, record):
            low, high = signal.reach
            raise DataError(
                f'The drive "{signal.name}" is known from {low:.6g} to {high:.6g} s and has no period, {label} lasts '
                f"from {times[0]:.6g} to {times[-1]:.6g} s in the time of the model: give it the channel "
                f'"{signal.name}", or a signal that covers it, and time stamps on the clock of the signal.'
            )


def check_signals(model: Model, record: Record) -> None:
    """Refuse a recorded drive that differs from the model's.

    The motion is driven by the signal of the model.
    """
    for signal in model.signals:
        if signal.name not in record.channels:
            continue
        gap, spread = _gap(signal, record)
        if gap:
            cure = Do(f'kz.Signal("{signal.name}", times, values)', f'drive = ["{signal.name}"]')
            raise DataError(
                f'The record\'s channel "{signal.name}" differs from the signal "{signal.name}" of the model by '
                f"{gap:.3g} (root mean square; the signal's spread is {spread:.3g}). {By('shooting')} drives the "
                f"motion by the signal of the model: build it from this record, {cure}, check the phase, or leave the "
                "channel out of the record. Several records with different drives are fitted on one clock: shift the "
                "times of the second behind the first, and make one signal of both."
            )


def with_own_drive(model: Model, record: Record) -> Model:
    """Return the model driven by the record's own channels.

    Channels that hold measured drives replace the signals of the model where they differ.
    """
    other = {s.name: _recorded(s, record) for s in model.signals if s.name in record.channels and _gap(s, record)[0]}
    if not other:
        return model
    kept = tuple(other.get(s.name, s) for s in model.signals)
    return replace(model, excitation=Excitation.of_signals(kept))


def _recorded(signal: Signal, record: Record) -> Signal:
    degree = signal.degree if signal.kind == "polynomial" else 1
    times = record.time - record.excitation_start
    return Signal(signal.name, times, record[signal.name], degree=degree, unit=signal.unit)


def _covers(signal: Signal, record: Record) -> bool:
    low, high = signal.reach
    # A periodic signal reaches everywhere; only the ends of a signal without period need a margin.
    times, near = record.time - record.excitation_start, NEAR * (high - low) if signal.period is None else 0.0
    return bool(times[0] >= low - near and times[-1] <= high + near)


def _gap(signal: Signal, record: Record) -> tuple[float, float]:
    """Return the difference between drive and signal, and spread.

    The difference is a root mean square, 0 where it is within the limit; the spread is that of the signal.
    """
    measured = record[signal.name]
    if not _covers(signal, record):
        return float(measured.std()) or 1.0, float(measured.std())
    stated = signal(record.time - record.excitation_start)
    gap = float(np.sqrt(((measured - stated) ** 2).mean()))
    # Noise of the recorded drive is not a difference; two standard deviations of it are allowed.
    limit = APART * max(float(stated.std()), float(measured.std())) + 2 * record.noise.get(signal.name, 0.0)
    return (gap if gap > limit else 0.0), float(stated.std())
