"""Gauss-Newton for orbits and parameters together.

Each orbit has its unknowns z and closes where c(z, θ) = 0. With soft closure, ½|W r|² + ½|c/s|² is lowered over all z
and θ in a trust region, from a large s to a small one. With rigid closure the linearised c = 0 gives
dz = dz₀ + (dz/dθ) dθ and the samples become a small least-squares problem in dθ alone. The propagators are never
multiplied up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.base.monitor import checkpoint
from kapitza.errors import FlowError, Status
from kapitza.estimate.orbit_fit.block import Block, soft_step
from kapitza.estimate.orbit_fit.problem import OrbitProblem
from kapitza.estimate.priors import Priors
from kapitza.solve import UNDETERMINED, nearest_within, scaled_inverse

SOFTNESS = (0.1, 0.02, 0.004, 0.0008)
"""Levels s of the soft closure, in units of each state's spread."""

SOFT_ITERATIONS = 12
"""Most iterations at each of these levels."""

RELIABLE = 0.05
"""An orbit whose closing step exceeds this share of the spread is too far from closing to inform the parameters."""

OUTLYING = 100.0
"""An orbit whose mean squared weighted residual exceeds this many times the median is not matched (yet)."""

LARGEST_STEP = 0.25
"""Largest step of a node within one iteration, in units of the spread."""


@dataclass(frozen=True)
class Reduced:
    """One orbit with its states eliminated.

    r̃ (m,), R̃ (m, k), and how its unknowns follow: dz = shift + follow dθ.
    """

    residual: Array
    slope: Array
    shift: Array
    follow: Array


@dataclass(frozen=True)
class OrbitIterate:
    """Parameters, unknowns of every orbit, and equations there."""

    theta: Array
    unknowns: list[Array]
    blocks: list[Block]


Extra = Callable[[OrbitIterate, list[Reduced]], list[Reduced]]
"""Adds rows that are not samples along the orbit, such as multipliers, to the reduced equations."""


@dataclass(frozen=True)
class OrbitSolution(OrbitIterate):
    reduced: list[Reduced]
    information: Array
    covariance: Array
    status: Status
    at_bound: Flags
    weights: list[Array]
    history: tuple[dict[str, float], ...] = field(default_factory=tuple)


