"""BranchFit: parameters from points of responses and backbones, and from where bifurcations were seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import linear_sum_assignment

from kapitza.continuation import Branch, Kind, MeasuredBranch, Stepping, backbone, follow
from kapitza.errors import ConvergenceError, DataError, FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.request import Request
from kapitza.estimate.result import make_estimate
from kapitza.model import Model
from kapitza.monitor import Silent
from kapitza.solve import ByEffort, LeastSquaresSettings, gauss_newton

Array = NDArray[np.float64]

FINE = 6000
"""Points of the spline through a branch among which the nearest one to a measured point is looked for."""


@dataclass(frozen=True)
class BranchFit:
    """Least squares on the distance of measured points from the branches of the model.

    For each θ the whole branch is followed through its folds; a measured point counts with its distance at right angles
    to the curve, in units of the standard deviations of parameter and amplitude, so stable and unstable points, and
    points next to folds, are treated alike. Bifurcations count with the distance of their value. Derivatives are taken
    by differences.

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
        Largest relative change of a parameter in one iteration.

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
    largest_step: float = 0.12

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

        def residual(theta: Array) -> Array:
            model = request.model.with_values(**dict(zip(request.names, theta.tolist(), strict=True)))
            try:
                branches = _Branches(self, any(not source.curve for source, _ in curves))
                return np.concatenate([self._distances(source, setting(model), branches) for source, setting in curves])
            except (ConvergenceError, KapitzaError) as problem:
                raise FlowError(f"No branch at {_written(request.names, theta)}: {problem}") from None

        def evaluate(theta: Array) -> tuple[Array, Array]:
            here = residual(theta)
            columns = []
            for i, value in enumerate(theta):
                step = self.step * max(abs(value), 1e-3)
                ahead = theta.copy()
                ahead[i] = value + step
                columns.append((residual(ahead) - here) / step)
            return here, np.stack(columns, axis=1)

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

    def _distances(self, data: MeasuredBranch, model: Model, branches: _Branches) -> Array:
        branch = branches.of(data, model)
        if not data.curve:
            return _from_bifurcations(data, branch)
        parameter, amplitude = _finely(branch, data.state)
        assert data.amplitudes is not None
        return _from_curve(
            (data.values / data.value_noise, data.amplitudes / data.amplitude_noise),
            (parameter / data.value_noise, amplitude / data.amplitude_noise),
        )

    def limits(self, data: MeasuredBranch) -> tuple[float, float]:
        """Between which the branch of some data is followed."""
        if self.bounds is not None:
            return self.bounds
        low, high = float(data.values.min()), float(data.values.max())
        margin = 0.1 * (high - low) or 0.3 * abs(low) or 1.0
        return low - margin, high + margin


@dataclass
class _Branches:
    """The branches of one trial of the parameters: data of one model and range share theirs."""

    method: BranchFit
    detect: bool
    known: dict[tuple, Branch] = field(default_factory=dict)

    def of(self, data: MeasuredBranch, model: Model) -> Branch:
        limits = self.method.limits(data)
        forced = data.kind != "backbone"
        key = (model.vector.tobytes(), data.parameter, limits, "" if forced else (data.force, data.damping))
        if key not in self.known:
            largest = self.method.largest_step
            stepping = Stepping(rule=ByEffort(min(0.02, largest), 1e-7, largest, wanted=6))
            self.known[key] = (
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
        return self.known[key]


def _finely(branch: Branch, state: str) -> tuple[Array, Array]:
    """The parameter and the amplitude along the branch, finely."""
    if len(branch) < 4:
        raise ConvergenceError(f"The branch has {len(branch)} points only: {branch.end_messages[1]}")
    s = branch.arclength - branch.arclength[0]
    fine = np.linspace(0.0, s[-1], FINE)
    return CubicSpline(s, branch.values[:, 0])(fine), CubicSpline(s, branch.amplitude(state, 256))(fine)


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


def _from_curve(points: tuple[Array, Array], curve: tuple[Array, Array]) -> Array:
    """Signed distances (N,) of points from a polyline, positive on its left."""
    p, q = np.stack(points, axis=1), np.stack(curve, axis=1)
    square = ((p[:, None, :] - q[None]) ** 2).sum(axis=2)
    nearest = np.clip(square.argmin(axis=1), 1, len(q) - 2)
    along = q[nearest + 1] - q[nearest - 1]
    length = np.linalg.norm(along, axis=1)
    away = p - q[nearest]
    return (along[:, 0] * away[:, 1] - along[:, 1] * away[:, 0]) / length
