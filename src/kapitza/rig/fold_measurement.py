"""Precise measurement of a fold.

It measures the Jacobian at the fold and means at three places; their noise gives the deviation.

The continuation accepts a point when its residuals are of the size of the noise, with a Jacobian that Broyden's updates
carried along. At a fold that Jacobian is worst where it matters: points stay where the predictor put them, outside the
tip, by more than their noise. Here the Jacobian J = ∂r/∂(z, p) is measured next to the fold. With r̄ the mean residual
there,

    p* = p - e_p · B⁻¹ (r̄, 0),   B = (J; τ),   var p* = b Σ bᵀ,   b the last row of B⁻¹,

is the parameter of the free motion in the plane across the branch (τ its direction), and t = τ · z the coordinate along
it. p*(t) is measured at three places; a polynomial through them and the corrected points of the branch turns at the
fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from kapitza.errors import RigError
from kapitza.rig.branch import RigBifurcation, RigBranch, RigPoint
from kapitza.rig.corrector import in_deviations
from kapitza.rig.experiment import Experiment, Residual, RigFamily, resized
from kapitza.rig.orbits import OrbitSettings, patiently, variance_of_the_mean
from kapitza.solve import singular_vectors

Array = NDArray[Any]

REACH, DEGREE = 0.6, 4
"""Arclength on either side of a fold from which points of the branch show its shape; degree of the polynomial."""

MODEL = 0.1
"""Share of its height above the fold by which the polynomial may miss a point."""

PRIOR = 4.0
"""Degrees of freedom that the deviations of the points count for, against their scatter about the polynomial."""

LEAST, MOST = 0.08, 0.2
"""Distance of the places from each other, in scaled unknowns."""


@dataclass(frozen=True)
class FoldSettings(OrbitSettings):
    """Settings of the measurement of a fold.

    average: periods in each mean; patience: periods to wait after two agree; repeats: means at each place.
    corrections: Newton steps at each place, at most; difference: of the Jacobian, as a share of the scales; share: of
    a correction that counts as its error; places: along the branch at which the parameter is measured.
    """

    average: int = 2
    patience: int = 2
    repeats: int = 3
    places: int = 3


def measure_fold(
    experiment: Experiment, branch: RigBranch, fold: int = 0, settings: FoldSettings | None = None
) -> RigBifurcation:
    """Measure a fold of a measured branch.

    About 30 measurements are made at the fold for 5 modes; modes are added where those beyond the unknowns matter.

    Parameters
    ----------
    fold : int
        Its number in `branch.folds`.

    Returns
    -------
    RigBifurcation
        with a deviation that follows from the noise; `RigBranch.with_folds` puts it in its place.
    """
    if not 0 <= fold < len(branch.folds):
        raise RigError(f"The branch has {len(branch.folds)} folds; there is no number {fold} (counted from 0).")
    known = branch.folds[fold]
    settings = settings or FoldSettings()
    family = RigFamily(experiment, branch.parameter, abs(known.value) or 1.0, settings.difference)
    with experiment.rig:
        return fold_at(family, branch.points, known.position, settings)[0]


def fold_at(
    family: RigFamily, points: Sequence[RigPoint], position: int, settings: FoldSettings | None = None
) -> tuple[RigBifurcation, Array]:
    """Measure the fold next to a point.

    The point has number `position`; the Jacobian measured there is returned too.
    """
    settings = settings or FoldSettings()
    began = family.experiment.measurements
    with patiently(family.experiment, settings):
        fold = _Fold.of(family, points, position, settings)
        fold.measure(0.0)
        # Far enough apart that the bend of the branch exceeds the noise of a place.
        half = float(np.clip(2 * np.sqrt(fold.places[0].deviation / max(abs(fold.curvature()), 1e-12)), LEAST, MOST))
        fold.measure(half)
        fold.measure(-half)
        turn, value, deviation = fold.extremum()
        while abs(turn) > half and len(fold.places) <= settings.places:
            fold.measure(turn)
            turn, value, deviation = fold.extremum()
    scale = family.scale[-1]
    found = RigBifurcation(
        kind="fold",
        parameter=family.parameter,
        value=scale * value,
        deviation=scale * deviation,
        method=f"Jacobian and {len(fold.places)} places at the fold",
        position=position,
        measurements=family.experiment.measurements - began,
    )
    return found, fold.jacobian


def _along_weakest(family: RigFamily, z: Array, jacobian: Array, tau: Array) -> Array:
    """Measure the Jacobian again in its weakest direction.

    The inverse of B = (J; τ) multiplies errors of J most where B v is smallest. There one-sided differences were wrong
    by as much as B v itself (a pendulum at its tip: corrections grew by 1.4 each). J v is measured by a central
    difference, and J changed by the rank one that it asks for.
    """
    scale = family.scale
    scaled = jacobian * scale
    v = singular_vectors(np.vstack([scaled, tau]))[2][-1]
    step = family.share / float(np.abs(v).max())
    ahead, behind = (family.residual(z + sign * step * v * scale).value for sign in (1.0, -1.0))
    change = (ahead - behind) / (2 * step) - scaled @ v
    return (scaled + np.outer(change, v)) / scale


@dataclass(frozen=True)
class _Place:
    """Free motion in one plane across the branch.

    t and the parameter p are scaled; deviation is the standard deviation of p.
    """

    t: float
    p: float
    deviation: float


@dataclass
class _Fold:
    """Points and measurements next to a fold.

    All unknowns are scaled.
    """

    family: RigFamily
    settings: FoldSettings
    tau: Array
    start: Array
    jacobian: Array
    inverse: Array
    walked: list[tuple[Array, Residual]]
    places: list[_Place] = field(default_factory=list)

    @classmethod
    def of(cls, family: RigFamily, points: Sequence[RigPoint], position: int, settings: FoldSettings) -> _Fold:
        """Measure the Jacobian at the fold.

        The extremum of the parabola through the points in the middle is the place.
        """
        experiment, scale = family.experiment, family.scale
        lengths = np.array([p.arclength for p in points]) - points[position].arclength
        near = np.flatnonzero(np.abs(lengths) <= REACH)
        near = np.union1d(near, [i for i in range(position - 2, position + 3) if 0 <= i < len(points)])
        if not near[0] < position < near[-1]:
            raise RigError(f"The branch has {len(points)} points, none beyond its fold: follow it further.")
        chosen, lengths = [points[i] for i in near], lengths[near]
        z = np.array([resized(p.z, experiment) / scale for p in chosen])
        middle = int(np.flatnonzero(near == position)[0])
        # Points closer than that do not determine the direction, nor where the parameter turns.
        first, last = lengths <= -LEAST, lengths >= LEAST
        ends = (np.flatnonzero(first)[-1] if first.any() else 0, np.flatnonzero(last)[0] if last.any() else len(z) - 1)
        tau = z[ends[1]] - z[ends[0]]
        tau = tau / np.linalg.norm(tau)
        inner = slice(ends[0], ends[1] + 1)
        t = (z[inner] - z[middle]) @ tau
        shape = polynomial.polyfit(t, z[inner], 2)
        turn = -shape[1, -1] / (2 * shape[2, -1]) if shape[2, -1] else 0.0
        start = polynomial.polyval(float(np.clip(turn, t.min(), t.max())), shape)
        unknowns, jacobian = family.resolved(start * scale)
        scale = family.scale
        tau = resized(tau, experiment)
        jacobian = _along_weakest(family, unknowns, jacobian, tau)
        inverse = np.linalg.inv(np.vstack([jacobian * scale, tau]))
        walked = []
        for point in chosen:
            demands = {n: s.with_modes(experiment.modes) for n, s in point.measurement.demands.items()}
            measurement = point.measurement.with_modes(experiment.modes + experiment.extra)
            found = experiment.residual(measurement, demands, family.values(point.z))
            walked.append((resized(point.z, experiment) / scale, found))
        return cls(family, settings, tau, unknowns / scale, jacobian, inverse, walked)

    def measure(self, t: float) -> None:
        """Measure at one place along the branch.

        The demands are corrected in the plane at t until the residuals are noise, then means are taken.
        """
        family, experiment = self.family, self.family.experiment
        z = self.start + t * self.inverse[:, -1]  # J n = 0, τ · n = 1
        found = family.residual(z * family.scale)
        for _ in range(self.settings.corrections):
            if in_deviations(found) <= 1.5:
                break
            z = z - self.inverse[:, :-1] @ found.value
            found = family.residual(z * family.scale)
        means = [found]
        while len(means) < self.settings.repeats:
            experiment.forget()
            means.append(family.residual(z * family.scale))
        values = np.array([m.value for m in means])
        variance = variance_of_the_mean(values, means[-1].deviation, len(experiment.blocks()))
        self.places.append(self.corrected(z, values.mean(axis=0), variance))

    def corrected(self, z: Array, residual: Array, variance: Array) -> _Place:
        """Return the free motion next to z.

        The measured Jacobian gives the correction.
        """
        correction = -self.inverse[:, :-1] @ residual
        spread = self.inverse[-1, :-1] ** 2 @ variance + (self.settings.share * correction[-1]) ** 2
        at = z + correction
        return _Place(float((at - self.start) @ self.tau), float(at[-1]), float(np.sqrt(spread)))

    def curvature(self) -> float:
        """Return the curvature of the branch.

        It is half the second derivative of p, from the points of the continuation alone.
        """
        return float(polynomial.polyfit(*self._walk()[:2], 2)[2])

    def _walk(self) -> tuple[Array, Array, Array]:
        rows = [self.corrected(z, r.value, r.deviation**2) for z, r in self.walked]
        t, p, deviation = np.array([(row.t, row.p, row.deviation) for row in rows]).T
        return t, p, deviation

    def _fitted(self) -> tuple[Array, Array]:
        """Fit the polynomial p(t).

        It returns coefficients and covariance. The covariance takes the scatter of the points about the polynomial,
        pooled with their own deviations as if those were `PRIOR` degrees of freedom.
        """
        t, p, deviation = self._walk()
        own = np.array([(m.t, m.p, m.deviation) for m in self.places])
        # Points far above the fold count less: the polynomial may miss them.
        deviation = np.hypot(deviation, MODEL * (p - own[0, 1]))
        t, p, deviation = (np.append(*pair) for pair in zip((t, p, deviation), own.T, strict=True))
        columns = np.vander(t, 1 + min(DEGREE, len(t) - 2), increasing=True) / deviation[:, None]
        shape, *_ = np.linalg.lstsq(columns, p / deviation, rcond=None)
        left = columns @ shape - p / deviation
        excess = (PRIOR + float(left @ left)) / (PRIOR + len(t) - len(shape))
        return shape, excess * np.linalg.inv(columns.T @ columns)

    def extremum(self) -> tuple[float, float, float]:
        """Return where the polynomial turns.

        It returns t, the parameter, and its standard deviation.
        """
        shape, covariance = self._fitted()
        roots = polynomial.polyroots(polynomial.polyder(shape))
        turns = roots.real[(np.abs(roots.imag) < 1e-9) & (np.abs(roots.real) <= 3 * MOST)]
        if not turns.size:
            raise RigError("The points next to the fold do not show where it turns: take smaller steps.")
        turn = float(turns[np.abs(turns).argmin()])
        row = turn ** np.arange(len(shape))
        return turn, float(row @ shape), float(np.sqrt(row @ covariance @ row))
