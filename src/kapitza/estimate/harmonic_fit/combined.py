"""Physical parameters that enter in products and powers.

Masses, lengths and inertias are found from weak rows.
Where every term of the equations is a combination c_j(θ) of parameters times a function of the motion, the rows are

    r(θ) = b + Σ_j c_j(θ) A_j,

linear in the combinations. Their sum of squares is a quadratic form in c, known once the rows are: whatever the number
of samples, θ is found in a problem of a few dozen numbers, from many starts.

Rows are divided by the size of their own terms at θ, Σ_j c_j² mean A_j² + mean b². Without that a row of
m l² φ'' + m g l sin φ is smallest at l = 0, whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.linalg import block_diag

from kapitza.base.arrays import Numbers
from kapitza.base.cures import Set
from kapitza.base.monitor import checkpoint
from kapitza.base.workers import Shared, in_order
from kapitza.errors import ConvergenceError, ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.alternatives import alternatives_of
from kapitza.estimate.harmonic_fit.problem import WeakProblem, stack, weigh, whiten
from kapitza.estimate.harmonic_fit.regressors import Regressors
from kapitza.estimate.harmonic_fit.result import estimate_of
from kapitza.estimate.harmonic_fit.second_order import RowsAt, Tested, corrected, corrects_bias, pulls_of_noise
from kapitza.estimate.harmonic_fit.solvers import RowSolution, System, solve
from kapitza.estimate.harmonic_fit.squares import Squares, squares_of
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener
from kapitza.model import combinations_of, compile_derivatives, symbol
from kapitza.solve import triangular_factor

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

ROUNDS = 4
"""Most weightings by the noise at the present values; the iteration ends when the values no longer move."""

STARTS = 48
"""Random starts of products and powers, in addition to the values of the model."""


TOGETHER = 6
"""Starts in one job of a worker."""

FARTHEST_ROOT = 0.2
"""Largest relative distance between the root of the score and the values that the search found."""

FARTHEST_SQUARE = 3.0
"""The same for the square of a parameter that may be zero, in standard errors."""

ALIKE = 1e-6
"""Relative difference of the sums of squares below which two solutions fit equally well."""

ROUNDING = 1e-20
"""Sum of squares, relative to that of the terms, below which every solution is exact."""

DISTINCT = 1e-3
"""Relative difference of the values of two solutions, and of the cost half way between them, from which they are
distinct."""

FARTHEST = 4.0
"""Largest factor by which a parameter is multiplied or divided for the random starts."""


def combine(regressors: Regressors, free: tuple[str, ...]) -> Regressors | None:
    """Return the regressors of all parameter combinations.

    The combinations are those of the free parameters; None where motion and parameters do not separate.
    """
    chosen = [symbol(n) for n in free]
    # A free parameter inside a switching function moves the switches, so the rows are not linear in combinations.
    if any(not s.function.free_symbols.isdisjoint(chosen) for s in regressors.switches):
        return None
    names = [symbol(n) for n in regressors.linear]
    constants = {symbol(n) for n in regressors.parameters}
    split = []
    for number, (rest, row) in enumerate(zip(regressors.rest, regressors.coefficients, strict=True), start=1):
        whole: Any = sp.Add(rest, *[p * c for p, c in zip(names, row, strict=True)])
        try:
            split.append(combinations_of(number, whole, chosen, constants))
        except ModelError:
            return None
    factors = tuple(sorted({c for _, groups in split for c in groups}, key=sp.sstr))
    return replace(
        regressors,
        linear=tuple(sp.sstr(c) for c in factors),
        nonlinear=(),
        rest=tuple(rest for rest, _ in split),
        coefficients=tuple(tuple(groups.get(c, sp.Integer(0)) for c in factors) for _, groups in split),
        factors=factors,
    )


@dataclass(frozen=True)
class _Combinations:
    """Combinations c(θ) and their derivatives ∂c/∂θ.

    values: of all parameters (npar,), those that are free are replaced by θ.
    """

    factors: tuple[Any, ...]
    free: tuple[str, ...]
    parameters: tuple[str, ...]
    values: Numbers

    @property
    def size(self) -> int:
        return len(self.factors)

    @cached_property
    def function(self) -> Callable[..., Numbers]:
        return compile_derivatives(self.factors, self.free, (), self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled code cannot be pickled for other processes.
        return {name: value for name, value in self.__dict__.items() if name != "function"}

    def __call__(self, theta: Numbers) -> tuple[Numbers, Numbers]:
        """Return the combinations and their derivatives.

        It returns the combinations and the constant 1, (k + 1,), and their derivatives (k + 1, free).
        """
        values = self.values.copy()
        values[[self.parameters.index(n) for n in self.free]] = theta
        flat = self.function(np.empty((0, 1)), values)[:, 0]
        value, slopes = flat[: self.size], flat[self.size :].reshape(self.size, theta.size)
        return np.append(value, 1.0), np.vstack([slopes, np.zeros(theta.size)])


def fit_combined(problem: WeakProblem) -> Estimate:
    """Fit physical parameters to the weak rows.

    Gauss-Newton iterates in the physical parameters, from the best of many starts.
    """
    free, regressors = problem.request.names, problem.regressors
    squares = squares_of(regressors.factors or (), problem.request)
    combinations = _Combinations(squares.factors, tuple(free), regressors.parameters, problem.values)

    def full(theta: Numbers) -> Numbers:
        return regressors.placed(problem.values, free, squares.outside(theta))

    rows, functions = problem.rows(), problem.windows.functions
    apart, terms = _apart(rows, functions), _Terms(combinations, _mean_squares(rows, functions))
    # The search uses the compressed rows: its cost does not depend on the length of the record.
    theta, others = _search(problem, replace(terms, rows=_compressed(apart)), squares)
    history = [squares.outside(theta)]
    sizes = terms.sizes(combinations(theta)[0])
    white = replace(terms, rows=np.hstack([part / size for part, size in zip(apart, sizes, strict=True)]), usual=sizes)
    if problem.settings.solver != "least squares":
        for _ in range(ROUNDS):
            factors = weigh(problem, full(theta))
            sizes = terms.sizes(combinations(theta)[0])
            white = replace(terms, rows=np.hstack(_apart(rows, functions, factors)), usual=sizes)
            found = _settle(white, theta, *squares.bounds(*problem.request.bounds))
            moved = np.abs(found - theta).max() / max(np.abs(theta).max(), 1e-300)
            theta = found
            history.append(squares.outside(theta))
            checkpoint(dict(zip(free, history[-1].tolist(), strict=True)), f"weighting {len(history)}")
            if moved < 1e-9:
                break
    unbiased = None if problem.settings.solver == "least squares" else _unbiased(problem, combinations, squares, theta)
    if unbiased is None:
        matrix = white.jacobian(theta)
        groups = stack([Rows(r.matrix[..., : theta.size], r.rest) for r in rows], problem.windows.parts).groups
        # Linearised at θ: one more least-squares solution gives the covariance over groups.
        system = System(matrix, white.residual(theta) - matrix @ theta, groups)
        solution = solve(system, free, problem.settings.solver)
        tested = _with_share(problem, Tested(alternatives_of(problem, full(solution.theta))), combinations, theta)
    else:
        solution, tested = unbiased
        history.append(squares.outside(solution.theta))
    solution, tested, notes = squares.rooted(solution, tested)
    # The result is stated in the physical parameters, not in the combinations.
    reported = replace(regressors, linear=free, nonlinear=(), factors=None)
    values = regressors.placed(problem.values, free, solution.theta)
    now = combinations(squares.inside(solution.theta))[0][:-1]
    left = [r.residual(now) for r in rows]
    here = replace(problem, regressors=reported, values=values)
    return estimate_of(here, solution, history, left, tested, regressors, (*notes, *_other_solutions(free, others)))


def _other_solutions(free: Sequence[str], others: list[Numbers]) -> list[str]:
    """Return warnings about other solutions.

    These fit as well as the one returned.
    """
    return [
        f"The equations have another solution that fits as well: "
        f"{', '.join(f'{n} = {v:.4g}' for n, v in zip(free, other.tolist(), strict=True))}. Products and powers admit "
        "both: give the parameters bounds that leave one."
        for other in others
    ]


def _unbiased(
    problem: WeakProblem, combinations: _Combinations, squares: Squares, theta: Numbers
) -> tuple[RowSolution, Tested] | None:
    """Return the root of the score near θ.

    The score is Jᵀ W r of the rows as they are, without its bias; None where there is no root near. Rows divided by the
    size of their terms prefer larger terms, because of their noise: a bias that the score itself does not have. But the
    score has roots where the terms vanish, so only a root close to θ is accepted.
    """
    names, first = problem.request.names, theta

    def full(theta: Numbers) -> Numbers:
        return problem.regressors.placed(problem.values, names, squares.outside(theta))

    for _ in range(ROUNDS):
        factors = weigh(problem, full(theta))
        rows_at = _rows_of(combinations, theta)
        system = stack(whiten(rows_at(problem), factors), problem.windows.parts)
        system = replace(system, rest=system.rest - system.matrix @ theta)
        solution = solve(system, names, problem.settings.solver)
        deviation = np.sqrt(np.diag(solution.covariance))
        # Squares may be near zero, where no relative change is small.
        near = np.maximum(FARTHEST_ROOT * np.abs(first), np.where(squares.even, FARTHEST_SQUARE * deviation, 0.0))
        if (np.abs(solution.theta - first) > near).any():
            return None
        settled = (np.abs(solution.theta - theta) < 0.01 * deviation).all()
        theta = solution.theta
        if settled:
            break
    tested = Tested(alternatives_of(problem, full(theta)))
    return corrected(problem, factors, solution, tested, rows_at)


def _with_share(problem: WeakProblem, tested: Tested, combinations: _Combinations, theta: Numbers) -> Tested:
    """Return the test with the share of noise.

    The share of the information of the columns at θ that is noise. Where it is all of it, the score has no root near θ,
    and this explains why.
    """
    if not corrects_bias(problem):
        return tested
    factors, rows_at = weigh(problem, tested.alternatives.values), _rows_of(combinations, theta)
    system = stack(whiten(rows_at(problem), factors), problem.windows.parts)
    pulls = pulls_of_noise(problem, factors, system.groups, rows_at, tested.alternatives)
    return replace(tested, share=pulls.share(system.matrix.T @ system.matrix))


def _rows_of(combinations: _Combinations, theta: Numbers) -> RowsAt:
    """Return a function for rows r(θ) and their derivatives."""
    c, slopes = combinations(theta)

    def made(problem: WeakProblem) -> list[Rows]:
        return [Rows(r.matrix @ slopes[:-1], r.residual(c[:-1])) for r in problem.rows()]

    return made


def _apart(rows: list[Rows], functions: int, factors: list[Whitener] | None = None) -> list[Numbers]:
    """Return [A b] of every equation, separately.

    Each is (rows, combinations + 1) with all other equations zero, whitened by `factors`, in the order of `stack`.
    """
    result = []
    for first in range(0, rows[0].rest.shape[1], functions):
        here, alone = slice(first, first + functions), []
        for piece in rows:
            matrix, rest = np.zeros_like(piece.matrix), np.zeros_like(piece.rest)
            matrix[:, here], rest[:, here] = piece.matrix[:, here], piece.rest[:, here]
            alone.append(Rows(matrix, rest))
        own = alone if factors is None else whiten(alone, factors)
        full = [np.concatenate([r.matrix, r.rest[..., None]], axis=2) for r in own]
        result.append(np.concatenate([f.reshape(-1, f.shape[2]) for f in full]))
    return result


def _mean_squares(rows: list[Rows], functions: int) -> Numbers:
    """Return the mean square of every term.

    The result is (equations, combinations + 1), the mean over the rows of an equation.
    """
    full = np.concatenate([np.concatenate([r.matrix, r.rest[..., None]], axis=2) for r in rows])
    return (full**2).mean(axis=0).reshape(-1, functions, full.shape[2]).mean(axis=1)


def _compressed(columns: list[Numbers]) -> Numbers:
    """Return triangular factors of the rows per equation.

    They are blocks of one matrix and give the same sums of squares from few numbers.
    """
    factors = [triangular_factor(part[np.any(part != 0, axis=1)]) for part in columns]
    return block_diag(*factors) / np.sqrt(max(len(columns[0]), 1))


@dataclass(frozen=True)
class _Terms:
    """Rows divided by the size of their terms.

    The residual is Σ_e A_e c(θ) s_e / |terms of equation e at θ|.
    squares (equations, k + 1): mean squares of the terms; rows (n, equations (k + 1)): all A_e side by side; usual
    (equations,): sizes s_e that the terms had when the rows were whitened, 1 for rows as they are.
    """

    combinations: _Combinations
    squares: Numbers
    rows: Numbers = field(default_factory=lambda: np.empty((0, 0)))
    usual: Numbers | float = 1.0

    def sizes(self, c: Numbers) -> Numbers:
        """Return the size of the terms (equations,).

        This is the root of the sum of their mean squares.
        """
        return np.sqrt(self.squares @ c**2)

    def residual(self, theta: Numbers) -> Numbers:
        c, _ = self.combinations(theta)
        # A step to values that overflow gives NaN, which the search rejects.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.rows @ np.outer(self.usual / self.sizes(c), c).ravel()

    def jacobian(self, theta: Numbers) -> Numbers:
        c, slopes = self.combinations(theta)
        now = self.sizes(c)
        # Derivative of the logarithm of the size of the terms.
        inward = (self.squares * c) @ slopes / (now**2)[:, None]
        change = slopes[None] - c[:, None] * inward[:, None, :]
        return self.rows @ ((self.usual / now)[:, None, None] * change).reshape(-1, theta.size)


def _least_squares(residual: Any, start: Numbers, jacobian: Any, bounds: Any, **options: Any) -> OptimizeResult:
    """Return the result of SciPy's least squares."""
    from scipy.optimize import least_squares

    return least_squares(residual, start, jacobian, bounds, **options)


