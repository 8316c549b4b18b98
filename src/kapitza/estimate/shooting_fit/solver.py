"""Generalised Gauss-Newton for states and parameters together.

The continuity of the motion is imposed by degrees. At first every link between neighbouring nodes may stretch, as if
the motion were kicked there by noise of standard
deviation q·s. Each time the iteration settles q is divided by ten, and at the end the links hold exactly: then this is
Bock's constrained Gauss-Newton method, whose solution is the maximum-likelihood one. Soft links follow the data
wherever the parameters are still wrong, so the iteration converges from far away and finds states without a sensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.base.monitor import checkpoint
from kapitza.errors import FlowError, Status
from kapitza.estimate.iterations import Iterations
from kapitza.estimate.shooting_fit.noise import SensorNoise, noise_found
from kapitza.estimate.shooting_fit.pieces import Nodes, kicks_between, place_nodes
from kapitza.estimate.shooting_fit.sweep import MotionProblem, Sweep, anchor_of, chain_of, sizes_of, sweep
from kapitza.solve import UNDETERMINED, AndersonMixing, ChainProgram, ChainStep, inverse_within

THIN_BELOW = 1e-3
"""Softness below which nodes are thinned; before, a node at every sample makes the iteration robust."""

RIGID_BELOW = 1e-2
"""Softness below which the links may be made rigid at once."""

LONG = 10_000
"""Samples from which links are stiffened further, to `RIGID_BELOW_LONG`, before they are made rigid. In a long chaotic
record the motion near a few nodes responds to the parameters so strongly that a first rigid step leaves the range of
the linear equations. At 10^6 samples of a driven double pendulum 12 rigid steps were needed, now three; five of six
records of 30,000 to 120,000 samples of the Rössler system ended in false minima (log likelihood 45 to 2,200 lower)."""

RIGID_BELOW_LONG, SHRINK_LONG = 3e-5, 0.05
"""The same as `RIGID_BELOW` for records longer than `LONG`, and the factor per level between the two."""

RUNAWAY = 1e5
"""Growth of a parameter from its start above which the iteration has diverged."""

FAR = 100.0
"""Sizes of a state by which a rigid step moves it at most. Where the motion does not follow, the linear equations ask
for 1e8: a hardening spring out there takes thousands of steps from sample to sample."""

TINY = 1 / 32
"""Fraction of a step below which it counts twice as slow progress, because many costly trials were needed."""

LARGEST_CHANGE_OF_WEIGHTS = 1.0
"""Largest logarithm of the change between channels with which their noise is corrected during the iteration."""


NUMBERS_PER_NODE = 20
"""Numbers that the equations of one node hold for each pair of states: its band and the factors."""

LARGEST_CHAIN = 50_000_000
"""Numbers that the equations of all nodes may hold at the start, when nodes are dense (several copies of 0.4 GB)."""

WIDEST_START = 20
"""Samples per interval above which a start far from the solution often fails."""


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the iteration.

    softness: standard deviation of the first link noise, in units of each state's size; shrink: factor per level;
    last_softness: below it the links become rigid. advance: a full step that moves no parameter by more than this
    fraction ends a level. tolerance: on the last step, relative to parameters and states. step_limit: largest relative
    change of a parameter in one step. spacing: samples per interval at the end (None: by the growth of the tangents).
    process_noise: (n,) deviations of kicks that stay; huber: threshold of the robust loss. learn_noise: take the noise
    of the channels from the residuals once the motion nearly follows the data.
    """

    softness: float = 0.05
    shrink: float = 0.1
    last_softness: float = 1e-8
    advance: float = 0.3
    tolerance: float = 1e-9
    max_iterations: int = 100
    step_limit: float = 0.5
    spacing: int | None = None
    process_noise: Array | None = None
    huber: float | None = None
    learn_noise: bool = False