@dataclass
class Solver:
    """Gauss-Newton iteration of an orbit fit.

    weights: per orbit W, (m, m) or its diagonal (m,), that makes its samples independent with unit variance.
    low, high, typical (k,): bounds and sizes of the parameters. rows: history of the iterations.
    """

    problem: OrbitProblem
    weights: list[Array]
    low: Array
    high: Array
    typical: Array
    extra: Extra | None = None
    tolerance: float = 1e-9
    max_iterations: int = 60
    rows: list[dict[str, float]] = field(default_factory=list)

    @cached_property
    def unit(self) -> list[Array]:
        """Size of every unknown of each orbit.

        It is the spread of its state; for a period a hundredth of itself.
        """
        targets = self.problem.targets
        period = [0.01 * max(t.period for t in targets)] if self.problem.autonomous else []
        return [np.append(np.tile(self.problem.scale, t.count), period) for t in targets]

    def solve(self, theta: Array, unknowns: list[Array], soft: bool = True) -> OrbitSolution:
        now = OrbitIterate(theta, unknowns, self.problem.evaluate(unknowns, theta))
        if soft:
            for level in SOFTNESS:
                now = self._soften(now, level)
            now = self.put_back(now)
        return self.rigid(now)

    # ----------------------------------------------------------------------------------------------- soft closure

    def _soft_weights(self, level: float) -> list[Array]:
        """Return weights of the samples for soft closure.

        Each sample is weighted separately, and never far better than the closure: this guides the iteration and is not
        yet the likelihood.
        """
        floor = 0.1 * level * self.problem.channel_scale
        result = []
        for target, weight in zip(self.problem.targets, self.weights, strict=True):
            own = deviations_of(weight)
            least = np.full(len(weight), 0.1 * level * 0.01 * target.period)
            least[: target.channel.size] = floor[target.channel]
            # Exact samples would otherwise pull states away from closure.
            result.append(1.0 / np.hypot(own, least))
        return result

    def _soften(self, now: OrbitIterate, level: float) -> OrbitIterate:
        """Minimise at one softness of the closure.

        Levenberg-Marquardt iterates over states and parameters.
        Orbits that fit far worse than the others count less (Huber's weights on whole orbits), so that a spurious one,
        or one that the model does not have yet, does not distort the others.
        """
        weights, slack = self._soft_weights(level), level * self.problem.scale
        damping = 1e-3
        for _ in range(SOFT_ITERATIONS):
            costs = self._soft_costs(now, weights, slack)
            trust = np.minimum(1.0, 3 * np.median(costs) / np.maximum(costs, 1e-300))
            cost = float(trust @ costs) + self.problem.priors.cost(now.theta)
            step, moves = self._soft_step(now, weights, slack, trust, damping)
            trial = self._try(now, step, moves)
            new = np.inf
            if trial is not None:
                new = float(trust @ self._soft_costs(trial, weights, slack)) + self.problem.priors.cost(trial.theta)
            if trial is None or not new < cost:
                damping *= 8
                if damping > 1e8:
                    break
                continue
            now, damping = trial, max(damping / 8, 1e-12)
            self.note(level, new, now)
            # Good enough for this level: the next, stiffer one moves the minimum anyway.
            if cost - new < 1e-3 * cost:
                break
        return now

    def _soft_costs(self, now: OrbitIterate, weights: list[Array], slack: Array) -> Array:
        """Return ½|W r|² + ½|c/s|² of every orbit."""
        gaps = [(block.gap.reshape(-1, slack.size) / slack).ravel() for block in now.blocks]
        parts = zip(now.blocks, weights, gaps, strict=True)
        return np.array([0.5 * float(((w * b.residual) ** 2).sum() + g @ g) for b, w, g in parts])

    def _soft_step(
        self, now: OrbitIterate, weights: list[Array], slack: Array, trust: Array, damping: float
    ) -> tuple[Array, list[Array]]:
        """Return the steps of parameters and unknowns.

        States are eliminated orbit by orbit.
        """
        hessian, gradient = np.diag(self.problem.priors.weight), self.problem.priors.pull(now.theta)
        parts = [soft_step(b, w, slack, damping) for b, w in zip(now.blocks, weights, strict=True)]
        for part, share in zip(parts, trust, strict=True):
            hessian = hessian + share * part.hessian
            gradient = gradient + share * part.gradient
        step = self._bounded(hessian, gradient, now.theta, damping)
        return step, [part.shift + part.follow @ step for part in parts]

    def _bounded(self, hessian: Array, gradient: Array, theta: Array, damping: float) -> Array:
        """Return the minimiser of a quadratic within the bounds.

        Directions without curvature stay where they are.
        """
        damped = hessian + damping * np.diag(np.diag(hessian))
        free = -scaled_inverse(damped, UNDETERMINED) @ gradient
        # At most half of its size in one step: farther away the linear model is not trusted.
        reach = 0.5 * np.maximum(np.abs(theta), self.typical)
        return nearest_within(damped, free, np.maximum(self.low - theta, -reach), np.minimum(self.high - theta, reach))

    # ---------------------------------------------------------------------------------------------- rigid closure

    def reduce(self, now: OrbitIterate) -> list[Reduced]:
        reduced = [reduce_block(b, w) for b, w in zip(now.blocks, self.weights, strict=True)]
        return reduced if self.extra is None else self.extra(now, reduced)

    def put_back(self, now: OrbitIterate) -> OrbitIterate:
        """Restart orbits that drifted from their samples.

        They drifted while the parameters were wrong, and start again from the data.
        """
        misfit = self._misfits(self.reduce(now))
        astray = misfit > OUTLYING * max(float(np.median(misfit)), 1.0)
        if not astray.any():
            return now
        fresh = [s if away else z for s, z, away in zip(self.problem.starts(), now.unknowns, astray, strict=True)]
        try:
            return OrbitIterate(now.theta, fresh, self.problem.evaluate(fresh, now.theta))
        except FlowError:
            return now

    @staticmethod
    def _misfits(reduced: list[Reduced]) -> Array:
        return np.array([float((r.residual**2).mean()) for r in reduced])

    def rigid(self, now: OrbitIterate) -> OrbitSolution:
        """Iterate with closure as a constraint.

        Full steps; each orbit's own step is cut where it is too long.
        """
        status, smallest, trouble = Status.ITERATION_LIMIT, np.inf, 0
        reduced = self.reduce(now)
        for _ in range(self.max_iterations):
            step = self._parameter_step(now, reduced)
            moves = [r.shift + r.follow @ step for r in reduced]
            lengths = [self._length(m, u) for m, u in zip(moves, self.unit, strict=True)]
            moves = [m * min(1.0, LARGEST_STEP / max(d, 1e-300)) for m, d in zip(moves, lengths, strict=True)]
            trial = self._try(now, step, moves)
            if trial is None:
                status = Status.PROPAGATION_FAILED
                break
            size = max(self._relative(step, now.theta), *lengths)
            now, reduced = trial, self.reduce(trial)
            self.note(0.0, self.cost(now), now)
            if size <= self.tolerance or self._immaterial(step, reduced, now, size):
                status = Status.CONVERGED
                break
            # Eight steps without contraction: the iteration is not converging.
            trouble = trouble + 1 if size > 0.7 * smallest else 0
            smallest = min(smallest, size)
            if trouble >= 8:
                status = Status.STALLED
                break
        return self._finish(now, reduced, status)

    def _parameter_step(self, now: OrbitIterate, reduced: list[Reduced]) -> Array:
        """Return the step of the parameters.

        It uses the orbits that nearly close and do not fit far worse than the others, if those determine it.
        """
        misfit = self._misfits(reduced)
        fits = misfit <= OUTLYING * max(float(np.median(misfit)), 1.0)
        closes = [self._length(r.shift, u) <= RELIABLE for r, u in zip(reduced, self.unit, strict=True)]
        near = [r for r, close, fit in zip(reduced, closes, fits, strict=True) if close and fit]
        information, gradient = normal_equations(self.problem.priors, now.theta, near)
        size = np.where(now.theta != 0, np.abs(now.theta), 1.0)
        relative = np.linalg.eigvalsh(information * np.outer(size, size)) if near else np.zeros(1)
        # The reliable orbits do not determine all parameters: all orbits are used.
        if relative[0] <= 1e-14 * relative[-1]:
            information, gradient = normal_equations(self.problem.priors, now.theta, reduced)
        return self._bounded(information, gradient, now.theta, 0.0)

    def _finish(self, now: OrbitIterate, reduced: list[Reduced], status: Status) -> OrbitSolution:
        information, _ = normal_equations(self.problem.priors, now.theta, reduced)
        at_bound = (now.theta <= self.low) | (now.theta >= self.high)
        covariance = np.zeros_like(information)
        inside = np.ix_(~at_bound, ~at_bound)
        covariance[inside] = covariance_of(information[inside])
        return OrbitSolution(
            now.theta, now.unknowns, now.blocks, reduced, information, covariance, status, at_bound,
            self.weights, tuple(self.rows),
        )  # fmt: skip

    def cost(self, now: OrbitIterate) -> float:
        squares = [float((whiten(w, b.residual) ** 2).sum()) for b, w in zip(now.blocks, self.weights, strict=True)]
        return self.problem.priors.cost(now.theta) + 0.5 * sum(squares)

    def _immaterial(self, step: Array, reduced: list[Reduced], now: OrbitIterate, size: float) -> bool:
        """Return whether a step is negligible.

        It is small relative to the standard errors, and the orbits are closed.
        """
        information, _ = normal_equations(self.problem.priors, now.theta, reduced)
        return size <= 1e-6 and float(step @ information @ step) <= 1e-8

    def _try(self, now: OrbitIterate, step: Array, moves: list[Array]) -> OrbitIterate | None:
        """Return the iterate after a step.

        The step is shortened where the flow fails.
        """
        for fraction in (1.0, 0.3, 0.1, 0.03):
            theta = np.clip(now.theta + fraction * step, self.low, self.high)
            unknowns = [z + fraction * m for z, m in zip(now.unknowns, moves, strict=True)]
            try:
                blocks = self.problem.evaluate(unknowns, theta)
            except FlowError:
                continue
            if all(block.finite() for block in blocks):
                return OrbitIterate(theta, unknowns, blocks)
        return None

    @staticmethod
    def _length(move: Array, unit: Array) -> float:
        return float(np.abs(move / unit).max())

    @staticmethod
    def _relative(step: Array, theta: Array) -> float:
        size = np.maximum(np.abs(theta), np.abs(theta + step))
        return float((np.abs(step) / np.maximum(size, 1e-300)).max(initial=0.0))

    def note(self, level: float, cost: float, now: OrbitIterate) -> None:
        gap = np.concatenate([b.gap.reshape(-1, self.problem.scale.size) / self.problem.scale for b in now.blocks])
        row = {"softness": level, "cost": cost, "closure": float(np.sqrt((gap**2).mean()))}
        values = dict(zip(self.problem.names, now.theta.tolist(), strict=True))
        self.rows.append(row | values)
        closure = f"closure of softness {level:.3g}" if level else "closed orbits"
        checkpoint(values, f"iteration {len(self.rows)}, cost {cost:.6g}", stage=closure, cost=cost)


