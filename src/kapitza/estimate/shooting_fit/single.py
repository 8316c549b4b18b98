"""Single shooting: the last resort of a fit.

Each piece is one motion from its first state.
Where a model is a little wrong and a state is not measured, shooting intervals with links that may stretch lead to
states far from any motion, and do not close. Minimised over the first states and the parameters alone,

    Σ (h(x(t_i; x_0, θ), θ) - y_i)²/σ²,

the motion does not follow the data closely, but it is a solution. Chaotic motions have no such minimum nearby.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.errors import FlowError
from kapitza.estimate.shooting_fit.pieces import Nodes
from kapitza.estimate.shooting_fit.task import MotionTask

MOST_UNKNOWNS = 60
"""Most unknowns (first states and parameters) for which single shooting is tried."""

HORIZONS = (0.2, 1.0)
"""Shares of each piece that are fitted in turn: over a short time a motion stays in step."""

EVALUATIONS = 80
"""Most evaluations of the motion."""

RAN_AWAY = 1e3
"""Growth of a parameter from its start beyond which there is no minimum."""

FAR = 1e3
"""Residual, in spreads of the data, where the motion cannot be computed; it is so large that the step is rejected. A
state of so many times its size has run away."""

PARTS = 16
"""Parts of a piece, after each of which a motion that has run away is given up."""


@dataclass(frozen=True)
class SingleMotion:
    """Parameters (k,) and states (N, n) at all samples."""

    theta: Array
    states: Array

    def at(self, nodes: Nodes) -> Array:
        return self.states[nodes.index].copy()


def single_motion(task: MotionTask, theta: Array, states: Array) -> SingleMotion | None:
    """Return the motion nearest to the data.

    It starts from parameters theta (k,) and first states among (N, n); None without one.
    """
    from scipy.optimize import least_squares

    samples, k = task.problem.samples, theta.size
    firsts = [piece.start for piece in samples.pieces]
    if k + states[firsts].size > MOST_UNKNOWNS:
        return None
    low, high = task.request.bounds
    endless = np.full(states[firsts].size, np.inf)
    start = np.concatenate([np.clip(theta, low, high), states[firsts].ravel()])
    within = np.append(low, -endless), np.append(high, endless)
    try:
        for share in HORIZONS:
            problem = _Problem(task, states.shape[1], _read(task, share))
            problem.path(start)
            found = least_squares(
                problem.residual,
                start,
                problem.jacobian,  # pyright: ignore[reportArgumentType]
                within,
                x_scale="jac",
                max_nfev=EVALUATIONS,  # pyright: ignore[reportArgumentType]
            )
            start = found.x
            if (np.abs(start[:k]) > RAN_AWAY * np.maximum(np.abs(theta), 1e-12)).any():
                return None
        return SingleMotion(start[:k], problem.path(start))
    except (FlowError, np.linalg.LinAlgError, ValueError):
        return None


def _read(task: MotionTask, share: float) -> Flags:
    """Return the samples (N, c) that count.

    Valid samples in the first share of each piece.
    """
    samples = task.problem.samples
    early = np.zeros(samples.size, bool)
    for piece in samples.pieces:
        early[piece.start : piece.start + int(np.ceil(share * (piece.stop - piece.start)))] = True
    return early[:, None] & (samples.sensor >= 0)


@dataclass(frozen=True)
class _Problem:
    """Residuals of single shooting and their derivatives.

    Residuals are in spreads of their channels, derivatives by parameters and first states. read: (N, c) samples
    that count.
    """

    task: MotionTask
    dimension: int
    read: Flags

    def path(self, unknowns: Array) -> Array:
        """Return the states (N, n) at all samples."""
        samples = self.task.problem.samples
        path = np.empty((samples.size, self.dimension))
        # The size of a state that was not measured is a guess.
        limit = np.where(self.task.hidden, np.inf, FAR * self.task.scale)
        for number, piece in enumerate(samples.pieces):
            state, vector = self._start(unknowns, number, piece)
            path[piece.start] = state
            # In parts: a motion that runs away costs a hundred times more than one that follows, so it is given up.
            cuts = np.linspace(piece.start, piece.stop - 1, PARTS + 1).astype(int)
            for begin, end in pairwise(np.unique(cuts)):
                at = samples.time[begin : end + 1]
                path[begin : end + 1] = self.task.problem.flow.trajectory(path[begin], at, vector)
                if not (np.abs(path[begin : end + 1]) <= limit).all():
                    raise FlowError(f"The motion has run away at t = {at[-1]:g}.")
        return path

    def residual(self, unknowns: Array) -> Array:
        samples = self.task.problem.samples
        try:
            path = self.path(unknowns)
        except FlowError:
            # Finite, so that the solver rejects the step instead of failing.
            return np.full(samples.values.size, FAR)
        vectors = self.task.problem.parameters(unknowns[: len(self.task.names)], np.arange(samples.size))
        value = self.task.observation.value(path, samples.time, vectors)
        left = self.task.observation.residual(value, samples.values)
        # A motion that runs away has a finite cost too.
        return np.clip(np.where(self.read, left, 0.0) / samples.spread, -FAR, FAR).ravel()

    def jacobian(self, unknowns: Array) -> Array:
        samples, k, n = self.task.problem.samples, len(self.task.names), self.dimension
        made = np.zeros((*samples.values.shape, unknowns.size))
        for number, piece in enumerate(samples.pieces):
            state, vector = self._start(unknowns, number, piece)
            time = samples.time[piece]
            path, by_state, by_theta = self.task.problem.flow.trajectory_tangents(state, time, vector)
            vectors = np.broadcast_to(vector, (len(path), vector.size))
            _, slopes = self.task.observation.along(path, time, vectors, (by_state, by_theta))
            made[piece, :, :k] = slopes[..., n:]
            made[piece, :, k + number * n : k + (number + 1) * n] = slopes[..., :n]
        made = np.where(self.read[..., None], made, 0.0) / samples.spread[:, None]
        return np.nan_to_num(made.reshape(-1, unknowns.size))

    def _start(self, unknowns: Array, number: int, piece: slice) -> tuple[Array, Array]:
        k, n = len(self.task.names), self.dimension
        vector = self.task.problem.parameters(unknowns[:k], np.array([piece.start]))[0]
        return unknowns[k + number * n : k + (number + 1) * n], vector
