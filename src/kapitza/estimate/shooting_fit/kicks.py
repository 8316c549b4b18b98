"""Motion with process noise: likelihood with states integrated out.

Parameters, kicks and noise are estimated.
States that may jump absorb part of every misfit. Maximising over states and parameters together then
gives wrong parameters (a damping of 0.3 came out as 0.05); integrating over the states does not. With L = ½ Σ w r² +
½ Σ e²/s (residuals r, kicks e of variance s) minimised over the states at fixed parameters and K the matrix of the
states and links there, Laplace's method gives

    -2 log p(y | θ, s, σ) = 2 L + log|det K| + Σ log σ²,

exactly where the motion is linear (the likelihood of a Kalman filter with unknown first state), and as good as the
tangents are over one sampling interval elsewhere. The determinants of the kicks' variances cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, ModelError, Status
from kapitza.estimate.shooting_fit.solver import Fitter, Iterate, MotionSolution
from kapitza.estimate.shooting_fit.sweep import sizes_of
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.solve import ChainProgram, Minimum, inverse_within, minimise_by_differences, scaled_inverse

STEADY = 1e-6
"""Change of -2 log p at which the states at given parameters count as found."""

UNWEIGHTED = 1e-12
"""Relative curvature below which a direction is left without weight."""

SMALLEST_KICK, LARGEST_KICK = 1e-7, 1.0
"""Limits of the common size of the kicks, in units of each state's spread."""


@dataclass(frozen=True)
class _Best:
    """Most likely variables so far, and states there."""

    value: float
    theta: Array
    states: Array
    program: ChainProgram


class Marginal:
    """Negative log-likelihood with the states integrated out.

    -log p of the variables v = (θ, log of the common kick size if it is sought, log σ of each unknown sensor).
    pattern: (n,) kicks of size one; sought: whether their common size is a variable.
    """

    def __init__(self, fitter: Fitter, solution: MotionSolution, pattern: Array, size: float, sought: bool):
        self.fitter, self.nodes = fitter, solution.nodes
        self.pattern, self.size, self.sought = pattern, size, sought
        self.unknown = np.flatnonzero(~fitter.sensors.known)
        self.theta = solution.theta
        samples = fitter.problem.samples
        self.readings = np.bincount((samples.sensor + 1).ravel(), minlength=fitter.sensors.deviations.size + 1)[1:]
        self.states, self.residual = solution.states, solution.sweep.residual
        self.best: _Best | None = None

    @property
    def start(self) -> Array:
        sizes = [np.log(self.size)] if self.sought else []
        return np.concatenate([self.theta, sizes, np.log(self.fitter.sensors.deviations[self.unknown])])

    def assume(self, variables: Array) -> Array:
        """Set kicks and noise of the fitter.

        Returns the parameters (k,).
        """
        k = self.theta.size
        size = float(np.exp(variables[k])) if self.sought else self.size
        deviations = self.fitter.sensors.deviations.copy()
        deviations[self.unknown] = np.exp(variables[k + self.sought :])
        self.fitter.sensors = replace(self.fitter.sensors, deviations=deviations)
        self.fitter.settings = replace(self.fitter.settings, process_noise=size * self.pattern)
        return variables[:k]

    def __call__(self, variables: Array) -> float:
        """Return -log p, infinite where no motion exists."""
        try:
            return self.settle(variables)[0]
        except (FlowError, np.linalg.LinAlgError):
            return np.inf

    def settle(self, variables: Array) -> tuple[float, Iterate]:
        """Return -log p and the most likely states.

        Both are evaluated at these variables; later calls start from the best states found so far.
        """
        theta, best = self.assume(variables), self.best
        states = self.states if best is None else best.states + best.program.solve_given(theta - best.theta).nodes
        # The best states so far, moved along the tangent, are close to the new ones.
        half, now, program = self.fitter.settle(theta, states, self.nodes, self.residual, STEADY)
        value = half + float((self.readings * np.log(self.fitter.sensors.deviations)).sum())
        if best is None or value < best.value:
            self.best = _Best(value, theta, now.states, program)
        return value, now


