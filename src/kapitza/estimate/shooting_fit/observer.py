"""Observer for states that no sensor measures.

The states follow from how the model moves the measured states.
The record is cut into short windows. In each, the start state whose motion (at the present parameters) passes closest
to the samples is found by damped Gauss-Newton steps from several guesses of the unmeasured states, all windows and
guesses at once. The guess of each window is chosen by the cheapest chain of windows, so that neighbours fit together: a
motion and its mirror image are not mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.estimate.shooting_fit.sweep import MotionProblem

GUESSES = 12
"""Guesses of the unmeasured states, from a tenth of their size to twice it, of either sign."""

ROUNDS = 12
"""Damped steps of the states of each window; these states are only starts of the fit."""

WIDTH = 24
"""Samples of a window."""

AT_ONCE = 500
"""Windows whose tangents are held at once."""

MODEL_ERROR = 0.03
"""Error of the predicted samples within a window by wrong parameters, as a fraction of their spread."""

LINK_ERROR = 0.3
"""Standard deviation of the gap between neighbouring windows, in units of each state's size."""


@dataclass(frozen=True)
class _Windows:
    """Windows of a record.

    first: (W,) sample at which each window starts; at: (W, width + 1) its samples; joined: (W,) to the next one.
    """

    first: Indices
    at: Indices
    joined: Flags


