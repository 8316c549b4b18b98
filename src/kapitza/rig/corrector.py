"""Corrector for one point of a measured branch.

It works on residuals with noise and also updates the Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import RigError, Status
from kapitza.rig.branch import RigPoint
from kapitza.rig.experiment import Residual, RigFamily, RigUnsettledError
from kapitza.rig.limits import RigBeyondError
from kapitza.solve import DenseLinearised, DenseSolver, MeasuredBordered, NewtonSettings, newton

Array = NDArray[Any]


@dataclass(frozen=True)
class RigStepping:
    """Steps of the continuation on a rig.

    Lengths are in scaled unknowns.
    Steps grow by 1.3 after two iterations or fewer and shrink by 0.7 after five or more; a failure halves them. largest
    0.2: with 0.3 a parabola through five points misses a fold by a per cent. noise_level: a point holds when the rms of
    its residuals over their deviations is below this (below 1.2 few points converge, 4 costs a per cent on a fold).
    renew: after so many failures at one point the Jacobian is measured again.
    beyond: share of the scales that modes without unknowns may hold before modes are added (or the point is refused).
    """

    first: float = 0.1
    smallest: float = 5e-3
    largest: float = 0.2
    max_points: int = 80
    max_iterations: int = 8
    noise_level: float = 2.0
    renew: int = 2
    beyond: float = 5e-3
    difference: float = 0.05

    def following(self, step: float, effort: int | None) -> float:
        if effort is None:
            return step / 2
        factor = 1.3 if effort <= 2 else 0.7 if effort >= 5 else 1.0
        return float(min(self.largest, max(step * factor, self.smallest)))


class TooFewModesError(RigError):
    """Energy in modes that are not unknowns.

    The result would look converged and be wrong.
    """


CARRIED = 1.0
"""Share of a correction by a carried Jacobian that is counted as its error: it was not measured at the point itself."""


@dataclass(frozen=True)
class Solved:
    """A corrected point or the reason why not."""

    z: Array | None
    found: Residual | None
    jacobian: Array
    iterations: int
    message: str = ""
    noise: float = float("nan")


def solved(
    family: RigFamily,
    z: Array,
    row: Array,
    target: float,
    jacobian: Array,
    stepping: RigStepping,
    last: RigPoint | None = None,
) -> Solved:
    """Correct a point on measured residuals.

    Newton with Broyden updates; in doubt the last point is measured again, longer.
    last: the point the guess comes from; the step between the two is the first update of the Jacobian.
    """
    system = MeasuredBordered(family, row[None], np.array([target]))
    settings = NewtonSettings(
        max_iterations=stepping.max_iterations, update="broyden", noise_level=stepping.noise_level, largest_step=0.5
    )
    try:
        begin = jacobian if last is None else _learnt(family, last, z, jacobian)
        result = newton(system, z, settings, family.scale, begin=system.beside(begin))
        at = result.linearised
        after = at.jacobian[:-1] if isinstance(at, DenseLinearised) else begin
        if result.status is Status.PROPAGATION_FAILED or not np.isfinite(result.x).all():
            return Solved(None, None, jacobian, result.iterations, result.message)
        if not result.status.ok and result.status is not Status.ITERATION_LIMIT:
            return Solved(None, None, jacobian, result.iterations, result.message or result.status.value)
        found = family.residual(result.x)
        noise = in_deviations(found)
        if not result.status.ok and noise < 2 * stepping.noise_level:
            # A residual just above the level may be noise: a longer mean decides.
            found = family.residual(result.x, again=True)
            noise = in_deviations(found)
    except (RigUnsettledError, RigBeyondError, np.linalg.LinAlgError) as problem:
        return Solved(None, None, jacobian, stepping.max_iterations, str(problem))
    if not result.status.ok and noise > stepping.noise_level:
        text = f"{result.iterations} iterations leave residuals of {noise:.1f} standard deviations."
        return Solved(None, None, jacobian, result.iterations, text, noise)
    return Solved(result.x, found, after, result.iterations, "", noise)


def in_deviations(found: Residual) -> float:
    """Return residuals in standard deviations, rms."""
    return float(np.sqrt(np.mean((found.value / found.deviation) ** 2)))


def _learnt(family: RigFamily, last: RigPoint, z: Array, jacobian: Array) -> Array:
    """Update the carried Jacobian by the step.

    The step leads from the last point to the guess.
    The corrector starts at the guess, so the measurement there is needed anyway.
    """
    experiment = family.experiment
    if last.modes != experiment.modes:
        return jacobian
    here = experiment.residual(last.measurement, last.measurement.demands, family.values(last.z))
    there = family.residual(z)
    known = DenseLinearised(here.value, jacobian)
    return known.updated(z - last.z, there.value, family.scale).jacobian


def made_point(family: RigFamily, outcome: Solved, measurements: int, arclength: float) -> RigPoint:
    assert outcome.z is not None
    assert outcome.found is not None
    found = outcome.found.measurement
    experiment = family.experiment
    efforts = [0.0]
    for k, part in enumerate(experiment.tracked):
        # Control is an acceleration: it is compared with that of the motion itself.
        own = found.series(part.feedback).with_modes(experiment.modes).derivative(2).rms
        efforts.append(float(found.effort[k]) / max(own, 1e-300))
    square = outcome.jacobian[:, :-1] * family.scale[:-1]
    inverse = np.linalg.pinv(outcome.jacobian[:, :-1])
    # Residuals within the noise were accepted: their size counts as uncertainty too.
    left = outcome.found.deviation**2 + outcome.found.value**2
    # The shortest correction in scaled unknowns is across the branch.
    nearest = np.linalg.pinv(outcome.jacobian * family.scale) * family.scale[:, None]
    correction = -nearest @ outcome.found.value
    doubt = CARRIED * correction
    across = (nearest * outcome.found.deviation**2) @ nearest.T + np.outer(doubt, doubt)
    try:
        sign = DenseSolver(square / np.abs(square).max(axis=1, keepdims=True)).sign
    except np.linalg.LinAlgError:
        sign = 0
    return RigPoint(
        value=float(outcome.z[-1]),
        z=outcome.z,
        jacobian=outcome.jacobian,
        measurement=found,
        residual=outcome.noise,
        effort=max(efforts),
        beyond=experiment.missing_modes(outcome.found),
        modes=experiment.modes,
        measurements=measurements,
        arclength=arclength,
        sign=sign,
        spread=(inverse * left) @ inverse.T,
        channels=tuple(i.feedback or i.name for i in experiment.inputs),
        deviation=float(np.sqrt(nearest[-1] ** 2 @ left)),
        correction=correction,
        across=across,
    )