@dataclass(frozen=True)
class Iterate:
    """Parameters (k,) and states (J, n) at the nodes.

    It also holds the sweep there with its weights (N, c).
    """

    theta: Array
    states: Array
    nodes: Nodes
    sweep: Sweep
    weights: Array


@dataclass(frozen=True)
class MotionSolution(Iterate):
    """End of the iteration.

    information (k, k) is the Fisher matrix of the parameters, states eliminated.
    kicks: (n,) deviations of the kicks of the motion; marginal: -2 log p with the states integrated out, up to a
    constant, where the motion is kicked.
    """

    information: Array
    covariance: Array
    status: Status
    history: Iterations
    at_bound: Flags
    softness: float
    kicks: Array | None = None
    marginal: float | None = None

    def with_noise_scaled(self, factor: float) -> MotionSolution:
        """Return the solution for noise larger by a factor.

        The factor is common to all sensors and is valid where no prior competes with the data.
        """
        return replace(
            self,
            # Weights are inverse variances.
            weights=self.weights / factor**2,
            information=self.information / factor**2,
            covariance=self.covariance * factor**2,
        )


def densest_spacing(states: Array) -> int:
    """Return the smallest spacing of nodes in samples.

    1, or as few as memory allows where the states (N, n) are many.
    """
    numbers = NUMBERS_PER_NODE * states.shape[1] ** 2 * len(states)
    return int(np.clip(np.ceil(numbers / LARGEST_CHAIN), 1, WIDEST_START))


