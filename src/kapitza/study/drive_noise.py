"""What the noise of a measured drive does to the estimates.

The fit takes the measured drive u + e for the true one. With the motion y(θ, u) and its sensitivities J at the fitted
motion, the least-squares estimate moves by

    δθ = -J⁺ G e,    G e = ∂y/∂u e,

J by the free parameters and the initial state, both weighted by the noise of the channels. G e follows from motions
under drives that are disturbed by a small share of noise of the measured size, and is scaled up: noise of the full
size leaves the range of linear response where motions are unstable. The mean of δθ δθᵀ over draws is added to the
covariance of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import DataError, FlowError
from kapitza.estimate import Estimate
from kapitza.flow import Flow
from kapitza.model import Model, Signal
from kapitza.signal import noise_level
from kapitza.study.fits import fitted_settings

DRAWS = 24
"""Noisy drives: the root mean square over 24 has an error of 15 %."""

SMALL = 1e-4
"""Share of the noise that is added to the drive."""

TOLD = 0.2
"""Standard errors from which on the effect is reported: below, the variance changes by less than 4 %."""


@dataclass(frozen=True)
class DriveEffect:
    """Noise of the drives [their units], and how far it moves the free parameters.

    moved: root mean square by name; covariance (k, k): of these shifts, in the order of `moved`.
    """

    noise: dict[str, float]
    moved: dict[str, float]
    covariance: Array

    def told(self, deviations: dict[str, float]) -> dict[str, float]:
        """Shifts in standard errors, of the parameters that move by a noticeable share of theirs."""
        shares = {n: m / deviations[n] for n, m in self.moved.items() if deviations.get(n, 0.0) > 0}
        return {n: s for n, s in shares.items() if s > TOLD}

    def sentence(self, deviations: dict[str, float], held: bool = False) -> str:
        """A warning where a parameter moves by a noticeable share of its standard error, else nothing.

        deviations: of the fit before anything is added; held: whether the intervals hold the shifts.
        """
        told = self.told(deviations)
        if not told:
            return ""
        noise = ", ".join(f"{n} (± {v:.2g})" for n, v in self.noise.items())
        moves = ", ".join(f"{n} by ± {self.moved[n]:.2g} ({s:.1f} standard errors)" for n, s in told.items())
        end = "which the intervals hold" if held else "which the intervals do not hold"
        return (
            f"The noise of the measured drive {noise} moves {moves}, {end}: average the drive over periods, or smooth "
            "it."
        )


def with_drive_effect(estimate: Estimate) -> Estimate:
    """The estimate with the noise of its measured drives in the intervals, and a warning where it counts."""
    effect = drive_effect(estimate)
    if effect is None or not effect.told(estimate.deviations):
        return estimate
    # Draws stand for bounds and bent valleys, derived values have errors of their own: these are not widened.
    held = estimate.draws is None and not estimate.derived and bool(np.isfinite(estimate.covariance).all())
    warnings = (*estimate.warnings, effect.sentence(estimate.deviations, held))
    if not held:
        return replace(estimate, warnings=warnings)
    places = [estimate.names.index(name) for name in effect.moved]
    covariance = estimate.covariance.copy()
    covariance[np.ix_(places, places)] += effect.covariance
    return replace(estimate, covariance=covariance, warnings=warnings)


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
        return DriveEffect(levels, dict.fromkeys(free, 0.0), np.zeros((len(free), len(free))))
    model = model.with_values(**own)
    weights = np.array([1.0 / max(estimate.noise.get(n, 1.0), 1e-300) for n in names])
    columns = [model.states.index(n) for n in names]
    start, times = motion.states[0], motion.sample_times
    random = np.random.default_rng(seed)
    small = {name: SMALL * level for name, level in levels.items()}
    try:
        plain, by_start, by_parameter = Flow(model, wrt=free).trajectory_tangents(start, times)
        apart = [Flow(_noisy(model, small, random)).trajectory(start, times) - plain for _ in range(DRAWS)]
    except FlowError:
        return None
    slopes = np.concatenate([by_parameter[:, columns], by_start[:, columns]], axis=2)
    rows = (slopes * weights[None, :, None]).reshape(-1, slopes.shape[2])
    shifts = np.stack([(one[:, columns] * weights).ravel() for one in apart], axis=1) / SMALL
    moved = -np.linalg.lstsq(rows, shifts, rcond=None)[0][: len(free)]
    covariance = moved @ moved.T / DRAWS
    return DriveEffect(levels, dict(zip(free, np.sqrt(np.diag(covariance)).tolist(), strict=True)), covariance)


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
