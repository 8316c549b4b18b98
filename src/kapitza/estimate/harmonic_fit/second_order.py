"""Second-order bias of weighted weak rows.

The bias is found from copies of the data with fresh noise added.

The estimate solves the score Jᵀ W r(θ) = 0, J = ∂r/∂θ. Noise in the data changes the residuals r, the columns J and,
through the path along which they are evaluated, the weights W, and these changes are correlated:

    E[Jᵀ W r] = E[δJᵀ W δr] + E[Jᵀ δW δr] = c,   so that   E[θ] - θ₀ = -(Jᵀ W J)⁻¹ c.

Terms of first order vanish in the mean, and the curvature of the equations is corrected in the rows themselves. The
bias does not shrink with the length of the record, and the standard error does: without the correction the intervals
of long records would be wrong without a warning. The same holds for the pull Dᵀ W r at any other column D that the rows
are tested against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from kapitza.base.arrays import Numbers
from kapitza.base.monitor import checkpoint
from kapitza.estimate.harmonic_fit.alternatives import Alternatives
from kapitza.estimate.harmonic_fit.problem import SpreadPart, WeakProblem, calmed, smooth, weigh
from kapitza.estimate.harmonic_fit.regressors import Regressors
from kapitza.estimate.harmonic_fit.solvers import RowSolution
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener

ENOUGH = 200_000
"""Samples of all copies together: short records are copied more often, because the mean is over noise."""

MOST_COPIES = 4
"""Most copies of a short record: the mean of four scatters half as much as one."""


UNCORRECTABLE = 0.4
"""Share of noise in the information on a combination of parameters from which the correction no longer helps."""

RowsAt = Callable[[WeakProblem], list[Rows]]
"""Columns ∂r/∂θ as matrix and residuals r as rest, of every piece, at fixed θ, from the data of a problem."""


@dataclass(frozen=True)
class Pulls:
    """Draws of the pull of noise alone.

    The pull acts on the parameters (copies, k) and on the alternatives (copies, m). Each row is one draw; their
    mean is c of the head of this module. columns (copies, k): the part of the first that noise in the parameters'
    own columns makes. by_group (G, k): mean pull of every group of rows at the parameters. information (k, k): the
    part of the rows' that is noise in those columns. beside: columns (windows, rows, m) of the alternatives, piece
    by piece, by these regressors.
    """

    parameters: Numbers
    columns: Numbers
    alternatives: Numbers
    by_group: Numbers
    beside: list[Numbers]
    regressors: Regressors
    information: Numbers

    def share(self, information: Numbers) -> float:
        """Return the largest share of noise in the information.

        The maximum is over all combinations of the parameters. Where a column is noise alone, no combination looks
        weak: the condition number of the rows does not show it.
        """
        size = np.sqrt(np.diag(information))
        scaled = np.outer(size, size)
        try:
            # Generalised eigenvalue: the largest ratio of noise to total information over all directions.
            return float(eigh(self.information / scaled, information / scaled, eigvals_only=True)[-1])
        except np.linalg.LinAlgError:
            return 1.0


@dataclass(frozen=True)
class KnownWeights:
    """Weights of the rows of a long record, and a part of it that tells where they hold.

    values (p,): of all parameters, at which they were evaluated.
    """

    factors: list[Whitener]
    values: Numbers
    part: SpreadPart

    def at(self, values: Numbers) -> list[Whitener] | None:
        """Return the weights where they hold at other values (p,) too.

        The mean square of n whitened rows scatters by √(2/n); a change of the variances far below that is not seen.
        """
        rows = sum(len(factor.variances) for factor in self.factors)
        unseen = UNSEEN * np.sqrt(2.0 / rows)
        return self.factors if self.part.change_of_weights(self.values, values) <= unseen else None


UNSEEN = 0.1
"""Change of the mean square of whitened rows, in its standard errors, that no test sees."""


@dataclass(frozen=True)
class Tested:
    """Alternatives of a test, and pulls of noise.

    pulls: None where they are not known. share: share of noise in the information on the weakest combination of the
    parameters. weights: of the rows, where they may serve the test.
    """

    alternatives: Alternatives
    pulls: Pulls | None = None
    share: float = 0.0
    weights: KnownWeights | None = None

    def columns(self, problem: WeakProblem) -> list[Numbers]:
        """Return the columns of the alternatives.

        They are evaluated along the path of `problem`; those for which the pulls were drawn are reused.
        """
        if self.pulls is not None and self.pulls.regressors is problem.regressors:
            return self.pulls.beside
        return self.alternatives.columns(problem)


def corrects_bias(problem: WeakProblem) -> bool:
    """Return whether the second-order bias is corrected.

    It is for weighted rows with known noise.
    """
    settings = problem.settings
    return settings.solver == "weighted" and settings.correct_bias and bool((problem.measured.noise > 0).all())


def corrected(
    problem: WeakProblem,
    factors: list[Whitener] | None,
    solution: RowSolution,
    tested: Tested,
    rows_at: RowsAt,
    own: bool = True,
) -> tuple[RowSolution, Tested]:
    """Return the solution without its second-order bias.

    The test is returned with the pulls of noise at the alternatives. Both are unchanged where the rows were not
    weighted, or where the noise is not known.
    """
    if factors is None or not corrects_bias(problem):
        return solution, tested
    pulls = pulls_of_noise(problem, factors, solution.groups, rows_at, tested.alternatives)
    return without_bias(solution, pulls, own), replace(tested, pulls=pulls, share=pulls.share(solution.information))


def without_bias(solution: RowSolution, pulls: Pulls, own: bool) -> RowSolution:
    """Return the solution with its bias subtracted.

    own: False where the solution has corrected the effect of its own noisy columns already.
    """
    score = (pulls.parameters if own else pulls.parameters - pulls.columns).mean(axis=0)
    # E[θ] - θ₀ = -(Jᵀ W J)⁻¹ c: the bias is subtracted by adding (Jᵀ W J)⁻¹ c.
    step = np.linalg.solve(solution.information, score)
    residual = solution.residual + solution.matrix @ step
    return replace(solution, theta=solution.theta + step, residual=residual, chi2=float(solution.weights @ residual**2))


def pulls_of_noise(
    problem: WeakProblem,
    factors: list[Whitener],
    groups: NDArray[np.integer],
    rows_at: RowsAt,
    tested: Alternatives,
) -> Pulls:
    """Draw the second-order pulls of noise.

    They are evaluated at the values of the alternatives; groups (n,): labels of the rows.
    """
    readings = sum(len(state.times) for state in problem.states) * len(problem.measured.channels)
    # The scatter of the mean falls with the samples of all copies together.
    copies = int(np.clip(ENOUGH // max(readings, 1), 1, MOST_COPIES))
    generator = np.random.default_rng(problem.settings.seed)
    rows, beside = rows_at(problem), tested.columns(problem)
    size = rows[0].matrix.shape[2]
    total, own = np.zeros((copies, size + tested.count)), np.zeros((copies, size))
    # First row of every group, for sums by `reduceat`.
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    by_group, noise = np.zeros((len(starts), size)), np.zeros((size, size))
    for number in range(copies):
        checkpoint(text=f"bias of the weights, copy {number + 1} of {copies}")
        shaken = problem.measured.shaken(generator)
        states = smooth(shaken, problem.kernels)
        copy = replace(problem, states=states, calm=calmed(states, problem.smoothing, shaken))
        # The rows of a copy subtract the mean that both noises add to them; otherwise δW would turn it into a bias.
        doubled = replace(copy, noise=None if problem.noise is None else 2.0 * problem.noise)
        moved, each = weigh(copy, tested.values), []
        for row, near, again, further, factor, other in zip(
            rows, beside, rows_at(doubled), tested.columns(copy), factors, moved, strict=True
        ):
            residual = again.rest - row.rest
            every = np.concatenate([row.matrix, near], axis=2)
            noisy = np.concatenate([again.matrix, further], axis=2)
            # (J + δJ)ᵀ W δr + Jᵀ δW δr, less Jᵀ W δr, which vanishes in the mean.
            here, there = factor(Rows(np.concatenate([every, noisy], axis=2), residual)), other(Rows(every, residual))
            plain, with_noise = np.split(_products(here), 2, axis=1)
            pull = _products(there) - 2 * plain + with_noise
            wide = every.shape[2]
            change = (here.matrix[..., wide : wide + size] - here.matrix[..., :size]).reshape(-1, size)
            noise += change.T @ change / copies
            total[number] += pull.sum(axis=0)
            own[number] += (with_noise - plain)[:, :size].sum(axis=0)
            each.append(pull[:, :size])
        by_group += np.add.reduceat(np.concatenate(each), starts, axis=0) / copies
    return Pulls(total[:, :size], own, total[:, size:], by_group, beside, problem.regressors, noise)


def _products(white: Rows) -> Numbers:
    """Return the pull (n, columns) of every row."""
    return (white.matrix * white.rest[..., None]).reshape(-1, white.matrix.shape[-1])
