"""The fitted model as the verbs on families of motions need it, and synthetic repetitions of its fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import Coverage, Estimate, coverage
from kapitza.model import Model, harmonic_drive
from kapitza.study.fits import StudyFit, fitted_settings
from kapitza.study.writing import main_frequency


def model_to_follow(
    fit: StudyFit | Estimate, values: Mapping[str, float], drive: str | None = None, frequency: str = "omega"
) -> Model:
    """Return the fitted model with other values, a measured drive replaced by a harmonic one.

    values: by name, those of the new parameters NAME_level and `frequency` of a measured drive included. drive: which
    measured signal; needed only where there are several.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    model = estimate.model.with_values(**(found[0][1] if found else {}))
    names = [signal.name for signal in model.signals]
    if names:
        model = harmonic_drive(model, drive or names[0], frequency)
    elif drive is not None:
        raise KapitzaError(f'"{drive}" is not a measured drive of {model.name}: leave --drive out.')
    return model.with_values(**values)


def cycle_of(fit: StudyFit | Estimate) -> tuple[Array, float] | None:
    """Return a state of the fitted motion and its main period [s], from which a limit cycle is looked for.

    The last state: a self-excited motion has come closest to its cycle there. None where no motion was fitted.
    """
    estimate = fit if isinstance(fit, Estimate) else fit.answer
    found = fitted_settings(estimate)
    if estimate.motion is None or not found:
        return None
    record = found[0][0]
    channel = next((c for c in record.channels if c in estimate.residuals), record.channels[0])
    return estimate.motion.states[-1], 1.0 / main_frequency(record, channel)


def repeated_fits(
    fit: StudyFit | Estimate, count: int, level: float, seed: int = 0, workers: int | None = None
) -> Coverage:
    """Fit the fitted motion again under fresh noise, `count` times: how much the answer scatters by noise alone.

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
