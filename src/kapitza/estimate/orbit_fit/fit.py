"""Settings of `OrbitFit`, and its search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, Seed
from kapitza.base.arrays import Array
from kapitza.base.cures import By, Give
from kapitza.base.part_fields import Former
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.data import FITTED, Noise, Record
from kapitza.errors import ConvergenceError, FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.orbit_fit.covariance import residual_deviations
from kapitza.estimate.orbit_fit.judge import Outcome, acceptable, decided, post_mortem, resembles
from kapitza.estimate.orbit_fit.matching import far_off, sort_out
from kapitza.estimate.orbit_fit.multipliers import MultiplierTerms
from kapitza.estimate.orbit_fit.nested import NestedFit
from kapitza.estimate.orbit_fit.problem import OrbitProblem
from kapitza.estimate.orbit_fit.result import estimate_of
from kapitza.estimate.orbit_fit.solver import OrbitSolution, Solver
from kapitza.estimate.orbit_fit.starts import continue_readings, further_starts
from kapitza.estimate.orbit_fit.task import OrbitTask, identifiability, prepare, refuse_unidentifiable, weights_of
from kapitza.estimate.request import Request
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.of_models import Method

ESTIMATORS = ("auto", "least squares", "weighted", "maximum likelihood", "bayes")
FORMULATIONS = ("all-at-once", "nested")

SAME_CHI2 = 9.0
"""Difference in χ² up to which the data do not decide between two minima."""


@dataclass(frozen=True)
class OrbitFit(Estimator):
    """Match measured periodic orbits by orbits of the model.

    The method follows PERIODIC chapter 2 and ORBITS chapter 5.

    Minimises Σ_orbits |W (h(x(t_i), θ) - y_i)|² (and the priors) over the parameters θ and the states of all orbits,
    where every orbit must close: Φ(x_j, θ) = x_{j+1} around it. Orbits may have different periods and, given as pairs
    (orbits, {name: value}), different excitations. The work is linear in the orbits and in their nodes.

    Parameters
    ----------
    estimator : str
        "auto" (weights from the orbits' covariances or `noise`, else the noise of each channel is estimated; priors
        where parameters have them), "least squares", "weighted", "maximum likelihood", "bayes".
    formulation : str
        "all-at-once" (states and parameters together) or "nested" (each orbit solved at each trial, by `method`).
    method : periodic solver, optional
        Such as ``Collocation()``, for the nested formulation.
    outputs : mapping
        What a channel measures where it is neither state nor output of the model: ``{"v": "phi'*l"}``, or
        ``{"phi'": DifferenceQuotient("phi", 0.01508)}``.
    noise : float or mapping, optional
        Standard deviation for all channels or by channel (0: exact), where the orbits carry no covariance.
    multipliers : bool
        Also fit the Floquet multipliers, weighted by their uncertainty.
    profiles : bool, optional
        Fit sampled profiles instead of section points (default: where an orbit has no covariance).
    period : int, optional
        Excitation periods per repetition of a record.
    nodes : int
        Shooting nodes per excitation period of sampled data.
    derived : mapping
        Expressions to report with their errors: ``{"k2/m": "k2/m"}``.
    start_orbits : list of PeriodicOrbit or states, optional
        Orbits of the model, or states near them, to begin from where the data do not show every state; otherwise they
        are sought: near the model's start, where it settles, and by continuation.
    restarts, spread : int, float
        How many other starts are tried when a minimum is refused by its χ², and how far they reach, relative.
    set_aside : bool
        Orbits that the model does not have are left out, with the reason; False: all must match.
    tolerance, max_iterations, seed, throw
        Of the last relative step; of the iteration; of the restarts; raise where no minimum is believed.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.duffing()
    >>> orbit = kz.solve_orbit(model, profile=False).with_(covariance=1e-6 * np.eye(2))
    >>> fit = kz.identify(model.with_values(k=0.1), [orbit], free=["k"], method=kz.OrbitFit())
    >>> round(fit["k"], 6)
    0.08
    >>> list(fit.matches.table["matched"])
    ['yes']
    """

    accepts: ClassVar[Accepts] = Accepts(
        sources=(Record, PeriodicOrbit, OrbitSet),
        unknown=tuple(error.name for error in FITTED if not error.timed),
        likelihood="orbits",
    )

    estimator: str = "auto"
    formulation: str = "all-at-once"
    method: Anything = None
    outputs: Mapping[str, Anything] = field(default_factory=dict)
    noise: Noise = None
    multipliers: bool = False
    profiles: bool | None = None
    period: int | None = None
    nodes: int = 4
    derived: Mapping[str, str] = field(default_factory=dict)
    start_orbits: Sequence[Anything] = ()
    restarts: int = 12
    spread: float = 0.7
    set_aside: bool = True
    tolerance: float = 1e-9
    max_iterations: int = 60
    seed: Seed = 0
    throw: bool = True

    starts = Former[Sequence[object]]("start_orbits")

    def __post_init__(self) -> None:
        checks.seed(self.seed)
        checks.choice("estimator", self.estimator, ESTIMATORS)
        checks.choice("formulation", self.formulation, FORMULATIONS)
        if self.method is not None and self.formulation != "nested":
            raise KapitzaError(
                f"method = {self.method!r} solves single orbits, which only the nested form does: add "
                f"{Give(formulation='nested')}, or leave method out."
            )
        if self.method is not None and not isinstance(self.method, Method):
            raise KapitzaError(f"{self.method!r} is not a periodic solver: pass Shooting() or Collocation().")
        for name, least in (("nodes", 1), ("restarts", 0), ("max_iterations", 1)):
            checks.whole(name, getattr(self, name), least=least)
        for name in ("spread", "tolerance"):
            checks.number(name, getattr(self, name), above=0)
        for name in ("multipliers", "set_aside", "throw"):
            checks.flag(name, getattr(self, name))
        if self.period is not None:
            checks.whole("period, in excitation periods,", self.period, least=1)

    def fit(self, request: Request) -> Estimate:
        """Fit the parameters to the orbits of the data."""
        task = prepare(request, self)
        starts = further_starts(task, request.start, self.restarts, self.spread, self.seed)
        known = identifiability(task, starts)
        if self.throw:
            refuse_unidentifiable(task, known)
        outcome = self.search(task, request.executor)
        estimate = estimate_of(task, outcome, known, self)
        if self.throw and not outcome.accepted:
            raise ConvergenceError(post_mortem(task, outcome), estimate)
        return estimate

    def search(self, task: OrbitTask, executor: Executor | None = None) -> Outcome:
        """Search a minimum that χ² accepts.

        The fit starts from the given values, then by continuation from them, then from others. Where χ² can hardly
        decide (few degrees of freedom) all starts are tried, and minima that fit as well are kept too.
        """
        best: Outcome | None = None
        others: list[Outcome] = []
        trouble, tried = "", 0
        for tried, (begun, found) in enumerate(self._attempts(task, executor), start=1):
            if isinstance(found, FlowError):
                trouble = f" ({found})"
                continue
            outcome = replace(found, attempts=tried, begun=begun)
            if outcome.accepted and best is not None and best.accepted:
                # Of two accepted minima the one that explains more orbits, or the same ones better, is kept.
                better = (len(outcome.reasons), outcome.objective) < (len(best.reasons), best.objective - SAME_CHI2)
                others.append(best if better else outcome)
                best = outcome if better else best
            elif best is None or outcome.merit < best.merit:
                best = outcome
            if best is not None and best.accepted and decided(task, best):
                break
        if best is None:
            raise ConvergenceError(
                f"{By('orbits')}: the model could not be run from any of {tried} starts{trouble}: check their values."
            )
        if not best.accepted and resembles(task, best):
            best = replace(best, accepted=True, resembling=True)
        return replace(best, tried=tried, alternatives=_distinct(best, others))

    def _attempts(self, task: OrbitTask, executor: Executor | None) -> Iterator[tuple[str, Outcome | FlowError]]:
        """Yield fits from one start after the other.

        Each is made when the loop requests it; an executor makes the last ones in advance.
        """
        given = task.request.start
        yield "the given values", _attempted(self, Shared(task), given)
        if not self.restarts:
            return
        # Before random starts: continuation stays near the given values.
        led = continue_readings(task, task.deviations, given)
        if led is not None:
            yield "continuation from the given values", _attempted(self, Shared(task), led)
        starts = further_starts(task, given, self.restarts, self.spread, self.seed, executor)
        shared = Shared(task)
        parts = [(self, shared, theta) for number, theta in enumerate(starts) if number]
        for found in in_order(executor, _attempted, parts):
            yield "a point around them", found

    def attempt(self, task: OrbitTask, theta: Array) -> Outcome:
        """Fit from one start.

        Solve, put lost orbits back, set unmatched ones aside, estimate noise, add multipliers.
        """
        problem, deviations = task.problem, task.deviations
        solution = self._solve(task, problem, weights_of(task, problem, deviations), theta, problem.starts(), True)
        matched: tuple[int, ...] = tuple(range(len(problem.targets)))
        reasons: dict[int, str] = {}
        returned: set[int] = set()
        # Setting orbits aside moves the parameters, which may bring others back.
        for _ in range(4 if self.set_aside else 0):
            if far_off(problem, solution):
                break
            found = sort_out(task.problem, weights_of(task, task.problem, deviations), matched, solution)
            now = tuple(found.matched)
            if (now == matched and not found.returned) or 2 * len(now) < len(task.problem.targets):
                break
            matched, reasons = now, found.reasons
            returned |= set(found.returned)
            problem = task.problem.subset(list(matched))
            weights = weights_of(task, problem, deviations)
            solution = self._solve(task, problem, weights, solution.theta, list(found.matched.values()), False)
        outcome = Outcome(problem, solution, deviations, matched, reasons, np.ones(len(matched)), solution.covariance)
        if not solution.status.ok:
            return outcome
        outcome = self._inflated(task, self._settled(task, outcome))
        back = tuple(sorted(returned & set(matched)))
        outcome = replace(outcome, without_multipliers=outcome.solution.covariance, returned=back)
        if self.multipliers:
            outcome = self._with_multipliers(task, outcome)
        return replace(outcome, accepted=acceptable(task, outcome))

    def _solve(
        self, task: OrbitTask, problem: OrbitProblem, weights: list[Array], theta: Array, unknowns: list[Array],
        far: bool,
    ) -> OrbitSolution:  # fmt: skip
        settings = self.tolerance, self.max_iterations
        solver = Solver(problem, weights, task.low, task.high, task.typical, None, *settings)
        if self.formulation == "nested":
            return NestedFit(solver, self.method).solve(theta, unknowns)
        return solver.solve(theta, unknowns, far)

    def _again(self, task: OrbitTask, outcome: Outcome) -> Outcome:
        """Solve again with other weights.

        It starts from the last solution, for the noise and the inflation of the outcome.
        """
        weights = weights_of(task, outcome.problem, outcome.deviations, outcome.inflation)
        last = outcome.solution
        return replace(outcome, solution=self._solve(task, outcome.problem, weights, last.theta, last.unknowns, False))

    def _settled(self, task: OrbitTask, outcome: Outcome) -> Outcome:
        """Estimate noise and parameters in turn.

        Maximum likelihood estimates the noise of every channel, least squares one common factor.
        """
        for _ in range(0 if task.noise_known else 10):
            if not outcome.solution.status.ok:
                break
            now = residual_deviations(task, outcome.problem, outcome.solution)
            change = np.log(now / outcome.deviations)
            outcome = self._again(task, replace(outcome, deviations=now))
            # A common factor on all channels does not move the parameters.
            if np.ptp(change) < 1e-3:
                break
        return outcome

    def _inflated(self, task: OrbitTask, outcome: Outcome) -> Outcome:
        """Inflate the covariance of orbits that fit badly.

        An orbit that fits worse than its covariance allows gets a factor on its variances.
        """
        from scipy import stats

        # With fewer than four orbits the data do not show which of them is wrong.
        several = task.noise_known and self.set_aside and len(outcome.matched) >= 4
        for _ in range(3 if several else 0):
            sizes = np.array([r.residual.size for r in outcome.solution.reduced])
            misfit = np.array([float((r.residual**2).mean()) for r in outcome.solution.reduced]) * outcome.inflation
            # Just so much that χ² of the orbit is as large as chance allows once in a thousand.
            wanted = np.maximum(1.0, misfit * sizes / stats.chi2.isf(1e-3, sizes))
            if np.allclose(wanted, outcome.inflation, rtol=0.05):
                break
            outcome = self._again(task, replace(outcome, inflation=wanted))
        return outcome

    def _with_multipliers(self, task: OrbitTask, outcome: Outcome) -> Outcome:
        from scipy import stats

        problem, solution = outcome.problem, outcome.solution
        settings = max(self.tolerance, 1e-8), self.max_iterations
        weights = weights_of(task, problem, outcome.deviations, outcome.inflation)
        spread = np.ones(len(problem.targets))
        for _ in range(3):
            terms = MultiplierTerms(problem, spread, weights)
            solver = Solver(problem, weights, task.low, task.high, task.typical, terms, *settings)
            found = solver.solve(solution.theta, solution.unknowns, soft=False)
            extra = [r.residual[len(w) :] for r, w in zip(found.reduced, weights, strict=True)]
            misfit = np.array([float((part**2).max(initial=0.0)) for part in extra])
            # Multipliers that disagree by more than chance get larger errors instead of distorting the fit.
            wanted = np.maximum(1.0, np.sqrt(misfit * spread**2 / stats.chi2.isf(1e-3, 1)))
            if np.allclose(wanted, spread, rtol=0.05):
                break
            spread = wanted
        return replace(outcome, solution=found, extra=terms)


def _attempted(settings: OrbitFit, task: Shared[OrbitTask], theta: Array) -> Outcome | FlowError:
    """Return one fit, or the error of its start."""
    try:
        return settings.attempt(task.value, theta)
    except FlowError as error:
        return error


def _distinct(best: Outcome, others: list[Outcome]) -> tuple[Array, ...]:
    """Return the parameters of other accepted minima.

    Each is more than five standard errors away and not worse by χ².
    """
    found: list[Array] = []
    deviation = np.sqrt(np.clip(np.diag(best.solution.covariance), 1e-300, None))
    for other in others:
        theta = other.solution.theta
        near = [best.solution.theta, *found]
        if other.objective <= best.objective + SAME_CHI2 and all(
            (np.abs(theta - x) > 5 * deviation).any() for x in near
        ):
            found.append(theta)
    return tuple(found)