@dataclass
class Fitter:
    """Iteration through the levels of softness.

    scale (n,) of the states, low and high (k,): bounds.
    """

    problem: MotionProblem
    settings: SolverSettings
    scale: Array
    sensors: SensorNoise
    low: Array
    high: Array
    rows: list[tuple[float, ...]] = field(default_factory=list)

    def solve(
        self, theta: Array, states: Array, softness: float | None = None, spacing: int | None = None
    ) -> MotionSolution:
        """Iterate from parameters theta (k,) and states (N, n).

        States are given at all samples; a node is placed every `spacing` samples. Without spacing: at every sample, or
        as densely as memory allows where the states are many.
        """
        if spacing is None:
            spacing = densest_spacing(states)
        nodes = place_nodes(self.problem.samples, spacing)
        theta = np.clip(theta, self.low, self.high)
        now = self.swept(theta, states[nodes.index].copy(), nodes, self._weights(None))
        if self.settings.huber is not None:
            # The first states follow the samples except at outliers, so the residuals already give weights.
            now = self._reweigh(now, 0.0)
        return self._iterate(now, self.settings.softness if softness is None else softness, thin=True)

    def resume(self, solution: MotionSolution) -> MotionSolution:
        """Continue from a solution with rigid links.

        This is needed after the weights have changed.
        """
        return self.go_on(solution.theta, solution.states, solution.nodes, solution.sweep.residual)

    def go_on(self, theta: Array, states: Array, nodes: Nodes, residual: Array | None) -> MotionSolution:
        """Iterate with rigid links from nearby states.

        Parameters and states (J, n) at nodes must be nearly right.
        """
        return self._iterate(self.swept(theta, states, nodes, self._weights(residual)), 0.0, thin=False)

    def swept(self, theta: Array, states: Array, nodes: Nodes, weights: Array) -> Iterate:
        """Linearise the equations at parameters and states.

        states: (J, n) at the nodes; weights: (N, c).
        """
        return Iterate(theta, states, nodes, sweep(self.problem, nodes, states, theta, weights), weights)

    def _iterate(self, now: Iterate, level: float, thin: bool) -> MotionSolution:
        typical = sizes_of(now.theta)
        # A parameter that starts at zero has no size to compare with.
        farthest = np.where(now.theta != 0, RUNAWAY * typical, np.inf)
        status, trouble, creeping = Status.ITERATION_LIMIT, 0, 0
        information = covariance = np.zeros((now.theta.size, now.theta.size))
        smallest = np.inf
        mixing, largest, units = AndersonMixing(), 1.0, typical
        for _ in range(self.settings.max_iterations):
            slack = self._slack(level, now.nodes)
            try:
                program = self._program(now, slack, typical)
            except np.linalg.LinAlgError:
                status = Status.SINGULAR
                break
            if (torn := program.torn) is not None:
                now = self._cut(now, torn)
                continue
            step = program.solve_within(self.low - now.theta, self.high - now.theta)
            information, covariance = program.information - anchor_of(typical), step.covariance
            # Its factors are the largest arrays of the fit: free them before the next sweep.
            del program
            if level == 0.0 and self._at_rest(now, step, typical):
                status = Status.CONVERGED
                break
            if level == 0.0 and largest == 1.0:
                step = self._mixed(mixing, now, step, units)
            fraction, reached = self._advance(now, step, slack, self.settings.step_limit * typical, largest)
            if reached is None:
                status = Status.STALLED
                break
            moved = float((np.abs(fraction * step.parameters) / typical).max(initial=0.0))
            shifted = float((np.abs(fraction * step.nodes) / self.scale).max())
            now = self._reweigh(reached, level)
            # Sizes only grow: a parameter that passes zero keeps its scale.
            typical = np.maximum(typical, np.abs(now.theta))
            if (typical > farthest).any():
                status = Status.DIVERGED
                break
            cost = self._cost(now.sweep, slack)
            self.rows.append((level, cost, fraction, moved, shifted, self.closure(now.sweep), *now.theta))
            reached_values = dict(zip(self.problem.flow.wrt, now.theta.tolist(), strict=True))
            links = f"links of softness {level:.3g}" if level else "rigid links"
            checkpoint(reached_values, f"iteration {len(self.rows)}, cost {cost:.6g}", stage=links, cost=cost)
            # Repeated small fractions of a step: this softness makes no progress, another one may.
            creeping = creeping + 1 + (fraction <= TINY) if fraction <= 0.25 and moved < 0.1 else 0
            if creeping >= 6:
                status = Status.STALLED
                break
            size = max(moved, shifted)
            if level == 0.0 and fraction == largest and self._settled(size, step, now.sweep):
                status = Status.CONVERGED
                break
            if level == 0.0:
                # With rigid links the cost need not decrease at every step: contraction of the steps is the test.
                trouble = trouble + 1 if size > 0.7 * smallest else 0
                smallest = min(smallest, size)
                if trouble >= 6 and largest < 1:
                    status = Status.CONVERGED if self._immaterial(step, now.sweep, 0.05, 1e-6) else Status.STALLED
                    break
                if trouble >= 6:
                    # Full steps overshoot where the cost is more curved than its linear model: half steps contract.
                    largest, trouble, smallest = 0.5, 0, np.inf
            if fraction == 1 and moved <= self.settings.advance:
                level = self._next(level, moved)
                if thin and level < THIN_BELOW and (times := self.final_spacing(now) // now.nodes.spacing) > 1:
                    # Every second, third, … node is kept, with its state.
                    now, thin = self._thinned(now, times * now.nodes.spacing), False
        # A parameter with equal bounds is held, which is not a finding.
        at_bound = ((now.theta <= self.low) | (now.theta >= self.high)) & (self.low < self.high)
        names = [f"theta_{i}" for i in range(self.low.size)]
        columns = ["softness", "cost", "fraction", "step", "state_step", "defect", *names]
        history = Iterations(columns, self.rows)
        return MotionSolution(
            now.theta, now.states, now.nodes, now.sweep, now.weights, information, covariance, status, history,
            at_bound, level, self.settings.process_noise,
        )  # fmt: skip

    def _mixed(self, mixing: AndersonMixing, now: Iterate, step: ChainStep, typical: Array) -> ChainStep:
        """Return the step, corrected by Anderson mixing.

        Where the cost is curved, plain Gauss-Newton makes many small steps in one direction.
        """
        here = np.concatenate([now.theta / typical, (now.states / self.scale).ravel()])
        plain = np.concatenate([step.parameters / typical, (step.nodes / self.scale).ravel()])
        p, nodes = np.split(mixing.improve(here, plain), [now.theta.size])
        return replace(step, parameters=p * typical, nodes=nodes.reshape(now.states.shape) * self.scale)

    def information(self, now: Iterate) -> Array:
        """Return the Fisher information (k, k) of the parameters.

        It is evaluated at an iterate, with rigid links and the states eliminated.
        """
        typical = sizes_of(now.theta)
        return self._program(now, self._slack(0.0, now.nodes), typical).information - anchor_of(typical)

    def settle(
        self, theta: Array, states: Array, nodes: Nodes, residual: Array, steady: float
    ) -> tuple[float, Iterate, ChainProgram]:
        """Find the most likely states at fixed parameters.

        states: (J, n), from states nearby.
        Returns L + ½ log|det K| of them, half of what Laplace's method gives for -2 log p with the states integrated
        out (K is the matrix of states and links, in which the variances of soft links cancel their norm), the iterate,
        and its linear system. It ends when that number is known to `steady`.
        """
        slack, typical, value = self._slack(0.0, nodes), sizes_of(theta), np.inf
        now = self.swept(theta, states, nodes, self._weights(residual))
        for _ in range(self.settings.max_iterations):
            program = self._program(now, slack, typical)
            before, value = value, self._cost(now.sweep, slack) + 0.5 * program.system.log_determinant
            if abs(before - value) <= steady + 1e-12 * abs(value):
                return value, now, program
            fraction, reached = self._advance(now, program.solve_given(np.zeros_like(theta)), slack, typical, 1.0)
            # Soft links have a cost that must fall; tiny fractions of a step mean that it does not.
            if reached is None or (slack is not None and fraction < 1e-2):
                break
            now = reached
        raise FlowError("The states at given parameters did not converge.")

    def objective(self, solution: MotionSolution) -> float:
        """Return -2 log of what was maximised.

        It sums samples under the loss in use, priors, given initial states and kicks.
        """
        if solution.marginal is not None:
            return solution.marginal
        weighted = 2 * self._cost(solution.sweep, self._slack(0.0, solution.nodes))
        if self.settings.huber is None:
            return weighted
        deviations = self.problem.samples.at_readings(self.sensors.deviations)
        size, limit = np.abs(solution.sweep.residual / deviations), self.settings.huber
        plain = 2 * solution.sweep.cost - float((solution.weights * solution.sweep.residual**2).sum())
        loss = np.where(size > limit, 2 * limit * size - limit**2, size**2)
        return plain + weighted - 2 * solution.sweep.cost + float(loss.sum())

    def with_plain_weights(self, solution: MotionSolution, weights: Array) -> MotionSolution:
        """Return the solution with the covariance of weights.

        It has the information and covariance that these weights (N, c) give.
        """
        now, typical = self.swept(solution.theta, solution.states, solution.nodes, weights), sizes_of(solution.theta)
        try:
            program = self._program(now, self._slack(0.0, now.nodes), typical)
        except np.linalg.LinAlgError:
            # A motion that another method found may leave some node undetermined.
            return replace(solution, status=Status.SINGULAR)
        covariance = inverse_within(program.information, ~solution.at_bound, UNDETERMINED)
        return replace(solution, information=program.information - anchor_of(typical), covariance=covariance)

    def at_minimum(self, theta: Array, states: Array, nodes: Nodes) -> MotionSolution:
        """Return the solution at a known minimum.

        Another method found it: parameters and states (J, n).
        """
        now = self.swept(theta, states, nodes, self._weights(None))
        at_bound = ((theta <= self.low) | (theta >= self.high)) & (self.low < self.high)
        none = np.zeros((theta.size, theta.size))
        made = MotionSolution(
            now.theta, now.states, now.nodes, now.sweep, now.weights, none, none, Status.CONVERGED,
            Iterations((), ()), at_bound, 0.0, self.settings.process_noise,
        )  # fmt: skip
        return self.with_plain_weights(made, now.weights)

    def closure(self, now: Sweep) -> float:
        """Return the root mean square defect of links.

        The unit is each state's size.
        """
        return float(np.sqrt(((now.defect / self.scale) ** 2).mean()))

    def _next(self, level: float, moved: float) -> float:
        """Return the next, smaller softness of the links.

        It is zero (rigid) at once when stiff links hardly moved the parameters any more.
        """
        long = self.problem.samples.size > LONG
        lower = level * (SHRINK_LONG if long and level <= RIGID_BELOW else self.settings.shrink)
        rigid_below = RIGID_BELOW_LONG if long else RIGID_BELOW
        if lower < self.settings.last_softness or (level <= rigid_below and moved <= 1e-2):
            return 0.0
        return lower

    def _settled(self, size: float, step: ChainStep, part: Sweep) -> bool:
        """Return whether a step ends the iteration.

        It is at the tolerance, or negligible relative to the standard errors.
        """
        return size <= self.settings.tolerance or (size <= 1e-4 and self._immaterial(step, part, 1e-3, 1e-9))

    def _at_rest(self, now: Iterate, step: ChainStep, typical: Array) -> bool:
        """Return whether a step is not worth a sweep.

        It is a tenth of what ends the iteration once it is taken.
        """
        moved = float((np.abs(step.parameters) / typical).max(initial=0.0))
        shifted = float((np.abs(step.nodes) / self.scale).max())
        return max(moved, shifted) <= 1e-6 and self._immaterial(step, now.sweep, 1e-4, 1e-9)

    def _immaterial(self, step: ChainStep, part: Sweep, errors: float, closure: float) -> bool:
        """Return whether a step is negligible.

        Every parameter changes by at most `errors` standard errors, and the links close within `closure`.
        """
        deviation = np.sqrt(np.clip(np.diag(step.covariance), 0.0, None))
        return bool((np.abs(step.parameters) <= errors * deviation).all()) and self.closure(part) <= closure

    def _slack(self, level: float, nodes: Nodes) -> Array | None:
        """Return the variances by which links may stretch.

        (n,) or (J, n); kicks grow with the time between two nodes.
        """
        own = self.settings.process_noise
        if own is None:
            return (level * self.scale) ** 2 if level > 0 else None
        share = kicks_between(self.problem.samples, nodes)
        return (level * self.scale) ** 2 + own**2 * share[:, None]

    def _weights(self, residual: Array | None) -> Array:
        deviations = self.problem.samples.at_readings(self.sensors.deviations)
        plain = deviations**-2.0
        if self.settings.huber is None or residual is None:
            return plain
        size = np.abs(residual / deviations)
        return plain * np.minimum(1.0, self.settings.huber / np.maximum(size, 1e-300))

    def _reweigh(self, now: Iterate, level: float) -> Iterate:
        """Set Huber weights from the residuals.

        This is done once the states no longer follow every outlier.
        """
        if self.settings.huber is None or level > 0.1 * self.settings.softness:
            return now
        return self.swept(now.theta, now.states, now.nodes, self._weights(now.sweep.residual))

    def _program(self, now: Iterate, slack: Array | None, typical: Array) -> ChainProgram:
        return chain_of(now.sweep, now.nodes.linked, self.scale, anchor_of(typical), slack)

    def _cost(self, part: Sweep, slack: Array | None) -> float:
        if slack is None:
            return part.cost
        squares = np.divide(part.defect**2, slack, out=np.zeros_like(part.defect), where=slack > 0)
        return part.cost + 0.5 * float(squares.sum())

    def _advance(
        self, now: Iterate, step: ChainStep, slack: Array | None, limit: Array, largest: float
    ) -> tuple[float, Iterate | None]:
        """Return the largest tried fraction that lowers the cost.

        Rigid links take `largest` at once.
        """
        known = now.theta != 0
        rigid = slack is None or not slack.all()
        # No parameter changes by more than its limit in one step.
        most = float((np.abs(step.parameters) / limit)[known].max(initial=0.0))
        if rigid:
            most = max(most, float((np.abs(step.nodes) / self.scale).max()) / FAR)
        fraction = largest / max(most, 1.0)
        before = self._cost(now.sweep, slack)
        for _ in range(12):
            theta, states = now.theta + fraction * step.parameters, now.states + fraction * step.nodes
            try:
                part = sweep(self.problem, now.nodes, states, theta, now.weights)
            except FlowError:
                fraction /= 2
                continue
            after = self._cost(part, slack)
            if rigid or after <= before * (1 + 1e-9) + 1e-9 or not np.isfinite(before):
                return fraction, Iterate(theta, states, now.nodes, part, now.weights)
            fraction /= 2
        return fraction, None

    def final_spacing(self, now: Iterate) -> int:
        """Return the samples per interval at the end."""
        if self.settings.spacing is not None:
            return self.settings.spacing
        # Kicks act at every sample, and few nodes cost nothing.
        if self.settings.process_noise is not None or now.nodes.size < 50:
            return 1
        some = np.flatnonzero(now.nodes.linked)
        some = some[:: max(1, some.size // 200)]
        growth = np.linalg.norm(now.sweep.propagators[some], ord=2, axis=(1, 2))
        # Tangents may grow by a factor of five over an interval.
        rate = max(float(np.log(np.median(growth))) / now.nodes.spacing, 1e-3)
        return int(np.clip(np.log(5.0) / rate, 1, 10))

    def _cut(self, now: Iterate, node: int) -> Iterate:
        """Cut the motion before the end of an interval.

        The node after it then begins a motion of its own, which costs one state's worth of information. Without the cut
        no motion of nearby parameters passes; see `ChainProgram.torn`.
        """
        samples, first = self.problem.samples, now.nodes.index[node]
        last = first + now.nodes.length[node] - 1
        joined = samples.joined.copy()
        joined[last] = False
        self.problem = replace(self.problem, samples=replace(samples, joined=joined))
        nodes, states = place_nodes(self.problem.samples, now.nodes.spacing), now.states
        if last > first:
            row = self.problem.parameters(now.theta, now.nodes.index[node : node + 1])
            run = self.problem.flow.paths(states[node : node + 1], samples.time[None, [first, last]], row)
            states = np.insert(states, node + 1, run[0, -1], axis=0)
        return self.swept(now.theta, states, nodes, now.weights)

    def _thinned(self, now: Iterate, spacing: int) -> Iterate:
        nodes = place_nodes(self.problem.samples, spacing)
        states, weights = now.states[np.searchsorted(now.nodes.index, nodes.index)], now.weights
        if self.settings.learn_noise:
            found = self.noise_of(now)
            change = np.log(found / self.sensors.deviations)
            small = found < 0.3 * self.problem.samples.spread[self.sensors.channel]
            # Residuals far from the noise guessed from the data belong to a motion that is still wrong.
            if np.ptp(change) < LARGEST_CHANGE_OF_WEIGHTS and small.all():
                self.sensors = replace(self.sensors, deviations=found)
                weights = self._weights(now.sweep.residual)
        return self.swept(now.theta, states, nodes, weights)

    def noise_of(self, now: Iterate) -> Array:
        """Return the noise (S,) from the residuals.

        Each sensor is charged its share of the fitted numbers.
        """
        samples = self.problem.samples
        fitted = now.states.shape[1] * len(samples.pieces) + now.theta.size
        return noise_found(samples, now.sweep.residual, self.sensors, fitted, self.settings.huber)