def normal_equations(priors: Priors, theta: Array, reduced: list[Reduced]) -> tuple[Array, Array]:
    """Return information F (k, k) and gradient (k,).

    Of the minimised function, from orbits whose states are eliminated.
    """
    information, gradient = np.diag(priors.weight), priors.pull(theta)
    for r in reduced:
        information = information + r.slope.T @ r.slope
        gradient = gradient + r.slope.T @ r.residual
    return information, gradient


def deviations_of(weight: Array) -> Array:
    """Return the standard deviations (m,) of the samples.

    They follow from W of an orbit.
    """
    return 1 / weight if weight.ndim == 1 else np.linalg.norm(np.linalg.pinv(weight), axis=1)


def reduce_block(block: Block, weight: Array) -> Reduced:
    """Eliminate an orbit's unknowns by its linearised closure.

    Directions that the closure leaves free are fitted to its samples.
    """
    moved, free = block.close(-np.column_stack([block.gap, block.gap_by_parameter]))
    white = whiten(weight, np.column_stack([block.residual, block.by_parameter]) + block.read(moved))
    if block.free:
        own = whiten(weight, block.read(free))
        along = np.linalg.lstsq(own, -white, rcond=None)[0]
        moved, white = moved + free @ along, white + own @ along
    return Reduced(white[:, 0], white[:, 1:], moved[:, 0], moved[:, 1:])


def whiten(weight: Array, values: Array) -> Array:
    """Return W values.

    W is a matrix or, as a vector, its diagonal.
    """
    return weight @ values if weight.ndim == 2 else (weight * values.T).T


def covariance_of(information: Array) -> Array:
    """Return the inverse of an information matrix.

    The units are arbitrary; infinite variances where nothing is determined.
    """
    size = np.sqrt(np.clip(np.diag(information), 0.0, None))
    if information.size == 0:
        return information
    if not (size > 0).all():
        return np.full_like(information, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(size, size))  # any sign: V f(λ) Vᵀ and lengths of rows
    # Unit diagonal: eigenvalues at rounding are undetermined directions.
    null = values <= 1e-14 * values.max()
    inverse = (vectors[:, ~null] / values[~null]) @ vectors[:, ~null].T / np.outer(size, size)
    touched = np.linalg.norm(vectors[:, null], axis=1) > 1e-6
    inverse[touched, touched] = np.inf
    return inverse
