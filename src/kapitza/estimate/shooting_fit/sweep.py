"""Sweep over all shooting intervals.

It computes residuals, defects, and the pieces of the normal equations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.estimate.observation import Observation
from kapitza.estimate.priors import Priors
from kapitza.estimate.shooting_fit.pieces import Nodes, Samples
from kapitza.flow import Flow
from kapitza.solve import ChainProgram

LARGEST_CHUNK = 4_000_000
"""Numbers of the tangents that are held at once."""

FEWEST_TOGETHER = 8
"""Fewest intervals that are propagated together: they share a batch of the integrator."""

FEEBLE = 1e-8
"""Weight of the regularisation of each state towards its present value, in units of its size."""

STEPS_PER_INTERVAL = 5000
"""Integration steps above which trial values are rejected: good ones need a few to a few hundred."""


@dataclass(frozen=True)
class MotionProblem:
    """Flow, samples, observation and priors of a fit.

    The flow is compiled with sensitivities.
    columns: (k,) positions of the free parameters in the run-time vector; angles: (n,) states on a circle.
    held_state, held_weight: (R, n) known first states of the records with their weights (0 where unknown), or None.
    """

    flow: Flow
    samples: Samples
    observation: Observation
    columns: Indices
    angles: Flags
    priors: Priors
    held_state: Array | None = None
    held_weight: Array | None = None

    @property
    def held_count(self) -> int:
        """Number of known components of the first states."""
        if self.held_weight is None:
            return 0
        return int(np.count_nonzero(self.held_weight[self.samples.record[self.samples.begins]]))

    def parameters(self, theta: Array, index: Indices) -> Array:
        """Return run-time vectors with the free columns set.

        They are (len(index), npar).
        """
        rows = self.samples.parameters[index].copy()
        rows[:, self.columns] = theta
        return rows


@dataclass(frozen=True)
class Sweep:
    """Residuals and normal equations at one iterate.

    residual: (N, c) predicted minus measured; predicted: (N, c); defect: (J, n) of each link (0 where there is none);
    hessian (J, n, n), gradient (J, n), mixed (J, n, k), parameter_hessian (k, k), parameter_gradient (k,) of ½ Σ w r²;
    propagators (J, n, n), influence (J, n, k) of the links. cost: ½ Σ w r² with the prior.
    own_hessian (J, k, k), own_gradient (J, k): what each interval adds to the parameters' sums, where requested.
    """

    residual: Array
    predicted: Array
    defect: Array
    cost: float
    hessian: Array
    gradient: Array
    mixed: Array
    parameter_hessian: Array
    parameter_gradient: Array
    propagators: Array
    influence: Array
    own_hessian: Array | None = None
    own_gradient: Array | None = None


def sizes_of(theta: Array) -> Array:
    """Return the size (k,) of every parameter.

    Its value, one where that is zero.
    """
    return np.where(theta != 0, np.abs(theta), 1.0)


def anchor_of(typical: Array) -> Array:
    """Return a weak regularisation (k, k) of the parameters.

    It pulls them towards their present values and is small relative to their sizes (k,); see `chain_of`.
    """
    return np.diag((1e-4 / typical) ** 2)


def chain_of(
    part: Sweep, linked: Flags, scale: Array, anchor: Array | float = 0.0, slack: Array | None = None
) -> ChainProgram:
    """Return the equations of a step from a sweep.

    A weak regularisation towards the present iterate, of the states and by `anchor` (k, k) of the parameters, keeps
    undetermined directions from diverging; it has no gradient, so it does not move the solution.
    """
    return ChainProgram(
        part.hessian + np.diag(FEEBLE / scale**2),
        part.gradient,
        part.propagators,
        -part.defect,
        mixed=part.mixed,
        influence=part.influence,
        parameter_hessian=part.parameter_hessian + anchor,
        parameter_gradient=part.parameter_gradient,
        linked=linked,
        slack=slack,
    )


def sweep(
    problem: MotionProblem,
    nodes: Nodes,
    states: Array,
    theta: Array,
    weights: Array,
    by_interval: bool = False,
    beside: Array | None = None,
) -> Sweep:
    """Propagate every interval from its node and linearise.

    weights: (N, c) inverse variances.
    by_interval: keep what each interval adds to the sums of the free parameters. beside (N, c, m): what further
    parameters, all zero now, would add to the samples; they come after the free ones, k growing by m.
    """
    further = 0 if beside is None else beside.shape[2]
    count, n, k = nodes.size, states.shape[1], theta.size + further
    result = Sweep(
        residual=np.empty_like(problem.samples.values),
        predicted=np.empty_like(problem.samples.values),
        defect=np.zeros((count, n)),
        cost=0.0,
        hessian=np.zeros((count, n, n)),
        gradient=np.zeros((count, n)),
        mixed=np.zeros((count, n, k)),
        parameter_hessian=np.diag(np.append(problem.priors.weight, np.zeros(further))),
        parameter_gradient=np.append(problem.priors.pull(theta), np.zeros(further)),
        propagators=np.zeros((count, n, n)),
        influence=np.zeros((count, n, k)),
        own_hessian=np.zeros((count, theta.size, theta.size)) if by_interval else None,
        own_gradient=np.zeros((count, theta.size)) if by_interval else None,
    )
    under_way = _Sweeping(problem, nodes, states, theta, weights, beside, result)
    # Intervals of equal length share a batch.
    for length in np.unique(nodes.length):
        group = np.flatnonzero(nodes.length == length)
        size = max(FEWEST_TOGETHER, LARGEST_CHUNK // (max(int(length), 1) * n * (n + k)))
        # Full batches of the integrator.
        size -= size % FEWEST_TOGETHER
        for first in range(0, group.size, size):
            under_way.add(group[first : first + size], int(length))
    cost = 0.5 * float((weights * result.residual**2).sum()) + problem.priors.cost(theta)
    if problem.held_weight is not None and problem.held_state is not None:
        first_nodes = np.flatnonzero(problem.samples.begins[nodes.index])
        record = problem.samples.record[nodes.index[first_nodes]]
        gap = difference(states[first_nodes], problem.held_state[record], problem.angles)
        weight = problem.held_weight[record]
        # Known first states enter as priors of the first nodes.
        result.hessian[first_nodes] += weight[:, :, None] * np.eye(states.shape[1])
        result.gradient[first_nodes] += weight * gap
        cost += 0.5 * float((weight * gap**2).sum())
    return replace(result, cost=cost)


@dataclass(frozen=True)
class _Sweeping:
    """Sweep in progress.

    Where it is taken, and the sums that its intervals are written into.
    """

    problem: MotionProblem
    nodes: Nodes
    states: Array
    theta: Array
    weights: Array
    beside: Array | None
    result: Sweep

    def add(self, group: Indices, length: int) -> None:
        """Add the intervals of one length.

        They start at the nodes in `group`.
        """
        problem, result, free = self.problem, self.result, self.theta.size
        samples, observation, n = problem.samples, problem.observation, self.states.shape[1]
        start, index = self.states[group], self.nodes.index[group]
        rows = problem.parameters(self.theta, index)
        at = index[:, None] + np.arange(max(length, 1))
        reached, tangents = start[:, None], None
        if length:
            times = samples.time[index[:, None] + np.arange(length + 1)]
            run, by_state, by_theta = problem.flow.trajectories(start, times, rows, 2, STEPS_PER_INTERVAL)
            result.defect[group] = difference(run[:, -1], self.states[group + 1], problem.angles)
            result.propagators[group], result.influence[group, :, :free] = by_state[:, -1], by_theta[:, -1]
            if length > 1:
                reached, tangents = run[:, :-1], (by_state[:, :-1], by_theta[:, :-1])
        flat = at.ravel()
        reached = reached.reshape(-1, n)
        # Nodes at every sample, the usual start: no tangent enters the samples, which saves most of the products.
        if tangents is None and observation.matrix is not None and self.beside is None:
            self._add_at_nodes(observation.matrix, reached, flat, group)
            return
        # A constant matrix needs no parameters, which would be a copy for every sample.
        vectors = rows if observation.matrix is not None else np.repeat(rows, at.shape[1], axis=0)
        value, slopes = observation.along(reached, samples.time[flat], vectors, tangents)
        gap = observation.residual(value.copy(), samples.values[flat])
        result.residual[flat], result.predicted[flat] = gap, value
        root = np.sqrt(self.weights[flat])
        if self.beside is not None:
            slopes = np.concatenate([slopes, self.beside[flat]], axis=2)
        slopes *= root[:, :, None]
        gap *= root
        slopes, gap = slopes.reshape(group.size, -1, slopes.shape[2]), gap.reshape(group.size, -1)
        transposed = np.swapaxes(slopes, 1, 2)
        normal, pull = transposed @ slopes, (transposed @ gap[:, :, None])[:, :, 0]
        result.hessian[group], result.mixed[group] = normal[:, :n, :n], normal[:, :n, n:]
        result.gradient[group] = pull[:, :n]
        result.parameter_hessian[...] += normal[:, n:, n:].sum(axis=0)
        result.parameter_gradient[...] += pull[:, n:].sum(axis=0)
        if result.own_hessian is not None and result.own_gradient is not None:
            own = slice(n, n + free)
            result.own_hessian[group], result.own_gradient[group] = normal[:, own, own], pull[:, own]

    def _add_at_nodes(self, matrix: Array, states: Array, at: Indices, group: Indices) -> None:
        """Add samples at the nodes alone.

        Linear in the states: nothing there depends on the parameters.
        """
        result, weights, value = self.result, self.weights[at], states @ matrix.T
        gap = self.problem.observation.residual(value.copy(), self.problem.samples.values[at])
        result.residual[at], result.predicted[at] = gap, value
        channels, n = matrix.shape
        squares = (matrix[:, :, None] * matrix[:, None, :]).reshape(channels, n * n)
        result.hessian[group] = (weights @ squares).reshape(-1, n, n)
        result.gradient[group] = (weights * gap) @ matrix
