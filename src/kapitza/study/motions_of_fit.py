"""Prepare fitted models for families of motions.

Fits are repeated here on synthetic data too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import Coverage, Estimate, coverage
from kapitza.model import Model, harmonic_drive
from kapitza.study.fits import StudyFit, fitted_settings
from kapitza.study.writing import main_frequency

if TYPE_CHECKING:
    from kapitza.continuation import Branch


def model_to_follow(
    fit: StudyFit | Estimate,
    values: Mapping[str, float],
    drive: str | None = None,
    frequency: str = "omega",
    within: Mapping[str, tuple[float, float]] | None = None,
) -> Model:
    """Return the fitted model with other values.

    A measured drive is replaced by a harmonic one.
    values: by name, those of the new parameters NAME_level and `frequency` of a measured drive included. drive: which
    measured signal; needed only where there are several. within: ranges of parameters that are followed; a value
    outside, where none is given, becomes the nearest end.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    model = estimate.model.with_values(**(found[0][1] if found else {}))
    names = [signal.name for signal in model.signals]
    if names:
        model = harmonic_drive(model, drive or names[0], frequency)
    elif drive is not None:
        raise KapitzaError(f'"{drive}" is not a measured drive of {model.name}: leave --drive out.')
    inside = {
        name: min(max(model.values[name], low), high)
        for name, (low, high) in (within or {}).items()
        if name in model.names
    }
    return model.with_values(**{**inside, **values})


def cycle_of(fit: StudyFit | Estimate) -> tuple[Array, float] | None:
    """Return a state and period near a cycle.

    A state of the fitted motion and its main period [s], from which a limit cycle is searched.
    The last state: a self-excited motion has come closest to its cycle there. None where no motion was fitted.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    if estimate.motion is None or not found:
        return None
    record = found[0][0]
    channel = next((c for c in record.channels if c in estimate.residuals), record.channels[0])
    return estimate.motion.states[-1], 1.0 / main_frequency(record, channel)


@dataclass(frozen=True)
class Family:
    """Which motions of a fitted model are followed.

    values: other values of its parameters; drive: measured drive that becomes harmonic, where there are several.
    rest: a rest state instead of a periodic motion; period: in excitation periods, without excitation in s.
    """

    parameter: str
    bounds: tuple[float, float]
    values: Mapping[str, float] = field(default_factory=dict)
    drive: str | None = None
    rest: bool = False
    period: float | None = None


def follow_fit(
    fit: StudyFit | Estimate, family: Family, start: Array | None = None, monitor: Monitor | None = None
) -> Branch:
    """Follow motions of a fitted model.

    Bifurcations have intervals where the covariance of the fit allows it.
    start: a state near the first motion; None: the model settles, without excitation from the fitted motion.
    """
    from kapitza.continuation import follow

    estimate = fit if isinstance(fit, Estimate) else fit.answer
    model = model_to_follow(fit, family.values, family.drive, within={family.parameter: family.bounds})
    model.check(family.parameter)
    settings: dict[str, Any] = {"equilibrium": True} if family.rest else {"period": family.period}
    known = all(math.isfinite(error) for error in estimate.deviations.values()) and estimate.base is None
    unmoved = family.parameter not in estimate.names and not any(n in family.values for n in estimate.names)
    if known and unmoved and all(n in model.names for n in estimate.names):
        settings["posterior"] = estimate
    cycle = cycle_of(fit) if model.period is None and not family.rest and not model.is_map else None
    if cycle is not None:
        # Without excitation the motion of the recording is the best guess of the cycle.
        start = cycle[0] if start is None else start
        settings["period"] = cycle[1] if family.period is None else family.period
    return follow(model, start, family.parameter, family.bounds, monitor=monitor, **settings)


def repeated_fits(
    fit: StudyFit | Estimate, count: int, level: float, seed: int = 0, workers: int | None = None
) -> Coverage:
    """Repeat the fit `count` times under fresh noise.

    The scatter of the answers is that of the noise alone.
    The motion is the fitted one, so a model that misses the data is not found out here; see `validate`.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    motion, found = estimate.motion, fitted_settings(estimate)
    if motion is None:
        raise KapitzaError(f"{estimate.method} fits no motion: fit the study by shooting or auto to repeat it.")
    if len(found) != 1:
        raise KapitzaError(f"The fit has {len(found)} recordings: repetitions are made of one.")
    record, own = found[0]
    channels = tuple(estimate.residuals)
    if motion.predicted.shape != (record.size, len(channels)) or (motion.read is not None and not motion.read.all()):
        raise KapitzaError("Samples of the recording were left out of the fit: repetitions need all of them.")
    noise = {name: float(estimate.noise[name]) for name in channels}
    clean = Record.from_arrays(
        record.time,
        dict(zip(channels, np.ascontiguousarray(motion.predicted.T), strict=True)),
        units={name: record.units[name] for name in channels},
        angles=[name for name, angle in zip(record.channels, record.angles, strict=True) if angle and name in channels],
        segment=record.content.segment,
        period=record.period,
        phase=record.content.attrs.get("phase"),
    )
    model = estimate.model.with_values(**own)
    return coverage(
        model, clean, noise, list(estimate.names), estimate.settings, count, level, seed=seed, workers=workers
    )
