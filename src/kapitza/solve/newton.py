"""The Newton corrector of all solvers.

It solves nonlinear equations. The matrix is renewed at each iterate, kept while it contracts, kept for good, or updated
by Broyden's formula. The equations are exact (convergence by the step) or measured (convergence by their scatter).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Literal, Protocol, cast

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.errors import FlowError, Status
from kapitza.solve.lapack import gesv

FEW = 12
"""Numbers up to which a loop over them is quicker than array operations."""

Update = Literal["newton", "reuse", "chord", "broyden"]


class Linearised(Protocol):
    """The equations at one point.

    They give the residual, and the inverse (or generalised inverse) of the Jacobian.
    """

    @property
    def residual(self) -> Array: ...

    def solve(self, residual: Array) -> Array: ...


class System(Protocol):
    """Equations F(x) = 0.

    `residual` may be much cheaper than `linearise`; both may raise FlowError.
    """

    def residual(self, x: Array, /) -> Array: ...

    def linearise(self, x: Array, /) -> Linearised: ...


@dataclass(frozen=True)
class Measured:
    """A measured residual (m,) with standard deviations (m,)."""

    value: Array
    deviation: Array


class MeasuredSystem(ABC):
    """Equations whose residuals an experiment measures.

    Every residual has its standard deviation.

    There is no `linearise`: `newton` must be given a matrix to begin with, and updates it (update="broyden").
    """

    @abstractmethod
    def measure(self, x: Array, /) -> Measured: ...


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of the corrector.

    tolerance: on the largest scaled component of the Newton step.
    damping: the smallest factor tried; `reuse`: keep a Jacobian while it contracts well (PERIODIC 4.42).
    largest_step: longest step taken, as a multiple of the scale (infinite: no limit).
    update: "newton" (a fresh Jacobian at every iterate), "reuse" (as the flag), "chord" (the first one for good),
    "broyden" (rank-one updates of the first one).
    noise_level: measured equations hold when the root mean square of residual/deviation is below this. Below
    1.2 few points converge, 4 leaves errors of a per cent on a fold; 2 was right on the simulated rig.
    foresight: chord steps and Broyden's end as well when the last two promise that the next is below this many
    tolerances: the residual that would show it is not computed (0: it always is).
    """

    tolerance: float = 1e-11
    max_iterations: int = 40
    damping: float = 1.0 / 256
    reuse: bool = False
    largest_step: float = float("inf")
    update: Update = "newton"
    noise_level: float = 2.0
    foresight: float = 0.0

    @property
    def keeps(self) -> bool:
        return self.reuse or self.update == "reuse"


@dataclass(frozen=True)
class NewtonRow:
    """One iteration of the corrector.

    step, residual: scaled norms; damping: factor; contraction: observed ratio of steps.
    """

    step: float
    residual: float
    damping: float
    contraction: float
    fresh: bool


Observer = Callable[[NewtonRow, Array], bool | None]
"""Called after each iteration with its row and the iterate; returning True ends the iteration (INTERRUPTED)."""


@dataclass(frozen=True)
class NewtonResult:
    """Result of the corrector.

    It holds x, how the iteration ended, one row per iteration, and the last linearisation (for sensitivities).
    """

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
    """Residual (m,) with a dense Jacobian (m, m).

    `solve` raises LinAlgError for a singular one.
    """

    residual: Array
    jacobian: Array

    def solve(self, residual: Array) -> Array:
        _, _, found, info = gesv(self.jacobian, residual)
        if info > 0:
            raise np.linalg.LinAlgError("Singular matrix")
        return found

    def updated(self, step: Array, residual: Array, scale: Array) -> DenseLinearised:
        """Return Broyden's update after a step.

        The residual after the step is `residual`; the change is least in the scaled unknowns.
        """
        length = step / scale
        defect = (residual - self.residual - self.jacobian @ step) / float(length @ length)
        return DenseLinearised(residual, self.jacobian + defect[:, None] * (length / scale))


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
    """State of a running corrector."""

    x: Array
    scale: Array
    observe: Observer | None = None
    history: list[NewtonRow] = field(default_factory=list[NewtonRow])

    def norm(self, step: Array) -> float:
        scaled = step / self.scale
        return sqrt(float(scaled @ scaled) / step.size)

    def largest(self, step: Array) -> float:
        return _largest(step / self.scale)

    def note(self, row: NewtonRow) -> bool:
        """Keep a row of the history.

        Returns True when the observer wants to stop.
        """
        self.history.append(row)
        return bool(self.observe(row, self.x)) if self.observe is not None else False


