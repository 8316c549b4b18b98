"""The synthetic experiment of HARMONIC: the double pendulum on a shaken base, seen by two encoders of 1024 counts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import kapitza as kz
from kapitza.flow import chaotic_record

COUNT = 2 * np.pi / 1024
SAMPLES = 100
PERIODS = 6700
CONSERVATIVE = ("B11", "B12", "B13", "B21", "B22", "B23")
VISCOUS = ("C12", "C2")


def rig(dry_friction: float = 0.0) -> kz.Model:
    return kz.library.base_excited_double_pendulum().with_values(C11=dry_friction)


def encoders(record: kz.Record) -> kz.Record:
    """θ1 and the angle θ2 between the arms, continuous."""
    return kz.Record.from_arrays(
        record.time,
        {"theta1": record["phi1"], "theta2": record["phi2"] - record["phi1"]},
        angles=["theta1", "theta2"],
        segment=record.dataset["segment"].values,
        period=record.period,
    )


@lru_cache(maxsize=4)
def motion(dry_friction: float = 0.0, periods: int = PERIODS, seed: int = 1, samples: int = SAMPLES) -> kz.Record:
    """The angles without noise, restarted whenever the motion has left chaos."""
    return encoders(chaotic_record(rig(dry_friction), periods, samples, seed=seed))


def measured(record: kz.Record, quantum: float = COUNT) -> kz.Record:
    return kz.measure(record, quantum=quantum)


def thinned(record: kz.Record, every: int) -> kz.Record:
    """Every so-manieth sample of each segment."""
    keep = np.zeros(record.size, bool)
    for piece in record.segments():
        keep[piece.start : piece.stop : every] = True
    return kz.Record.from_arrays(
        record.time[keep],
        {n: record[n][keep] for n in record.channels},
        angles=record.channels,
        segment=record.dataset["segment"].values[keep],
        noise=record.noise or None,
        period=record.period,
    )


def first_minutes(record: kz.Record, samples: int) -> kz.Record:
    """The beginning of a record."""
    keep = np.arange(record.size) < samples
    return kz.Record.from_arrays(
        record.time[keep],
        {n: record[n][keep] for n in record.channels},
        angles=record.channels,
        segment=record.dataset["segment"].values[keep],
        noise=record.noise or None,
        period=record.period,
    )


def percent(fit: kz.Estimate, model: kz.Model, name: str) -> float:
    """Error in % of the true value; NaN for a true value of zero."""
    truth = model.values[name]
    return 100 * (fit[name] / truth - 1) if truth else float("nan")


def worst(fit: kz.Estimate, model: kz.Model, names) -> float:
    return max(abs(percent(fit, model, n)) for n in names)
