"""Linearised equations of all orbits of a fit.

The module holds the orbits to be matched, and evaluates samples and closure of all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kapitza.base.angles import difference, turns, wrap
from kapitza.base.arrays import Array, Flags, Indices
from kapitza.errors import FlowError
from kapitza.estimate.observation import DifferenceQuotient, Observation, Output, observe_channels
from kapitza.estimate.orbit_fit.block import Block
from kapitza.estimate.priors import Priors
from kapitza.flow import Flow
from kapitza.model import Model


@dataclass(frozen=True)
class Channels:
    """Channels of the data as outputs of the model.

    delays: (c,) step of the channels that are difference quotients, 0 for the others.
    """

    observation: Observation
    delays: Array

    @property
    def names(self) -> tuple[str, ...]:
        return self.observation.channels

    @property
    def angles(self) -> Flags:
        """Channels that live on a circle.

        A difference quotient does not, even of an angle.
        """
        return self.observation.angles & (self.delays == 0)


def channels_of(
    model: Model, channels: Sequence[str], angles: Sequence[bool], outputs: Mapping[str, Output], free: Sequence[str]
) -> Channels:
    plain = {
        name: o.output if isinstance(o, DifferenceQuotient) else o for name, o in outputs.items() if name in channels
    }
    observation = observe_channels(model, tuple(channels), tuple(angles), plain, free)
    steps = [o.step if isinstance(o := outputs.get(c), DifferenceQuotient) else 0.0 for c in observation.channels]
    return Channels(observation, np.array(steps))


@dataclass(frozen=True)
class Target:
    """Orbit to be matched.

    nodes: (J, n) first guess of the states at `node_times` (J,); period [s]; vector: (npar,) run-time parameters.
    times (m,), channel (m,), values (m,): the samples; node (m,): the segment that contains each.
    covariance: (m, m) of the samples or its diagonal (m,), None where it is not known; one more row is the period's.
    clustered: whether the errors of the samples are correlated along the orbit in a way not known.
    rows: (m,) which entries of the orbit's points the samples are, where they are points.
    multipliers: moduli (n,) with their deviation (n,), None where not measured.
    period_deviation: of a measured period, None where the excitation sets it.
    winding: turns per period where the data show them: whole profiles do, one point per excitation period does not.
    """

    label: str
    nodes: Array
    node_times: Array
    period: float
    repeats: int | None
    vector: Array
    times: Array
    channel: Indices
    node: Indices
    values: Array
    covariance: Array | None = None
    multipliers: Array | None = None
    multiplier_deviation: Array | None = None
    period_deviation: float | None = None
    winding: tuple[int, ...] = ()
    source: object = None
    rows: Indices | None = None
    clustered: bool = False

    @property
    def count(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Layout:
    """Sample times of every segment of every orbit.

    Segments with the same number of samples are run together.
    runs: per number of samples the segments (g,) and their times (g, s). station, later: (M,) row of the flattened
    samples at which sample i, and the second sample of a difference quotient, is taken. end: (S,) row where segment
    s arrives at the next node.
    """

    runs: tuple[tuple[Indices, Array], ...]
    station: Indices
    later: Indices
    end: Indices
    rows: int


@dataclass(frozen=True)
class OrbitProblem:
    """Targets as orbits of `model` with free `names`."""

    model: Model
    names: tuple[str, ...]
    channels: Channels
    targets: tuple[Target, ...]
    flow: Flow
    scale: Array
    channel_scale: Array
    priors: Priors
    layout: Layout = field(repr=False)

    @property
    def columns(self) -> list[int]:
        return [self.model.names.index(name) for name in self.names]

    @property
    def autonomous(self) -> bool:
        return self.model.excitation is None

    def of(self, targets: tuple[Target, ...]) -> OrbitProblem:
        """Return the same problem for other orbits."""
        return replace(self, targets=targets, layout=lay_out(self.channels, targets))

    def subset(self, keep: list[int]) -> OrbitProblem:
        return self.of(tuple(self.targets[i] for i in keep))

    def with_values(self, values: list[Array]) -> OrbitProblem:
        """Return the problem with other measured values.

        values: one array (m,) per orbit.
        """
        targets = tuple(replace(t, values=v) for t, v in zip(self.targets, values, strict=True))
        return replace(self, targets=targets)

    def starts(self) -> list[Array]:
        """Return the first guess of all unknowns."""
        return [np.append(t.nodes, t.period) if self.autonomous else t.nodes.flatten() for t in self.targets]

    @property
    def channel(self) -> Indices:
        """Channel (M,) of every sample of all orbits."""
        return np.concatenate([t.channel for t in self.targets])

    def readings(self, blocks: Sequence[Block]) -> list[Array]:
        """Return the residuals (m,) of every orbit.

        The residual of its period is left out.
        """
        return [b.residual[: t.times.size] for b, t in zip(blocks, self.targets, strict=True)]

    def misfits(self, blocks: Sequence[Block]) -> list[Array]:
        """Return the residuals in units of each channel's spread."""
        pairs = zip(self.readings(blocks), self.targets, strict=True)
        return [r / self.channel_scale[t.channel] for r, t in pairs]

    def gaps(self, block: Block) -> Array:
        """Return the gaps (J, n) between segments, in spreads.

        The unit is the spread of each state.
        """
        return np.abs(block.gap.reshape(-1, self.scale.size) / self.scale)

    def nodes(self, unknowns: list[Array]) -> list[Array]:
        return [z[: t.nodes.size].reshape(t.nodes.shape) for z, t in zip(unknowns, self.targets, strict=True)]

    def vectors(self, theta: Array) -> Array:
        """Return run-time parameters (S, npar) of every segment."""
        rows = np.repeat(np.array([t.vector for t in self.targets]), [t.count for t in self.targets], axis=0)
        rows[:, self.columns] = theta
        return rows

    def evaluate(self, unknowns: list[Array], theta: Array) -> list[Block]:
        """Run every segment once, with tangents.

        Raises FlowError where a run failed.
        """
        nodes = self.nodes(unknowns)
        states = np.concatenate(nodes)
        # A diverged iterate counts as a failed run.
        if not (np.isfinite(states).all() and np.isfinite(theta).all()):
            raise FlowError("The iterate left the finite numbers.")
        vectors = self.vectors(theta)
        sampled = self._sample(states, vectors)
        arrival = [a[self.layout.end] for a in sampled]
        rates = self._close_with_period(unknowns, states, vectors, arrival) if self.autonomous else None
        readings = self._read(sampled, vectors)
        blocks, segment, row = [], 0, 0
        for index, target in enumerate(self.targets):
            part, mine = slice(segment, segment + target.count), slice(row, row + target.times.size)
            segment, row = part.stop, mine.stop
            speed = None if rates is None else rates[index]
            blocks.append(
                self._block(target, unknowns[index], nodes[index], [a[part] for a in arrival],
                            [a[mine] for a in readings], speed)
            )  # fmt: skip
        return blocks

    def read_along(self, curves: list[Callable[[Array], Array]], theta: Array) -> list[Array]:
        """Return residuals (m,) of every orbit along closed curves.

        They are evaluated on the curves (states (M, n) at times (M,)) and not by the flow.
        """
        n, k = self.scale.size, len(self.names)
        owner = np.repeat(np.arange(len(self.targets)), [t.count for t in self.targets])
        reached, row = np.empty((self.layout.rows, n)), 0
        for segments, times in self.layout.runs:
            for segment, instants in zip(segments, times, strict=True):
                reached[row : row + instants.size] = curves[owner[segment]](instants)
                row += instants.size
        still = np.zeros((self.layout.rows, n, n)), np.zeros((self.layout.rows, n, k))
        residual = self._read((reached, *still), self.vectors(theta))[0]
        return np.split(residual, np.cumsum([t.times.size for t in self.targets])[:-1])

    def _sample(self, states: Array, vectors: Array) -> tuple[Array, Array, Array]:
        runs = [self.flow.trajectories(states[own], times, vectors[own]) for own, times in self.layout.runs]
        reached, by_start, by_theta = (
            np.concatenate([a.reshape(-1, *a.shape[2:]) for a in every]) for every in zip(*runs, strict=True)
        )
        return reached, by_start, by_theta

    def _close_with_period(self, unknowns: list[Array], states: Array, vectors: Array, arrival: list[Array]) -> Array:
        """Run the last segments to the present period.

        Returns the rates there (one row per orbit).
        """
        last = np.cumsum([t.count for t in self.targets]) - 1
        begins = np.array([t.node_times[-1] for t in self.targets])
        periods = np.array([z[-1] for z in unknowns])
        if (periods <= begins).any():
            raise FlowError("A period became shorter than the last shooting interval.")
        run = self.flow.propagate_many(states[last], begins, periods, vectors[last], tangents=True)
        assert run.jacobian is not None
        assert run.sensitivity is not None
        arrival[0][last], arrival[1][last], arrival[2][last] = run.state, run.jacobian, run.sensitivity
        return np.array([self.flow.rates(x, 0.0, v) for x, v in zip(run.state, vectors[last], strict=True)])

    def _read(self, sampled: tuple[Array, Array, Array], vectors: Array) -> list[Array]:
        """Return the residuals (M,) and their derivatives.

        Derivatives are by the node's state (M, n) and by θ (M, k).
        """
        channel = self.channel
        measured = np.concatenate([t.values for t in self.targets])
        times = np.concatenate([t.times for t in self.targets])
        offset = np.cumsum([0, *(t.count for t in self.targets)])
        vectors = vectors[np.concatenate([t.node + offset[i] for i, t in enumerate(self.targets)])]
        delay = self.channels.delays[channel]
        first = self._outputs([a[self.layout.station] for a in sampled], channel, times, vectors)
        if delay.any():
            second = self._outputs([a[self.layout.later] for a in sampled], channel, times + delay, vectors)
            quotient = delay > 0
            for a, b in zip(first, second, strict=True):
                shape = (-1,) + (1,) * (a.ndim - 1)
                # The same for the value and both derivatives.
                a[quotient] = (b[quotient] - a[quotient]) / delay[quotient].reshape(shape)
        gap = first[0] - measured
        # Angles are compared on the circle.
        wrapped = self.channels.angles[channel]
        gap[wrapped] = wrap(gap[wrapped])
        return [gap, first[1], first[2]]

    def _outputs(self, sampled: list[Array], channel: Indices, times: Array, vectors: Array) -> list[Array]:
        """Return the output of a channel per sample.

        channel: (M,); with derivatives.
        """
        reached, by_start, by_theta = sampled
        value, by_state, by_parameter = self.channels.observation.linearise(reached, times, vectors)
        index = np.arange(channel.size)
        slope = by_state[index, channel]
        start = np.einsum("in,inm->im", slope, by_start)
        theta = np.einsum("in,ink->ik", slope, by_theta) + by_parameter[index, channel]
        return [value[index, channel].copy(), start, theta]

    def _block(
        self, target: Target, z: Array, nodes: Array, arrival: list[Array], readings: list[Array], rate: Array | None
    ) -> Block:
        ends, jacobians, influence = arrival
        following = np.roll(nodes, -1, axis=0)
        gap = difference(ends, following, self.model.angles)
        # Whole turns that the wrapped gaps leave out.
        turned = turns((ends - following - gap).sum(axis=0), self.model.angles)
        misfit, slope, by_theta = readings
        read = rate is not None and target.period_deviation is not None
        if read:
            misfit = np.append(misfit, z[-1] - target.period)
            by_theta = np.vstack([by_theta, np.zeros((1, by_theta.shape[1]))])
        return Block(
            misfit, slope, target.node, by_theta, gap.ravel(), jacobians, influence,
            turned, rate, read,
        )  # fmt: skip