def _largest(values: Array) -> float:
    """Return the largest magnitude, NaN where one is NaN.

    A few numbers are compared one by one, which is quicker than array operations.
    """
    if values.size > FEW:
        return float(np.maximum.reduce(np.abs(values)))
    listed = values.tolist()
    # Comparisons lose a NaN, a sum keeps it.
    if not isfinite(sum(listed)):
        return float(np.maximum.reduce(np.abs(values)))
    return max(max(listed), -min(listed))


STOPPED = "The observer ended the iteration."


def newton(
    system: System | MeasuredSystem,
    start: Array,
    settings: NewtonSettings | None = None,
    scale: Array | float = 1.0,
    begin: Linearised | None = None,
    observe: Observer | None = None,
) -> NewtonResult:
    """Solve F(x) = 0 by a damped Newton iteration.

    x_{v+1} = x_v - λ Q⁻¹ F(x_v) with λ = 1, 1/2, 1/4, … the first for which the step that follows with the same Q is
    shorter, ‖Q⁻¹ F(x_{v+1})‖ ≤ (1 - λ/4) ‖Q⁻¹ F(x_v)‖ (PERIODIC 4.38-4.41; the factor follows Deuflhard's natural
    monotonicity test, which does not change when the equations are rescaled). With update "reuse", Q is kept
    while full steps contract below 0.0625 m/(m + 1) (4.42). Generalised inverses in `solve` make it Gauss-Newton.
    With "chord" and "broyden" no Jacobian is computed after the first (or `begin`, a linearisation from a point
    nearby); steps are not damped, and the iteration gives up when they grow.

    scale: (m,) sizes of the unknowns. Errors of kind FlowError at a trial point shorten the step; other errors
    at a trial point, singular matrices included, end in the status of the result.
    """
    settings = settings or NewtonSettings()
    x = np.array(start, float)
    sizes = np.asarray(scale, float)
    run = _Iteration(x, sizes if sizes.shape == x.shape else np.broadcast_to(sizes, x.shape), observe)
    here = begin
    try:
        if isinstance(system, MeasuredSystem) or settings.update in ("chord", "broyden"):
            return _quasi_newton(system, settings, run, here)
        here = system.linearise(run.x)
        step = -here.solve(here.residual)
        status, message, here = _iterate(system, settings, run, here, step)
    except np.linalg.LinAlgError:
        done = len(run.history)
        where = f"after {done} iterations" if done else "at the start"
        return NewtonResult(run.x, Status.SINGULAR, tuple(run.history), here, f"The Jacobian {where} is singular.")
    except FlowError as error:
        return NewtonResult(run.x, Status.PROPAGATION_FAILED, tuple(run.history), here, str(error))
    return NewtonResult(run.x, status, tuple(run.history), here, message)


def _iterate(
    system: System, settings: NewtonSettings, run: _Iteration, here: Linearised, step: Array
) -> tuple[Status, str, Linearised]:
    fresh, damping = True, 1.0
    reuse_below = 0.0625 * run.x.size / (run.x.size + 1)
    for _ in range(settings.max_iterations):
        length, size = run.norm(step), run.largest(step)
        if not isfinite(length):
            return Status.DIVERGED, "A Newton step is not finite.", here
        if size <= settings.tolerance:
            run.x = run.x + step
            run.note(NewtonRow(size, _largest(here.residual), 1.0, 0.0, fresh))
            return Status.CONVERGED, "", here
        start_damping = min(1.0, 2 * damping, settings.largest_step / size)
        found = _search(system, settings, run, here, step, start_damping)
        if found is None:
            if not fresh:
                # The kept Jacobian may be too old: renew it once before failing.
                here = system.linearise(run.x)
                step, fresh = -here.solve(here.residual), True
                continue
            # Steps this small that no longer shrink are rounding of the residual.
            if size <= 1e3 * settings.tolerance:
                return Status.CONVERGED, "The steps stopped shrinking at rounding level.", here
            return Status.STALLED, f"No damped step shortens the next one (step {size:.2e}).", here
        damping, trial, after, next_step, contraction = found
        run.x = trial
        if run.note(NewtonRow(size, float(np.abs(here.residual).max()), damping, contraction, fresh)):
            return Status.INTERRUPTED, STOPPED, here
        if settings.keeps and damping == 1.0 and contraction < reuse_below:
            step, fresh = next_step, False
            continue
        here = after if after is not None else system.linearise(trial)
        step, fresh = -here.solve(here.residual), True
    return Status.ITERATION_LIMIT, f"{settings.max_iterations} iterations, last step {run.largest(step):.2e}.", here