def with_states_integrated_out(
    task: MotionTask, fitter: Fitter, first: MotionSolution, pattern: Array, size: float, sought: bool
) -> MotionSolution:
    """Maximise the likelihood with the states integrated out.

    Parameters, kicks and noise are varied, from a fit of states and parameters together; with their covariance.
    """
    marginal = Marginal(fitter, first, pattern, size, sought)
    start, k = marginal.start, first.theta.size
    typical = sizes_of(first.theta)
    deviation = np.sqrt(np.clip(np.diag(first.covariance), 0.0, None))
    # Differences over a standard error of the joint fit, and over 20 % of sizes that enter as logarithms.
    reach = np.concatenate([np.clip(deviation, 1e-6 * typical, 0.1 * typical), np.full(start.size - k, 0.2)])
    # Noise between 1e-9 of the spread and all of it.
    spread = task.problem.samples.spread[fitter.sensors.channel[marginal.unknown]]
    kick_limits = np.log([[SMALLEST_KICK, LARGEST_KICK]])[: int(sought)].reshape(-1, 2)
    low = np.concatenate([fitter.low, kick_limits[:, 0], np.log(1e-9 * spread)])
    high = np.concatenate([fitter.high, kick_limits[:, 1], np.log(spread)])
    found = minimise_by_differences(marginal, start, reach, low, high)
    return _solution(marginal, first, found)


def _solution(marginal: Marginal, first: MotionSolution, found: Minimum) -> MotionSolution:
    fitter, k = marginal.fitter, first.theta.size
    value, now = marginal.settle(found.x)
    within = inverse_within(found.hessian, ~found.at_limit, UNWEIGHTED)[:k, :k]
    status = first.status if found.status is Status.CONVERGED else found.status
    return replace(
        first, theta=now.theta, states=now.states, sweep=now.sweep, weights=now.weights,
        information=scaled_inverse(within, UNWEIGHTED), covariance=within, status=status,
        at_bound=found.at_limit[:k] & (fitter.low < fitter.high), kicks=fitter.settings.process_noise,
        marginal=2 * value,
    )  # fmt: skip


FIRST_SIZE = 0.01
"""First size of the kicks, in units of each state's size."""

SIZES = tuple(0.3 * 3.0 ** -np.arange(10))
"""Sizes tried before the most likely one is sought, from soft links to rigid ones."""

CLEARLY_WORSE = 20.0
"""Rise of -log p above which smaller sizes are not tried."""


def first_kicks(task: MotionTask) -> Array | None:
    """Return the first deviations (n,) of the kicks.

    They are those given, or a hundredth of each state's size.
    """
    wanted, states = task.settings.process_noise, task.model.states
    if isinstance(wanted, Mapping):
        for name in wanted:
            if name not in states:
                raise ModelError(f'process_noise names "{name}", not a state of {task.model.name}.')
        return np.array([wanted.get(name, 0.0) for name in states], float)
    # Links are soft from the start, because rigid ones would not close on kicked data. A force kicks the rate of a
    # coordinate, not the coordinate.
    pushed = np.array([f"{name}'" not in states for name in states])
    return FIRST_SIZE * np.where(pushed, task.scale, 0.0) if wanted else None


def with_likeliest_kicks(task: MotionTask, fitter: Fitter, first: MotionSolution) -> MotionSolution:
    """Return the most likely parameters and kicks.

    The common relative size of the kicks is sought unless it is given. Links soften from sample to sample, so the nodes
    stay at the samples.
    """
    kicks = first_kicks(task)
    assert kicks is not None
    if isinstance(task.settings.process_noise, Mapping):
        return with_states_integrated_out(task, fitter, first, kicks, 1.0, sought=False)
    pattern, best, current = kicks / FIRST_SIZE, (np.inf, FIRST_SIZE, first), first
    for size in SIZES:
        fitter.settings = replace(fitter.settings, process_noise=size * pattern)
        # From large kicks to small ones: each solution starts the next.
        joint = fitter.resume(current)
        if joint.status is Status.CONVERGED:
            marginal = Marginal(fitter, joint, pattern, size, sought=True)
            value, current = marginal(marginal.start), joint
            if value > best[0] + CLEARLY_WORSE:
                break
            best = min(best, (value, size, joint), key=lambda found: found[0])
    return with_states_integrated_out(task, fitter, best[2], pattern, best[1], sought=True)
