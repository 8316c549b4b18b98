"""Branch measured on an experiment.

Motions followed along a parameter, with everything that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything, Count
from kapitza.base.arrays import Array
from kapitza.data import MeasuredBranch
from kapitza.errors import RigError, Status, no_such
from kapitza.orbits import OrbitMeasurement, OrbitSet, PeriodicOrbit, Profile
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.measure import Measurement

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RigPoint:
    """Motion at which the control vanishes.

    value: of the parameter followed; z: (N,) unknowns with it. residual: rms of the residuals over their deviations.
    effort: rms of the periodic control over that of the controlled coordinate's own acceleration. beyond: amplitude of
    the modes that are not unknowns, as a share of the scales. measurements: that this point took. sign: of the
    determinant of the Jacobian by the demands, which changes where a real multiplier passes 1. spread: covariance of
    the demands at which the control would vanish exactly, J⁻¹ Σ J⁻ᵀ with the residuals and their noise in Σ; channels:
    the output of each block of demands. refined: measured by `measure_orbit`, so that `spread` is the whole covariance
    of the motion. deviation: of the parameter, at which the control would vanish in the plane across the branch;
    correction: (N,) from z to there by the Jacobian, and across: (N, N) its covariance.
    """

    value: float
    z: Array = field(repr=False)
    jacobian: Array = field(repr=False)
    measurement: Measurement = field(repr=False)
    residual: float
    effort: float
    beyond: float
    modes: int
    measurements: int
    arclength: float
    sign: int = 0
    spread: Array | None = field(default=None, repr=False)
    channels: tuple[str, ...] = ()
    multipliers: NDArray[np.complex128] | None = None
    multiplier_deviation: Array | None = None
    refined: bool = False
    deviation: float = float("nan")
    correction: Array | None = field(default=None, repr=False)
    across: Array | None = field(default=None, repr=False)

    @property
    def stability(self) -> str:
        """Stability from measured multipliers.

        "unknown" without them or where their noise does not decide.
        """
        if self.multipliers is None:
            return "unknown"
        largest = float(np.abs(self.multipliers).max())
        spread = 0.0 if self.multiplier_deviation is None else float(self.multiplier_deviation[0])
        # Two standard deviations from the circle decide.
        if abs(largest - 1) <= 2 * spread:
            return "unknown"
        return "stable" if largest < 1 else "unstable"

    def series(self, output: str) -> FourierSeries:
        """Return an output's motion with the demand's modes."""
        return self.measurement.series(output).with_modes(self.modes)


@dataclass(frozen=True)
class RigBifurcation:
    """Measured bifurcation.

    kind, value, its standard deviation, how it was found.
    direction: (2,) for a doubling, the phase (cosine and sine of the new first mode) in which the branch leaves.
    position: number of the branch point before it (-1 for those found from the rest state).
    """

    kind: str
    parameter: str
    value: float
    deviation: float
    method: str
    measurements: int = 0
    position: int = -1
    direction: Array | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    demands: Mapping[str, FourierSeries] = field(default_factory=dict, repr=False)
    jacobian: Array | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} at {self.parameter} = {self.value:.6g} ± {self.deviation:.1g} ({self.method})"


@dataclass(frozen=True)
class RigBranch:
    """Motions along a parameter.

    Iterating yields each `RigPoint`. status is how the continuation ended, message is the reason.
    """

    parameter: str
    points: tuple[RigPoint, ...]
    bifurcations: tuple[RigBifurcation, ...]
    status: Status
    message: str
    measurements: int
    rig_time: float
    repeats: int
    outputs: tuple[str, ...]
    values: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[RigPoint]:
        return iter(self.points)

    def __getitem__(self, index: int) -> RigPoint:
        return self.points[index]

    @property
    def folds(self) -> tuple[RigBifurcation, ...]:
        return tuple(b for b in self.bifurcations if b.kind == "fold")

    def table(self) -> pd.DataFrame:
        """Return a table with one row per point.

        The columns are parameter, amplitude of each output, residual, effort, measurements and stability.
        """
        import pandas as pd

        rows = []
        for point in self.points:
            row: dict[str, Any] = {self.parameter: point.value}
            for output in self.outputs:
                row[f"max {output}"] = point.series(output).peak()
            row |= {"residual [σ]": point.residual, "effort": point.effort, "beyond": point.beyond}
            row |= {"modes": point.modes, "measurements": point.measurements, "sign": point.sign}
            if point.multipliers is not None:
                row["leading multiplier"] = complex(point.multipliers[0])
            row["stability"] = point.stability
            rows.append(row)
        return pd.DataFrame(rows)

    def orbits(
        self, output: str | tuple[str, ...], samples: Count = 64, indices: Iterable[int] | None = None
    ) -> OrbitSet:
        """Return the motions as orbits with covariance.

        They are data for `identify(model, orbits, ...)`.
        output: the measured channels, names of states of the model; their rates follow from the series.
        Points are as the continuation left them: within their noise of the free motion, with a covariance from a
        Jacobian that was carried along, too small near folds. For parameters with calibrated intervals measure those
        you take by `measure_orbit` first (`with_points`).
        """
        names = (output,) if isinstance(output, str) else tuple(output)
        if not names:
            raise RigError(f"output is empty; give one or more of: {', '.join(self.outputs)}.")
        chosen = self._chosen(indices, names)
        orbits = tuple(
            _orbit(p, names, self.repeats, {**self.values, self.parameter: p.value}, samples) for p in chosen
        )
        return OrbitSet(orbits, angles=(False,) * (2 * len(names)), message="orbits followed on a rig")

    def measured(self, output: str, state: str | None = None, indices: Iterable[int] | None = None) -> MeasuredBranch:
        """Return the points as a measured branch.

        The result is data for `identify(model, branch.measured("x"), free=[...])`: amplitudes, phases and their noise.
        output: the measured channel; state: its name in the model, where it differs. Each point has its own noise:
        of the parameter, at which the control would vanish, and of amplitude and phase, from the sensor and from the
        remaining control. Phases are those of the first harmonic beside the drive, cos of the excitation phase.
        """
        chosen = self._chosen(indices, (output,))
        rows = np.array([_response(p, output, self.repeats) for p in chosen])
        least = 1e-9 * max(float(np.abs(rows[:, 0]).max()), 1e-300)
        return MeasuredBranch(
            "response", self.parameter, rows[:, 0], rows[:, 2], state or output, np.maximum(rows[:, 1], least),
            rows[:, 3], phases=rows[:, 4], phase_noise=rows[:, 5],
        )  # fmt: skip

    def _chosen(self, indices: Iterable[int] | None, outputs: tuple[str, ...]) -> list[RigPoint]:
        """Return the points of these numbers.

        None selects all of them. Unknown outputs and an empty choice are refused.
        """
        for name in outputs:
            if name not in self.outputs:
                raise RigError(no_such("The rig", "output", name, self.outputs))
        numbers = range(len(self)) if indices is None else list(indices)
        _check_numbers("indices", numbers, len(self), "points")
        if not numbers:
            raise RigError("No point is chosen; give the numbers of one or more points as indices.")
        return [self.points[i] for i in numbers]

    def with_points(self, points: Mapping[int, RigPoint]) -> RigBranch:
        """Replace some points of the branch.

        The new ones may come from `measure_orbit`.
        """
        _check_numbers("points", points, len(self), "points", low=0)
        return replace(self, points=tuple(points.get(i, p) for i, p in enumerate(self.points)))

    def with_folds(self, folds: Mapping[int, RigBifurcation]) -> RigBranch:
        """Replace some folds of the branch.

        They are given by number; the new ones may come from `measure_fold`.
        """
        _check_numbers("folds", folds, sum(b.kind == "fold" for b in self.bifurcations), "folds", low=0)
        number, kept = -1, []
        for bifurcation in self.bifurcations:
            number += bifurcation.kind == "fold"
            kept.append(folds.get(number, bifurcation) if bifurcation.kind == "fold" else bifurcation)
        return replace(self, bifurcations=tuple(kept))

    def plot(self, **settings: Anything) -> Any:
        from kapitza.report import plot_rig_branch

        return plot_rig_branch(self, **settings)

    def __str__(self) -> str:
        lines = [
            f"Branch on a rig: {len(self)} points along {self.parameter}, {self.measurements} measurements, "
            f"{self.rig_time:.0f} s of rig time; {self.status.value}"
        ]
        lines += [f"  {b}" for b in self.bifurcations]
        if self.message:
            lines.append(f"  {self.message}")
        return "\n".join(lines)


def _check_numbers(what: str, numbers: Iterable[int], count: int, of: str, low: int | None = None) -> None:
    """Refuse numbers that the branch does not have.

    They count points or folds; low: the least, -count by default.
    """
    for number in numbers:
        if not (-count if low is None else low) <= number < count:
            raise RigError(f"{what} has the number {number}; the branch has {count} {of}, counted from 0.")


def _orbit(
    point: RigPoint, names: tuple[str, ...], repeats: int, values: Mapping[str, float], samples: int
) -> PeriodicOrbit:
    """Convert a point to a periodic orbit.

    The orbit has one section point per excitation period; its covariance comes from the noise.
    """
    found = point.measurement
    period = 2 * np.pi / found.frequency
    times = period * np.arange(samples) / samples
    sections = period * np.arange(repeats) / repeats
    columns, points, spreads = [], [], []
    for order in (0, 1):
        for name in names:
            series = found.series(name)
            columns.append(series(times, order))
            points.append(series(sections, order))
            spreads.append(_reading_rows(found, name, sections, order))
    states = tuple(name + "'" * order for order in (0, 1) for name in names)
    covariance = np.zeros((repeats * len(states), repeats * len(states)))
    for i, (order_i, name_i) in enumerate((o, n) for o in (0, 1) for n in names):
        for j, (order_j, name_j) in enumerate((o, n) for o in (0, 1) for n in names):
            if name_i != name_j:
                continue
            # Value and rate of one channel come from the same coefficients, so their errors are correlated.
            known = _coefficient_covariance(point, name_i)
            first, second = (_reading_rows(found, name_i, sections, o) for o in (order_i, order_j))
            covariance[i :: len(states), j :: len(states)] = first @ known @ second.T
    return PeriodicOrbit(
        states=states,
        points=np.column_stack(points),
        period=period,
        repeats=repeats,
        winding=(0,) * len(states),
        multipliers=point.multipliers,
        stability=point.stability,
        profile=Profile(times, np.column_stack(columns)),
        parameters=dict(values),
        method="rig",
        measured=OrbitMeasurement(covariance, point.multiplier_deviation, found.averaged),
    )


def _response(point: RigPoint, name: str, repeats: int) -> tuple[float, ...]:
    """Return parameter, amplitude and phase of a point.

    The amplitude is half the peak-to-peak value, the phase is that of the drive's harmonic; each has its standard
    deviation.
    """
    found = point.measurement
    value, coefficients, covariance = _free_motion(point, name)
    times = 2 * np.pi / found.frequency * np.arange(512) / 512
    values = FourierSeries(found.frequency, coefficients)(times)
    # At an extremum the error of the time has no effect on the value, to first order.
    ends = times[[values.argmax(), values.argmin()]]
    row = np.array([0.5, -0.5]) @ _reading_rows(found, name, ends, 0)
    own = slice(2 * repeats - 1, 2 * repeats + 1)
    a, b = coefficients[own]
    turn = np.array([b, -a]) / (a * a + b * b)  # of atan2(-b, a), as a cos + b sin = |·| cos(ωt + φ)
    phase = float(np.sqrt(turn @ covariance[own, own] @ turn))
    amplitude = float(np.sqrt(row @ covariance @ row))
    return *value, float(np.ptp(values)) / 2, amplitude, float(np.arctan2(-b, a)), phase


def _free_motion(point: RigPoint, name: str) -> tuple[tuple[float, float], Array, Array]:
    """Return the motion where control would vanish.

    It returns the parameter with its deviation, the coefficients and their covariance.
    The remaining control has one sign along stretches of a branch, and would shift parameters of a fit together: it
    is removed by the Jacobian, in the plane across the branch.
    """
    found = point.measurement
    coefficients = found.coefficients[found.outputs.index(name)].copy()
    covariance = np.diag(found.deviations[found.outputs.index(name)] ** 2)
    value = point.value, float(np.nan_to_num(point.deviation))
    if point.correction is None or point.across is None or name not in point.channels:
        return value, coefficients, covariance
    count = (point.correction.size - 1) // len(point.channels)
    first = point.channels.index(name) * count
    block = slice(first, first + count)
    if name in found.demands:
        # At the free motion measured value and demand are equal.
        coefficients[:count] = point.z[block]
        covariance[:count, :count] = 0.0
    coefficients[:count] += point.correction[block]
    covariance[:count, :count] += point.across[block, block]
    value = point.value + float(point.correction[-1]), float(np.sqrt(point.across[-1, -1]))
    return value, coefficients, covariance


def _coefficient_covariance(point: RigPoint, name: str) -> Array:
    """Return the covariance of the measured coefficients.

    As coefficients of a free motion they contain sensor noise and the remaining control.
    """
    found = point.measurement
    result = np.diag(found.deviations[found.outputs.index(name)] ** 2)
    if point.spread is not None and name in point.channels:
        count = point.spread.shape[0] // len(point.channels)
        first = point.channels.index(name) * count
        block = point.spread[first : first + count, first : first + count]
        result[:count, :count] = block if point.refined else result[:count, :count] + block
    return result


def _reading_rows(found: Measurement, name: str, times: Array, order: int) -> Array:
    """Return derivatives of measured values by coefficients.

    The rows are (times, coefficients); order 0 is the measured value, order 1 its rate.
    """
    count = found.coefficients.shape[1]
    rows = np.empty((times.size, count))
    for k in range(count):
        unit = np.zeros(count)
        unit[k] = 1.0
        rows[:, k] = FourierSeries(found.frequency, unit)(times, order)
    return rows