def _search(
    system: System, settings: NewtonSettings, run: _Iteration, here: Linearised, step: Array, damping: float
) -> tuple[float, Array, Linearised | None, Array, float] | None:
    """Find the first damping factor that contracts.

    It shortens the next step. Returns (factor, point, its linearisation, next step, ratio); None where there is none.
    """
    length = run.norm(step)
    while damping >= settings.damping:
        trial = run.x + damping * step
        try:
            # Without reuse the Jacobian at the trial point is wanted anyway, and comes with the residual.
            after = None if settings.keeps else system.linearise(trial)
            residual = system.residual(trial) if after is None else after.residual
        except FlowError:
            damping /= 2
            continue
        next_step = -here.solve(residual)
        contraction = run.norm(next_step) / length
        rounding = run.largest(next_step) <= settings.tolerance
        if isfinite(contraction) and (contraction <= 1 - damping / 4 or rounding):
            return damping, trial, after, next_step, contraction
        damping /= 2
    return None


GROWTH = 2.0
"""A quasi-Newton step that is this many times longer than the shortest so far ends the iteration."""


def _quasi_newton(
    system: System | MeasuredSystem, settings: NewtonSettings, run: _Iteration, here: Linearised | None
) -> NewtonResult:
    """Iterate full steps with one matrix.

    The matrix is updated or not. An experiment, or a good guess nearby, needs no more.
    """
    update, evaluated = settings.update == "broyden", _evaluation(system)
    if here is None:
        if isinstance(system, MeasuredSystem):
            raise TypeError(
                f"A measured system has no Jacobian: pass {Give(begin=Code('DenseLinearised'))}(residual, jacobian)."
            )
        here = system.linearise(run.x)
        residual, deviation = here.residual, None
    else:
        residual, deviation = evaluated(run.x)
    shortest, step = float("inf"), residual

    def ended(status: Status, message: str = "") -> NewtonResult:
        return NewtonResult(run.x, status, tuple(run.history), here, message)

    for count in range(settings.max_iterations + 1):
        if update:
            known = cast(DenseLinearised, here)
            here = known.updated(step, residual, run.scale) if count else DenseLinearised(residual, known.jacobian)
        size_of_residual = _largest(residual)
        if deviation is not None:
            noise = float(np.sqrt(np.mean((residual / deviation) ** 2)))
            if noise <= settings.noise_level:
                return ended(Status.CONVERGED)
        step = -here.solve(residual)
        size = run.largest(step)
        if not isfinite(size):
            return ended(Status.DIVERGED, "A Newton step is not finite.")
        if deviation is None and size <= settings.tolerance:
            run.x = run.x + step
            run.note(NewtonRow(size, size_of_residual, 1.0, 0.0, False))
            return ended(Status.CONVERGED)
        if deviation is None and size > GROWTH * shortest:
            return ended(Status.DIVERGED, f"The steps grow ({size:.2e} after {shortest:.2e}): the matrix is too old.")
        if count == settings.max_iterations:
            break
        contraction = size / shortest if isfinite(shortest) else 0.0
        shortest = min(shortest, size)
        factor = min(1.0, settings.largest_step / size)
        step = step if factor == 1.0 else factor * step
        run.x = run.x + step
        if factor == 1.0 and size * contraction < settings.foresight * settings.tolerance and contraction > 0:
            run.note(NewtonRow(size, size_of_residual, factor, contraction, False))
            return ended(Status.CONVERGED)
        residual, deviation = evaluated(run.x)
        if run.note(NewtonRow(size, size_of_residual, factor, contraction, False)):
            return ended(Status.INTERRUPTED, STOPPED)
    return ended(Status.ITERATION_LIMIT, f"{settings.max_iterations} iterations, last step {shortest:.2e}.")


def _evaluation(system: System | MeasuredSystem) -> Callable[[Array], tuple[Array, Array | None]]:
    """Return a function of residual and deviation at x.

    The deviation is that of an experiment; None for exact equations.
    """
    if isinstance(system, MeasuredSystem):

        def measured(x: Array) -> tuple[Array, Array | None]:
            found = system.measure(x)
            return found.value, found.deviation

        return measured
    residual = system.residual
    return lambda x: (residual(x), None)