def observe_unseen(
    problem: MotionProblem, theta: Array, states: Array, known: Flags, scale: Array, seed: int = 0
) -> Array | None:
    """Return states (N, n) at all samples.

    None where a record is too short or all guesses of a window diverge.
    """
    windows = _cut(problem.samples)
    if windows is None:
        return None
    rng = np.random.default_rng(seed)
    count, n = windows.first.size, states.shape[1]
    guesses = np.repeat(states[windows.first][:, None], GUESSES, axis=1)
    # Unmeasured states may be of any sign and of different sizes; the first guess is the present one.
    sizes = np.geomspace(0.1, 2.0, GUESSES - 1)[:, None] * scale[~known]
    guesses[:, 1:, ~known] += sizes * rng.normal(size=sizes.shape)
    parts = [
        _refine(problem, theta, windows.at[some], guesses[some].reshape(-1, n), known, scale)
        for some in np.array_split(np.arange(count), -(-count // AT_ONCE))
    ]
    found, cost, runs = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not np.isfinite(cost).reshape(count, GUESSES).any(axis=1).all():
        return None
    runs = runs.reshape(count, GUESSES, -1, n)
    chosen = _chain(found.reshape(count, GUESSES, n), runs[:, :, -1], cost.reshape(count, GUESSES), windows, scale,
                    problem.angles)  # fmt: skip
    filled = states.copy()
    filled[windows.at[:, :-1]] = runs[np.arange(count), chosen][:, :-1]
    _fill_tails(filled, windows, problem.samples)
    return filled


def _cut(samples: Samples) -> _Windows | None:
    starts, joined = [], []
    for piece in samples.pieces:
        inside = np.arange(piece.start, piece.stop - WIDTH, WIDTH)
        starts.append(inside)
        joined.append(np.arange(inside.size) < inside.size - 1)
    first = np.concatenate(starts)
    if not first.size:
        return None
    return _Windows(first, first[:, None] + np.arange(WIDTH + 1), np.concatenate(joined))


def _fill_tails(filled: Array, windows: _Windows, samples: Samples) -> None:
    """Fill the last samples of each piece.

    Fewer than a window, they keep the last state found before them.
    """
    seen = np.zeros(samples.size, bool)
    seen[windows.at[:, :-1]] = True
    last = np.maximum.accumulate(np.where(seen, np.arange(samples.size), 0))
    tails = np.flatnonzero(~seen & (last > 0))
    filled[tails] = filled[last[tails]]


def _refine(
    problem: MotionProblem,
    theta: Array,
    windows: Indices,
    start: Array,
    known: Flags,
    scale: Array,
) -> tuple[Array, Array, Array]:
    """Refine the start states of windows.

    It returns start states (B, n) that fit their windows (W, width + 1), their cost (B,), and their motions (B, width +
    1, n).
    """
    at = np.repeat(windows, GUESSES, axis=0)
    times, rows = problem.samples.time[at], problem.parameters(theta, at[:, 0])
    read = problem.samples.sensor[at.ravel()] >= 0
    # Wrong parameters, not noise, limit how well a window can be followed.
    weights = np.where(read, 1 / (MODEL_ERROR * problem.samples.spread), 0.0)
    # A weak prior keeps states that the window does not determine near their guess.
    loose = np.where(known, 0.0, (0.1 / scale) ** 2)
    begun, state, damping = start, start, np.full(len(start), 1e-2)
    best = _misfit(problem, state, times, rows, at, weights)
    best[0][...] += 0.5 * (loose * (state - begun) ** 2).sum(axis=1)
    for _ in range(ROUNDS):
        cost, gradient, hessian, _ = best
        gradient, hessian = gradient + loose * (state - begun), hessian + np.diag(loose)
        scaled = hessian * scale[:, None] * scale
        strength = damping * np.trace(scaled, axis1=1, axis2=2)
        scaled = scaled + (strength[:, None, None] + 1e-300) * np.eye(scale.size)
        step = -scale * np.linalg.solve(scaled, (gradient * scale)[:, :, None])[:, :, 0]
        # At most twice the size of a state: farther away the linear model is not valid.
        step *= np.minimum(1.0, 2.0 / np.maximum(np.abs(step / scale).max(axis=1), 1e-300))[:, None]
        trial = _misfit(problem, state + step, times, rows, at, weights)
        trial[0][...] += 0.5 * (loose * (state + step - begun) ** 2).sum(axis=1)
        better = trial[0] < cost
        state = np.where(better[:, None], state + step, state)
        for new, old in zip(trial, best, strict=True):
            old[better] = new[better]
        damping = np.where(better, damping / 5, damping * 10)
    return state, best[0], best[3]


def _misfit(
    problem: MotionProblem, state: Array, times: Array, rows: Array, at: Indices, weights: Array
) -> tuple[Array, ...]:
    """Return ½ Σ r² (B,) and its derivatives.

    The others are the gradient (B, n), the Gauss-Newton Hessian (B, n, n), and the motions (B, width + 1, n).
    """
    run, by_state, by_theta = problem.flow.trajectories(state, times, rows, 2, 1000, refuse=False)
    # Guesses whose motion diverges get an infinite cost and are not chosen.
    failed = ~np.isfinite(by_state[:, -1]).all(axis=(1, 2))
    run[failed], by_state[failed] = np.nan_to_num(run[failed]), 0.0
    n, count = state.shape[1], at.size
    value, slopes = problem.observation.along(
        run.reshape(-1, n), times.ravel(), np.repeat(rows, at.shape[1], axis=0), (by_state, by_theta)
    )
    gap = problem.observation.residual(value.copy(), problem.samples.values[at.ravel()]) * weights
    slopes = (slopes[..., :n] * weights[..., None]).reshape(len(state), -1, n)
    gap = gap.reshape(len(state), count // len(state) * gap.shape[1])
    gradient = np.einsum("brn,br->bn", slopes, gap)
    return np.where(failed, np.inf, 0.5 * (gap**2).sum(axis=1)), gradient, np.swapaxes(slopes, 1, 2) @ slopes, run


def _chain(starts: Array, ends: Array, cost: Array, windows: _Windows, scale: Array, angles: Flags) -> Indices:
    """Return the guess (W,) of each window.

    The guesses are those on the cheapest path: misfits, and distances from end to start of neighbours.
    """
    total, origin = cost.copy(), np.zeros(cost.shape, np.intp)
    for window in range(1, len(cost)):
        if not windows.joined[window - 1]:
            origin[window] = int(np.argmin(total[window - 1]))
            total[window] += total[window - 1].min()
            continue
        apart = difference(ends[window - 1][:, None], starts[window][None], angles)
        # Dynamic programming (Viterbi): the cheapest path to every guess of this window.
        paths = total[window - 1][:, None] + 0.5 * ((apart / (LINK_ERROR * scale)) ** 2).sum(axis=2)
        origin[window] = np.argmin(paths, axis=0)
        total[window] += paths.min(axis=0)
    chosen = np.empty(len(cost), np.intp)
    chosen[-1] = int(np.argmin(total[-1]))
    for window in range(len(cost) - 1, 0, -1):
        chosen[window - 1] = origin[window, chosen[window]]
    return chosen
