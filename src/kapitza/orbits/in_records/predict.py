"""Maps that predict the next point on a section.

The maps are local polynomials, and global functions orthonormal in the data's own measure (ORBITS chapter 2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kapitza.base.argument_checks import Anything, checked
from kapitza.base.arrays import Array
from kapitza.base.part_fields import Former
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits.in_records.exponent import section_exponent
from kapitza.orbits.in_records.from_record import strobe_record
from kapitza.orbits.in_records.local_fit import fit_local
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.section import Section
from kapitza.orbits.in_records.turning_points import turning_section

if TYPE_CHECKING:
    import pandas as pd

BATCH = 4096
"""Points whose local maps are fitted together: their neighbours stay in memory."""


class StepMap(Protocol):
    """One step on a scaled section.

    It maps points (M, n) to images (M, n).
    """

    def __call__(self, unit: Array) -> Array: ...


@dataclass(frozen=True)
class FittedMap:
    """Map fitted to a record, in its units.

    settings: how the section was taken (channels, phase, delay, …); records to be predicted are cut in the same way.
    """

    section: Section = field(repr=False)
    step: StepMap = field(repr=False)
    description: str = ""
    settings: dict[str, Any] = field(default_factory=dict, repr=False)

    def predict(self, points: Array) -> Array:
        """Return the images of points (M, n)."""
        return self.section.physical(self.step(self._unit(points)))

    def forecast(self, start: Array, steps: int) -> Array:
        """Return the next `steps` points from one start.

        The points are (steps, n), from a start (n,).
        """
        unit = self._unit(np.atleast_2d(start))
        path = []
        for _ in range(steps):
            unit = self.section.canonical(self.step(unit))
            path.append(unit[0])
        return self.section.physical(np.array(path))

    def error(self, record: Record) -> float:
        """Return the rms error of one-step predictions.

        The error is relative to the size of the attractor.
        """
        return float(np.sqrt(np.mean(self._errors(record, 1, None, 0)[0] ** 2)))

    def median_error(self, record: Record) -> float:
        """Return the median error of one-step predictions.

        The error of a typical point, where a few points are on sharp folds.
        """
        return float(np.median(self._errors(record, 1, None, 0)[0]))

    def error_growth(self, record: Record, steps: int, starts: int = 500, seed: int = 0) -> Array:
        """Return the median error of forecasts by length.

        The errors (steps,) are those of forecasts of 1 … `steps` steps, relative to the attractor.
        Errors of a good map grow by the largest Lyapunov exponent, exp(λ T) per step, until they fill the attractor.
        """
        return np.median(self._errors(record, steps, starts, seed), axis=1)

    def growth_table(self, record: Record, steps: int) -> pd.DataFrame:
        """Return error growth beside the Lyapunov prediction.

        It lists `error_growth` beside the first error times exp(λ T k), λ from maps fitted along the record's section.
        """
        import pandas as pd

        growth = self.error_growth(record, steps)
        exponent = section_exponent(self._section_of(record)).value * self.section.step
        ahead = np.arange(1, steps + 1)
        expected = np.minimum(growth[0] * np.exp(exponent * (ahead - 1)), 1.0)
        return pd.DataFrame({"step": ahead, "median error": growth, "by the Lyapunov exponent": expected})

    def _errors(self, record: Record, steps: int, starts: int | None, seed: int) -> Array:
        """Return the distances of forecasts from the record.

        They are (steps, M), from M rows (all without `starts`), in sizes of the attractor.
        """
        other = self._section_of(record)
        truth = other.unit * other.scale / self.section.scale
        able = np.flatnonzero(other.run >= steps)
        if not able.size:
            raise DataError(f"No segment of the record is longer than {steps} steps: forecast fewer.")
        rows = able if starts is None else np.random.default_rng(seed).permutation(able)[: max(starts, 1)]
        unit = self.section.canonical(truth[rows])
        errors = np.empty((steps, len(rows)))
        for k in range(steps):
            unit = self.section.canonical(self.step(unit))
            errors[k] = np.linalg.norm(self.section.wrap(unit - truth[rows + k + 1]), axis=1)
        return errors

    def _section_of(self, record: Record) -> Section:
        """Cut a record as the fitted one was.

        Its states must be the same.
        """
        missing = [name for name in self.settings["channels"] if name not in record.channels]
        if missing:
            raise DataError(
                f'The record has no channel "{missing[0]}", which the map was fitted on: it has '
                + ", ".join(record.channels) + "."
            )  # fmt: skip
        other = _section_of(record, self.settings)
        if other.states != self.section.states:
            raise DataError(
                f"The record gives the coordinates {', '.join(other.states)}, the map was fitted on "
                f"{', '.join(self.section.states)}: cut both in the same way."
            )
        return other

    def _unit(self, points: Array) -> Array:
        points = np.atleast_2d(np.asarray(points, float))
        if points.shape[1] != self.section.dimension:
            raise DataError(
                f"{points.shape[1]} numbers per point were given; the map has {self.section.dimension} coordinates: "
                + ", ".join(self.section.states) + "."
            )  # fmt: skip
        return self.section.canonical(points / self.section.scale)


@dataclass(frozen=True)
class LocalMap:
    """Predict by local polynomials.

    They have degree `degree` and are fitted to at least `neighbours` points around each query.

    Examples
    --------
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.parametric_pendulum(), periods=3000)
    >>> kz.LocalMap(degree=2).fit(record).predict(record.values()[:5]).shape
    (5, 2)
    """

    degree: int = 2
    neighbours: int = 48

    def __post_init__(self) -> None:
        if self.degree not in (1, 2, 3, 4):
            raise DataError(f"degree = {self.degree}: local maps have degree 1 to 4.")
        if self.neighbours < 3:
            raise DataError(f"neighbours = {self.neighbours}: a local map needs at least three points.")

    def fit(self, record: Record, **section: Anything) -> FittedMap:
        settings = {"channels": list(record.channels), **section}
        points = _section_of(record, settings)
        terms = term_count(points.dimension, self.degree)
        if not terms < self.neighbours < len(points.starts):
            raise DataError(
                f"neighbours = {self.neighbours}: degree {self.degree} in {points.dimension} coordinates has {terms} "
                f"terms and needs more neighbours than that, and the record has {len(points.starts)} steps."
            )
        return FittedMap(points, LocalStep(points, self), f"local maps of degree {self.degree}", settings)


@dataclass(frozen=True)
class LocalStep:
    section: Section
    settings: LocalMap

    def __call__(self, unit: Array) -> Array:
        parts = []
        for first in range(0, len(unit), BATCH):
            centres = self.section.canonical(unit[first : first + BATCH])
            fits = fit_local(
                self.section,
                centres,
                degree=self.settings.degree,
                neighbours=self.settings.neighbours,
                noise_widths=1.0,
            )
            parts.append(fits.value(centres, self.section))
        return np.concatenate(parts)


@dataclass(frozen=True)
class GlobalMap:
    """One function for the whole attractor.

    basis "orthonormal": products of polynomials and, for angles, of Fourier terms, made orthonormal on the data by QR;
    coefficients are then plain averages, and the total degree is chosen by cross-validation up to `largest`.
    basis "rbf": cubes of distances to `centres` points of the data and linear terms. hold_back: share of the record
    kept for its test.

    Examples
    --------
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.parametric_pendulum(), periods=3000)
    >>> kz.GlobalMap(largest=6).fit(record).predict(record.values()[:5]).shape
    (5, 2)
    """

    basis: str = "orthonormal"
    largest: int = 16
    centres: int = 800
    hold_back: float = 0.2

    held_out = Former[float]("hold_back")

    def __post_init__(self) -> None:
        if self.basis not in ("orthonormal", "rbf"):
            raise DataError(f'Basis "{self.basis}" is not known: use "orthonormal" or "rbf".')
        if self.largest < 1 or self.centres < 1:
            raise DataError(f"largest = {self.largest}, centres = {self.centres}: both must be at least 1.")
        if not 0 < self.hold_back < 1:
            raise DataError(f"hold_back = {self.hold_back}: the share held back must be between 0 and 1.")

    def fit(self, record: Record, **section: Anything) -> FittedMap:
        settings = {"channels": list(record.channels), **section}
        points = _section_of(record, settings)
        if len(points.starts) < 20:
            raise DataError(
                f"The record has {len(points.starts)} steps on its section; a global map needs at least 20."
            )
        fit = _fit_orthonormal if self.basis == "orthonormal" else _fit_radial
        return replace(fit(points, self), settings=settings)


@dataclass(frozen=True)
class GlobalStep:
    """One step of a global map.

    Images are basis(x) @ coefficient, with angles through their cosine and sine.
    """

    section: Section
    basis: Any
    coefficient: Array

    def __call__(self, unit: Array) -> Array:
        parts = [
            self.basis(unit[first : first + BATCH]) @ self.coefficient for first in range(0, max(len(unit), 1), BATCH)
        ]
        return _from_targets(np.concatenate(parts), self.section)


@dataclass(frozen=True)
class ProductBasis:
    """Products of Legendre polynomials or Fourier terms.

    Each product has one factor per coordinate and a total degree up to `degree`.
    """

    low: Array
    high: Array
    circle: NDArray[np.bool_]
    degree: int

    def terms(self) -> list[tuple[int, ...]]:
        """Return the function indices of each product.

        A product has one index per coordinate, and products are sorted by total degree; Fourier indices 2k-1, 2k are
        cosine and sine of k.
        """
        ranges = [range(2 * self.degree + 1) if c else range(self.degree + 1) for c in self.circle]
        every = [t for t in itertools.product(*ranges) if self.order(t) <= self.degree]
        return sorted(every, key=self.order)

    def order(self, term: tuple[int, ...]) -> int:
        return sum((i + 1) // 2 if c else i for i, c in zip(term, self.circle, strict=True))

    def __call__(self, unit: Array) -> Array:
        factors = []
        for column, c in enumerate(self.circle):
            x = unit[:, column]
            if c:
                angle = 2 * np.pi * x[:, None] * np.arange(1, self.degree + 1)
                table = np.ones((len(x), 2 * self.degree + 1))
                table[:, 1::2], table[:, 2::2] = np.cos(angle), np.sin(angle)
            else:
                scaled = 2 * (x - self.low[column]) / (self.high[column] - self.low[column]) - 1
                # Beyond the data Legendre polynomials grow without bound.
                table = np.polynomial.legendre.legvander(np.clip(scaled, -1.1, 1.1), self.degree)
            factors.append(table)
        chosen = np.array(self.terms())
        result = factors[0][:, chosen[:, 0]]
        for column in range(1, len(factors)):
            result = result * factors[column][:, chosen[:, column]]
        return result


@dataclass(frozen=True)
class RadialBasis:
    """Radial basis functions with linear terms.

    The functions are 1, the coordinates, and |x - centre|³, with angles as points on a circle.
    """

    centres: Array
    section: Section

    def __call__(self, unit: Array) -> Array:
        # About the centres' mean: far from zero the squares would cancel.
        middle = self.centres.mean(axis=0)
        place, centres = _on_circles(unit, self.section) - middle, self.centres - middle
        distance = np.sqrt(np.maximum(
            np.sum(place**2, axis=1)[:, None] - 2 * place @ centres.T + np.sum(centres**2, axis=1), 0.0
        ))  # fmt: skip
        return np.concatenate([np.ones((len(unit), 1)), place, distance**3], axis=1)


def _fit_orthonormal(section: Section, settings: GlobalMap) -> FittedMap:
    """Fit the global map of orthonormal functions.

    QR makes the basis orthonormal on the data; held-out points choose how many degrees to keep.
    """
    rows = section.starts
    train, test = _split(len(rows), settings.hold_back)
    inputs, targets = section.unit[rows], _targets(section.unit[rows + 1], section)
    degree = settings.largest
    low, high = section.unit.min(axis=0), section.unit.max(axis=0)
    while True:
        basis = ProductBasis(low, high, section.circle, degree)
        terms = basis.terms()
        # Fewer functions than a quarter of the points, or the fit follows the noise.
        if len(terms) <= len(train) // 4 or degree == 1:
            break
        degree -= 1
    table = basis(inputs[train])
    q, r = np.linalg.qr(table)  # any sign: R⁻¹ Qᵀ
    # Functions that are dependent on the data have a vanishing diagonal; they get no coefficient.
    weak = np.abs(np.diag(r)) < 1e-9 * np.abs(r[0, 0])
    coefficient = q.T @ targets[train]
    coefficient[weak] = 0.0
    r = r.copy()
    r[weak, weak] = np.abs(r[0, 0])
    held = solve_triangular(r, basis(inputs[test]).T, trans=1).T
    orders = np.array([basis.order(term) for term in terms])
    errors = []
    for keep in range(1, degree + 1):
        inside = orders <= keep
        guess = _from_targets(held[:, inside] @ coefficient[inside], section)
        errors.append(np.median(np.linalg.norm(section.wrap(guess - section.unit[rows[test] + 1]), axis=1)))
    best = int(np.argmin(errors)) + 1
    inside = orders <= best
    kept = np.where(inside[:, None], coefficient, 0.0)
    final = solve_triangular(r, kept)
    text = f"global map of degree {best} ({int(inside.sum())} functions), median error {errors[best - 1]:.2g} held out"
    return FittedMap(section, GlobalStep(section, basis, final), text)


def _fit_radial(section: Section, settings: GlobalMap) -> FittedMap:
    rows = section.starts
    rng = np.random.default_rng(0)
    count = min(settings.centres, len(rows) // 4)
    centres = _on_circles(section.unit[rng.choice(rows, count, replace=False)], section)
    basis = RadialBasis(centres, section)
    table = basis(section.unit[rows])
    # Cubes of distances and constants differ in size: scaled columns keep the cut-off of lstsq meaningful.
    scale = np.maximum(np.linalg.norm(table, axis=0), 1e-300)
    targets = _targets(section.unit[rows + 1], section)
    solution, *_ = np.linalg.lstsq(table / scale, targets, rcond=1e-12)
    text = f"global map of {count} radial functions"
    return FittedMap(section, GlobalStep(section, basis, solution / scale[:, None]), text)


def _split(count: int, hold_back: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = np.random.default_rng(0).permutation(count)
    cut = max(1, round(count * hold_back))
    return order[cut:], order[:cut]


def _on_circles(unit: Array, section: Section) -> Array:
    columns = []
    for column, c in enumerate(section.circle):
        x = unit[:, column]
        columns += [np.cos(2 * np.pi * x) / (2 * np.pi), np.sin(2 * np.pi * x) / (2 * np.pi)] if c else [x]
    return np.column_stack(columns)


def _targets(unit: Array, section: Section) -> Array:
    return _on_circles(unit, section)


def _from_targets(targets: Array, section: Section) -> Array:
    columns, at = [], 0
    for c in section.circle:
        if c:
            columns.append(np.arctan2(targets[:, at + 1], targets[:, at]) / (2 * np.pi))
        else:
            columns.append(targets[:, at])
        at += 2 if c else 1
    return np.column_stack(columns)


def _section_of(record: Record, settings: dict[str, Any]) -> Section:
    """Return the section without a noise estimate.

    Prediction does not need the noise.
    """
    if record.period is None:
        return checked(turning_section)(record, **settings)
    return checked(strobe_record)(record, **{"noise": np.zeros(len(settings["channels"])), **settings})
