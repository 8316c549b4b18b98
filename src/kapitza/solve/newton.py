"""The damped Newton corrector shared by every solver of nonlinear equations in Kapitza."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError, Status

Array = NDArray[np.float64]


class Linearised(Protocol):
    """The equations at one point: their residual, and the inverse (or generalised inverse) of their Jacobian."""

    @property
    def residual(self) -> Array: ...

    def solve(self, residual: Array) -> Array: ...


class System(Protocol):
    """Equations F(x) = 0. `residual` may be much cheaper than `linearise`; both may raise FlowError."""

    def residual(self, x: Array) -> Array: ...

    def linearise(self, x: Array) -> Linearised: ...


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of the corrector.

    tolerance: on the largest scaled component of the Newton step.
    damping: the smallest factor tried; `reuse`: keep a Jacobian while it contracts well (PERIODIC 4.42).
    largest_step: longest step taken, as a multiple of the scale (infinite: no limit).
    """

    tolerance: float = 1e-11
    max_iterations: int = 40
    damping: float = 1.0 / 256
    reuse: bool = False
    largest_step: float = float("inf")


@dataclass(frozen=True)
class NewtonRow:
    """One iteration: scaled norms of step and residual, the damping factor, the contraction that was seen."""

    step: float
    residual: float
    damping: float
    contraction: float
    fresh: bool


@dataclass(frozen=True)
class NewtonResult:
    """x, how the iteration ended, one row per iteration, and the last linearisation (for sensitivities)."""

    x: Array
    status: Status
    history: tuple[NewtonRow, ...]
    linearised: Linearised | None
    message: str = ""

    @property
    def iterations(self) -> int:
        return len(self.history)


@dataclass(frozen=True)
class DenseLinearised:
    """Residual (m,) with a dense Jacobian (m, m); a singular one raises LinAlgError when it is solved with."""

    residual: Array
    jacobian: Array

    def solve(self, residual: Array) -> Array:
        return np.asarray(np.linalg.solve(self.jacobian, residual), np.float64)


@dataclass(frozen=True)
class DenseSystem:
    """A system from two plain functions."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]

    def residual(self, x: Array) -> Array:
        return self.function(x)

    def linearise(self, x: Array) -> DenseLinearised:
        return DenseLinearised(self.function(x), self.derivative(x))


@dataclass
class _Iteration:
    """What changes while the corrector runs."""

    x: Array
    scale: Array
    history: list[NewtonRow] = field(default_factory=list)

    def norm(self, step: Array) -> float:
        return float(np.linalg.norm(step / self.scale) / np.sqrt(step.size))

    def largest(self, step: Array) -> float:
        return float(np.abs(step / self.scale).max())


def newton(
    system: System,
    start: Array,
    settings: NewtonSettings | None = None,
    scale: Array | float = 1.0,
) -> NewtonResult:
    """Solve F(x) = 0 by a damped Newton iteration.

    x_{v+1} = x_v - λ Q⁻¹ F(x_v) with λ = 1, 1/2, 1/4, … the first for which the step that follows with the same Q is
    shorter, ‖Q⁻¹ F(x_{v+1})‖ ≤ (1 - λ/4) ‖Q⁻¹ F(x_v)‖ (PERIODIC 4.38-4.41; the factor follows Deuflhard's natural
    monotonicity test, which does not change when the equations are rescaled). With `reuse`, Q is kept
    while full steps contract below 0.0625 m/(m + 1) (4.42). Generalised inverses in `solve` make it Gauss-Newton.

    scale: (m,) sizes of the unknowns. Errors of kind FlowError at a trial point shorten the step.
    """
    settings = settings or NewtonSettings()
    run = _Iteration(np.array(start, float), np.broadcast_to(np.asarray(scale, float), np.shape(start)))
    try:
        here = system.linearise(run.x)
        step = -here.solve(here.residual)
    except np.linalg.LinAlgError:
        return NewtonResult(run.x, Status.SINGULAR, (), None, "The Jacobian at the start is singular.")
    except FlowError as error:
        return NewtonResult(run.x, Status.PROPAGATION_FAILED, (), None, str(error))
    status, message, here = _iterate(system, settings, run, here, step)
    return NewtonResult(run.x, status, tuple(run.history), here, message)


def _iterate(
    system: System, settings: NewtonSettings, run: _Iteration, here: Linearised, step: Array
) -> tuple[Status, str, Linearised]:
    fresh, damping = True, 1.0
    reuse_below = 0.0625 * run.x.size / (run.x.size + 1)
    for _ in range(settings.max_iterations):
        length, size = run.norm(step), run.largest(step)
        if not np.isfinite(length):
            return Status.DIVERGED, "A Newton step is not finite.", here
        if size <= settings.tolerance:
            run.x = run.x + step
            run.history.append(NewtonRow(size, float(np.abs(here.residual).max()), 1.0, 0.0, fresh))
            return Status.CONVERGED, "", here
        start_damping = min(1.0, 2 * damping, settings.largest_step / size)
        found = _search(system, settings, run, here, step, start_damping)
        if found is None:
            if not fresh:
                # The kept Jacobian may be the culprit: renew it once before giving up.
                here = system.linearise(run.x)
                step, fresh = -here.solve(here.residual), True
                continue
            if size <= 1e3 * settings.tolerance:
                return Status.CONVERGED, "The steps stopped shrinking at rounding level.", here
            return Status.STALLED, f"No damped step shortens the next one (step {size:.2e}).", here
        damping, trial, after, next_step, contraction = found
        run.x = trial
        run.history.append(NewtonRow(size, float(np.abs(here.residual).max()), damping, contraction, fresh))
        if settings.reuse and damping == 1.0 and contraction < reuse_below:
            step, fresh = next_step, False
            continue
        try:
            here = after if after is not None else system.linearise(trial)
            step, fresh = -here.solve(here.residual), True
        except np.linalg.LinAlgError:
            return Status.SINGULAR, f"The Jacobian is singular after {len(run.history)} iterations.", here
    return Status.ITERATION_LIMIT, f"{settings.max_iterations} iterations, last step {run.largest(step):.2e}.", here


def _search(
    system: System, settings: NewtonSettings, run: _Iteration, here: Linearised, step: Array, damping: float
) -> tuple[float, Array, Linearised | None, Array, float] | None:
    """The first damping factor that shortens the next step: (factor, point, its linearisation, next step, ratio)."""
    length = run.norm(step)
    while damping >= settings.damping:
        trial = run.x + damping * step
        try:
            # Without reuse the Jacobian at the trial point is wanted anyway, and comes with the residual.
            after = None if settings.reuse else system.linearise(trial)
            residual = system.residual(trial) if after is None else after.residual
        except FlowError:
            damping /= 2
            continue
        next_step = -here.solve(residual)
        contraction = run.norm(next_step) / length
        rounding = run.largest(next_step) <= settings.tolerance
        if np.isfinite(contraction) and (contraction <= 1 - damping / 4 or rounding):
            return damping, trial, after, next_step, contraction
        damping /= 2
    return None
