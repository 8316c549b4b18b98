"""What the noise of a measured drive does to the estimates.

The fit takes the measured drive u + e for the true one. With the motion y(θ, u) and its sensitivities J at u + e, the
least-squares estimate moves by

    δθ = -J⁺ (y(θ, u + e) - y(θ, u)),

J by the free parameters and the initial state, both weighted by the noise of the channels. Noise of the measured size
is added to the drive once more in several draws; the root mean square of δθ over them estimates the effect, its spread
as well as the attenuation of gains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import DataError, FlowError
from kapitza.estimate import Estimate
from kapitza.flow import Flow
from kapitza.model import Model, Signal
from kapitza.signal import noise_level
from kapitza.study.fits import fitted_settings

Array = NDArray[np.float64]

DRAWS = 12
"""Noisy drives: the root mean square over twelve has an error of 20 %."""

TOLD = 0.2
"""Standard errors from which on the effect is reported: below, the variance changes by less than 4 %."""


@dataclass(frozen=True)
class DriveEffect:
    """Noise of the drives [their units], and how far it moves each free parameter (root mean square)."""

    noise: dict[str, float]
    moved: dict[str, float]

    def sentence(self, deviations: dict[str, float]) -> str:
        """A warning where a parameter moves by a noticeable share of its standard error, else nothing."""
        shares = {n: m / deviations[n] for n, m in self.moved.items() if deviations.get(n, 0.0) > 0}
        told = {n: s for n, s in shares.items() if s > TOLD}
        if not told:
            return ""
        noise = ", ".join(f"{n} (± {v:.2g})" for n, v in self.noise.items())
        moves = ", ".join(f"{n} by ± {self.moved[n]:.2g} ({s:.1f} standard errors)" for n, s in told.items())
        return (
            f"The noise of the measured drive {noise} moves {moves}, which the intervals do not hold: average the "
            "drive over periods, or smooth it."
        )


def drive_effect(estimate: Estimate, seed: int = 0) -> DriveEffect | None:
    """Return the effect of noise in the measured drives of a fit; None where it cannot be computed.

    It needs the motion of a `ShootingFit`, one uninterrupted recording and channels that are states.
    """
    model, motion, records = estimate.model, estimate.motion, fitted_settings(estimate)
    if motion is None or not model.signals or len(records) != 1 or estimate.base is not None:
        return None
    record, own = records[0]
    names = [n for n in estimate.residuals if n in model.states]
    free = tuple(n for n in estimate.names if n in model.names)
    if len(record.segments()) != 1 or not names or not free:
        return None
    levels = drive_levels(record, model)
    if not any(levels.values()):
        return DriveEffect(levels, dict.fromkeys(free, 0.0))
    model = model.with_values(**own)
    weights = np.array([1.0 / max(estimate.noise.get(n, 1.0), 1e-300) for n in names])
    columns = [model.states.index(n) for n in names]
    fitted = _Fitted(motion.states[0], motion.sample_times, columns, weights, free)
    random = np.random.default_rng(seed)
    try:
        plain = Flow(model).trajectory(fitted.start, fitted.times)[:, columns]
        moved = [_moved(_noisy(model, levels, random), fitted, plain) for _ in range(DRAWS)]
    except FlowError:
        return None
    return DriveEffect(levels, dict(zip(free, np.sqrt(np.mean(np.square(moved), axis=0)).tolist(), strict=True)))


def drive_levels(record: Record, model: Model) -> dict[str, float]:
    """Standard deviation of the white noise of each drive: as stated with the recording, or from its spectrum."""
    stated = record.noise or {}
    levels = {}
    for signal in model.signals:
        if signal.name in stated:
            levels[signal.name] = float(stated[signal.name])
            continue
        try:
            levels[signal.name] = float(noise_level(signal.values[:, None])[0])
        except DataError:
            levels[signal.name] = 0.0
    return levels


def _noisy(model: Model, levels: dict[str, float], random: np.random.Generator) -> Model:
    assert model.excitation is not None

    def disturbed(signal: Signal) -> Signal:
        return replace(signal, values=signal.values + levels[signal.name] * random.normal(size=signal.values.size))

    signals = tuple(disturbed(s) for s in model.signals)
    return replace(model, excitation=replace(model.excitation, signals=signals))


@dataclass(frozen=True)
class _Fitted:
    """A fitted motion: its start, times, the columns of the measured states with their weights, the free parameters."""

    start: Array
    times: Array
    columns: list[int]
    weights: Array
    free: tuple[str, ...]


def _moved(model: Model, fitted: _Fitted, plain: Array) -> Array:
    """δθ (k,) of the free parameters under one noisy drive."""
    flow = Flow(model, wrt=fitted.free)
    states, by_start, by_parameter = flow.trajectory_tangents(fitted.start, fitted.times)
    slopes = np.concatenate([by_parameter[:, fitted.columns], by_start[:, fitted.columns]], axis=2)
    rows = (slopes * fitted.weights[None, :, None]).reshape(-1, slopes.shape[2])
    apart = ((states[:, fitted.columns] - plain) * fitted.weights).ravel()
    return np.asarray(-np.linalg.lstsq(rows, apart, rcond=None)[0][: len(fitted.free)], np.float64)
