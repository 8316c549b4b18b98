"""Precise measurement of a tracked motion.

The motion is corrected for the remaining control and has a valid covariance.

While a branch is followed, a point is good enough when its residuals are of the size of the noise. Its distance from
the free motion is then J⁻¹ r, with a Jacobian that was carried along by updates: near folds too short by a factor. Here
the Jacobian is measured at the point, the demands are corrected, and the correction and its covariance follow from
longer means.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import RigError
from kapitza.rig.branch import RigPoint
from kapitza.rig.experiment import Experiment, Residual, RigFamily, resized

LARGEST_CORRECTION = 0.1
"""Share of its coefficients by which an orbit of a branch may be corrected; near a fold a step is unreliable."""


@dataclass(frozen=True)
class OrbitSettings:
    """Settings of the measurement of an orbit.

    average: periods in each mean; patience: periods to wait after two agree; repeats: means at the last demand.
    corrections: Newton steps at most; difference: of the Jacobian, as a share of the scales; share: of the last
    correction that counts as its error, for the curvature that differences of this size overlook.
    """

    average: int = 6
    patience: int = 3
    repeats: int = 4
    corrections: int = 4
    difference: float = 0.03
    share: float = 0.2

    def __post_init__(self):
        if self.average < 2 or self.repeats < 2 or self.corrections < 1:
            raise RigError(
                f"average = {self.average}, repeats = {self.repeats}, corrections = {self.corrections}: give 2, 2, 1 "
                "or more."
            )


def measure_orbit(
    experiment: Experiment, point: RigPoint, parameter: str, settings: OrbitSettings | None = None
) -> RigPoint:
    """Measure the free motion next to a point.

    The motion is at the parameters of the point and carries the covariance of its coefficients.

    With r̄ the mean residual at the last demands z̃ and J = ∂r/∂z̃ measured there, the control vanishes at
    z* = z̃ - J⁻¹ r̄. Its covariance is J⁻¹ S J⁻ᵀ: S holds the scatter of the means (sensors, what the controller passes
    on, drift from one mean to the next), the noise of J times the correction, and a share of the correction itself.

    Parameters
    ----------
    parameter : str
        The parameter that the branch was followed in.

    Returns
    -------
    RigPoint
        with `refined` True; `RigBranch.with_points` puts it in its place, `orbits` then takes its covariance.
    """
    settings = settings or OrbitSettings()
    family = RigFamily(experiment, parameter, abs(point.value) or 1.0, settings.difference)
    z = resized(point.z, experiment).copy()
    began = experiment.measurements
    with experiment.rig, patiently(experiment, settings):
        z, jacobian = family.resolved(z)
        found = family.residual(z)
        matrix = jacobian[:, :-1]
        for _ in range(settings.corrections):
            if np.sqrt(np.mean((found.value / found.deviation) ** 2)) <= 1.5:
                break
            step = np.linalg.solve(matrix, found.value)
            if np.linalg.norm(step) > LARGEST_CORRECTION * np.linalg.norm(z[:-1]):
                raise RigError(
                    f"The orbit at {parameter} = {point.value:.6g} is too near a fold to be measured with {parameter} "
                    "held: the measured control leads to another orbit. Take a point farther along the branch."
                )
            z[:-1] -= step
            found = family.residual(z)
        means = [found]
        while len(means) < settings.repeats:
            experiment.forget()
            means.append(family.residual(z))
        return _refined(family, point, z, jacobian, means, settings, experiment.measurements - began)


@contextmanager
def patiently(experiment: Experiment, settings: OrbitSettings) -> Iterator[None]:
    """Measure with longer means.

    Settings and modes are restored after.
    """
    before, modes = (experiment.resolution, experiment.average, experiment.patience), experiment.modes
    experiment.resolution, experiment.average, experiment.patience = (
        0.1 * before[0],
        settings.average,
        settings.patience,
    )
    try:
        yield
    finally:
        experiment.resolution, experiment.average, experiment.patience = before
        if experiment.modes != modes:
            experiment.modes, experiment.noise.variance = modes, None


def _refined(
    family: RigFamily,
    point: RigPoint,
    z: Array,
    jacobian: Array,
    means: list[Residual],
    settings: OrbitSettings,
    measurements: int,
) -> RigPoint:
    values = np.array([m.value for m in means])
    mean = values.mean(axis=0)
    variance = variance_of_the_mean(values, means[-1].deviation, len(family.experiment.blocks()))
    inverse = np.linalg.inv(jacobian[:, :-1])
    correction = -inverse @ mean
    # A column of J is a difference of two means over the step.
    step = family.share * family.scale[:-1]
    # Both means of a difference carry noise.
    column = 2 * means[-1].deviation ** 2
    noise = variance + column * float(np.sum((correction / step) ** 2))
    spread = (inverse * noise) @ inverse.T + settings.share**2 * np.outer(correction, correction)
    found = means[-1].measurement
    coefficients = np.mean([m.measurement.coefficients for m in means], axis=0)
    deviations = found.deviations / np.sqrt(len(means))
    count = spread.shape[0] // len(point.channels)
    for k, name in enumerate(point.channels):
        channel, block = found.outputs.index(name), slice(k * count, (k + 1) * count)
        coefficients[channel, :count] = (
            z[:-1][block] + correction[block]
            if k < len(family.experiment.tracked)
            else coefficients[channel, :count] + correction[block]
        )
        deviations[channel, :count] = np.sqrt(np.diag(spread)[block])
    return replace(
        point,
        z=np.append(z[:-1] + correction, z[-1]),
        jacobian=jacobian,
        measurement=replace(found, coefficients=coefficients, deviations=deviations),
        residual=float(np.sqrt(np.mean(mean**2 / variance))),
        modes=family.experiment.modes,
        measurements=point.measurements + measurements,
        spread=spread,
        refined=True,
        correction=None,
        across=None,
        deviation=0.0,  # the parameter was held: all of the noise is in the motion
    )


def variance_of_the_mean(values: Array, deviation: Array, blocks: int) -> Array:
    """Return the variance (m,) of mean residuals.

    Each of several residuals (n, m) has the learnt deviation (m,).
    Noise that is alike in successive periods shows as more scatter between the means than was learnt; it is pooled
    over the modes of a block. The constant term, which contains slow drift, uses its own scatter.
    """
    count = len(values)
    scatter = np.var(values, axis=0, ddof=1)
    result = np.empty(values.shape[1])
    size = values.shape[1] // blocks
    for k in range(blocks):
        rows = slice(k * size, (k + 1) * size)
        # Less scatter than learnt is chance and does not narrow the covariance.
        factor = max(1.0, float(np.mean(scatter[rows][1:] / deviation[rows][1:] ** 2)))
        result[rows] = factor * deviation[rows] ** 2
        result[k * size] = max(result[k * size], float(scatter[k * size]))
    return result / count
