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
from scipy.linalg import solve_triangular

from kapitza.base.arrays import Array
from kapitza.flow import Flow
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.estimate.missing.columns import Window

BLOCK = 16
"""Samples that one step of the filter takes; 8 to 32 take the same time."""


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


@dataclass(frozen=True)
class _Blocks:
    """Kicks of K blocks of BLOCK samples each.

    sight (K, bc, n): of all samples of a block by the state at its first one; kicked (K, bc, bd): by the kicks inside
    it; leap (K, n, n), push (K, n, bd): of the state at the first sample of the next block by both.
    """

    sight: Array
    kicked: Array
    leap: Array
    push: Array

    @classmethod
    def of(cls, kicks: Kicks) -> _Blocks:
        count, channels, n = kicks.sight.shape
        drives = kicks.push.shape[2]
        blocks = -(-count // BLOCK)
        ahead, push = np.tile(np.eye(n), (blocks * BLOCK, 1, 1)), np.zeros((blocks * BLOCK, n, drives))
        # Samples that fill up the last block have no sensor and no kick; the kick of the last sample moves none.
        ahead[: count - 1], push[: count - 1] = kicks.transition, kicks.push[: count - 1]
        seen = _in_blocks(kicks.sight).reshape(blocks, BLOCK, channels, n)
        ahead, push = ahead.reshape(blocks, BLOCK, n, n), push.reshape(blocks, BLOCK, n, drives)
        sight, kicked = np.empty_like(seen), np.empty((blocks, BLOCK, channels, BLOCK * drives))
        leap, pushed = np.tile(np.eye(n), (blocks, 1, 1)), np.zeros((blocks, n, BLOCK * drives))
        for i in range(BLOCK):
            sight[:, i], kicked[:, i] = seen[:, i] @ leap, seen[:, i] @ pushed
            pushed[:, :, i * drives : (i + 1) * drives] = push[:, i]
            leap, pushed = ahead[:, i] @ leap, ahead[:, i] @ pushed
        rows = BLOCK * channels
        return cls(sight.reshape(blocks, rows, n), kicked.reshape(blocks, rows, -1), leap, pushed)


def _in_blocks(rows: Array) -> Array:
    """Return rows (N, c, m) as (K, bc, m), filled up with zeros."""
    count, channels, width = rows.shape
    blocks = -(-count // BLOCK)
    made = np.zeros((blocks * BLOCK, channels, width))
    made[:count] = rows
    return made.reshape(blocks, BLOCK * channels, width)


def _filtered(rows: Array, kicks: Kicks) -> tuple[Array, float]:
    """Return rows (N, c, m) through the Kalman filter.

    Every column is filtered like a series of samples; the output is the innovation over its standard deviation, L⁻¹
    times the column with C = L Lᵀ. The second value is log |C|/2.
    """
    count, channels, width = rows.shape
    blocks, given = _Blocks.of(kicks), _in_blocks(rows)
    n, made, log_det = kicks.push.shape[1], np.empty_like(given), 0.0
    own = np.eye(given.shape[1]) + blocks.kicked @ np.swapaxes(blocks.kicked, 1, 2)
    joint = blocks.push @ np.swapaxes(blocks.kicked, 1, 2)
    fresh = blocks.push @ np.swapaxes(blocks.push, 1, 2)
    state, spread = np.zeros((n, width)), np.zeros((n, n))
    for k, (sight, leap) in enumerate(zip(blocks.sight, blocks.leap, strict=True)):
        across = spread @ sight.T
        root = np.linalg.cholesky(own[k] + sight @ across)
        link = leap @ across + joint[k]
        solved = solve_triangular(root, np.hstack([given[k] - sight @ state, link.T]), lower=True, check_finite=False)
        made[k], half = solved[:, :width], solved[:, width:]
        log_det += float(np.log(np.diag(root)).sum())
        state = leap @ state + half.T @ made[k]
        spread = leap @ spread @ leap.T + fresh[k] - half.T @ half
        # Rounding would make the matrix unsymmetric over thousands of samples.
        spread = (spread + spread.T) / 2
    return made.reshape(-1, channels, width)[:count], log_det


def scatter_of(kicks: Kicks) -> Array:
    """Return the variance (N, c) that noise of the drives adds.

    In variances of the sensors, from a known state at the first sample: the diagonal of G Gᵀ.
    """
    count, channels, n = kicks.sight.shape
    blocks = _Blocks.of(kicks)
    fresh, spread = blocks.push @ np.swapaxes(blocks.push, 1, 2), np.zeros((len(blocks.leap), n, n))
    for k, leap in enumerate(blocks.leap[:-1]):
        spread[k + 1] = leap @ spread[k] @ leap.T + fresh[k]
    made = (blocks.kicked**2).sum(axis=2) + (blocks.sight @ spread * blocks.sight).sum(axis=2)
    return made.reshape(-1, channels)[:count]


def pulls_of(window: Window) -> Array:
    """Return what each kick pulls at the columns, Gᵀ J.

    (N, d, k + n): free parameters, then initial states; a sum from the last sample back to each kick.
    """
    kicks = window.kicks
    assert kicks is not None
    columns = np.concatenate([window.free, window.initial], axis=2)
    blocks, given = _Blocks.of(kicks), _in_blocks(columns)
    own, made = np.swapaxes(blocks.sight, 1, 2) @ given, np.swapaxes(blocks.kicked, 1, 2) @ given
    later = np.zeros(own.shape[1:])
    for k in range(len(own) - 1, -1, -1):
        made[k] += blocks.push[k].T @ later
        later = own[k] + blocks.leap[k].T @ later
    return made.reshape(-1, kicks.push.shape[2], columns.shape[2])[: len(columns)]