def lay_out(channels: Channels, targets: tuple[Target, ...]) -> Layout:
    """Return the sample times of every segment.

    They are its node, its samples (two for difference quotients), and the next node.
    """
    grids, members, first, second, finish, count = [], [], [], [], [], 0
    for target in targets:
        ends = np.append(target.node_times[1:], target.period)
        later = target.times + channels.delays[target.channel]
        for j, (begin, end) in enumerate(zip(target.node_times, ends, strict=True)):
            mine = np.flatnonzero(target.node == j)
            grid = _merged(np.concatenate([[begin, end], target.times[mine], later[mine]]))
            grids.append(grid)
            members.append(count + mine)
            first.append(_nearest(grid, target.times[mine]))
            second.append(_nearest(grid, later[mine]))
            finish.append(int(_nearest(grid, np.array([end]))[0]))
        count += target.times.size
    lengths = np.array([grid.size for grid in grids])
    base = np.zeros(len(grids), np.intp)
    runs, row = [], 0
    # Segments of equal length are integrated as one batch.
    for length in np.unique(lengths):
        segments = np.flatnonzero(lengths == length)
        base[segments] = row + length * np.arange(segments.size)
        row += length * segments.size
        runs.append((segments, np.array([grids[s] for s in segments])))
    station, after = np.zeros(count, np.intp), np.zeros(count, np.intp)
    for start, rows, here, there in zip(base, members, first, second, strict=True):
        station[rows], after[rows] = start + here, start + there
    return Layout(tuple(runs), station, after, base + np.array(finish, np.intp), int(row))


def _merged(times: Array) -> Array:
    """Return sorted instants without duplicates.

    Those that differ by rounding alone are merged.
    """
    ordered = np.sort(times)
    # The integrator cannot resolve, and need not resolve, instants that differ by rounding.
    apart = np.diff(ordered) > 1e-9 * max(np.ptp(ordered), 1e-300)
    return ordered[np.concatenate([[True], apart])]


def _nearest(grid: Array, times: Array) -> Indices:
    """Return the indices of the nearest grid entries.

    The grid is sorted (G ≥ 2).
    """
    after = np.clip(np.searchsorted(grid, times), 1, grid.size - 1)
    return after - (times - grid[after - 1] < grid[after] - times)