def _search(problem: WeakProblem, terms: _Terms, squares: Squares) -> tuple[Numbers, list[Numbers]]:
    """Find the best values from many starts.

    The equations are fulfilled best relative to their terms. The second value lists other solutions that fit as well.
    """
    given, (low, high) = squares.inside(problem.request.start), squares.bounds(*problem.request.bounds)
    size = np.where(np.isfinite(given) & (given != 0), given, np.clip(1.0, low, high))
    known = np.where(np.isfinite(given), given, size)
    random = np.random.default_rng(problem.settings.seed)
    # Log-uniform: masses and lengths are positive and known to a factor.
    spread = FARTHEST ** random.uniform(-1.0, 1.0, (STARTS, known.size))
    starts = np.clip(np.vstack([known, size * np.where(squares.even, spread**2, spread)]), low, high)
    shared = Shared((terms, low, high))
    parts = [(shared, some) for some in np.array_split(starts, STARTS // TOGETHER)]
    best: OptimizeResult | None = None
    ends = [found for some in in_order(problem.request.executor, _from_starts, parts) for found in some]
    for found in ends:
        if best is None or found.cost < best.cost * (1 - ALIKE):
            best = found
    if best is None or not np.isfinite(best.cost):
        raise ConvergenceError(
            f"The equations cannot be evaluated near the values of {', '.join(problem.names)}: start from others by "
            f"{Set('values')}.",
            best,
        )
    alike = [found.x for found in ends if found.cost <= best.cost * (1 + ALIKE) + ROUNDING]
    return best.x, [squares.outside(x) for x in _isolated(terms, best, alike)]


def _isolated(terms: _Terms, best: OptimizeResult, ends: list[Numbers]) -> list[Numbers]:
    """Return the distinct solutions among the ends, each once.

    Half way to the best one, or to another, the fit is worse. The same numbers with other signs are not another
    solution.
    """
    kept: list[Numbers] = [best.x]
    for end in ends:
        # Products and even powers do not determine signs.
        mirrored = (np.abs(np.abs(end) - np.abs(best.x)) <= DISTINCT * np.abs(best.x)).all()
        halfway = (0.5 * float((terms.residual((end + k) / 2) ** 2).sum()) for k in kept)
        if not mirrored and all(cost > (1 + DISTINCT) * best.cost + ROUNDING for cost in halfway):
            kept.append(end)
    return kept[1:]


def _from_starts(shared: Shared[tuple[_Terms, Numbers, Numbers]], starts: Numbers) -> list[OptimizeResult]:
    """Return the end of the search from each start.

    starts: (S, free); those at which a term is not defined are skipped.
    """
    (terms, *bounds), ends = shared.value, []
    for start in starts:
        try:
            scale = np.where(start != 0, np.maximum(np.abs(start), 1e-12), 1.0)
            ends.append(_least_squares(terms.residual, start, terms.jacobian, bounds, x_scale=scale))
        except ValueError:
            continue
    return ends


def _settle(white: _Terms, theta: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return the best values for whitened rows.

    The rows are whitened at the present values.
    """
    # Only the triangular factor enters the sum of squares, and it has as few rows as columns.
    few = replace(white, rows=triangular_factor(white.rows))
    start, scale = np.clip(theta, low, high), np.where(theta != 0, np.maximum(np.abs(theta), 1e-12), 1.0)
    return _least_squares(few.residual, start, few.jacobian, (low, high), x_scale=scale, xtol=1e-12, ftol=1e-14).x
