"""BranchFit: parameters from points of responses and backbones, and from where bifurcations were seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.interpolate import make_interp_spline
from scipy.optimize import linear_sum_assignment

from kapitza.arrays import Array, Indices
from kapitza.continuation import Branch, Kind, MeasuredBranch, Stepping, backbone, follow
from kapitza.errors import ConvergenceError, DataError, FlowError, KapitzaError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.request import Request
from kapitza.estimate.result import make_estimate
from kapitza.model import Model
from kapitza.monitor import Interrupted, Silent, checkpoint
from kapitza.solve import ByEffort, LeastSquaresSettings, gauss_newton

FINE = 6000
"""Points of the spline through a branch among which the nearest one to a measured point is looked for."""

DEGREE = 5
"""Of that spline."""

ROUGH = 0.5
"""Standard deviations by which a spline through every other point of the branch may miss those left out: with all of
them it is some fifty times better."""

MOST_HALVINGS = 4
"""Of the step along a branch that is rough."""


@dataclass(frozen=True)
class BranchFit:
    """Least squares on the distance of measured points from the branches of the model.

    For each θ the whole branch is followed through its folds; a measured point counts with its distance d at right
    angles to the curve, in units of the standard deviations of parameter and amplitude, so stable and unstable points,
    and points next to folds, are treated alike. At a sharp tip more noise falls outside than inside: the residual is
    (d - E d)/√(var d) with the moments of d for a true point at the foot of the perpendicular. Steps along the branch
    are halved until curves through every other point differ from it by less than the noise. Bifurcations count with
    the distance of their value. Derivatives are taken by differences.

    Parameters
    ----------
    bounds : (float, float), optional
        Of the parameter along the branch; by default a little beyond the data.
    start : optional
        State from which a response settles at its first value (None: the model's start).
    step : float
        Of the differences, relative.
    max_iterations : int
        Of the least-squares iteration.
    largest_step : float
        Longest step along a branch, relative to orbit and parameter; shorter ones where the noise asks for it.

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

    bounds: tuple[float, float] | None = None
    start: Any = None
    step: float = 1e-4
    max_iterations: int = 20
    largest_step: float = 0.06

    def fit(self, request: Request) -> Estimate:
        request.require_free()
        request.require_start()
        curves = [(p.source, p.setting) for p in request.parts if isinstance(p.source, MeasuredBranch)]
        wrong = [part.label for part in request.parts if not isinstance(part.source, MeasuredBranch)]
        if wrong:
            raise DataError(
                f"BranchFit works on measured branches, not on {', '.join(wrong)}: pass MeasuredBranch(...)."
            )
        moved = {source.parameter for source, _ in curves} & set(request.names)
        if moved:
            raise DataError(f"{', '.join(sorted(moved))} moves along the data and cannot be free as well.")
        count = sum(len(source) for source, _ in curves)
        if count < len(request.names):
            raise DataError(f"{count} measured points do not determine {len(request.names)} parameters.")

        detect = any(not source.curve for source, _ in curves)

        best = _Best(request.names)

        def distances(theta: Array, steps: list[float]) -> list[_Distances]:
            checkpoint()
            model = request.model.with_values(**dict(zip(request.names, theta.tolist(), strict=True)))
            branches = _Branches(self, detect)
            try:
                pairs = zip(curves, steps, strict=True)
                return [self._distances(source, setting(model), branches, step) for (source, setting), step in pairs]
            except (ConvergenceError, KapitzaError) as problem:
                raise FlowError(f"No branch at {_written(request.names, theta)}: {problem}") from None

        def evaluate(theta: Array) -> tuple[Array, Array]:
            steps = [self.largest_step] * len(curves)
            for _ in range(MOST_HALVINGS):
                here = distances(theta, steps)
                if all(each.roughness < ROUGH for each in here):
                    break
                steps = [s / 2 if each.roughness >= ROUGH else s for s, each in zip(steps, here, strict=True)]
            # The moments move with the curve: only the distances themselves are differenced.
            values = np.concatenate([each.values for each in here])
            moments = [each.moments() for each in here]
            mean, deviation = (np.concatenate([m[i] for m in moments]) for i in (0, 1))
            residual = (values - mean) / deviation
            best.note(theta, 0.5 * float(residual @ residual))
            columns = []
            for i, value in enumerate(theta):
                step = self.step * max(abs(value), 1e-3)
                ahead = theta.copy()
                ahead[i] = value + step
                there = np.concatenate([each.values for each in distances(ahead, steps)])
                columns.append((there - values) / step / deviation)
            return residual, np.stack(columns, axis=1)

        low, high = request.bounds
        # A millionth of the cost is some thousandth of a standard deviation: below, differences say nothing.
        settings = LeastSquaresSettings(step_tolerance=1e-6, cost_tolerance=1e-6, max_iterations=self.max_iterations)
        found = gauss_newton(evaluate, request.start, low, high, settings=settings)
        information = found.jacobian.T @ found.jacobian
        try:
            covariance = np.asarray(np.linalg.inv(information), np.float64)
        except np.linalg.LinAlgError:
            raise KapitzaError(
                f"The points do not tell {', '.join(request.names)} apart: free fewer, or add other branches."
            ) from None
        dof = count - len(request.names)
        chi2 = float(found.residual @ found.residual)
        warnings = []
        if dof > 0 and chi2 > dof + 5 * np.sqrt(2 * dof):
            warnings.append(
                f"The points lie {np.sqrt(chi2 / dof):.1f} standard deviations from the branches on average: the model "
                "does not follow them, or the noise is larger than stated. The intervals do not count that."
            )
        return make_estimate(
            request, "BranchFit", found.x, covariance, status=found.status, chi2=chi2, warnings=tuple(warnings),
            residuals={"distance": found.residual}, settings=self,
        )  # fmt: skip

    def _distances(self, data: MeasuredBranch, model: Model, branches: _Branches, step: float) -> _Distances:
        branch = branches.of(data, model, step)
        if not data.curve:
            return _Distances(_from_bifurcations(data, branch))
        curve, roughness = _finely(branch, data)
        assert data.amplitudes is not None
        points = np.stack([data.values / data.value_noise, data.amplitudes / data.amplitude_noise], axis=1)
        values, feet = _from_curve(points, curve)
        return _Distances(values, roughness, curve, feet)

    def limits(self, data: MeasuredBranch) -> tuple[float, float]:
        """Between which the branch of some data is followed."""
        if self.bounds is not None:
            return self.bounds
        low, high = float(data.values.min()), float(data.values.max())
        margin = 0.1 * (high - low) or 0.3 * abs(low) or 1.0
        return low - margin, high + margin


@dataclass
class _Best:
    """The best values tried so far: what is given back when the fit is stopped."""

    names: tuple[str, ...]
    cost: float = float("inf")
    trials: int = 0

    def note(self, theta: Array, cost: float) -> None:
        self.trials += 1
        reached = None
        if cost < self.cost:
            self.cost, reached = cost, dict(zip(self.names, theta.tolist(), strict=True))
        checkpoint(reached, f"trial {self.trials}, cost {self.cost:.6g}")


@dataclass
class _Branches:
    """The branches of one trial of the parameters: data of one model and range share theirs."""

    method: BranchFit
    detect: bool
    known: dict[tuple, Branch] = field(default_factory=dict)

    def of(self, data: MeasuredBranch, model: Model, step: float) -> Branch:
        limits = self.method.limits(data)
        forced = data.kind != "backbone"
        key = (model.vector.tobytes(), data.parameter, limits, step, "" if forced else (data.force, data.damping))
        if key not in self.known:
            stepping = Stepping(rule=ByEffort(min(0.02, step), 1e-7, step, wanted=6))
            found = (
                follow(
                    model.with_values(**{data.parameter: limits[0]}), self.method.start, data.parameter, limits,
                    direction=1, stepping=stepping, monitor=Silent(), detect=self.detect,
                )
                if forced
                else backbone(
                    model, data.parameter, force=data.force, damping=data.damping, bounds=limits, stepping=stepping,
                    monitor=Silent(),
                )
            )  # fmt: skip
            if found.status is Status.INTERRUPTED:
                # A part of a branch is no answer of the model: the fit stops with it.
                raise Interrupted
            self.known[key] = found
        return self.known[key]


@dataclass(frozen=True)
class _Distances:
    """Of measured points from a branch, in standard deviations; feet: where on the curve (FINE, 2) they stand.

    roughness: how far the curve through every other point of the branch is from the points left out.
    """

    values: Array
    roughness: float = 0.0
    curve: Array | None = None
    feet: Indices | None = None

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation (N,) of the distance of a point whose true place is its foot: 0 and 1 on a line.

        By Gauss-Hermite quadrature over the noise in both directions.
        """
        if self.curve is None or self.feet is None:
            return np.zeros(self.values.size), np.ones(self.values.size)
        nodes, weights = hermegauss(5)
        weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
        cloud = np.stack([each.ravel() for each in np.meshgrid(nodes, nodes)], axis=1)
        spread = np.stack([_from_curve(self.curve[foot] + cloud, self.curve)[0] for foot in self.feet])
        mean = spread @ weights
        return mean, np.sqrt((spread - mean[:, None]) ** 2 @ weights)


def _finely(branch: Branch, data: MeasuredBranch) -> tuple[Array, float]:
    """The parameter and the amplitude along the branch in their standard deviations, (FINE, 2), and its roughness."""
    if len(branch) < 2 * (DEGREE + 1):
        raise ConvergenceError(f"The branch has {len(branch)} points only: {branch.end_messages[1]}")
    s = branch.arclength - branch.arclength[0]
    points = np.stack(
        [branch.values[:, 0] / data.value_noise, branch.amplitude(data.state, 256) / data.amplitude_noise], axis=1
    )
    fine = np.linspace(0.0, s[-1], FINE)
    half = make_interp_spline(s[::2], points[::2], k=DEGREE)(np.linspace(0.0, s[::2][-1], FINE))
    left_out = _from_curve(points[1 : s[::2].size * 2 - 2 : 2], half)[0]
    return make_interp_spline(s, points, k=DEGREE)(fine), float(np.abs(left_out).max())


def _from_bifurcations(data: MeasuredBranch, branch: Branch) -> Array:
    """Distances (N,) of the measured places from those of the model, each from another one, the nearest in all."""
    found = np.array([b.value for b in branch.of(Kind(data.kind))])
    if len(found) < len(data):
        raise ConvergenceError(f"The model has {len(found)} {data.kind} points where {len(data)} were measured.")
    gaps = (found[None] - data.values[:, None]) / data.value_noise
    rows, columns = linear_sum_assignment(gaps**2)
    return gaps[rows, columns]


def _written(names: tuple[str, ...], theta: Array) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, theta, strict=True))


def _from_curve(points: Array, curve: Array) -> tuple[Array, Indices]:
    """Signed distances (N,) of points (N, 2) from a polyline (M, 2), positive on its left, and their feet on it."""
    # |p - q|² without |p|², which decides nothing.
    square = (curve**2).sum(axis=1) - 2 * (points @ curve.T)
    nearest = np.clip(square.argmin(axis=1), 1, len(curve) - 2)
    along = curve[nearest + 1] - curve[nearest - 1]
    length = np.linalg.norm(along, axis=1)
    away = points - curve[nearest]
    return (along[:, 0] * away[:, 1] - along[:, 1] * away[:, 0]) / length, nearest
