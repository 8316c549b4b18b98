"""Rows along a motion whose measured drive has noise.

Noise e_j of sample j of a drive u kicks the state by ∂f/∂u σ h e_j, h the sampling step, so that the samples, in
standard deviations of the sensors, scatter with

    C = 1 + G Gᵀ,   G_ij = H_i Φ_i Φ_j⁻¹ (∂f/∂u)_j σ h  (i > j).

A Kalman filter turns rows of covariance C into independent ones of unit variance, and columns in the same way:
generalised least squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array
from kapitza.flow import Flow
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.estimate.missing.columns import Window


@dataclass(frozen=True)
class Kicks:
    """Response of a window to the noise of its drives.

    transition (N - 1, n, n): from each sample to the next; sight (N, c, n): of the samples by the state, in standard
    deviations of the sensors; push (N, n, d): of the state by a standard deviation of each drive's noise.
    """

    transition: Array
    sight: Array
    push: Array

    def first(self, count: int) -> Kicks:
        """Return the kicks of the first samples."""
        return Kicks(self.transition[: count - 1], self.sight[:count], self.push[:count])


@dataclass(frozen=True)
class DriveKicks:
    """Kicks of a model by noise of its drives, and its own.

    pairs: for each drive the flows with the drive one standard deviation higher and lower. sizes: (n,) process noise of
    the states for each sampling step.
    """

    pairs: tuple[tuple[Flow, Flow], ...]
    sizes: Array

    @classmethod
    def of(cls, model: Model, levels: Mapping[str, float], process: Mapping[str, float]) -> DriveKicks | None:
        """Return the kicks, None where there are none."""
        noisy = [signal.name for signal in model.signals if levels.get(signal.name, 0.0) > 0]
        sizes = np.array([process.get(state, 0.0) for state in model.states])
        if not noisy and not sizes.any():
            return None
        pairs = tuple((_moved(model, name, levels[name]), _moved(model, name, -levels[name])) for name in noisy)
        return cls(pairs, sizes)

    def along(self, path: Array, times: Array, vector: Array, by_state: Array, sight: Array) -> Kicks:
        """Return the kicks along a motion.

        path (N, n), by_state Φ (N, n, n) since its first sample.
        """
        sides = [(up.rates(path, times, vector) - down.rates(path, times, vector)) / 2 for up, down in self.pairs]
        steps = np.diff(times, append=2 * times[-1] - times[-2]) if times.size > 1 else np.ones(1)
        # Kicks of the process are those of one sampling step; their variance grows with the time between samples.
        own = np.diag(self.sizes)[:, self.sizes > 0] * np.sqrt(steps / np.median(steps))[:, None, None]
        push = np.concatenate([*(side[:, :, None] * steps[:, None, None] for side in sides), own], axis=2)
        # Φ_(i+1) Φ_i⁻¹ by a solution of the transposed system.
        ahead = np.swapaxes(np.linalg.solve(np.swapaxes(by_state[:-1], 1, 2), np.swapaxes(by_state[1:], 1, 2)), 1, 2)
        return Kicks(np.asarray(ahead, np.float64), sight, push)


def _moved(model: Model, name: str, by: float) -> Flow:
    assert model.excitation is not None
    signals = tuple(replace(s, values=s.values + by) if s.name == name else s for s in model.signals)
    return Flow(replace(model, excitation=replace(model.excitation, signals=signals)))


def filtered_window(window: Window) -> Window:
    """Return a window whose rows are independent.

    The window as it is where its drives have no noise.
    """
    kicks = window.kicks
    if kicks is None:
        return window
    every, initial = window.stacked()
    rows, log_det = _filtered(np.concatenate([every, initial], axis=2), kicks)
    free, terms = window.free.shape[2], window.terms.shape[2]
    split = np.split(rows, [free, free + terms, free + terms + 1], axis=2)
    return replace(
        window, free=split[0], terms=split[1], residual=split[2][..., 0], initial=split[3], kicks=None, log_det=log_det
    )


def _filtered(rows: Array, kicks: Kicks) -> tuple[Array, float]:
    """Return rows (N, c, m) through the Kalman filter.

    Every column is filtered like a series of samples; the output is the innovation over its standard deviation. The
    second value is log |C|/2.
    """
    count, channels, _ = rows.shape
    n = kicks.push.shape[1]
    made, unit, log_det = np.empty_like(rows), np.eye(channels), 0.0
    state, spread = np.zeros((n, rows.shape[2])), np.zeros((n, n))
    for i in range(count):
        sight = kicks.sight[i]
        across = spread @ sight.T
        variance = unit + sight @ across
        innovation = rows[i] - sight @ state
        root = np.linalg.cholesky(variance)
        made[i] = np.linalg.solve(root, innovation)
        log_det += float(np.log(np.diag(root)).sum())
        if i + 1 == count:
            break
        gain = np.linalg.solve(variance, across.T).T
        state += gain @ innovation
        spread -= gain @ across.T
        ahead, push = kicks.transition[i], kicks.push[i]
        spread += push @ push.T
        spread = ahead @ spread @ ahead.T
        # Rounding would make the matrix unsymmetric over thousands of samples.
        spread = (spread + spread.T) / 2
        state = ahead @ state
    return made, log_det


def scatter_of(kicks: Kicks) -> Array:
    """Return the variance (N, c) that noise of the drives adds.

    In variances of the sensors, from a known state at the first sample: the diagonal of G Gᵀ.
    """
    made, spread = np.zeros(kicks.sight.shape[:2]), np.zeros(kicks.push.shape[1:2] * 2)
    for i, sight in enumerate(kicks.sight):
        made[i] = np.einsum("cn,nm,cm->c", sight, spread, sight)
        if i < len(kicks.transition):
            ahead, push = kicks.transition[i], kicks.push[i]
            spread = ahead @ (spread + push @ push.T) @ ahead.T
    return made


def pulls_of(window: Window) -> Array:
    """Return what each kick pulls at the columns, Gᵀ J.

    (N, d, k + n): free parameters, then initial states; a sum from the last sample back to each kick.
    """
    kicks = window.kicks
    assert kicks is not None
    columns = np.concatenate([window.free, window.initial], axis=2)
    made = np.zeros((len(columns), kicks.push.shape[2], columns.shape[2]))
    later = np.zeros((kicks.push.shape[1], columns.shape[2]))
    for i in range(len(columns) - 2, -1, -1):
        later = kicks.transition[i].T @ (kicks.sight[i + 1].T @ columns[i + 1] + later)
        made[i] = kicks.push[i].T @ later
    return made
