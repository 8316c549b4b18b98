"""Fits to measured branches and bifurcation points.

The data are points of responses, backbones and limit cycles, and parameter values of bifurcations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from kapitza.base.argument_checks import Count, Positive, Reals
from kapitza.base.arrays import Array
from kapitza.base.cures import Fit, marked
from kapitza.base.monitor import checkpoint
from kapitza.data import MeasuredBranch
from kapitza.errors import ConvergenceError, DataError, FlowError, KapitzaError, Status
from kapitza.estimate.branch_fit.curves import Distances, distances
from kapitza.estimate.branch_fit.families import Begun, Branches
from kapitza.estimate.branch_fit.judge import misfit_of, noise_share, widening_of
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.parts import NoiseAlone
from kapitza.estimate.request import Part, Request
from kapitza.estimate.result import make_estimate
from kapitza.solve import LeastSquaresResult, LeastSquaresSettings, gauss_newton

ROUGH = 0.5
"""Largest error, in standard deviations, of a spline through every other point of the branch at those left out; the
spline through all points is about fifty times better."""

MOST_HALVINGS = 4
"""Most halvings of the step along a branch that is rough."""

POOR = 0.1
"""Residuals as a share of the signal from which other starts are tried: a model that is a little wrong has a few per
cent at most, a fit in a local minimum more."""

FACTORS = (0.6, 1.6)
"""Range of the factors on the free parameters, for other starts."""

SMALLEST_TERM, TERM_STEPS = 1e-5, 3
"""First coefficient of a term that the model lacks, and most further ones, up to a thousand times larger each."""

UNDETERMINED = 1e-12
"""Smallest eigenvalue of the scaled information, relative to the largest, below which parameters are undetermined."""


@dataclass(frozen=True)
class BranchFit(Estimator):
    """Fit branches of the model to measured points.

    The fit minimises the squared distances of the points from the branches.

    For each θ the whole branch is followed through its folds, in both directions from wherever a motion is found; a
    measured point counts with its distance d perpendicular to the curve, in units of the standard deviations of
    parameter, amplitude, and period or phase where they were measured, so stable and unstable points, and points next
    to folds, are treated alike. At a sharp tip more noise falls outside than inside: the residual is
    (d - E d)/√(var d) with the moments of d for a true point at the foot of the perpendicular. Steps along the branch
    are halved until curves through every other point differ from it by less than the noise. Bifurcations count with
    the distance of their value. Derivatives are taken by differences. Where the fit misses the points by more than a
    tenth of the signal, other starts are tried. Where it misses them by more than noise explains, intervals come from a
    jackknife over blocks of neighbouring points, and `misfit` states by how much.

    Parameters
    ----------
    bounds : (float, float), optional
        Of the parameter along the branch; by default a little beyond the data.
    start : optional
        State from which a motion settles (None: the model's start).
    step : float
        Of the differences, relative.
    max_iterations : int
        Of the least-squares iteration.
    largest_step : float
        Longest step along a branch, relative to orbit and parameter; shorter ones where the noise requires it.
    starts : int
        Further starts, at most, where the first one leads to a poor fit.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(
    ...     "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    ... )
    >>> branch = kz.follow(model, None, "omega", bounds=(0.9, 1.2))
    >>> omega, x = branch.values[:, 0], branch.amplitude("x")
    >>> data = kz.MeasuredBranch("response", "omega", omega[::4], x[::4], state="x")
    >>> fit = kz.identify(model.with_values(c=0.12), data, free=["c"], method=kz.BranchFit())
    >>> round(fit["c"], 3)
    0.1
    """

    accepts: ClassVar[Accepts] = Accepts(sources=(MeasuredBranch,))

    bounds: tuple[float, float] | None = None
    start: Mapping[str, float] | Reals | None = None
    step: Positive = 1e-4
    max_iterations: Count = 20
    largest_step: Positive = 0.06
    starts: Count = 6

    def fit(self, request: Request) -> Estimate:
        request.require_free()
        request.require_start()
        _check(request)
        trials = _Trials(self, request)
        found = self._searched(trials, request)
        if found is None:
            raise ConvergenceError(
                f"The model has no branch to compare with, from {1 + self.starts} starts. {trials.problem} Start "
                f"nearer, or give {Fit('branch', start=...)} a state from which the motion settles."
            )
        found, signs = _with_signs(trials, request, found)
        return _estimate(self, request, trials, found, signs)

    def _searched(self, trials: _Trials, request: Request) -> LeastSquaresResult | None:
        """Return the best fit of several starts.

        Others than the first are tried only where it leads to a poor fit.
        """
        low, high = request.bounds
        # A millionth of the cost is about a thousandth of a standard deviation, below the error of the differences.
        settings = LeastSquaresSettings(step_tolerance=1e-6, cost_tolerance=1e-6, max_iterations=self.max_iterations)
        best: LeastSquaresResult | None = None
        for theta in _starts(request, self.starts):
            try:
                found = gauss_newton(trials.evaluate, theta, low, high, settings=settings)
            except FlowError as problem:
                trials.problem = marked(problem)
                continue
            if best is None or found.cost < best.cost:
                best = found
            # Residuals are in units of the noise; noise_share turns them into a share of the signal.
            if best.status.ok and np.sqrt(np.mean(best.residual**2)) * trials.noise_share < POOR:
                break
        return best

    def limits(self, data: MeasuredBranch) -> tuple[float, float]:
        """Return the range in which a branch is followed."""
        if self.bounds is not None:
            return self.bounds
        low, high = float(data.values.min()), float(data.values.max())
        margin = 0.1 * (high - low) or 0.3 * abs(low) or 1.0
        return low - margin, high + margin


def _check(request: Request) -> None:
    """Refuse parameters that vary along the data.

    Also refused: kinds of data that do not suit the model, and too few points.
    """
    sources = [source for source, _ in _curves(request)]
    moved = {source.parameter for source in sources} & set(request.names)
    if moved:
        raise DataError(f"{', '.join(sorted(moved))} moves along the data and cannot be free as well.")
    request.model.needs_repetition("branches of orbits")
    forced = request.model.excitation is not None
    if forced and any(source.kind == "cycle" for source in sources):
        raise DataError('The model has a drive: its motions are of kind "response", not "cycle".')
    if not forced and any(source.kind == "response" for source in sources):
        raise DataError('The model has no drive: its motions are of kind "cycle", not "response".')
    count = sum(len(source) for source in sources)
    if count < len(request.names):
        raise DataError(f"{count} measured points do not determine {len(request.names)} parameters.")


def _curves(request: Request) -> list[tuple[MeasuredBranch, Part]]:
    return [(part.source, part) for part in request.parts if isinstance(part.source, MeasuredBranch)]


def _starts(request: Request, count: int) -> Iterator[Array]:
    """Yield the given start, then random ones (seeded).

    Each free parameter is multiplied by a factor within FACTORS.
    """
    start = request.start
    yield start
    random = np.random.default_rng(0)
    low, high = request.bounds
    for _ in range(count):
        yield np.clip(start * np.exp(random.uniform(np.log(FACTORS[0]), np.log(FACTORS[1]), start.size)), low, high)


@dataclass
class _Trials:
    """Residuals at trial values of the parameters.

    The best trial so far is reported to the monitor, which returns it when the fit is stopped.
    """

    method: BranchFit
    request: Request
    begun: Begun = field(default_factory=Begun)
    cost: float = float("inf")
    count: int = 0
    problem: str = ""
    last: list[Distances] = field(default_factory=list)

    def __post_init__(self):
        self.curves = _curves(self.request)
        self.noise_share = noise_share([source for source, _ in self.curves])
        self.detect = any(not source.curve for source, _ in self.curves)

    def distances(self, theta: Array, steps: list[float], before: list[Distances] | None = None) -> list[Distances]:
        """Return the distances of all data at theta.

        Steps along the branches are at most `steps`.
        """
        checkpoint()
        model = self.request.model_at(theta)
        # Data of the same model and range share one branch within this trial.
        branches = Branches(self.method.limits, self.method.start, self.detect, self.begun)
        try:
            return [
                distances(
                    source,
                    branches.of(i, source, model.with_values(**part.values), steps[i]),
                    before[i] if before else None,
                )
                for i, (source, part) in enumerate(self.curves)
            ]
        except (ConvergenceError, KapitzaError) as problem:
            raise FlowError(f"No branch at {_written(self.request.names, theta)}: {marked(problem)}") from None

    def residual(self, theta: Array) -> tuple[Array, Array, list[Distances], list[float]]:
        """Return the standardised residuals at theta.

        The deviations of the distances, the distances, and the steps they needed are returned as well.
        """
        steps = [self.method.largest_step] * len(self.curves)
        for _ in range(MOST_HALVINGS):
            here = self.distances(theta, steps)
            # Only branches that are too rough get shorter steps: continuation is the costly part of a trial.
            if all(each.roughness < ROUGH for each in here):
                break
            steps = [s / 2 if each.roughness >= ROUGH else s for s, each in zip(steps, here, strict=True)]
        moments = [each.moments() for each in here]
        mean, deviation = (np.concatenate([m[i] for m in moments]) for i in (0, 1))
        return (np.concatenate([each.values for each in here]) - mean) / deviation, deviation, here, steps

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        residual, deviation, here, steps = self.residual(theta)
        self.note(theta, 0.5 * float(residual @ residual), here)
        values = np.concatenate([each.values for each in here])
        columns = []
        for i, value in enumerate(theta):
            # A parameter that is zero still needs a step.
            step = self.method.step * max(abs(value), 1e-3)
            ahead = theta.copy()
            ahead[i] = value + step
            # The moments belong to the curve and move with it: only the distances are differenced.
            there = np.concatenate([each.values for each in self.distances(ahead, steps, here)])
            columns.append((there - values) / step / deviation)
        return residual, np.stack(columns, axis=1)

    def note(self, theta: Array, cost: float, here: list[Distances]) -> None:
        self.count += 1
        reached = None
        if cost < self.cost:
            self.cost, self.last = cost, here
            reached = dict(zip(self.request.names, theta.tolist(), strict=True))
        checkpoint(reached, f"trial {self.count}, cost {self.cost:.6g}", stage="distances", cost=self.cost)


def term_columns(method: BranchFit, request: Request, theta: Array, free: int) -> tuple[Array, Array]:
    """Return the slopes (R, k) and residuals (R,) of the distances.

    The parameters after the first `free` are coefficients of terms that are 0: their size is not known, and the step
    of each is such that the distances change by about a standard deviation.
    """
    trials = _Trials(method, request)
    residual, deviation, here, steps = trials.residual(theta)
    values, columns = np.concatenate([each.values for each in here]), []
    for i in range(theta.size):
        step = method.step * max(abs(theta[i]), 1e-3) if i < free else SMALLEST_TERM
        for _ in range(1 if i < free else TERM_STEPS):
            ahead = theta.copy()
            ahead[i] += step
            there = np.concatenate([each.values for each in trials.distances(ahead, steps, here)])
            column = (there - values) / step / deviation
            largest = float(np.abs(column).max()) * step
            if largest > 0.1:
                break
            step *= min(0.5 / max(largest, 1e-12), 1e3)
        columns.append(column)
    return np.stack(columns, axis=1), residual


def _with_signs(
    trials: _Trials, request: Request, found: LeastSquaresResult
) -> tuple[LeastSquaresResult, tuple[str, ...]]:
    """Return the fit with undetermined signs of the start.

    Amplitudes are the same for ± a force. Where both signs fit equally well, that of the start is kept.
    """
    turned = np.flatnonzero(found.x * request.start < 0)
    undecided = []
    for i in turned:
        other = found.x.copy()
        other[i] = -other[i]
        low, high = request.bounds
        if not low[i] <= other[i] <= high[i]:
            continue
        try:
            residual, jacobian = trials.evaluate(other)
        except FlowError:
            continue
        # Equal up to the accuracy of the branches.
        if 0.5 * float(residual @ residual) <= found.cost + 1e-3 * (1 + found.cost):
            found = replace(found, x=other, residual=residual, jacobian=jacobian)
            undecided.append(request.names[i])
    return found, tuple(undecided)


def _estimate(
    method: BranchFit, request: Request, trials: _Trials, found: LeastSquaresResult, undecided: tuple[str, ...]
) -> Estimate:
    """Return the estimate with its intervals.

    The intervals follow from noise and are widened where the branches miss the points by more than noise explains.
    """
    misfit = misfit_of([source for source, _ in trials.curves], trials.last, found.residual, found.jacobian)
    warnings = [
        f"The amplitudes are the same for {name} and -{name}: the sign of the start was kept. Phases determine it."
        for name in undecided
    ]
    parts = {
        "chi2": float(found.residual @ found.residual), "residuals": {"distance": found.residual}, "settings": method,
        "misfit": misfit,
    }  # fmt: skip
    # Unit columns: the test of rank must not depend on units.
    size = np.maximum(np.linalg.norm(found.jacobian, axis=0), 1e-300)
    information = (found.jacobian / size).T @ (found.jacobian / size)
    eigenvalues = np.linalg.eigvalsh(information)
    if eigenvalues[0] <= UNDETERMINED * eigenvalues[-1]:
        warnings.append(f"The points do not determine {', '.join(request.names)}: free fewer, or add other branches.")
        unknown = np.full((found.x.size, found.x.size), np.inf)
        return make_estimate(
            request, "BranchFit", found.x, unknown, status=Status.SINGULAR, warnings=tuple(warnings), **parts
        )
    covariance = np.linalg.inv(information) / np.outer(size, size)
    wider = widening_of(trials.last, found.residual, found.jacobian, misfit)
    dof, alone = float("inf"), NoiseAlone(covariance)
    warnings += misfit.warnings()
    if wider is not None:
        covariance, dof = wider.of(covariance), wider.freedom
        warnings += wider.warnings()
    if not found.status.ok:
        warnings.append(
            f"The fit did not converge ({found.message}): these are the best values found, without intervals."
        )
    return make_estimate(
        request, "BranchFit", found.x, covariance, status=found.status, dof=dof, noise_alone=alone,
        warnings=tuple(warnings), **parts,
    )  # fmt: skip


def _written(names: tuple[str, ...], theta: Array) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, theta, strict=True))
